//! A remote member under faults that are drawn: its server carries out requests in any order, loses
//! what it has not flushed, breaks connections and comes back (docs/durability.md, "Members over
//! NBD"). To the array it must look like a local disk whose operations sometimes take long.

use super::*;
use destage_block::Answer;
use destage_nbd::reply::{Encoder, Tag};
use destage_nbd::request::{Decoder, Step};
use destage_nbd::{BlockSizes, Mode};
use destage_workload::random::Seeded;
use std::os::fd::OwnedFd;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 12;
const KEYS: Keys = Keys { send: 1, receive: 2 };

/// What the ring would do.
#[derive(Default)]
struct Wire {
    sends: Vec<Vec<u8>>,
    listens: Option<Buffer>,
}

impl Driver for Wire {
    type Token = ();

    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn lately(&self) -> Instant {
        Instant::ZERO
    }

    fn buffer(&mut self, length: usize) -> Buffer {
        Buffer::zeroed(length)
    }

    fn recycle(&mut self, _: Buffer) {}

    fn open(&mut self, _: OwnedFd) -> Handle {
        Handle(0)
    }

    fn close(&mut self, _: Handle) {}

    fn submit(&mut self, key: u64, io: Io) {
        match io {
            Io::Send { bytes, .. } if key == KEYS.send => {
                self.sends.push(bytes.iter().flat_map(|piece| piece.bytes().to_vec()).collect());
            }
            Io::Receive { buffer, .. } if key == KEYS.receive => self.listens = Some(buffer),
            other => panic!("{key}: {other:?}"),
        }
    }

    fn reply(&mut self, (): (), _: Answer<'_>) {}
}

/// Each write has a number, which is what its blocks hold.
type Number = u64;

/// The server and its disk.
struct Server {
    session: Session,
    decoder: Decoder,
    /// What follows the last request that was complete.
    payload: Option<(Request, Vec<u8>)>,
    /// A write with its bytes, and a flush with the numbers that it has to make durable.
    asked: Vec<(Request, Vec<u8>)>,
    answers: Vec<u8>,
    durable: Vec<Number>,
    /// By block, oldest first: what a power failure may take back.
    cache: Vec<Vec<Number>>,
}

/// With FUA or without, and with requests as long as some operations, or longer than all.
fn session(rng: &mut Seeded) -> Session {
    let fua = if rng.below(2) == 0 { wire::NBD_FLAG_SEND_FUA } else { 0 };
    let maximum = [BLOCK as u32, 2 * BLOCK as u32, 32 << 20][rng.below(3) as usize];
    Session {
        export: String::new(),
        size: BLOCKS * BLOCK as u64,
        flags: wire::NBD_FLAG_HAS_FLAGS | wire::NBD_FLAG_SEND_FLUSH | fua,
        block: BlockSizes { maximum, ..BlockSizes::default() },
        mode: Mode::Structured,
        contexts: Vec::new(),
    }
}

impl Server {
    fn new(session: Session) -> Server {
        Server {
            decoder: Decoder::new(&session),
            session,
            payload: None,
            asked: Vec::new(),
            answers: Vec::new(),
            durable: vec![0; BLOCKS as usize],
            cache: vec![Vec::new(); BLOCKS as usize],
        }
    }

    /// Takes what was sent.
    fn receives(&mut self, mut input: &[u8]) {
        loop {
            let (taken, step) = self.decoder.next(input);
            match step {
                Step::NeedMore => return,
                Step::Request(request) if matches!(request.command, Command::Write { .. }) => {
                    self.payload = Some((request, Vec::new()));
                }
                Step::Request(request) if request.command == Command::Flush => {
                    // It need not cover what is done while it waits.
                    let newest = (0..BLOCKS as usize).flat_map(|b| self.newest(b).to_le_bytes());
                    self.asked.push((request, newest.collect()));
                }
                Step::Request(request) => self.asked.push((request, Vec::new())),
                Step::Payload { range, last, .. } => {
                    let payload = self.payload.as_mut().expect("a write");
                    payload.1.extend(&input[range]);
                    if last {
                        self.asked.extend(self.payload.take());
                    }
                }
                other => panic!("{other:?}"),
            }
            input = &input[taken..];
        }
    }

