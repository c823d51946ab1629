//! Bad input of every kind: one line, exit 2 or 1, no panic, no half-written output.

mod common;

use common::{destage, fails, succeeds};
use std::io::Write;
use tempfile::TempDir;

const QUICK: &[&str] = &["--warmup", "1", "--measure", "1"];

fn sim(words: &[&str]) -> Vec<String> {
    ["sim"].iter().chain(words).chain(QUICK).map(ToString::to_string).collect()
}

fn sim_fails(code: i32, words: &[&str]) -> String {
    let words = sim(words);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    fails(code, &words)
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    path.to_str().expect("text").to_string()
}

#[test]
fn unknown_names_list_the_known_ones_nearest_first() {
    let error = sim_fails(2, &["--policy", "stoww"]);
    assert!(error.contains("unknown policy `stoww`; known: stow,"), "{error}");
    assert!(sim_fails(2, &["--rate", "linaer"]).contains("known: linear"));
    assert!(sim_fails(2, &["--disk", "stow-rif"]).contains("stow-ref"));
    assert!(sim_fails(2, &["--workload", "zpif"]).contains("known: zipf"));
    assert!(sim_fails(2, &["--level", "7"]).contains("single, 0, 10, 4, 5, 6"));
    let error = fails(2, &["compare", "--policies", "lrw", "--sweep", "nsv=1,2"]);
    assert!(error.contains("unknown option `nsv`; known: nvs"), "{error}");
}

#[test]
fn a_damaged_parquet_file_is_refused_in_one_line() {
    const DAMAGED: &[u8] =
        include_bytes!("../../fuzz/tests/found/traces/a-parquet-column-before-the-file");
    // The first two bytes are options of the fuzzer.
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "damaged.parquet", &DAMAGED[2..]);
    let error = fails(1, &["trace", "info", &path]);
    assert!(error.contains("damaged.parquet: row 0: the file is damaged"), "{error}");
}

#[test]
fn sizes_and_thresholds_are_checked_before_anything_runs() {
    assert!(sim_fails(2, &["--nvs", "0"]).contains("at least 1 page"));
    assert!(sim_fails(2, &["--nvs", "4T"]).contains("larger than the array"));
    let says = "--nvs takes pages, or bytes with K, M, G, not `many`";
    assert!(sim_fails(2, &["--nvs", "many"]).contains(says));
    let says = "--window takes 1 to 1024 commands, auto, not `0`";
    assert!(sim_fails(2, &["--window", "0"]).contains(says));
    assert!(sim_fails(2, &["--thresholds", "80/90"]).contains("above the low threshold"));
    assert!(sim_fails(2, &["--thresholds", "90/90"]).contains("above the low threshold"));
    assert!(sim_fails(2, &["--queue-depth", "0"]).contains("1 to 100000"));
    assert!(sim_fails(2, &["--level", "5", "--disks", "2"]).contains("at least 3 disks"));
    assert!(sim_fails(2, &["--policy", "wow:frequency=0"]).contains("1 to 100"));
    assert!(sim_fails(2, &["--policy", "lrw:1"]).contains("takes no parameters"));
    assert!(sim_fails(2, &["--iops=-5"]).contains("iops"));
    assert!(fails(2, &["compare", "--sweep", "iops"]).contains("no `=`"));
    assert!(fails(2, &["compare", "--ci", "0"]).contains("above 0"));
}

