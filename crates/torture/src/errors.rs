//! Writes and flushes that fail under load, and writes of members that are lost or misdirected,
//! which nothing but a scrub can find. A flush that fails drops what it did not write.

use super::device::{Device as Disk, Lost};
use super::run::Run;
use super::starve::{Kind as Slow, SUPERBLOCKS};
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, PAGE_BYTES};
use destage_nvslog::superblock::DATA_START;
use destage_served::{Device, IoError};

impl Run {
    /// Sometimes the next write of a device fails, or its next flush.
    pub(super) fn maybe_error(&mut self) {
        self.maybe_fail_with_an_intent();
        self.maybe_fail_last_flush();
        self.maybe_be_busy();
        if !self.case.mishaps || self.draws.errors.below(150) > 0 {
            return;
        }
        let members = u64::from(self.case.geometry.disks);
        let which = self.draws.errors.below(members + 2);
        match which.checked_sub(members) {
            None => self.member_error(which as u16),
            Some(copy) => self.nvs_error(copy as usize),
        }
    }

    /// Sometimes a device is busy for a few operations: they are tried again, and nothing else
    /// comes of it.
    fn maybe_be_busy(&mut self) {
        if !self.case.pressed || self.draws.latent.below(300) > 0 {
            return;
        }
        let devices = self.world.members.len() + self.world.nvs.len();
        let which = self.draws.latent.below(devices as u64) as usize;
        let busy = 1 + self.draws.latent.below(4);
        let mut disks = self.world.members.iter_mut().chain(&mut self.world.nvs);
        disks.nth(which).expect("one of them").busy = busy;
    }

    /// Sometimes a spare fails in the flush that ends its rebuild.
    fn maybe_fail_last_flush(&mut self) {
        if !self.case.pressed || self.bad_media {
            return;
        }
        let pages = self.case.geometry.disk_pages;
        let written = self.rebuilds().into_iter().find(|r| r.progress.done_pages >= pages);
        let Some(member) = written.map(|rebuild| rebuild.member) else { return };
        if self.draws.latent.below(16) == 0 {
            self.world.members[usize::from(member)].flush_fails = Some(IoError::MEDIUM);
        }
    }

    fn member_error(&mut self, member: u16) {
        let kind = self.draws.errors.below(4);
        // A spare in the place of a failed member may fail, too.
        let known = self.failed.contains(DiskId(member));
        if self.bad_media || !known && !self.may_be_away(member) {
            return;
        }
        let marked = kind == 0 && self.case.pressed && self.cause_a_change(member);
        let disk = &mut self.world.members[usize::from(member)];
        match kind {
            0 if marked => disk.mark_fails = true,
            0 | 1 => disk.write_fails = true,
            2 => disk.flush_fails = Some(IoError::FULL),
            _ => disk.flush_fails = Some(IoError::MEDIUM),
        }
        self.counts.mishaps += 1;
        self.press(&[Slow::Marks(SUPERBLOCKS)]);
    }

    /// Another device is lost, which the superblocks will record; whether the array can do without
    /// one.
    fn cause_a_change(&mut self, member: u16) -> bool {
        if self.is_mirrored() {
            let copy = self.draws.errors.below(2) as usize;
            self.world.nvs[copy].gone = true;
            return true;
        }
        let other = self.draws.errors.below(u64::from(self.case.geometry.disks)) as u16;
        let mut failing = self.failing();
        failing.insert(DiskId(member));
        failing.insert(DiskId(other));
        let may = other != member && self.case.geometry.survives(&failing) && self.rows_are_right();
        if may {
            self.world.members[usize::from(other)].gone = true;
        }
        may
    }

    /// One of two devices fails, or one that is being filled; seldom the only one.
    fn nvs_error(&mut self, copy: usize) {
        let flush = self.draws.errors.below(2) == 0;
        let filled = self.mirror_status().is_some() && !self.volume().mirror_joins_now();
        let other_holds = self.is_mirrored() || filled || self.draws.errors.below(8) == 0;
        let Some(disk) = self.world.nvs.get_mut(copy).filter(|_| other_holds) else { return };
        match flush {
            true => disk.flush_fails = Some(IoError::MEDIUM),
            false => disk.write_fails = true,
        }
        self.counts.mishaps += 1;
        self.press(&[Slow::Marks(SUPERBLOCKS)]);
    }

    /// Sometimes a member of a whole array loses its next write of data, or makes it elsewhere; or
    /// a bit of its data rots.
    pub(super) fn maybe_lose_write(&mut self) {
        // Rows with such pages must not be reconstructed: in few cases only.
        let deceiver = self.case.mishaps && self.case.seed.is_multiple_of(6);
        if !deceiver || self.draws.errors.below(200) > 0 || self.nvs_lost() || self.bad_media {
            return;
        }
        // One at a time: two wrong members of a row cannot be located.
        let waits = self.world.members.iter().any(|disk| disk.loses_write.is_some());
        if waits || !self.holes.is_empty() || self.failing().iter().next().is_some() {
            return;
        }
        let geometry = self.case.geometry;
        let member = self.draws.errors.below(u64::from(geometry.disks)) as usize;
        let page = self.draws.errors.below(geometry.disk_pages);
        let lost = match self.draws.errors.below(3) {
            0 => Lost::Nowhere,
            1 => Lost::At(DATA_START + page * PAGE_BYTES),
            _ => return self.rot_data(member as u16, page),
        };
        self.world.members[member].loses_write = Some(lost);
    }

    fn rot_data(&mut self, member: u16, page: u64) {
        let bit = self.draws.errors.below(8 * PAGE_BYTES);
        self.flip_bit(member, page, bit);
        self.counts.deceits += 1;
        self.wrong_page(member, page);
    }

    /// What members have in these places is not what was written, and nobody knows: these pages
    /// read as anything, and nothing can be reconstructed from their rows until a scrub has
    /// repaired these.
    pub(super) fn note_wronged(&mut self) {
        for (device, bytes) in core::mem::take(&mut self.world.wronged) {
            let Device::Member(member) = device else { continue };
            self.counts.deceits += 1;
            let first = (bytes.start - DATA_START) / PAGE_BYTES;
            let end = ((bytes.end - DATA_START) / PAGE_BYTES).min(self.case.geometry.disk_pages);
            (first..end).for_each(|page| self.wrong_page(member, page));
        }
    }

    fn wrong_page(&mut self, member: u16, page: u64) {
        let geometry = self.case.geometry;
        self.wronged_lately = true;
        self.wronged_in_memory = self.case.settings.stripe_memory > 0;
        self.right_strips.retain(|strip| strip.at.page != page);
        if let Some(page) = geometry.page_at(DiskPage { disk: DiskId(member), page }) {
            self.wronged.push(page);
            self.model.wild(&(page.0 * PAGE_BYTES..(page.0 + 1) * PAGE_BYTES));
        }
        let group = self.group_of(member, page);
        if geometry.level.is_redundant() && !self.holes.contains(&group) {
            self.holes.push(group);
        }
    }

    /// A write over such a page may change the parity by what the member wrongly had. A scrub that
    /// repairs the row takes what was written for wrong, then.
    pub(super) fn note_wrong_repairs(&mut self) {
        for page in &self.wronged {
            self.model.wild(&(page.0 * PAGE_BYTES..(page.0 + 1) * PAGE_BYTES));
        }
    }

    /// No further operation fails.
    pub(super) fn end_errors(&mut self) {
        self.world.members.iter_mut().chain(&mut self.world.nvs).for_each(Disk::end_errors);
    }
}
