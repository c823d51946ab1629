//! docs/operations.md: its drills run as they stand, and it says what to do about every alarm.

mod common;

use common::top;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn page() -> String {
    std::fs::read_to_string(top().join("docs/operations.md")).expect("docs/operations.md")
}

/// A name as alarms have them: words of small letters with a hyphen between them.
fn is_name(word: &str) -> bool {
    word.contains('-')
        && word.split('-').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase()))
}

/// The names of alarms in the sources: those of `Alarm::name`, and those in the words
/// of the server's alarms.
fn alarms() -> BTreeSet<String> {
    let request = top().join("crates/served/src/request.rs");
    let request = std::fs::read_to_string(request).expect("read");
    let (_, names) = request.split_once("pub const fn name(&self)").expect("Alarm::name");
    let (names, _) = names.split_once("impl").expect("what follows");
    let arms = names.lines().filter(|line| line.contains("=> \""));
    let mut found: BTreeSet<String> =
        arms.filter_map(|line| line.split('"').nth(1)).map(str::to_string).collect();
    assert!(found.len() >= 11, "{found:?}");
    for file in ["alarm_words.rs", "mismatch.rs"] {
        let path = top().join("crates/server/src/array").join(file);
        let source = std::fs::read_to_string(path).expect("read");
        // Its tests come last.
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        found.extend(source.split('"').filter(|literal| is_name(literal)).map(str::to_string));
    }
    found
}

#[test]
fn every_alarm_has_its_entry() {
    let alarms = alarms();
    for known in ["file-deleted", "spare-not-taken", "nvs-lost"] {
        assert!(alarms.contains(known), "{known} is not found in the sources: {alarms:?}");
    }
    let page = page();
    let (_, section) = page.split_once("\n## Alarms\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the next");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> =
        rows.filter_map(|row| row.split_once('`')).map(|(name, _)| name.to_string()).collect();
    assert_eq!(documented, alarms, "docs/operations.md against the sources");
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        assert!(cells.len() == 3 && cells[2].len() > 8, "nothing to do is said: {row}");
    }
}

#[test]
fn the_drills_run_as_they_stand() {
    let page = page();
    let blocks = page.split("```sh drill\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|block| block.split("```").next()).collect();
    assert!(blocks.len() >= 8, "{} drills", blocks.len());
    let folder = tempfile::tempdir().expect("a folder");
    let program = Path::new(env!("CARGO_BIN_EXE_destage"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("a folder").display());
    // Whatever is left running when a drill fails ends with the script. If nothing is left, the
    // trap still succeeds.
    let trap = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT";
    let script = format!("set -e\n{trap}\n{}", blocks.concat());
    let output = Command::new("timeout")
        .args(["100", "bash", "-x", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .output()
        .expect("bash runs");
    let (said, steps) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    assert!(output.status.success(), "{}\n{said}\n{steps}\n{log}", output.status);
}
