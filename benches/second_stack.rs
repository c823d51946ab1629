//! What the second stack of VDF costs (`make bench`): bytes per block and ns per request of
//! each read policy, plain, fault-aware and adaptive, in one run, before and after a disk failed.
//!
//! Requests are for single blocks of a skewed load over a million; the cache has a tenth.

#[path = "../crates/engine/tests/counting/mod.rs"]
mod counting;

use counting::allocated;
use destage_engine::array::geometry::Level;
use destage_engine::readcache::penalty::Penalties;
use destage_engine::readcache::{self, ReadCache};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 7;
const BLOCKS: u64 = 1_000_000;
const CACHE: u64 = BLOCKS / 10;
const REQUESTS: usize = 2_000_000;

/// A cache that is full: what it takes, and what requests take then.
#[derive(Clone, Default)]
struct Cost {
    bytes_a_block: f64,
    ns: Vec<f64>,
}

fn main() {
    println!("{REQUESTS} requests for blocks of {BLOCKS}, skewed, a cache of {CACHE};");
    println!("disk 0 of 5 failed where said; least of {ROUNDS} rounds in turn\n");
    println!("  {:18} {:>7} {:>8} {:>10} {:>8}", "", "bytes", "ns", "bytes", "ns");
    println!("  {:18} {:>7} {:>8} {:>10} {:>8}", "", "whole", "", "failed", "");
    let requests = skewed();
    for plain in ["lru", "lfu", "clock", "arc", "sieve", "s3-fifo"] {
        let names = [plain.to_string(), format!("vdf-{plain}"), format!("adaptive-{plain}")];
        let mut costs = vec![[Cost::default(), Cost::default()]; names.len()];
        for _ in 0..ROUNDS {
            for (name, costs) in names.iter().zip(&mut costs) {
                measure(name, false, &requests, &mut costs[0]);
                measure(name, true, &requests, &mut costs[1]);
            }
        }
        for (name, [whole, failed]) in names.iter().zip(&costs) {
            println!(
                "  {name:18} {:7.1} {:8.1} {:10.1} {:8.1}",
                whole.bytes_a_block,
                least(&whole.ns),
                failed.bytes_a_block,
                least(&failed.ns)
            );
        }
    }
}

fn measure(name: &str, failed: bool, requests: &[u64], cost: &mut Cost) {
    let before = allocated();
    let mut cache = readcache::choose(name).expect("a policy").build(CACHE).expect("a size");
    let (warm, rest) = requests.split_at(requests.len() / 2);
    ask(&mut *cache, warm);
    if failed {
        cache.set_fault(Some(Penalties::new(Level::Raid5, 5, &[0], 16).expect("an array")));
    }
    let start = Instant::now();
    black_box(ask(&mut *cache, rest));
    cost.ns.push(start.elapsed().as_nanos() as f64 / rest.len() as f64);
    let bytes = allocated() - before;
    cost.bytes_a_block = bytes as f64 / CACHE as f64;
}

/// Hits.
fn ask(cache: &mut dyn ReadCache, requests: &[u64]) -> usize {
    requests.iter().filter(|block| cache.access(**block).hit).count()
}

/// The product of two uniform draws, scattered: blocks near 0 of it are wanted most.
fn skewed() -> Vec<u64> {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % 1000
    };
    (0..REQUESTS).map(|_| (random() * random()) * 7919 % BLOCKS).collect()
}

/// Other work can only make a round longer.
fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
