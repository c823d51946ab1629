//! What serves the requests: a backend, and what it is given and gives.

use crate::port::Port;
use destage_engine::units::Instant;
use destage_nbd::reply::Extent;
use destage_nbd::request::Command;
use destage_served::{Buffer, IoError};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// An object of the data thread that serves requests. None of its functions may block.
///
/// In a turn of the loop come first the requests and completions that are there, in any order, then
/// [`Backend::timer`] if its time has come, then [`Backend::turn`], then all replies go out.
pub trait Backend {
    /// Once, before anything else: to hand over devices.
    fn start(&mut self, port: &mut Port) {
        let _ = port;
    }

    /// A request. It is within the export, and its token goes to [`Port::reply`] now or later.
    fn request(&mut self, port: &mut Port, token: Token, command: Command, payload: Payload<'_>);

    /// A request for this byte is likely to be given soon, among others.
    fn soon(&self, offset: u64) {
        let _ = offset;
    }

    /// An operation that [`Port::submit`] was given under this key is over.
    fn done(&mut self, port: &mut Port, key: u64, outcome: Outcome) {
        let _ = (port, key, outcome);
    }

    /// All requests and completions of this turn were given.
    fn turn(&mut self, port: &mut Port) {
        let _ = port;
    }

    /// When [`Backend::timer`] is to be called.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The deadline has come.
    fn timer(&mut self, port: &mut Port) {
        let _ = port;
    }

    /// A message that another thread sent through [`crate::Remote::send`].
    fn message(&mut self, port: &mut Port, message: Box<dyn Any + Send>) {
        let _ = (port, message);
    }

    /// The server is to stop: no further requests come. It ends when [`Backend::stopped`] says so.
    fn stop(&mut self, port: &mut Port) {
        let _ = port;
    }

    /// The server is to end at once, after [`Backend::stop`].
    fn hurry(&mut self, port: &mut Port) {
        let _ = port;
    }

    /// After [`Backend::stop`]: is nothing left to do?
    fn stopped(&self) -> bool {
        true
    }
}

/// The bytes of a WRITE; empty for other commands.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Bytes that are gone after the call.
    Bytes(&'a [u8]),
    /// A buffer that the backend may keep.
    Owned(Buffer),
}

impl Payload<'_> {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::Bytes(bytes) => bytes,
            Payload::Owned(buffer) => buffer,
        }
    }

    /// In a buffer of their own: copied unless they are in one.
    #[must_use]
    pub fn into_buffer(self) -> Buffer {
        match self {
            Payload::Bytes(bytes) => Buffer::copy_of(bytes),
            Payload::Owned(buffer) => buffer,
        }
    }
}

/// What answers a request.
#[derive(Debug)]
pub enum Answer<'a> {
    /// Done; not for READ and BLOCK_STATUS.
    Done,
    /// The bytes of a READ, copied at once.
    Bytes(&'a [u8]),
    /// The bytes of a READ, in parts that follow each other, copied at once.
    Parts(&'a [&'a [u8]]),
    /// The bytes of a READ, in part of a buffer. Long ones are sent from there.
    Data(Arc<Buffer>, Range<usize>),
    /// It failed.
    Error {
        /// `NBD_E*`.
        errno: u32,
        /// For people.
        text: &'a str,
    },
    /// To BLOCK_STATUS: for each context asked for, its position in the export's list of contexts
    /// and the extents from the offset on.
    Status(&'a [(usize, Vec<Extent>)]),
}

/// Names a request until it is answered. If its connection is gone, the answer is dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    /// Bytes of a READ.
    pub(crate) length: u32,
    pub(crate) kind: Kind,
    /// Bytes that it counts for among those in flight.
    pub(crate) charge: u32,
}

/// What kind of answer a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Read,
    Status,
}

/// A device that the backend handed over with [`Port::open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) usize);

/// An operation on a device. Offsets are bytes.
#[derive(Debug)]
pub enum Io {
    /// Fill a buffer.
    Read {
        /// The device.
        device: Handle,
        /// First byte.
        offset: u64,
        /// What to fill; comes back with the outcome.
        buffer: Buffer,
    },
    /// Write a buffer.
    Write {
        /// The device.
        device: Handle,
        /// First byte.
        offset: u64,
        /// The bytes.
        buffer: Arc<Buffer>,
        /// Done only when durable (`RWF_DSYNC`).
        durable: bool,
    },
    /// Make durable what was written (`fdatasync`).
    Flush {
        /// The device.
        device: Handle,
    },
    /// Send bytes on a socket, all of them.
    Send {
        /// The socket.
        device: Handle,
        /// Bytes in vectors, and parts of shared buffers between them, in their order.
        bytes: Vec<SendPart>,
    },
    /// Receive what comes on a socket, at least a byte; 0 bytes: the other side has ended.
    Receive {
        /// The socket.
        device: Handle,
        /// Where to; comes back with the outcome, its length what was received.
        buffer: Buffer,
    },
}

/// A part of what is sent.
#[derive(Debug)]
pub enum SendPart {
    /// Bytes.
    Bytes(Vec<u8>),
    /// A whole buffer.
    Shared(Arc<Buffer>),
}

/// How an operation on a device ended.
#[derive(Debug)]
pub struct Outcome {
    /// Whether it was done.
    pub result: Result<(), IoError>,
    /// The system's error number, 0 if there is none.
    pub errno: i32,
    /// The buffer of a read.
    pub buffer: Option<Buffer>,
}
