//! How a write group is written: disk reads first, then disk writes.
//!
//! On levels with parity each row of 4 KiB is planned by itself: no reads if all its data is dirty;
//! else the cheaper of read-modify-write (old data and old parity) and reconstruct-write (the
//! clean data) by disk reads, ties to reconstruct-write. Contiguous rows on a disk are one I/O
//! (docs/simulator.md).

use super::disks::DiskSet;
use super::geometry::Geometry;
use super::layout::DiskPage;
use crate::units::{DiskId, GroupId, Page, StripeId};
use alloc::vec::Vec;

/// One contiguous disk read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRun {
    /// The disk.
    pub disk: DiskId,
    /// First 4 KiB page on the disk.
    pub first: u64,
    /// Pages.
    pub pages: u32,
}

impl DiskRun {
    /// The page behind its last one.
    pub fn end(self) -> u64 {
        self.first + u64::from(self.pages)
    }

    /// Whether all pages of another run, on whatever disk, are among its own.
    pub fn covers(self, other: DiskRun) -> bool {
        self.first <= other.first && other.end() <= self.end()
    }

    /// Its pages, each a run of its own.
    pub fn single_pages(self) -> impl Iterator<Item = DiskRun> {
        (0..u64::from(self.pages)).map(move |i| DiskRun { first: self.first + i, pages: 1, ..self })
    }
}

/// How one row gets its parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowMethod {
    /// All data is dirty.
    FullStripe,
    /// Old data of the dirty strips and the old parity are read.
    ReadModifyWrite,
    /// The clean strips are read.
    ReconstructWrite,
}

/// The disk operations of one destage.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// All of these before any write.
    pub reads: Vec<DiskRun>,
    /// Data and parity.
    pub writes: Vec<DiskRun>,
    /// Rows written.
    pub rows: u64,
    /// Rows that needed no reads.
    pub rows_without_reads: u64,
}

impl Geometry {
    /// How a row with `dirty` of its data strips dirty gets its parity.
    pub fn row_method(&self, dirty: u64) -> RowMethod {
        let width = self.data_strips();
        let modify = dirty + u64::from(self.level.parities());
        match width - dirty {
            0 => RowMethod::FullStripe,
            clean if clean <= modify => RowMethod::ReconstructWrite,
            _ => RowMethod::ReadModifyWrite,
        }
    }

    /// Plans the destage of the pages in `mask` (bit i = page i of the group).
    pub fn plan(&self, group: GroupId, mask: &[u64], planner: &mut Planner, plan: &mut Plan) {
        plan.reads.clear();
        plan.writes.clear();
        (plan.rows, plan.rows_without_reads) = (0, 0);
        if self.level.parities() == 0 {
            let writes = &mut plan.writes;
            plan.rows = self.plan_copies(group, mask, &DiskSet::default(), writes);
            plan.rows_without_reads = plan.rows;
            return;
        }
        planner.begin(usize::from(self.disks));
        for stripe in 0..self.group_stripes {
            self.plan_stripe(group, stripe, mask, planner, plan);
        }
    }

    /// Writes of each run to the disks that have it and have not failed; how many pages.
    pub(super) fn plan_copies(
        &self,
        group: GroupId,
        mask: &[u64],
        failed: &DiskSet,
        writes: &mut Vec<DiskRun>,
    ) -> u64 {
        let DiskPage { disk, page } = self.place(Page(group.0 * self.pages_per_group()));
        let copies = 1 + u16::from(self.level.is_mirrored());
        let mut rows = 0;
        for (first, pages) in runs(mask, 0, self.pages_per_group()) {
            rows += pages;
            for disk in (disk.0..disk.0 + copies).map(DiskId).filter(|d| !failed.contains(*d)) {
                writes.push(DiskRun { disk, first: page + first, pages: pages as u32 });
            }
        }
        rows
    }

    fn plan_stripe(
        &self,
        group: GroupId,
        stripe_in_group: u64,
        mask: &[u64],
        planner: &mut Planner,
        plan: &mut Plan,
    ) {
        let stripe = StripeId(group.0 * self.group_stripes + stripe_in_group);
        let first_bit = stripe_in_group * self.stripe_pages();
        let mut row = 0;
        while row < self.strip_pages {
            let rows = (self.strip_pages - row).min(64);
            planner.dirty.clear();
            planner.dirty.extend(
                (0..self.data_strips())
                    .map(|strip| extract(mask, first_bit + strip * self.strip_pages + row, rows)),
            );
            self.plan_rows(stripe, row, planner, plan);
            row += rows;
        }
    }

