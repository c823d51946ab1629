//! Rebuilds and scrubs: the engine decides what is read and written; here pages are reconstructed
//! or compared, checkpoints are written, and the superblocks say when a member is in sync.

use super::Volume;
use crate::Buffer;
use crate::defect::Defect;
use crate::io::{Device, OpKind};
use crate::lost::{Lost, lost, runs};
use crate::ops::Purpose;
use crate::rebuilds::{Due, RebuildStatus, Recorded, ReplaceRefusal, member_bytes};
use crate::request::{Alarm, Cause};
use crate::rows::Pieces;
use crate::scrub::{ScrubRefusal, ScrubStatus};
use crate::store::PAGE;
use destage_engine::array::layout::DiskPage;
use destage_engine::array::plan::DiskRun;
use destage_engine::event::{DiskCommand, Event, Owner, ScrubChunk};
use destage_engine::limits::Limits;
use destage_engine::rebuild::Progress;
use destage_engine::units::{DiskId, Duration, Instant, PAGE_BYTES};
use destage_nvslog::superblock::{Superblock, Uuid};

impl Volume {
    /// Rebuilds a failed member onto a device that is in its place already, and holds nothing but
    /// its own superblock.
    ///
    /// # Errors
    /// See [`ReplaceRefusal`].
    pub fn replace(
        &mut self,
        now: Instant,
        member: u16,
        device: Uuid,
        bytes: u64,
    ) -> Result<(), ReplaceRefusal> {
        self.ops.set_now(now);
        self.may_replace(member, bytes)?;
        self.rebuilds.add(member, device, now);
        self.rebuild_turn();
        self.after();
        Ok(())
    }

    /// Whether a failed member may be rebuilt onto a device of this many bytes.
    ///
    /// # Errors
    /// See [`ReplaceRefusal`].
    pub fn may_replace(&self, member: u16, bytes: u64) -> Result<(), ReplaceRefusal> {
        let geometry = self.controller().geometry();
        let needs = member_bytes(geometry);
        let refusal = match () {
            () if self.devices.stopped() => Some(ReplaceRefusal::Stopped),
            () if !geometry.level.is_redundant() => Some(ReplaceRefusal::NoRedundancy),
            () if member >= geometry.disks => Some(ReplaceRefusal::NoMember),
            () if self.rebuilds.contains(member) => Some(ReplaceRefusal::Running),
            () if !self.engine.failed(member) => Some(ReplaceRefusal::InUse),
            () if self.rebuilds.is_full() => Some(ReplaceRefusal::TooMany),
            () if bytes < needs => Some(ReplaceRefusal::TooSmall(needs)),
            () => None,
        };
        refusal.map_or(Ok(()), Err)
    }

    /// A failed member that a spare could replace now.
    #[must_use]
    pub fn wants_spare(&self) -> Option<u16> {
        let mut failed = self.controller().failed().iter().map(|disk| disk.0);
        let wanted = failed.find(|member| !self.rebuilds.contains(*member))?;
        let may = self.ready() && !self.is_changing();
        (may && self.may_replace(wanted, u64::MAX).is_ok()).then_some(wanted)
    }

    /// How fast rebuilds go from now on.
    pub fn set_rebuild_limits(&mut self, limits: Limits) {
        self.engine.controller_mut().set_rebuild_limits(limits);
    }

    /// The rebuilds that are running.
    #[must_use]
    pub fn rebuild_status(&self) -> Vec<RebuildStatus> {
        let disk_pages = self.controller().geometry().disk_pages;
        let of = |(member, written): (u16, bool)| {
            let disk = DiskId(member);
            let none = Progress {
                disk,
                done_pages: if written { disk_pages } else { 0 },
                disk_pages,
                elapsed: Duration::ZERO,
                to_go: written.then_some(Duration::ZERO),
            };
            RebuildStatus {
                member,
                progress: self.progress(disk).unwrap_or(none),
                checkpoint: self.devices.records.below(member),
                lost_pages: self.devices.records.lost_of(member) as u64,
            }
        };
        self.rebuilds.members().map(of).collect()
    }

    fn progress(&self, disk: DiskId) -> Option<Progress> {
        self.controller().rebuilds().find(|progress| progress.disk == disk)
    }

