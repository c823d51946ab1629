//! The client's decoder of replies. It knows the requests, and holds the server to them.

use crate::bytes::{Gather, Reader};
use crate::reply::Extent;
use crate::request::{Command, Request};
use crate::session::{ContextSet, Mode, Session};
use crate::wire;
use std::collections::BTreeMap;
use std::ops::Range;

/// Result of [`ReplyDecoder::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// All input is consumed; more is needed.
    NeedMore,
    /// Bytes of a read. Valid only if its [`Reply::Done`] has no error.
    Data {
        /// The READ's cookie.
        cookie: u64,
        /// Where in the export they begin.
        offset: u64,
        /// Where in the input they are.
        range: Range<usize>,
    },
    /// Zeroes of a read.
    Hole {
        /// The READ's cookie.
        cookie: u64,
        /// Where in the export they begin.
        offset: u64,
        /// How many.
        length: u32,
    },
    /// Status of a metadata context, from the BLOCK_STATUS's offset on.
    Extents {
        /// The BLOCK_STATUS's cookie.
        cookie: u64,
        /// Position of the context in [`Session::contexts`].
        context: usize,
        /// The extents; the last may go past the end of the request.
        extents: Vec<Extent>,
    },
    /// An error; the reply may continue.
    Error {
        /// The request's cookie.
        cookie: u64,
        /// `NBD_E*`.
        errno: u32,
        /// Where in the export, if the server says so.
        offset: Option<u64>,
        /// The server's text.
        text: String,
    },
    /// The end of a reply.
    Done {
        /// The request's cookie.
        cookie: u64,
        /// The first error, if any.
        errno: Option<u32>,
    },
    /// The server broke the protocol: close the connection.
    HangUp(Violation),
}

/// How a server broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Not a reply of the negotiated form.
    Magic,
    /// A reply to no request.
    Cookie,
    /// A kind of reply that the request cannot have, or malformed.
    Chunk,
    /// Data outside of what was asked, twice, or in too many pieces.
    Range,
    /// Success, but not all was sent.
    Incomplete,
    /// A payload too long to hold.
    TooLong,
    /// Fed after the end.
    Over,
}

/// Separate pieces that a read may have come in.
const PIECES_MAX: usize = 4096;
/// Longest payload other than data.
const PAYLOAD_MAX: u64 = 4 << 20;
const SIMPLE_SIZE: usize = 16;
const STRUCTURED_SIZE: usize = 20;
const EXTENDED_SIZE: usize = 32;

#[derive(Debug)]
enum Asked {
    /// `pieces`: what has come, ascending, joined.
    Read {
        length: u32,
        dont_fragment: bool,
        pieces: Vec<Range<u64>>,
        chunks: u64,
    },
    Status {
        length: u64,
        one: bool,
        missing: ContextSet,
    },
    Plain,
}

#[derive(Debug)]
struct Pending {
    offset: u64,
    asked: Asked,
    errno: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    cookie: u64,
    kind: u16,
    length: u64,
    done: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    /// Waits for all of a payload, or for the offset that begins data.
    Payload(Chunk),
    Data {
        cookie: u64,
        offset: u64,
        left: u64,
        done: bool,
    },
    /// The last event ended this reply.
    Ended(u64),
    Over,
}

/// The client's decoder of replies. Holds what the requests in flight cost, and one payload.
#[derive(Debug)]
pub struct ReplyDecoder {
    mode: Mode,
    context_ids: Vec<u32>,
    pending: BTreeMap<u64, Pending>,
    state: State,
    gather: Gather,
}

type Outcome = Result<Reply, Violation>;

impl ReplyDecoder {
    /// A decoder for what was negotiated.
    pub fn new(session: &Session) -> ReplyDecoder {
        ReplyDecoder {
            mode: session.mode,
            context_ids: session.contexts.iter().map(|context| context.id).collect(),
            pending: BTreeMap::new(),
            state: State::Header,
            gather: Gather::default(),
        }
    }

