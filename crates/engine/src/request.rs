//! What a host asks of the controller, and what it is answered.

use crate::units::Page;

/// Name of a host request, chosen by the driver; echoed in the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Whether a request reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The host wants data.
    Read,
    /// The host sends data.
    Write,
}

/// A run of pages `[first, first + pages)`; `pages` is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// First page.
    pub first: Page,
    /// Number of pages, at least 1.
    pub pages: u32,
}

impl PageRange {
    /// A run of `pages` pages from `first`.
    pub const fn new(first: Page, pages: u32) -> PageRange {
        PageRange { first, pages }
    }

    /// One past the last page.
    #[must_use]
    pub const fn end(self) -> Page {
        Page(self.first.0 + self.pages as u64)
    }
}

/// One host request in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRequest {
    /// Echoed in the reply.
    pub id: RequestId,
    /// Read or write.
    pub direction: Direction,
    /// The pages concerned.
    pub range: PageRange,
}

/// Why a host request was refused. The controller's state is unchanged by a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// The request has no pages. `EINVAL`.
    Empty,
    /// The request reaches past the end of the volume. `ENOSPC` for a write, `EINVAL` for a read.
    BeyondVolume {
        /// Pages in the volume.
        volume_pages: u64,
    },
    /// A write of more pages than the NVS holds, so it could never be admitted. `EINVAL`.
    LargerThanNvs {
        /// Pages in the NVS.
        nvs_pages: u64,
    },
    /// The pages are on disks that cannot be read, and not enough redundancy is left to reconstruct
    /// them. `EIO`.
    Unreadable,
}

impl HostError {
    /// The errno a block device would give.
    pub const fn errno(self, direction: Direction) -> i32 {
        const EINVAL: i32 = 22;
        const ENOSPC: i32 = 28;
        const EIO: i32 = 5;
        match (self, direction) {
            (HostError::Unreadable, _) => EIO,
            (HostError::BeyondVolume { .. }, Direction::Write) => ENOSPC,
            _ => EINVAL,
        }
    }
}

impl core::fmt::Display for HostError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            HostError::Empty => write!(f, "the request has no pages"),
            HostError::BeyondVolume { volume_pages } => {
                write!(f, "the request reaches past the volume's {volume_pages} pages")
            }
            HostError::LargerThanNvs { nvs_pages } => {
                write!(f, "a write larger than the NVS ({nvs_pages} pages) can never be admitted")
            }
            HostError::Unreadable => {
                write!(f, "the pages are unreadable, and cannot be reconstructed from what is left")
            }
        }
    }
}

impl core::error::Error for HostError {}
