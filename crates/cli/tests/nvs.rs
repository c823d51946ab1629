//! NVS devices that become larger or smaller, and the way back after the last one is lost, while a
//! host writes; as operators do it.

mod common;

use common::array::{Array, alarm, becomes_clean, status, until};
use destage_nvslog::superblock::Superblock;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Room for dirty pages.
fn room(array: &Array) -> u64 {
    status(array)["nvs_device_pages"].as_u64().expect("a number")
}

/// A load in the background that logs what was acknowledged.
fn load(array: &Array, time: &str, log: &str) -> Child {
    array.load(&["--time", time, "--depth", "8", "--log", log])
}

fn length(path: &str) -> u64 {
    std::fs::metadata(path).expect("a file").len()
}

#[test]
fn an_nvs_grows_and_shrinks_while_a_host_writes() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&["--read-cache", "lru"]);
    let (nvs, before) = (array.path("nvs"), room(&array));
    let log = array.path("acked");
    let mut bench = load(&array, "6s", &log);
    std::thread::sleep(Duration::from_millis(300));
    let written = |now: &serde_json::Value| now["pages_written"].as_u64().expect("a number");
    let early = status(&array);
    let said = array.asks(&["nvs", "resize", "tank", "--size", "24M"]);
    let larger = room(&array);
    assert!(larger > before && said.contains(&format!("room for {larger} dirty")), "{said}");
    assert!(said.contains(&format!("(before: {before})")), "{said}");
    assert_eq!(length(&nvs), 24 << 20);
    let json = array.asks(&["nvs", "resize", "tank", "--size", "6M", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["pages_before"], larger);
    assert!(json["pages"].as_u64().is_some_and(|pages| pages < before), "{json}");
    assert_eq!(length(&nvs), 6 << 20);
    assert_eq!(
        array.asks(&["nvs", "resize", "tank"]).matches(&json["pages"].to_string()).count(),
        2
    );
    let now = status(&array);
    assert!(now["alarms"] == serde_json::json!([]) && now["state"] == "clean", "{now}");
    assert!(now["log_change"].is_null(), "{now}");
    assert!(written(&now) >= written(&early), "it continues to count: {now}");
    assert!(bench.wait().expect("ended").success(), "a request failed");
    let log_of_server = std::fs::read_to_string(array.path("stderr")).expect("read");
    assert!(!log_of_server.contains("panicked"), "{log_of_server}");
    array.kill();
    array.serve(&[]);
    assert_eq!(json["pages"], room(&array));
    array.keeps(&log);
    array.stop();
}

/// Byte-addressable, where there is a tmpfs.
#[test]
fn a_mapped_nvs_grows_and_shrinks_while_a_host_writes() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return println!("SKIPPED: no /dev/shm");
    };
    let nvs = memory.path().join("nvs").to_str().expect("text").to_string();
    let mut array = Array::create(&[&nvs]);
    array.serve(&[]);
    let log = array.path("acked");
    let mut bench = load(&array, "3s", &log);
    for size in ["24M", "6M", "10M"] {
        array.asks(&["nvs", "resize", "tank", "--size", size]);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(length(&nvs), 10 << 20);
    assert!(bench.wait().expect("ended").success(), "a request failed");
    array.kill();
    array.serve(&[]);
    array.keeps(&log);
    becomes_clean(&array);
    array.stop();
}

#[test]
fn larger_devices_take_the_place_of_both_mirrors_and_the_smaller_one_counts() {
    let mut array = Array::create(&["nvs0", "nvs1"]);
    array.serve(&[]);
    let before = room(&array);
    let log = array.path("acked");
    let mut bench = load(&array, "5s", &log);
    for (old, new) in [("nvs0", "a,size=32M"), ("nvs1", "b,size=24M")] {
        array.asks(&["nvs", "replace", "tank", "--old", &array.path(old), &array.path(new)]);
    }
    assert_eq!(room(&array), before, "the log is as it was");
    array.asks(&["nvs", "resize", "tank"]);
    let both = room(&array);
    let share = |mib: u64| both as f64 / (mib * 256) as f64;
    assert!((0.7..1.0).contains(&share(24)), "{both}");
    assert!(bench.wait().expect("ended").success(), "a request failed");
    array.kill();
    // Each of them alone has everything.
    std::fs::rename(array.path("b"), array.path("away")).expect("renamed");
    array.serve(&["--degraded"]);
    array.keeps(&log);
    // A log that is replaced in the meantime does not come back.
    array.asks(&["nvs", "resize", "tank", "--size", "8M"]);
    array.stop();
    std::fs::rename(array.path("away"), array.path("b")).expect("renamed");
    array.serve(&[]);
    assert!(alarm(&array, "nvs-mirror-lost").is_some_and(|text| text.contains("/b")));
    array.keeps(&log);
    array.stop();
}

