//! Rebuilds in the controller: windows planned, read and written (rebuild.rs has what they are).

use super::Controller;
use crate::array::disks::DiskSet;
use crate::array::geometry::Level;
use crate::array::plan::DiskRun;
use crate::event::{Action, DiskCommand, Owner};
use crate::heads::NoHeads;
use crate::limits::Limits;
use crate::rebuild::{Phase, Progress, Rebuild, STEPS, Window, rows_of, unit};
use crate::units::{DiskId, Duration, GroupId, Instant, Page};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

impl Controller {
    pub(crate) fn disk_failed(&mut self, disk: DiskId, actions: &mut Vec<Action>) {
        let rebuilding = self.rebuilds.iter().any(|rebuild| rebuild.disk == disk);
        if self.faults.failed.insert(disk) || rebuilding {
            self.destager.disk_failed();
            self.rebuild_without(disk, actions);
            self.heed_faults();
        }
    }

    /// The disk that a window of a rebuild is of; `None`: it is over.
    #[must_use]
    pub fn window_disk(&self, serial: u32) -> Option<DiskId> {
        self.rebuild_of(serial).map(|at| self.rebuilds[at].disk)
    }

    pub(crate) fn repaired(&mut self, disk: DiskId) {
        self.faults.failed.remove(disk);
        self.heed_faults();
    }

    /// How often a group was put off.
    #[must_use]
    pub fn put_off(&self) -> u64 {
        self.put_off.count
    }

    /// Whether groups whose destage is dear while a disk is failed are put off once.
    pub fn put_off_dear(&mut self, enabled: bool) {
        self.put_off.enable(enabled);
    }

    /// Whether the row at this page of the disks may have been written in part by a destage that
    /// cannot be computed: what the row implies may be wrong.
    #[must_use]
    pub fn is_in_doubt(&self, page: u64) -> bool {
        if self.geometry.level.parities() == 0 || !self.destager.keeps_any() {
            return false;
        }
        let (group, at) = self.geometry.row_of_disk_page(page);
        self.destager.is_row_in_doubt(&self.geometry, group, &at)
    }

    /// The disks that are lost at a page of theirs: failed, and not rebuilt so far.
    #[must_use]
    pub fn failed_at(&self, page: u64) -> DiskSet {
        self.faults.at(page)
    }

    /// Sets how fast rebuilds may go, those under way too.
    pub fn set_rebuild_limits(&mut self, limits: Limits) {
        self.limits = limits;
        for rebuild in &mut self.rebuilds {
            rebuild.share = limits.share_permille;
        }
    }

