//! Asks the rate how many, the policy which, the array how; bounds what is in flight.

pub(crate) mod defer;
pub mod discards;
pub mod phases;

use crate::array::geometry::Geometry;
use crate::array::plan::{DiskRun, Plan, Planner, runs};
use crate::counters::Counters;
use crate::dispatch::Dispatch;
use crate::event::Action;
use crate::event::{DiskCommand, Owner};
use crate::faults::Faults;
use crate::heads::Heads;
use crate::rate::{RateScheme, RateView};
use crate::readcache::coherent::Clean;
use crate::rebuild::{Rebuild, holds_back, rows_of};
use crate::units::GroupId;
use crate::writecache::{Picked, WriteCache};
use alloc::boxed::Box;
use alloc::vec::Vec;
use defer::PutOff;
use discards::Discards;
use phases::{Protocol, Safe};

/// How the runs of a picked group are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Issue {
    /// All at once, as one plan.
    #[default]
    Group,
    /// One after another, each with its own reads and parity writes.
    Runs,
}

/// What counts as one destage write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Count {
    /// A contiguous run of pages inside a group.
    #[default]
    Runs,
    /// A group.
    Groups,
}

/// A destage under way.
#[derive(Default)]
pub(crate) struct Destage {
    pub(crate) group: GroupId,
    /// Pages of the plan under way.
    pub(crate) mask: Vec<u64>,
    /// Pages still to be issued after it (`Issue::Runs`).
    rest: Vec<u64>,
    writes: Vec<DiskRun>,
    /// Commands outstanding of the present phase.
    pub(crate) pending: u32,
    writing: bool,
    /// It waits for a window of a rebuild, and is not planned yet.
    held: bool,
    /// Destage writes it counts for; 0 where there is no destage.
    pub(crate) counted: u32,
    /// Under [`Protocol::Safe`].
    pub(crate) safe: Safe,
}

/// Bounds and issues destages.
pub struct Destager {
    rate: Box<dyn RateScheme>,
    queue_depth: u32,
    issue: Issue,
    count: Count,
    protocol: Protocol,
    pub(crate) in_flight: u32,
    pub(crate) destages: Vec<Destage>,
    idle: Vec<u32>,
    /// Where to look for kept destages next.
    pub(crate) next_kept: usize,
    planner: Planner,
    plan: Plan,
    last_sequential: bool,
    last_first_page: Option<u64>,
}

/// What the destager works on, lent for one call.
pub struct Surroundings<'a> {
    /// The array.
    pub geometry: &'a Geometry,
    /// Directory and policy.
    pub cache: &'a mut WriteCache,
    /// The disks' heads, as far as the driver knows.
    pub heads: &'a dyn Heads,
    /// The disks' queues.
    pub dispatch: &'a mut Dispatch,
    /// Disks that failed, and groups that may not be written.
    pub faults: &'a Faults,
    /// Rebuilds under way.
    pub(crate) rebuilds: &'a [Rebuild],
    /// The read cache.
    pub(crate) clean: Option<&'a mut Clean>,
    /// Groups that were put off once.
    pub(crate) put_off: &'a mut PutOff,
    /// Pages the host has discarded since they were written.
    pub discards: &'a mut Discards,
    /// Counts.
    pub counters: &'a mut Counters,
    /// What to do.
    pub actions: &'a mut Vec<Action>,
}

impl Destager {
    /// A destager with nothing in flight.
    #[must_use]
    pub fn new(
        rate: Box<dyn RateScheme>,
        queue_depth: u32,
        issue: Issue,
        count: Count,
        protocol: Protocol,
    ) -> Destager {
        Destager {
            rate,
            queue_depth,
            issue,
            count,
            protocol,
            in_flight: 0,
            destages: Vec::new(),
            idle: Vec::new(),
            next_kept: 0,
            planner: Planner::default(),
            plan: Plan::default(),
            last_sequential: false,
            last_first_page: None,
        }
    }

    /// Destage writes in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Goes on with another rate.
    pub(crate) fn thresholds(&self) -> crate::rate::Thresholds {
        self.rate.thresholds()
    }

    pub(crate) fn set_rate(&mut self, rate: Box<dyn RateScheme>) {
        self.rate = rate;
    }

