//! Where a read cache keeps its blocks: one flat array of nodes, linked by 32-bit numbers, and an
//! open-addressed index from block to node. Nothing is allocated for an access once both have
//! grown to their size.

use crate::hash;
use alloc::vec;
use alloc::vec::Vec;

/// No node.
pub const NONE: u32 = u32::MAX;

/// A block that is held, or a ghost: one that was held and is remembered. 32
/// bytes, and aligned so that none crosses a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Node {
    /// The block.
    pub block: u64,
    /// Time of the last access, in block requests.
    pub stamp: u64,
    /// Neighbour towards the oldest end of its list.
    pub older: u32,
    /// Neighbour towards the newest end; the next free node if this one is free.
    pub newer: u32,
    /// Which list or bucket it is in, as the policy numbers them.
    pub list: u32,
    /// [`super::fault::LIGHT`] or [`super::fault::HEAVY`].
    pub class: u8,
    /// Reference bits, as the policy uses them.
    pub bits: u8,
    /// Held, not a ghost.
    pub resident: bool,
}

/// Block to node: entries of 32 bits of hash and the node's number, linear probing, backward-shift
/// deletion, never over half full: most probes end at once.
#[derive(Clone)]
struct Index {
    table: Vec<u64>,
    shift: u32,
    used: usize,
}

fn hash_of(block: u64) -> u32 {
    (hash::of(block) >> 32) as u32
}

impl Index {
    fn new() -> Index {
        Index { table: vec![u64::MAX; 64], shift: 32 - 6, used: 0 }
    }

    #[inline]
    fn locate(&self, block: u64, nodes: &[Node]) -> Option<(usize, u32)> {
        let (tag, mask) = (hash_of(block), self.table.len() - 1);
        let mut at = (tag >> self.shift) as usize;
        loop {
            let entry = self.table[at & mask];
            let slot = entry as u32;
            // Most look-ups find their block at once. A free entry has no node.
            if (entry >> 32) as u32 == tag
                && nodes.get(slot as usize).is_some_and(|node| node.block == block)
            {
                return Some((at & mask, slot));
            }
            if slot == NONE {
                return None;
            }
            at += 1;
        }
    }

    #[inline]
    fn insert(&mut self, block: u64, slot: u32) {
        self.used += 1;
        if self.used * 2 > self.table.len() {
            self.grow();
        }
        self.place(u64::from(hash_of(block)) << 32 | u64::from(slot));
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mask = self.table.len() - 1;
        let mut at = ((entry >> 32) as u32 >> self.shift) as usize;
        while self.table[at & mask] as u32 != NONE {
            at += 1;
        }
        self.table[at & mask] = entry;
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.table.len() * 2;
        assert!(self.shift > 0, "more blocks than a read cache may have");
        self.shift -= 1;
        let old = core::mem::replace(&mut self.table, vec![u64::MAX; size]);
        for entry in old.into_iter().filter(|entry| *entry as u32 != NONE) {
            self.place(entry);
        }
    }

    /// Takes out the entry of a block that has this node.
    #[inline]
    fn remove(&mut self, block: u64, slot: u32) {
        let mask = self.table.len() - 1;
        let mut hole = (hash_of(block) >> self.shift) as usize & mask;
        while self.table[hole] as u32 != slot {
            assert!(self.table[hole] as u32 != NONE, "the block is known");
            hole = (hole + 1) & mask;
        }
        self.used -= 1;
        let mut at = (hole + 1) & mask;
        loop {
            let entry = self.table[at];
            if entry as u32 == NONE {
                break;
            }
            let home = ((entry >> 32) as u32 >> self.shift) as usize;
            // It may move back to the hole unless its home is after the hole.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.table[hole] = entry;
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.table[hole] = u64::MAX;
    }
}

/// The blocks held and the ghosts.
#[derive(Clone)]
pub struct Store {
    /// By number; those on the free list are unused.
    pub nodes: Vec<Node>,
    index: Index,
    free: u32,
    /// Blocks held, without ghosts.
    pub held: usize,
}

impl Store {
    /// An empty store.
    pub fn new() -> Store {
        Store { nodes: Vec::new(), index: Index::new(), free: NONE, held: 0 }
    }

    /// Bytes that nodes and index take.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.index.table.capacity() * size_of::<u64>()
    }

    /// The node of a block, held or ghost, or [`NONE`].
    #[inline]
    pub fn find(&self, block: u64) -> u32 {
        match self.index.locate(block, &self.nodes) {
            Some((_, slot)) => slot,
            None => NONE,
        }
    }

    /// Reads where the block would be in the index, so that a look-up soon after finds it in the
    /// processor's cache. What it returns means nothing, but must be used.
    #[inline]
    pub fn foresee(&self, block: u64) -> u64 {
        self.index.table[(hash_of(block) >> self.index.shift) as usize]
    }

    /// [`Store::foresee`], and the node that is most likely the block's.
    #[inline]
    pub fn foresee_node(&self, block: u64) -> u64 {
        let slot = self.foresee(block) as u32;
        self.nodes.get(slot as usize).map_or(0, |node| node.stamp)
    }

    /// A node for a block that has none, in no list yet.
    #[inline]
    pub fn add(&mut self, block: u64) -> u32 {
        let node = Node {
            block,
            stamp: 0,
            older: NONE,
            newer: NONE,
            list: 0,
            class: 0,
            bits: 0,
            resident: false,
        };
        let slot = self.free;
        let slot = if slot == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            self.free = self.nodes[slot as usize].newer;
            self.nodes[slot as usize] = node;
            slot
        };
        self.index.insert(block, slot);
        slot
    }

    /// Frees a node that is in no list.
    #[inline]
    pub fn free(&mut self, slot: u32) {
        let node = &mut self.nodes[slot as usize];
        self.index.remove(node.block, slot);
        node.resident = false;
        node.newer = self.free;
        self.free = slot;
    }
}

/// A doubly linked list of nodes.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The end that was joined first.
    pub oldest: u32,
    /// The end at which nodes join.
    pub newest: u32,
    /// Nodes in it.
    pub len: usize,
}

impl List {
    /// No nodes.
    pub const EMPTY: List = List { oldest: NONE, newest: NONE, len: 0 };

    /// Adds a node at the newest end.
    #[inline]
    pub fn push(&mut self, nodes: &mut [Node], slot: u32) {
        let node = &mut nodes[slot as usize];
        node.older = self.newest;
        node.newer = NONE;
        match self.newest {
            NONE => self.oldest = slot,
            newest => nodes[newest as usize].newer = slot,
        }
        self.newest = slot;
        self.len += 1;
    }

    /// Takes a node out.
    #[inline]
    pub fn unlink(&mut self, nodes: &mut [Node], slot: u32) {
        let Node { older, newer, .. } = nodes[slot as usize];
        match older {
            NONE => self.oldest = newer,
            older => nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => nodes[newer as usize].older = older,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_index_agrees_with_a_map_under_random_operations() {
        let mut store = Store::new();
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut state = 1u64;
        for round in 0..60_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = (state >> 33) % 6000 * if round % 2 == 0 { 1 } else { 1 << 40 };
            if let Some(slot) = model.remove(&block) {
                assert_eq!(store.find(block), slot);
                store.free(slot);
            } else {
                model.insert(block, store.add(block));
            }
            assert_eq!(store.find(block), model.get(&block).copied().unwrap_or(NONE));
        }
        assert!(store.nodes.len() <= 12_000);
        for (block, slot) in model {
            assert_eq!(store.find(block), slot);
        }
    }
}
