//! LFU: the block accessed least often since it was loaded. Blocks of one frequency share a
//! bucket, buckets form a chain a class, so every step takes constant time.

use super::fault::Worth;
use super::store::{List, NONE, Store};
use super::{EvictionOrder, ReadPolicyEntry, entry};
use crate::registry::{ChoiceError, Param};
use alloc::string::ToString;
use alloc::vec::Vec;

const PARAMS: &[Param] = &[Param {
    name: "ties",
    unit: "-",
    default: "oldest",
    range: "oldest or literal",
    help: "of equally frequent blocks the one accessed longest ago goes; literal: the latest, as \
           Algorithm 2 of the VDF paper reads",
}];

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "lfu",
        "least frequently used block first, counted since it was loaded",
        "VDF (USENIX ATC'11) section 2.2; docs/readcache.md",
        PARAMS,
    ),
    aware: Some(entry(
        "vdf-lfu",
        "fault-aware LFU: the smallest frequency, those of blocks on the failed disk times n-1",
        "VDF (USENIX ATC'11) Algorithm 2; docs/readcache.md",
        PARAMS,
    )),
    make: |choice, config| {
        let newest = match choice.text("ties") {
            "oldest" => false,
            "literal" => true,
            other => {
                return Err(ChoiceError::BadValue {
                    entry: choice.entry.name,
                    param: "ties",
                    value: other.to_string(),
                    expected: "oldest or literal".to_string(),
                });
            }
        };
        super::cache::boxed(Lfu::new(newest), config)
    },
};

/// The blocks of one class and frequency, oldest access first.
#[derive(Clone)]
struct Bucket {
    frequency: u64,
    lower: u32,
    higher: u32,
    list: List,
}

/// Buckets by frequency.
#[derive(Clone)]
pub struct Lfu {
    buckets: Vec<Bucket>,
    /// Free buckets, linked by `higher`.
    free: u32,
    /// Lowest bucket of each class.
    lowest: [u32; 2],
    newest: bool,
}

impl Lfu {
    fn new(newest: bool) -> Lfu {
        Lfu { buckets: Vec::new(), free: NONE, lowest: [NONE; 2], newest }
    }

    /// A new bucket between two neighbours.
    fn add_bucket(&mut self, class: u8, frequency: u64, lower: u32, higher: u32) -> u32 {
        let bucket = Bucket { frequency, lower, higher, list: List::EMPTY };
        let at = match self.free {
            NONE => {
                self.buckets.push(bucket);
                (self.buckets.len() - 1) as u32
            }
            at => {
                self.free = self.buckets[at as usize].higher;
                self.buckets[at as usize] = bucket;
                at
            }
        };
        match lower {
            NONE => self.lowest[usize::from(class)] = at,
            lower => self.buckets[lower as usize].higher = at,
        }
        if higher != NONE {
            self.buckets[higher as usize].lower = at;
        }
        at
    }

    /// Takes a block out of its bucket, and the bucket out of the chain if it is empty.
    fn take(&mut self, store: &mut Store, slot: u32) {
        let node = store.nodes[slot as usize];
        let bucket = &mut self.buckets[node.list as usize];
        bucket.list.unlink(&mut store.nodes, slot);
        if bucket.list.len > 0 {
            return;
        }
        let (lower, higher) = (bucket.lower, bucket.higher);
        bucket.higher = self.free;
        self.free = node.list;
        match lower {
            NONE => self.lowest[usize::from(node.class)] = higher,
            lower => self.buckets[lower as usize].higher = higher,
        }
        if higher != NONE {
            self.buckets[higher as usize].lower = lower;
        }
    }

    fn put(&mut self, store: &mut Store, slot: u32, bucket: u32) {
        store.nodes[slot as usize].list = bucket;
        self.buckets[bucket as usize].list.push(&mut store.nodes, slot);
    }

    /// Every block: frequency, last access, node.
    fn all(&self, store: &Store) -> Vec<(u64, u64, u32)> {
        let mut all = Vec::with_capacity(store.held);
        for mut bucket in self.lowest {
            while bucket != NONE {
                let Bucket { frequency, higher, list, .. } = &self.buckets[bucket as usize];
                let mut slot = list.oldest;
                while slot != NONE {
                    let node = &store.nodes[slot as usize];
                    all.push((*frequency, node.stamp, slot));
                    slot = node.newer;
                }
                bucket = *higher;
            }
        }
        all
    }
}

impl EvictionOrder for Lfu {
    fn hit(&mut self, store: &mut Store, slot: u32) {
        let node = store.nodes[slot as usize];
        let bucket = &mut self.buckets[node.list as usize];
        let (frequency, higher) = (bucket.frequency + 1, bucket.higher);
        let alone = bucket.list.len == 1;
        let joins = higher != NONE && self.buckets[higher as usize].frequency == frequency;
        if !joins && alone {
            self.buckets[node.list as usize].frequency = frequency;
            return;
        }
        let to = match joins {
            true => higher,
            false => self.add_bucket(node.class, frequency, node.list, higher),
        };
        self.take(store, slot);
        self.put(store, slot, to);
    }

    fn insert(&mut self, store: &mut Store, slot: u32, _recalled: bool) {
        let class = store.nodes[slot as usize].class;
        let lowest = self.lowest[usize::from(class)];
        let to = match lowest {
            at if at != NONE && self.buckets[at as usize].frequency == 1 => at,
            higher => self.add_bucket(class, 1, NONE, higher),
        };
        self.put(store, slot, to);
    }

    fn candidate(&mut self, _store: &mut Store, class: u8) -> u32 {
        match self.lowest[usize::from(class)] {
            NONE => NONE,
            bucket if self.newest => self.buckets[bucket as usize].list.newest,
            bucket => self.buckets[bucket as usize].list.oldest,
        }
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        self.take(store, slot);
    }

    fn worth(&self, store: &Store, slot: u32) -> Worth {
        let bucket = store.nodes[slot as usize].list;
        Worth::Frequency(self.buckets[bucket as usize].frequency)
    }

    fn newest_ties(&self) -> bool {
        self.newest
    }

    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        let mut all = self.all(store);
        all.sort_unstable();
        *self = Lfu::new(self.newest);
        let mut highest = [NONE; 2];
        for (frequency, _, slot) in all {
            let node = &mut store.nodes[slot as usize];
            node.class = class_of(node.block);
            let class = node.class;
            let last = &mut highest[usize::from(class)];
            if *last == NONE || self.buckets[*last as usize].frequency != frequency {
                *last = self.add_bucket(class, frequency, *last, NONE);
            }
            self.put(store, slot, *last);
        }
    }
}
