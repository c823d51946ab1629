//! `destage sweep` and `destage advise` as they are typed.

mod common;

use common::{fails, succeeds};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn destage(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_destage")).args(args).output().expect("run")
}

fn sweep(out: &Path, more: &[&str]) -> Output {
    let out = out.to_str().expect("a path");
    let flags = ["sweep", "--out", out, "--warmup", "1", "--measure", "3", "--nvs", "1024"];
    let output = destage(&[&flags, more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn a_sweep_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = folder.path().join("rows");
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let first = sweep(&rows, &["--grid", "policy=lrw,wow"]);
    assert!(said(&first).contains("0 points were there, 2 were run"), "{}", said(&first));
    let grid = ["--grid", "policy=lrw,wow", "--grid", "iops=400,500", "--format", "csv"];
    let more = sweep(&rows, &grid);
    assert!(said(&more).contains("0 points were there, 4 were run"), "{}", said(&more));
    let again = sweep(&rows, &grid);
    assert!(said(&again).contains("4 points were there, 0 were run"), "{}", said(&again));
    assert_eq!(more.stdout, again.stdout);
    let text = String::from_utf8(again.stdout).expect("text");
    assert_eq!(text.lines().count(), 5);
    assert!(text.starts_with("key,schema,label,seed,"), "{text}");
    let head: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    assert!(head.contains(&"option_policy") && head.contains(&"option_iops"), "{head:?}");
    let json = sweep(&rows, &["--grid", "policy=lrw,wow", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json[1]["label"], "wow");
    assert_eq!(json[0]["option_policy"], "lrw");
    assert_eq!(json[1]["option_policy"], "wow:initial-bit=0,frequency=1,history=0");
    let histogram = json[0]["response_histogram"].as_str().expect("text");
    let buckets: Vec<serde_json::Value> = serde_json::from_str(histogram).expect("JSON");
    let of = |kind: &str| buckets.iter().map(|b| b[kind].as_u64().expect("a count")).sum::<u64>();
    assert_eq!(Some(of("reads") + of("writes")), json[0]["requests"].as_u64());
    let table = sweep(&rows, &["--grid", "policy=lrw,wow"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("page hits"));
    // Its columns of response times have the values of the rows.
    let head = table.lines().find(|line| line.contains("p95")).expect("a heading");
    let heads: Vec<&str> = head.split_whitespace().collect();
    let at = heads.iter().position(|name| *name == "p95").expect("a column");
    assert_eq!(heads[at - 1..=at + 1], ["mean", "p95", "p99"]);
    let row = table.lines().find(|line| line.starts_with("wow")).expect("a row");
    let value = json[1]["response_p95_ms"].as_f64().expect("a number");
    assert_eq!(row.split_whitespace().nth(at), Some(&*format!("{value:.1}")), "{table}");
}

#[test]
fn advice_has_an_answer_and_a_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("advice.svg");
    let plot = plot.to_str().expect("a path");
    let flags = ["advise", "--iops", "600", "--measure", "30", "--goal"];
    let few = ["p99<60ms", "--sizes", "1024..65536", "--policies", "stow", "--seeds", "1"];
    let text = succeeds(&[&flags[..], &few, &["--out", plot]].concat());
    for said in [
        "simulated as an array that `destage serve` serves (--as served)",
        "Answer:",
        "served: an NVS device of",
        "One step below misses it:",
        "How sure:",
        "Full simulations",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(std::fs::read_to_string(plot).expect("a plot").contains("goal"));
    let json = succeeds(&[&flags[..], &few, &["--format", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(json["answer"]["reached"].as_bool().expect("a flag"));
    assert_eq!(json["options"]["as"], "served");
    let pages = json["answer"]["nvs_pages"].as_u64().expect("a number") * 4096;
    let device = json["needs"]["device_bytes_512"].as_u64().expect("a number");
    assert!((pages..pages * 100 / 80 + (1 << 20)).contains(&device), "{device} for {pages}");
}

#[test]
fn advice_is_a_page_with_limits_and_costs() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("advice.html");
    let page = page.to_str().expect("a path");
    let flags = ["advise", "--iops", "600", "--measure", "30", "--goal", "p99<60ms"];
    let few = ["--sizes", "1024..65536", "--policies", "stow", "--seeds", "1"];
    let more = ["--load-factor", "1.1", "--prices", "nvs=12,memory=4", "--out", page];
    let text = succeeds(&[&flags[..], &few, &more].concat());
    for said in ["also at 1.1 times the load", "cost: ", "Why: at ", "the limit is ", "By size"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let page = std::fs::read_to_string(page).expect("a page");
    for said in ["How much NVS for p99&lt;60ms", "Why it misses", "id=\"stalls\"", "They cost "] {
        assert!(page.contains(said), "{said}");
    }
    assert!(page.contains("Settings: simulated as an array that"));
    let help = |command: &str| -> String {
        let text = succeeds(&[command, "--help"]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for said in ["[default: served]", "papers, safe [default: safe]", "[default: on for a trace"] {
        assert!(help("advise").contains(said) && !help("sim").contains(said), "{said}");
    }
    assert!(help("sim").contains("[default: papers]"));
}

/// Three devices, and every second operation unknown.
#[test]
fn advice_warns_of_what_a_trace_lacks_and_of_few_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_string();
    let (trace, page) = (path("half.csv"), path("advice.html"));
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    for i in 0..50_u64 {
        let op = if i % 2 == 0 { 'W' } else { '?' };
        let row = format!("{},{},{},4096,{op}\n", i * 50_000_000, i % 3, i * 16 * 4096);
        text.push_str(&row);
    }
    std::fs::write(&trace, text).expect("written");
    let few = ["--sizes", "256K..512K", "--policies", "wow", "--try-thresholds", "70/40"];
    let advise = |goal: &str, more: &[&str]| {
        succeeds(&[&["advise", &trace, "--goal", goal][..], &few, more].concat())
    };
    let text = advise("p99<300ms", &["--out", &page]);
    let page = std::fs::read_to_string(&page).expect("a page");
    let json: Value =
        serde_json::from_str(&advise("p99<300ms", &["--format", "json"])).expect("JSON");
    let warnings = json["warnings"].as_array().expect("a list");
    assert_eq!(warnings.len(), 3, "each once: {warnings:?}");
    for said in [
        "3 devices of the trace follow each other on one volume",
        "25 of 50 requests of the trace do not say whether they read or write",
        "p99 is of 50 requests only, and needs at least 1000: give a longer trace",
    ] {
        assert!(warnings.iter().any(|w| w.as_str().is_some_and(|w| w.contains(said))), "{said}");
        assert!(text.contains(said) && page.contains(said), "{said}: {text}");
    }
    assert!(text.contains("\nWarnings:\n") && page.contains("<h2>Warnings</h2>"), "{text}");
    let short = advise("p50<300ms,writes.p95<1s", &["--measure", "1", "--trace-device", "0"]);
    for said in [
        "p50 is of 7 requests only, and needs at least 20: give a longer --measure",
        "writes.p95 is of 4 writes only, and needs at least 200: give a longer --measure",
    ] {
        assert!(short.contains(said), "{said}: {short}");
    }
    assert!(!short.contains("devices of the trace"), "{short}");
}

#[test]
fn advice_considers_the_policies_that_arrays_are_served_with() {
    let load = ["advise", "--workload", "spc1", "--iops", "50", "--measure", "5"];
    let few = ["--sizes", "1024..1024", "--seeds", "1", "--goal", "mean<1us", "--format", "json"];
    let json: Value = serde_json::from_str(&succeeds(&[&load[..], &few].concat())).expect("JSON");
    let curve = json["curve"].as_array().expect("a list");
    let name = |point: &Value| point["policy"].as_str().expect("a name").to_string();
    let names: Vec<String> = curve.iter().map(name).collect();
    for policy in ["lrw", "cscan", "wow", "stow", "ebb"] {
        assert!(names.iter().any(|name| name.split(':').next() == Some(policy)), "{names:?}");
    }
}

/// Disks that are mostly idle have the time, but each request takes as long as an access.
#[test]
fn the_limit_of_an_idle_array_is_a_single_access() {
    let load = ["advise", "--workload", "spc1", "--iops", "50", "--measure", "20"];
    let few = ["--sizes", "1024..1024", "--seeds", "1", "--policies", "stow"];
    let few = [&load[..], &few, &["--try-thresholds", "70/40"]].concat();
    for goal in ["p99<5ms", "mean<1us"] {
        let text = succeeds(&[&few[..], &["--goal", goal]].concat());
        assert!(text.contains("Answer: none of the sizes reaches it"), "{text}");
        assert!(text.contains("The largest size tried misses it: 1024 pages"), "{text}");
        assert!(!text.contains("One step below"), "{text}");
        assert!(text.contains("Why: at 1024 pages the limit is access time: "), "{text}");
        assert!(text.contains("Neither more NVS nor lower thresholds help"), "{text}");
    }
}

#[test]
fn bad_plans_are_one_line() {
    for (args, code, said) in [
        (&["advise", "--goal", "p98<1ms"][..], 2, "--goal takes"),
        (&["advise", "--goal", "p99<1ms", "--array", "5x5"], 2, "--array takes"),
        (&["advise", "--goal", "p99<1ms", "--array", "5:5xnone"], 2, "known"),
        (&["advise", "--goal", "p99<1ms", "--sizes", "9"], 2, "--sizes takes"),
        (&["advise", "--goal", "p99<1ms", "--out", "a.xyz"], 2, "--out takes"),
        (&["advise", "--goal", "p99<1ms", "--prices", "disk=1"], 2, "--prices takes"),
        (&["advise", "--goal", "p99<1ms", "--load-factor", "0.5"], 2, "--load-factor is headroom"),
        (&["advise", "--goal", "p99<1ms", "--sizes", "1M..5X"], 2, "bytes with K, M, G"),
        (&["advise", "--goal", "p99<1ms", "--policies", "wow,wow"], 2, "policy=wow is given twice"),
        (&["advise", "--goal", "full<200%"], 2, "above 0 and at most 100 %"),
        (&["advise", "--goal", "p99<1s,full<0%"], 2, "--goal full<0%: full is a share"),
        (
            &["advise", "--goal", "p99<1ms", "--write-cache", "off"],
            2,
            "--write-cache off is an array without NVS, but advise asks how much",
        ),
        (&["advise", "/no/such", "--goal", "p99<1ms"], 1, "/no/such"),
        (&["sweep", "--out", "/dev/null/x", "--grid", "seed=1"], 1, "cannot create"),
        (&["sweep", "--out", "/tmp", "--grid", "nsv=1"], 2, "unknown option"),
        (&["sweep", "--out", "/tmp", "--grid", "trace=/no/such"], 1, "/no/such"),
    ] {
        let output = destage(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(said) && error.lines().count() == 1, "{args:?}: {error}");
    }
}

#[test]
fn simulations_say_whose_settings_they_have() {
    let short = ["--iops", "100", "--nvs", "1024", "--warmup", "1", "--measure", "5"];
    let said = |words: &[&str]| succeeds(&[words, &short].concat());
    for command in [&["sim"][..], &["compare", "--policies", "lrw,wow"]] {
        assert!(said(command).contains("simulated as the papers' systems (--as papers)"));
        let served = said(&[command, &["--as", "served"]].concat());
        assert!(served.contains("`destage serve` serves (--as served)"), "{served}");
    }
    let served = said(&["sim", "--as", "served"]);
    for setting in ["protocol           safe", "order              reads-first:8"] {
        assert!(served.contains(setting), "{setting} not in {served}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let rows = folder.path().to_str().expect("a path");
    let sweep = |grid: &str| said(&["sweep", "--out", rows, "--grid", grid]);
    let papers = "simulated as the papers' systems (--as papers)";
    assert!(sweep("policy=lrw,wow").starts_with(papers));
    // Where that is compared, the table has it.
    assert!(!sweep("as=papers,served").contains("simulated as"));
    let both = ["compare", "--policies", "lrw", "--sweep", "as=papers,served"];
    assert!(!said(&both).contains("simulated as"));
    let words = ["sim", "--as", "closed"];
    assert!(common::fails(2, &words).contains("--as takes papers, served"));
}

/// Hot rows come back while the stripe memory has them, and are not read again.
#[test]
fn a_stripe_memory_saves_reads_on_every_level_with_parity() {
    for (level, disks) in [("4", "5"), ("5", "5"), ("6", "6")] {
        let run = |memory: &str| -> Value {
            let words = "sim --workload random:threads=8 --disk-fraction 64M --nvs 256 \
                         --protocol safe --warmup 5 --measure 20 --format json";
            let own = ["--level", level, "--disks", disks, "--stripe-memory", memory];
            let words: Vec<&str> = words.split_whitespace().chain(own).collect();
            serde_json::from_str(&succeeds(&words)).expect("JSON")
        };
        let reads = |run: &Value| -> u64 {
            let disks = run["disks"].as_array().expect("disks");
            disks.iter().map(|disk| disk["reads"].as_u64().expect("a count")).sum()
        };
        let (without, with) = (run("0"), run("64M"));
        assert_eq!(without["destage"]["recalled_pages"], 0);
        assert!(with["destage"]["recalled_pages"].as_u64() > Some(1000), "level {level}");
        let iops = |run: &Value| run["iops"].as_f64().expect("a rate");
        assert!(
            iops(&with) > 1.1 * iops(&without),
            "level {level}: {} {}",
            iops(&with),
            iops(&without)
        );
        let per_page =
            |run: &Value| reads(run) as f64 / run["destage"]["pages"].as_f64().expect("pages");
        assert!(per_page(&with) < 0.7 * per_page(&without), "level {level}");
    }
}

#[test]
fn a_stripe_memory_needs_parity_and_the_safe_protocol() {
    let said = fails(2, &["sim", "--stripe-memory", "64M"]);
    assert!(said.contains("--stripe-memory needs --protocol safe"), "{said}");
    let words = ["--stripe-memory", "64M", "--level", "10", "--disks", "4"];
    let said = fails(2, &[&["sim", "--protocol", "safe"], &words[..]].concat());
    assert!(said.contains("needs level 4, 5 or 6"), "{said}");
    let devices = ["--disk", "a", "--disk", "b", "--nvs", "n"];
    let words = ["create", "tank", "--level", "10", "--stripe-memory", "1M"];
    let said = fails(2, &[&words[..], &devices].concat());
    assert!(said.contains("level 10 has none"), "{said}");
}
