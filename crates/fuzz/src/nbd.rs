//! NBD, both sides: garbage and mutated streams in pieces of any length. Output and steps are
//! bounded by what was fed, and after a hang-up nothing more comes.

use crate::feed::Feed;
use destage_nbd::client::{self, Conversation, Handshake, Options, Reply, Uri};
use destage_nbd::handshake::{self, Config, Export, Limits, Server, Tls};
use destage_nbd::reply::{self, Extent, Tag};
use destage_nbd::request::{self, Command, Decoder, Request};
use destage_nbd::{BlockSizes, ContextSet, Mode, Session, wire};
use std::sync::Arc;

const MODES: [Mode; 3] = [Mode::Simple, Mode::Structured, Mode::Extended];
const TLS: [Tls; 3] = [Tls::Off, Tls::Offered, Tls::Required];
/// 1 MiB, called `disk`, with two contexts.
fn config(feed: &mut Feed<'_>) -> Config {
    let mut config = Config::single(Export {
        name: "disk".to_string(),
        description: "a disk".to_string(),
        size: 1 << 20,
        flags: wire::EVERY_REQUEST,
        block: BlockSizes::default(),
        contexts: vec!["base:allocation".to_string(), "destage:dirty".to_string()],
        tls_only: false,
    });
    let bits = feed.u8();
    config.tls = TLS[usize::from(bits & 3) % 3];
    config.mode = MODES[usize::from(bits >> 2 & 3) % 3];
    config.limits = Limits { options: 64, option_bytes: 256, skip_bytes: 1024 };
    config.exports[0].flags |= u16::from(bits & 16 != 0) * wire::NBD_FLAG_READ_ONLY;
    config
}

/// The rest of the bytes, in pieces as the first of them says: 0: all at once.
fn pieces<'a>(feed: Feed<'a>, cut: u8) -> impl Iterator<Item = &'a [u8]> {
    let stream = feed.rest();
    let most = if cut == 0 { stream.len().max(1) } else { usize::from(cut) };
    stream.chunks(most)
}

pub(crate) fn check_server(data: &[u8]) -> bool {
    let mut feed = Feed::new(data);
    let (config, cut) = (Arc::new(config(&mut feed)), feed.u8());
    let mut out = Vec::new();
    let mut server = Server::new(config, &mut out);
    let mut requests: Option<Requests> = None;
    for piece in pieces(feed, cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            let count = match &mut requests {
                Some(requests) if requests.over => break,
                Some(requests) => requests.next(rest),
                None => {
                    let (count, step) = server.feed(rest, &mut out);
                    match step {
                        handshake::Step::NeedMore => assert_eq!(count, rest.len()),
                        handshake::Step::StartTls => server.tls_started(),
                        handshake::Step::Option { .. } => assert!(count > 0),
                        handshake::Step::Transmission { session, .. } => {
                            requests = Some(Requests::new(&session));
                        }
                        handshake::Step::Aborted | handshake::Step::HangUp(_) => {
                            let over = handshake::Step::HangUp(handshake::Reason::Over);
                            assert_eq!(server.feed(rest, &mut out), (0, over));
                            return false;
                        }
                    }
                    count
                }
            };
            rest = &rest[count..];
        }
        assert!(out.len() <= 4096 + 20 * data.len(), "{} bytes out", out.len());
    }
    requests.is_some_and(|requests| requests.seen > 0)
}

/// The transmission phase of a server.
struct Requests {
    decoder: Decoder,
    encoder: client::request::Encoder,
    payload: u64,
    seen: u64,
    over: bool,
}

impl Requests {
    fn new(session: &Session) -> Requests {
        let encoder = client::request::Encoder::new(session);
        Requests { decoder: Decoder::new(session), encoder, payload: 0, seen: 0, over: false }
    }

