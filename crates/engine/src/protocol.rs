//! The order of a destage on real disks (docs/durability.md, steps 3 to 8): read, intend, write
//! parity, flush, write data, flush, release. Where a disk fails on the way, the plan is made
//! anew without it; once something may have been written, as a redo.

use crate::array::disks::DiskSet;
use crate::array::geometry::Geometry;
use crate::array::plan::{DiskRun, runs};
use crate::array::safe::{RowAt, SafePlan, is_set};
use crate::controller::{Action, Controller};
use crate::destager::{Destage, Destager, Surroundings, command};
use crate::rebuild::rows_of;
use crate::units::{DiskId, GroupId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What the order of disk writes is to bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// All reads, then all writes, then release: what the papers measure.
    #[default]
    Papers,
    /// Crashes and failing disks. Needs [`crate::destager::Issue::Group`].
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
            let busy = Controller::holds_back(around.rebuilds, around.geometry, group)
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

/// Groups whose rows are being read as a whole: to compute what a disk does not give, or by a
/// scrub, which holds them: not even the reads of a destage begin.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    /// How many read it: thousands of groups where a degraded array is overloaded.
    readers: BTreeMap<GroupId, u32>,
    holds: BTreeMap<GroupId, u32>,
}

impl Locks {
    /// One more reader.
    pub fn lock(&mut self, group: GroupId) {
        *self.readers.entry(group).or_insert(0) += 1;
    }

    /// One reader less; whether it was the last.
    pub fn unlock(&mut self, group: GroupId) -> bool {
        take_one(&mut self.readers, group)
    }

    /// Whether somebody reads it.
    #[must_use]
    pub fn contains(&self, group: GroupId) -> bool {
        self.readers.contains_key(&group)
    }

    /// One more chunk of a scrub.
    pub fn hold(&mut self, group: GroupId) {
        *self.holds.entry(group).or_insert(0) += 1;
    }

    /// One chunk less; whether it was the last.
    pub fn let_go(&mut self, group: GroupId) -> bool {
        take_one(&mut self.holds, group)
    }

    /// The groups that scrubs have.
    pub fn holds(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.holds.keys().copied()
    }

    /// Whether a scrub has it.
    #[must_use]
    pub fn held(&self, group: GroupId) -> bool {
        self.holds.contains_key(&group)
    }
}

/// One less of a group; whether it was the last.
fn take_one(groups: &mut BTreeMap<GroupId, u32>, group: GroupId) -> bool {
    let count = groups.get_mut(&group).expect("a locked group");
    *count -= 1;
    let last = *count == 0;
    if last {
        groups.remove(&group);
    }
    last
}

/// Disks that failed, and groups that are locked: lent to the destager.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Disks that failed, those being rebuilt included.
    pub failed: DiskSet,
    /// Locked groups.
    pub locks: Locks,
    /// Of disks being rebuilt: the pages below are whole.
    whole_below: Vec<(DiskId, u64)>,
}

impl Faults {
    /// Whether a page of a disk is lost.
    #[must_use]
    pub fn lost(&self, disk: DiskId, page: u64) -> bool {
        self.failed.contains(disk)
            && !self.whole_below.iter().any(|(known, below)| *known == disk && page < *below)
    }

    /// The disks that are lost at a page.
    #[must_use]
    pub fn at(&self, page: u64) -> DiskSet {
        self.failed.iter().filter(|disk| self.lost(*disk, page)).collect()
    }

    pub(crate) fn set_whole_below(&mut self, disk: DiskId, page: u64) {
        self.forget_whole(disk);
        self.whole_below.push((disk, page));
    }

    pub(crate) fn forget_whole(&mut self, disk: DiskId) {
        self.whole_below.retain(|(known, _)| *known != disk);
    }

    /// The disk whose rebuild is furthest, and how far it is.
    pub(crate) fn furthest(&self) -> Option<(DiskId, u64)> {
        self.whole_below.iter().copied().max_by_key(|(_, below)| *below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as an overloaded degraded array has: a search through all of them for each would
    /// take minutes.
    #[test]
    fn groups_stay_locked_until_their_last_reader() {
        let mut locks = Locks::default();
        let groups = || (0..300_000).map(GroupId);
        groups().chain(groups()).for_each(|group| locks.lock(group));
        assert!(groups().all(|group| !locks.unlock(group) && locks.contains(group)));
        assert!(groups().all(|group| locks.unlock(group) && !locks.contains(group)));
        locks.hold(GroupId(7));
        locks.hold(GroupId(7));
        assert!(!locks.let_go(GroupId(7)) && locks.held(GroupId(7)) && locks.holds().count() == 1);
        assert!(locks.let_go(GroupId(7)) && !locks.held(GroupId(7)) && locks.holds().count() == 0);
    }
}
