//! How a server ends: it completes what is in flight and confirms the log. What only an open,
//! deleted file or only memory holds is saved first, if there is time. Every step has a time limit.

use super::alarm_words::save_files;
use super::alarms::{Alarms, ClearedBy};
use super::device_watch::{DeviceWatch, Watched};
use super::refusal::{Refusal, Undrained, Unfinished, UnfinishedWork, WhyDirty};
use super::setup::Setup;
use destage_engine::units::{Duration, Instant};
use destage_served::{Cause, Device, Volume};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// How often an ending server checks its progress.
const LOOK: Duration = Duration(100_000_000);
/// How long after the stall limit an ending server gives up: by then the volume has given up the
/// device and continues without it.
const GRACE: Duration = Duration(2_000_000_000);
/// What an ending server asks for beyond the time that a step may take: clients are given 5 s for
/// their replies, and devices are closed.
const MARGIN: Duration = Duration(30_000_000_000);
/// How often it asks for time at most.
const ASK: Duration = Duration(1_000_000_000);

/// Is called with the time that the end may still take.
type AskForTime = Box<dyn FnMut(std::time::Duration) + Send>;

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stop {
    #[default]
    No,
    /// What is in flight completes; nothing new begins.
    Ending,
    /// The log's last commit is being confirmed.
    Confirming,
    /// All devices are being marked, so that the next start detects one that was restored from an
    /// older copy.
    Marking,
    /// An operator saves files until then. Those that were written at this time or later count.
    Saving(Instant, std::time::SystemTime),
    /// The deleted NVS is given up: the disks have everything.
    Leaving,
    /// That is recorded. The members are being marked again: nothing was written since.
    MarkingAgain,
    Over,
}

/// The end of a server, and waits for all to be destaged.
#[derive(Default)]
pub(super) struct Ending {
    stop: Stop,
    /// Files that were deleted and that the array cannot do without.
    deleted: BTreeSet<Watched>,
    /// An operator wants the end even if files are lost.
    forced: bool,
    /// Everything is destaged now: these get the result.
    drains: Vec<Sender<Drained>>,
    /// Everything is destaged before the end: these get the result.
    end_drains: Vec<Sender<Drained>>,
    /// A wait for all to be destaged also ends when it makes no progress.
    bounded: bool,
    /// When there was progress last, and what it was measured by.
    progress: (Instant, [u64; 5]),
    /// Dirty pages when none were left but those whose destage cannot be computed.
    only_kept: Option<u64>,
    looked: Instant,
    /// It made no progress.
    stuck: bool,
    /// Files that were not saved.
    unsaved: Vec<String>,
    /// Asks for time the one who would kill a server that ends too slowly.
    ask_for_time: Option<AskForTime>,
    /// When that was last asked, in which step, and when that step had made progress.
    asked: Option<(Instant, Stop, Instant)>,
}

/// The result of a wait for all to be destaged.
pub(super) type Drained = Result<(), Undrained>;

/// The parts of an array that its end needs.
pub(super) struct Around<'a> {
    pub(super) setup: &'a Setup,
    pub(super) volume: &'a mut Volume,
    pub(super) watch: &'a DeviceWatch,
    pub(super) alarms: &'a mut Alarms,
}

/// A file that exists only as long as it is open here.
struct Open {
    path: String,
    file: Arc<File>,
}

impl Open {
    fn command(&self) -> String {
        let (pid, fd) = (std::process::id(), self.file.as_raw_fd());
        format!("`cp /proc/{pid}/fd/{fd} {}`", quoted(&self.path))
    }

    /// Whether the path has all of it again, written since then.
    fn is_saved(&self, since: std::time::SystemTime) -> bool {
        let (Ok(file), Ok(path)) = (self.file.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        let since = since.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // The clock of file systems is some milliseconds behind.
        let since = since.as_millis() as i64 - 50;
        let changed = path.ctime() * 1000 + path.ctime_nsec() / 1_000_000;
        path.ino() != file.ino() && path.len() >= file.len() && changed >= since
    }
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@=".contains(c);
    if path.chars().all(plain) {
        return path.to_string();
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}

impl Ending {
    /// When to check again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waits = match self.stop {
            Stop::No => self.bounded,
            Stop::Over => false,
            _ => true,
        };
        waits.then_some(self.looked + LOOK)
    }

    pub(super) fn is_over(&self) -> bool {
        self.stop == Stop::Over
    }

