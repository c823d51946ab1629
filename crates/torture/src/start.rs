//! Starts of the array: superblocks read, devices put together, the log recovered.

use super::accepts::{MEMBER_MISSING, explains_refusal, is_complete};
use super::device::Device as Disk;
use super::mirror::superblocks;
use super::run::{End, Run};
use crate::Survivors;
use destage_engine::units::DiskId;
use destage_served::{Ack, Allow, Assembly, Device, Found, NoSuperblock, OpenError, Volume};

/// More than a ring has blocks.
const STARTS_IN_A_LOOP: u32 = 80;

/// Whether a start was refused, which a mishap may explain: otherwise a check has failed.
pub(super) fn is_refusal(why: &str) -> bool {
    ["assemble: ", "open: "].iter().any(|refusal| why.starts_with(refusal))
}

fn has_failed(end: &Result<End, String>) -> bool {
    end.as_ref().is_err_and(|why| !is_refusal(why))
}

impl Run {
    /// Assembles and opens the array. A start that is refused is tried again after the mishaps are
    /// undone.
    ///
    /// # Errors
    /// It is refused for no reason.
    pub fn open(&mut self) -> Result<End, String> {
        self.open_as(self.plain)
    }

    /// The same. Half of the starts for which nothing is missing are without `--degraded`.
    ///
    /// # Errors
    /// Likewise.
    pub(super) fn open_either_way(&mut self) -> Result<End, String> {
        let plain = self.nothing_missing() && self.draws.plain_starts.below(2) == 0;
        self.open_as(plain)
    }

    /// Sometimes the array is started again and again, and ends each time as soon as it serves.
    ///
    /// # Errors
    /// A start is refused.
    pub(super) fn maybe_start_in_a_loop(&mut self) -> Result<End, String> {
        if !self.case.mishaps || self.mishaps.any() || self.draws.loops.below(32) > 0 {
            return Ok(End::Done);
        }
        for _ in 0..STARTS_IN_A_LOOP {
            let killed = self.draws.loops.below(2) == 0;
            if self.start_again((!killed).then_some(Survivors::None))? == End::Crash {
                return Ok(End::Crash);
            }
        }
        Ok(End::Done)
    }

    /// Ends a life that has just begun, by a kill or a power failure that leaves this, and starts
    /// the array again. It does not count as a crash.
    pub(super) fn start_again(&mut self, left: Option<Survivors>) -> Result<End, String> {
        let counted = (self.counts.crashes, self.counts.kills);
        match left {
            None => self.killed(),
            Some(survivors) => self.crash(survivors),
        }
        (self.counts.crashes, self.counts.kills) = counted;
        self.counts.restarts += 1;
        self.open_either_way()
    }

    pub(super) fn open_as(&mut self, plain: bool) -> Result<End, String> {
        self.model.set_volatile(self.case.settings.ack == Ack::Flush);
        let mut end = self.try_open(plain);
        if has_failed(&end) {
            return end;
        }
        if plain
            && !self.plain
            && let Err(why) = &end
        {
            // Something may be missing that an earlier start went without, and that no device
            // knows yet: then an operator says that it may be.
            let (why, whole) = (why.clone(), self.left_whole);
            self.volume = None;
            end = self.try_open(false);
            if has_failed(&end) {
                return end;
            }
            if end.is_ok() && whole {
                return Err(format!("refused without --degraded, nothing was missing: {why}"));
            }
        }
        let explained = end.as_ref().map_or_else(|why| self.check_refused(why), |_| Ok(()));
        let mut lost = self.maybe_accept_loss(&mut end)?;
        if lost {
            explained.clone()?;
        }
        if end.is_err() && self.undo_mishaps() {
            explained?;
            self.volume = None;
            end = self.try_open(self.plain);
            lost |= self.cut_acceptance && self.maybe_accept_loss(&mut end)?;
        }
        self.counts.plain_starts += u64::from(plain && end == Ok(End::Done));
        if end == Ok(End::Done) {
            self.mishaps_over()?;
            if lost {
                self.tear_rows();
                end = self.maybe_start_after_loss();
            }
            if end == Ok(End::Done) && lost {
                end = self.maybe_repair_after_loss();
            }
        }
        end
    }