#[test]
fn a_load_has_one_pace() {
    for (load, own) in [("random:threads=4", "threads"), ("uniform:iops=300", "iops")] {
        let error = sim_fails(2, &["--workload", load, "--iops", "500"]);
        let expected = format!("--workload {load} has its own {own}: leave out one of them");
        assert!(error.contains("--iops 500 makes") && error.contains(&expected), "{error}");
        let both = ["--workload", load, "--iops", "500"];
        for words in [
            &["compare", "--workload", load, "--sweep", "iops=100,200"][..],
            &["compare", "--iops", "100", "--sweep", &format!("workload=spc1,{load}")],
            &["sweep", "--out", "/dev/null/x", "--workload", load, "--grid", "iops=100,200"],
            &[&["advise", "--goal", "p99<1s"], &both[..]].concat(),
            &[&["trace", "generate", "/dev/null/x", "--requests", "9"], &both[..]].concat(),
        ] {
            let error = fails(2, words);
            assert!(error.contains(&expected), "{words:?}: {error}");
        }
    }
    // Without a pace of its own, any load is an open one at the given rate.
    let open = ["--workload", "random", "--iops", "400", "--format", "json"];
    let words = sim(&open);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let report: serde_json::Value = serde_json::from_str(&succeeds(&words)).expect("JSON");
    assert_eq!(report["target_iops"], 400.0);
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    for (words, said) in [
        (&["--track-writes", "runs"][..], "--track-writes has no effect without --group track"),
        (&["--flush-bound", "50"], "--flush-bound has no effect"),
        (&["--as", "served", "--flush-bound", "50"], "--flush-bound has no effect"),
        (&["--as", "served", "--durability", "fua"], "stow-ref has no volatile write cache"),
        (&["--durability", "epochs"], "no effect with --protocol papers"),
        (&["--rate", "linear:70/40", "--thresholds", "90/80"], "names its thresholds"),
        (&["--rate", "quick", "--thresholds", "90/80"], "--rate quick has no thresholds"),
        (&["--measure", "0"], "--measure takes seconds"),
    ] {
        let error = fails(2, &[&["sim"], words].concat());
        assert!(error.contains(said), "{words:?}: {error}");
    }
    let advise = ["advise", "--goal", "p99<1s", "--rate", "linear:70/40"];
    let error = fails(2, &[&advise[..], &["--try-thresholds", "90/80,70/40"]].concat());
    assert!(error.contains("and so does --try-thresholds 90/80: leave out one"), "{error}");
    assert!(error.contains("e.g. --rate linear --try-thresholds 90/80"), "{error}");
    // Without them the rate's own are considered.
    let few = ["--sizes", "4096..4096", "--policies", "stow", "--seeds", "1", "--iops", "200"];
    let short = ["--warmup", "5", "--measure", "5", "--format", "json"];
    let advice = succeeds(&[&advise[..], &few, &short].concat());
    let advice: serde_json::Value = serde_json::from_str(&advice).expect("JSON");
    let runs = advice["runs"].as_array().expect("runs");
    assert!(!runs.is_empty() && runs.iter().all(|run| run["thresholds"] == ""), "{runs:?}");
}

#[test]
fn two_spellings_of_one_value_are_refused() {
    for (words, said) in [
        (
            &["compare", "--sweep", "thresholds=90/80,90.0/80.0"][..],
            "thresholds=90/80 and thresholds=90.0/80.0 are the same: list it once",
        ),
        (
            &["compare", "--policies", "wow,wow:initial-bit=0"],
            "policy=wow and policy=wow:initial-bit=0 are the same: list it once",
        ),
        (
            &["sweep", "--out", "/dev/null/x", "--grid", "policy=wow;wow:0"],
            "policy=wow and policy=wow:0 are the same: list it once",
        ),
        (
            &["advise", "--goal", "p99<1s", "--policies", "wow;wow:frequency=1"],
            "policy=wow and policy=wow:frequency=1 are the same: list it once",
        ),
        (
            &["advise", "--goal", "p99<1s", "--try-thresholds", "90/80,90/80.0"],
            "thresholds=90/80 and thresholds=90/80.0 are the same: list it once",
        ),
    ] {
        let error = fails(2, words);
        assert!(error.contains(said), "{words:?}: {error}");
    }
}

#[test]
fn a_run_that_is_all_warm_up_is_an_error() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("r.json");
    let few = ["sim", "--requests", "2000", "--out", out.to_str().expect("text")];
    let error = fails(2, &few);
    assert!(error.contains("in the warm-up (--warmup auto): nothing was measured"), "{error}");
    assert!(error.contains("--warmup 0 measures from the start), or more than --requests 2000"));
    assert!(!out.exists());
    succeeds(&[&few[..], &["--warmup", "0"]].concat());
    let rows: String =
        (0..50).map(|i| format!("{},0,{},4096,W\n", i * 1_000_000, i * 8192)).collect();
    let header = "time_ns,device,offset_bytes,length_bytes,op\n";
    let trace = file(&folder, "t.csv", [header, &rows].concat().as_bytes());
    let replay = ["--trace", &trace, "--warmup", "9"];
    let error = fails(2, &[&["sim"], &replay[..]].concat());
    assert!(error.contains("the load ended after 0.") && !error.contains("--requests"), "{error}");
    let error = fails(2, &[&["compare", "--policies", "lrw,wow"], &replay[..]].concat());
    assert!(error.starts_with("destage: lrw: the load ended"), "{error}");
}