#[test]
fn an_array_that_lost_its_last_nvs_gets_another_one() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let log = array.path("acked");
    let mut bench = load(&array, "5s", &log);
    std::thread::sleep(Duration::from_millis(500));
    // It is given up: it is shorter than the log. A write may make it longer before that is seen.
    let file = std::fs::OpenOptions::new().write(true).open(array.path("nvs")).expect("opened");
    let now = until(&array, "nvs-lost", |now| {
        file.set_len(2 << 20).expect("cut");
        now["alarms"].to_string().contains("nvs-lost: ")
    });
    assert!(now["alarms"].to_string().contains("destage nvs replace tank"), "{now}");
    let none = array.refused(&["nvs", "resize", "tank"]);
    assert!(none.contains("no NVS device is in use") && none.contains("nvs replace"), "{none}");
    let said = array.asks(&["nvs", "replace", "tank", &array.path("new,size=12M")]);
    assert!(said.contains("is in use: room for"), "{said}");
    let now = status(&array);
    assert!(now["alarms"] == serde_json::json!([]) && now["state"] == "clean", "{now}");
    assert!(bench.wait().expect("ended").success(), "a request failed");
    let again = array.loaded(&["--time", "500ms", "--depth", "8"]);
    array.kill();
    array.serve(&[]);
    becomes_clean(&array);
    array.keeps(&again);
    array.stop();
}

#[test]
fn an_nvs_that_is_lost_for_good_is_given_up_only_if_that_is_accepted() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    array.loaded(&["--time", "500ms", "--depth", "8"]);
    array.kill();
    let early = array.refused(&["recover", "tank", "--without-nvs", "--accept-loss"]);
    assert!(early.contains("it can be used: start without --without-nvs"), "{early}");
    std::fs::remove_file(array.path("nvs")).expect("removed");
    let missing = array.refuses_to_serve();
    assert!(missing.contains("may hold writes") && missing.contains("--without-nvs"), "{missing}");
    let said = array.refused(&["recover", "tank", "--without-nvs"]);
    for part in ["at most", "anywhere in", "scrub --repair", "add --accept-loss"] {
        assert!(said.contains(part), "{said}");
    }
    array.serve(&["--without-nvs", "--accept-loss"]);
    assert!(array.said.contains("Lost: every acknowledged write that was not on the disks yet"));
    assert_eq!(status(&array)["state"], "no-nvs");
    array.asks(&["scrub", "tank", "--repair"]);
    array.asks(&["nvs", "replace", "tank", &array.path("new,size=16M")]);
    assert_eq!(status(&array)["state"], "clean");
    let log = array.loaded(&["--time", "500ms", "--depth", "8"]);
    array.kill();
    array.serve(&[]);
    array.keeps(&log);
    array.stop();
}

#[test]
fn an_array_that_was_made_without_nvs_gets_one() {
    let mut array = Array::create(&[]);
    array.serve(&[]);
    array.asks(&["nvs", "replace", "tank", &array.path("nvs,size=8M")]);
    array.asks(&["nvs", "replace", "tank", &array.path("second,size=8M")]);
    let log = array.loaded(&["--time", "500ms", "--depth", "8"]);
    array.kill();
    std::fs::remove_file(array.path("nvs")).expect("removed");
    array.serve(&["--degraded"]);
    array.keeps(&log);
    array.stop();
}

#[test]
fn killed_in_the_middle_it_starts_again_with_everything() {
    let mut array = Array::create(&["nvs"]);
    let nvs = array.path("nvs");
    let mut without = 0;
    for round in 0..12 {
        array.serve(&[]);
        if status(&array)["state"] == "no-nvs" {
            // It was killed between the old log and the new one: the same device, as it is.
            without += 1;
            assert!(alarm(&array, "nvs-lost").is_some());
            array.asks(&["nvs", "replace", "tank", "--old", &nvs, &nvs]);
            assert_eq!(status(&array)["state"], "clean");
        }
        let log = array.path("acked");
        let mut bench = load(&array, "30s", &log);
        std::thread::sleep(Duration::from_millis(150));
        let size = ["24M", "8M", "16M"][round % 3];
        let folder = array.path("");
        let mut resize = Command::new(env!("CARGO_BIN_EXE_destage"))
            .args(["nvs", "resize", "tank", "--size", size, "--config-dir", &folder])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("destage runs");
        std::thread::sleep(Duration::from_millis(10 + 23 * round as u64));
        array.kill();
        bench.wait().expect("ended");
        resize.wait().expect("ended");
        array.serve(&[]);
        array.keeps(&log);
        array.stop();
    }
    println!("{without} starts without an NVS");
}

/// What a crash between the old log and the new one leaves: the members name no NVS device.
fn name_no_nvs(array: &Array) {
    for member in ["d0", "d1", "d2"] {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(array.path(member));
        let file = file.expect("opened");
        for at in [0, 12_288] {
            let mut bytes = [0; 512];
            file.read_exact_at(&mut bytes, at).expect("read");
            let now = Superblock::decode(&bytes).expect("a superblock");
            let (generation, base) = (now.generation + 1, now.generation);
            let next = Superblock { generation, base, nvs: [None; 2], ..now };
            file.write_all_at(&next.encode(), at).expect("written");
        }
    }
}

