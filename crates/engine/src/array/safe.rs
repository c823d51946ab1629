//! Plans for real disks: rows planned one by one around failed disks, parity apart from data so
//! that it can be written first (docs/durability.md, D5), and plans that redo what a crash
//! interrupted.

use super::disks::{DiskSet, RowDisks};
use super::geometry::{Geometry, Redundancy};
use super::plan::DiskRun;
use crate::units::{DiskId, GroupId, Page, StripeId};
use alloc::vec::Vec;

/// How one row gets its parity, disks that failed included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SafeMethod {
    /// No parity disk is left: data only.
    NoParity,
    /// All data is dirty, and complete.
    FullStripe,
    /// Old data of the dirty strips and the old parities are read.
    ReadModifyWrite,
    /// The clean strips are read, and the incomplete ones.
    ReconstructWrite,
    /// A clean strip is lost and the row cannot be modified in place: all that is left is read,
    /// the clean strip computed from it.
    Decode,
}

/// A row of a group: the strips' pages at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAt {
    /// The stripe.
    pub stripe: StripeId,
    /// Row in the group: stripe in the group times pages a strip, plus row in the strip.
    pub row: u32,
    /// The page on each disk.
    pub page: u64,
}

/// The disk operations of one destage, in three parts.
#[derive(Clone, Debug, Default)]
pub struct SafePlan {
    /// All of these first.
    pub reads: Vec<DiskRun>,
    /// Single pages that would be read if they were not in the stripe memory.
    pub recalled: Vec<(DiskId, u64)>,
    /// Parity; before the data, unless all rows are full stripes.
    pub parity: Vec<DiskRun>,
    /// Data.
    pub data: Vec<DiskRun>,
    /// Rows written.
    pub rows: u64,
    /// Rows that needed no reads.
    pub rows_without_reads: u64,
    /// Whether the parity must be durable before the data is written.
    pub parity_first: bool,
}

/// The pages of a destage, bit i = page i of the group.
#[derive(Clone, Copy, Debug)]
pub struct DestagePages<'a> {
    /// All of them.
    pub dirty: &'a [u64],
    /// Those of which only some sectors are held; the others are on the disk. None: no words.
    pub incomplete: &'a [u64],
}

impl<'a> DestagePages<'a> {
    /// Pages that are all complete.
    #[must_use]
    pub fn complete(dirty: &'a [u64]) -> DestagePages<'a> {
        DestagePages { dirty, incomplete: &[] }
    }

    /// Whether the page is dirty.
    #[must_use]
    pub fn is_dirty(&self, bit: u64) -> bool {
        is_set(self.dirty, bit)
    }

    /// Whether it is dirty, and only some of its sectors are held.
    #[must_use]
    pub fn is_incomplete(&self, bit: u64) -> bool {
        !self.incomplete.is_empty() && self.is_dirty(bit) && is_set(self.incomplete, bit)
    }
}

/// Whether page number `bit` is in a mask.
pub fn is_set(mask: &[u64], bit: u64) -> bool {
    mask[(bit / 64) as usize] >> (bit % 64) & 1 == 1
}

impl Geometry {
    /// Whether no data is lost when these disks have failed.
    pub fn survives(&self, failed: &DiskSet) -> bool {
        match self.level.entry().redundancy {
            Redundancy::None => failed.is_empty(),
            Redundancy::Mirror => {
                failed.iter().all(|d| d.0 % 2 == 1 || !failed.contains(DiskId(d.0 + 1)))
            }
            Redundancy::Parity { strips, .. } => failed.len() <= strips,
        }
    }

    /// The rows of a group with a page in `mask`, in order. None on levels without parity.
    pub fn rows<'a>(&'a self, group: GroupId, mask: &'a [u64]) -> impl Iterator<Item = RowAt> + 'a {
        let rows =
            if self.level.parities() == 0 { 0 } else { self.group_stripes * self.strip_pages };
        (0..rows).map(move |row| self.row_at(group, row as u32)).filter(|at| {
            (0..self.data_strips()).any(|strip| is_set(mask, self.bit_of(at, strip as u16)))
        })
    }

    /// A row of a group, by its number there.
    pub fn row_at(&self, group: GroupId, row: u32) -> RowAt {
        let (in_group, in_strip) =
            (u64::from(row) / self.strip_pages, u64::from(row) % self.strip_pages);
        let stripe = StripeId(group.0 * self.group_stripes + in_group);
        RowAt { stripe, row, page: stripe.0 * self.strip_pages + in_strip }
    }

    /// The row, and its group, of a page of a disk.
    pub fn row_of_disk_page(&self, page: u64) -> (GroupId, RowAt) {
        let stripe = page / self.strip_pages;
        let group = GroupId(stripe / self.group_stripes);
        let row = (stripe % self.group_stripes) * self.strip_pages + page % self.strip_pages;
        (group, self.row_at(group, row as u32))
    }

    /// Page in the group of a strip of a row.
    pub fn bit_of(&self, at: &RowAt, strip: u16) -> u64 {
        let (in_group, in_strip) =
            (u64::from(at.row) / self.strip_pages, u64::from(at.row) % self.strip_pages);
        in_group * self.stripe_pages() + u64::from(strip) * self.strip_pages + in_strip
    }

