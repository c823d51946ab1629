//! Scrub of a served array of files, as operators run it.

mod common;

use common::array::{Array, flip, status};
use common::{destage, fails};
use serde_json::Value;

/// A scrub to its end: its exit code and what it says.
fn scrub(array: &Array, more: &[&str]) -> (i32, Value) {
    let folder = array.path("");
    let words = ["scrub", "tank", "--rate", "2G", "--format", "json", "--config-dir", &folder];
    let output = destage(&[&words, more].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let told = serde_json::from_str(&text);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = told.unwrap_or_else(|_| panic!("{text}{error}"));
    (output.status.code().expect("an exit code"), told)
}

#[test]
fn flipped_bytes_of_members_are_found_repaired_and_gone() {
    for (level, disks, flips) in [
        ("5", 3, &[("d0", 40_000u64), ("d1", 9_000_000)][..]),
        ("6", 4, &[("d0", 40_000), ("d2", 9_000_000), ("d3", 20_000_123)]),
        ("10", 4, &[("d1", 40_000), ("d3", 9_000_000)]),
    ] {
        let mut array = Array::of_level(level, disks, &["nvs"]);
        array.serve(&[]);
        let (log, uri) = (array.path("acked"), array.uri());
        common::succeeds(&["bench", &uri, "--time", "700ms", "--depth", "8", "--log", &log]);
        array.asks(&["flush", "tank"]);
        let (code, clean) = scrub(&array, &[]);
        assert_eq!((code, &clean["rows_left"]), (0, &0.into()), "{level}: {clean}");
        assert_eq!(clean["rows_done"], clean["rows"]);
        array.stop();
        for (member, at) in flips {
            flip(array.path(member), (1 << 20) + at);
        }
        array.serve(&[]);
        let (code, found) = scrub(&array, &["--check"]);
        assert_eq!(code, 1);
        assert_eq!(found["inconsistent_rows"], flips.len(), "{level}: {found}");
        let row = (1u64 << 20) + 40_000 / 4096 * 4096;
        let first = found["ranges"].as_array().expect("ranges").iter();
        assert!(first.into_iter().any(|range| range["first_byte"] == row), "{found}");
        if level == "6" {
            assert!(found.to_string().contains("member 3 is wrong"), "{found}");
        }
        let (code, mended) = scrub(&array, &["--repair"]);
        assert_eq!((code, &mended["repaired_rows"]), (0, &flips.len().into()), "{mended}");
        let now = status(&array);
        assert_eq!((&now["scrub"]["state"], &now["state"]), (&"complete".into(), &"clean".into()));
        assert!(now["scrub"]["ended_unix_s"].as_u64() > Some(0), "{now}");
        // The repair is on the disks, and what level 6 told wrong is as it was.
        array.kill();
        array.serve(&[]);
        assert_eq!(scrub(&array, &[]).1["inconsistent_rows"], 0);
        if level != "5" {
            common::succeeds(&["bench", &uri, "--check", &log]);
        }
    }
}

#[test]
fn a_scrub_keeps_its_pace_is_shown_and_can_be_ended() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let begun = array.asks(&["scrub", "tank", "--rate", "8M", "--background"]);
    assert!(begun.contains("has begun"), "{begun}");
    assert!(array.refused(&["scrub", "tank"]).contains("a scrub is under way"));
    let uri = array.uri();
    common::succeeds(&["bench", &uri, "--time", "1s", "--depth", "8"]);
    let now = status(&array);
    let scrub = &now["scrub"];
    assert_eq!(scrub["state"], "running", "{now}");
    let (read, speed) = (scrub["bytes_read"].as_u64(), scrub["mib_per_s"].as_f64());
    assert!(read > Some(1 << 20) && speed < Some(9.5), "{scrub}");
    assert!(scrub["seconds_to_go"].as_f64() > Some(1.0), "{scrub}");
    let table = array.asks(&["status", "tank"]);
    assert!(table.contains("check, running"), "{table}");
    array.asks(&["scrub", "tank", "--stop"]);
    let ended = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        status(&array)["scrub"]["state"] == "ended early"
    });
    assert!(ended, "{}", status(&array));
    assert!(array.refused(&["scrub", "tank", "--stop"]).contains("no scrub is under way"));
    array.asks(&["scrub", "tank", "--rate", "2M", "--background"]);
    // It ends with the array.
    array.stop();
}

#[test]
fn arrays_that_cannot_be_checked_are_refused() {
    let mut array = Array::create(&["nvs"]);
    assert!(array.refused(&["scrub", "tank"]).contains("is not being served"));
    std::fs::rename(array.path("d1"), array.path("away")).expect("renamed");
    array.serve(&["--degraded"]);
    assert!(array.refused(&["scrub", "tank"]).contains("the array is degraded"));
    let mut stripes = Array::of_level("0", 2, &["nvs"]);
    stripes.serve(&[]);
    assert!(stripes.refused(&["scrub", "tank"]).contains("nothing to compare"));
    let folder = array.path("");
    let slow = ["scrub", "tank", "--rate", "10K", "--config-dir", &folder];
    assert!(fails(2, &slow).contains("at least 1M"));
    let both = destage(&["scrub", "tank", "--check", "--repair"]);
    assert_eq!(both.status.code(), Some(2));
}
