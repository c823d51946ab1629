//! What is known of each page: 40 bytes of a map for each device.

use std::collections::HashMap;

use super::super::mixer::Mixed;
use super::streams::Ends;

/// Accesses of one kind.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// How many there were; it stops at 2^32 - 1.
    pub(super) count: u32,
    /// Place of the last one in the order of accesses.
    pub(super) place: u32,
    /// When that was.
    pub(super) last_ns: u64,
}

impl Seen {
    /// Place of the last access, if there was one.
    pub(super) fn last_place(&self) -> Option<u32> {
        (self.count > 0).then_some(self.place)
    }

    /// Time of the last access, if there was one.
    pub(super) fn last_time(&self) -> Option<u64> {
        (self.count > 0).then_some(self.last_ns)
    }
}

/// One page.
#[derive(Clone, Copy, Default)]
pub(super) struct Page {
    pub(super) read: Seen,
    pub(super) write: Seen,
}

impl Page {
    pub(super) fn accesses(&self) -> u64 {
        u64::from(self.read.count) + u64::from(self.write.count)
    }
}

/// One device.
pub(super) struct Device {
    /// Its number in the trace.
    pub(super) number: u32,
    pub(super) ends: Ends,
    pub(super) pages: HashMap<u64, Page, Mixed>,
}

impl Device {
    pub(super) fn new(number: u32) -> Device {
        Device { number, ends: Ends::default(), pages: HashMap::default() }
    }
}
