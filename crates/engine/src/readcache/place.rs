//! Places in a queue whose order is not that of last accesses: a number a node, so that classes
//! can be merged again in order.

use super::fault::Queue;
use super::store::{Node, Store};
use alloc::vec::Vec;

/// A queue by order of joining.
#[derive(Clone)]
pub struct Places {
    /// The nodes.
    pub queue: Queue,
    joined: Vec<u64>,
    next: u64,
}

impl Places {
    /// No nodes.
    pub fn new() -> Places {
        Places { queue: Queue::EMPTY, joined: Vec::new(), next: 0 }
    }

    /// Adds a node at the newest end.
    #[inline]
    pub fn join(&mut self, nodes: &mut [Node], slot: u32) {
        if self.joined.len() <= slot as usize {
            self.joined.resize(slot as usize + 1, 0);
        }
        self.joined[slot as usize] = self.next;
        self.next += 1;
        self.queue.push(nodes, slot);
    }

    /// When a node joined.
    pub fn joined(&self, slot: u32) -> u64 {
        self.joined[slot as usize]
    }

    /// See [`Queue::refile`].
    pub fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        self.queue.refile(&mut store.nodes, class_of, |slot, _| self.joined[slot as usize]);
    }
}
