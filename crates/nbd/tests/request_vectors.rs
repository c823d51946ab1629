//! Requests, byte by byte, written out from proto.md ("Transmission phase"): decoded by the
//! server's side, encoded by the client's, and what is refused.
#![allow(missing_docs)]

mod common;

use common::{Split, bytes, session};
use destage_nbd::request::{Command, Decoder, Reason, Refusal, Request, Step};
use destage_nbd::{ContextSet, Mode, Session, client, wire};

/// Everything that comes out of a stream; payload pieces joined.
fn decode(session: &Session, stream: &[u8], split: Split) -> (Vec<Step>, Vec<u8>) {
    let (mut decoder, mut steps, mut payload) = (Decoder::new(session), Vec::new(), Vec::new());
    for piece in split.pieces(stream) {
        let mut rest = piece;
        loop {
            let (count, step) = decoder.next(rest);
            match &step {
                Step::NeedMore => {
                    assert_eq!(count, rest.len(), "NeedMore takes all");
                    break;
                }
                Step::Payload { at, range, last, .. } => {
                    assert_eq!(range.end, count);
                    payload.extend_from_slice(&rest[range.clone()]);
                    assert!(*at as usize <= payload.len());
                    assert_eq!(*last, decoder.payload_left() == 0);
                }
                Step::HangUp(_) | Step::Disconnect => {
                    steps.push(step);
                    assert_eq!(decoder.next(&[]).1, Step::HangUp(Reason::Over));
                    return (steps, payload);
                }
                _ => steps.push(step),
            }
            rest = &rest[count..];
        }
    }
    (steps, payload)
}

fn all_splits(session: &Session, stream: &[u8]) -> (Vec<Step>, Vec<u8>) {
    let whole = decode(session, stream, Split::Whole);
    assert_eq!(decode(session, stream, Split::Bytes), whole);
    for at in 0..=stream.len() {
        assert_eq!(decode(session, stream, Split::At(at)), whole, "cut at {at}");
    }
    whole
}

/// The bytes decode to the command, and the command encodes to the bytes.
fn check(session: &Session, sent: &str, command: Command) {
    let stream = bytes(sent);
    let request = Request { cookie: 0x1122_3344_5566_7788, command };
    let mut twice = stream.clone();
    let payload: &[u8] = if matches!(command, Command::Write { .. }) { b"abcd" } else { b"" };
    twice.extend_from_slice(payload);
    let one = twice.clone();
    twice.extend_from_slice(&one);
    let (steps, data) = all_splits(session, &twice);
    assert_eq!(steps, [Step::Request(request), Step::Request(request)], "{sent}");
    assert_eq!(data, payload.repeat(2));
    let mut out = Vec::new();
    client::request::Encoder::new(session).encode(&request, &mut out).expect("allowed");
    assert_eq!(out, stream, "{sent}");
}

fn refused(session: &Session, sent: &str, why: Refusal, errno: u32) {
    let flush = if session.mode == Mode::Extended { FLUSH_EXTENDED } else { FLUSH };
    let (steps, data) = all_splits(session, &bytes(&format!("{sent} {flush}")));
    let Step::Refused { cookie: 7, why: reason, .. } = steps[0] else {
        panic!("{sent}: {steps:?}")
    };
    assert_eq!((reason, reason.errno()), (why, errno), "{sent}");
    let next = Request { cookie: 9, command: Command::Flush };
    assert_eq!(steps[1..], [Step::Request(next)], "{sent}: the stream stays in step");
    assert!(data.is_empty());
}

const FLUSH: &str = "25609513 0000 0003 0000000000000009 0000000000000000 00000000";
const FLUSH_EXTENDED: &str =
    "21e41c71 0000 0003 0000000000000009 0000000000000000 0000000000000000";

#[test]
fn compact_requests() {
    let structured = session(Mode::Structured);
    let (offset, length) = (0x1000, 0x200);
    let both = ContextSet::first(2);
    for (header, command) in [
        ("0000 0000", Command::Read { offset, length: 0x200, dont_fragment: false }),
        ("0004 0000", Command::Read { offset, length: 0x200, dont_fragment: true }),
        ("0000 0004", Command::Trim { offset, length, fua: false }),
        ("0001 0004", Command::Trim { offset, length, fua: true }),
        ("0000 0005", Command::Cache { offset, length }),
        ("0000 0006", zeroes(false, false, false)),
        ("0001 0006", zeroes(true, false, false)),
        ("0002 0006", zeroes(false, true, false)),
        ("0013 0006", zeroes(true, true, true)),
        ("0000 0007", Command::BlockStatus { offset, length, one: false, contexts: both }),
        ("0008 0007", Command::BlockStatus { offset, length, one: true, contexts: both }),
    ] {
        let sent = format!("25609513 {header} 1122334455667788 0000000000001000 00000200");
        check(&structured, &sent, command);
        let sent = format!("21e41c71 {header} 1122334455667788 0000000000001000 0000000000000200");
        check(&session(Mode::Extended), &sent, command);
    }
    let flush = "25609513 0000 0003 1122334455667788 0000000000000000 00000000";
    check(&session(Mode::Simple), flush, Command::Flush);
}

