//! Alarms of a served array: what a start finds missing, and the words of all of them.

mod common;

use common::array::{Array, status};
use common::http::{address, get, metric, until};
use destage_nvslog::superblock::Superblock;
use std::os::unix::fs::FileExt;

/// The text of the alarm with this name; empty if it is not active.
fn alarm(array: &Array, name: &str) -> String {
    common::array::alarm(array, name).unwrap_or_default()
}

fn hide(array: &Array, name: &str) {
    std::fs::rename(array.path(name), array.path(&format!("hidden-{name}"))).expect("renamed");
}

#[test]
fn a_degraded_start_raises_alarms_every_time() {
    let mut array = Array::of_level("6", 4, &["nvs0", "nvs1"]);
    array.serve(&[]);
    array.asks(&["spare", "tank", "add", &format!("{},size=32M", array.path("spare"))]);
    array.stop();
    ["d1", "nvs1", "spare"].iter().for_each(|name| hide(&array, name));
    let names = ["member-missing", "nvs-mirror-lost", "spare-missing"];
    for start in ["--degraded", "--what-if"] {
        let out = array.path(start);
        let command = format!("echo \"$DESTAGE_ALARM $DESTAGE_TEXT\" >> {out}");
        array.serve(&[start, "--http", "127.0.0.1:0", "--alarm-command", &command]);
        let address = address(&array);
        for (name, device) in names.into_iter().zip(["d1", "nvs1", "spare"]) {
            let text = alarm(&array, name);
            let path = array.path(device);
            assert!(text.contains(&path), "{start}: {name}: {text}");
            assert!(text.contains("No such file or directory"), "{start}: {text}");
            // Whoever looks at the server's words sees it too, and not only the first time.
            assert!(array.said.contains(&text), "{start}: {text:?} not in {}", array.said);
        }
        let member = alarm(&array, "member-missing");
        assert!(member.contains("Member 1 ("), "{member}");
        assert!(member.contains("tolerates one more failure"), "{member}");
        assert!(member.contains("destage replace tank 1 "), "{member}");
        let now = status(&array);
        assert_eq!(now["state"], "degraded", "{now}");
        assert!(now["devices"].to_string().contains("\"missing\""), "{now}");
        until(10, "the metrics", || (metric(&address, "alarms_total")? == 3.0).then_some(()));
        assert_eq!(metric(&address, "alarms_active"), Some(3.0));
        let lines = until(20, "the alarm command", || {
            let lines = std::fs::read_to_string(&out).ok()?;
            (lines.lines().count() == 3).then_some(lines)
        });
        assert!(names.iter().all(|name| lines.contains(name)), "{lines}");
        array.stop();
    }
}

#[test]
fn what_a_start_found_missing_ends_as_at_run_time() {
    let mut array = Array::create(&["nvs0", "nvs1"]);
    array.serve(&[]);
    array.asks(&["spare", "tank", "add", &format!("{},size=32M", array.path("spare"))]);
    array.stop();
    ["d1", "nvs1", "spare"].iter().for_each(|name| hide(&array, name));
    array.serve(&["--degraded"]);
    let member = alarm(&array, "member-missing");
    assert!(member.contains("one more failure loses data"), "{member}");
    array.asks(&["replace", "tank", "1", &format!("{},size=32M", array.path("new"))]);
    assert_eq!(alarm(&array, "member-missing"), "");
    // Its members are in sync, its NVS is not mirrored.
    assert_eq!(status(&array)["state"], "degraded");
    array.asks(&["nvs", "replace", "tank", &format!("{},size=16M", array.path("nvs2"))]);
    assert_eq!(alarm(&array, "nvs-mirror-lost"), "");
    array.asks(&["spare", "tank", "remove", &array.path("spare")]);
    let now = status(&array);
    assert_eq!((&now["state"], &now["alarms"]), (&"clean".into(), &serde_json::json!([])));
}

#[test]
fn a_member_that_failed_before_the_start_is_an_alarm() {
    let mut array = Array::of_level("10", 4, &["nvs"]);
    array.serve(&[]);
    array.asks(&["fail", "tank", "2"]);
    let text = alarm(&array, "member-failed");
    let partner = format!("if member 3 ({}) fails too", array.path("d3"));
    assert!(text.contains(&array.path("d2")) && text.contains(&partner), "{text}");
    assert!(text.contains("destage replace tank 2 "), "{text}");
    array.stop();
    array.serve(&[]);
    let text = alarm(&array, "member-failed");
    assert!(text.contains("before this start") && text.contains(&partner), "{text}");
    assert!(text.contains("out of date") && array.said.contains(&text), "{text}");
}

/// Makes the members say that the last NVS device was given up, as a run that lost it leaves them.
fn lose_the_nvs(array: &Array) {
    for member in 0..3 {
        let path = array.path(&format!("d{member}"));
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("opened");
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, 0).expect("read");
        let mut superblock = Superblock::decode(&bytes).expect("a superblock");
        (superblock.generation, superblock.nvs) = (superblock.generation + 2, [None; 2]);
        for at in [0, 12_288] {
            file.write_all_at(&superblock.encode(), at).expect("written");
        }
    }
}

#[test]
fn an_array_that_lost_its_nvs_is_not_clean_at_the_next_start() {
    let mut array = Array::create(&["nvs"]);
    lose_the_nvs(&array);
    for gone in [false, true] {
        if gone {
            hide(&array, "nvs");
        }
        array.serve(&["--http", "127.0.0.1:0"]);
        let now = status(&array);
        assert_eq!(now["state"], "no-nvs", "{now}");
        let text = alarm(&array, "nvs-lost");
        assert!(text.contains(&array.path("nvs")), "{text}");
        assert!(text.contains("Every write goes to the disks"), "{text}");
        assert!(!gone || text.contains("No such file"), "{text}");
        let address = address(&array);
        until(10, "the state", || {
            (get(&address, "/readyz") == (200, "no-nvs\n".to_string())).then_some(())
        });
        array.stop();
    }
    // One that was created without any is as it should be.
    let mut without = Array::create(&[]);
    without.serve(&[]);
    assert_eq!(status(&without)["state"], "clean");
}
