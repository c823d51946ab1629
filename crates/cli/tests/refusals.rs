//! What a server or a start refuses, and with which words.

mod common;

use common::array::Array;
use common::http::{address, post, token};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

#[test]
fn a_start_that_is_refused_names_the_cause_and_a_way_that_works() {
    let array = Array::create(&["nvs"]);
    let away = |name: &str| {
        let (path, hidden) = (array.path(name), array.path(&format!("hidden-{name}")));
        std::fs::rename(path, hidden).expect("renamed");
    };
    let back = |name: &str| {
        let (path, hidden) = (array.path(name), array.path(&format!("hidden-{name}")));
        std::fs::rename(hidden, path).expect("renamed");
    };
    // One that the level can do without.
    away("d1");
    let error = array.refuses_to_serve();
    assert!(error.contains(&array.path("d1")) && error.contains("No such file"), "{error}");
    assert!(error.contains("--degraded"), "{error}");
    // Two: without both there is no start, whatever is given.
    away("d2");
    let error = array.refuses_to_serve();
    assert!(error.contains(&array.path("d1")) && error.contains(&array.path("d2")), "{error}");
    assert!(error.contains("No such file") && !error.contains("--degraded"), "{error}");
    back("d1");
    back("d2");
    // The only NVS device.
    away("nvs");
    let error = array.refuses_to_serve();
    assert!(error.contains(&array.path("nvs")) && error.contains("No such file"), "{error}");
    assert!(error.contains("may hold writes") && !error.contains("--degraded"), "{error}");
    back("nvs");
    // A server that is away.
    let uri = format!("nbd+unix:///x?socket={}", array.path("nobody"));
    array.edit(&array.path("d1"), &uri);
    let error = array.refuses_to_serve();
    assert!(error.contains(&uri) && error.contains("--degraded"), "{error}");
    // A level without redundancy.
    let single = Array::of_level("0", 2, &["nvs"]);
    std::fs::rename(single.path("d1"), single.path("away")).expect("renamed");
    let error = single.refuses_to_serve();
    assert!(error.contains(&single.path("d1")) && error.contains("No such file"), "{error}");
    assert!(!error.contains("--degraded"), "{error}");
}

#[test]
fn the_odd_device_out_is_the_one_that_is_named() {
    for place in ["d0", "d1", "d2"] {
        let array = Array::create(&["nvs"]);
        array.create_as("other", "o", &["nvs-other"]);
        let stranger = place.replace('d', "o");
        array.edit(&format!("/{place}\""), &format!("/{stranger}\""));
        let error = array.refuses_to_serve();
        let path = array.path(&stranger);
        assert!(error.contains("another array"), "{error}");
        assert!(error.starts_with(&format!("destage: {path}")), "{place}: {error}");
    }
}

#[test]
fn requests_with_unknown_keys_or_nothing_to_set_are_refused() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&["--http", "127.0.0.1:0"]);
    let (address, token) = (address(&array), token(&array));
    for (command, body, named) in [
        ("set", "{\"polcy\":\"wow\"}", "polcy"),
        ("set", "{\"policy\":\"wow\",\"speed\":1}", "speed"),
        ("set", "{}", "nothing to set"),
        ("set", "{\"policy\":null}", "nothing to set"),
        ("set", "{\"policy\":7}", "expected a string"),
        ("set", "{\"command\":\"stop\",\"rate\":\"fixed\"}", "command"),
        ("flush", "{\"drain\":true}", "drain"),
        ("fail", "{}", "disk"),
        ("replace", "{\"old\":\"1\"}", "new"),
    ] {
        let (code, text) = post(&address, command, &token, "", body);
        assert_eq!(code, 400, "{command} {body}: {text}");
        assert!(text.contains(named), "{command} {body}: {text}");
    }
    // The control socket refuses the same.
    for (request, named) in [
        ("{\"command\":\"set\",\"polcy\":\"wow\"}", "polcy"),
        ("{\"command\":\"set\"}", "nothing to set"),
        ("{\"command\":\"nonsense\"}", "must be one of status"),
        ("{\"command\":\"set\",\"read-cache-size\":\"1G\"}", "u64"),
        ("{\"command\":\"status\",\"verbose\":true}", "verbose"),
        ("{\"command\":\"stop\"}", "drain"),
        ("[]", "JSON object"),
    ] {
        let mut stream = UnixStream::connect(array.path("tank.control")).expect("connected");
        writeln!(stream, "{request}").expect("sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("an answer");
        assert!(line.starts_with("{\"error\"") && line.contains(named), "{request}: {line}");
    }
    assert_eq!(common::array::status(&array)["policy"], "stow");
}

#[test]
fn a_wrong_token_is_not_answered_with_unlocked() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&["--http", "127.0.0.1:0"]);
    let (address, token) = (address(&array), token(&array));
    let (code, text) = post(&address, "unlock", "0000000000000000", "", "{}");
    assert!(code == 401 && text.contains("the token is wrong"), "{code} {text}");
    assert_eq!(post(&address, "unlock", &token, "", "{}"), (200, "{\"ok\":true}\n".to_string()));
    assert_eq!(post(&address, "unlock", &token, "", "{\"x\":1}").0, 400);
    let request = format!(
        "POST /api/unlock HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    let (code, text) = common::http::ask(&address, &request);
    assert!(code == 401 && text.contains("the token is missing"), "{code} {text}");
    let page = common::http::get(&address, "/page.js").1;
    assert!(page.contains("post(\"unlock\","), "the page asks for it");
}
