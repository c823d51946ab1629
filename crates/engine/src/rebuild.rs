//! Rebuild of a replaced disk in the order of its stripes, while service continues.
//!
//! A **window** is some complete write groups of the disk: its pages are read from the row's other
//! disks, computed by the driver, and written to the spare. Invariants:
//! - All pages of the disk below `done` are as if it had never failed: destages write it there, and
//!   reads are made from it. From `done` on it counts as failed.
//! - No destage of a group runs while a window with rows of it does: new destages wait for the
//!   window, and the window waits for destages in flight.
//! - `done` moves only when a window's writes are complete. A driver may persist a checkpoint
//!   ([`crate::event::Action::Checkpoint`]) when the spare is flushed; to begin again below `done`
//!   is safe.

use crate::array::geometry::Geometry;
use crate::array::plan::DiskRun;
use crate::event::{Action, DiskCommand, Owner};
use crate::limits::Limits;
use crate::state::ArrayState;
use crate::units::{DiskId, Duration, GroupId, Instant, Page};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The disk.
    pub disk: DiskId,
    /// Pages of it that are rebuilt.
    pub done_pages: u64,
    /// Pages that it has.
    pub disk_pages: u64,
    /// Time since it began here.
    pub elapsed: Duration,
    /// Time to go at its mean rate so far; `None` before anything is done.
    pub to_go: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowPhase {
    /// For destages of its groups to end.
    Waiting,
    Reading,
    /// The driver computes.
    Computing,
    Writing,
    Done,
}

struct Window {
    serial: u32,
    first: u64,
    pages: u64,
    phase: WindowPhase,
    /// Commands outstanding.
    pending: u32,
    /// A disk failed while it read: it must read again.
    invalid: bool,
    /// Single pages that disks could not read.
    unreadable: Vec<DiskRun>,
    began: Instant,
}

impl Window {
    fn has_rows_of(&self, geometry: &Geometry, group: GroupId) -> bool {
        let first = geometry.first_row(group);
        self.first < first + geometry.group_rows() && first < self.first + self.pages
    }
}

struct Rebuild {
    disk: DiskId,
    from: u64,
    next: u64,
    done: u64,
    windows: VecDeque<Window>,
    started: Instant,
    not_before: Instant,
    /// Share of the time now, in thousandths.
    share: u64,
    announced: u64,
}

/// Announcements of progress to the read cache, and checkpoints, over a complete disk.
const STEPS: u64 = 64;

impl Rebuild {
    fn window(&mut self, serial: u32) -> Option<&mut Window> {
        self.windows.iter_mut().find(|window| window.serial == serial)
    }

    /// Whether the group has rows on this disk.
    fn shares_rows_with(&self, geometry: &Geometry, group: GroupId) -> bool {
        let page = Page(group.0 * geometry.pages_per_group());
        !geometry.level.is_mirrored() || geometry.place(page).disk.0 / 2 == self.disk.0 / 2
    }
}

/// What follows when a command of a window is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterWindow {
    Nothing,
    /// The window is written: destages that it held back may begin.
    Written,
    /// And the rebuild has come far enough for a checkpoint.
    Checkpoint,
}

/// The rebuilds that are running.
#[derive(Default)]
pub(crate) struct Rebuilds {
    running: Vec<Rebuild>,
    limits: Limits,
    next_window: u32,
}

impl Rebuilds {
    pub(crate) fn count(&self) -> u16 {
        self.running.len() as u16
    }

    /// Whether this disk is being rebuilt.
    pub(crate) fn is_rebuilding(&self, disk: DiskId) -> bool {
        self.running.iter().any(|rebuild| rebuild.disk == disk)
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        for rebuild in &mut self.running {
            rebuild.share = limits.share_permille;
        }
    }

    /// Whether a destage of this group has to wait for a window. A window that is written counts
    /// until all before it are: for plans its rows are still lost.
    pub(crate) fn holds_back(&self, geometry: &Geometry, group: GroupId) -> bool {
        self.running.iter().any(|rebuild| {
            rebuild.shares_rows_with(geometry, group)
                && rebuild.windows.iter().any(|window| window.has_rows_of(geometry, group))
        })
    }

