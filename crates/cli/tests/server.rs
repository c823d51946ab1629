//! `destage emulate` and `destage bench` as users run them, a server that is killed included.

mod common;

use common::{Emulated, destage, fails, succeeds};
use std::path::Path;

fn names(folder: &Path) -> (String, String, String) {
    let path = |name: &str| folder.join(name).to_str().expect("text").to_string();
    let socket = path("nbd.sock");
    (format!("unix:{socket}"), format!("nbd+unix:///?socket={socket}"), path("acknowledged"))
}

#[test]
fn a_load_reports_what_it_did() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (listen, uri, _) = names(folder.path());
    let server = Emulated::start(&["ram", "--size", "64M", "--nbd", &listen]);
    let pid = server.0.id().to_string();
    let words =
        ["bench", &uri, "--time", "300ms", "--verify", "--server-pid", &pid, "--rw", "randrw"];
    let table = succeeds(&words);
    assert!(table.contains("verified:") && table.contains("write"), "{table}");
    let rows = succeeds(&[&words[..], &["--format", "csv", "--bs", "64K"]].concat());
    assert_eq!(rows.lines().count(), 3, "{rows}");
    let json = succeeds(&[&words[..], &["--format", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["kinds"].as_array().map(Vec::len), Some(2), "{json}");
}

#[test]
fn bad_arguments_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (listen, uri, log) = names(folder.path());
    for (words, says) in [
        (&["emulate", "stow-ref", "--nbd", "disk.sock"][..], "unix:PATH"),
        (&["emulate", "stow-ref", "--nbd", "tcp:0.0.0.0:0"], "--tls-cert"),
        (&["emulate", "no-such-disk", "--nbd", &listen], "stow-ref"),
        (&["emulate", "stow-ref", "--nbd", &listen, "--size", "9T"], "--size"),
        (&["emulate", "stow-ref", "--nbd", &listen, "--size", "many"], "64K"),
        (&["emulate", "stow-ref", "--nbd", &listen, "--speed", "0"], "--speed"),
        (&["bench", "http://127.0.0.1/"], "nbd://"),
        (&["bench", &uri, "--time", "soon"], "--time"),
        (&["bench", &uri, "--depth", "0"], "--depth"),
        (&["bench", &uri, "--bs", "128M"], "--bs"),
    ] {
        let error = fails(2, words);
        assert!(error.contains(says), "{words:?}: {error}");
    }
    fails(1, &["bench", &uri]);
    fails(1, &["bench", &uri, "--check", &log]);
    fails(1, &["emulate", "ram", "--nbd", "unix:/proc/no/such/folder"]);
    let words = ["emulate", "ram", "--nbd", &listen, "--tls-cert", &log, "--tls-key", &log];
    assert!(fails(1, &words).contains("acknowledged"));
    let _server = Emulated::start(&["ram", "--size", "1M", "--nbd", &listen]);
    assert!(fails(1, &["emulate", "ram", "--nbd", &listen]).contains("another server"));
    assert!(fails(2, &["bench", &uri, "--size", "2M"]).contains("1048576"));
}

/// Loads a server with a log until the server is killed; gives what the load said.
fn load_until_killed(server: &mut Emulated, uri: &str, log: &str) -> String {
    let words = ["bench", uri, "--time", "30s", "--log", log, "--size", "8M", "--fsync-every", "9"];
    let load = std::thread::scope(|scope| {
        let load = scope.spawn(|| destage(&words));
        let begun = std::time::Instant::now();
        let enough = || std::fs::metadata(log).is_ok_and(|about| about.len() > 20_000);
        while !enough() && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        server.kill();
        load.join().expect("no panic")
    });
    assert_eq!(load.status.code(), Some(1));
    String::from_utf8(load.stderr).expect("text")
}

#[test]
fn what_a_killed_server_lost_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (listen, uri, log) = names(folder.path());
    let file = folder.path().join("disk").to_str().expect("text").to_string();
    let in_file =
        ["stow-ref", "--size", "64M", "--speed", "1000", "--nbd", &listen, "--file", &file];
    let mut server = Emulated::start(&in_file);
    let error = load_until_killed(&mut server, &uri, &log);
    assert!(error.contains("acknowledged writes") && error.contains("--check"), "{error}");
    // The socket of the killed server is in the way and must not be.
    let mut server = Emulated::start(&in_file);
    let kept = succeeds(&["bench", &uri, "--check", &log, "--format", "csv"]);
    let numbers: Vec<u64> =
        kept.lines().nth(1).expect("a row").split(',').flat_map(str::parse).collect();
    assert!(numbers[0] > 500 && numbers[1] > 100 && numbers[2] == 0, "{kept}");
    server.kill();
    // Memory forgets.
    let in_memory = ["ram", "--size", "64M", "--nbd", &listen];
    let mut server = Emulated::start(&in_memory);
    load_until_killed(&mut server, &uri, &log);
    let _server = Emulated::start(&in_memory);
    let lost = fails(1, &["bench", &uri, "--check", &log]);
    assert!(lost.contains("lost an acknowledged write"), "{lost}");
}
