//! LRW: the least recently written group.

use super::lists::{Links, List};
use super::{DestagePolicy, PageWrite, PolicyEntry};
use crate::conditions::Conditions;
use crate::nvs::directory::{Directory, Slot};
use crate::registry::Entry;
use alloc::boxed::Box;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "lrw",
        summary: "least recently written group first: temporal locality only",
        source: "WOW (FAST'05) section II-A; LRU in Haining & Long; docs/simulator.md",
        params: &[],
    },
    make: |_, context| {
        Ok(Box::new(Lrw { links: Links::new(context.nvs_pages), list: List::EMPTY }))
    },
};

/// Groups in a list by their last write.
struct Lrw {
    links: Links,
    list: List,
}

impl DestagePolicy for Lrw {
    fn needs_detector(&self) -> bool {
        false
    }

    fn on_write(&mut self, write: PageWrite, _now: &Conditions<'_>) {
        if !write.created() {
            if self.list.is_newest(write.slot) {
                return;
            }
            self.links.unlink(&mut self.list, write.slot);
        }
        self.links.append(&mut self.list, write.slot);
    }

    fn pick(&mut self, directory: &Directory, _now: &Conditions<'_>) -> Option<Slot> {
        let slot = self.links.oldest_that_may_go(&self.list, directory)?;
        self.links.unlink(&mut self.list, slot);
        Some(slot)
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        self.links.oldest_that_may_go(&self.list, directory)
    }
}