    /// How far the rebuilds are.
    pub(crate) fn progress<'a>(
        &'a self,
        state: &'a ArrayState,
    ) -> impl Iterator<Item = Progress> + 'a {
        self.running.iter().map(|rebuild| {
            let elapsed = state.now.since(rebuild.started);
            let disk_pages = state.geometry.disk_pages;
            let (made, left) = (rebuild.done - rebuild.from, disk_pages - rebuild.done);
            let to_go = || u128::from(elapsed.0) * u128::from(left) / u128::from(made);
            Progress {
                disk: rebuild.disk,
                done_pages: rebuild.done,
                disk_pages,
                elapsed,
                to_go: (made > 0).then(|| Duration(to_go().min(u128::from(u64::MAX)) as u64)),
            }
        })
    }

    /// When the next window may begin, if nothing else happens before.
    pub(crate) fn deadline(&self, state: &ArrayState) -> Option<Instant> {
        let idle = |rebuild: &&Rebuild| {
            rebuild.windows.is_empty() && rebuild.next < state.geometry.disk_pages && !state.paused
        };
        self.running.iter().filter(idle).map(|rebuild| rebuild.not_before).min()
    }

    /// The disk that this window is of; `None`: its rebuild is over.
    pub(crate) fn window_disk(&self, serial: u32) -> Option<DiskId> {
        self.rebuild_of(serial).map(|at| self.running[at].disk)
    }

    /// Begins a rebuild of a disk that is not being rebuilt. Its pages below `from` are rebuilt.
    pub(crate) fn begin(&mut self, disk: DiskId, from: u64, state: &mut ArrayState) {
        let from = from.min(state.geometry.disk_pages);
        let from = from - from % state.geometry.group_rows();
        state.faults.failed.insert(disk);
        state.faults.set_rebuilt_below(disk, from);
        self.running.push(Rebuild {
            disk,
            from,
            next: from,
            done: from,
            windows: VecDeque::new(),
            started: state.now,
            not_before: state.now,
            share: self.limits.share_permille,
            announced: from,
        });
    }

    /// Ends the rebuild of a disk, which is complete, or has failed again.
    pub(crate) fn end(
        &mut self,
        disk: DiskId,
        complete: bool,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) {
        self.running.retain(|rebuild| rebuild.disk != disk);
        state.faults.forget_rebuilt(disk);
        if complete {
            state.faults.failed.remove(disk);
            actions.push(Action::Rebuilt { disk });
        } else {
            actions.push(Action::RebuildStopped { disk });
        }
    }

    /// Disks whose rebuild cannot continue with the disks that are failed now.
    pub(crate) fn impossible(&self, state: &ArrayState) -> Vec<DiskId> {
        let survives = |rebuild: &&Rebuild| {
            let failed = state.faults.at(rebuild.done);
            debug_assert!(failed.contains(rebuild.disk));
            state.geometry.survives(&failed)
        };
        self.running.iter().filter(|r| !survives(r)).map(|rebuild| rebuild.disk).collect()
    }

    /// A disk failed: windows that have not been computed must read again.
    pub(crate) fn invalidate_reads(&mut self) {
        for window in self.running.iter_mut().flat_map(|rebuild| &mut rebuild.windows) {
            window.invalid |= matches!(window.phase, WindowPhase::Reading | WindowPhase::Computing);
        }
    }

    /// Begins the windows that may begin now. `busy` has the groups whose rows are being destaged.
    pub(crate) fn pump<I: Iterator<Item = GroupId>>(
        &mut self,
        state: &mut ArrayState,
        busy: impl Fn() -> I,
        actions: &mut Vec<Action>,
    ) {
        for at in 0..self.running.len() {
            if !state.paused {
                self.open_windows(at, state);
            }
            for place in 0..self.running[at].windows.len() {
                let rebuild = &self.running[at];
                let window = &rebuild.windows[place];
                // A scrub that ran when the disk failed ends too.
                let is_busy = |group: GroupId| {
                    window.has_rows_of(&state.geometry, group)
                        && rebuild.shares_rows_with(&state.geometry, group)
                };
                if window.phase == WindowPhase::Waiting
                    && !busy().chain(state.faults.locks.holds()).any(is_busy)
                {
                    self.read_window(at, place, state, actions);
                }
            }
        }
    }

    /// Disks whose rebuild is complete.
    pub(crate) fn finished(&self, geometry: &Geometry) -> Vec<DiskId> {
        let complete = |rebuild: &&Rebuild| rebuild.done == geometry.disk_pages;
        self.running.iter().filter(complete).map(|rebuild| rebuild.disk).collect()
    }

    fn open_windows(&mut self, at: usize, state: &ArrayState) {
        let limits = self.limits;
        let unit = state.geometry.group_rows();
        let rebuild = &mut self.running[at];
        let depth = if limits.is_limited() { 1 } else { limits.depth.max(1) };
        while rebuild.windows.len() < depth
            && rebuild.next < state.geometry.disk_pages
            && state.now >= rebuild.not_before
        {
            let pages = (limits.window_pages / unit).max(1) * unit;
            let pages = pages.min(state.geometry.disk_pages - rebuild.next);
            rebuild.windows.push_back(Window {
                serial: self.next_window,
                first: rebuild.next,
                pages,
                phase: WindowPhase::Waiting,
                pending: 0,
                invalid: false,
                unreadable: Vec::new(),
                began: state.now,
            });
            self.next_window = self.next_window.wrapping_add(1);
            rebuild.next += pages;
        }
    }

    fn read_window(
        &mut self,
        at: usize,
        place: usize,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) {
        let rebuild = &mut self.running[at];
        let window = &mut rebuild.windows[place];
        (window.phase, window.invalid) = (WindowPhase::Reading, false);
        window.unreadable.clear();
        let (first, pages) = (window.first, window.pages);
        let failed_at = |page| state.faults.at(page);
        let reads = state.geometry.rebuild_reads(rebuild.disk, first, pages, failed_at);
        submit(window, &reads, false, state, actions);
    }

    fn rebuild_of(&self, serial: u32) -> Option<usize> {
        self.running.iter().position(|r| r.windows.iter().any(|w| w.serial == serial))
    }

    /// A command of a window is done. `reads_mean` is the mean response time of host reads.
    pub(crate) fn command_done(
        &mut self,
        serial: u32,
        reads_mean: Duration,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) -> AfterWindow {
        // The rebuild may have been stopped since.
        let Some(at) = self.rebuild_of(serial) else { return AfterWindow::Nothing };
        let disk = self.running[at].disk;
        let window = self.running[at].window(serial).expect("just found");
        window.pending -= 1;
        if window.pending > 0 {
            return AfterWindow::Nothing;
        }
        match window.phase {
            WindowPhase::Reading if window.invalid => window.phase = WindowPhase::Waiting,
            WindowPhase::Reading => {
                window.phase = WindowPhase::Computing;
                let (first, pages) = (window.first, window.pages as u32);
                actions.push(Action::Regenerate { window: serial, disk, first, pages });
            }
            WindowPhase::Writing => {
                window.phase = WindowPhase::Done;
                return self.window_written(at, serial, reads_mean, state, actions);
            }
            WindowPhase::Waiting | WindowPhase::Computing | WindowPhase::Done => {
                unreachable!("a window without commands")
            }
        }
        AfterWindow::Nothing
    }

    /// The driver has computed the pages of a window.
    pub(crate) fn regenerated(
        &mut self,
        serial: u32,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) {
        let Some(at) = self.rebuild_of(serial) else { return };
        let disk = self.running[at].disk;
        let window = self.running[at].window(serial).expect("just found");
        if window.invalid {
            window.phase = WindowPhase::Waiting;
            return;
        }
        window.phase = WindowPhase::Writing;
        let run = DiskRun { disk, first: window.first, pages: window.pages as u32 };
        submit(window, &[run], true, state, actions);
    }

    fn window_written(
        &mut self,
        at: usize,
        serial: u32,
        reads_mean: Duration,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) -> AfterWindow {
        let (limits, disk_pages) = (self.limits, state.geometry.disk_pages);
        let slow = limits.reads_under.is_some_and(|most| reads_mean > most);
        let rebuild = &mut self.running[at];
        let window = rebuild.window(serial).expect("just written");
        let (took, pages) = (state.now.since(window.began), window.pages);
        rebuild.share = match slow {
            true => (rebuild.share * 3 / 4).max(5),
            false => (rebuild.share + 50).min(limits.share_permille.clamp(1, 1000)),
        };
        let mut pause = took.0 / rebuild.share * (1000 - rebuild.share);
        if let Some(most) = (pages * 1_000_000_000).checked_div(limits.least_pages_per_s) {
            pause = pause.min(most.saturating_sub(took.0));
        }
        rebuild.not_before = state.now + Duration(pause);
        while rebuild.windows.front().is_some_and(|w| w.phase == WindowPhase::Done) {
            let window = rebuild.windows.pop_front().expect("looked at");
            rebuild.done = window.first + window.pages;
        }
        let (disk, done) = (rebuild.disk, rebuild.done);
        state.faults.set_rebuilt_below(disk, done);
        if done - rebuild.announced >= (disk_pages / STEPS).max(1) && done < disk_pages {
            rebuild.announced = done;
            actions.push(Action::Checkpoint { disk, below: done });
            return AfterWindow::Checkpoint;
        }
        AfterWindow::Written
    }

    /// A read of a window failed. [`Rebuilds::command_done`] follows.
    pub(crate) fn read_failed(
        &mut self,
        serial: u32,
        command: &DiskCommand,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) {
        let Some(at) = self.rebuild_of(serial) else { return };
        let DiskCommand { disk, first, pages, .. } = *command;
        let run = DiskRun { disk, first, pages };
        let rebuild = &mut self.running[at];
        let rebuilt = rebuild.disk;
        let window = rebuild.window(serial).expect("just found");
        if state.faults.lost(disk, first) {
            window.invalid = true;
        } else if pages > 1 {
            let singles: Vec<DiskRun> = run.single_pages().collect();
            submit(window, &singles, false, state, actions);
        } else if !window.unreadable.contains(&run) {
            window.unreadable.push(run);
            // The row is computed from the other parity, or not at all.
            let mut failed = state.faults.at(first);
            let before = state.geometry.rebuild_reads(rebuilt, first, 1, |_| failed.clone());
            for unreadable in window.unreadable.iter().filter(|r| r.first == first) {
                failed.insert(unreadable.disk);
            }
            if state.geometry.survives(&failed) {
                let mut more = state.geometry.rebuild_reads(rebuilt, first, 1, |_| failed.clone());
                more.retain(|run| !before.contains(run));
                submit(window, &more, false, state, actions);
            } else {
                actions.push(Action::Unrecoverable { disk: rebuilt, page: first });
            }
        }
    }
}

fn submit(
    window: &mut Window,
    runs: &[DiskRun],
    write: bool,
    state: &mut ArrayState,
    actions: &mut Vec<Action>,
) {
    window.pending += runs.len() as u32;
    state.submit(Owner::Rebuild(window.serial), runs, write, actions);
}
