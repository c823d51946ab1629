//! Clients that mean harm, while a good one is served. One test: it counts the descriptors and the
//! memory of the whole process.
#![allow(missing_docs)]

mod common;

use common::{Rng, eventually, opened, read, request, resident_bytes, serve, write};
use destage_client::Client;
use destage_nbd::Mode;
use destage_nbd::request::Request;
use destage_server::backends::Ram;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SIZE: u64 = 256 << 20;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("listed").count()
}

/// Sends what it can: the server may hang up at any byte.
fn throw(stream: &mut UnixStream, bytes: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("set");
    let _ = stream.write_all(bytes);
}

fn random_bytes(path: &Path, rng: &mut Rng) {
    for round in 0..40 {
        let mut stream = if round % 2 == 0 {
            UnixStream::connect(path).expect("connects")
        } else {
            opened(path)
        };
        let count = 1 + rng.below(5_000) as usize;
        let bytes = rng.bytes(count);
        throw(&mut stream, &bytes);
    }
    // Good requests with random fields.
    for _ in 0..40 {
        let mut stream = opened(path);
        for cookie in 0..50 {
            let (kind, offset) = (rng.below(9) as u16, rng.below(SIZE * 2));
            let length = rng.below(100_000) as u32;
            throw(&mut stream, &request(kind, cookie, offset, length));
        }
    }
}

fn half_requests(path: &Path, rng: &mut Rng) {
    for _ in 0..40 {
        let mut stream = opened(path);
        let whole = [request(1, 1, 0, 300_000), rng.bytes(300_000)].concat();
        let cut = rng.below(whole.len() as u64 - 1) as usize;
        throw(&mut stream, &whole[..cut]);
    }
}

/// Returns streams that are still open.
fn absurd_lengths(path: &Path) -> Vec<UnixStream> {
    let mut kept = Vec::new();
    for kind in 0..9 {
        for (offset, length) in [
            (0, u32::MAX),
            (u64::MAX, 1),
            (u64::MAX, u32::MAX),
            (SIZE - 1, 2),
            (0, 0),
            (0, 64 << 20),
        ] {
            let mut stream = opened(path);
            throw(&mut stream, &request(kind, 1, offset, length));
            kept.push(stream);
        }
    }
    kept
}

fn leave_within_replies(path: &Path) {
    for _ in 0..20 {
        let mut stream = opened(path);
        for cookie in 0..16 {
            throw(&mut stream, &request(0, cookie, 0, 1 << 20));
        }
        let mut some = [0; 100_000];
        let _ = stream.read(&mut some);
    }
}

/// Asks for 64 GiB in all and reads nothing.
fn never_read(path: &Path) -> Vec<UnixStream> {
    let mut kept = Vec::new();
    for _ in 0..4 {
        let mut stream = opened(path);
        let many: Vec<u8> = (0..1_000).flat_map(|cookie| request(0, cookie, 0, 16 << 20)).collect();
        throw(&mut stream, &many);
        // And errors, whose texts are replies too.
        let bad: Vec<u8> = (0..5_000).flat_map(|cookie| request(77, cookie, 0, 0)).collect();
        throw(&mut stream, &bad);
        kept.push(stream);
    }
    kept
}

#[test]
fn a_hostile_client_costs_nothing_but_itself() {
    let change = |settings: &mut destage_server::Settings| {
        settings.handshake_time = Duration::from_millis(500);
        settings.connection_bytes = 8 << 20;
        settings.connections_max = 100;
    };
    let server = serve(SIZE, change, Ram::default);
    let path = server.socket();
    let (end, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut good = Client::connect(&server.uri(), Mode::Structured).expect("connects");
    // Once over all of it, so that the disk's own memory does not grow later.
    let part = vec![1; 16 << 20];
    for at in 0..SIZE >> 24 {
        good.call(write(at << 24, part.len()), &part).expect("WRITE");
    }
    drop(part);
    let (fds, memory) = (descriptors(), resident_bytes());
    let worker = {
        let (end, served) = (end.clone(), served.clone());
        std::thread::spawn(move || {
            let mut rng = Rng(9);
            while !end.load(Ordering::Relaxed) {
                let bytes = rng.bytes(3_000);
                let offset = (128 << 20) + rng.below(100 << 20);
                good.call(write(offset, bytes.len()), &bytes).expect("WRITE");
                let got = good.call(read(offset, 3_000), &[]).expect("READ");
                // Random requests of the others may write there as well.
                assert_eq!(got.len(), bytes.len());
                served.fetch_add(1, Ordering::Relaxed);
            }
            good
        })
    };
    let still_serves = |what: &str| {
        let before = served.load(Ordering::Relaxed);
        eventually(what, || served.load(Ordering::Relaxed) > before + 20);
    };
    let mut rng = Rng(4);
    random_bytes(&path, &mut rng);
    still_serves("service next to random bytes");
    half_requests(&path, &mut rng);
    still_serves("service next to half requests");
    let kept = absurd_lengths(&path);
    still_serves("service next to absurd lengths");
    drop(kept);
    leave_within_replies(&path);
    still_serves("service next to vanished readers");
    let kept = never_read(&path);
    still_serves("service next to those who never read");
    // Four connections of at most 8 MiB and one request each: what they asked for is 64 GiB.
    let most = memory + 4 * (8 << 20) + 4 * (16 << 20) + (64 << 20);
    assert!(resident_bytes() < most, "{} of {memory} bytes", resident_bytes());
    drop(kept);
    eventually("all but the good one are gone", || server.remote.connections() == 1);
    // The limit, and the time for handshakes.
    let idle: Vec<_> = (0..150).map(|_| UnixStream::connect(&path).expect("connects")).collect();
    eventually("the limit is reached", || server.remote.connections() == 100);
    still_serves("service next to the silent");
    eventually("the silent are disconnected", || server.remote.connections() == 1);
    drop(idle);
    end.store(true, Ordering::Relaxed);
    let mut good = worker.join().expect("the good client was served well");
    eventually("descriptors are closed", || descriptors() == fds);
    assert!(resident_bytes() < memory + (64 << 20), "{} of {memory} bytes", resident_bytes());
    let command = read(0, 512);
    good.put(&Request { cookie: 1, command }, &[]).expect("put");
    good.pump(None, |_| {}).expect("still there");
}
