//! Items over traces: both kinds of runs on small traces made here, what happens where a trace is
//! not there, and the cheap bands on the real ones.

use destage_report::Verdict;
use destage_sim::reproduce::find;
use destage_sim::reproduce::kinds::RunnerKind;
use destage_sim::reproduce::runner::{Cell, Plan};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn settings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn run(kind: RunnerKind, plan: &Plan) -> Vec<Cell> {
    kind.runner().check(plan).expect("a plan that can be run");
    assert_eq!(kind.runner().missing(plan), None);
    let one = kind.runner().run(plan, 1, &|_| {}).expect("runs");
    assert_eq!(one, kind.runner().run(plan, 3, &|_| {}).expect("runs"));
    one
}

fn figure(cells: &[Cell], variant: &str, value: &str, name: &str) -> f64 {
    let cell = cells.iter().find(|c| c.variant == variant && c.value == value).expect("a cell");
    *cell.samples[0].figures.get(name).unwrap_or_else(|| panic!("{variant}: no {name}"))
}

fn folder() -> Option<PathBuf> {
    let shared = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("DESTAGE_TRACES").map_or_else(shared, PathBuf::from);
    if !folder.join("ajw.1week.srt.gz").exists() {
        println!("SKIPPED: {} has no ajw.1week.srt.gz", folder.display());
        return None;
    }
    Some(folder)
}

/// Three writes, of which the cache holds but one, to two tracks in turn: two of them stall.
#[test]
fn a_cache_by_track_with_and_without_time() {
    let folder = TempDir::new().expect("a folder");
    let lines = [(0, 0), (1, 565), (2, 0)].map(|(s, at)| format!("{s}000000000 0 {at} 50 0\n"));
    std::fs::write(folder.path().join("t.trace"), lines.concat()).expect("written");
    let variant = |label: &str, time: &str| (label.to_string(), settings(&[("time", time)]));
    let plan = Plan {
        title: "tracks".into(),
        base: settings(&[
            ("disk", "hp-c2200a"),
            ("policy", "lrw"),
            ("rate", "write-behind"),
            ("trace", "t.trace"),
            ("trace-format", "ssdsim"),
        ]),
        variants: vec![variant("disk", "disk"), variant("none", "none")],
        sweep: Some(("nvs".into(), vec!["32K".into(), "64K".into()])),
        seeds: 1,
        traces: folder.path().into(),
    };
    let cells = run(RunnerKind::Track, &plan);
    for time in ["disk", "none"] {
        assert_eq!(figure(&cells, time, "32K", "trace-writes"), 3.0);
        assert_eq!(figure(&cells, time, "32K", "writes-to-disk"), 2.0);
        assert_eq!(figure(&cells, time, "32K", "stalled-writes"), 2.0);
        assert_eq!(figure(&cells, time, "64K", "stalled-writes"), 0.0);
    }
    assert!(figure(&cells, "disk", "32K", "write-service-ms") > 5.0);
    assert_eq!(figure(&cells, "disk", "64K", "write-service-ms"), 0.0);
    let thresholds = Plan {
        base: [plan.base.clone(), settings(&[("high", "30"), ("nvs", "64K")])].concat(),
        variants: vec![("LRU".into(), settings(&[("rate", "dual"), ("time", "none")]))],
        sweep: Some(("low".into(), vec!["10".into(), "20".into()])),
        ..plan
    };
    let cells = run(RunnerKind::Track, &thresholds);
    assert_eq!(figure(&cells, "LRU", "10", "writes-to-disk"), 3.0, "each is over 30 % alone");
    assert_eq!(figure(&cells, "LRU", "10", "stalled-writes"), 0.0);
}

/// Blocks in a ring longer than the cache: LRU always misses, and every miss costs 1.6 on average
/// over the five disks that may have failed.
#[test]
fn read_caches_over_degraded_arrays() {
    let folder = TempDir::new().expect("a folder");
    let lines: String = (0..4000).map(|i| format!("{}\n", i % 80)).collect();
    std::fs::write(folder.path().join("t.trace"), lines).expect("written");
    let policy = |name: &str| (name.to_string(), settings(&[("policy", name)]));
    let plan = Plan {
        title: "reads".into(),
        base: settings(&[("disks", "5,8"), ("trace", "t.trace"), ("trace-format", "blocks")]),
        variants: ["lru", "vdf-lru", "lfu", "vdf-lfu"].map(policy).into(),
        sweep: Some(("blocks".into(), vec!["32".into(), "80".into()])),
        seeds: 1,
        traces: folder.path().into(),
    };
    let cells = run(RunnerKind::Reads, &plan);
    assert!((figure(&cells, "lru", "32", "rgr-5") - 1.6).abs() < 1e-9);
    assert!((figure(&cells, "lru", "80", "rgr-5") - 1.6 * 80.0 / 4000.0).abs() < 1e-9);
    let [five, eight] =
        ["reduction-5", "reduction-8"].map(|name| figure(&cells, "vdf-lru", "32", name));
    assert!(five > 10.0 && five < 37.5 + 1e-9, "{five}");
    assert_eq!(figure(&cells, "vdf-lru", "32", "reduction-most"), five.max(eight));
    assert!((figure(&cells, "vdf-lru", "32", "reduction-growth") - (eight - five)).abs() < 1e-9);
    let bad = |name: &str, value: &str| {
        let base = settings(&[("trace", "t.trace"), (name, value)]);
        RunnerKind::Reads.runner().check(&Plan { base, ..plan.clone() }).unwrap_err().to_string()
    };
    assert!(bad("disks", "5,99").contains("3 to 10"));
    assert!(bad("nvs", "5").contains("no option `nvs`"));
}