fn zeroes(fua: bool, no_hole: bool, fast_zero: bool) -> Command {
    Command::WriteZeroes { offset: 0x1000, length: 0x200, fua, no_hole, fast_zero }
}

#[test]
fn up_to_the_last_byte() {
    let sent = "25609513 0000 0000 1122334455667788 00000000000fff00 00000100";
    let command = Command::Read { offset: 0xfff00, length: 0x100, dont_fragment: false };
    check(&session(Mode::Simple), sent, command);
    let sent = "21e41c71 0000 0006 1122334455667788 0000000000000000 0000000000100000";
    let (offset, length, fua) = (0, 1 << 20, false);
    let command = Command::WriteZeroes { offset, length, fua, no_hole: false, fast_zero: false };
    check(&session(Mode::Extended), sent, command);
}

#[test]
fn writes() {
    let write = |fua| Command::Write { offset: 0x1000, length: 4, fua };
    for (compact, extended, fua) in [("0000", "0020", false), ("0001", "0021", true)] {
        let sent = format!("25609513 {compact} 0001 1122334455667788 0000000000001000 00000004");
        check(&session(Mode::Simple), &sent, write(fua));
        let sent =
            format!("21e41c71 {extended} 0001 1122334455667788 0000000000001000 0000000000000004");
        check(&session(Mode::Extended), &sent, write(fua));
    }
}

#[test]
fn a_filter_names_some_contexts() {
    let only_second = ContextSet::default().with(1);
    let command =
        Command::BlockStatus { offset: 0x1000, length: 0x8000, one: true, contexts: only_second };
    check(
        &session(Mode::Extended),
        "21e41c71 0028 0007 1122334455667788 0000000000001000 000000000000000c
         0000000000008000 00000002",
        command,
    );
    let head = "21e41c71 0020 0007 0000000000000007 0000000000001000";
    for payload in [
        "000000000000000c 0000000000008000 00000003",
        "0000000000000010 0000000000008000 00000001 00000001",
        "0000000000000014 0000000000008000 00000001 00000002 00000002",
        "0000000000000008 0000000000008000",
        "0000000000000004 00000001",
        "0000000000000000",
        "000000000000000b 0000000000008000 000000",
    ] {
        let sent = format!("{head} {payload}");
        refused(&session(Mode::Extended), &sent, Refusal::Filter, 22);
    }
    let long = format!("{head} 000000000000000c 0000000000100000 00000001");
    refused(&session(Mode::Extended), &long, Refusal::BeyondEnd, 22);
    let mut without = session(Mode::Extended);
    without.flags &= !wire::NBD_FLAG_BLOCK_STATUS_PAYLOAD;
    let sent = format!("{head} 000000000000000c 0000000000008000 00000002");
    refused(&without, &sent, Refusal::Flags, 22);
}

