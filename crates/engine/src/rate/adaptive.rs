//! `adaptive`: linear below a high threshold that backs off from a full NVS and advances again.

use super::{
    IDLE, RateEntry, RateScheme, RateView, SEQUENTIAL, SEQUENTIAL_DEPTH, linear_depth,
    sequential_on,
};
use crate::registry::Entry;
use alloc::boxed::Box;

/// The table entry.
pub const ENTRY: RateEntry = RateEntry {
    entry: Entry {
        name: "adaptive",
        summary: "linear over the 10 % below a high threshold that adapts between 10 % and 90 %",
        source: "WOW (FAST'05) section IV-E; docs/simulator.md",
        params: &[SEQUENTIAL, IDLE],
    },
    make: |choice, nvs_pages| {
        Ok(Box::new(Adaptive {
            capacity: nvs_pages,
            high: nvs_pages * DESIRED,
            max_observed: 0,
            last: 0,
            reset_interval: 1,
            destages_since_reset: 0,
            sequential: sequential_on(choice)?,
        }))
    },
};

/// Desired occupancy level, and the bounds of the high threshold, in per cent.
const DESIRED: u64 = 90;
const LOWEST: u64 = 10;
const GAP: u64 = 10;

/// Levels are in hundredths of a page (per cent times pages), so that all arithmetic is exact.
struct Adaptive {
    capacity: u64,
    high: u64,
    max_observed: u64,
    last: u64,
    reset_interval: u64,
    destages_since_reset: u64,
    sequential: bool,
}

impl Adaptive {
    fn desired(&self) -> u64 {
        self.capacity * DESIRED
    }

    fn set_high(&mut self, high: u64) {
        self.high = high.clamp(self.capacity * LOWEST, self.desired());
    }

    fn reset(&mut self, occupancy: u64) {
        self.max_observed = occupancy;
        self.reset_interval = self.destages_since_reset.max(1);
        self.destages_since_reset = 0;
    }
}

impl RateScheme for Adaptive {
    fn needs_detector(&self) -> bool {
        self.sequential
    }

    fn on_occupancy(&mut self, occupancy: u64) {
        let level = occupancy * 100;
        self.max_observed = self.max_observed.max(level);
        if self.last >= self.high && level < self.high {
            let over = self.max_observed.saturating_sub(self.desired());
            self.set_high(self.high.saturating_sub(over));
            self.reset(level);
        }
        self.last = level;
    }

    fn on_destaged(&mut self) {
        self.destages_since_reset += 1;
        if self.destages_since_reset >= self.reset_interval && self.max_observed < self.desired() {
            let under = self.desired() - self.max_observed;
            self.set_high(self.high + under);
            self.reset(self.last);
        }
    }

    fn allowed(&mut self, view: &RateView<'_>) -> u32 {
        let level = u128::from(view.occupancy) * 100;
        let high = u128::from(self.high);
        let low = high.saturating_sub(u128::from(self.capacity * GAP));
        if self.sequential && level < low && (view.in_sequence)() {
            return SEQUENTIAL_DEPTH.min(view.queue_depth);
        }
        linear_depth(level, high, low, view.queue_depth)
    }
}
