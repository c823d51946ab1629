//! The serialised types: what a run reports, versioned. Units are in the field names.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the types in this file; raised when a field changes meaning or goes away.
pub const SCHEMA: u32 = 1;

/// The report of one simulated run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Short name of the run in tables and legends, such as `stow`.
    pub label: String,
    /// Every option that shaped the run, with defaults filled in.
    pub options: BTreeMap<String, String>,
    /// Seed of all generators.
    pub seed: u64,
    /// Virtual seconds before measuring began.
    pub warmup_s: f64,
    /// Virtual seconds measured.
    pub measured_s: f64,
    /// Target of the load in requests per second; absent for closed loops and traces.
    pub target_iops: Option<f64>,
    /// Requests completed per second in the measured window.
    pub iops: f64,
    /// Response times by class, each from the request's submission to the array.
    pub response: Responses,
    /// How many requests had which response time, from the shortest on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<TimeBucket>,
    /// What requests waited at the host before that.
    #[serde(default)]
    pub host_wait: HostWait,
    /// Hits of the measured window.
    pub hits: Hits,
    /// Writes that had to wait for space.
    pub stalled_writes: u64,
    /// Their share of writes, 0 to 1; absent without writes, and in older results.
    #[serde(default)]
    pub stalled_share: Option<f64>,
    /// Share of the measured window in which a write was waiting for space, 0 to 1.
    pub time_full: f64,
    /// NVS occupancy as a share of its size, 0 to 1, over the measured window.
    pub occupancy: Occupancy,
    /// Whether what was written was destaged.
    pub balance: Balance,
    /// What was destaged.
    pub destage: Destage,
    /// Service and queue times, where the NVS is organised by track.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTimes>,
    /// The read cache, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_cache: Option<ReadCacheUse>,
    /// Failed disks and rebuild, if a disk failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultUse>,
    /// What the disks' media caches did, if they have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_cache: Option<MediaUse>,
    /// One entry per member disk.
    pub disks: Vec<DiskUse>,
    /// Samples at equal intervals over the entire run, warm-up included.
    pub series: Series,
    /// Warnings to read before trusting the run, e.g. that it had not settled.
    pub warnings: Vec<String>,
    /// Digest of everything that happened, 16 hex digits: same inputs, same digest.
    pub digest: String,
    /// Events the engine handled; divided by wall time it is the simulator's speed.
    pub events: u64,
}

/// What came into the NVS in the measured window, and what left it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Balance {
    /// Whether dirty pages rise or fall over the window.
    pub state: BalanceState,
    /// Dirty pages at the beginning of the window.
    pub dirty_pages_first: u64,
    /// Dirty pages at its end.
    pub dirty_pages_last: u64,
    /// Pages that became dirty, per second.
    pub dirtied_pages_per_s: f64,
    /// Pages destaged, per second.
    pub destaged_pages_per_s: f64,
    /// If dirty pages rise, and the array does not yet destage at full speed: seconds until it
    /// does, at this rate. Before that nothing shows whether the NVS becomes full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_speed_in_s: Option<f64>,
    /// If dirty pages rise at full speed: seconds until the NVS is full, at this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_in_s: Option<f64>,
}

/// Whether dirty pages rise or fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BalanceState {
    /// Neither.
    #[default]
    Settled,
    /// More is written than is destaged.
    Rising,
    /// Less is written than is destaged.
    Falling,
    /// Neither, because the array does not serve all that is asked of it.
    Overloaded,
}

impl std::fmt::Display for BalanceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BalanceState::Settled => "settled",
            BalanceState::Rising => "rising",
            BalanceState::Falling => "falling",
            BalanceState::Overloaded => "overloaded",
        })
    }
}

/// Response times of all requests, reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Responses {
    /// All requests.
    pub all: Latency,
    /// Reads.
    pub reads: Latency,
    /// Writes.
    pub writes: Latency,
}

/// Waits at the host, where a load is bounded: from a request's scheduled arrival to its
/// submission to the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostWait {
    /// Requests that waited, of those answered in the measured window.
    pub requests: u64,
    /// Mean over all requests, those that did not wait included.
    pub mean_ms: f64,
    /// 99th percentile over all requests.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

impl HostWait {
    /// Share of requests that may wait before the response times say too little of the load.
    pub const SHARE_MAX: f64 = 0.01;

    /// What to say of a run of `requests` more than [`Self::SHARE_MAX`] of which waited.
    pub fn too_much(&self, requests: u64) -> Option<String> {
        let share = self.requests as f64 / requests.max(1) as f64;
        (share > Self::SHARE_MAX).then(|| {
            let Self { mean_ms, p99_ms, .. } = self;
            format!(
                "{:.1} % of requests waited at the host (all: mean {mean_ms:.1} ms, p99 \
                 {p99_ms:.1} ms)",
                100.0 * share
            )
        })
    }
}

