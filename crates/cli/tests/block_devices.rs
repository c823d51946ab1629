//! An array of block devices: loop devices, where the machine lets us have them.

mod common;

use common::array::{Array, until};
use common::{fails, succeeds};
use std::process::Command;

/// Loop devices over files; they go when this does.
struct Loops(Vec<String>);

impl Loops {
    /// Devices over files of these names; false where the machine has none.
    fn attach_all(&mut self, array: &Array, names: &[&str]) -> bool {
        let attached = names.iter().try_for_each(|name| self.attach(&array.path(name)));
        if let Err(error) = &attached {
            println!("SKIPPED: no loop devices: {error}");
        }
        attached.is_ok()
    }

    fn attach(&mut self, path: &str) -> Result<(), String> {
        if !std::path::Path::new(path).exists() {
            let file = std::fs::File::create(path).map_err(|error| format!("{path}: {error}"))?;
            file.set_len(32 << 20).map_err(|error| format!("{path}: {error}"))?;
        }
        let output = Command::new("losetup").args(["--find", "--show", path]).output();
        let output = output.map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
        }
        self.0.push(String::from_utf8_lossy(&output.stdout).trim().to_string());
        Ok(())
    }
}

/// Two partitions of half a device each.
fn partitions(device: &str) -> Result<[String; 2], String> {
    let names = [1, 2].map(|number| format!("{device}p{number}"));
    for (number, start) in ["0", "65536"].into_iter().enumerate() {
        let number = (number + 1).to_string();
        let output = Command::new("addpart").args([device, &number, start, "65536"]).output();
        let output = output.map_err(|error| format!("addpart: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
        }
    }
    let there = names.iter().all(|name| std::path::Path::new(name).exists());
    there.then_some(names).ok_or_else(|| format!("{device} has no partitions"))
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            for number in ["1", "2"] {
                let _ = Command::new("delpart").args([device, number]).output();
            }
        }
        for device in &self.0 {
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

#[test]
fn members_and_nvs_on_block_devices_are_written_directly() {
    // Dropped in the other order: the server lets go of the devices first.
    let mut loops = Loops(Vec::new());
    let mut array = Array::empty();
    if !loops.attach_all(&array, &["d0", "d1", "d2", "nvs"]) {
        return;
    }
    let (devices, folder) = (loops.0.clone(), array.path(""));
    let [d0, d1, d2, nvs] = [&devices[0], &devices[1], &devices[2], &devices[3]];
    // The same device under another name.
    let again = array.path("again");
    std::os::unix::fs::symlink(d0, &again).expect("a link");
    let words = ["create", "tank", "--disk", d0, "--disk", d1, "--disk", &again];
    let error = fails(1, &[&words[..], &["--config-dir", &folder]].concat());
    assert!(error.contains("the same disk") && error.contains("--accept-same-drive"), "{error}");
    let words = ["create", "tank", "--disk", d0, "--disk", d1, "--disk", d2, "--nvs", nvs];
    succeeds(&[&words[..], &["--config-dir", &folder]].concat());
    array.serve(&[]);
    // Memory that is mapped from a disk is written back some time: no place for a log.
    let server = array.server.as_ref().expect("served").id();
    let maps = std::fs::read_to_string(format!("/proc/{server}/maps")).expect("its mappings");
    assert!(!maps.contains("/dev/"), "a device is mapped:\n{maps}");
    let words = ["create", "other", "--level", "single", "--disk", d0, "--nvs", nvs];
    let error = fails(1, &[&words[..], &["--config-dir", &folder]].concat());
    assert!(error.contains("is in use by another"), "{error}");
    let log = array.loaded(&["--time", "500ms", "--depth", "8"]);
    array.kill();
    array.serve(&[]);
    array.keeps(&log);
    array.stop();
    array.asks(&["recover", "tank"]);
    drop(array);
}

#[test]
fn a_block_device_that_shrinks_is_given_up() {
    let mut loops = Loops(Vec::new());
    let mut array = Array::empty();
    if !loops.attach_all(&array, &["d0", "d1", "d2"]) {
        return;
    }
    let devices = loops.0.clone();
    array.create_over("tank", &devices, &[]);
    array.serve(&[]);
    let file = std::fs::OpenOptions::new().write(true).open(array.path("d1")).expect("opened");
    file.set_len(16 << 20).expect("cut short");
    let known = Command::new("losetup").args(["-c", &devices[1]]).status();
    assert!(known.is_ok_and(|status| status.success()), "losetup -c");
    let now = until(&array, "degraded", |now| now["state"] == "degraded");
    let alarms = now["alarms"].to_string();
    assert!(alarms.contains("has shrunk to 16777216 bytes"), "{alarms}");
    assert!(alarms.contains(&devices[1]), "{alarms}");
    array.stop();
    drop(array);
}

#[test]
fn a_spare_in_the_drive_of_a_member_is_passed_over() {
    let mut loops = Loops(Vec::new());
    let mut array = Array::empty();
    let file = std::fs::File::create_new(array.path("large")).expect("created");
    file.set_len(64 << 20).expect("long enough");
    if !loops.attach_all(&array, &["large", "d1", "d2", "good"]) {
        return;
    }
    let [large, d1, d2, good] = loops.0.clone().try_into().expect("four");
    let [first, second] = match partitions(&large) {
        Ok(partitions) => partitions,
        Err(error) => return println!("SKIPPED: no partitions: {error}"),
    };
    array.create_over("tank", &[first.clone(), d1.clone(), d2.clone()], &[]);
    array.serve(&[]);
    array.asks(&["spare", "tank", "add", &second]);
    array.asks(&["fail", "tank", &d1]);
    let now = until(&array, "an alarm", |now| now["alarms"].to_string().contains("not-taken"));
    let alarms = now["alarms"].to_string();
    let shared = format!("{first} and {second} are the same disk or parts of it");
    assert!(alarms.contains(&shared) && alarms.contains("cannot replace member 1"), "{alarms}");
    // Asked for by hand it is refused too, and it remains a spare.
    let refused = array.refused(&["replace", "tank", &d1, &second]);
    assert!(refused.contains(&shared), "{refused}");
    let now = until(&array, "a spare", |now| now["devices"].to_string().contains(&second));
    assert_eq!(now["state"], "degraded", "{now}");
    // Another one is taken, and the first where its own drive has failed.
    array.asks(&["spare", "tank", "add", &good]);
    let now = until(&array, "clean", |now| now["state"] == "clean");
    assert_eq!(now["devices"][1]["device"], good, "{now}");
    assert!(!now["alarms"].to_string().contains("not-taken"), "{now}");
    array.asks(&["fail", "tank", &first]);
    let now = until(&array, "clean again", |now| {
        now["state"] == "clean" && now["devices"][0]["device"] == second
    });
    assert!(!now["alarms"].to_string().contains("not-taken"), "{now}");
    array.stop();
    drop(array);
}

#[test]
fn a_spare_whose_cache_would_not_be_flushed_is_passed_over() {
    let mut loops = Loops(Vec::new());
    let mut array = Array::empty();
    if !loops.attach_all(&array, &["first", "spare", "new"]) {
        return;
    }
    let [first, spare, new] = loops.0.clone().try_into().expect("three");
    let files = array.files("d", 3, "32M");
    array.create_over("tank", &[&[first], &files[..2]].concat(), &[]);
    array.serve(&[]);
    if !array.asks(&["status", "tank"]).contains("write cache volatile") {
        return println!("SKIPPED: no loop device has a cache that is known to be on");
    }
    array.asks(&["fail", "tank", "0"]);
    array.asks(&["replace", "tank", "0", &files[2]]);
    array.stop();
    array.edit("durability = \"auto\"", "durability = \"off\"");
    array.serve(&[]);
    array.asks(&["spare", "tank", "add", &spare]);
    array.asks(&["fail", "tank", "1"]);
    let now = until(&array, "an alarm", |now| now["alarms"].to_string().contains("not-taken"));
    let alarms = now["alarms"].to_string();
    let says =
        format!("{spare}: durability is off, and the kernel says that this disk's write cache");
    assert!(alarms.contains(&says) && alarms.contains("cannot replace member 1"), "{alarms}");
    // Asked for by hand it is refused too, and it remains a spare.
    let refused = array.refused(&["replace", "tank", "1", &spare]);
    assert!(refused.contains(&says) && refused.contains("hdparm -W0"), "{refused}");
    let now = until(&array, "a spare", |now| now["devices"].to_string().contains(&spare));
    assert_eq!(now["state"], "degraded", "{now}");
    // A new disk that is refused is as it was.
    let refused = array.refused(&["replace", "tank", "1", &new]);
    assert!(refused.contains("durability is off"), "{refused}");
    let bytes = std::fs::read(array.path("new")).expect("read");
    assert!(bytes[..1 << 20].iter().all(|byte| *byte == 0), "not empty");
    array.stop();
    drop(array);
}

#[test]
fn a_deleted_member_is_let_go_once_it_is_replaced() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let server = array.server.as_ref().expect("served").id();
    let held = || {
        let open = std::fs::read_dir(format!("/proc/{server}/fd")).expect("its descriptors");
        let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        targets.filter(|path| path.to_string_lossy().ends_with("/d1 (deleted)")).count()
    };
    std::fs::remove_file(array.path("d1")).expect("removed");
    assert!(held() > 0);
    // It is looked for twice a second.
    until(&array, "degraded", |now| now["state"] == "degraded");
    let new = format!("{},size=32M", array.path("e"));
    array.asks(&["replace", "tank", &array.path("d1"), &new]);
    // A thread of its own does it: the data thread would have to wait for the disk.
    until(&array, "let go", |_| held() == 0);
}
