//! `quick`: as fast as the disks allow, whatever the occupancy.

use super::{IDLE, RateEntry, RateScheme, RateView};
use crate::registry::Entry;
use alloc::boxed::Box;

/// The table entry.
pub const ENTRY: RateEntry = RateEntry {
    entry: Entry {
        name: "quick",
        summary: "always the full queue depth",
        source: "STOW (USENIX ATC'09) section 3.2.2; docs/simulator.md",
        params: &[IDLE],
    },
    make: |_, _| Ok(Box::new(Quick)),
};

struct Quick;

impl RateScheme for Quick {
    fn allowed(&mut self, view: &RateView<'_>) -> u32 {
        view.queue_depth
    }
}
