//! What a result does not show by itself is said: no spread of one seed, stalls in bursts, replays
//! that fall behind, and what a trace lacks.

mod common;

use common::{fails, succeeds};
use tempfile::TempDir;

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_string()
}

/// Requests of our own CSV: time in us, device, page, operation.
fn csv(
    folder: &TempDir,
    name: &str,
    requests: impl Iterator<Item = (u64, u64, u64, char)>,
) -> String {
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    for (us, device, page, op) in requests {
        text.push_str(&format!("{},{device},{},4096,{op}\n", us * 1000, page * 4096));
    }
    file(folder, name, &text)
}

fn warnings(words: &[&str]) -> String {
    let text = succeeds(&[words, &["--format", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    report["warnings"].to_string()
}

#[test]
fn one_seed_has_no_spread() {
    let short = ["compare", "--policies", "lrw,wow", "--warmup", "1", "--measure", "5"];
    let short = [&short[..], &["--nvs", "1024", "--iops", "100"]].concat();
    let folder = TempDir::new().expect("a folder");
    let page = folder.path().join("r.html");
    let out = ["--out", page.to_str().expect("text")];
    let row = |text: &str| -> Vec<String> {
        let row = text.lines().find(|line| line.starts_with("lrw  ")).expect("a row");
        row.split_whitespace().map(str::to_string).collect()
    };
    let one = succeeds(&[&short[..], &out].concat());
    assert_eq!((&*row(&one)[2], &*row(&one)[4]), ("-", "-"), "{one}");
    let html = || std::fs::read_to_string(&page).expect("read");
    assert!(!html().contains("Whiskers show"));
    let two = succeeds(&[&short[..], &out, &["--seeds", "2"]].concat());
    assert!(row(&two)[2].parse::<f64>().is_ok(), "{two}");
    assert!(html().contains("Whiskers show"));
}

#[test]
fn writes_that_wait_in_bursts_are_reported_as_a_share_of_writes() {
    let folder = TempDir::new().expect("a folder");
    // 400 writes at once to a small NVS, then a minute with a write now and then.
    let burst = (0..400).map(|i| (i, 0, i * 97 % 50_000, 'W'));
    let rest = (0..600).map(|i| (1_000_000 + i * 400_000, 0, i * 31, 'W'));
    let trace = csv(&folder, "burst.csv", burst.chain(rest));
    let sim = ["sim", "--trace", &trace, "--nvs", "256", "--policy", "lrw"];
    let said = warnings(&sim);
    assert!(said.contains("% of writes waited for space"), "{said}");
    assert!(succeeds(&sim).contains("% of writes"));
}

/// Writes that waited for space are counted next to how long the NVS was full, wherever that is.
#[test]
fn every_output_has_the_share_of_writes_that_waited() {
    let load = ["--workload", "spc1", "--iops", "1300", "--nvs", "4096", "--warmup", "5"];
    let load = [&load[..], &["--measure", "10"]].concat();
    let json = succeeds(&[&["sim", "--format", "json"][..], &load].concat());
    let run: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let share = run["stalled_share"].as_f64().expect("a share");
    let writes = run["response"]["writes"]["count"].as_f64().expect("a count");
    assert!((0.1..0.9).contains(&share), "{share}");
    assert_eq!(share, (run["stalled_writes"].as_f64().expect("a count") / writes).min(1.0));
    let percent = format!("{:.1}", 100.0 * share);
    let table = succeeds(&[&["sim"][..], &load].concat());
    let line = table.lines().find(|line| line.contains("stalled writes, share")).expect("a line");
    assert!(line.contains(&percent), "{line}");
    let columns = |text: &str| -> Vec<String> {
        text.lines().next().unwrap_or_default().split(',').map(str::to_string).collect()
    };
    let csv = succeeds(&[&["sim", "--format", "csv"][..], &load].concat());
    assert!(columns(&csv).contains(&String::from("stalled_write_share")));
    assert!(csv.contains(&format!(",{share},")), "{csv}");
    let compared = [&["compare", "--policies", "stow"][..], &load].concat();
    assert!(succeeds(&compared).contains("stalled"));
    let csv = succeeds(&[&compared[..], &["--format", "csv"]].concat());
    assert!(columns(&csv).contains(&String::from("stalled_write_share")));
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let swept = [&["sweep", "--grid", "seed=1", "--out", out][..], &load].concat();
    let table = succeeds(&swept);
    assert!(table.contains("stalled") && table.contains(&format!("{share:.4}")), "{table}");
}

#[test]
fn a_replay_that_falls_behind_is_flagged() {
    let folder = TempDir::new().expect("a folder");
    let reads = |gap_us: u64| (0..20_000).map(move |i| (i * gap_us, 0, i * 7919 % 1_000_000, 'R'));
    let fast = csv(&folder, "fast.csv", reads(100));
    let said = warnings(&["sim", "--trace", &fast]);
    assert!(said.contains("does not keep up"), "{said}");
    let cut = warnings(&["sim", "--trace", &fast, "--measure", "4"]);
    assert!(cut.contains("does not keep up"), "{cut}");
    let slow = csv(&folder, "slow.csv", reads(5_000));
    assert_eq!(warnings(&["sim", "--trace", &slow]), "[]");
}

#[test]
fn a_sweep_says_what_its_runs_warn_of() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("rows").to_str().expect("text").to_string();
    let load = ["--workload", "uniform:iops=1000", "--warmup", "60", "--measure", "10"];
    let words = ["sweep", "--grid", "nvs=1024,64", "--out", &out];
    let table = succeeds(&[&words[..], &load].concat());
    let rows: Vec<&str> = table.lines().filter(|line| line.ends_with(" overloaded")).collect();
    assert_eq!(rows.len(), 2, "{table}");
    let (_, warnings) = table.split_once("\nWarnings\n").expect("there are some");
    assert!(warnings.starts_with("  - nvs=1024 seed=1: overloaded: "), "{warnings}");
    assert!(warnings.contains("\n  - nvs=64 seed=1: overloaded: "), "{warnings}");
    let compared = succeeds(&[&["compare", "--policies", "wow"], &load[..]].concat());
    assert!(compared.contains("1 of 1 points are overloaded"), "{compared}");
    assert!(!compared.contains("had not settled. Use"), "{compared}");
}

#[test]
fn what_a_trace_lacks_is_said() {
    let folder = TempDir::new().expect("a folder");
    let requests = |op: char| (0..50).map(move |i| (i * 50_000, i % 3, i * 16, op));
    let unknown = csv(&folder, "unknown.csv", requests('?'));
    let said = warnings(&["sim", "--trace", &unknown]);
    assert!(said.contains("3 devices of the trace follow each other"), "{said}");
    assert!(said.contains("50 of 50 requests of the trace do not say whether"), "{said}");
    let one = ["--trace-device", "0", "--trace-ops", "reads"];
    assert_eq!(warnings(&[&["sim", "--trace", &unknown], &one[..]].concat()), "[]");
    let compared = succeeds(&["compare", "--policies", "lrw,wow", "--trace", &unknown]);
    assert!(compared.contains("No request writes"), "{compared}");
    assert!(!compared.contains("answers fastest"), "{compared}");
}

/// Counts of a trace are called so where only a part of it is replayed.
#[test]
fn counts_are_of_the_trace_and_requests_of_0_bytes_are_counted() {
    let folder = TempDir::new().expect("a folder");
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    for i in 0..100_u64 {
        let (bytes, op) = if i % 10 == 3 { (0, 'R') } else { (4096, '?') };
        text.push_str(&format!("{},0,{},{bytes},{op}\n", i * 50_000_000, i * 65_536));
    }
    let trace = file(&folder, "empty.csv", &text);
    let some = ["sim", "--trace", &trace, "--trace-mode", "closed:8", "--requests", "20"];
    let said = warnings(&some);
    assert!(said.contains("90 of 90 requests of the trace do not say whether"), "{said}");
    assert!(said.contains("10 requests of 0 bytes of the trace are left out"), "{said}");
    assert!(succeeds(&some).contains("requests of 0 bytes"));
}

/// A number of a disk is its name.
#[test]
fn failed_disks_are_named_and_failures_after_the_end_are_reported() {
    let short = ["--warmup", "0", "--measure", "20", "--iops", "50"];
    let sim = |words: &[&str]| succeeds(&[&["sim"], words, &short[..]].concat());
    let names = |text: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with("failed disk"));
        line.expect("a line").split_whitespace().map(str::to_string).collect()
    };
    assert_eq!(names(&sim(&["--fail", "disk=3,at=5"])), ["failed", "disk", "3"]);
    let two = ["--level", "6", "--fail", "disk=0,at=5;disk=3,at=6"];
    assert_eq!(names(&sim(&two)), ["failed", "disks", "0,", "3"]);
    let said = |words: &[&str]| warnings(&[&["sim"], words, &short[..]].concat());
    let late = said(&["--fail", "disk=3,at=5000", "--rebuild", "on"]);
    assert!(late.contains("disk 3 did not fail: the run ended before 5000 s (--fail)"), "{late}");
    assert!(!late.contains("the rebuild did not begin"), "{late}");
    let late = said(&["--fail", "disk=3,at=5", "--rebuild", "on:at=900"]);
    assert!(late.contains("the rebuild did not begin: the run ended before 900 s"), "{late}");
    assert!(!late.contains("did not fail"), "{late}");
    // A replay ends with its trace, whenever a disk was to fail.
    let folder = TempDir::new().expect("a folder");
    let trace = csv(&folder, "reads.csv", (0..50).map(|i| (i * 50_000, 0, i * 16, 'R')));
    let replay = ["sim", "--trace", &trace, "--fail", "disk=3,at=5000", "--format", "json"];
    let report: serde_json::Value = serde_json::from_str(&succeeds(&replay)).expect("JSON");
    assert!(report["measured_s"].as_f64().expect("a time") < 10.0, "{report}");
    assert!(report["warnings"].to_string().contains("disk 3 did not fail"), "{report}");
}

