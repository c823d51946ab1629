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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::disks::DiskSet;
    use crate::array::geometry::Level;
    use crate::counters::Counters;
    use crate::dispatch::{Dispatch, Order};
    use crate::faults::Faults;
    use crate::idle::IdleTime;

    const SPARE: DiskId = DiskId(0);
    const PAGES: u64 = 256;

    fn state() -> ArrayState {
        state_of(Level::Raid5, 4)
    }

    /// Another disk is rebuilt below the second page of the window.
    #[test]
    fn a_window_reads_each_page_from_disks_that_have_it() {
        let geometry = state_of(Level::Raid6, 5).geometry;
        let other = DiskId(1);
        let failed_at = |page| {
            let mut failed = DiskSet::default();
            failed.insert(SPARE);
            if page > 4 {
                failed.insert(other);
            }
            failed
        };
        let at_once = geometry.rebuild_reads(SPARE, 4, 4, failed_at);
        let each = (4..8).flat_map(|page| geometry.rebuild_reads(SPARE, page, 1, failed_at));
        let pages = |run: DiskRun| (run.first..run.end()).map(move |page| (run.disk, page));
        let mut wanted: Vec<(DiskId, u64)> = each.flat_map(pages).collect();
        let mut read: Vec<(DiskId, u64)> = at_once.into_iter().flat_map(pages).collect();
        wanted.sort_unstable();
        read.sort_unstable();
        assert_eq!(read, wanted);
        assert!(read.iter().all(|(disk, page)| *disk != other || *page == 4));
    }

    /// Groups of two rows.
    fn state_of(level: Level, disks: u16) -> ArrayState {
        let (strip_pages, group_stripes, disk_pages) = (2, 1, PAGES);
        ArrayState {
            geometry: Geometry { level, disks, strip_pages, group_stripes, disk_pages },
            dispatch: Dispatch::new(disks, 8, Order::Arrival, disk_pages),
            faults: Faults::default(),
            idle: IdleTime::new(disks),
            counters: Counters::default(),
            now: Instant::ZERO,
            paused: false,
        }
    }

    /// A rebuild of the spare from this page on, one window after the other.
    fn begun(from: u64, limits: Limits, state: &mut ArrayState) -> Rebuilds {
        let mut rebuilds = Rebuilds::default();
        rebuilds.set_limits(Limits { depth: 1, ..limits });
        rebuilds.begin(SPARE, from, state);
        rebuilds
    }

    fn pump(rebuilds: &mut Rebuilds, state: &mut ArrayState) -> Vec<Action> {
        let mut actions = Vec::new();
        rebuilds.pump(state, core::iter::empty::<GroupId>, &mut actions);
        actions
    }

    /// The groups whose destages have to wait.
    fn held(rebuilds: &Rebuilds, state: &ArrayState) -> Vec<u64> {
        let held = |group: &u64| rebuilds.holds_back(&state.geometry, GroupId(*group));
        (0..state.geometry.groups()).filter(held).collect()
    }

    /// Carries out these commands of windows; what the driver must do next.
    fn done(rebuilds: &mut Rebuilds, state: &mut ArrayState, commands: &[Action]) -> Vec<Action> {
        let mut actions = Vec::new();
        for command in commands {
            let Action::Disk(DiskCommand { disk, owner, .. }) = *command else {
                panic!("{command:?}")
            };
            let Owner::Rebuild(serial) = owner else { panic!("{owner:?}") };
            state.done(disk, owner, &mut actions);
            rebuilds.command_done(serial, Duration(0), state, &mut actions);
        }
        actions
    }

    /// Carries out a window, which takes this long; what followed, and what else the driver must
    /// do.
    fn window(
        rebuilds: &mut Rebuilds,
        state: &mut ArrayState,
        took: Duration,
        reads_mean: Duration,
    ) -> (AfterWindow, Vec<Action>) {
        let (mut after, mut others) = (AfterWindow::Nothing, Vec::new());
        let mut actions = pump(rebuilds, state);
        assert!(!actions.is_empty(), "no window may begin");
        while let Some(action) = actions.pop() {
            match action {
                Action::Disk(DiskCommand { disk, owner, write, .. }) => {
                    assert_eq!(after, AfterWindow::Nothing, "the write comes last");
                    let Owner::Rebuild(serial) = owner else { panic!("{owner:?}") };
                    if write {
                        state.now += took;
                    }
                    state.done(disk, owner, &mut actions);
                    after = rebuilds.command_done(serial, reads_mean, state, &mut actions);
                }
                Action::Regenerate { window, .. } => {
                    rebuilds.regenerated(window, state, &mut actions);
                }
                other => others.push(other),
            }
        }
        (after, others)
    }

    /// While hosts read slowly, the share goes down by quarters; afterwards it comes back step by
    /// step. The pause behind a window is what the share leaves of the time.
    #[test]
    fn the_share_follows_the_reads_of_hosts() {
        let mut state = state();
        let reads_under = Some(Duration(1000));
        let limits =
            Limits { window_pages: 8, share_permille: 400, reads_under, ..Limits::default() };
        let mut rebuilds = begun(0, limits, &mut state);
        let (slow, quick, took) = (Duration(1001), Duration(1000), Duration(1_000_000));
        for (reads, share) in [
            (slow, 300),
            (slow, 225),
            (slow, 168),
            (quick, 218),
            (quick, 268),
            (slow, 201),
            (quick, 251),
            (quick, 301),
            (quick, 351),
            (quick, 400),
            (quick, 400),
        ] {
            window(&mut rebuilds, &mut state, took, reads);
            let due = state.now + Duration(took.0 / share * (1000 - share));
            assert_eq!(rebuilds.deadline(&state), Some(due), "{share}");
            state.now = Instant(due.0 - 1);
            assert!(pump(&mut rebuilds, &mut state).is_empty(), "{share}");
            state.now = due;
        }
        let mut state = self::state();
        let mut rebuilds = begun(0, Limits { share_permille: 5, ..limits }, &mut state);
        window(&mut rebuilds, &mut state, took, slow);
        let due = state.now + Duration(took.0 / 5 * 995);
        assert_eq!(rebuilds.deadline(&state), Some(due), "and no lower");
    }

    #[test]
    fn the_least_bandwidth_ends_a_pause() {
        let least = Limits { window_pages: 8, least_pages_per_s: 1000, ..Limits::default() };
        // Eight pages in 8 ms.
        for (share_permille, took, pause) in
            [(100, 1_000_000, 7_000_000), (500, 1_000_000, 1_000_000), (100, 9_000_000, 0)]
        {
            let mut state = state();
            let mut rebuilds = begun(0, Limits { share_permille, ..least }, &mut state);
            window(&mut rebuilds, &mut state, Duration(took), Duration(0));
            let due = Some(state.now + Duration(pause));
            assert_eq!(rebuilds.deadline(&state), due, "{share_permille} {took}");
        }
    }

    /// A 64th of the disk is four pages here, and a window two. The time to go is estimated from
    /// what was done here.
    #[test]
    fn a_rebuild_says_how_far_it_is_and_announces_each_64th() {
        let mut state = state();
        state.now = Instant(100);
        let limits = Limits { window_pages: 3, ..Limits::default() };
        let mut rebuilds = begun(9, limits, &mut state);
        let progress = |rebuilds: &Rebuilds, state: &ArrayState| {
            let Progress { disk, done_pages, disk_pages, elapsed, to_go } =
                rebuilds.progress(state).next().expect("one");
            assert_eq!((disk, disk_pages), (SPARE, PAGES));
            (done_pages, elapsed.0, to_go.map(|to_go| to_go.0))
        };
        assert_eq!(progress(&rebuilds, &state), (8, 0, None), "complete groups alone");
        for done in (10..=PAGES).step_by(2) {
            assert!(rebuilds.finished(&state.geometry).is_empty());
            let all = window(&mut rebuilds, &mut state, Duration(1000), Duration(0));
            let expected = match done {
                PAGES => (AfterWindow::Written, None),
                _ if (done - 8).is_multiple_of(4) => {
                    let announced = Action::Checkpoint { disk: SPARE, below: done };
                    (AfterWindow::Checkpoint, Some(announced))
                }
                _ => (AfterWindow::Written, None),
            };
            assert_eq!((all.0, &all.1[..]), (expected.0, expected.1.as_slice()), "{done}");
            let elapsed = (done - 8) / 2 * 1000;
            let to_go = elapsed * (PAGES - done) / (done - 8);
            assert_eq!(progress(&rebuilds, &state), (done, elapsed, Some(to_go)));
            let lost = [done - 1, done].map(|page| state.faults.lost(SPARE, page));
            assert_eq!(lost, [false, true]);
        }
        assert_eq!(rebuilds.finished(&state.geometry), [SPARE]);
        assert_eq!(rebuilds.deadline(&state), None);
        let mut actions = Vec::new();
        rebuilds.end(SPARE, true, &mut state, &mut actions);
        assert_eq!(actions, [Action::Rebuilt { disk: SPARE }]);
        assert_eq!((rebuilds.count(), state.faults.failed.is_empty()), (0, true));
    }

    /// Groups 4 to 7 have the rows of the pages 8 to 15.
    #[test]
    fn a_window_holds_back_the_destages_of_its_rows() {
        let mut state = state();
        let mut rebuilds = begun(8, Limits { window_pages: 8, ..Limits::default() }, &mut state);
        assert!(held(&rebuilds, &state).is_empty());
        state.paused = true;
        assert_eq!(rebuilds.deadline(&state), None);
        assert!(pump(&mut rebuilds, &mut state).is_empty(), "it is paused");
        state.paused = false;
        assert_eq!(rebuilds.deadline(&state), Some(state.now));
        // It waits for the destages that run, and for no others.
        let mut actions = Vec::new();
        for busy in [4, 7] {
            rebuilds.pump(&mut state, || core::iter::once(GroupId(busy)), &mut actions);
            assert!(actions.is_empty(), "{busy}");
            assert_eq!(held(&rebuilds, &state), [4, 5, 6, 7]);
        }
        rebuilds.pump(&mut state, || [3, 8].into_iter().map(GroupId), &mut actions);
        assert_eq!(actions.len(), 3, "a read of each other disk");
    }

    /// Groups 4 and 6 are on the first pair, 5 and 7 on the second.
    #[test]
    fn on_mirrors_a_window_holds_back_the_destages_of_its_pair() {
        for (spare, groups) in [(0, [4, 6]), (1, [4, 6]), (2, [5, 7]), (3, [5, 7])] {
            let mut state = state_of(Level::Raid10, 4);
            let mut rebuilds = Rebuilds::default();
            rebuilds.set_limits(Limits { window_pages: 4, depth: 1, ..Limits::default() });
            rebuilds.begin(DiskId(spare), 4, &mut state);
            let mut actions = Vec::new();
            for busy in groups {
                rebuilds.pump(&mut state, || core::iter::once(GroupId(busy)), &mut actions);
                assert!(actions.is_empty(), "{spare}: {busy}");
            }
            assert_eq!(held(&rebuilds, &state), groups, "{spare}");
            let others = || groups.into_iter().map(|group| GroupId(group ^ 1));
            rebuilds.pump(&mut state, others, &mut actions);
            let (disk, owner) = (DiskId(spare ^ 1), Owner::Rebuild(0));
            let read = DiskCommand { disk, first: 4, pages: 4, write: false, owner };
            assert_eq!(actions, [Action::Disk(read)]);
        }
    }

    /// 256 pages are 42 windows of six and one of four.
    #[test]
    fn the_last_window_ends_with_the_disk() {
        let mut state = state();
        let mut rebuilds = Rebuilds::default();
        rebuilds.set_limits(Limits { window_pages: 7, depth: 100, ..Limits::default() });
        rebuilds.begin(SPARE, 0, &mut state);
        assert!(!pump(&mut rebuilds, &mut state).is_empty());
        let windows = rebuilds.running[0].windows.iter().map(|window| (window.first, window.pages));
        let all = (0..42).map(|nth| (nth * 6, 6)).chain([(252, 4)]);
        assert_eq!(windows.collect::<Vec<(u64, u64)>>(), all.collect::<Vec<(u64, u64)>>());
        assert!(pump(&mut rebuilds, &mut state).is_empty(), "all are being read");
    }

    #[test]
    fn the_end_of_one_rebuild_leaves_another_as_it_is() {
        let mut state = state_of(Level::Raid6, 5);
        let mut rebuilds = Rebuilds::default();
        rebuilds.set_limits(Limits { window_pages: 4, depth: 2, ..Limits::default() });
        for disk in [1, 3] {
            rebuilds.begin(DiskId(disk), 0, &mut state);
        }
        let disks = |rebuilds: &Rebuilds| {
            let rebuilding = |disk: &u16| rebuilds.is_rebuilding(DiskId(*disk));
            (rebuilds.count(), (0..5).filter(rebuilding).collect::<Vec<u16>>())
        };
        let windows = |rebuilds: &Rebuilds| {
            [0, 1, 2, 3, 4].map(|serial| rebuilds.window_disk(serial).map(|disk| disk.0))
        };
        assert_eq!(disks(&rebuilds), (2, [1, 3].to_vec()));
        let reads = pump(&mut rebuilds, &mut state);
        assert_eq!(windows(&rebuilds), [Some(1), Some(1), Some(3), Some(3), None]);
        let mut actions = Vec::new();
        rebuilds.end(DiskId(1), false, &mut state, &mut actions);
        assert_eq!(actions, [Action::RebuildStopped { disk: DiskId(1) }]);
        assert_eq!(disks(&rebuilds), (1, [3].to_vec()));
        assert_eq!(windows(&rebuilds), [None, None, Some(3), Some(3), None]);
        assert!(state.faults.failed.contains(DiskId(1)));
        // What is read for the one that has ended is of no use.
        let computed = done(&mut rebuilds, &mut state, &reads);
        let of = |action: &Action| match action {
            Action::Regenerate { window, disk, .. } => (*window, disk.0),
            other => panic!("{other:?}"),
        };
        assert_eq!(computed.iter().map(of).collect::<Vec<_>>(), [(2, 3), (3, 3)]);
    }

    /// What was read before a failure may be too little, or of the disk that has failed.
    #[test]
    fn a_window_that_is_not_written_yet_is_read_again_after_a_failure() {
        let mut state = state_of(Level::Raid6, 5);
        let limits = Limits { window_pages: 4, ..Limits::default() };
        let mut rebuilds = begun(0, limits, &mut state);
        let is_computed = |actions: &[Action]| matches!(actions, [Action::Regenerate { .. }]);
        let reads = pump(&mut rebuilds, &mut state);
        state.faults.failed.insert(DiskId(2));
        rebuilds.invalidate_reads();
        assert!(done(&mut rebuilds, &mut state, &reads).is_empty());
        let reads = pump(&mut rebuilds, &mut state);
        assert!(is_computed(&done(&mut rebuilds, &mut state, &reads)));
        // While it is computed.
        rebuilds.invalidate_reads();
        let mut actions = Vec::new();
        rebuilds.regenerated(0, &mut state, &mut actions);
        assert!(actions.is_empty());
        let reads = pump(&mut rebuilds, &mut state);
        assert!(is_computed(&done(&mut rebuilds, &mut state, &reads)));
        rebuilds.regenerated(0, &mut state, &mut actions);
        let owner = Owner::Rebuild(0);
        let write = DiskCommand { disk: SPARE, first: 0, pages: 4, write: true, owner };
        assert_eq!(actions, [Action::Disk(write)]);
        rebuilds.invalidate_reads();
        done(&mut rebuilds, &mut state, &actions);
        assert_eq!(rebuilds.running[0].done, 4, "what is being written is right");
    }

    #[test]
    fn a_rebuild_is_impossible_when_too_many_other_disks_have_failed() {
        for (level, failed, impossible) in [
            (Level::Raid5, 2, true),
            (Level::Raid6, 2, false),
            (Level::Raid10, 2, false),
            (Level::Raid10, 1, true),
        ] {
            let mut state = state_of(level, 4);
            let rebuilds = begun(8, Limits::default(), &mut state);
            assert_eq!(rebuilds.impossible(&state), []);
            state.faults.failed.insert(DiskId(failed));
            let expected: &[DiskId] = if impossible { &[SPARE] } else { &[] };
            assert_eq!(rebuilds.impossible(&state), expected, "{level:?}: {failed}");
        }
    }
}
