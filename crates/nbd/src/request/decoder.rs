//! The server's decoder: bytes in, requests and ranges of payload out.

use super::{Command, Header, Refusal, Request, Rules};
use crate::bytes::skip;
use crate::session::{CONTEXTS_MAX, Mode, Session};
use crate::wire;
use std::ops::Range;

const COMPACT_SIZE: usize = 28;
const EXTENDED_SIZE: usize = 32;
/// Effect length and context ids of a BLOCK_STATUS payload.
const FILTER_MAX: usize = 8 + 4 * CONTEXTS_MAX;

/// Result of [`Decoder::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// All input is consumed; more is needed.
    NeedMore,
    /// A request. After a WRITE, its payload follows.
    Request(Request),
    /// Some of the payload of the last WRITE.
    Payload {
        /// The WRITE's cookie.
        cookie: u64,
        /// Where in the payload these bytes begin.
        at: u32,
        /// Where in the input they are.
        range: Range<usize>,
        /// The payload is complete.
        last: bool,
    },
    /// A request that gets an error as its answer; its payload, if any, is skipped.
    Refused {
        /// Its cookie.
        cookie: u64,
        /// Its offset, for an extended reply.
        offset: u64,
        /// Its command, `NBD_CMD_*` or unknown.
        command: u16,
        /// Why, and with which error value.
        why: Refusal,
    },
    /// `NBD_CMD_DISC`: finish what is in flight, then close.
    Disconnect,
    /// The stream is out of step: close the connection.
    HangUp(Reason),
}

/// Why the server must close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A request that does not begin with the magic of the negotiated form.
    Magic,
    /// A payload too long to skip.
    PayloadTooLong,
    /// An extended WRITE without `NBD_CMD_FLAG_PAYLOAD_LEN`: nobody can say whether data follows,
    /// which must not be taken for requests.
    WriteWithoutPayload,
    /// Fed after the end.
    Over,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    Payload { cookie: u64, at: u32, left: u32 },
    Filter { header: Header, size: usize },
    Skip { left: u64 },
    Over,
}

/// The server's decoder of requests. Holds a constant amount of memory.
#[derive(Debug)]
pub struct Decoder {
    rules: Rules,
    skip_bytes_max: u64,
    state: State,
    held: [u8; FILTER_MAX],
    held_bytes: usize,
}

impl Decoder {
    /// A decoder for what was negotiated.
    pub fn new(session: &Session) -> Decoder {
        Decoder {
            rules: Rules::new(session),
            skip_bytes_max: u64::from(session.block.maximum).max(64 << 20),
            state: State::Header,
            held: [0; FILTER_MAX],
            held_bytes: 0,
        }
    }

    /// Bytes of a WRITE's payload that are still to come. A driver may receive them into their own
    /// buffer and feed them from there.
    pub fn payload_left(&self) -> u32 {
        if let State::Payload { left, .. } = self.state { left } else { 0 }
    }

    /// Shows the offsets of the requests that begin in `input`, without taking anything, so that a
    /// driver can prepare for them. Only a hint: it checks nothing, and stops at what does not look
    /// like a request.
    pub fn look_ahead(&self, input: &[u8], mut show: impl FnMut(u64)) {
        let mut at = match self.state {
            State::Header if self.held_bytes == 0 => 0,
            State::Payload { left, .. } => u64::from(left),
            State::Skip { left } => left,
            State::Header | State::Filter { .. } | State::Over => return,
        };
        let mode = self.rules.mode;
        let size = if mode == Mode::Extended { EXTENDED_SIZE } else { COMPACT_SIZE };
        while let Some(front) = usize::try_from(at).ok().and_then(|at| input.get(at..)?.get(..size))
            && let Some(header) = Header::parse(front, mode)
            && let Ok(payload) = self.payload_bytes(&header)
        {
            show(header.offset);
            at += size as u64 + payload;
        }
    }

    /// Takes bytes off the front of `input`, up to the next event. Returns how many it took.
    pub fn next(&mut self, input: &[u8]) -> (usize, Step) {
        let mut rest = input;
        if let State::Skip { left } = &mut self.state {
            skip(&mut rest, left);
            if *left > 0 {
                return (input.len(), Step::NeedMore);
            }
            self.state = State::Header;
        }
        let step = match self.state {
            State::Payload { cookie, at, left } => {
                return self.payload(input.len(), cookie, at, left);
            }
            State::Filter { header, size } => self.filter(&mut rest, header, size),
            State::Header | State::Skip { .. } => self.header(&mut rest),
            State::Over => Step::HangUp(Reason::Over),
        };
        if matches!(step, Step::HangUp(_) | Step::Disconnect) {
            self.state = State::Over;
        }
        (input.len() - rest.len(), step)
    }

