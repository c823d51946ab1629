//! The devices of an array, operations on them, and their errors.

use crate::Buffer;
use crate::store::PAGE;
use destage_block::SharedBytes;

pub use destage_block::{IoClass, IoError};

/// A device of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// Member disk of this number.
    Member(u16),
    /// NVS device of this number, 0 or 1.
    Nvs(u16),
}

impl core::fmt::Display for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Device::Member(number) => write!(f, "member {number}"),
            Device::Nvs(number) => write!(f, "NVS device {number}"),
        }
    }
}

/// Name of an operation, returned with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// An operation on a device. Any number may be in flight, in any order: where one has to wait for
/// another, the volume does not hand it out before.
#[derive(Debug)]
pub struct Op {
    /// Echoed by [`crate::Volume::done`].
    pub id: OpId,
    /// The device.
    pub device: Device,
    /// What it does.
    pub kind: OpKind,
}

/// What an operation does. Offsets are bytes from the device's start; offsets and lengths are
/// multiples of the device's block.
#[derive(Clone, Debug)]
pub enum OpKind {
    /// Read this many bytes into a buffer, which is returned.
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
        buffer: SharedBytes,
        /// It is done only when it is durable (FUA).
        durable: bool,
    },
    /// Make durable every write that was done before this was handed out.
    Flush,
}

/// The devices, one operation at a time: for creating, assembling and recovering arrays before
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

/// Writes whole pages, the last one padded with zeros.
pub(crate) fn write_padded(
    media: &mut dyn Media,
    device: Device,
    offset: u64,
    bytes: &[u8],
) -> Result<(), IoError> {
    let mut buffer = Buffer::zeroed(bytes.len().next_multiple_of(PAGE));
    buffer[..bytes.len()].copy_from_slice(bytes);
    media.write(device, offset, &buffer)
}

/// The same, and flushes the device. An error says which one it was.
pub(crate) fn write_durably(
    media: &mut dyn Media,
    device: Device,
    offset: u64,
    bytes: &[u8],
) -> Result<(), (Device, IoError)> {
    write_padded(media, device, offset, bytes)
        .and_then(|()| media.flush(device))
        .map_err(|error| (device, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_what_it_is_and_its_number() {
        assert_eq!(Device::Member(3).to_string(), "member 3");
        assert_eq!(Device::Nvs(1).to_string(), "NVS device 1");
    }
}