/// A distribution of response times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests counted.
    pub count: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    #[serde(default)]
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// Largest.
    pub max_ms: f64,
}

/// Requests whose response times are below a bound, and not below that of the bucket before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeBucket {
    /// The bound, in ms.
    pub below_ms: f64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// The cumulative distribution of a histogram: for each bound the share, 0 to 1, of the requests
/// that are below it; empty without requests. `of` counts the requests of a bucket.
pub fn cumulative(histogram: &[TimeBucket], of: fn(&TimeBucket) -> u64) -> Vec<(f64, f64)> {
    let all: u64 = histogram.iter().map(of).sum();
    let mut below = 0;
    let mut points = Vec::new();
    for bucket in histogram.iter().filter(|_| all > 0) {
        below += of(bucket);
        points.push((bucket.below_ms, below as f64 / all as f64));
    }
    points
}

/// Hit ratios of the measured window, each 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hits {
    /// Written pages that were in NVS, of pages written.
    pub write_page: f64,
    /// Written pages that fell into a group that was in NVS before the request.
    pub write_group: f64,
    /// Write requests all of whose pages were in NVS.
    pub write_request: f64,
    /// Read requests all of whose pages were in NVS.
    pub read_request: f64,
}

/// NVS occupancy as a share of its size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Time-weighted mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// Destages of the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Destage {
    /// Groups destaged.
    pub groups: u64,
    /// Pages destaged.
    pub pages: u64,
    /// Contiguous runs of pages destaged.
    pub runs: u64,
    /// Mean pages per destage.
    pub pages_per_destage: f64,
    /// Mean runs per destage.
    pub runs_per_destage: f64,
    /// Share of destaged stripes (of their rows, for parity levels) that needed no reads.
    pub full_stripe_share: f64,
    /// Mean distance in pages between the starts of consecutive destages.
    pub mean_distance_pages: f64,
    /// Flushes of disks.
    #[serde(default)]
    pub flushes: u64,
    /// Pages that were not read because the stripe memory had them.
    #[serde(default)]
    pub recalled_pages: u64,
    /// Groups whose destage began in idle time.
    #[serde(default)]
    pub idle_groups: u64,
    /// Commands of host reads that found one of such a destage at their disk.
    #[serde(default)]
    pub idle_delayed_reads: u64,
}

/// Where the time of a request went: served by the disk, or in queues. A clean that a write
/// waited for serves that write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceTimes {
    /// Mean service time of all requests, in ms.
    pub all_ms: f64,
    /// Of reads.
    pub reads_ms: f64,
    /// Of writes.
    pub writes_ms: f64,
    /// Mean queue time of reads, in ms.
    pub reads_queue_ms: f64,
    /// Of writes.
    pub writes_queue_ms: f64,
}

/// What the read cache did in the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadCacheUse {
    /// Pages that it can hold.
    pub pages: u64,
    /// Pages that host reads asked for.
    pub requests: u64,
    /// Share of them found in NVS, 0 to 1.
    pub nvs_hits: f64,
    /// Share of them not in NVS but in the read cache.
    pub hits: f64,
    /// RGR: requests to the surviving disks, counted by penalties, per page requested.
    pub rgr: f64,
    /// What a lost page weighs in its policy at the end; absent while no disk is failed.
    pub weight: Option<f64>,
    /// How often the weight was changed, over the entire run.
    pub weight_changes: u64,
}

/// Failed disks and rebuild, over the entire run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultUse {
    /// Disks that failed.
    pub failed: Vec<u16>,
    /// Time of the rebuild, if it came to its end.
    pub rebuild_s: Option<f64>,
    /// Share of the disk rebuilt at the end, 0 to 1.
    pub rebuilt_share: f64,
    /// Pages that could not be computed.
    pub lost_pages: u64,
    /// Destages deferred because they were expensive.
    pub put_off: u64,
    /// Requests that each page written while degraded would cause on its own; absent without
    /// writes.
    pub write_penalty: Option<WritePenalty>,
}

/// What the disks' own media caches did, all together, over the entire run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MediaUse {
    /// Pages written to the medium for the array.
    pub pages: u64,
    /// Of which to the media caches.
    pub cached_pages: u64,
    /// Bands rewritten, on shingled disks.
    pub bands_cleaned: u64,
    /// Pages moved out of the media caches.
    pub moved_pages: u64,
    /// Pages written to the medium per page that the array wrote.
    pub write_amplification: f64,
    /// Share of the disks' time that went into moving pages, 0 to 1.
    pub moving_share: f64,
    /// Of which writes waited for it.
    pub waited_share: f64,
}

