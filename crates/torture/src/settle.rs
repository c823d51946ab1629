//! Waiting: for answers, for everything to drain, and at the end for the disks to be right.

use super::audit;
use super::device::{Device as Disk, Survivors};
use super::load::{self, Request};
use super::run::{End, Run};
use destage_engine::units::{Duration, Instant, PAGE_BYTES};

/// Reads of everything that see each of two copies, mostly.
const READS: u32 = 3;

impl Run {
    /// Starts the array, writes all of it and waits until it is on the disks.
    ///
    /// # Errors
    /// What went wrong.
    pub fn fill(&mut self) -> Result<(), String> {
        self.open()?;
        self.fill_open()
    }

    /// The same for an array that has started.
    ///
    /// # Errors
    /// What went wrong.
    pub fn fill_open(&mut self) -> Result<(), String> {
        let bytes = 8 * PAGE_BYTES;
        for offset in (0..self.bytes()).step_by(bytes as usize) {
            self.submit(Request::write(offset, bytes))?;
            self.answered()?;
        }
        self.drained()?;
        Ok(())
    }

    /// The process does not run for this long. Then the first thing it sees is the time.
    ///
    /// # Errors
    /// What went wrong.
    pub fn pause(&mut self, time: Duration) -> Result<(), String> {
        self.now += time;
        let now = self.now;
        self.volume_mut().turn(now);
        self.collect()
    }

    /// Waits for all answers.
    ///
    /// # Errors
    /// A check failed.
    pub fn answered(&mut self) -> Result<End, String> {
        self.drive_until(&Run::all_answered)
    }

    /// Waits until nothing is in flight and the log is confirmed.
    ///
    /// # Errors
    /// A check failed.
    pub fn quiet(&mut self) -> Result<(), String> {
        self.answered()?;
        self.drive_until(&|run| run.volume().idle())?;
        self.now = Instant(self.now.0 + Duration::from_secs(1).0);
        self.step()?;
        self.drive_until(&|run| run.volume().idle()).map(|_| ())
    }

    /// Begins to destage everything.
    ///
    /// # Errors
    /// A check failed.
    pub fn flush_cache(&mut self) -> Result<(), String> {
        let now = self.now;
        self.volume_mut().flush_cache(now);
        self.collect()
    }

    /// Waits for everything to be on the disks.
    ///
    /// # Errors
    /// A check failed.
    pub fn drained(&mut self) -> Result<End, String> {
        self.flush_cache()?;
        self.drive_until(&|run| {
            let volume = run.volume();
            // Pages of lost rows stay in the NVS.
            let all = volume.drained() && (volume.status().kept_pages == 0 || run.may_lack_rows());
            volume.idle() && all
        })
    }

    /// Reads the whole volume and checks it.
    ///
    /// # Errors
    /// A check failed.
    pub fn read_all(&mut self) -> Result<End, String> {
        let mut offset = 0;
        while offset < self.bytes() {
            let bytes = (64 * PAGE_BYTES).min(self.bytes() - offset);
            self.submit(Request { kind: load::Kind::Read, offset, bytes, fua: false })?;
            offset += bytes;
        }
        self.answered()
    }

    /// Reads the whole volume; several times, if two copies may differ.
    ///
    /// # Errors
    /// A check failed.
    pub(super) fn read_after_a_start(&mut self) -> Result<End, String> {
        let may_differ = self.case.geometry.level.is_mirrored() && !self.holes.is_empty();
        match self.case.pressed && may_differ {
            true => self.read_several_times(),
            false => self.read_all(),
        }
    }

    /// Reads the whole volume until each of two copies was read, mostly: what one of them has shown
    /// must stay so.
    ///
    /// # Errors
    /// A check failed.
    pub(super) fn read_several_times(&mut self) -> Result<End, String> {
        let mut end = End::Done;
        for _ in 0..READS {
            if end == End::Done {
                end = self.read_all()?;
            }
        }
        Ok(end)
    }

    /// The faults stop: everything is answered, everything drains, and the disks are right.
    ///
    /// # Errors
    /// A check failed, or the array has stopped.
    pub fn settle(&mut self) -> Result<(), String> {
        match self.settle_or_stop()? {
            End::Done => Ok(()),
            End::Crash => Err("the array stopped while it was to drain".into()),
        }
    }

    /// The same for an array that may have stopped because its last NVS device had failed: it keeps
    /// its dirty pages, so the disks prove nothing yet. Then it has ended as by a crash.
    ///
    /// # Errors
    /// A check failed.
    pub fn settle_or_stop(&mut self) -> Result<End, String> {
        self.world.members.iter_mut().for_each(Disk::heal);
        self.end_errors();
        self.make_space();
        let phases = [
            Run::answered,
            Run::replace_failed_if_asked,
            Run::drained,
            Run::read_all,
            Run::end_scrub,
            Run::check_rows,
        ];
        for phase in phases {
            if phase(self)? == End::Crash {
                return Ok(End::Crash);
            }
        }
        let now = Instant(self.now.0 + Duration::from_secs(1).0);
        self.now = now;
        self.volume_mut().confirm(now);
        self.collect()?;
        if self.drive_until(&|run| run.volume().idle())? == End::Crash {
            return Ok(End::Crash);
        }
        self.note_counts();
        self.left_whole = self.is_whole();
        self.world.crash(Survivors::None);
        self.lost_pages = self.volume().lost_pages();
        self.kept = self.dirty_pages();
        self.volume = None;
        audit::disks(self)?;
        Ok(End::Done)
    }
}
