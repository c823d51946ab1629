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

/// The mean share of a request's pages that are in the NVS.
#[derive(Default)]
pub(super) struct Reuse {
    share: u64,
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
    }

    /// The levels raised for the present reuse: the high one towards the capacity, and the low one
    /// up to half way to it besides.
    pub(super) fn raise(&self, levels: Levels) -> Levels {
        let worth = (STEEPNESS * self.share * self.share / ALL).min(ALL);
        let Levels { low, high, capacity } = levels;
        let raised = high + (capacity - high) * worth * MOST_TENTHS / (10 * ALL);
        let below = (high - low) * (2 * ALL - worth) / (2 * ALL);
        Levels { low: raised - below, high: raised, capacity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: Levels = Levels { low: 800, high: 900, capacity: 1000 };

    fn after(hits: u64, pages: u64) -> Levels {
        let mut reuse = Reuse::default();
        (0..9 * MEMORY).for_each(|_| reuse.count(hits, pages));
        reuse.raise(LEVELS)
    }

    #[test]
    fn the_levels_rise_with_the_square_of_the_share_that_is_used_again() {
        assert_eq!(after(0, 8), LEVELS);
        assert_eq!(Reuse::default().raise(LEVELS), LEVELS);
        assert_eq!(after(1, 32), Levels { low: 801, ..LEVELS }, "a share of 3 %");
        assert_eq!(after(1, 4), Levels { low: 844, high: 928, capacity: 1000 });
        assert_eq!(after(1, 2), Levels { low: 940, high: 990, capacity: 1000 });
        assert_eq!(after(8, 8), after(1, 2), "a tenth stays for bursts");
    }

    #[test]
    fn an_occupancy_is_where_it_was_between_the_levels() {
        let raised = Levels { low: 940, high: 990, capacity: 1000 };
        for (occupancy, counted) in
            [(0, 0), (470, 400), (940, 800), (965, 850), (990, 900), (995, 950), (1000, 1000)]
        {
            assert_eq!(raised.translate(occupancy, LEVELS), counted, "{occupancy}");
            assert_eq!(LEVELS.translate(occupancy, LEVELS), occupancy);
        }
        // Levels at the ends of the range.
        let ends = Levels { low: 0, high: 1000, capacity: 1000 };
        for occupancy in [0, 1, 1000] {
            assert_eq!(ends.translate(occupancy, ends), occupancy);
        }
    }
}
