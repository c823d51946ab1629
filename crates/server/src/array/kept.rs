//! Writes that a remote member's server has answered and not flushed yet. A server that is started
//! again may have lost them: they are sent again, in their order, before anything else.

use destage_block::{Buffer, SharedBytes};
use std::collections::{BTreeMap, VecDeque};

/// Most bytes that are kept.
const KEPT_MAX: usize = 64 << 20;
/// With more than this a flush of its own is due.
const FLUSH_AT: usize = 16 << 20;
/// Bytes that are sent again at a time.
const BATCH: usize = 4 << 20;

/// A write: its number, from 1, its place and its bytes.
pub(super) type Write = (u64, u64, SharedBytes);

/// The writes, oldest first.
pub(super) struct Kept {
    /// With more bytes than this a flush of its own is due.
    pub(super) flush_at: usize,
    writes: VecDeque<Write>,
    bytes: usize,
    last: u64,
    /// Writes up to this one were let go of unflushed: there were too many.
    let_go: u64,
    flushed: u64,
}

impl Default for Kept {
    fn default() -> Kept {
        let (writes, bytes, last, let_go, flushed) = (VecDeque::new(), 0, 0, 0, 0);
        Kept { flush_at: FLUSH_AT, writes, bytes, last, let_go, flushed }
    }
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

    /// A durable write was answered: what it replaces is never sent again, not even for a moment
    /// in which the power may fail. A write that it replaces in part is kept with the new bytes.
    pub(super) fn durable(&mut self, offset: u64, buffer: &SharedBytes) {
        let end = offset + buffer.len() as u64;
        self.writes.retain_mut(|(_, first, kept)| {
            let behind = *first + kept.len() as u64;
            let replaced = offset <= *first && behind <= end;
            if replaced {
                self.bytes -= kept.len();
            } else if *first < end && offset < behind {
                let (from, to) = (offset.max(*first), end.min(behind));
                let mut bytes = Buffer::copy_of(kept);
                let new = &buffer[(from - offset) as usize..(to - offset) as usize];
                bytes[(from - *first) as usize..(to - *first) as usize].copy_from_slice(new);
                *kept = bytes.into();
            }
            !replaced
        });
    }

    /// The number of writes.
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn wants_flush(&self) -> bool {
        self.bytes > self.flush_at || self.has_let_go()
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
        assert!(kept.writes.is_empty() && kept.bytes == 0);
    }

    #[test]
    fn what_a_durable_write_replaces_is_not_sent_again() {
        let mut kept = Kept::default();
        for offset in [0, 8192, 4096, 8192] {
            kept.add(offset, buffer(4096));
        }
        kept.durable(8192, &buffer(4096));
        assert_eq!((numbers(&kept, 0), kept.bytes), (vec![1, 3], 8192));
        let ones = destage_block::Buffer::copy_of(&[1; 1024]).into();
        kept.durable(7680, &ones);
        assert_eq!((numbers(&kept, 0), kept.bytes), (vec![1, 3], 8192));
        let bytes: Vec<u8> = kept.batch(1)[0].2.iter().step_by(512).copied().collect();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 1], "the rest of it is still needed");
        kept.durable(16384, &buffer(4096));
        assert_eq!(kept.len(), 2, "nothing of it was kept");
    }

    #[test]
    fn memory_is_bounded_and_what_is_let_go_of_is_known() {
        let mut kept = Kept::default();
        for number in 0..17 {
            kept.add(number << 22, buffer(4 << 20));
        }
        assert!(kept.has_let_go() && kept.writes.is_empty() && kept.wants_flush());
        kept.add(0, buffer(4096));
        kept.flushed(16);
        assert!(kept.has_let_go());
        kept.flushed(17);
        assert!(!kept.has_let_go() && kept.len() == 1 && !kept.wants_flush());
    }
}
