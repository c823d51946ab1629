//! Tests of every generated load: the published checks of the SPC-1-like one, bounds and loops,
//! and for all of them: inside the volume, in order, the same on every machine.

use std::collections::{HashMap, HashSet};

use destage_engine::request::Direction;
use destage_engine::units::Instant;

use super::*;
use crate::random::fnv1a;
use crate::source::SourceRequest;
use spc1::{STREAM_NAMES, STREAMS};

fn source(text: &str, volume_pages: u64, seed: u64) -> BoxedSource {
    build(&parse(text).unwrap(), volume_pages, seed).unwrap()
}

/// Runs a source whose requests each take `service_ns`, all at once.
fn run(source: &mut dyn Source, requests: usize, service_ns: u64) -> Vec<(u64, SourceRequest)> {
    let mut done: std::collections::VecDeque<(u64, u32)> = Default::default();
    let mut taken = Vec::with_capacity(requests);
    while taken.len() < requests {
        let next = source.next_at();
        match (next, done.front()) {
            (Some(at), front) if front.is_none_or(|f| at.0 < f.0) => {
                let request = source.take(at).unwrap();
                done.push_back((at.0 + service_ns, request.tag));
                taken.push((at.0, request));
            }
            (_, Some(&(at_ns, tag))) => {
                done.pop_front();
                source.completed(tag, Instant(at_ns));
            }
            (_, None) => break,
        }
    }
    taken
}

fn hash(taken: &[(u64, SourceRequest)]) -> u64 {
    let mut bytes = Vec::new();
    for (at_ns, request) in taken {
        bytes.extend_from_slice(&at_ns.to_le_bytes());
        bytes.extend_from_slice(&request.arrival.0.to_le_bytes());
        bytes.extend_from_slice(&request.tag.to_le_bytes());
        bytes.push(u8::from(request.direction == Direction::Write));
        bytes.extend_from_slice(&request.range.first.0.to_le_bytes());
        bytes.extend_from_slice(&request.range.pages.to_le_bytes());
    }
    fnv1a(&bytes)
}

const PUBLISHED_PAGES: u64 = 2 * 2_949_120 + 655_360;

#[test]
fn spc1_v2_shows_the_published_figures() {
    for seed in 1..=4 {
        let mut load = source("spc1:500,style=v2", PUBLISHED_PAGES, seed);
        let mut unique: [HashSet<u64>; STREAMS] = Default::default();
        let (mut reads, mut last_ns) = (0u32, 0);
        for _ in 0..1_000_000 {
            let at = load.next_at().unwrap();
            let request = load.take(at).unwrap();
            load.completed(request.tag, at);
            reads += u32::from(request.direction == Direction::Read);
            unique[request.tag as usize % STREAMS].insert(request.range.first.0);
            last_ns = at.0;
        }
        let share = f64::from(reads) / 1e6;
        let iops = 1e6 / (last_ns as f64 / 1e9);
        assert!((0.393..=0.396).contains(&share), "seed {seed}: reads {share}");
        assert!((498.0..=502.0).contains(&iops), "seed {seed}: {iops} I/O per second");
        for (name, expected) in [("1-2", 121_000.0), ("1-4", 102_600.0), ("2-2", 31_900.0)] {
            let stream = STREAM_NAMES.iter().position(|n| *n == name).unwrap();
            let ratio = unique[stream].len() as f64 / expected;
            println!("seed {seed}: reads {share:.4}, {iops:.2}/s, {name} {}", unique[stream].len());
            assert!((0.97..=1.03).contains(&ratio), "seed {seed}, stream {name}: {ratio}");
        }
    }
}

#[test]
fn spc1_streams_have_their_shares_lengths_and_regions() {
    let mut load = source("spc1:1000", PUBLISHED_PAGES, 5);
    let taken = run(load.as_mut(), 400_000, 1);
    let mut counts: HashMap<&str, (u32, u32, u64, u64)> = HashMap::new();
    let mut lengths: HashMap<u32, u32> = HashMap::new();
    for (_, request) in &taken {
        let name = STREAM_NAMES[request.tag as usize % STREAMS];
        let entry = counts.entry(name).or_insert((0, 0, u64::MAX, 0));
        entry.0 += 1;
        entry.1 += u32::from(request.direction == Direction::Read);
        entry.2 = entry.2.min(request.range.first.0);
        entry.3 = entry.3.max(request.range.end().0);
        if name == "3-1" {
            *lengths.entry(request.range.pages).or_default() += 1;
        }
    }
    let size = 2_949_120;
    let (asu_1, asu_2) = (655_360, 655_360 + size);
    let regions: [(u64, u64); STREAMS] = [
        (asu_1, size),
        (asu_1 + size * 15 / 100, size / 20),
        (asu_1 + size / 5, size / 2),
        (asu_1 + size * 7 / 10, size / 20),
        (asu_2, size),
        (asu_2 + size * 47 / 100, size / 20),
        (asu_2 + size / 5, size / 2),
        (0, 655_360),
    ];
    let reads = [0.5, 0.5, 1.0, 0.5, 0.3, 0.3, 1.0, 0.0];
    for (index, name) in STREAM_NAMES.iter().enumerate() {
        let (count, read, low, high) = counts[name];
        let expected = 400_000.0 * spc1::STREAM_SHARES[index];
        assert!((f64::from(count) / expected - 1.0).abs() < 0.05, "{name}: {count}");
        assert!((f64::from(read) / f64::from(count) - reads[index]).abs() < 0.02, "{name}");
        assert!(low >= regions[index].0 && high <= regions[index].0 + regions[index].1, "{name}");
    }
    for (pages, in_25) in [(1, 10.0), (2, 6.0), (4, 5.0), (8, 2.0), (16, 2.0)] {
        let share = f64::from(lengths[&pages]) / f64::from(counts["3-1"].0) * 25.0;
        assert!((share - in_25).abs() < 0.3, "{pages} pages: {share} in 25");
    }
}

