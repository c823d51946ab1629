//! Replies of the transmission phase, appended to a vector: many go out in one send.

use crate::bytes::Put;
use crate::session::Mode;
use crate::wire;

/// What a client matches a reply by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The request's cookie.
    pub cookie: u64,
    /// The request's offset; extended replies repeat it.
    pub offset: u64,
}

/// Consecutive bytes of equal status, in replies to BLOCK_STATUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes; not zero.
    pub length: u64,
    /// Status, as the metadata context defines it. Over 32 bits only with extended headers.
    pub flags: u64,
}

/// Longest extent in a compact reply: divisible by every minimum block size.
const COMPACT_EXTENT_MAX: u64 = 1 << 31;

/// Encodes replies in the negotiated form.
///
/// Panics only on calls that the form has no message for. No request leads to those.
#[derive(Debug, Clone, Copy)]
pub struct Encoder {
    mode: Mode,
}

impl Encoder {
    /// An encoder for a form of messages.
    pub fn new(mode: Mode) -> Encoder {
        Encoder { mode }
    }

    /// Success, to all but READ and BLOCK_STATUS.
    pub fn success(&self, out: &mut Vec<u8>, tag: Tag) {
        if self.mode == Mode::Extended {
            self.finish(out, tag);
        } else {
            simple(out, tag, 0);
        }
    }

    /// Failure, and the end of the reply.
    pub fn error(&self, out: &mut Vec<u8>, tag: Tag, errno: u32, text: &str) {
        assert!(errno != 0, "an error has a number");
        if self.mode == Mode::Simple {
            return simple(out, tag, errno);
        }
        let text = shortened(text);
        self.chunk(out, tag, true, wire::NBD_REPLY_TYPE_ERROR, 6 + text.len() as u64);
        put_error(out, errno, text);
    }

    /// All of a read in one piece: the caller appends its `length` bytes.
    pub fn read(&self, out: &mut Vec<u8>, tag: Tag, length: u32) {
        if self.mode == Mode::Simple {
            simple(out, tag, 0);
        } else {
            self.data(out, tag, true, tag.offset, length);
        }
    }

    /// `NBD_REPLY_TYPE_OFFSET_DATA`: the caller appends `length` bytes, at least one.
    pub fn data(&self, out: &mut Vec<u8>, tag: Tag, last: bool, offset: u64, length: u32) {
        self.chunk(out, tag, last, wire::NBD_REPLY_TYPE_OFFSET_DATA, 8 + u64::from(length));
        out.put_u64(offset);
    }

    /// `NBD_REPLY_TYPE_OFFSET_HOLE`: `length` zeroes, at least one.
    pub fn hole(&self, out: &mut Vec<u8>, tag: Tag, last: bool, offset: u64, length: u32) {
        self.chunk(out, tag, last, wire::NBD_REPLY_TYPE_OFFSET_HOLE, 12);
        out.put_u64(offset);
        out.put_u32(length);
    }

    /// `NBD_REPLY_TYPE_NONE`: the end of a reply in chunks.
    pub fn finish(&self, out: &mut Vec<u8>, tag: Tag) {
        self.chunk(out, tag, true, wire::NBD_REPLY_TYPE_NONE, 0);
    }

    /// `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`, or `NBD_REPLY_TYPE_BLOCK_STATUS` where headers are
    /// compact: there the list ends with the first extent too long for it, cut.
    pub fn block_status(
        &self,
        out: &mut Vec<u8>,
        tag: Tag,
        last: bool,
        context: u32,
        extents: &[Extent],
    ) {
        assert!(!extents.is_empty(), "at least one extent is reported");
        if self.mode == Mode::Extended {
            let length = 8 + 16 * extents.len() as u64;
            self.chunk(out, tag, last, wire::NBD_REPLY_TYPE_BLOCK_STATUS_EXT, length);
            out.put_u32(context);
            out.put_u32(u32::try_from(extents.len()).expect("extents of one reply"));
            for extent in extents {
                out.put_u64(extent.length);
                out.put_u64(extent.flags);
            }
            return;
        }
        let fitting = extents.iter().take_while(|e| e.length <= COMPACT_EXTENT_MAX).count();
        let sent = &extents[..extents.len().min(fitting + 1)];
        let length = 4 + 8 * sent.len() as u64;
        self.chunk(out, tag, last, wire::NBD_REPLY_TYPE_BLOCK_STATUS, length);
        out.put_u32(context);
        for extent in sent {
            out.put_u32(extent.length.min(COMPACT_EXTENT_MAX) as u32);
            out.put_u32(u32::try_from(extent.flags).expect("64-bit status needs long headers"));
        }
    }

    fn chunk(&self, out: &mut Vec<u8>, tag: Tag, last: bool, kind: u16, length: u64) {
        let flags = if last { wire::NBD_REPLY_FLAG_DONE } else { 0 };
        let extended = self.mode == Mode::Extended;
        assert!(self.mode != Mode::Simple, "chunks need structured replies");
        out.put_u32(if extended {
            wire::NBD_EXTENDED_REPLY_MAGIC
        } else {
            wire::NBD_STRUCTURED_REPLY_MAGIC
        });
        out.put_u16(flags);
        out.put_u16(kind);
        out.put_u64(tag.cookie);
        if extended {
            out.put_u64(tag.offset);
            out.put_u64(length);
        } else {
            out.put_u32(u32::try_from(length).expect("chunks are bounded by the block sizes"));
        }
    }
}

fn simple(out: &mut Vec<u8>, tag: Tag, errno: u32) {
    out.put_u32(wire::NBD_SIMPLE_REPLY_MAGIC);
    out.put_u32(errno);
    out.put_u64(tag.cookie);
}

fn put_error(out: &mut Vec<u8>, errno: u32, text: &str) {
    out.put_u32(errno);
    out.put_u16(text.len() as u16);
    out.extend_from_slice(text.as_bytes());
}

/// At most as long as the protocol's strings.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(wire::STRING_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