    fn newest(&self, block: usize) -> Number {
        self.cache[block].last().copied().unwrap_or(self.durable[block])
    }

    /// Carries out a request. `answers`: whether the client gets the reply.
    fn does(&mut self, which: usize, answers: bool) {
        let (Request { cookie, command }, payload) = self.asked.swap_remove(which);
        let encoder = Encoder::new(self.session.mode);
        let tag = Tag { cookie, offset: 0 };
        let mut out = Vec::new();
        match command {
            Command::Read { offset, length, .. } => {
                encoder.read(&mut out, Tag { cookie, offset }, length);
                let first = offset as usize / BLOCK;
                for block in first..first + length as usize / BLOCK {
                    out.extend(block_of(self.newest(block)));
                }
            }
            Command::Write { offset, fua, .. } => {
                for (i, bytes) in payload.chunks_exact(BLOCK).enumerate() {
                    let block = offset as usize / BLOCK + i;
                    self.cache[block].push(number_in(bytes));
                    if fua {
                        self.durable[block] = number_in(bytes);
                        self.cache[block].clear();
                    }
                }
                encoder.success(&mut out, tag);
            }
            Command::Flush => {
                let covers = payload.chunks_exact(8).map(number_in);
                let blocks = self.durable.iter_mut().zip(&mut self.cache);
                for ((durable, cache), covers) in blocks.zip(covers) {
                    let covered = cache.iter().take_while(|number| **number <= covers).count();
                    *durable = cache.drain(..covered).next_back().unwrap_or(*durable);
                }
                encoder.success(&mut out, tag);
            }
            other => panic!("{other:?}"),
        }
        if answers {
            self.answers.extend(out);
        }
    }

    /// Answers a request with an error.
    fn fails(&mut self, which: usize, errno: u32) {
        let (request, _) = self.asked.swap_remove(which);
        let tag = Tag { cookie: request.cookie, offset: 0 };
        Encoder::new(self.session.mode).error(&mut self.answers, tag, errno, "");
    }

    /// The connection is gone. `power`: so is what is not durable, but for what was written back.
    fn breaks(&mut self, power: bool, rng: &mut Seeded) {
        while !self.asked.is_empty() {
            match rng.below(3) {
                0 => self.does(0, false),
                _ => drop(self.asked.swap_remove(0)),
            }
        }
        for (durable, cache) in self.durable.iter_mut().zip(&mut self.cache) {
            if power {
                let kept = rng.below(cache.len() as u64 + 1) as usize;
                *durable = cache[..kept].last().copied().unwrap_or(*durable);
                cache.clear();
            }
        }
        self.answers.clear();
        self.payload = None;
        self.decoder = Decoder::new(&self.session);
    }
}

fn block_of(number: Number) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK / 8)
}

fn number_in(block: &[u8]) -> Number {
    let number = Number::from_le_bytes(block[..8].try_into().expect("eight bytes"));
    assert!(block.chunks_exact(8).all(|word| word == number.to_le_bytes()), "a torn block");
    number
}

/// What the array asked for.
#[derive(Debug)]
enum Asked {
    Read { blocks: std::ops::Range<usize>, least: Vec<Number> },
    Write { blocks: std::ops::Range<usize>, number: Number, durable: bool },
    Flush { least: Vec<Number> },
}

