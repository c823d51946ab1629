//! Another log while the array is tortured: what the server does for `destage nvs resize`, and for
//! `destage nvs replace` when no NVS device is in use. The power may fail at any operation.

use super::device::Device as Disk;
use super::mirror::superblocks;
use super::run::{End, Run};
use destage_engine::units::DiskId;
use destage_nvslog::sizes::Sizes;
use destage_served::{Allow, Device, NewLog, RelogError, Volume};

impl Run {
    /// Sometimes gives the array another log, and more often while rows are doubted.
    ///
    /// # Errors
    /// A check failed.
    pub(super) fn maybe_relog(&mut self) -> Result<End, String> {
        let doubted = !self.holes.is_empty();
        let rare = if doubted { 1 } else { 3 };
        if !self.case.relogs || self.case.nvs == 0 || self.draws.relogs.below(rare) > 0 {
            return Ok(End::Done);
        }
        let most = self.case.geometry.volume_pages().0.min(200);
        let pages = 1 + self.draws.relogs.below(most);
        // Some requests, so that the log is not always empty before.
        let mut end = self.load(10)?;
        if end == End::Done {
            end = self.relog(pages)?;
        }
        if end == End::Done && doubted {
            end = self.read_several_times()?;
        }
        Ok(end)
    }

    /// Drains the array, ends it without a crash, gives it a log for this many dirty pages, and
    /// starts it again. Where the server would refuse, nothing is changed.
    ///
    /// # Errors
    /// A check failed.
    pub fn relog(&mut self, pages: u64) -> Result<End, String> {
        self.make_space();
        for phase in [Run::answered, Run::end_scrub, Run::drained] {
            if phase(self)? == End::Crash {
                return Ok(End::Crash);
            }
        }
        let now = self.now();
        self.volume_mut().end_mirror(now);
        self.volume_mut().pause(true);
        self.collect()?;
        if self.drive_until(&|run| run.volume().idle())? == End::Crash {
            return Ok(End::Crash);
        }
        let status = self.volume().status();
        if status.stopped || status.dirty_pages > 0 && !self.replaces_full_log() {
            self.volume_mut().pause(false);
            return Ok(End::Done);
        }
        if status.nvs_devices.is_empty() {
            self.world.replace_nvs(0);
        }
        self.replace_log(pages)
    }

    /// Gives an array that serves nothing another log, whatever the present one holds.
    ///
    /// # Errors
    /// A check failed.
    pub fn replace_log(&mut self, pages: u64) -> Result<End, String> {
        self.note_counts();
        if self.volume.is_some() {
            self.left_whole = self.is_whole();
        }
        let volume = self.volume.take();
        let rows_fit = volume.as_ref().is_some_and(Volume::rows_fit);
        let found = superblocks(&mut self.world, &[]);
        if self.world.crashed {
            return Ok(End::Crash);
        }
        let allow = Allow { degraded: true, ..Allow::default() };
        let Ok(assembly) = destage_served::assemble(&found, &allow) else {
            // A device is away, and nobody has noticed it yet.
            self.volume = volume;
            self.volume_mut().pause(false);
            return Ok(End::Done);
        };
        self.world.forget_flights();
        // The new superblocks name those that are away as failed, however far the change gets.
        for member in &assembly.failed {
            self.failed.insert(DiskId(*member));
            self.right_strips.clear();
        }
        let sizes = Sizes::for_pages(pages, self.case.block_bytes);
        self.counts.relogs_begun += 1;
        let number = self.counts.relogs_begun as u8;
        let mut nvs = assembly.nvs_in_use();
        if assembly.copies.is_empty() {
            nvs[0] = Some([0x80 ^ number; 16]);
        }
        let needs = sizes.bytes(self.case.block_bytes);
        self.world.nvs.iter_mut().for_each(|disk| disk.grow(needs));
        // A crash may leave the array with either log.
        self.world.room = self.world.room.map(|(member, nvs)| (member, nvs.max(needs)));
        let (log, block_bytes) = ([0xc0 ^ number; 16], self.case.block_bytes);
        let defect = self.case.settings.defect;
        let new = NewLog { log, block_bytes, sizes, nvs, rows_fit, defect };
        self.mishaps.accepted();
        self.relogging = true;
        let may_fail = self.some_device_may_fail();
        match destage_served::relog(&mut self.world, &assembly, &new) {
            Ok(()) => {}
            Err(_) if self.world.crashed => return Ok(End::Crash),
            Err(RelogError::Io(..)) if may_fail => return Ok(End::Crash),
            // Nothing was changed: it starts again as it was.
            Err(RelogError::Damaged) if self.world.nvs.iter().any(Disk::has_bad) => {
                return self.open_either_way();
            }
            Err(why) => return Err(format!("relog: {why}")),
        }
        self.case.nvs_pages = pages;
        self.world.room = self.world.room.map(|(member, _)| (member, needs));
        self.counts.relogs += 1;
        self.open_either_way()
    }

    /// Whether an NVS device that is not in use may be given to the array again as it is.
    pub fn holds_nothing(&mut self, copy: u16) -> bool {
        let array = self.case.creation().array;
        destage_served::is_spent(&mut self.world, Device::Nvs(copy), array)
    }

    /// Whether a device is away, or its next write or flush fails.
    pub(super) fn some_device_may_fail(&self) -> bool {
        let mut disks = self.world.members.iter().chain(&self.world.nvs);
        !self.all_there() || disks.any(Disk::fails_soon)
    }

    fn replaces_full_log(&self) -> bool {
        self.case.settings.defect == destage_served::Defect::ReplacesFullLog
    }
}
