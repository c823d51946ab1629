//! Faults that come from outside while an array is served: files that are deleted or cut short,
//! file systems without space, and servers that have to end in the midst of it.

mod common;

use common::array::{Array, alarm, has_alarm, status};
use common::{Emulated, destage};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(40);

fn wait(what: &str, most: Duration, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < most, "never {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn alarms(array: &Array) -> String {
    status(array)["alarms"].to_string()
}

/// Writes for half a second, few enough that nothing has to be destaged, and again where that was
/// too short for a busy machine; the log of what was acknowledged last.
fn written(array: &Array) -> String {
    let mut log = String::new();
    wait("wrote", LONG, || {
        log = array.loaded(&["--time", "500ms", "--depth", "4", "--iops", "800"]);
        status(array)["dirty_pages"].as_u64() > Some(100)
    });
    log
}

fn signal(array: &Array) {
    let pid = array.server.as_ref().expect("served").id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
}

fn runs(array: &mut Array) -> bool {
    array.server.as_mut().expect("served").try_wait().expect("a child").is_none()
}

/// How the server ends, which it does within this time.
fn end(array: &mut Array, most: Duration) -> ExitStatus {
    let began = Instant::now();
    while runs(array) {
        assert!(began.elapsed() < most, "the server does not end: {}", said(array));
        std::thread::sleep(Duration::from_millis(20));
    }
    array.server.take().expect("served").wait().expect("ended")
}

/// What the server has said since it serves.
fn said(array: &Array) -> String {
    std::fs::read_to_string(array.path("stderr")).unwrap_or_default()
}

/// The commands of the alarm that says how to save files.
fn save_commands(array: &Array) -> Vec<String> {
    has_alarm(array, "save-files");
    let text = alarm(array, "save-files").expect("the alarm");
    let parts = text.split('`').skip(1).step_by(2);
    parts.filter(|part| part.starts_with("cp ")).map(str::to_string).collect()
}

/// As on a terminal that was stopped with Ctrl-S: its log has no room, and nothing else waits.
#[test]
fn a_server_serves_gives_a_member_up_and_stops_while_nobody_reads_its_log() {
    let mut array = Array::of_level("5", 4, &["nvs"]);
    let unheard = array.serve_unheard();
    let mut asked = array.ask(&["fail", "tank", "1"]);
    wait("gave the member up", LONG, || asked.try_wait().expect("a child").is_some());
    let acked = array.path("acked");
    let mut load = array.load(&["--time", "500ms", "--depth", "4", "--log", &acked]);
    wait("served the load", LONG, || load.try_wait().expect("a child").is_some());
    signal(&array);
    let ended = end(&mut array, LONG);
    assert!(ended.success(), "{ended}");
    drop(unheard);
    array.serve(&["--degraded"]);
    array.keeps(&acked);
    assert_eq!(status(&array)["state"], "degraded");
}

#[test]
fn a_stop_is_refused_while_deleted_files_are_the_only_copy() {
    let mut array = Array::of_level("5", 3, &["nvs"]);
    array.serve(&[]);
    let log = written(&array);
    std::fs::remove_file(array.path("d0")).expect("removed");
    has_alarm(&array, "was deleted");
    std::fs::remove_file(array.path("d1")).expect("removed");
    // At once: the server looks before it answers.
    let refused = array.refused(&["stop", "tank"]);
    assert!(refused.contains("/d1") && refused.contains("--force"), "{refused}");
    assert!(!refused.contains("/d2"), "{refused}");
    assert!(array.refused(&["stop", "tank", "--drain"]).contains("--force"));
    array.keeps(&log);
    signal(&array);
    let commands = save_commands(&array);
    let pid = array.server.as_ref().expect("served").id();
    assert!(
        commands.len() == 1 && commands[0].contains(&format!("/proc/{pid}/fd/")),
        "{commands:?}"
    );
    assert!(runs(&mut array));
    let done = Command::new("sh").args(["-c", &commands[0]]).status().expect("sh runs");
    assert!(done.success(), "{commands:?}");
    assert!(end(&mut array, Duration::from_secs(10)).success(), "{}", said(&array));
    array.serve(&[]);
    array.keeps(&log);
}

#[test]
fn a_second_signal_ends_a_server_that_waits_for_files_to_be_saved() {
    let mut array = Array::of_level("0", 2, &["nvs"]);
    array.serve(&[]);
    written(&array);
    std::fs::remove_file(array.path("d0")).expect("removed");
    has_alarm(&array, "was deleted");
    signal(&array);
    assert_eq!(save_commands(&array).len(), 1);
    std::thread::sleep(Duration::from_secs(2));
    assert!(runs(&mut array));
    signal(&array);
    assert_eq!(end(&mut array, Duration::from_secs(5)).code(), Some(1));
    assert!(said(&array).contains("/d0"), "{}", said(&array));
}

