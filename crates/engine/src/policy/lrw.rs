//! LRW: the least recently written group.

use super::{DestagePolicy, PageWrite, PolicyEntry};
use crate::bounded::cover;
use crate::nvs::directory::{Directory, Slot};
use crate::registry::Entry;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "lrw",
        summary: "least recently written group first: temporal locality only",
        source: "WOW (FAST'05) section II-A; docs/simulator.md",
        params: &[],
    },
    make: |_, context| Ok(Box::new(Lrw::new(context.nvs_pages))),
};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Links {
    older: u32,
    newer: u32,
}

/// Groups in a list by their last write, 8 bytes a group.
struct Lrw {
    links: Vec<Links>,
    oldest: u32,
    newest: u32,
    most: usize,
}

impl Lrw {
    fn new(nvs_pages: u64) -> Lrw {
        Lrw { links: Vec::new(), oldest: NONE, newest: NONE, most: nvs_pages as usize }
    }

    fn unlink(&mut self, slot: u32) {
        let Links { older, newer } = self.links[slot as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
    }

    fn append(&mut self, slot: u32) {
        self.links[slot as usize] = Links { older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        self.newest = slot;
    }

    fn oldest_that_may_go(&self, directory: &Directory) -> Option<Slot> {
        let mut at = self.oldest;
        while at != NONE {
            if directory.may_pick(Slot(at)) {
                return Some(Slot(at));
            }
            at = self.links[at as usize].newer;
        }
        None
    }
}

impl DestagePolicy for Lrw {
    fn needs_detector(&self) -> bool {
        false
    }

    fn on_write(&mut self, write: &PageWrite) {
        let slot = write.slot.0;
        if write.created {
            cover(&mut self.links, slot as usize, Links { older: NONE, newer: NONE }, self.most);
        } else if self.newest == slot {
            return;
        } else {
            self.unlink(slot);
        }
        self.append(slot);
    }

    fn pick(&mut self, directory: &Directory) -> Option<Slot> {
        let slot = self.oldest_that_may_go(directory)?;
        self.unlink(slot.0);
        Some(slot)
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        self.oldest_that_may_go(directory)
    }
}