#[test]
fn traces_that_are_none_say_where_and_what_was_expected() {
    let folder = TempDir::new().expect("a folder");
    let replay = |path: &str| sim_fails(1, &["--trace", path]);
    assert!(replay("/nowhere/x.csv").contains("/nowhere/x.csv"));
    assert!(replay(&file(&folder, "empty.csv", b"")).contains("empty"));
    let garbage: Vec<u8> = (0..4096u32).map(|i| (i * 37 % 251) as u8).collect();
    let error = replay(&file(&folder, "garbage", &garbage));
    assert!(error.contains("garbage"), "{error}");
    let good = folder.path().join("good.dtrc.gz");
    let good = good.to_str().expect("text");
    succeeds(&["trace", "generate", good, "--workload", "zipf", "--requests", "5000"]);
    let bytes = std::fs::read(good).expect("read");
    let cut = file(&folder, "cut.dtrc.gz", &bytes[..bytes.len() / 2]);
    assert!(replay(&cut).contains("cut.dtrc.gz"));
    let disordered = "5.0,0,8,8,1\n4.0,0,16,8,1\n";
    let error = replay(&file(&folder, "order.ssd", disordered.replace(',', " ").as_bytes()));
    assert!(error.contains("order.ssd"), "{error}");
}

#[test]
fn a_malformed_line_is_named_or_counted() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "fin.spc", b"0,20,4096,W,0.5\n0,40,4096,W,0.6\n0,x,4096,W,0.7\n");
    let error = fails(1, &["trace", "info", &path, "--trace-format", "spc"]);
    assert!(error.contains("fin.spc") && error.contains('3'), "{error}");
    let info = succeeds(&[
        "trace",
        "info",
        &path,
        "--trace-format",
        "spc",
        "--skip-bad",
        "--format",
        "csv",
    ]);
    assert!(info.contains("malformed and skipped,1"), "{info}");
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let beyond = file(&folder, "beyond.spc", b"0,20,4096,W,0.5\n0,999999999999,4096,W,0.6\n");
    let error = sim_fails(1, &["--trace", &beyond, "--trace-format", "spc"]);
    assert!(error.contains("beyond.spc") && error.contains('2'), "{error}");
    let large = file(&folder, "large.spc", b"0,20,4096,W,0.5\n0,40,409600,W,0.6\n");
    let error = sim_fails(1, &["--trace", &large, "--trace-format", "spc", "--nvs", "64"]);
    assert!(error.contains("larger than the NVS (64 pages)"), "{error}");
}

#[test]
fn a_spec_or_experiment_with_an_unknown_key_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let spec = std::fs::read_to_string(common::top().join("specs/disks/stow-ref.toml"));
    let spec = format!("colour = \"red\"\n{}", spec.expect("read"));
    let error = sim_fails(1, &["--disk", &file(&folder, "mine.toml", spec.as_bytes())]);
    assert!(error.contains("mine.toml") && error.contains("colour"), "{error}");
    let experiment = file(&folder, "e.toml", b"polices = [\"lrw\"]\n");
    let error = fails(1, &["compare", "--experiment", &experiment]);
    assert!(error.contains("e.toml") && error.contains("polices"), "{error}");
}

#[test]
fn an_unwritable_output_fails_before_the_work_and_leaves_nothing() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("no/such/r.html");
    let path = path.to_str().expect("text");
    let error = fails(1, &["compare", "--out", path]);
    assert!(error.contains("r.html") && error.contains("cannot be written"), "{error}");
    assert!(fails(2, &["compare", "--out", "report.pdf"]).contains("use one of: html"));
    let out = folder.path().join("run.json");
    let out_text = out.to_str().expect("text").to_string();
    assert!(sim_fails(1, &["--trace", "/nowhere", "--out", &out_text]).contains("/nowhere"));
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
}

