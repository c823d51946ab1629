//! Many clients at once: what they hold has one limit, and none of them locks the others out.
#![allow(missing_docs)]

mod common;

use common::{eventually, opened, read, request, resident_bytes, serve, write};
use destage_block::{Answer, Backend, Driver, Payload, Request};
use destage_client::Client;
use destage_nbd::Mode;
use destage_server::backends::Ram;
use destage_server::{Port, Token};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SIZE: u64 = 64 << 20;
/// The memory of the process is measured: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Asks for much and reads nothing.
fn glutton(path: &Path, bytes: u32) -> UnixStream {
    let mut stream = opened(path);
    stream.set_write_timeout(Some(Duration::from_millis(50))).expect("set");
    for cookie in 0..500u64 {
        if stream.write_all(&request(0, cookie, 0, bytes)).is_err() {
            break;
        }
    }
    stream
}

/// Works until `end` is set; returns the longest time of a request, and how many there were.
fn good(mut client: Client, end: Arc<AtomicBool>) -> std::thread::JoinHandle<(Duration, u64)> {
    std::thread::spawn(move || {
        let (mut longest, mut count) = (Duration::ZERO, 0);
        let part = vec![7; 64 << 10];
        while !end.load(Ordering::Relaxed) {
            let began = Instant::now();
            let offset = (count % 512) * (64 << 10);
            client.call(write(offset, part.len()), &part).expect("WRITE");
            // And one that is much larger than what is left.
            let length = if count % 20 == 0 { 8 << 20 } else { 4096 };
            let got = client.call(read(0, length), &[]).expect("READ");
            assert_eq!(got.len(), length as usize);
            longest = longest.max(began.elapsed());
            count += 1;
        }
        (longest, count)
    })
}

#[test]
fn clients_that_never_read_share_one_limit_and_a_good_one_goes_on() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let change = |settings: &mut destage_server::Settings| {
        settings.total_bytes = 32 << 20;
        settings.connections_max = 400;
        settings.reply_time = Duration::from_secs(2);
    };
    let server = serve(SIZE, change, Ram::default);
    let path = server.socket();
    let mut client = Client::connect(&server.uri(), Mode::Structured).expect("connects");
    let part = vec![1; 16 << 20];
    (0..SIZE >> 24).for_each(|at| drop(client.call(write(at << 24, part.len()), &part)));
    drop(part);
    let memory = resident_bytes();
    let end = Arc::new(AtomicBool::new(false));
    let worker = good(client, end.clone());
    // Large requests, and small ones of which each holds little; without a limit, 19 GB.
    let mut bad: Vec<UnixStream> = (0..24).map(|_| glutton(&path, 16 << 20)).collect();
    bad.extend((0..276).map(|_| glutton(&path, 256 << 10)));
    // The total, one request over it, 300 receive buffers and a little of each, buffers kept.
    let most = memory + (32 << 20) + (16 << 20) + 300 * (192 << 10) + (64 << 20);
    let now = resident_bytes();
    assert!(now < most, "{} MiB of {} MiB", now >> 20, most >> 20);
    // A new one is served next to all of them.
    let mut new = Client::connect(&server.uri(), Mode::Structured).expect("connects");
    let began = Instant::now();
    (0..40).for_each(|_| assert_eq!(new.call(read(0, 65_536), &[]).expect("READ").len(), 65_536));
    // It reads, so that it may ask for more.
    assert_eq!(new.call(read(0, 8 << 20), &[]).expect("READ").len(), 8 << 20);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    // Those who take nothing are disconnected while the limit is reached.
    eventually("room", || server.remote.connections() < 290);
    std::thread::sleep(Duration::from_millis(500));
    end.store(true, Ordering::Relaxed);
    let (longest, count) = worker.join().expect("the good client was served well");
    assert!(longest < Duration::from_secs(3) && count > 50, "{longest:?}, {count}");
    assert!(resident_bytes() < most);
    drop(bad);
}

