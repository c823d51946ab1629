//! An operator accepts a loss. A start was refused because no NVS device has a part of the log;
//! the next one uses what is left of it (`serve --use-nvs PATH --accept-loss`). From then on
//! the array must start like any other: what was given up is given up for good.

use super::device::Device as Disk;
use super::mishap_state::RightStrip;
use super::run::{End, Run};
use crate::Survivors;
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{PAGE_BYTES, StripeId};
use destage_nvslog::superblock::DATA_START;
use destage_parity::field::{divide, power};
use destage_served::Assembly;

/// Sectors of the smallest ring.
const RING_SECTORS: u64 = 64;

impl Run {
    /// Whether the loss that this refusal names is accepted: sometimes, or if an earlier such start
    /// was interrupted.
    pub(super) fn accepts_loss(&mut self, refusal: &str) -> bool {
        if !refusal.contains("--accept-loss") || !self.case.pressed {
            return false;
        }
        if self.cut_acceptance {
            return true;
        }
        let damaged = self.mishaps.pending() || self.world.nvs.iter().any(Disk::has_bad);
        let explained = damaged && !self.mishaps.must_start;
        explained && self.may_lose_log() && self.draws.accepts.below(4) > 0
    }

    /// Whether what is left of the log may be used: nothing else is wrong then.
    fn may_lose_log(&self) -> bool {
        let devices = self.world.nvs.len();
        let in_sync = devices == 1 || devices == 2 && self.is_mirrored();
        let all = devices == usize::from(self.case.nvs) && in_sync && !self.nvs_lost();
        let intact = |disk: &Disk| {
            !disk.gone && !disk.unwritable && !disk.has_bad() && disk.loses_write.is_none()
        };
        let right = self.retired.is_empty() && self.holes.is_empty();
        all && right && self.world.members.iter().all(intact)
    }

