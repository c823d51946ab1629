//! A modelled disk in real time against the model in virtual time.
#![allow(missing_docs)]

mod common;

use common::{Rng, read, serve, write};
use destage_block::{Backend, Driver, Outcome, Payload, Request as Asked};
use destage_client::Heard;
use destage_disk::{Disk, DiskOp, find};
use destage_engine::units::Instant;
use destage_nbd::request::{Command, Request};
use destage_server::backends::{DiskRequest, Emulated, Emulator};

/// When each of some reads and writes of 4 KiB is done, from the disk alone: when they are asked,
/// their address in units of 512 bytes, and whether they write.
fn alone(name: &str, asks: &[(u64, u64, bool)]) -> Vec<u64> {
    let mut disk = Disk::new(&find(name).expect("a built-in disk"));
    let sector = u64::from(disk.sector_bytes());
    let mut done = vec![0; asks.len()];
    let mut busy: Option<Instant> = None;
    let mut asked = asks.iter().enumerate().peekable();
    loop {
        let next = asked.peek().map(|(_, (at, ..))| Instant(*at));
        match (busy, next) {
            (Some(at), next) if next.is_none_or(|next| at <= next) => {
                done[disk.finish(at).op.tag as usize] = at.0;
                busy = disk.start(at);
            }
            (_, Some(at)) => {
                let (tag, (_, lbn, write)) = asked.next().expect("was there");
                let (lbn, sectors) = (lbn * 512 / sector, (4096 / sector) as u32);
                disk.submit(at, DiskOp { lbn, sectors, write: *write, tag: tag as u64 });
                busy = busy.or_else(|| disk.start(at));
            }
            _ => return done,
        }
    }
}

#[test]
fn its_moments_are_those_of_the_disk() {
    for name in ["stow-ref", "cheetah9lp", "ibm18es", "hp-c2200a"] {
        let spec = find(name).expect("a built-in disk");
        let mut rng = Rng(5);
        let mut emulator = Emulator::new(&spec, 1.0);
        let sectors = emulator.bytes() / 512 - 8;
        let mut at = 0;
        let draw = |_| {
            at += rng.below(8_000_000);
            (at, rng.below(sectors), rng.below(2) == 0)
        };
        let asks: Vec<(u64, u64, bool)> = (0..2_000).map(draw).collect();
        let wanted = alone(name, &asks);
        let mut got = vec![0; asks.len()];
        for (at, lbn, write) in &asks {
            // Looked at late and seldom: the moments must not depend on it.
            let ask = DiskRequest::Move {
                offset: lbn * 512,
                length: 4096,
                write: *write,
                durable: false,
            };
            emulator.request(Instant(*at), ask);
        }
        while let Some(due) = emulator.due() {
            let (key, moment) = emulator.done(due).expect("due");
            got[key as usize] = moment.0;
        }
        assert_eq!(got, wanted, "{name}");
    }
}

/// Whether a request of 4 KiB at this page writes, at time 1 us.
fn ask(emulator: &mut Emulator, page: u64, write: bool, durable: bool) -> u64 {
    let request = DiskRequest::Move { offset: page * 4096, length: 4096, write, durable };
    emulator.request(Instant(1_000), request)
}

/// All keys with the moments at which they are done, in order.
fn run(emulator: &mut Emulator) -> Vec<(u64, Instant)> {
    let mut order = Vec::new();
    while let Some(due) = emulator.due() {
        order.extend(emulator.done(due));
    }
    order
}

#[test]
fn a_disk_without_a_cache_has_nothing_to_flush() {
    let spec = find("stow-ref").expect("a built-in disk");
    let moments = |flushes: bool| {
        let mut emulator = Emulator::new(&spec, 10.0);
        let mut rng = Rng(6);
        let mut flushed = Vec::new();
        for number in 0..40 {
            ask(&mut emulator, rng.below(1_000_000), number % 2 == 0, true);
            if flushes {
                flushed.push(emulator.request(Instant(1_000), DiskRequest::Flush));
            }
        }
        let all = run(&mut emulator);
        let (now, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(key, _)| flushed.contains(key));
        assert_eq!(now.len(), flushed.len());
        // What it has answered is on the medium; it waits for nothing.
        assert!(now.iter().all(|(_, at)| *at == Instant(10_000)), "{now:?}");
        others.into_iter().map(|(_, at)| at).collect::<Vec<_>>()
    };
    assert_eq!(moments(true), moments(false), "flushes cost no time");
}

#[test]
fn a_flush_empties_the_cache_before_the_queue_goes_on() {
    let spec = find("cheetah9lp").expect("a built-in disk");
    let mut emulator = Emulator::new(&spec, 1.0);
    let mut rng = Rng(6);
    let writes: Vec<u64> =
        (0..20).map(|_| ask(&mut emulator, rng.below(1_000_000), true, false)).collect();
    let answered = run(&mut emulator);
    assert_eq!(answered.len(), writes.len());
    let last = answered.last().expect("some").1;
    let first_read = emulator.request(
        last,
        DiskRequest::Move { offset: 1 << 32, length: 4096, write: false, durable: false },
    );
    let flush = emulator.request(last, DiskRequest::Flush);
    let second_read = emulator.request(
        last,
        DiskRequest::Move { offset: 1 << 31, length: 4096, write: false, durable: false },
    );
    let order: Vec<u64> = run(&mut emulator).into_iter().map(|(key, _)| key).collect();
    assert_eq!(order, [first_read, flush, second_read]);
}

