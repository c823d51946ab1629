//! Asks the rate how many destages, the policy which, the array how; bounds what is in flight.

mod defer;
mod discards;
mod memory;
pub mod phases;
mod reuse;

use crate::array::plan::{DiskRun, Plan, Planner, runs};
use crate::conditions::Heads;
use crate::conditions::WaitingReads;
use crate::event::{Action, Owner};
use crate::nvs::directory::Directory;
use crate::rate::{RateScheme, RateView, Thresholds};
use crate::readcache::coherent::CoherentCache;
use crate::rebuild::Rebuilds;
use crate::request::PageRange;
use crate::state::ArrayState;
use crate::units::{GroupId, Instant};
use crate::writecache::{Picked, WriteCache};
use alloc::boxed::Box;
use alloc::vec::Vec;
use defer::Deferral;
use discards::Discards;
use memory::StripeMemory;
pub use memory::StripeMemoryState;
use phases::{Protocol, SafeState};
use reuse::{Levels, Reuse};

/// Destage writes in flight, however much of the NVS they hold: as many as the papers' arrays have.
const FEW: u32 = 20;

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

/// How destages are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestageConfig {
    /// Greatest number of destage writes in flight (Q).
    pub queue_depth: u32,
    /// What counts as a destage write.
    pub count: Count,
    /// How a group's runs are issued.
    pub issue: Issue,
    /// Which failures the order of disk writes must survive.
    pub protocol: Protocol,
    /// Whether groups that are expensive to destage while degraded are deferred once.
    pub defer: bool,
    /// Clean pages, at most, over which [`Protocol::Safe`] joins two reads of a disk, or two writes
    /// of parity ([`crate::array::geometry::Geometry::bridge`]). `None`: as many as the policy
    /// asks for ([`crate::policy::DestagePolicy::bridge`]).
    pub bridge: Option<u32>,
    /// Pages of the stripe memory; 0: none. Only under [`Protocol::Safe`], and with at most
    /// [`crate::array::disks::ROW_DISKS_MAX`] disks.
    pub stripe_memory: u64,
}

/// Why destages are made at full depth whatever the rate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    /// A host write waits for space.
    WriteWaits,
    /// Everything is to be destaged.
    Flush,
}

/// A destage in flight.
#[derive(Default)]
struct Destage {
    group: GroupId,
    /// Pages of the present plan.
    mask: Vec<u64>,
    /// Pages still to be issued after it (`Issue::Runs`).
    rest: Vec<u64>,
    writes: Vec<DiskRun>,
    /// Commands outstanding of the present phase.
    pending: u32,
    writing: bool,
    /// It waits for a window of a rebuild, and is not planned yet.
    held: bool,
    /// Destage writes it counts for; 0 if the entry is unused.
    counted: u32,
    /// Under [`Protocol::Safe`].
    safe: SafeState,
}

/// Bounds and issues destages.
pub(crate) struct Destager {
    rate: Box<dyn RateScheme>,
    config: DestageConfig,
    in_flight: u32,
    destages: Vec<Destage>,
    unused: Vec<u32>,
    /// Where to look for kept destages next.
    next_kept: usize,
    planner: Planner,
    plan: Plan,
    deferral: Deferral,
    discards: Discards,
    memory: StripeMemory,
    reuse: Reuse,
    last_sequential: bool,
    last_first_page: Option<u64>,
}

/// What the destager works on, lent for one call.
pub(crate) struct Surroundings<'a> {
    pub(crate) state: &'a mut ArrayState,
    pub(crate) cache: &'a mut WriteCache,
    pub(crate) read_cache: &'a mut CoherentCache,
    pub(crate) rebuilds: &'a Rebuilds,
    pub(crate) reads: WaitingReads,
    pub(crate) heads: &'a dyn Heads,
    pub(crate) actions: &'a mut Vec<Action>,
}

impl Destager {
    /// A destager with nothing in flight.
    pub(crate) fn new(rate: Box<dyn RateScheme>, config: DestageConfig) -> Destager {
        Destager {
            rate,
            config,
            in_flight: 0,
            destages: Vec::new(),
            unused: Vec::new(),
            next_kept: 0,
            planner: Planner::default(),
            plan: Plan::default(),
            deferral: Deferral::new(config.defer),
            discards: Discards::default(),
            memory: StripeMemory::new(config.stripe_memory),
            reuse: Reuse::default(),
            last_sequential: false,
            last_first_page: None,
        }
    }

