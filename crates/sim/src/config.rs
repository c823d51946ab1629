//! What a run needs next to its source.

use destage_disk::DiskSpec;
use destage_engine::controller::Config;
use destage_engine::flushes::{Durability, FlushLimits};
use destage_engine::limits::Limits;
use destage_engine::mix::mix;
use destage_engine::readcache::coherent::ReadCacheChoice;
use destage_engine::track::TrackConfig;
use destage_engine::units::{DiskId, Duration, Instant};

/// When measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// After this much virtual time.
    Time(Duration),
    /// After this many pages have been destaged.
    Destaged(u64),
    /// When dirty pages neither rise nor fall, after this much virtual time at least.
    Settled(Duration),
}

/// How the platters of the member disks are turned towards each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spindles {
    /// All disks are at the same angle at all times.
    Aligned,
    /// Each disk begins at an angle of its own.
    Free {
        /// What the angles are drawn from.
        seed: u64,
    },
}

impl Spindles {
    /// The angle at which a drive begins, in 2^-32 revolutions. Drives are numbered in the order
    /// in which a run takes them: the members first, then one for each that fails.
    pub(crate) fn phase(self, drive: usize) -> u32 {
        match self {
            Spindles::Aligned => 0,
            Spindles::Free { seed } => (mix(mix(seed) ^ drive as u64) >> 32) as u32,
        }
    }
}

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The engine's configuration. Of a track cache only its geometry and NVS size count.
    pub controller: Config,
    /// The NVS is organised by track; its units are then the disk's sectors, not pages.
    pub track: Option<TrackConfig>,
    /// Model of every member disk.
    pub disk: DiskSpec,
    /// How the disks are turned towards each other.
    pub spindles: Spindles,
    /// How destages become durable on the disks, under the safe protocol.
    pub durability: Durability,
    /// When disks are flushed.
    pub flush_limits: FlushLimits,
    /// The array has no cache: a write is answered when the disks have it.
    pub uncached: bool,
    /// When measuring begins.
    pub warmup: Warmup,
    /// How long is measured; the run ends earlier when the source does.
    pub measured: Duration,
    /// Interval of the time series.
    pub interval: Duration,
    /// Time from an append to its being durable.
    pub nvs_latency: Duration,
    /// Most host requests to issue.
    pub requests_max: u64,
    /// Most host requests answered in the measured window.
    pub answered_max: u64,
    /// Failing disks, rebuild and read cache.
    pub faults: FaultPlan,
}

/// Failing disks, rebuild and read cache of a run.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// Disks that fail, in order of time.
    pub fails: Vec<(Instant, DiskId)>,
    /// The rebuild of the first of them.
    pub rebuild: Option<RebuildPlan>,
    /// The run ends when the disk is rebuilt.
    pub until_rebuilt: bool,
    /// The read cache.
    pub read_cache: Option<ReadCacheChoice>,
}

/// A planned rebuild.
#[derive(Clone, Copy, Debug)]
pub struct RebuildPlan {
    /// When the spare arrives.
    pub at: Instant,
    /// How fast it goes.
    pub limits: Limits,
}

impl FaultPlan {
    /// Time until the first disk fails.
    pub fn first(&self) -> Option<Duration> {
        self.fails.first().map(|(at, _)| at.since(Instant::ZERO))
    }
}