#[test]
fn connections_that_are_not_used_lock_nobody_out() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let change = |settings: &mut destage_server::Settings| {
        settings.connections_max = 40;
        settings.unused_time = Duration::from_millis(300);
    };
    let server = serve(SIZE, change, Ram::default);
    let path = server.socket();
    let mut client = Client::connect(&server.uri(), Mode::Structured).expect("connects");
    client.call(read(0, 4096), &[]).expect("READ");
    // Half open: each new one takes the place of the oldest.
    let half: Vec<UnixStream> =
        (0..300).map(|_| UnixStream::connect(&path).expect("connects")).collect();
    eventually("the limit", || server.remote.connections() == 40);
    let mut second = Client::connect(&server.uri(), Mode::Structured).expect("next to half-open");
    second.call(read(0, 4096), &[]).expect("READ");
    drop(half);
    eventually("they are gone", || server.remote.connections() == 2);
    // Open and never used.
    let unused: Vec<UnixStream> = (0..38).map(|_| opened(&path)).collect();
    assert_eq!(server.remote.connections(), 40);
    std::thread::sleep(Duration::from_millis(400));
    let mut third = Client::connect(&server.uri(), Mode::Structured).expect("next to unused ones");
    third.call(read(0, 4096), &[]).expect("READ");
    // Those who work keep their place.
    for client in [&mut client, &mut second] {
        client.call(read(0, 4096), &[]).expect("READ");
    }
    drop(unused);
}

/// Announces a WRITE of this many bytes, and sends only a little of it.
fn half_a_write(path: &Path, bytes: u32) -> UnixStream {
    let mut stream = opened(path);
    stream.write_all(&request(1, 7, 0, bytes)).expect("sent");
    stream.write_all(&[1; 1000]).expect("sent");
    stream
}

#[test]
fn a_client_that_stops_in_a_write_keeps_nobody_waiting_for_ever() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let change = |settings: &mut destage_server::Settings| {
        settings.total_bytes = 8 << 20;
        settings.reply_time = Duration::from_millis(300);
    };
    let server = serve(SIZE, change, Ram::default);
    let mut bad = half_a_write(&server.socket(), 32 << 20);
    let mut client = Client::connect(&server.uri(), Mode::Structured).expect("connects");
    client.call(read(0, 4096), &[]).expect("a small READ is served in any case");
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let got = client.call(read(0, 1 << 20), &[]).map(|bytes| bytes.len());
        let _ = sender.send(got.map_err(|error| error.to_string()));
    });
    let got = answer.recv_timeout(Duration::from_secs(20)).expect("the READ is answered");
    assert_eq!(got, Ok(1 << 20));
    // The one that stopped was disconnected.
    bad.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    assert_eq!(bad.read(&mut [0; 16]).unwrap_or(0), 0);
    // One that sends slowly, and something all the time, is not.
    let mut slow = half_a_write(&server.socket(), 2 << 20);
    let mut other = half_a_write(&server.socket(), 32 << 20);
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        slow.write_all(&[2; 1000]).expect("sent");
    }
    slow.write_all(&vec![2; (2 << 20) - 21_000]).expect("sent");
    slow.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    slow.read_exact(&mut [0; 16]).expect("the WRITE is answered");
    let _ = other.read(&mut [0; 16]);
}

/// A client takes no replies any more, and stops in a WRITE: when the reply to a request before it
/// cannot be sent, the connection ends. What the WRITE counted for ends with it.
#[test]
fn a_write_that_a_broken_connection_leaves_counts_no_longer() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server = serve(SIZE, |settings| settings.total_bytes = 8 << 20, Ram::default);
    for _ in 0..8 {
        let mut stream = opened(&server.socket());
        stream.shutdown(std::net::Shutdown::Read).expect("shut");
        let refused = request(0, 1, 2 * SIZE, 4096);
        stream.write_all(&[refused, request(1, 2, 0, 2 << 20)].concat()).expect("sent");
        eventually("it is disconnected", || server.remote.connections() == 0);
    }
    let patience = Duration::from_secs(10);
    let mut client = Client::connect_within(&server.uri(), Mode::Structured, patience);
    let client = client.as_mut().expect("connects");
    assert_eq!(client.call(read(0, 8 << 20), &[]).expect("READ").len(), 8 << 20);
}

#[test]
fn what_a_client_that_was_sent_away_had_asked_for_reaches_no_other() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let change = |settings: &mut destage_server::Settings| {
        settings.total_bytes = 8 << 20;
        settings.reply_time = Duration::from_millis(200);
    };
    let server = serve(SIZE, change, Ram::default);
    // One reply is being sent, and the next request waits for room.
    let bad = glutton(&server.socket(), 4 << 20);
    eventually("it is disconnected", || server.remote.connections() == 0);
    let mut client = Client::connect(&server.uri(), Mode::Structured).expect("connects");
    assert_eq!(client.call(read(0, 1 << 20), &[]).expect("READ").len(), 1 << 20);
    drop(bad);
}

