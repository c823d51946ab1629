//! Files and devices that `create`, `replace`, `spare` and `nvs replace` make: who may read them,
//! what they take on the disk, and what is left of a command that fails.

mod common;

use common::array::{Array, status};
use common::{Emulated, fails, succeeds};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

#[test]
fn a_create_that_fails_leaves_no_files_behind() {
    let array = Array::empty();
    let folder = array.path("");
    let (a, b) = (format!("{},size=8M", array.path("a")), format!("{},size=8M", array.path("b")));
    let (c, nvs) = (array.path("c"), format!("{},size=8M", array.path("nvs")));
    let words = ["create", "tank", "--disk", &a, "--disk", &b, "--disk", &c, "--nvs", &nvs];
    let error = fails(1, &[&words[..], &["--config-dir", &folder]].concat());
    assert!(error.contains("/c"), "{error}");
    std::fs::write(array.path("b"), "of somebody else").expect("written");
    let c = format!("{c},size=8M");
    let words = ["create", "tank", "--disk", &a, "--disk", &b, "--disk", &c, "--nvs", &nvs];
    let error = fails(1, &[&words[..], &["--config-dir", &folder]].concat());
    assert!(error.contains("/b"), "{error}");
    assert!(!std::fs::exists(array.path("a")).expect("looked"), "it is left");
    std::fs::remove_file(array.path("b")).expect("still there");
    succeeds(&[&words[..], &["--config-dir", &folder]].concat());
}

#[test]
fn a_create_that_cannot_write_its_configuration_leaves_devices_as_they_were() {
    let array = Array::empty();
    let paths: Vec<String> = ["a", "b", "c", "nvs"].iter().map(|name| array.path(name)).collect();
    for path in &paths {
        std::fs::File::create(path).expect("made").set_len(8 << 20).expect("long");
    }
    let obstacle = array.path("obstacle");
    std::fs::write(&obstacle, "").expect("written");
    let config = format!("{obstacle}/below");
    let mut words = vec!["create", "tank", "--nvs", &paths[3]];
    paths[..3].iter().for_each(|disk| words.extend(["--disk", disk]));
    let error = fails(1, &[&words[..], &["--config-dir", &config]].concat());
    assert!(error.contains("obstacle"), "{error}");
    let folder = array.path("");
    succeeds(&[&words[..], &["--config-dir", &folder]].concat());
}

/// Nothing locks a disk that another process serves.
#[test]
fn a_disk_that_is_given_twice_is_refused_and_not_written_to() {
    let array = Array::empty();
    let (image, socket, folder) = (array.path("image"), array.path("sock"), array.path(""));
    let listen = format!("unix:{socket}");
    let words = ["stow-ref", "--size", "16M", "--file", &image, "--nbd", &listen];
    let _disk = Emulated::start(&words);
    let (uri, same) =
        (format!("nbd+unix:///?socket={socket}"), format!("nbd+unix://?socket={socket}"));
    for (first, second) in [("--disk", "--disk"), ("--disk", "--spare")] {
        for other in [&uri, &same] {
            let level = ["create", "tank", "--level", "10", "--config-dir", &folder];
            let more = format!("{},size=16M", array.path("more"));
            let disks = ["--disk", &more, first, &uri, second, other];
            let error = fails(1, &[&level[..], &disks].concat());
            assert!(error.contains(&format!("{other} is given twice")), "{error}");
        }
    }
    assert!(std::fs::read(&image).expect("read").iter().all(|byte| *byte == 0), "written to");
    assert!(!std::fs::exists(array.path("tank.toml")).expect("looked"));
}

#[test]
fn a_create_that_fails_after_the_superblocks_clears_them() {
    let array = Array::empty();
    let small = array.path("small");
    std::fs::create_dir(&small).expect("made");
    let words = ["-t", "tmpfs", "-o", "size=4k", "none", &small];
    if !Command::new("mount").args(words).status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: no file system can be mounted");
        return;
    }
    let paths: Vec<String> = ["a", "b", "c", "nvs"].iter().map(|name| array.path(name)).collect();
    let spare = format!("{small}/spare");
    for path in paths.iter().chain([&spare]) {
        std::fs::File::create(path).expect("made").set_len(8 << 20).expect("long");
    }
    let folder = array.path("");
    let mut words = vec!["create", "tank", "--config-dir", &folder, "--nvs", &paths[3]];
    paths[..3].iter().for_each(|disk| words.extend(["--disk", disk]));
    let failed = common::destage(&[&words[..], &["--spare", &spare]].concat());
    Command::new("umount").args(["-l", &small]).status().expect("umount runs");
    let text = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success() && text.contains("ENOSPC"), "{text}");
    succeeds(&words);
}

#[test]
fn a_member_spare_or_nvs_that_is_refused_leaves_no_file_behind() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let obstacle = array.path("tank.toml.new");
    std::fs::create_dir(&obstacle).expect("made");
    let (large, small) = ("size=32M", "size=4M");
    let new = array.path("new");
    let given = |size: &str| format!("{new},{size}");
    let commands: [(&[&str], &str); 5] = [
        (&["spare", "tank", "add"], large),
        (&["spare", "tank", "add"], small),
        (&["replace", "tank", "0"], large),
        (&["nvs", "replace", "tank"], small),
        (&["nvs", "replace", "tank"], large),
    ];
    for (words, size) in commands {
        array.refused(&[words, &[&given(size)]].concat());
        assert!(!std::fs::exists(&new).expect("looked"), "{words:?} {size} leaves {new}");
    }
    std::fs::remove_dir(&obstacle).expect("removed");
    array.asks(&["spare", "tank", "add", &given(large)]);
    array.stop();
}

