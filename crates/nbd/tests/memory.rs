//! What one hostile peer can make us hold: counted by the allocator.
#![allow(missing_docs)]

mod common;
#[path = "../../engine/tests/counting/mod.rs"]
mod counting;

use common::{bytes, export, session};
use counting::most_during;
use destage_nbd::Mode;
use destage_nbd::client::{Handshake, Options, Reply, ReplyDecoder};
use destage_nbd::handshake::{Config, Server, Step};
use destage_nbd::request::{Command, Decoder, Request};
use std::sync::Arc;

const KIB: usize = 1024;

/// Options of the longest kind, unanswered and answered, over and over.
fn handshakes() {
    let config = Arc::new(Config::single(export()));
    let mut out = Vec::with_capacity(64 * KIB);
    let longest = "00".repeat(64 * KIB - 12);
    let queries = format!("49484156454f5054 00000009 00010000 00000004 'disk' 00003ffd {longest}");
    let stream = bytes(&format!("00000003 49484156454f5054 00000008 00000000 {queries}"));
    let option = &bytes(&queries)[..];
    let held = most_during(|| {
        let mut server = Server::new(config, &mut out);
        let mut rest = &stream[..];
        for _ in 0..2000 {
            out.clear();
            let (count, step) = server.feed(rest, &mut out);
            rest = &rest[count..];
            if let Step::HangUp(_) = step {
                break;
            }
            if rest.is_empty() {
                rest = option;
            }
        }
    });
    assert!(held < 1024 * KIB, "server handshake: {held} bytes");
}

/// Announces much and sends a little of it.
fn announcements() {
    let config = Arc::new(Config::single(export()));
    let held = most_during(|| {
        let mut out = Vec::new();
        let mut server = Server::new(config, &mut out);
        server.feed(&bytes("00000003 49484156454f5054 00000007 000fffff"), &mut out);
        for _ in 0..200 {
            server.feed(&[0; 4096], &mut out);
        }
    });
    assert!(held < 32 * KIB, "an option read over: {held} bytes");

    let held = most_during(|| {
        let session = session(Mode::Extended);
        let mut decoder = Decoder::new(&session);
        let header = bytes("21e41c71 0020 0001 0000000000000007 0000000000000000");
        decoder.next(&header);
        decoder.next(&bytes("0000000002000000"));
        for _ in 0..4000 {
            decoder.next(&[0; 4096]);
        }
    });
    assert!(held < 32 * KIB, "a payload: {held} bytes");

    let held = most_during(|| {
        let mut out = Vec::new();
        let mut client = Handshake::new(Options::new("disk"));
        client.feed(&bytes("4e42444d41474943 49484156454f5054 0003"), &mut out);
        client.feed(&bytes("0003e889045565a9 0000000b 80000001 00002000"), &mut out);
        client.feed(&vec![0; 100 * KIB], &mut out);
    });
    assert!(held < 256 * KIB, "an option reply: {held} bytes");
}

/// A reply in as many pieces as possible, and the longest list of extents.
fn replies() {
    let session = session(Mode::Structured);
    let held = most_during(|| {
        let mut decoder = ReplyDecoder::new(&session);
        let command = Command::Read { offset: 0, length: 1 << 20, dont_fragment: false };
        assert!(decoder.expect(&Request { cookie: 1, command }));
        let hung = (0..1 << 19).any(|at| {
            let hole =
                format!("668e33ef 0000 0002 0000000000000001 0000000c {:016x} 00000001", at * 2);
            matches!(decoder.next(&bytes(&hole)).1, Reply::HangUp(_))
        });
        assert!(hung, "too many pieces");
    });
    assert!(held < 512 * KIB, "pieces of a read: {held} bytes");

    let extents = [0, 0, 0, 1, 0, 0, 0, 0].repeat(512);
    let held = most_during(|| {
        let mut decoder = ReplyDecoder::new(&session);
        let contexts = session.context_set();
        let command = Command::BlockStatus { offset: 0, length: 1 << 20, one: false, contexts };
        assert!(decoder.expect(&Request { cookie: 1, command }));
        decoder.next(&bytes("668e33ef 0000 0005 0000000000000001 003ffffc 00000001"));
        for _ in 0..1024 {
            decoder.next(&extents);
        }
    });
    assert!(held < 32 << 20, "extents: {held} bytes");
}

#[test]
fn what_a_peer_announces_costs_nothing() {
    // One test, so that no other allocates at the same time.
    handshakes();
    announcements();
    replies();
}
