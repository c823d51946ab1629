//! The weight of lost blocks: set by hand and chosen while running.

use destage_engine::array::geometry::Level;
use destage_engine::readcache::adaptive::{Adaptive, AdaptiveSettings, PAPER, weight_at};
use destage_engine::readcache::penalty::Penalties;
use destage_engine::readcache::replay::Tally;
use destage_engine::readcache::{READ_POLICIES, ReadCache, Vdf, Weight, choose};
use destage_engine::request::PageRange;
use destage_engine::units::Page;

fn fault(disks: u64) -> Penalties {
    Penalties::new(Level::Raid5, disks, &[0], 16).expect("an array")
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % below
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    READ_POLICIES.iter().map(|row| row.plain.name)
}

#[test]
fn at_the_plain_weight_a_fault_aware_cache_is_the_plain_one() {
    for name in names() {
        let mut plain = choose(name).unwrap().build(100).unwrap();
        let mut aware = choose(&format!("vdf-{name}")).unwrap().build(100).unwrap();
        aware.set_fault(Some(fault(5)));
        aware.set_weight(Some(Weight::PLAIN));
        let mut random = Random(1);
        for _ in 0..20_000 {
            let block = random.below(30) * random.below(30);
            assert_eq!(plain.access(block), aware.access(block), "{name}");
        }
        assert_eq!(aware.weight(), Some(Weight::PLAIN));
    }
}

#[test]
fn the_penalty_as_weight_is_the_same_as_none() {
    for name in names() {
        let build = || choose(&format!("vdf-{name}")).unwrap().build(100).unwrap();
        let (mut by_default, mut set) = (build(), build());
        by_default.set_fault(Some(fault(6)));
        set.set_fault(Some(fault(6)));
        set.set_weight(Some(weight_at(PAPER, 5)));
        let mut random = Random(2);
        for _ in 0..20_000 {
            let block = random.below(30) * random.below(30);
            assert_eq!(by_default.access(block), set.access(block), "{name}");
        }
    }
}

#[test]
fn nothing_is_lost_when_faults_come_and_go_and_weights_change() {
    for name in names() {
        for form in ["vdf-", "adaptive-"] {
            let mut cache = choose(&format!("{form}{name}")).unwrap().build(200).unwrap();
            let mut held = std::collections::BTreeSet::new();
            let mut random = Random(3);
            for round in 0..60_000u64 {
                if round % 997 == 0 {
                    match random.below(3) {
                        0 => cache.set_fault(None),
                        1 => cache.set_fault(Some(fault(5))),
                        _ => cache.set_fault(Some(fault(5).rebuilt_below(random.below(900)))),
                    }
                }
                if round % 331 == 0 {
                    let quarters = random.below(40);
                    cache.set_weight((quarters > 0).then(|| Weight::quarters(quarters)));
                }
                let block = random.below(40) * random.below(40);
                if round % 13 == 0 {
                    assert_eq!(cache.forget(block), held.remove(&block), "{form}{name}");
                    continue;
                }
                let access = cache.access(block);
                assert_eq!(access.hit, held.contains(&block));
                if let Some(evicted) = access.evicted {
                    assert!(held.remove(&evicted), "{form}{name}: evicted what it had not");
                }
                held.insert(block);
                assert_eq!(cache.held(), held.len());
                assert!(held.len() <= 200);
            }
            assert!(held.iter().all(|block| cache.holds(*block)));
        }
    }
}

/// Replays blocks under a fault of five disks; RGR of the second half.
fn rgr(policy: &str, start: usize, blocks: u64, stream: &[u64]) -> (f64, Box<dyn ReadCache>) {
    let mut choice = choose(policy).unwrap();
    if let Vdf::Adaptive(settings) = choice.vdf {
        choice = choice.with_vdf(Vdf::Adaptive(AdaptiveSettings { start, ..settings })).unwrap();
    }
    let mut cache = choice.build(blocks).unwrap();
    let penalties = fault(5);
    cache.set_fault(Some(penalties.clone()));
    let half = |part: &[u64], cache: &mut dyn ReadCache| {
        let ranges: Vec<PageRange> = part.iter().map(|b| PageRange::new(Page(*b), 1)).collect();
        let mut tally = Tally::default();
        cache.run(&ranges, &penalties, &mut tally);
        tally.penalty as f64 / tally.requests as f64
    };
    half(&stream[..stream.len() / 2], cache.as_mut());
    (half(&stream[stream.len() / 2..], cache.as_mut()), cache)
}

/// A loop that just fits, and blocks read once: to keep lost ones of the latter breaks the loop.
fn fitting_loop() -> Vec<u64> {
    let mut once = 1 << 20;
    (0..400_000u64)
        .map(|i| match i % 10 {
            0 => {
                once += 1;
                once
            }
            _ => (i - i / 10) % 850,
        })
        .collect()
}

