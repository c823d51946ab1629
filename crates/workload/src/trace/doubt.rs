//! What makes it doubtful that a trace is read right: too much in its time, numbers that look like
//! those of another unit, waits that are not times.

use destage_engine::units::SECTOR_BYTES;

use super::TraceRecord;
use super::reader::Reader;

/// Above this rate, in bytes per nanosecond, a trace is hardly read right.
const BYTES_PER_NS_MAX: u64 = 8;
/// What is read as sectors, and is a multiple of this, may be bytes.
const STEP_BYTES: u64 = SECTOR_BYTES * SECTOR_BYTES;
/// The first requests of which offsets and lengths are looked at. Fewer than the least say nothing.
const LOOKED_AT_MAX: u64 = 4096;
const LOOKED_AT_MIN: u64 = 16;
/// If fewer than one in this many requests come after a wait, the waits are not times.
const REQUESTS_PER_WAIT_MAX: u64 = 100;

/// What was seen of a trace's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Doubts {
    requests: u64,
    bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Requests that come later than the one before.
    later: u64,
    looked_at: u64,
    /// Some offset or length of these is not a multiple of the step.
    finer: bool,
}

impl Doubts {
    pub(super) fn add(&mut self, record: &TraceRecord) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(record.length_bytes);
        let first_ns = *self.first_ns.get_or_insert(record.time_ns);
        self.later += u64::from(record.time_ns > self.last_ns.max(first_ns));
        self.last_ns = self.last_ns.max(record.time_ns);
        if self.looked_at < LOOKED_AT_MAX && record.length_bytes > 0 {
            self.looked_at += 1;
            let numbers = record.offset_bytes | record.length_bytes;
            self.finer |= !numbers.is_multiple_of(STEP_BYTES);
        }
    }

    /// Requests that come later than the one before.
    pub(super) fn later(&self) -> u64 {
        self.later
    }

    /// Whether nearly all requests of a log of waits have the time of the one before: the program
    /// that wrote it recorded no times.
    pub(super) fn has_no_times(&self, reader: &Reader) -> bool {
        reader.has_waits()
            && self.requests > 1
            && self.later * REQUESTS_PER_WAIT_MAX < self.requests
    }

    /// What is to be said of a trace that moves more bytes in its time than any array does.
    pub(super) fn rate(&self, reader: &Reader) -> Option<String> {
        let duration_ns = self.last_ns - self.first_ns.unwrap_or(self.last_ns);
        let timed = reader.format().has_times && duration_ns > 0 && !self.has_no_times(reader);
        let rate = self.bytes / duration_ns.max(1);
        (timed && rate >= BYTES_PER_NS_MAX).then(|| {
            format!(
                "the trace moves {rate} GB per second: its columns may have other units than this \
                 format, e.g. bytes in place of sectors, or microseconds in place of nanoseconds. \
                 --trace-columns describes them"
            )
        })
    }

    /// What is to be said of numbers that are read as sectors and look like bytes.
    pub(super) fn unit(&self, reader: &Reader) -> Option<String> {
        let alike = self.looked_at >= LOOKED_AT_MIN && !self.finer;
        reader.as_bytes().filter(|_| alike).map(|option| {
            format!(
                "all offsets and lengths are multiples of {SECTOR_BYTES} sectors: its columns may \
                 have bytes in place of sectors. If they have, use {option}"
            )
        })
    }
}
