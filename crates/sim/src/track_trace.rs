//! A trace through a track cache without time: exact counts, and a hash over the events.

use destage_engine::request::PageRange;
use destage_engine::track::TrackConfig;
use destage_engine::track::replay::{TrackCounts, TrackEvent, TrackReplay};
use destage_engine::units::Page;
use destage_workload::trace::{Op, ReadOptions, Reader};
use std::path::Path;

/// What a replay came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackOutcome {
    /// Counts.
    pub counts: TrackCounts,
    /// Hash over all events.
    pub hash: u64,
}

/// Replays the requests of one device, or of all as if they were one, in the order of the trace.
///
/// # Errors
/// One line: a trace that cannot be read, a request beyond the disk, sizes that cannot be.
pub fn replay(
    path: &Path,
    read: &ReadOptions,
    device: Option<u32>,
    config: &TrackConfig,
    on_event: &mut dyn FnMut(TrackEvent),
) -> Result<TrackOutcome, String> {
    let mut replay = TrackReplay::new(config, on_event)?;
    let mut reader = Reader::open(path, read).map_err(|error| error.to_string())?;
    let mut requests = 0u64;
    while let Some(record) = reader.next() {
        let record = record.map_err(|error| error.to_string())?;
        let (first, end) = record.pages_of(config.sector_bytes);
        if end == first || device.is_some_and(|device| device != record.device) {
            continue;
        }
        if end > config.disk_sectors {
            return Err(format!(
                "{}: {}: sector {} is beyond the disk's {}; a larger --disk, or --device N, helps",
                reader.file(),
                reader.place(),
                end - 1,
                config.disk_sectors
            ));
        }
        requests += 1;
        let range = PageRange::new(Page(first), (end - first) as u32);
        match record.op {
            Op::Write => replay.write(range),
            Op::Read | Op::Unknown => replay.read(range),
        }
    }
    if requests == 0 {
        let of = device.map_or(String::new(), |device| format!(" of device {device}"));
        return Err(format!("{}: no requests{of}", reader.file()));
    }
    Ok(TrackOutcome { counts: replay.counts(), hash: replay.hash() })
}