    /// Occupancy changed.
    pub fn on_occupancy(&mut self, occupancy: u64) {
        self.rate.on_occupancy(occupancy);
    }

    /// Issues destages while the rate allows more; `forced` (a write waits, or a flush) allows
    /// the full depth whatever the rate says.
    pub fn pump(&mut self, forced: bool, around: &mut Surroundings<'_>) {
        while self.in_flight < self.allowed(forced, around.cache) {
            let mut mask = match self.idle.last() {
                Some(index) => core::mem::take(&mut self.destages[*index as usize].mask),
                None => Vec::new(),
            };
            let (geometry, faults) = (around.geometry, around.faults);
            let put_off = &mut *around.put_off;
            let mut put_off = |group, mask: &[u64]| put_off.asks(group, mask, geometry, faults);
            let Some(mut picked) = around.cache.pick(around.heads, &mut put_off, &mut mask) else {
                if let Some(index) = self.idle.last() {
                    self.destages[*index as usize].mask = mask;
                }
                return;
            };
            picked.pages -= around.discards.take_out(picked.group, &mut mask, around.cache);
            if picked.pages == 0 {
                if let Some(index) = self.idle.last() {
                    self.destages[*index as usize].mask = mask;
                }
                continue;
            }
            self.start(picked, mask, around);
        }
    }

    fn allowed(&mut self, forced: bool, cache: &WriteCache) -> u32 {
        if forced {
            return self.queue_depth;
        }
        let last_sequential = self.last_sequential;
        self.rate.allowed(&RateView {
            occupancy: cache.directory.occupancy(),
            capacity: cache.directory.capacity().0,
            queue_depth: self.queue_depth,
            in_sequence: &|| last_sequential && cache.next_is_sequential(),
        })
    }

    fn start(&mut self, picked: Picked, mask: Vec<u64>, around: &mut Surroundings<'_>) {
        let index = self.take_idle();
        let per_group = around.geometry.pages_per_group();
        let run_count = runs(&mask, 0, per_group).count() as u32;
        self.note(&picked, run_count, &mask, around);
        let destage = &mut self.destages[index as usize];
        destage.group = picked.group;
        destage.counted = match (self.count, self.issue) {
            (Count::Runs, Issue::Group) => run_count,
            _ => 1,
        };
        self.in_flight += destage.counted;
        if self.protocol == Protocol::Safe {
            destage.mask = mask;
            around.actions.push(Action::Begin { index, group: picked.group });
            self.plan_or_hold(index, around);
            return;
        }
        match self.issue {
            Issue::Group => destage.mask = mask,
            Issue::Runs => {
                destage.rest = mask;
                destage.next_run(per_group);
            }
        }
        self.plan_or_hold(index, around);
    }

    /// Plans a destage now, or when no window of a rebuild has its rows.
    fn plan_or_hold(&mut self, index: u32, around: &mut Surroundings<'_>) {
        let destage = &mut self.destages[index as usize];
        let group = destage.group;
        destage.held = holds_back(around.rebuilds, around.geometry, group);
        match (destage.held, self.protocol) {
            (true, _) => destage.safe = Safe::default(),
            (false, Protocol::Safe) => self.plan_safely(index, false, around),
            (false, Protocol::Papers) => self.issue_plan(index, around),
        }
    }

    /// Plans what waited for windows that are done.
    pub(crate) fn resume_held(&mut self, around: &mut Surroundings<'_>) {
        for index in 0..self.destages.len() {
            if self.destages[index].held {
                self.plan_or_hold(index as u32, around);
            }
        }
    }

