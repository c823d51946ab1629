//! Every form of output is made from one small comparison, and traces survive conversion.

mod common;

use common::{succeeds, top};
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

const SMALL: &[&str] =
    &["compare", "--policies", "lrw,stow", "--warmup", "5", "--measure", "10", "--nvs", "1024"];

#[test]
fn a_comparison_writes_every_form() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let outs: Vec<String> =
        ["html", "json", "csv", "txt", "parquet"].map(|e| path(&format!("r.{e}"))).to_vec();
    let plots = path("plots");
    let mut words = [SMALL, &["--sweep", "iops=200,300", "--plots", &plots]].concat();
    for out in &outs {
        words.extend(["--out", out]);
    }
    let table = succeeds(&words);
    assert!(table.contains("stow") && table.contains("I/O/s"));
    for out in &outs {
        assert!(std::fs::metadata(out).expect("written").len() > 100, "{out}");
    }
    let html = std::fs::read_to_string(&outs[0]).expect("read");
    assert!(html.contains("Response time by throughput"));
    assert!(html.contains("Settings: simulated as the papers") && html.contains("(--as papers)."));
    let drawn = std::fs::read_dir(&plots).expect("listed").count();
    assert!(drawn >= 5, "{drawn} plots");
    let left = std::fs::read_dir(folder.path()).expect("listed").count();
    assert_eq!(left, outs.len() + 1, "nothing else is left");
}

#[test]
fn a_run_writes_every_form() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let outs = ["html", "json", "csv", "txt", "parquet"].map(|e| path(&format!("r.{e}")));
    let mut words = vec!["sim", "--policy", "wow", "--iops", "200", "--nvs", "1024"];
    words.extend(["--warmup", "5", "--measure", "10"]);
    outs.iter().for_each(|out| words.extend(["--out", out]));
    let table = succeeds(&words);
    assert_eq!(std::fs::read_to_string(&outs[3]).expect("read"), table);
    let html = std::fs::read_to_string(&outs[0]).expect("read");
    assert!(html.contains("<h1>Simulation of wow</h1>"));
    assert!(html.contains("Distribution of response times of reads"));
    assert!(
        html.contains("destage sim --policy wow --nvs 1024 --iops 200 --warmup 5 --measure 10")
    );
    assert!(outs.iter().all(|out| std::fs::metadata(out).expect("written").len() > 100));
}

#[test]
fn seeds_are_repeated_until_the_interval_asked_for() {
    let text = succeeds(&[SMALL, &["--iops", "200", "--ci", "5", "--format", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let point = &report["points"][0];
    let seeds = point["iops"]["seeds"].as_u64().expect("seeds");
    assert!((3..=20).contains(&seeds));
    let mean = point["response_ms"]["mean"].as_f64().expect("a mean");
    let half = point["response_ms"]["half_width"].as_f64().expect("a width");
    let warned = report["findings"].to_string().contains("did not reach");
    assert!(half <= 0.05 * mean || warned, "{half} of {mean} after {seeds} seeds");
}

#[test]
fn every_experiment_file_runs_when_cut_short() {
    let folder = top().join("specs/experiments");
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if std::fs::read_to_string(&path).expect("read").contains("[[panels]]") {
            continue; // An item of `destage reproduce`; a test of the simulator builds its runs.
        }
        let path = path.to_str().expect("text");
        let short = ["--sweep", "seed=1,2", "--warmup", "1", "--measure", "2"];
        let text = succeeds(&[&["compare", "--experiment", path][..], &short].concat());
        assert!(text.contains("lrw"), "{path}");
    }
}

#[test]
fn torture_says_its_fresh_seed_before_it_begins() {
    let torture = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["torture", "--seed", "clock", "--crashes", "8", "--format", "json"])
        .output()
        .expect("started");
    let said = String::from_utf8(torture.stderr).expect("text");
    let seed = said.trim().strip_prefix("destage: the first seed is ").expect("a seed");
    let rows: Value = serde_json::from_slice(&torture.stdout).expect("JSON");
    assert_eq!(rows[0]["number"].to_string(), seed);
}

/// No NVS is filled, so the default size of one does not matter.
#[test]
fn a_trace_is_generated_for_a_small_array() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.csv").to_str().expect("text").to_string();
    let small = ["--disk-fraction", "62M", "--disks", "3", "--requests", "10"];
    succeeds(&[&["trace", "generate", &path, "--workload", "zipf"], &small[..]].concat());
}

#[test]
fn a_generated_trace_converts_and_replays() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let (binary, csv) = (path("t.dtrc.zst"), path("t.csv.gz"));
    let load = "mix:0.7*hotcold+0.3*sequential,iops=500";
    succeeds(&["trace", "generate", &binary, "--workload", load, "--requests", "3000"]);
    succeeds(&["trace", "convert", &binary, &csv]);
    let figures = |file: &str| {
        let text = succeeds(&["trace", "info", file, "--format", "csv"]);
        let lines = text.lines().filter(|l| !l.starts_with("format") && !l.starts_with("compr"));
        lines.map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(figures(&binary), figures(&csv));
    assert!(figures(&csv).iter().any(|l| l.starts_with("requests,3000")));
    assert_eq!(succeeds(&["trace", "head", &csv, "-n", "5", "--format", "csv"]).lines().count(), 6);
    for mode in ["open", "closed:8"] {
        let run =
            ["sim", "--trace", &csv, "--trace-mode", mode, "--nvs", "512", "--format", "json"];
        let report: serde_json::Value = serde_json::from_str(&succeeds(&run)).expect("JSON");
        assert_eq!(report["response"]["all"]["count"].as_u64(), Some(3000), "{mode}");
    }
}

#[test]
fn disks_are_listed_shown_and_drawn() {
    let folder = TempDir::new().expect("a folder");
    assert!(succeeds(&["disks"]).contains("stow-ref"));
    let plot = folder.path().join("seek.svg");
    let plot = plot.to_str().expect("text");
    assert!(succeeds(&["disks", "show", "stow-ref", "--plot", plot]).contains("143374744"));
    assert!(std::fs::read_to_string(plot).expect("drawn").contains("<svg"));
}