    /// Plans up to 64 rows of a stripe at once; `planner.dirty` has a mask of rows a strip.
    fn plan_rows(&self, stripe: StripeId, row: u64, planner: &mut Planner, plan: &mut Plan) {
        let any = planner.dirty.iter().fold(0, |all, strip| all | strip);
        if any == 0 {
            return;
        }
        let full = planner.dirty.iter().fold(u64::MAX, |all, strip| all & strip);
        let (mut modify, mut reconstruct) = (0u64, 0u64);
        let mut rest = any & !full;
        while rest != 0 {
            let bit = rest & rest.wrapping_neg();
            rest &= !bit;
            let dirty = planner.dirty.iter().filter(|strip| **strip & bit != 0).count();
            match self.row_method(dirty as u64) {
                RowMethod::ReadModifyWrite => modify |= bit,
                _ => reconstruct |= bit,
            }
        }
        plan.rows += u64::from(any.count_ones());
        plan.rows_without_reads += u64::from(full.count_ones());
        let base = stripe.0 * self.strip_pages + row;
        for strip in 0..planner.dirty.len() {
            let disk = self.data_disk(stripe, strip as u16);
            let dirty = planner.dirty[strip];
            let reads = (dirty & modify) | (!dirty & reconstruct);
            planner.read.push_rows(&mut plan.reads, disk, base, reads);
            planner.write.push_rows(&mut plan.writes, disk, base, dirty);
        }
        for disk in self.parity_disks(stripe) {
            planner.read.push_rows(&mut plan.reads, disk, base, modify);
            planner.write.push_rows(&mut plan.writes, disk, base, any);
        }
    }
}

/// Scratch space of [`Geometry::plan`], kept between calls.
#[derive(Default)]
pub struct Planner {
    dirty: Vec<u64>,
    read: Merger,
    write: Merger,
}

impl Planner {
    fn begin(&mut self, disks: usize) {
        self.read.begin(disks);
        self.write.begin(disks);
    }
}

/// Joins runs that continue the last run on the same disk.
#[derive(Default)]
struct Merger {
    last: Vec<u32>,
}

const NO_RUN: u32 = u32::MAX;

impl Merger {
    fn begin(&mut self, disks: usize) {
        self.last.clear();
        self.last.resize(disks, NO_RUN);
    }

    fn push_rows(&mut self, runs: &mut Vec<DiskRun>, disk: DiskId, base: u64, mut rows: u64) {
        while rows != 0 {
            let skip = rows.trailing_zeros();
            let pages = (rows >> skip).trailing_ones();
            let first = base + u64::from(skip);
            let last = &mut self.last[usize::from(disk.0)];
            match runs.get_mut(*last as usize) {
                Some(run) if run.first + u64::from(run.pages) == first => run.pages += pages,
                _ => {
                    *last = runs.len() as u32;
                    runs.push(DiskRun { disk, first, pages });
                }
            }
            let done = skip + pages;
            rows = if done == 64 { 0 } else { rows >> done << done };
        }
    }
}

/// Bits `[from, from + count)` of a mask, `count` up to 64.
fn extract(mask: &[u64], from: u64, count: u64) -> u64 {
    let (word, shift) = ((from / 64) as usize, from % 64);
    let mut bits = mask[word] >> shift;
    if shift > 0 && shift + count > 64 {
        bits |= mask[word + 1] << (64 - shift);
    }
    if count == 64 { bits } else { bits & ((1 << count) - 1) }
}

/// Contiguous runs `(first, length)` of set bits among the first `bits` of a mask, after `from`.
pub fn runs(mask: &[u64], from: u64, bits: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
    let mut at = from;
    core::iter::from_fn(move || {
        let first = scan(mask, at, bits, false)?;
        let end = scan(mask, first, bits, true).unwrap_or(bits);
        at = end;
        Some((first, end - first))
    })
}

