//! SLRU: new blocks are on probation; those asked for again are protected, up to a share of the
//! cache, and return to probation before they are evicted.

use super::fault::{Queue, Worth};
use super::place::Places;
use super::store::Store;
use super::{EvictionOrder, ReadPolicyEntry, entry};
use crate::registry::Param;

/// The parameter of every policy with an SLRU in it.
pub const PROTECTED_SHARE: Param = Param {
    name: "protected",
    unit: "%",
    default: "80",
    range: "1 to 99",
    help: "share of the SLRU that protected blocks may have; 80 is what the TinyLFU paper gives \
           its SLRU",
};

const PARAMS: &[Param] = &[PROTECTED_SHARE];

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "slru",
        "blocks asked for once on probation, others protected; victims are on probation",
        "Karedla, Love and Wherry, Caching strategies (IEEE Computer 1994); docs/readcache.md",
        PARAMS,
    ),
    aware: Some(entry(
        "vdf-slru",
        "fault-aware SLRU: of the oldest blocks of both classes on probation, as vdf-lru",
        "VDF (USENIX ATC'11) section 3.3; docs/readcache.md",
        PARAMS,
    )),
    make: |choice, config| {
        let percent = choice.number("protected", 1, 99)?;
        super::cache::boxed(Slru::new(config.blocks, percent), config)
    },
};

const PROBATION: u32 = 0;
const PROTECTED: u32 = 1;

/// Both segments.
#[derive(Clone)]
pub struct Slru {
    probation: Places,
    /// By last access.
    protected: Queue,
    protected_max: usize,
}

impl Slru {
    /// No blocks yet, of at most `blocks`, of which this share may be protected.
    pub fn new(blocks: usize, percent: usize) -> Slru {
        let protected_max = blocks * percent / 100;
        Slru { probation: Places::new(), protected: Queue::EMPTY, protected_max }
    }
}

impl EvictionOrder for Slru {
    fn hit(&mut self, store: &mut Store, slot: u32) {
        if store.nodes[slot as usize].list == PROTECTED {
            return self.protected.renew(&mut store.nodes, slot);
        }
        self.probation.queue.unlink(&mut store.nodes, slot);
        store.nodes[slot as usize].list = PROTECTED;
        self.protected.push(&mut store.nodes, slot);
        if self.protected.len() > self.protected_max {
            let oldest = self.protected.oldest_access(&store.nodes);
            self.protected.unlink(&mut store.nodes, oldest);
            store.nodes[oldest as usize].list = PROBATION;
            self.probation.join(&mut store.nodes, oldest);
        }
    }

    fn insert(&mut self, store: &mut Store, slot: u32, _recalled: bool) {
        store.nodes[slot as usize].list = PROBATION;
        self.probation.join(&mut store.nodes, slot);
    }

    fn candidate(&mut self, _store: &mut Store, class: u8) -> u32 {
        match self.probation.queue.len() {
            0 => self.protected.oldest(class),
            _ => self.probation.queue.oldest(class),
        }
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        match store.nodes[slot as usize].list {
            PROTECTED => self.protected.unlink(&mut store.nodes, slot),
            _ => self.probation.queue.unlink(&mut store.nodes, slot),
        }
    }

    fn worth(&self, _store: &Store, _slot: u32) -> Worth {
        Worth::Age
    }

    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        self.probation.refile(store, class_of);
        self.protected.refile(&mut store.nodes, class_of, |_, node| node.stamp);
    }
}
