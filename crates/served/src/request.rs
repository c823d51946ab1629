//! What is asked of the volume, and what it answers.

use crate::Buffer;
use crate::io::{Device, IoClass, IoError, OpKind};
use crate::lost::{Lost, ranges_told};
use destage_block::RequestError;
use destage_engine::units::Duration;

/// Number of a request, chosen by the caller; echoed in the reply.
pub type Ticket = u64;

/// A request in bytes; offsets and lengths need not be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: usize,
    },
    /// Write the payload.
    Write {
        /// First byte.
        offset: u64,
        /// Durable before it is answered, whatever the acknowledgement mode.
        fua: bool,
    },
    /// The range reads zeros from now on.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// As for a write.
        fua: bool,
    },
    /// The range is needed no longer.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// As for a write.
        fua: bool,
    },
    /// What was answered before is to be durable.
    Flush,
}

/// Why a request is refused or has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It reaches past the end. `ENOSPC` for what writes, `EINVAL` else.
    BeyondEnd {
        /// Whether it would have changed something.
        writes: bool,
    },
    /// The bytes cannot be read, and no redundancy is left. `EIO`.
    Unreadable,
    /// The array has stopped: too many disks failed, or the NVS did. `EIO`.
    Stopped,
}

impl Refusal {
    /// The error that a client gets.
    #[must_use]
    pub const fn error(self) -> RequestError {
        match self {
            Refusal::BeyondEnd { writes: true } => RequestError::NoSpace,
            Refusal::BeyondEnd { writes: false } => RequestError::Invalid,
            Refusal::Unreadable | Refusal::Stopped => RequestError::Io,
        }
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Refusal::BeyondEnd { .. } => "beyond the end of the volume",
            Refusal::Unreadable => "unreadable, and no redundancy is left to tell the bytes by",
            Refusal::Stopped => "the array has stopped; see destage status",
        })
    }
}

impl std::error::Error for Refusal {}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// Of which request.
    pub ticket: Ticket,
    /// For a read: a buffer and the place of the bytes in it.
    pub result: Result<Answer, Refusal>,
}

/// What a request brought.
#[derive(Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// The bytes read: `bytes` of the buffer from `from` on.
    Data {
        /// Whole pages.
        buffer: Buffer,
        /// First byte asked for.
        from: usize,
        /// Bytes asked for.
        bytes: usize,
    },
}

/// Why a device was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A read of it failed.
    Read(IoError),
    /// A write to it failed.
    Write(IoError),
    /// A flush of it failed: it may have dropped what it had not written yet.
    Flush(IoError),
    /// It did not answer within the stall limit.
    Stalled(Duration),
    /// An operator asked for it.
    Asked,
    /// Its file was deleted.
    Deleted,
    /// More of its pages cannot be computed than its record has room for.
    TooManyLost,
    /// It has become shorter than the array needs.
    Shrunk {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that the array needs.
        needs: u64,
    },
}

impl Cause {
    /// The failure of an operation.
    pub(crate) fn of(kind: &OpKind, error: IoError) -> Cause {
        match kind {
            OpKind::Read { .. } => Cause::Read(error),
            OpKind::Write { .. } => Cause::Write(error),
            OpKind::Flush => Cause::Flush(error),
        }
    }
}

impl core::fmt::Display for Cause {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Cause::Read(error) => write!(f, "read error: {error}"),
            Cause::Write(error) => write!(f, "write error: {error}"),
            Cause::Flush(error) => write!(f, "flush error: {error}"),
            Cause::Stalled(limit) => {
                write!(f, "it did not answer for {} s", limit.0 as f64 / 1e9)
            }
            Cause::Asked => f.write_str("an operator gave it up"),
            Cause::Deleted => f.write_str("its file was deleted"),
            Cause::TooManyLost => f.write_str("too many of its pages cannot be computed"),
            Cause::Shrunk { bytes, needs } => {
                write!(f, "it has shrunk to {bytes} bytes; the array needs {needs}")
            }
        }
    }
}

