//! Members that fail, are replaced and rebuilt while the array serves, as operators do it.

mod common;

use common::array::{Array, becomes_clean, status, until};
use common::fails;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::Duration;

/// A load in the background; what was acknowledged is in the log.
fn load(array: &Array, log: &str, time: &str) -> Child {
    array.load(&["--time", time, "--depth", "8", "--log", log])
}

fn is_clean(status: &serde_json::Value) -> bool {
    status["state"] == "clean"
}

/// Exit code 1 if anything is wrong.
fn scrub(array: &Array) {
    array.asks(&["scrub", "tank", "--limit", "1G"]);
}

#[test]
fn a_deleted_file_is_seen_and_the_spare_takes_its_place_over_a_kill() {
    let mut array = Array::of_level("5", 4, &["nvs"]);
    array.serve(&[]);
    let spare = array.path("spare");
    array.asks(&["spare", "tank", "add", &format!("{spare},size=32M")]);
    let twice = array.refused(&["spare", "tank", "add", &spare]);
    assert!(twice.contains("already"), "{twice}");
    // Slow enough to be met on its way.
    array.asks(&["set", "tank", "--rebuild", "window=16,share=20"]);
    let log = array.path("acked");
    let mut bench = load(&array, &log, "3s");
    std::thread::sleep(Duration::from_millis(300));
    std::fs::remove_file(array.path("d1")).expect("removed");
    let now = until(&array, "rebuilding", |now| {
        now["rebuilds"][0]["bytes_done"].as_u64().is_some_and(|bytes| bytes > 0)
    });
    assert_eq!(now["state"], "rebuilding");
    assert_eq!(now["devices"][1]["state"], "rebuilding");
    assert!(now["alarms"].to_string().contains("was deleted"), "{now}");
    let refused = array.refused(&["scrub", "tank"]);
    assert!(refused.contains("being rebuilt"), "{refused}");
    // Killed in the midst of it: the next start continues by itself.
    array.kill();
    bench.wait().expect("ended");
    array.serve(&[]);
    becomes_clean(&array);
    array.keeps(&log);
    scrub(&array);
    assert!(!status(&array)["alarms"].to_string().contains("member-failed"));
    let text = array.asks(&["status", "tank"]);
    assert!(text.contains("in use") && text.contains("/spare"), "{text}");
}

/// Each line of its log is an error then: those of alarms, and those of the data thread.
#[test]
fn a_server_whose_log_nobody_reads_serves_while_a_spare_takes_a_members_place() {
    let mut array = Array::of_level("5", 4, &["nvs"]);
    array.serve_unread();
    array.asks(&["spare", "tank", "add", &format!("{},size=32M", array.path("spare"))]);
    array.asks(&["fail", "tank", "1"]);
    becomes_clean(&array);
    assert!(array.asks(&["status", "tank"]).contains("/spare"));
    array.asks(&["stop", "tank"]);
    let ended = array.server.take().expect("served").wait().expect("ended");
    assert!(ended.success(), "{ended}");
}

#[test]
fn members_are_given_up_and_replaced_by_hand() {
    let mut array = Array::of_level("6", 5, &["nvs"]);
    array.serve(&[]);
    let log = array.path("acked");
    let mut bench = load(&array, &log, "4s");
    let refused = array.refused(&["replace", "tank", "0", &array.path("d1")]);
    assert!(refused.contains("is in use. Fail it first"), "{refused}");
    array.asks(&["fail", "tank", &array.path("d0")]);
    let said = array.asks(&["fail", "tank", "3"]);
    assert!(said.contains("3 is given up"), "{said}");
    let beyond = array.refused(&["fail", "tank", "4"]);
    assert!(beyond.contains("data would be lost"), "{beyond}");
    let again = array.refused(&["fail", "tank", "0"]);
    assert!(again.contains("has failed already"), "{again}");
    let small = format!("{},size=8M", array.path("small"));
    let small = array.refused(&["replace", "tank", "0", &small]);
    assert!(small.contains("too small"), "{small}");
    // The disk that failed is not taken back as it is.
    let old = array.refused(&["replace", "tank", "0", &array.path("d0")]);
    assert!(old.contains("a member, NVS or spare of the array"), "{old}");
    let new = format!("{},size=32M", array.path("n0"));
    let said = array.asks(&["replace", "tank", &array.path("d0"), &new]);
    assert!(said.contains("rebuild complete"), "{said}");
    assert_eq!(status(&array)["state"], "degraded");
    array.asks(&["replace", "tank", "3", &format!("{},size=32M", array.path("n3"))]);
    let now = status(&array);
    assert!(is_clean(&now) && !now["alarms"].to_string().contains("member-failed"), "{now}");
    bench.wait().expect("ended");
    array.keeps(&log);
    scrub(&array);
    // The one that was replaced is out of date for good.
    array.stop();
    array.edit("/n0\"", "/d0\"");
    let error = array.refuses_to_serve();
    assert!(error.contains("out of date"), "{error}");
    array.edit("/d0\"", "/n0\"");
    array.serve(&[]);
    array.keeps(&log);
}

