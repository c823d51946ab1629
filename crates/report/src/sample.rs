//! What a monitor of a served array receives each second: the page, and `status --what-if`.

use crate::live::ArrayStatus;
use crate::state::{DeviceKind, EventLevel};
use crate::table::{Cell, Table};
use serde::{Deserialize, Serialize};

/// One second of an array, for curves. Times are in microseconds, rates by the second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Per cent of the NVS that is occupied.
    pub occupancy: f64,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
    /// Median, 99 % and 99.9 % of the reads of that second.
    pub read_us: Option<[f64; 3]>,
    /// The same of writes.
    pub write_us: Option<[f64; 3]>,
    /// Per cent of the pages written that were in NVS.
    pub write_hits: Option<f64>,
    /// Per cent of the reads all of whose pages were in NVS.
    pub read_hits: Option<f64>,
    /// Per cent of the pages read that were in NVS or in the read cache, if there is one.
    #[serde(default)]
    pub cache_hits: Option<f64>,
    /// Groups destaged per second.
    pub destages: f64,
    /// Pages destaged per second.
    pub destaged_pages: f64,
    /// Destage writes in flight.
    pub in_flight: u32,
    /// Pages in RanQ, in SeqQ and desired in SeqQ, for policies that have them.
    pub queues: Option<[Option<u64>; 3]>,
}

/// A device in the last second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRate {
    /// `member` or `nvs`.
    pub kind: DeviceKind,
    /// Its number.
    pub number: u16,
    /// Per cent of the time with an operation in flight.
    pub busy: f64,
    /// Operations in flight now.
    pub in_flight: u32,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
    /// Bytes written since the start.
    pub written_bytes: u64,
}

/// Where a policy continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pointer {
    /// `next`, or `random` and `sequential`.
    pub name: String,
    /// First page of the group.
    pub page: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    /// Its number, from 1.
    pub number: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// How much it matters.
    pub level: EventLevel,
    /// Plain text.
    pub text: String,
}

/// What one policy destaged for the same writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhatIfRow {
    /// The policy.
    pub policy: String,
    /// Groups destaged.
    pub destages: u64,
    /// Their pages.
    pub destaged_pages: u64,
    /// Mean distance between the starts of consecutive destages, in pages; none where groups are
    /// sampled.
    pub mean_distance_pages: Option<f64>,
    /// Of the pages written, those that were held.
    pub page_hits: u64,
    /// Pages written.
    pub pages_written: u64,
}

/// What-if: other policies on the same writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Seconds that are compared; 0 before the first destages.
    pub seconds: f64,
    /// One in this many write groups is followed.
    pub one_in: u64,
    /// Requests that were not seen: the queue was full.
    pub dropped: u64,
    /// Trims, which are not followed.
    pub trims: u64,
    /// The settings that all have in common, as options of `destage sim`, `compare` and `advise`:
    /// those of the array that is served.
    #[serde(default)]
    pub settings: String,
    /// What the array did.
    pub running: WhatIfRow,
    /// What the policies would have done, each in a cache that is as full as the array's.
    pub shadows: Vec<WhatIfRow>,
}

/// An array in the last second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// For the curves.
    pub point: Point,
    /// Its status.
    pub status: ArrayStatus,
    /// In a sentence.
    pub says: String,
    /// Low and high threshold, per cent of the NVS.
    pub thresholds: [f64; 2],
    /// Greatest number of destage writes in flight.
    pub queue_depth: u32,
    /// Where the policy continues.
    pub pointers: Vec<Pointer>,
    /// Pages of the volume.
    pub volume_pages: u64,
    /// First pages of the last destages, oldest first.
    pub recent: Vec<u64>,
    /// Destages begun since the start.
    pub begun: u64,
    /// Devices, as in the status.
    pub devices: Vec<DeviceRate>,
    /// Bytes written to each NVS device for each byte that hosts wrote.
    pub nvs_wear: Option<f64>,
    /// What happened last, latest last.
    pub events: Vec<Happened>,
    /// What-if: other policies on the same writes.
    pub what_if: Option<WhatIf>,
}

impl WhatIf {
    /// As a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("policy", ""),
            ("pages written", ""),
            ("held already", "%"),
            ("destages", ""),
            ("pages destaged", ""),
            ("pages a destage", ""),
            ("mean distance", "pages"),
            ("destages", "to running"),
        ]);
        let part = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let running = (&self.running, format!("{} (running)", self.running.policy));
        let shadows = self.shadows.iter().map(|row| (row, row.policy.clone()));
        for (row, name) in core::iter::once(running).chain(shadows) {
            table.push(vec![
                Cell::text(name),
                Cell::int(row.pages_written),
                Cell::maybe(part(row.page_hits, row.pages_written).map(|p| p * 100.0), 1),
                Cell::int(row.destages),
                Cell::int(row.destaged_pages),
                Cell::maybe(part(row.destaged_pages, row.destages), 1),
                Cell::maybe(row.mean_distance_pages, 0),
                Cell::maybe(part(row.destages, self.running.destages), 3),
            ]);
        }
        table
    }
}
