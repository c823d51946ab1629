//! Holds the weight chosen while running (`adaptive-NAME`) against the paper's and the plain
//! policy, on real traces and generated loads: `make adaptive-weights`, docs/readcache.md.
//! The loads are in two halves, so that a change can be tuned on the first and judged on the other.

use destage_engine::array::geometry::Level;
use destage_engine::mix::mix;
use destage_engine::readcache::penalty::{CHUNK_BLOCKS, Penalties};
use destage_engine::readcache::replay::Tally;
use destage_engine::readcache::{Vdf, choose};
use destage_engine::request::PageRange;
use destage_engine::units::Page;
use destage_sim::parallel::in_parallel;
use destage_sim::readcache::{reads_of, working_set};
use destage_workload::trace::ReadOptions;
use std::path::{Path, PathBuf};

/// Block requests of a load; traces are cut there.
const REQUESTS: u64 = 1_000_000;
const POLICIES: [&str; 9] =
    ["lru", "lfu", "clock", "arc", "sieve", "s3-fifo", "slru", "2q", "w-tinylfu"];
/// Cache sizes in per cent of the blocks that a load asks for.
const SIZES: [u64; 8] = [1, 3, 10, 20, 35, 50, 70, 90];

/// Where a load comes from.
#[derive(Clone, Copy)]
enum Origin {
    /// A file, and how many block requests of it are left out.
    Trace(&'static str, u64),
    Made(fn(&mut Random) -> Vec<u64>),
}

/// A load: its name, whether it is of the second half, and where it comes from.
type Load = (&'static str, bool, Origin);

/// Where a trace ends before its part begins, there is no such load.
const LOADS: [Load; 21] = [
    ("OLTP", false, Origin::Trace("OLTP.lis.zst", 0)),
    ("P3", true, Origin::Trace("P3.lis.zst", 0)),
    ("P6", false, Origin::Trace("P6.lis.zst", 0)),
    ("P6, later", true, Origin::Trace("P6.lis.zst", 1_000_000)),
    ("P3, later", false, Origin::Trace("P3.lis.zst", 1_000_000)),
    ("P6, end", false, Origin::Trace("P6.lis.zst", 2_000_000)),
    ("financial1", true, Origin::Trace("ssdsim_example_fin1_first10k.ascii", 0)),
    ("cloudPhysics", true, Origin::Trace("cloudPhysicsIO.vscsi.gz", 0)),
    ("hplajw", false, Origin::Trace("ajw.1week.srt.gz", 0)),
    ("DTRS", true, Origin::Trace("DTRS100M.trace.gz", 0)),
    ("DiskSim", false, Origin::Trace("disksim_ascii.trace.gz", 0)),
    ("WebSearch", true, Origin::Trace("wsrch-small.trace.gz", 0)),
    ("zipf .75", false, Origin::Made(|r| zipf(r, 60_000, 300_000, 3))),
    ("zipf 1", true, Origin::Made(|r| zipf(r, 120_000, 600_000, 4))),
    ("zipf 1.25", false, Origin::Made(|r| zipf(r, 200_000, 800_000, 5))),
    ("even", true, Origin::Made(|r| (0..400_000).map(|_| r.below(30_000)).collect())),
    ("loop", false, Origin::Made(|_| (0..400_000).map(|i| i % 40_000).collect())),
    ("loop and once", true, Origin::Made(fitting_loop)),
    ("zipf and scans", false, Origin::Made(|r| scanned(r, 40_000, 4))),
    ("zipf and loop", true, Origin::Made(|r| looped(r, 30_000, 20_000))),
    ("moving zipf", true, Origin::Made(moving)),
];

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        ((u128::from(mix(self.0)) * u128::from(below)) >> 64) as u64
    }
}