    /// Groups whose destage is planned and not kept.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = GroupId> + '_ {
        let planned = |d: &&Destage| d.counted > 0 && !d.held && d.is_at_work();
        self.destages.iter().filter(planned).map(|d| d.group)
    }

    fn note(
        &mut self,
        picked: &Picked,
        run_count: u32,
        mask: &[u64],
        around: &mut Surroundings<'_>,
    ) {
        let per_group = around.geometry.pages_per_group();
        let first_bit = runs(mask, 0, per_group).next().map_or(0, |(first, _)| first);
        let first_page = picked.group.0 * per_group + first_bit;
        if let Some(last) = self.last_first_page.replace(first_page) {
            around.counters.destage_distance_pages += last.abs_diff(first_page);
        }
        self.last_sequential = picked.sequential;
        around.counters.destages += 1;
        around.counters.destaged_pages += picked.pages;
        around.counters.destaged_runs += u64::from(run_count);
    }

    fn issue_plan(&mut self, index: u32, around: &mut Surroundings<'_>) {
        let destage = &mut self.destages[index as usize];
        let plan = &mut self.plan;
        let failed = around.faults.at(rows_of(around.geometry, destage.group).0);
        if failed.is_empty() {
            around.geometry.plan(destage.group, &destage.mask, &mut self.planner, plan);
        } else {
            around.geometry.plan_degraded(destage.group, &destage.mask, &failed, plan);
        }
        destage.safe.take_spoiled();
        around.counters.rows += plan.rows;
        around.counters.rows_without_reads += plan.rows_without_reads;
        core::mem::swap(&mut destage.writes, &mut plan.writes);
        if plan.reads.is_empty() {
            destage.issue_writes(index, around);
            return;
        }
        destage.writing = false;
        destage.pending = plan.reads.len() as u32;
        around.counters.disk_reads += u64::from(destage.pending);
        for read in &plan.reads {
            around.dispatch.submit(command(*read, false, index), around.actions);
        }
    }

    /// A disk command of destage `index` is done. Returns whether space became free.
    pub fn on_disk_done(&mut self, index: u32, around: &mut Surroundings<'_>) -> bool {
        let destage = &mut self.destages[index as usize];
        destage.pending -= 1;
        if destage.pending > 0 {
            return false;
        }
        if self.protocol == Protocol::Safe {
            return self.next_phase(index, around);
        }
        if !destage.writing {
            if destage.safe.take_spoiled() {
                self.issue_plan(index, around);
                return false;
            }
            destage.issue_writes(index, around);
            return false;
        }
        self.released(index, around)
    }

    /// The pages of a plan are written. Returns that space became free.
    fn released(&mut self, index: u32, around: &mut Surroundings<'_>) -> bool {
        let destage = &mut self.destages[index as usize];
        let pages = around.cache.directory.release(destage.group, &destage.mask);
        if let Some(clean) = &mut around.clean {
            let released = (destage.group, destage.mask.as_slice());
            clean.released(released, index, &around.cache.directory, around.actions);
        }
        around.actions.push(Action::NvsRelease { group: destage.group, pages });
        if destage.rest.iter().any(|word| *word != 0) {
            destage.next_run(around.geometry.pages_per_group());
            self.issue_plan(index, around);
        } else {
            around.cache.destaged(destage.group);
            self.finish(index);
        }
        true
    }

    pub(crate) fn take_idle(&mut self) -> u32 {
        self.idle.pop().unwrap_or_else(|| {
            self.destages.push(Destage::default());
            (self.destages.len() - 1) as u32
        })
    }

    pub(crate) fn finish(&mut self, index: u32) {
        let destage = &mut self.destages[index as usize];
        destage.safe.nothing_written();
        self.in_flight -= core::mem::take(&mut destage.counted);
        self.idle.push(index);
        self.rate.on_destaged();
    }
}

impl Destage {
    /// Moves the first run of `rest` to `mask`.
    fn next_run(&mut self, per_group: u64) {
        let (first, length) = runs(&self.rest, 0, per_group).next().expect("a run is left");
        self.mask.clear();
        self.mask.resize(self.rest.len(), 0);
        for bit in first..first + length {
            let (word, flag) = ((bit / 64) as usize, 1 << (bit % 64));
            self.mask[word] |= flag;
            self.rest[word] &= !flag;
        }
    }

    fn issue_writes(&mut self, index: u32, around: &mut Surroundings<'_>) {
        self.writing = true;
        self.pending = self.writes.len() as u32;
        around.counters.disk_writes += u64::from(self.pending);
        for write in &self.writes {
            around.dispatch.submit(command(*write, true, index), around.actions);
        }
    }
}

pub(crate) fn command(run: DiskRun, write: bool, index: u32) -> DiskCommand {
    let DiskRun { disk, first, pages } = run;
    DiskCommand { disk, first, pages, write, owner: Owner::Destage(index) }
}
