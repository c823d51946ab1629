//! How much of what hosts ask for is in the NVS, and how much higher the thresholds are for that
//! (docs/ebb.md).

use crate::rate::Thresholds;

/// All of a request's pages, as a share.
const ALL: u64 = 1 << 16;
/// Requests over which the mean is taken.
const MEMORY: u64 = 1 << 10;
/// Times the square of the share of reuse, at most [`ALL`], is what holding more is worth.
const STEEPNESS: u64 = 5;
/// The high threshold rises by at most this many tenths of the space above it. The rest is for
/// bursts of writes.
const MOST_TENTHS: u64 = 9;

/// The thresholds rise by nothing while drives have commands for this share of the time, and by
/// all of it from twice as much on.
const LITTLE_USED: u64 = ALL / 4;
const MUCH_USED: u64 = ALL / 2;
/// At least this many pages, two complete groups of the papers' arrays, stay free of the rise.
const ROOM_PAGES: u64 = 128;
/// And this many times the largest write.
const ROOM_WRITES: u64 = 4;
/// Requests over which the size of the largest write fades.
const LARGEST_MEMORY: u64 = 1 << 12;

/// What hosts ask for, as far as it says how full the NVS should be.
#[derive(Default)]
pub(super) struct Reuse {
    /// The mean share of a request's pages that are in the NVS.
    share: u64,
    /// Pages of the largest request, in units of 1 / [`ALL`].
    largest: u64,
}

/// The pages of an NVS, and the thresholds for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) capacity: u64,
}

impl Levels {
    pub(super) fn new(thresholds: Thresholds, capacity: u64) -> Levels {
        let pages = |hundredths: u64| capacity * hundredths / 10_000;
        Levels { low: pages(thresholds.low), high: pages(thresholds.high), capacity }
    }

    /// The occupancy that is between the levels of `other` as this one is between these.
    pub(super) fn translate(self, occupancy: u64, other: Levels) -> u64 {
        let between = |from: (u64, u64), to: (u64, u64)| {
            to.0 + (to.1 - to.0) * (occupancy - from.0) / (from.1 - from.0).max(1)
        };
        if occupancy <= self.low {
            between((0, self.low), (0, other.low))
        } else if occupancy <= self.high {
            between((self.low, self.high), (other.low, other.high))
        } else {
            between((self.high, self.capacity), (other.high, other.capacity))
        }
    }
}

impl Reuse {
    /// A request found `hits` of its `pages` in the NVS.
    pub(super) fn count(&mut self, hits: u64, pages: u64) {
        let found = hits * ALL / pages.max(1);
        self.share = self.share - self.share / MEMORY + found / MEMORY;
        self.largest = (pages * ALL).max(self.largest - self.largest / LARGEST_MEMORY);
    }

    /// The levels raised for the present reuse: the high one towards the capacity, and the low one
    /// up to half way to it besides. In a small NVS, or with large writes, both rise less; and
    /// where drives are seldom in use (`usage`, as a part of all the time), since destages cost
    /// nothing there, and the room is for bursts.
    pub(super) fn raise(&self, levels: Levels, usage: (u64, u64)) -> Levels {
        let Levels { low, high, capacity } = levels;
        let most = (capacity - high) * MOST_TENTHS / 10;
        let room = ROOM_PAGES.max(ROOM_WRITES * self.largest / ALL);
        let worth = (STEEPNESS * self.share * self.share / ALL).min(ALL);
        let rise = (most * worth / ALL).min((capacity - high).saturating_sub(room));
        let used = (usage.0 * ALL / usage.1).clamp(LITTLE_USED, MUCH_USED) - LITTLE_USED;
        let rise = rise * used / (MUCH_USED - LITTLE_USED);
        let part = (rise * ALL).checked_div(most).unwrap_or(0);
        let below = (high - low) * (2 * ALL - part) / (2 * ALL);
        Levels { low: high + rise - below, high: high + rise, capacity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: Levels = Levels { low: 8000, high: 9000, capacity: 10_000 };

    fn raised(levels: Levels, hits: u64, pages: u64) -> Levels {
        let mut reuse = Reuse::default();
        (0..9 * MEMORY).for_each(|_| reuse.count(hits, pages));
        reuse.raise(levels, (1, 1))
    }

    #[test]
    fn the_levels_rise_with_the_square_of_the_share_that_is_used_again() {
        let after = |hits, pages| raised(LEVELS, hits, pages);
        assert_eq!(after(0, 8), LEVELS);
        assert_eq!(Reuse::default().raise(LEVELS, (1, 1)), LEVELS);
        assert_eq!(after(1, 32), Levels { low: 8007, high: 9004, capacity: 10_000 }, "of 3 %");
        assert_eq!(after(1, 4), Levels { low: 8438, high: 9281, capacity: 10_000 });
        assert_eq!(after(1, 2), Levels { low: 9357, high: 9872, capacity: 10_000 });
        assert_eq!(after(8, 8), after(1, 2), "this much stays for bursts");
    }

    #[test]
    fn the_levels_of_a_small_nvs_and_with_large_writes_rise_less() {
        let small = Levels { low: 410, high: 461, capacity: 512 };
        assert_eq!(raised(small, 8, 8), small);
        let levels = Levels { low: 3277, high: 3686, capacity: 4096 };
        assert_eq!(raised(levels, 8, 8).high, 4096 - ROOM_PAGES);
        assert_eq!(raised(levels, 50, 50).high, 4096 - 4 * 50);
        assert_eq!(raised(levels, 200, 200), levels);
        // One large write is forgotten.
        let mut reuse = Reuse::default();
        reuse.count(200, 200);
        (0..9 * LARGEST_MEMORY).for_each(|_| reuse.count(8, 8));
        assert_eq!(reuse.raise(levels, (1, 1)).high, 4096 - ROOM_PAGES);
    }

    #[test]
    fn the_levels_rise_only_where_drives_are_in_use() {
        let mut reuse = Reuse::default();
        (0..9 * MEMORY).for_each(|_| reuse.count(8, 8));
        let high = |percent: u64| reuse.raise(LEVELS, (percent, 100)).high;
        assert_eq!([high(0), high(25), high(50), high(100)], [9000, 9000, 9872, 9872]);
        assert_eq!(high(37), 9000 + 872 * 12 / 25);
        assert_eq!(reuse.raise(LEVELS, (10, 100)), LEVELS);
    }

    #[test]
    fn an_occupancy_is_where_it_was_between_the_levels() {
        let levels = Levels { low: 800, high: 900, capacity: 1000 };
        let raised = Levels { low: 940, high: 990, capacity: 1000 };
        for (occupancy, counted) in
            [(0, 0), (470, 400), (940, 800), (965, 850), (990, 900), (995, 950), (1000, 1000)]
        {
            assert_eq!(raised.translate(occupancy, levels), counted, "{occupancy}");
            assert_eq!(levels.translate(occupancy, levels), occupancy);
        }
        // Levels at the ends of the range.
        let ends = Levels { low: 0, high: 1000, capacity: 1000 };
        for occupancy in [0, 1, 1000] {
            assert_eq!(ends.translate(occupancy, ends), occupancy);
        }
    }
}
