//! RAID levels and the sizes that follow from them.

use crate::registry::Entry;
use crate::units::PageCount;

/// A RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// One disk.
    Single,
    /// Striping.
    Raid0,
    /// Striping over mirrored pairs.
    Raid10,
    /// Striping with parity on the last disk.
    Raid4,
    /// Striping with rotating parity, left-symmetric.
    Raid5,
    /// Striping with two rotating parities, P and Q.
    Raid6,
}

/// A table entry.
pub struct LevelEntry {
    /// Name, summary, source.
    pub entry: Entry,
    /// The level.
    pub level: Level,
    /// Fewest disks.
    pub disks_min: u16,
}

const fn level(
    name: &'static str,
    level: Level,
    disks_min: u16,
    summary: &'static str,
) -> LevelEntry {
    let source = "docs/simulator.md";
    LevelEntry { entry: Entry { name, summary, source, params: &[] }, level, disks_min }
}

/// All RAID levels.
pub const LEVELS: &[LevelEntry] = &[
    level("single", Level::Single, 1, "one disk; a write group is a page"),
    level("0", Level::Raid0, 1, "striping; a write group is a strip"),
    level("10", Level::Raid10, 2, "striping over mirrored pairs; a write group is a strip"),
    level("4", Level::Raid4, 3, "parity on the last disk; a write group is k stripes"),
    level("5", Level::Raid5, 3, "rotating parity, left-symmetric; a write group is k stripes"),
    level("6", Level::Raid6, 4, "rotating P and Q; a write group is k stripes"),
];

impl Level {
    /// The level's table entry.
    #[must_use]
    pub fn entry(self) -> &'static LevelEntry {
        LEVELS.iter().find(|l| l.level == self).expect("every level is in the table")
    }

    /// Parity strips in a stripe.
    #[must_use]
    pub const fn parities(self) -> u16 {
        match self {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            Level::Single | Level::Raid0 | Level::Raid10 => 0,
        }
    }
}

/// Sizes of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// RAID level.
    pub level: Level,
    /// Member disks.
    pub disks: u16,
    /// Pages in a strip.
    pub strip_pages: u64,
    /// Stripes in a write group (k); levels 4, 5 and 6 only.
    pub group_stripes: u64,
    /// Pages used of each disk.
    pub disk_pages: u64,
}

/// Why a geometry makes no array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// Too few disks for the level.
    TooFewDisks {
        /// The level's name.
        level: &'static str,
        /// Fewest disks.
        disks_min: u16,
    },
    /// `single` has one disk.
    OneDiskOnly,
    /// RAID-10 needs pairs.
    OddDisks,
    /// A strip or a group of no pages.
    Zero(&'static str),
    /// More pages in a write group than the engine's masks hold.
    GroupTooLarge {
        /// Pages asked for.
        pages: u64,
        /// Most pages.
        pages_max: u64,
    },
    /// The disks are smaller than one write group.
    DisksTooSmall,
}

impl core::fmt::Display for GeometryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            GeometryError::TooFewDisks { level, disks_min } => {
                write!(f, "level {level} needs at least {disks_min} disks")
            }
            GeometryError::OneDiskOnly => write!(f, "level single has exactly one disk"),
            GeometryError::OddDisks => write!(f, "level 10 needs an even number of disks"),
            GeometryError::Zero(what) => write!(f, "{what} must be at least 1"),
            GeometryError::GroupTooLarge { pages, pages_max } => {
                write!(f, "a write group of {pages} pages is over the limit of {pages_max}")
            }
            GeometryError::DisksTooSmall => {
                write!(f, "the disks are smaller than one write group")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

impl Geometry {
    /// Checks the sizes and cuts the disks down to whole write groups.
    ///
    /// # Errors
    /// See [`GeometryError`].
    pub fn checked(mut self) -> Result<Geometry, GeometryError> {
        let entry = self.level.entry();
        if self.disks < entry.disks_min {
            let (level, disks_min) = (entry.entry.name, entry.disks_min);
            return Err(GeometryError::TooFewDisks { level, disks_min });
        }
        if self.level == Level::Single && self.disks != 1 {
            return Err(GeometryError::OneDiskOnly);
        }
        if self.level == Level::Raid10 && !self.disks.is_multiple_of(2) {
            return Err(GeometryError::OddDisks);
        }
        for (value, what) in [(self.strip_pages, "the strip"), (self.group_stripes, "k")] {
            if value == 0 {
                return Err(GeometryError::Zero(what));
            }
        }
        let pages_max = crate::nvs::directory::MAX_PAGES_PER_GROUP;
        let pages = self.pages_per_group();
        if pages > pages_max {
            return Err(GeometryError::GroupTooLarge { pages, pages_max });
        }
        let unit = match self.level {
            Level::Single => 1,
            Level::Raid0 | Level::Raid10 => self.strip_pages,
            Level::Raid4 | Level::Raid5 | Level::Raid6 => self.strip_pages * self.group_stripes,
        };
        self.disk_pages -= self.disk_pages % unit;
        if self.disk_pages == 0 {
            return Err(GeometryError::DisksTooSmall);
        }
        Ok(self)
    }

    /// Data strips in a stripe.
    #[must_use]
    pub fn data_strips(&self) -> u64 {
        match self.level {
            Level::Single => 1,
            Level::Raid10 => u64::from(self.disks / 2),
            level => u64::from(self.disks - level.parities()),
        }
    }

    /// Pages of data in a stripe.
    #[must_use]
    pub fn stripe_pages(&self) -> u64 {
        self.data_strips() * self.strip_pages
    }

    /// Pages in a write group.
    #[must_use]
    pub fn pages_per_group(&self) -> u64 {
        match self.level {
            Level::Single => 1,
            Level::Raid0 | Level::Raid10 => self.strip_pages,
            Level::Raid4 | Level::Raid5 | Level::Raid6 => self.stripe_pages() * self.group_stripes,
        }
    }

    /// Pages of data the array stores.
    #[must_use]
    pub fn volume_pages(&self) -> PageCount {
        PageCount(self.disk_pages * self.data_strips())
    }

    /// Write groups in the volume.
    #[must_use]
    pub fn groups(&self) -> u64 {
        self.volume_pages().0 / self.pages_per_group()
    }
}
