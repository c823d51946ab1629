//! Requests to the volume, their answers, and the alarms that it raises.

use crate::Buffer;
use crate::io::{Device, IoClass, IoError, OpKind};
use crate::lost::Lost;
use destage_block::RequestError;
use destage_engine::units::Duration;

/// Number of a request, chosen by the caller; echoed in the reply.
pub type Ticket = u64;

/// Number of a request inside the volume, used again after its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostId(pub(crate) u64);

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
        /// Durable before it is answered, in every acknowledgement mode.
        fua: bool,
    },
    /// The range reads as zeros from now on.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// As for a write.
        fua: bool,
    },
    /// The range is no longer needed.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// As for a write.
        fua: bool,
    },
    /// Make everything durable that was answered before.
    Flush,
}

/// Why a request is refused or has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It reaches past the end: `ENOSPC` for a request that writes, otherwise `EINVAL`.
    BeyondEnd {
        /// Whether it would have changed something.
        writes: bool,
    },
    /// The bytes cannot be read, and no redundancy is left. `EIO`.
    Unreadable,
    /// The array has stopped: too many disks failed, or the NVS did. `EIO`.
    Stopped,
    /// Its client is gone, and not all of it was carried out. `EIO`, which nobody hears.
    Withdrawn,
}

impl Refusal {
    /// The error that a client gets.
    #[must_use]
    pub const fn error(self) -> RequestError {
        match self {
            Refusal::BeyondEnd { writes: true } => RequestError::NoSpace,
            Refusal::BeyondEnd { writes: false } => RequestError::Invalid,
            Refusal::Unreadable | Refusal::Stopped | Refusal::Withdrawn => RequestError::Io,
        }
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Refusal::BeyondEnd { .. } => "beyond the end of the volume",
            Refusal::Unreadable => {
                "unreadable, and not enough redundancy is left to reconstruct it"
            }
            Refusal::Stopped => "the array has stopped; see destage status",
            Refusal::Withdrawn => "its client is gone",
        })
    }
}

impl std::error::Error for Refusal {}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The request's.
    pub ticket: Ticket,
    /// The answer, or why there is none.
    pub result: Result<Answer, Refusal>,
}

/// What a request returns.
#[derive(Debug)]
pub enum Answer {
    /// Nothing: it is done.
    Done,
    /// The bytes read: `bytes` of the buffer from `from` on.
    Data {
        /// Whole pages.
        buffer: Buffer,
        /// First byte that was requested.
        from: usize,
        /// Bytes that were requested.
        bytes: usize,
    },
}

/// Why a device is no longer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A read of it failed.
    Read(IoError),
    /// A write to it failed.
    Write(IoError),
    /// A flush of it failed: it may have dropped what it had not written yet.
    Flush(IoError),
    /// It did not answer within the stall limit, which is this.
    Stalled(Duration),
    /// An operator failed it.
    Asked,
    /// Its file was deleted.
    Deleted,
    /// More of its pages cannot be reconstructed than its record has room for.
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
            Cause::Asked => f.write_str("an operator marked it as failed"),
            Cause::Deleted => f.write_str("its file was deleted"),
            Cause::TooManyLost => f.write_str("too many of its pages cannot be reconstructed"),
            Cause::Shrunk { bytes, needs } => {
                write!(f, "it has shrunk to {bytes} bytes; the array needs {needs}")
            }
        }
    }
}