    /// Sometimes a start that was refused is tried again with what is left of the log; whether it
    /// was. Where that may not be, the mishap is to be undone instead.
    ///
    /// # Errors
    /// That start is refused, too, for no reason.
    fn maybe_accept_loss(&mut self, end: &mut Result<End, String>) -> Result<bool, String> {
        let refused = end.as_ref().is_err_and(|refusal| self.accepts_loss(refusal));
        if !refused {
            return Ok(false);
        }
        self.volume = None;
        self.accepting = true;
        let accepted = self.try_open(false);
        self.accepting = false;
        let how = match accepted {
            Ok(how) => how,
            Err(why) if explains_refusal(&why) => return Ok(false),
            Err(why) => return Err(format!("refused with an accepted loss: {why}")),
        };
        self.cut_acceptance = how == End::Crash;
        self.counts.losses_accepted += 1;
        *end = Ok(how);
        Ok(true)
    }

    /// Whether all devices are there, and can be written.
    pub(super) fn all_there(&self) -> bool {
        let mut disks = self.world.members.iter().chain(&self.world.nvs);
        disks.all(|disk| !disk.gone && !disk.unwritable)
    }

    /// Whether all devices are there and in use.
    pub(super) fn is_whole(&self) -> bool {
        let (status, said) = (self.volume().status(), self.volume().superblock());
        self.all_there()
            && status.failed.is_empty()
            && (0..self.case.geometry.disks).all(|member| !said.has_failed(member))
            && status.nvs_devices.len() == self.world.nvs.len()
            && usize::from(said.nvs_devices()) == self.world.nvs.len()
            && !self.volume().is_changing()
    }

    /// Whether all devices are there and, as far as is known here, as the array left them.
    fn nothing_missing(&self) -> bool {
        let mut disks = self.world.members.iter().chain(&self.world.nvs);
        // As another log is begun, faults that were drawn before may still be to come.
        let there = !self.some_device_may_fail() && !disks.any(Disk::has_bad);
        // A new NVS device may be in the place of one that the superblocks still name.
        let named = self.world.nvs.iter().all(|disk| disk.written().contains(&0));
        // A disk that was replaced does not matter once the new one has all.
        let rebuilt = self.retired.is_empty() || self.left_whole && self.failed.is_empty();
        there && named && rebuilt && !self.mishaps.any()
    }

    /// A device that cannot be written is left out, where the start may do without it.
    fn try_open(&mut self, plain: bool) -> Result<End, String> {
        let (mut unwritable, mut at_least) = (Vec::new(), 0);
        loop {
            match self.try_open_without(&unwritable, plain, &mut at_least)? {
                Ok(end) => return Ok(end),
                Err(device) => unwritable.push(device),
            }
        }
    }

    /// What is written from now on is a start's, on members whose caches are as the settings say.
    fn begin_start(&mut self) {
        self.stopped_cleanly = false;
        self.world.nvs.iter_mut().for_each(Disk::begin_start);
        for member in 0..self.case.geometry.disks {
            self.world.set_cache(member, self.case.durability_of(member));
        }
    }

    /// After a life that ended with all devices in use, a start without one of them needs an
    /// operator's word.
    fn check_needs_degraded(&mut self, found: &[Found], allow: &Allow) {
        let missing = |(_, said): &Found| matches!(said, Err(NoSuperblock::Io(_)));
        let known = self.left_whole && !self.relogging && !self.accepting;
        if !known || !found.iter().any(missing) {
            return;
        }
        let plain = Allow { degraded: false, ..allow.clone() };
        if destage_served::assemble(found, &plain).is_ok() {
            let why = "starts without --degraded though a device is missing";
            self.world.beyond = Some(why.to_string());
        }
    }

    /// A start leaves out only what is missing, broken, or was left out before.
    fn check_left_out(&mut self, assembly: &Assembly, without: &[(Device, NoSuperblock)]) {
        let doubted = self.change_cut || self.change_doubted || self.accepting;
        if !self.case.pressed || self.mishaps.any() || doubted {
            return;
        }
        let broken = |device: Device, disk: &Disk| {
            disk.gone || disk.unwritable || without.iter().any(|(other, _)| *other == device)
        };
        let excused = |member: &&u16| {
            let disk = &self.world.members[usize::from(**member)];
            self.failed.contains(DiskId(**member))
                || self.retired.iter().any(|(place, _)| place == *member)
                || broken(Device::Member(**member), disk)
        };
        let member = assembly.failed.iter().find(|member| !excused(member));
        let both = self.mirrored && !self.relogging;
        let nvs = (0u16..).zip(&self.world.nvs).find(|(copy, disk)| {
            // A new one has no superblock.
            let known = both && disk.written().contains(&0);
            known && !assembly.copies.contains(copy) && !broken(Device::Nvs(*copy), disk)
        });
        if member.is_some() || nvs.is_some() {
            let nvs = nvs.map(|(copy, _)| copy);
            self.world.beyond =
                Some(format!("left out for nothing: member {member:?}, NVS device {nvs:?}"));
        }
    }