    /// Notes a deleted file that the array cannot do without; returns whether it is new.
    pub(super) fn note_deleted(&mut self, whose: &Watched) -> bool {
        self.deleted.insert(whose.clone())
    }

    /// Whether files were deleted that the array cannot do without.
    pub(super) fn has_deleted(&self) -> bool {
        !self.deleted.is_empty()
    }

    pub(super) fn forget_deleted(&mut self, whose: &Watched) {
        self.deleted.remove(whose);
    }

    /// Destages everything; the sender gets the result.
    pub(super) fn drain(&mut self, result: Sender<Drained>) {
        self.drains.push(result);
    }

    /// The same, but it also ends when it makes no progress.
    pub(super) fn drain_bounded(&mut self, result: Sender<Drained>) {
        self.drain(result);
        self.bounded = true;
    }

    /// Destages everything before the end; the sender then gets the result.
    pub(super) fn drain_at_end(&mut self, result: Sender<Drained>) {
        self.end_drains.push(result);
    }

    /// An operator wants the end even if files are lost.
    pub(super) fn force(&mut self) {
        self.forced = true;
    }

    /// `ask` is called with the time that the current step of the end may take, repeatedly as long
    /// as the step makes progress.
    pub(super) fn set_ask_for_time(&mut self, ask: AskForTime) {
        self.ask_for_time = Some(ask);
    }

    /// Begins the end: nothing new is started.
    pub(super) fn begin(&mut self, now: Instant, volume: &mut Volume) {
        self.stop = Stop::Ending;
        if !self.stuck {
            self.progress = (now, [u64::MAX; 5]);
        }
        volume.pause(true);
        volume.stop_scrub(now);
        volume.end_mirror(now);
    }

    /// Ends at once, whatever is lost.
    pub(super) fn end_now(&mut self, around: &mut Around<'_>) {
        if !self.is_over() {
            self.over(around);
        }
    }

    /// Answers the waits for all to be destaged that are over; the others have everything destaged.
    pub(super) fn look_at_drains(&mut self, now: Instant, setup: &Setup, volume: &mut Volume) {
        if self.drains.is_empty() {
            return;
        }
        let status = volume.status();
        let result = match status.dirty_pages {
            _ if status.stopped => Err(Undrained::Stopped),
            0 => Ok(()),
            pages if status.kept_pages > 0 && volume.drained() => {
                Err(Undrained::Kept(setup.name().to_string(), pages))
            }
            _ => return volume.flush_cache(now),
        };
        self.answer_drains(&result);
    }

    fn answer_drains(&mut self, result: &Drained) {
        for drain in self.drains.drain(..) {
            // A client that has disconnected does not need the answer.
            let _ = drain.send(result.clone());
        }
    }

    /// Asks for the time that the current step may take.
    fn ask_for_time(&mut self, now: Instant, around: &Around<'_>) {
        let (stop, progress) = (self.stop, self.progress.0);
        let (left, goes_on) = match stop {
            Stop::No | Stop::Over => return,
            Stop::Saving(until, _) => (until.since(now), true),
            _ => {
                let asked = self.asked;
                let patience = self.patience(around.setup, around.volume);
                (patience, asked.is_none_or(|(_, _, at)| at != progress))
            }
        };
        let due = match self.asked {
            Some((at, asked, _)) if asked == stop => now.since(at) >= ASK && goes_on,
            _ => true,
        };
        if due && let Some(ask) = &mut self.ask_for_time {
            ask(std::time::Duration::from_nanos(left.0 + MARGIN.0));
            self.asked = Some((now, stop, progress));
        }
    }

    /// The files that exist only as long as this server runs, and that the array needs.
    fn only_copies(&self, setup: &Setup, watch: &DeviceWatch) -> Vec<Open> {
        let of = |whose: &Watched| {
            let device = match whose {
                Watched::Member(number) => Device::Member(*number),
                Watched::Nvs(number) => Device::Nvs(*number),
                Watched::Spare(_) => return None,
            };
            let path = setup.path_of(device)?.to_string();
            Some(Open { path, file: watch.file(whose)? })
        };
        self.deleted.iter().filter_map(of).collect()
    }

