//! NBD. The crate `destage-nbd` has the protocol; this maps it to requests and answers.

use super::{Decode, Encode, Event, FrontEndEntry, Offer, Opening, Tag, Tls};
use destage_block::{Extent, Map, Maps, Request, RequestError};
use destage_nbd::handshake::{self, Config};
use destage_nbd::reply;
use destage_nbd::request::{self, Command, Refusal};
use destage_nbd::{BlockSizes, Mode, Session, wire};
use std::sync::Arc;

pub(super) const ENTRY: FrontEndEntry = FrontEndEntry {
    name: "nbd",
    summary: "NBD (network block device)",
    listen: "unix:PATH or tcp:ADDRESS:PORT",
    tls: true,
};

/// The metadata context of a map, and the flags of its marked extents.
fn context(map: Map) -> (&'static str, u64) {
    match map {
        Map::Holes => {
            (wire::BASE_ALLOCATION, u64::from(wire::NBD_STATE_HOLE | wire::NBD_STATE_ZERO))
        }
        Map::Dirty => ("destage:dirty", 1),
    }
}

fn config(offer: &Offer<'_>) -> Config {
    let export = offer.export;
    let mut flags =
        wire::NBD_FLAG_HAS_FLAGS | wire::NBD_FLAG_SEND_FLUSH | wire::NBD_FLAG_CAN_MULTI_CONN;
    let discards =
        wire::NBD_FLAG_SEND_TRIM | wire::NBD_FLAG_SEND_WRITE_ZEROES | wire::NBD_FLAG_SEND_CACHE;
    for (has, flag) in [
        (export.fua, wire::NBD_FLAG_SEND_FUA),
        (export.discards, discards),
        (export.fast_zero, wire::NBD_FLAG_SEND_FAST_ZERO),
        (export.rotational, wire::NBD_FLAG_ROTATIONAL),
    ] {
        flags |= if has { flag } else { 0 };
    }
    let block = export.block;
    let mut config = Config::single(handshake::Export {
        name: export.name.clone(),
        description: export.description.clone(),
        size: export.size,
        flags,
        block: BlockSizes {
            minimum: block.minimum,
            preferred: block.preferred,
            maximum: block.maximum,
        },
        contexts: export.maps.iter().map(|map| context(*map).0.to_string()).collect(),
        tls_only: false,
    });
    config.tls = match offer.tls {
        Tls::Off => handshake::Tls::Off,
        Tls::Offered => handshake::Tls::Offered,
        Tls::Required => handshake::Tls::Required,
    };
    config
}

/// The incoming side of a connection.
pub(crate) enum Decoder {
    Opening(Box<handshake::Server>),
    Open(Box<Requests>),
}

/// The transmission phase.
pub(crate) struct Requests {
    decoder: request::Decoder,
    /// The maps of the session's contexts.
    maps: Vec<Map>,
}

/// The maps of the contexts that the client selected, each with its number in replies.
fn selected(session: &Session) -> impl Iterator<Item = (Map, u32)> + '_ {
    session.contexts.iter().filter_map(|selected| {
        let map = Map::ALL.into_iter().find(|map| context(*map).0 == selected.name)?;
        Some((map, selected.id))
    })
}

impl Decode for Decoder {
    type Encoder = Encoder;

    fn new(offer: &Offer<'_>, greeting: &mut Vec<u8>) -> Decoder {
        Decoder::Opening(Box::new(handshake::Server::new(Arc::new(config(offer)), greeting)))
    }

    fn is_open(&self) -> bool {
        matches!(self, Decoder::Open(_))
    }

    fn open(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Opening<Encoder>) {
        let Decoder::Opening(server) = self else { return (0, Opening::HangUp) };
        let (count, step) = server.feed(input, out);
        let opening = match step {
            handshake::Step::NeedMore | handshake::Step::Option { .. } => Opening::More,
            handshake::Step::StartTls => Opening::StartTls,
            handshake::Step::Aborted => Opening::End,
            handshake::Step::HangUp(_) => Opening::HangUp,
            handshake::Step::Transmission { session, .. } => {
                let decoder = request::Decoder::new(&session);
                let maps = selected(&session).map(|(map, _)| map).collect();
                *self = Decoder::Open(Box::new(Requests { decoder, maps }));
                Opening::Open(Encoder::new(&session))
            }
        };
        (count, opening)
    }

