//! One command for what is close together on a disk: a drive passes some clean pages sooner than
//! it begins another command.

use super::geometry::Geometry;
use super::layout::DiskPage;
use super::plan::DiskRun;
use super::safe::SafePlan;
use alloc::vec::Vec;

impl Geometry {
    /// Joins runs of a disk that are at most `most` pages apart. Reads pass over what is between
    /// them. Parity is written over pages of parity that such a read has brought, with the bytes
    /// that it brought; over anything else it is not joined. Data is never joined: of clean data
    /// there may be no copy. Returns whether any were.
    pub fn bridge(&self, plan: &mut SafePlan, most: u32) -> bool {
        let commands = plan.reads.len();
        join_near(&mut plan.reads, most, |_| true);
        let reads = &plan.reads;
        join_near(&mut plan.parity, most, |gap| {
            let was_read = reads.iter().any(|read| read.disk == gap.disk && read.covers(gap));
            let on = |page| DiskPage { disk: gap.disk, page };
            was_read && (gap.first..gap.end()).all(|page| self.page_at(on(page)).is_none())
        });
        // Without a joined read no parity is joined.
        plan.reads.len() < commands
    }
}

/// Joins neighbours among runs in the order of disks and pages, where `may` allows what is between.
fn join_near(runs: &mut Vec<DiskRun>, most: u32, may: impl Fn(DiskRun) -> bool) {
    runs.dedup_by(|next, run| {
        if next.disk != run.disk || next.first < run.end() {
            return false;
        }
        let between = next.first - run.end();
        let near = between <= u64::from(most)
            && may(DiskRun { first: run.end(), pages: between as u32, ..*run });
        if near {
            run.pages += between as u32 + next.pages;
        }
        near
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::disks::DiskSet;
    use crate::array::geometry::Level;
    use crate::array::safe::DestagePages;
    use crate::units::{DiskId, GroupId};
    use alloc::vec;

    fn run(disk: u16, first: u64, pages: u32) -> DiskRun {
        DiskRun { disk: DiskId(disk), first, pages }
    }

    #[test]
    fn runs_of_a_disk_are_joined_up_to_a_distance_where_that_is_allowed() {
        let near = |most, may: fn(DiskRun) -> bool| {
            let mut runs =
                vec![run(0, 5, 1), run(0, 8, 2), run(0, 30, 1), run(1, 31, 1), run(1, 34, 1)];
            join_near(&mut runs, most, may);
            runs
        };
        assert_eq!(near(1, |_| true).len(), 5);
        assert_eq!(near(2, |_| true), [run(0, 5, 5), run(0, 30, 1), run(1, 31, 4)]);
        assert_eq!(near(20, |_| true), [run(0, 5, 26), run(1, 31, 4)]);
        assert_eq!(near(20, |gap| gap.disk == DiskId(1)).len(), 4);
        assert_eq!(near(20, |gap| gap == run(0, 6, 2)).len(), 4);
    }

    fn planned(geometry: &Geometry, pages: &[u64], most: u32) -> SafePlan {
        let mut mask = vec![0u64; geometry.pages_per_group().div_ceil(64) as usize];
        for page in pages {
            mask[(page / 64) as usize] |= 1 << (page % 64);
        }
        let mut plan = SafePlan::default();
        let dirty = DestagePages::complete(&mask);
        geometry.plan_safely(GroupId(0), dirty, &DiskSet::default(), false, &mut plan);
        geometry.bridge(&mut plan, most);
        plan
    }

    /// Rows 1 and 5 of a stripe: its parity, on the last disk, is read and written as one run.
    #[test]
    fn parity_is_written_back_between_rows_and_data_is_not() {
        let geometry = Geometry {
            level: Level::Raid5,
            disks: 5,
            strip_pages: 16,
            group_stripes: 1,
            disk_pages: 64,
        };
        let plan = planned(&geometry, &[1, 5], 3);
        let data = geometry.data_disk(crate::units::StripeId(0), 0).0;
        let parity = geometry.parity_disk(crate::units::StripeId(0)).0;
        assert_eq!(plan.reads, [run(data, 1, 5), run(parity, 1, 5)]);
        assert_eq!(plan.parity, [run(parity, 1, 5)]);
        assert_eq!(plan.data, [run(data, 1, 1), run(data, 5, 1)]);
        let apart = planned(&geometry, &[1, 5], 2);
        assert_eq!((apart.reads.len(), apart.parity.len(), apart.data.len()), (4, 2, 2));
        // Full stripes read nothing, so nothing is known of the parity between them.
        let full: Vec<u64> = (0..4).flat_map(|i| [16 * i + 1, 16 * i + 3]).collect();
        let full = planned(&geometry, &full, 16);
        assert_eq!((full.reads.len(), full.parity.len()), (0, 2));
    }
}
