//! 2Q: new blocks pass through a queue in order of loading (A1in); those asked for again soon after
//! they left it, while it is remembered that they did (A1out), are kept by last access (Am).

use super::fault::{Queue, Worth};
use super::ghosts::Ghosts;
use super::place::Places;
use super::store::Store;
use super::{EvictionOrder, ReadPolicyEntry, entry};
use crate::registry::Param;

const PARAMS: &[Param] = &[
    Param {
        name: "in",
        unit: "%",
        default: "25",
        range: "1 to 99",
        help: "share of the cache that A1in keeps (Kin of the paper)",
    },
    Param {
        name: "out",
        unit: "%",
        default: "50",
        range: "1 to 1000",
        help: "blocks remembered in A1out, as a share of the cache (Kout of the paper)",
    },
];

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "2q",
        "a queue for new blocks, and LRU for those asked for again soon after they left it",
        "Johnson and Shasha, 2Q (VLDB 1994), full version; docs/readcache.md",
        PARAMS,
    ),
    aware: Some(entry(
        "vdf-2q",
        "fault-aware 2Q: sizes say which queue; of its oldest blocks of both classes, as vdf-lru",
        "VDF (USENIX ATC'11) section 3.3; docs/readcache.md",
        PARAMS,
    )),
    make: |choice, config| {
        let share = |percent: usize| (config.blocks * percent / 100).max(1);
        let order = TwoQ {
            new: Places::new(),
            main: Queue::EMPTY,
            new_max: share(choice.number("in", 1, 99)?),
            ghosts: Ghosts::new(share(choice.number("out", 1, 1000)?)),
            from_new: true,
        };
        super::cache::boxed(order, config)
    },
};

const NEW: u32 = 0;
const MAIN: u32 = 1;

/// The three queues.
#[derive(Clone)]
pub struct TwoQ {
    /// A1in.
    new: Places,
    /// Am, by last access.
    main: Queue,
    /// A1out.
    ghosts: Ghosts,
    new_max: usize,
    /// The victim comes from A1in, not from Am.
    from_new: bool,
}

impl EvictionOrder for TwoQ {
    fn hit(&mut self, store: &mut Store, slot: u32) {
        // A hit in A1in says little: a block is often asked for twice in a short time.
        if store.nodes[slot as usize].list == MAIN {
            self.main.renew(&mut store.nodes, slot);
        }
    }

    fn recall(&mut self, store: &mut Store, slot: u32) {
        self.ghosts.recall(store, slot);
    }

    fn prepare(&mut self, _store: &mut Store, _recalled: bool) {
        self.from_new = self.new.queue.len() > self.new_max || self.main.len() == 0;
    }

    fn candidate(&mut self, _store: &mut Store, class: u8) -> u32 {
        match self.from_new {
            true => self.new.queue.oldest(class),
            false => self.main.oldest(class),
        }
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        match store.nodes[slot as usize].list {
            MAIN => self.main.unlink(&mut store.nodes, slot),
            _ => self.new.queue.unlink(&mut store.nodes, slot),
        }
    }

    fn evicted(&mut self, store: &mut Store, slot: u32) {
        match store.nodes[slot as usize].list {
            MAIN => store.free(slot),
            _ => self.ghosts.remember(store, slot),
        }
    }

    fn insert(&mut self, store: &mut Store, slot: u32, recalled: bool) {
        store.nodes[slot as usize].list = if recalled { MAIN } else { NEW };
        match recalled {
            true => self.main.push(&mut store.nodes, slot),
            false => self.new.join(&mut store.nodes, slot),
        }
    }

    fn worth(&self, _store: &Store, _slot: u32) -> Worth {
        Worth::Age
    }

    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        self.new.refile(store, class_of);
        self.main.refile(&mut store.nodes, class_of, |_, node| node.stamp);
    }
}
