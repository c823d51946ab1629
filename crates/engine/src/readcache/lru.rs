//! LRU: the block whose last access is longest ago.

use super::fault::{Queue, Worth};
use super::store::Store;
use super::{EvictionOrder, ReadPolicyEntry, entry};

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "lru",
        "least recently used block first",
        "VDF (USENIX ATC'11) section 2.2; docs/readcache.md",
        &[],
    ),
    aware: Some(entry(
        "vdf-lru",
        "fault-aware LRU: the greatest age, ages of blocks off the failed disk times n-1",
        "VDF (USENIX ATC'11) Algorithm 1; docs/readcache.md",
        &[],
    )),
    make: |_, config| super::cache::boxed(Lru { queue: Queue::EMPTY }, config),
};

/// Blocks by last access.
#[derive(Clone)]
pub struct Lru {
    queue: Queue,
}

impl EvictionOrder for Lru {
    #[inline]
    fn hit(&mut self, store: &mut Store, slot: u32) {
        self.queue.renew(&mut store.nodes, slot);
    }

    #[inline]
    fn insert(&mut self, store: &mut Store, slot: u32, _recalled: bool) {
        self.queue.push(&mut store.nodes, slot);
    }

    #[inline]
    fn candidate(&mut self, _store: &mut Store, class: u8) -> u32 {
        self.queue.oldest(class)
    }

    #[inline]
    fn unlink(&mut self, store: &mut Store, slot: u32) {
        self.queue.unlink(&mut store.nodes, slot);
    }

    #[inline]
    fn worth(&self, _store: &Store, _slot: u32) -> Worth {
        Worth::Age
    }

    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        self.queue.refile(&mut store.nodes, class_of, |_, node| node.stamp);
    }
}