    fn payload(&mut self, given: usize, cookie: u64, at: u32, left: u32) -> (usize, Step) {
        if given == 0 {
            return (0, Step::NeedMore);
        }
        let count = u32::try_from(given).unwrap_or(u32::MAX).min(left);
        let last = count == left;
        self.state = if last {
            State::Header
        } else {
            State::Payload { cookie, at: at + count, left: left - count }
        };
        (count as usize, Step::Payload { cookie, at, range: 0..count as usize, last })
    }

    /// Collects `size` bytes in `held`; returns whether they are complete.
    fn hold(&mut self, rest: &mut &[u8], size: usize) -> bool {
        let count = (size - self.held_bytes).min(rest.len());
        let (front, behind) = rest.split_at(count);
        self.held[self.held_bytes..self.held_bytes + count].copy_from_slice(front);
        self.held_bytes += count;
        *rest = behind;
        if self.held_bytes < size {
            return false;
        }
        self.held_bytes = 0;
        true
    }

    fn header(&mut self, rest: &mut &[u8]) -> Step {
        let mode = self.rules.mode;
        let size = if mode == Mode::Extended { EXTENDED_SIZE } else { COMPACT_SIZE };
        let parsed = match rest.split_at_checked(size) {
            Some((front, behind)) if self.held_bytes == 0 => {
                *rest = behind;
                Header::parse(front, mode)
            }
            _ if self.hold(rest, size) => Header::parse(&self.held[..size], mode),
            _ => return Step::NeedMore,
        };
        let Some(header) = parsed else { return Step::HangUp(Reason::Magic) };
        if header.kind == wire::NBD_CMD_DISC {
            return Step::Disconnect;
        }
        match self.payload_bytes(&header) {
            Ok(payload) => self.begin(rest, &header, payload),
            Err(reason) => Step::HangUp(reason),
        }
    }

    /// How many bytes follow the header.
    fn payload_bytes(&self, header: &Header) -> Result<u64, Reason> {
        let write = header.kind == wire::NBD_CMD_WRITE;
        let announced = header.has(wire::NBD_CMD_FLAG_PAYLOAD_LEN);
        let payload = match self.rules.mode {
            Mode::Extended if write && !announced => return Err(Reason::WriteWithoutPayload),
            Mode::Extended if announced => header.length,
            Mode::Simple | Mode::Structured if write => header.length,
            _ => 0,
        };
        if payload > self.skip_bytes_max { Err(Reason::PayloadTooLong) } else { Ok(payload) }
    }

    fn begin(&mut self, rest: &mut &[u8], header: &Header, payload: u64) -> Step {
        let status = header.kind == wire::NBD_CMD_BLOCK_STATUS;
        let filter = status && header.has(wire::NBD_CMD_FLAG_PAYLOAD_LEN) && self.rules.filters();
        let command = if filter {
            match self.filter_size(header, payload) {
                Ok(size) => {
                    self.state = State::Filter { header: *header, size };
                    return self.filter(rest, *header, size);
                }
                Err(why) => Err(why),
            }
        } else {
            self.rules.command(header)
        };
        match command {
            Ok(command) => {
                if let Command::Write { length, .. } = command {
                    self.state = State::Payload { cookie: header.cookie, at: 0, left: length };
                }
                Step::Request(Request { cookie: header.cookie, command })
            }
            Err(why) => {
                self.state = State::Skip { left: payload };
                refused(header, why)
            }
        }
    }

    /// The size of a BLOCK_STATUS payload, if it may be one.
    fn filter_size(&self, header: &Header, payload: u64) -> Result<usize, Refusal> {
        self.rules.check_kind(header)?;
        let most = 8 + 4 * self.rules.context_ids.len();
        match usize::try_from(payload) {
            Ok(size) if size > 8 && size <= most && size.is_multiple_of(4) => Ok(size),
            _ => Err(Refusal::Filter),
        }
    }

    fn filter(&mut self, rest: &mut &[u8], header: Header, size: usize) -> Step {
        if !self.hold(rest, size) {
            return Step::NeedMore;
        }
        self.state = State::Header;
        match self.rules.filtered(&header, &self.held[..size]) {
            Ok(command) => Step::Request(Request { cookie: header.cookie, command }),
            Err(why) => refused(&header, why),
        }
    }
}

fn refused(header: &Header, why: Refusal) -> Step {
    let &Header { cookie, offset, kind: command, .. } = header;
    Step::Refused { cookie, offset, command, why }
}