#[test]
fn a_server_waits_for_files_to_be_saved_as_long_as_configured_or_not_when_forced() {
    let mut array = Array::of_level("0", 2, &["nvs"]);
    array.edit("save_seconds = 300", "save_seconds = 3");
    array.serve(&[]);
    std::fs::remove_file(array.path("d1")).expect("removed");
    has_alarm(&array, "was deleted");
    let began = Instant::now();
    signal(&array);
    assert_eq!(end(&mut array, Duration::from_secs(10)).code(), Some(1));
    assert!(began.elapsed() > Duration::from_millis(2500));
    let mut array = Array::of_level("0", 2, &["nvs"]);
    array.serve(&[]);
    std::fs::remove_file(array.path("d1")).expect("removed");
    has_alarm(&array, "was deleted");
    array.asks(&["stop", "tank", "--force"]);
    end(&mut array, Duration::from_secs(5));
}

/// What the service manager hears next, with the time that it is to give.
fn time_asked(manager: &UnixDatagram) -> Duration {
    let mut bytes = [0; 256];
    let count = manager.recv(&mut bytes).expect("a message");
    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
    let time = text.trim().strip_prefix("EXTEND_TIMEOUT_USEC=").expect(&text);
    Duration::from_micros(time.parse().expect("a number"))
}

#[test]
fn a_server_that_ends_asks_the_service_manager_for_the_time_it_needs() {
    let mut array = Array::of_level("0", 2, &["nvs"]);
    array.edit("save_seconds = 300", "save_seconds = 900");
    let path = array.path("notify");
    let manager = UnixDatagram::bind(&path).expect("bound");
    manager.set_read_timeout(Some(LONG)).expect("set");
    array.serve_with(&[], &[("NOTIFY_SOCKET", &path)]);
    let mut ready = [0; 256];
    let count = manager.recv(&mut ready).expect("a message");
    assert_eq!(String::from_utf8_lossy(&ready[..count]).trim(), "READY=1");
    written(&array);
    std::fs::remove_file(array.path("d1")).expect("removed");
    has_alarm(&array, "was deleted");
    signal(&array);
    // First what is in flight ends, which may take stall_seconds (30).
    assert!(time_asked(&manager) > Duration::from_secs(30));
    save_commands(&array);
    wait("time to save", LONG, || time_asked(&manager) >= Duration::from_secs(890));
    // Again while it waits.
    assert!(time_asked(&manager) >= Duration::from_secs(880));
    signal(&array);
    assert_eq!(end(&mut array, Duration::from_secs(5)).code(), Some(1));
}

#[test]
fn a_stop_that_is_only_checked_changes_nothing() {
    let mut array = Array::of_level("0", 2, &["nvs"]);
    array.serve(&[]);
    let log = written(&array);
    assert!(array.asks(&["stop", "tank", "--check"]).contains("would stop"));
    assert!(runs(&mut array));
    array.keeps(&log);
    std::fs::remove_file(array.path("d1")).expect("removed");
    let refused = array.refused(&["stop", "tank", "--check"]);
    assert!(refused.contains("/d1") && refused.contains("--force"), "{refused}");
    assert!(runs(&mut array));
    array.keeps(&log);
    let folder = array.path("");
    for other in ["--drain", "--force"] {
        let words = ["stop", "tank", "--check", other, "--config-dir", &folder];
        assert_eq!(destage(&words).status.code(), Some(2));
    }
    array.kill();
    assert!(array.refused(&["stop", "tank", "--check"]).contains("is not being served"));
}

#[test]
fn a_stop_with_drain_leaves_nothing_dirty_though_clients_write_on() {
    let mut array = Array::create(&["nvs"]);
    for _ in 0..6 {
        array.serve(&[]);
        let mut bench = array.load(&["--time", "60s", "--depth", "8", "--iops", "700"]);
        wait("written", LONG, || status(&array)["pages_written"].as_u64() > Some(50));
        let said = array.asks(&["stop", "tank", "--drain"]);
        assert!(said.contains("stopped"), "{said}");
        assert!(end(&mut array, LONG).success(), "{}", self::said(&array));
        bench.wait().expect("ended");
        let found = array.asks(&["recover", "tank", "--inspect", "--format", "csv"]);
        assert!(found.lines().any(|line| line == "dirty pages,0"), "{found}");
    }
}

