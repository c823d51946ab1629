//! Which requests may be refused: those that need a page whose row has too little left, block by
//! block, and no others.

use super::load::{Kind, Request};
use super::run::{Pending, Run, is_in};
use destage_engine::array::geometry::Redundancy;
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, PAGE_BYTES, Page};
use destage_nvslog::superblock::DATA_START;

/// Sectors of a page.
const SECTORS: u64 = PAGE_BYTES / 512;

impl Run {
    /// Whether the faults of this life explain that a request is refused.
    pub(super) fn explains_refusal(&self, pending: &Pending, before_loss: bool) -> bool {
        let Request { kind, offset, bytes, fua } = pending.request;
        let end = offset + bytes;
        // Without NVS it has to be on the disks, and waits for rows that cannot be computed: what
        // was asked for before the loss, and what flushes, for all that the NVS had.
        let per_group = self.case.geometry.pages_per_group() * PAGE_BYTES;
        let mut groups = offset / per_group..end.div_ceil(per_group);
        let any = before_loss || fua || kind == Kind::Flush;
        let kept = groups.any(|group| self.kept_groups.contains(&group));
        let waits = self.nvs_lost() && (kept || any && self.rows_kept);
        match kind {
            // It may show what is not on the disks yet.
            Kind::Read => {
                // What was dirty as it came is not needed from the disks.
                let mut pages = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
                let lacks = |page| self.lacks_since(page, pending);
                waits || pages.any(|page| !pending.held.contains(&page) && lacks(page))
            }
            Kind::Flush => waits,
            _ => {
                // The rest of a sector that is written in part is read first.
                let lacks = |page| self.lacks_since(page, pending);
                let cut = |at: u64| !at.is_multiple_of(512) && lacks(at / PAGE_BYTES);
                waits || cut(offset) || cut(end)
            }
        }
    }

