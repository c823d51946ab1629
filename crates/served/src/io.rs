//! The devices of an array, operations on them, and their errors.

use crate::Buffer;
use crate::store::PAGE;
use std::sync::Arc;

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
        buffer: Arc<Buffer>,
        /// It is done only when it is durable (FUA).
        durable: bool,
    },
    /// Make durable every write that was done before this was handed out.
    Flush,
}

/// Why an operation failed. The class decides what the volume does (docs/durability.md, "Errors of
/// devices"); the number is the system's, and is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoError {
    /// What it means for the device.
    pub class: IoClass,
    /// The system's error number; 0: there is none.
    pub errno: i32,
}

/// What an error means for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// These bytes cannot be read or written; others of the device may.
    Medium,
    /// There is no space (`ENOSPC`, `EDQUOT`): the same operation may succeed later.
    Full,
    /// The device or the system is busy (`EAGAIN`, `EBUSY`, `ENOMEM`): likewise.
    Busy,
    /// This process may not use the device (`EACCES`, `EPERM`, `EROFS`).
    Denied,
    /// The device ends before these bytes.
    Short,
    /// The device is gone, or does not answer.
    Gone,
}

/// Numbers, classes and names of the errors that are distinguished; all others are `Gone`.
const ERRNOS: &[(i32, IoClass, &str)] = &[
    (1, IoClass::Denied, "EPERM"),
    (5, IoClass::Medium, "EIO"),
    (6, IoClass::Gone, "ENXIO"),
    (9, IoClass::Gone, "EBADF"),
    (11, IoClass::Busy, "EAGAIN"),
    (12, IoClass::Busy, "ENOMEM"),
    (13, IoClass::Denied, "EACCES"),
    (16, IoClass::Busy, "EBUSY"),
    (19, IoClass::Gone, "ENODEV"),
    (27, IoClass::Full, "EFBIG"),
    (28, IoClass::Full, "ENOSPC"),
    (30, IoClass::Denied, "EROFS"),
    (61, IoClass::Medium, "ENODATA"),
    (84, IoClass::Medium, "EILSEQ"),
    (104, IoClass::Gone, "ECONNRESET"),
    (107, IoClass::Gone, "ENOTCONN"),
    (108, IoClass::Gone, "ESHUTDOWN"),
    (110, IoClass::Gone, "ETIMEDOUT"),
    (111, IoClass::Gone, "ECONNREFUSED"),
    (121, IoClass::Medium, "EREMOTEIO"),
    (122, IoClass::Full, "EDQUOT"),
];

impl IoError {
    /// These bytes cannot be read or written (`EIO`).
    pub const MEDIUM: IoError = IoError { class: IoClass::Medium, errno: 5 };
    /// There is no space (`ENOSPC`).
    pub const FULL: IoError = IoError { class: IoClass::Full, errno: 28 };
    /// The device ends before these bytes.
    pub const SHORT: IoError = IoError { class: IoClass::Short, errno: 0 };
    /// The device is gone, and no system call failed.
    pub const GONE: IoError = IoError { class: IoClass::Gone, errno: 0 };

    /// The error of a system call on a device.
    #[must_use]
    pub fn from_errno(errno: i32) -> IoError {
        let known = ERRNOS.iter().find(|(number, ..)| *number == errno);
        IoError { class: known.map_or(IoClass::Gone, |(_, class, _)| *class), errno }
    }

    /// The error of a call of the standard library on a device.
    #[must_use]
    pub fn from_std(error: &std::io::Error) -> IoError {
        match (error.raw_os_error(), error.kind()) {
            (Some(errno), _) => IoError::from_errno(errno),
            (None, std::io::ErrorKind::UnexpectedEof) => IoError::SHORT,
            _ => IoError::GONE,
        }
    }

    /// Whether the same operation may succeed later, with nothing else changed.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self.class, IoClass::Full | IoClass::Busy)
    }
}

impl core::fmt::Display for IoError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (self.class, self.errno) {
            (IoClass::Short, _) => return f.write_str("the device ends before these bytes"),
            (_, 0) => return f.write_str("the device does not answer"),
            _ => {}
        }
        let text = std::io::Error::from_raw_os_error(self.errno).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        match ERRNOS.iter().find(|(number, ..)| *number == self.errno) {
            Some((.., name)) => write!(f, "{text} ({name})"),
            None => write!(f, "{text} (errno {})", self.errno),
        }
    }
}

impl std::error::Error for IoError {}

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