    /// Notes a request that is sent; false if its cookie is still in use.
    pub fn expect(&mut self, request: &Request) -> bool {
        let asked = match request.command {
            Command::Read { length, dont_fragment, .. } => {
                Asked::Read { length, dont_fragment, pieces: Vec::new(), chunks: 0 }
            }
            Command::BlockStatus { length, one, contexts, .. } => {
                Asked::Status { length, one, missing: contexts }
            }
            _ => Asked::Plain,
        };
        let free = !self.pending.contains_key(&request.cookie);
        if free {
            let pending = Pending { offset: request.command.offset(), asked, errno: None };
            self.pending.insert(request.cookie, pending);
        }
        free
    }

    /// Requests without a complete reply.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Takes bytes off the front of `input`, up to the next event. Returns how many it took.
    pub fn next(&mut self, input: &[u8]) -> (usize, Reply) {
        let mut rest = input;
        let outcome = match self.state {
            State::Header => self.header(&mut rest),
            State::Payload(chunk) => self.payload(&mut rest, chunk),
            State::Data { cookie, offset, left, done } => {
                Ok(self.data(&mut rest, cookie, (offset, left), done))
            }
            State::Ended(cookie) => self.end(cookie),
            State::Over => Err(Violation::Over),
        };
        let mut reply = outcome.unwrap_or_else(Reply::HangUp);
        let taken = input.len() - rest.len();
        match &mut reply {
            Reply::HangUp(_) => self.state = State::Over,
            // Data is the last of what was taken; a header may be before it.
            Reply::Data { range, .. } => *range = taken - range.len()..taken,
            _ => {}
        }
        (taken, reply)
    }

    fn header(&mut self, rest: &mut &[u8]) -> Outcome {
        if !self.gather.fill(rest, 4) {
            return Ok(Reply::NeedMore);
        }
        let magic = Reader(self.gather.bytes()).u32();
        let size = match (magic, self.mode) {
            (Some(wire::NBD_SIMPLE_REPLY_MAGIC), Mode::Simple | Mode::Structured) => SIMPLE_SIZE,
            (Some(wire::NBD_STRUCTURED_REPLY_MAGIC), Mode::Structured) => STRUCTURED_SIZE,
            (Some(wire::NBD_EXTENDED_REPLY_MAGIC), Mode::Extended) => EXTENDED_SIZE,
            _ => return Err(Violation::Magic),
        };
        if !self.gather.fill(rest, size) {
            return Ok(Reply::NeedMore);
        }
        let mut header = [0; EXTENDED_SIZE];
        header[..size].copy_from_slice(self.gather.bytes());
        self.gather.clear();
        if size == SIMPLE_SIZE {
            self.simple(rest, &header[4..])
        } else {
            self.chunk(rest, &header[4..], size == EXTENDED_SIZE)
        }
    }

    fn simple(&mut self, rest: &mut &[u8], header: &[u8]) -> Outcome {
        let mut reader = Reader(header);
        let (Some(errno), Some(cookie)) = (reader.u32(), reader.u64()) else {
            return Err(Violation::Chunk);
        };
        let structured = self.mode == Mode::Structured;
        let pending = self.pending.get_mut(&cookie).ok_or(Violation::Cookie)?;
        match &pending.asked {
            Asked::Read { .. } if structured => return Err(Violation::Chunk),
            Asked::Status { .. } if errno == 0 => return Err(Violation::Chunk),
            Asked::Read { length, .. } if errno == 0 => {
                let (offset, left) = (pending.offset, u64::from(*length));
                accept_piece(pending, offset, left)?;
                return Ok(self.data(rest, cookie, (offset, left), true));
            }
            _ => {}
        }
        if errno == 0 {
            return self.end(cookie);
        }
        pending.errno.get_or_insert(errno);
        self.state = State::Ended(cookie);
        Ok(Reply::Error { cookie, errno, offset: None, text: String::new() })
    }

