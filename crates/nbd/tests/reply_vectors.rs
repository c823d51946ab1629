//! Replies, byte by byte, written out from proto.md: encoded by the server's side, decoded by the
//! client's, and what the client does not take.
#![allow(missing_docs)]

mod common;

use common::{Split, bytes, session};
use destage_nbd::client::{Reply, ReplyDecoder, Violation};
use destage_nbd::reply::{Encoder, Extent, Tag};
use destage_nbd::request::{Command, Request};
use destage_nbd::{ContextSet, Mode, wire};

const COOKIE: u64 = 0x1122_3344_5566_7788;
const TAG: Tag = Tag { cookie: COOKIE, offset: 0x1000 };

fn read(dont_fragment: bool) -> Command {
    Command::Read { offset: 0x1000, length: 8, dont_fragment }
}

const TRIM: Command = Command::Trim { offset: 0x1000, length: 8, fua: false };

fn status(one: bool) -> Command {
    let contexts = ContextSet::default().with(0);
    Command::BlockStatus { offset: 0x1000, length: 0x8000, one, contexts }
}

/// Everything that comes out of a stream, pieces of data joined.
fn decode(mode: Mode, command: Command, stream: &[u8], split: Split) -> (Vec<Reply>, Vec<u8>) {
    let mut decoder = ReplyDecoder::new(&session(mode));
    let request = Request { cookie: COOKIE, command };
    assert!(decoder.expect(&request) && !decoder.expect(&request));
    let (mut replies, mut data) = (Vec::new(), vec![b'?'; 8]);
    for piece in split.pieces(stream).into_iter().chain([&[][..]]) {
        let mut rest = piece;
        loop {
            let (count, reply) = decoder.next(rest);
            match &reply {
                Reply::NeedMore => {
                    assert_eq!(count, rest.len());
                    break;
                }
                Reply::Data { offset, range, .. } => {
                    let at = (offset - 0x1000) as usize;
                    data[at..at + range.len()].copy_from_slice(&rest[range.clone()]);
                }
                Reply::HangUp(_) => {
                    replies.push(reply);
                    return (replies, data);
                }
                _ => replies.push(reply),
            }
            rest = &rest[count..];
        }
    }
    (replies, data)
}

fn all_splits(mode: Mode, command: Command, stream: &[u8]) -> (Vec<Reply>, Vec<u8>) {
    let whole = decode(mode, command, stream, Split::Whole);
    for at in 0..=stream.len() {
        assert_eq!(decode(mode, command, stream, Split::At(at)).0, whole.0, "cut at {at}");
    }
    assert_eq!(decode(mode, command, stream, Split::Bytes).0, whole.0);
    whole
}

/// What the encoder wrote is these bytes, and the client reads these events from them.
fn check(
    mode: Mode,
    command: Command,
    write: impl Fn(&Encoder, &mut Vec<u8>),
    expected: &str,
    events: &[Reply],
) -> Vec<u8> {
    let mut out = Vec::new();
    write(&Encoder::new(mode), &mut out);
    assert_eq!(out, bytes(expected), "{expected}");
    let (replies, data) = all_splits(mode, command, &out);
    assert_eq!(replies, events, "{expected}");
    data
}

fn done(errno: Option<u32>) -> Reply {
    Reply::Done { cookie: COOKIE, errno }
}

fn error(errno: u32, offset: Option<u64>, text: &str) -> Reply {
    Reply::Error { cookie: COOKIE, errno, offset, text: text.to_string() }
}

#[test]
fn simple_replies() {
    for mode in [Mode::Simple, Mode::Structured] {
        let write = |encoder: &Encoder, out: &mut Vec<u8>| encoder.success(out, TAG);
        check(mode, TRIM, write, "67446698 00000000 1122334455667788", &[done(None)]);
    }
    let write = |encoder: &Encoder, out: &mut Vec<u8>| encoder.error(out, TAG, 28, "full");
    let events = [error(28, None, ""), done(Some(28))];
    check(Mode::Simple, TRIM, write, "67446698 0000001c 1122334455667788", &events);
    check(Mode::Simple, read(false), write, "67446698 0000001c 1122334455667788", &events);
    let write = |encoder: &Encoder, out: &mut Vec<u8>| {
        encoder.read(out, TAG, 8);
        out.extend_from_slice(b"abcdefgh");
    };
    let sent = "67446698 00000000 1122334455667788 'abcdefgh'";
    assert_eq!(check(Mode::Simple, read(false), write, sent, &[done(None)]), b"abcdefgh");
}