/// Answers all requests of a turn at its end, and counts those that may have come earlier.
struct Late(Vec<Token>, Arc<AtomicU64>);

impl Backend<Port> for Late {
    fn request(&mut self, _: &mut Port, token: Token, _: Request, _: Payload<'_>) {
        self.0.push(token);
    }

    fn held_back(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    fn turn(&mut self, port: &mut Port) {
        self.0.drain(..).for_each(|token| port.reply(token, Answer::Done));
    }
}

#[test]
fn a_backend_learns_that_requests_waited_for_the_limit_of_their_client() {
    for (connection_bytes, waits) in [(64 << 20, false), (32 << 10, true)] {
        let counted = Arc::new(AtomicU64::new(0));
        let change = |settings: &mut destage_server::Settings| {
            settings.connection_bytes = connection_bytes;
        };
        let late = Late(Vec::new(), counted.clone());
        let server = serve(SIZE, change, move || late);
        let mut stream = opened(&server.socket());
        let mut bytes = Vec::new();
        for cookie in 0..64 {
            bytes.extend(request(1, cookie, 0, 8 << 10));
            bytes.extend([1; 8 << 10]);
        }
        stream.write_all(&bytes).expect("sent");
        stream.read_exact(&mut [0; 64 * 16]).expect("64 answers");
        assert_eq!(counted.load(Ordering::Relaxed) > 0, waits, "{connection_bytes}");
    }
}

/// Answers at once, and notes the most requests of a turn.
struct Noting(u64, Arc<AtomicU64>);

impl Backend<Port> for Noting {
    fn request(&mut self, port: &mut Port, token: Token, _: Request, _: Payload<'_>) {
        self.0 += 1;
        port.reply(token, Answer::Done);
    }

    fn turn(&mut self, _: &mut Port) {
        self.1.fetch_max(core::mem::take(&mut self.0), Ordering::Relaxed);
    }
}

/// 2,000 requests come at once, and take long: other clients are served in between.
#[test]
fn one_client_does_not_have_a_turn_for_all_that_it_sends() {
    const FLUSH: u16 = 3;
    const TRIM: u16 = 4;
    for (kind, length, most) in [(FLUSH, 0, 256), (TRIM, 4096, 8)] {
        let noted = Arc::new(AtomicU64::new(0));
        let noting = Noting(0, noted.clone());
        let server = serve(SIZE, |_| {}, move || noting);
        let mut stream = opened(&server.socket());
        let requests: Vec<u8> = (0..2000).flat_map(|n| request(kind, n, 0, length)).collect();
        stream.write_all(&requests).expect("sent");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        stream.read_exact(&mut [0; 2000 * 16]).expect("2,000 answers");
        assert_eq!(noted.load(Ordering::Relaxed), most, "of kind {kind}");
    }
}

/// Always owes an answer, as disks do that a busy client writes through to; in the end 64 at once.
#[derive(Default)]
struct Owing {
    owed: Vec<Token>,
    answered: usize,
    owed_many: bool,
}

impl Backend<Port> for Owing {
    fn request(&mut self, _: &mut Port, token: Token, _: Request, _: Payload<'_>) {
        self.owed.push(token);
    }

    fn turn(&mut self, port: &mut Port) {
        self.owed_many |= self.answered > 300 && self.owed.len() >= 64;
        let kept = match self.answered {
            _ if self.owed_many => 0,
            0..=300 => 1,
            _ => self.owed.len(),
        };
        for token in self.owed.drain(..self.owed.len().saturating_sub(kept)) {
            port.reply(token, Answer::Done);
            self.answered += 1;
        }
    }
}

#[test]
fn a_client_that_always_waits_for_some_answer_may_have_many_requests_in_flight() {
    let server = serve(SIZE, |_| {}, Owing::default);
    let mut stream = opened(&server.socket());
    for timeout in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
        timeout(&stream, Some(Duration::from_secs(20))).expect("set");
    }
    for cookie in 0..600 {
        stream.write_all(&request(1, cookie, 0, 4096)).expect("sent");
        stream.write_all(&[1; 4096]).expect("sent");
    }
    stream.read_exact(&mut [0; 600 * 16]).expect("600 answers");
}