/// The array's side, and what it may rely on.
struct Run {
    rng: Seeded,
    remote: Remote,
    wire: Wire,
    server: Server,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    now: Instant,
    /// By block: the last write that was answered, the newest that was asked for, and what a flush
    /// or a durable write has promised.
    answered: Vec<Number>,
    newest: Vec<Number>,
    promised: Vec<Number>,
    breaks: u64,
    power_failures: u64,
    again: usize,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Seeded::new(seed, "remote-member");
        let server = Server::new(session(&mut rng));
        let mut remote = Remote::new(Handle(0), &server.session);
        remote.kept.flush_at = [BLOCK, 8 * BLOCK, 1 << 20][rng.below(3) as usize];
        remote.identify(Identity {
            uri: String::new(),
            array: [1; 16],
            device: [2; 16],
            bytes: server.session.size,
            generation: 1,
            newest: 1,
        });
        let zeros = || vec![0; BLOCKS as usize];
        Run {
            rng,
            remote,
            wire: Wire::default(),
            server,
            asked: BTreeMap::new(),
            next: 1,
            now: Instant(1),
            answered: zeros(),
            newest: zeros(),
            promised: zeros(),
            breaks: 0,
            power_failures: 0,
            again: 0,
        }
    }

    /// Asks for something. No two writes of a block are in flight: the array locks its rows.
    fn ask(&mut self) {
        let first = self.rng.below(BLOCKS) as usize;
        let end = (first + 1 + self.rng.below(3) as usize).min(BLOCKS as usize);
        let (blocks, number) = (first..end, self.next);
        let overlaps = self.asked.values().any(|asked| match asked {
            Asked::Write { blocks: other, .. } => other.start < end && first < other.end,
            _ => false,
        });
        let (offset, bytes) = ((first * BLOCK) as u64, (end - first) * BLOCK);
        let (asked, kind) = match self.rng.below(8) {
            0 | 1 => {
                let least = self.answered[blocks.clone()].to_vec();
                (Asked::Read { blocks, least }, OpKind::Read { offset, bytes })
            }
            2 => (Asked::Flush { least: self.answered.clone() }, OpKind::Flush),
            _ if overlaps => return,
            drawn => {
                let durable = drawn == 3;
                self.newest[blocks.clone()].fill(number);
                let data = block_of(number).repeat(end - first);
                let buffer = Buffer::copy_of(&data).into();
                let asked = Asked::Write { blocks, number, durable };
                (asked, OpKind::Write { offset, buffer, durable })
            }
        };
        self.asked.insert(number, asked);
        self.next += 1;
        let mut ended = Vec::new();
        self.remote.submit(self.now, OpId(number), kind, &mut ended);
        self.end(ended);
    }

    /// Operations have ended: none twice, and each as it may.
    fn end(&mut self, ended: Vec<Ended>) {
        for (id, result) in ended {
            let asked = self.asked.remove(&id.0).expect("an operation without a result");
            let buffer = result.unwrap_or_else(|error| panic!("{asked:?}: {error}"));
            match asked {
                Asked::Read { blocks, least } => {
                    let buffer = buffer.expect("the bytes of a read");
                    let read = buffer.chunks_exact(BLOCK).map(number_in);
                    for ((block, least), read) in blocks.zip(least).zip(read) {
                        let newest = self.newest[block];
                        assert!(
                            (least..=newest).contains(&read),
                            "{block}: {least} {read} {newest}"
                        );
                    }
                }
                Asked::Write { blocks, number, durable } => {
                    self.answered[blocks.clone()].fill(number);
                    if durable {
                        self.promised[blocks].fill(number);
                    }
                }
                Asked::Flush { least } => {
                    for (promised, least) in self.promised.iter_mut().zip(least) {
                        *promised = (*promised).max(least);
                    }
                }
            }
        }
        for block in 0..BLOCKS as usize {
            let (durable, promised) = (self.server.durable[block], self.promised[block]);
            assert!(durable >= promised, "block {block} has {durable}, promised was {promised}");
        }
    }

    /// The server and the network do something.
    fn step(&mut self, may_break: bool) {
        self.remote.turn(&mut self.wire, &KEYS);
        let mut ended = Vec::new();
        match self.rng.below(if may_break { 120 } else { 100 }) {
            0..=39 if !self.wire.sends.is_empty() => {
                let sent = self.wire.sends.remove(0);
                self.server.receives(&sent);
                self.remote.sent(Ok(()));
            }
            40..=69 if !self.server.asked.is_empty() => {
                let which = self.rng.below(self.server.asked.len() as u64) as usize;
                self.server.does(which, true);
            }
            70..=99 if !self.server.answers.is_empty() && self.wire.listens.is_some() => {
                let all = self.server.answers.len().min(INPUT);
                let some = 1 + self.rng.below(all as u64) as usize;
                let bytes: Vec<u8> = self.server.answers.drain(..some).collect();
                self.wire.listens = None;
                let buffer = Buffer::copy_of(&bytes);
                self.remote.received(Ok(()), Some(padded(buffer)), self.now, &mut ended);
            }
            118 if may_break => self.breaks(),
            119 if may_break && !self.server.asked.is_empty() => {
                // The server is about to end, and says so.
                self.server.fails(0, wire::NBD_ESHUTDOWN);
            }
            _ => {}
        }
        // A server that ends has less time than some that do not answer.
        self.remote.expire(self.now, 400, &mut ended);
        self.end(ended);
        if self.remote.is_cut() {
            self.reconnects();
        }
    }

    fn breaks(&mut self) {
        self.breaks += 1;
        let mut ended = Vec::new();
        if let Some(sent) = self.wire.sends.pop() {
            // It got a part of it.
            let part = self.rng.below(sent.len() as u64 + 1) as usize;
            self.server.receives(&sent[..part]);
            self.remote.sent(Err(IoError::from_errno(libc::EPIPE)));
        }
        if self.wire.listens.take().is_some() {
            let error = Err(IoError::from_errno(libc::ECONNRESET));
            self.remote.received(error, None, self.now, &mut ended);
        }
        self.end(ended);
    }

    /// The server comes back, after a loss of power or not.
    fn reconnects(&mut self) {
        let power = self.rng.below(2) == 0;
        self.power_failures += u64::from(power);
        self.wire = Wire::default();
        // Another program may serve it now.
        self.server.session = session(&mut self.rng);
        self.server.breaks(power, &mut self.rng);
        let mut ended = Vec::new();
        assert!(self.remote.begin_wait(self.now, 1 << 40).is_some(), "it was given up");
        if self.rng.below(4) == 0 {
            self.remote.failed_again(IoError::from_errno(libc::ECONNREFUSED));
        }
        self.remote.back(Handle(0), &self.server.session, self.now, &mut ended);
        self.end(ended);
        for event in self.remote.take_events() {
            match event {
                Event::Back { again, .. } => self.again += again,
                Event::Lost(_) => {}
                Event::GaveUp(why) => panic!("{why}"),
            }
        }
    }

    fn all(&mut self) {
        for _ in 0..3000 {
            self.now = Instant(self.now.0 + 1);
            if self.asked.len() < 8 && self.rng.below(4) == 0 {
                self.ask();
            }
            self.step(true);
        }
        for _ in 0..100_000 {
            if self.asked.is_empty() {
                return;
            }
            self.step(false);
        }
        panic!("without results: {:?}", self.asked);
    }
}

