//! `make bench`: speeds, compared within one run, several times, medians.
//!
//! 1. Cache-only replay: one-page writes, zipf 0.99 over 1 M pages, groups of 64, a cache of a
//!    tenth; each policy next to a plain LRU from the crate `lru` on the same requests.
//! 2. 16 M pages held, one per group and about 16 per group: ns per write and per pick.
//! 3. Read caches on the requests of part 1, next to the crate `lru`; the fault-aware forms with a
//!    failed disk of five, and the pass over a cache that a fault costs.
//! 4. The full array simulation of SPC-1-like load: host requests and events per second.
//! 5. P, and P and Q, of rows of four pages by the served array's code, next to a plain copy of as
//!    many bytes: bytes of the sources per second. The sources are larger than the processor's
//!    caches; results are new pages, as a destage makes them. `make bench ARGS=parity` is this
//!    part alone.
//!
//! The first argument is the number of requests of part 1 in millions (default 20).

use destage_engine::array::geometry::Level;
use destage_engine::conditions::Conditions;
use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{self, PolicyContext};
use destage_engine::readcache;
use destage_engine::readcache::penalty::Penalties;
use destage_engine::readcache::replay::Tally;
use destage_engine::request::PageRange;
use destage_engine::sequential::{Detector, DetectorKind};
use destage_engine::units::{Instant as SimInstant, Page, PageCount};
use destage_engine::writecache::{Admitted, Picked, ReplayEvents, WriteCache};
use destage_parity::erasure::parities;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

const ROUNDS: usize = 7;
const PAGES: u64 = 1_000_000;
const CACHE: u64 = PAGES / 10;
const GROUP: u64 = 64;

fn main() {
    if std::env::args().any(|argument| argument == "parity") {
        return parity();
    }
    let millions = std::env::args().skip(1).find_map(|a| a.parse::<usize>().ok()).unwrap_or(20);
    let pages = zipf(millions * 1_000_000);
    println!("cache-only replay: {millions} M one-page writes, zipf 0.99 over {PAGES} pages,");
    println!("groups of {GROUP}, cache {CACHE} pages; median of {ROUNDS}, M requests/s\n");
    next_to_the_crate(&pages, &["lrw", "cscan", "wow", "stow", "ebb"], policy_replay);
    read_caches(&pages);
    drop(pages);
    large();
    array();
    parity();
}

/// Bytes of all sources of the parity part.
const SOURCES: usize = 256 << 20;
const STRIPS: usize = 4;
const PAGE: usize = 4096;

