//! `fixed`: the full depth at or above one threshold, nothing below it.

use super::{IDLE, LOW, RateEntry, RateScheme, RateView, hundredths};
use crate::registry::{Entry, Param};
use alloc::boxed::Box;

/// The table entry.
pub const ENTRY: RateEntry = RateEntry {
    entry: Entry {
        name: "fixed",
        summary: "the full queue depth at or above one threshold, nothing below",
        source: "STOW (USENIX ATC'09) section 3.2.3; docs/simulator.md",
        params: &[Param { help: "destage at full depth at or above this occupancy", ..LOW }, IDLE],
    },
    make: |choice, _| Ok(Box::new(Fixed { low: hundredths(choice, "low")? })),
};

struct Fixed {
    low: u64,
}

impl RateScheme for Fixed {
    fn allowed(&mut self, view: &RateView<'_>) -> u32 {
        let reached = view.occupancy * 10_000 >= view.capacity * self.low;
        if reached { view.queue_depth } else { 0 }
    }
}