/// A cache by track is in front of one disk, which has the addresses of one device.
#[test]
fn a_cache_by_track_takes_one_device() {
    let folder = TempDir::new().expect("a folder");
    let writes = (0..2000).map(|i| (i * 1000, i % 4, 3 * (i / 4), 'W'));
    let trace = csv(&folder, "four.csv", writes);
    let error = fails(1, &["track-trace", &trace]);
    assert!(error.contains("the trace has 4 devices (0, 1, 2, 3)"), "{error}");
    assert!(error.contains("--device N"), "{error}");
    assert!(fails(1, &["track-trace", &trace, "--device", "all"]).contains("4 devices"));
    let alone = succeeds(&["track-trace", &trace, "--device", "2"]);
    let count = |name: &str| -> u64 {
        let line = alone.lines().find(|line| line.starts_with(name)).expect("a line");
        line[name.len()..].trim().parse().expect("a number")
    };
    assert_eq!((count("writes "), count("sector hits")), (500, 0), "{alone}");
    let wide = csv(&folder, "wide.csv", (0..20).map(|i| (i * 1000, i, 0, 'W')));
    let error = fails(1, &["track-trace", &wide]);
    assert!(error.contains("20 devices (0, 1,") && error.contains("15 and 4 more"), "{error}");
}