/// As long as what arrived.
fn padded(buffer: Buffer) -> Buffer {
    let length = buffer.len();
    let mut all = Buffer::zeroed(INPUT);
    all[..length].copy_from_slice(&buffer);
    all.set_len(length);
    all
}

/// The server may lose its cache whenever the connection is gone, in the midst of sending again,
/// too: what a flush or a durable write has promised is on its disk, and reads show it.
#[test]
fn a_remote_member_keeps_its_promises_under_drawn_faults() {
    let (mut breaks, mut power_failures, mut again) = (0, 0, 0);
    for seed in 1..=60 {
        let mut run = Run::new(seed);
        run.all();
        breaks += run.breaks;
        power_failures += run.power_failures;
        again += run.again;
    }
    println!("{breaks} connections broken, {power_failures} with the power, {again} writes again");
    assert!(breaks > 500 && power_failures > 200 && again > 500);
}

/// A write of zeros.
fn zeros(offset: u64) -> OpKind {
    OpKind::Write { offset, buffer: Buffer::zeroed(BLOCK).into(), durable: false }
}

impl Run {
    /// One whose server takes at most this many blocks in a request.
    fn with_most(blocks: u32) -> Run {
        let most = blocks * BLOCK as u32;
        let takes = |run: &Run| run.server.session.block.maximum == most;
        let mut run = (1..).map(Run::new).find(takes).expect("a third of them do");
        run.remote.kept.flush_at = 1 << 20;
        run
    }

