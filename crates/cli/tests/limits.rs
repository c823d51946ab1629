//! Many clients of a served array at once: NBD, the page, the control socket.

mod common;

use common::array::{Array, status};
use common::http::{address, get};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn resident_mib(array: &Array) -> u64 {
    let pid = array.server.as_ref().expect("served").id();
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("read");
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("pages");
    (pages * 4096) >> 20
}

/// The most that was resident at any time.
fn peak_mib(array: &Array) -> u64 {
    let pid = array.server.as_ref().expect("served").id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("read");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a line");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    kib.expect("a number") >> 10
}

/// A client in the transmission phase, simple replies.
fn opened(array: &Array) -> UnixStream {
    let mut stream = UnixStream::connect(array.path("nbd.sock")).expect("connected");
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(b"IHAVEOPT");
    bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 4]);
    bytes.extend_from_slice(b"tank");
    stream.write_all(&bytes).expect("sent");
    stream.read_exact(&mut [0; 28]).expect("greeting and export");
    stream
}

/// Asks for 8 MiB again and again, and takes nothing.
fn glutton(array: &Array) -> UnixStream {
    let mut stream = opened(array);
    stream.set_write_timeout(Some(Duration::from_millis(50))).expect("set");
    for cookie in 0..64u64 {
        if stream.write_all(&request(0, cookie, 0, 8 << 20)).is_err() {
            break;
        }
    }
    stream
}

/// A load that must succeed, whatever other clients do.
fn good_load(array: &Array) {
    let uri = array.uri();
    let words = ["bench", &uri, "--rw", "randrw", "--depth", "4", "--time", "500ms"];
    common::succeeds(&[&words[..], &["--timeout", "3s"]].concat());
}

#[test]
fn clients_that_never_read_do_not_take_the_memory() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    good_load(&array);
    let before = resident_mib(&array);
    let gluttons: Vec<UnixStream> = (0..24).map(|_| glutton(&array)).collect();
    std::thread::sleep(Duration::from_secs(1));
    let most = before + 128 + 64 + 96;
    let now = resident_mib(&array);
    assert!(now < most, "{now} MiB, before {before} MiB");
    good_load(&array);
    assert!(resident_mib(&array) < most);
    drop(gluttons);
}

/// A request of NBD without payload, simple.
fn request(kind: u8, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
    request.extend_from_slice(&[0, 0, 0, kind]);
    request.extend_from_slice(&cookie.to_be_bytes());
    request.extend_from_slice(&offset.to_be_bytes());
    request.extend_from_slice(&length.to_be_bytes());
    request
}

/// Many come at once, and each begins and ends within a page: its zeros are written as bytes.
#[test]
fn zeros_over_parts_of_pages_do_not_take_the_memory() {
    const ZEROES: u8 = 6;
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    good_load(&array);
    let before = peak_mib(&array);
    let mut stream = opened(&array);
    let zeros = |cookie| request(ZEROES, cookie, 1, (1 << 20) - 4096);
    let requests: Vec<u8> = (0..2000).flat_map(zeros).collect();
    stream.write_all(&requests).expect("sent");
    let mut answers = vec![0; 2000 * 16];
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream.read_exact(&mut answers).expect("answered");
    assert!(answers.chunks(16).all(|answer| answer[4..8] == [0; 4]), "without errors");
    let now = peak_mib(&array);
    assert!(now < before + 128 + 64 + 96, "{now} MiB, before {before} MiB");
}

#[test]
fn connections_that_do_nothing_lock_nobody_out() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let half: Vec<UnixStream> =
        (0..300).map(|_| UnixStream::connect(array.path("nbd.sock")).expect("connected")).collect();
    good_load(&array);
    drop(half);
    let idle: Vec<UnixStream> = (0..256).map(|_| opened(&array)).collect();
    // Unused for as long as one may be that is about to be used.
    std::thread::sleep(Duration::from_millis(10_500));
    good_load(&array);
    drop(idle);
}

#[test]
fn half_open_connections_do_not_hide_whether_it_is_ready() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&["--http", "127.0.0.1:0"]);
    let address = address(&array);
    common::http::until(10, "ready", || (get(&address, "/readyz").0 == 200).then_some(()));
    let half: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stream = TcpStream::connect(&address).expect("connected");
            if n % 2 == 0 {
                stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x").expect("sent");
            }
            stream
        })
        .collect();
    for path in ["/readyz", "/healthz", "/metrics"] {
        let began = Instant::now();
        assert_eq!(get(&address, path).0, 200, "{path}");
        assert!(began.elapsed() < Duration::from_secs(2), "{path}: {:?}", began.elapsed());
    }
    drop(half);
}

#[test]
fn the_control_socket_has_a_limit_and_says_so() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let connect = || UnixStream::connect(array.path("tank.control")).expect("connected");
    let idle: Vec<UnixStream> = (0..64).map(|_| connect()).collect();
    let mut more = connect();
    more.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    let mut line = String::new();
    writeln!(more, "{{\"command\":\"status\"}}").expect("sent");
    BufReader::new(more).read_line(&mut line).expect("an answer");
    assert!(line.contains("64 commands") && line.contains("try again"), "{line}");
    drop(idle);
    let end = Instant::now() + Duration::from_secs(5);
    let words = ["status", "tank", "--config-dir", &array.path("")];
    while !common::destage(&words).status.success() {
        assert!(Instant::now() < end, "no place is free again");
    }
    assert_eq!(status(&array)["state"], "clean");
    // A client that drips its request is disconnected in time.
    let mut slow = connect();
    slow.set_read_timeout(Some(Duration::from_secs(15))).expect("set");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(14) && slow.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(began.elapsed() < Duration::from_secs(13), "{:?}", began.elapsed());
}
