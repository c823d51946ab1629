//! What is asked of the volume, and what it answers.

use crate::Buffer;
use crate::lost::{Lost, ranges_told};

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
    /// The errno a block device would give.
    #[must_use]
    pub const fn errno(self) -> u32 {
        match self {
            Refusal::BeyondEnd { writes: true } => 28,
            Refusal::BeyondEnd { writes: false } => 22,
            Refusal::Unreadable | Refusal::Stopped => 5,
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

/// Something an operator must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// One NVS device is left; replace this one.
    NvsMirrorLost(u16),
    /// No NVS device is left: a crash now loses this many pages.
    NvsLost(u64),
    /// This NVS device has become a mirror of the other.
    NvsMirrored(u16),
    /// This NVS device was to become a mirror, and failed.
    MirrorFailed(u16),
    /// A member has failed.
    MemberFailed(u16),
    /// This member is rebuilt: it is whole.
    MemberRebuilt(u16),
    /// The spare that was to become this member has failed.
    RebuildStopped(u16),
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
    /// A row's pages could not be told: they are lost.
    RowUnrecoverable {
        /// First page of the group.
        first_page: u64,
        /// The row in the group.
        row: u32,
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
            Alarm::NvsMirrorLost(_) => "nvs-mirror-lost",
            Alarm::NvsLost(_) => "nvs-lost",
            Alarm::NvsMirrored(_) => "nvs-mirrored",
            Alarm::MirrorFailed(_) => "nvs-mirror-failed",
            Alarm::MemberFailed(_) => "member-failed",
            Alarm::MemberRebuilt(_) => "member-rebuilt",
            Alarm::RebuildStopped(_) => "rebuild-stopped",
            Alarm::PagesLost { .. } => "pages-lost",
            Alarm::ArrayStopped(_) => "array-stopped",
            Alarm::RowUnrecoverable { .. } => "row-unrecoverable",
            Alarm::Repaired { .. } => "member-repaired",
        }
    }
}

impl core::fmt::Display for Alarm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Alarm::NvsMirrorLost(copy) => {
                write!(f, "NVS device {copy} is lost, one is left: replace it")
            }
            Alarm::NvsMirrored(copy) => {
                write!(f, "NVS device {copy} has all of the log: there are two again")
            }
            Alarm::MirrorFailed(copy) => {
                write!(f, "NVS device {copy} was not filled to its end: give it again, or another")
            }
            Alarm::NvsLost(pages) => {
                write!(f, "no NVS device is left: a crash now loses {pages} pages")
            }
            Alarm::MemberFailed(member) => {
                write!(f, "member {member} has failed: the array goes on with less redundancy")
            }
            Alarm::MemberRebuilt(member) => write!(f, "member {member} is rebuilt: it is whole"),
            Alarm::RebuildStopped(member) => {
                write!(f, "the spare for member {member} has failed: give another")
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
            Alarm::RowUnrecoverable { first_page, row } => {
                write!(
                    f,
                    "row {row} of the group at page {first_page} cannot be told: data is lost"
                )
            }
            Alarm::Repaired { member, page, pages } => write!(
                f,
                "member {member} could not read {pages} pages at page {page}: written again from \
                 the others"
            ),
        }
    }
}
