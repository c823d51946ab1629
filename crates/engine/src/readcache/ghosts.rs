//! Ghosts: blocks that were held and are remembered for a while, the oldest forgotten first.

use super::store::{List, Store};

/// A list of at most a fixed number of ghosts.
#[derive(Clone)]
pub struct Ghosts {
    list: List,
    max: usize,
}

impl Ghosts {
    /// None yet, and never more than `max`.
    pub fn new(max: usize) -> Ghosts {
        Ghosts { list: List::EMPTY, max }
    }

    /// Remembers an evicted block, in place of the oldest ghost if there are as many as may be.
    pub fn remember(&mut self, store: &mut Store, slot: u32) {
        if self.max == 0 {
            return store.free(slot);
        }
        if self.list.len == self.max {
            let oldest = self.list.oldest;
            self.list.unlink(&mut store.nodes, oldest);
            store.free(oldest);
        }
        self.list.push(&mut store.nodes, slot);
    }

    /// A ghost was asked for: it leaves the list.
    pub fn recall(&mut self, store: &mut Store, slot: u32) {
        self.list.unlink(&mut store.nodes, slot);
    }
}
