//! Scrub of a served array of files, as operators run it.

mod common;

use common::array::{Array, flip, status};
use common::http::metric;
use common::{destage, fails};
use serde_json::Value;

/// A scrub to its end: its exit code and what it says.
fn scrub(array: &Array, more: &[&str]) -> (i32, Value) {
    let folder = array.path("");
    let words = ["scrub", "tank", "--limit", "2G", "--format", "json", "--config-dir", &folder];
    let output = destage(&[&words, more].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let report = serde_json::from_str(&text);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = report.unwrap_or_else(|_| panic!("{text}{error}"));
    (output.status.code().expect("an exit code"), report)
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
        // The repair is on the disks, and what level 6 found wrong is as it was.
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
    let begun = array.asks(&["scrub", "tank", "--limit", "8M", "--background"]);
    assert!(begun.contains("the scrub is running"), "{begun}");
    assert!(array.refused(&["scrub", "tank"]).contains("a scrub is running"));
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
    assert!(array.refused(&["scrub", "tank", "--stop"]).contains("no scrub is running"));
    array.asks(&["scrub", "tank", "--limit", "2M", "--background"]);
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
    let slow = ["scrub", "tank", "--limit", "10K", "--config-dir", &folder];
    assert!(fails(2, &slow).contains("at least 1048576 bytes per second"));
    let both = destage(&["scrub", "tank", "--check", "--repair"]);
    assert_eq!(both.status.code(), Some(2));
}

fn mismatch(array: &Array) -> Option<String> {
    common::array::alarm(array, "scrub-mismatch")
}

#[test]
fn mismatches_raise_an_alarm_that_names_bytes_of_the_volume() {
    // Row 9 is in the first strips; row 2,197 is row 5 of strip 137 of the second pair.
    for (level, disks, flips, ranges) in [
        ("5", 3, &[("d0", 40_000u64)][..], &[(36_864u64, 4096u64), (102_400, 4096)][..]),
        ("10", 4, &[("d1", 40_000), ("d3", 9_000_000)], &[(36_864, 4096), (4405 * 4096, 4096)]),
    ] {
        let mut array = Array::of_level(level, disks, &["nvs"]);
        for (member, at) in flips {
            flip(array.path(member), (1 << 20) + at);
        }
        let out = array.path("alarms");
        let command = format!("echo \"$DESTAGE_ALARM\" >> {out}");
        array.serve(&["--http", "127.0.0.1:0", "--alarm-command", &command]);
        let address = common::http::address(&array);
        let (_, found) = scrub(&array, &["--check"]);
        let listed = found["ranges"].as_array().expect("ranges").iter();
        let mut listed: Vec<Value> = listed
            .flat_map(|range| range["volume"].as_array().expect("volume ranges").clone())
            .collect();
        listed.sort_by_key(|range| range[0].as_u64());
        let expected: Vec<Value> = ranges.iter().map(|r| serde_json::json!([r.0, r.1])).collect();
        assert_eq!(listed, expected, "{level}: {found}");
        let text = mismatch(&array).expect("an alarm");
        for (offset, length) in ranges {
            let range = format!("{offset} to {}", offset + length - 1);
            assert!(text.contains(&range), "{level}: {range} in {text}");
        }
        assert!(text.contains("not repaired") && text.contains("unknown"), "{level}: {text}");
        assert!(text.contains("destage scrub tank --repair"), "{text}");
        assert_eq!(status(&array)["state"], "inconsistent");
        let rows = flips.len() as f64;
        common::http::until(10, "the metrics", || {
            let left = metric(&address, "scrub_rows_inconsistent")?;
            (left == rows && metric(&address, "alarms_total")? >= 1.0).then_some(())
        });
        assert_eq!(metric(&address, "scrub_mismatched_rows_total"), Some(rows));
        assert_eq!(metric(&address, "scrub_rows_lost"), Some(0.0));
        assert!(metric(&address, "scrub_last_complete_timestamp_seconds") > Some(1e9));
        let alarms = common::http::until(20, "the command", || std::fs::read_to_string(&out).ok());
        assert_eq!(alarms, "scrub-mismatch\n");
        // One that is ended early says nothing of the rest.
        array.asks(&["scrub", "tank", "--limit", "1M", "--background"]);
        array.asks(&["scrub", "tank", "--stop"]);
        common::http::until(10, "its end", || {
            (status(&array)["scrub"]["state"] != "running").then_some(())
        });
        assert!(mismatch(&array).is_some());
        assert_eq!(status(&array)["state"], "inconsistent");
        let (code, _) = scrub(&array, &["--repair"]);
        assert_eq!((code, mismatch(&array)), (0, None), "{level}");
        assert_eq!(status(&array)["state"], "clean");
        common::http::until(10, "the counter", || {
            // The one that was ended early may have come to some, too.
            (metric(&address, "scrub_mismatched_rows_total")? >= 2.0 * rows).then_some(())
        });
    }
}

#[test]
fn what_a_repair_found_first_is_an_alarm_until_a_scrub_finds_nothing() {
    let mut array = Array::of_level("5", 3, &["nvs"]);
    flip(array.path("d0"), (1 << 20) + 40_000);
    array.serve(&[]);
    assert_eq!(scrub(&array, &["--repair"]).0, 0);
    let text = mismatch(&array).expect("an alarm");
    assert!(text.contains("repaired: parity was computed from the data"), "{text}");
    assert!(text.contains("36864 to 40959"), "{text}");
    assert_eq!(status(&array)["state"], "clean");
    assert_eq!(scrub(&array, &[]).0, 0);
    assert_eq!(mismatch(&array), None);
}

#[test]
fn a_repair_of_other_rows_than_those_named_is_an_alarm() {
    let mut array = Array::of_level("5", 3, &["nvs"]);
    flip(array.path("d0"), (1 << 20) + 40_000);
    array.serve(&[]);
    assert_eq!(scrub(&array, &["--check"]).0, 1);
    assert!(mismatch(&array).expect("an alarm").contains("36864 to 40959"));
    // Another row goes wrong after that: nothing has named it yet.
    flip(array.path("d0"), (1 << 20) + 400_000);
    let (code, mended) = scrub(&array, &["--repair"]);
    assert_eq!((code, &mended["repaired_rows"]), (0, &2.into()), "{mended}");
    let text = mismatch(&array).expect("an alarm of what was repaired elsewhere");
    assert!(text.contains("repaired: parity was computed from the data"), "{text}");
    assert!(text.contains("1 inconsistent row "), "{text}");
    assert!(!text.contains("36864 to 40959"), "{text}");
    assert_eq!(status(&array)["state"], "clean");
    assert_eq!(scrub(&array, &[]).0, 0);
    assert_eq!(mismatch(&array), None);
}
