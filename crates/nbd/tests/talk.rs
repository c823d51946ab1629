//! Client and server talk to each other, their bytes cut anywhere: the handshake with many
//! combinations of options, then requests and replies against a disk in memory.
#![allow(missing_docs)]

mod common;

use common::{Rng, export};
use destage_nbd::client::{self, Failure, Handshake, Options, Reply, ReplyDecoder};
use destage_nbd::handshake::{self, Config, Server, Tls};
use destage_nbd::reply::{Encoder, Extent, Tag};
use destage_nbd::request::{Command, Decoder, Request, Step};
use destage_nbd::{ContextSet, Mode, Session, wire};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many bytes cross at once.
fn portion(rng: &mut Rng, split: u64) -> usize {
    match split {
        0 => usize::MAX,
        1 => 1,
        _ => 1 + rng.below(40) as usize,
    }
}

/// Takes up to `most` bytes off the wire and feeds them; what is not taken stays on the wire.
fn deliver(on_wire: &mut Vec<u8>, most: usize, feed: impl FnOnce(&[u8]) -> usize) -> bool {
    let count = most.min(on_wire.len());
    let taken = feed(&on_wire[..count]);
    on_wire.drain(..taken);
    taken > 0
}

/// Both ends of a handshake.
fn shake(config: &Config, options: &Options, split: u64) -> (client::Step, Option<Session>) {
    let (mut rng, mut to_client, mut to_server) = (Rng(split), Vec::new(), Vec::new());
    let mut server = Server::new(Arc::new(config.clone()), &mut to_client);
    let mut client = Handshake::new(options.clone());
    let (mut opened, mut ended) = (None::<Session>, client::Step::NeedMore);
    for _ in 0..100_000 {
        let mut moved = deliver(&mut to_client, portion(&mut rng, split), |piece| {
            let (count, step) = client.feed(piece, &mut to_server);
            match step {
                client::Step::NeedMore => {}
                client::Step::StartTls => client.tls_started(&mut to_server),
                end => ended = end,
            }
            count
        });
        if matches!(ended, client::Step::Failed(_) | client::Step::Transmission(_)) {
            return (ended, opened);
        }
        if opened.is_some() {
            continue;
        }
        moved |= deliver(&mut to_server, portion(&mut rng, split), |piece| {
            let (count, step) = server.feed(piece, &mut to_client);
            match step {
                handshake::Step::StartTls => server.tls_started(),
                handshake::Step::Transmission { session, .. } => opened = Some(session),
                handshake::Step::HangUp(reason) => panic!("{reason:?}"),
                _ => {}
            }
            count
        });
        assert!(moved, "stuck: {options:?}");
    }
    panic!("no end")
}

const MODES: [Mode; 3] = [Mode::Simple, Mode::Structured, Mode::Extended];

/// What must come of it, from the protocol.
fn expected(config: &Config, options: &Options) -> Result<(Mode, usize), u32> {
    match (config.tls, options.tls) {
        (Tls::Off, true) => return Err(wire::NBD_REP_ERR_POLICY),
        (Tls::Required, false) => return Err(wire::NBD_REP_ERR_TLS_REQD),
        _ => {}
    }
    if options.export == "none" {
        return Err(wire::NBD_REP_ERR_UNKNOWN);
    }
    if config.exports[0].tls_only && !options.tls {
        return Err(wire::NBD_REP_ERR_TLS_REQD);
    }
    let mode = config.mode.min(options.mode);
    let known = |name: &&String| config.exports[0].contexts.contains(name);
    let contexts = options.contexts.iter().filter(known).count();
    Ok((mode, if mode == Mode::Simple { 0 } else { contexts }))
}

/// Some 2,000 combinations.
fn combinations() -> Vec<(Config, Options)> {
    let mut all = Vec::new();
    let bits = 1 << 3;
    for (server_mode, client_mode) in MODES.iter().flat_map(|a| MODES.iter().map(move |b| (a, b))) {
        for tls in [Tls::Off, Tls::Offered, Tls::Required] {
            for name in ["disk", "", "none"] {
                for contexts in [&[][..], &["base:allocation"], &["destage:dirty", "x:y"]] {
                    for bit in 0..bits {
                        let mut config = Config::single(export());
                        (config.tls, config.mode) = (tls, *server_mode);
                        config.exports[0].tls_only = bit & 1 != 0 && tls != Tls::Off;
                        let minimum = if bit & 2 != 0 { 512 } else { 1 };
                        config.exports[0].block.minimum = minimum;
                        let mut options = Options::new(name);
                        (options.tls, options.mode) = (bit & 4 != 0, *client_mode);
                        options.contexts = contexts.iter().map(|it| it.to_string()).collect();
                        all.push((config, options));
                    }
                }
            }
        }
    }
    all
}

