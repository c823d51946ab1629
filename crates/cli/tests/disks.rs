//! `destage disks fit`, `show --format toml` and `keys` as they are typed.

mod common;

use common::{fails, succeeds};
use std::path::{Path, PathBuf};

const SHEET: [&str; 12] = [
    "disks",
    "fit",
    "--capacity",
    "8T",
    "--rpm",
    "7200",
    "--seek",
    "8.0",
    "--outer",
    "255",
    "--cache",
    "256M",
];

fn fit(out: &Path, more: &[&str]) -> Vec<String> {
    let out = out.to_str().expect("a path");
    [&SHEET[..], more, &["--out", out]].concat().into_iter().map(str::to_string).collect()
}

fn words(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

/// The rows of a JSON table.
fn rows(json: &str) -> Vec<serde_json::Value> {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    json.get("rows").unwrap_or(&json).as_array().expect("rows").clone()
}

#[test]
fn a_fitted_spec_is_one_that_every_command_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("mine.toml");
    let printed = succeeds(&words(&fit(&out, &["--format", "json"])));
    let of = |name: &str| {
        let row = rows(&printed).into_iter().find(|row| row["number"] == name);
        row.unwrap_or_else(|| panic!("{name}: {printed}"))
    };
    assert_eq!(of("rpm")["from"], "given");
    assert_eq!(of("head_switch_ms")["from"], "assumed");
    assert!(
        of("random reads, depth 1")["value"].as_f64().is_some_and(|v| (75.0..85.0).contains(&v))
    );
    let spec = std::fs::read_to_string(&out).expect("the spec");
    assert!(spec.starts_with("# Made by `destage disks fit`"), "{spec}");
    assert!(spec.lines().all(|line| line.len() <= 100), "{spec}");
    assert!(spec.contains("name = \"mine\"") && spec.contains("[write_back]"), "{spec}");
    let name = out.to_str().expect("a path");
    assert!(succeeds(&["disks", "show", name]).contains("8000.00"));
    // What is shown as TOML is a spec again, of the same disk.
    let copy = folder.path().join("copy.toml");
    std::fs::write(&copy, succeeds(&["disks", "show", name, "--format", "toml"])).expect("written");
    let again = succeeds(&["disks", "show", copy.to_str().expect("a path")]);
    assert_eq!(again, succeeds(&["disks", "show", name]));
    let flags = ["--nvs", "1024", "--warmup", "1", "--measure", "2", "--iops", "100"];
    let ran = succeeds(&[&["sim", "--policy", "wow", "--disk", name], &flags[..]].concat());
    assert!(ran.contains("writes"), "{ran}");
}

/// A file as fio writes it, shortened.
fn fio(folder: &Path, jobs: &str) -> PathBuf {
    let path = folder.join("fio.json");
    let text = format!(
        "fio: a note before the JSON\n{{\"fio version\": \"fio-3.36\", \"global options\": \
         {{\"bs\": \"4k\", \"direct\": \"1\"}}, \"jobs\": [{jobs}]}}"
    );
    std::fs::write(&path, text).expect("written");
    path
}

fn job(name: &str, options: &str, read: &str) -> String {
    format!("{{\"jobname\": \"{name}\", \"job options\": {{{options}}}, \"read\": {{{read}}}}}")
}

fn random(depth: u64, iops: f64) -> String {
    let options = format!("\"rw\": \"randread\", \"iodepth\": \"{depth}\"");
    job(&format!("rand{depth}"), &options, &format!("\"iops\": {iops}"))
}

fn sequential(offset: &str, bytes: u64) -> String {
    let options = format!("\"rw\": \"read\", \"bs\": \"1m\", \"offset\": \"{offset}\"");
    job(&format!("seq{offset}"), &options, &format!("\"bw_bytes\": {bytes}"))
}

