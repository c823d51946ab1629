//! The order of a destage on real disks (docs/durability.md, steps 3 to 8): read, intend, write
//! parity, flush, write data, flush, release. If a disk fails on the way, the destage is planned
//! again without it; once something may have been written, as a redo.

use super::{Destage, Destager, Surroundings};
use crate::array::geometry::Geometry;
use crate::array::plan::{DiskRun, runs};
use crate::array::safe::{DestagePages, SafePlan, is_set};
use crate::event::{Action, Owner};
use crate::units::GroupId;
use alloc::vec;
use alloc::vec::Vec;

/// Which failures the order of disk writes must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// All reads, then all writes, then release: what the papers measure.
    #[default]
    Papers,
    /// Crashes and failing disks. Needs [`crate::destage::Issue::Group`].
    Safe,
}

/// Most kept destages that are retried at once.
const KEPT_AT_ONCE: usize = 8;

/// The phase of a safe destage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum DestagePhase {
    #[default]
    Reading,
    /// A scrub has its group.
    Held,
    /// The driver computes parity and makes the intent durable.
    Intending,
    /// A row cannot be computed: its pages stay in the NVS until it can. It does not count as in
    /// flight.
    Kept,
    /// A read that needs the row's present parity must end first.
    Locked,
    Parity,
    ParityFlush,
    Data,
    DataFlush,
}

impl DestagePhase {
    /// Whether nothing is written yet.
    fn before_writes(self) -> bool {
        matches!(
            self,
            DestagePhase::Reading
                | DestagePhase::Held
                | DestagePhase::Intending
                | DestagePhase::Kept
                | DestagePhase::Locked
        )
    }
}

/// What a safe destage has besides its group and mask.
#[derive(Default)]
pub(super) struct SafeState {
    phase: DestagePhase,
    plan: SafePlan,
    /// The disks may hold parts of an earlier attempt.
    redo: bool,
    /// Pages of the rows of which they may; `None`: of any.
    doubt: Option<Vec<u64>>,
    /// A disk failed after it was planned.
    invalid: bool,
    /// Single pages that disks could not read.
    unreadable: Vec<DiskRun>,
    /// The plan has commands over pages that it does not need.
    bridged: bool,
    /// One of those failed: from then on the destage reads only what it needs.
    narrow: bool,
}

impl SafeState {
    /// Whether a disk failed after it was planned; clears the mark.
    pub(super) fn take_invalid(&mut self) -> bool {
        core::mem::take(&mut self.invalid)
    }

    /// It is over: nothing is in doubt.
    pub(super) fn nothing_written(&mut self) {
        self.doubt = None;
        self.narrow = false;
    }

    /// Whether rows of the group may be inconsistent on the disks now.
    fn unsettled(&self) -> bool {
        self.redo || !self.phase.before_writes()
    }
}

impl Destage {
    fn is_kept(&self) -> bool {
        self.counted > 0 && self.safe.phase == DestagePhase::Kept
    }

    /// Whether its disks are being read or written.
    pub(super) fn is_at_work(&self) -> bool {
        self.safe.phase != DestagePhase::Kept
    }
}

impl Destager {
    /// Redoes a destage whose intent the last run left open. Its pages are in flight already.
    /// `doubt`: its pages in rows that may be partly written.
    pub(crate) fn adopt(
        &mut self,
        group: GroupId,
        mask: &[u64],
        doubt: Vec<u64>,
        around: &mut Surroundings<'_>,
    ) {
        let per_group = around.state.geometry.pages_per_group();
        let index = self.take_unused();
        let counted = runs(mask, 0, per_group).count() as u32;
        let destage = &mut self.destages[index as usize];
        (destage.group, destage.counted) = (group, counted);
        destage.mask = mask.to_vec();
        let redo = doubt.iter().any(|word| *word != 0);
        destage.safe.doubt = Some(doubt);
        self.in_flight += counted;
        around.actions.push(Action::Begin { index, group });
        self.plan_safely(index, redo, around);
    }

