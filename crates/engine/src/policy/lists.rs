//! Doubly linked lists of slots, oldest to newest, that share one vector of links: 8 bytes per
//! group, whatever the number of lists. A slot is in one list at most.

use crate::bounded::cover;
use crate::nvs::directory::{Directory, Slot};
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
}

/// The links of all lists.
pub struct Links {
    links: Vec<Link>,
    most: usize,
}

/// The ends of one list.
#[derive(Clone, Copy)]
pub struct List {
    oldest: u32,
    newest: u32,
}

impl List {
    /// A list of nothing.
    pub const EMPTY: List = List { oldest: NONE, newest: NONE };

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    /// Whether the slot is its newest.
    pub fn is_newest(&self, slot: Slot) -> bool {
        self.newest == slot.0
    }
}

impl Links {
    /// Links for at most `nvs_pages` slots.
    pub fn new(nvs_pages: u64) -> Links {
        Links { links: Vec::new(), most: nvs_pages as usize }
    }

    /// Puts a slot that is in no list at the newest end.
    pub fn append(&mut self, list: &mut List, slot: Slot) {
        let slot = slot.0;
        cover(&mut self.links, slot as usize, Link { older: NONE, newer: NONE }, self.most);
        self.links[slot as usize] = Link { older: list.newest, newer: NONE };
        match list.newest {
            NONE => list.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        list.newest = slot;
    }

    /// Takes a slot out of the list it is in.
    pub fn unlink(&mut self, list: &mut List, slot: Slot) {
        let Link { older, newer } = self.links[slot.index()];
        match older {
            NONE => list.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            newer => self.links[newer as usize].older = older,
        }
    }

    /// The oldest of a list.
    pub fn oldest(&self, list: &List) -> Option<Slot> {
        if list.is_empty() { None } else { Some(Slot(list.oldest)) }
    }

    /// The oldest of a list that may be picked.
    pub fn oldest_that_may_go(&self, list: &List, directory: &Directory) -> Option<Slot> {
        let mut at = list.oldest;
        while at != NONE {
            if directory.may_pick(Slot(at)) {
                return Some(Slot(at));
            }
            at = self.links[at as usize].newer;
        }
        None
    }
}
