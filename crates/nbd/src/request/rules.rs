//! The header of a request, and what a session allows: one set of rules for both sides.

use super::{Command, Refusal, Request};
use crate::bytes::{Put, Reader};
use crate::session::{BlockSizes, CONTEXTS_MAX, ContextSet, Mode, Session};
use crate::wire;

/// The fields of a request header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(super) flags: u16,
    pub(super) kind: u16,
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Header {
    pub(super) fn parse(bytes: &[u8], mode: Mode) -> Option<Header> {
        let mut reader = Reader(bytes);
        let extended = mode == Mode::Extended;
        let magic =
            if extended { wire::NBD_EXTENDED_REQUEST_MAGIC } else { wire::NBD_REQUEST_MAGIC };
        if reader.u32()? != magic {
            return None;
        }
        Some(Header {
            flags: reader.u16()?,
            kind: reader.u16()?,
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: if extended { reader.u64()? } else { u64::from(reader.u32()?) },
        })
    }

    pub(crate) fn disconnect() -> Header {
        Header { flags: 0, kind: wire::NBD_CMD_DISC, cookie: 0, offset: 0, length: 0 }
    }

    pub(crate) fn put(&self, mode: Mode, out: &mut Vec<u8>) {
        let extended = mode == Mode::Extended;
        let magic =
            if extended { wire::NBD_EXTENDED_REQUEST_MAGIC } else { wire::NBD_REQUEST_MAGIC };
        out.put_u32(magic);
        out.put_u16(self.flags);
        out.put_u16(self.kind);
        out.put_u64(self.cookie);
        out.put_u64(self.offset);
        if extended {
            out.put_u64(self.length);
        } else {
            out.put_u32(u32::try_from(self.length).expect("checked by the rules"));
        }
    }

    /// The header of a request, without a filter.
    pub(crate) fn of(request: &Request, mode: Mode) -> Header {
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let fua = |set| flag(set, wire::NBD_CMD_FLAG_FUA);
        let (kind, flags, length) = match request.command {
            Command::Read { length, dont_fragment, .. } => {
                let flags = flag(dont_fragment, wire::NBD_CMD_FLAG_DF);
                (wire::NBD_CMD_READ, flags, u64::from(length))
            }
            Command::Write { length, fua: durable, .. } => {
                let payload = flag(mode == Mode::Extended, wire::NBD_CMD_FLAG_PAYLOAD_LEN);
                (wire::NBD_CMD_WRITE, fua(durable) | payload, u64::from(length))
            }
            Command::Flush => (wire::NBD_CMD_FLUSH, 0, 0),
            Command::Trim { length, fua: durable, .. } => {
                (wire::NBD_CMD_TRIM, fua(durable), length)
            }
            Command::Cache { length, .. } => (wire::NBD_CMD_CACHE, 0, length),
            Command::WriteZeroes { length, fua: durable, no_hole, fast_zero, .. } => {
                let flags = fua(durable)
                    | flag(no_hole, wire::NBD_CMD_FLAG_NO_HOLE)
                    | flag(fast_zero, wire::NBD_CMD_FLAG_FAST_ZERO);
                (wire::NBD_CMD_WRITE_ZEROES, flags, length)
            }
            Command::BlockStatus { length, one, .. } => {
                let flags = flag(one, wire::NBD_CMD_FLAG_REQ_ONE);
                (wire::NBD_CMD_BLOCK_STATUS, flags, length)
            }
        };
        let offset = request.command.offset();
        Header { flags, kind, cookie: request.cookie, offset, length }
    }

    /// The same request with a payload of `length` bytes.
    pub(crate) fn with_payload(self, length: usize) -> Header {
        let flags = self.flags | wire::NBD_CMD_FLAG_PAYLOAD_LEN;
        Header { flags, length: length as u64, ..self }
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// What a session allows.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    size: u64,
    flags: u16,
    block: BlockSizes,
    pub(crate) mode: Mode,
    pub(crate) context_ids: Vec<u32>,
}

impl Rules {
    pub(crate) fn new(session: &Session) -> Rules {
        Rules {
            size: session.size,
            flags: session.flags,
            block: session.block,
            mode: session.mode,
            context_ids: session.contexts.iter().take(CONTEXTS_MAX).map(|c| c.id).collect(),
        }
    }

    fn offers(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    fn all_contexts(&self) -> ContextSet {
        ContextSet::first(self.context_ids.len())
    }

    /// Whether BLOCK_STATUS may carry a list of contexts.
    pub(crate) fn filters(&self) -> bool {
        self.mode == Mode::Extended && self.offers(wire::NBD_FLAG_BLOCK_STATUS_PAYLOAD)
    }

    /// Command flags that the command may have.
    fn allowed_flags(&self, kind: u16) -> u16 {
        let own = match kind {
            wire::NBD_CMD_READ if self.offers(wire::NBD_FLAG_SEND_DF) => wire::NBD_CMD_FLAG_DF,
            wire::NBD_CMD_WRITE if self.mode == Mode::Extended => wire::NBD_CMD_FLAG_PAYLOAD_LEN,
            wire::NBD_CMD_WRITE_ZEROES if self.offers(wire::NBD_FLAG_SEND_FAST_ZERO) => {
                wire::NBD_CMD_FLAG_NO_HOLE | wire::NBD_CMD_FLAG_FAST_ZERO
            }
            wire::NBD_CMD_WRITE_ZEROES => wire::NBD_CMD_FLAG_NO_HOLE,
            wire::NBD_CMD_BLOCK_STATUS if self.filters() => {
                wire::NBD_CMD_FLAG_REQ_ONE | wire::NBD_CMD_FLAG_PAYLOAD_LEN
            }
            wire::NBD_CMD_BLOCK_STATUS => wire::NBD_CMD_FLAG_REQ_ONE,
            _ => 0,
        };
        // Clients may set FUA on any command once it is offered.
        if self.offers(wire::NBD_FLAG_SEND_FUA) { own | wire::NBD_CMD_FLAG_FUA } else { own }
    }

    fn advertised(&self, kind: u16) -> Result<bool, Refusal> {
        Ok(match kind {
            wire::NBD_CMD_READ | wire::NBD_CMD_WRITE => true,
            wire::NBD_CMD_FLUSH => self.offers(wire::NBD_FLAG_SEND_FLUSH),
            wire::NBD_CMD_TRIM => self.offers(wire::NBD_FLAG_SEND_TRIM),
            wire::NBD_CMD_CACHE => self.offers(wire::NBD_FLAG_SEND_CACHE),
            wire::NBD_CMD_WRITE_ZEROES => self.offers(wire::NBD_FLAG_SEND_WRITE_ZEROES),
            wire::NBD_CMD_BLOCK_STATUS => {
                self.mode >= Mode::Structured && !self.context_ids.is_empty()
            }
            _ => return Err(Refusal::UnknownCommand),
        })
    }

    fn check_range(&self, header: &Header) -> Result<(), Refusal> {
        let writes = matches!(header.kind, wire::NBD_CMD_WRITE | wire::NBD_CMD_WRITE_ZEROES);
        if header.length == 0 {
            return Err(Refusal::Length);
        }
        let end = header.offset.checked_add(header.length);
        if end.is_none_or(|end| end > self.size) {
            return Err(if writes { Refusal::WriteBeyondEnd } else { Refusal::BeyondEnd });
        }
        let minimum = u64::from(self.block.minimum.max(1));
        if !header.offset.is_multiple_of(minimum) || !header.length.is_multiple_of(minimum) {
            return Err(Refusal::Unaligned);
        }
        Ok(())
    }

    /// Length of a READ or WRITE.
    fn moved(&self, header: &Header) -> Result<u32, Refusal> {
        match u32::try_from(header.length) {
            Ok(length) if length <= self.block.maximum => Ok(length),
            _ if header.has(wire::NBD_CMD_FLAG_DF) => Err(Refusal::TooLongUnfragmented),
            _ => Err(Refusal::TooLong),
        }
    }

    /// Whether a command of this kind with these flags is allowed at all.
    pub(super) fn check_kind(&self, header: &Header) -> Result<(), Refusal> {
        let changes = matches!(
            header.kind,
            wire::NBD_CMD_WRITE | wire::NBD_CMD_TRIM | wire::NBD_CMD_WRITE_ZEROES
        );
        let advertised = self.advertised(header.kind)?;
        if changes && self.offers(wire::NBD_FLAG_READ_ONLY) {
            return Err(Refusal::ReadOnly);
        }
        if !advertised {
            return Err(Refusal::NotAdvertised);
        }
        if header.flags & !self.allowed_flags(header.kind) != 0 {
            return Err(Refusal::Flags);
        }
        Ok(())
    }

    /// The command of a header whose length is the effect length.
    pub(crate) fn command(&self, header: &Header) -> Result<Command, Refusal> {
        self.check_kind(header)?;
        if header.kind == wire::NBD_CMD_FLUSH {
            let reserved = header.offset != 0 || header.length != 0;
            return if reserved { Err(Refusal::Length) } else { Ok(Command::Flush) };
        }
        self.check_range(header)?;
        let &Header { offset, length, .. } = header;
        let fua = header.has(wire::NBD_CMD_FLAG_FUA);
        Ok(match header.kind {
            wire::NBD_CMD_READ => {
                let dont_fragment = header.has(wire::NBD_CMD_FLAG_DF);
                Command::Read { offset, length: self.moved(header)?, dont_fragment }
            }
            wire::NBD_CMD_WRITE => Command::Write { offset, length: self.moved(header)?, fua },
            wire::NBD_CMD_TRIM => Command::Trim { offset, length, fua },
            wire::NBD_CMD_CACHE => Command::Cache { offset, length },
            wire::NBD_CMD_WRITE_ZEROES => {
                let no_hole = header.has(wire::NBD_CMD_FLAG_NO_HOLE);
                let fast_zero = header.has(wire::NBD_CMD_FLAG_FAST_ZERO);
                Command::WriteZeroes { offset, length, fua, no_hole, fast_zero }
            }
            wire::NBD_CMD_BLOCK_STATUS => {
                let one = header.has(wire::NBD_CMD_FLAG_REQ_ONE);
                Command::BlockStatus { offset, length, one, contexts: self.all_contexts() }
            }
            _ => return Err(Refusal::UnknownCommand),
        })
    }

    /// The command of a BLOCK_STATUS with a payload.
    pub(super) fn filtered(&self, header: &Header, payload: &[u8]) -> Result<Command, Refusal> {
        let mut reader = Reader(payload);
        let length = reader.u64().ok_or(Refusal::Filter)?;
        let mut wanted = ContextSet::default();
        while !reader.0.is_empty() {
            let id = reader.u32().ok_or(Refusal::Filter)?;
            let position = self.context_ids.iter().position(|known| *known == id);
            match position {
                Some(position) if !wanted.contains(position) => wanted = wanted.with(position),
                _ => return Err(Refusal::Filter),
            }
        }
        if wanted.is_empty() {
            return Err(Refusal::Filter);
        }
        match self.command(&Header { length, ..*header })? {
            Command::BlockStatus { offset, length, one, .. } => {
                Ok(Command::BlockStatus { offset, length, one, contexts: wanted })
            }
            other => Ok(other),
        }
    }
}
