//! Destages that are dear while a disk is failed are put off once (VDF for writes): what is written
//! to the group meanwhile makes them cheaper, and the cheap ones come first.

use crate::array::geometry::Geometry;
use crate::array::safe::SafePlan;
use crate::faults::Faults;
use crate::rebuild::rows_of;
use crate::units::GroupId;
use alloc::collections::BTreeSet;

/// Most groups that are put off for one pick.
const AT_ONCE: u32 = 16;

/// The groups put off, each once while it is held.
#[derive(Clone, Debug, Default)]
pub struct PutOff {
    enabled: bool,
    groups: BTreeSet<u64>,
    /// For the present pick.
    row: u32,
    plan: SafePlan,
    /// How often it was done.
    pub(crate) count: u64,
}

impl PutOff {
    /// From now on, or no longer.
    pub(crate) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
        self.groups.clear();
    }

    /// Whether a group that was picked is to be put off.
    pub(crate) fn asks(
        &mut self,
        group: GroupId,
        mask: &[u64],
        geometry: &Geometry,
        faults: &Faults,
    ) -> bool {
        if !self.enabled || faults.failed.is_empty() {
            return false;
        }
        let is_new = self.row < AT_ONCE && !self.groups.contains(&group.0);
        if is_new && self.is_dear(group, mask, geometry, faults) {
            self.groups.insert(group.0);
            self.row += 1;
            self.count += 1;
            return true;
        }
        self.groups.remove(&group.0);
        self.row = 0;
        false
    }

    /// Whether pages of a lost disk need all others read, and more pages of the group may come.
    fn is_dear(
        &mut self,
        group: GroupId,
        mask: &[u64],
        geometry: &Geometry,
        faults: &Faults,
    ) -> bool {
        let failed = faults.at(rows_of(geometry, group).0);
        let mut requests = |failed| {
            geometry.plan_safely(group, mask, failed, false, &mut self.plan);
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
