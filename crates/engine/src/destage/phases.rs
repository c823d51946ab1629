//! The order of a destage on real disks (docs/durability.md, steps 3 to 8): read, intend, write
//! parity, flush, write data, flush, release. Where a disk fails on the way, the plan is made
//! anew without it; once something may have been written, as a redo.

use super::{Destage, Destager, Surroundings, command};
use crate::array::geometry::Geometry;
use crate::array::plan::{DiskRun, runs};
use crate::array::safe::{RowAt, SafePlan, is_set};
use crate::event::Action;
use crate::rebuild::{holds_back, rows_of};
use crate::units::GroupId;
use alloc::vec::Vec;

/// What the order of disk writes is to bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// All reads, then all writes, then release: what the papers measure.
    #[default]
    Papers,
    /// Crashes and failing disks. Needs [`crate::destage::Issue::Group`].
    Safe,
}

/// Most kept destages that are tried again at once.
const KEPT_AT_ONCE: usize = 8;

/// Where a safe destage stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    #[default]
    Reading,
    /// A scrub has its group.
    Held,
    /// The driver computes parity and makes the intent durable.
    Intending,
    /// A row cannot be computed: its pages stay in NVS until it can. It counts for nothing that is
    /// in flight.
    Kept,
    /// A read that needs the row's parity as it is must end first.
    Locked,
    Parity,
    ParityFlush,
    Data,
    DataFlush,
}

impl Phase {
    /// Nothing is written yet.
    fn before_writes(self) -> bool {
        matches!(
            self,
            Phase::Reading | Phase::Held | Phase::Intending | Phase::Kept | Phase::Locked
        )
    }
}

/// What a safe destage has besides its group and mask.
#[derive(Default)]
pub(crate) struct Safe {
    pub(crate) phase: Phase,
    plan: SafePlan,
    /// The disks may hold parts of an earlier try.
    redo: bool,
    /// Pages of the rows of which they may; `None`: of any.
    doubt: Option<Vec<u64>>,
    /// A disk failed under it.
    spoiled: bool,
    /// Single pages that disks could not read.
    unreadable: Vec<DiskRun>,
}

impl Safe {
    /// Whether a disk failed under it; it is as if none had.
    pub(crate) fn take_spoiled(&mut self) -> bool {
        core::mem::take(&mut self.spoiled)
    }

    /// It is over: nothing is in doubt.
    pub(crate) fn nothing_written(&mut self) {
        self.doubt = None;
    }

    /// Whether rows of the group may be inconsistent on the disks now.
    fn unsettled(&self) -> bool {
        self.redo || !self.phase.before_writes()
    }
}

impl Destage {
    pub(crate) fn is_kept(&self) -> bool {
        self.counted > 0 && self.safe.phase == Phase::Kept
    }

    /// Its disks are being read or written.
    pub(crate) fn is_at_work(&self) -> bool {
        self.safe.phase != Phase::Kept
    }
}

