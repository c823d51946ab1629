//! `linear`: depth grows in proportion to occupancy between two thresholds; with WOW's rule that
//! a sequence that has begun is finished at a slow steady rate.

use super::{
    HIGH, IDLE, LOW, Made, RateEntry, RateScheme, RateView, SEQUENTIAL_DEPTH, Thresholds,
    linear_depth,
};
use crate::registry::{Choice, Entry};
use alloc::boxed::Box;

/// The table entry.
pub const ENTRY: RateEntry = RateEntry {
    entry: Entry {
        name: "linear",
        summary: "depth linear in occupancy between the low and high thresholds",
        source: "WOW (FAST'05) section IV-E, STOW (USENIX ATC'09) Fig. 5; docs/simulator.md",
        params: &[HIGH, LOW, IDLE],
    },
    make: |choice, _| make(choice, false),
};

/// The table entry of the form with WOW's sequential rule.
pub const WITH_SEQUENTIAL: RateEntry = RateEntry {
    entry: Entry {
        name: "linear-sequential",
        summary: "linear, and below low 4 in flight while a sequence is being destaged",
        source: "WOW (FAST'05) section IV-E; docs/simulator.md",
        params: &[HIGH, LOW, IDLE],
    },
    make: |choice, _| make(choice, true),
};

fn make(choice: &Choice, sequential: bool) -> Made {
    Ok(Box::new(Linear { thresholds: Thresholds::read(choice)?, sequential }))
}

struct Linear {
    thresholds: Thresholds,
    sequential: bool,
}

impl RateScheme for Linear {
    fn needs_detector(&self) -> bool {
        self.sequential
    }

    fn allowed(&mut self, view: &RateView<'_>) -> u32 {
        let occupancy = u128::from(view.occupancy) * 10_000;
        let at = |threshold: u64| u128::from(view.capacity) * u128::from(threshold);
        let low = at(self.thresholds.low);
        if self.sequential && occupancy < low && (view.in_sequence)() {
            return SEQUENTIAL_DEPTH.min(view.queue_depth);
        }
        linear_depth(occupancy, at(self.thresholds.high), low, view.queue_depth)
    }

    fn thresholds(&self) -> Thresholds {
        self.thresholds
    }
}
