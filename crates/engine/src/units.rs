//! Distinct types for every index, count, address and time the engine handles.
//!
//! Page numbers count 4 KiB pages from 0 over the volume. Time is an integer number of
//! nanoseconds, so that the same events give the same actions on every machine.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Bytes in a sector as drives address them.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes in a page, the unit of NVS space.
pub const PAGE_BYTES: u64 = 4096;
/// Sectors in a page.
pub const SECTORS_PER_PAGE: u64 = PAGE_BYTES / SECTOR_BYTES;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

unit!(
    /// Number of a 4 KiB page on the volume.
    Page(u64)
);
unit!(
    /// A count of 4 KiB pages.
    PageCount(u64)
);
unit!(
    /// Number of a write group: `page / pages_per_group`.
    GroupId(u64)
);
unit!(
    /// Number of a stripe of the array.
    StripeId(u64)
);
unit!(
    /// Index of a member disk.
    DiskId(u16)
);
unit!(
    /// A point in virtual or real time, in nanoseconds from the driver's origin.
    Instant(u64)
);
unit!(
    /// A length of time in nanoseconds.
    Duration(u64)
);

impl Page {
    /// The page `n` pages after this one.
    #[must_use]
    pub const fn offset(self, n: u64) -> Page {
        Page(self.0 + n)
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Duration {
        Duration(us * 1_000)
    }

    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Duration {
        Duration(ms * 1_000_000)
    }

    /// From whole seconds.
    pub const fn from_secs(s: u64) -> Duration {
        Duration(s * 1_000_000_000)
    }

    /// In milliseconds, for reports.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Instant {
    /// The origin of time.
    pub const ZERO: Instant = Instant(0);
    /// Later than every event.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// Time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, d: Duration) -> Instant {
        Instant(self.0 + d.0)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        self.0 += d.0;
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0 + other.0)
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        self.0 += other.0;
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0 - other.0)
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        self.0 -= other.0;
    }
}
