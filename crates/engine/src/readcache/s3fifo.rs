//! S3-FIFO: new blocks pass through a small queue; those accessed more than once there move
//! to the main queue, the others leave early but are remembered for a while as ghosts.

use super::fault::{HEAVY, LIGHT, Worth};
use super::ghosts::Ghosts;
use super::place::Places;
use super::store::{NONE, Store};
use super::{EvictionOrder, ReadPolicyEntry, entry};

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "s3-fifo",
        "a small queue for new blocks (a tenth), a main queue with second chances, and ghosts",
        "S3-FIFO (SOSP'23) Algorithm 1; docs/readcache.md",
        &[],
    ),
    aware: Some(entry(
        "vdf-s3-fifo",
        "fault-aware S3-FIFO: both queues a class; sizes say which, then ages as in vdf-lru",
        "VDF (USENIX ATC'11) section 3.3; docs/readcache.md",
        &[],
    )),
    make: |_, config| super::cache::boxed(S3Fifo::new(config.blocks), config),
};

const SMALL: u32 = 0;
const MAIN: u32 = 1;
/// Accesses are counted up to this.
const BITS_MAX: u8 = 3;

/// The three queues.
#[derive(Clone)]
pub struct S3Fifo {
    /// Small and main.
    held: [Places; 2],
    ghosts: Ghosts,
    /// Blocks that the small queue may have before it gives up victims.
    small: usize,
    /// The victim comes from the small queue, or the main one.
    victims: usize,
}

impl S3Fifo {
    fn new(blocks: usize) -> S3Fifo {
        let small = (blocks / 10).max(1);
        S3Fifo {
            held: [Places::new(), Places::new()],
            ghosts: Ghosts::new(blocks - small),
            small,
            victims: 0,
        }
    }

    /// Sends the blocks of a class at the end of the small queue that earned it to the main one.
    fn promote(&mut self, store: &mut Store, class: u8) {
        while self.held[0].queue.len() >= self.small {
            let slot = self.held[0].queue.oldest(class);
            if slot == NONE || store.nodes[slot as usize].bits <= 1 {
                return;
            }
            self.held[0].queue.unlink(&mut store.nodes, slot);
            let node = &mut store.nodes[slot as usize];
            (node.list, node.bits) = (MAIN, 0);
            self.held[1].join(&mut store.nodes, slot);
        }
    }
}

impl EvictionOrder for S3Fifo {
    #[inline]
    fn hit(&mut self, store: &mut Store, slot: u32) {
        let node = &mut store.nodes[slot as usize];
        node.bits = (node.bits + 1).min(BITS_MAX);
    }

    fn recall(&mut self, store: &mut Store, slot: u32) {
        self.ghosts.recall(store, slot);
    }

    fn prepare(&mut self, store: &mut Store, _recalled: bool) {
        self.promote(store, LIGHT);
        self.promote(store, HEAVY);
        let from_small = self.held[0].queue.len() >= self.small || self.held[1].queue.len() == 0;
        self.victims = usize::from(!from_small);
    }

    fn insert(&mut self, store: &mut Store, slot: u32, recalled: bool) {
        let node = &mut store.nodes[slot as usize];
        (node.list, node.bits) = (if recalled { MAIN } else { SMALL }, 0);
        self.held[usize::from(recalled)].join(&mut store.nodes, slot);
    }

    fn candidate(&mut self, store: &mut Store, class: u8) -> u32 {
        let queue = &mut self.held[self.victims];
        loop {
            let slot = queue.queue.oldest(class);
            if slot == NONE || self.victims == 0 || store.nodes[slot as usize].bits == 0 {
                return slot;
            }
            store.nodes[slot as usize].bits -= 1;
            queue.queue.unlink(&mut store.nodes, slot);
            queue.join(&mut store.nodes, slot);
        }
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        let list = store.nodes[slot as usize].list;
        self.held[list as usize].queue.unlink(&mut store.nodes, slot);
    }

    fn evicted(&mut self, store: &mut Store, slot: u32) {
        match store.nodes[slot as usize].list {
            MAIN => store.free(slot),
            _ => self.ghosts.remember(store, slot),
        }
    }

    fn worth(&self, _store: &Store, _slot: u32) -> Worth {
        Worth::Age
    }

    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        for queue in &mut self.held {
            queue.refile(store, class_of);
        }
    }
}