#[test]
fn fio_gives_seeks_rates_and_window() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("mine.toml");
    let out = out.to_str().expect("a path");
    let fitted = |jobs: &[String], more: &[&str]| {
        let path = fio(folder.path(), &jobs.join(", "));
        let file = path.to_str().expect("a path").to_string();
        let base = ["disks", "fit", "--capacity", "8T", "--rpm", "7200", "--force", "--out", out];
        [&base[..], &["--fio", file.as_str()], more]
            .concat()
            .into_iter()
            .map(str::to_string)
            .collect()
    };
    let write = job("w", "\"rw\": \"randwrite\"", "\"iops\": 0");
    let full = [
        random(1, 82.0),
        random(32, 190.0),
        sequential("0", 255_000_000),
        sequential("90%", 123_000_000),
        write,
    ];
    let list: Vec<String> = fitted(&full, &["--format", "json"]);
    let printed = rows(&succeeds(&words(&list)));
    let of = |name: &str| {
        printed.iter().find(|row| row["number"] == name).expect("a row")["value"].as_f64()
    };
    let near = |name: &str, value: f64, far: f64| {
        let got = of(name).expect("a number");
        assert!((got / value - 1.0).abs() < far, "{name}: {got}, expected {value}");
    };
    near("random reads, depth 1", 82.0, 0.02);
    near("random reads, depth 32", 190.0, 0.1);
    let window = printed.iter().find(|row| row["number"] == "window").expect("a row");
    assert_eq!(window["from"], "reads at other depths");
    let refused = |jobs: &[String], more: &[&str], code: i32, what: &str| {
        let list: Vec<String> = fitted(jobs, more);
        let error = fails(code, &words(&list));
        assert!(error.contains(what), "{error}");
    };
    refused(&full, &["--outer", "250"], 1, "the outer rate is given twice");
    refused(&full[..2], &[], 2, "the rate at the outer edge is missing");
    refused(&full[2..], &[], 2, "how long a seek takes is missing");
    refused(&[random(1, 82.0), random(1, 80.0)], &[], 1, "a second measurement at depth 1");
    refused(&[sequential("50%", 1)], &[], 1, "at offset 0, or 90 %");
    refused(&[random(1, 0.0)], &[], 1, "no read.iops above 0");
    refused(&[random(1, 400.0), sequential("0", 255_000_000)], &[], 2, "half a revolution");
    refused(&[], &[], 1, "no `jobs` of fio");
    let with = |options: &str| {
        let all = format!("\"rw\": \"randread\", {options}");
        [job("part", &all, "\"iops\": 110"), sequential("0", 255_000_000)]
    };
    refused(&with("\"direct\": \"0\""), &[], 1, "Run it with direct=1");
    refused(&with("\"size\": \"1G\""), &[], 1, "leave out size and offset");
    refused(&with("\"offset\": \"50%\""), &[], 1, "reads 50.0 % of");
    succeeds(&words(&fitted(&with("\"size\": \"100%\""), &[])));
}

#[test]
fn what_makes_no_spec_is_refused_and_nothing_is_destroyed() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("mine.toml");
    let refused = |more: &[&str], what: &str| {
        let error = fails(2, &words(&fit(&out, more)));
        assert!(error.contains(what), "{error}");
        assert!(!out.exists());
    };
    refused(&["--track-seek", "9"], "a seek curve rises");
    refused(&["--inner", "300"], "above that at the outer edge");
    refused(&["--write-seek", "0"], "--write-seek takes a number of ms above 0");
    refused(&["--inner", "2550000"], "--inner takes a number of MB/s above 0 and below 1000000");
    refused(&["--write-seek", "80"], "a mean seek of 80.0 ms is above 50 ms");
    refused(&["--heads", "0"], "at least one head");
    let other = folder.path().join("mine.txt");
    assert!(fails(2, &words(&fit(&other, &[]))).contains("is named .toml"));
    let input = folder.path().join("in.toml");
    std::fs::write(&input, "{}").expect("written");
    assert!(fails(1, &words(&fit(&input, &[]))).contains("replace it with --force"));
    let model = ["disks", "convert", "no.model", "--out", input.to_str().expect("a path")];
    assert!(fails(1, &model).contains("replace it with --force"));
    assert_eq!(std::fs::read_to_string(&input).expect("kept"), "{}");
    let name = input.to_str().expect("a path");
    let error = fails(2, &words(&fit(&input, &["--fio", name])));
    assert!(error.contains("would destroy it"), "{error}");
}

/// docs/disk-models.md: the rate of DiskSim's host bus is not that of these drives.
#[test]
fn drives_with_the_rate_of_a_bus_say_so() {
    let page = std::fs::read_to_string(common::top().join("docs/disk-models.md")).expect("read");
    for (name, medium) in [
        ("atlas10k", "28.6"),
        ("atlas-iii", "15.7"),
        ("barracuda", "11.4"),
        ("cheetah4lp", "16.7"),
        ("cheetah9lp", "21.8"),
        ("ibm18es", "24.0"),
        ("hp-c2247a", "4.4"),
        ("hp-c2490a", "5.9"),
    ] {
        let shown = succeeds(&["disks", "show", name]);
        let says =
            format!("The medium has {medium} MB/s at the outer edge: do not size for streams");
        assert!(shown.contains(&says), "{shown}");
        let begin = format!("| {name} | ");
        let mut rows = page.lines().filter(|line| line.starts_with(&begin));
        assert!(rows.any(|row| row.contains(&format!(" | {medium} | "))), "{name}");
    }
    assert!(!succeeds(&["disks", "show", "exos-x20"]).contains("do not size"));
}

#[test]
fn keys_are_listed() {
    let list = rows(&succeeds(&["disks", "keys", "--format", "json"]));
    assert!(list.len() > 60);
    assert!(list.iter().any(|row| row["key"] == "seek.fit.third_ms" && row["unit"] == "ms"));
}
