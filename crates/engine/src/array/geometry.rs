//! The table of RAID levels, and the sizes that follow from a level.

use crate::registry::Entry;
use crate::units::{GroupId, Page, PageCount};

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

/// How a level survives the failure of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// It does not.
    None,
    /// Two copies of each page, on a pair of disks: an even one and the next.
    Mirror,
    /// Parity strips in each stripe.
    Parity {
        /// How many: P, or P and Q. As many disks of a stripe can be missing.
        strips: u16,
        /// Whether P moves to the disk before with each stripe (left-symmetric). If not, it is on
        /// the last disk.
        rotates: bool,
    },
}

/// What a write group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupShape {
    /// One page.
    Page,
    /// One strip.
    Strip,
    /// [`Geometry::group_stripes`] stripes.
    Stripes,
}

/// A table entry: all that makes a level what it is. Layout and plans follow from it.
pub struct LevelEntry {
    /// Name, summary, source.
    pub entry: Entry,
    /// The level.
    pub level: Level,
    /// Its number in superblocks (docs/nvs-format.md).
    pub code: u8,
    /// Fewest disks.
    pub disks_min: u16,
    /// Most disks.
    pub disks_max: u16,
    /// How it survives failed disks.
    pub redundancy: Redundancy,
    /// What a write group is.
    pub group: GroupShape,
}

const fn entry(name: &'static str, summary: &'static str) -> Entry {
    Entry { name, summary, source: "docs/simulator.md", params: &[] }
}

/// Most disks of an array.
pub const DISKS_MAX: u16 = 1024;

/// All RAID levels, in the order of [`Level`].
pub const LEVELS: &[LevelEntry] = &[
    LevelEntry {
        entry: entry("single", "one disk; a write group is a page"),
        level: Level::Single,
        code: 1,
        disks_min: 1,
        disks_max: 1,
        redundancy: Redundancy::None,
        group: GroupShape::Page,
    },
    LevelEntry {
        entry: entry("0", "striping; a write group is a strip"),
        level: Level::Raid0,
        code: 2,
        disks_min: 1,
        disks_max: DISKS_MAX,
        redundancy: Redundancy::None,
        group: GroupShape::Strip,
    },
    LevelEntry {
        entry: entry("10", "striping over mirrored pairs; a write group is a strip"),
        level: Level::Raid10,
        code: 3,
        disks_min: 2,
        disks_max: DISKS_MAX,
        redundancy: Redundancy::Mirror,
        group: GroupShape::Strip,
    },
    LevelEntry {
        entry: entry("4", "parity on the last disk; a write group is k stripes"),
        level: Level::Raid4,
        code: 4,
        disks_min: 3,
        disks_max: DISKS_MAX,
        redundancy: Redundancy::Parity { strips: 1, rotates: false },
        group: GroupShape::Stripes,
    },
    LevelEntry {
        entry: entry("5", "rotating parity, left-symmetric; a write group is k stripes"),
        level: Level::Raid5,
        code: 5,
        disks_min: 3,
        disks_max: DISKS_MAX,
        redundancy: Redundancy::Parity { strips: 1, rotates: true },
        group: GroupShape::Stripes,
    },
    LevelEntry {
        entry: entry("6", "rotating P and Q; a write group is k stripes"),
        level: Level::Raid6,
        code: 6,
        disks_min: 4,
        disks_max: DISKS_MAX,
        redundancy: Redundancy::Parity { strips: 2, rotates: true },
        group: GroupShape::Stripes,
    },
];