    /// Whether a command cannot be carried out: its pages are lost, with their disk or alone.
    pub(super) fn is_out_of_reach(&self, command: &DiskCommand) -> bool {
        let DiskCommand { disk, first, write, owner, .. } = *command;
        if !write && self.devices.records.touches_lost(command) {
            return true;
        }
        let controller = self.controller();
        if !controller.failed().contains(disk) {
            return false;
        }
        match owner {
            Owner::Rebuild(window) if write => controller.window_disk(window) != Some(disk),
            _ => controller.failed_at(first).contains(disk),
        }
    }

    /// Continues rebuilds where something else had to end first.
    pub(super) fn rebuild_turn(&mut self) {
        let (now, every) = (self.ops.now(), self.settings.checkpoint_every);
        for at in 0..self.rebuilds.len() {
            match self.rebuilds.due(at, now, every) {
                Due::Name(member, device) if !self.devices.changing() => {
                    self.devices.begin_rebuild(member, device);
                    self.rebuilds.naming(member);
                    self.change_devices();
                }
                Due::Checkpoint(member) => self.checkpoint(member),
                _ => {}
            }
        }
        if self.controller().deadline().is_some_and(|at| at <= now) {
            self.step(Event::Tick);
        }
    }

    /// When [`Volume::rebuild_turn`] has something to do.
    pub(super) fn rebuild_deadline(&self) -> Option<Instant> {
        if self.devices.stopped() {
            return None;
        }
        let checkpoint = self.rebuilds.checkpoint_deadline(self.settings.checkpoint_every);
        [self.controller().deadline(), checkpoint].into_iter().flatten().min()
    }

    /// A rebuild has made progress, which a crash should not take back. A flush costs the disk
    /// time, so this is not done too often.
    pub(super) fn checkpoint(&mut self, member: u16) {
        let (now, every) = (self.ops.now(), self.settings.checkpoint_every);
        if !self.rebuilds.take_checkpoint(member, now, every) {
            return;
        }
        let Some(progress) = self.progress(DiskId(member)) else { return };
        if progress.done_pages > self.devices.records.below(member) {
            self.record(member, progress.done_pages);
        }
    }

    /// Flushes a member, and records that it has its pages below this one.
    fn record(&mut self, member: u16, below: u64) {
        self.devices.records.checkpoint(member, below, &mut self.ops, self.settings.defect);
    }

    /// A step of a member's record is done.
    pub(super) fn record_step_done(&mut self, member: u16) {
        let done = self.devices.records.step_done(member, &mut self.ops);
        self.continue_flushed();
        if !done {
            return;
        }
        let complete =
            self.devices.records.below(member) == self.controller().geometry().disk_pages;
        if complete && self.rebuilds.flushed(member) {
            self.devices.rebuilt(member);
            self.change_devices();
        }
        self.devices.records.turn(member, &mut self.ops, self.settings.defect);
    }

    /// All pages of a member are written: for the engine it is in sync.
    pub(super) fn rebuilt(&mut self, member: u16) {
        self.forget_windows();
        if self.rebuilds.written(member) {
            self.record(member, self.controller().geometry().disk_pages);
        }
    }

    /// The superblocks of all devices say this.
    pub(super) fn rebuilds_recorded(&mut self, said: &Superblock) {
        for recorded in self.rebuilds.recorded(said, self.ops.now()) {
            match recorded {
                Recorded::InSync(member) => self.ops.alarm(Alarm::MemberRebuilt(member)),
                Recorded::Named(member) => {
                    let far = self.settings.defect.is(Defect::RebuildsFromTooFar);
                    let from = if far { self.controller().geometry().disk_pages / 2 } else { 0 };
                    self.step(Event::Rebuild { disk: DiskId(member), from });
                }
            }
        }
    }

    /// A member is rebuilt no further: its device has failed.
    pub(super) fn forget_rebuild(&mut self, member: u16) {
        self.rebuilds.forget(member);
        self.devices.end_rebuild(member);
    }

    /// Drops what was read for windows that have ended.
    pub(super) fn forget_windows(&mut self) {
        let controller = self.engine.controller();
        self.rebuilds.keep_windows(|window| controller.window_disk(window).is_some());
    }

