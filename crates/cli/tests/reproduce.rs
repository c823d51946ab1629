//! `destage reproduce`: what it lists, refuses and writes, and the bands around published values.
//!
//! One item takes part in every test run; `make reproduce-bands` runs all, and compares each
//! verdict with docs/reproduction.md, which takes more than an hour.

mod common;

use common::{fails, succeeds, top};
use destage_report::reproduction::Reproduction;
use serde_json::Value;
use std::collections::BTreeMap;
use tempfile::TempDir;

#[test]
fn the_list_names_every_item_of_both_papers() {
    let list = succeeds(&["reproduce", "--list", "--format", "csv"]);
    for n in [2, 6, 7, 8, 9, 10] {
        assert!(list.contains(&format!("wow:fig{n},")), "{list}");
    }
    for item in ["fig2", "fig3", "fig7", "fig8", "fig9", "fig10", "table1", "table2"] {
        assert!(list.contains(&format!("stow:{item},")), "{list}");
    }
    assert!(list.contains("ablations:policies,"));
    assert_eq!(
        succeeds(&["reproduce", "stow:fig8", "--list", "--format", "csv"]).lines().count(),
        2
    );
}

#[test]
fn unknown_items_list_the_known_ones_nearest_first() {
    assert!(fails(2, &["reproduce", "stwo"]).contains("unknown paper `stwo`; known: stow,"));
    let error = fails(2, &["reproduce", "stow:table3"]);
    assert!(error.contains("unknown item `table3` of stow; known: table"), "{error}");
    assert!(fails(2, &["reproduce"]).contains("--list"));
    assert_eq!(common::destage(&["reproduce", "wow", "--all"]).status.code(), Some(2));
}

#[test]
fn an_unwritable_folder_fails_before_the_work() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, b"x").expect("written");
    let below = file.join("below");
    let error = fails(1, &["reproduce", "stow:fig2", "--out", below.to_str().expect("text")]);
    assert!(error.contains("below"), "{error}");
}

#[test]
fn a_quick_item_end_to_end() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("new");
    let path = out.to_str().expect("text");
    let text = succeeds(&["reproduce", "stow:fig3", "--quick", "--out", path]);
    assert!(text.contains("published") && text.contains("ours") && text.contains("ratio"));
    let mut names: Vec<String> = std::fs::read_dir(&out)
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    let wanted = ["index.csv", "index.html", "index.json", "index.txt", "stow-fig3-occupancy.svg"];
    assert_eq!(names, wanted);
    let page = std::fs::read_to_string(out.join("index.html")).expect("read");
    assert!(page.contains("<svg") && page.contains("id=\"stow:fig3\""));
    for reach in ["src=\"http", "href=\"http", "@import", "url("] {
        assert!(!page.contains(reach), "the page must need nothing but itself: {reach}");
    }
    let json = succeeds(&["reproduce", "stow:fig3", "--quick", "--format", "json"]);
    let written = std::fs::read_to_string(out.join("index.json")).expect("read");
    let plain = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")["items"].clone();
    assert_eq!(plain(&json), plain(&written), "the same runs, the same values");
}

/// A value of an item, and whether it is inside its band.
type Judged = (String, bool);

/// What docs/reproduction.md says of the values of each item.
fn documented() -> BTreeMap<String, Vec<Judged>> {
    let page = std::fs::read_to_string(top().join("docs/reproduction.md")).expect("read");
    let mut items: BTreeMap<String, Vec<Judged>> = BTreeMap::new();
    let mut item = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("`destage reproduce ") {
            item = rest.split(['`', ' ']).next().unwrap_or_default().to_string();
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let verdict = cells.last().copied().unwrap_or_default().trim_matches('*');
        if line.starts_with('|') && ["inside", "OUTSIDE"].contains(&verdict) {
            let judged = (cells[0].to_string(), verdict == "inside");
            items.entry(item.clone()).or_default().push(judged);
        }
    }
    items
}

/// Runs items, and compares each verdict with the documented one. The tables leave out values that
/// have no published figure and are inside.
fn as_documented(words: &[&str]) -> usize {
    let json = succeeds(&[&["reproduce", "--format", "json"][..], words].concat());
    let report: Reproduction = serde_json::from_str(&json).expect("JSON");
    let documented = documented();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (item, row) in report.items.iter().flat_map(|i| i.rows.iter().map(|row| (&i.id, row))) {
        let (what, ours, verdict) = (row.what.as_str(), row.ours, row.verdict().word());
        println!("{item}: {what}: {ours:?} {verdict}");
        let is_it = |cell: &str| {
            let rest = cell.strip_prefix(what);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ' ']))
        };
        let found = documented.get(item).and_then(|rows| rows.iter().find(|row| is_it(&row.0)));
        let expected = found.is_none_or(|row| row.1);
        compared += usize::from(found.is_some());
        if !verdict.is_empty() && expected != (verdict == "inside") {
            wrong.push(format!("{item}: {what}: {ours:?} is {verdict}"));
        }
    }
    assert!(wrong.is_empty(), "not as in docs/reproduction.md:\n{}", wrong.join("\n"));
    compared
}

#[test]
fn verdicts_are_as_documented() {
    assert_eq!(as_documented(&["stow:fig3"]), 5);
    let all = documented().values().map(Vec::len).sum::<usize>();
    assert!(all > 150, "{all} values are documented");
}

#[test]
#[ignore = "takes more than an hour on two cores: make reproduce-bands"]
fn all_verdicts_are_as_documented() {
    let traces = std::env::var_os("DESTAGE_TRACES")
        .map_or_else(|| top().join("../shared/traces"), std::path::PathBuf::from);
    if !traces.is_dir() {
        println!("SKIPPED items over real traces: {} is not there", traces.display());
    }
    let compared = as_documented(&["--all", "--traces", traces.to_str().expect("text")]);
    println!("{compared} values compared");
}

#[test]
fn what_is_done_is_kept_when_the_rest_is_interrupted() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().to_str().expect("text");
    // The second item takes minutes.
    let words = ["reproduce", "stow:fig3", "stow:fig8", "--quick", "--out", path];
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("destage runs");
    let page = folder.path().join("index.html");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while !page.exists() && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let running = child.try_wait().expect("asked").is_none();
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(running && page.exists(), "the first item is written while the second runs");
    let json = std::fs::read_to_string(folder.path().join("index.json")).expect("read");
    assert!(json.contains("stow:fig3") && !json.contains("stow:fig8\""), "{json}");
}