    /// Plans a destage, the first time or again, and issues its reads.
    pub(super) fn plan_safely(&mut self, index: u32, redo: bool, around: &mut Surroundings<'_>) {
        let destage = &mut self.destages[index as usize];
        let (group, mask) = (destage.group, &destage.mask);
        let safe = &mut destage.safe;
        (safe.phase, safe.redo, safe.invalid) = (DestagePhase::Reading, redo, false);
        safe.unreadable.clear();
        if around.state.faults.locks.held(group) {
            safe.phase = DestagePhase::Held;
            return;
        }
        let failed = around.state.faults.at(around.state.geometry.first_row(group));
        let incomplete = around.cache.directory.incomplete_in_flight(group);
        let pages = DestagePages { dirty: mask, incomplete };
        let geometry = around.state.geometry;
        let (memory, whole) = (&mut self.memory, failed.is_empty() && around.rebuilds.count() == 0);
        if redo || !whole {
            let rows = geometry.rows(group, mask);
            rows.for_each(|at| memory.forget(at.page, around.actions));
        }
        let known = |row| memory.known(row);
        geometry.plan_knowing(group, pages, &failed, redo, &known, &mut safe.plan);
        around.state.counters.recalled_pages += safe.plan.recalled.len() as u64;
        for (disk, row) in core::mem::take(&mut safe.plan.recalled) {
            around.actions.push(Action::Recall { index, disk, row });
        }
        let bridge = self.config.bridge.unwrap_or_else(|| around.cache.policy_bridge());
        // What a crash or a failed disk left is repaired with what is needed alone.
        safe.bridged =
            failed.is_empty() && !redo && !safe.narrow && geometry.bridge(&mut safe.plan, bridge);
        around.state.counters.rows += safe.plan.rows;
        around.state.counters.rows_without_reads += safe.plan.rows_without_reads;
        let reads = core::mem::take(&mut safe.plan.reads);
        self.issue(index, &reads, false, around);
        if reads.is_empty() {
            self.next_phase(index, around);
        }
    }

    fn issue(&mut self, index: u32, runs: &[DiskRun], write: bool, around: &mut Surroundings<'_>) {
        self.destages[index as usize].pending += runs.len() as u32;
        around.state.submit(Owner::Destage(index), runs, write, around.actions);
    }

    /// Nothing of the present phase is outstanding. Returns whether space became free.
    pub(crate) fn next_phase(&mut self, index: u32, around: &mut Surroundings<'_>) -> bool {
        let destage = &mut self.destages[index as usize];
        let safe = &mut destage.safe;
        if safe.invalid {
            let redo = safe.unsettled() || safe.phase != DestagePhase::Reading;
            if redo && !safe.unsettled() {
                // What it would have written is logged, and nothing is written yet.
                safe.doubt = Some(vec![0; destage.mask.len()]);
            }
            self.plan_safely(index, redo, around);
            return false;
        }
        match safe.phase {
            DestagePhase::Held | DestagePhase::Kept => unreachable!("a destage without commands"),
            DestagePhase::Reading => {
                safe.phase = DestagePhase::Intending;
                around.actions.push(Action::Intend { index });
            }
            DestagePhase::Intending | DestagePhase::Locked => {
                if around.state.faults.locks.contains(destage.group) {
                    safe.phase = DestagePhase::Locked;
                    return false;
                }
                safe.doubt = None;
                let mut writes = core::mem::take(&mut safe.plan.parity);
                safe.phase = DestagePhase::Parity;
                if !safe.plan.parity_first || writes.is_empty() {
                    safe.phase = DestagePhase::Data;
                    writes.append(&mut safe.plan.data);
                }
                self.issue(index, &writes, true, around);
                if writes.is_empty() {
                    // Every disk that would be written is gone.
                    return self.next_phase(index, around);
                }
            }
            DestagePhase::Parity | DestagePhase::Data => {
                safe.phase = if safe.phase == DestagePhase::Parity {
                    DestagePhase::ParityFlush
                } else {
                    DestagePhase::DataFlush
                };
                around.actions.push(Action::FlushDisks { index });
            }
            DestagePhase::ParityFlush => {
                safe.phase = DestagePhase::Data;
                let writes = core::mem::take(&mut safe.plan.data);
                self.issue(index, &writes, true, around);
                if writes.is_empty() {
                    return self.next_phase(index, around);
                }
            }
            DestagePhase::DataFlush => {
                self.release(index, around);
                return true;
            }
        }
        false
    }

