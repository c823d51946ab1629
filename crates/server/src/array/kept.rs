//! Writes that a remote member's server has answered and not flushed yet. A server that is started
//! again may have lost them: they are sent again, in their order, before anything else.

use destage_block::SharedBytes;
use std::collections::{BTreeMap, VecDeque};

/// Most bytes that are kept.
const KEPT_MAX: usize = 64 << 20;
/// With this many a flush of its own is due.
const FLUSH_AT: usize = 16 << 20;
/// Bytes that are sent again at a time.
const BATCH: usize = 4 << 20;

/// A write: its number, from 1, its place and its bytes.
pub(super) type Write = (u64, u64, SharedBytes);

/// The writes, oldest first.
#[derive(Default)]
pub(super) struct Kept {
    writes: VecDeque<Write>,
    bytes: usize,
    last: u64,
    /// Writes up to this one were let go of unflushed: there were too many.
    let_go: u64,
    flushed: u64,
}

impl Kept {
    /// A write was answered.
    pub(super) fn add(&mut self, offset: u64, buffer: SharedBytes) {
        self.last += 1;
        self.bytes += buffer.len();
        self.writes.push_back((self.last, offset, buffer));
        if self.bytes > KEPT_MAX {
            self.let_go = self.last;
            self.bytes = 0;
            self.writes.clear();
        }
    }

    /// The number of the last write.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Whether nothing is kept. A durable write over one that is kept must be kept too: the older
    /// one would else come after it.
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The number of writes.
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn wants_flush(&self) -> bool {
        self.bytes > FLUSH_AT || self.has_let_go()
    }

    /// Whether writes are missing here that were not flushed.
    pub(super) fn has_let_go(&self) -> bool {
        self.let_go > self.flushed
    }

    /// A flush has succeeded that was sent when this was the last write.
    pub(super) fn flushed(&mut self, mark: u64) {
        self.flushed = self.flushed.max(mark);
        while self.writes.front().is_some_and(|write| write.0 <= mark) {
            let write = self.writes.pop_front();
            self.bytes -= write.map_or(0, |(.., buffer)| buffer.len());
        }
    }

    /// The next writes to be sent again after this one: none overlaps another, since a server may
    /// carry them out in any order.
    pub(super) fn batch(&self, after: u64) -> Vec<Write> {
        let from = self.writes.partition_point(|write| write.0 <= after);
        let (mut batch, mut ranges) = (Vec::new(), BTreeMap::new());
        let mut bytes = 0;
        for (number, offset, buffer) in self.writes.range(from..) {
            let end = offset + buffer.len() as u64;
            let before = ranges.range(..end).next_back();
            if before.is_some_and(|(_, end)| end > offset) || bytes > BATCH {
                break;
            }
            ranges.insert(*offset, end);
            bytes += buffer.len();
            batch.push((*number, *offset, buffer.clone()));
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(bytes: usize) -> SharedBytes {
        destage_block::Buffer::zeroed(bytes).into()
    }

    fn numbers(kept: &Kept, after: u64) -> Vec<u64> {
        kept.batch(after).iter().map(|write| write.0).collect()
    }

    #[test]
    fn overlapping_writes_are_never_in_one_batch() {
        let mut kept = Kept::default();
        for offset in [0, 8192, 4096, 4608, 0] {
            kept.add(offset, buffer(4096));
        }
        assert_eq!(numbers(&kept, 0), [1, 2, 3]);
        assert_eq!(numbers(&kept, 3), [4, 5]);
        assert!(kept.batch(5).is_empty());
        kept.flushed(2);
        assert_eq!(numbers(&kept, 0), [3]);
        assert_eq!((kept.len(), kept.last()), (3, 5));
        kept.flushed(5);
        assert!(kept.is_empty() && kept.bytes == 0);
    }

    #[test]
    fn memory_is_bounded_and_what_is_let_go_of_is_known() {
        let mut kept = Kept::default();
        for number in 0..17 {
            kept.add(number << 22, buffer(4 << 20));
        }
        assert!(kept.has_let_go() && kept.is_empty() && kept.wants_flush());
        kept.add(0, buffer(4096));
        kept.flushed(16);
        assert!(kept.has_let_go());
        kept.flushed(17);
        assert!(!kept.has_let_go() && kept.len() == 1 && !kept.wants_flush());
    }
}