/// With every request taking `service_ns` a BSU at its bound of 8 is overloaded or not.
#[test]
fn spc1_open_keeps_its_schedule_and_its_bound() {
    let mut quick = source("spc1:100", PUBLISHED_PAGES, 9);
    let mut slow = source("spc1:100", PUBLISHED_PAGES, 9);
    let quick = run(quick.as_mut(), 5_000, 1);
    let slow = run(slow.as_mut(), 5_000, 200_000_000);
    let per_bsu = |taken: &[(u64, SourceRequest)], bsu: u32| -> Vec<SourceRequest> {
        taken.iter().map(|t| t.1).filter(|r| r.tag / 8 == bsu).take(2_000).collect()
    };
    for bsu in 0..2 {
        let slow = per_bsu(&slow, bsu);
        let times: Vec<u64> = slow.iter().map(|r| r.arrival.0).collect();
        let quick_times: Vec<u64> = per_bsu(&quick, bsu).iter().map(|r| r.arrival.0).collect();
        assert_eq!(times, quick_times);
    }
    assert!(slow.iter().any(|(at_ns, request)| request.arrival.0 + 1_000_000_000 < *at_ns));
    check_bound(&slow, 200_000_000);
}

fn check_bound(taken: &[(u64, SourceRequest)], service_ns: u64) {
    let mut previous = 0;
    for (index, (at_ns, request)) in taken.iter().enumerate() {
        assert!(*at_ns >= previous && request.arrival.0 <= *at_ns);
        previous = *at_ns;
        let same_bsu = |t: &&(u64, SourceRequest)| t.1.tag / 8 == request.tag / 8;
        let recent = taken[index.saturating_sub(200)..=index].iter().filter(same_bsu);
        let outstanding = recent.filter(|t| t.0 + service_ns > *at_ns).count();
        assert!(outstanding <= 8, "{outstanding} outstanding at request {index}");
    }
}

#[test]
fn spc1_semi_open_shifts_the_clock() {
    let mut load = source("spc1:100,semi-open", PUBLISHED_PAGES, 9);
    let taken = run(load.as_mut(), 5_000, 200_000_000);
    check_bound(&taken, 200_000_000);
    assert!(taken.iter().all(|(at_ns, request)| request.arrival.0 == *at_ns));
    let seconds = taken.last().unwrap().0 as f64 / 1e9;
    // Two BSUs of 8 places, each busy for a fifth of a second: at most 80 per second.
    let iops = 5_000.0 / seconds;
    assert!((70.0..=80.1).contains(&iops), "{iops}");
}

#[test]
fn spc1_shares_the_target_and_says_its_bound() {
    let load = source("spc1:iops=900", PUBLISHED_PAGES, 1);
    assert_eq!((load.target_iops(), load.bound()), (Some(900.0), "8 a BSU, 18 BSUs".into()));
    assert_eq!(source("spc1:20", 4096, 1).bound(), "8 a BSU, 1 BSUs");
    assert_eq!(source("spc1:20,bsus=3,bound=2", 4096, 1).bound(), "2 a BSU, 3 BSUs");
}

const EVERY: &[&str] = &[
    "spc1:500",
    "spc1:500,semi-open,v2",
    "random",
    "random:think=1.5,threads=4",
    "uniform:iops=2000,writes=0.5,pages=3",
    "zipf",
    "zipf:theta=1.2,scramble=0,iops=0",
    "sequential:streams=3,pages=16",
    "hotcold:writes=0.3",
    "mix:0.7*zipf(theta=0.99,writes=0.5)+0.3*sequential(streams=2),iops=3000",
];

#[test]
fn every_load_stays_inside_the_volume_in_order_and_repeats() {
    for text in EVERY {
        let volume_pages = 5_003;
        let first = run(source(text, volume_pages, 1).as_mut(), 100_000, 700_000);
        let again = run(source(text, volume_pages, 1).as_mut(), 100_000, 700_000);
        let other = run(source(text, volume_pages, 2).as_mut(), 100_000, 700_000);
        assert_eq!(hash(&first), hash(&again), "{text}");
        if !text.starts_with("sequential") {
            assert_ne!(hash(&first), hash(&other), "{text}");
        }
        assert_eq!(first.len(), 100_000, "{text}");
        assert!(first.is_sorted_by_key(|t| t.0), "{text}");
        for (at_ns, request) in &first {
            assert!(request.arrival.0 <= *at_ns && request.range.pages > 0, "{text}");
            assert!(request.range.end().0 <= volume_pages, "{text}: {request:?}");
        }
    }
}

