//! `destage trace analyze`: every figure is computed again by a Python script that takes the
//! definitions literally, on generated traces and on real ones.

mod common;

use common::{fails, succeeds, top, trace};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("text").to_string()
}

/// Runs the script on a CSV trace and an analysis.
fn script(trace: &str, analysis: &Path, more: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.arg("-B").arg(top().join("tests/analysis/check.py"));
    command.arg(trace).arg(analysis).args(more).output().expect("python3 runs: install Python 3")
}

/// Analyses a trace with these options, and has the script check every figure.
fn check(folder: &TempDir, file: &str, more: &[&str]) -> serde_json::Value {
    let (copy, out) = (path(folder, "copy.csv"), path(folder, "found.json"));
    succeeds(&["trace", "convert", file, &copy, "--force"]);
    let words = ["trace", "analyze", file, "--format", "json", "--out", &out];
    let text = succeeds(&[&words[..], more].concat());
    assert_eq!(std::fs::read_to_string(&out).expect("written"), text);
    let output = script(&copy, Path::new(&out), more);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{file} {more:?}: {said}{error}");
    println!("{file}: {said}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn python_computes_the_same_of_generated_traces() {
    let folder = TempDir::new().expect("a folder");
    let file = path(&folder, "t.dtrc.zst");
    for (load, requests) in [
        ("spc1:iops=60", "3000"),
        ("mix:0.7*hotcold+0.3*sequential,iops=4", "3000"),
        ("zipf:iops=2000", "12000"),
    ] {
        let words = ["trace", "generate", &file, "--workload", load, "--requests", requests];
        succeeds(&[&words[..], &["--force"]].concat());
        let report = check(&folder, &file, &[]);
        let trace = &report["traces"][0];
        let sum = |of: &serde_json::Value| of["reads"].as_u64().zip(of["writes"].as_u64());
        let (reads, writes) = sum(&trace["total"]).expect("counts");
        assert_eq!((reads + writes).to_string(), requests, "{load}");
    }
}

/// Requests that are not aligned, empty, of several devices, in bursts and far apart.
fn odd_trace(folder: &TempDir) -> String {
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    let (mut time, mut state) = (5_000_000_000u64, 11u64);
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % below
    };
    let mut end = 0;
    for at in 0..6000u64 {
        time += match random(100) {
            0 => random(7200) * 1_000_000_000,
            1..20 => random(20_000) * 1_000_000,
            _ => random(3_000_000),
        };
        let device = random(11) * random(2);
        let offset = if random(3) == 0 { end } else { random(900) * random(900) * 512 };
        let length = [0, 512, 700, 4096, 4097, 65_536, 1 << 20][random(7) as usize];
        end = offset + length;
        let op = ["R", "W", "W", "?"][random(if at < 3000 { 3 } else { 4 }) as usize];
        text += &format!("{time},{device},{offset},{length},{op}\n");
    }
    let file = path(folder, "odd.csv");
    std::fs::write(&file, text).expect("written");
    file
}

#[test]
fn python_computes_the_same_of_an_odd_trace() {
    let folder = TempDir::new().expect("a folder");
    let file = odd_trace(&folder);
    let report = check(&folder, &file, &[]);
    let trace = &report["traces"][0];
    assert_eq!(trace["devices"], 11, "{}", trace["devices"]);
    assert_eq!(trace["heat"]["devices"].as_array().map(Vec::len), Some(8));
    assert!(trace["time"]["hours"].as_array().expect("hours").len() > 20);
    let one = check(&folder, &file, &["--device", "7"]);
    let one = &one["traces"][0];
    assert_eq!((&one["device"], &one["devices"]), (&7.into(), &1.into()));
    assert!(one["total"]["reads"].as_u64() < trace["total"]["reads"].as_u64());
    // `trace info` counts the same.
    let info = succeeds(&["trace", "info", &file, "--format", "csv"]);
    let share = info.lines().find_map(|line| line.strip_prefix("sequential,")).expect("a share");
    let table = succeeds(&["trace", "analyze", &file, "--format", "csv"]);
    let row = table.lines().find(|line| line.contains(",sequential,")).expect("a row");
    let all: f64 = row.split(',').nth(4).and_then(|cell| cell.parse().ok()).expect("a number");
    assert!(share.starts_with(&format!("{all:.2} %")), "{share} {row}");
}