    /// Everything of a window is read that can be: its pages are reconstructed.
    pub(super) fn reconstruct(&mut self, serial: u32, disk: DiskId, first: u64, pages: u32) {
        let controller = self.engine.controller();
        let geometry = *controller.geometry();
        let records = &mut self.devices.records;
        let none_lost = !records.any_lost();
        let mut window = self.rebuilds.take_window(serial);
        let all = first..first + u64::from(pages);
        let doubted = all.clone().any(|page| controller.is_in_doubt(page));
        if !doubted && let Some((computed, rest)) = window.pieces.xor_all(&geometry, first, pages) {
            let room = self.ops.recycle_room();
            rest.into_iter().take(room).for_each(|buffer| self.ops.recycle(buffer));
            all.for_each(|page| records.note(disk.0, page, false));
            window.computed = Some(computed);
            self.rebuilds.put_window(serial, window);
            self.step(Event::Regenerated(serial));
            return;
        }
        let mut computed = Buffer::zeroed(pages as usize * PAGE);
        let mut unknown = Vec::new();
        for (page, into) in (first..).zip(computed.chunks_exact_mut(PAGE)) {
            let known = !controller.is_in_doubt(page)
                && window.pieces.reconstruct(&geometry, disk, page, into);
            records.note(disk.0, page, !known);
            if !known {
                into.fill(0);
                unknown.push(page);
            }
        }
        let is_full = records.is_full(disk.0);
        if let Some(page) = unknown.first() {
            let ranges = self.volume_pages(&window.pieces, disk, &unknown);
            self.ops.alarm(Alarm::PagesLost { member: disk.0, page: *page, ranges });
            if none_lost {
                self.devices.write_records(&mut self.ops, self.settings.defect);
            }
        }
        if is_full {
            self.fail_member(disk.0, None, Cause::TooManyLost);
            return;
        }
        window.pieces.clear();
        window.computed = Some(computed);
        self.rebuilds.put_window(serial, window);
        self.step(Event::Regenerated(serial));
    }

    /// The pages of the volume, as runs, that are lost with these pages of a disk and what was not
    /// read of their rows, but for those that the NVS has.
    fn volume_pages(&self, pieces: &Pieces, disk: DiskId, lost: &[u64]) -> Vec<(u64, u64)> {
        let geometry = self.controller().geometry();
        let mut pages: Vec<u64> = Vec::new();
        for page in lost.iter().copied() {
            let disks: Vec<DiskId> = match geometry.level.is_mirrored() {
                true => vec![disk],
                false => (0..geometry.disks).map(DiskId).collect(),
            };
            let unread = disks.into_iter().filter(|d| pieces.read(*d, page).is_none());
            pages.extend(
                unread.filter_map(|disk| geometry.page_at(DiskPage { disk, page }).map(|p| p.0)),
            );
        }
        pages.retain(|page| self.pages.newest_copy(*page).is_none());
        pages.sort_unstable();
        runs(&pages)
    }

    /// Pages that could not be reconstructed when their members were rebuilt: member, page.
    #[must_use]
    pub fn lost_pages(&self) -> Vec<(u16, u64)> {
        self.devices.records.lost()
    }

    /// What is lost now: nothing, unless the array has stopped.
    #[must_use]
    pub fn lost(&self) -> Lost {
        let Some(stopped_by) = self.devices.stopped_by().map(DiskId) else {
            return Lost::default();
        };
        let mut failed = self.controller().failed().clone();
        failed.insert(stopped_by);
        let from = |disk: DiskId| match disk == stopped_by {
            true => 0,
            false => self.progress(disk).map_or(0, |progress| progress.done_pages),
        };
        let missing: Vec<(DiskId, u64)> = failed.iter().map(|disk| (disk, from(disk))).collect();
        lost(self.controller().geometry(), &missing, &self.pages)
    }

