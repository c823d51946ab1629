//! Slices, samples and merges of traces: a Python script that takes the definitions literally makes
//! the same, of generated traces and of real ones; and every command reads the same requests.

mod common;

use common::{fails, succeeds, top, trace};
use std::process::Command;
use tempfile::TempDir;

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("text").to_string()
}

/// Converts the trace with these options; the script must make the same of copies of its files.
fn check(folder: &TempDir, name: &str, options: &[&str], script: &[&str]) -> String {
    let found = path(folder, "found.csv");
    succeeds(&[&["trace", "convert", name, &found, "--force"], options].concat());
    let mut copies = Vec::new();
    for (number, file) in name.split('+').enumerate() {
        let copy = path(folder, &format!("copy{number}.csv"));
        succeeds(&["trace", "convert", file, &copy, "--force"]);
        copies.push(copy);
    }
    let mut command = Command::new("python3");
    command.arg("-B").arg(top().join("tests/analysis/selections.py")).arg(&found).args(&copies);
    let output = command.args(script).output().expect("python3 runs: install Python 3");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {options:?}: {said}{error}");
    println!("{name} {options:?}: {said}");
    found
}

/// Requests of some devices, unaligned and empty ones too; from this time on.
fn small(folder: &TempDir, name: &str, seed: u64, begin_ns: u64) -> String {
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    let (mut time, mut state) = (begin_ns, seed);
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % below
    };
    for _ in 0..3000 {
        time += random(3) * random(900_000);
        let device = random(4) * random(2);
        let (offset, length) = (random(64 << 20), [0, 512, 700, 4096, 70_000, 3 << 20]);
        let (length, op) = (length[random(6) as usize], ["R", "W", "?"][random(3) as usize]);
        text += &format!("{time},{device},{offset},{length},{op}\n");
    }
    let file = path(folder, name);
    std::fs::write(&file, text).expect("written");
    file
}

/// Options of the command, and the same for the script.
const CASES: &[(&[&str], &[&str])] = &[
    (&["--trace-from", "300ms"], &["--from", "300000000"]),
    (
        &["--trace-from", "0.1", "--trace-until", "0.5s"],
        &["--from", "100000000", "--until", "500000000"],
    ),
    (&["--device", "0+2"], &["--device", "0", "--device", "2"]),
    (&["--trace-range", "1M..3M"], &["--range", "1048576", "3145728"]),
    (&["--trace-sample", "1/4"], &["--sample", "0.25"]),
    (
        &["--trace-sample", "0.3:block=4K:seed=9", "--trace-range", "..40M", "--trace-device", "0"],
        &[
            "--sample", "0.3", "--block", "4096", "--seed", "9", "--range", "0", "41943040",
            "--device", "0",
        ],
    ),
];

#[test]
fn python_selects_the_same_of_generated_traces() {
    let folder = TempDir::new().expect("a folder");
    let one = small(&folder, "one.csv", 3, 5_000_000_000);
    let other = small(&folder, "other.csv", 4, 5_250_000_000);
    for (options, script) in CASES {
        check(&folder, &one, options, script);
    }
    let both = format!("{one}+{other}");
    let bases = ["--base", "5000000000", "--base", "5250000000"];
    // The first record of each begins a little later than its base; the copies say how much.
    let first = |file: &str| {
        let text = std::fs::read_to_string(file).expect("a trace");
        let line = text.lines().nth(1).expect("a request").to_string();
        line.split(',').next().expect("a time").to_string()
    };
    let bases = [bases[0], &first(&one), bases[2], &first(&other)];
    check(&folder, &both, &[], &bases);
    check(&folder, &both, &["--trace-merge", "start"], &["--merge", "start"]);
    let shared: Vec<&str> = [&bases[..], &["--devices", "shared"]].concat();
    check(&folder, &both, &["--trace-devices", "shared"], &shared);
    let slice = ["--trace-from", "0.2", "--trace-sample", "0.5:block=64K", "--device", "0+65537"];
    let same: Vec<&str> = ["--from", "200000000", "--sample", "0.5", "--block", "65536"]
        .into_iter()
        .chain(["--device", "0", "--device", "65537"])
        .chain(bases)
        .collect();
    check(&folder, &both, &slice, &same);
}

