//! How a server ends: what is in flight ends, the log is confirmed. What only an open, deleted file
//! or only memory holds is saved first, where that can be done in time. No step waits for ever.

use super::alarms::Ends;
use super::backend::ArrayBackend;
use super::watch::Watched;
use crate::Port;
use destage_block::Driver;
use destage_engine::units::{Duration, Instant};
use destage_served::Cause;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// How often an ending server looks how far it is.
const LOOK: Duration = Duration(100_000_000);
/// What is added to the stall limit before an ending server gives up: by then the volume has given
/// up the device, and continues without it.
const GRACE: Duration = Duration(2_000_000_000);
/// What an ending server asks for beyond the time that a step may take: clients are given 5 s for
/// their replies, and devices are closed.
const MARGIN: Duration = Duration(30_000_000_000);
/// How often it asks for time at most.
const ASK: Duration = Duration(1_000_000_000);

/// Hears how much more time the end may take.
type AskForTime = Box<dyn FnMut(std::time::Duration) + Send>;

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stop {
    #[default]
    No,
    /// What is in flight ends; nothing new begins.
    Ending,
    /// The log's last commit is confirmed.
    Confirming,
    /// All devices are marked: one that is restored from an older copy is seen at the next start.
    Marking,
    /// Files are to be saved until then; those that were written at this time or later count.
    Saving(Instant, std::time::SystemTime),
    /// The disks are told that they have everything: the NVS was deleted and not saved.
    Leaving,
    Over,
}

/// What is known of the end of a server.
#[derive(Default)]
pub(super) struct Ending {
    stop: Stop,
    /// Files that were deleted and that the array cannot do without.
    deleted: BTreeSet<Watched>,
    /// An operator wants the end though files are lost by it.
    forced: bool,
    /// Everything is destaged before the end: who hears whether it was.
    drains: Vec<Sender<Result<(), String>>>,
    /// A wait for all to be destaged ends, too, when it comes no further.
    pub(super) bounded: bool,
    /// When it was last seen to come nearer to its end, and how far it was.
    progress: (Instant, [u64; 5]),
    looked: Instant,
    /// It came no further.
    stuck: bool,
    /// Files that were not saved.
    unsaved: Vec<String>,
    /// Whoever ends a server that takes too long is asked for time here.
    ask_for_time: Option<AskForTime>,
    /// When it was last asked: in which step, and how far that had come.
    asked: Option<(Instant, Stop, Instant)>,
}

impl Ending {
    /// When to look again.
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

    /// Notes a deleted file that the array cannot do without; whether it is new.
    pub(super) fn note(&mut self, whose: &Watched) -> bool {
        self.deleted.insert(whose.clone())
    }

    /// Whether files were deleted that the array cannot do without.
    pub(super) fn has_deleted(&self) -> bool {
        !self.deleted.is_empty()
    }

    pub(super) fn forget(&mut self, whose: &Watched) {
        self.deleted.remove(whose);
    }
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

impl ArrayBackend {
    /// Has the server end: nothing new is begun.
    pub(super) fn begin_end(&mut self, port: &mut Port) {
        let now = port.now();
        self.ending.stop = Stop::Ending;
        if !self.ending.stuck {
            self.ending.progress = (now, [u64::MAX; 5]);
        }
        self.volume.pause(true);
        self.volume.stop_scrub(now);
        self.volume.end_mirror(now);
    }

    /// Ends at once, whatever is lost by it.
    pub(super) fn end_now(&mut self) {
        if !self.ending.is_over() {
            self.over();
        }
    }

    /// An operator wants the end though files are lost by it.
    pub(crate) fn force_end(&mut self) {
        self.ending.forced = true;
    }

    /// Destages everything before the end; the sender then hears whether that was done.
    pub(crate) fn drain_at_end(&mut self, hears: Sender<Result<(), String>>) {
        self.ending.drains.push(hears);
    }

    /// Says whom to ask for time when the end takes long: it hears how long the step may take that
    /// is being done, again and again as long as that comes nearer to its end.
    pub fn set_ask_for_time(&mut self, ask: impl FnMut(std::time::Duration) + Send + 'static) {
        self.ending.ask_for_time = Some(Box::new(ask));
    }

    /// Asks for the time that the step of the end may take which is being done.
    fn ask_for_time(&mut self, now: Instant) {
        let (stop, far) = (self.ending.stop, self.ending.progress.0);
        let (left, goes_on) = match stop {
            Stop::No | Stop::Over => return,
            Stop::Saving(until, _) => (until.since(now), true),
            _ => {
                let asked = self.ending.asked;
                (self.patience(), asked.is_none_or(|(_, _, asked_far)| asked_far != far))
            }
        };
        let due = match self.ending.asked {
            Some((at, asked, _)) if asked == stop => now.since(at) >= ASK && goes_on,
            _ => true,
        };
        if due && let Some(ask) = &mut self.ending.ask_for_time {
            ask(std::time::Duration::from_nanos(left.0 + MARGIN.0));
            self.ending.asked = Some((now, stop, far));
        }
    }

