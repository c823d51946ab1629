//! `destage trace analyze`: every figure is computed again by a Python script that takes the
//! definitions literally, on generated traces and on real ones. Another script reads the traces.

mod common;

use common::{analysis_script, difference, fails, no_difference, succeeds, top, trace};
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

/// Its end is busy for a part of a minute, in no minute that is counted from 0.
#[test]
fn a_peak_minute_is_60_consecutive_seconds() {
    let folder = TempDir::new().expect("a folder");
    let write = |name: &str, times_ms: &[u64]| {
        let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
        for time_ms in times_ms {
            text += &format!("{time_ms}000000,0,0,4096,W\n");
        }
        let file = path(&folder, name);
        std::fs::write(&file, text).expect("written");
        file
    };
    let even: Vec<u64> = (0..1200).map(|at| at * 100).collect();
    let burst: Vec<u64> = (0..3000).map(|at| 120_000 + 2 * at).collect();
    let peak = |name: &str, times_ms: &[u64]| {
        let report = check(&folder, &write(name, times_ms), &[]);
        let peak = report["traces"][0]["time"]["peak_minute"].clone();
        let figure = |name: &str| peak[name].as_f64().expect("a number");
        (figure("start_s"), figure("length_s"), peak["total"]["writes"].as_u64())
    };
    // 54 s of 10 requests per second and 6 s of 500.
    assert_eq!(peak("burst.csv", &[&even[..], &burst].concat()), (66.0, 60.0, Some(3540)));
    let early = [&[0, 1, 2, 3][..], &even[600..]].concat();
    assert_eq!(peak("early.csv", &early), (60.0, 60.0, Some(600)));
    let short = &even[..300];
    assert_eq!(peak("short.csv", short), (0.0, 29.9, Some(300)));
    let text = succeeds(&["trace", "analyze", &path(&folder, "short.csv")]);
    assert!(text.contains("peak minute, all 29.9 s"), "{text}");
    let row = |name: &str| text.lines().find(|line| line.contains(name)).expect("a row");
    let cells = |name: &str| row(name).split_whitespace().rev().take(6).collect::<Vec<_>>();
    assert_eq!(cells("peak minute"), cells("mean rate"), "{text}");
    assert_eq!(peak("still.csv", &[0, 0, 700]), (0.0, 0.7, Some(3)));
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
        ("/traces/0/time/peak_minute/total/writes", 7),
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

/// Real traces, of each format that there is one of.
const TRACES: [&str; 10] = [
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
];
/// Those that DiskSim's drives were measured with, which have service times.
const MEASURED: [&str; 6] = [
    "disksim/atlas10k.trace.gz",
    "disksim/cheetah9LP.trace.gz",
    "disksim/dec_rz26.trace.gz",
    "disksim/hp_c2247a.trace.gz",
    "disksim/hp_c2490a.trace.gz",
    "disksim/ibm18es.trace.gz",
];

#[test]
fn python_computes_the_same_of_real_traces() {
    let folder = TempDir::new().expect("a folder");
    for name in TRACES {
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

#[test]
fn python_reads_the_same_records_of_real_traces() {
    let files: Vec<PathBuf> =
        TRACES.iter().chain(&MEASURED).filter_map(|name| trace(name)).collect();
    if files.is_empty() {
        return;
    }
    let mut words = vec![env!("CARGO_BIN_EXE_destage"), "--most", "150000"];
    words.extend(files.iter().map(|file| file.to_str().expect("text")));
    print!("{}", no_difference(&analysis_script("readers.py", &words)));
}

/// Three records of each format in text that the script reads.
const SAMPLES: &[(&str, &str)] = &[
    (
        "msr.csv",
        "0 128166385295514663,hm,0,Write,9056014336,2048,2833\n\
         1 128166385295514878,hm,1,Read,11855351808,512,2617\n\
         2 128166385295515175,hm,0,Write,5548077056,4096,2320\n",
    ),
    ("ssdsim.txt", "0 0 303567 7 0\n7 1 55590 6 1\n26214000 0 303574 7 0\n"),
    (
        "disksim.txt",
        "13.191135\t30\t0\t5\t1\n17.829285\t20\t576560\t6\t0\n24.314779\t17\t0\t24\t1\n",
    ),
    (
        "validation.txt",
        "R Hit 547163 12 18228.000000 20935.440364\nW Hit 25805 43 28803.000000 20296.786638\n\
         R Miss 25806 2 12.5 0\n",
    ),
    ("OLTP.lis", "1 1 0 0\n2 4 0 0\n3 1 0 0\n"),
    ("P3.lis", "230027 8 0 0\n1842745 64 0 1\n216082 8 0 2\n"),
];

/// A CSV copy with another value in a column of its second record.
fn altered(copy: &str, column: usize) -> String {
    let mut lines: Vec<String> = copy.lines().map(String::from).collect();
    let mut fields: Vec<String> = lines[2].split(',').map(String::from).collect();
    fields[column] = match fields[column].parse::<u64>() {
        Ok(number) => (number + 1).to_string(),
        Err(_) => String::from(if fields[column] == "R" { "W" } else { "R" }),
    };
    lines[2] = fields.join(",");
    lines.join("\n") + "\n"
}

#[test]
fn the_script_finds_a_record_that_was_read_wrong() {
    let folder = TempDir::new().expect("a folder");
    let copy = path(&folder, "copy.csv");
    for (at, (name, text)) in SAMPLES.iter().enumerate() {
        let file = path(&folder, name);
        std::fs::write(&file, text).expect("written");
        succeeds(&["trace", "convert", &file, &copy, "--force"]);
        let run = || analysis_script("readers.py", &["-", &file, "--copy", &copy]);
        no_difference(&run());
        let right = std::fs::read_to_string(&copy).expect("read");
        std::fs::write(&copy, altered(&right, at % 5)).expect("written");
        let said = difference(&run());
        assert!(said.contains("record 1: the program has"), "{name}: {said}");
        let short = right.trim_end().rsplit_once('\n').expect("lines").0.to_string() + "\n";
        std::fs::write(&copy, short).expect("written");
        let said = difference(&run());
        assert!(said.contains("record 2: the program has None"), "{name}: {said}");
    }
}
