//! Requests over real sockets against a disk in memory.
#![allow(missing_docs)]

mod common;

use common::{Forgetful, Rng, eventually, opened, ram, read, request, serve, write};
use destage_block::Request as Asked;
use destage_block::{Answer, Backend, Buffer, Driver, Handle, Io, Outcome, Payload, RequestError};
use destage_client::{Client, ClientError, Heard};
use destage_load::{Arrivals, BenchError, FLUSH, Load, Pace, Pattern};
use destage_nbd::Mode;
use destage_nbd::request::{Command, Request};
use destage_server::backends::{Ram, export};
use destage_server::{FrontEnd, Listen, ListenError, Port, Server, Settings, Token};
use std::any::Any;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const MIB: usize = 1 << 20;

#[test]
fn what_was_written_is_read_in_odd_sizes_and_every_mode() {
    let server = ram(4 << 20);
    let mut plain = vec![0u8; 4 << 20];
    let mut rng = Rng(1);
    for mode in [Mode::Simple, Mode::Structured, Mode::Extended] {
        let mut client = Client::connect(&server.uri(), mode).expect("connects");
        assert_eq!(client.session().mode, mode);
        for step in 0..400 {
            let offset = rng.below(4 << 20);
            let most = ((4 << 20) - offset).min(if step % 10 == 0 { 1 << 20 } else { 9_000 });
            let length = 1 + rng.below(most);
            let range = offset as usize..(offset + length) as usize;
            match rng.below(5) {
                0 => {
                    let command = Command::Trim { offset, length, fua: false };
                    client.call(command, &[]).expect("TRIM");
                    plain[range].fill(0);
                }
                1 | 2 => {
                    plain[range.clone()].fill(step as u8 | 1);
                    plain[offset as usize] = 0xee;
                    let command = write(offset, length as usize);
                    client.call(command, &plain[range]).expect("WRITE");
                }
                _ => {
                    let got = client.call(read(offset, length as u32), &[]).expect("READ");
                    assert!(got == plain[range], "{offset} {length}");
                }
            }
        }
        let zeroes = Command::WriteZeroes {
            offset: 100,
            length: 70_000,
            fua: true,
            no_hole: false,
            fast_zero: false,
        };
        client.call(zeroes, &[]).expect("WRITE_ZEROES");
        client.call(Command::Flush, &[]).expect("FLUSH");
        client.call(Command::Cache { offset: 0, length: 512 }, &[]).expect("CACHE");
        plain[100..70_100].fill(0);
        let all = client.call(read(0, 4 << 20), &[]).expect("READ");
        assert!(all == plain);
        let beyond = client.put(&Request { cookie: 1, command: read(4 << 20, 1) }, &[]);
        assert!(matches!(beyond, Err(ClientError::Refused(_))));
        client.disconnect().expect("goodbye");
    }
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let server = ram(64 << 20);
    let mut client = server.client();
    let mut rng = Rng(2);
    let blocks: Vec<Vec<u8>> = (0..2_000).map(|_| rng.bytes(1_000)).collect();
    for (cookie, block) in (0u64..).zip(&blocks) {
        let command = write(cookie * 1_000, block.len());
        client.put(&Request { cookie, command }, block).expect("put");
    }
    while client.in_flight() > 0 {
        client.pump(None, |_| {}).expect("replies");
    }
    for cookie in 0..2_000 {
        let command = read(cookie * 1_000, 1_000);
        client.put(&Request { cookie, command }, &[]).expect("put");
    }
    let mut got: HashMap<u64, Vec<u8>> = HashMap::new();
    while client.in_flight() > 0 {
        let hear = |heard: Heard<'_>| {
            if let Heard::Data(cookie, _, part) = heard {
                got.entry(cookie).or_default().extend_from_slice(part);
            }
        };
        client.pump(None, hear).expect("replies");
    }
    assert!((0u64..).zip(&blocks).all(|(cookie, block)| got[&cookie] == *block));
}

#[test]
fn the_longest_request_passes_and_a_longer_one_does_not() {
    let server = ram(256 << 20);
    let mut client = server.client();
    let bytes: Vec<u8> = (0..64 * MIB).map(|at| (at >> 3) as u8).collect();
    client.call(write(12_345, bytes.len()), &bytes).expect("64 MiB");
    let got = client.call(read(12_345, bytes.len() as u32), &[]).expect("64 MiB");
    assert!(got == bytes);
    let longer = Request { cookie: 1, command: read(0, (64 * MIB + 1) as u32) };
    assert!(client.put(&longer, &[]).is_err());
    // More than one connection may have in flight, and no reply is read until then.
    for cookie in 0..8 {
        let command = read(cookie * 1_000, (32 * MIB) as u32);
        client.put(&Request { cookie, command }, &[]).expect("put");
    }
    while client.in_flight() > 0 {
        client.pump(None, |_| {}).expect("replies");
    }
}