    /// One whose server has FUA.
    fn with_fua() -> Run {
        let has_fua = |run: &Run| run.server.session.flags & wire::NBD_FLAG_SEND_FUA != 0;
        (1..).map(Run::new).find(has_fua).expect("half of them have it")
    }

    /// Asks for this; the server gets it.
    fn submit(&mut self, id: u64, kind: OpKind) {
        let mut ended = Vec::new();
        self.remote.submit(self.now, OpId(id), kind, &mut ended);
        assert!(ended.is_empty());
        self.sends();
    }

    /// What is to be sent is sent.
    fn sends(&mut self) {
        self.remote.turn(&mut self.wire, &KEYS);
        for sent in core::mem::take(&mut self.wire.sends) {
            self.server.receives(&sent);
            self.remote.sent(Ok(()));
        }
    }

    /// What the server answers arrives. Returns what ends.
    fn hears(&mut self) -> Vec<Ended> {
        let answers = core::mem::take(&mut self.server.answers);
        let (answers, mut ended) = (padded(Buffer::copy_of(&answers)), Vec::new());
        self.remote.received(Ok(()), Some(answers), self.now, &mut ended);
        ended
    }

    /// The server carries out a request and answers. Returns what ends.
    fn answers(&mut self, which: usize) -> Vec<Ended> {
        self.server.does(which, true);
        self.hears()
    }

    /// What the server has to do.
    fn commands(&self) -> Vec<Command> {
        self.server.asked.iter().map(|(request, _)| request.command).collect()
    }

    /// Asks for this, and has the server carry it out and answer.
    fn carry_out(&mut self, id: u64, kind: OpKind) {
        self.submit(id, kind);
        let ended = self.answers(0);
        assert!(matches!(ended[..], [(OpId(own), Ok(_))] if own == id));
    }

    /// The connection breaks. The next server takes at most this many blocks in a request.
    fn next_server(&mut self, blocks: u32, power: bool) {
        self.remote.sent(Err(IoError::from_errno(libc::EPIPE)));
        self.reconnects_to(blocks, power);
    }

    fn reconnects_to(&mut self, blocks: u32, power: bool) {
        self.wire = Wire::default();
        self.server.session.block.maximum = blocks * BLOCK as u32;
        self.server.breaks(power, &mut self.rng);
        assert!(self.remote.begin_wait(self.now, 1 << 40).is_some(), "it was given up");
        let mut ended = Vec::new();
        self.remote.back(Handle(0), &self.server.session, self.now, &mut ended);
        assert!(ended.is_empty());
        self.sends();
    }

    /// The numbers of blocks that a read returns, whose requests the server carries out in this
    /// order.
    fn reads(&mut self, id: u64, first: u64, blocks: usize, order: &[usize]) -> Vec<Number> {
        let offset = first * BLOCK as u64;
        self.submit(id, OpKind::Read { offset, bytes: blocks * BLOCK });
        let mut ended: Vec<Ended> = order.iter().flat_map(|which| self.answers(*which)).collect();
        let (own, result) = ended.remove(0);
        assert!(own == OpId(id) && ended.is_empty());
        let buffer = result.expect("no error").expect("the bytes of a read");
        buffer.chunks_exact(BLOCK).map(number_in).collect()
    }
}

/// A write of these numbers, a block each.
fn numbered(first: u64, numbers: core::ops::RangeInclusive<Number>) -> OpKind {
    let bytes: Vec<u8> = numbers.flat_map(block_of).collect();
    let (offset, buffer) = (first * BLOCK as u64, Buffer::copy_of(&bytes).into());
    OpKind::Write { offset, buffer, durable: false }
}

/// Requests to write these blocks: the first, and how many.
fn writes(parts: &[(u64, u32)]) -> Vec<Command> {
    let write = |(first, blocks): &(u64, u32)| {
        let (offset, length) = (first * BLOCK as u64, blocks * BLOCK as u32);
        Command::Write { offset, length, fua: false }
    };
    parts.iter().map(write).collect()
}

