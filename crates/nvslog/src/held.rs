//! Pages that a log holds: by page, and in the order of the commits they are in.
//!
//! Nodes of 48 bytes in one vector, a hash index from page to node (5 bytes), and a list along the
//! commits, so that what is live of the oldest commits is found without looking at the rest.

use super::contents::{HeldPage, Stored};
use alloc::vec::Vec;
use destage_engine::nvs::hash::HashIndex;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    page: u64,
    version: u64,
    sequence: u64,
    crc: u32,
    /// [`NONE`]: zeros.
    slot: u32,
    /// Along the commits.
    before: u32,
    after: u32,
    sectors: u8,
}

impl Node {
    fn new(page: u64, held: &HeldPage) -> Node {
        let HeldPage { version, sequence, sectors, stored } = *held;
        let Stored { slot, crc } = stored.unwrap_or(Stored { slot: NONE, crc: 0 });
        Node { page, version, sequence, crc, slot, before: NONE, after: NONE, sectors }
    }

    fn held(&self) -> HeldPage {
        let Node { version, sequence, crc, slot, sectors, .. } = *self;
        let stored = (slot != NONE).then_some(Stored { slot, crc });
        HeldPage { version, sequence, sectors, stored }
    }
}

/// At most one record of each page.
#[derive(Clone, Default)]
pub(super) struct HeldPages {
    nodes: Vec<Node>,
    free: Vec<u32>,
    index: HashIndex,
    /// Ends of the list along the commits.
    oldest: Option<u32>,
    newest: Option<u32>,
}

impl HeldPages {
    /// Pages held.
    pub(super) fn count(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    fn find(&self, page: u64) -> Option<u32> {
        self.index.find(page, |node| self.nodes[node as usize].page)
    }

    /// What putting a newer record of the page will look at: its node and the neighbours of that.
    pub(super) fn touch(&self, page: u64) -> Option<u64> {
        let node = &self.nodes[self.find(page)? as usize];
        let neighbours = [node.before, node.after]
            .map(|node| self.nodes.get(node as usize).map_or(0, |node| node.sequence));
        Some(neighbours[0] ^ neighbours[1])
    }

    /// What is held of a page.
    pub(super) fn get(&self, page: u64) -> Option<HeldPage> {
        self.find(page).map(|node| self.nodes[node as usize].held())
    }

    /// Holds this of a page; what was held of it before.
    pub(super) fn put(&mut self, page: u64, new: HeldPage) -> Option<HeldPage> {
        if let Some(node) = self.find(page) {
            let old = self.nodes[node as usize].held();
            self.unlink(node);
            self.nodes[node as usize] = Node::new(page, &new);
            self.link(node);
            return Some(old);
        }
        let node = self.free.pop().unwrap_or(self.nodes.len() as u32);
        match self.nodes.get_mut(node as usize) {
            Some(free) => *free = Node::new(page, &new),
            None => self.nodes.push(Node::new(page, &new)),
        }
        self.link(node);
        let nodes = &self.nodes;
        self.index.insert_growing(page, node, |node| nodes[node as usize].page);
        None
    }

    /// Takes out what is held of a page if it is `gone`.
    pub(super) fn take_if(
        &mut self,
        page: u64,
        gone: impl Fn(&HeldPage) -> bool,
    ) -> Option<HeldPage> {
        let node = self.find(page)?;
        let held = self.nodes[node as usize].held();
        if !gone(&held) {
            return None;
        }
        let nodes = &self.nodes;
        self.index.remove(page, |node| nodes[node as usize].page);
        self.unlink(node);
        self.free.push(node);
        Some(held)
    }

    /// The same for all pages of a range; each is shown.
    pub(super) fn take_range(
        &mut self,
        pages: core::ops::Range<u64>,
        gone: impl Fn(&HeldPage) -> bool,
        mut show: impl FnMut(u64, HeldPage),
    ) {
        // Each page of the range, or each that is held if these are fewer.
        let is_short = pages.clone().nth(self.count()).is_none();
        let some: Vec<u64> = if is_short {
            pages.collect()
        } else {
            let within = |page: &u64| pages.contains(page);
            let mut some: Vec<u64> =
                self.by_commit().map(|(page, _)| page).filter(within).collect();
            some.sort_unstable();
            some
        };
        for page in some {
            if let Some(held) = self.take_if(page, &gone) {
                show(page, held);
            }
        }
    }

    /// All of them, by page.
    pub(super) fn sorted(&self) -> Vec<(u64, HeldPage)> {
        let mut all: Vec<(u64, HeldPage)> = self.by_commit().collect();
        all.sort_unstable_by_key(|(page, _)| *page);
        all
    }

    /// All of them, in the order of their commits.
    pub(super) fn by_commit(&self) -> impl Iterator<Item = (u64, HeldPage)> + '_ {
        let mut at = self.oldest.unwrap_or(NONE);
        core::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.after;
            Some((node.page, node.held()))
        })
    }

    /// Puts a node into the list along the commits. One that has been frozen or thawed belongs
    /// further back: the search for its place begins at the newest.
    fn link(&mut self, slot: u32) {
        let sequence = self.nodes[slot as usize].sequence;
        let mut before = self.newest.unwrap_or(NONE);
        let mut after = NONE;
        while before != NONE && self.nodes[before as usize].sequence > sequence {
            after = before;
            before = self.nodes[before as usize].before;
        }
        let node = &mut self.nodes[slot as usize];
        (node.before, node.after) = (before, after);
        match before {
            NONE => self.oldest = Some(slot),
            _ => self.nodes[before as usize].after = slot,
        }
        match after {
            NONE => self.newest = Some(slot),
            _ => self.nodes[after as usize].before = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Node { before, after, .. } = self.nodes[slot as usize];
        let link = |slot: u32| (slot != NONE).then_some(slot);
        match before {
            NONE => self.oldest = link(after),
            _ => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.newest = link(before),
            _ => self.nodes[after as usize].before = before,
        }
    }
}