#[test]
fn a_deleted_nvs_file_is_seen_kept_in_use_and_replaced() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let log = written(&array);
    std::fs::remove_file(array.path("nvs")).expect("removed");
    has_alarm(&array, "file-deleted");
    let refused = array.refused(&["stop", "tank"]);
    assert!(refused.contains("/nvs") && refused.contains("--force"), "{refused}");
    assert!(status(&array)["dirty_pages"].as_u64() > Some(0));
    // A second device makes the deleted one needless: it is given up.
    array.asks(&["nvs", "replace", "tank", &format!("{},size=16M", array.path("new"))]);
    wait("given up", LONG, || status(&array)["devices"].to_string().contains("failed"));
    array.stop();
    array.serve(&[]);
    array.keeps(&log);
}

#[test]
fn a_deleted_nvs_file_that_is_saved_is_served_again() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let log = written(&array);
    std::fs::remove_file(array.path("nvs")).expect("removed");
    has_alarm(&array, "file-deleted");
    signal(&array);
    let commands = save_commands(&array);
    assert!(Command::new("sh").args(["-c", &commands[0]]).status().expect("runs").success());
    assert!(end(&mut array, Duration::from_secs(10)).success(), "{}", said(&array));
    array.serve(&[]);
    array.keeps(&log);
}

#[test]
fn a_deleted_nvs_file_that_is_not_saved_costs_no_data() {
    for force in [false, true] {
        let mut array = Array::create(&["nvs"]);
        array.edit("save_seconds = 300", "save_seconds = 2");
        array.serve(&[]);
        let log = written(&array);
        std::fs::remove_file(array.path("nvs")).expect("removed");
        has_alarm(&array, "file-deleted");
        if force {
            array.asks(&["flush", "tank"]);
            array.asks(&["stop", "tank", "--force"]);
        } else {
            signal(&array);
        }
        let code = end(&mut array, Duration::from_secs(15));
        assert!(code.success(), "{}", said(&array));
        // Everything was destaged: the next start needs no NVS, and says that it has none.
        array.serve(&[]);
        array.keeps(&log);
        assert_eq!(status(&array)["state"], "no-nvs");
    }
}