/// Five columns of which those of places and lengths are in bytes, where the format has sectors.
#[test]
fn a_trace_that_cannot_be_read_right_says_so() {
    let folder = TempDir::new().expect("a folder");
    let of = |unit: u64, gap_ns: u64| -> String {
        (0..300).map(|i| format!("{} 0 {} {} 0\n", i * gap_ns, i * 64 * unit, 32 * unit)).collect()
    };
    let bytes = file(&folder, "bytes.ascii", &of(512, 500_000));
    let doubt = "the trace moves 1";
    let replayed = ["--trace-order", "sort", "--wrap", "on", "--nvs", "64M"];
    let said = warnings(&[&["sim", "--trace", &bytes][..], &replayed].concat());
    assert!(said.contains(doubt) && said.contains("bytes in place of sectors"), "{said}");
    assert!(succeeds(&["trace", "info", &bytes]).contains(doubt));
    let sectors = file(&folder, "sectors.ascii", &of(1, 500_000));
    for said in [warnings(&["sim", "--trace", &sectors]), succeeds(&["trace", "info", &sectors])] {
        assert!(!said.contains("the trace moves") && !said.contains("multiples of 512"), "{said}");
    }
    // At a rate that arrays have, the numbers themselves are doubted.
    let slow = file(&folder, "slow.ascii", &of(512, 20_000_000));
    let (replayed, doubt) =
        (&replayed[2..], "all offsets and lengths are multiples of 512 sectors");
    let said = [
        warnings(&[&["sim", "--trace", &slow][..], replayed].concat()),
        warnings(&[&["sim", "--trace-mode", "closed:1", "--trace", &slow][..], replayed].concat()),
        succeeds(&[&["compare", "--policies", "lrw,wow", "--trace", &slow][..], replayed].concat()),
        succeeds(&["trace", "info", &slow]),
        succeeds(&["trace", "analyze", &slow]),
    ];
    for said in said {
        assert!(said.contains(doubt) && said.contains("--trace-columns 'time=1:ns"), "{said}");
        assert!(!said.contains("the trace moves"), "{said}");
    }
    let columns = "time=1:ns, device=2, offset=3, size=4, op=5:read=1:write=0";
    let described = ["sim", "--trace", &slow, "--trace-columns", columns];
    assert!(!warnings(&described).contains(doubt));
}

