//! Members that other servers serve over NBD: servers that are killed and come back, without what
//! they had not flushed, as another disk, or not at all.

mod common;

use common::array::{Array, has_alarm, status};
use destage_block::{Answer, Backend, Driver, Payload, Request, RequestError};
use destage_engine::units;
use destage_server::{FrontEnd, Port, Remote, Server, Settings, Token};
use std::collections::VecDeque;
use std::os::unix::net::UnixListener;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const BYTES: usize = 32 << 20;

/// A disk with a volatile cache: what was written since the last flush is lost when it is killed.
/// A flush takes its time, so that a kill mostly comes before its end.
struct Disk {
    durable: Arc<Mutex<Vec<u8>>>,
    cache: Vec<u8>,
    dirty: Vec<std::ops::Range<usize>>,
    flushes: VecDeque<(units::Instant, Token)>,
    /// It answers every request with ESHUTDOWN.
    refuses: Arc<AtomicBool>,
}

const FLUSH: units::Duration = units::Duration(30_000_000);

impl Backend<Port> for Disk {
    fn request(&mut self, port: &mut Port, token: Token, request: Request, payload: Payload<'_>) {
        if self.refuses.load(Ordering::Relaxed) {
            let (error, text) = (RequestError::ShuttingDown, "the server is ending");
            port.reply(token, Answer::Error { error, text });
            return;
        }
        match request {
            Request::Read { offset, length } => {
                let part = offset as usize..offset as usize + length as usize;
                port.reply(token, Answer::Bytes(&self.cache[part]));
                return;
            }
            Request::Write { offset, .. } => {
                let at = offset as usize;
                let part = at..at + payload.bytes().len();
                self.cache[part.clone()].copy_from_slice(payload.bytes());
                self.dirty.push(part);
            }
            _ => {
                self.flushes.push_back((port.now() + FLUSH, token));
                return;
            }
        }
        port.reply(token, Answer::Done);
    }

    fn deadline(&self) -> Option<units::Instant> {
        self.flushes.front().map(|(at, _)| *at)
    }

    fn timer(&mut self, port: &mut Port) {
        let mut durable = self.durable.lock().expect("whole");
        for part in self.dirty.drain(..) {
            durable[part.clone()].copy_from_slice(&self.cache[part]);
        }
        while self.flushes.front().is_some_and(|(at, _)| *at <= port.now()) {
            let (_, token) = self.flushes.pop_front().expect("looked at");
            port.reply(token, Answer::Done);
        }
    }
}

/// A server of such a disk, in this process.
struct Nbd {
    listen: String,
    durable: Arc<Mutex<Vec<u8>>>,
    refuses: Arc<AtomicBool>,
    running: Option<(Remote, JoinHandle<()>)>,
}