#[test]
fn hashes_are_what_they_were() {
    let golden = [GOLDEN_SPC1, GOLDEN_ZIPF];
    for (text, expected) in ["spc1:900", "zipf:iops=0,writes=0.7"].iter().zip(golden) {
        let taken = run(source(text, PUBLISHED_PAGES, 42).as_mut(), 100_000, 3_000_000);
        assert_eq!(format!("{:016x}", hash(&taken)), expected, "{text}");
    }
}

const GOLDEN_SPC1: &str = "5776a67ae14fe640";
const GOLDEN_ZIPF: &str = "ab99bfc5c52c09b6";

#[test]
fn every_entry_builds_with_its_defaults() {
    for entry in entries() {
        let mut load = source(entry.name, 100_000, 1);
        assert!(load.next_at().is_some(), "{}", entry.name);
        let limited = if entry.name == "mix" {
            format!("mix:requests=5,parts={}", entry.params[0].default)
        } else {
            format!("{}:requests=5", entry.name)
        };
        let taken = run(source(&limited, 100_000, 1).as_mut(), 10, 1000);
        assert_eq!(taken.len(), 5, "{}", entry.name);
    }
}

#[test]
fn closed_loops_keep_their_threads_busy() {
    let taken = run(source("random", 1 << 20, 3).as_mut(), 3200, 1_000_000);
    assert_eq!(taken.last().unwrap().0, 99 * 1_000_000);
    assert!(taken.iter().all(|t| t.1.direction == Direction::Write && t.1.range.pages == 1));
    let taken = run(source("random:think=1", 1 << 20, 3).as_mut(), 3200, 1_000_000);
    assert_eq!(taken.last().unwrap().0, 99 * 2_000_000);
}

#[test]
fn mistakes_name_the_way_out() {
    let error = |text: &str, pages| match parse(text) {
        Ok(choice) => build(&choice, pages, 1).err().expect(text).to_string(),
        Err(error) => error.to_string(),
    };
    for (text, expected) in [
        ("spc2", "unknown workload `spc2`; known: spc1, "),
        ("spc1:stile=v2", "`spc1` has no parameter `stile`; it has: iops, loop"),
        ("spc1:style=v3", "`spc1`: style must be classic or v2, not `v3`"),
        ("spc1:iops=x", "`spc1`: iops must be a number from 1 to 100000000, not `x`"),
        ("spc1:bound=0", "`spc1`: bound must be a number from 1 to 1000000, not `0`"),
        ("spc1", "`spc1` needs at least 4096 pages, but has 1000: use a larger volume or span"),
        ("zipf:span=2000", "a span of 2000 pages reaches past the volume's 1000: lower `span`"),
        ("uniform:pages=2000", "`uniform` needs at least 2000 pages, but has 1000"),
        ("mix:0.7*zipf+sequential", "mix: `sequential` has no share before a `*`; write it like"),
        ("mix:0*zipf", "mix: the share of `0*zipf` is not above 0"),
        ("uniform:iops=nan", "`uniform`: iops must be a number from 0 to 100000000, not `nan`"),
        ("uniform:threads=4", "`uniform`: threads=4 is for a closed loop, but iops=1000 makes an"),
        ("random:iops=9,think=1", "`random`: think=1 is for a closed loop, but iops=9 makes an"),
        ("mix:1*zipf,threads=4", "`mix`: threads=4 is for a closed loop, but iops=1000 makes an"),
        ("mix:1*zipf(theta=2", "mix: `zipf(theta=2` lacks a closing `)`"),
        ("mix:1*zipf(iops=3)", "mix: `iops` belongs to the mix, not to its part `zipf(iops=3)`"),
        ("mix:1*spc1", "unknown part of a mix `spc1`; known: "),
    ] {
        let message = error(text, 1000);
        assert!(message.starts_with(expected), "{text}: {message}");
        assert!(!message.contains('\n'));
    }
}

#[test]
fn defaults_of_the_other_loop_are_no_contradiction() {
    for text in ["uniform:iops=500,threads=32,think=0.0", "hotcold:think=0"] {
        assert!(source(text, 100_000, 1).target_iops().is_some(), "{text}");
    }
}

#[test]
fn a_load_says_whether_it_sets_its_own_pace() {
    for (text, own) in [
        ("spc1", &[][..]),
        ("spc1:style=v2,bound=4", &[]),
        ("spc1:900", &["iops"]),
        ("random:writes=0.5,requests=9", &[]),
        ("random:4", &["threads"]),
        ("uniform:iops=0,threads=4,think=1", &["iops", "threads", "think"]),
        ("mix:0.7*zipf(theta=0.9,writes=1)+0.3*sequential", &[]),
        ("mix:0.7*zipf(theta=0.9,writes=1)+0.3*sequential,600", &["iops"]),
        ("no such load", &[]),
    ] {
        assert_eq!(own_pace(text), own, "{text}");
    }
}
