//! What every part of a controller works on: the array, its disks' queues and failures, counters
//! and time. Each of them keeps its own state; this lends them out together.

use crate::array::geometry::Geometry;
use crate::array::plan::DiskRun;
use crate::conditions::Heads;
use crate::conditions::{Conditions, WaitingReads};
use crate::counters::Counters;
use crate::dispatch::Dispatch;
use crate::event::{Action, DiskCommand, Owner};
use crate::faults::Faults;
use crate::idle::IdleTime;
use crate::units::{DiskId, Instant};
use alloc::vec::Vec;

/// The array at this moment.
pub(crate) struct ArrayState {
    pub(crate) geometry: Geometry,
    pub(crate) dispatch: Dispatch,
    pub(crate) faults: Faults,
    pub(crate) idle: IdleTime,
    pub(crate) counters: Counters,
    pub(crate) now: Instant,
    /// No destage, rebuild window or scrub chunk begins.
    pub(crate) paused: bool,
}

impl ArrayState {
    /// Counts disk commands and queues them.
    pub(crate) fn submit(
        &mut self,
        owner: Owner,
        runs: &[DiskRun],
        write: bool,
        actions: &mut Vec<Action>,
    ) {
        let counters = &mut self.counters;
        *(if write { &mut counters.disk_writes } else { &mut counters.disk_reads }) +=
            runs.len() as u64;
        for DiskRun { disk, first, pages } in runs.iter().copied() {
            let command = DiskCommand { disk, first, pages, write, owner };
            self.idle.submitted(disk, owner, &mut self.counters);
            self.dispatch.submit(self.now, command, actions);
        }
    }

    /// A command of this disk is done.
    pub(crate) fn done(&mut self, disk: DiskId, owner: Owner, actions: &mut Vec<Action>) {
        self.dispatch.done(self.now, disk, owner, actions);
        let view = &self.dispatch.views()[usize::from(disk.0)];
        self.idle.done(disk, owner, view, self.now);
    }

    /// What policies and rates see now.
    pub(crate) fn conditions<'a>(
        &'a self,
        rebuilding_disks: u16,
        reads: WaitingReads,
        heads: &'a dyn Heads,
    ) -> Conditions<'a> {
        Conditions {
            now: self.now,
            queues: self.dispatch.lengths(),
            reads,
            pressure: self.dispatch.pressure(),
            disks: self.dispatch.views(),
            failed_disks: self.faults.failed.len(),
            rebuilding_disks,
            heads,
        }
    }
}