#[test]
fn both_sides_agree_on_every_combination() {
    let all = combinations();
    assert!(all.len() > 1500);
    for (number, (config, options)) in all.iter().enumerate() {
        for split in [0, 1, 2 + number as u64] {
            let (step, opened) = shake(config, options, split);
            match (step, expected(config, options)) {
                (client::Step::Transmission(session), Ok((mode, contexts))) => {
                    assert_eq!(Some(&session), opened.as_ref());
                    assert_eq!((session.mode, session.contexts.len()), (mode, contexts));
                    assert_eq!(session.block, config.exports[0].block);
                }
                (client::Step::Failed(Failure::Refused { error, .. }), Err(reply)) => {
                    assert_eq!(error, reply, "{options:?}");
                }
                (step, wanted) => panic!("{step:?}, not {wanted:?}: {config:?} {options:?}"),
            }
        }
    }
}

/// A server with a disk in memory that answers in any order.
struct Disk {
    decoder: Decoder,
    encoder: Encoder,
    session: Session,
    contents: Vec<u8>,
    open: Vec<Request>,
    /// What is decoded, encoded again.
    again: Vec<u8>,
    echo: client::request::Encoder,
}

impl Disk {
    fn take(&mut self, piece: &[u8]) -> usize {
        let mut rest = piece;
        loop {
            let (count, step) = self.decoder.next(rest);
            match step {
                Step::NeedMore => return piece.len(),
                Step::Request(request) => {
                    self.echo.encode(&request, &mut self.again).expect("as it was decoded");
                    self.open.push(request);
                }
                Step::Payload { at, range, cookie, .. } => {
                    let write = self.open.last().expect("a WRITE comes first");
                    assert_eq!(write.cookie, cookie);
                    let from = write.command.offset() as usize + at as usize;
                    self.again.extend_from_slice(&rest[range.clone()]);
                    self.contents[from..from + range.len()].copy_from_slice(&rest[range]);
                }
                other => panic!("{other:?}"),
            }
            rest = &rest[count..];
        }
    }

    /// Answers one request, unless it is a WRITE still coming.
    fn answer(&mut self, rng: &mut Rng, out: &mut Vec<u8>) {
        let ready = self.open.len() - usize::from(self.decoder.payload_left() > 0);
        if ready == 0 {
            return;
        }
        let Request { cookie, command } = self.open.remove(rng.below(ready as u64) as usize);
        let tag = Tag { cookie, offset: command.offset() };
        match command {
            Command::Read { offset, length, dont_fragment } => {
                self.read(rng, out, tag, (offset, length), dont_fragment);
            }
            Command::WriteZeroes { offset, length, .. } | Command::Trim { offset, length, .. } => {
                self.contents[offset as usize..][..length as usize].fill(0);
                self.encoder.success(out, tag);
            }
            Command::BlockStatus { length, one, contexts, .. } => {
                for (position, context) in self.session.contexts.iter().enumerate() {
                    let both = [Extent { length, flags: 1 }, Extent { length: 512, flags: 0 }];
                    let extents = if one { &both[..1] } else { &both[..] };
                    if contexts.contains(position) {
                        self.encoder.block_status(out, tag, false, context.id, &extents[..1]);
                    }
                }
                self.encoder.finish(out, tag);
            }
            Command::Cache { .. } => self.encoder.error(out, tag, wire::NBD_EIO, "no cache"),
            Command::Flush | Command::Write { .. } => self.encoder.success(out, tag),
        }
    }

    fn read(
        &self,
        rng: &mut Rng,
        out: &mut Vec<u8>,
        tag: Tag,
        (offset, length): (u64, u32),
        dont_fragment: bool,
    ) {
        let data = &self.contents[offset as usize..][..length as usize];
        if self.session.mode == Mode::Simple || dont_fragment || rng.chance(2) {
            self.encoder.read(out, tag, length);
            out.extend_from_slice(data);
            return;
        }
        let middle = 1 + rng.below(u64::from(length)) as u32;
        let cut = |from: u32, to: u32, out: &mut Vec<u8>| {
            let part = &data[from as usize..to as usize];
            let at = offset + u64::from(from);
            if part.is_empty() {
            } else if part.iter().all(|byte| *byte == 0) {
                self.encoder.hole(out, tag, false, at, to - from);
            } else {
                self.encoder.data(out, tag, false, at, to - from);
                out.extend_from_slice(part);
            }
        };
        cut(middle, length, out);
        cut(0, middle, out);
        self.encoder.finish(out, tag);
    }
}

fn random_command(rng: &mut Rng, session: &Session) -> Command {
    let structured = session.mode >= Mode::Structured;
    let length = 1 + rng.below(64);
    let offset = rng.below(session.size - length);
    let (fua, flag) = (rng.chance(2), rng.chance(2));
    match rng.below(if structured { 8 } else { 7 }) {
        0 | 1 => {
            let dont_fragment = structured && flag;
            Command::Read { offset, length: length as u32, dont_fragment }
        }
        2 | 3 => Command::Write { offset, length: length as u32, fua },
        4 => Command::Trim { offset, length, fua },
        5 => Command::WriteZeroes { offset, length, fua, no_hole: flag, fast_zero: !flag },
        6 if flag => Command::Flush,
        6 => Command::Cache { offset, length },
        _ => {
            let all = ContextSet::first(session.contexts.len());
            let one = ContextSet::default().with(rng.below(2) as usize);
            let contexts = if session.mode == Mode::Extended && fua { one } else { all };
            Command::BlockStatus { offset, length, one: flag, contexts }
        }
    }
}

