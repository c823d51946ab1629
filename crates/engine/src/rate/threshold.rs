//! `single` and `dual`: destaging that starts above a threshold and continues until below the same,
//! or a lower one.

use super::{HIGH, IDLE, LOW, RateEntry, RateScheme, RateView, Thresholds, hundredths};
use crate::registry::{Entry, Param};
use alloc::boxed::Box;

const START: Param = Param { range: "0 to 100", help: "start above this occupancy", ..HIGH };

/// The table entry of the single threshold.
pub const SINGLE: RateEntry = RateEntry {
    entry: Entry {
        name: "single",
        summary: "the full depth from above one threshold until below it",
        source: "Haining & Long section 2.2; docs/simulator.md",
        params: &[START, IDLE],
    },
    make: |choice, _| {
        let high = hundredths(choice, "high")?;
        Ok(Box::new(Threshold::new(Thresholds { high, low: high })))
    },
};

/// The table entry of the two thresholds.
pub const DUAL: RateEntry = RateEntry {
    entry: Entry {
        name: "dual",
        summary: "the full depth from above the high threshold until below the low one",
        source: "Haining & Long section 2.2; docs/simulator.md",
        params: &[
            Param { range: "above low, to 100", ..START },
            Param { default: "15", help: "continue until below this occupancy", ..LOW },
            IDLE,
        ],
    },
    make: |choice, _| Ok(Box::new(Threshold::new(Thresholds::read(choice)?))),
};

struct Threshold {
    thresholds: Thresholds,
    cleaning: bool,
}

impl Threshold {
    fn new(thresholds: Thresholds) -> Threshold {
        Threshold { thresholds, cleaning: false }
    }
}

impl RateScheme for Threshold {
    fn allowed(&mut self, view: &RateView<'_>) -> u32 {
        let occupancy = u128::from(view.occupancy) * 10_000;
        let at = |threshold: u64| u128::from(view.capacity) * u128::from(threshold);
        if occupancy > at(self.thresholds.high) {
            self.cleaning = true;
        } else if occupancy < at(self.thresholds.low) || occupancy == 0 {
            self.cleaning = false;
        }
        if self.cleaning { view.queue_depth } else { 0 }
    }

    fn thresholds(&self) -> Thresholds {
        self.thresholds
    }
}