#[test]
fn refusals_and_their_errors() {
    let plain = session(Mode::Structured);
    let data = "61".repeat(0x200);
    let end = "00000000000ffe01 00000200";
    for (rest, why, errno) in [
        (
            "0000 0009 0000000000000007 0000000000000000 00000200".into(),
            Refusal::UnknownCommand,
            22,
        ),
        (
            "0000 0008 0000000000000007 0000000000000000 00000200".into(),
            Refusal::UnknownCommand,
            22,
        ),
        (
            "0000 ffff 0000000000000007 0000000000000000 ffffffff".into(),
            Refusal::UnknownCommand,
            22,
        ),
        ("0040 0000 0000000000000007 0000000000000000 00000200".into(), Refusal::Flags, 22),
        ("0008 0000 0000000000000007 0000000000000000 00000200".into(), Refusal::Flags, 22),
        ("0020 0007 0000000000000007 0000000000000000 00000200".into(), Refusal::Flags, 22),
        ("0010 0004 0000000000000007 0000000000000000 00000200".into(), Refusal::Flags, 22),
        (
            format!("0004 0001 0000000000000007 0000000000000000 00000200 {data}"),
            Refusal::Flags,
            22,
        ),
        (
            format!("0020 0001 0000000000000007 0000000000000000 00000200 {data}"),
            Refusal::Flags,
            22,
        ),
        (format!("0000 0001 0000000000000007 {end} {data}"), Refusal::WriteBeyondEnd, 28),
        (format!("0000 0006 0000000000000007 {end}"), Refusal::WriteBeyondEnd, 28),
        (format!("0000 0000 0000000000000007 {end}"), Refusal::BeyondEnd, 22),
        (format!("0000 0004 0000000000000007 {end}"), Refusal::BeyondEnd, 22),
        (format!("0000 0005 0000000000000007 {end}"), Refusal::BeyondEnd, 22),
        (format!("0000 0007 0000000000000007 {end}"), Refusal::BeyondEnd, 22),
        ("0000 0000 0000000000000007 ffffffffffffffff 00000200".into(), Refusal::BeyondEnd, 22),
        ("0000 0000 0000000000000007 0000000000000000 00000000".into(), Refusal::Length, 22),
        ("0000 0001 0000000000000007 0000000000000000 00000000".into(), Refusal::Length, 22),
        ("0000 0003 0000000000000007 0000000000000000 00000200".into(), Refusal::Length, 22),
        ("0000 0003 0000000000000007 0000000000000001 00000000".into(), Refusal::Length, 22),
    ] {
        refused(&plain, &format!("25609513 {rest}"), why, errno);
    }
}

#[test]
fn refusals_by_what_the_session_offers() {
    let at = "0000000000000007 0000000000000000 00000200";
    let data = "61".repeat(0x200);
    let mut read_only = session(Mode::Simple);
    read_only.flags |= wire::NBD_FLAG_READ_ONLY;
    for kind in ["0004", "0006"] {
        let sent = format!("25609513 0000 {kind} {at}");
        refused(&read_only, &sent, Refusal::ReadOnly, 1);
    }
    refused(&read_only, &format!("25609513 0000 0001 {at} {data}"), Refusal::ReadOnly, 1);
    let status = format!("25609513 0000 0007 {at}");
    refused(&session(Mode::Simple), &status, Refusal::NotAdvertised, 22);
    refused(&session(Mode::Simple), &format!("25609513 0004 0000 {at}"), Refusal::Flags, 22);

    let mut bare = session(Mode::Simple);
    bare.flags = wire::NBD_FLAG_HAS_FLAGS | wire::NBD_FLAG_SEND_FLUSH;
    for kind in ["0004", "0005", "0006"] {
        refused(&bare, &format!("25609513 0000 {kind} {at}"), Refusal::NotAdvertised, 22);
    }
    refused(&bare, &format!("25609513 0001 0000 {at}"), Refusal::Flags, 22);
    bare.flags |= wire::NBD_FLAG_SEND_WRITE_ZEROES;
    refused(&bare, &format!("25609513 0010 0006 {at}"), Refusal::Flags, 22);

    let mut blocks = session(Mode::Structured);
    blocks.block.minimum = 512;
    blocks.block.maximum = 1024;
    let odd = "25609513 0000 0000 0000000000000007 0000000000000001 00000200";
    refused(&blocks, odd, Refusal::Unaligned, 22);
    let odd = "25609513 0000 0000 0000000000000007 0000000000000000 00000201";
    refused(&blocks, odd, Refusal::Unaligned, 22);
    let long = "0000 0000000000000007 0000000000000000 00000800";
    refused(&blocks, &format!("25609513 0000 {long}"), Refusal::TooLong, 22);
    refused(&blocks, &format!("25609513 0004 {long}"), Refusal::TooLongUnfragmented, 75);
    let long = "0001 0000000000000007 0000000000000000 00000800";
    let sent = format!("25609513 0000 {long} {}", "62".repeat(0x800));
    refused(&blocks, &sent, Refusal::TooLong, 22);
    let flush = "21e41c71 0020 0003 0000000000000007 0000000000000000 0000000000000002 6161";
    refused(&session(Mode::Extended), flush, Refusal::Flags, 22);
    let unknown = "21e41c71 0020 0063 0000000000000007 0000000000000000 0000000000000002 6161";
    refused(&session(Mode::Extended), unknown, Refusal::UnknownCommand, 22);
}