#[test]
fn chunks_of_a_read() {
    let whole = |encoder: &Encoder, out: &mut Vec<u8>| {
        encoder.read(out, TAG, 8);
        out.extend_from_slice(b"abcdefgh");
    };
    let sent = "668e33ef 0001 0001 1122334455667788 00000010 0000000000001000 'abcdefgh'";
    assert_eq!(check(Mode::Structured, read(true), whole, sent, &[done(None)]), b"abcdefgh");
    let sent = "6e8a278c 0001 0001 1122334455667788 0000000000001000 0000000000000010
                0000000000001000 'abcdefgh'";
    assert_eq!(check(Mode::Extended, read(true), whole, sent, &[done(None)]), b"abcdefgh");

    let parts = |encoder: &Encoder, out: &mut Vec<u8>| {
        encoder.data(out, TAG, false, 0x1006, 2);
        out.extend_from_slice(b"gh");
        encoder.hole(out, TAG, false, 0x1000, 4);
        encoder.data(out, TAG, false, 0x1004, 2);
        out.extend_from_slice(b"ef");
        encoder.finish(out, TAG);
    };
    let hole = Reply::Hole { cookie: COOKIE, offset: 0x1000, length: 4 };
    let sent = "668e33ef 0000 0001 1122334455667788 0000000a 0000000000001006 'gh'
                668e33ef 0000 0002 1122334455667788 0000000c 0000000000001000 00000004
                668e33ef 0000 0001 1122334455667788 0000000a 0000000000001004 'ef'
                668e33ef 0001 0000 1122334455667788 00000000";
    let events = [hole.clone(), done(None)];
    assert_eq!(check(Mode::Structured, read(false), parts, sent, &events), b"????efgh");
    let sent = "6e8a278c 0000 0001 1122334455667788 0000000000001000 000000000000000a
                0000000000001006 'gh'
                6e8a278c 0000 0002 1122334455667788 0000000000001000 000000000000000c
                0000000000001000 00000004
                6e8a278c 0000 0001 1122334455667788 0000000000001000 000000000000000a
                0000000000001004 'ef'
                6e8a278c 0001 0000 1122334455667788 0000000000001000 0000000000000000";
    check(Mode::Extended, read(false), parts, sent, &events);
}

#[test]
fn success_and_errors_in_chunks() {
    let write = |encoder: &Encoder, out: &mut Vec<u8>| encoder.success(out, TAG);
    let sent = "6e8a278c 0001 0000 1122334455667788 0000000000001000 0000000000000000";
    check(Mode::Extended, TRIM, write, sent, &[done(None)]);

    let write = |encoder: &Encoder, out: &mut Vec<u8>| encoder.error(out, TAG, 5, "bad disk");
    let events = [error(5, None, "bad disk"), done(Some(5))];
    let sent = "668e33ef 0001 8001 1122334455667788 0000000e 00000005 0008 'bad disk'";
    check(Mode::Structured, TRIM, write, sent, &events);
    let sent = "6e8a278c 0001 8001 1122334455667788 0000000000001000 000000000000000e
                00000005 0008 'bad disk'";
    check(Mode::Extended, read(false), write, sent, &events);

    // Ours gives no offset; other servers do.
    let events = [error(5, Some(0x1004), "bad"), done(Some(5))];
    let sent = "668e33ef 0001 8002 1122334455667788 00000011 00000005 0003 'bad'
                0000000000001004";
    assert_eq!(all_splits(Mode::Structured, read(false), &bytes(sent)).0, events);
    let sent = "6e8a278c 0001 8002 1122334455667788 0000000000001000 0000000000000011
                00000005 0003 'bad' 0000000000001004";
    assert_eq!(all_splits(Mode::Extended, read(false), &bytes(sent)).0, events);
}

