//! Failed members, and spares that become them, with their bytes (docs/durability.md, "Failed
//! members, spares and rebuild"; docs/rebuild.md): the engine says what to read and write, here
//! pages are computed, checkpoints written, and the set of devices changed.

use crate::Buffer;
use crate::defect::Defect;
use crate::memory::PAGE;
use crate::reads::DATA;
use crate::records::Record;
use crate::request::{Alarm, Cause};
use crate::rows::Pieces;
use crate::volume::Volume;
use destage_engine::array::disks::DiskSet;
use destage_engine::array::geometry::{Geometry, Redundancy};
use destage_engine::array::layout::DiskPage;
use destage_engine::event::Event;
use destage_engine::event::{DiskCommand, Owner};
use destage_engine::limits::Limits;
use destage_engine::rebuild::Progress;
use destage_engine::units::{DiskId, Duration, Instant, PAGE_BYTES};
use destage_nvslog::superblock::{REBUILDS_MAX, Superblock, Uuid};

/// Most buffers that are kept for the driver.
const SPENT_MAX: usize = 64;

/// Why a member is not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceRefusal {
    /// A level without redundancy: there is nothing to compute it from.
    NoRedundancy,
    /// There is no such member.
    NoMember,
    /// The member is whole.
    InUse,
    /// It is being rebuilt.
    Running,
    /// So many are rebuilt at once at most.
    TooMany,
    /// The array has stopped.
    Stopped,
    /// The device is too small: bytes that it must have.
    TooSmall(u64),
}

impl core::fmt::Display for ReplaceRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ReplaceRefusal::NoRedundancy => f.write_str(
                "this level keeps every byte once: there is nothing to rebuild a member from",
            ),
            ReplaceRefusal::NoMember => f.write_str("there is no such member"),
            ReplaceRefusal::InUse => f.write_str(
                "the member is in use: give it up first (`destage fail`); the array then has \
                 less redundancy until the new one is rebuilt",
            ),
            ReplaceRefusal::Running => {
                f.write_str("the member is being rebuilt: see `destage status`")
            }
            ReplaceRefusal::TooMany => {
                write!(f, "{REBUILDS_MAX} members are being rebuilt: wait until one is whole")
            }
            ReplaceRefusal::Stopped => f.write_str("the array has stopped; see `destage status`"),
            ReplaceRefusal::TooSmall(bytes) => {
                write!(f, "the device is too small: a member takes {bytes} bytes")
            }
        }
    }
}

impl std::error::Error for ReplaceRefusal {}

/// How a rebuild stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildStatus {
    /// The member.
    pub member: u16,
    /// Pages of it that are whole, and how long it took and will take.
    pub progress: Progress,
    /// Pages that a crash would not take back.
    pub checkpoint: u64,
    /// Pages of it that could not be computed.
    pub lost_pages: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For the change of the set of devices that is under way.
    Waits,
    /// The superblocks are being written that name it.
    Naming,
    Running,
    /// All is written: it is flushed, and says so itself.
    Flushing,
    /// The superblocks are being written that say that it is whole.
    Joining,
}

/// A member that is being rebuilt.
pub(crate) struct Rebuild {
    pub(crate) member: u16,
    device: Uuid,
    phase: Phase,
    /// Time of the last checkpoint.
    since: Instant,
}

impl Rebuild {
    /// One that an earlier run began.
    pub(crate) fn resumed(member: u16, device: Uuid) -> Rebuild {
        Rebuild { member, device, phase: Phase::Running, since: Instant::ZERO }
    }

    /// Whether the superblocks name it, or will.
    pub(crate) fn is_named(&self) -> bool {
        self.phase != Phase::Waits
    }

    /// Whether the engine holds it for whole, and the medium does not.
    pub(crate) fn is_flushed_now(&self) -> bool {
        self.phase == Phase::Flushing
    }
}

/// A window of a rebuild.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) pieces: Pieces,
    computed: Option<Buffer>,
}

/// Bytes that a member takes: what it says of itself, and its share of the data.
#[must_use]
pub fn member_bytes(geometry: &Geometry) -> u64 {
    DATA + geometry.disk_pages * PAGE_BYTES
}