impl Destager {
    /// A destage of pages whose intent an earlier run left open. Its pages are in flight already.
    /// `doubt`: those of the rows that may have been written in part.
    pub(crate) fn adopt(
        &mut self,
        group: GroupId,
        mask: &[u64],
        doubt: Vec<u64>,
        around: &mut Surroundings<'_>,
    ) {
        let per_group = around.geometry.pages_per_group();
        let index = self.take_idle();
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

    /// Plans a destage, or plans it anew, and issues its reads.
    pub(crate) fn plan_safely(&mut self, index: u32, redo: bool, around: &mut Surroundings<'_>) {
        let destage = &mut self.destages[index as usize];
        let (group, mask) = (destage.group, &destage.mask);
        let safe = &mut destage.safe;
        (safe.phase, safe.redo, safe.spoiled) = (Phase::Reading, redo, false);
        safe.unreadable.clear();
        if around.faults.locks.held(group) {
            safe.phase = Phase::Held;
            return;
        }
        let failed = around.faults.at(rows_of(around.geometry, group).0);
        around.geometry.plan_safely(group, mask, &failed, redo, &mut safe.plan);
        around.counters.rows += safe.plan.rows;
        around.counters.rows_without_reads += safe.plan.rows_without_reads;
        let reads = core::mem::take(&mut safe.plan.reads);
        self.issue(index, &reads, false, around);
        if reads.is_empty() {
            self.next_phase(index, around);
        }
    }

    fn issue(&mut self, index: u32, ios: &[DiskRun], write: bool, around: &mut Surroundings<'_>) {
        self.destages[index as usize].pending += ios.len() as u32;
        let counters = &mut around.counters;
        *(if write { &mut counters.disk_writes } else { &mut counters.disk_reads }) +=
            ios.len() as u64;
        for io in ios {
            around.dispatch.submit(command(*io, write, index), around.actions);
        }
    }

    /// Nothing of the present phase is outstanding. Returns whether space became free.
    pub(crate) fn next_phase(&mut self, index: u32, around: &mut Surroundings<'_>) -> bool {
        let destage = &mut self.destages[index as usize];
        let safe = &mut destage.safe;
        if safe.spoiled {
            let redo = safe.unsettled() || safe.phase != Phase::Reading;
            self.plan_safely(index, redo, around);
            return false;
        }
        match safe.phase {
            Phase::Held | Phase::Kept => unreachable!("nothing is asked for it"),
            Phase::Reading => {
                safe.phase = Phase::Intending;
                around.actions.push(Action::Intend { index });
            }
            Phase::Intending | Phase::Locked => {
                if around.faults.locks.contains(destage.group) {
                    safe.phase = Phase::Locked;
                    return false;
                }
                safe.doubt = None;
                let mut writes = core::mem::take(&mut safe.plan.parity);
                safe.phase = Phase::Parity;
                if !safe.plan.parity_first || writes.is_empty() {
                    safe.phase = Phase::Data;
                    writes.append(&mut safe.plan.data);
                }
                self.issue(index, &writes, true, around);
                if writes.is_empty() {
                    // Every disk that would be written is gone.
                    return self.next_phase(index, around);
                }
            }
            Phase::Parity | Phase::Data => {
                safe.phase =
                    if safe.phase == Phase::Parity { Phase::ParityFlush } else { Phase::DataFlush };
                around.actions.push(Action::FlushDisks { index });
            }
            Phase::ParityFlush => {
                safe.phase = Phase::Data;
                let writes = core::mem::take(&mut safe.plan.data);
                self.issue(index, &writes, true, around);
                if writes.is_empty() {
                    return self.next_phase(index, around);
                }
            }
            Phase::DataFlush => {
                let Surroundings { cache, actions, clean, .. } = around;
                let pages = cache.directory.release(destage.group, &destage.mask);
                let group = destage.group;
                if let Some(clean) = clean {
                    let released = (group, destage.mask.as_slice());
                    clean.released(released, index, &cache.directory, actions);
                }
                cache.destaged(group);
                self.finish(index);
                actions.push(Action::Released { index, group, pages });
                return true;
            }
        }
        false
    }

    /// A disk failed: what was planned with it and has not begun to write is planned anew.
    pub(crate) fn disk_failed(&mut self) {
        for destage in self.destages.iter_mut().filter(|d| d.counted > 0) {
            let safe = &mut destage.safe;
            safe.spoiled |= safe.phase.before_writes();
        }
    }

    /// A command of a safe destage failed, and what it was for cannot be had otherwise.
    pub(crate) fn spoil(&mut self, index: u32) {
        self.destages[index as usize].safe.spoiled = true;
    }

    /// A read of a safe destage failed: its pages are read one by one, and the row's other disks
    /// in the stead of those that fail again.
    pub(crate) fn read_peers(&mut self, index: u32, run: DiskRun, around: &mut Surroundings<'_>) {
        if run.pages > 1 {
            let singles: Vec<DiskRun> = run.single_pages().collect();
            return self.issue(index, &singles, false, around);
        }
        let known = &mut self.destages[index as usize].safe.unreadable;
        if known.contains(&run) {
            return;
        }
        known.push(run);
        let peers = around.geometry.peers(run, &around.faults.at(run.first));
        if peers.is_empty() {
            self.spoil(index);
        }
        self.issue(index, &peers, false, around);
    }

    /// A group is no longer locked: its destage may go on.
    pub(crate) fn unlocked(&mut self, group: GroupId, around: &mut Surroundings<'_>) {
        let waits =
            |d: &Destage| d.group == group && d.counted > 0 && d.safe.phase == Phase::Locked;
        if let Some(index) = self.destages.iter().position(waits) {
            self.next_phase(index as u32, around);
        }
    }

    /// A group is no longer held: its destage begins to read.
    pub(crate) fn unheld(&mut self, group: GroupId, around: &mut Surroundings<'_>) {
        let waits = |d: &Destage| d.group == group && d.counted > 0 && d.safe.phase == Phase::Held;
        if let Some(index) = self.destages.iter().position(waits) {
            self.plan_safely(index as u32, false, around);
        }
    }

    /// A row of this destage cannot be computed from what can be read. Nothing of it was written
    /// in this try, so nothing needs to be: its pages wait.
    pub(crate) fn keep(&mut self, index: u32) {
        let destage = &mut self.destages[index as usize];
        assert!(destage.safe.phase == Phase::Intending, "only what is computed is kept");
        destage.safe.phase = Phase::Kept;
        self.in_flight -= destage.counted;
    }

    /// Tries some of what is kept again, in turn, where nothing else has its rows. Reads that fail
    /// take a disk long, so few are made at once.
    pub(crate) fn try_kept(&mut self, around: &mut Surroundings<'_>) {
        let count = self.destages.len();
        let mut tried = 0;
        let from = self.next_kept;
        for index in (0..count).map(|step| (from + step) % count) {
            let destage = &self.destages[index];
            let group = destage.group;
            let busy = holds_back(around.rebuilds, around.geometry, group)
                || around.faults.locks.held(group);
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

    /// Whether any destage is kept.
    pub(crate) fn keeps_any(&self) -> bool {
        self.destages.iter().any(Destage::is_kept)
    }

    /// Whether a destage that is kept may have written parts of this row.
    pub(crate) fn is_row_in_doubt(&self, geometry: &Geometry, group: GroupId, at: &RowAt) -> bool {
        let strips = 0..geometry.data_strips() as u16;
        let written = |d: &Destage| {
            let pages = d.safe.doubt.as_ref().unwrap_or(&d.mask);
            strips.clone().any(|strip| is_set(pages, geometry.bit_of(at, strip)))
        };
        self.destages.iter().any(|d| d.is_kept() && d.group == group && d.safe.redo && written(d))
    }

    /// Groups of destages that are kept.
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

    /// Pages of a destage under way, bit i = page i of the group.
    pub(crate) fn mask(&self, index: u32) -> &[u64] {
        &self.destages[index as usize].mask
    }

    /// Whether a destage redoes what may have been written in part.
    pub(crate) fn is_redo(&self, index: u32) -> bool {
        self.destages[index as usize].safe.redo
    }
}