    /// A try; the device that cannot be written, if there is one.
    fn try_open_without(
        &mut self,
        without: &[(Device, NoSuperblock)],
        plain: bool,
        at_least: &mut u64,
    ) -> Result<Result<End, (Device, NoSuperblock)>, String> {
        let found = superblocks(&mut self.world, without);
        if self.world.crashed {
            return Ok(Ok(End::Crash));
        }
        let mut allow =
            Allow { degraded: !plain, defect: self.case.settings.defect, ..Allow::default() };
        allow.at_least = *at_least;
        if self.accepting {
            allow.stale.push(Device::Nvs(0));
        }
        let assembly = destage_served::assemble(&found, &allow).map_err(|error| {
            self.mishaps.blamed = Some((&error).into());
            format!("assemble: {error:?}")
        })?;
        *at_least = (*at_least).max(assembly.built_on());
        self.check_needs_degraded(&found, &allow);
        if self.accepting && !is_complete(&assembly) {
            return Err(MEMBER_MISSING.to_string());
        }
        let in_use = assembly.copies.len() == self.world.nvs.len() && assembly.spares.is_empty();
        self.check_left_out(&assembly, without);
        self.left_whole &= without.is_empty() && assembly.failed.is_empty() && in_use;
        let before = core::mem::take(&mut self.failed);
        self.failed = assembly.failed.iter().map(|member| DiskId(*member)).collect();
        if !assembly.failed.is_empty() {
            self.right_strips.clear();
        }
        self.mirrored &= assembly.copies.len() == 2;
        let writes = self.world.early_writes;
        self.begin_start();
        let opened = destage_served::open(&mut self.world, &assembly, self.case.settings.clone());
        let wrote = self.world.early_writes > writes;
        if self.accepting && wrote {
            self.note_loss();
        }
        match opened {
            Ok(volume) => self.serve(volume, &assembly).map(Ok),
            Err(error) => {
                // One that was failed, and is not by this start, may be by the next: it sees what
                // is left of the marks.
                before.iter().for_each(|disk| {
                    self.failed.insert(disk);
                });
                self.mishaps.blamed = Some((&error).into());
                self.not_opened(&error, wrote)
            }
        }
    }

    /// A start has ended before it served: by a crash, or for a device that cannot be used.
    fn not_opened(
        &mut self,
        error: &OpenError,
        wrote: bool,
    ) -> Result<Result<End, (Device, NoSuperblock)>, String> {
        if self.world.crashed {
            // Devices may be marked: they are not what they were any more.
            if wrote {
                (self.cut_start, self.marks_cut) = (true, true);
                self.mishaps.accepted();
            }
            return Ok(Ok(End::Crash));
        }
        let unwritable = matches!(error, OpenError::Unwritable(..));
        if wrote && !unwritable {
            self.world.beyond = Some(format!("written before a start is refused: {error}"));
        }
        let unusable = error.unusable().ok_or_else(|| format!("open: {error}"))?;
        if matches!(error, OpenError::LostPagesUnknown(_)) && !self.mishaps.lost_record {
            return Err(format!("refused for a record from before pages were lost: {error}"));
        }
        if unwritable {
            // The others may be marked.
            self.mishaps.accepted();
        }
        Ok(Err(unusable))
    }

    /// The log is recovered: what is left to do until the array is ready.
    fn serve(&mut self, volume: Volume, assembly: &Assembly) -> Result<End, String> {
        // A loss that was accepted may bring back what one before it had dropped.
        let dirty = |page| !volume.dirty_in(page, page + 1).is_empty();
        self.right_strips.retain(|strip| !dirty(strip.page));
        self.lost_at_start = volume.lost_pages();
        self.volume = Some(volume);
        self.mishaps.accepted();
        self.nvs_lost = assembly.copies.is_empty();
        let redone = self.volume().status().redoing;
        self.redoes = redone > 0;
        self.counts.redone += u64::from(redone);
        self.counts.resumed += assembly.rebuilds.len() as u64;
        for (member, uuid) in &assembly.spares {
            self.begin_rebuild(*member, *uuid)?;
        }
        if self.drive_until(&|run| run.volume().ready())? == End::Crash {
            return Ok(End::Crash);
        }
        self.mirrored = assembly.copies.len() == 2;
        if self.volume().lost_pages().is_empty() {
            self.rows_lost = false;
            self.reported_lost.clear();
        }
        if self.case.mishaps {
            self.world.nvs.iter_mut().for_each(Disk::begin_life);
        }
        self.model.opened();
        self.counts.recoveries += 1;
        Ok(End::Done)
    }
}
