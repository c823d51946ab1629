//! Disks that have failed, and groups whose rows are being read as a whole.

use crate::array::disks::DiskSet;
use crate::units::{DiskId, GroupId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Groups whose rows are being read as a whole: to compute what a disk does not give, or by a
/// scrub, which holds them: not even the reads of a destage begin.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    /// How many read it: thousands of groups where a degraded array is overloaded.
    readers: BTreeMap<GroupId, u32>,
    holds: BTreeMap<GroupId, u32>,
}

impl Locks {
    /// One more reader.
    pub fn lock(&mut self, group: GroupId) {
        *self.readers.entry(group).or_insert(0) += 1;
    }

    /// One reader less; whether it was the last.
    pub fn unlock(&mut self, group: GroupId) -> bool {
        take_one(&mut self.readers, group)
    }

    /// Whether somebody reads it.
    #[must_use]
    pub fn contains(&self, group: GroupId) -> bool {
        self.readers.contains_key(&group)
    }

    /// One more chunk of a scrub.
    pub fn hold(&mut self, group: GroupId) {
        *self.holds.entry(group).or_insert(0) += 1;
    }

    /// One chunk less; whether it was the last.
    pub fn let_go(&mut self, group: GroupId) -> bool {
        take_one(&mut self.holds, group)
    }

    /// The groups that scrubs have.
    pub fn holds(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.holds.keys().copied()
    }

    /// Whether a scrub has it.
    #[must_use]
    pub fn held(&self, group: GroupId) -> bool {
        self.holds.contains_key(&group)
    }
}

/// One less of a group; whether it was the last.
fn take_one(groups: &mut BTreeMap<GroupId, u32>, group: GroupId) -> bool {
    let count = groups.get_mut(&group).expect("a locked group");
    *count -= 1;
    let last = *count == 0;
    if last {
        groups.remove(&group);
    }
    last
}

/// Disks that failed, and groups that are locked: lent to the destager.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Disks that failed, those being rebuilt included.
    pub failed: DiskSet,
    /// Locked groups.
    pub locks: Locks,
    /// Of disks being rebuilt: the pages below are whole.
    whole_below: Vec<(DiskId, u64)>,
}

impl Faults {
    /// Whether a page of a disk is lost.
    #[must_use]
    pub fn lost(&self, disk: DiskId, page: u64) -> bool {
        self.failed.contains(disk)
            && !self.whole_below.iter().any(|(known, below)| *known == disk && page < *below)
    }

    /// The disks that are lost at a page.
    #[must_use]
    pub fn at(&self, page: u64) -> DiskSet {
        self.failed.iter().filter(|disk| self.lost(*disk, page)).collect()
    }

    pub(crate) fn set_whole_below(&mut self, disk: DiskId, page: u64) {
        self.forget_whole(disk);
        self.whole_below.push((disk, page));
    }

    pub(crate) fn forget_whole(&mut self, disk: DiskId) {
        self.whole_below.retain(|(known, _)| *known != disk);
    }

    /// The disk whose rebuild is furthest, and how far it is.
    pub(crate) fn furthest(&self) -> Option<(DiskId, u64)> {
        self.whole_below.iter().copied().max_by_key(|(_, below)| *below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as an overloaded degraded array has: a search through all of them for each would
    /// take minutes.
    #[test]
    fn groups_stay_locked_until_their_last_reader() {
        let mut locks = Locks::default();
        let groups = || (0..300_000).map(GroupId);
        groups().chain(groups()).for_each(|group| locks.lock(group));
        assert!(groups().all(|group| !locks.unlock(group) && locks.contains(group)));
        assert!(groups().all(|group| locks.unlock(group) && !locks.contains(group)));
        locks.hold(GroupId(7));
        locks.hold(GroupId(7));
        assert!(!locks.let_go(GroupId(7)) && locks.held(GroupId(7)) && locks.holds().count() == 1);
        assert!(locks.let_go(GroupId(7)) && !locks.held(GroupId(7)) && locks.holds().count() == 0);
    }
}
