//! Members that are replaced and rebuilt while the array is tortured, spares that fail, and old
//! disks that come back in the place of their successors.

use super::device::Survivors;
use super::run::{End, Run};
use super::starve::{Kind as Slow, RECORDS};
use destage_engine::limits::Limits;
use destage_engine::units::{DiskId, PAGE_BYTES};
use destage_served::{Device, Lost, RebuildStatus};

/// The most rebuilds of last lives in which the power fails.
const REBUILDS_CUT: u32 = 4;

/// Spares that are given when nothing fails any more, at most.
const SPARES: u64 = 100;
const SETTLED: &str = "a member is not rebuilt though nothing fails any more";

impl Run {
    /// Sometimes puts an empty device in the place of a failed member.
    ///
    /// # Errors
    /// It is refused for no reason.
    pub(super) fn maybe_replace(&mut self) -> Result<(), String> {
        if !self.case.rebuilds || self.draws.rebuilds.below(10) > 0 {
            return Ok(());
        }
        match self.volume().wants_spare() {
            Some(member) => {
                let spare = Slow::Device(Device::Member(member));
                self.press(&[Slow::Flushes, Slow::Marks(RECORDS), spare]);
                self.replace_member(member)
            }
            None => Ok(()),
        }
    }

    /// Nothing cuts the last life short, so most rebuilds come far in it: in some the power fails.
    pub(super) fn maybe_cut_rebuild(&mut self) {
        let lasts = self.case.pressed && self.world.crash_at.is_none();
        if !lasts || self.rebuilds_cut == REBUILDS_CUT || self.draws.cuts.below(4) > 0 {
            return;
        }
        if self.rebuilds().iter().any(|rebuild| rebuild.progress.done_pages > 0) {
            let soon = self.draws.cuts.below(200);
            self.world.crash_at = Some(self.world.operations + soon);
            self.rebuilds_cut += 1;
        }
    }

    /// Puts a spare in the place of a failed member, to be rebuilt.
    ///
    /// # Errors
    /// It is refused.
    pub fn replace_member(&mut self, member: u16) -> Result<(), String> {
        let settled = |run: &Run| !run.volume().is_changing();
        if self.drive_until(&settled)? == End::Crash {
            return Ok(());
        }
        let old = self.world.replace_member(member);
        self.retired.push((member, old));
        self.counts.replaced += 1;
        let mut uuid = [0x80; 16];
        uuid[..8].copy_from_slice(&self.counts.replaced.to_le_bytes());
        let array = self.volume().superblock();
        let device = Device::Member(member);
        match destage_served::prepare_spare(&mut self.world, device, &array, uuid) {
            Err(_) if self.world.crashed => return Ok(()),
            prepared => prepared.map_err(|error| format!("no spare: {error}"))?,
        }
        let regrets = self.maybe_lose_a_mirror();
        self.begin_rebuild(member, uuid)?;
        if regrets {
            self.give_up(member)?;
            if self.rebuilds().iter().any(|rebuild| rebuild.member == member) {
                return Err(format!("the spare of member {member} is used though it was given up"));
            }
        }
        Ok(())
    }

    /// Sometimes an NVS mirror is lost just before a spare is taken, which the superblocks can name
    /// only after that. Whether it is, and the spare is given up in the meantime.
    fn maybe_lose_a_mirror(&mut self) -> bool {
        let may = self.case.pressed && self.is_mirrored();
        if !may || self.draws.regrets.below(8) > 0 {
            return false;
        }
        let copy = self.draws.regrets.below(2) as u16;
        self.world.nvs[usize::from(copy)].gone = true;
        let now = self.now();
        self.volume_mut().give_up_nvs(now, copy, destage_served::Cause::Asked);
        true
    }

    pub(super) fn begin_rebuild(&mut self, member: u16, uuid: [u8; 16]) -> Result<(), String> {
        let now = self.now();
        let replaced = self.volume_mut().replace(now, member, uuid, u64::MAX);
        replaced.map_err(|why| format!("member {member} is not replaced: {why}"))?;
        // A driver that knows what cache the spare has says so. Without that it is flushed.
        if self.counts.replaced.is_multiple_of(2) {
            let how = self.case.durability_of(member);
            self.world.set_cache(member, how);
            self.volume_mut().set_durability(member, how);
        }
        self.collect()
    }

    /// Sometimes puts an old disk back in its place while the power is off.
    pub(super) fn maybe_bring_back(&mut self) {
        if !self.case.rebuilds || self.retired.is_empty() || self.draws.rebuilds.below(4) > 0 {
            return;
        }
        let at = self.draws.rebuilds.below(self.retired.len() as u64) as usize;
        if self.may_be_away(self.retired[at].0) {
            self.bring_back(at);
        }
    }