#[test]
fn connections_see_each_others_writes() {
    let server = ram(1 << 20);
    let (mut one, mut other) = (server.client(), server.client());
    for round in 0..200u8 {
        one.call(write(777, 3), &[round; 3]).expect("WRITE");
        assert_eq!(other.call(read(777, 3), &[]).expect("READ"), [round; 3]);
        std::mem::swap(&mut one, &mut other);
    }
}

#[test]
fn sockets_of_the_dead_are_replaced_and_those_of_the_living_are_not() {
    let mut server = ram(1 << 20);
    let path = server.socket();
    let bind = |listen: Listen| {
        Server::bind(Settings::new(export("x", "", 512), vec![(FrontEnd::Nbd, listen)]))
    };
    let taken = bind(Listen::Unix(path.clone())).err();
    assert!(matches!(taken, Some(ListenError::Taken(_))), "{taken:?}");
    server.client().call(Command::Flush, &[]).expect("it still serves");
    server.stop();
    assert!(!path.exists(), "a server that ends takes its socket away");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket of the dead"));
    assert!(path.exists());
    drop(bind(Listen::Unix(path.clone())).expect("replaced"));
    std::fs::write(&path, "mine").expect("a file");
    assert!(matches!(bind(Listen::Unix(path.clone())).err(), Some(ListenError::NoSocket(_))));
    assert_eq!(std::fs::read(&path).expect("still there"), b"mine");
    let open = bind("tcp:0.0.0.0:0".parse().expect("an address")).err();
    assert!(matches!(open, Some(ListenError::Open(_))), "{open:?}");
    assert!("disk.sock".parse::<Listen>().is_err());
}

/// One with no room for another client hangs up at once, as the kernel does for one that is dead.
#[test]
fn a_server_with_no_room_for_clients_keeps_its_socket() {
    let server = serve(1 << 20, |settings| settings.connections_max = 1, Ram::default);
    let mut client = server.client();
    client.call(Command::Flush, &[]).expect("FLUSH");
    let listen = Listen::Unix(server.socket());
    let second = Settings::new(export("x", "", 512), vec![(FrontEnd::Nbd, listen)]);
    let taken = Server::bind(second).err();
    assert!(matches!(taken, Some(ListenError::Taken(_))), "{taken:?}");
    client.call(Command::Flush, &[]).expect("it still serves");
}

#[test]
fn a_server_that_ends_leaves_the_socket_of_its_successor() {
    let mut first = ram(1 << 20);
    let path = first.socket();
    std::fs::remove_file(&path).expect("removed");
    let listen = Listen::Unix(path.clone());
    let settings = Settings::new(export("x", "", 512), vec![(FrontEnd::Nbd, listen)]);
    let second = Server::bind(settings).expect("listens");
    first.stop();
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
}

/// Answers FLUSH, and keeps all else until its client is gone.
#[derive(Default)]
struct Keeps {
    kept: Vec<Token>,
    gone: Arc<AtomicU64>,
}

impl Backend<Port> for Keeps {
    fn request(&mut self, port: &mut Port, token: Token, asked: Asked, _: Payload<'_>) {
        match asked {
            Asked::Flush => port.reply(token, Answer::Done),
            _ => self.kept.push(token),
        }
    }

