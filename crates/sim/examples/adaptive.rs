//! Holds the weight chosen while running (`adaptive-NAME`) against the paper's and the plain
//! policy, on real traces and generated loads: `make adaptive-weights`, docs/readcache.md.
//! The loads are in two halves, so that a change can be tuned on the first and judged on the other.
//! Arguments: the folder of traces, the longest slice, and the form to try, as `adaptive:sure=30`.

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

const POLICIES: [&str; 9] =
    ["lru", "lfu", "clock", "arc", "sieve", "s3-fifo", "slru", "2q", "w-tinylfu"];
/// Cache sizes in per cent of the blocks that a load asks for.
const SIZES: [u64; 8] = [1, 3, 10, 20, 35, 50, 70, 90];

/// Traces, each read once for all of its slices.
const TRACES: [&str; 9] = [
    "OLTP.lis.zst",
    "P3.lis.zst",
    "P6.lis.zst",
    "cloudPhysicsIO.vscsi.gz",
    "ajw.1week.srt.gz",
    "DTRS100M.trace.gz",
    "disksim_ascii.trace.gz",
    "wsrch-small.trace.gz",
    "ssdsim_example_fin1_first10k.ascii",
];
/// Block requests of a slice. Of each length the first slice of a trace is in the first half of the
/// loads, and the next one in the second.
const SLICES: [u64; 3] = [1_000_000, 100_000, 10_000];

/// Generated loads: name, whether it is of the second half, requests.
type Made = (&'static str, bool, fn(&mut Random) -> Vec<u64>);

const MADE: [Made; 9] = [
    ("zipf .75", false, |r| zipf(r, 60_000, 300_000, 3)),
    ("zipf 1", true, |r| zipf(r, 120_000, 600_000, 4)),
    ("zipf 1.25", false, |r| zipf(r, 200_000, 800_000, 5)),
    ("even", true, |r| (0..400_000).map(|_| r.below(30_000)).collect()),
    ("loop", false, |_| (0..400_000).map(|i| i % 40_000).collect()),
    ("loop and once", true, fitting_loop),
    ("zipf and scans", false, |r| scanned(r, 40_000, 4)),
    ("zipf and loop", true, |r| looped(r, 30_000, 20_000)),
    ("moving zipf", true, moving),
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

/// A load: its name, whether it is of the second half, what it reads.
struct Load {
    name: String,
    second: bool,
    reads: Vec<PageRange>,
}

fn made((name, second, make): &Made) -> Load {
    let blocks = make(&mut Random(mix(name.len() as u64)));
    let reads = blocks.into_iter().map(|b| PageRange::new(Page(b), 1)).collect();
    Load { name: name.to_string(), second: *second, reads }
}

/// The slices of a trace; those that it is too short for are left out, but for one.
fn slices(name: &str, folder: &Path, longest: u64) -> Vec<Load> {
    let path = folder.join(name);
    if !path.exists() {
        println!("SKIPPED {name}: no {}", path.display());
        return Vec::new();
    }
    let reads = reads_of(path.as_path(), &ReadOptions::default(), None).expect("a trace");
    let all: u64 = reads.iter().map(|range| range.end().0 - range.first.0).sum();
    let mut loads = Vec::new();
    for length in SLICES.into_iter().filter(|length| *length <= longest) {
        for (second, from) in [(false, 0), (true, length)] {
            let shorter = length > SLICES[SLICES.len() - 1] && length > all;
            if from >= all || shorter && (second || length / 10 >= all) {
                continue;
            }
            let mut before = 0;
            let wanted = |range: &&PageRange| {
                before += range.end().0 - range.first.0;
                (from..from + length).contains(&before)
            };
            let reads = reads.iter().filter(wanted).copied().collect();
            loads.push(Load {
                name: format!("{name} {}k+{}k", from / 1000, length / 1000),
                second,
                reads,
            });
        }
    }
    loads
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
    fn of(case: &Case, reads: &[PageRange], chosen: &str) -> Outcome {
        let one = |form: &str| rgr(case, Vdf::parse(form).expect("a form"), reads);
        Outcome { plain: one("off"), paper: one("paper"), adaptive: one(chosen) }
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

fn cases(loads: &[Load]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (load, Load { reads, .. }) in loads.iter().enumerate() {
        let set = working_set(reads);
        for policy in POLICIES {
            for percent in SIZES {
                let letters = policy.bytes().fold(0, |sum, b| mix(sum ^ u64::from(b)));
                let chance = mix(mix(load as u64) ^ percent << 8 ^ letters);
                let disks = 4 + chance % 7;
                let blocks = (set * percent / 100).max(64);
                let failed = chance / 7 % disks;
                cases.push(Case { load, policy, percent, blocks, disks, failed });
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
    let longest = std::env::args().nth(2).map_or(u64::MAX, |n| n.parse().expect("a number"));
    let chosen = std::env::args().nth(3).unwrap_or("adaptive".into());
    let loads: Vec<Load> = TRACES
        .iter()
        .flat_map(|name| slices(name, &folder, longest))
        .chain(MADE.iter().map(made))
        .filter(|load| !load.reads.is_empty() && load.reads.len() as u64 <= longest)
        .collect();
    let cases = cases(&loads);
    let run = |case: &Case| {
        let load = &loads[case.load];
        let outcome = Outcome::of(case, &load.reads, &chosen);
        if outcome.over_paper() > 2.0 || outcome.over_plain(outcome.adaptive) > 2.0 {
            println!(
                "loses: {}, {}, {} % ({} blocks), {} disks, disk {} failed: {:+.1} % to plain, \
                 n-1 {:+.1} %",
                load.name,
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
                loads[case.load].second == half && policy.is_none_or(|policy| case.policy == policy)
            };
            cases.iter().zip(&outcomes).filter(|(c, _)| wanted(c)).map(|(_, o)| o).collect()
        };
        for policy in POLICIES {
            line(&format!("{name}, {policy}"), &of(Some(policy)));
        }
        line(&format!("{name}, all"), &of(None));
    }
}
