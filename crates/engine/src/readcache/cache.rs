//! The cache itself, the same for every policy: what is held, the clock of requests, and the
//! fault-aware choice of a victim.

use super::fault::{HEAVY, LIGHT, Offer, Weight, choose};
use super::penalty::Penalties;
use super::replay::Tally;
use super::store::{NONE, Store};
use super::{Access, EvictionOrder, Made, ReadCache, ReadConfig};
use crate::request::PageRange;
use alloc::boxed::Box;

/// A cache ordered by `O`.
#[derive(Clone)]
pub struct Cache<O> {
    store: Store,
    order: O,
    blocks: usize,
    /// Number of the next block request (GTS).
    now: u64,
    /// Takes failed disks into account.
    aware: bool,
    fault: Option<Penalties>,
    /// What a heavy block weighs, if not its penalty.
    weight: Option<Weight>,
    /// What was read ahead of need; see [`Store::foresee`].
    foreseen: u64,
}

/// How many requests ahead the index and the node of a block are read.
const INDEX_AHEAD: usize = 12;
const NODE_AHEAD: usize = 6;

/// A cache as its table entry makes it.
pub fn boxed<O: EvictionOrder + Clone + 'static>(order: O, config: &ReadConfig) -> Made {
    let (blocks, aware) = (config.blocks, config.aware);
    Ok(Box::new(Cache {
        store: Store::new(),
        order,
        blocks,
        now: 1,
        aware,
        fault: None,
        weight: None,
        foreseen: 0,
    }))
}

/// Class of a block, without a branch: which disk it is on cannot be predicted.
#[inline]
fn class_under(fault: Option<&Penalties>, block: u64) -> u8 {
    fault.map_or(LIGHT, |fault| LIGHT + u8::from(fault.is_lost(block)) * (HEAVY - LIGHT))
}

impl<O: EvictionOrder> Cache<O> {
    #[inline]
    fn class_of(&self, block: u64) -> u8 {
        class_under(self.considered(), block)
    }

    /// The fault by which blocks are classified; `None` if both classes weigh the same.
    #[inline]
    fn considered(&self) -> Option<&Penalties> {
        if self.weight == Some(Weight::PLAIN) { None } else { self.fault.as_ref() }
    }

    fn refile(&mut self) {
        let is_plain = self.weight == Some(Weight::PLAIN);
        let fault = if is_plain { None } else { self.fault.as_ref() };
        let class_of = |block| class_under(fault, block);
        self.order.refile(&mut self.store, &class_of);
    }

    #[inline]
    fn victim(&mut self) -> u32 {
        let light = self.order.candidate(&mut self.store, LIGHT);
        let Some(fault) = self.considered() else { return light };
        let weight = self.weight.unwrap_or(fault.weight());
        let heavy = self.order.candidate(&mut self.store, HEAVY);
        if light == NONE || heavy == NONE {
            return light.min(heavy);
        }
        let offer = |slot: u32| Offer {
            slot,
            stamp: self.store.nodes[slot as usize].stamp,
            worth: self.order.worth(&self.store, slot),
        };
        let newest = self.order.newest_ties();
        choose(offer(heavy), offer(light), weight, self.now, newest)
    }

    /// Evicts one block.
    #[inline]
    fn make_room(&mut self, recalled: bool) -> u64 {
        self.order.prepare(&mut self.store, recalled);
        let slot = self.victim();
        self.order.unlink(&mut self.store, slot);
        self.store.held -= 1;
        let node = &mut self.store.nodes[slot as usize];
        node.resident = false;
        let block = node.block;
        let next = self.store.nodes[slot as usize].newer;
        self.order.evicted(&mut self.store, slot);
        self.foresee_victims(next);
        block
    }

    /// Reads ahead what the eviction of a node's likely successors will need: of the next its
    /// place in the index, of the one after it the node.
    #[inline]
    fn foresee_victims(&mut self, next: u32) {
        let nodes = &self.store.nodes;
        if let Some(next) = nodes.get(next as usize) {
            self.foreseen ^= self.store.foresee(next.block);
            self.foreseen ^= nodes.get(next.newer as usize).map_or(0, |after| after.stamp);
        }
    }