/// An event that an operator must know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// An NVS device has failed, and one is left.
    NvsMirrorLost(u16, Cause),
    /// No NVS device is left.
    NvsLost {
        /// The last one.
        copy: u16,
        /// Pages that a crash now loses.
        pages: u64,
        /// Why it is no longer used.
        cause: Cause,
    },
    /// This NVS device is in sync: the log is mirrored again.
    NvsMirrored(u16),
    /// This NVS device was being synchronised, and that failed.
    MirrorFailed(u16),
    /// A member has failed.
    MemberFailed(u16, Cause),
    /// Operations on this device wait to be tried again: it has no space, or is busy.
    DeviceWaits(Device, IoError),
    /// They have succeeded.
    DeviceAnswers(Device),
    /// This member's rebuild is complete.
    MemberRebuilt(u16),
    /// The spare that this member was rebuilt onto has failed.
    RebuildStopped(u16, Cause),
    /// Pages that could not be reconstructed when a member was rebuilt.
    PagesLost {
        /// The member.
        member: u16,
        /// First page of it.
        page: u64,
        /// Pages of the volume that are lost, as runs (first page, pages).
        ranges: Vec<(u64, u64)>,
    },
    /// More members have failed than the level tolerates: the array has stopped. What is lost.
    ArrayStopped(Box<Lost>),
    /// Dirty pages of rows whose parity cannot be computed: they stay in the NVS, and are tried
    /// again.
    PagesKept {
        /// First page of the group.
        first_page: u64,
        /// Pages of the volume in such rows, as runs (first page, pages).
        ranges: Vec<(u64, u64)>,
    },
    /// They have been destaged.
    PagesDestaged {
        /// First page of the group.
        first_page: u64,
    },
    /// A copy of a superblock was damaged, and has been repaired.
    SuperblockRepaired {
        /// The device.
        device: Device,
        /// 0: the first copy, 1: the second.
        copy: usize,
    },
    /// A run without a log was interrupted, or what is left of a log is used: parity or copies of
    /// rows that were being written may not fit.
    RowsDoubted,
    /// All rows were repaired.
    RowsRepaired,
    /// A member could not read some pages; they were reconstructed and written again.
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
            Alarm::RowsDoubted => "rows-doubted",
            Alarm::RowsRepaired => "rows-repaired",
            Alarm::Repaired { .. } => "member-repaired",
        }
    }
}

impl core::fmt::Display for Alarm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_error_of_its_kind_and_says_why() {
        for (refusal, error, why) in [
            (Refusal::BeyondEnd { writes: true }, RequestError::NoSpace, "beyond the end"),
            (Refusal::BeyondEnd { writes: false }, RequestError::Invalid, "beyond the end"),
            (Refusal::Unreadable, RequestError::Io, "unreadable"),
            (Refusal::Stopped, RequestError::Io, "stopped"),
            (Refusal::Withdrawn, RequestError::Io, "client is gone"),
        ] {
            assert_eq!(refusal.error(), error, "{refusal}");
            assert!(refusal.to_string().contains(why), "{refusal}");
        }
    }

    #[test]
    fn a_cause_says_what_failed() {
        let kinds = [
            (OpKind::Read { offset: 0, bytes: 512 }, "read error: "),
            (
                OpKind::Write { offset: 0, buffer: Buffer::zeroed(512).into(), durable: false },
                "write error: ",
            ),
            (OpKind::Flush, "flush error: "),
        ];
        for (kind, begins) in kinds {
            let cause = Cause::of(&kind, IoError::MEDIUM).to_string();
            assert!(cause.starts_with(begins) && cause.len() > begins.len(), "{cause}");
        }
        let stalled = Cause::Stalled(Duration::from_millis(1500)).to_string();
        assert!(stalled.ends_with("for 1.5 s"), "{stalled}");
        let shrunk = Cause::Shrunk { bytes: 512, needs: 4096 }.to_string();
        assert!(shrunk.contains("512 bytes") && shrunk.contains("4096"), "{shrunk}");
    }

    #[test]
    fn an_alarm_of_a_device_that_waits_says_why_it_does() {
        let waits = |class| Alarm::DeviceWaits(Device::Nvs(0), IoError { class, errno: 0 });
        assert_eq!(waits(IoClass::Full).to_string(), "device-full");
        assert_eq!(waits(IoClass::Busy).to_string(), "device-busy");
        assert_eq!(Alarm::MemberRebuilt(1).to_string(), "member-rebuilt");
    }
}
