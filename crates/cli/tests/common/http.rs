//! Requests to the page of a served array.
#![allow(dead_code, reason = "each test file uses a part of it")]

use super::array::Array;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The address of the page that a server named.
pub fn address(array: &Array) -> String {
    let line = array.said.lines().find(|line| line.contains("page on http://")).expect("a page");
    let after = line.split("http://").nth(1).expect("an address");
    after.split('/').next().expect("its end").to_string()
}

pub fn ask(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    // A server that refuses may close before all was sent.
    let _ = stream.read_to_string(&mut text);
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or(("", ""));
    (status.unwrap_or_else(|| panic!("{text:?} is not an answer")), body.to_string())
}

pub fn get(address: &str, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"))
}

/// The value of a metric that has no label but the array's.
pub fn metric(address: &str, name: &str) -> Option<f64> {
    let text = get(address, "/metrics").1;
    let begin = format!("destage_{name}{{array=\"tank\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok())
}

pub fn post(address: &str, command: &str, token: &str, more: &str, body: &str) -> (u16, String) {
    let length = body.len();
    ask(
        address,
        &format!(
            "POST /api/{command} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\nauthorization: Bearer {token}\r\n\
             content-length: {length}\r\n{more}\r\n{body}"
        ),
    )
}

pub fn token(array: &Array) -> String {
    std::fs::read_to_string(array.path("tank.token")).expect("a token").trim().to_string()
}

/// Waits until there is something; panics when the time is over.
pub fn until<T>(seconds: u64, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        if let Some(value) = found() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("waited {seconds} s for {what}");
}
