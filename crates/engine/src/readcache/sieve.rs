//! SIEVE: a queue in order of loading that is never reordered; a hand moves from the oldest to the
//! newest, takes the mark from blocks accessed since it last came by, and stops at one without.

use super::fault::{HEAVY, LIGHT, Worth};
use super::place::Places;
use super::store::{NONE, Store};
use super::{EvictionOrder, ReadPolicyEntry, entry};

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "sieve",
        "a hand over blocks in order of loading evicts the next one not accessed since it passed",
        "SIEVE (NSDI'24) Algorithm 1; docs/readcache.md",
        &[],
    ),
    aware: Some(entry(
        "vdf-sieve",
        "fault-aware SIEVE: a hand a class; ages of the two blocks found, weighed as in vdf-lru",
        "VDF (USENIX ATC'11) section 3.3; docs/readcache.md",
        &[],
    )),
    make: |_, config| {
        super::cache::boxed(Sieve { loaded: Places::new(), hands: [NONE; 2] }, config)
    },
};

/// Blocks in order of loading.
#[derive(Clone)]
pub struct Sieve {
    loaded: Places,
    /// Where each class's hand continues; [`NONE`]: at the oldest.
    hands: [u32; 2],
}

impl EvictionOrder for Sieve {
    #[inline]
    fn hit(&mut self, store: &mut Store, slot: u32) {
        store.nodes[slot as usize].bits = 1;
    }

    fn insert(&mut self, store: &mut Store, slot: u32, _recalled: bool) {
        store.nodes[slot as usize].bits = 0;
        self.loaded.join(&mut store.nodes, slot);
    }

    fn candidate(&mut self, store: &mut Store, class: u8) -> u32 {
        let oldest = self.loaded.queue.oldest(class);
        let from_start = |at| if at == NONE { oldest } else { at };
        let mut at = from_start(self.hands[usize::from(class)]);
        while at != NONE && store.nodes[at as usize].bits != 0 {
            store.nodes[at as usize].bits = 0;
            at = from_start(store.nodes[at as usize].newer);
        }
        self.hands[usize::from(class)] = at;
        at
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        let node = store.nodes[slot as usize];
        let hand = &mut self.hands[usize::from(node.class)];
        if *hand == slot {
            *hand = node.newer;
        }
        self.loaded.queue.unlink(&mut store.nodes, slot);
    }

    fn worth(&self, _store: &Store, _slot: u32) -> Worth {
        Worth::Age
    }

    /// A hand stays where it was; that of a class that was empty begins where the other's is.
    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        let was_empty = [LIGHT, HEAVY].map(|class| self.loaded.queue.oldest(class) == NONE);
        let at = self.hands.map(|hand| (hand != NONE).then(|| self.loaded.joined(hand)));
        self.loaded.refile(store, class_of);
        for class in [LIGHT, HEAVY] {
            let own = usize::from(class);
            let place = if was_empty[own] { at[1 - own] } else { at[own] };
            self.hands[own] = NONE;
            let Some(place) = place else { continue };
            let mut slot = self.loaded.queue.oldest(class);
            while slot != NONE && self.loaded.joined(slot) < place {
                slot = store.nodes[slot as usize].newer;
            }
            self.hands[own] = slot;
        }
    }
}
