//! Destages that are expensive while a disk is failed are deferred once (VDF for writes): pages
//! written to the group in the meantime make them cheaper, and the cheap ones come first.

use crate::array::disks::DiskSet;
use crate::array::geometry::Geometry;
use crate::array::safe::{DestagePages, SafePlan};
use crate::faults::Faults;
use crate::units::GroupId;
use alloc::collections::BTreeSet;

/// Most groups that are deferred for one pick.
const AT_ONCE: u32 = 16;

/// The groups deferred, each once while it is held.
#[derive(Clone, Debug, Default)]
pub(super) struct Deferral {
    enabled: bool,
    groups: BTreeSet<u64>,
    /// Groups deferred for the present pick.
    in_a_row: u32,
    plan: SafePlan,
    count: u64,
}

impl Deferral {
    pub(super) fn new(enabled: bool) -> Deferral {
        Deferral { enabled, ..Deferral::default() }
    }

    /// How many groups were deferred so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether a group that was picked must be deferred.
    pub(super) fn should_defer(
        &mut self,
        group: GroupId,
        mask: &[u64],
        geometry: &Geometry,
        faults: &Faults,
    ) -> bool {
        if !self.enabled || faults.failed.is_empty() {
            return false;
        }
        let is_new = self.in_a_row < AT_ONCE && !self.groups.contains(&group.0);
        if is_new && self.is_expensive(group, mask, geometry, faults) {
            self.groups.insert(group.0);
            self.in_a_row += 1;
            self.count += 1;
            return true;
        }
        self.groups.remove(&group.0);
        self.in_a_row = 0;
        false
    }

    /// Whether the destage reads more than it would with no disk failed.
    fn is_expensive(
        &mut self,
        group: GroupId,
        mask: &[u64],
        geometry: &Geometry,
        faults: &Faults,
    ) -> bool {
        let failed = faults.at(geometry.first_row(group));
        let mut reads = |failed| {
            let pages = DestagePages::complete(mask);
            geometry.plan_safely(group, pages, failed, false, &mut self.plan);
            self.plan.reads.iter().map(|run| u64::from(run.pages)).sum::<u64>()
        };
        // A page of a failed disk is computed from all the others of its row.
        let (degraded, healthy) = (reads(&failed), reads(&DiskSet::default()));
        degraded > healthy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::geometry::Level;
    use crate::units::DiskId;

    /// A page on the failed disk is expensive: its row is computed from all others.
    #[test]
    fn an_expensive_destage_is_deferred_once_and_no_more_than_16_in_a_row() {
        let (level, disks, strip_pages, group_stripes, disk_pages) = (Level::Raid5, 6, 1, 1, 64);
        let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
        let mut degraded = Faults::default();
        degraded.failed.insert(DiskId(0));
        let of_failed = |group: u64| {
            let on_failed = |bit: &u64| {
                let page = crate::units::Page(group * geometry.pages_per_group() + bit);
                geometry.place(page).disk == DiskId(0)
            };
            (0..geometry.pages_per_group()).find(on_failed)
        };
        // Groups whose parity is not on the failed disk, and the bit of the page that is.
        let all = (0..geometry.disk_pages).filter_map(|group| Some((group, of_failed(group)?)));
        let groups: alloc::vec::Vec<(u64, u64)> = all.collect();
        assert!(groups.len() > 40);
        let defers = |deferral: &mut Deferral, (group, bit): (u64, u64), faults: &Faults| {
            deferral.should_defer(GroupId(group), &[1 << bit], &geometry, faults)
        };
        let mut deferral = Deferral::new(true);
        let first = groups[0];
        assert!(!defers(&mut deferral, first, &Faults::default()), "nothing has failed");
        assert!(!defers(&mut Deferral::new(false), first, &degraded), "it is switched off");
        let cheap = (first.0, (first.1 + 1) % geometry.pages_per_group());
        assert!(!defers(&mut deferral, cheap, &degraded), "a page of another disk");
        for _ in 0..2 {
            assert!(defers(&mut deferral, first, &degraded), "for the first time");
            assert!(!defers(&mut deferral, first, &degraded), "it comes again");
        }
        let count = deferral.count();
        let deferred =
            groups.iter().take_while(|group| defers(&mut deferral, **group, &degraded)).count();
        assert_eq!((deferred, deferral.count() - count), (16, 16));
    }
}