    /// Refuses an end that would lose the only copy of deleted files.
    pub(super) fn check(&self, setup: &Setup, watch: &DeviceWatch) -> Result<(), Refusal> {
        let only = self.only_copies(setup, watch);
        if only.is_empty() {
            return Ok(());
        }
        let paths = only.into_iter().map(|open| open.path).collect();
        Err(Refusal::WouldLoseFiles(setup.name().to_string(), paths))
    }

    /// Takes the next step towards the end.
    pub(super) fn look(&mut self, now: Instant, mut around: Around<'_>) {
        self.looked = now;
        self.next_step(now, &mut around);
        self.ask_for_time(now, &around);
    }

    fn next_step(&mut self, now: Instant, around: &mut Around<'_>) {
        match self.stop {
            Stop::No if self.bounded => {
                // Ends a wait for all to be destaged that would never end.
                if !self.drains.is_empty() && self.is_stuck(now, around) {
                    self.stuck = true;
                    self.answer_drains(&Err(Undrained::Stuck));
                }
            }
            Stop::No | Stop::Over => {}
            Stop::Ending | Stop::Confirming | Stop::Marking => self.look_for_quiet(now, around),
            Stop::Saving(until, since) => {
                let only = self.only_copies(around.setup, around.watch);
                if only.iter().all(|open| open.is_saved(since)) {
                    self.over(around);
                } else if now >= until || self.forced {
                    self.leave(now, around);
                }
            }
            Stop::Leaving | Stop::MarkingAgain => {
                let is_stuck = self.is_stuck(now, around);
                let volume = &mut *around.volume;
                let idle = volume.idle() && !volume.is_changing();
                if is_stuck || idle && self.stop == Stop::MarkingAgain {
                    self.over(around);
                } else if idle {
                    volume.mark_stop(now);
                    self.stop = Stop::MarkingAgain;
                }
            }
        }
    }

    /// Waits until nothing is in flight.
    fn look_for_quiet(&mut self, now: Instant, around: &mut Around<'_>) {
        self.stuck = self.stuck || self.is_stuck(now, around);
        if self.stuck {
            return self.quiet(now, around);
        }
        let destages = self.only_in_memory(around.volume) || self.is_to_drain(around.volume);
        let volume = &mut *around.volume;
        let (idle, status) = (volume.idle(), volume.status());
        if destages || status.writes_waiting > 0 {
            // Only destages free the NVS space that these writes wait for.
            volume.pause(false);
            volume.flush_cache(now);
        } else if status.stopped || idle && self.stop == Stop::Marking {
            self.quiet(now, around);
        } else if idle && self.stop == Stop::Confirming {
            volume.mark_stop(now);
            self.stop = Stop::Marking;
        } else if idle {
            volume.confirm(now);
            self.stop = Stop::Confirming;
        } else {
            volume.pause(true);
        }
    }

    /// Whether dirty pages are in no NVS, or only in one whose file was deleted: they are destaged
    /// before the end.
    fn only_in_memory(&self, volume: &Volume) -> bool {
        let status = volume.status();
        let kept = |copy: &u16| !self.deleted.contains(&Watched::Nvs(*copy));
        let lost = !status.nvs_devices.iter().any(kept);
        // With too few members nothing can be destaged.
        let enough = || status.nvs_devices.is_empty() && volume.lost().members.is_empty();
        let can = !status.stopped || enough();
        lost && can && status.dirty_pages > 0 && !self.forced
    }

    /// Whether dirty pages are to be destaged before the end, and can be.
    fn is_to_drain(&self, volume: &Volume) -> bool {
        let status = volume.status();
        let kept = status.kept_pages > 0 && volume.drained();
        !self.end_drains.is_empty() && status.dirty_pages > 0 && !status.stopped && !kept
    }

    /// Whether it made no progress for longer than a device may take. Pages that an end would lose
    /// get as much time as files that are to be saved.
    fn is_stuck(&mut self, now: Instant, around: &Around<'_>) -> bool {
        let status = around.volume.status();
        let dirty = status.dirty_pages;
        if status.kept_pages > 0 && around.volume.drained() {
            self.only_kept = Some(dirty);
        }
        // Their destages are tried again and again, which is not progress as long as all fail.
        let retries = self.only_kept == Some(dirty);
        let progress = [
            dirty,
            if retries { 0 } else { u64::from(status.destages_in_flight) },
            status.requests as u64,
            u64::from(status.redoing),
            if retries { 0 } else { status.operations as u64 },
        ];
        if progress != self.progress.1 {
            self.progress = (now, progress);
        }
        now.since(self.progress.0) > self.patience(around.setup, around.volume)
    }