    fn chunk(&mut self, rest: &mut &[u8], header: &[u8], extended: bool) -> Outcome {
        let mut reader = Reader(header);
        let mut parse = || {
            let (flags, kind, cookie) = (reader.u16()?, reader.u16()?, reader.u64()?);
            let offset = if extended { Some(reader.u64()?) } else { None };
            let length = if extended { reader.u64()? } else { u64::from(reader.u32()?) };
            let done = flags & wire::NBD_REPLY_FLAG_DONE != 0;
            Some((Chunk { cookie, kind, length, done }, offset))
        };
        let (chunk, offset) = parse().ok_or(Violation::Chunk)?;
        let pending = self.pending.get(&chunk.cookie).ok_or(Violation::Cookie)?;
        if offset.is_some_and(|offset| offset != pending.offset) {
            return Err(Violation::Chunk);
        }
        let data = chunk.kind == wire::NBD_REPLY_TYPE_OFFSET_DATA;
        if chunk.kind == wire::NBD_REPLY_TYPE_NONE {
            let sound = chunk.length == 0 && chunk.done;
            return if sound { self.end(chunk.cookie) } else { Err(Violation::Chunk) };
        }
        if data && chunk.length < 9 {
            return Err(Violation::Chunk);
        }
        if !data && chunk.length > PAYLOAD_MAX {
            return Err(Violation::TooLong);
        }
        self.state = State::Payload(chunk);
        self.payload(rest, chunk)
    }

    fn payload(&mut self, rest: &mut &[u8], chunk: Chunk) -> Outcome {
        let data = chunk.kind == wire::NBD_REPLY_TYPE_OFFSET_DATA;
        let size = if data { 8 } else { chunk.length as usize };
        if !self.gather.fill(rest, size) {
            return Ok(Reply::NeedMore);
        }
        let pending = self.pending.get_mut(&chunk.cookie).ok_or(Violation::Cookie)?;
        if data {
            let offset = Reader(self.gather.bytes()).u64().ok_or(Violation::Chunk)?;
            self.gather.clear();
            let left = chunk.length - 8;
            accept_piece(pending, offset, left)?;
            return Ok(self.data(rest, chunk.cookie, (offset, left), chunk.done));
        }
        let payload = self.gather.take();
        let ids = &self.context_ids;
        let cookie = chunk.cookie;
        let event = match chunk.kind {
            wire::NBD_REPLY_TYPE_OFFSET_HOLE => hole(pending, cookie, &payload),
            wire::NBD_REPLY_TYPE_BLOCK_STATUS => status(pending, ids, cookie, &payload, false),
            wire::NBD_REPLY_TYPE_BLOCK_STATUS_EXT if self.mode == Mode::Extended => {
                status(pending, ids, cookie, &payload, true)
            }
            kind if kind & wire::REPLY_TYPE_ERROR != 0 => error(pending, cookie, kind, &payload),
            _ => Err(Violation::Chunk),
        };
        self.state = if chunk.done { State::Ended(cookie) } else { State::Header };
        event
    }

    /// Hands on what has come of the data of a chunk; `range` counts from there.
    fn data(
        &mut self,
        rest: &mut &[u8],
        cookie: u64,
        (offset, left): (u64, u64),
        done: bool,
    ) -> Reply {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        *rest = &rest[count..];
        let left = left - count as u64;
        self.state = match (left, done) {
            (0, true) => State::Ended(cookie),
            (0, false) => State::Header,
            _ => State::Data { cookie, offset: offset + count as u64, left, done },
        };
        if count == 0 {
            return Reply::NeedMore;
        }
        Reply::Data { cookie, offset, range: 0..count }
    }

    /// The reply is over: is it complete?
    fn end(&mut self, cookie: u64) -> Outcome {
        self.state = State::Header;
        let pending = self.pending.remove(&cookie).ok_or(Violation::Cookie)?;
        let complete = match &pending.asked {
            Asked::Read { length, pieces, .. } => {
                let end = pending.offset.saturating_add(u64::from(*length));
                pieces.len() == 1 && pieces[0] == (pending.offset..end)
            }
            Asked::Status { missing, .. } => missing.is_empty(),
            Asked::Plain => true,
        };
        if pending.errno.is_none() && !complete {
            return Err(Violation::Incomplete);
        }
        Ok(Reply::Done { cookie, errno: pending.errno })
    }
}