#[test]
fn every_command_reads_the_same_part() {
    let folder = TempDir::new().expect("a folder");
    let name = format!("{}+{}", small(&folder, "a.csv", 5, 0), small(&folder, "b.csv", 6, 9_000));
    let options = ["--trace-until", "1.2", "--trace-sample", "1/2", "--trace-device", "0+1+65536"];
    let found = path(&folder, "part.dtrc.zst");
    succeeds(&[&["trace", "convert", &name, &found], &options[..]].concat());
    let figures = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(&succeeds(words)).expect("JSON")
    };
    let analyze = |words: &[&str]| {
        let mut found = figures(&[&["trace", "analyze", "--format", "json"], words].concat());
        let trace = found["traces"][0].as_object_mut().expect("a trace");
        for key in ["file", "format", "compression"] {
            trace.remove(key);
        }
        found
    };
    let whole = [&[name.as_str()], &options[..]].concat();
    assert_eq!(analyze(&whole), analyze(&[&found]));
    let digest = |words: &[&str]| {
        let all = ["sim", "--disks", "5", "--nvs", "4096", "--format", "json", "--trace"];
        figures(&[&all[..], words].concat())["digest"].clone()
    };
    let run = digest(&whole);
    assert!(run.is_string() && run == digest(&[&found]), "{run}");
    assert_ne!(run, digest(&[&[name.as_str()], &options[..2]].concat()));
    let reads = |words: &[&str]| {
        let all = ["readcache-trace", "--policy", "lru", "--blocks", "64"];
        let text = succeeds(&[&all[..], words].concat());
        text.lines().last().expect("a hash").to_string()
    };
    assert_eq!(reads(&whole), reads(&[&found]));
    let head = |words: &[&str]| {
        succeeds(&[&["trace", "head", "-n", "50", "--format", "csv"], words].concat())
    };
    assert_eq!(head(&whole), head(&[&found]));
    // A smaller volume holds the devices if they are packed.
    let sizes = |layout: &str| {
        let all = ["sim", "--disks", "5", "--nvs", "4096", "--disk-fraction", "200M", "--trace"];
        [&all[..], &[&found, "--trace-layout", layout]]
            .concat()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    let packed: Vec<String> = sizes("packed");
    succeeds(&packed.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Several devices onto several arrays: each point has the requests of its own.
#[test]
fn a_sweep_takes_several_devices_as_one_point() {
    let folder = TempDir::new().expect("a folder");
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(&succeeds(&[words, &["--format", "json"]].concat())).expect("JSON")
    };
    let rows = path(&folder, "rows");
    let sweep = |trace: &str, more: &[&str]| -> Vec<serde_json::Value> {
        let words = ["sweep", "--grid", "trace-device=0+1,2+3", "--disks", "5", "--nvs", "4096"];
        let found = json(&[&words[..], &["--out", &rows, "--trace", trace], more].concat());
        found.as_array().expect("rows").clone()
    };
    let file = small(&folder, "t.csv", 8, 0);
    for layout in ["strides", "packed"] {
        let swept = sweep(&file, &["--trace-layout", layout]);
        assert_eq!(swept.len(), 2);
        for (row, devices) in swept.iter().zip(["0+1", "2+3"]) {
            assert_eq!(row["option_trace_device"], devices);
            let part = path(&folder, "part.dtrc");
            let of_device = ["--trace-device", devices];
            succeeds(&[&["trace", "convert", &file, &part, "--force"], &of_device[..]].concat());
            let info = json(&["trace", "info", &part])["figures"].clone();
            let figure = |name: &str| -> u64 {
                let row = info.as_array().expect("rows").iter().find(|row| row["figure"] == name);
                row.expect(name)["value"].as_str().expect("text").parse().expect("a number")
            };
            assert_eq!(figure("devices"), 2);
            let requests = figure("requests") - figure("requests of no bytes");
            assert_eq!(row["requests"], requests, "{devices}: {info}");
            let run = ["sim", "--disks", "5", "--nvs", "4096", "--trace-layout", layout];
            let alone = json(&[&run[..], &["--trace", &part]].concat());
            assert_eq!(row["digest"], alone["digest"], "{devices}, {layout}");
        }
        assert_ne!(swept[0]["digest"], swept[1]["digest"]);
    }
    // Each device writes the same pages once: one that was on another would find them.
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    for at in 0..200 {
        text += &format!("{},{},{},4096,W\n", at * 5_000_000, at % 4, at / 4 * 4096);
    }
    let same = path(&folder, "same.csv");
    std::fs::write(&same, text).expect("written");
    for layout in ["strides", "packed"] {
        for row in sweep(&same, &["--trace-layout", layout]) {
            assert_eq!(
                (&row["requests"], &row["hit_write_page_share"]),
                (&100.into(), &0.0.into())
            );
        }
    }
}

#[test]
fn a_part_that_is_not_there_is_an_error() {
    let folder = TempDir::new().expect("a folder");
    let file = small(&folder, "t.csv", 7, 0);
    let failed =
        |code, options: &[&str]| fails(code, &[&["trace", "info", &file], options].concat());
    assert!(
        failed(1, &["--device", "9"])
            .contains("no request is for device 9; there are: [0, 1, 2, 3]")
    );
    assert!(failed(1, &["--trace-from", "1d"]).contains("no request is left of 3000"));
    assert!(
        failed(2, &["--trace-sample", "1.5"]).contains("--trace-sample takes SHARE[:block=BYTES]")
    );
    assert!(failed(2, &["--trace-range", "5..5"]).contains("--trace-range takes FIRST..END"));
    assert!(failed(2, &["--trace-from", "2m", "--trace-until", "1m"]).contains("is not before"));
    let blocks = path(&folder, "b.txt");
    std::fs::write(&blocks, "3\n0\n3\n").expect("written");
    let both = format!("{file}+{blocks}");
    assert!(fails(1, &["trace", "info", &both]).contains("records no times"));
    let out = fails(2, &["trace", "convert", &format!("{file}+{file}"), &file, "--force"]);
    assert!(out.contains("would destroy it"), "{out}");
    assert!(fails(1, &["trace", "info", "nothing+here"]).contains("nothing"));
}

#[test]
fn python_selects_the_same_of_real_traces() {
    let names =
        ["cloudPhysicsIO.vscsi.gz", "ssdsim_example_fin1_first10k.ascii", "disksim_ascii.trace.gz"];
    let Some(files) = names.iter().map(|name| trace(name)).collect::<Option<Vec<_>>>() else {
        return;
    };
    let folder = TempDir::new().expect("a folder");
    let names: Vec<&str> = files.iter().map(|file| file.to_str().expect("text")).collect();
    check(&folder, names[0], &["--trace-sample", "0.1"], &["--sample", "0.1"]);
    let hour =
        ["--from", "1800000000000", "--until", "5400000000000", "--range", "0", "2147483648"];
    let slice = ["--trace-from", "30m", "--trace-until", "1.5h", "--trace-range", "0..2G"];
    check(&folder, names[0], &slice, &hour);
    check(&folder, names[1], &["--device", "0+3"], &["--device", "0", "--device", "3"]);
    let both = format!("{}+{}", names[1], names[2]);
    check(&folder, &both, &["--trace-merge", "start"], &["--merge", "start"]);
}