/// XOR of four and P + Q next to a copy, in one run; each round's ratio is to its own copy.
fn parity() {
    let source: Vec<u8> = (0..SOURCES).map(|i| (i * 31 + (i >> 12)) as u8).collect();
    let mut copied = vec![1; SOURCES];
    let gbps = |start: Instant| SOURCES as f64 / start.elapsed().as_secs_f64() / 1e9;
    let mut copies = Vec::new();
    let mut speeds = [("P", false), ("P and Q", true)].map(|of| (of, Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let pages = source.chunks_exact(PAGE).zip(copied.chunks_exact_mut(PAGE));
        pages.for_each(|(page, into)| into.copy_from_slice(page));
        let copy = gbps(start);
        black_box(&copied);
        copies.push(copy);
        for ((_, with_q), speeds, ratios) in &mut speeds {
            let start = Instant::now();
            for row in source.chunks_exact(STRIPS * PAGE) {
                let mut strips = [&row[..0]; STRIPS];
                strips.iter_mut().zip(row.chunks_exact(PAGE)).for_each(|(s, page)| *s = page);
                black_box(parities(&strips, *with_q));
            }
            let speed = gbps(start);
            speeds.push(speed);
            ratios.push(speed / copy);
        }
    }
    println!("\nparity of rows of {STRIPS} pages, {} MiB of sources; medians of", SOURCES >> 20);
    println!("{ROUNDS}, GB of sources a second; the copy's: GB copied\n");
    println!("  {:10} {:6.2}", "copy", median(&mut copies));
    for ((name, _), speeds, ratios) in &mut speeds {
        println!("  {name:10} {:6.2}   {:5.2} x the copy", median(speeds), median(ratios));
    }
}

/// Replays of each policy, the crate `lru` before each: what else the machine does changes from
/// one second to the next, so the ratios are of neighbours, and the median of those is printed.
fn next_to_the_crate(pages: &[u32], names: &[&str], replay: impl Fn(&str, &[u32]) -> u64) {
    let mut crates = Vec::new();
    let mut speeds = vec![(Vec::new(), Vec::new()); names.len()];
    for _ in 0..ROUNDS {
        for (name, (speeds, ratios)) in names.iter().zip(&mut speeds) {
            let of_crate = timed(pages, lru_replay);
            let speed = timed(pages, |pages| replay(name, pages));
            crates.push(of_crate);
            speeds.push(speed);
            ratios.push(speed / of_crate);
        }
    }
    println!("  {:11} {:6.1}", "lru crate", median(&mut crates));
    for (name, (mut speeds, mut ratios)) in names.iter().zip(speeds) {
        let (speed, ratio) = (median(&mut speeds), median(&mut ratios));
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        println!("  {name:11} {speed:6.1}   {ratio:5.2} x lru crate ({least:.2} to {most:.2})");
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn timed(pages: &[u32], replay: impl Fn(&[u32]) -> u64) -> f64 {
    let start = Instant::now();
    black_box(replay(pages));
    pages.len() as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The requests, drawn beforehand: drawing costs as much as a policy's step.
fn zipf(count: usize) -> Vec<u32> {
    let choice = destage_workload::generator::parse("zipf:theta=0.99,writes=1,iops=1000")
        .expect("a workload");
    let mut source = destage_workload::generator::build(&choice, PAGES, 1).expect("a source");
    let mut pages = Vec::with_capacity(count);
    for _ in 0..count {
        let now: SimInstant = source.next_at().expect("endless");
        let request = source.take(now).expect("a request");
        source.completed(request.tag, now);
        pages.push(request.range.first.0 as u32);
    }
    pages
}

fn lru_replay(pages: &[u32]) -> u64 {
    let capacity = NonZeroUsize::new(CACHE as usize).expect("not zero");
    let mut cache: lru::LruCache<u64, ()> = lru::LruCache::new(capacity);
    let mut hits = 0;
    for page in pages {
        hits += u64::from(cache.put(u64::from(*page), ()).is_some());
    }
    hits
}

fn cache(name: &str, nvs_pages: u64, group_pages: u64, groups: u64) -> WriteCache {
    let context = PolicyContext {
        nvs_pages,
        groups,
        group_pages,
        disks: 5,
        queue_depth: 20,
        high: 9000,
        low: 8000,
        mirrored: false,
    };
    let policy = policy::choose(name).expect("a policy").build(&context).expect("in range");
    let detector = if policy.needs_detector() {
        Detector::new(DetectorKind::Pages, 16, group_pages)
    } else {
        Detector::Off
    };
    WriteCache::new(Directory::new(PageCount(nvs_pages), group_pages, groups), detector, policy)
}

fn policy_replay(name: &str, pages: &[u32]) -> u64 {
    let mut cache = cache(name, CACHE, GROUP, PAGES.div_ceil(GROUP));
    let mut hits = Hits(0);
    in_batches(pages, |ranges| cache.replay(ranges, &mut hits));
    hits.0
}

/// Pages hit.
struct Hits(u64);

impl ReplayEvents for Hits {
    fn destaged(&mut self, _: Picked, _: &[u64]) {}

    fn admitted(&mut self, admitted: Admitted) {
        self.0 += admitted.page_hits;
    }
}

/// The pages as requests, 4096 at a time: both kinds of cache replay batches.
fn in_batches(pages: &[u32], mut replay: impl FnMut(&[PageRange])) {
    let mut ranges = Vec::with_capacity(4096);
    for some in pages.chunks(4096) {
        ranges.clear();
        ranges.extend(some.iter().map(|page| PageRange::new(Page(u64::from(*page)), 1)));
        replay(&ranges);
    }
}

/// Hits of a read-cache policy; a fault-aware form has a disk of five failed from the start.
fn read_replay(name: &str, pages: &[u32]) -> u64 {
    let penalties = Penalties::new(Level::Raid5, 5, &[0], 16).expect("an array");
    let mut cache = readcache::choose(name).expect("a policy").build(CACHE).expect("a size");
    cache.set_fault(Some(penalties.clone()));
    let mut tally = Tally::default();
    in_batches(pages, |ranges| cache.run(ranges, &penalties, &mut tally));
    tally.hits
}

fn read_caches(pages: &[u32]) {
    println!("\nread caches, the same requests; median of {ROUNDS}, M requests/s\n");
    let names: Vec<&str> = readcache::entries().iter().map(|e| e.name).collect();
    next_to_the_crate(pages, &names, read_replay);
    for name in ["vdf-lru", "vdf-lfu"] {
        let mut cache = readcache::choose(name).expect("a policy").build(PAGES).expect("a size");
        for block in 0..PAGES {
            cache.access(block * 7919 % PAGES);
        }
        let penalties = Penalties::new(Level::Raid5, 5, &[0], 16).expect("an array");
        let start = Instant::now();
        cache.set_fault(Some(penalties));
        println!("  {name}: {PAGES} blocks held, a fault takes {:?}", start.elapsed());
    }
}

/// 16 M pages, each in a group of its own, 64 GiB of NVS at its worst; and in fuller groups.
fn large() {
    const HELD: u64 = 16 << 20;
    println!("\n{HELD} pages held ({} GiB of NVS): ns each", (HELD * 4096) >> 30);
    large_with("one a group", HELD, HELD * 4, GROUP);
    large_with("about 16 a group", HELD, HELD / 16, 1);
}

/// Writes to random pages of `groups` groups, all of them or every `stride`th, until `held` are
/// held; then picks.
fn large_with(how: &str, held: u64, groups: u64, stride: u64) {
    println!("  {how}");
    let volume = groups * GROUP;
    for name in ["lrw", "wow", "stow", "ebb"] {
        let mut cache = cache(name, held, GROUP, groups);
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            PageRange::new(Page((state >> 33) % (volume / stride) * stride), 1)
        };
        let start = Instant::now();
        let mut writes = 0u64;
        while cache.directory.free_pages() > 0 {
            let range = next();
            let classified = cache.classify(range);
            cache.admit(range, classified, &Conditions::NONE);
            writes += 1;
        }
        let write_ns = start.elapsed().as_nanos() as f64 / writes as f64;
        let mut mask = Vec::new();
        let start = Instant::now();
        const PICKS: u64 = 1_000_000;
        for _ in 0..PICKS {
            let picked = cache
                .pick(&Conditions::NONE, &mut |_, _| false, &mut mask)
                .expect("something is held");
            cache.directory.release(picked.group, &mask);
        }
        let pick_ns = start.elapsed().as_nanos() as f64 / PICKS as f64;
        println!("    {name:6} write {write_ns:5.0}   pick {pick_ns:5.0}");
    }
}

/// The array of the STOW comparison at a load that STOW carries.
fn array() {
    println!("\narray simulation, RAID-5 4+1 on stow-ref, SPC-1-like, 600 s; median of {ROUNDS}");
    for (policy, iops) in [("lrw", "750"), ("wow", "900"), ("stow", "900")] {
        let mut options = RunOptions::default();
        for (name, value) in [("policy", policy), ("iops", iops)] {
            options.set(name, value).expect("an option");
        }
        let (mut requests, mut events) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let report = run_one(policy, &options, &make_source).expect("a run");
            let seconds = start.elapsed().as_secs_f64();
            let total = report.iops * (report.warmup_s + report.measured_s);
            requests.push(total / seconds / 1e3);
            events.push(report.events as f64 / seconds / 1e6);
        }
        println!(
            "  {policy:6} {:6.0} thousand host requests/s, {:4.1} M engine events/s",
            median(&mut requests),
            median(&mut events)
        );
    }
}