#[test]
fn a_spare_is_not_lost_while_the_configuration_cannot_be_written() {
    let mut array = Array::of_level("5", 4, &["nvs"]);
    array.serve(&[]);
    let spares = [array.path("s0"), array.path("s1")];
    array.asks(&["spare", "tank", "add", &format!("{},size=32M", spares[0])]);
    array.asks(&["spare", "tank", "add", &format!("{},size=32M", spares[1])]);
    // Where the new file is written first.
    let obstacle = array.path("tank.toml.new");
    std::fs::create_dir(&obstacle).expect("made");
    let new = array.path("s2");
    std::fs::File::create(&new).expect("made").set_len(32 << 20).expect("long");
    array.refused(&["spare", "tank", "add", &new]);
    array.asks(&["fail", "tank", "1"]);
    let now =
        until(&array, "the alarm", |now| now["alarms"].to_string().contains("spare-not-taken"));
    assert_eq!(now["state"], "degraded");
    for spare in &spares {
        assert!(now["devices"].to_string().contains(spare), "{now}");
        let refused = array.refused(&["replace", "tank", "1", spare]);
        assert!(refused.contains("tank.toml"), "{refused}");
    }
    std::fs::remove_dir(&obstacle).expect("removed");
    // By itself, at the next try.
    let now = until(&array, "clean", is_clean);
    assert!(!now["alarms"].to_string().contains("spare-not-taken"), "{now}");
    // And what was refused until then was not touched.
    array.asks(&["spare", "tank", "add", &new]);
}

#[test]
fn spares_are_given_at_creation_and_known_at_the_next_start() {
    let mut array = Array::of_level("10", 4, &["nvs"]);
    array.serve(&[]);
    let spare = format!("{},size=32M", array.path("s0"));
    array.asks(&["spare", "tank", "add", &spare]);
    let limits =
        fails(2, &["set", "tank", "--rebuild", "share=0", "--config-dir", &array.path("")]);
    assert!(limits.contains("share"), "{limits}");
    array.stop();
    array.serve(&[]);
    assert!(status(&array)["devices"].to_string().contains("ready"));
    array.asks(&["fail", "tank", "2"]);
    becomes_clean(&array);
    scrub(&array);
    let none = array.refused(&["spare", "tank", "remove", &array.path("s0")]);
    assert!(none.contains("is not a spare"), "{none}");
    array.stop();
    let folder = array.path("");
    let (d, s) = (array.path("x"), array.path("y"));
    let (d, s) = (format!("{d},size=16M"), format!("{s},size=16M"));
    let words = ["create", "other", "--level", "0", "--disk", &d, "--spare", &s];
    let error = fails(2, &[&words[..], &["--config-dir", &folder]].concat());
    assert!(error.contains("nothing to rebuild"), "{error}");
    let spare = format!("{},size=16M", array.path("e3"));
    let said = array.create_over("third", &array.files("e", 3, "16M"), &["--spare", &spare]);
    assert!(said.contains("created"), "{said}");
    let config = std::fs::read_to_string(array.path("third.toml")).expect("read");
    assert!(config.contains("spares = [") && config.contains("/e3\""), "{config}");
}

#[test]
fn devices_that_come_too_late_for_a_members_place_are_as_they_were() {
    let mut array = Array::of_level("5", 4, &["nvs"]);
    array.serve(&[]);
    array.asks(&["fail", "tank", "1"]);
    let new: Vec<String> = (0..16).map(|n| array.path(&format!("n{n}"))).collect();
    // All are connected before any asks: they find the place free at the same time.
    let connect = |path: &String| {
        let file = std::fs::File::create_new(path).expect("created");
        file.set_len(32 << 20).expect("of the size");
        UnixStream::connect(array.path("tank.control")).expect("connected")
    };
    let mut asked: Vec<UnixStream> = new.iter().map(connect).collect();
    for (stream, path) in asked.iter_mut().zip(&new) {
        writeln!(stream, "{{\"command\":\"replace\",\"old\":\"1\",\"new\":\"{path}\"}}")
            .expect("sent");
    }
    let answer = |stream| {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("an answer");
        !line.starts_with("{\"error\"")
    };
    let ended: Vec<bool> = asked.into_iter().map(answer).collect();
    assert_eq!(ended.iter().filter(|won| **won).count(), 1, "{ended:?}");
    let config = std::fs::read_to_string(array.path("tank.toml")).expect("read");
    for (path, won) in new.iter().zip(ended) {
        assert_eq!(config.contains(&format!("{path}\"")), won, "{path}: {config}");
        if !won {
            let bytes = std::fs::read(path).expect("read");
            assert!(bytes[..1 << 20].iter().all(|byte| *byte == 0), "{path} is not empty");
        }
    }
    becomes_clean(&array);
}