    /// How long it may make no progress before it is given up.
    fn patience(&self, setup: &Setup, volume: &Volume) -> Duration {
        let config = setup.config();
        let lost = volume.status().dirty_pages > 0 && self.only_in_memory(volume);
        let seconds = config.stall_seconds.max(if lost { config.save_seconds } else { 0 });
        Duration::from_secs(u64::from(seconds)) + GRACE
    }

    /// Nothing is in flight any more: only files are left to be saved.
    fn quiet(&mut self, now: Instant, around: &mut Around<'_>) {
        let only = self.only_copies(around.setup, around.watch);
        let seconds = around.setup.config().save_seconds;
        if only.is_empty() || self.forced || seconds == 0 {
            return self.leave(now, around);
        }
        let until = now + Duration::from_secs(u64::from(seconds));
        self.stop = Stop::Saving(until, std::time::SystemTime::now());
        let commands: Vec<String> = only.iter().map(Open::command).collect();
        let alarm = save_files(around.setup.name(), seconds, &commands);
        around.alarms.raise(alarm, ClearedBy::Nothing);
    }

    /// Ends. A deleted NVS that has nothing the disks lack is given up first, because the next
    /// start would wait for it.
    fn leave(&mut self, now: Instant, around: &mut Around<'_>) {
        let nvs = |whose: &&Watched| matches!(whose, Watched::Nvs(_));
        let deleted = self.deleted.iter().find(nvs).cloned();
        let status = around.volume.status();
        match deleted {
            Some(Watched::Nvs(copy)) if status.dirty_pages == 0 && !status.stopped => {
                self.forget_deleted(&Watched::Nvs(copy));
                around.volume.give_up_nvs(now, copy, Cause::Deleted);
                self.stop = Stop::Leaving;
            }
            _ => self.over(around),
        }
    }

    fn over(&mut self, around: &mut Around<'_>) {
        let since = match self.stop {
            Stop::Saving(_, since) => Some(since),
            _ => None,
        };
        let saved = |open: &Open| since.is_some_and(|since| open.is_saved(since));
        let only = self.only_copies(around.setup, around.watch);
        let unsaved = only.into_iter().filter(|open| !saved(open));
        self.unsaved = unsaved.map(|open| open.path).collect();
        self.stop = Stop::Over;
        let dirty = around.volume.status().dirty_pages;
        let result = match self.result(around.setup, around.volume, true) {
            Err(unfinished) => Err(Undrained::End(unfinished)),
            Ok(()) if dirty > 0 => Err(Undrained::Left(around.setup.name().to_string(), dirty)),
            Ok(()) => Ok(()),
        };
        for drain in &self.end_drains {
            let _ = drain.send(result.clone());
        }
    }

    /// What the server leaves undone after its end; with `all`, also pages that are safe in the
    /// NVS.
    pub(super) fn result(
        &self,
        setup: &Setup,
        volume: &Volume,
        all: bool,
    ) -> Result<(), Unfinished> {
        let (status, config) = (volume.status(), setup.config());
        let (dirty, nvs) = (status.dirty_pages, config.nvs.join(", "));
        let what = if !self.unsaved.is_empty() && !self.forced {
            UnfinishedWork::FilesLost(self.unsaved.clone())
        } else if dirty == 0 || self.forced || nvs.is_empty() {
            return Ok(());
        } else if status.nvs_devices.is_empty() {
            match config.stops_on_nvs_loss() {
                true => UnfinishedWork::OnFailedNvs(dirty, nvs),
                false => UnfinishedWork::Lost(dirty, nvs),
            }
        } else if !self.stuck && !all && self.end_drains.is_empty() {
            return Ok(());
        } else {
            let why = match () {
                () if status.stopped => WhyDirty::Stopped,
                () if self.stuck => WhyDirty::Stuck,
                () if status.kept_pages > 0 => WhyDirty::NoParity,
                () => WhyDirty::Asked,
            };
            UnfinishedWork::InNvs(dirty, nvs, why)
        };
        Err(Unfinished { array: setup.name().to_string(), what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_path_as_it_is() {
        assert_eq!(quoted("/a/b-1.img"), "/a/b-1.img");
        assert_eq!(quoted("/a b/it's"), "'/a b/it'\\''s'");
    }
}

#[cfg(test)]
#[path = "ending_tests.rs"]
mod end_tests;
