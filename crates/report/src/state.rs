//! The states of a served array and of its devices, and how each is written.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An enum whose variants are each written as one text: in JSON, in tables and in messages.
macro_rules! written {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        #[derive(Serialize, Deserialize)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// How it is written.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

written! {
    /// The state of an array: the worst that holds (docs/operations.md, "States").
    ArrayState {
        /// All redundancy is there.
        #[default]
        Clean = "clean",
        /// A device has failed, and the array serves.
        Degraded = "degraded",
        /// A replaced member is being computed.
        Rebuilding = "rebuilding",
        /// Too many devices have failed: it serves nothing.
        Stopped = "stopped",
        /// Destages of the last run are being redone.
        Recovering = "recovering",
        /// It lost its NVS: every write goes to the disks.
        NoNvs = "no-nvs",
        /// The last scrub left rows whose parity or copies disagree.
        Inconsistent = "inconsistent",
    }
}

impl ArrayState {
    /// Whether an array in this state answers requests.
    pub const fn serves(self) -> bool {
        !matches!(self, ArrayState::Stopped | ArrayState::Recovering)
    }
}

written! {
    /// What a device is to its array.
    DeviceKind {
        /// A member.
        #[default]
        Member = "member",
        /// An NVS device.
        Nvs = "nvs",
        /// A spare.
        Spare = "spare",
    }
}

written! {
    /// The state of a device.
    DeviceState {
        /// It is in sync and used.
        #[default]
        InUse = "in use",
        /// It failed: the array does not use it.
        Failed = "failed",
        /// A member that is being computed.
        Rebuilding = "rebuilding",
        /// An NVS device to which the log is being copied.
        Resyncing = "resyncing",
        /// A spare that can replace a member.
        Ready = "ready",
        /// A spare that cannot be used.
        Missing = "missing",
    }
}

written! {
    /// How far a scrub is.
    ScrubState {
        /// It reads.
        #[default]
        Running = "running",
        /// It compared all rows.
        Complete = "complete",
        /// An operator ended it, or a member failed.
        EndedEarly = "ended early",
    }
}

written! {
    /// How much an event of an array matters.
    EventLevel {
        /// Worth knowing.
        #[default]
        Note = "note",
        /// Something is worse than it was.
        Warning = "warning",
        /// An alarm was raised.
        Alarm = "alarm",
    }
}