#[test]
fn the_script_finds_a_wrong_figure() {
    let folder = TempDir::new().expect("a folder");
    let file = odd_trace(&folder);
    let report = check(&folder, &file, &[]);
    let out = folder.path().join("wrong.json");
    for (place, value) in [
        ("/traces/0/write_reuse/caches/9/reuses", 1),
        ("/traces/0/sequential/reads_in_streams", 3),
        ("/traces/0/time/intervals/0/pages/written", 5),
        ("/traces/0/heat/devices/3/parts/0/writes", 2),
        ("/traces/0/time/peak_second/total/reads", 4),
        ("/traces/0/sizes/writes/p99_bytes", 6),
    ] {
        let mut wrong = report.clone();
        let figure = wrong.pointer_mut(place).unwrap_or_else(|| panic!("no {place}"));
        *figure = (figure.as_u64().expect("a count") + value).into();
        std::fs::write(&out, wrong.to_string()).expect("written");
        let output = script(&file, &out, &[]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{place}: {said}");
    }
}

#[test]
fn python_computes_the_same_of_real_traces() {
    let folder = TempDir::new().expect("a folder");
    for name in [
        "ajw.1week.srt.gz",
        "cloudPhysicsIO.vscsi.gz",
        "msr_hm_0_first899.csv",
        "ssdsim_example_fin1_first10k.ascii",
        "DTRS100M.trace.gz",
        "wsrch-small.trace.gz",
        "disksim_ascii.trace.gz",
        "OLTP.lis.zst",
        "P3.lis.zst",
        "P6.lis.zst",
    ] {
        let Some(file) = trace(name) else { continue };
        check(&folder, file.to_str().expect("text"), &[]);
    }
}

#[test]
fn several_traces_become_tables_and_one_page() {
    let folder = TempDir::new().expect("a folder");
    let odd = odd_trace(&folder);
    let still = path(&folder, "still.csv");
    let lines = "time_ns,device,offset_bytes,length_bytes,op\n0,0,0,4096,W\n0,0,4096,4096,W\n";
    std::fs::write(&still, lines).expect("written");
    let outs = ["html", "json", "csv", "txt"].map(|end| path(&folder, &format!("found.{end}")));
    let mut words = vec!["trace", "analyze", &odd, &still];
    outs.iter().for_each(|out| words.extend(["--out", out]));
    let text = succeeds(&words);
    let read = |at: usize| std::fs::read_to_string(&outs[at]).expect("written");
    assert_eq!(read(3), text);
    assert!(text.contains("Reuse distances and LRU miss ratios"), "{text}");
    assert!(text.contains("Warning: all requests have one time"), "{text}");
    assert!(text.contains("Warning: the trace does not say whether"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&read(1)).expect("JSON");
    assert_eq!(json["traces"][1]["time"], serde_json::Value::Null);
    assert_eq!(json["traces"][1]["duration_s"], 0.0);
    assert!(read(2).starts_with("file,figure,reads,writes,all,unit\r\n"));
    let page = read(0);
    for heading in ["Rate over time", "Miss ratio by cache size", "Heat over the address space"] {
        assert!(page.contains(heading), "no {heading}");
    }
    assert!(page.contains("Plotly.react") && page.contains("<option value=\"1\">still.csv"));
    assert!(page.contains("content=\"default-src 'none';"), "the page may use a network");
    let left = std::fs::read_dir(folder.path()).expect("listed").count();
    assert_eq!(left, outs.len() + 2, "nothing else is left");
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let folder = TempDir::new().expect("a folder");
    let file = odd_trace(&folder);
    let before = std::fs::read(&file).expect("read");
    let other = path(&folder, "other.csv");
    std::fs::copy(&file, &other).expect("copied");
    let page = path(&folder, "page.html");
    let analyze = |code: i32, words: &[&str]| fails(code, &[&["trace", "analyze"], words].concat());
    let error = analyze(2, &[&file, "--out", &file]);
    assert!(error.contains("this command reads that file"), "{error}");
    let error = analyze(2, &[&other, &file, "--out", &file]);
    assert!(error.contains("this command reads that file"), "{error}");
    let error = analyze(1, &[&file, "--out", &other]);
    assert!(error.contains("is a trace (csv)"), "{error}");
    let error = analyze(2, &[&file, "--out", &page, "--out", &page]);
    assert!(error.contains("two outputs have this name"), "{error}");
    let error = analyze(2, &[&file, "--out", &path(&folder, "page.svg")]);
    assert!(error.contains("use one of: html, json, csv, txt"), "{error}");
    let error = analyze(1, &[&file, "--device", "99", "--out", &page]);
    assert!(error.contains("no request is for device 99") && error.contains('7'), "{error}");
    let error = analyze(1, &[&file, &path(&folder, "no.csv"), "--out", &page]);
    assert!(error.contains("no.csv: No such file"), "{error}");
    let error = analyze(1, &[&file, "--trace-format", "srt", "--out", &page]);
    assert!(error.contains("odd.csv: "), "{error}");
    assert_eq!(std::fs::read(&file).expect("read"), before);
    let mut left: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder.path()).expect("listed") {
        left.push(entry.expect("an entry").path());
    }
    assert_eq!(left.len(), 2, "{left:?}");
}
