//! Belady's optimum against every possible choice of victims, and against every policy.

use destage_engine::array::geometry::Level;
use destage_engine::readcache::optimum::replay_optimum;
use destage_engine::readcache::penalty::Penalties;
use destage_engine::readcache::replay::Tally;
use destage_engine::readcache::{choose, entries};
use destage_engine::request::PageRange;
use destage_engine::units::Page;

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % below
    }
}

fn ranges(stream: &[u64]) -> Vec<PageRange> {
    stream.iter().map(|block| PageRange::new(Page(*block), 1)).collect()
}

fn optimum(stream: &[u64], blocks: usize) -> Tally {
    let healthy = Penalties::new(Level::Raid5, 5, &[], 16).expect("an array");
    let mut tally = Tally::default();
    replay_optimum(&ranges(stream), blocks, &healthy, &mut tally, &mut |_, _| {});
    tally
}

/// Fewest misses over every choice of every victim.
fn fewest_misses(stream: &[u64], held: &mut Vec<u64>, blocks: usize) -> u64 {
    let Some((block, rest)) = stream.split_first() else { return 0 };
    if held.contains(block) {
        return fewest_misses(rest, held, blocks);
    }
    let tried = |held: &[u64], leave: Option<usize>| {
        let mut next = held.to_vec();
        leave.map(|at| next.remove(at));
        next.push(*block);
        1 + fewest_misses(rest, &mut next, blocks)
    };
    match held.len() < blocks {
        true => tried(held, None),
        false => (0..blocks).map(|at| tried(held, Some(at))).min().expect("a victim"),
    }
}

#[test]
fn no_choice_of_victims_misses_less() {
    let mut random = Random(1);
    for round in 0..300 {
        let (blocks, span) = (1 + random.below(3) as usize, 3 + random.below(4));
        let stream: Vec<u64> = (0..11).map(|_| random.below(span)).collect();
        let tally = optimum(&stream, blocks);
        let fewest = fewest_misses(&stream, &mut Vec::new(), blocks);
        assert_eq!(tally.requests - tally.hits, fewest, "round {round}: {stream:?}, {blocks}");
        assert_eq!(tally.penalty, fewest);
    }
}

#[test]
fn no_policy_hits_more() {
    let mut random = Random(2);
    let stream: Vec<u64> = (0..20_000).map(|_| random.below(40) * random.below(40)).collect();
    let healthy = Penalties::new(Level::Raid5, 5, &[], 16).expect("an array");
    for blocks in [1, 20, 150, 600] {
        let best = optimum(&stream, blocks).hits;
        for entry in entries() {
            let mut cache = choose(entry.name).unwrap().build(blocks as u64).unwrap();
            let mut tally = Tally::default();
            cache.run(&ranges(&stream), &healthy, &mut tally);
            assert!(tally.hits <= best, "{}, {blocks}: {} of {best}", entry.name, tally.hits);
        }
    }
}
