//! What knows the future against every possible choice of victims, and against every policy.

use destage_engine::array::geometry::Level;
use destage_engine::readcache::optimum::{bound, replay_optimum};
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

fn optimum(stream: &[u64], blocks: usize, aware: bool, penalties: &Penalties) -> Tally {
    let mut tally = Tally::default();
    replay_optimum(&ranges(stream), blocks, aware, penalties, &mut tally, &mut |_, _| {});
    tally
}

fn bound_of(stream: &[u64], blocks: usize, penalties: &Penalties) -> Tally {
    let mut tally = Tally::default();
    bound(&ranges(stream), blocks, penalties, &mut tally);
    tally
}

/// Penalties of an array with strips of one block.
fn failed(disks: u64, failed: &[u64]) -> Penalties {
    Penalties::new(Level::Raid5, disks, failed, 1).expect("an array")
}

/// Least cost of all misses over every choice of every victim.
fn cheapest(stream: &[u64], held: &mut Vec<u64>, blocks: usize, cost: &dyn Fn(u64) -> u64) -> u64 {
    let Some((block, rest)) = stream.split_first() else { return 0 };
    if held.contains(block) {
        return cheapest(rest, held, blocks, cost);
    }
    let tried = |held: &[u64], leave: Option<usize>| {
        let mut next = held.to_vec();
        leave.map(|at| next.remove(at));
        next.push(*block);
        cost(*block) + cheapest(rest, &mut next, blocks, cost)
    };
    match held.len() < blocks {
        true => tried(held, None),
        false => (0..blocks).map(|at| tried(held, Some(at))).min().expect("a victim"),
    }
}

#[test]
fn no_choice_of_victims_misses_less() {
    let (mut random, healthy) = (Random(1), failed(5, &[]));
    for round in 0..300 {
        let (blocks, span) = (1 + random.below(3) as usize, 3 + random.below(4));
        let stream: Vec<u64> = (0..11).map(|_| random.below(span)).collect();
        let tally = optimum(&stream, blocks, false, &healthy);
        let fewest = cheapest(&stream, &mut Vec::new(), blocks, &|_| 1);
        assert_eq!(tally.requests - tally.hits, fewest, "round {round}: {stream:?}, {blocks}");
        assert_eq!(tally.penalty, fewest);
        assert_eq!(tally, optimum(&stream, blocks, true, &healthy), "no disk is failed");
        let bound = bound_of(&stream, blocks, &healthy);
        assert_eq!((bound.hits, bound.penalty), (tally.hits, tally.penalty));
    }
}

#[test]
fn no_choice_of_victims_costs_less_than_the_bound() {
    let mut random = Random(3);
    let (mut met, mut below, mut aware_is_best) = (0, 0, 0);
    for round in 0..900 {
        let penalties = failed([3, 4, 6][round % 3], &[random.below(3)]);
        let (blocks, span) = (1 + random.below(3) as usize, 3 + random.below(5));
        let stream: Vec<u64> = (0..11).map(|_| random.below(span)).collect();
        let best = cheapest(&stream, &mut Vec::new(), blocks, &|block| penalties.of(block));
        let bound = bound_of(&stream, blocks, &penalties);
        assert!(bound.penalty <= best, "round {round}: {stream:?}: {} {best}", bound.penalty);
        let opt = optimum(&stream, blocks, false, &penalties);
        assert_eq!(bound.hits, opt.hits);
        let aware = optimum(&stream, blocks, true, &penalties);
        assert!(aware.penalty >= best);
        met += usize::from(bound.penalty == best);
        below += usize::from(aware.penalty < opt.penalty);
        aware_is_best += usize::from(aware.penalty == best);
    }
    println!("of 900: bound met {met}, fault-aware form best {aware_is_best}, beats opt {below}");
    assert!(met > 700 && aware_is_best > 800 && below > 40, "{met} {aware_is_best} {below}");
}

#[test]
fn no_policy_hits_more_nor_costs_less() {
    let mut random = Random(2);
    let stream: Vec<u64> = (0..20_000).map(|_| random.below(40) * random.below(40)).collect();
    let penalties = failed(5, &[1]);
    for blocks in [1, 20, 150, 600] {
        let best = bound_of(&stream, blocks, &penalties);
        for entry in entries() {
            let mut cache = choose(entry.name).unwrap().build(blocks as u64).unwrap();
            cache.set_fault(Some(penalties.clone()));
            let mut tally = Tally::default();
            cache.run(&ranges(&stream), &penalties, &mut tally);
            let name = entry.name;
            assert!(tally.hits <= best.hits, "{name}, {blocks}: {} of {best:?}", tally.hits);
            assert!(tally.penalty >= best.penalty, "{name}, {blocks}: {}", tally.penalty);
        }
        let aware = optimum(&stream, blocks, true, &penalties);
        println!("{blocks} blocks: bound {}, vdf-opt {}", best.penalty, aware.penalty);
        assert!(aware.penalty >= best.penalty);
    }
}
