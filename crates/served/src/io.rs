//! What the volume asks of its devices.

use crate::Buffer;
use std::sync::Arc;

pub use destage_block::{IoClass, IoError};

/// A device of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// Member disk of this number.
    Member(u16),
    /// NVS device of this number, 0 or 1.
    Nvs(u16),
}

/// Name of an operation, given back when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// An operation on a device. Any number may be under way; none waits for another, unless the
/// volume holds it back itself.
#[derive(Debug)]
pub struct Op {
    /// Echoed by [`crate::Volume::done`].
    pub id: OpId,
    /// The device.
    pub device: Device,
    /// What to do.
    pub kind: OpKind,
}

/// What an operation does. Offsets are bytes from the device's start; offsets and lengths are
/// multiples of the device's block.
#[derive(Clone, Debug)]
pub enum OpKind {
    /// Read this many bytes into a buffer to be given back.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: usize,
    },
    /// Write.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes; shared where two NVS devices get the same.
        buffer: Arc<Buffer>,
        /// Whether it is done only when it is durable (FUA).
        durable: bool,
    },
    /// Make everything written durable that was done before this was asked for.
    Flush,
}

/// The devices, one operation at a time: how arrays are created, assembled and recovered before
/// anything is served.
pub trait Media {
    /// Bytes that a device has.
    ///
    /// # Errors
    /// See [`IoError`].
    fn bytes(&mut self, device: Device) -> Result<u64, IoError>;

    /// Reads from a device.
    ///
    /// # Errors
    /// See [`IoError`].
    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError>;

    /// Writes to a device; not durable before [`Media::flush`].
    ///
    /// # Errors
    /// See [`IoError`].
    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError>;

    /// Makes what was written to a device durable.
    ///
    /// # Errors
    /// See [`IoError`].
    fn flush(&mut self, device: Device) -> Result<(), IoError>;
}