#[test]
fn what_is_longer_than_the_server_takes_at_once_is_sent_in_parts() {
    let mut run = Run::with_most(2);
    run.submit(1, numbered(1, 1..=5));
    assert_eq!(run.commands(), writes(&[(1, 2), (3, 2), (5, 1)]));
    // In any order, and the operation ends with the last.
    assert!(run.answers(2).is_empty());
    assert!(run.answers(0).is_empty());
    assert!(matches!(run.answers(0)[..], [(OpId(1), Ok(None))]));
    assert_eq!(run.reads(2, 1, 5, &[1, 0, 0]), [1, 2, 3, 4, 5]);
    assert_eq!(run.reads(3, 4, 2, &[0]), [4, 5]);
    assert_eq!(run.reads(4, 0, 4, &[1, 0]), [0, 1, 2, 3]);
}

#[test]
fn an_operation_fails_with_the_first_error_of_its_parts_when_all_are_answered() {
    let mut run = Run::with_most(1);
    run.submit(1, numbered(0, 1..=3));
    for errno in [wire::NBD_EIO, wire::NBD_ENOSPC] {
        run.server.fails(0, errno);
        assert!(run.hears().is_empty());
    }
    assert!(matches!(run.answers(0)[..], [(OpId(1), Err(IoError::MEDIUM))]));
    // The connection breaks before all are answered: nothing of it is sent again.
    run.submit(2, numbered(0, 1..=3));
    run.server.fails(1, wire::NBD_EIO);
    assert!(run.hears().is_empty());
    run.remote.sent(Err(IoError::from_errno(libc::EPIPE)));
    run.server.breaks(false, &mut run.rng);
    assert!(run.remote.begin_wait(run.now, 1 << 40).is_some());
    let mut ended = Vec::new();
    run.remote.back(Handle(0), &run.server.session, run.now, &mut ended);
    assert!(matches!(ended[..], [(OpId(2), Err(IoError::MEDIUM))]));
}

#[test]
fn a_connection_that_breaks_between_parts_has_all_of_them_sent_again() {
    let mut run = Run::with_most(1);
    run.submit(1, numbered(2, 1..=3));
    assert!(run.answers(0).is_empty());
    run.next_server(2, false);
    assert_eq!(run.commands(), writes(&[(2, 2), (4, 1)]));
    assert!(run.answers(1).is_empty());
    run.next_server(1, true);
    assert_eq!(run.commands(), writes(&[(2, 1), (3, 1), (4, 1)]));
    let ended: Vec<Ended> = [0, 0, 0].into_iter().flat_map(|which| run.answers(which)).collect();
    assert!(matches!(ended[..], [(OpId(1), Ok(None))]));
    // And what was answered, but not flushed.
    run.next_server(2, true);
    assert_eq!(run.commands(), writes(&[(2, 2), (4, 1)]));
    assert!(run.answers(0).is_empty());
    run.next_server(1, true);
    assert_eq!(run.commands(), writes(&[(2, 1), (3, 1), (4, 1)]));
    run.remote.take_events();
    for which in [2, 0, 0] {
        assert!(run.answers(which).is_empty());
    }
    assert!(matches!(run.remote.take_events()[..], [Event::Back { again: 1, .. }]));
    assert_eq!(run.reads(2, 2, 3, &[0, 1, 0]), [1, 2, 3]);
}

/// What it has may be carried out after the next connection has replaced it.
#[test]
fn a_server_that_ends_is_asked_nothing_and_left_when_it_has_answered() {
    let mut run = Run::with_fua();
    let write = |block: usize| {
        let (offset, buffer) = ((block * BLOCK) as u64, Buffer::zeroed(BLOCK).into());
        OpKind::Write { offset, buffer, durable: true }
    };
    run.submit(1, write(0));
    run.submit(2, write(1));
    run.remote.submit(run.now, OpId(3), write(2), &mut Vec::new());
    run.server.fails(0, wire::NBD_ESHUTDOWN);
    assert!(run.hears().is_empty());
    run.submit(4, write(3));
    assert_eq!(run.commands().len(), 1, "only the second write is there");
    assert!(!run.remote.is_cut() && run.remote.take_events().is_empty());
    assert!(matches!(run.answers(0)[..], [(OpId(2), Ok(None))]));
    assert!(run.remote.is_cut());
    run.reconnects_to(1, false);
    let offsets: Vec<u64> = run.commands().iter().map(Command::offset).collect();
    assert_eq!(offsets, [0, 2, 3].map(|block| block * BLOCK as u64));
}

