//! Errors of devices, and of requests.

/// Why a request failed. Each front end has its own numbers for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The bytes cannot be read or written.
    Io,
    /// A write beyond the end of the export.
    NoSpace,
    /// A request that makes no sense, or that the export does not offer.
    Invalid,
    /// A change of an export that is read-only.
    ReadOnly,
    /// Longer than the form of its reply allows.
    TooLong,
    /// The server is stopping; another one may carry it out.
    ShuttingDown,
}

/// Why an operation on a device failed. The class decides what the array does (docs/durability.md,
/// "Errors of devices"); the number is the system's own and is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoError {
    /// What it means for the device.
    pub class: IoClass,
    /// The system's error number; 0: it gave none.
    pub errno: i32,
}

/// What an error means for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// These bytes cannot be read or written; others of the device may.
    Medium,
    /// There is no space now (`ENOSPC`, `EDQUOT`): the same operation may succeed later.
    Full,
    /// The device or the system is busy now (`EAGAIN`, `EBUSY`, `ENOMEM`): likewise.
    Busy,
    /// This process may not use the device (`EACCES`, `EPERM`, `EROFS`).
    Denied,
    /// The device ends before these bytes.
    Short,
    /// The device is gone, or does not answer.
    Gone,
}

/// Numbers, classes and names of the known errors; all others are `Gone`.
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
    /// There is no space now (`ENOSPC`).
    pub const FULL: IoError = IoError { class: IoClass::Full, errno: 28 };
    /// The device ends before these bytes.
    pub const SHORT: IoError = IoError { class: IoClass::Short, errno: 0 };
    /// The device is gone, and no system call says why.
    pub const GONE: IoError = IoError { class: IoClass::Gone, errno: 0 };

    /// The error of a system call on a device.
    pub fn from_errno(errno: i32) -> IoError {
        let known = ERRNOS.iter().find(|(number, ..)| *number == errno);
        IoError { class: known.map_or(IoClass::Gone, |(_, class, _)| *class), errno }
    }

    /// The error of a call of the standard library on a device.
    pub fn from_std(error: &std::io::Error) -> IoError {
        match (error.raw_os_error(), error.kind()) {
            (Some(errno), _) => IoError::from_errno(errno),
            (None, std::io::ErrorKind::UnexpectedEof) => IoError::SHORT,
            _ => IoError::GONE,
        }
    }

    /// Whether the same operation may succeed later, with nothing else changed.
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
