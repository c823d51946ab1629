//! `write-behind`: only when a request waits for space.

use super::{IDLE, RateEntry, RateScheme, RateView};
use crate::registry::Entry;
use alloc::boxed::Box;

/// The table entry.
pub const ENTRY: RateEntry = RateEntry {
    entry: Entry {
        name: "write-behind",
        summary: "destage only while a write waits for space",
        source: "Haining & Long section 2.2; docs/simulator.md",
        params: &[IDLE],
    },
    make: |_, _| Ok(Box::new(WriteBehind)),
};

struct WriteBehind;

impl RateScheme for WriteBehind {
    fn allowed(&mut self, _view: &RateView<'_>) -> u32 {
        0
    }
}
