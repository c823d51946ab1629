//! The slots of an NVS device: which may be written (docs/nvs-format.md, "When a slot may be
//! written").

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Which slots are free, and which will be when a commit is confirmed.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    count: u32,
    /// Bit i of word w: slot 64 w + i is free.
    free: Vec<u64>,
    frees: u32,
    /// Where the search for the next free slot begins.
    next: u32,
    /// Slots whose record was killed, with the sequence of the killer's commit; not sorted.
    killed: VecDeque<(u64, u32)>,
    /// Not given out, though perhaps free: a copy of the device reads them now.
    held_back: Range<u32>,
}

impl Slots {
    /// All free.
    #[must_use]
    pub fn new(count: u32) -> Slots {
        let mut free = vec![u64::MAX; (count as usize).div_ceil(64)];
        if let (Some(last), rest @ 1..) = (free.last_mut(), count % 64) {
            *last = (1 << rest) - 1;
        }
        Slots { count, free, frees: count, ..Slots::default() }
    }

    /// All slots of the device.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Slots that may be written now.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.frees
    }

    /// Slots that wait for a confirmation.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.killed.len()
    }

    /// A slot that the log names, found at a start. `false`: there is none, or it was named before.
    pub fn found(&mut self, slot: u32) -> bool {
        let (word, bit) = place(slot);
        let is_free = slot < self.count && self.free[word] & bit != 0;
        if is_free {
            self.free[word] &= !bit;
            self.frees -= 1;
        }
        is_free
    }

    /// Gives out `pages` slots, neighbours where there are any, after those of before. `false`, and
    /// none: there are too few.
    pub fn take(&mut self, pages: usize, into: &mut Vec<u32>) -> bool {
        let before = into.len();
        if self.frees as usize >= pages {
            self.scan(self.next..self.count, before + pages, into);
            self.scan(0..self.next, before + pages, into);
        }
        if into.len() < before + pages {
            into.drain(before..).for_each(|slot| self.give_back(slot));
            return false;
        }
        self.next = into.last().map_or(self.next, |slot| (slot + 1) % self.count);
        true
    }

    fn scan(&mut self, range: Range<u32>, until: usize, into: &mut Vec<u32>) {
        let mut slot = range.start;
        while slot < range.end && into.len() < until {
            let (word, bit) = place(slot);
            let ahead = self.free[word] & !(bit - 1);
            if ahead == 0 {
                slot = (slot | 63) + 1;
                continue;
            }
            slot = 64 * word as u32 + ahead.trailing_zeros();
            if slot < range.end && !self.held_back.contains(&slot) {
                self.free[word] &= !place(slot).1;
                self.frees -= 1;
                into.push(slot);
            }
            slot += 1;
        }
    }

    /// The record that named a slot is dead because of one in commit `killer`.
    pub fn killed(&mut self, slot: u32, killer: u64) {
        if self.count > 0 {
            self.killed.push_back((killer, slot));
        }
    }

    /// A durable commit says that all up to this one were durable.
    pub fn confirmed(&mut self, through: u64) {
        let mut waiting = core::mem::take(&mut self.killed);
        waiting.retain(|(killer, slot)| {
            let frees = *killer <= through;
            if frees {
                self.give_back(*slot);
            }
            !frees
        });
        self.killed = waiting;
    }

    /// A slot that was given out and not written.
    pub fn give_back(&mut self, slot: u32) {
        let (word, bit) = place(slot);
        debug_assert!(self.free[word] & bit == 0, "a slot freed twice");
        self.free[word] |= bit;
        self.frees += 1;
    }

    /// None of these is given out until others are held back, or none.
    pub fn hold_back(&mut self, slots: Range<u32>) {
        self.held_back = slots;
    }

    /// The slots that are not free, as runs within `range`.
    #[must_use]
    pub fn next_used(&self, range: Range<u32>) -> Option<u32> {
        range.into_iter().find(|slot| {
            let (word, bit) = place(*slot);
            self.free[word] & bit == 0
        })
    }
}