    /// The files that exist only as long as this server runs, and that the array needs.
    fn only_copies(&self) -> Vec<Open> {
        let of = |whose: &Watched| {
            let (names, number) = match whose {
                Watched::Member(number) => (&self.config().disks, number),
                Watched::Nvs(number) => (&self.config().nvs, number),
                Watched::Spare(_) => return None,
            };
            let path = names.get(usize::from(*number))?.clone();
            Some(Open { path, file: self.watch.file(whose)? })
        };
        self.ending.deleted.iter().filter_map(of).collect()
    }

    /// Why the server is not to end, if it is not.
    pub(crate) fn refuses_end(&self) -> Option<String> {
        let only = self.only_copies();
        if only.is_empty() {
            return None;
        }
        let (name, pid) = (self.name(), std::process::id());
        let paths: Vec<&str> = only.iter().map(|open| open.path.as_str()).collect();
        let (were, them) = if only.len() == 1 { ("was", "it") } else { ("were", "them") };
        Some(format!(
            "{name}: {} {were} deleted. The server has the only copy, which is lost when it ends, \
             and the array with it. To save {them}: `kill {pid}` (SIGTERM); the alarm save-files \
             then says how. To lose {them}: destage stop {name} --force",
            paths.join(", ")
        ))
    }

    /// Takes the next step towards the end.
    pub(super) fn look_at_end(&mut self, port: &mut Port) {
        let now = port.now();
        self.ending.looked = now;
        self.next_step(now);
        self.ask_for_time(now);
    }

    fn next_step(&mut self, now: Instant) {
        match self.ending.stop {
            Stop::No if self.ending.bounded => self.look_at_drain(now),
            Stop::No | Stop::Over => {}
            Stop::Ending | Stop::Confirming | Stop::Marking => self.look_for_quiet(now),
            Stop::Saving(until, since) => {
                let saved = self.only_copies().iter().all(|open| open.is_saved(since));
                if saved {
                    self.over();
                } else if now >= until || self.ending.forced {
                    self.leave(now);
                }
            }
            Stop::Leaving => {
                if self.volume.idle() && !self.volume.is_changing() || self.is_stuck(now) {
                    self.over();
                }
            }
        }
    }

    /// Ends a wait for all to be destaged that would have no end.
    fn look_at_drain(&mut self, now: Instant) {
        if !self.drains.is_empty() && self.is_stuck(now) {
            self.ending.stuck = true;
            for drain in self.drains.drain(..) {
                let _ = drain.send(Err("the disks took no writes in time".to_string()));
            }
        }
    }

    /// Waits until nothing is in flight.
    fn look_for_quiet(&mut self, now: Instant) {
        self.ending.stuck = self.ending.stuck || self.is_stuck(now);
        let idle = self.volume.idle();
        if self.ending.stuck {
            self.quiet(now);
        } else if self.only_in_memory()
            || self.is_to_drain()
            || self.volume.status().writes_waiting > 0
        {
            // Writes that wait for NVS space are taken by destages alone.
            self.volume.pause(false);
            self.volume.flush_cache(now);
        } else if self.volume.status().stopped || idle && self.ending.stop == Stop::Marking {
            self.quiet(now);
        } else if idle && self.ending.stop == Stop::Confirming {
            self.volume.mark_stop(now);
            self.ending.stop = Stop::Marking;
        } else if idle {
            self.volume.confirm(now);
            self.ending.stop = Stop::Confirming;
        } else {
            self.volume.pause(true);
        }
    }

    /// Whether pages are dirty that no NVS has, or only one whose file was deleted: then they are
    /// destaged before the end.
    fn only_in_memory(&self) -> bool {
        let status = self.volume.status();
        let kept = |copy: &u16| !self.ending.deleted.contains(&Watched::Nvs(*copy));
        let lost = !status.nvs_devices.iter().any(kept);
        // With too few members nothing can be destaged.
        let enough = || status.nvs_devices.is_empty() && self.volume.lost().members.is_empty();
        let can = !status.stopped || enough();
        lost && can && status.dirty_pages > 0 && !self.ending.forced
    }

    /// Whether pages are dirty that are to be destaged before the end, and can be.
    fn is_to_drain(&self) -> bool {
        let status = self.volume.status();
        let kept = status.kept_pages > 0 && self.volume.drained();
        !self.ending.drains.is_empty() && status.dirty_pages > 0 && !status.stopped && !kept
    }

