//! Disks that have failed, and groups whose rows are locked while they are read.

use crate::array::disks::DiskSet;
use crate::units::{DiskId, GroupId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Groups whose rows are being read together, to compute what a disk does not give. A scrub holds
/// its groups: not even the reads of a destage begin there.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    /// Readers of each group. An overloaded degraded array has thousands of groups here.
    readers: BTreeMap<GroupId, u32>,
    holds: BTreeMap<GroupId, u32>,
}

impl Locks {
    /// Adds a reader.
    pub fn lock(&mut self, group: GroupId) {
        *self.readers.entry(group).or_insert(0) += 1;
    }

    /// Removes a reader. Returns whether it was the last.
    pub fn unlock(&mut self, group: GroupId) -> bool {
        take_one(&mut self.readers, group)
    }

    /// Whether a reader has it.
    pub fn contains(&self, group: GroupId) -> bool {
        self.readers.contains_key(&group)
    }

    /// Adds a chunk of a scrub.
    pub fn hold(&mut self, group: GroupId) {
        *self.holds.entry(group).or_insert(0) += 1;
    }

    /// Removes a chunk of a scrub. Returns whether it was the last.
    pub fn release(&mut self, group: GroupId) -> bool {
        take_one(&mut self.holds, group)
    }

    /// The groups that scrubs have.
    pub fn holds(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.holds.keys().copied()
    }

    /// Whether a scrub has it.
    pub fn held(&self, group: GroupId) -> bool {
        self.holds.contains_key(&group)
    }
}

/// Decrements the group's count. Returns whether it reached zero.
fn take_one(groups: &mut BTreeMap<GroupId, u32>, group: GroupId) -> bool {
    let count = groups.get_mut(&group).expect("a locked group");
    *count -= 1;
    let last = *count == 0;
    if last {
        groups.remove(&group);
    }
    last
}

/// Disks that failed, and groups that are locked.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Disks that failed, those being rebuilt included.
    pub failed: DiskSet,
    /// Locked groups.
    pub locks: Locks,
    /// Of disks being rebuilt: the pages below are rebuilt.
    rebuilt_below: Vec<(DiskId, u64)>,
    /// The two copies of pages may differ on mirrored levels: reads take the first one that is
    /// left, so that what one read has shown the next one shows too.
    pub copies_differ: bool,
}

impl Faults {
    /// Whether a page of a disk is lost.
    pub fn lost(&self, disk: DiskId, page: u64) -> bool {
        self.failed.contains(disk)
            && !self.rebuilt_below.iter().any(|(known, below)| *known == disk && page < *below)
    }

    /// The disks that are lost at a page.
    pub fn at(&self, page: u64) -> DiskSet {
        self.failed.iter().filter(|disk| self.lost(*disk, page)).collect()
    }

    pub(crate) fn set_rebuilt_below(&mut self, disk: DiskId, page: u64) {
        self.forget_rebuilt(disk);
        self.rebuilt_below.push((disk, page));
    }

    pub(crate) fn forget_rebuilt(&mut self, disk: DiskId) {
        self.rebuilt_below.retain(|(known, _)| *known != disk);
    }

    /// The disk whose rebuild is furthest, and how far it has come.
    pub(crate) fn furthest(&self) -> Option<(DiskId, u64)> {
        self.rebuilt_below.iter().copied().max_by_key(|(_, below)| *below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of an overloaded degraded array. A search through all of them for each would take
    /// minutes.
    #[test]
    fn groups_stay_locked_until_their_last_reader() {
        let mut locks = Locks::default();
        let groups = || (0..300_000).map(GroupId);
        groups().chain(groups()).for_each(|group| locks.lock(group));
        assert!(groups().all(|group| !locks.unlock(group) && locks.contains(group)));
        assert!(groups().all(|group| locks.unlock(group) && !locks.contains(group)));
        locks.hold(GroupId(7));
        locks.hold(GroupId(7));
        assert!(!locks.release(GroupId(7)) && locks.held(GroupId(7)) && locks.holds().count() == 1);
        assert!(locks.release(GroupId(7)) && !locks.held(GroupId(7)) && locks.holds().count() == 0);
    }
}