    /// What a destage wrote is on the disks: its space becomes free.
    fn release(&mut self, index: u32, around: &mut Surroundings<'_>) {
        let destage = &self.destages[index as usize];
        let Surroundings { cache, actions, read_cache, state, rebuilds, .. } = around;
        if self.memory.is_on() && state.faults.failed.is_empty() && rebuilds.count() == 0 {
            let rows = state.geometry.rows(destage.group, &destage.mask);
            let (geometry, mask) = (&state.geometry, &destage.mask);
            self.memory.destaged(index, geometry, rows, mask, actions);
        }
        let pages = cache.directory.release(destage.group, &destage.mask);
        let group = destage.group;
        let released = (group, destage.mask.as_slice());
        read_cache.released(released, index, &cache.directory, actions);
        cache.destaged(group);
        self.finish(index, state);
        actions.push(Action::Released { index, group, pages });
    }

    /// A disk failed: destages that have not begun to write are planned again.
    pub(crate) fn disk_failed(&mut self) {
        for destage in self.destages.iter_mut().filter(|d| d.counted > 0) {
            let safe = &mut destage.safe;
            safe.invalid |= safe.phase.before_writes();
        }
    }

    /// Disks are no longer what they were, or are in doubt: nothing of them is known.
    pub(crate) fn forget_rows(&mut self, actions: &mut Vec<Action>) {
        self.memory.clear(actions);
    }

    /// These pages of a disk are written, and not by a destage.
    pub(crate) fn forget_run(&mut self, run: DiskRun, actions: &mut Vec<Action>) {
        for row in run.first..run.end() {
            self.memory.forget(row, actions);
        }
    }

    /// A command of a safe destage failed, and there is no other way with this plan.
    pub(crate) fn invalidate_plan(&mut self, index: u32) {
        self.destages[index as usize].safe.invalid = true;
    }

    /// A read of a safe destage failed: its pages are read one by one, and instead of those that
    /// fail again the row's other disks.
    pub(crate) fn read_peers(&mut self, index: u32, run: DiskRun, around: &mut Surroundings<'_>) {
        let safe = &mut self.destages[index as usize].safe;
        if core::mem::take(&mut safe.bridged) {
            // It may be a page that nothing needs.
            (safe.narrow, safe.invalid) = (true, true);
        }
        if safe.invalid {
            return;
        }
        if run.pages > 1 {
            let singles: Vec<DiskRun> = run.single_pages().collect();
            return self.issue(index, &singles, false, around);
        }
        let known = &mut self.destages[index as usize].safe.unreadable;
        if known.contains(&run) {
            return;
        }
        known.push(run);
        let failed = around.state.faults.at(run.first);
        let mut peers = around.state.geometry.peers(run, &failed);
        // Without any the pages cannot be completed, and the driver says so.
        peers.retain(|peer| !failed.contains(peer.disk));
        self.issue(index, &peers, false, around);
    }

    /// A group is no longer locked: its destage continues.
    pub(crate) fn on_group_unlocked(&mut self, group: GroupId, around: &mut Surroundings<'_>) {
        let waits =
            |d: &Destage| d.group == group && d.counted > 0 && d.safe.phase == DestagePhase::Locked;
        if let Some(index) = self.destages.iter().position(waits) {
            self.next_phase(index as u32, around);
        }
    }

    /// A scrub no longer holds a group: its destage begins to read.
    pub(crate) fn on_group_released(&mut self, group: GroupId, around: &mut Surroundings<'_>) {
        let waits =
            |d: &Destage| d.group == group && d.counted > 0 && d.safe.phase == DestagePhase::Held;
        if let Some(index) = self.destages.iter().position(waits) {
            self.plan_safely(index as u32, false, around);
        }
    }

