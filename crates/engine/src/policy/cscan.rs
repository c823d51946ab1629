//! CSCAN: the next group in address order, round and round.

use super::PolicyEntry;
use super::wow::Wow;
use crate::registry::Entry;
use alloc::boxed::Box;

/// The table entry. CSCAN is WOW whose recency bit never sets.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "cscan",
        summary: "next group in ascending address order, wrapping: spatial locality only",
        source: "WOW (FAST'05) section II-B; docs/simulator.md",
        params: &[],
    },
    make: |_, context| Ok(Box::new(Wow::cscan(context))),
};