    /// Puts a disk that was replaced back in its place.
    pub fn bring_back(&mut self, at: usize) {
        let (member, old) = &mut self.retired[at];
        let place = &mut self.world.members[usize::from(*member)];
        core::mem::swap(place, old);
        (place.gone, place.hangs, place.full, place.unwritable) = (false, false, false, false);
        // What befell it before it was replaced is over.
        place.heal();
        place.end_errors();
        // Another start may fail before it is seen that this place has a stale disk.
        self.failed.insert(DiskId(*member));
    }

    /// The rebuilds that are running.
    pub fn rebuilds(&self) -> Vec<RebuildStatus> {
        self.volume().rebuild_status()
    }

    /// Whether no member has failed, and none is being rebuilt.
    pub fn is_in_sync(&self) -> bool {
        self.rebuilds().is_empty() && self.volume().controller().failed().is_empty()
    }

    /// Replaces all failed members and waits until they are in sync.
    ///
    /// # Errors
    /// They do not become in sync.
    pub fn replace_failed(&mut self) -> Result<End, String> {
        let (mut end, before) = (End::Done, self.counts.replaced);
        while end == End::Done && !self.is_in_sync() {
            if self.counts.replaced > before + SPARES {
                let (failed, status) = (&self.failed, self.status());
                return Err(format!("{SETTLED}: {failed:?} after {SPARES} spares, {status:?}"));
            }
            if let Some(member) = self.volume().wants_spare() {
                self.replace_member(member)?;
            }
            if self.world.crashed {
                return Ok(End::Crash);
            }
            let goes_on = |run: &Run| run.is_in_sync() || run.volume().wants_spare().is_some();
            end = self.drive_until(&goes_on).map_err(|why| format!("{SETTLED}: {why}"))?;
        }
        if end == End::Done && self.failed.iter().next().is_some() {
            return Err(format!("{SETTLED}: {:?}", self.failed));
        }
        Ok(end)
    }

    /// The same, in cases with rebuilds.
    ///
    /// # Errors
    /// As [`Run::replace_failed`].
    pub(super) fn replace_failed_if_asked(&mut self) -> Result<End, String> {
        if self.case.rebuilds { self.replace_failed() } else { Ok(End::Done) }
    }

    /// Fails a member, as an operator does.
    ///
    /// # Errors
    /// A check failed.
    pub fn give_up(&mut self, member: u16) -> Result<(), String> {
        self.volume_mut().give_up_member(member, destage_served::Cause::Asked);
        self.collect()
    }

    /// Makes more members fail than the level tolerates.
    pub fn fail_beyond(&mut self, member: u16) {
        self.stopping = true;
        self.world.members[usize::from(member)].gone = true;
    }

    /// Windows of this many pages, one at a time.
    pub fn limit_rebuilds(&mut self, window_pages: u64) {
        let limits = Limits { window_pages, ..Limits::default() };
        self.volume_mut().set_rebuild_limits(limits);
    }

    /// The failed member that a spare could replace.
    pub fn wants_spare(&self) -> Option<u16> {
        self.volume().wants_spare()
    }

    /// A page of a member cannot be read from now on.
    pub fn spoil(&mut self, member: u16, page: u64) {
        self.bad_media = true;
        let first = ((1 << 20) + page * PAGE_BYTES) / 512;
        for sector in first..first + PAGE_BYTES / 512 {
            self.world.members[usize::from(member)].spoil(sector);
        }
    }

    /// What is lost while members are missing.
    pub fn lost(&self) -> Lost {
        self.volume().lost()
    }

    /// Pages that the NVS has.
    pub fn dirty_pages(&self) -> Vec<u64> {
        let runs = self.volume().dirty_in(0, u64::MAX);
        runs.into_iter().flat_map(|(first, pages)| first..first + pages).collect()
    }

    /// Pages of members that could not be reconstructed.
    pub fn lost_pages_now(&self) -> Vec<(u16, u64)> {
        self.volume().lost_pages()
    }

    /// The same, when the run was settled.
    pub fn lost_at_end(&self) -> &[(u16, u64)] {
        &self.lost_pages
    }

    /// Reads that were refused.
    pub fn unreadable_reads(&self) -> u64 {
        self.counts.unreadable
    }

    /// The power fails, and what cannot be read stays so.
    pub fn crash_keeping_bad(&mut self, survivors: Survivors) {
        let bad = core::mem::take(&mut self.bad_media);
        self.crash(survivors);
        self.bad_media = bad;
    }

    /// Whether a page of a member could not be reconstructed when it was rebuilt.
    pub(super) fn is_lost(&self, disk: DiskId, page: u64) -> bool {
        self.lost_pages.contains(&(disk.0, page))
    }
}
