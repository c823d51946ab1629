//! What ebb knows of the groups that come into SeqQ: whether they are streams, or large writes at
//! random places (docs/ebb.md, "Large writes").

use crate::units::GroupId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How many of the last groups are remembered.
const CAME: usize = 256;
/// A share of 1.
const ALL: u32 = 1 << 16;
/// The share is a mean over about this many groups.
const MEMORY: u32 = 128;

/// The groups that came into SeqQ.
pub(super) struct Streams {
    /// The last ones, each at the rest of its number.
    came: Box<[u64; CAME]>,
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
    pub(super) fn new() -> Streams {
        let (newest, written) = (GroupId(u64::MAX), GroupId(u64::MAX));
        let came = Box::new([u64::MAX; CAME]);
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
        let starts = group.0 == 0 || self.came[before as usize % CAME] != before;
        let continues = group.0 > 0 && self.newest.0 == before && self.written.0 == before;
        self.came[group.0 as usize % CAME] = group.0;
        self.newest = group;
        if continues {
            return;
        }
        self.starts = self.starts - self.starts / MEMORY + u32::from(starts) * (ALL / MEMORY);
    }

    /// Whether more than three eighths of the groups began a stream: they are large writes at
    /// random places.
    pub(super) fn are_scattered(&self) -> bool {
        self.starts > ALL / 8 * 3
    }
}