#[test]
fn a_server_that_ends_without_answers_is_left_after_some_seconds() {
    for (limit, most) in [(1 << 40, DRAIN), (4_000, 1_000)] {
        let (mut run, mut ended) = (Run::new(1), Vec::new());
        run.submit(1, zeros(0));
        run.submit(2, zeros(BLOCK as u64));
        run.server.fails(0, wire::NBD_ESHUTDOWN);
        assert!(run.hears().is_empty());
        run.remote.expire(run.now, limit, &mut ended);
        let until = run.now + Duration(most);
        assert_eq!(run.remote.deadline(), Some(until));
        run.remote.expire(Instant(until.0 - 1), limit, &mut ended);
        assert!(!run.remote.is_cut());
        run.remote.expire(until, limit, &mut ended);
        assert!(run.remote.is_cut() && ended.is_empty());
        run.reconnects_to(1, false);
        assert_eq!(run.commands(), writes(&[(0, 1), (1, 1)]));
    }
}

#[test]
fn writes_are_flushed_when_many_are_kept() {
    let mut run = Run::new(1);
    run.remote.kept.flush_at = 2 * BLOCK;
    for id in 1..=2 {
        run.carry_out(id, zeros(0));
        run.remote.turn(&mut run.wire, &KEYS);
        assert!(run.wire.sends.is_empty(), "{id} writes are not many");
    }
    run.carry_out(3, zeros(0));
    run.sends();
    assert_eq!(run.commands(), [Command::Flush]);
}

#[test]
fn a_server_that_may_have_lost_writes_that_are_not_kept_is_not_used_again() {
    let part: SharedBytes = Buffer::zeroed(4 << 20).into();
    for (parts, used_again) in [(16, true), (17, false)] {
        let mut run = Run::new(1);
        (0..parts).for_each(|_| run.remote.kept.add(0, part.clone()));
        run.remote.sent(Err(IoError::from_errno(libc::EPIPE)));
        let waits = run.remote.begin_wait(run.now, 1 << 40).is_some();
        assert_eq!(waits, used_again, "{parts} writes of 4 MiB");
        let gave_up = |event: &Event| matches!(event, Event::GaveUp(_));
        assert_eq!(run.remote.take_events().iter().any(gave_up), !used_again);
    }
}

/// The last attempt to reach it failed for lack of memory. That passes, but not here.
#[test]
fn what_a_member_that_is_given_up_says_does_not_pass() {
    let mut run = Run::new(1);
    run.remote.sent(Err(IoError::from_errno(libc::ENOMEM)));
    let mut ended = Vec::new();
    run.remote.die(None, &mut ended);
    run.remote.submit(run.now, OpId(1), OpKind::Flush, &mut ended);
    let (_, result) = ended.remove(0);
    let error = result.map(drop).expect_err("given up");
    assert!(error.errno == libc::ENOMEM && !error.passes(), "{error:?}");
}

/// What a server says of no space.
fn no_space(kind: OpKind) -> IoError {
    let mut run = Run::with_fua();
    run.submit(1, kind);
    run.server.fails(0, wire::NBD_ENOSPC);
    let (_, result) = run.hears().remove(0);
    result.map(drop).expect_err("no space")
}

/// A server that found no space for what it had answered says so once, with a flush or with a write
/// that includes one: a second one proves nothing.
#[test]
fn no_space_for_a_durable_write_does_not_pass() {
    let write = |durable| {
        let buffer = Buffer::zeroed(BLOCK).into();
        OpKind::Write { offset: 0, buffer, durable }
    };
    assert!(no_space(write(false)).passes());
    assert!(!no_space(write(true)).passes());
    assert!(!no_space(OpKind::Flush).passes());
}