#[test]
fn files_that_are_made_are_their_owners_alone_and_take_their_space() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    array.asks(&["spare", "tank", "add", &format!("{},size=32M", array.path("spare"))]);
    array.asks(&["nvs", "replace", "tank", &format!("{},size=16M", array.path("second"))]);
    for name in ["d0", "d1", "d2", "nvs", "spare", "second", "tank.toml"] {
        let about = std::fs::metadata(array.path(name)).expect(name);
        assert_eq!(about.permissions().mode() & 0o777, 0o600, "{name}");
        let all = about.blocks() * 512 >= about.len();
        assert!(all || name == "tank.toml", "{name} takes {} blocks", about.blocks());
    }
    array.stop();
    let thin = Array::empty();
    thin.create_over("tank", &thin.files("d", 3, "32M"), &["--sparse"]);
    let about = std::fs::metadata(thin.path("d1")).expect("made");
    assert!(about.blocks() < 2048, "{} blocks", about.blocks());
}

#[test]
fn a_file_that_has_no_room_is_refused_and_nothing_is_left() {
    let array = Array::empty();
    let folder = array.path("small");
    std::fs::create_dir(&folder).expect("made");
    let words = ["-t", "tmpfs", "-o", "size=16m", "none", &folder];
    if !Command::new("mount").args(words).status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: no file system can be mounted");
        return;
    }
    let config = array.path("");
    let disks: Vec<String> = (0..3).map(|n| format!("{folder}/d{n},size=8M")).collect();
    let mut words = vec!["create", "tank", "--config-dir", &config];
    disks.iter().for_each(|disk| words.extend(["--disk", disk]));
    let error = common::destage(&words);
    let left = std::fs::read_dir(&folder).expect("listed").count();
    let sparse = common::destage(&[&words[..], &["--sparse"]].concat());
    Command::new("umount").args(["-l", &folder]).status().expect("umount runs");
    let text = String::from_utf8_lossy(&error.stderr);
    assert_eq!((error.status.code(), left), (Some(1), 0), "{text}");
    assert!(text.contains("/d2") && text.contains("ENOSPC") && text.lines().count() == 1, "{text}");
    assert!(text.contains("--sparse"), "{text}");
    assert!(sparse.status.success(), "{}", String::from_utf8_lossy(&sparse.stderr));
}

#[test]
fn a_disk_of_another_machine_is_no_nvs() {
    let mut array = Array::create(&["nvs"]);
    let folder = array.path("");
    let uri = "nbd+unix:///x?socket=/nonexistent/socket";
    let disk = format!("{},size=8M", array.path("x"));
    let words = ["create", "other", "--level", "single", "--disk", &disk, "--nvs", uri];
    let error = fails(1, &[&words[..], &["--config-dir", &folder]].concat());
    assert!(error.contains("NVS") && error.contains(uri), "{error}");
    let nvs = array.path("nvs");
    array.edit(&nvs, uri);
    let error = array.refuses_to_serve();
    assert!(error.contains("NVS") && error.contains(uri), "{error}");
    array.edit(uri, &nvs);
    array.serve(&[]);
    assert_eq!(status(&array)["state"], "clean");
}

/// A loop device with sectors of 4,096 bytes and a file system on it; both go when this does.
struct Large {
    device: String,
    folder: String,
}

impl Large {
    fn mount(array: &Array, file_system: &str) -> Option<Large> {
        let run = |program: &str, words: &[&str]| {
            let output = Command::new(program).args(words).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
            output.status.success().then_some(text)
        };
        let (image, folder) = (array.path("image"), array.path("large"));
        std::fs::create_dir(&folder).expect("made");
        std::fs::File::create(&image).expect("made").set_len(400 << 20).expect("long");
        let words = ["--find", "--show", "--sector-size", "4096", &image];
        let device = run("losetup", &words)?;
        let large = Large { device, folder };
        run(&format!("mkfs.{file_system}"), &["-q", &large.device])?;
        run("mount", &[&large.device, &large.folder])?;
        Some(large)
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.folder]).output();
        let _ = Command::new("losetup").args(["-d", &self.device]).output();
    }
}

#[test]
fn files_on_a_file_system_with_large_sectors_are_members_and_nvs() {
    for file_system in ["ext4", "xfs"] {
        let mut array = Array::empty();
        let Some(large) = Large::mount(&array, file_system) else {
            println!("SKIPPED: no {file_system} with sectors of 4,096 bytes");
            continue;
        };
        let given = |name: &str, size: &str| format!("{}/{name},size={size}", large.folder);
        let (d0, d1, d2) = (given("d0", "32M"), given("d1", "32M"), given("d2", "32M"));
        let (nvs, folder) = (given("nvs", "16M"), array.path(""));
        let words = ["create", "tank", "--disk", &d0, "--disk", &d1, "--disk", &d2, "--nvs", &nvs];
        succeeds(&[&words[..], &["--config-dir", &folder]].concat());
        array.serve(&[]);
        let log = array.loaded(&["--time", "500ms", "--depth", "8"]);
        array.kill();
        array.serve(&[]);
        array.keeps(&log);
        array.stop();
    }
}
