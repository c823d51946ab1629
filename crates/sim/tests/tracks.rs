//! The write cache by track on the real trace of Haining & Long: recorded hashes without time,
//! and the order of their Table 2 in time. Skipped, saying so, where the trace is not.

use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;
use destage_sim::track_trace::replay;
use std::path::PathBuf;

fn trace() -> Option<PathBuf> {
    let shared = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("DESTAGE_TRACES").map_or_else(shared, PathBuf::from);
    let path = folder.join("ajw.1week.srt.gz");
    if !path.exists() {
        println!("SKIPPED: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn options(policy: &str, rate: &str) -> RunOptions {
    let mut options = RunOptions::default();
    for (name, value) in
        [("group", "track"), ("disk", "hp-c2200a"), ("nvs", "256K"), ("policy", policy)]
    {
        options.set(name, value).expect("an option");
    }
    options.set("rate", rate).expect("an option");
    options
}

#[test]
fn without_time_the_recorded_hashes() {
    let Some(path) = trace() else { return };
    for (policy, rate, cleans, stalls, hash) in [
        ("lrw", "write-behind", 12_404, 9_282, 0xd009_99e4_537b_32c5),
        ("lst", "write-behind", 18_685, 17_222, 0x9ecb_3cf8_74b3_b181),
        ("lrw", "dual:90/15", 14_953, 6, 0x2fe8_ca68_5b41_c95c_u64),
    ] {
        let track = options(policy, rate).build().expect("good options").track.expect("asked for");
        let read = RunOptions::default().read_options().expect("defaults");
        let outcome = replay(&path, &read, Some(0), &track, &mut |_| {}).expect("a replay");
        assert_eq!(outcome.counts.cleans, cleans, "{policy} {rate}");
        assert_eq!(outcome.counts.stalls, stalls, "{policy} {rate}");
        assert_eq!(outcome.hash, hash, "{policy} {rate}");
    }
}

/// Writes to disk over writes of the trace, 256 KB, with a disk that takes its time.
#[test]
fn in_time_the_published_order() {
    let Some(path) = trace() else { return };
    let ratio = |policy: &str, rate: &str| {
        let mut options = options(policy, rate);
        options.set("trace", path.to_str().expect("a path")).expect("an option");
        options.set("trace-device", "0").expect("an option");
        let run = run_one(policy, &options, &make_source).expect("a run");
        run.destage.groups as f64 / run.response.writes.count as f64
    };
    let [lru, stf, lst] = ["lrw", "stf", "lst"].map(|policy| ratio(policy, "write-behind"));
    for (name, ours, published) in [("LRU", lru, 0.40), ("STF", stf, 0.44), ("LST", lst, 0.60)] {
        assert!((ours / published - 1.0).abs() < 0.08, "{name} {ours:.3}, published {published}");
    }
    assert!(lru < stf && stf < lst);
    let [lru_dual, lst_dual] = ["lrw", "lst"].map(|policy| ratio(policy, "dual:90/15"));
    assert!((lst_dual / lru_dual - 1.0).abs() < 0.06, "LST {lst_dual:.3}, LRU {lru_dual:.3}");
    assert!(lru_dual > lru, "two thresholds cost LRU writes: {lru_dual:.3} after {lru:.3}");
}