    fn tls_started(&mut self) {
        if let Decoder::Opening(server) = self {
            server.tls_started();
        }
    }

    fn next(&mut self, input: &[u8]) -> (usize, Event) {
        let Decoder::Open(requests) = self else { return (0, Event::HangUp) };
        let (count, step) = requests.decoder.next(input);
        let event = match step {
            request::Step::NeedMore => Event::More,
            request::Step::Request(request::Request { cookie, command }) => {
                Event::Request(cookie, requests.request(command))
            }
            request::Step::Payload { range, last, .. } => {
                Event::Payload { bytes: range.len(), last }
            }
            request::Step::Refused { cookie, offset, why, .. } => {
                Event::Refused(Tag { cookie, offset }, refused(why), why.text())
            }
            request::Step::Disconnect => Event::End,
            request::Step::HangUp(_) => Event::HangUp,
        };
        (count, event)
    }

    fn payload_left(&self) -> u32 {
        match self {
            Decoder::Open(requests) => requests.decoder.payload_left(),
            Decoder::Opening(_) => 0,
        }
    }

    fn look_ahead(&self, input: &[u8], show: impl FnMut(u64)) {
        if let Decoder::Open(requests) = self {
            requests.decoder.look_ahead(input, show);
        }
    }
}

impl Requests {
    /// A read is always answered in one chunk, and zeroing is fast wherever that is offered: the
    /// flags for these need nothing from a backend.
    fn request(&self, command: Command) -> Request {
        match command {
            Command::Read { offset, length, .. } => Request::Read { offset, length },
            Command::Write { offset, length, fua } => Request::Write { offset, length, fua },
            Command::Flush => Request::Flush,
            Command::Trim { offset, length, fua } => Request::Trim { offset, length, fua },
            Command::Cache { offset, length } => Request::Prefetch { offset, length },
            Command::WriteZeroes { offset, length, fua, .. } => {
                Request::Zero { offset, length, fua }
            }
            Command::BlockStatus { offset, length, one, contexts } => {
                let chosen = (0..).zip(&self.maps).filter(|(at, _)| contexts.contains(*at));
                let maps: Maps = chosen.map(|(_, map)| *map).collect();
                Request::Status { offset, length, one, maps }
            }
        }
    }
}

fn refused(why: Refusal) -> RequestError {
    match why {
        Refusal::ReadOnly => RequestError::ReadOnly,
        Refusal::WriteBeyondEnd => RequestError::NoSpace,
        Refusal::TooLongUnfragmented => RequestError::TooLong,
        _ => RequestError::Invalid,
    }
}

/// The outgoing side of a connection.
#[derive(Debug)]
pub(crate) struct Encoder {
    encoder: reply::Encoder,
    contexts: Vec<(Map, u32)>,
}

impl Encoder {
    fn new(session: &Session) -> Encoder {
        let mode: Mode = session.mode;
        Encoder { encoder: reply::Encoder::new(mode), contexts: selected(session).collect() }
    }
}

fn tag(tag: Tag) -> reply::Tag {
    reply::Tag { cookie: tag.cookie, offset: tag.offset }
}

impl Encode for Encoder {
    fn done(&self, out: &mut Vec<u8>, of: Tag) {
        self.encoder.success(out, tag(of));
    }

    fn read(&self, out: &mut Vec<u8>, of: Tag, length: u32) {
        self.encoder.read(out, tag(of), length);
    }

