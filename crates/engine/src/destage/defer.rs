//! Destages that are expensive while a disk is failed are deferred once (VDF for writes): pages
//! written to the group in the meantime make them cheaper, and the cheap ones come first.

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
        let mut requests = |failed| {
            let pages = DestagePages::complete(mask);
            geometry.plan_safely(group, pages, failed, false, &mut self.plan);
            let SafePlan { reads, parity, data, .. } = &self.plan;
            let pages = |runs: &[crate::array::plan::DiskRun]| {
                runs.iter().map(|run| u64::from(run.pages)).sum::<u64>()
            };
            (pages(reads), pages(parity) + pages(data))
        };
        let degraded = requests(&failed);
        let healthy = requests(&crate::array::disks::DiskSet::default());
        // As many requests with more reads among them: a row is computed from all its disks.
        degraded.0 > healthy.0
    }
}