    fn next(&mut self, rest: &[u8]) -> usize {
        assert_eq!(u64::from(self.decoder.payload_left()), self.payload);
        self.decoder.look_ahead(rest, |_| ());
        let (count, step) = self.decoder.next(rest);
        match step {
            request::Step::NeedMore => assert_eq!(count, rest.len()),
            request::Step::Request(request) => {
                assert_eq!(self.payload, 0, "the payload comes first");
                let allowed = self.encoder.encode(&request, &mut Vec::new());
                allowed.expect("a client's side may send what comes out");
                if let Command::Write { length, .. } = request.command {
                    self.payload = u64::from(length);
                }
                self.seen += 1;
            }
            request::Step::Payload { range, last, .. } => {
                assert!(range.end == count && !range.is_empty());
                self.payload -= range.len() as u64;
                assert_eq!(last, self.payload == 0);
            }
            request::Step::Refused { why, .. } => {
                assert!(why.errno() != 0 && !why.text().is_empty());
            }
            request::Step::Disconnect | request::Step::HangUp(_) => self.over = true,
        }
        count
    }
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

fn options(bits: u8) -> Options {
    let mut options = Options::new("disk");
    options.mode = MODES[usize::from(bits & 3) % 3];
    options.tls = bits & 4 != 0;
    options.contexts.push("destage:dirty".to_string());
    options
}

pub(crate) fn check_client(data: &[u8]) -> bool {
    let mut feed = Feed::new(data);
    let (bits, cut) = (feed.u8(), feed.u8());
    if bits & 8 != 0 {
        return uri(feed.rest());
    }
    let mut out = Vec::new();
    let mut handshake = Handshake::new(options(bits));
    let mut replies: Option<Replies> = None;
    for piece in pieces(feed, cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            let count = match &mut replies {
                Some(replies) if replies.over => break,
                Some(replies) => replies.next(rest),
                None => {
                    let (count, step) = handshake.feed(rest, &mut out);
                    match step {
                        client::Step::NeedMore => assert_eq!(count, rest.len()),
                        client::Step::StartTls => handshake.tls_started(&mut out),
                        client::Step::Transmission(session) => {
                            replies = Some(Replies::new(&session, &mut out));
                        }
                        client::Step::Failed(_) => return false,
                    }
                    count
                }
            };
            rest = &rest[count..];
        }
        assert!(out.len() < 2048, "a client says little");
    }
    replies.is_some_and(|replies| replies.done > 0)
}

fn uri(text: &[u8]) -> bool {
    let parsed = String::from_utf8_lossy(text).parse::<Uri>();
    parsed.is_ok_and(|uri| {
        assert_eq!(uri.to_string().parse(), Ok(uri));
        true
    })
}

/// The transmission phase of a client that has asked for one of each command.
struct Replies {
    conversation: Conversation,
    size: u64,
    done: u64,
    over: bool,
}

impl Replies {
    fn new(session: &Session, out: &mut Vec<u8>) -> Replies {
        let mut conversation = Conversation::new(session);
        for (cookie, command) in (0..).zip(commands()) {
            // What the server does not offer is refused here.
            let _ = conversation.ask(&Request { cookie, command }, out);
        }
        Replies { conversation, size: session.size, done: 0, over: false }
    }

    fn next(&mut self, rest: &[u8]) -> usize {
        let (count, reply) = self.conversation.next(rest);
        match reply {
            Reply::NeedMore => assert_eq!(count, rest.len()),
            Reply::Data { offset, range, .. } => {
                assert!(offset >= 0x1000 && offset + range.len() as u64 <= 0x1010);
                assert!(range.end == count && !range.is_empty());
            }
            Reply::Hole { offset, length, .. } => {
                assert!(offset >= 0x1000 && offset + u64::from(length) <= 0x1010);
            }
            Reply::Done { .. } => self.done += 1,
            Reply::HangUp(_) => self.over = true,
            Reply::Error { errno, .. } => assert!(errno != 0),
            Reply::Extents { extents, .. } => {
                assert!(!extents.is_empty() && self.size >= 0x1000);
            }
        }
        assert!(self.conversation.in_flight() <= commands().len());
        count
    }
}