#[test]
fn block_status() {
    let extents = vec![Extent { length: 0x2000, flags: 3 }, Extent { length: 0x6000, flags: 0 }];
    let write = |encoder: &Encoder, out: &mut Vec<u8>| {
        encoder.block_status(out, TAG, true, 1, &extents);
    };
    let reply = Reply::Extents { cookie: COOKIE, context: 0, extents: extents.clone() };
    let events = [reply, done(None)];
    let sent = "668e33ef 0001 0005 1122334455667788 00000014 00000001
                00002000 00000003 00006000 00000000";
    check(Mode::Structured, status(false), write, sent, &events);
    let sent = "6e8a278c 0001 0006 1122334455667788 0000000000001000 0000000000000028
                00000001 00000002
                0000000000002000 0000000000000003 0000000000006000 0000000000000000";
    check(Mode::Extended, status(false), write, sent, &events);
    // A count of 0 leaves it to the length; compact extents are allowed too.
    for sent in [
        sent.replace("00000001 00000002", "00000001 00000000"),
        "6e8a278c 0001 0005 1122334455667788 0000000000001000 0000000000000014
         00000001 00002000 00000003 00006000 00000000"
            .to_string(),
    ] {
        assert_eq!(all_splits(Mode::Extended, status(false), &bytes(&sent)).0, events);
    }
    let mut out = Vec::new();
    let long = [
        Extent { length: 0x1000, flags: 1 },
        Extent { length: 1 << 40, flags: 2 },
        Extent { length: 0x1000, flags: 0 },
    ];
    Encoder::new(Mode::Structured).block_status(&mut out, TAG, false, 2, &long);
    let sent = "668e33ef 0000 0005 1122334455667788 00000014 00000002
                00001000 00000001 80000000 00000002";
    assert_eq!(out, bytes(sent), "cut where compact extents end");
}

#[test]
fn many_replies_in_one_vector() {
    let mut out = Vec::new();
    let encoder = Encoder::new(Mode::Structured);
    for cookie in 0..100 {
        encoder.success(&mut out, Tag { cookie, offset: 0 });
    }
    assert_eq!(out.len(), 1600);
    let mut decoder = ReplyDecoder::new(&session(Mode::Structured));
    for cookie in 0..100 {
        assert!(decoder.expect(&Request { cookie, command: Command::Flush }));
    }
    let mut rest = &out[..];
    for cookie in 0..100 {
        let (count, reply) = decoder.next(rest);
        assert_eq!(reply, Reply::Done { cookie, errno: None });
        rest = &rest[count..];
    }
    assert_eq!((decoder.in_flight(), rest.len()), (0, 0));
}

#[test]
fn an_error_text_is_cut_to_the_longest_string() {
    let mut out = Vec::new();
    Encoder::new(Mode::Structured).error(&mut out, TAG, 5, &"é".repeat(4000));
    assert_eq!(out.len(), 20 + 6 + wire::STRING_MAX);
}

/// What a server sent, in answer to a command, and how that breaks the protocol.
type Broken = (Command, String, Violation);

fn check_violations(all: &[Broken]) {
    for (command, sent, violation) in all {
        let (replies, _) = all_splits(Mode::Structured, *command, &bytes(sent));
        assert_eq!(replies.last(), Some(&Reply::HangUp(*violation)), "{sent}");
    }
}