/// Ranks drawn by weights of 1 / rank^(quarters / 4).
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(blocks: u64, quarters: i32) -> Zipf {
        let mut sum = 0.0;
        let add = |rank| {
            sum += f64::sqrt(f64::sqrt(rank as f64)).powi(-quarters);
            sum
        };
        Zipf((1..=blocks).map(add).collect())
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let at = random.below(1 << 53) as f64 / (1u64 << 53) as f64;
        let at = at * self.0.last().expect("blocks");
        self.0.partition_point(|sum| *sum <= at) as u64
    }
}

/// Spreads ranks over the blocks, runs of 4 together.
fn place(rank: u64, blocks: u64) -> u64 {
    let run = mix(rank / 4) % (4 * blocks);
    run * 4 + rank % 4
}

fn zipf(random: &mut Random, blocks: u64, requests: u64, quarters: i32) -> Vec<u64> {
    let ranks = Zipf::new(blocks, quarters);
    (0..requests).map(|_| place(ranks.draw(random), blocks)).collect()
}

fn fitting_loop(_: &mut Random) -> Vec<u64> {
    let request = |i: u64| if i.is_multiple_of(10) { (1 << 30) | i } else { (i - i / 10) % 30_000 };
    (0..500_000).map(request).collect()
}

/// Zipf with scans of new blocks at regular intervals, which make one in `share` of the requests.
fn scanned(random: &mut Random, blocks: u64, share: u64) -> Vec<u64> {
    let ranks = Zipf::new(blocks, 4);
    let request = |i: u64| match i / 5000 % share {
        0 => 1 << 30 | i,
        _ => place(ranks.draw(random), blocks),
    };
    (0..600_000).map(request).collect()
}

fn looped(random: &mut Random, blocks: u64, round: u64) -> Vec<u64> {
    let ranks = Zipf::new(blocks, 4);
    let request = |i: u64| match i % 2 {
        0 => (1 << 30) | (i / 2 % round),
        _ => place(ranks.draw(random), blocks),
    };
    (0..600_000).map(request).collect()
}

/// Zipf whose ranks move: every thousand requests ten blocks change theirs.
fn moving(random: &mut Random) -> Vec<u64> {
    let ranks = Zipf::new(20_000, 4);
    (0..700_000).map(|i| place(ranks.draw(random) + i / 100, 40_000)).collect()
}

fn reads(load: &Load, folder: &Path) -> Option<Vec<PageRange>> {
    let (name, skipped) = match load.2 {
        Origin::Made(make) => {
            let blocks = make(&mut Random(mix(load.0.len() as u64)));
            return Some(blocks.into_iter().map(|b| PageRange::new(Page(b), 1)).collect());
        }
        Origin::Trace(name, skipped) => (name, skipped),
    };
    let path = folder.join(name);
    if !path.exists() {
        println!("SKIPPED {}: no {}", load.0, path.display());
        return None;
    }
    let reads = reads_of(path.as_path(), &ReadOptions::default(), None).expect("a trace");
    let mut before = 0;
    let wanted = |range: &PageRange| {
        before += range.end().0 - range.first.0;
        (skipped..skipped + REQUESTS).contains(&before)
    };
    let reads: Vec<PageRange> = reads.into_iter().filter(wanted).collect();
    (!reads.is_empty()).then_some(reads)
}

struct Case {
    load: usize,
    policy: &'static str,
    percent: u64,
    blocks: u64,
    disks: u64,
    failed: u64,
}

/// RGR of the plain policy, with weight n-1, and with the weight chosen.
struct Outcome {
    plain: f64,
    paper: f64,
    adaptive: f64,
}

impl Outcome {
    fn of(case: &Case, reads: &[PageRange]) -> Outcome {
        let one = |form: &str| rgr(case, Vdf::parse(form).expect("a form"), reads);
        Outcome { plain: one("off"), paper: one("paper"), adaptive: one("adaptive") }
    }

    /// In per cent of the plain policy's RGR.
    fn over_plain(&self, value: f64) -> f64 {
        100.0 * (value / self.plain - 1.0)
    }

