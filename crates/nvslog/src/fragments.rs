//! The fragments of pages: by page, and in the order of the commits they are in.
//!
//! Nodes of some 64 bytes in one vector, a hash index from page to its oldest node (5 bytes), and
//! two links: to the next newer fragment of the page, and along the commits, so that what is
//! live of the oldest commits is found without looking at the rest.

use super::contents::{Fragment, Stored};
use alloc::vec::Vec;
use destage_engine::nvs::hash::HashIndex;

const NONE: u32 = u32::MAX;
/// Blocks of a fragment whose bytes are zeros.
const ZEROS: u32 = 0;

#[derive(Clone, Copy, Debug)]
struct Node {
    page: u64,
    version: u64,
    sequence: u64,
    block: u64,
    crc: u32,
    blocks: u32,
    offset: u16,
    bytes: u16,
    /// Next newer of the page.
    newer: u32,
    /// Along the commits.
    before: u32,
    after: u32,
}

impl Node {
    fn new(page: u64, fragment: &Fragment) -> Node {
        let Fragment { version, sequence, offset, bytes, stored } = *fragment;
        let (block, blocks, crc) =
            stored.map_or((0, ZEROS, 0), |s| (s.block, s.blocks as u32, s.crc));
        let (newer, before, after) = (NONE, NONE, NONE);
        Node { page, version, sequence, block, crc, blocks, offset, bytes, newer, before, after }
    }

    fn fragment(&self) -> Fragment {
        let Node { version, sequence, block, blocks, crc, offset, bytes, .. } = *self;
        let stored = Stored { block, blocks: u64::from(blocks), crc };
        let stored = (blocks != ZEROS).then_some(stored);
        Fragment { version, sequence, offset, bytes, stored }
    }
}

/// Fragments by page and by commit.
#[derive(Clone, Default)]
pub(super) struct Fragments {
    nodes: Vec<Node>,
    free: Vec<u32>,
    index: HashIndex,
    pages: usize,
    /// Ends of the list along the commits.
    oldest: Option<u32>,
    newest: Option<u32>,
}

impl Fragments {
    /// Pages with fragments.
    pub(super) fn pages_held(&self) -> usize {
        self.pages
    }

    fn first(&self, page: u64) -> Option<u32> {
        self.index.find(page, |slot| self.nodes[slot as usize].page)
    }

    /// What putting a newer fragment of the page will look at: its node and the neighbours of that.
    pub(super) fn touch(&self, page: u64) -> Option<u64> {
        let node = &self.nodes[self.first(page)? as usize];
        let near = [node.before, node.after]
            .map(|slot| self.nodes.get(slot as usize).map_or(0, |node| node.sequence));
        Some(near[0] ^ near[1])
    }

    /// Fragments of a page, oldest first.
    pub(super) fn of(&self, page: u64) -> impl Iterator<Item = Fragment> + '_ {
        let mut at = self.first(page).unwrap_or(NONE);
        core::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.newer;
            Some(node.fragment())
        })
    }

    /// Puts the newest fragment of a page; those that it covers are shown and go.
    pub(super) fn put_newest(&mut self, page: u64, new: Fragment, show: impl FnMut(Fragment)) {
        match self.first(page) {
            None => self.add_first(page, new),
            Some(only) if self.nodes[only as usize].newer == NONE => {
                self.put_after_one(only, page, new, show);
            }
            Some(_) => {
                self.take(page, |old| new.covers(old), show);
                self.add(page, new);
            }
        }
    }

    fn put_after_one(
        &mut self,
        only: u32,
        page: u64,
        new: Fragment,
        mut show: impl FnMut(Fragment),
    ) {
        let old = self.nodes[only as usize].fragment();
        if !new.covers(&old) {
            self.add(page, new);
            return;
        }
        show(old);
        self.unlink_commit(only);
        self.nodes[only as usize] = Node::new(page, &new);
        self.link_commit(only);
    }

    fn add_node(&mut self, page: u64, fragment: &Fragment) -> u32 {
        let node = Node::new(page, fragment);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        });
        self.nodes[slot as usize] = node;
        self.link_commit(slot);
        slot
    }

    /// Adds a fragment of a page that has none.
    fn add_first(&mut self, page: u64, fragment: Fragment) {
        let slot = self.add_node(page, &fragment);
        let nodes = &self.nodes;
        self.index.insert_growing(page, slot, |slot| nodes[slot as usize].page);
        self.pages += 1;
    }

    /// Puts a fragment where its version belongs.
    pub(super) fn add(&mut self, page: u64, fragment: Fragment) {
        let Some(first) = self.first(page) else { return self.add_first(page, fragment) };
        let version = fragment.version;
        let slot = self.add_node(page, &fragment);
        if version < self.nodes[first as usize].version {
            self.nodes[slot as usize].newer = first;
            self.index.replace(page, slot, first);
            return;
        }
        let mut at = first;
        loop {
            let next = self.nodes[at as usize].newer;
            if next == NONE || self.nodes[next as usize].version > version {
                self.nodes[slot as usize].newer = next;
                self.nodes[at as usize].newer = slot;
                return;
            }
            at = next;
        }
    }

    /// Takes out the fragments of a page that `gone` names, and shows them.
    pub(super) fn take(
        &mut self,
        page: u64,
        mut gone: impl FnMut(&Fragment) -> bool,
        mut show: impl FnMut(Fragment),
    ) {
        let Some(first) = self.first(page) else { return };
        let (mut last_kept, mut new_first) = (NONE, NONE);
        let mut at = first;
        while at != NONE {
            let node = self.nodes[at as usize];
            let fragment = node.fragment();
            if gone(&fragment) {
                show(fragment);
                self.unlink_commit(at);
                self.free.push(at);
            } else {
                if last_kept == NONE {
                    new_first = at;
                } else {
                    self.nodes[last_kept as usize].newer = at;
                }
                last_kept = at;
            }
            at = node.newer;
        }
        if last_kept != NONE {
            self.nodes[last_kept as usize].newer = NONE;
        }
        if new_first == NONE {
            let nodes = &self.nodes;
            self.index.remove(page, |slot| nodes[slot as usize].page);
            self.pages -= 1;
        } else if new_first != first {
            self.index.replace(page, new_first, first);
        }
    }

    /// The same for all pages of a range.
    pub(super) fn take_range(
        &mut self,
        pages: core::ops::Range<u64>,
        gone: impl Fn(&Fragment) -> bool,
        mut show: impl FnMut(u64, Fragment),
    ) {
        if self.pages == 0 {
            return;
        }
        if pages.end - pages.start <= self.pages as u64 {
            for page in pages {
                self.take(page, &gone, |fragment| show(page, fragment));
            }
            return;
        }
        for page in self.all().into_iter().filter(|page| pages.contains(page)) {
            self.take(page, &gone, |fragment| show(page, fragment));
        }
    }

    /// All pages with fragments, in order.
    pub(super) fn all(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = self.by_commit().map(|(page, _)| page).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Fragments in the order of their commits.
    pub(super) fn by_commit(&self) -> impl Iterator<Item = (u64, Fragment)> + '_ {
        let mut at = self.oldest.unwrap_or(NONE);
        core::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.after;
            Some((node.page, node.fragment()))
        })
    }

    /// Appends to the list along the commits. A fragment that has been frozen or thawed belongs
    /// further back: the search for its place begins at the newest.
    fn link_commit(&mut self, slot: u32) {
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

    fn unlink_commit(&mut self, slot: u32) {
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