/// What each side sends where both are ours.
struct Talk {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

fn talk(bits: u8) -> Talk {
    let mut server_out = Vec::new();
    let config = config(&mut Feed::new(&[8]));
    let mut server = Server::new(Arc::new(config), &mut server_out);
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut client = Handshake::new(options(bits));
    let mut agreed = None;
    while agreed.is_none() {
        let (mut said, mut rest) = (Vec::new(), &server_out[..]);
        while !rest.is_empty() && agreed.is_none() {
            let (count, step) = client.feed(rest, &mut said);
            rest = &rest[count..];
            if let client::Step::Transmission(session) = step {
                agreed = Some(session);
            }
        }
        to_client.append(&mut server_out);
        let mut rest = &said[..];
        while !rest.is_empty() {
            rest = &rest[server.feed(rest, &mut server_out).0..];
        }
        to_server.append(&mut said);
    }
    let session = agreed.unwrap_or_else(|| unreachable!("the loop ends with it"));
    requests_and_replies(&session, &mut to_server, &mut to_client);
    Talk { to_server, to_client }
}

fn requests_and_replies(session: &Session, to_server: &mut Vec<u8>, to_client: &mut Vec<u8>) {
    let requests = client::request::Encoder::new(session);
    let replies = reply::Encoder::new(session.mode);
    for (cookie, command) in (0..).zip(commands()) {
        if requests.encode(&Request { cookie, command }, to_server).is_err() {
            continue;
        }
        let tag = Tag { cookie, offset: command.offset() };
        match command {
            Command::Read { length, .. } => {
                replies.read(to_client, tag, length);
                to_client.extend([b'r'; 16]);
            }
            Command::Write { .. } => {
                to_server.extend([b'w'; 16]);
                replies.error(to_client, tag, wire::NBD_EIO, "bad");
            }
            Command::BlockStatus { .. } => {
                let extents = [Extent { length: 4096, flags: 1 }, Extent { length: 8, flags: 0 }];
                for (at, context) in session.contexts.iter().enumerate() {
                    let last = at + 1 == session.contexts.len();
                    replies.block_status(to_client, tag, last, context.id, &extents);
                }
            }
            _ => replies.success(to_client, tag),
        }
    }
    requests.disconnect(to_server);
}

pub(crate) fn seeds_of_server() -> Vec<Vec<u8>> {
    let option = |number: u32, data: &[u8]| {
        let length = (data.len() as u32).to_be_bytes();
        [b"IHAVEOPT", &number.to_be_bytes()[..], &length, data].concat()
    };
    let others = [
        option(wire::NBD_OPT_EXPORT_NAME, b"disk"),
        option(wire::NBD_OPT_LIST, b""),
        option(wire::NBD_OPT_STARTTLS, b""),
        option(wire::NBD_OPT_INFO, b"\0\0\0\x04disk\0\x03\0\x01\0\x02\0\x03"),
        option(99, b"xyz"),
        option(wire::NBD_OPT_ABORT, b""),
    ];
    let mut seeds = Vec::new();
    for mode in 0..3 {
        for cut in [0, 1, 7] {
            seeds.push([&[8, cut], &talk(mode).to_server[..]].concat());
        }
    }
    for (bits, option) in (0..3).cycle().zip(&others) {
        seeds.push([&[bits | 8, 0, 0, 0, 0, 3][..], option].concat());
    }
    seeds
}

pub(crate) fn seeds_of_client() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for mode in 0..3 {
        for cut in [0, 1, 7] {
            seeds.push([&[mode, cut], &talk(mode).to_client[..]].concat());
        }
    }
    for uri in [
        "nbd://example.com:10809/disk",
        "nbds://[::1]:1/a%20b?tls-hostname=x",
        "nbd+unix:///disk?socket=/run/a%2fb",
    ] {
        seeds.push([&[8, 0], uri.as_bytes()].concat());
    }
    seeds
}