/// Notes data of a read, which must be asked for and new.
fn accept_piece(pending: &mut Pending, offset: u64, count: u64) -> Result<(), Violation> {
    let Asked::Read { length, dont_fragment, pieces, chunks } = &mut pending.asked else {
        return Err(Violation::Chunk);
    };
    let end = offset.checked_add(count).ok_or(Violation::Range)?;
    if count == 0 || offset < pending.offset || end - pending.offset > u64::from(*length) {
        return Err(Violation::Range);
    }
    *chunks += 1;
    if *dont_fragment && *chunks > 1 {
        return Err(Violation::Chunk);
    }
    let at = pieces.partition_point(|piece| piece.start < offset);
    let clear_before = at == 0 || pieces[at - 1].end <= offset;
    let clear_after = at == pieces.len() || end <= pieces[at].start;
    if !clear_before || !clear_after {
        return Err(Violation::Range);
    }
    let joins_before = at > 0 && pieces[at - 1].end == offset;
    let joins_after = at < pieces.len() && pieces[at].start == end;
    match (joins_before, joins_after) {
        (true, true) => pieces[at - 1].end = pieces.remove(at).end,
        (true, false) => pieces[at - 1].end = end,
        (false, true) => pieces[at].start = offset,
        (false, false) if pieces.len() >= PIECES_MAX => return Err(Violation::Range),
        (false, false) => pieces.insert(at, offset..end),
    }
    Ok(())
}

fn hole(pending: &mut Pending, cookie: u64, payload: &[u8]) -> Outcome {
    let mut reader = Reader(payload);
    let (Some(offset), Some(length), true) = (reader.u64(), reader.u32(), reader.0.is_empty())
    else {
        return Err(Violation::Chunk);
    };
    accept_piece(pending, offset, u64::from(length))?;
    Ok(Reply::Hole { cookie, offset, length })
}

fn status(
    pending: &mut Pending,
    context_ids: &[u32],
    cookie: u64,
    payload: &[u8],
    extended: bool,
) -> Outcome {
    let Asked::Status { length, one, missing } = &mut pending.asked else {
        return Err(Violation::Chunk);
    };
    let mut reader = Reader(payload);
    let id = reader.u32().ok_or(Violation::Chunk)?;
    let context = context_ids.iter().position(|known| *known == id).ok_or(Violation::Chunk)?;
    if !missing.contains(context) {
        return Err(Violation::Chunk);
    }
    missing.0 &= !(1 << context);
    let count = if extended { reader.u32().ok_or(Violation::Chunk)? as usize } else { 0 };
    let mut extents: Vec<Extent> = Vec::new();
    let mut covered = 0u64;
    while !reader.0.is_empty() {
        // Only the last extent may go past what was asked.
        let room = extents.is_empty() || !*one && covered < *length;
        let extent = extent(&mut reader, extended).filter(|extent| room && extent.length > 0);
        let extent = extent.ok_or(Violation::Chunk)?;
        covered = covered.saturating_add(extent.length);
        extents.push(extent);
    }
    if extents.is_empty() || count != 0 && count != extents.len() {
        return Err(Violation::Chunk);
    }
    Ok(Reply::Extents { cookie, context, extents })
}

fn extent(reader: &mut Reader<'_>, extended: bool) -> Option<Extent> {
    Some(if extended {
        Extent { length: reader.u64()?, flags: reader.u64()? }
    } else {
        Extent { length: u64::from(reader.u32()?), flags: u64::from(reader.u32()?) }
    })
}

fn error(pending: &mut Pending, cookie: u64, kind: u16, payload: &[u8]) -> Outcome {
    let mut reader = Reader(payload);
    let mut parse = || {
        let (errno, length) = (reader.u32()?, reader.u16()?);
        let text = String::from_utf8_lossy(reader.take(usize::from(length))?).into_owned();
        let known_offset = kind == wire::NBD_REPLY_TYPE_ERROR_OFFSET;
        let offset = if known_offset { Some(reader.u64()?) } else { None };
        (errno != 0).then_some((errno, text, offset))
    };
    let (errno, text, offset) = parse().ok_or(Violation::Chunk)?;
    pending.errno.get_or_insert(errno);
    Ok(Reply::Error { cookie, errno, offset, text })
}
