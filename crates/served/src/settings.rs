//! How a volume runs. Everything here may be chosen again at each start.

use crate::defect::Defect;
use destage_engine::flushes::{Durability, FlushLimits};
use destage_engine::limits::Limits;
use destage_engine::policy::PolicyChoice;
use destage_engine::rate::RateChoice;
use destage_engine::readcache::coherent::ReadCacheChoice;
use destage_engine::served;
use destage_engine::units::Duration;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ack {
    /// When it is durable in NVS.
    #[default]
    Nvs,
    /// When it is in memory. It is durable after FLUSH or FUA, as on a disk with a volatile cache.
    Flush,
}

/// What happens when the last NVS device fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnNvsLoss {
    /// Writes are acknowledged when they are on the disks.
    #[default]
    WriteThrough,
    /// Requests fail; dirty pages are destaged from memory.
    Stop,
}

/// Memory for pages.
pub type Chunk = Box<dyn core::ops::DerefMut<Target = [u8]> + Send>;

/// How pages are kept in memory. The driver may know better ways than the plain one.
#[derive(Clone, Copy)]
pub struct PageMemory {
    /// Allocates this many bytes, which are never read before they are written.
    pub take: fn(usize) -> Chunk,
    /// Copies pages that are not read again soon. They are neither read nor written again before
    /// `settle` is called.
    pub copy: fn(&mut [u8], &[u8]),
    /// Completes the copies: they may be read and written.
    pub settle: fn(),
}

impl Default for PageMemory {
    fn default() -> PageMemory {
        PageMemory {
            take: |bytes| Box::new(vec![0; bytes]),
            copy: |to, from| to.copy_from_slice(from),
            settle: || {},
        }
    }
}

impl core::fmt::Debug for PageMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("PageMemory")
    }
}

/// Choices for a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to destage.
    pub policy: PolicyChoice,
    /// When to destage.
    pub rate: RateChoice,
    /// Most destage writes in flight.
    pub queue_depth: u32,
    /// Commands that a member sees at once.
    pub window: u32,
    /// How destages become durable on each member; those that are not named: in epochs.
    pub durability: Vec<Durability>,
    /// When a member is flushed in epochs.
    pub flush_limits: FlushLimits,
    /// When a write is acknowledged.
    pub ack: Ack,
    /// What happens when the last NVS device fails.
    pub on_nvs_loss: OnNvsLoss,
    /// Write-through from the start: the array without its cache, to compare with.
    pub cache_off: bool,
    /// A device that does not answer for this long has failed.
    pub stall_limit: Duration,
    /// A member fails when it could not read more pages than this.
    pub read_errors_max: u32,
    /// Limits of rebuilds.
    pub rebuild: Limits,
    /// A rebuild that makes progress writes a checkpoint this often.
    pub checkpoint_every: Duration,
    /// Most dirty pages, because memory has them too; `None`: as many as the NVS holds.
    pub dirty_pages_max: Option<u64>,
    /// How pages are kept.
    pub pages: PageMemory,
    /// Pages of the stripe memory; 0: none.
    pub stripe_memory: u64,
    /// The read cache, if there is one.
    pub read_cache: Option<ReadCacheChoice>,
    /// A deliberate fault, for the tests that show that it is caught.
    #[doc(hidden)]
    pub defect: Defect,
}

impl Settings {
    /// The defaults, with this policy and rate.
    #[must_use]
    pub fn new(policy: PolicyChoice, rate: RateChoice) -> Settings {
        Settings {
            policy,
            rate,
            queue_depth: served::QUEUE_DEPTH,
            window: served::WINDOW,
            durability: Vec::new(),
            flush_limits: FlushLimits::default(),
            ack: Ack::default(),
            on_nvs_loss: OnNvsLoss::default(),
            cache_off: false,
            stall_limit: Duration::from_secs(30),
            read_errors_max: 100,
            rebuild: Limits::default(),
            checkpoint_every: Duration::from_secs(5),
            dirty_pages_max: None,
            pages: PageMemory::default(),
            stripe_memory: 0,
            read_cache: None,
            defect: Defect::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_pages_are_kept_is_printed_without_addresses() {
        assert_eq!(format!("{:?}", PageMemory::default()), "PageMemory");
    }
}
