//! CLOCK: blocks in a ring, one reference bit each; the hand passes over a referenced block once.
//!
//! The ring is a queue whose oldest block is under the hand: passing over a block sends it to the
//! newest end, as a new block comes in just behind the hand. Each class has a ring of its own.

use super::fault::Worth;
use super::place::Places;
use super::store::{NONE, Store};
use super::{EvictionOrder, ReadPolicyEntry, entry};

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "clock",
        "first in, first out, with a second chance for referenced blocks",
        "Corbato, A paging experiment with the Multics system (1968); ARC (FAST'03) section II",
        &[],
    ),
    aware: Some(entry(
        "vdf-clock",
        "fault-aware CLOCK: a hand a class; ages of the two blocks found, weighed as in vdf-lru",
        "VDF (USENIX ATC'11) section 3.3; docs/readcache.md",
        &[],
    )),
    make: |_, config| super::cache::boxed(Clock { ring: Places::new() }, config),
};

/// Blocks in a ring.
#[derive(Clone)]
pub struct Clock {
    ring: Places,
}

impl EvictionOrder for Clock {
    #[inline]
    fn hit(&mut self, store: &mut Store, slot: u32) {
        store.nodes[slot as usize].bits = 1;
    }

    fn insert(&mut self, store: &mut Store, slot: u32, _recalled: bool) {
        store.nodes[slot as usize].bits = 0;
        self.ring.join(&mut store.nodes, slot);
    }

    fn candidate(&mut self, store: &mut Store, class: u8) -> u32 {
        loop {
            let slot = self.ring.queue.oldest(class);
            if slot == NONE || store.nodes[slot as usize].bits == 0 {
                return slot;
            }
            store.nodes[slot as usize].bits = 0;
            self.ring.queue.unlink(&mut store.nodes, slot);
            self.ring.join(&mut store.nodes, slot);
        }
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        self.ring.queue.unlink(&mut store.nodes, slot);
    }

    fn worth(&self, _store: &Store, _slot: u32) -> Worth {
        Worth::Age
    }

    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        self.ring.refile(store, class_of);
    }
}