#[test]
fn flush_and_reads_may_carry_fua() {
    let fua = "25609513 0001 0003 0000000000000009 0000000000000000 00000000";
    let (steps, _) = all_splits(&session(Mode::Simple), &bytes(fua));
    assert_eq!(steps, [Step::Request(Request { cookie: 9, command: Command::Flush })]);
}

#[test]
fn ends_of_the_stream() {
    let at = "0000000000000007 0000000000000000";
    for (mode, sent, end) in [
        (Mode::Simple, format!("25609513 0000 0002 {at} 00000000"), Step::Disconnect),
        (Mode::Simple, format!("25609514 0000 0003 {at} 00000000"), Step::HangUp(Reason::Magic)),
        (Mode::Extended, FLUSH.to_string() + "00000000", Step::HangUp(Reason::Magic)),
        (Mode::Simple, FLUSH_EXTENDED.to_string(), Step::HangUp(Reason::Magic)),
        (
            Mode::Simple,
            format!("25609513 0000 0001 {at} ffffffff"),
            Step::HangUp(Reason::PayloadTooLong),
        ),
        (
            Mode::Extended,
            format!("21e41c71 0020 0007 {at} ffffffffffffffff"),
            Step::HangUp(Reason::PayloadTooLong),
        ),
        (
            Mode::Extended,
            format!("21e41c71 0000 0001 {at} 0000000000000200"),
            Step::HangUp(Reason::WriteWithoutPayload),
        ),
    ] {
        let (steps, _) = all_splits(&session(mode), &bytes(&sent));
        assert_eq!(steps, [end], "{sent}");
    }
}

#[test]
fn the_client_does_not_send_what_would_be_refused() {
    let session = session(Mode::Structured);
    let encoder = client::request::Encoder::new(&session);
    let contexts = ContextSet::default().with(1);
    for (command, why) in [
        (Command::Read { offset: 1 << 20, length: 1, dont_fragment: false }, Refusal::BeyondEnd),
        (Command::Trim { offset: 0, length: 1 << 40, fua: false }, Refusal::BeyondEnd),
        (Command::BlockStatus { offset: 0, length: 9, one: false, contexts }, Refusal::Filter),
    ] {
        let mut out = Vec::new();
        assert_eq!(encoder.encode(&Request { cookie: 1, command }, &mut out), Err(why));
        assert!(out.is_empty());
    }
    let mut out = Vec::new();
    encoder.disconnect(&mut out);
    let expected = "25609513 0000 0002 0000000000000000 0000000000000000 00000000";
    assert_eq!(out, bytes(expected));
}

/// Offsets of what begins in the input, without anything being taken; none is made up.
#[test]
fn a_look_ahead_shows_offsets_and_takes_nothing() {
    for session in [session(Mode::Structured), session(Mode::Extended)] {
        let mut stream = Vec::new();
        let commands = [
            Command::Write { offset: 8192, length: 512, fua: false },
            Command::Read { offset: 4096, length: 512, dont_fragment: false },
            Command::Write { offset: 0, length: 4096, fua: false },
            Command::Flush,
        ];
        for command in commands {
            let request = Request { cookie: 7, command };
            let encoder = client::request::Encoder::new(&session);
            encoder.encode(&request, &mut stream).expect("allowed");
            if let Command::Write { length, .. } = command {
                stream.extend(std::iter::repeat_n(0xAB, length as usize));
            }
        }
        let seen = |decoder: &Decoder, input: &[u8]| {
            let mut offsets = Vec::new();
            decoder.look_ahead(input, |offset| offsets.push(offset));
            offsets
        };
        let mut decoder = Decoder::new(&session);
        assert_eq!(seen(&decoder, &stream), [8192, 4096, 0, 0]);
        assert_eq!(seen(&decoder, &stream[..stream.len() - 1]), [8192, 4096, 0]);
        assert_eq!(seen(&decoder, &stream[1..]), [], "no request begins so");
        // In the middle of a payload, and of a header, where nothing can be said.
        let (header, _) = decoder.next(&stream);
        assert_eq!(seen(&decoder, &stream[header..]), [4096, 0, 0]);
        decoder.next(&stream[header..header + 100]);
        assert_eq!(seen(&decoder, &stream[header + 100..]), [4096, 0, 0]);
        decoder.next(&stream[header + 100..header + 512]);
        decoder.next(&stream[header + 512..header + 515]);
        assert_eq!(seen(&decoder, &stream[header + 515..]), []);
    }
}
