//! What a backend is given: the clock, the devices, and the way back to the clients.

use crate::{Answer, Buffer, IoError, SharedBytes};
use destage_engine::units::Instant;
use std::os::fd::OwnedFd;

/// Carries out what a backend wants done.
pub trait Driver {
    /// Names a request until it is answered. If its client is gone, the answer is dropped.
    type Token;

    /// Time since the start; never goes back.
    fn now(&self) -> Instant;

    /// What [`Driver::now`] returned last: reading the clock takes time.
    fn lately(&self) -> Instant;

    /// A buffer of this length with arbitrary contents.
    fn buffer(&mut self, length: usize) -> Buffer;

    /// Takes back a buffer that is no longer needed, so that the next one costs less.
    fn recycle(&mut self, buffer: Buffer);

    /// Takes over a device. Its descriptor stays open until [`Driver::close`].
    fn open(&mut self, device: OwnedFd) -> Handle;

    /// Closes a device once the operations in flight on it have ended.
    fn close(&mut self, device: Handle);

    /// Starts an operation on a device. [`crate::Backend::done`] reports its end with this key.
    ///
    /// # Panics
    /// If the device was closed.
    fn submit(&mut self, key: u64, io: Io);

    /// Answers a request. The answer is sent at the end of the turn.
    ///
    /// # Panics
    /// If the answer is of another kind than the request, or of another length.
    fn reply(&mut self, token: Self::Token, answer: Answer<'_>);
}

/// A device that was handed over with [`Driver::open`]. Only the driver looks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(pub usize);

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
        buffer: SharedBytes,
        /// Done only when durable (`RWF_DSYNC`).
        durable: bool,
    },
    /// Make all completed writes durable (`fdatasync`).
    Flush {
        /// The device.
        device: Handle,
    },
    /// Send all of these bytes on a socket.
    Send {
        /// The socket.
        device: Handle,
        /// The bytes, in order.
        bytes: Vec<Piece>,
    },
    /// Receive what arrives on a socket, at least one byte. [`IoError::SHORT`]: the peer closed it.
    Receive {
        /// The socket.
        device: Handle,
        /// Where to; comes back with the outcome, as long as what was received.
        buffer: Buffer,
    },
}

/// Part of what is sent.
#[derive(Debug)]
pub enum Piece {
    /// Bytes of its own.
    Bytes(Vec<u8>),
    /// Part of a buffer that others may use too.
    Shared(SharedBytes),
}

impl Piece {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }
}

/// How an operation on a device ended.
#[derive(Debug)]
pub struct Outcome {
    /// Whether it succeeded.
    pub result: Result<(), IoError>,
    /// The system's error number, 0 if there is none.
    pub errno: i32,
    /// The buffer of a read.
    pub buffer: Option<Buffer>,
}
