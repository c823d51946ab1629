//! What a start that is refused is refused for.

use destage_served::{AssembleError, Device, LogError, OpenError};

/// What a start that is refused is refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// Too few members.
    Members,
    /// What an NVS device has, or that it is missing.
    Nvs,
    /// That this device is shorter than it was.
    Short(Device),
    /// What no mishap explains.
    Nothing,
}

impl From<&AssembleError> for Blame {
    fn from(error: &AssembleError) -> Blame {
        match error {
            AssembleError::NoArray(_) | AssembleError::TooManyMissing => Blame::Members,
            AssembleError::NvsMissing(..) => Blame::Nvs,
            AssembleError::Stale { device, .. }
            | AssembleError::OtherLog(device)
            | AssembleError::Degraded(device, _)
            | AssembleError::RebuiltInPart(device) => Blame::of_device(*device),
            AssembleError::OtherArray(_)
            | AssembleError::WrongPlace(..)
            | AssembleError::Disagrees(_)
            | AssembleError::Count { .. }
            | AssembleError::NvsNotLost(_) => Blame::Nothing,
        }
    }
}

impl From<&OpenError> for Blame {
    fn from(error: &OpenError) -> Blame {
        match error {
            OpenError::Short { device, .. } => Blame::Short(*device),
            OpenError::Unwritable(device, _) | OpenError::LostPagesUnknown(device) => {
                Blame::of_device(*device)
            }
            OpenError::Log(
                LogError::NoAnchor
                | LogError::Damaged(_)
                | LogError::LostPages(..)
                | LogError::LostBlock(_),
            ) => Blame::Nvs,
            _ => Blame::Nothing,
        }
    }
}

impl Blame {
    fn of_device(device: Device) -> Blame {
        match device {
            Device::Member(_) => Blame::Members,
            Device::Nvs(_) => Blame::Nvs,
        }
    }
}