fn place(slot: u32) -> (usize, u64) {
    ((slot / 64) as usize, 1 << (slot % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(slots: &mut Slots, pages: usize) -> Vec<u32> {
        let mut into = Vec::new();
        slots.take(pages, &mut into);
        into
    }

    #[test]
    fn neighbours_first_and_round_the_device() {
        let mut slots = Slots::new(70);
        assert_eq!(taken(&mut slots, 66), (0..66).collect::<Vec<u32>>());
        assert_eq!(taken(&mut slots, 5), [], "all or none");
        assert_eq!(slots.free(), 4);
        slots.killed(3, 10);
        slots.killed(5, 11);
        slots.confirmed(10);
        assert_eq!((slots.free(), slots.waiting()), (5, 1));
        assert_eq!(taken(&mut slots, 5), [66, 67, 68, 69, 3]);
        slots.confirmed(11);
        assert_eq!(taken(&mut slots, 1), [5], "behind the last");
        assert_eq!(slots.free(), 0);
    }

    #[test]
    fn what_a_copy_reads_is_held_back() {
        let mut slots = Slots::new(128);
        slots.hold_back(0..100);
        assert_eq!(taken(&mut slots, 2), [100, 101]);
        assert_eq!(taken(&mut slots, 30), [], "too few elsewhere");
        assert_eq!(slots.free(), 126, "and none lost");
        slots.hold_back(0..0);
        assert_eq!(taken(&mut slots, 126).len(), 126);
    }

    #[test]
    fn found_slots_are_used_once() {
        let mut slots = Slots::new(10);
        assert!(slots.found(9) && !slots.found(9) && !slots.found(10));
        assert_eq!((slots.free(), slots.next_used(0..10)), (9, Some(9)));
        // The last word of the bits is full.
        let mut slots = Slots::new(64);
        assert!(slots.found(63) && !slots.found(64) && !slots.found(u32::MAX - 1));
        assert_eq!(slots.free(), 63);
    }

    /// A slot that was given back is not the next one that is written: all take their turn.
    #[test]
    fn the_search_continues_behind_the_last_slot() {
        let mut slots = Slots::new(4);
        for slot in [0, 1, 2, 3, 0, 1] {
            assert_eq!(taken(&mut slots, 1), [slot]);
            slots.give_back(slot);
        }
        assert_eq!((taken(&mut slots, 0), slots.free()), (vec![], 4));
        assert_eq!(taken(&mut slots, 4), [2, 3, 0, 1]);
    }

    /// What the vector has already is neither counted nor touched.
    #[test]
    fn slots_are_put_behind_those_of_before() {
        let mut slots = Slots::new(8);
        let mut into = vec![99];
        assert!(slots.take(3, &mut into));
        assert_eq!((&into[..], slots.free()), (&[99, 0, 1, 2][..], 5));
        assert!(slots.take(3, &mut into));
        assert_eq!((&into[4..], slots.free()), (&[3, 4, 5][..], 2));
        // Of three and of four the last one or two are found at the start.
        slots.give_back(0);
        into = vec![99];
        assert!(slots.take(3, &mut into));
        assert_eq!((&into[..], slots.free()), (&[99, 6, 7, 0][..], 0));
        (2..8).for_each(|slot| slots.give_back(slot));
        (into, slots.next) = (vec![99], 6);
        assert!(slots.take(4, &mut into));
        assert_eq!((&into[..], slots.free()), (&[99, 6, 7, 2, 3][..], 2));
        // One too few that are not held back.
        let mut slots = Slots::new(8);
        slots.hold_back(0..6);
        into = vec![99];
        assert!(!slots.take(3, &mut into));
        assert_eq!((&into[..], slots.free()), (&[99][..], 8));
    }

    /// Words without a free slot are passed over, wherever in them the search begins.
    #[test]
    fn the_search_passes_over_what_is_used() {
        let mut slots = Slots::new(320);
        assert_eq!(taken(&mut slots, 320), (0..320).collect::<Vec<u32>>());
        for slot in [40, 200, 255, 256] {
            slots.give_back(slot);
        }
        for next in [41, 63, 64, 65, 100, 127, 128, 199, 200] {
            slots.next = next;
            assert_eq!(taken(&mut slots, 1), [200], "from {next}");
            slots.give_back(200);
        }
        for (next, order) in [
            (201, [255, 256, 40, 200]),
            (255, [255, 256, 40, 200]),
            (256, [256, 40, 200, 255]),
            (257, [40, 200, 255, 256]),
            (319, [40, 200, 255, 256]),
        ] {
            slots.next = next;
            assert_eq!((taken(&mut slots, 4), slots.free()), (order.to_vec(), 0), "from {next}");
            order.into_iter().for_each(|slot| slots.give_back(slot));
        }
        // Within a word, between some that are held back.
        slots.hold_back(41..256);
        slots.next = 41;
        assert_eq!((taken(&mut slots, 3), slots.free()), (vec![], 4));
        assert_eq!((taken(&mut slots, 2), slots.free()), (vec![256, 40], 2));
    }

    #[test]
    fn used_slots_are_found_within_a_range() {
        let mut slots = Slots::new(130);
        assert_eq!((slots.count(), slots.next_used(0..130)), (130, None));
        assert!([2, 70, 129].into_iter().all(|slot| slots.found(slot)));
        let first = [0..2, 0..130, 2..3, 3..70, 3..71, 71..130].map(|range| slots.next_used(range));
        assert_eq!(first, [None, Some(2), Some(2), None, Some(70), Some(129)]);
        assert_eq!((slots.count(), slots.free()), (130, 127));
    }

    /// What was killed by a later commit waits for that.
    #[test]
    fn slots_are_free_when_what_killed_them_is_confirmed() {
        let mut slots = Slots::new(8);
        assert_eq!(taken(&mut slots, 3), [0, 1, 2]);
        for (slot, killer) in [(0, 7), (1, 5), (2, 6)] {
            slots.killed(slot, killer);
        }
        for (through, free, waiting) in [(4, 5, 3), (5, 6, 2), (5, 6, 2), (7, 8, 0)] {
            slots.confirmed(through);
            assert_eq!((slots.free(), slots.waiting()), (free, waiting), "{through}");
        }
        // A log whose device has no slots yet.
        let mut none = Slots::default();
        none.killed(3, 1);
        none.confirmed(1);
        assert_eq!((none.count(), none.free(), none.waiting()), (0, 0, 0));
        assert!(!none.found(0) && none.take(0, &mut Vec::new()) && !none.take(1, &mut Vec::new()));
    }
}