    /// The parity disks of a stripe: P, then Q.
    pub fn parity_disks(&self, stripe: StripeId) -> impl Iterator<Item = DiskId> {
        let (first, disks) = (self.parity_disk(stripe).0, self.disks);
        (0..self.level.parities()).map(move |parity| DiskId((first + parity) % disks))
    }

    /// How a row gets its parity. `redo`: what is on the disks under dirty pages and parity may
    /// be old or new. A page that is incomplete is dirty in some sectors and clean in others.
    #[must_use]
    pub fn safe_method(
        &self,
        at: &RowAt,
        pages: DestagePages<'_>,
        failed: &DiskSet,
        redo: bool,
    ) -> SafeMethod {
        let (mut dirty, mut clean) = (0, 0);
        let (mut dirty_lost, mut clean_lost) = (false, false);
        for strip in 0..self.data_strips() as u16 {
            let lost = failed.contains(self.data_disk(at.stripe, strip));
            let bit = self.bit_of(at, strip);
            let is_dirty = pages.is_dirty(bit);
            if is_dirty {
                dirty += 1;
                dirty_lost |= lost;
            }
            if !is_dirty || pages.is_incomplete(bit) {
                clean += 1;
                clean_lost |= lost;
            }
        }
        let parities = self.parity_disks(at.stripe).filter(|d| !failed.contains(*d)).count() as u64;
        match (parities, clean) {
            (0, _) => SafeMethod::NoParity,
            (_, 0) => SafeMethod::FullStripe,
            _ if clean_lost && (dirty_lost || redo) => SafeMethod::Decode,
            _ if clean_lost => SafeMethod::ReadModifyWrite,
            _ if dirty_lost || redo || clean <= dirty + parities => SafeMethod::ReconstructWrite,
            _ => SafeMethod::ReadModifyWrite,
        }
    }

    /// Plans the destage of some pages of a group around failed disks.
    pub fn plan_safely(
        &self,
        group: GroupId,
        pages: DestagePages<'_>,
        failed: &DiskSet,
        redo: bool,
        plan: &mut SafePlan,
    ) {
        self.plan_knowing(group, pages, failed, redo, &|_| RowDisks::default(), plan);
    }

    /// The same, where some pages of rows are known without a read.
    pub fn plan_knowing(
        &self,
        group: GroupId,
        pages: DestagePages<'_>,
        failed: &DiskSet,
        redo: bool,
        known: &dyn Fn(u64) -> RowDisks,
        plan: &mut SafePlan,
    ) {
        *plan = SafePlan::default();
        if self.level.parities() == 0 {
            plan.rows = self.plan_copies(group, pages.dirty, failed, &mut plan.data);
            self.read_incomplete(group, pages, failed, &mut plan.reads);
            let all_complete = plan.reads.is_empty();
            plan.rows_without_reads = if all_complete { plan.rows } else { 0 };
            return;
        }
        let (mut reads, mut parity, mut data) = (Vec::new(), Vec::new(), Vec::new());
        for at in self.rows(group, pages.dirty) {
            let known = known(at.page);
            let method = self.safe_method(&at, pages, failed, redo);
            let method = self.method_knowing(method, &at, pages, known);
            plan.rows += 1;
            let quiet = matches!(method, SafeMethod::FullStripe | SafeMethod::NoParity);
            plan.rows_without_reads += u64::from(quiet);
            plan.parity_first |= !quiet;
            for strip in 0..self.data_strips() as u16 {
                let disk = self.data_disk(at.stripe, strip);
                if failed.contains(disk) {
                    continue;
                }
                let bit = self.bit_of(&at, strip);
                let (dirty, incomplete) = (pages.is_dirty(bit), pages.is_incomplete(bit));
                let read = match method {
                    SafeMethod::NoParity | SafeMethod::FullStripe => incomplete,
                    SafeMethod::ReadModifyWrite => dirty,
                    SafeMethod::ReconstructWrite => !dirty || incomplete,
                    SafeMethod::Decode => true,
                };
                if read && known.contains(disk) {
                    plan.recalled.push((disk, at.page));
                } else {
                    reads.extend(read.then_some((disk, at.page)));
                }
                data.extend(dirty.then_some((disk, at.page)));
            }
            for disk in self.parity_disks(at.stripe).filter(|d| !failed.contains(*d)) {
                let read = matches!(method, SafeMethod::ReadModifyWrite | SafeMethod::Decode);
                if read && known.contains(disk) {
                    plan.recalled.push((disk, at.page));
                } else {
                    reads.extend(read.then_some((disk, at.page)));
                }
                parity.push((disk, at.page));
            }
        }
        join(reads, &mut plan.reads);
        join(parity, &mut plan.parity);
        join(data, &mut plan.data);
    }