    /// A row of this destage cannot be computed from what can be read. Nothing of it was written
    /// in this attempt, so its pages can wait.
    pub(crate) fn keep(&mut self, index: u32) {
        let destage = &mut self.destages[index as usize];
        assert!(destage.safe.phase == DestagePhase::Intending, "only what is computed is kept");
        destage.safe.phase = DestagePhase::Kept;
        self.in_flight -= destage.counted;
    }

    /// Retries some kept destages, in turn, if nothing else has their rows. A read that fails takes
    /// a disk a long time, so only a few are made at once.
    pub(crate) fn try_kept(&mut self, around: &mut Surroundings<'_>) {
        let count = self.destages.len();
        let mut tried = 0;
        let from = self.next_kept;
        for index in (0..count).map(|step| (from + step) % count) {
            let destage = &self.destages[index];
            let group = destage.group;
            let busy = around.rebuilds.holds_back(&around.state.geometry, group)
                || around.state.faults.locks.held(group);
            if destage.is_kept() && !busy {
                self.in_flight += destage.counted;
                let redo = destage.safe.redo;
                self.plan_safely(index as u32, redo, around);
                tried += 1;
                if tried == KEPT_AT_ONCE {
                    self.next_kept = index + 1;
                    return;
                }
            }
        }
    }

    /// Whether a scrub must wait for a destage of this group. A kept destage does not count,
    /// unless an earlier try may have left its rows inconsistent.
    pub(crate) fn works_on(&self, group: GroupId) -> bool {
        let works = |d: &Destage| d.is_at_work() || d.safe.redo;
        self.destages.iter().any(|d| d.counted > 0 && d.group == group && works(d))
    }

    /// Whether the destage of a group is kept.
    pub(crate) fn keeps(&self, group: GroupId) -> bool {
        self.destages.iter().any(|d| d.is_kept() && d.group == group)
    }

    /// Whether a kept destage may have written parts of the row at this page of the disks.
    pub(crate) fn is_in_doubt(&self, geometry: &Geometry, page: u64) -> bool {
        if geometry.level.parities() == 0 || !self.destages.iter().any(Destage::is_kept) {
            return false;
        }
        let (group, at) = geometry.row_of_disk_page(page);
        let strips = 0..geometry.data_strips() as u16;
        let written = |d: &Destage| {
            let pages = d.safe.doubt.as_ref().unwrap_or(&d.mask);
            strips.clone().any(|strip| is_set(pages, geometry.bit_of(&at, strip)))
        };
        self.destages.iter().any(|d| d.is_kept() && d.group == group && d.safe.redo && written(d))
    }

    /// Groups of kept destages.
    pub(crate) fn kept(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.destages.iter().filter(|d| d.is_kept()).map(|d| d.group)
    }

    /// Whether the rows of a group may be inconsistent for as long as something cannot be read.
    pub(crate) fn is_kept_unsettled(&self, group: GroupId) -> bool {
        self.destages.iter().any(|d| d.is_kept() && d.group == group && d.safe.redo)
    }

    /// Whether rows of this group may be inconsistent on the disks now.
    pub(crate) fn unsettled(&self, group: GroupId) -> bool {
        self.destages.iter().any(|d| d.counted > 0 && d.group == group && d.safe.unsettled())
    }

    /// Whether a destage of this group writes nothing before all reads of its rows have ended. If
    /// more of them began, it might wait for ever.
    pub(crate) fn waits_for_reads(&self, group: GroupId) -> bool {
        let waits = |d: &Destage| d.counted > 0 && d.safe.phase == DestagePhase::Locked;
        self.destages.iter().any(|d| d.group == group && waits(d))
    }

    /// Pages of a destage in flight, bit i = page i of the group.
    pub(crate) fn mask(&self, index: u32) -> &[u64] {
        &self.destages[index as usize].mask
    }

    /// Whether a destage redoes what may have been written in part.
    pub(crate) fn is_redo(&self, index: u32) -> bool {
        self.destages[index as usize].safe.redo
    }
}

#[cfg(test)]
mod tests;