    fn withdraw(&mut self, port: &mut Port, gone: &dyn Fn(&Token) -> bool) {
        for token in self.kept.extract_if(.., |token| gone(token)) {
            port.reply(token, Answer::Done);
            self.gone.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn stopped(&self) -> bool {
        true
    }
}

#[test]
fn a_backend_hears_of_the_requests_of_a_client_that_is_gone() {
    let gone = Arc::<AtomicU64>::default();
    let counted = gone.clone();
    let server = serve(1 << 20, |_| {}, || Keeps { gone: counted, ..Keeps::default() });
    let mut clients = [server.client(), server.client()];
    for (client, count) in clients.iter_mut().zip([2, 3]) {
        for cookie in 0..count {
            let command = write(cookie * 512, 512);
            client.put(&Request { cookie, command }, &[7; 512]).expect("put");
        }
        // What came before has been taken when this is answered.
        let flush = Request { cookie: 9, command: Command::Flush };
        client.put(&flush, &[]).expect("put");
        while client.in_flight() > count as usize {
            client.pump(None, |_| {}).expect("the reply");
        }
    }
    let [first, second] = clients;
    drop(first);
    eventually("the first is gone", || gone.load(Ordering::Relaxed) == 2);
    drop(second);
    eventually("the second is gone", || gone.load(Ordering::Relaxed) == 5);
}

/// What a server does that disconnects a client itself, here for a request that has no magic.
#[test]
fn a_backend_hears_of_the_requests_of_a_client_that_is_disconnected() {
    let gone = Arc::<AtomicU64>::default();
    let counted = gone.clone();
    let server = serve(1 << 20, |_| {}, || Keeps { gone: counted, ..Keeps::default() });
    let mut client = opened(&server.socket());
    for cookie in 0..2 {
        client.write_all(&request(0, cookie, 0, 512)).expect("sent");
    }
    client.write_all(&request(3, 2, 0, 0)).expect("sent");
    let mut answer = [0; 16];
    client.read_exact(&mut answer).expect("the FLUSH is answered");
    assert_eq!(gone.load(Ordering::Relaxed), 0);
    client.write_all(&[7; 28]).expect("sent");
    eventually("they are withdrawn", || gone.load(Ordering::Relaxed) == 2);
    drop(client);
}

#[test]
fn tcp_serves_too() {
    let listen = |settings: &mut Settings| {
        let listen = "tcp:127.0.0.1:0".parse().expect("an address");
        settings.listen.push((FrontEnd::Nbd, listen));
    };
    let server = serve(1 << 20, listen, Ram::default);
    let Listen::Tcp(address) = &server.addresses[1] else { panic!("a TCP address") };
    let uri = format!("nbd://{address}/disk").parse().expect("a URI");
    let mut client = Client::connect(&uri, Mode::Extended).expect("connects");
    client.call(write(5, 4), b"over").expect("WRITE");
    assert_eq!(server.client().call(read(5, 4), &[]).expect("READ"), b"over");
}

/// Keeps its bytes in a file, and hears messages.
struct InFile {
    device: Option<Handle>,
    file: Option<std::fs::File>,
    open: HashMap<u64, Token>,
    next: u64,
}

impl Backend<Port> for InFile {
    fn start(&mut self, port: &mut Port) {
        self.device = self.file.take().map(|file| port.open(file.into()));
    }

    fn request(&mut self, port: &mut Port, token: Token, asked: Asked, payload: Payload<'_>) {
        let device = self.device.expect("started");
        let io = match asked {
            Asked::Read { offset, length } => {
                let buffer = Buffer::zeroed(length as usize);
                Io::Read { device, offset, buffer }
            }
            Asked::Write { offset, .. } => {
                Io::Write { device, offset, buffer: payload.into_buffer().into(), durable: true }
            }
            _ => Io::Flush { device },
        };
        self.next += 1;
        self.open.insert(self.next, token);
        port.submit(self.next, io);
    }

    fn done(&mut self, port: &mut Port, key: u64, outcome: Outcome) {
        let token = self.open.remove(&key).expect("was submitted");
        match (outcome.result, outcome.buffer) {
            (Ok(()), Some(buffer)) => {
                let all = 0..buffer.len();
                port.reply(token, Answer::Data(Arc::new(buffer), all));
            }
            (Ok(()), None) => port.reply(token, Answer::Done),
            (Err(error), _) => {
                let text = error.to_string();
                port.reply(token, Answer::Error { error: RequestError::Io, text: &text });
            }
        }
    }

    fn message(&mut self, _: &mut Port, message: Box<dyn Any + Send>) {
        let back = message.downcast::<mpsc::Sender<u64>>().expect("the test's own");
        back.send(self.next).expect("the test waits");
    }

    fn stopped(&self) -> bool {
        self.open.is_empty()
    }
}

#[test]
fn devices_and_messages() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(1 << 20).expect("sized");
    let copy = file.try_clone().expect("a second descriptor");
    // The export is longer than the file: the end of it cannot be read.
    let server = serve(
        2 << 20,
        |_| {},
        move || InFile { device: None, file: Some(file), open: HashMap::new(), next: 0 },
    );
    let mut client = server.client();
    let bytes = Rng(3).bytes(300_000);
    client.call(write(4_000, bytes.len()), &bytes).expect("WRITE");
    client.call(Command::Flush, &[]).expect("FLUSH");
    let mut there = vec![0; bytes.len()];
    std::os::unix::fs::FileExt::read_exact_at(&copy, &mut there, 4_000).expect("in the file");
    assert!(there == bytes);
    assert!(client.call(read(4_000, bytes.len() as u32), &[]).expect("READ") == bytes);
    let end = client.call(read((1 << 20) - 512, 1_024), &[]);
    assert!(matches!(end, Err(ClientError::Answer(5))), "{end:?}");
    // More operations at once than the ring has entries.
    for cookie in 0..6_000 {
        let command = read(4_000 + cookie % 1_000, 512);
        client.put(&Request { cookie, command }, &[]).expect("put");
    }
    let mut right = 0;
    while client.in_flight() > 0 {
        let hear = |heard: Heard<'_>| {
            if let Heard::Data(_, offset, part) = heard {
                let at = offset as usize - 4_000;
                right += usize::from(part == &bytes[at..at + part.len()]) * part.len();
            }
        };
        client.pump(None, hear).expect("replies");
    }
    assert_eq!(right, 6_000 * 512);
    let (sender, receiver) = mpsc::channel::<u64>();
    assert!(server.remote.send(Box::new(sender)));
    let submitted = receiver.recv_timeout(Duration::from_secs(10)).expect("an answer");
    assert_eq!(submitted, 6_004);
}