    fn error(&self, out: &mut Vec<u8>, of: Tag, error: RequestError, text: &str) {
        let errno = match error {
            RequestError::Io => wire::NBD_EIO,
            RequestError::NoSpace => wire::NBD_ENOSPC,
            RequestError::Invalid => wire::NBD_EINVAL,
            RequestError::ReadOnly => wire::NBD_EPERM,
            RequestError::TooLong => wire::NBD_EOVERFLOW,
            RequestError::ShuttingDown => wire::NBD_ESHUTDOWN,
        };
        self.encoder.error(out, tag(of), errno, text);
    }

    fn status(&self, out: &mut Vec<u8>, of: Tag, maps: &[(Map, Vec<Extent>)]) {
        let known = |map: Map| self.contexts.iter().find(|(known, _)| *known == map);
        for (number, (map, extents)) in maps.iter().enumerate() {
            let (_, id) = known(*map).expect("a map that was asked for");
            let flags = context(*map).1;
            let extent = |extent: &Extent| reply::Extent {
                length: extent.length,
                flags: if extent.marked { flags } else { 0 },
            };
            let extents: Vec<_> = extents.iter().map(extent).collect();
            let last = number + 1 == maps.len();
            self.encoder.block_status(out, tag(of), last, *id, &extents);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_nbd::client;

    /// Both sides of a connection whose client selects these contexts.
    fn opened(contexts: &[&str]) -> (Decoder, Encoder, Session) {
        let mut export = crate::backends::export("disk", "", 1 << 20);
        export.maps.push(Map::Dirty);
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let offer = Offer { export: &export, tls: Tls::Off };
        let mut decoder = Decoder::new(&offer, &mut to_client);
        let mut options = client::Options::new("disk");
        options.contexts = contexts.iter().map(|name| name.to_string()).collect();
        let mut handshake = client::Handshake::new(options);
        let (mut encoder, mut session) = (None, None);
        for _ in 0..20 {
            let (input, mut at) = (std::mem::take(&mut to_client), 0);
            while at < input.len() && session.is_none() {
                let (count, step) = handshake.feed(&input[at..], &mut to_server);
                at += count;
                if let client::Step::Transmission(agreed) = step {
                    session = Some(agreed);
                }
            }
            let (input, mut at) = (std::mem::take(&mut to_server), 0);
            while at < input.len() {
                let (count, opening) = decoder.open(&input[at..], &mut to_client);
                at += count;
                if let Opening::Open(opened) = opening {
                    encoder = Some(opened);
                }
            }
        }
        (decoder, encoder.expect("open"), session.expect("open"))
    }

    #[test]
    fn a_context_is_the_same_map_whichever_others_are_selected() {
        for contexts in [&["destage:dirty"][..], &["base:allocation", "destage:dirty"]] {
            let (mut decoder, encoder, session) = opened(contexts);
            let all = session.context_set();
            let command =
                Command::BlockStatus { offset: 0, length: 8192, one: false, contexts: all };
            let request = request::Request { cookie: 7, command };
            let (mut conversation, mut bytes) = (client::Conversation::new(&session), Vec::new());
            conversation.ask(&request, &mut bytes).expect("allowed");
            let (_, Event::Request(7, Request::Status { maps, .. })) = decoder.next(&bytes) else {
                panic!("a request");
            };
            assert!(maps.contains(Map::Dirty));
            assert_eq!(maps.contains(Map::Holes), contexts.len() == 2);
            let extents = |marked| vec![Extent { length: 8192, marked }];
            let status = [(Map::Dirty, extents(true)), (Map::Holes, extents(false))];
            let (mut out, mut at) = (Vec::new(), 0);
            encoder.status(&mut out, Tag { cookie: 7, offset: 0 }, &status[..contexts.len()]);
            let mut dirty = Vec::new();
            while at < out.len() {
                let (count, reply) = conversation.next(&out[at..]);
                at += count;
                if let client::Reply::Extents { context, extents, .. } = reply
                    && session.contexts[context].name == "destage:dirty"
                {
                    dirty = extents;
                }
            }
            assert_eq!(dirty, [reply::Extent { length: 8192, flags: 1 }]);
        }
    }
}
