//! What the simulator must show, as bands around the published ratios. Simulated time is exact,
//! so these are no timed tests: the same figures come out on every machine.

mod common;

use common::{succeeds, trace};
use serde_json::Value;
use std::collections::BTreeMap;

fn json(words: &[&str]) -> Value {
    let words = [words, &["--format", "json"]].concat();
    serde_json::from_str(&succeeds(&words)).expect("JSON")
}

/// The first seeds, which every test run takes, and how many `make reproduce-bands` takes.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=2;
const MANY_SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

/// Throughput at 20 ms of a policy with a seed, on a sweep of SPC-1-like load around it.
fn at_20_ms(thresholds: &str, policy: &str, sweep: &str, seed: u64) -> f64 {
    let (rate, seed) = (format!("linear:{thresholds}"), seed.to_string());
    let sweep = format!("iops={sweep}");
    let words = ["compare", "--rate", &rate, "--policies", policy, "--sweep", &sweep];
    let report = json(&[&words[..], &["--warmup", "300", "--seed", &seed]].concat());
    report["at_response"][0]["iops"].as_f64().expect("20 ms are within the sweep")
}

fn within(what: &str, value: f64, low: f64, high: f64) {
    println!("{what}: {value:.3} in {low} to {high}");
    assert!((low..=high).contains(&value), "{what}: {value:.3} is not in {low} to {high}");
}

/// A gain over another policy: its mean over seeds is inside the band. One seed may be outside, by
/// no more than a quarter of the gain, and the spread is printed.
fn gains(what: &str, ratios: &[f64], low: f64, high: f64) {
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    println!("{what}: {least:.3} to {most:.3} with {} seeds", ratios.len());
    within(what, mean, low, high);
    let slack = (mean - 1.0) / 4.0;
    within(&format!("{what}, of each seed"), least, low - slack, high + slack);
    within(&format!("{what}, of each seed"), most, low - slack, high + slack);
}

fn stow_leads_with_90_80(seeds: std::ops::RangeInclusive<u64>) {
    let of = |policy: &str, sweep: &str| -> Vec<f64> {
        seeds.clone().map(|seed| at_20_ms("90/80", policy, sweep, seed)).collect()
    };
    let stow = of("stow", "1050..1250..50");
    for (policy, sweep, low, high) in [
        ("wow", "500..750..50", 1.6, 2.2),
        ("cscan", "450..700..50", 1.8, 2.3),
        ("lrw", "700..900..50", 1.3, 1.7),
    ] {
        let other = of(policy, sweep);
        let ratios: Vec<f64> = stow.iter().zip(&other).map(|(stow, other)| stow / other).collect();
        gains(&format!("STOW over {policy}, 90/80"), &ratios, low, high);
    }
}

fn stow_leads_with_70_40(seeds: std::ops::RangeInclusive<u64>) {
    let ratio = |seed| {
        let stow = at_20_ms("70/40", "stow", "1100..1300..50", seed);
        stow / at_20_ms("70/40", "wow", "800..1050..50", seed)
    };
    gains("STOW over wow, 70/40", &seeds.map(ratio).collect::<Vec<f64>>(), 1.15, 1.35);
}

#[test]
fn stow_leads_at_20_ms_with_thresholds_90_80() {
    stow_leads_with_90_80(SEEDS);
}

#[test]
fn wider_thresholds_help_wow_and_stow_still_leads() {
    stow_leads_with_70_40(SEEDS);
}

#[test]
#[ignore = "takes minutes: make reproduce-bands"]
fn stow_leads_with_many_seeds() {
    stow_leads_with_90_80(MANY_SEEDS);
    stow_leads_with_70_40(MANY_SEEDS);
}

#[test]
fn occupancy_at_900_iops_is_as_the_stow_paper_draws_it() {
    let report = json(&["compare", "--iops", "900", "--warmup", "300", "--seeds", "2"]);
    let points = report["points"].as_array().expect("points").iter();
    let runs = points.flat_map(|p| p["runs"].as_array().expect("runs").iter().map(move |r| (p, r)));
    for (point, run) in runs {
        let figure = |path: &str| run.pointer(path).and_then(Value::as_f64).expect("a figure");
        let (min, max) = (figure("/occupancy/min"), figure("/occupancy/max"));
        let full = figure("/time_full");
        match point["variant"].as_str().expect("a name") {
            "lrw" => within("LRW: time full", full, 0.95, 1.0),
            "stow" => {
                within("STOW: band", max - min, 0.0, 0.06);
                within("STOW: time full", full, 0.0, 0.0);
            }
            name => {
                within(&format!("{name}: lowest occupancy"), min, 0.79, 0.805);
                within(&format!("{name}: highest occupancy"), max, 1.0, 1.0);
                within(&format!("{name}: time full"), full, 0.2, 1.0);
            }
        }
    }
}

/// Random 4 KiB writes on the WOW reference: IOPS of each seed by NVS size and policy.
type Random = BTreeMap<(u64, String), Vec<f64>>;