fn load(write_percent: u64) -> Load {
    Load {
        pattern: Pattern { random: true, write_percent },
        block: 4096,
        depth: 16,
        connections: 2,
        time: Some(Duration::from_millis(300)),
        size: Some(8 << 20),
        flush_every: 50,
        fua: true,
        pace: Pace::Own,
        warmup: Duration::ZERO,
        interval: None,
        patience: Duration::from_secs(60),
        verify: true,
        log: None,
        seed: 1,
        server_pid: Some(std::process::id()),
    }
}

#[test]
fn a_load_is_verified_and_what_is_lost_is_found() {
    let server = ram(16 << 20);
    let log = server.folder.path().join("acknowledged");
    let mut load = load(70);
    load.log = Some(log.clone());
    let measured = destage_load::run(&server.uri(), &load, &|_, _| {}).expect("runs");
    assert!(measured.requests() > 100 && measured.verified > 50);
    assert!(measured.errors() == 0);
    assert!(!measured.tally.kinds[FLUSH].latency_ns.is_empty(), "there were flushes");
    let checked = destage_load::check(&server.uri(), &log).expect("reads");
    assert_eq!((checked.lost, checked.newer, checked.first), (0, 0, None));
    assert_eq!(checked.blocks, measured.verified);
    // One sector of one block goes back in time.
    let mut first = [0; 8];
    let file = std::fs::File::open(&log).expect("the log");
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut first, 16).expect("a record");
    let offset = u64::from_le_bytes(first) + 1_024;
    server.client().call(write(offset, 512), &[0; 512]).expect("WRITE");
    let checked = destage_load::check(&server.uri(), &log).expect("reads");
    assert_eq!((checked.lost, checked.first.map(|first| first.0)), (1, Some(offset)));
    let text = server.folder.path().join("text");
    std::fs::write(&text, "no log of writes").expect("a file");
    assert!(matches!(destage_load::check(&server.uri(), &text), Err(BenchError::NoLog(_))));
}

#[test]
fn a_server_that_forgets_is_found_out() {
    let server = serve(16 << 20, |_| {}, Forgetful::default);
    let wrong = destage_load::run(&server.uri(), &load(50), &|_, _| {}).expect_err("wrong data");
    assert!(matches!(wrong, BenchError::Wrong(..)), "{wrong}");
    eventually("connections end", || server.remote.connections() == 0);
}

#[test]
fn a_rate_is_kept() {
    let server = ram(16 << 20);
    let mut load = load(100);
    load.pace = Pace::Scheduled { iops: 1_000.0, arrivals: Arrivals::Even };
    (load.time, load.flush_every) = (Some(Duration::from_secs(1)), 0);
    let measured = destage_load::run(&server.uri(), &load, &|_, _| {}).expect("runs");
    let requests = measured.requests();
    assert!((900..=1_010).contains(&requests), "{requests}");
}

#[test]
fn a_write_that_came_in_part_is_not_answered_when_the_server_ends() {
    let mut server = ram(4 << 20);
    for part in [100_000, 1_000] {
        let mut client = opened(&server.socket());
        client.write_all(&request(1, 7, 0, 256 << 10)).expect("sent");
        client.write_all(&vec![1; part]).expect("sent");
        // The server has seen the request when it answers another client.
        for _ in 0..3 {
            server.client().call(read(0, 4096), &[]).expect("READ");
        }
        server.stop();
        let mut answer = Vec::new();
        // A reset is an end, too.
        let _ = client.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
        server = ram(4 << 20);
    }
}
