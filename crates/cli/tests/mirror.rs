//! An NVS mirror that is lost and replaced while the array serves, as operators do it.

mod common;

use common::array::{Array, status};

/// A load in the background; what was acknowledged is in the log.
const LOAD: [&str; 4] = ["--time", "3s", "--depth", "8"];

#[test]
fn a_lost_mirror_is_replaced_under_load_and_then_alone_has_everything() {
    let mut array = Array::create(&["nvs0", "nvs1"]);
    // The first is missing: the other alone is served, and the alarm of old is not seen.
    std::fs::rename(array.path("nvs0"), array.path("away")).expect("renamed");
    array.serve(&["--degraded"]);
    let log = array.path("acked");
    let mut bench = array.load(&[&LOAD[..], &["--log", &log]].concat());
    std::thread::sleep(std::time::Duration::from_millis(500));
    let full = array.refused(&["nvs", "replace", "tank", &array.path("d0")]);
    assert!(full.contains("in use") || full.contains("a member"), "{full}");
    let small = format!("{},size=4M", array.path("small"));
    let small = array.refused(&["nvs", "replace", "tank", &small]);
    assert!(small.contains("too small"), "{small}");
    let unknown = array.refused(&["nvs", "replace", "tank", &array.path("x"), "--old", "/none"]);
    assert!(unknown.contains("not an NVS device"), "{unknown}");
    let new = format!("{},size=16M", array.path("new"));
    let said = array.asks(&["nvs", "replace", "tank", &new]);
    assert!(said.contains("the NVS is mirrored"), "{said}");
    let now = status(&array);
    let devices = now["devices"].to_string();
    assert!(devices.contains("/new\"") && !devices.contains("failed"), "{devices}");
    std::thread::sleep(std::time::Duration::from_millis(500));
    // Killed under load; the old one is gone for good.
    array.kill();
    bench.wait().expect("ended");
    std::fs::remove_file(array.path("nvs1")).expect("removed");
    let error = array.refuses_to_serve();
    assert!(error.contains("--degraded"), "{error}");
    array.serve(&["--degraded"]);
    array.keeps(&log);
    // The one that was away at first is out of date for good.
    array.stop();
    std::fs::rename(array.path("away"), array.path("nvs1")).expect("renamed");
    let error = array.refuses_to_serve();
    assert!(error.contains("is NVS device 0 of this array"), "{error}");
}

#[test]
fn one_that_is_in_use_is_replaced_and_a_first_mirror_is_added() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let log = array.path("acked");
    let mut bench = array.load(&[&LOAD[..], &["--log", &log]].concat());
    let refused = array.refused(&["nvs", "replace", "tank", "--old", &array.path("nvs"), "x"]);
    assert!(refused.contains("the only NVS device"), "{refused}");
    // Mapped, where there is a tmpfs.
    let shm = tempfile::tempdir_in("/dev/shm").ok();
    let second = shm.as_ref().map_or(array.path("second"), |folder| {
        folder.path().join("second").to_str().expect("text").to_string()
    });
    array.asks(&["nvs", "replace", "tank", &format!("{second},size=20M")]);
    let third = format!("{},size=16M", array.path("third"));
    let both = array.refused(&["nvs", "replace", "tank", &third]);
    assert!(both.contains("name the one to replace"), "{both}");
    array.asks(&["nvs", "replace", "tank", "--old", &array.path("nvs"), &third]);
    let now = status(&array);
    assert!(!now["alarms"].to_string().contains("nvs-mirror"), "{now}");
    bench.wait().expect("ended");
    array.kill();
    std::fs::remove_file(array.path("nvs")).expect("removed");
    array.serve(&[]);
    array.keeps(&log);
    assert!(!status(&array)["devices"].to_string().contains("failed"));
}

#[test]
fn a_new_nvs_device_that_is_too_small_is_not_written_to() {
    let mut array = Array::create(&["nvs0", "nvs1"]);
    array.serve(&[]);
    let small = array.path("small");
    // Only its first MiB is looked at before it is used.
    let contents = [vec![0; 1 << 20], vec![7; 3 << 20]].concat();
    std::fs::write(&small, &contents).expect("written");
    let old = array.path("nvs1");
    let refused = array.refused(&["nvs", "replace", "tank", "--old", &old, &small]);
    assert!(refused.contains("too small"), "{refused}");
    assert!(std::fs::read(&small).expect("read") == contents, "written to");
    assert!(!status(&array)["devices"].to_string().contains("failed"));
    array.stop();
}
