//! What the tests share: bytes written by hand, a seeded generator, feeding in pieces.
#![allow(dead_code, missing_docs)]

use destage_nbd::handshake::{Config, Export, Server};
use destage_nbd::{BlockSizes, Context, Mode, Session, handshake, wire};
use std::sync::Arc;

/// Bytes from hexadecimal digits; `'text'` stands for itself, blanks for nothing.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, part) in text.split('\'').enumerate() {
        if at % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        for pair in digits.chunks(2) {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            out.push(u8::from_str_radix(pair, 16).expect("two hexadecimal digits"));
        }
    }
    out
}

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// How a stream is cut into pieces.
#[derive(Debug, Clone, Copy)]
pub enum Split {
    Whole,
    Bytes,
    Random(u64),
    /// In two, there.
    At(usize),
}

impl Split {
    pub fn pieces(self, stream: &[u8]) -> Vec<&[u8]> {
        match self {
            Split::Whole => vec![stream],
            Split::Bytes => stream.chunks(1).collect(),
            Split::At(at) => {
                let (front, behind) = stream.split_at(at.min(stream.len()));
                vec![front, behind]
            }
            Split::Random(seed) => {
                let (mut rng, mut rest, mut pieces) = (Rng(seed), stream, Vec::new());
                while !rest.is_empty() {
                    let most = if rng.chance(2) { 4 } else { 60 };
                    let count = (1 + rng.below(most) as usize).min(rest.len());
                    let (front, behind) = rest.split_at(count);
                    pieces.push(front);
                    rest = behind;
                }
                pieces
            }
        }
    }
}

/// 1 MiB, called `disk`, with two contexts.
pub fn export() -> Export {
    Export {
        name: "disk".to_string(),
        description: "a disk".to_string(),
        size: 1 << 20,
        flags: wire::EVERY_REQUEST,
        block: BlockSizes::default(),
        contexts: vec!["base:allocation".to_string(), "destage:dirty".to_string()],
        tls_only: false,
    }
}

/// A session with [`export`] and both contexts.
pub fn session(mode: Mode) -> Session {
    let mut flags = wire::EVERY_REQUEST | wire::NBD_FLAG_HAS_FLAGS;
    if mode >= Mode::Structured {
        flags |= wire::NBD_FLAG_SEND_DF;
    }
    if mode >= Mode::Extended {
        flags |= wire::NBD_FLAG_BLOCK_STATUS_PAYLOAD;
    }
    let context = |id, name: &str| Context { id, name: name.to_string() };
    let contexts = match mode {
        Mode::Simple => Vec::new(),
        _ => vec![context(1, "base:allocation"), context(2, "destage:dirty")],
    };
    let (export, block) = ("disk".to_string(), BlockSizes::default());
    Session { export, size: 1 << 20, flags, block, mode, contexts }
}

/// Feeds a server's handshake; returns what it sent, all its steps but `NeedMore`, and what is
/// left of the input after an end. TLS starts at once, in the clear.
pub fn serve(
    config: &Config,
    stream: &[u8],
    split: Split,
) -> (Vec<u8>, Vec<handshake::Step>, Vec<u8>) {
    let (mut out, mut steps) = (Vec::new(), Vec::new());
    let mut server = Server::new(Arc::new(config.clone()), &mut out);
    let mut taken = 0;
    for piece in split.pieces(stream) {
        let mut rest = piece;
        loop {
            let (count, step) = server.feed(rest, &mut out);
            rest = &rest[count..];
            taken += count;
            match step {
                handshake::Step::NeedMore => break,
                handshake::Step::StartTls => server.tls_started(),
                handshake::Step::Option { .. } => {}
                end => {
                    steps.push(end);
                    return (out, steps, stream[taken..].to_vec());
                }
            }
            steps.push(step);
        }
        assert!(rest.is_empty(), "NeedMore takes all");
    }
    (out, steps, Vec::new())
}