/// A recovery that is to end in time: its exit code and last line.
fn recovers(array: &Array, during: impl FnOnce()) -> (Option<i32>, String) {
    let folder = array.path("");
    let mut recover = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["recover", "tank", "--config-dir", &folder])
        .stderr(std::fs::File::create(array.path("recovery")).expect("a file"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("runs");
    std::thread::sleep(Duration::from_millis(1500));
    during();
    let began = Instant::now();
    let code = loop {
        if let Some(code) = recover.try_wait().expect("a child") {
            break code.code();
        }
        if began.elapsed() > Duration::from_secs(20) {
            recover.kill().expect("killed");
            panic!("the recovery does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = std::fs::read_to_string(array.path("recovery")).expect("read");
    (code, text.lines().last().unwrap_or_default().to_string())
}

#[test]
fn a_recovery_whose_nvs_disappears_ends() {
    for (on_loss, clear, deleted) in [
        ("write-through", true, false),
        ("write-through", false, false),
        ("stop", true, false),
        ("stop", false, false),
        ("write-through", true, true),
        ("write-through", false, true),
    ] {
        let Some((mut array, small)) = on_small() else { return };
        array.edit("stall_seconds = 30", "stall_seconds = 2");
        array.edit("save_seconds = 300", "save_seconds = 4");
        array.edit("\"write-through\"", &format!("\"{on_loss}\""));
        array.serve(&[]);
        let log = written(&array);
        array.stop();
        small.fill();
        let (code, last) = recovers(&array, || {
            match deleted {
                true => std::fs::remove_file(array.path("nvs")).expect("removed"),
                false => truncate(&array, "nvs", 0),
            }
            std::thread::sleep(Duration::from_millis(1200));
            if clear {
                small.clear();
            }
        });
        let explained = last.contains("dirty pages") || last.contains("/nvs");
        let what = format!("{on_loss}, clear {clear}, deleted {deleted}: {code:?} {last}");
        assert!(if clear { code == Some(0) } else { code == Some(1) && explained }, "{what}");
        if clear && on_loss == "write-through" {
            array.serve(&[]);
            array.keeps(&log);
        }
    }
}

#[test]
fn one_of_two_nvs_files_that_is_deleted_or_shrinks_is_given_up() {
    for (shrinks, text) in [(false, "was deleted"), (true, "has shrunk to")] {
        let mut array = Array::create(&["nvs0", "nvs1"]);
        array.serve(&[]);
        let log = written(&array);
        if shrinks {
            truncate(&array, "nvs1", 1 << 20);
        } else {
            std::fs::remove_file(array.path("nvs1")).expect("removed");
        }
        has_alarm(&array, "nvs-mirror-lost");
        let now = alarms(&array);
        assert!(now.contains(text) && now.contains("/nvs1"), "{now}");
        array.keeps(&log);
        array.stop();
    }
}

fn truncate(array: &Array, name: &str, bytes: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(array.path(name)).expect("opened");
    file.set_len(bytes).expect("cut short");
}

#[test]
fn a_member_that_shrinks_is_given_up_before_it_reads_zeros() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let log = written(&array);
    array.asks(&["flush", "tank"]);
    truncate(&array, "d1", 2 << 20);
    has_alarm(&array, "has shrunk to 2097152 bytes; the array needs");
    assert!(alarms(&array).contains("/d1"), "{}", alarms(&array));
    // What grows it again are writes that were on their way: it stays given up.
    array.keeps(&log);
    assert_eq!(status(&array)["state"], "degraded");
    truncate(&array, "d2", 2 << 20);
    wait("stopped", LONG, || status(&array)["state"] == "stopped");
    assert!(alarms(&array).contains("array-stopped"));
}

#[test]
fn a_mapped_nvs_that_is_cut_short_is_given_up_and_the_server_lives() {
    let Ok(shm) = tempfile::tempdir_in("/dev/shm") else {
        println!("SKIPPED: no /dev/shm");
        return;
    };
    let nvs = shm.path().join("nvs");
    let mut array = Array::empty();
    let nvs = nvs.to_str().expect("text").to_string();
    let given = format!("{nvs},size=16M");
    array.create_over("tank", &array.files("d", 3, "32M"), &["--nvs", &given]);
    array.serve(&[]);
    written(&array);
    let file = std::fs::OpenOptions::new().write(true).open(&nvs).expect("opened");
    file.set_len(0).expect("cut short");
    // Copies to and from what is not there any more.
    let more = array.loaded(&["--time", "1500ms", "--depth", "4", "--iops", "400"]);
    has_alarm(&array, "nvs-lost");
    assert!(alarms(&array).contains(&nvs), "{}", alarms(&array));
    wait("destaged", LONG, || status(&array)["dirty_pages"] == 0);
    array.keeps(&more);
    array.stop();
}

/// A small file system of memory; it goes when this does.
struct Small {
    folder: String,
    filler: String,
}

impl Small {
    /// None where file systems cannot be mounted.
    fn mount(array: &Array, options: &str) -> Option<Small> {
        let folder = array.path("small");
        std::fs::create_dir(&folder).expect("made");
        let words = ["-t", "tmpfs", "-o", options, "none", &folder];
        let output = Command::new("mount").args(words).output();
        if !output.as_ref().is_ok_and(|output| output.status.success()) {
            println!("SKIPPED: no file system can be mounted: {output:?}");
            return None;
        }
        let filler = format!("{folder}/filler");
        Some(Small { folder, filler })
    }

    /// Takes all the space that is left.
    fn fill(&self) {
        let file = std::fs::File::create(&self.filler).expect("made");
        let block = vec![1; 64 << 10];
        let mut at = 0;
        for size in [64 << 10, 4 << 10] {
            while file.write_all_at(&block[..size], at).is_ok() {
                at += size as u64;
            }
        }
    }

    fn clear(&self) {
        std::fs::remove_file(&self.filler).expect("removed");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.folder]).status();
    }
}

/// Level 5 over sparse files on a file system that has room for half of them.
fn on_small() -> Option<(Array, Small)> {
    let array = Array::empty();
    let small = Small::mount(&array, "size=48m")?;
    let nvs = format!("{},size=16M", array.path("nvs"));
    let disks: Vec<String> = (0..3).map(|n| format!("{}/d{n}", small.folder)).collect();
    for disk in &disks {
        std::fs::File::create(disk).expect("made").set_len(32 << 20).expect("long");
    }
    array.create_over("tank", &disks, &["--nvs", &nvs]);
    Some((array, small))
}

#[test]
fn members_without_space_wait_for_it_and_none_fails() {
    let Some((mut array, small)) = on_small() else { return };
    array.serve(&[]);
    let log = written(&array);
    small.fill();
    let flush = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["flush", "tank", "--config-dir", &array.path("")])
        .spawn();
    has_alarm(&array, "device-full");
    let now = alarms(&array);
    assert!(now.contains("/small/d") && now.contains("ENOSPC"), "{now}");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(status(&array)["state"], "clean");
    small.clear();
    assert!(flush.expect("runs").wait().expect("ends").success());
    wait("no alarm", LONG, || !alarms(&array).contains("device-full"));
    assert!(!alarms(&array).contains("failed"), "{}", alarms(&array));
    array.keeps(&log);
    array.stop();
}

