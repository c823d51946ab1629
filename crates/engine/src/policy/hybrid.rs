//! The hybrid that WOW and STOW compare themselves with: an LRW hot zone over an LST cold zone.

use super::lists::{Links, List};
use super::lst::BySize;
use super::{DestagePolicy, PageWrite, PolicyEntry};
use crate::bounded::cover;
use crate::conditions::Conditions;
use crate::nvs::directory::{Directory, Slot};
use crate::registry::{Entry, Param};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "lrw-lst",
        summary: "hot zone by recency over a cold zone by size: new and rewritten groups are hot",
        source: "WOW (FAST'05) section II-C, on its [32] and [33]; docs/simulator.md",
        params: &[Param {
            name: "hot",
            unit: "% of NVS",
            default: "50",
            range: "0 to 100",
            help: "size of the hot zone: 100 is lrw, 0 is lst",
        }],
    },
    make: |choice, context| {
        let hot: u64 = choice.number("hot", 0, 100)?;
        Ok(Box::new(Hybrid::new(context.nvs_pages, context.nvs_pages * hot / 100)))
    },
};

/// A group is written into the hot zone; the least recently written leave it for the cold zone
/// when it grows past its size. Victims come from the cold zone while there are any.
struct Hybrid {
    links: Links,
    hot: List,
    cold: BySize,
    /// Per slot: pages, and whether it is hot.
    state: Vec<State>,
    hot_pages: u64,
    hot_pages_max: u64,
    most_groups: usize,
}

#[derive(Clone, Copy, Default)]
struct State {
    pages: u16,
    hot: bool,
}

impl Hybrid {
    fn new(nvs_pages: u64, hot_pages_max: u64) -> Hybrid {
        Hybrid {
            links: Links::new(nvs_pages),
            hot: List::EMPTY,
            cold: BySize::new(nvs_pages),
            state: Vec::new(),
            hot_pages: 0,
            hot_pages_max,
            most_groups: nvs_pages as usize,
        }
    }

    fn leave(&mut self, slot: Slot) {
        let State { pages, hot } = self.state[slot.index()];
        if hot {
            self.links.unlink(&mut self.hot, slot);
            self.hot_pages -= u64::from(pages);
        } else {
            self.cold.remove(&mut self.links, slot);
        }
    }

    fn cool(&mut self) {
        while self.hot_pages > self.hot_pages_max
            && let Some(slot) = self.links.oldest(&self.hot)
        {
            self.leave(slot);
            let state = &mut self.state[slot.index()];
            state.hot = false;
            self.cold.insert(&mut self.links, slot, u64::from(state.pages));
        }
    }

    fn victim(&self, directory: &Directory) -> Option<Slot> {
        let cold = self.cold.largest_that_may_go(&self.links, directory);
        cold.or_else(|| self.links.oldest_that_may_go(&self.hot, directory))
    }
}

impl DestagePolicy for Hybrid {
    fn needs_detector(&self) -> bool {
        false
    }

    fn on_write(&mut self, write: PageWrite, _now: &Conditions<'_>) {
        let slot = write.slot;
        cover(&mut self.state, slot.index(), State::default(), self.most_groups);
        let mut pages = u16::from(!write.page_hit());
        if !write.created() {
            pages += self.state[slot.index()].pages;
            self.leave(slot);
        }
        self.state[slot.index()] = State { pages, hot: true };
        self.links.append(&mut self.hot, slot);
        self.hot_pages += u64::from(pages);
        self.cool();
    }

    fn pick(&mut self, directory: &Directory, _now: &Conditions<'_>) -> Option<Slot> {
        let slot = self.victim(directory)?;
        self.leave(slot);
        Some(slot)
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        self.victim(directory)
    }
}