impl Nbd {
    fn new(array: &Array, name: &str) -> Nbd {
        let durable = Arc::new(Mutex::new(vec![0; BYTES]));
        let refuses = Arc::default();
        let mut nbd = Nbd { listen: array.path(name), durable, refuses, running: None };
        nbd.start();
        nbd
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.listen)
    }

    fn start(&mut self) {
        let mut export = destage_server::backends::export("", "", BYTES as u64);
        (export.fua, export.discards) = (false, false);
        let listen = format!("unix:{}", self.listen).parse().expect("an address");
        let server =
            Server::bind(Settings::new(export, vec![(FrontEnd::Nbd, listen)])).expect("bound");
        let (remote, durable) = (server.remote(), Arc::clone(&self.durable));
        let refuses = Arc::clone(&self.refuses);
        let cache = durable.lock().expect("whole").clone();
        let run = move || {
            let flushes = VecDeque::new();
            let mut disk = Disk { durable, cache, dirty: Vec::new(), flushes, refuses };
            server.run(&mut disk).expect("served");
        };
        self.running = Some((remote, std::thread::spawn(run)));
    }

    /// Ends it at once: what was not flushed is lost, and what was asked is not answered.
    fn kill(&mut self) {
        let Some((remote, thread)) = self.running.take() else { return };
        remote.hurry();
        thread.join().expect("ended");
    }

    /// Ends it as an operator does: what was asked completely is answered.
    fn stop(&mut self) {
        let Some((remote, thread)) = self.running.take() else { return };
        remote.stop();
        thread.join().expect("ended");
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An array over such disks, served.
fn over(stall_seconds: u32) -> (Array, Vec<Nbd>) {
    over_strips(stall_seconds, "64K", "4M")
}

/// The same with strips and an NVS of this size.
fn over_strips(stall_seconds: u32, strip: &str, nvs: &str) -> (Array, Vec<Nbd>) {
    let mut array = Array::empty();
    let disks: Vec<Nbd> = (0..3).map(|n| Nbd::new(&array, &format!("disk{n}.sock"))).collect();
    let nvs = format!("{},size={nvs}", array.path("nvs"));
    let uris: Vec<String> = disks.iter().map(Nbd::uri).collect();
    let settings = ["--assume-clean", "--policy", "cscan", "--rate", "linear:40/20"];
    let sizes = ["--strip", strip, "--nvs", &nvs];
    array.create_over("tank", &uris, &[&settings[..], &sizes].concat());
    array.edit("stall_seconds = 30", &format!("stall_seconds = {stall_seconds}"));
    array.serve(&[]);
    (array, disks)
}

fn load(array: &Array, log: &str, time: &str) -> Child {
    array.load(&["--time", time, "--depth", "8", "--log", log])
}

#[test]
fn a_server_that_comes_back_without_what_it_had_not_flushed_is_used_again() {
    let (mut array, mut disks) = over(20);
    let log = array.path("acked");
    let mut bench = load(&array, &log, "4s");
    for round in 0..6 {
        std::thread::sleep(Duration::from_millis(350));
        let disk = &mut disks[round % 2];
        disk.kill();
        std::thread::sleep(Duration::from_millis(100));
        disk.start();
    }
    assert!(bench.wait().expect("ended").success());
    array.asks(&["flush", "tank"]);
    let now = has_alarm(&array, "member-reconnected");
    let alarms = now["alarms"].to_string();
    assert!(alarms.contains("disk0.sock") && !alarms.contains("failed"), "{alarms}");
    assert!(!alarms.contains("member-disconnected"), "{alarms}");
    assert_eq!(now["state"], "clean");
    array.keeps(&log);
    // Whatever else was lost would show as parity that does not fit.
    array.asks(&["scrub", "tank", "--limit", "1G"]);
    // And on the disks, after they lose what they have not flushed.
    array.stop();
    for disk in &mut disks {
        disk.kill();
        disk.start();
    }
    array.serve(&[]);
    array.keeps(&log);
    array.stop();
}

#[test]
fn a_server_that_comes_back_with_another_disk_is_refused() {
    let (mut array, mut disks) = over(20);
    let log = array.path("acked");
    let mut bench = load(&array, &log, "3s");
    std::thread::sleep(Duration::from_millis(500));
    disks[1].kill();
    disks[1].durable.lock().expect("whole").fill(0);
    disks[1].start();
    let now = has_alarm(&array, "member-failed");
    let alarms = now["alarms"].to_string();
    assert!(alarms.contains("disk1.sock") && alarms.contains("another disk"), "{alarms}");
    assert_eq!(now["state"], "degraded");
    assert!(bench.wait().expect("ended").success());
    array.keeps(&log);
    assert!(disks[1].durable.lock().expect("whole").iter().all(|byte| *byte == 0), "written");
    array.stop();
}

#[test]
fn a_server_that_stays_away_fails_the_member_with_its_cause() {
    let (mut array, mut disks) = over(3);
    let log = array.path("acked");
    let mut bench = load(&array, &log, "6s");
    std::thread::sleep(Duration::from_millis(500));
    disks[2].kill();
    let killed = Instant::now();
    has_alarm(&array, "member-disconnected");
    let now = has_alarm(&array, "member-failed");
    assert!(killed.elapsed() > Duration::from_secs(1), "{:?}", killed.elapsed());
    let alarms = now["alarms"].to_string();
    assert!(alarms.contains("disk2.sock"), "{alarms}");
    assert!(alarms.contains("ECONNREFUSED") || alarms.contains("No such file"), "{alarms}");
    assert!(bench.wait().expect("ended").success());
    array.keeps(&log);
    array.stop();
}

#[test]
fn a_server_that_hangs_is_not_waited_for_when_another_answers() {
    let (mut array, mut disks) = over(20);
    let log = array.path("acked");
    let mut bench = load(&array, &log, "2s");
    std::thread::sleep(Duration::from_millis(300));
    disks[1].kill();
    // One that accepts a connection, greets nobody, and never closes it.
    let _ = std::fs::remove_file(&disks[1].listen);
    let hangs = UnixListener::bind(&disks[1].listen).expect("bound");
    let held = hangs.accept().expect("an attempt");
    drop(hangs);
    disks[1].start();
    assert!(bench.wait().expect("ended").success());
    let now = has_alarm(&array, "member-reconnected");
    assert_eq!(now["state"], "clean");
    array.keeps(&log);
    array.stop();
    drop(held);
}

#[test]
fn a_server_that_is_stopped_in_the_midst_of_large_writes_is_used_again() {
    let (mut array, mut disks) = over_strips(20, "256K", "16M");
    let words = ["--time", "3s", "--depth", "8", "--rw", "write", "--bs", "512K"];
    let mut bench = array.load(&words);
    for round in 0..8 {
        std::thread::sleep(Duration::from_millis(300));
        let disk = &mut disks[round % 3];
        disk.stop();
        disk.start();
    }
    assert!(bench.wait().expect("ended").success());
    array.asks(&["flush", "tank"]);
    let now = status(&array);
    let alarms = now["alarms"].to_string();
    assert!(alarms.contains("member-reconnected") && !alarms.contains("failed"), "{alarms}");
    assert_eq!(now["state"], "clean");
    array.asks(&["scrub", "tank", "--limit", "1G"]);
    array.stop();
}

#[test]
fn a_server_that_says_it_is_ending_is_waited_for() {
    let (mut array, mut disks) = over(20);
    let log = array.path("acked");
    let mut bench = load(&array, &log, "3s");
    for disk in &mut disks[..2] {
        std::thread::sleep(Duration::from_millis(400));
        disk.refuses.store(true, Ordering::Relaxed);
        has_alarm(&array, "member-disconnected");
        disk.stop();
        disk.refuses.store(false, Ordering::Relaxed);
        disk.start();
    }
    assert!(bench.wait().expect("ended").success());
    array.asks(&["flush", "tank"]);
    let now = status(&array);
    let alarms = now["alarms"].to_string();
    assert!(alarms.contains("member-reconnected") && !alarms.contains("failed"), "{alarms}");
    assert_eq!(now["state"], "clean");
    array.keeps(&log);
    array.asks(&["scrub", "tank", "--limit", "1G"]);
    array.stop();
}