#[test]
fn a_stop_and_a_recovery_end_while_members_have_no_space() {
    let Some((mut array, small)) = on_small() else { return };
    array.edit("stall_seconds = 30", "stall_seconds = 2");
    array.serve(&[]);
    let log = written(&array);
    small.fill();
    let mut flush = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["flush", "tank", "--config-dir", &array.path("")])
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("runs");
    has_alarm(&array, "device-full");
    signal(&array);
    assert_eq!(end(&mut array, Duration::from_secs(20)).code(), Some(1));
    let text = said(&array);
    let last = text.lines().last().expect("a line");
    assert!(last.contains("dirty pages") && last.contains("/nvs"), "{text}");
    flush.wait().expect("ended");
    let (code, last) = recovers(&array, || ());
    assert!(code == Some(1) && last.contains("dirty pages"), "{last}");
    assert!(last.contains("/nvs"), "{last}");
    small.clear();
    array.asks(&["recover", "tank"]);
    array.serve(&[]);
    array.keeps(&log);
    array.stop();
}

#[test]
fn a_server_that_ends_destages_what_a_lost_nvs_leaves_in_memory() {
    for clear in [true, false] {
        let Some((mut array, small)) = on_small() else { return };
        array.edit("stall_seconds = 30", "stall_seconds = 2");
        array.edit("save_seconds = 300", "save_seconds = 5");
        array.serve(&[]);
        let log = written(&array);
        small.fill();
        truncate(&array, "nvs", 0);
        has_alarm(&array, "nvs-lost");
        has_alarm(&array, "device-full");
        signal(&array);
        std::thread::sleep(Duration::from_millis(500));
        assert!(runs(&mut array), "{}", said(&array));
        if clear {
            small.clear();
            assert!(end(&mut array, Duration::from_secs(20)).success(), "{}", said(&array));
            array.serve(&[]);
            array.keeps(&log);
        } else {
            assert_eq!(end(&mut array, Duration::from_secs(20)).code(), Some(1));
            let text = said(&array);
            let last = text.lines().last().expect("a line");
            assert!(last.contains("dirty pages") && last.contains("lost"), "{text}");
        }
    }
}

#[test]
fn a_server_ends_while_writes_wait_for_nvs_space() {
    let mut array = Array::empty();
    let nvs = format!("{},size=2M", array.path("nvs"));
    let sockets: Vec<String> = (0..3).map(|n| array.path(&format!("e{n}.sock"))).collect();
    let start = |socket: &String| {
        let listen = format!("unix:{socket}");
        Emulated::start(&["stow-ref", "--size", "64M", "--nbd", &listen])
    };
    let _disks: Vec<Emulated> = sockets.iter().map(start).collect();
    let uris: Vec<String> = sockets.iter().map(|s| format!("nbd+unix:///?socket={s}")).collect();
    array.create_over("tank", &uris, &["--assume-clean", "--nvs", &nvs]);
    array.serve(&[]);
    let log = array.path("acked");
    let mut bench = array.load(&["--time", "20s", "--depth", "400", "--log", &log]);
    wait("full", LONG, || status(&array)["writes_waiting"].as_u64() > Some(0));
    signal(&array);
    let code = end(&mut array, Duration::from_secs(20));
    assert!(code.success(), "{}", said(&array));
    bench.wait().expect("ended");
    array.serve(&[]);
    array.keeps(&log);
    array.stop();
}

#[test]
fn a_second_server_leaves_the_first_ones_socket_and_a_stop_does_not_wait_for_it() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let socket = array.path("tank.control");
    let first = std::fs::metadata(&socket).expect("a socket").ino();
    let other = format!("unix:{}", array.path("other.sock"));
    let folder = array.path("");
    let mut second = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["serve", "tank", "--nbd", &other, "--config-dir", &folder])
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("runs");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(std::fs::metadata(&socket).expect("a socket").ino(), first);
    let began = Instant::now();
    array.stop();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // It has waited for the devices, and serves now.
    wait("served", LONG, || destage(&["status", "tank", "--config-dir", &folder]).status.success());
    array.asks(&["stop", "tank"]);
    second.wait().expect("ended");
}