    /// How far the rebuilds are.
    pub fn rebuilds(&self) -> impl Iterator<Item = Progress> + '_ {
        self.rebuilds.iter().map(|rebuild| {
            let elapsed = self.now.since(rebuild.started);
            let disk_pages = self.geometry.disk_pages;
            let (made, left) = (rebuild.done - rebuild.from, disk_pages - rebuild.done);
            let to_go = || u128::from(elapsed.0) * u128::from(left) / u128::from(made);
            Progress {
                disk: rebuild.disk,
                done_pages: rebuild.done,
                disk_pages,
                elapsed,
                to_go: (made > 0).then(|| Duration(to_go().min(u128::from(u64::MAX)) as u64)),
                lost_pages: rebuild.lost_pages,
            }
        })
    }

    /// When the controller wants [`crate::event::Event::Tick`], if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let idle = |rebuild: &&Rebuild| {
            rebuild.windows.is_empty() && rebuild.next < self.geometry.disk_pages && !self.paused
        };
        self.rebuilds.iter().filter(idle).map(|rebuild| rebuild.not_before).min()
    }

    /// A spare stands in for a failed disk. What it has below `from` is whole. One under way goes
    /// on as it is: its writes may be on their way.
    pub(crate) fn begin_rebuild(&mut self, disk: DiskId, from: u64) {
        if self.rebuilds.iter().any(|rebuild| rebuild.disk == disk) {
            return;
        }
        let from = from.min(self.geometry.disk_pages);
        let from = from - from % unit(&self.geometry);
        self.faults.failed.insert(disk);
        self.faults.set_whole_below(disk, from);
        self.rebuilds.push(Rebuild {
            disk,
            from,
            next: from,
            done: from,
            windows: VecDeque::new(),
            started: self.now,
            not_before: self.now,
            share: self.limits.share_permille,
            announced: from,
            lost_pages: 0,
        });
        self.heed_faults();
    }

    /// Ends the rebuild of a disk; it is whole, or failed as before.
    fn end_rebuild(&mut self, disk: DiskId, whole: bool, actions: &mut Vec<Action>) {
        self.rebuilds.retain(|rebuild| rebuild.disk != disk);
        self.faults.forget_whole(disk);
        if whole {
            self.faults.failed.remove(disk);
            actions.push(Action::Rebuilt { disk });
        } else {
            actions.push(Action::RebuildStopped { disk });
        }
        self.heed_faults();
        self.resume_held(actions);
    }

    /// A disk failed: a rebuild of it is over, one of another goes on if it can.
    pub(crate) fn rebuild_without(&mut self, disk: DiskId, actions: &mut Vec<Action>) {
        if self.rebuilds.iter().any(|rebuild| rebuild.disk == disk) {
            self.end_rebuild(disk, false, actions);
        }
        let survives = |disk: DiskId, page: u64| {
            let failed = self.faults.at(page);
            debug_assert!(failed.contains(disk));
            self.geometry.survives(&failed)
        };
        let over = self.rebuilds.iter().filter(|r| !survives(r.disk, r.done)).map(|r| r.disk);
        for disk in over.collect::<Vec<DiskId>>() {
            self.end_rebuild(disk, false, actions);
        }
        for rebuild in &mut self.rebuilds {
            for window in &mut rebuild.windows {
                window.spoiled |= matches!(window.phase, Phase::Reading | Phase::Computing);
            }
        }
    }

    /// Begins what windows may begin now.
    pub(crate) fn pump_rebuilds(&mut self, actions: &mut Vec<Action>) {
        for at in 0..self.rebuilds.len() {
            if !self.paused {
                self.open_windows(at);
            }
            for place in 0..self.rebuilds[at].windows.len() {
                let window = &self.rebuilds[at].windows[place];
                if window.phase == Phase::Waiting && !self.is_destaged_now(at, place) {
                    self.read_window(at, place, actions);
                }
            }
        }
        for disk in self.finished() {
            self.end_rebuild(disk, true, actions);
        }
    }

    fn finished(&self) -> Vec<DiskId> {
        let whole = |rebuild: &&Rebuild| rebuild.done == self.geometry.disk_pages;
        self.rebuilds.iter().filter(whole).map(|rebuild| rebuild.disk).collect()
    }

    fn open_windows(&mut self, at: usize) {
        let limits = self.limits;
        let unit = unit(&self.geometry);
        let rebuild = &mut self.rebuilds[at];
        let depth = if limits.is_limited() { 1 } else { limits.depth.max(1) };
        while rebuild.windows.len() < depth
            && rebuild.next < self.geometry.disk_pages
            && self.now >= rebuild.not_before
        {
            let pages = (limits.window_pages / unit).max(1) * unit;
            let pages = pages.min(self.geometry.disk_pages - rebuild.next);
            rebuild.windows.push_back(Window {
                serial: self.next_window,
                first: rebuild.next,
                pages,
                phase: Phase::Waiting,
                pending: 0,
                spoiled: false,
                unreadable: Vec::new(),
                began: self.now,
            });
            self.next_window = self.next_window.wrapping_add(1);
            rebuild.next += pages;
        }
    }

    fn is_destaged_now(&self, at: usize, place: usize) -> bool {
        let rebuild = &self.rebuilds[at];
        let window = &rebuild.windows[place];
        let of_pair = |group: GroupId| {
            let page = Page(group.0 * self.geometry.pages_per_group());
            self.geometry.level != Level::Raid10
                || self.geometry.place(page).disk.0 / 2 == rebuild.disk.0 / 2
        };
        // A scrub that was under way when the disk failed ends too.
        self.destager.under_way().chain(self.faults.locks.holds()).any(|group| {
            let (first, pages) = rows_of(&self.geometry, group);
            window.first < first + pages && first < window.first + window.pages && of_pair(group)
        })
    }

    fn read_window(&mut self, at: usize, place: usize, actions: &mut Vec<Action>) {
        let rebuild = &mut self.rebuilds[at];
        let window = &mut rebuild.windows[place];
        (window.phase, window.spoiled) = (Phase::Reading, false);
        window.unreadable.clear();
        let (serial, disk) = (window.serial, rebuild.disk);
        let (first, pages) = (window.first, window.pages);
        let failed = self.faults.at(first);
        let reads = self.geometry.rebuild_reads(disk, first, pages, &failed);
        self.submit_window(serial, &reads, false, actions);
    }

    fn submit_window(
        &mut self,
        serial: u32,
        runs: &[DiskRun],
        write: bool,
        actions: &mut Vec<Action>,
    ) {
        if let Some(window) = self.rebuilds.iter_mut().find_map(|r| r.window(serial)) {
            window.pending += runs.len() as u32;
        }
        let counters = &mut self.counters;
        *(if write { &mut counters.disk_writes } else { &mut counters.disk_reads }) +=
            runs.len() as u64;
        for DiskRun { disk, first, pages } in runs.iter().copied() {
            let owner = Owner::Rebuild(serial);
            self.dispatch.submit(DiskCommand { disk, first, pages, write, owner }, actions);
        }
    }

    fn rebuild_of(&self, serial: u32) -> Option<usize> {
        self.rebuilds.iter().position(|r| r.windows.iter().any(|w| w.serial == serial))
    }

    /// A command of a window is done.
    pub(crate) fn window_done(&mut self, serial: u32, actions: &mut Vec<Action>) {
        // The rebuild may have been stopped since.
        let Some(at) = self.rebuild_of(serial) else { return };
        let disk = self.rebuilds[at].disk;
        let window = self.rebuilds[at].window(serial).expect("just found");
        window.pending -= 1;
        if window.pending > 0 {
            return;
        }
        let (first, pages) = (window.first, window.pages);
        match window.phase {
            Phase::Reading if window.spoiled => window.phase = Phase::Waiting,
            Phase::Reading => {
                window.phase = Phase::Computing;
                let pages = pages as u32;
                actions.push(Action::Regenerate { window: serial, disk, first, pages });
            }
            Phase::Writing => {
                window.phase = Phase::Done;
                self.window_written(at, serial, actions);
            }
            Phase::Waiting | Phase::Computing | Phase::Done => unreachable!("nothing is asked"),
        }
    }

    /// The driver has computed the pages of a window.
    pub(crate) fn regenerated(&mut self, serial: u32, actions: &mut Vec<Action>) {
        let Some(at) = self.rebuild_of(serial) else { return };
        let disk = self.rebuilds[at].disk;
        let window = self.rebuilds[at].window(serial).expect("just found");
        if window.spoiled {
            window.phase = Phase::Waiting;
            return;
        }
        window.phase = Phase::Writing;
        let run = DiskRun { disk, first: window.first, pages: window.pages as u32 };
        self.submit_window(serial, &[run], true, actions);
    }

    fn window_written(&mut self, at: usize, serial: u32, actions: &mut Vec<Action>) {
        let (now, limits, disk_pages) = (self.now, self.limits, self.geometry.disk_pages);
        let slow = limits.reads_under.is_some_and(|most| self.read_mean > most);
        let rebuild = &mut self.rebuilds[at];
        let window = rebuild.window(serial).expect("just written");
        let (took, pages) = (now.since(window.began), window.pages);
        rebuild.share = match slow {
            true => (rebuild.share * 3 / 4).max(5),
            false => (rebuild.share + 50).min(limits.share_permille.clamp(1, 1000)),
        };
        let mut pause = took.0 / rebuild.share * (1000 - rebuild.share);
        if let Some(most) = (pages * 1_000_000_000).checked_div(limits.least_pages_per_s) {
            pause = pause.min(most.saturating_sub(took.0));
        }
        rebuild.not_before = now + Duration(pause);
        while rebuild.windows.front().is_some_and(|w| w.phase == Phase::Done) {
            let window = rebuild.windows.pop_front().expect("looked at");
            rebuild.done = window.first + window.pages;
        }
        let (disk, done) = (rebuild.disk, rebuild.done);
        self.faults.set_whole_below(disk, done);
        let rebuild = &mut self.rebuilds[at];
        if done - rebuild.announced >= (disk_pages / STEPS).max(1) && done < disk_pages {
            rebuild.announced = done;
            actions.push(Action::Checkpoint { disk, below: done });
            self.heed_faults();
        }
        // No reads since: nothing to give way to.
        self.read_mean = Duration(self.read_mean.0 - self.read_mean.0 / 8);
        self.resume_held(actions);
    }

    /// Destages that no window holds back any more go on.
    fn resume_held(&mut self, actions: &mut Vec<Action>) {
        self.with_destager(&NoHeads, actions, |destager, around| destager.resume_held(around));
    }

    /// A command of a window failed.
    pub(crate) fn window_failed(&mut self, command: &DiskCommand, actions: &mut Vec<Action>) {
        let Owner::Rebuild(serial) = command.owner else { unreachable!("only windows") };
        let Some(at) = self.rebuild_of(serial) else { return };
        let DiskCommand { disk, first, pages, write, .. } = *command;
        if write {
            // The spare cannot be written.
            let disk = self.rebuilds[at].disk;
            return self.end_rebuild(disk, false, actions);
        }
        let run = DiskRun { disk, first, pages };
        let gone = self.faults.lost(disk, first);
        let window = self.rebuilds[at].window(serial).expect("just found");
        if gone {
            window.spoiled = true;
        } else if pages > 1 {
            let singles: Vec<DiskRun> = run.single_pages().collect();
            self.submit_window(serial, &singles, false, actions);
        } else if !window.unreadable.contains(&run) {
            window.unreadable.push(run);
            let known: Vec<DiskId> =
                window.unreadable.iter().filter(|r| r.first == first).map(|r| r.disk).collect();
            self.replace_unreadable(at, first, &known, actions);
        }
        self.window_done(serial, actions);
    }

    /// A row cannot be computed from what was planned: with the other parity, or not at all.
    fn replace_unreadable(
        &mut self,
        at: usize,
        page: u64,
        unreadable: &[DiskId],
        actions: &mut Vec<Action>,
    ) {
        let rebuild = &self.rebuilds[at];
        let (disk, serial) = (rebuild.disk, self.serial_of(at, page));
        let mut failed = self.faults.at(page);
        let before = self.geometry.rebuild_reads(disk, page, 1, &failed);
        for disk in unreadable {
            failed.insert(*disk);
        }
        if self.geometry.survives(&failed) {
            let mut more = self.geometry.rebuild_reads(disk, page, 1, &failed);
            more.retain(|run| !before.contains(run));
            self.submit_window(serial, &more, false, actions);
        } else {
            self.rebuilds[at].lost_pages += 1;
            actions.push(Action::Unrecoverable { disk, page });
        }
    }

    fn serial_of(&self, at: usize, page: u64) -> u32 {
        let has = |w: &&Window| (w.first..w.first + w.pages).contains(&page);
        self.rebuilds[at].windows.iter().find(has).expect("a window's page").serial
    }
}
