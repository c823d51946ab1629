//! LST: the group with the most dirty pages; ties to the least recently written.

use super::lists::{Links, List};
use super::ordered::OrderedGroups;
use super::{DestagePolicy, PageWrite, PolicyEntry};
use crate::bounded::cover;
use crate::conditions::Conditions;
use crate::nvs::directory::{Directory, MAX_PAGES_PER_GROUP, Slot};
use crate::registry::Entry;
use crate::units::GroupId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "lst",
        summary: "largest segment per track: the group with the most dirty pages first",
        source: "Haining & Long section 2.1; docs/simulator.md",
        params: &[],
    },
    make: |_, context| Ok(Box::new(Lst::new(context.nvs_pages))),
};

/// Groups in a list by their last write for each number of dirty pages, and the numbers in use.
struct Lst {
    links: Links,
    sizes: BySize,
}

/// The lists of LST, on links that others may share.
pub struct BySize {
    /// By pages held.
    lists: Vec<List>,
    /// Per slot: the list it is in.
    size: Vec<u16>,
    /// `MAX_PAGES_PER_GROUP - pages` of every list that is not empty: the largest comes first.
    used: OrderedGroups,
    most_groups: usize,
}

impl BySize {
    /// No groups.
    pub fn new(nvs_pages: u64) -> BySize {
        BySize {
            lists: Vec::new(),
            size: Vec::new(),
            used: OrderedGroups::new(MAX_PAGES_PER_GROUP + 1, 0),
            most_groups: nvs_pages as usize,
        }
    }

    /// Adds a group of `pages` as the most recently written of that size.
    pub fn insert(&mut self, links: &mut Links, slot: Slot, pages: u64) {
        let size = pages as usize;
        if self.lists.len() <= size {
            self.lists.resize(size + 1, List::EMPTY);
        }
        if self.lists[size].is_empty() {
            self.used.insert(GroupId(MAX_PAGES_PER_GROUP - pages));
        }
        links.append(&mut self.lists[size], slot);
        cover(&mut self.size, slot.index(), 0, self.most_groups);
        self.size[slot.index()] = pages as u16;
    }

    /// Takes a group out; how many pages it had.
    pub fn remove(&mut self, links: &mut Links, slot: Slot) -> u64 {
        let pages = self.size[slot.index()];
        let list = &mut self.lists[usize::from(pages)];
        links.unlink(list, slot);
        if list.is_empty() {
            self.used.remove(GroupId(MAX_PAGES_PER_GROUP - u64::from(pages)));
        }
        u64::from(pages)
    }

    /// The largest group that may be picked, of those the least recently written.
    pub fn largest_that_may_go(&self, links: &Links, directory: &Directory) -> Option<Slot> {
        let mut from = 0;
        while let Some(found) = self.used.at_or_after(from) {
            let pages = (MAX_PAGES_PER_GROUP - found.0) as usize;
            if let Some(slot) = links.oldest_that_may_go(&self.lists[pages], directory) {
                return Some(slot);
            }
            from = found.0 + 1;
        }
        None
    }
}

impl Lst {
    fn new(nvs_pages: u64) -> Lst {
        Lst { links: Links::new(nvs_pages), sizes: BySize::new(nvs_pages) }
    }
}

impl DestagePolicy for Lst {
    fn needs_detector(&self) -> bool {
        false
    }

    fn on_write(&mut self, write: PageWrite, _now: &Conditions<'_>) {
        let before =
            if write.created() { 0 } else { self.sizes.remove(&mut self.links, write.slot) };
        self.sizes.insert(&mut self.links, write.slot, before + u64::from(!write.page_hit()));
    }

    fn pick(&mut self, directory: &Directory, _now: &Conditions<'_>) -> Option<Slot> {
        let slot = self.sizes.largest_that_may_go(&self.links, directory)?;
        self.sizes.remove(&mut self.links, slot);
        Some(slot)
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        self.sizes.largest_that_may_go(&self.links, directory)
    }
}
