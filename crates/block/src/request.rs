//! Requests to a backend, and their answers.

use crate::{Buffer, RequestError};
use std::ops::Range;
use std::sync::Arc;

/// What a client asks for. Offsets and lengths are bytes, within the export and not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "offset and length say what they are")]
pub enum Request {
    /// Answered with the bytes.
    Read { offset: u64, length: u32 },
    /// Comes with a [`Payload`] of this length. `fua`: answered only when it is durable.
    Write { offset: u64, length: u32, fua: bool },
    /// Answered when all writes that were answered before are durable.
    Flush,
    /// The contents are no longer needed: later reads return anything.
    Trim { offset: u64, length: u64, fua: bool },
    /// Will be read soon.
    Prefetch { offset: u64, length: u64 },
    /// Later reads return zeros.
    Zero { offset: u64, length: u64, fua: bool },
    /// Asks which parts these maps mark. `one`: one extent per map is enough.
    Status { offset: u64, length: u64, one: bool, maps: Maps },
}

impl Request {
    /// First byte; 0 for a flush.
    pub fn offset(&self) -> u64 {
        match *self {
            Request::Read { offset, .. }
            | Request::Write { offset, .. }
            | Request::Trim { offset, .. }
            | Request::Prefetch { offset, .. }
            | Request::Zero { offset, .. }
            | Request::Status { offset, .. } => offset,
            Request::Flush => 0,
        }
    }
}

/// The bytes of a WRITE; empty for other requests.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Valid during the call only.
    Bytes(&'a [u8]),
    /// A buffer that the backend may keep.
    Owned(Buffer),
}

impl Payload<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::Bytes(bytes) => bytes,
            Payload::Owned(buffer) => buffer,
        }
    }

    /// The bytes in a buffer of their own; copied unless they are in one already.
    pub fn into_buffer(self) -> Buffer {
        match self {
            Payload::Bytes(bytes) => Buffer::copy_of(bytes),
            Payload::Owned(buffer) => buffer,
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer<'a> {
    /// Done; not for [`Request::Read`] and [`Request::Status`].
    Done,
    /// The bytes of a read, copied at once.
    Bytes(&'a [u8]),
    /// The bytes of a read in consecutive parts, copied at once.
    Parts(&'a [&'a [u8]]),
    /// The bytes of a read, in part of a buffer. Long ones are sent from there.
    Data(Arc<Buffer>, Range<usize>),
    /// It failed.
    Error {
        /// Why.
        error: RequestError,
        /// For people.
        text: &'a str,
    },
    /// For each map that was asked for, its extents from the offset on.
    Status(&'a [(Map, Vec<Extent>)]),
}

/// A property of bytes that a client can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// Marks holes: bytes that read as zeros and take no space.
    Holes,
    /// Marks bytes that only the NVS has.
    Dirty,
}

impl Map {
    /// All maps.
    pub const ALL: [Map; 2] = [Map::Holes, Map::Dirty];
}

/// A set of maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maps(u8);

impl Maps {
    /// With this map.
    #[must_use]
    pub fn with(self, map: Map) -> Maps {
        Maps(self.0 | 1 << map as u8)
    }

    /// Whether this map is in the set.
    pub fn contains(self, map: Map) -> bool {
        self.0 & (1 << map as u8) != 0
    }
}

impl FromIterator<Map> for Maps {
    fn from_iter<I: IntoIterator<Item = Map>>(maps: I) -> Maps {
        maps.into_iter().fold(Maps::default(), Maps::with)
    }
}

/// Consecutive bytes that a map marks, or does not mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes; not zero.
    pub length: u64,
    /// Whether the map marks them.
    pub marked: bool,
}