    /// The pages of a read that the NVS has all of.
    pub(super) fn held_of(&self, request: &Request) -> Vec<u64> {
        let Request { kind, offset, bytes, .. } = *request;
        let pages = offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES);
        let directory = self.volume().controller().directory();
        let held = |page: &u64| directory.missing_span(Page(*page), 1).is_none();
        pages.filter(|page| kind == Kind::Read && held(page)).collect()
    }

    /// Members that have these first pages, though they have failed in this life.
    pub(super) fn rebuilt_so_far(&self) -> Vec<(DiskId, u64)> {
        if self.rows_lost {
            // But for pages that were lost until just now.
            return Vec::new();
        }
        let progress = self.rebuilds().into_iter();
        let being = progress.map(|rebuild| (DiskId(rebuild.member), rebuild.progress.done_pages));
        let again = |disk: &DiskId| !self.failing().contains(*disk);
        let complete = self.failed_lately.iter().filter(again).map(|disk| (disk, u64::MAX));
        being.chain(complete).collect()
    }

    /// A member has failed that was rebuilt, at least in part: requests that came before find less.
    pub(super) fn has_failed_again(&mut self, member: u16) {
        for pending in self.pending.values_mut() {
            pending.rebuilt.retain(|(disk, _)| *disk != DiskId(member));
        }
    }

    /// Whether the disks may not give this page: its own does not have it, and too little is left
    /// of its row. What was rebuilt and written again counts as when it was asked for.
    fn lacks_since(&self, page: u64, asked: &Pending) -> bool {
        let rebuilt = &asked.rebuilt;
        let geometry = &self.case.geometry;
        let DiskPage { disk, page: row } = geometry.place(Page(page));
        let others = self.others_of_row(disk);
        // What replaced a page that was lost is in the NVS, or on its disk.
        let rewritten = self.rewritten.get(&page).is_some_and(|when| *when < asked.asked);
        let may_lack = |other: DiskId| {
            let lost = self.is_recorded(other, row) && !(other == disk && rewritten);
            let done = rebuilt.iter().find(|(disk, _)| *disk == other).map_or(0, |(_, done)| *done);
            lost || self.is_bad(other, row) || row >= done && self.has_failed(other)
        };
        let missing = others.iter().filter(|other| may_lack(**other)).count();
        let lost = is_in(&self.reported_lost, page) && !rewritten;
        // What a row implies that an interrupted destage may have written is not known.
        let group = geometry.row_of_disk_page(row).0.0;
        let known = missing < self.spare_members() && !self.kept_groups.contains(&group);
        lost || may_lack(disk) && !known
    }

    /// A rebuild says that it could not reconstruct these pages: too little is left of their rows.
    ///
    /// # Errors
    /// Of one there is enough.
    pub(super) fn check_lost(&self, ranges: &[(u64, u64)]) -> Result<(), String> {
        let mut pages = ranges.iter().flat_map(|(first, pages)| *first..first + pages);
        match pages.find(|page| !self.may_have_lost(*page)) {
            Some(page) => Err(format!("page {page} is said to be lost, and is not: {ranges:?}")),
            None => Ok(()),
        }
    }

    /// Whether the faults, and what was lost as this life began, explain that a page is lost.
    fn may_have_lost(&self, page: u64) -> bool {
        let geometry = &self.case.geometry;
        let DiskPage { disk, page: row } = geometry.place(Page(page));
        // Not what is recorded as lost just now.
        let may_lack = |other: DiskId| {
            let lost = self.lost_at_start.contains(&(other.0, row));
            lost || self.is_bad(other, row) || self.has_failed(other)
        };
        let others = self.others_of_row(disk);
        let missing = others.iter().filter(|other| may_lack(**other)).count();
        let group = geometry.row_of_disk_page(row).0.0;
        // What a row implies that an interrupted destage may have written is not known.
        let doubted = self.kept_groups.contains(&group) || self.holes.contains(&group);
        let known = missing < self.spare_members() && !doubted;
        may_lack(disk) && !known || is_in(&self.reported_lost, page)
    }

    /// Whether too little may be left of the row that has this page of a member.
    pub(super) fn is_row_lost(&self, member: u16, page: u64) -> bool {
        let mut row = self.others_of_row(DiskId(member));
        row.push(DiskId(member));
        row.into_iter().filter(|disk| self.lacked(*disk, page)).count() > self.spare_members()
    }

    /// Whether a member may not have given a page of its own at some time of this life.
    pub(super) fn lacked(&self, disk: DiskId, page: u64) -> bool {
        self.may_lack(disk, page) || self.lost_at_start.contains(&(disk.0, page))
    }

    /// The members besides this one that have what its pages can be reconstructed from.
    fn others_of_row(&self, disk: DiskId) -> Vec<DiskId> {
        let geometry = &self.case.geometry;
        match geometry.level.entry().redundancy {
            Redundancy::None => Vec::new(),
            Redundancy::Mirror => vec![DiskId(disk.0 ^ 1)],
            Redundancy::Parity { .. } => {
                (0..geometry.disks).map(DiskId).filter(|other| *other != disk).collect()
            }
        }
    }

    /// How many members a row can do without.
    fn spare_members(&self) -> usize {
        let geometry = &self.case.geometry;
        match geometry.level.entry().redundancy {
            Redundancy::None => 0,
            Redundancy::Mirror => 1,
            Redundancy::Parity { .. } => usize::from(geometry.level.parities()),
        }
    }

    /// Whether a member may not give a page of its own.
    pub(super) fn may_lack(&self, disk: DiskId, page: u64) -> bool {
        self.has_failed(disk) || self.is_bad(disk, page) || self.is_recorded(disk, page)
    }

    /// Whether a member has failed, or had until it was rebuilt in this life.
    fn has_failed(&self, disk: DiskId) -> bool {
        self.failed.contains(disk) || self.failed_lately.contains(disk)
    }

    /// Whether a member cannot read a page of its own, or could not in this life.
    fn is_bad(&self, disk: DiskId, page: u64) -> bool {
        let member = &self.world.members[usize::from(disk.0)];
        let first = DATA_START / 512 + page * SECTORS;
        member.gone || member.hangs || member.was_bad(first..first + SECTORS)
    }

    /// Whether the array says that a member has lost a page of its own.
    fn is_recorded(&self, disk: DiskId, page: u64) -> bool {
        let lost = |(of, lost): &(u16, u64)| (*of, *lost) == (disk.0, page);
        self.volume.as_ref().is_some_and(|volume| volume.lost_pages().iter().any(lost))
    }
}
