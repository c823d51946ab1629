//! No command destroys what it reads, and a recorded trace is replaced only when that is asked for.

mod common;

use common::{fails, succeeds};
use tempfile::TempDir;

/// A trace of our own CSV with this many requests, in a file of this name.
fn trace(folder: &TempDir, name: &str) -> String {
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    for i in 0..50u64 {
        text.push_str(&format!("{},0,{},4096,W\n", i * 1_000_000, i * 8192));
    }
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_string()
}

fn link(folder: &TempDir, to: &str, name: &str, symbolic: bool) -> String {
    let path = folder.path().join(name);
    match symbolic {
        true => std::os::unix::fs::symlink(to, &path).expect("linked"),
        false => std::fs::hard_link(to, &path).expect("linked"),
    }
    path.to_str().expect("text").to_string()
}

#[test]
fn an_output_that_is_the_input_is_refused_by_every_command() {
    let folder = TempDir::new().expect("a folder");
    let input = trace(&folder, "x.csv");
    let before = std::fs::read(&input).expect("read");
    let (hard, soft) =
        (link(&folder, &input, "hard.csv", false), link(&folder, &input, "soft.csv", true));
    let svg = link(&folder, &input, "x.svg", false);
    let parquet = link(&folder, &input, "x.parquet", true);
    let read_trace = ["readcache-trace", &input, "--policy", "lru"];
    for out in [&input, &hard, &soft] {
        for words in [
            vec!["sim", "--trace", &input, "--out", out],
            vec!["compare", "--trace", &input, "--out", out],
            vec!["compare", "--sweep", &format!("trace={input},nowhere.csv"), "--out", out],
            vec!["advise", &input, "--goal", "p99<30ms", "--out", out],
            vec!["trace", "convert", &input, out],
            vec!["trace", "convert", &input, out, "--force"],
            [&read_trace[..], &["--out", out]].concat(),
            vec!["disks", "convert", &input, "--out", out],
        ] {
            let error = fails(2, &words);
            assert!(error.contains(out.as_str()), "{error}");
            assert!(error.contains("reads that file") && error.contains("another"), "{error}");
        }
    }
    fails(2, &["sim", "--trace", &input, "--plot", &svg]);
    fails(2, &["sim", "--trace", &input, "--series", &parquet]);
    fails(2, &["disks", "validate", "cheetah9lp", &input, "--plot", &svg]);
    assert_eq!(std::fs::read(&input).expect("read"), before);
}

#[test]
fn a_spec_and_an_experiment_are_inputs_too() {
    let folder = TempDir::new().expect("a folder");
    let spec = folder.path().join("mine.toml");
    std::fs::copy(common::top().join("specs/disks/stow-ref.toml"), &spec).expect("copied");
    let spec = spec.to_str().expect("text").to_string();
    let (json, svg) =
        (link(&folder, &spec, "spec.json", false), link(&folder, &spec, "spec.svg", true));
    fails(2, &["sim", "--disk", &spec, "--out", &json]);
    fails(2, &["disks", "show", &spec, "--plot", &svg]);
    let socket = format!("unix:{}", folder.path().join("s").display());
    fails(2, &["emulate", &spec, "--size", "1M", "--file", &json, "--nbd", &socket]);
    let experiment = folder.path().join("e.toml");
    std::fs::write(&experiment, "policies = [\"lrw\"]\n").expect("written");
    let experiment = experiment.to_str().expect("text").to_string();
    let out = link(&folder, &experiment, "e.html", false);
    fails(2, &["compare", "--experiment", &experiment, "--out", &out]);
    let original = std::fs::read(common::top().join("specs/disks/stow-ref.toml"));
    assert_eq!(std::fs::read(&spec).expect("read"), original.expect("read"));
}

#[test]
fn a_trace_is_replaced_only_with_force() {
    let folder = TempDir::new().expect("a folder");
    let (recorded, other) = (trace(&folder, "recorded.csv"), trace(&folder, "other.csv"));
    let before = std::fs::read(&recorded).expect("read");
    let generate = ["trace", "generate", &recorded, "--workload", "zipf", "--requests", "10"];
    let convert = ["trace", "convert", &other, &recorded];
    for words in [&generate[..], &convert] {
        let error = fails(1, words);
        assert!(error.contains("recorded.csv: already exists"), "{error}");
        assert!(error.contains("--force"), "{error}");
    }
    assert_eq!(std::fs::read(&recorded).expect("read"), before);
    succeeds(&[&generate[..], &["--force"]].concat());
    assert_ne!(std::fs::read(&recorded).expect("read"), before);
    // An empty file has nothing to lose.
    let empty = folder.path().join("empty.dtrc");
    std::fs::write(&empty, b"").expect("written");
    succeeds(&["trace", "convert", &other, empty.to_str().expect("text")]);
}

