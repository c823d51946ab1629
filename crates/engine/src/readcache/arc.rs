//! ARC: blocks seen once (T1) and more often (T2), each by last access; the ghosts of both (B1,
//! B2) say which of them should be larger.

use super::fault::{Queue, Worth};
use super::store::{List, NONE, Store};
use super::{EvictionOrder, ReadPolicyEntry, entry};

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "arc",
        "recency and frequency, balanced by what was evicted too early",
        "ARC (FAST'03) Fig. 4; docs/readcache.md",
        &[],
    ),
    aware: Some(entry(
        "vdf-arc",
        "fault-aware ARC: ARC says T1 or T2; of its oldest blocks of both classes, as vdf-lru",
        "VDF (USENIX ATC'11) section 3.3; docs/readcache.md",
        &[],
    )),
    make: |_, config| super::cache::boxed(Arc::new(config.blocks), config),
};

const T1: u32 = 0;
const T2: u32 = 1;
const B1: u32 = 2;

/// The four lists.
#[derive(Clone)]
pub struct Arc {
    blocks: usize,
    /// T1 and T2.
    held: [Queue; 2],
    /// B1 and B2.
    ghosts: [List; 2],
    /// Blocks that T1 should have.
    target: usize,
    /// The block asked for was in B2.
    was_in_b2: bool,
    /// The victim comes from T1, or T2.
    victims: usize,
    /// The victim is forgotten at once.
    forget: bool,
}

impl Arc {
    fn new(blocks: usize) -> Arc {
        Arc {
            blocks,
            held: [Queue::EMPTY; 2],
            ghosts: [List::EMPTY; 2],
            target: 0,
            was_in_b2: false,
            victims: 0,
            forget: false,
        }
    }

    fn forget_oldest(&mut self, store: &mut Store, ghosts: usize) {
        let slot = self.ghosts[ghosts].oldest;
        if slot != NONE {
            self.ghosts[ghosts].unlink(&mut store.nodes, slot);
            store.free(slot);
        }
    }
}

impl EvictionOrder for Arc {
    fn hit(&mut self, store: &mut Store, slot: u32) {
        if store.nodes[slot as usize].list == T2 {
            return self.held[1].renew(&mut store.nodes, slot);
        }
        self.held[0].unlink(&mut store.nodes, slot);
        store.nodes[slot as usize].list = T2;
        self.held[1].push(&mut store.nodes, slot);
    }

    fn recall(&mut self, store: &mut Store, slot: u32) {
        let (b1, b2) = (self.ghosts[0].len, self.ghosts[1].len);
        self.was_in_b2 = store.nodes[slot as usize].list != B1;
        if self.was_in_b2 {
            self.target = self.target.saturating_sub((b1 / b2).max(1));
        } else {
            self.target = (self.target + (b2 / b1).max(1)).min(self.blocks);
        }
        self.ghosts[usize::from(self.was_in_b2)].unlink(&mut store.nodes, slot);
    }

    fn prepare(&mut self, store: &mut Store, recalled: bool) {
        let (t1, t2) = (self.held[0].len(), self.held[1].len());
        let over = t1 > self.target || recalled && self.was_in_b2 && t1 == self.target;
        self.victims = usize::from(!(t1 > 0 && over || t2 == 0));
        self.forget = false;
        if recalled {
            return;
        }
        let (b1, b2) = (self.ghosts[0].len, self.ghosts[1].len);
        if t1 + b1 < self.blocks {
            if t1 + t2 + b1 + b2 >= 2 * self.blocks {
                self.forget_oldest(store, 1);
            }
        } else if b1 > 0 {
            self.forget_oldest(store, 0);
        } else {
            self.victims = 0;
            self.forget = true;
        }
    }

    fn insert(&mut self, store: &mut Store, slot: u32, recalled: bool) {
        store.nodes[slot as usize].list = if recalled { T2 } else { T1 };
        self.held[usize::from(recalled)].push(&mut store.nodes, slot);
    }

    fn candidate(&mut self, _store: &mut Store, class: u8) -> u32 {
        self.held[self.victims].oldest(class)
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        let list = store.nodes[slot as usize].list;
        self.held[list as usize].unlink(&mut store.nodes, slot);
    }

    fn evicted(&mut self, store: &mut Store, slot: u32) {
        if self.forget {
            return store.free(slot);
        }
        let node = &mut store.nodes[slot as usize];
        let from = node.list as usize;
        node.list = B1 + from as u32;
        self.ghosts[from].push(&mut store.nodes, slot);
    }

    fn worth(&self, _store: &Store, _slot: u32) -> Worth {
        Worth::Age
    }

    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        for queue in &mut self.held {
            queue.refile(&mut store.nodes, class_of, |_, node| node.stamp);
        }
    }
}