    fn over_paper(&self) -> f64 {
        100.0 * (self.adaptive / self.paper - 1.0)
    }
}

fn rgr(case: &Case, form: Vdf, reads: &[PageRange]) -> f64 {
    let choice = choose(case.policy).expect("known").with_vdf(form).expect("it has the form");
    let mut cache = choice.build(case.blocks).expect("a size");
    let fault = Penalties::new(Level::Raid5, case.disks, &[case.failed], CHUNK_BLOCKS);
    let fault = fault.expect("an array");
    cache.set_fault(Some(fault.clone()));
    let mut tally = Tally::default();
    cache.run(reads, &fault, &mut tally);
    tally.penalty as f64 / tally.requests as f64
}

fn cases(loads: &[(usize, Vec<PageRange>)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (load, reads) in loads {
        let set = working_set(reads);
        for policy in POLICIES {
            for percent in SIZES {
                let letters = policy.bytes().fold(0, |sum, b| mix(sum ^ u64::from(b)));
                let chance = mix(mix(*load as u64) ^ percent << 8 ^ letters);
                let disks = 4 + chance % 7;
                let blocks = (set * percent / 100).max(64);
                let failed = chance / 7 % disks;
                cases.push(Case { load: *load, policy, percent, blocks, disks, failed });
            }
        }
    }
    cases
}

/// A line of the table: cases, means, worst ones, and in how many the method loses.
fn line(name: &str, outcomes: &[&Outcome]) {
    let count = outcomes.len();
    let mean = |get: &dyn Fn(&Outcome) -> f64| {
        outcomes.iter().map(|o| get(o)).sum::<f64>() / count.max(1) as f64
    };
    let most =
        |get: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(|o| get(o)).fold(f64::MIN, f64::max);
    let lost = outcomes.iter().filter(|o| o.over_paper() > 2.0).count();
    println!(
        "| {name} | {count} | {:.1} | {:.1} | {:+.1} | {:+.1} | {lost} |",
        mean(&|o| o.over_plain(o.paper)),
        mean(&|o| o.over_plain(o.adaptive)),
        most(&|o| o.over_plain(o.adaptive)),
        most(&|o| o.over_paper()),
    );
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or("../shared/traces".into()));
    let loads: Vec<(usize, Vec<PageRange>)> =
        (0..LOADS.len()).filter_map(|at| Some((at, reads(&LOADS[at], &folder)?))).collect();
    let cases = cases(&loads);
    let run = |case: &Case| {
        let reads = &loads.iter().find(|(load, _)| *load == case.load).expect("read").1;
        let outcome = Outcome::of(case, reads);
        if outcome.over_paper() > 2.0 || outcome.over_plain(outcome.adaptive) > 2.0 {
            println!(
                "loses: {}, {}, {} % ({} blocks), {} disks, disk {} failed: {:+.1} % to plain, \
                 n-1 {:+.1} %",
                LOADS[case.load].0,
                case.policy,
                case.percent,
                case.blocks,
                case.disks,
                case.failed,
                outcome.over_plain(outcome.adaptive),
                outcome.over_plain(outcome.paper)
            );
        }
        outcome
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes = in_parallel(&cases, threads, &run, |_| false, &|_| {});
    println!("| half, policy | cases | n-1 | chosen | worst to plain | worst to n-1 | over 2 % |");
    println!("|---|---|---|---|---|---|---|");
    for (half, name) in [(false, "first"), (true, "second")] {
        let of = |policy: Option<&str>| -> Vec<&Outcome> {
            let wanted = |case: &Case| {
                LOADS[case.load].1 == half && policy.is_none_or(|policy| case.policy == policy)
            };
            cases.iter().zip(&outcomes).filter(|(c, _)| wanted(c)).map(|(_, o)| o).collect()
        };
        for policy in POLICIES {
            line(&format!("{name}, {policy}"), &of(Some(policy)));
        }
        line(&format!("{name}, all"), &of(None));
    }
}
