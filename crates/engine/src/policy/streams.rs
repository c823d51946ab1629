//! What ebb knows of the groups that come into SeqQ: whether they are streams, or large writes at
//! random places (docs/ebb.md, "Large writes").

use crate::hash;
use crate::units::GroupId;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Places of the table of the last groups: this many for each group that the NVS holds, since more
/// streams than that leave no room for their groups to fill.
const CAME_EACH: u64 = 3;
/// At least.
const CAME_LEAST: u64 = 256;
/// At most: half a MiB.
const CAME_MOST: u64 = 65_536;
/// A share of 1.
const ALL: u32 = 1 << 16;
/// The share is a mean over about this many groups.
const MEMORY: u32 = 128;

/// The groups that came into SeqQ.
pub(super) struct Streams {
    /// The last ones, each at the hash of its number: streams at equal distances do not meet.
    came: Box<[u64]>,
    /// The last of them, and the group of the last page written.
    newest: GroupId,
    written: GroupId,
    /// Share of those whose predecessor had not come shortly before. One that came in the same
    /// write as its predecessor does not count: a large write is not a stream by itself.
    starts: u32,
    /// Groups of RanQ that a stream has left.
    pub(super) joining: Vec<GroupId>,
}

impl Streams {
    /// For an NVS that holds this many complete groups.
    pub(super) fn new(groups: u64) -> Streams {
        let (newest, written) = (GroupId(u64::MAX), GroupId(u64::MAX));
        let places = (CAME_EACH * groups).clamp(CAME_LEAST, CAME_MOST);
        let came = vec![u64::MAX; places as usize].into();
        Streams { came, newest, written, starts: 0, joining: Vec::new() }
    }

    /// A page of this group was written.
    #[inline]
    pub(super) fn wrote(&mut self, group: GroupId) {
        self.written = group;
    }

    /// A group came into SeqQ.
    pub(super) fn came(&mut self, group: GroupId) {
        let before = group.0.wrapping_sub(1);
        let starts = group.0 == 0 || self.came[self.place(before)] != before;
        let continues = group.0 > 0 && self.newest.0 == before && self.written.0 == before;
        let place = self.place(group.0);
        self.came[place] = group.0;
        self.newest = group;
        if continues {
            return;
        }
        self.starts = self.starts - self.starts / MEMORY + u32::from(starts) * (ALL / MEMORY);
    }

    fn place(&self, group: u64) -> usize {
        (hash::mixed(group) % self.came.len() as u64) as usize
    }

    /// Whether more than three eighths of the groups began a stream: they are large writes at
    /// random places.
    pub(super) fn are_scattered(&self) -> bool {
        self.starts > ALL / 8 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `streams` streams that begin `apart` groups from each other, and each come into one
    /// group in turn, are seen as large writes. The NVS holds 512 groups.
    fn are_scattered(streams: u64, apart: u64) -> bool {
        let mut seen = Streams::new(512);
        for step in 0..100 {
            for stream in 0..streams {
                let group = GroupId(stream * apart + step);
                seen.came(group);
                seen.wrote(group);
            }
        }
        seen.are_scattered()
    }

    #[test]
    fn streams_at_any_distance_are_streams() {
        for streams in [1, 2, 8, 16, 64, 100, 500] {
            for apart in [128, 256, 1024, 4096, 61_440, 1 << 20, 1_000_000, 9_699_328] {
                assert!(!are_scattered(streams, apart), "{streams} streams, {apart} groups apart");
            }
        }
    }

    #[test]
    fn more_streams_than_the_nvs_holds_groups_are_large_writes() {
        for apart in [128, 1024, 1_000_000] {
            assert!(are_scattered(1000, apart), "{apart} groups apart");
        }
    }

    #[test]
    fn groups_far_from_each_other_are_large_writes() {
        let mut seen = Streams::new(512);
        (0..1000).for_each(|at| seen.came(GroupId(at * 7919 % 100_003)));
        assert!(seen.are_scattered());
    }
}