impl Level {
    /// The level's table entry.
    #[inline]
    pub const fn entry(self) -> &'static LevelEntry {
        &LEVELS[self as usize]
    }

    /// The level of a name that users type.
    pub fn named(name: &str) -> Option<Level> {
        LEVELS.iter().find(|level| level.entry.name == name).map(|level| level.level)
    }

    /// The level of a number in a superblock.
    pub fn of_code(code: u8) -> Option<Level> {
        LEVELS.iter().find(|level| level.code == code).map(|level| level.level)
    }

    /// The name that users type.
    pub const fn name(self) -> &'static str {
        self.entry().entry.name
    }

    /// Parity strips in a stripe.
    #[inline]
    pub const fn parities(self) -> u16 {
        match self.entry().redundancy {
            Redundancy::Parity { strips, .. } => strips,
            Redundancy::None | Redundancy::Mirror => 0,
        }
    }

    /// Whether each page has two copies, on a pair of disks.
    #[inline]
    pub const fn is_mirrored(self) -> bool {
        matches!(self.entry().redundancy, Redundancy::Mirror)
    }

    /// Whether the array survives a failed disk.
    #[inline]
    pub const fn is_redundant(self) -> bool {
        !matches!(self.entry().redundancy, Redundancy::None)
    }

    /// Failed disks that never lose data, whichever they are.
    pub const fn tolerates(self) -> u16 {
        match self.entry().redundancy {
            Redundancy::None => 0,
            Redundancy::Mirror => 1,
            Redundancy::Parity { strips, .. } => strips,
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
    /// Stripes in a write group (k), on levels whose groups are stripes.
    pub group_stripes: u64,
    /// Pages used of each disk.
    pub disk_pages: u64,
}

/// Why a geometry is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// Too few disks for the level.
    TooFewDisks {
        /// The level's name.
        level: &'static str,
        /// Fewest disks.
        disks_min: u16,
    },
    /// Too many disks for the level.
    TooManyDisks {
        /// The level's name.
        level: &'static str,
        /// Most disks.
        disks_max: u16,
    },
    /// A mirrored level needs pairs.
    OddDisks {
        /// The level's name.
        level: &'static str,
    },
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
            GeometryError::TooManyDisks { level, disks_max: 1 } => {
                write!(f, "level {level} has exactly one disk")
            }
            GeometryError::TooManyDisks { level, disks_max } => {
                write!(f, "level {level} has at most {disks_max} disks")
            }
            GeometryError::OddDisks { level } => {
                write!(f, "level {level} needs an even number of disks")
            }
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
    /// Checks the sizes and cuts the disks down to complete write groups.
    pub fn checked(mut self) -> Result<Geometry, GeometryError> {
        let &LevelEntry { disks_min, disks_max, .. } = self.level.entry();
        let level = self.level.name();
        if self.disks < disks_min {
            return Err(GeometryError::TooFewDisks { level, disks_min });
        }
        if self.disks > disks_max {
            return Err(GeometryError::TooManyDisks { level, disks_max });
        }
        if self.level.is_mirrored() && !self.disks.is_multiple_of(2) {
            return Err(GeometryError::OddDisks { level });
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
        self.disk_pages -= self.disk_pages % self.group_rows();
        if self.disk_pages == 0 {
            return Err(GeometryError::DisksTooSmall);
        }
        Ok(self)
    }

    /// Data strips in a stripe.
    pub fn data_strips(&self) -> u64 {
        u64::from(match self.level.entry().redundancy {
            Redundancy::None => self.disks,
            Redundancy::Mirror => self.disks / 2,
            Redundancy::Parity { strips, .. } => self.disks - strips,
        })
    }

    /// Pages of data in a stripe.
    pub fn stripe_pages(&self) -> u64 {
        self.data_strips() * self.strip_pages
    }

    /// Pages in a write group.
    pub fn pages_per_group(&self) -> u64 {
        match self.level.entry().group {
            GroupShape::Page => 1,
            GroupShape::Strip => self.strip_pages,
            GroupShape::Stripes => self.stripe_pages() * self.group_stripes,
        }
    }

    /// Pages of a write group on each of its disks.
    pub fn group_rows(&self) -> u64 {
        match self.level.entry().group {
            GroupShape::Page => 1,
            GroupShape::Strip => self.strip_pages,
            GroupShape::Stripes => self.strip_pages * self.group_stripes,
        }
    }

    /// First page of a write group on each of its disks.
    pub fn first_row(&self, group: GroupId) -> u64 {
        self.place(Page(group.0 * self.pages_per_group())).page
    }

    /// Pages of data the array stores.
    pub fn volume_pages(&self) -> PageCount {
        PageCount(self.disk_pages * self.data_strips())
    }

    /// Write groups in the volume.
    pub fn groups(&self) -> u64 {
        self.volume_pages().0 / self.pages_per_group()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_levels_and_its_codes_differ() {
        for (index, level) in LEVELS.iter().enumerate() {
            assert_eq!(level.level as usize, index);
            assert_eq!(Level::of_code(level.code), Some(level.level));
            assert_eq!(Level::named(level.entry.name), Some(level.level));
            assert!(level.level.tolerates() < level.disks_min);
        }
    }
}
