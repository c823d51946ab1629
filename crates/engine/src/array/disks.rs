//! A set of member disks: those that have failed.

use crate::units::DiskId;
use alloc::vec::Vec;

/// A set of disks, a few of them at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskSet(Vec<DiskId>);

impl DiskSet {
    /// Adds a disk. Returns whether it was new.
    pub fn insert(&mut self, disk: DiskId) -> bool {
        let new = !self.contains(disk);
        if new {
            self.0.push(disk);
            self.0.sort_unstable();
        }
        new
    }

    /// Takes a disk out.
    pub fn remove(&mut self, disk: DiskId) {
        self.0.retain(|known| *known != disk);
    }

    /// Whether the disk is in it.
    pub fn contains(&self, disk: DiskId) -> bool {
        self.0.contains(&disk)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many it has.
    pub fn len(&self) -> u16 {
        self.0.len() as u16
    }

    /// The disks, in order.
    pub fn iter(&self) -> impl Iterator<Item = DiskId> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<DiskId> for DiskSet {
    fn from_iter<I: IntoIterator<Item = DiskId>>(disks: I) -> DiskSet {
        let mut set = DiskSet::default();
        disks.into_iter().for_each(|disk| {
            set.insert(disk);
        });
        set
    }
}

/// Most disks of a row of which a set can be [`RowDisks`].
pub const ROW_DISKS_MAX: u16 = 64;

/// A set of disks of a row, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowDisks(u64);

impl RowDisks {
    /// The set with these bits.
    pub(crate) fn of(bits: u64) -> RowDisks {
        RowDisks(bits)
    }

    /// Its bits.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Adds a disk.
    pub fn insert(&mut self, disk: DiskId) {
        self.0 |= 1 << disk.0;
    }

    /// Whether a disk is in it.
    #[must_use]
    pub fn contains(self, disk: DiskId) -> bool {
        self.0 >> disk.0 & 1 == 1
    }

    /// The disks, in order.
    pub fn iter(self) -> impl Iterator<Item = DiskId> {
        (0..ROW_DISKS_MAX).map(DiskId).filter(move |disk| self.contains(*disk))
    }
}