    /// Destage writes in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(crate) fn stripe_memory(&self) -> Option<StripeMemoryState> {
        self.memory.state()
    }

    /// Which failures the order of disk writes survives.
    pub(crate) fn protocol(&self) -> Protocol {
        self.config.protocol
    }

    /// How many groups were deferred so far.
    pub(crate) fn deferrals(&self) -> u64 {
        self.deferral.count()
    }

    pub(crate) fn thresholds(&self) -> Thresholds {
        self.rate.thresholds()
    }

    /// The host has discarded these pages.
    pub(crate) fn discard(&mut self, range: PageRange, directory: &Directory) {
        self.discards.discard(range, directory);
    }

    /// The host has written these pages: they are no longer discarded.
    pub(crate) fn on_write(&mut self, range: PageRange, pages_per_group: u64) {
        self.discards.written(range, pages_per_group);
    }

    pub(crate) fn set_rate(&mut self, rate: Box<dyn RateScheme>) {
        self.rate = rate;
    }

    /// A host request found `hits` of its `pages` in the NVS.
    pub(crate) fn count_reuse(&mut self, hits: u64, pages: u64) {
        self.reuse.count(hits, pages);
    }

    /// Occupancy changed.
    pub(crate) fn on_occupancy(&mut self, occupancy: u64) {
        self.rate.on_occupancy(occupancy);
    }

    /// Issues destages while the rate allows more, or the full depth whatever the rate says if
    /// there is a reason. One more if the disks are idle.
    pub(crate) fn pump(&mut self, forced: Option<Forced>, around: &mut Surroundings<'_>) {
        while self.in_flight < self.allowed(forced, around) {
            if !self.begin_next(false, around) {
                return;
            }
        }
        let now = around.state.now;
        while self
            .idle_from(around.state, around.cache, around.rebuilds.count())
            .is_some_and(|from| from <= now)
        {
            if !self.begin_next(true, around) {
                return;
            }
        }
    }

    /// From when on a destage may begin because the disks are idle.
    pub(crate) fn idle_from(
        &self,
        state: &ArrayState,
        cache: &WriteCache,
        rebuilding: u16,
    ) -> Option<Instant> {
        let level = self.rate.idle_above()?;
        let directory = &cache.directory;
        let holds_more = directory.occupancy() * 10_000 > directory.capacity().0 * level;
        (holds_more && self.in_flight == 0 && rebuilding == 0).then(|| state.idle.from()).flatten()
    }

    /// Begins the destage of the group that the policy picks, unless all its pages are discarded.
    /// Returns whether there was one.
    fn begin_next(&mut self, in_idle_time: bool, around: &mut Surroundings<'_>) -> bool {
        let unused = self.unused.last().copied();
        let mut mask = match unused {
            Some(index) => core::mem::take(&mut self.destages[index as usize].mask),
            None => Vec::new(),
        };
        let ArrayState { geometry, faults, .. } = &*around.state;
        let deferral = &mut self.deferral;
        let mut defer = |group, mask: &[u64]| deferral.should_defer(group, mask, geometry, faults);
        let now = around.state.conditions(around.rebuilds.count(), around.reads, around.heads);
        let picked = around.cache.pick(&now, &mut defer, &mut mask).map(|mut picked| {
            picked.pages -= self.discards.take_out(picked.group, &mut mask, around.cache);
            picked
        });
        match picked {
            Some(picked) if picked.pages > 0 => self.start(picked, mask, in_idle_time, around),
            _ => {
                if let Some(index) = unused {
                    self.destages[index as usize].mask = mask;
                }
            }
        }
        picked.is_some()
    }

    fn allowed(&mut self, forced: Option<Forced>, around: &mut Surroundings<'_>) -> u32 {
        if let Some(reason) = forced {
            let full = u64::from(reason == Forced::WriteWaits);
            around.state.dispatch.set_urgency((1, 1), (full, 1));
            return self.full_depth(around, true);
        }
        let (cache, last_sequential) = (&*around.cache, self.last_sequential);
        let (occupancy, capacity) = (cache.directory.occupancy(), cache.directory.capacity().0);
        let levels = Levels::new(self.rate.thresholds(), capacity);
        let now = around.state.now;
        let raised = match around.state.dispatch.keeps_reused() {
            true => self.reuse.raise(levels, around.state.dispatch.usage(now)),
            false => levels,
        };
        let allowed = self.rate.allowed(&RateView {
            occupancy: raised.translate(occupancy, levels),
            capacity,
            queue_depth: self.config.queue_depth,
            in_sequence: &|| last_sequential && cache.next_is_sequential(),
            now: &around.state.conditions(around.rebuilds.count(), around.reads, around.heads),
        });
        let depth = self.config.queue_depth;
        let taken = (occupancy.saturating_sub(raised.high), capacity - raised.high);
        around.state.dispatch.set_urgency((allowed, depth), taken);
        if around.state.dispatch.wants_many() && allowed > 0 {
            let full = self.full_depth(around, false);
            let (part, of) = around.state.dispatch.depth_share();
            return full.min(allowed) + full.saturating_sub(allowed) * part / of;
        }
        allowed
    }

    /// The greatest number of destage writes in flight. Where they should have many to choose from
    /// it is the full depth only while they hold less than what is above the low threshold, and
    /// than a quarter of the NVS; twice that while a write waits. Their pages are not free before
    /// they are done.
    fn full_depth(&self, around: &Surroundings<'_>, write_waits: bool) -> u32 {
        let (directory, dispatch) = (&around.cache.directory, &around.state.dispatch);
        let capacity = directory.capacity().0;
        let above = capacity - Levels::new(self.rate.thresholds(), capacity).low;
        let most = above.min(capacity / 4) << u32::from(write_waits);
        match directory.in_flight_pages() >= most && dispatch.wants_many() {
            true => self.config.queue_depth.min(dispatch.half_full().max(FEW)),
            false => self.config.queue_depth,
        }
    }

    fn start(
        &mut self,
        picked: Picked,
        mask: Vec<u64>,
        in_idle_time: bool,
        around: &mut Surroundings<'_>,
    ) {
        let index = self.take_unused();
        if in_idle_time {
            around.state.idle.begin(index);
            around.state.counters.idle_destages += 1;
        }
        let per_group = around.state.geometry.pages_per_group();
        let run_count = runs(&mask, 0, per_group).count() as u32;
        self.note(&picked, run_count, &mask, around);
        let destage = &mut self.destages[index as usize];
        destage.group = picked.group;
        destage.counted = match (self.config.count, self.config.issue) {
            (Count::Runs, Issue::Group) => run_count,
            _ => 1,
        };
        self.in_flight += destage.counted;
        if self.config.protocol == Protocol::Safe {
            destage.mask = mask;
            around.actions.push(Action::Begin { index, group: picked.group });
            self.plan_or_hold(index, around);
            return;
        }
        match self.config.issue {
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
        destage.held = around.rebuilds.holds_back(&around.state.geometry, group);
        match (destage.held, self.config.protocol) {
            (true, _) => destage.safe = SafeState::default(),
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
    pub(crate) fn planned(&self) -> impl Iterator<Item = GroupId> + '_ {
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
        let per_group = around.state.geometry.pages_per_group();
        let first_bit = runs(mask, 0, per_group).next().map_or(0, |(first, _)| first);
        let first_page = picked.group.0 * per_group + first_bit;
        if let Some(last) = self.last_first_page.replace(first_page) {
            around.state.counters.destage_distance_pages += last.abs_diff(first_page);
        }
        self.last_sequential = picked.sequential;
        around.state.counters.destages += 1;
        around.state.counters.destaged_pages += picked.pages;
        around.state.counters.destaged_runs += u64::from(run_count);
    }

    fn issue_plan(&mut self, index: u32, around: &mut Surroundings<'_>) {
        let destage = &mut self.destages[index as usize];
        let plan = &mut self.plan;
        let failed = around.state.faults.at(around.state.geometry.first_row(destage.group));
        if failed.is_empty() {
            around.state.geometry.plan(destage.group, &destage.mask, &mut self.planner, plan);
        } else {
            around.state.geometry.plan_degraded(destage.group, &destage.mask, &failed, plan);
        }
        destage.safe.take_invalid();
        around.state.counters.rows += plan.rows;
        around.state.counters.rows_without_reads += plan.rows_without_reads;
        core::mem::swap(&mut destage.writes, &mut plan.writes);
        if plan.reads.is_empty() {
            destage.issue_writes(index, around);
            return;
        }
        destage.writing = false;
        destage.pending = plan.reads.len() as u32;
        around.state.submit(Owner::Destage(index), &plan.reads, false, around.actions);
    }

    /// A disk command of destage `index` is done. Returns whether space became free.
    pub(crate) fn on_disk_done(&mut self, index: u32, around: &mut Surroundings<'_>) -> bool {
        let destage = &mut self.destages[index as usize];
        destage.pending -= 1;
        if destage.pending > 0 {
            return false;
        }
        if self.config.protocol == Protocol::Safe {
            return self.next_phase(index, around);
        }
        if !destage.writing {
            if destage.safe.take_invalid() {
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
        let released = (destage.group, destage.mask.as_slice());
        around.read_cache.released(released, index, &around.cache.directory, around.actions);
        around.actions.push(Action::NvsRelease { group: destage.group, pages });
        if destage.rest.iter().any(|word| *word != 0) {
            destage.next_run(around.state.geometry.pages_per_group());
            self.issue_plan(index, around);
        } else {
            around.cache.destaged(destage.group);
            self.finish(index, around.state);
        }
        true
    }

    fn take_unused(&mut self) -> u32 {
        self.unused.pop().unwrap_or_else(|| {
            self.destages.push(Destage::default());
            (self.destages.len() - 1) as u32
        })
    }

    fn finish(&mut self, index: u32, state: &mut ArrayState) {
        state.idle.end(index);
        let destage = &mut self.destages[index as usize];
        destage.safe.nothing_written();
        self.in_flight -= core::mem::take(&mut destage.counted);
        self.unused.push(index);
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
        around.state.submit(Owner::Destage(index), &self.writes, true, around.actions);
    }
}