fn random_writes(array: &[&str], sizes: &[u64], seeds: u32) -> Random {
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let (sweep, seeds) = (format!("nvs={}", sizes.join(",")), seeds.to_string());
    let fixed = ["compare", "--policies", "lrw,cscan,wow", "--disk", "wow-ref", "--workload"];
    let load = ["random", "--warmup", "nvs", "--measure", "1200", "--sweep", &sweep];
    let report = json(&[&fixed[..], &load, &["--seeds", &seeds], array].concat());
    let points = report["points"].as_array().expect("points").iter();
    let entry = |p: &Value| {
        let size = p["value"].as_str()?.parse().ok()?;
        let runs = p["runs"].as_array()?.iter().filter_map(|run| run["iops"].as_f64());
        Some(((size, p["variant"].as_str()?.to_string()), runs.collect()))
    };
    points.filter_map(entry).collect()
}

/// WOW over another policy, with each seed.
fn wow_over(other: &str, size: u64, iops: &Random) -> Vec<f64> {
    let of = |policy: &str| iops[&(size, policy.to_string())].iter();
    of("wow").zip(of(other)).map(|(wow, other)| wow / other).collect()
}

fn check_random(iops: &Random, sizes: &[u64]) {
    let lrw = |size: &u64| &iops[&(*size, "lrw".to_string())];
    for seed in 0..lrw(&sizes[0]).len() {
        let (low, high) = sizes.iter().fold((f64::MAX, 0.0f64), |(low, high), size| {
            (low.min(lrw(size)[seed]), high.max(lrw(size)[seed]))
        });
        within("LRW: largest over smallest", high / low, 1.0, 1.04);
    }
    for size in sizes {
        for ratio in wow_over("cscan", *size, iops) {
            within(&format!("WOW over CSCAN at {size}"), ratio, 0.96, 1.04);
        }
    }
}

fn random_writes_on_raid5(seeds: u32) {
    let sizes = [32, 64, 1024, 16384, 65536];
    let iops = random_writes(&["--level", "5", "--disks", "5"], &sizes, seeds);
    check_random(&iops, &sizes);
    gains("WOW over LRW at 64", &wow_over("lrw", 64, &iops), 1.2, 1.45);
    gains("WOW over LRW at 16384", &wow_over("lrw", 16384, &iops), 2.0, 2.6);
}

fn random_writes_on_raid10(seeds: u32) {
    let sizes = [32, 1024, 16384, 65536];
    let iops = random_writes(&["--level", "10", "--disks", "4"], &sizes, seeds);
    check_random(&iops, &sizes[..3]);
    gains("WOW over LRW at 32", &wow_over("lrw", 32, &iops), 1.1, 1.3);
    // Published: 3.0 (docs/reproduction.md says what was tried).
    gains("WOW over LRW at 65536", &wow_over("lrw", 65536, &iops), 1.9, 2.3);
}

#[test]
fn random_writes_on_raid5_gain_with_the_nvs() {
    random_writes_on_raid5(2);
}

#[test]
fn random_writes_on_raid10_gain_with_the_nvs() {
    random_writes_on_raid10(2);
}

#[test]
#[ignore = "takes minutes: make reproduce-bands"]
fn random_writes_gain_with_many_seeds() {
    random_writes_on_raid5(6);
    random_writes_on_raid10(6);
}

#[test]
fn the_same_seed_gives_the_same_digest_with_any_number_of_threads() {
    let words = |threads| {
        let load =
            ["compare", "--iops", "700", "--warmup", "30", "--measure", "30", "--seeds", "2"];
        json(&[&load[..], &["--threads", threads]].concat())
    };
    let digests = |report: &Value| -> Vec<String> {
        let points = report["points"].as_array().expect("points").iter();
        let runs = points.flat_map(|p| p["runs"].as_array().expect("runs").clone());
        runs.map(|r| r["digest"].as_str().expect("a digest").to_string()).collect()
    };
    let one = digests(&words("1"));
    assert_eq!(one, digests(&words("1")), "the same on the same threads");
    assert_eq!(one, digests(&words("3")), "the same on other threads");
    assert_ne!(one[0], one[1], "another seed, another run");
    // Recorded from this simulator; an intended change of any model must record it again.
    assert_eq!(one[0], "39b7d8bd39ff89ed");
}

#[test]
fn real_traces_replay_under_every_policy() {
    for (name, requests, more) in [
        ("cloudPhysicsIO.vscsi.gz", 113_872, &["--nvs", "16384"][..]),
        ("ajw.1week.srt.gz", 44_519, &["--nvs", "128", "--level", "single", "--disks", "1"]),
    ] {
        let Some(path) = trace(name) else { continue };
        let path = path.to_str().expect("text");
        let report = json(&[&["compare", "--trace", path][..], more].concat());
        for point in report["points"].as_array().expect("points") {
            let run = &point["runs"][0];
            let count = run["response"]["all"]["count"].as_u64();
            assert_eq!(count, Some(requests), "{name} under {}", point["variant"]);
            assert!(run["destage"]["pages"].as_u64() > Some(0));
        }
    }
}