#[test]
fn where_the_penalty_hurts_the_plain_weight_is_found() {
    let stream = fitting_loop();
    let (plain, _) = rgr("lru", 0, 1000, &stream);
    let (paper, _) = rgr("vdf-lru", 0, 1000, &stream);
    assert!(paper > 1.05 * plain, "the stream is to be one where n-1 loses: {paper} {plain}");
    let (adaptive, cache) = rgr("adaptive-lru", PAPER, 1000, &stream);
    assert!(adaptive < 1.02 * plain, "{adaptive}, plain {plain}, n-1 {paper}");
    assert!(cache.weight().unwrap() < weight_at(PAPER, 4));
    assert!(cache.weight_changes() > 0);
}

#[test]
fn where_the_penalty_helps_it_is_found_from_the_plain_weight() {
    let mut random = Random(5);
    let stream: Vec<u64> = (0..400_000).map(|_| random.below(4000)).collect();
    let (plain, _) = rgr("lfu", 0, 1500, &stream);
    let (paper, _) = rgr("vdf-lfu", 0, 1500, &stream);
    assert!(paper < 0.9 * plain, "the stream is to be one where n-1 gains: {paper} {plain}");
    let (adaptive, cache) = rgr("adaptive-lfu", 0, 1500, &stream);
    assert!(adaptive < 1.03 * paper, "{adaptive}, plain {plain}, n-1 {paper}");
    assert!(cache.weight().unwrap() > Weight::PLAIN);
}

/// Loads too short to say much: what the choice loses there to n-1, the worst of many, in per cent.
fn worst_of_short_loads(policy: &str) -> f64 {
    let penalty = |policy: &str, stream: &[u64], disks, blocks| {
        let mut cache = choose(policy).unwrap().build(blocks).unwrap();
        let penalties = fault(disks);
        cache.set_fault(Some(penalties.clone()));
        let ranges: Vec<PageRange> = stream.iter().map(|b| PageRange::new(Page(*b), 1)).collect();
        let mut tally = Tally::default();
        cache.run(&ranges, &penalties, &mut tally);
        tally.penalty as f64
    };
    let mut worst = f64::MIN;
    for seed in 1..=60 {
        let mut random = Random(seed);
        let (span, disks) = (20 + random.below(60), 4 + random.below(7));
        let place = random.below(1000) * 64;
        let stream: Vec<u64> =
            (0..8000).map(|_| place + random.below(span) * random.below(span)).collect();
        for blocks in [64, 150, 400] {
            let [chosen, paper] = ["adaptive", "vdf"]
                .map(|form| penalty(&format!("{form}-{policy}"), &stream, disks, blocks));
            worst = worst.max(100.0 * (chosen / paper - 1.0));
        }
    }
    worst
}

#[test]
fn thin_evidence_does_not_lead_away_from_the_penalty() {
    for policy in ["lfu", "lru", "clock"] {
        let worst = worst_of_short_loads(policy);
        println!("{policy}: {worst:+.2} % to n-1 at worst");
        assert!(worst < 1.5, "{policy}: {worst:+.2} %");
    }
}

#[test]
fn shadows_have_a_thousand_blocks_or_more_and_forms_are_read() {
    let settings = AdaptiveSettings::default();
    for blocks in [100, 4095, 4096, 8192, 100_000, 1 << 20] {
        let shadow = Adaptive::shadow_blocks(blocks, &settings);
        assert!(shadow >= blocks.min(4096) && shadow < 8192, "{blocks}: {shadow}");
    }
    assert_eq!(Vdf::parse("off"), Some(Vdf::Off));
    let wanted = AdaptiveSettings { start: 1, shadow_blocks: 2000, ..settings };
    assert_eq!(Vdf::parse("adaptive:start=1/4,shadow=2000"), Some(Vdf::Adaptive(wanted)));
    for bad in ["", "on", "paper:1", "adaptive:start=3", "adaptive:shadow=1", "adaptive:x=1"] {
        assert_eq!(Vdf::parse(bad), None, "{bad}");
    }
    let name = choose("adaptive-lfu:literal").unwrap().describe();
    assert_eq!(name, "adaptive-lfu:ties=literal");
    let error = choose("adaptive-lru:shadow=3").expect_err("it is a parameter of the form");
    assert!(error.to_string().contains("--vdf adaptive:shadow=..."), "{error}");
    let error = choose("vdf-lru:shadow=3").expect_err("the form has none");
    assert!(error.to_string().contains("takes no parameters"), "{error}");
}