    /// Whether it has come no further for longer than a device may take. What would be lost by an
    /// end is waited for as long as files that are to be saved.
    fn is_stuck(&mut self, now: Instant) -> bool {
        let status = self.volume.status();
        let far = [
            status.dirty_pages,
            u64::from(status.destages_in_flight),
            status.requests as u64,
            u64::from(status.redoing),
            status.operations as u64,
        ];
        if far != self.ending.progress.1 {
            self.ending.progress = (now, far);
        }
        now.since(self.ending.progress.0) > self.patience()
    }

    /// How long it may come no further before it is given up.
    fn patience(&self) -> Duration {
        let config = self.config();
        let lost = self.volume.status().dirty_pages > 0 && self.only_in_memory();
        let seconds = config.stall_seconds.max(if lost { config.save_seconds } else { 0 });
        Duration::from_secs(u64::from(seconds)) + GRACE
    }

    /// Nothing is in flight any more: what is left is to save files.
    fn quiet(&mut self, now: Instant) {
        let only = self.only_copies();
        let seconds = self.config().save_seconds;
        if only.is_empty() || self.ending.forced || seconds == 0 {
            self.leave(now);
            return;
        }
        let until = now + Duration::from_secs(u64::from(seconds));
        self.ending.stop = Stop::Saving(until, std::time::SystemTime::now());
        let commands: Vec<String> = only.iter().map(Open::command).collect();
        let text = format!(
            "save-files: the server of {} ends in {seconds} s, and the only copy of deleted files \
             with it. Save them now: {}. The server ends by itself when they are saved; then \
             start it again. A second SIGTERM ends it at once",
            self.name(),
            commands.join(" and ")
        );
        self.told(text, Ends::Never);
    }

    /// Ends. A deleted NVS that has nothing the disks lack is given up first: else the next start
    /// would wait for it.
    fn leave(&mut self, now: Instant) {
        let nvs = |whose: &&Watched| matches!(whose, Watched::Nvs(_));
        let deleted = self.ending.deleted.iter().find(nvs).cloned();
        let status = self.volume.status();
        match deleted {
            Some(Watched::Nvs(copy)) if status.dirty_pages == 0 && !status.stopped => {
                self.ending.forget(&Watched::Nvs(copy));
                self.volume.give_up_nvs(now, copy, Cause::Deleted);
                self.ending.stop = Stop::Leaving;
            }
            _ => self.over(),
        }
    }

    fn over(&mut self) {
        let since = match self.ending.stop {
            Stop::Saving(_, since) => Some(since),
            _ => None,
        };
        let saved = |open: &Open| since.is_some_and(|since| open.is_saved(since));
        let unsaved = self.only_copies().into_iter().filter(|open| !saved(open));
        self.ending.unsaved = unsaved.map(|open| open.path).collect();
        self.ending.stop = Stop::Over;
        let result = match (self.ended(true), self.dirty_pages()) {
            (Ok(()), dirty @ 1..) => {
                Err(format!("{}: {dirty} dirty pages were not destaged", self.name()))
            }
            (result, _) => result,
        };
        for hears in &self.ending.drains {
            let _ = hears.send(result.clone());
        }
    }

    /// After the server has ended: what it leaves undone, for an error.
    ///
    /// # Errors
    /// In words: what is lost, or where it still is.
    pub fn ended(&self, all: bool) -> Result<(), String> {
        let (name, status) = (self.name(), self.volume.status());
        let (dirty, nvs) = (status.dirty_pages, self.config().nvs.join(", "));
        if !self.ending.unsaved.is_empty() && !self.ending.forced {
            let paths = self.ending.unsaved.join(", ");
            return Err(format!(
                "{name}: the server ended before these deleted files were saved, and they are \
                 lost: {paths}. Restore them from a backup"
            ));
        }
        if dirty == 0 || self.ending.forced || nvs.is_empty() {
            return Ok(());
        }
        if status.nvs_devices.is_empty() {
            let stops = self.config().on_nvs_loss == "stop";
            return Err(match stops {
                true => format!(
                    "{name}: {dirty} dirty pages were not destaged. Only the NVS that failed can \
                     have them ({nvs}): bring it back, and start again"
                ),
                false => format!(
                    "{name}: {dirty} dirty pages were not destaged and are lost: the NVS ({nvs}) \
                     had failed before. Restore what was written last from a backup"
                ),
            });
        }
        if !self.ending.stuck && !all && self.ending.drains.is_empty() {
            return Ok(());
        }
        let why = if status.stopped {
            "the array has stopped"
        } else if self.ending.stuck {
            "the disks took no writes in time"
        } else if status.kept_pages > 0 {
            "members cannot read what their parity is computed from"
        } else {
            "the server was told to end"
        };
        Err(format!(
            "{name}: {dirty} dirty pages were not destaged: {why}. They are in the NVS ({nvs}), \
             and nothing is lost: start again when the disks are in order"
        ))
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
