//! Garbage and mutated streams against every decoder: never a panic, output and steps bounded by
//! what was fed, and after a hang-up nothing more.
#![allow(missing_docs)]

mod common;

use common::{Rng, Split, bytes, export, session};
use destage_nbd::client::{self, Handshake, Options, Reply, ReplyDecoder, Uri};
use destage_nbd::handshake::{self, Config, Server, Tls};
use destage_nbd::request::{Command, Decoder, Request, Step};
use destage_nbd::{ContextSet, Mode};
use std::sync::Arc;

/// Cases of each of the five tests: together 200,000.
const CASES: u64 = 40_000;
const MODES: [Mode; 3] = [Mode::Simple, Mode::Structured, Mode::Extended];

/// A few messages, some of their bytes changed, cut, repeated or replaced by garbage.
fn mutated(rng: &mut Rng, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..1 + rng.below(4) {
        stream.extend_from_slice(rng.pick(messages).as_slice());
    }
    for _ in 0..rng.below(4) {
        let at = rng.below(stream.len() as u64 + 1) as usize;
        match rng.below(5) {
            0 if at < stream.len() => stream[at] ^= 1 << rng.below(8),
            1 if at < stream.len() => stream[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => stream.truncate(at),
            3 if at < stream.len() => {
                stream.remove(at);
            }
            _ => stream.insert(at, rng.next() as u8),
        }
    }
    if rng.chance(8) {
        for _ in 0..rng.below(80) {
            stream.push(rng.next() as u8);
        }
    }
    stream
}

fn cut(rng: &mut Rng) -> Split {
    match rng.below(4) {
        0 => Split::Whole,
        1 => Split::Bytes,
        _ => Split::Random(rng.next()),
    }
}

fn options() -> Vec<Vec<u8>> {
    let option = |text: &str| bytes(&format!("49484156454f5054 {text}"));
    vec![
        option("00000001 00000004 'disk'"),
        option("00000002 00000000"),
        option("00000003 00000000"),
        option("00000005 00000000"),
        option("00000006 00000010 00000004 'disk' 0003 0001 0002 0003"),
        option("00000007 0000000c 00000004 'disk' 0001 0003"),
        option("00000008 00000000"),
        option("0000000b 00000000"),
        option("00000009 0000001d 00000004 'disk' 00000002 00000005 'base:' 00000004 'base'"),
        option("0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'"),
        option("00000063 00000003 'xyz'"),
    ]
}

#[test]
fn server_handshakes() {
    let messages = options();
    let mut ends = [0u32; 4];
    for case in 0..CASES {
        let mut rng = Rng(case);
        let mut config = Config::single(export());
        config.tls = *rng.pick(&[Tls::Off, Tls::Offered, Tls::Required]);
        config.limits.option_bytes = 256;
        config.limits.skip_bytes = 1024;
        let mut stream = bytes("00000003");
        stream.append(&mut mutated(&mut rng, &messages));
        if rng.chance(20) {
            stream[rng.below(4) as usize] ^= 1 << rng.below(8);
        }
        let mut out = Vec::new();
        let mut server = Server::new(Arc::new(config), &mut out);
        let mut end = 0;
        for piece in cut(&mut rng).pieces(&stream) {
            let mut rest = piece;
            while end == 0 {
                let (count, step) = server.feed(rest, &mut out);
                rest = &rest[count..];
                match step {
                    handshake::Step::NeedMore => break,
                    handshake::Step::StartTls => server.tls_started(),
                    handshake::Step::Option { .. } => assert!(count > 0),
                    handshake::Step::Transmission { .. } => end = 1,
                    handshake::Step::Aborted => end = 2,
                    handshake::Step::HangUp(_) => end = 3,
                }
            }
        }
        if end > 0 {
            let over = handshake::Step::HangUp(handshake::Reason::Over);
            assert_eq!(server.feed(&stream, &mut out), (0, over));
        }
        ends[end] += 1;
        assert!(out.len() < 4096 + stream.len() * 20, "{} bytes out", out.len());
    }
    assert!(ends.iter().all(|count| *count > 1000), "every end is reached: {ends:?}");
}

fn commands() -> Vec<Command> {
    let (offset, contexts) = (0x1000, ContextSet::first(2));
    vec![
        Command::Read { offset, length: 16, dont_fragment: false },
        Command::Write { offset, length: 16, fua: true },
        Command::Flush,
        Command::Trim { offset, length: 16, fua: false },
        Command::Cache { offset, length: 16 },
        Command::WriteZeroes { offset, length: 16, fua: false, no_hole: true, fast_zero: true },
        Command::BlockStatus { offset, length: 0x8000, one: false, contexts },
    ]
}

fn requests(mode: Mode) -> Vec<Vec<u8>> {
    let session = session(mode);
    let encoder = client::request::Encoder::new(&session);
    let mut all = Vec::new();
    for command in commands() {
        let mut out = Vec::new();
        if encoder.encode(&Request { cookie: 7, command }, &mut out).is_ok() {
            if let Command::Write { length, .. } = command {
                out.resize(out.len() + length as usize, b'x');
            }
            all.push(out);
        }
    }
    if mode == Mode::Extended {
        all.push(bytes(
            "21e41c71 0028 0007 0000000000000007 0000000000001000 000000000000000c
             0000000000008000 00000002",
        ));
    }
    all
}

/// A command that comes out is one that the client's side may send.
fn valid(request: &Request, encoder: &client::request::Encoder) {
    let mut out = Vec::new();
    encoder.encode(request, &mut out).expect("only allowed requests come out");
}

#[test]
fn request_streams() {
    let streams = MODES.map(|mode| (session(mode), requests(mode)));
    let (mut seen, mut refused, mut hung) = (0u64, 0u64, 0u64);
    for case in 0..CASES {
        let mut rng = Rng(case);
        let (session, messages) = rng.pick(&streams);
        let stream = mutated(&mut rng, messages);
        let encoder = client::request::Encoder::new(session);
        let mut decoder = Decoder::new(session);
        let (mut over, mut payload) = (false, 0u64);
        for piece in cut(&mut rng).pieces(&stream) {
            let mut rest = piece;
            while !over {
                let (count, step) = decoder.next(rest);
                match step {
                    Step::NeedMore => {
                        assert_eq!(count, rest.len());
                        break;
                    }
                    Step::Request(request) => {
                        assert_eq!(payload, 0, "the payload comes first");
                        valid(&request, &encoder);
                        if let Command::Write { length, .. } = request.command {
                            payload = u64::from(length);
                        }
                        seen += 1;
                    }
                    Step::Payload { range, last, .. } => {
                        payload -= range.len() as u64;
                        assert_eq!(last, payload == 0);
                    }
                    Step::Refused { .. } => refused += 1,
                    Step::Disconnect | Step::HangUp(_) => over = true,
                }
                rest = &rest[count..];
            }
        }
        hung += u64::from(over);
    }
    assert!(seen > CASES / 2 && refused > 1000 && hung > 1000, "{seen} {refused} {hung}");
}

#[test]
fn client_handshakes() {
    let reply = |text: &str| bytes(&format!("0003e889045565a9 {text}"));
    let messages = [
        reply("0000000b 00000001 00000000"),
        reply("0000000b 80000001 00000000"),
        reply("00000008 00000001 00000000"),
        reply("00000005 00000001 00000000"),
        reply("0000000a 00000004 00000013 00000001 'base:allocation'"),
        reply("0000000a 00000001 00000000"),
        reply("00000007 00000003 0000000c 0000 0000000000100000 0001"),
        reply("00000007 00000003 0000000e 0003 00000200 00001000 00100000"),
        reply("00000007 00000001 00000000"),
        reply("00000007 80000006 00000005 'where'"),
    ];
    let greeting = bytes("4e42444d41474943 49484156454f5054 0003");
    let good: Vec<u8> = [0, 4, 5, 6, 7, 8].iter().flat_map(|at| messages[*at].clone()).collect();
    let (mut opened, mut failed) = (0u64, 0u64);
    for case in 0..CASES {
        let mut rng = Rng(case);
        let mut options = Options::new("disk");
        options.tls = rng.chance(8);
        options.mode = *rng.pick(&[Mode::Extended, Mode::Extended, Mode::Structured]);
        let some = if rng.chance(2) { std::slice::from_ref(&good) } else { &messages[..] };
        let mut stream = greeting.clone();
        stream.append(&mut mutated(&mut rng, some));
        if rng.chance(20) {
            stream[rng.below(18) as usize] ^= 1 << rng.below(8);
        }
        let (mut out, mut client) = (Vec::new(), Handshake::new(options));
        let mut over = false;
        for piece in cut(&mut rng).pieces(&stream) {
            let mut rest = piece;
            while !over {
                let (count, step) = client.feed(rest, &mut out);
                rest = &rest[count..];
                match step {
                    client::Step::NeedMore => break,
                    client::Step::StartTls => client.tls_started(&mut out),
                    client::Step::Transmission(_) => (over, opened) = (true, opened + 1),
                    client::Step::Failed(_) => (over, failed) = (true, failed + 1),
                }
            }
        }
        assert!(out.len() < 1024, "a client says little");
    }
    assert!(opened > 1000 && failed > 1000, "{opened} {failed}");
}

fn replies(mode: Mode) -> Vec<Vec<u8>> {
    let simple = ["67446698 00000000 0000000000000000", "67446698 00000005 0000000000000002"];
    let chunks = [
        ("0001 0000", "0000000000000003", ""),
        ("0001 0001", "0000000000000000", "0000000000001000 'abcdefghijklmnop'"),
        ("0000 0001", "0000000000000000", "0000000000001000 'abcdefgh'"),
        ("0001 0002", "0000000000000000", "0000000000001008 00000008"),
        ("0001 0005", "0000000000000006", "00000001 00001000 00000000"),
        ("0000 0005", "0000000000000006", "00000002 00001000 00000000"),
        ("0001 8001", "0000000000000001", "00000005 0003 'bad'"),
        ("0001 8002", "0000000000000000", "00000005 0003 'bad' 0000000000001004"),
        ("0001 0006", "0000000000000006", "00000001 00000001 0000000000001000 0000000000000000"),
    ];
    let mut all = Vec::new();
    if mode != Mode::Extended {
        all.extend(simple.map(bytes));
        let mut data = bytes(simple[0]);
        data.extend_from_slice(b"abcdefghijklmnop");
        all.push(data);
    }
    if mode == Mode::Simple {
        return all;
    }
    for (head, cookie, payload) in chunks {
        let length = bytes(payload).len();
        all.push(match mode {
            Mode::Extended => {
                bytes(&format!("6e8a278c {head} {cookie} 0000000000001000 {length:016x} {payload}"))
            }
            _ => bytes(&format!("668e33ef {head} {cookie} {length:08x} {payload}")),
        });
    }
    all
}

#[test]
fn reply_streams() {
    let streams = MODES.map(|mode| (session(mode), replies(mode)));
    let (mut done, mut hung) = (0u64, 0u64);
    for case in 0..CASES {
        let mut rng = Rng(case);
        let (session, messages) = rng.pick(&streams);
        let stream = mutated(&mut rng, messages);
        let mut decoder = ReplyDecoder::new(session);
        for (cookie, command) in commands().into_iter().enumerate() {
            assert!(decoder.expect(&Request { cookie: cookie as u64, command }));
        }
        let mut over = false;
        for piece in cut(&mut rng).pieces(&stream) {
            let mut rest = piece;
            while !over {
                let (count, reply) = decoder.next(rest);
                match reply {
                    Reply::NeedMore => {
                        assert_eq!(count, rest.len());
                        break;
                    }
                    Reply::Data { offset, range, .. } => {
                        assert!(offset >= 0x1000 && offset + range.len() as u64 <= 0x1010);
                        assert!(range.end == count && !range.is_empty());
                    }
                    Reply::Hole { offset, length, .. } => {
                        assert!(offset >= 0x1000 && offset + u64::from(length) <= 0x1010);
                    }
                    Reply::Done { .. } => done += 1,
                    Reply::HangUp(_) => (over, hung) = (true, hung + 1),
                    Reply::Error { errno, .. } => assert!(errno != 0),
                    Reply::Extents { extents, .. } => assert!(!extents.is_empty()),
                }
                rest = &rest[count..];
            }
        }
    }
    assert!(done > 1000 && hung > 1000, "{done} {hung}");
}

#[test]
fn uris() {
    let messages = [
        "nbd://example.com:10809/disk",
        "nbds://[::1]:1/a%20b?tls-hostname=x",
        "nbd+unix:///disk?socket=/run/a%2fb",
    ]
    .map(|text| text.as_bytes().to_vec());
    let mut good = 0u64;
    for case in 0..CASES {
        let text = mutated(&mut Rng(case), &messages);
        if let Ok(uri) = String::from_utf8_lossy(&text).parse::<Uri>() {
            assert_eq!(uri.to_string().parse(), Ok(uri));
            good += 1;
        }
    }
    assert!(good > 1000, "{good}");
}