/// Something an operator must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// One NVS device is left; replace this one.
    NvsMirrorLost(u16, Cause),
    /// No NVS device is left.
    NvsLost {
        /// The last one.
        copy: u16,
        /// Pages that a crash now loses.
        pages: u64,
        /// Why it was given up.
        cause: Cause,
    },
    /// This NVS device has become a mirror of the other.
    NvsMirrored(u16),
    /// This NVS device was to become a mirror, and failed.
    MirrorFailed(u16),
    /// A member has failed.
    MemberFailed(u16, Cause),
    /// Operations on this device wait and are tried again: it has no space, or is busy.
    DeviceWaits(Device, IoError),
    /// They have succeeded.
    DeviceAnswers(Device),
    /// This member is rebuilt: it is whole.
    MemberRebuilt(u16),
    /// The spare that was to become this member has failed.
    RebuildStopped(u16, Cause),
    /// Pages that no member could tell when one was rebuilt: first page of the volume, pages.
    PagesLost {
        /// The member.
        member: u16,
        /// First page of it.
        page: u64,
        /// Pages of the volume, as runs.
        ranges: Vec<(u64, u64)>,
    },
    /// More members have failed than the level bears: the array has stopped. What is lost.
    ArrayStopped(Box<Lost>),
    /// Dirty pages of a row that cannot be computed: they stay in NVS, and are tried again.
    PagesKept {
        /// First page of the group.
        first_page: u64,
        /// Pages of the volume in such rows, as runs.
        ranges: Vec<(u64, u64)>,
    },
    /// They could be destaged.
    PagesDestaged {
        /// First page of the group.
        first_page: u64,
    },
    /// A copy of a superblock was damaged; it was written again.
    SuperblockRepaired {
        /// The device.
        device: Device,
        /// 0: the first copy, 1: the second.
        copy: usize,
    },
    /// A member could not read some bytes; they were written again from the others.
    Repaired {
        /// The member.
        member: u16,
        /// First page of it.
        page: u64,
        /// Pages.
        pages: u32,
    },
}

impl Alarm {
    /// The alarm's name (docs/durability.md).
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Alarm::NvsMirrorLost(..) => "nvs-mirror-lost",
            Alarm::NvsLost { .. } => "nvs-lost",
            Alarm::NvsMirrored(_) => "nvs-mirrored",
            Alarm::MirrorFailed(_) => "nvs-mirror-failed",
            Alarm::MemberFailed(..) => "member-failed",
            Alarm::MemberRebuilt(_) => "member-rebuilt",
            Alarm::DeviceWaits(_, error) => match error.class {
                IoClass::Full => "device-full",
                _ => "device-busy",
            },
            Alarm::DeviceAnswers(_) => "device-answers",
            Alarm::RebuildStopped(..) => "rebuild-stopped",
            Alarm::PagesLost { .. } => "pages-lost",
            Alarm::ArrayStopped(_) => "array-stopped",
            Alarm::PagesKept { .. } => "pages-kept",
            Alarm::PagesDestaged { .. } => "pages-destaged",
            Alarm::SuperblockRepaired { .. } => "superblock-repaired",
            Alarm::Repaired { .. } => "member-repaired",
        }
    }
}

impl core::fmt::Display for Alarm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Alarm::NvsMirrorLost(copy, cause) => write!(
                f,
                "NVS device {copy} failed: {cause}. One NVS device is left: if that fails too, a \
                 crash loses what is dirty. Replace it"
            ),
            Alarm::NvsMirrored(copy) => {
                write!(f, "NVS device {copy} has all of the log: there are two again")
            }
            Alarm::MirrorFailed(copy) => {
                write!(f, "NVS device {copy} was not filled to its end: give it again, or another")
            }
            Alarm::NvsLost { copy, pages: 0, cause } => write!(
                f,
                "NVS device {copy} failed: {cause}. No NVS device is left. Nothing was dirty, so \
                 nothing is lost"
            ),
            Alarm::NvsLost { copy, pages, cause } => write!(
                f,
                "NVS device {copy} failed: {cause}. No NVS device is left: until they are on the \
                 disks, a crash loses {pages} pages"
            ),
            Alarm::MemberFailed(member, cause) => write!(
                f,
                "member {member} failed: {cause}. The array continues with less redundancy. \
                 Replace the member"
            ),
            Alarm::DeviceWaits(device, error) => write!(
                f,
                "{device}: {error}. Writes wait and are tried again every second; nothing is \
                 lost. Make space, or replace the device"
            ),
            Alarm::DeviceAnswers(device) => write!(f, "{device} takes writes again"),
            Alarm::MemberRebuilt(member) => write!(f, "member {member} is rebuilt: it is whole"),
            Alarm::RebuildStopped(member, cause) => {
                write!(f, "the spare for member {member} failed: {cause}. Give another one")
            }
            Alarm::PagesLost { member, page, ranges } => write!(
                f,
                "page {page} of member {member} cannot be told from the others; lost is {}",
                ranges_told(ranges)
            ),
            Alarm::ArrayStopped(lost) => write!(
                f,
                "more members have failed than the level bears: the array has stopped; {lost}"
            ),
            Alarm::PagesKept { ranges, .. } => write!(
                f,
                "{} cannot be destaged: members cannot read what the parity is computed from. \
                 They stay in the NVS",
                ranges_told(ranges)
            ),
            Alarm::PagesDestaged { first_page } => {
                write!(f, "the pages of the group at page {first_page} are on the disks")
            }
            Alarm::SuperblockRepaired { device, copy } => write!(
                f,
                "{device}: the {} copy of the superblock was damaged and has been written again \
                 from the other. If it happens again, replace the device",
                ["first", "second"][usize::from(*copy > 0)]
            ),
            Alarm::Repaired { member, page, pages } => write!(
                f,
                "member {member} could not read {pages} pages at page {page}: written again from \
                 the others"
            ),
        }
    }
}