impl Volume {
    /// Has a failed member rebuilt onto a device, which is in its place already and holds nothing
    /// but its own superblock.
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
        self.rebuilds.push(Rebuild { member, device, phase: Phase::Waits, since: now });
        self.rebuild_turn();
        self.after();
        Ok(())
    }

    /// Whether a failed member may be rebuilt onto a device of so many bytes.
    ///
    /// # Errors
    /// See [`ReplaceRefusal`].
    pub fn may_replace(&self, member: u16, bytes: u64) -> Result<(), ReplaceRefusal> {
        let geometry = self.controller.geometry();
        let needs = member_bytes(geometry);
        let refusal = match () {
            () if self.faults.stopped => Some(ReplaceRefusal::Stopped),
            () if !geometry.level.is_redundant() => Some(ReplaceRefusal::NoRedundancy),
            () if member >= geometry.disks => Some(ReplaceRefusal::NoMember),
            () if self.rebuilds.iter().any(|r| r.member == member) => Some(ReplaceRefusal::Running),
            () if !self.controller.failed().contains(DiskId(member)) => Some(ReplaceRefusal::InUse),
            () if self.rebuilds.len() >= REBUILDS_MAX => Some(ReplaceRefusal::TooMany),
            () if bytes < needs => Some(ReplaceRefusal::TooSmall(needs)),
            () => None,
        };
        refusal.map_or(Ok(()), Err)
    }

    /// A failed member that a spare may become now.
    #[must_use]
    pub fn wants_spare(&self) -> Option<u16> {
        let rebuilt = |member: u16| self.rebuilds.iter().any(|r| r.member == member);
        let mut failed = self.controller.failed().iter().map(|disk| disk.0);
        let wanted = failed.find(|member| !rebuilt(*member))?;
        let may = self.ready() && !self.is_changing();
        (may && self.may_replace(wanted, u64::MAX).is_ok()).then_some(wanted)
    }

    /// Buffers of reads that are needed no more.
    pub fn take_spent(&mut self) -> Vec<Buffer> {
        core::mem::take(&mut self.spent)
    }

    /// Whether a change of the set of devices, the failure of one perhaps, is not written down
    /// yet: until then no other device is to be found in its place.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.faults.changing()
    }

    /// How fast rebuilds go from now on.
    pub fn set_rebuild_limits(&mut self, limits: Limits) {
        self.controller.set_rebuild_limits(limits);
    }

    /// The rebuilds under way.
    #[must_use]
    pub fn rebuild_status(&self) -> Vec<RebuildStatus> {
        let disk_pages = self.controller.geometry().disk_pages;
        let of = |rebuild: &Rebuild| {
            let disk = DiskId(rebuild.member);
            let whole = matches!(rebuild.phase, Phase::Flushing | Phase::Joining);
            let none = Progress {
                disk,
                done_pages: if whole { disk_pages } else { 0 },
                disk_pages,
                elapsed: Duration::ZERO,
                to_go: whole.then_some(Duration::ZERO),
                lost_pages: 0,
            };
            let record = &self.records[usize::from(rebuild.member)];
            RebuildStatus {
                member: rebuild.member,
                progress: self.progress(disk).unwrap_or(none),
                checkpoint: record.below,
                lost_pages: record.lost() as u64,
            }
        };
        self.rebuilds.iter().map(of).collect()
    }

    fn progress(&self, disk: DiskId) -> Option<Progress> {
        self.controller.rebuilds().find(|progress| progress.disk == disk)
    }

    /// Whether a device that is to become this member is in its place.
    pub(crate) fn is_attached(&self, member: u16) -> bool {
        self.rebuilds.iter().any(|r| r.member == member && r.is_named())
    }

    /// Whether nothing can be asked of a member, not even below a rebuild's mark.
    pub(crate) fn is_gone(&self, member: u16) -> bool {
        self.controller.failed().contains(DiskId(member)) && !self.is_attached(member)
    }

    /// Whether a command cannot be carried out: its page is lost, with its disk or alone.
    pub(crate) fn is_out_of_reach(&self, command: &DiskCommand) -> bool {
        let DiskCommand { disk, first, write, owner, .. } = *command;
        if !write && self.meets_lost(command) {
            return true;
        }
        if !self.controller.failed().contains(disk) {
            return false;
        }
        match owner {
            Owner::Rebuild(window) if write => self.controller.window_disk(window) != Some(disk),
            _ => self.controller.failed_at(first).contains(disk),
        }
    }

    /// Goes on where something else had to end first.
    pub(crate) fn rebuild_turn(&mut self) {
        let now = self.ops.now();
        for at in 0..self.rebuilds.len() {
            let Rebuild { member, device, phase, since } = self.rebuilds[at];
            if phase == Phase::Waits && !self.faults.changing() {
                let place = usize::from(member);
                self.faults.members[place] = device;
                self.faults.read_errors[place] = 0;
                self.records[place] = Record::new(device);
                self.faults.superblock.set_rebuild(member, Some(device));
                self.rebuilds[at].phase = Phase::Naming;
                self.change_devices();
            }
            if phase == Phase::Running && now >= since + self.settings.checkpoint_every {
                self.checkpoint(member);
            }
        }
        if self.controller.deadline().is_some_and(|at| at <= now) {
            self.step(Event::Tick);
        }
    }

    /// When [`Volume::rebuild_turn`] has something to do.
    pub(crate) fn rebuild_deadline(&self) -> Option<Instant> {
        if self.rebuilds.is_empty() || self.faults.stopped {
            return None;
        }
        let running = self.rebuilds.iter().filter(|r| r.phase == Phase::Running);
        let checkpoint = running.map(|r| r.since + self.settings.checkpoint_every).min();
        [self.controller.deadline(), checkpoint].into_iter().flatten().min()
    }

    /// A rebuild has come on: that is to survive a crash. A flush costs the disk time, so not too
    /// often.
    pub(crate) fn checkpoint(&mut self, member: u16) {
        let (now, every) = (self.ops.now(), self.settings.checkpoint_every);
        let due = |r: &&mut Rebuild| r.member == member && now >= r.since + every;
        let Some(rebuild) = self.rebuilds.iter_mut().find(due) else { return };
        rebuild.since = now;
        let Some(progress) = self.progress(DiskId(member)) else { return };
        if progress.done_pages > self.records[usize::from(member)].below {
            self.want_record(member, progress.done_pages);
        }
    }

    /// All of a member is written; to the engine it is whole.
    pub(crate) fn rebuilt(&mut self, member: u16) {
        self.forget_windows();
        let Some(rebuild) = self.rebuilds.iter_mut().find(|r| r.member == member) else { return };
        rebuild.phase = Phase::Flushing;
        self.want_record(member, self.controller.geometry().disk_pages);
    }

    /// A member's record is on it.
    pub(crate) fn recorded(&mut self, member: u16) {
        let whole = self.records[usize::from(member)].below;
        let of = |r: &&mut Rebuild| r.member == member && r.phase == Phase::Flushing;
        let Some(rebuild) = self.rebuilds.iter_mut().find(of) else { return };
        if whole == self.controller.geometry().disk_pages {
            rebuild.phase = Phase::Joining;
            self.faults.superblock.mark(member, false);
            self.faults.superblock.set_rebuild(member, None);
            self.change_devices();
        }
    }

    /// The superblocks of all devices say this.
    pub(crate) fn rebuilds_recorded(&mut self, said: &Superblock) {
        let mut at = 0;
        while at < self.rebuilds.len() {
            let rebuild = &mut self.rebuilds[at];
            let Rebuild { member, device, phase, .. } = *rebuild;
            if phase == Phase::Joining && !said.has_failed(member) {
                self.rebuilds.remove(at);
                self.alarm(Alarm::MemberRebuilt(member));
                continue;
            }
            if phase == Phase::Naming && said.rebuilt_onto(member) == Some(device) {
                (rebuild.phase, rebuild.since) = (Phase::Running, self.ops.now());
                let far = self.log.defect.is(Defect::RebuildsFromTooFar);
                let from = if far { self.controller.geometry().disk_pages / 2 } else { 0 };
                self.step(Event::Rebuild { disk: DiskId(member), from });
            }
            at += 1;
        }
    }

    /// A member is not rebuilt any further: its device has failed.
    pub(crate) fn forget_rebuild(&mut self, member: u16) {
        self.rebuilds.retain(|rebuild| rebuild.member != member);
        self.faults.superblock.set_rebuild(member, None);
        let place = usize::from(member);
        self.records[place] = Record::new(self.faults.members[place]);
    }

    /// What windows read that are over.
    pub(crate) fn forget_windows(&mut self) {
        let controller = &self.controller;
        self.windows.retain(|window, _| controller.window_disk(*window).is_some());
    }

    /// The engine wants a disk read or written for a window.
    pub(crate) fn window_command(&mut self, window: u32, command: &DiskCommand) {
        if !command.write {
            self.member_io(command, None);
            return;
        }
        // None: it was stopped in this very step.
        let computed = self.windows.remove(&window).and_then(|window| window.computed);
        let none = || Buffer::zeroed(command.pages as usize * PAGE);
        self.member_io(command, Some(computed.unwrap_or_else(none)));
    }

    /// All of a window is read that can be: its pages are computed.
    pub(crate) fn regenerate(&mut self, serial: u32, disk: DiskId, first: u64, pages: u32) {
        let geometry = *self.controller.geometry();
        let mut window = self.windows.remove(&serial).unwrap_or_default();
        let doubt = |page: u64| self.controller.is_in_doubt(page);
        let doubted = (first..first + u64::from(pages)).any(doubt);
        if !doubted && let Some((computed, rest)) = window.pieces.xor_all(&geometry, first, pages) {
            let room = SPENT_MAX.saturating_sub(self.spent.len());
            self.spent.extend(rest.into_iter().take(room));
            for page in first..first + u64::from(pages) {
                self.records[usize::from(disk.0)].note(page, false);
            }
            window.computed = Some(computed);
            self.windows.insert(serial, window);
            self.step(Event::Regenerated(serial));
            return;
        }
        let mut computed = Buffer::zeroed(pages as usize * PAGE);
        let mut lost = Vec::new();
        for (page, into) in (first..).zip(computed.chunks_exact_mut(PAGE)) {
            let told = !self.controller.is_in_doubt(page)
                && window.pieces.compute(&geometry, disk, page, into);
            self.records[usize::from(disk.0)].note(page, !told);
            if !told {
                into.fill(0);
                lost.push(page);
            }
        }
        if let Some(page) = lost.first() {
            let ranges = self.volume_pages(&geometry, &window.pieces, disk, &lost);
            self.alarm(Alarm::PagesLost { member: disk.0, page: *page, ranges });
        }
        if self.records[usize::from(disk.0)].is_full() {
            self.fail_member(disk.0, None, Cause::TooManyLost);
            return;
        }
        window.pieces.clear();
        window.computed = Some(computed);
        self.windows.insert(serial, window);
        self.step(Event::Regenerated(serial));
    }

    /// The pages of the volume, as runs, that are lost with these pages of a disk and what was not
    /// read of their rows, but for those that the NVS has.
    fn volume_pages(
        &self,
        geometry: &Geometry,
        pieces: &Pieces,
        disk: DiskId,
        lost: &[u64],
    ) -> Vec<(u64, u64)> {
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
        pages.retain(|page| self.memory.newest_copy(*page).is_none());
        pages.sort_unstable();
        crate::lost::runs(&pages)
    }
}

