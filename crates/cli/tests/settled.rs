//! A result counts only if what is written is destaged: an NVS that is still filling fits any load
//! (docs/simulator.md, "Settled").

mod common;

use common::succeeds;
use serde_json::Value;
use tempfile::TempDir;

fn json(words: &[&str]) -> Value {
    let text = succeeds(&[words, &["--format", "json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

/// Writes of single pages, spread over 32 GiB: how many a second, and for how many seconds.
fn trace(folder: &TempDir, phases: &[(u64, u64)]) -> String {
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    let (mut at, mut page) = (0, 1_u64);
    for (per_s, seconds) in phases {
        for _ in 0..per_s * seconds {
            text.push_str(&format!("{at},0,{},4096,W\n", page * 4096));
            at += 1_000_000_000 / per_s;
            page = (page * 69_621 + 12_345) % (8 << 20);
        }
    }
    let path = folder.path().join("load.csv");
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_string()
}

#[test]
fn a_load_that_is_not_destaged_does_not_fit_a_large_nvs() {
    let load = ["sim", "--workload", "uniform:iops=1000", "--nvs", "1G"];
    let run = json(&load);
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("overloaded: "), "{warnings}");
    assert!(warnings.contains("The NVS was full after "), "{warnings}");
    assert_eq!(run["occupancy"]["max"], 1.0);
    // Before it is full.
    let run = json(&[&load[..], &["--warmup", "10", "--measure", "60"]].concat());
    let (warnings, balance) = (run["warnings"].to_string(), &run["balance"]);
    assert!(warnings.contains("not settled: dirty pages rise from "), "{warnings}");
    assert!(warnings.contains("which they may reach in 3 minutes: only then"), "{warnings}");
    assert_eq!(balance["state"], "rising", "{balance}");
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let short = ["--warmup", "10", "--measure", "60", "--grid", "nvs=262144", "--out", out];
    let load = ["sweep", "--workload", "uniform:iops=1000"];
    let swept = succeeds(&[&load[..], &short].concat());
    assert!(swept.contains("rising"), "{swept}");
}

#[test]
fn a_warm_up_lasts_until_what_is_written_is_destaged() {
    let run = json(&["sim", "--workload", "uniform:iops=200", "--nvs", "512M"]);
    assert_eq!(
        (&run["warnings"], &run["balance"]["state"]),
        (&Value::Array(vec![]), &"settled".into())
    );
    // It takes 524 s until there is anything to destage.
    let warm_up = run["warmup_s"].as_f64().expect("a number");
    assert!((524.0..1200.0).contains(&warm_up), "{warm_up}");
    let [dirtied, destaged] = ["dirtied_pages_per_s", "destaged_pages_per_s"]
        .map(|name| run["balance"][name].as_f64().expect("a number"));
    assert!((destaged / dirtied - 1.0).abs() < 0.03, "{dirtied} {destaged}");
    // One that was asked for is not longer.
    let run = json(&["sim", "--workload", "uniform:iops=200", "--nvs", "512M", "--warmup", "300"]);
    assert_eq!(run["warmup_s"], 300.0);
}

/// For minutes 768 MiB hold this load: a window of 200 s, and not ten of them.
#[test]
fn a_size_that_only_postpones_overload_is_not_recommended() {
    let advice = json(&[
        "advise",
        "--workload",
        "spc1",
        "--iops",
        "1700",
        "--goal",
        "writes.p99<1ms,full<1%",
        "--array",
        "5:5xstow-ref",
        "--sizes",
        "196608..196608",
        "--policies",
        "stow",
        "--try-thresholds",
        "90/80",
        "--seeds",
        "1",
        "--bridge",
        "0",
        "--measure",
        "200",
    ]);
    assert_eq!(advice["answer"], Value::Null, "{}", advice["answer"]);
    assert!(of_length(&advice, 1)["ratio"].as_f64() < Some(1.0));
    let why = of_length(&advice, 10)["why"].to_string();
    assert!(why.contains("overloaded: "), "{why}");
}

/// The size recommended of some, over windows of a minute.
fn advised(load: &str, goal: &str, sizes: &str) -> Value {
    let question = ["advise", "--workload", load, "--goal", goal, "--sizes", sizes];
    let search = ["--policies", "wow", "--try-thresholds", "70/40", "--measure", "60"];
    json(&[&question[..], &search, &["--seeds", "1", "--bridge", "0"]].concat())
}

/// The run of that many windows.
fn of_length(advice: &Value, length: u64) -> &Value {
    let runs = advice["runs"].as_array().expect("runs");
    let run = runs.iter().find(|run| run["length"] == length);
    run.unwrap_or_else(|| panic!("a run of {length} windows"))
}

/// The busiest disk has next to no time left, and over ten windows this size holds by chance, with
/// dirty pages that rise. Over a hundred the NVS is full.
#[test]
fn a_size_that_holds_for_ten_windows_by_chance_is_not_recommended() {
    let advice = advised("hotcold:iops=800", "p95<30ms", "458752..458752");
    assert_eq!(advice["answer"], Value::Null, "{}", advice["answer"]);
    assert!(of_length(&advice, 10)["ratio"].as_f64() < Some(1.0));
    let why = of_length(&advice, 10)["why"].to_string();
    assert!(why.contains("not settled: dirty pages rise from "), "{why}");
    assert!(of_length(&advice, 100)["ratio"].as_f64() > Some(1.0));
}

/// The NVS fills and empties about once in a window: what looks like a rise is part of a wave.
#[test]
fn a_wave_longer_than_the_window_is_not_a_rise() {
    let load = "mix:0.7*hotcold+0.3*sequential,iops=600";
    let advice = advised(load, "p99<50ms", "114688..114688");
    assert_eq!(advice["answer"]["nvs_pages"], 114_688, "{}", advice["answer"]);
}

#[test]
fn a_trace_that_is_not_destaged_gets_no_recommendation() {
    let folder = TempDir::new().expect("a folder");
    let load = trace(&folder, &[(1000, 120)]);
    let run = json(&["sim", "--trace", &load, "--nvs", "512M"]);
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("ends fuller: "), "{warnings}");
    assert!(warnings.contains("not destaged. A load that lasts longer"), "{warnings}");
    // As if it had been written before, too: no size holds it for long.
    let run = json(&["sim", "--trace", &load, "--nvs", "64M", "--prefill", "on"]);
    let first = run["balance"]["dirty_pages_first"].as_u64().expect("a number");
    assert!((13_000..13_200).contains(&first), "{first}: four fifths of it");
    let advise = ["advise", &load, "--goal", "full<1%", "--sizes", "32768..131072"];
    let advice =
        json(&[&advise[..], &["--policies", "stow", "--try-thresholds", "90/80"]].concat());
    assert_eq!(advice["answer"], Value::Null, "{}", advice["answer"]);
    let why = advice["below"]["why"].as_str().expect("a reason");
    assert!(why.contains("more was written than was destaged, and the busiest disk, "), "{why}");
    assert!(why.contains(" % busy, had no time for the rest"), "{why}");
}

/// What follows the last burst is not known, but the disks had the time for it.
#[test]
fn a_trace_may_end_in_a_burst() {
    let folder = TempDir::new().expect("a folder");
    let waves = [(1000, 5), (1, 95)].repeat(5);
    let answer = |last: &[(u64, u64)]| {
        let load = trace(&folder, &[&waves, last].concat());
        let advise = ["advise", &load, "--goal", "full<1%", "--sizes", "4096..65536"];
        let advice =
            json(&[&advise[..], &["--policies", "stow", "--try-thresholds", "90/80"]].concat());
        advice["answer"]["nvs_pages"].as_u64().expect("an answer")
    };
    let ends_in_a_burst = answer(&[(1000, 5)]);
    assert!(ends_in_a_burst <= answer(&[(1000, 5), (1, 150)]), "{ends_in_a_burst}");
}

/// It destages nothing below the low threshold: no time until the NVS is full follows from that.
#[test]
fn nothing_is_said_of_a_full_nvs_before_the_high_threshold() {
    let load = ["sim", "--workload", "uniform:iops=300", "--nvs", "1G", "--measure", "60"];
    let early = json(&[&load[..], &["--warmup", "10"]].concat());
    let balance = &early["balance"];
    assert_eq!(balance["state"], "rising");
    assert_eq!(balance["full_in_s"], Value::Null);
    let in_s = balance["full_speed_in_s"].as_f64().expect("a time");
    // 235,930 pages at 300 a second, 70 s of them behind it.
    assert!((650.0..800.0).contains(&in_s), "{in_s}");
    let late = json(&[&load[..], &["--warmup", "1500"]].concat());
    assert_eq!(late["balance"]["state"], "settled");
    assert!(late["occupancy"]["max"].as_f64() < Some(0.95));
}

/// A large NVS does absorb these, and destages them in between.
#[test]
fn bursts_that_are_destaged_in_time_get_a_recommendation() {
    let folder = TempDir::new().expect("a folder");
    let load = trace(&folder, &[(50, 20), (2000, 20), (50, 200)]);
    let advise = ["advise", &load, "--goal", "full<1%", "--sizes", "16384..524288"];
    let advice =
        json(&[&advise[..], &["--policies", "stow", "--try-thresholds", "90/80"]].concat());
    let pages = advice["answer"]["nvs_pages"].as_u64().expect("an answer");
    // 40,000 pages come in a burst, and some 12,000 are destaged in the meantime. A fifth of the
    // NVS is free for them.
    assert!((114_688..=196_608).contains(&pages), "{pages}");
}