/// First bit at or after `at` that is set (or clear, if `clear`).
fn scan(mask: &[u64], at: u64, bits: u64, clear: bool) -> Option<u64> {
    let mut word = (at / 64) as usize;
    let mut keep = u64::MAX << (at % 64);
    while (word as u64) * 64 < bits {
        let value = if clear { !mask[word] } else { mask[word] } & keep;
        if value != 0 {
            let found = word as u64 * 64 + u64::from(value.trailing_zeros());
            return (found < bits).then_some(found);
        }
        keep = u64::MAX;
        word += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::geometry::Level;
    use alloc::vec;

    fn raid(level: Level, disks: u16, group_stripes: u64) -> Geometry {
        let (strip_pages, disk_pages) = (16, 16 * 1000);
        Geometry { level, disks, strip_pages, group_stripes, disk_pages }.checked().unwrap()
    }

    fn plan(geometry: &Geometry, group: u64, pages: &[u64]) -> Plan {
        let mut mask = vec![0u64; geometry.pages_per_group().div_ceil(64) as usize];
        for page in pages {
            mask[(page / 64) as usize] |= 1 << (page % 64);
        }
        let mut plan = Plan::default();
        geometry.plan(GroupId(group), &mask, &mut Planner::default(), &mut plan);
        plan
    }

    fn count(runs: &[DiskRun]) -> (usize, u32) {
        (runs.len(), runs.iter().map(|r| r.pages).sum())
    }

    #[test]
    fn a_single_page_costs_four_operations_on_raid5() {
        let plan = plan(&raid(Level::Raid5, 5, 1), 3, &[20]);
        assert_eq!((count(&plan.reads), count(&plan.writes)), ((2, 2), (2, 2)));
        assert_eq!((plan.rows, plan.rows_without_reads), (1, 0));
    }

    #[test]
    fn rows_choose_by_disk_reads_with_ties_to_reconstruct() {
        let raid5 = raid(Level::Raid5, 5, 1);
        let methods: Vec<RowMethod> = (1..=4).map(|dirty| raid5.row_method(dirty)).collect();
        use RowMethod::{FullStripe, ReadModifyWrite, ReconstructWrite};
        assert_eq!(methods, [ReadModifyWrite, ReconstructWrite, ReconstructWrite, FullStripe]);
        assert_eq!(raid(Level::Raid5, 4, 1).row_method(1), ReconstructWrite, "2 reads each");
        assert_eq!(raid(Level::Raid6, 6, 1).row_method(1), ReconstructWrite, "3 reads each");
        // Two dirty strips in row 0: the two clean strips are read, parity is not.
        let plan = plan(&raid5, 0, &[0, 16]);
        assert_eq!(count(&plan.reads), (2, 2));
        assert_eq!(count(&plan.writes), (3, 3));
    }

    #[test]
    fn a_full_stripe_is_one_write_a_disk() {
        let pages: Vec<u64> = (0..64).collect();
        let plan = plan(&raid(Level::Raid5, 5, 1), 7, &pages);
        assert_eq!((count(&plan.reads), count(&plan.writes)), ((0, 0), (5, 80)));
        assert_eq!((plan.rows, plan.rows_without_reads), (16, 16));
    }

    #[test]
    fn stripes_of_a_group_join_on_each_disk() {
        let pages: Vec<u64> = (0..256).collect();
        let plan = plan(&raid(Level::Raid5, 5, 4), 1, &pages);
        assert_eq!(count(&plan.writes), (5, 320));
    }

    #[test]
    fn raid10_writes_both_mirrors() {
        let plan = plan(&raid(Level::Raid10, 4, 1), 3, &[0, 1, 5]);
        assert_eq!(count(&plan.writes), (4, 6));
        assert_eq!(plan.writes[0].disk, DiskId(2));
        assert_eq!(plan.writes[1].disk, DiskId(3));
    }

    #[test]
    fn runs_cross_words() {
        let mask = [1u64 << 63, 1 | 1 << 5];
        let found: Vec<(u64, u64)> = runs(&mask, 0, 128).collect();
        assert_eq!(found, [(63, 2), (69, 1)]);
        assert_eq!(extract(&mask, 60, 8), 0b11000);
    }
}