    /// Of the two methods that read, the one with fewer reads where some pages are known.
    fn method_knowing(
        &self,
        method: SafeMethod,
        at: &RowAt,
        pages: DestagePages<'_>,
        known: RowDisks,
    ) -> SafeMethod {
        let both = [SafeMethod::ReadModifyWrite, SafeMethod::ReconstructWrite];
        if known == RowDisks::default() || !both.contains(&method) {
            return method;
        }
        let (mut modify, mut reconstruct) = (0, 0);
        for strip in 0..self.data_strips() as u16 {
            let bit = self.bit_of(at, strip);
            let read = u32::from(!known.contains(self.data_disk(at.stripe, strip)));
            modify += if pages.is_dirty(bit) { read } else { 0 };
            let clean = !pages.is_dirty(bit) || pages.is_incomplete(bit);
            reconstruct += if clean { read } else { 0 };
        }
        let parities = self.parity_disks(at.stripe);
        modify += parities.filter(|disk| !known.contains(*disk)).count() as u32;
        if reconstruct <= modify {
            SafeMethod::ReconstructWrite
        } else {
            SafeMethod::ReadModifyWrite
        }
    }

    /// The reads of incomplete pages on levels without parity, from the first copy that is left.
    fn read_incomplete(
        &self,
        group: GroupId,
        pages: DestagePages<'_>,
        failed: &DiskSet,
        out: &mut Vec<DiskRun>,
    ) {
        if pages.incomplete.is_empty() {
            return;
        }
        let per_group = self.pages_per_group();
        let wanted = (0..per_group).filter(|bit| pages.is_incomplete(*bit));
        let places = wanted.map(|bit| self.place(Page(group.0 * per_group + bit)));
        let reads = places.map(|place| {
            let mirrored = self.level.is_mirrored() && failed.contains(place.disk);
            (DiskId(place.disk.0 + u16::from(mirrored)), place.page)
        });
        join(reads.collect(), out);
    }

    /// [`Geometry::plan_safely`] as one plan: all reads, then all writes.
    pub fn plan_degraded(
        &self,
        group: GroupId,
        mask: &[u64],
        failed: &DiskSet,
        plan: &mut super::plan::Plan,
    ) {
        let mut safe = SafePlan::default();
        let pages = DestagePages::complete(mask);
        self.plan_safely(group, pages, failed, false, &mut safe);
        (plan.rows, plan.rows_without_reads) = (safe.rows, safe.rows_without_reads);
        plan.reads = safe.reads;
        plan.writes = safe.data;
        plan.writes.append(&mut safe.parity);
    }

    /// The reads from which a run of a disk can be computed without that disk.
    pub fn peers(&self, run: DiskRun, failed: &DiskSet) -> Vec<DiskRun> {
        let on = |disk| DiskRun { disk, ..run };
        match self.level.entry().redundancy {
            Redundancy::None => Vec::new(),
            Redundancy::Mirror => alloc::vec![on(DiskId(run.disk.0 ^ 1))],
            Redundancy::Parity { .. } => (0..self.disks)
                .map(DiskId)
                .filter(|disk| *disk != run.disk && !failed.contains(*disk))
                .map(on)
                .collect(),
        }
    }

    /// The reads from which the pages of a failed disk are computed: as many strips as a row has
    /// of data, P before Q.
    pub fn rebuild_reads(
        &self,
        disk: DiskId,
        first: u64,
        pages: u64,
        failed_at: impl Fn(u64) -> DiskSet,
    ) -> Vec<DiskRun> {
        if self.level.is_mirrored() {
            let disk = DiskId(disk.0 ^ 1);
            return alloc::vec![DiskRun { disk, first, pages: pages as u32 }];
        }
        let mut reads: Vec<(DiskId, u64)> = Vec::new();
        for page in first..first + pages {
            // Another disk may be rebuilt below some page of these.
            let failed = failed_at(page);
            let stripe = self.row_of_disk_page(page).1.stripe;
            let data = (0..self.data_strips() as u16).map(|strip| self.data_disk(stripe, strip));
            let all = data.chain(self.parity_disks(stripe));
            let usable = all.filter(|d| *d != disk && !failed.contains(*d));
            reads.extend(usable.take(self.data_strips() as usize).map(|d| (d, page)));
        }
        let mut runs = Vec::new();
        join(reads, &mut runs);
        runs
    }

    /// The write groups that have rows among these pages of a disk.
    pub(crate) fn groups_of_run(&self, run: DiskRun) -> core::ops::RangeInclusive<u64> {
        let last = run.first + u64::from(run.pages) - 1;
        if self.level.parities() > 0 {
            let group = |page| self.row_of_disk_page(page).0.0;
            return group(run.first)..=group(last);
        }
        let pair = u64::from(run.disk.0 / 2);
        let strip = |page: u64| (page / self.strip_pages) * self.data_strips() + pair;
        strip(run.first)..=strip(last)
    }
}

/// Joins single pages to runs, in the order of disks.
fn join(mut pages: Vec<(DiskId, u64)>, out: &mut Vec<DiskRun>) {
    pages.sort_unstable();
    for (disk, first) in pages {
        match out.last_mut() {
            Some(run) if run.disk == disk && run.first + u64::from(run.pages) == first => {
                run.pages += 1;
            }
            _ => out.push(DiskRun { disk, first, pages: 1 }),
        }
    }
}