    /// Begins to compare all rows. Pages that cannot be read are reconstructed and written again,
    /// and with `repair` inconsistent rows are repaired. Nothing is read before it is allowed
    /// ([`Volume::allow_scrub`]).
    ///
    /// # Errors
    /// See [`ScrubRefusal`].
    pub fn start_scrub(&mut self, now: Instant, repair: bool) -> Result<(), ScrubRefusal> {
        self.ops.set_now(now);
        let level = self.controller().geometry().level;
        let refusal = match () {
            () if self.devices.stopped() => Some(ScrubRefusal::Stopped),
            () if !level.is_redundant() => Some(ScrubRefusal::NothingToCompare),
            () if self.scrub.running() => Some(ScrubRefusal::Running),
            () if !self.rebuilds.is_empty() => Some(ScrubRefusal::Rebuilding),
            () if !self.controller().failed().is_empty() => Some(ScrubRefusal::Degraded),
            () => None,
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        self.scrub.start(self.controller().scrub_rows(), repair, now);
        self.step(Event::ScrubStart);
        #[cfg(feature = "defects")]
        if self.settings.defect.is(Defect::ScrubsCarelessly) {
            self.engine.controller_mut().scrub_carelessly();
        }
        Ok(())
    }

    /// Allows the scrub to read this many more bytes of the members.
    pub fn allow_scrub(&mut self, now: Instant, bytes: u64) {
        self.ops.set_now(now);
        self.step(Event::ScrubAllow(bytes / PAGE_BYTES));
        self.after();
    }

    /// Whether a scrub is running.
    #[must_use]
    pub fn scrub_running(&self) -> bool {
        !self.devices.stopped() && self.scrub.running()
    }

    /// Whether a scrub waits to be allowed more.
    #[must_use]
    pub fn scrub_waits(&self) -> bool {
        !self.devices.stopped() && self.controller().scrub_waits()
    }

    /// Ends the scrub, if there is one, after what is in flight.
    pub fn stop_scrub(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.step(Event::ScrubStop);
        self.after();
    }

    /// The scrub that is running, or the last one since the start.
    #[must_use]
    pub fn scrub_status(&self) -> Option<ScrubStatus> {
        let mut status = self.scrub.status()?.clone();
        if self.devices.stopped() && status.running {
            (status.running, status.whole) = (false, false);
        }
        Some(status)
    }

    /// A chunk is read: its rows are compared.
    pub(super) fn scrub_compare(&mut self, index: u32, rows: ScrubChunk) {
        // Where a write without a log was interrupted, several strips are new or old, which can
        // look like a single wrong one.
        let locate = !self.log.lost() && !self.devices.superblock().doubted_rows;
        let geometry = self.engine.controller().geometry();
        let repairs = self.scrub.compare(index, rows, geometry, locate);
        for DiskRun { disk, first: page, pages } in repairs.unreadable {
            self.ops.alarm(Alarm::Repaired { member: disk.0, page, pages });
        }
        for run in repairs.runs {
            self.step(Event::ScrubRepair(index, run));
        }
        self.step(Event::ScrubCompared(index));
    }

    /// All chunks have ended: what was written is flushed.
    pub(super) fn scrub_ended(&mut self, complete: bool) {
        let engine = &self.engine;
        for member in self.scrub.ended(complete, |member| !engine.failed(member)) {
            self.ops.push(Device::Member(member), Purpose::ScrubFlush, OpKind::Flush);
        }
        self.scrub_flushed(true);
    }

    /// A member is flushed for a scrub, or has failed.
    pub(super) fn scrub_flushed(&mut self, ok: bool) {
        self.scrub.flushed(ok, self.ops.now());
        let repaired = self.scrub_status().is_some_and(|status| {
            !status.running && status.whole && status.repair && status.rows_left() == 0
        });
        if repaired {
            // Without a log the next interruption is one more reason.
            self.devices.doubt_rows(self.log.lost());
            self.doubt_rows(false);
        }
    }

    /// Rows may not fit, or were all repaired.
    pub(super) fn doubt_rows(&mut self, doubted: bool) {
        let redundant = self.controller().geometry().level.is_redundant();
        let before = core::mem::replace(&mut self.rows_doubted, doubted && redundant);
        if self.rows_doubted {
            self.ops.alarm(Alarm::RowsDoubted);
        } else if before {
            self.ops.alarm(Alarm::RowsRepaired);
        }
        self.engine.controller_mut().set_copies_differ(self.rows_doubted);
    }
}