    /// A block request that may be a hit; if not, the node of its ghost, or [`NONE`].
    #[inline(always)]
    fn hit(&mut self, block: u64) -> Result<(), u32> {
        let slot = self.store.find(block);
        match self.store.nodes.get_mut(slot as usize) {
            Some(node) if node.resident => {
                node.stamp = self.now;
                self.order.hit(&mut self.store, slot);
                self.now += 1;
                Ok(())
            }
            _ => Err(slot),
        }
    }

    /// The rest of a request that [`Cache::hit`] found to be a miss.
    #[inline(never)]
    fn miss(&mut self, block: u64, slot: u32) -> Option<u64> {
        let recalled = slot != NONE;
        if recalled {
            self.order.recall(&mut self.store, slot);
        }
        let full = self.store.held == self.blocks;
        let evicted = full.then(|| self.make_room(recalled));
        let slot = if recalled { slot } else { self.store.add(block) };
        let class = self.class_of(block);
        let node = &mut self.store.nodes[slot as usize];
        (node.stamp, node.class, node.resident) = (self.now, class, true);
        self.order.insert(&mut self.store, slot, recalled);
        self.store.held += 1;
        self.now += 1;
        evicted
    }
}

impl<O: EvictionOrder + Clone + 'static> ReadCache for Cache<O> {
    fn access(&mut self, block: u64) -> Access {
        match self.hit(block) {
            Ok(()) => Access { hit: true, evicted: None },
            Err(slot) => Access { hit: false, evicted: self.miss(block, slot) },
        }
    }

    fn run(&mut self, ranges: &[PageRange], penalties: &Penalties, tally: &mut Tally) {
        let mut foreseen = 0;
        for (index, range) in ranges.iter().enumerate() {
            if let Some(next) = ranges.get(index + INDEX_AHEAD) {
                foreseen ^= self.store.foresee(next.first.0);
            }
            if let Some(next) = ranges.get(index + NODE_AHEAD) {
                foreseen ^= self.store.foresee_node(next.first.0);
            }
            for block in range.first.0..range.end().0 {
                let warm = self.store.held == self.blocks;
                match self.hit(block) {
                    Ok(()) => tally.count(true, warm, 0),
                    Err(slot) => {
                        self.miss(block, slot);
                        tally.count(false, warm, penalties.of(block));
                    }
                }
            }
        }
        self.foreseen ^= foreseen;
    }

    fn holds(&self, block: u64) -> bool {
        let slot = self.store.find(block);
        slot != NONE && self.store.nodes[slot as usize].resident
    }

    fn held(&self) -> usize {
        self.store.held
    }

    fn blocks(&self) -> usize {
        self.blocks
    }

    fn evict(&mut self) -> Option<u64> {
        (self.store.held > 0).then(|| self.make_room(false))
    }

    fn forget(&mut self, block: u64) -> bool {
        let slot = self.store.find(block);
        if slot == NONE || !self.store.nodes[slot as usize].resident {
            return false;
        }
        self.order.unlink(&mut self.store, slot);
        self.store.held -= 1;
        self.store.free(slot);
        true
    }

    fn set_fault(&mut self, fault: Option<Penalties>) {
        if !self.aware {
            return;
        }
        self.fault = fault;
        self.refile();
    }

    fn set_weight(&mut self, weight: Option<Weight>) {
        let was_plain = self.weight == Some(Weight::PLAIN);
        self.weight = weight;
        if self.aware && was_plain != (weight == Some(Weight::PLAIN)) {
            self.refile();
        }
    }

    fn weight(&self) -> Option<Weight> {
        let fault = self.fault.as_ref()?;
        Some(self.weight.unwrap_or(fault.weight()))
    }

    fn memory_bytes(&self) -> usize {
        self.store.memory_bytes() + self.order.memory_bytes()
    }

    fn copy(&self) -> Option<Box<dyn ReadCache>> {
        Some(Box::new(self.clone()))
    }
}
