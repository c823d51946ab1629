//! `destage writecache-trace`, and the bounds of `readcache-trace`, as they are typed.

mod common;

use common::{analysis_script, difference, fails, no_difference, succeeds};

fn rows(json: &str) -> Vec<serde_json::Value> {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    json.get("rows").unwrap_or(&json).as_array().expect("rows").clone()
}

/// A small trace in a folder that is removed with it.
fn trace() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("load.csv").to_str().expect("a path").to_string();
    let load = ["--workload", "spc1:iops=500", "--requests", "6000"];
    succeeds(&[&["trace", "generate", &path], &load[..]].concat());
    (folder, path)
}

#[test]
fn no_policy_destages_less_than_the_bound() {
    let (_folder, path) = trace();
    let run = ["writecache-trace", path.as_str(), "--nvs", "5%,40%", "--format", "json"];
    let printed = rows(&succeeds(&run));
    assert_eq!(printed.len(), 10, "five rows per size");
    for size in printed.chunks(5) {
        assert_eq!(size[4]["policy"], "bound");
        for row in &size[..4] {
            for what in ["destages", "destaged"] {
                let count = |row: &serde_json::Value| {
                    let at = row.as_object().expect("a row").iter();
                    let mut found =
                        at.filter(|(name, _)| name.split(['_', ' ']).next() == Some(what));
                    found.next().and_then(|(_, value)| value.as_u64()).expect("a count")
                };
                assert!(count(row) >= count(&size[4]), "{what}: {row}");
            }
        }
    }
    assert_eq!(succeeds(&run), succeeds(&[&run[..], &["--threads", "1"]].concat()));
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let (folder, path) = trace();
    let path = path.as_str();
    assert!(fails(1, &["writecache-trace", path, "--nvs", "1"]).contains("its largest write has"));
    assert!(fails(2, &["writecache-trace", path, "--nvs", "0%"]).contains("--nvs"));
    assert!(fails(2, &["writecache-trace", path, "--policy", "wov"]).contains("wow"));
    assert!(fails(2, &["writecache-trace", path, "--policy", "bond"]).contains("known: bound"));
    assert!(fails(2, &["writecache-trace", path, "--group-pages", "0"]).contains("--group-pages"));
    assert!(fails(2, &["writecache-trace", path, "--out", path]).contains(path));
    let reads = folder.path().join("reads.csv").to_str().expect("a path").to_string();
    let load = ["--workload", "uniform:iops=500,writes=0", "--requests", "50"];
    succeeds(&[&["trace", "generate", &reads], &load[..]].concat());
    assert!(fails(1, &["writecache-trace", &reads]).contains("no write in it"));
}

#[test]
fn the_read_bound_is_a_row_without_events() {
    let (_folder, path) = trace();
    let run = ["readcache-trace", path.as_str(), "--blocks", "10%"];
    let list = ["--policy", "vdf-lru,vdf-opt,bound", "--format", "json"];
    let printed = rows(&succeeds(&[&run[..], &list].concat()));
    let names: Vec<&str> = printed.iter().filter_map(|row| row["policy"].as_str()).collect();
    assert_eq!(names, ["lru", "vdf-lru", "opt", "vdf-opt", "bound"]);
    let rgr = |at: usize| printed[at]["rgr"].as_f64().or(printed[at]["RGR"].as_f64());
    assert!((0..4).all(|at| rgr(at) >= rgr(4) && rgr(4).is_some()), "{printed:?}");
    let error = fails(2, &[&run[..], &["--policy", "bound", "--events"]].concat());
    assert!(error.contains("--events takes one policy"), "{error}");
}

/// Replays a trace, and has the Python script count the same from the written table.
fn counted(path: &str, found: &str, more: &[&str], script: &[&str]) -> String {
    let run = ["writecache-trace", path, "--nvs", "2%,20%", "--policy", "lrw,cscan,lst,bound"];
    let table = succeeds(&[&run[..], &["--format", "csv"], more].concat());
    std::fs::write(found, &table).expect("written");
    let words = [&[path, found], script].concat();
    print!("{path}: {}", no_difference(&analysis_script("caches.py", &words)));
    table
}

#[test]
fn python_counts_the_same_destages_of_real_traces() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = folder.path().join("found.csv").to_str().expect("a path").to_string();
    for (name, more, script) in [
        ("ssdsim_example_fin1_first10k.ascii", &["--group-pages", "16"], &["--group-pages", "16"]),
        ("cloudPhysicsIO.vscsi.gz", &["--trace-until", "10m"], &["--until", "600000000000"]),
    ] {
        let Some(path) = common::trace(name) else { continue };
        counted(path.to_str().expect("a path"), &found, more, script);
    }
}

#[test]
fn python_finds_a_wrong_count() {
    let (folder, path) = trace();
    let found = folder.path().join("found.csv").to_str().expect("a path").to_string();
    let table = counted(&path, &found, &[], &[]);
    let lines: Vec<&str> = table.lines().collect();
    // Written pages, destages and destaged pages of lrw, and the two bounds.
    for (line, column) in [(1, 2), (1, 3), (1, 5), (8, 3), (8, 5)] {
        let mut cells: Vec<String> = lines[line].split(',').map(String::from).collect();
        cells[column] = (cells[column].parse::<u64>().expect("a count") + 1).to_string();
        let wrong = format!("{}\n{}\n", lines[0], cells.join(","));
        std::fs::write(&found, wrong).expect("written");
        let said = difference(&analysis_script("caches.py", &[&path, &found]));
        assert!(said.contains("; 1 differences"), "line {line}, column {column}: {said}");
    }
}
