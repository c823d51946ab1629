//! A served array as operators run it: created, served, killed, recovered, refused.

mod common;

use common::array::{Array, flip, status};
use common::{destage, fails, succeeds};
use std::os::unix::net::UnixListener;

#[test]
fn an_array_lives_through_a_kill_and_keeps_what_it_acknowledged() {
    for nvs in [&["nvs"][..], &["nvs0", "nvs1"]] {
        let mut array = Array::create(nvs);
        array.serve(&[]);
        let log = array.loaded(&["--time", "700ms", "--depth", "8"]);
        array.kill();
        assert!(array.asks(&["recover", "tank", "--inspect"]).contains("dirty pages"));
        array.serve(&[]);
        array.keeps(&log);
        let said = array.asks(&["set", "tank", "--policy", "wow", "--rate", "linear:50/30"]);
        assert!(said.contains("policy wow, rate linear:50/30"), "{said}");
        array.asks(&["flush", "tank"]);
        let now = status(&array);
        assert_eq!((&now["dirty_pages"], &now["state"]), (&0.into(), &"clean".into()));
        assert!(now["destaged_pages"].as_u64() > Some(0), "{now}");
        array.asks(&["stop", "tank"]);
        array.server.take().expect("served").wait().expect("ended");
        let inspected = array.asks(&["recover", "tank", "--inspect", "--format", "json"]);
        assert!(inspected.contains("\"none\""), "{inspected}");
        array.serve(&[]);
        array.keeps(&log);
    }
}

#[test]
fn a_recovery_without_serving_destages_everything() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let log = array.loaded(&["--time", "700ms", "--depth", "8"]);
    assert!(status(&array)["dirty_pages"].as_u64() > Some(0));
    array.stop();
    // A stop leaves no destage to be redone: what the recovery waits for it must begin itself.
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["recover", "tank", "--config-dir", &array.path("")])
        .spawn()
        .expect("destage runs");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let code = loop {
        if let Some(code) = child.try_wait().expect("a child") {
            break code;
        }
        if std::time::Instant::now() > end {
            child.kill().expect("killed");
            panic!("the recovery does not end");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(code.success(), "{code}");
    let inspected = array.asks(&["recover", "tank", "--inspect", "--format", "csv"]);
    assert!(inspected.contains("dirty pages,0"), "{inspected}");
    array.serve(&[]);
    array.keeps(&log);
}

#[test]
fn a_member_or_a_mirror_that_is_missing_is_tolerated_when_asked() {
    let mut array = Array::create(&["nvs0", "nvs1"]);
    array.serve(&[]);
    let log = array.loaded(&["--time", "500ms", "--depth", "8"]);
    array.kill();
    for lost in ["d1", "nvs0"] {
        std::fs::rename(array.path(lost), array.path("away")).expect("renamed");
        let error = array.refuses_to_serve();
        assert!(error.contains("--degraded") && error.contains(lost), "{error}");
        array.serve(&["--degraded"]);
        array.keeps(&log);
        array.asks(&["stop", "tank"]);
        array.server.take().expect("served").wait().expect("ended");
        std::fs::rename(array.path("away"), array.path(lost)).expect("renamed");
    }
    // They are back, but out of date: nobody may take them for good.
    array.serve(&[]);
    let now = status(&array);
    assert_eq!(now["state"], "degraded", "{now}");
    array.keeps(&log);
}

#[test]
fn wrong_devices_are_refused_with_what_to_do() {
    let mut array = Array::create(&["nvs"]);
    array.create_as("other", "o", &["nvs-other"]);
    let error = array.refused(&["status", "tank"]);
    assert!(error.contains("is not being served"), "{error}");
    array.edit("/d0\"", "/swap\"");
    array.edit("/d1\"", "/d0\"");
    array.edit("/swap\"", "/d1\"");
    let error = array.refuses_to_serve();
    assert!(error.contains("is member 1 of this array"), "{error}");
    array.edit("/d1\"", "/swap\"");
    array.edit("/d0\"", "/d1\"");
    array.edit("/swap\"", "/d0\"");
    array.edit("/d2\"", "/o2\"");
    assert!(array.refuses_to_serve().contains("another array"));
    array.edit("/o2\"", "/d2\"");
    array.edit("/nvs\"", "/nvs-other\"");
    assert!(array.refuses_to_serve().contains("another array"));
    array.edit("/nvs-other\"", "/gone\"");
    assert!(array.refuses_to_serve().contains("may hold writes that the disks do not have"));
    array.edit("/gone\"", "/nvs\"");
    array.serve(&[]);
    assert!(array.refuses_to_serve().contains("in use by another destage"));
    let folder = array.path("");
    let disks: Vec<String> = (0..3).map(|disk| array.path(&format!("o{disk}"))).collect();
    let mut words = vec!["create", "third", "--config-dir", &folder];
    disks.iter().for_each(|disk| words.extend(["--disk", disk]));
    assert!(fails(1, &words).contains("a member, NVS or spare of the array"));
    assert!(
        fails(2, &["create", "a/b", "--disk", "x"])
            .contains("array names may contain only letters")
    );
}

/// Devices over NBD are locked by nobody.
#[test]
fn where_a_server_of_the_array_answers_nothing_is_written() {
    let array = Array::create(&["nvs"]);
    let names = ["d0", "d1", "d2", "nvs"];
    let devices = || names.map(|name| std::fs::read(array.path(name)).expect("read"));
    let before = devices();
    let listener = UnixListener::bind(array.path("tank.control")).expect("a server's socket");
    assert!(array.refuses_to_serve().contains("another server of this array answers there"));
    assert!(array.refused(&["recover", "tank"]).contains("another server of this array"));
    assert!(devices() == before);
    drop(listener);
}

#[test]
fn a_damaged_log_stops_the_start_and_is_reported() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let uri = array.uri();
    // Few enough that the log does not come round: what its first blocks hold counts.
    succeeds(&["bench", &uri, "--time", "300ms", "--depth", "4", "--iops", "2000"]);
    array.asks(&["stop", "tank"]);
    array.server.take().expect("served").wait().expect("ended");
    flip(array.path("nvs"), (1 << 20) + 5000);
    let error = array.refuses_to_serve();
    assert!(error.contains("the NVS log is damaged") && error.contains("--inspect"), "{error}");
    let folder = array.path("");
    let output = destage(&["recover", "tank", "--inspect", "--config-dir", &folder]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("damage") && text.contains("commit"), "{text}");
}
