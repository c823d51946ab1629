//! Why devices do not make an array.

use crate::io::{Device, IoError};
use destage_nvslog::superblock::{Role, SuperblockError};

/// Why a device has no superblock that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSuperblock {
    /// It could not be read.
    Io(IoError),
    /// It has none, or one that this program cannot use.
    Bytes(SuperblockError),
    /// It has one, but the device could not be written ([`crate::OpenError::Unwritable`]).
    Unwritable(IoError),
    /// It has one, but which of its pages are lost cannot be read
    /// ([`crate::OpenError::LostPagesUnknown`]).
    LostPagesUnknown,
    /// The device is shorter than its superblock says.
    Short {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that the array needs.
        needs: u64,
    },
}

impl core::fmt::Display for NoSuperblock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            NoSuperblock::Io(error) => error.fmt(f),
            NoSuperblock::Bytes(error) => error.fmt(f),
            NoSuperblock::Unwritable(error) => write!(f, "it cannot be written: {error}"),
            NoSuperblock::LostPagesUnknown => {
                f.write_str("its record of lost pages cannot be read")
            }
            NoSuperblock::Short { bytes, needs } => write!(
                f,
                "the device has {bytes} bytes, and its superblock says {needs}: it was cut short, \
                 and the data beyond its end is lost"
            ),
        }
    }
}

/// Why devices do not make an array. Devices are named by their place; callers know the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssembleError {
    /// No member has a superblock.
    NoArray(NoSuperblock),
    /// The device belongs to another array.
    OtherArray(Device),
    /// The device is in the wrong place: its role is this one.
    WrongPlace(Device, Role),
    /// The device is older than the others: it was absent, or restored from a copy.
    Stale {
        /// The device.
        device: Device,
        /// Its generation.
        has: u64,
        /// The generation of the others.
        newest: u64,
    },
    /// The device's superblock contradicts others of the same generation.
    Disagrees(Device),
    /// The NVS device has another log than the members record.
    OtherLog(Device),
    /// There are more members or NVS devices than the array has, or fewer.
    Count {
        /// Members of the array.
        members: u16,
        /// NVS devices in use.
        nvs: u16,
    },
    /// The device cannot be used; the array tolerates that, if it is allowed to.
    Degraded(Device, NoSuperblock),
    /// More members are missing than the level tolerates.
    TooManyMissing,
    /// The device was rebuilt in part, when the array last used it: the rest of it has other bytes.
    RebuiltInPart(Device),
    /// The NVS device can be used, though it was given up for lost.
    NvsNotLost(Device),
    /// The NVS device cannot be used, and may have the only copy of some pages.
    NvsMissing(Device, NoSuperblock),
}

impl AssembleError {
    /// The device that is meant.
    #[must_use]
    pub fn device(&self) -> Option<Device> {
        match self {
            AssembleError::NoArray(_)
            | AssembleError::Count { .. }
            | AssembleError::TooManyMissing => None,
            AssembleError::OtherArray(device)
            | AssembleError::WrongPlace(device, _)
            | AssembleError::Stale { device, .. }
            | AssembleError::Disagrees(device)
            | AssembleError::OtherLog(device)
            | AssembleError::RebuiltInPart(device)
            | AssembleError::NvsNotLost(device)
            | AssembleError::Degraded(device, _)
            | AssembleError::NvsMissing(device, _) => Some(*device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_why_a_device_has_no_superblock() {
        for (why, text) in [
            (NoSuperblock::Io(IoError::GONE), "the device does not answer"),
            (NoSuperblock::Bytes(SuperblockError::Foreign), "the device has no destage superblock"),
            (
                NoSuperblock::Unwritable(IoError::GONE),
                "it cannot be written: the device does not answer",
            ),
            (NoSuperblock::LostPagesUnknown, "its record of lost pages cannot be read"),
            (
                NoSuperblock::Short { bytes: 7, needs: 9 },
                "the device has 7 bytes, and its superblock says 9: it was cut short, and the data \
                 beyond its end is lost",
            ),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }
}
