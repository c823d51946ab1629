//! A trace through a track cache without time: exact counts, and a hash over the events.

use crate::options::OptionError;
use destage_engine::request::PageRange;
use destage_engine::track::TrackConfig;
use destage_engine::track::replay::{TrackCounts, TrackEvent, TrackReplay};
use destage_engine::units::Page;
use destage_workload::trace::{Op, ReadOptions, Reader, TraceError};
use std::collections::BTreeSet;
use std::path::Path;

/// Devices of a trace that an error lists at most.
const LISTED: usize = 16;

fn wrong(error: TraceError) -> OptionError {
    OptionError::input(error.to_string())
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackOutcome {
    /// Counts.
    pub counts: TrackCounts,
    /// Hash over all events.
    pub hash: u64,
}

/// Replays the requests of this device, or of the only one, in the order of the trace.
///
/// # Errors
/// A trace that cannot be read, one of several devices if none is chosen, a request beyond the
/// disk, or invalid sizes.
pub fn replay(
    path: &Path,
    read: &ReadOptions,
    device: Option<u32>,
    config: &TrackConfig,
    on_event: &mut dyn FnMut(TrackEvent),
) -> Result<TrackOutcome, OptionError> {
    let mut replay = TrackReplay::new(config, on_event).map_err(OptionError::usage)?;
    let mut reader = Reader::open(path, read).map_err(wrong)?;
    let mut requests = 0u64;
    let mut only = device;
    while let Some(record) = reader.next() {
        let record = record.map_err(wrong)?;
        let (first, end) = record.pages_of(config.sector_bytes);
        if end == first || device.is_some_and(|device| device != record.device) {
            continue;
        }
        let first_device = *only.get_or_insert(record.device);
        if record.device != first_device {
            return Err(several(&mut reader, [first_device, record.device]));
        }
        if end > config.disk_sectors {
            return Err(OptionError::input(format!(
                "{}: {}: sector {} is beyond the disk's {}. Use a larger --disk, or --device N.",
                reader.file(),
                reader.place(),
                end - 1,
                config.disk_sectors
            )));
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
        return Err(OptionError::input(format!("{}: no requests{of}", reader.file())));
    }
    Ok(TrackOutcome { counts: replay.counts(), hash: replay.hash() })
}

/// A trace with more devices than the one disk behind the cache. Reads on to list them all.
fn several(reader: &mut Reader, found: [u32; 2]) -> OptionError {
    let mut devices = BTreeSet::from(found);
    for record in reader.by_ref().map_while(Result::ok) {
        if record.length_bytes > 0 {
            devices.insert(record.device);
        }
    }
    let listed: Vec<String> = devices.iter().take(LISTED).map(u32::to_string).collect();
    let more = match devices.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    OptionError::input(format!(
        "{}: the trace has {} devices ({}{more}), but a cache by track has one disk: choose one of \
         them with --device N",
        reader.file(),
        devices.len(),
        listed.join(", ")
    ))
}