#[test]
fn first_touches_are_of_blocks_neither_read_nor_written_before() {
    let folder = TempDir::new().expect("a folder");
    // Two pages are written, then three read, one of them twice.
    let requests = [(0, 'W'), (1, 'W'), (0, 'R'), (1, 'R'), (2, 'R'), (2, 'R')];
    let requests = requests.iter().zip(0..).map(|((page, op), i)| (i * 1000, 0, *page, *op));
    let trace = csv(&folder, "touches.csv", requests);
    let info = succeeds(&["trace", "info", &trace]);
    let share = |name: &str| -> String {
        let line = info.lines().find(|line| line.starts_with(name)).expect("a line");
        line[name.len()..].split_whitespace().take(1).collect()
    };
    assert_eq!((&*share("first reads"), &*share("first touches")), ("75.00", "25.00"), "{info}");
}

#[test]
fn a_trace_whose_requests_have_one_time_is_not_replayed_by_time() {
    let folder = TempDir::new().expect("a folder");
    let requests: String = (0..20).map(|i| format!("/dev/sda write {} 4096\n", i * 8192)).collect();
    let head = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n";
    let log = file(&folder, "x.iolog", &format!("{head}{requests}"));
    let error = fails(1, &["sim", "--trace", &log]);
    assert!(error.contains("x.iolog") && error.contains("have the same time"), "{error}");
    assert!(error.contains("closed:N"), "{error}");
    succeeds(&["sim", "--trace", &log, "--trace-mode", "closed:4"]);
    let waits =
        requests.replace("/dev/sda write 8192 ", "/dev/sda wait 5000\n/dev/sda write 8192 ");
    succeeds(&["sim", "--trace", &file(&folder, "y.iolog", &format!("{head}{waits}"))]);
    // One wait among thousands is not a recording of times.
    let many = |waits: u64| -> String {
        let wait = |i| if i % (2000 / waits) == 1 { "/dev/sda wait 1\n" } else { "" };
        (0..2000).map(|i| format!("{}/dev/sda write {} 4096\n", wait(i), i * 8192)).collect()
    };
    let log = file(&folder, "z.iolog", &format!("{head}{}", many(1)));
    let error = fails(1, &["sim", "--trace", &log]);
    assert!(error.contains("nearly all requests") && error.contains("closed:N"), "{error}");
    let closed = warnings(&["sim", "--trace", &log, "--trace-mode", "closed:4"]);
    assert!(!closed.contains("the trace moves"), "{closed}");
    let info = succeeds(&["trace", "info", &log]);
    assert!(info.contains("nearly all requests have the same time"), "{info}");
    let analysis = succeeds(&["trace", "analyze", &log]);
    assert!(analysis.contains("nearly all requests have one time: there are no"), "{analysis}");
    assert!(!info.contains("the trace moves") && !analysis.contains("the trace moves"));
    let log = file(&folder, "often.iolog", &format!("{head}{}", many(200)));
    assert!(succeeds(&["trace", "info", &log]).contains("the trace moves"));
}