/// Mean requests per written page, each page written alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WritePenalty {
    /// As the VDF paper counts.
    pub paper: f64,
    /// As they are.
    pub exact: f64,
}

/// What one disk did in the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Read commands completed.
    pub reads: u64,
    /// Write commands completed.
    pub writes: u64,
    /// Share of time busy, 0 to 1; the five below add up to it.
    pub utilisation: f64,
    /// Share of time seeking (settling and head switches included).
    pub seek: f64,
    /// Share of time waiting for rotation.
    pub rotation: f64,
    /// Share of time transferring.
    pub transfer: f64,
    /// Share of time in command overhead.
    pub overhead: f64,
}

/// Samples over the run at a fixed interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Seconds between samples; sample `i` covers the interval that ends at `(i + 1) * interval_s`.
    pub interval_s: f64,
    /// Occupancy at the end of the interval, 0 to 1.
    pub occupancy: Vec<f64>,
    /// Largest occupancy seen in the interval.
    pub occupancy_max: Vec<f64>,
    /// Requests completed per second.
    pub iops: Vec<f64>,
    /// Mean response time of requests completed in the interval, in ms; 0 where none was.
    pub response_ms: Vec<f64>,
    /// Pages destaged per second.
    pub destaged_pages_per_s: Vec<f64>,
}

/// Several policies (or other variants) on identical input, perhaps along a swept parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Heading.
    pub title: String,
    /// The command that makes this report again.
    pub command: String,
    /// Options common to all runs.
    pub options: BTreeMap<String, String>,
    /// The swept parameter, if any.
    pub axis: Option<Axis>,
    /// One entry per variant and axis value, in the order to be shown.
    pub points: Vec<Point>,
    /// Throughput at fixed response times, interpolated along a sweep of target IOPS.
    pub at_response: Vec<AtResponse>,
    /// Plain sentences: what the figures mean, and warnings.
    pub findings: Vec<String>,
}

/// A swept parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Parameter name, such as `iops`, `nvs`, `thresholds`.
    pub name: String,
    /// Unit for the axis label, such as `I/O/s` or `pages`.
    pub unit: String,
    /// Values as written, in order; numeric ones are drawn on a numeric axis.
    pub values: Vec<String>,
}

/// One variant at one value of the axis, over all its seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Variant, such as `wow`; the series a point belongs to.
    pub variant: String,
    /// Value of the axis as written; empty without an axis.
    pub value: String,
    /// Mean over seeds, and half the width of the 95 % confidence interval.
    pub iops: Estimate,
    /// Mean response time in ms over seeds.
    pub response_ms: Estimate,
    /// The runs, one per seed; all have the same options but the seed.
    pub runs: Vec<RunReport>,
}

/// A mean over seeds with its spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean over seeds.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; 0 with one seed.
    pub half_width: f64,
    /// Number of seeds.
    pub seeds: u32,
}

/// Throughput where the mean response time crosses a level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AtResponse {
    /// Variant.
    pub variant: String,
    /// Response time in ms.
    pub response_ms: f64,
    /// Requests per second where it is crossed, interpolated; absent if the sweep never crosses it,
    /// or between points that are too far apart.
    pub iops: Option<f64>,
    /// Targets of the two points of the sweep that it is crossed between, in requests per second.
    #[serde(default)]
    pub between_iops: Option<[f64; 2]>,
    /// Most requests per second in the sweep, if it stays below the level to its end.
    #[serde(default)]
    pub at_least_iops: Option<f64>,
    /// Fewest requests per second in the sweep, if it is above the level at every point.
    #[serde(default)]
    pub below_iops: Option<f64>,
}

impl AtResponse {
    /// How far apart the points on both sides of a crossing may be, as a ratio. Response times turn
    /// up steeply near the limit: between points that are further apart, a straight line says
    /// little of where.
    pub const STEP_MAX: f64 = 1.1;

    /// The points that it is crossed between, if they are too far apart for the value between them.
    pub fn coarse(&self) -> Option<[f64; 2]> {
        self.between_iops.filter(|[low, high]| *high > Self::STEP_MAX * low)
    }
}

/// Whose settings simulations with these options have, in words; nothing if the options do not say.
pub fn simulated_as(options: &BTreeMap<String, String>) -> Option<&'static str> {
    match options.get("as")?.as_str() {
        "served" => Some("simulated as an array that `destage serve` serves (--as served)"),
        "papers" => Some("simulated as the papers' systems (--as papers)"),
        _ => None,
    }
}
