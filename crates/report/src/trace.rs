//! What a trace holds: the figures of `destage trace analyze`. docs/traces.md defines each of them.
//! Units are in the names; shares and ratios are 0 to 1. Page accesses count each page that a
//! request touches; reads include requests whose operation was not recorded.

use serde::{Deserialize, Serialize};

/// Version of [`TraceAnalyses`]; it rises when a field changes its meaning.
pub const TRACE_SCHEMA: u32 = 1;

/// Traces that were analysed, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceAnalyses {
    /// [`TRACE_SCHEMA`].
    pub schema: u32,
    /// One for each file.
    pub traces: Vec<TraceAnalysis>,
}

/// Figures of one trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceAnalysis {
    /// The file as it was named.
    pub file: String,
    /// Name of its format.
    pub format: String,
    /// How it is compressed: `none`, `gzip`, `zstd` or `xz`.
    pub compression: String,
    /// The only device that was analysed, if one was chosen.
    pub device: Option<u32>,
    /// Number of devices with requests, of those that were analysed.
    pub devices: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Requests and their bytes.
    pub total: Totals,
    /// Requests whose operation was not recorded; they are among the reads.
    pub unknown: u64,
    /// Time stamps that were out of order, and were put in order or left out.
    pub disordered: u64,
    /// Malformed lines or records left out.
    pub bad: u64,
    /// What makes a figure doubtful, in sentences.
    pub warnings: Vec<String>,
    /// From the first request to the last; absent without times.
    pub duration_s: Option<f64>,
    /// What happens when; absent without times, or if all requests have one time.
    pub time: Option<OverTime>,
    /// How large requests are.
    pub sizes: Sizes,
    /// Requests that continue others.
    pub sequential: Sequential,
    /// Distinct pages accessed.
    pub pages: Distinct,
    /// Reuse of what is read, by reads.
    pub read_reuse: Reuse,
    /// Reuse of what is written, by writes.
    pub write_reuse: Reuse,
    /// Where page accesses are.
    pub heat: Heat,
}

/// Requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests that read.
    pub reads: u64,
    /// Requests that write.
    pub writes: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they write.
    pub written_bytes: u64,
}

impl Totals {
    /// Requests of both kinds.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Bytes of both kinds.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    /// Share of requests that write, 0 to 1; 0 without requests.
    pub fn write_share(&self) -> f64 {
        share(self.writes, self.requests())
    }
}

/// A part of a count, 0 to 1; 0 if there is nothing to count.
pub fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// Distinct pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distinct {
    /// Accessed at all.
    pub all: u64,
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// What happens when. Times are seconds since the first request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// Requests over the duration.
    pub requests_per_s: f64,
    /// Their bytes over the duration.
    pub bytes_per_s: f64,
    /// The 60 consecutive seconds with the most requests; of a shorter trace, all of it. Absent in
    /// results of old programs.
    pub peak_minute: Option<Peak>,
    /// The second with the most requests; absent if the trace is shorter.
    pub peak_second: Option<Peak>,
    /// Length of each of `intervals`.
    pub interval_s: f64,
    /// Equal parts of the duration, from 0 on without gaps.
    pub intervals: Vec<Interval>,
    /// Hours with requests, ascending.
    pub hours: Vec<Hour>,
    /// Working sets by length of the window, ascending.
    pub working_sets: Vec<WorkingSet>,
}

/// The busiest minute or second. Seconds are counted from the first request on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// When it begins.
    pub start_s: f64,
    /// Its length.
    pub length_s: f64,
    /// What it has.
    pub total: Totals,
}

/// One part of the duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// What it has.
    pub total: Totals,
    /// Distinct pages that are accessed in it.
    pub pages: Distinct,
    /// Distinct pages accessed from the first request to its end.
    pub footprint_pages: u64,
}

/// One hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hour {
    /// Complete hours since the first request.
    pub hour: u64,
    /// What it has.
    pub total: Totals,
}

/// Distinct pages in windows of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkingSet {
    /// Length of the windows.
    pub window_s: f64,
    /// Number of windows.
    pub windows: u64,
    /// Mean of the pages accessed in a window.
    pub pages_mean: f64,
    /// Mean of the pages read in a window.
    pub read_pages_mean: f64,
    /// Mean of the pages written in a window.
    pub written_pages_mean: f64,
    /// The most of each in one window.
    pub pages_max: Distinct,
}

/// How large requests are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// Of reads; absent without reads.
    pub reads: Option<SizeFigures>,
    /// Of writes; absent without writes.
    pub writes: Option<SizeFigures>,
    /// Classes of sizes, ascending, from the first with requests to the last.
    pub classes: Vec<SizeClass>,
}

/// Sizes of requests of one kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeFigures {
    /// Arithmetic mean.
    pub mean_bytes: f64,
    /// Half of the requests are no larger.
    pub p50_bytes: u64,
    /// 90 % are no larger.
    pub p90_bytes: u64,
    /// 99 % are no larger.
    pub p99_bytes: u64,
    /// The largest.
    pub max_bytes: u64,
}

/// Requests of similar size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeClass {
    /// Largest size of the class; the class before it ends at half of that. 0 is a class of its
    /// own, and so are sizes from 1 to 512.
    pub to_bytes: u64,
    /// Reads of such sizes.
    pub reads: u64,
    /// Writes of such sizes.
    pub writes: u64,
}

/// Requests that begin where others of the same device ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequential {
    /// Reads that begin where the request before ended.
    pub reads: u64,
    /// Writes of the same kind.
    pub writes: u64,
    /// Number of requests before that count for the two figures that follow.
    pub streams: u64,
    /// Reads that begin where one of that many requests before ended.
    pub reads_in_streams: u64,
    /// Writes of the same kind.
    pub writes_in_streams: u64,
}

/// Reuse in a sequence of page accesses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reuse {
    /// Page accesses.
    pub accesses: u64,
    /// Those of pages that were not accessed before: as many as there are distinct pages.
    pub first_touches: u64,
    /// By size of an LRU cache, ascending, up to the first that holds every page. Empty without
    /// accesses.
    pub caches: Vec<CacheSize>,
}

/// An LRU cache that is empty at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheSize {
    /// Its size in pages.
    pub pages: u64,
    /// Accesses whose reuse distance is less than this size, and not less than the size before.
    pub reuses: u64,
    /// Share of accesses that it misses.
    pub miss_ratio: f64,
}

/// Where page accesses are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// Of all accesses.
    pub all: Vec<Hottest>,
    /// Of reads, among the pages read.
    pub reads: Vec<Hottest>,
    /// Of writes, among the pages written.
    pub writes: Vec<Hottest>,
    /// The devices with the most page accesses, most first.
    pub devices: Vec<DeviceHeat>,
}

/// Accesses of the pages that have the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hottest {
    /// Share of the pages, in per cent.
    pub pages_percent: f64,
    /// That many pages, rounded up.
    pub pages: u64,
    /// Their accesses.
    pub accesses: u64,
    /// Their share of all accesses.
    pub share: f64,
}

/// Page accesses of one device by place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHeat {
    /// Its number in the trace.
    pub device: u32,
    /// Its page accesses.
    pub accesses: u64,
    /// Pages of each part but the last, which may be shorter.
    pub part_pages: u64,
    /// Parts of the device, from its first page on.
    pub parts: Vec<Place>,
}

/// One part of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Page accesses that read.
    pub reads: u64,
    /// Page accesses that write.
    pub writes: u64,
    /// Distinct pages accessed.
    pub pages: u64,
}