#[test]
fn fua_and_flush_cost_what_the_model_says() {
    let spec = find("st2000dm006").expect("a built-in disk");
    let mut emulator = Emulator::new(&spec, 1.0);
    let mut now = Instant(1_000);
    let mut took = |request| {
        let begin = now;
        let key = emulator.request(now, request);
        while let Some(due) = emulator.due() {
            now = due;
            if emulator.done(due).is_some_and(|(done, _)| done == key) {
                return now.since(begin).0;
            }
        }
        panic!("never done");
    };
    let write = |page: u64, durable| DiskRequest::Move {
        offset: page * 4096,
        length: 4096,
        write: true,
        durable,
    };
    const MS: u64 = 1_000_000;
    assert_eq!(took(DiskRequest::Flush), 0, "nothing to write");
    let early: u64 = (0..8).map(|i| took(write(i * 50_000_000 % 400_000_000, false))).sum();
    assert!(early < 8 * MS, "{early} ns: acknowledged early");
    let flush = took(DiskRequest::Flush);
    assert!((80 * MS..200 * MS).contains(&flush), "{flush} ns");
    let early = took(write(1, false));
    let durable = took(write(300_000_000, true));
    assert!(early < MS && durable > 2 * MS, "{early} ns, with FUA {durable} ns");
}

#[test]
fn a_power_cut_loses_what_was_not_flushed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let open = || {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).open(&path).expect("a file")
    };
    open().set_len(1 << 30).expect("room");
    let file = open();
    let (sender, lost) = std::sync::mpsc::channel();
    // A hundredth of real time: the cache writes nothing on its own before the test is over.
    let server = serve(
        1 << 30,
        |_| {},
        move || {
            let disk = Emulator::new(&find("ultrastar-hc320").expect("a built-in disk"), 0.001);
            Cut(Emulated::in_volatile_file(disk, file).expect("a file"), sender)
        },
    );
    let mut client = server.client();
    client.call(write(4096, 4096), &[1; 4096]).expect("WRITE");
    client.call(Command::Flush, &[]).expect("FLUSH");
    client.call(write(8192, 4096), &[2; 4096]).expect("WRITE");
    client.call(write(1 << 29, 4096), &[3; 4096]).expect("WRITE");
    client.call(write((1 << 29) + 100, 8), &[4; 8]).expect("WRITE");
    drop(client);
    drop(server);
    let lost = lost.recv().expect("cut");
    let held = |offset| {
        let mut held = vec![9; 4096];
        std::os::unix::fs::FileExt::read_exact_at(&open(), &mut held, offset).expect("bytes");
        held
    };
    assert_eq!(held(4096), [1; 4096], "flushed");
    assert!(lost >= 4096, "{lost} bytes");
    assert_eq!(held(1 << 29), [0; 4096], "acknowledged, and lost");
}

/// Cuts the power when it is dropped.
struct Cut<T>(Emulated<T>, std::sync::mpsc::Sender<u64>);

impl<T> Drop for Cut<T> {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.power_cut().expect("the file"));
    }
}

impl<D: Driver> Backend<D> for Cut<D::Token> {
    fn start(&mut self, driver: &mut D) {
        self.0.start(driver);
    }

    fn request(&mut self, driver: &mut D, token: D::Token, request: Asked, payload: Payload<'_>) {
        self.0.request(driver, token, request, payload);
    }

    fn done(&mut self, driver: &mut D, key: u64, outcome: Outcome) {
        Backend::<D>::done(&mut self.0, driver, key, outcome);
    }

    fn deadline(&self) -> Option<Instant> {
        Backend::<D>::deadline(&self.0)
    }

    fn timer(&mut self, driver: &mut D) {
        Backend::<D>::timer(&mut self.0, driver);
    }

    fn stopped(&self) -> bool {
        Backend::<D>::stopped(&self.0)
    }
}

#[test]
fn a_burst_over_a_socket_takes_as_long_as_the_model_says() {
    const SPEED: f64 = 4.0;
    let spec = find("stow-ref").expect("a built-in disk");
    let backend = move || Emulated::in_memory(Emulator::new(&spec, SPEED));
    let server = serve(8 << 30, |_| {}, backend);
    let mut client = server.client();
    client.call(write(4096, 4096), &[7; 4096]).expect("WRITE");
    assert_eq!(client.call(read(5_000, 100), &[]).expect("READ"), [7; 100]);
    let mut rng = Rng(7);
    let asks: Vec<(u64, u64, bool)> =
        (0..400).map(|_| (0, rng.below(1 << 21) * 8, false)).collect();
    let begun = std::time::Instant::now();
    for (cookie, (_, lbn, _)) in (0u64..).zip(&asks) {
        let command = read(lbn * 512, 4096);
        client.put(&Request { cookie, command }, &[]).expect("put");
    }
    let mut answered = 0;
    while client.in_flight() > 0 {
        let hear = |heard: Heard<'_>| answered += u64::from(matches!(heard, Heard::Done(_, None)));
        client.pump(None, hear).expect("replies");
    }
    let took = begun.elapsed().as_secs_f64() * SPEED;
    let wanted = *alone("stow-ref", &asks).iter().max().expect("some") as f64 / 1e9;
    assert_eq!(answered, 400);
    // The burst meets the platter at another angle than the reference, hence not equal.
    assert!(took > wanted * 0.97, "{took} s, the model {wanted} s");
    // A shared machine may pause the threads; 25 ms of real time are allowed.
    assert!(took < wanted * 1.03 + 0.025 * SPEED, "{took} s, the model {wanted} s");
}