#[test]
fn traces_that_cannot_validate_a_disk_say_why() {
    let folder = TempDir::new().expect("a folder");
    let fails_for = |disk: &str, name: &str, bytes: &[u8]| {
        fails(1, &["disks", "validate", disk, &file(&folder, name, bytes)])
    };
    let good = b"R x 8 8 5000 1000\nW x 64 8 5000 1000\n";
    let error = fails_for("cheetah9lp", "fin.spc", b"0,20,4096,W,0.5\n0,40,4096,W,0.6\n");
    assert!(error.contains("fin.spc") && error.contains("no measured service times"), "{error}");
    assert!(fails_for("cheetah9lp", "empty", b"").contains("empty"));
    let beyond = b"R x 8 8 5000 1000\nR x 999999999 8 5000 1000\n";
    let error = fails_for("cheetah9lp", "beyond", beyond);
    assert!(error.contains("line 2") && error.contains("cheetah9lp has"), "{error}");
    let error = fails_for("cheetah9lp", "cut", b"R x 8 8 5000 1000\nR x 8\n");
    assert!(error.contains("line 2"), "{error}");
    let unknown = ["disks", "validate", "cheetah", &file(&folder, "good", good)];
    assert!(fails(2, &unknown).contains("cheetah9lp"));
    let path = file(&folder, "good", good);
    let validate = ["disks", "validate", "cheetah9lp", &path];
    let error = fails(1, &[&validate[..], &["--device", "3"]].concat());
    assert!(error.contains("no requests of device 3; there are [0]"), "{error}");
    assert!(fails(2, &[&validate[..], &["--plot", "x.pdf"]].concat()).contains(".svg"));
    fails(1, &["disks", "validate", "cheetah9lp", "/nowhere"]);
    let plot = folder.path().join("c.svg");
    let plot = plot.to_str().expect("text");
    let text = succeeds(&[&validate[..], &["--plot", plot, "--format", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["kinds"][0]["number"].as_u64(), Some(2), "{text}");
    assert_eq!(report["tenths"].as_array().map(Vec::len), Some(10));
    let drawn = std::fs::read_to_string(plot).expect("drawn");
    assert!(drawn.contains("response time (ms)") && drawn.contains("measured"));
}

#[test]
fn arguments_that_clap_refuses_exit_2() {
    for words in [&["sim", "--no-such"][..], &["nothing"], &["trace", "info"]] {
        assert_eq!(destage(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn policy_trace_errors_name_the_line_and_print_nothing() {
    let folder = TempDir::new().expect("a folder");
    for (text, problem) in [
        ("W 0 1\nX\n", "line 2"),
        ("W 0 0\n", "0 pages"),
        ("# ok\n\nW 0 9\n", "line 3"),
        ("W 1\n", "line 1"),
        ("W 18446744073709551615 1\n", "too large"),
    ] {
        let path = file(&folder, "events", text.as_bytes());
        let error = fails(1, &["policy-trace", &path, "--policy", "lrw", "--pages", "8"]);
        assert!(error.contains(problem), "{text:?}: {error}");
    }
    let mut binary = std::fs::File::create(folder.path().join("b")).expect("made");
    binary.write_all(&[0xff, 0xfe, 0, 1]).expect("written");
    let path = folder.path().join("b");
    fails(1, &["policy-trace", path.to_str().expect("text"), "--policy", "lrw", "--pages", "8"]);
    fails(2, &["policy-trace", "x", "--policy", "lrv", "--pages", "8"]);
}

#[test]
fn a_cache_by_track_says_what_it_needs() {
    let by_track = |words: &[&str]| sim_fails(2, &[&["--group", "track"], words].concat());
    assert!(by_track(&[]).contains("one zone, as hp97560 and hp-c2200a"));
    let disk = ["--disk", "hp-c2200a"];
    assert!(by_track(&[&disk[..], &["--level", "5"]].concat()).contains("--level single"));
    assert!(by_track(&[&disk[..], &["--nvs", "4K"]].concat()).contains("smaller than a track"));
    assert!(by_track(&[&disk[..], &["--nvs", "1G"]].concat()).contains("larger than the disk"));
    assert!(by_track(&[&disk[..], &["--rate", "dual:15/90"]].concat()).contains("above the low"));
    assert!(sim_fails(2, &["--group", "cylinder"]).contains("stripes, track"));

    let folder = TempDir::new().expect("a folder");
    let csv = |name: &str, rows: &str| {
        let header = "time_ns,device,offset_bytes,length_bytes,op\n";
        file(&folder, name, [header, rows].concat().as_bytes())
    };
    let far = csv("far.csv", "0,0,99999999744,512,W\n");
    let error = fails(1, &["track-trace", &far]);
    assert!(error.contains("far.csv") && error.contains("beyond the disk"), "{error}");
    let good = csv("good.csv", "0,0,0,512,W\n1,0,0,256,R\n");
    assert!(fails(1, &["track-trace", &good, "--device", "7"]).contains("no requests of device 7"));
    assert!(fails(2, &["track-trace", &good, "--device", "x"]).contains("a device number or all"));
    assert!(fails(2, &["track-trace", &good, "--policy", "lsts"]).contains("known: lst"));
    // A size without a unit is in bytes, as its help says.
    let with = |nvs: &str| succeeds(&["track-trace", &good, "--nvs", nvs, "--events"]);
    assert_eq!(with("262144"), with("256K"));
    assert!(fails(2, &["track-trace", &good, "--nvs", "1000"]).contains("a multiple of 4096"));
    let output = succeeds(&["track-trace", &good, "--events"]);
    assert!(output.starts_with("W 0\nreads "), "{output}");
}

#[test]
fn a_file_holds_what_its_name_promises() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let error = sim_fails(2, &["--series", &path("series.csv")]);
    assert!(error.contains("series.csv") && error.contains(".parquet"), "{error}");
    let load = ["--workload", "zipf", "--requests", "10"];
    for (name, why) in [
        ("t.parquet.zst", "leave the last ending out"),
        ("t.json.zst", "name it .csv"),
        ("t.txt", "name it .csv"),
    ] {
        let error = fails(2, &[&["trace", "generate", &path(name)], &load[..]].concat());
        assert!(error.contains(name) && error.contains(why), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    for (name, magic) in [("t.parquet", "PAR1"), ("t.arrow", "ARROW1"), ("t.feather", "ARROW1")] {
        succeeds(&[&["trace", "generate", &path(name)], &load[..]].concat());
        assert!(std::fs::read(path(name)).expect("written").starts_with(magic.as_bytes()));
        let info = succeeds(&["trace", "info", &path(name), "--format", "json"]);
        assert!(
            info.contains(&format!("\"{}\"", if magic == "PAR1" { "parquet" } else { "arrow" }))
        );
    }
}

#[test]
fn columns_are_described_in_every_command_or_refused() {
    let folder = TempDir::new().expect("a folder");
    let content = b"ts,kind,lba,len\n0,GET,0,4096\n5,PUT,8,4096\nx,PUT,8,4096\n";
    let trace = file(&folder, "io.csv", content);
    let columns = "time=ts:ms, op=kind:read=GET:write=PUT, offset=lba:sectors, size=len";
    let head = ["trace", "head", &trace, "--columns", columns, "--skip-bad", "--format", "csv"];
    assert_eq!(
        succeeds(&head).lines().skip(1).collect::<Vec<_>>(),
        ["0,0,read,0,4096", "0.005,0,write,4096,4096"]
    );
    let sim = ["--trace", &trace, "--trace-columns", columns];
    let error = sim_fails(1, &sim);
    let expected = "io.csv: line 4: expected a time as a number in column ts, found `x`";
    assert!(error.contains(expected), "{error}");
    let both = [&sim[..], &["--trace-format", "msr"]].concat();
    let error = sim_fails(2, &both);
    assert!(error.contains("and so does --trace-format msr: leave out one of them"), "{error}");
    let wrong = ["--trace", &trace, "--trace-columns", "offset=lba:blocks"];
    let error = sim_fails(2, &wrong);
    assert!(error.contains("--trace-columns: offset: the unit is bytes, sectors"), "{error}");
    let error = sim_fails(2, &["--trace-columns", columns]);
    assert!(error.contains("--trace-columns has no effect without --trace"), "{error}");
}

#[test]
fn one_mistake_has_one_exit_code() {
    let folder = TempDir::new().expect("a folder");
    let trace = file(&folder, "good", b"R x 8 8 5000 1000\nW x 64 8 5000 1000\n");
    let bad = file(&folder, "bad.toml", b"name = 'x'\nspeed = 3\n");
    for (code, disk) in [(2, "stow-rif"), (1, bad.as_str()), (1, "/nowhere/x.toml")] {
        let named = |error: String| assert!(error.contains(disk), "{error}");
        named(sim_fails(code, &["--disk", disk]));
        named(fails(code, &["compare", "--disk", disk]));
        named(fails(code, &["disks", "show", disk]));
        named(fails(code, &["disks", "validate", disk, &trace]));
        let socket = format!("unix:{}/s", folder.path().display());
        named(fails(code, &["emulate", disk, "--nbd", &socket]));
    }
}

#[test]
fn a_run_that_fails_is_named() {
    let folder = TempDir::new().expect("a folder");
    let rows = folder.path().join("rows").to_str().expect("text").to_string();
    let csv = |name: &str, rows: &str| {
        let header = "time_ns,device,offset_bytes,length_bytes,op\n";
        file(&folder, name, [header, rows].concat().as_bytes())
    };
    let good = csv("good.csv", "0,0,0,4096,W\n1000,0,8192,4096,W\n");
    let empty = csv("empty.csv", "0,0,0,0,W\n");
    let traces = format!("trace={good},{empty}");
    let grid = ["--grid", &traces, "--grid", "policy=lrw,wow"];
    let error = fails(1, &[&["sweep", "--out", &rows, "--threads", "1"], &grid[..]].concat());
    assert!(error.contains("policy=lrw trace=") && error.contains("empty.csv"), "{error}");
    assert!(error.contains("no requests") && !error.contains("nvs="), "{error}");
    let error = fails(1, &["compare", "--policies", "lrw", "--sweep", &traces]);
    assert!(error.contains("lrw at trace=") && error.contains("empty.csv"), "{error}");
}

#[test]
fn of_an_item_of_the_papers_one_panel_is_compared() {
    let item = common::top().join("specs/experiments/stow-fig10.toml");
    let item = item.to_str().expect("text");
    let compare = ["compare", "--experiment", item];
    let panel = |name| [&compare[..], &["--panel", name]].concat();
    for words in [compare.to_vec(), panel("none")] {
        let error = fails(1, &words);
        assert!(error.contains("stow-fig10.toml: has several panels"), "{error}");
        assert!(error.contains("--panel: full, partial. `destage reproduce` runs all"), "{error}");
    }
    let short = ["--sweep", "iops=300,400", "--warmup", "1", "--measure", "5", "--seeds", "1"];
    let text = succeeds(&[&panel("full")[..], &short].concat());
    assert!(text.contains("STOW Fig. 10") && text.contains("stow"), "{text}");
    // The only panel needs no name.
    let only = common::top().join("specs/experiments/wow-fig10.toml");
    let only = ["compare", "--experiment", only.to_str().expect("text")];
    let text = succeeds(&[&only[..], &short].concat());
    assert!(text.contains("WOW Fig. 10") && text.contains("cscan"), "{text}");
    let error = fails(1, &[&only[..], &["--panel", "x"]].concat());
    assert!(error.contains("has no panel x, only all: leave out --panel"), "{error}");
    // Of the figure, only what is a comparison of write caches.
    let other = common::top().join("specs/experiments/vdf-fig3-5.toml");
    let other = other.to_str().expect("text");
    let error = fails(1, &["compare", "--experiment", other, "--panel", "oltp"]);
    assert!(error.contains("panel oltp does not compare write caches"), "{error}");
    let folder = TempDir::new().expect("a folder");
    let plain = file(&folder, "plain.toml", b"policies = [\"lrw\"]\n");
    let error = fails(1, &["compare", "--experiment", &plain, "--panel", "x"]);
    assert!(error.contains("has no panels: leave out --panel"), "{error}");
    let out = destage(&["compare", "--panel", "full"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--experiment <FILE>"));
}