#[test]
fn a_report_replaces_a_report_but_not_a_trace() {
    let folder = TempDir::new().expect("a folder");
    let recorded = trace(&folder, "recorded.csv");
    let error = fails(1, &["sim", "--out", &recorded]);
    assert!(error.contains("recorded.csv: is a trace (csv)"), "{error}");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let quick = ["--warmup", "1", "--measure", "2", "--nvs", "1024"];
    let names = ["r.json", "r.csv", "r.txt", "r.parquet"].map(path);
    let outs: Vec<&str> = names.iter().flat_map(|name| ["--out", name.as_str()]).collect();
    let sweep = ["--sweep", "iops=100,200", "--policies", "lrw,stow"];
    let array = ["--policies", "lrw", "--sizes", "256..512", "--goal", "p99<300ms"];
    let tables: Vec<&str> = outs[..6].to_vec();
    for _ in 0..2 {
        succeeds(&[&["sim"], &quick[..], &outs].concat());
    }
    for _ in 0..2 {
        succeeds(&[&["compare"], &quick[..], &sweep, &outs].concat());
    }
    for _ in 0..2 {
        succeeds(&[&["advise", &recorded], &array[..], &tables].concat());
    }
    // Two outputs of one name are one too few.
    let error = fails(2, &[&["sim"], &outs[..2], &outs[..2]].concat());
    assert!(error.contains("r.json: two outputs"), "{error}");
}

#[test]
fn contradictions_are_one_clear_error() {
    let folder = TempDir::new().expect("a folder");
    let trace = trace(&folder, "x.csv");
    let rows = folder.path().join("rows").to_str().expect("text").to_string();
    let trace_and = |words: &[&str]| {
        let words = [&["sim", "--trace", &trace], words].concat();
        fails(2, &words)
    };
    assert!(trace_and(&["--iops", "500"]).contains("--iops is for a generated load"));
    assert!(trace_and(&["--workload", "spc1"]).contains("--workload is for a generated load"));
    assert!(trace_and(&["--trace-mode", "closed", "--trace-speed", "2"]).contains("--trace-speed"));
    assert!(fails(2, &["sim", "--trace-mode", "closed"]).contains("without --trace"));
    let compare = |words: &[&str]| fails(2, &[&["compare"], words].concat());
    let of_trace = |words: &[&str]| compare(&[&["--trace", &trace], words].concat());
    assert!(of_trace(&["--sweep", "iops=1,2"]).contains("--iops is for a generated load"));
    for words in [&["--seeds", "3"][..], &["--ci", "5"], &["--sweep", "seed=1,2"]] {
        assert!(of_trace(words).contains("nothing is random"), "{words:?}");
    }
    let error = compare(&["--policies", "lrw,cscan", "--sweep", "policy=wow,stow"]);
    assert!(error.contains("sweep of policy contradicts policy=lrw"), "{error}");
    assert!(compare(&["--policies", "lrw,lrw"]).contains("compared with itself"));
    assert!(compare(&["--policies", "stow,stow:128"]).contains("are the same"));
    assert!(compare(&["--nvs", "64", "--sweep", "nvs=1,2"]).contains("contradicts the sweep"));
    assert!(compare(&["--sweep", "nvs=32768,128M"]).contains("are the same"));
    assert!(compare(&["--at-ms", "20"]).contains("--sweep iops="));
    assert!(compare(&["--seeds-max", "9"]).contains("--ci"));
    assert!(compare(&["--plot-format", "png"]).contains("--plots"));
    let sweep = |words: &[&str]| fails(2, &[&["sweep", "--out", &rows], words].concat());
    let twice = ["--grid", "policy=wow", "--grid", "policy=stow"];
    assert!(sweep(&twice).contains("`policy` is swept twice"));
    assert!(sweep(&["--grid", "nvs=1,2", "--nvs", "64"]).contains("contradicts the sweep"));
    assert!(sweep(&["--grid", "nvs=32768,128M"]).contains("are the same"));
    let replays = ["--trace", &trace, "--grid", "nvs=64,128"];
    assert!(sweep(&[&replays[..], &["--seeds", "2"]].concat()).contains("nothing is random"));
    let advise = |words: &[&str]| fails(2, &[&["advise", "--goal", "p99<1s"], words].concat());
    assert!(advise(&[&trace, "--seeds", "2"]).contains("--seeds is for generated loads"));
    assert!(advise(&["--array", "5:5xstow-ref", "--disks", "4"]).contains("describe the array"));
    let reads = ["readcache-trace", &trace, "--policy", "lru", "--disks", "5"];
    let error = fails(2, &[&reads[..], &["--sweep", "disks=5,6"]].concat());
    assert!(error.contains("`disks` is given twice"), "{error}");
    let error = fails(2, &["track-trace", &trace, "--events", "--format", "json"]);
    assert!(error.contains("--events"), "{error}");
    assert!(!std::path::Path::new(&rows).exists(), "nothing was made");
}