impl Pieces {
    /// The pages of a window where one run was read of each of the row's other disks, none twice:
    /// the exclusive or of all, and buffers that are needed no more.
    fn xor_all(
        &mut self,
        geometry: &Geometry,
        first: u64,
        pages: u32,
    ) -> Option<(Buffer, Vec<Buffer>)> {
        let others = match geometry.level.entry().redundancy {
            Redundancy::Mirror => 1,
            Redundancy::Parity { strips: 1, .. } => usize::from(geometry.disks) - 1,
            _ => return None,
        };
        let mut runs = self.take_whole(others, first, pages as usize * PAGE)?;
        let mut sum = runs.pop()?;
        runs.iter().for_each(|run| destage_parity::field::xor_into(&mut sum, run));
        Some((sum, runs))
    }

    /// Computes a page of a disk from the others of its row; whether that could be done.
    fn compute(&self, geometry: &Geometry, disk: DiskId, page: u64, into: &mut [u8]) -> bool {
        if !geometry.level.is_mirrored() && self.compute_by_xor(geometry, disk, page, into) {
            return true;
        }
        let told = self.page(geometry, disk, page);
        if let Some(bytes) = &told {
            into.copy_from_slice(bytes);
        }
        told.is_some()
    }

    /// The plain case: data and P of the row are there but for this page.
    fn compute_by_xor(
        &self,
        geometry: &Geometry,
        disk: DiskId,
        page: u64,
        into: &mut [u8],
    ) -> bool {
        let (_, at) = geometry.row_of_disk_page(page);
        if geometry.level.parities() > 1 && geometry.q_disk(at.stripe) == disk {
            return false;
        }
        let strips = 0..geometry.data_strips() as u16;
        let data = strips.map(|strip| geometry.data_disk(at.stripe, strip));
        let others = data.chain([geometry.parity_disk(at.stripe)]).filter(|other| *other != disk);
        let mut whole = true;
        for (i, other) in others.enumerate() {
            match (self.read(other, page), i) {
                (Some(bytes), 0) => into.copy_from_slice(bytes),
                (Some(bytes), _) => destage_parity::field::xor_into(into, bytes),
                (None, _) => whole = false,
            }
        }
        whole
    }
}

/// The disks that are lost in a row of the array from a page of theirs on.
pub(crate) fn lost_from(volume: &Volume) -> Vec<(DiskId, u64)> {
    let mut failed: DiskSet = volume.controller.failed().clone();
    let stopped_by = volume.faults.stopped_by.map(DiskId);
    stopped_by.into_iter().for_each(|disk| {
        failed.insert(disk);
    });
    let from = |disk: DiskId| match stopped_by == Some(disk) {
        true => 0,
        false => volume.progress(disk).map_or(0, |progress| progress.done_pages),
    };
    failed.iter().map(|disk| (disk, from(disk))).collect()
}