#[test]
fn what_a_client_does_not_take() {
    let head = "668e33ef 0001 0001 1122334455667788";
    check_violations(&[
        (TRIM, "67446699 00000000 1122334455667788".into(), Violation::Magic),
        (TRIM, "6e8a278c 00000000 1122334455667788".into(), Violation::Magic),
        (TRIM, "67446698 00000000 1122334455667789".into(), Violation::Cookie),
        (read(false), "67446698 00000000 1122334455667788".into(), Violation::Chunk),
        (status(false), "67446698 00000000 1122334455667788".into(), Violation::Chunk),
        (read(false), "668e33ef 0001 0000 1122334455667788 00000000".into(), Violation::Incomplete),
        (
            status(true),
            "668e33ef 0001 0000 1122334455667788 00000000".into(),
            Violation::Incomplete,
        ),
        (TRIM, "668e33ef 0000 0000 1122334455667788 00000000".into(), Violation::Chunk),
        (TRIM, "668e33ef 0001 0000 1122334455667788 00000001 00".into(), Violation::Chunk),
        (TRIM, "668e33ef 0001 0007 1122334455667788 00000001 00".into(), Violation::Chunk),
        (TRIM, "668e33ef 0001 0007 1122334455667788 ffffffff".into(), Violation::TooLong),
        (TRIM, format!("{head} 00000010 0000000000001000 'abcdefgh'"), Violation::Chunk),
        (read(false), format!("{head} 00000008 0000000000001000"), Violation::Chunk),
        (read(false), format!("{head} 00000011 0000000000001000"), Violation::Range),
        (read(false), format!("{head} 00000010 0000000000000fff"), Violation::Range),
        (read(false), format!("{head} 00000010 0000000000001001"), Violation::Range),
        (read(false), format!("{head} 00000010 fffffffffffffff8"), Violation::Range),
        (read(false), format!("{head} 0000000f 0000000000001000 'abcdefg'"), Violation::Incomplete),
    ]);
}

#[test]
fn pieces_and_lists_that_a_client_does_not_take() {
    check_violations(&[
        (
            read(false),
            "668e33ef 0000 0001 1122334455667788 0000000c 0000000000001002 'cdef'
             668e33ef 0000 0002 1122334455667788 0000000c 0000000000001000 00000003"
                .into(),
            Violation::Range,
        ),
        (
            read(true),
            "668e33ef 0000 0001 1122334455667788 0000000c 0000000000001000 'abcd'
             668e33ef 0000 0002 1122334455667788 0000000c 0000000000001004 00000004"
                .into(),
            Violation::Chunk,
        ),
        (
            TRIM,
            "668e33ef 0001 8001 1122334455667788 00000006 00000000 0000".into(),
            Violation::Chunk,
        ),
        (
            TRIM,
            "668e33ef 0001 8001 1122334455667788 00000006 00000005 0001".into(),
            Violation::Chunk,
        ),
        (
            status(false),
            "668e33ef 0001 0005 1122334455667788 00000004 00000001".into(),
            Violation::Chunk,
        ),
        (
            status(false),
            "668e33ef 0001 0005 1122334455667788 0000000c 00000002 00001000 00000000".into(),
            Violation::Chunk,
        ),
        (
            status(true),
            "668e33ef 0001 0005 1122334455667788 00000014 00000001
             00001000 00000000 00001000 00000000"
                .into(),
            Violation::Chunk,
        ),
    ]);
    let count = "6e8a278c 0001 0006 1122334455667788 0000000000001000 0000000000000018
                 00000001 00000002 0000000000002000 0000000000000003";
    let (replies, _) = all_splits(Mode::Extended, status(false), &bytes(count));
    assert_eq!(replies, [Reply::HangUp(Violation::Chunk)], "a count that is wrong");
    let other = "6e8a278c 0001 0000 1122334455667788 0000000000001001 0000000000000000";
    let (replies, _) = all_splits(Mode::Extended, TRIM, &bytes(other));
    assert_eq!(replies, [Reply::HangUp(Violation::Chunk)], "not the request's offset");
}

#[test]
fn an_unknown_error_type_is_an_error() {
    let sent = "668e33ef 0001 ffff 1122334455667788 0000000a 0000001c 0002 'no' 6162";
    let (replies, _) = all_splits(Mode::Structured, TRIM, &bytes(sent));
    assert_eq!(replies, [error(28, None, "no"), done(Some(28))]);
}