/// The client's view: one request at a time touches any byte, so that the order of answers
/// does not matter to what a read returns.
#[derive(Default)]
struct Caller {
    mirror: Vec<u8>,
    open: BTreeMap<u64, (Command, Vec<u8>)>,
    extents: usize,
    finished: usize,
}

impl Caller {
    fn free(&self, command: &Command) -> bool {
        let range = |command: &Command| match *command {
            Command::Read { offset, length, .. } | Command::Write { offset, length, .. } => {
                (offset, offset + u64::from(length))
            }
            Command::Trim { offset, length, .. } | Command::WriteZeroes { offset, length, .. } => {
                (offset, offset + length)
            }
            _ => (0, 0),
        };
        let (start, end) = range(command);
        self.open.values().all(|(other, _)| {
            let (from, to) = range(other);
            end <= from || to <= start
        })
    }

    fn take(&mut self, decoder: &mut ReplyDecoder, piece: &[u8]) -> usize {
        let mut rest = piece;
        loop {
            let (count, reply) = decoder.next(rest);
            match reply {
                Reply::NeedMore => return piece.len(),
                Reply::Data { cookie, offset, range } => {
                    let (command, data) = self.open.get_mut(&cookie).expect("open");
                    let at = (offset - command.offset()) as usize;
                    data[at..at + range.len()].copy_from_slice(&rest[range]);
                }
                Reply::Hole { cookie, offset, length } => {
                    let (command, data) = self.open.get_mut(&cookie).expect("open");
                    let at = (offset - command.offset()) as usize;
                    data[at..at + length as usize].fill(0);
                }
                Reply::Extents { .. } => self.extents += 1,
                Reply::Error { errno, .. } => assert_eq!(errno, wire::NBD_EIO),
                Reply::Done { cookie, errno } => {
                    let (command, data) = self.open.remove(&cookie).expect("open");
                    let failed = matches!(command, Command::Cache { .. });
                    assert_eq!(errno.is_some(), failed);
                    if let Command::Read { offset, length, .. } = command {
                        assert_eq!(data, self.mirror[offset as usize..][..length as usize]);
                    }
                    self.finished += 1;
                }
                Reply::HangUp(violation) => panic!("{violation:?}"),
            }
            rest = &rest[count..];
        }
    }
}

fn exchange(mode: Mode, seed: u64) {
    let session = Session { size: 4096, ..common::session(mode) };
    let mut rng = Rng(seed);
    let mut disk = Disk {
        decoder: Decoder::new(&session),
        encoder: Encoder::new(mode),
        session: session.clone(),
        contents: vec![0; 4096],
        open: Vec::new(),
        again: Vec::new(),
        echo: client::request::Encoder::new(&session),
    };
    let mut caller = Caller { mirror: vec![0; 4096], ..Caller::default() };
    let encoder = client::request::Encoder::new(&session);
    let mut replies = ReplyDecoder::new(&session);
    let (mut to_server, mut to_client, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    let (total, mut cookie) = (300, 0);
    while caller.finished < total {
        let command = random_command(&mut rng, &session);
        if cookie < total as u64 && caller.open.len() < 16 && caller.free(&command) {
            let request = Request { cookie, command };
            cookie += 1;
            let start = to_server.len();
            encoder.encode(&request, &mut to_server).expect("allowed");
            let mut data = vec![b'?'; 64];
            match command {
                Command::Write { offset, length, .. } => {
                    let value = if rng.chance(3) { 0 } else { rng.next() as u8 };
                    caller.mirror[offset as usize..][..length as usize].fill(value);
                    to_server.resize(to_server.len() + length as usize, value);
                }
                Command::Trim { offset, length, .. }
                | Command::WriteZeroes { offset, length, .. } => {
                    caller.mirror[offset as usize..][..length as usize].fill(0);
                }
                Command::Read { length, .. } => data.truncate(length as usize),
                _ => {}
            }
            sent.extend_from_slice(&to_server[start..]);
            assert!(replies.expect(&request));
            caller.open.insert(request.cookie, (command, data));
        }
        let most = portion(&mut rng, seed % 5);
        deliver(&mut to_server, most, |piece| disk.take(piece));
        if rng.chance(3) {
            disk.answer(&mut rng, &mut to_client);
        }
        deliver(&mut to_client, most, |piece| caller.take(&mut replies, piece));
    }
    assert_eq!(disk.again, sent, "decoded and encoded again");
    assert_eq!((disk.contents, replies.in_flight()), (caller.mirror, 0));
    assert!(mode == Mode::Simple || caller.extents > 0);
}

#[test]
fn requests_and_replies_in_every_mode() {
    for mode in MODES {
        for seed in 0..60 {
            exchange(mode, seed);
        }
    }
}