    /// Often the array starts again at once: what was given up must be known by then.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn maybe_start_after_loss(&mut self) -> Result<End, String> {
        if self.draws.accepts.below(2) > 0 {
            return Ok(End::Done);
        }
        self.start_again(Some(Survivors::None))
    }

    /// Often what looks wrong then is repaired at once.
    ///
    /// # Errors
    /// A strip that was right is overwritten.
    pub(super) fn maybe_repair_after_loss(&mut self) -> Result<End, String> {
        let repairs = !self.right_strips.is_empty() && self.can_scrub();
        if !repairs || self.draws.accepts.below(2) > 0 {
            return Ok(End::Done);
        }
        self.scrub(true)
    }

    /// Sometimes no NVS device can read some sectors any more: mostly of the ring, where one of
    /// them may end the log, or of slots. Whether it is so.
    pub(super) fn maybe_damage_log(&mut self) -> bool {
        let may = self.case.pressed && !self.mishaps.any() && self.may_lose_log();
        if !may || self.world.nvs.iter().any(Disk::has_bad) || self.draws.accepts.below(2) > 0 {
            return false;
        }
        let ring = DATA_START / 512;
        let mut written = self.world.nvs[0].written();
        written.retain(|sector| *sector >= ring);
        let in_ring = written.partition_point(|sector| *sector < ring + RING_SECTORS);
        if in_ring == 0 {
            return false;
        }
        for _ in 0..1 + self.draws.accepts.below(4) {
            let of = if self.draws.accepts.below(2) > 0 { in_ring } else { written.len() };
            let first = written[self.draws.accepts.below(of as u64) as usize];
            let sectors = 1 + self.draws.accepts.below(3);
            for disk in &mut self.world.nvs {
                (first..first + sectors).for_each(|sector| disk.spoil(sector));
            }
        }
        self.mishaps.unreadable_log = true;
        self.counts.mishaps += 1;
        true
    }

    /// With two parities, rows of interrupted destages that nothing remembers, as bad as they can
    /// be: P and Q look as if a strip that is right were the wrong one. No repair may overwrite it.
    pub(super) fn tear_rows(&mut self) {
        let geometry = self.case.geometry;
        let strips = geometry.data_strips();
        if geometry.level.parities() < 2 || strips < 3 {
            return;
        }
        for _ in 0..4 {
            let page = self.draws.accepts.below(geometry.disk_pages);
            let (group, _) = geometry.row_of_disk_page(page);
            let pages = geometry.pages_per_group();
            let (first, end) = (group.0 * pages, (group.0 + 1) * pages);
            let torn = self.right_strips.iter().any(|strip| strip.at.page == page);
            if torn || !self.volume().dirty_in(first, end).is_empty() {
                continue;
            }
            let first = self.draws.accepts.below(strips) as u16;
            let [one, other, right] = [0, 1, 2].map(|n| (first + n) % strips as u16);
            let apart = |strip: u16| power(strip) ^ power(right);
            let stripe = StripeId(page / geometry.strip_pages);
            let place = |strip| DiskPage { disk: geometry.data_disk(stripe, strip), page };
            for (strip, change) in [(one, 1), (other, divide(apart(one), apart(other)))] {
                self.change_sector(place(strip), change);
            }
            if let Some(right) = self.right_strip(place(right)) {
                self.right_strips.push(right);
            }
        }
    }

    fn change_sector(&mut self, at: DiskPage, change: u8) {
        let disk = &mut self.world.members[usize::from(at.disk.0)];
        let (offset, mut sector) = (DATA_START + at.page * PAGE_BYTES, [0; 512]);
        if disk.read(offset, &mut sector).is_ok() {
            sector.iter_mut().for_each(|byte| *byte ^= change);
            disk.put(offset, &sector);
        }
    }

    fn right_strip(&self, at: DiskPage) -> Option<RightStrip> {
        let mut bytes = [0; 512];
        let disk = &self.world.members[usize::from(at.disk.0)];
        disk.read(DATA_START + at.page * PAGE_BYTES, &mut bytes).ok()?;
        Some(RightStrip { page: self.case.geometry.page_at(at)?.0, at, bytes })
    }

    /// A scrub has repaired rows: the strips that were right are as they were.
    ///
    /// # Errors
    /// One is not.
    pub(super) fn check_right_strips(&self) -> Result<(), String> {
        let differs = |strip: &&RightStrip| {
            self.right_strip(strip.at).is_some_and(|now| now.bytes != strip.bytes)
        };
        match self.right_strips.iter().find(differs) {
            Some(RightStrip { page, .. }) => {
                Err(format!("a repair has overwritten page {page}, which was right"))
            }
            None => Ok(()),
        }
    }

    /// A start has begun to write with what is left: everything may be older than it was, and rows
    /// of interrupted destages are not known any more.
    pub(super) fn note_loss(&mut self) {
        self.model.wild(&(0..self.bytes()));
        self.cut_writes.clear();
        if self.case.geometry.level.is_redundant() {
            let groups = self.case.geometry.volume_pages().0;
            self.holes = (0..groups.div_ceil(self.case.geometry.pages_per_group())).collect();
        }
    }
}

/// Whether no member is missing: what is left of a log says nothing of rows with less redundancy.
pub(super) fn is_complete(assembly: &Assembly) -> bool {
    assembly.failed.is_empty() && assembly.rebuilds.is_empty()
}

/// Why torture accepts no loss.
pub(super) const MEMBER_MISSING: &str = "a member is missing: no loss is accepted";

/// Whether nothing is wrong with this refusal of a start that accepts a loss: the NVS device named
/// cannot be used, or nothing says where its log begins.
pub(super) fn explains_refusal(why: &str) -> bool {
    let nvs = ["assemble: NvsMissing", "assemble: OtherLog", "open: no anchor of the NVS log"];
    why.starts_with(MEMBER_MISSING) || nvs.iter().any(|unusable| why.starts_with(unusable))
}
