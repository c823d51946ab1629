//! W-TinyLFU: new blocks enter a small window. What leaves it is admitted to the rest of the cache,
//! an SLRU, only if it was asked for more often than that one's victim. How often is estimated by a
//! sketch that also counts blocks which are not held, and forgets slowly.

use super::fault::{Queue, Worth};
use super::slru::{PROTECTED_SHARE, Slru};
use super::store::{NONE, Store};
use super::{EvictionOrder, ReadPolicyEntry, entry};
use crate::mix::mix;
use crate::registry::Param;
use alloc::vec;
use alloc::vec::Vec;

const PARAMS: &[Param] = &[
    Param {
        name: "window",
        unit: "%",
        default: "1",
        range: "1 to 99",
        help: "share of the cache that the window has, at least a block; 1 as in the paper",
    },
    PROTECTED_SHARE,
];

/// The table entry.
pub const ENTRY: ReadPolicyEntry = ReadPolicyEntry {
    plain: entry(
        "w-tinylfu",
        "a window for new blocks, then SLRU; of both victims the one asked for less often goes",
        "Einziger, Friedman and Manes, TinyLFU (ACM TOS 2017); docs/readcache.md",
        PARAMS,
    ),
    aware: Some(entry(
        "vdf-w-tinylfu",
        "fault-aware W-TinyLFU: the victims of both classes, by estimated frequency as vdf-lfu",
        "VDF (USENIX ATC'11) section 3.3; docs/readcache.md",
        PARAMS,
    )),
    make: |choice, config| {
        let window = (config.blocks * choice.number("window", 1, 99)? / 100).max(1);
        let main = Slru::new(config.blocks - window, choice.number("protected", 1, 99)?);
        let sketch = Sketch::new(config.blocks);
        let order = WTinyLfu { window: Queue::EMPTY, window_max: window, main, sketch };
        super::cache::boxed(order, config)
    },
};

/// Rows of the sketch.
const ROWS: u64 = 4;
/// Counters in a row per block of the cache, before rounding up to a power of two.
const COUNTERS_PER_BLOCK: usize = 4;
/// Requests per block of the cache after which all counters are halved.
const SAMPLE: u64 = 10;
/// A counter has 4 bits.
const COUNTER_MAX: u8 = 15;

/// A count-min sketch with minimal increment, which ages.
#[derive(Clone)]
struct Sketch {
    /// Row after row, two counters in a byte.
    counters: Vec<u8>,
    /// Counters in a row.
    width: u64,
    counted: u64,
    sample: u64,
}

impl Sketch {
    fn new(blocks: usize) -> Sketch {
        let width = (blocks * COUNTERS_PER_BLOCK).next_power_of_two() as u64;
        let counters = vec![0; (ROWS * width / 2) as usize];
        Sketch { counters, width, counted: 0, sample: SAMPLE * blocks as u64 }
    }

    /// The block's counter in each row.
    fn places(&self, block: u64) -> [u64; ROWS as usize] {
        let first = mix(block);
        let step = mix(first) | 1;
        let place = |row: u64| first.wrapping_add(row.wrapping_mul(step)) & (self.width - 1);
        [0, 1, 2, 3].map(|row| row * self.width + place(row))
    }

    fn at(&self, place: u64) -> u8 {
        self.counters[(place / 2) as usize] >> (place % 2 * 4) & COUNTER_MAX
    }

    /// How often the block was asked for, or more where others share all of its counters.
    fn estimate(&self, block: u64) -> u64 {
        let least = self.places(block).map(|place| self.at(place)).into_iter().min();
        u64::from(least.unwrap_or(0))
    }

    /// Counts a request for the block: its least counters grow.
    fn count(&mut self, block: u64) {
        let places = self.places(block);
        let least = self.estimate(block) as u8;
        if least < COUNTER_MAX {
            for place in places {
                let up = u8::from(self.at(place) == least);
                self.counters[(place / 2) as usize] += up << (place % 2 * 4);
            }
        }
        self.counted += 1;
        if self.counted == self.sample {
            self.counted /= 2;
            self.counters.iter_mut().for_each(|pair| *pair = *pair >> 1 & 0x77);
        }
    }
}

/// Window and main part.
#[derive(Clone)]
pub struct WTinyLfu {
    /// By last access.
    window: Queue,
    window_max: usize,
    main: Slru,
    sketch: Sketch,
}

/// In the window; the other lists are those of [`Slru`].
const WINDOW: u32 = 2;

impl EvictionOrder for WTinyLfu {
    fn hit(&mut self, store: &mut Store, slot: u32) {
        self.sketch.count(store.nodes[slot as usize].block);
        match store.nodes[slot as usize].list {
            WINDOW => self.window.renew(&mut store.nodes, slot),
            _ => self.main.hit(store, slot),
        }
    }

    fn candidate(&mut self, store: &mut Store, class: u8) -> u32 {
        let (new, old) = (self.window.oldest(class), self.main.candidate(store, class));
        if new == NONE || old == NONE {
            return new.min(old);
        }
        let estimate = |slot: u32| self.sketch.estimate(store.nodes[slot as usize].block);
        if estimate(new) > estimate(old) { old } else { new }
    }

    fn unlink(&mut self, store: &mut Store, slot: u32) {
        match store.nodes[slot as usize].list {
            WINDOW => self.window.unlink(&mut store.nodes, slot),
            _ => self.main.unlink(store, slot),
        }
    }

    fn insert(&mut self, store: &mut Store, slot: u32, _recalled: bool) {
        self.sketch.count(store.nodes[slot as usize].block);
        store.nodes[slot as usize].list = WINDOW;
        self.window.push(&mut store.nodes, slot);
        if self.window.len() > self.window_max {
            let oldest = self.window.oldest_access(&store.nodes);
            self.window.unlink(&mut store.nodes, oldest);
            self.main.insert(store, oldest, false);
        }
    }

    fn worth(&self, store: &Store, slot: u32) -> Worth {
        Worth::Frequency(self.sketch.estimate(store.nodes[slot as usize].block))
    }

    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8) {
        self.window.refile(&mut store.nodes, class_of, |_, node| node.stamp);
        self.main.refile(store, class_of);
    }

    fn memory_bytes(&self) -> usize {
        self.sketch.counters.capacity()
    }
}