#[test]
fn the_device_of_an_interrupted_change_is_given_again_as_it_is() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let log = array.loaded(&["--time", "500ms", "--depth", "8"]);
    // Its log holds pages: what it has is not given up without a word.
    array.stop();
    std::fs::copy(array.path("nvs"), array.path("full")).expect("copied");
    array.serve(&[]);
    array.asks(&["stop", "tank", "--drain"]);
    array.server.take().expect("served").wait().expect("ended");
    name_no_nvs(&array);
    array.serve(&[]);
    assert_eq!(status(&array)["state"], "no-nvs");
    assert!(alarm(&array, "nvs-lost").is_some());
    let full = array.refused(&["nvs", "replace", "tank", &array.path("full")]);
    assert!(full.contains("holds a member, NVS or spare of the array"), "{full}");
    array.asks(&["nvs", "replace", "tank", &array.path("nvs")]);
    let now = status(&array);
    assert!(now["alarms"] == serde_json::json!([]) && now["state"] == "clean", "{now}");
    array.kill();
    array.serve(&[]);
    array.keeps(&log);
    array.stop();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let before = room(&array);
    let small = array.refused(&["nvs", "resize", "tank", "--size", "1M"]);
    assert!(small.contains("too few") && small.contains("4 MiB"), "{small}");
    let large = array.refused(&["nvs", "resize", "tank", "--size", "18000000000000000000"]);
    assert!(large.contains(&array.path("nvs")), "{large}");
    array.asks(&["scrub", "tank", "--background", "--limit", "1M"]);
    let scrub = array.refused(&["nvs", "resize", "tank", "--size", "8M"]);
    assert!(scrub.contains("a scrub is running"), "{scrub}");
    array.asks(&["scrub", "tank", "--stop"]);
    until(&array, "ended", |now| now["scrub"]["state"] != "running");
    assert_eq!((room(&array), length(&array.path("nvs"))), (before, 16 << 20));
    array.stop();
}

/// Members that are slow enough to see the array drain.
#[test]
fn a_drain_is_seen_and_continues_without_the_command_that_asked_for_it() {
    let mut array = Array::empty();
    let mut members = Vec::new();
    let mut disks = Vec::new();
    for disk in ["x", "y", "z"] {
        let socket = array.path(&format!("{disk}.sock"));
        let words = ["emulate", "stow-ref", "--size", "64M", "--nbd"];
        let mut emulated = Command::new(env!("CARGO_BIN_EXE_destage"));
        emulated.args(words).arg(format!("unix:{socket}")).stderr(Stdio::null());
        members.push(emulated.spawn().expect("destage runs"));
        while !std::fs::exists(&socket).expect("looked") {
            std::thread::sleep(Duration::from_millis(20));
        }
        disks.push(format!("nbd+unix:///?socket={socket}"));
    }
    let nvs = format!("{},size=16M", array.path("nvs"));
    array.create_over("tank", &disks, &["--nvs", &nvs, "--assume-clean"]);
    array.serve(&[]);
    let mut log = String::new();
    until(&array, "full enough", |now| {
        let enough = now["dirty_pages"].as_u64() > Some(600);
        if !enough {
            log = array.loaded(&["--time", "2s", "--depth", "32"]);
        }
        enough
    });
    let folder = array.path("");
    let words = ["nvs", "resize", "tank", "--size", "8M", "--config-dir", &folder];
    let mut waits = Command::new(env!("CARGO_BIN_EXE_destage"));
    let mut waits = waits.args(words).stderr(Stdio::null()).spawn().expect("destage runs");
    let now = until(&array, "draining", |now| !now["log_change"].is_null());
    assert!(now["log_change"]["pages_left"].as_u64() <= now["log_change"]["pages"].as_u64());
    let second = array.refused(&["nvs", "resize", "tank", "--size", "12M"]);
    assert!(second.contains("another command is changing the NVS"), "{second}");
    let replace = array.refused(&["nvs", "replace", "tank", &array.path("new,size=16M")]);
    assert!(replace.contains("another command is changing the NVS"), "{replace}");
    waits.kill().expect("killed");
    waits.wait().expect("ended");
    let table = array.asks(&["status", "tank"]);
    assert!(table.contains("changing the NVS") && table.contains("pages left"), "{table}");
    // The file is cut when the new log is in use.
    until(&array, "resized", |_| length(&array.path("nvs")) == 8 << 20);
    assert!(status(&array)["log_change"].is_null());
    array.keeps(&log);
    array.stop();
    for mut member in members {
        member.kill().expect("killed");
        member.wait().expect("ended");
    }
}