#[test]
fn without_its_trace_an_item_is_skipped_and_counts_for_nothing() {
    let empty = TempDir::new().expect("a folder");
    for name in ["haining-long:table2", "vdf:fig3-5"] {
        let item = find(name).expect("an item")[0];
        let result = item.run(true, 1, empty.path(), &|_| {}).expect("no failure");
        assert!(!result.skipped.is_empty() && result.rows.is_empty() && result.figures.is_empty());
        assert!(result.skipped[0].contains("--traces"), "{}", result.skipped[0]);
        assert_eq!(result.runs, 0);
    }
}

/// Rows of an item that must lie inside their bands, by the beginning of their names.
fn inside(folder: &Path, name: &str, rows: &[&str]) {
    let item = find(name).expect("an item")[0];
    let result = item.run(false, 2, folder, &|_| {}).expect("runs");
    for wanted in rows {
        let found: Vec<_> = result.rows.iter().filter(|r| r.what.starts_with(wanted)).collect();
        assert!(!found.is_empty(), "{name}: no row `{wanted}`");
        for row in found {
            println!("{name}: {}: {:.3?}", row.what, row.ours);
            assert_eq!(row.verdict(), Verdict::Inside, "{}: {:?}", row.what, row.ours);
        }
    }
}

#[test]
fn bands_of_the_track_cache() {
    let Some(folder) = folder() else { return };
    let table2 = ["LRU, write-behind: ", "STF, write-behind: ", "LST, write-behind: "];
    inside(&folder, "haining-long:table2", &table2);
    inside(&folder, "haining-long:table2", &["Order", "Dual thresholds bring", "and cost LRU"]);
    let sizes = ["Writes to disk: STF", "Service time:", "Stalls:", "Write queue time:"];
    inside(&folder, "haining-long:fig5-7", &sizes);
    inside(&folder, "haining-long:fig1", &["Fewest writes", "Then STF", "Stalls:"]);
}

#[test]
fn bands_of_the_read_caches() {
    let Some(folder) = folder() else { return };
    let policy = |name: &str| (name.to_string(), settings(&[("policy", name)]));
    let plan = Plan {
        title: "hplajw".into(),
        base: settings(&[("disks", "5,6,7,8"), ("trace", "ajw.1week.srt.gz")]),
        variants: ["lru", "vdf-lru", "lfu", "vdf-lfu"].map(policy).into(),
        sweep: Some(("blocks".into(), vec!["512".into(), "1024".into()])),
        seeds: 1,
        traces: folder,
    };
    let cells = run(RunnerKind::Reads, &plan);
    for (policy, blocks, low, high) in
        [("vdf-lru", "1024", 15.0, 21.0), ("vdf-lfu", "512", 17.0, 23.0)]
    {
        let most = figure(&cells, policy, blocks, "reduction-most");
        println!("{policy}: {most:.2} % below");
        assert!((low..=high).contains(&most), "{policy}: {most:.2} %");
    }
}

/// Reads of a small skewed trace on degraded arrays: all runs of a point are made, the plain and
/// the fault-aware form rebuild under the same load, and Equation 3 is near.
#[test]
fn degraded_arrays_are_rebuilt_and_compared_at_the_same_load() {
    let folder = TempDir::new().expect("a folder");
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let lines = (0..4000u64).map(|i| {
        let page = random(120) * random(120);
        format!("{i}000000 0 {} 8 1\n", page * 8)
    });
    std::fs::write(folder.path().join("t.trace"), lines.collect::<String>()).expect("written");
    let cache = |name: &str| (name.to_string(), settings(&[("read-cache", name)]));
    let plan = Plan {
        title: "degraded".into(),
        base: settings(&[
            ("trace", "t.trace"),
            ("trace-format", "ssdsim"),
            ("disk-fraction", "64M"),
            ("nvs", "64"),
            ("read-cache-size", "1000"),
            ("fail", "disk=0,at=3"),
            ("measure", "3"),
            ("load", "0.5"),
        ]),
        variants: vec![cache("lfu"), cache("vdf-lfu")],
        sweep: Some(("disks".into(), vec!["5".into()])),
        seeds: 1,
        traces: folder.path().into(),
    };
    let cells = run(RunnerKind::Rebuild, &plan);
    let of = |variant: &str, name: &str| figure(&cells, variant, "5", name);
    assert_eq!(of("lfu", "user-iops"), of("vdf-lfu", "user-iops"));
    assert!(of("vdf-lfu", "rgr") < of("lfu", "rgr"));
    for variant in ["lfu", "vdf-lfu"] {
        assert!(of(variant, "rebuild-s") > of(variant, "rebuild-idle-s"));
        let share = of(variant, "predicted-over-simulated");
        assert!((0.5..2.0).contains(&share), "Equation 3 is {share} of the simulation");
        assert!(of(variant, "mttdl-years") > 0.0);
    }
    let base = [plan.base.clone(), settings(&[("curve", "off"), ("disks", "5")])].concat();
    let sweep = Some(("load".into(), vec!["0.2".into(), "0.9".into()]));
    let plan = Plan { base, sweep, ..plan };
    let cells = run(RunnerKind::Rebuild, &plan);
    let at = |load: &str, name: &str| figure(&cells, "lfu", load, name);
    assert!((at("0.9", "user-iops") / at("0.2", "user-iops") - 4.5).abs() < 1e-9);
    assert!(at("0.9", "rebuild-s") > at("0.2", "rebuild-s"));
    assert_eq!(at("0.9", "rebuild-idle-s"), at("0.2", "rebuild-idle-s"));
    let without = Plan { variants: vec![cache("off")], ..plan };
    let error = RunnerKind::Rebuild.runner().check(&without).unwrap_err().to_string();
    assert!(error.contains("a read cache and a disk that fails"), "{error}");
}
