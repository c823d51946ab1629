//! WOW: CSCAN order, but a group rewritten since the pointer last passed is spared once.

use super::scan::Ring;
use super::{DestagePolicy, PageWrite, PolicyContext, PolicyEntry};
use crate::bounded::cover;
use crate::conditions::Conditions;
use crate::nvs::directory::{Directory, Slot};
use crate::registry::{Entry, Param};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "wow",
        summary: "CSCAN order with a recency bit per group: spatial and temporal locality",
        source: "WOW (FAST'05) Fig. 4, section IV-E for the options; docs/simulator.md",
        params: &[
            Param {
                name: "initial-bit",
                unit: "-",
                default: "0",
                range: "0 or 1",
                help: "recency bit of a new group (section III-E)",
            },
            Param {
                name: "frequency",
                unit: "-",
                default: "1",
                range: "1 to 100",
                help: "count hits up to this number instead of one bit; the scan counts down",
            },
        ],
    },
    make: |choice, context| {
        let initial = choice.number("initial-bit", 0, 1)?;
        let frequency = choice.number("frequency", 1, 100)?;
        Ok(Box::new(Wow::new(context, initial, frequency)))
    },
};

/// One ring with a counter per group.
pub struct Wow {
    ring: Ring,
    counter: Vec<u8>,
    initial: u8,
    most_count: u8,
    most_groups: usize,
}

impl Wow {
    /// `most_count` is 1 for the paper's bit, 0 for plain CSCAN.
    pub fn new(context: &PolicyContext, initial: u8, most_count: u8) -> Wow {
        Wow {
            ring: Ring::new(context.groups, context.nvs_pages),
            counter: Vec::new(),
            initial,
            most_count,
            most_groups: context.nvs_pages as usize,
        }
    }
}

impl DestagePolicy for Wow {
    fn needs_detector(&self) -> bool {
        self.most_count > 0
    }

    fn on_write(&mut self, write: PageWrite, _now: &Conditions<'_>) {
        let slot = write.slot.index();
        if write.created() {
            self.ring.insert(write.group);
            cover(&mut self.counter, slot, 0, self.most_groups);
            self.counter[slot] = self.initial;
        } else if write.existed() && (write.page_hit() || !write.sequential()) {
            self.counter[slot] = (self.counter[slot] + 1).min(self.most_count);
        }
    }

    fn pick(&mut self, directory: &Directory, _now: &Conditions<'_>) -> Option<Slot> {
        let laps = u64::from(self.most_count) + 1;
        self.ring.take(directory, laps, &mut self.counter, u8::MAX, 0).map(|(_, slot)| slot)
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        self.ring.candidate(directory)
    }
}
