//! The one state machine: `step(now, event, &mut actions)`. It is a coordinator: each part owns its
//! state, and the controller passes events to them and what follows from one to the next.
//!
//! Invariants:
//! - A write is replied to only after its `NvsDone`.
//! - A page leaves the NVS only after the last disk write of its destage is done.
//! - `occupancy` never exceeds the NVS: enforced by assertion.
//! - Same events, same actions.

mod config;
mod queries;
mod reads;
mod scrub;
mod setup;
mod writes;

use crate::array::layout::DiskPage;
use crate::array::plan::DiskRun;
use crate::conditions::{Heads, NoHeads};
use crate::counters::Counters;
use crate::destage::phases::Protocol;
use crate::destage::{Destager, Forced, Surroundings};
use crate::dispatch::Dispatch;
use crate::event::{Action, DiskCommand, Event, Owner};
use crate::faults::Faults;
use crate::idle::IdleTime;
use crate::limits::Limits;
use crate::nvs::directory::Directory;
use crate::policy::PolicyChoice;
use crate::rate::RateChoice;
use crate::readcache::ReadPolicyError;
#[cfg(feature = "defects")]
use crate::readcache::coherent::Careless;
use crate::readcache::coherent::{CoherentCache, ReadCacheChoice};
use crate::rebuild::{AfterWindow, Rebuilds};
use crate::registry::ChoiceError;
use crate::request::{Direction, HostError, HostRequest, PageRange, RequestId};
use crate::sequential::Classified;
use crate::state::ArrayState;
use crate::units::{DiskId, GroupId, Instant, Page};
use crate::writecache::WriteCache;
use alloc::vec::Vec;
pub use config::{Config, ConfigError};
use reads::HostReads;
use scrub::{AfterChunk, Scrub};
use setup::{Chosen, Setup};
use writes::{Write, Writes};

/// The controller.
pub struct Controller {
    state: ArrayState,
    cache: WriteCache,
    read_cache: CoherentCache,
    writes: Writes,
    reads: HostReads,
    destager: Destager,
    rebuilds: Rebuilds,
    scrub: Scrub,
    setup: Setup,
    /// Everything is destaged, whatever the rate says.
    flushing: bool,
}

impl Controller {
    /// A controller with an empty NVS.
    pub fn new(config: &Config) -> Result<Controller, ConfigError> {
        config.check()?;
        let (geometry, setup) = (config.geometry, Setup::of(config));
        let chosen = setup.choose(&config.policy, &config.rate, &geometry)?;
        let Chosen { policy, rate, detector } = chosen;
        let per_group = geometry.pages_per_group();
        let Config { window, order, .. } = *config;
        let mut dispatch = Dispatch::new(geometry.disks, window, order, geometry.disk_pages);
        dispatch.alternate(policy.alternation());
        let directory = Directory::new(config.nvs_pages, per_group, geometry.groups());
        Ok(Controller {
            state: ArrayState {
                geometry,
                dispatch,
                faults: Faults::default(),
                idle: IdleTime::new(geometry.disks),
                counters: Counters::default(),
                now: Instant::ZERO,
                paused: false,
            },
            cache: WriteCache::new(directory, detector, policy),
            read_cache: CoherentCache::default(),
            writes: Writes::default(),
            reads: HostReads::default(),
            destager: Destager::new(rate, config.destage),
            rebuilds: Rebuilds::default(),
            scrub: Scrub::default(),
            setup,
            flushing: false,
        })
    }

    /// Handles one event at `now` (never earlier than the last) and appends what must be done.
    pub fn step(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        self.step_with(now, event, &NoHeads, actions);
    }

    /// [`Controller::step`] for a driver that knows where the heads are at `now`.
    pub fn step_with(
        &mut self,
        now: Instant,
        event: Event,
        heads: &dyn Heads,
        actions: &mut Vec<Action>,
    ) {
        assert!(now >= self.state.now, "time went backwards");
        self.state.now = now;
        self.state.counters.events += 1;
        self.handle(event, heads, actions);
        if self.rebuilds.count() > 0 {
            self.pump_rebuilds(actions);
        }
        self.pump(heads, actions);
    }

    fn handle(&mut self, event: Event, heads: &dyn Heads, actions: &mut Vec<Action>) {
        let now = self.state.now;
        match event {
            Event::Host(request) => self.arrive(request, actions),
            Event::Discard(id, range) => self.arrive_discard(id, range, actions),
            Event::Withdrawn => self.space_freed(actions),
            Event::NvsDone(id) => self.durable(id, (false, false), actions),
            Event::NvsDoneInPart { id, first, last } => self.durable(id, (first, last), actions),
            Event::DiskDone(disk, owner) => {
                self.state.done(disk, owner, actions);
                match owner {
                    Owner::HostRead(index) => {
                        self.with_reads(actions, |r, d, around| r.on_disk_done(index, d, around));
                    }
                    Owner::Destage(index) => self.destage_done(index, heads, actions),
                    Owner::Rebuild(window) => self.window_done(window, actions),
                    Owner::Scrub(index) => self.chunk_done(index, actions),
                }
            }
            Event::DiskError(command) => self.disk_error(&command, actions),
            Event::DiskFailed(disk) => self.disk_failed(disk, actions),
            Event::DiskWaits(disk) => self.state.dispatch.waits(now, disk, actions),
            Event::DiskTriesAgain(disk) => self.state.dispatch.again(self.state.now, disk),
            Event::Rebuild { disk, from } => {
                // A running rebuild continues: its writes may be in flight.
                if !self.rebuilds.is_rebuilding(disk) {
                    self.rebuilds.begin(disk, from, &mut self.state);
                    self.refresh_fault_weights();
                }
            }
            Event::Repaired(disk) => {
                self.state.faults.failed.remove(disk);
                self.refresh_fault_weights();
            }
            Event::Regenerated(window) => {
                self.rebuilds.regenerated(window, &mut self.state, actions);
            }
            Event::Tick => {}
            Event::Intended(index) => self.phase_done(index, actions),
            Event::NotComputable(index) => {
                self.destager.keep(index);
                // Reads that wait for its rows would wait forever.
                self.retry_parked_reads(actions);
            }
            Event::TryKept => {
                self.with_destager(&NoHeads, actions, |d, around| d.try_kept(around));
            }
            Event::Flushed(index, ok) => {
                if !ok {
                    self.destager.invalidate_plan(index);
                }
                self.phase_done(index, actions);
            }
            Event::Flush => self.flushing = true,
            Event::ScrubStart => self.scrub.start(&self.state.geometry),
            Event::ScrubAllow(pages) => self.scrub.allow(pages),
            Event::ScrubRepair(index, run) => self.scrub.repair(index, run),
            Event::ScrubCompared(index) => {
                if self.scrub.compared(index, &mut self.state, actions) {
                    self.end_chunk(index, actions);
                }
            }
            Event::ScrubStop => self.scrub.stop(),
        }
    }

    fn pump(&mut self, heads: &dyn Heads, actions: &mut Vec<Action>) {
        self.scrub.pump(&mut self.state, &self.destager, actions);
        if self.state.paused {
            return;
        }
        let forced = match self.writes.waiting() {
            0 => self.flushing.then_some(Forced::Flush),
            _ => Some(Forced::WriteWaits),
        };
        let before = self.cache.directory.occupancy();
        self.with_destager(heads, actions, |destager, around| destager.pump(forced, around));
        if self.cache.directory.occupancy() < before {
            // Discarded pages left without being written.
            self.space_freed(actions);
        }
    }

    fn with_destager<T>(
        &mut self,
        heads: &dyn Heads,
        actions: &mut Vec<Action>,
        work: impl FnOnce(&mut Destager, &mut Surroundings<'_>) -> T,
    ) -> T {
        self.with_parts(heads, actions, |_, destager, around| work(destager, around))
    }

    fn with_reads(
        &mut self,
        actions: &mut Vec<Action>,
        work: impl FnOnce(&mut HostReads, &mut Destager, &mut Surroundings<'_>),
    ) {
        self.with_parts(&NoHeads, actions, work);
    }

    fn with_parts<T>(
        &mut self,
        heads: &dyn Heads,
        actions: &mut Vec<Action>,
        work: impl FnOnce(&mut HostReads, &mut Destager, &mut Surroundings<'_>) -> T,
    ) -> T {
        let mut around = Surroundings {
            state: &mut self.state,
            cache: &mut self.cache,
            read_cache: &mut self.read_cache,
            rebuilds: &self.rebuilds,
            reads: self.reads.waiting(),
            heads,
            actions,
        };
        work(&mut self.reads, &mut self.destager, &mut around)
    }

    fn arrive(&mut self, request: HostRequest, actions: &mut Vec<Action>) {
        if let Err(error) = self.check(&request) {
            actions.push(Action::Reply { id: request.id, result: Err(error) });
            return;
        }
        if request.direction == Direction::Read {
            return self.with_reads(actions, |reads, d, around| reads.arrive(request, d, around));
        }
        self.flushing = false;
        let write = Write { request, classified: Some(self.cache.classify(request.range)) };
        let waits = self.writes.arrive(write, &mut self.cache, &mut self.destager, actions);
        self.state.counters.stalled_writes += u64::from(waits);
    }

    fn check(&self, request: &HostRequest) -> Result<(), HostError> {
        let volume_pages = self.state.geometry.volume_pages().0;
        let pages = u64::from(request.range.pages);
        let nvs_pages = self.cache.directory.capacity().0;
        if pages == 0 {
            Err(HostError::Empty)
        } else if request.range.first.0 > volume_pages.saturating_sub(pages) {
            Err(HostError::BeyondVolume { volume_pages })
        } else if request.direction == Direction::Write && pages > nvs_pages {
            Err(HostError::LargerThanNvs { nvs_pages })
        } else {
            Ok(())
        }
    }

    fn arrive_discard(&mut self, id: RequestId, range: PageRange, actions: &mut Vec<Action>) {
        let request = HostRequest { id, direction: Direction::Write, range };
        let volume_pages = self.state.geometry.volume_pages().0;
        if range.pages == 0 || range.first.0 > volume_pages.saturating_sub(range.pages.into()) {
            let error = HostError::BeyondVolume { volume_pages };
            actions.push(Action::Reply { id, result: Err(error) });
        } else {
            let discard = Write { request, classified: None };
            self.writes.arrive(discard, &mut self.cache, &mut self.destager, actions);
        }
    }

    /// Takes out the writes and discards that wait for space and that nobody waits for any more:
    /// they are not carried out, and get no reply. [`Event::Withdrawn`] has to follow.
    pub fn withdraw(&mut self, gone: &mut dyn FnMut(RequestId) -> bool) -> Vec<RequestId> {
        self.writes.withdraw(gone)
    }

    /// An append is durable: what it wrote is dirty, and acknowledged. `in_part`: whether the NVS
    /// has only some sectors of its first page, and of its last.
    fn durable(&mut self, id: RequestId, in_part: (bool, bool), actions: &mut Vec<Action>) {
        let Write { request, classified } = self.writes.durable(id, &mut self.cache.directory);
        let range = request.range;
        if let Some(classified) = classified {
            self.written(range, classified, actions);
            let first = in_part.0.then_some(range.first);
            let last = in_part.1.then(|| Page(range.end().0 - 1));
            self.cache.directory.set_incomplete(range, first.into_iter().chain(last));
        } else {
            self.destager.discard(range, &self.cache.directory);
            self.invalidate_cached(range, true, actions);
        }
        actions.push(Action::Reply { id, result: Ok(()) });
        // A request that could not pin a group any more may now.
        self.writes.admit_waiting(&mut self.cache, &mut self.destager, actions);
    }

    fn written(&mut self, range: PageRange, classified: Classified, actions: &mut Vec<Action>) {
        self.destager.on_write(range, self.state.geometry.pages_per_group());
        let rebuilding = self.rebuilds.count();
        let now = self.state.conditions(rebuilding, self.reads.waiting(), &NoHeads);
        let admitted = self.cache.admit(range, classified, &now);
        self.invalidate_cached(range, false, actions);
        let pages = u64::from(range.pages);
        if self.destager.protocol() == Protocol::Safe && admitted.group_hits < pages {
            self.writes.pin_for_later_appends(range, &mut self.cache.directory);
        }
        self.destager.count_reuse(admitted.page_hits, pages);
        self.destager.on_occupancy(self.cache.directory.occupancy());
        let counters = &mut self.state.counters;
        counters.write_requests += 1;
        counters.write_request_hits += u64::from(admitted.new_pages == 0);
        counters.pages_written += pages;
        counters.page_hits += admitted.page_hits;
        counters.group_hits += admitted.group_hits;
    }

    /// Pages were written, or discarded: what is cached of them, or being read, is old.
    fn invalidate_cached(&mut self, range: PageRange, discarded: bool, actions: &mut Vec<Action>) {
        if self.read_cache.drops_overtaken_loads() {
            self.reads.drop_loads(range);
        }
        self.read_cache.invalidate(range, discarded, actions);
    }

    fn destage_done(&mut self, index: u32, heads: &dyn Heads, actions: &mut Vec<Action>) {
        if self.with_destager(heads, actions, |d, around| d.on_disk_done(index, around)) {
            self.released(actions);
        }
    }

    fn phase_done(&mut self, index: u32, actions: &mut Vec<Action>) {
        if self.with_destager(&NoHeads, actions, |d, around| d.next_phase(index, around)) {
            self.released(actions);
        }
    }

    /// A destage is done: its space is free, and its rows are consistent.
    fn released(&mut self, actions: &mut Vec<Action>) {
        self.space_freed(actions);
        self.retry_parked_reads(actions);
    }

    fn space_freed(&mut self, actions: &mut Vec<Action>) {
        self.destager.on_occupancy(self.cache.directory.occupancy());
        self.writes.admit_waiting(&mut self.cache, &mut self.destager, actions);
    }

    fn retry_parked_reads(&mut self, actions: &mut Vec<Action>) {
        if self.reads.any_parked() {
            self.with_reads(actions, |reads, d, around| reads.retry_parked(d, around));
        }
    }

    fn disk_error(&mut self, command: &DiskCommand, actions: &mut Vec<Action>) {
        self.state.done(command.disk, command.owner, actions);
        match command.owner {
            Owner::HostRead(index) => self.with_reads(actions, |reads, d, around| {
                reads.on_disk_error(index, command, d, around);
            }),
            Owner::Rebuild(window) => self.window_failed(window, command, actions),
            Owner::Scrub(index) => {
                self.scrub.command_failed(index, command, &mut self.state, actions);
                self.chunk_done(index, actions);
            }
            Owner::Destage(index) => {
                let DiskCommand { disk, first, pages, write, .. } = *command;
                let gone = self.state.faults.lost(disk, first);
                let papers = self.destager.protocol() == Protocol::Papers;
                if papers && write {
                    // The row's other disks have it.
                } else if write || gone || papers {
                    self.destager.invalidate_plan(index);
                } else {
                    let run = DiskRun { disk, first, pages };
                    self.with_destager(&NoHeads, actions, |d, around| {
                        d.read_peers(index, run, around);
                    });
                }
                self.destage_done(index, &NoHeads, actions);
            }
        }
    }

    fn disk_failed(&mut self, disk: DiskId, actions: &mut Vec<Action>) {
        let rebuilding = self.rebuilds.is_rebuilding(disk);
        if !self.state.faults.failed.insert(disk) && !rebuilding {
            return;
        }
        self.destager.disk_failed();
        self.destager.forget_rows(actions);
        if rebuilding {
            self.end_rebuild(disk, false, actions);
        }
        for other in self.rebuilds.impossible(&self.state) {
            self.end_rebuild(other, false, actions);
        }
        self.rebuilds.invalidate_reads();
        self.refresh_fault_weights();
    }

    /// The set of failed disks has changed, or a rebuild has come further.
    fn refresh_fault_weights(&mut self) {
        let ArrayState { geometry, faults, counters, .. } = &self.state;
        self.read_cache.refresh_weights(geometry, faults, counters);
    }

    fn pump_rebuilds(&mut self, actions: &mut Vec<Action>) {
        self.rebuilds.pump(&mut self.state, || self.destager.planned(), actions);
        for disk in self.rebuilds.finished(&self.state.geometry) {
            self.end_rebuild(disk, true, actions);
        }
    }

    fn end_rebuild(&mut self, disk: DiskId, complete: bool, actions: &mut Vec<Action>) {
        self.rebuilds.end(disk, complete, &mut self.state, actions);
        self.destager.forget_rows(actions);
        self.refresh_fault_weights();
        self.with_destager(&NoHeads, actions, |destager, around| destager.resume_held(around));
    }

    fn window_done(&mut self, window: u32, actions: &mut Vec<Action>) {
        let mean = self.reads.mean();
        let after = self.rebuilds.command_done(window, mean, &mut self.state, actions);
        if after == AfterWindow::Nothing {
            return;
        }
        if after == AfterWindow::Checkpoint {
            self.refresh_fault_weights();
        }
        self.reads.decay_mean();
        self.with_destager(&NoHeads, actions, |destager, around| destager.resume_held(around));
    }

    fn window_failed(&mut self, window: u32, command: &DiskCommand, actions: &mut Vec<Action>) {
        match self.rebuilds.window_disk(window) {
            // The spare cannot be written.
            Some(disk) if command.write => self.end_rebuild(disk, false, actions),
            Some(_) => {
                self.rebuilds.read_failed(window, command, &mut self.state, actions);
                self.window_done(window, actions);
            }
            None => {}
        }
    }

    fn chunk_done(&mut self, index: u32, actions: &mut Vec<Action>) {
        if let AfterChunk::Done { repaired } = self.scrub.command_done(index, actions) {
            repaired.iter().for_each(|run| self.destager.forget_run(*run, actions));
            if self.read_cache.drops_repaired() {
                repaired.into_iter().for_each(|run| self.drop_repaired(run, actions));
            }
            self.end_chunk(index, actions);
        }
    }

    /// A scrub has rewritten these pages: a cached copy may be what was wrong.
    fn drop_repaired(&mut self, run: DiskRun, actions: &mut Vec<Action>) {
        for page in run.first..run.first + u64::from(run.pages) {
            if let Some(page) = self.state.geometry.page_at(DiskPage { disk: run.disk, page }) {
                self.invalidate_cached(PageRange::new(page, 1), true, actions);
            }
        }
    }

    fn end_chunk(&mut self, index: u32, actions: &mut Vec<Action>) {
        let group = self.scrub.end(index, actions);
        if self.state.faults.locks.release(group) {
            self.with_destager(&NoHeads, actions, |d, around| d.on_group_released(group, around));
            self.retry_parked_reads(actions);
        }
    }
}

/// Start-up: before the first event, in this order.
impl Controller {
    /// A page that the NVS held at the last stop; the pages come oldest write first. `incomplete`:
    /// only some sectors of it.
    ///
    /// # Panics
    /// If there is no room: the NVS has shrunk.
    pub fn restore(&mut self, page: Page, incomplete: bool) {
        let range = PageRange::new(page, 1);
        assert!(self.cache.directory.free_pages() > 0, "more was held than there is room for");
        let now = self.state.conditions(0, self.reads.waiting(), &NoHeads);
        self.cache.admit(range, Classified { random: 1, sequential: false }, &now);
        self.cache.directory.set_incomplete(range, incomplete.then_some(page).into_iter());
        self.destager.on_occupancy(self.cache.directory.occupancy());
    }

    /// Pages of a group whose destage the last run left open. It is redone now; [`Action::Begin`]
    /// comes first. `incomplete`: those of which only some sectors are held; none: no words.
    /// `doubt`: its pages in rows that may be partly written.
    pub fn redo(
        &mut self,
        group: GroupId,
        (mask, incomplete): (&[u64], Vec<u64>),
        doubt: Vec<u64>,
        actions: &mut Vec<Action>,
    ) {
        self.cache.directory.put_in_flight(group, mask, incomplete);
        self.destager.on_occupancy(self.cache.directory.occupancy());
        self.with_destager(&NoHeads, actions, |d, around| d.adopt(group, mask, doubt, around));
    }
}

/// Settings: what later decisions are made by. None of them issues anything.
impl Controller {
    /// Switches to another policy and another rate. The policy is given all pages held as if they
    /// were written now in the order of their addresses; the detector begins empty.
    ///
    /// # Errors
    /// A parameter out of range; nothing is changed then.
    pub fn change(&mut self, policy: &PolicyChoice, rate: &RateChoice) -> Result<(), ChoiceError> {
        let chosen = self.setup.choose(policy, rate, &self.state.geometry)?;
        let Chosen { policy, mut rate, detector } = chosen;
        rate.on_occupancy(self.cache.directory.occupancy());
        self.destager.set_rate(rate);
        self.state.dispatch.alternate(policy.alternation());
        let rebuilding = self.rebuilds.count();
        let now = self.state.conditions(rebuilding, self.reads.waiting(), &NoHeads);
        self.cache.set_policy(policy, &now);
        self.cache.set_detector(detector);
        Ok(())
    }

    /// The array uses a part of drives of this many pages. Until then it is taken to use all of
    /// each.
    pub fn set_drive_pages(&mut self, pages: u64) {
        self.state.dispatch.set_drive_pages(pages);
    }

    /// Pages of each drive, of which the array may use a part.
    #[must_use]
    pub fn drive_pages(&self) -> u64 {
        self.state.dispatch.drive_pages()
    }

    /// Gives the controller another read cache, which is empty, or none. The driver forgets what it
    /// kept. What is being read now is not cached: while there is no cache, nobody notes which of
    /// it is written.
    ///
    /// # Errors
    /// An invalid size, or a value out of range; nothing is changed then.
    pub fn set_read_cache(
        &mut self,
        config: Option<&ReadCacheChoice>,
    ) -> Result<(), ReadPolicyError> {
        let (failed, counters) = (&self.state.faults.failed, &self.state.counters);
        self.read_cache.set(config, failed, counters)?;
        self.reads.drop_all_loads();
        self.refresh_fault_weights();
        Ok(())
    }

    /// Sets how fast rebuilds may go, including running ones.
    pub fn set_rebuild_limits(&mut self, limits: Limits) {
        self.rebuilds.set_limits(limits);
    }

    /// Whether the two copies of pages may differ on mirrored levels. Then reads take the first one
    /// that is left.
    pub fn set_copies_differ(&mut self, differ: bool) {
        self.state.faults.copies_differ = differ;
    }

    /// While paused, no destage, rebuild window or scrub chunk begins.
    pub fn pause(&mut self, paused: bool) {
        self.state.paused = paused;
    }

    /// Continues the counts of the controller that this one takes over from.
    pub fn count_from(&mut self, earlier: &Counters) {
        self.state.counters = *earlier;
    }

    /// The driver could not keep a page as [`Action::Keep`] asked: it is not cached. Called before
    /// the next event.
    pub fn not_kept(&mut self, page: Page) {
        self.read_cache.forget(page);
    }

    /// A deliberate fault, which tests must catch: the read cache has these faults.
    #[cfg(feature = "defects")]
    pub fn cache_carelessly(&mut self, careless: Careless) {
        self.read_cache.set_careless(careless);
    }

    /// A deliberate fault, which tests must catch: the running scrub reads rows that are being
    /// written.
    #[cfg(feature = "defects")]
    pub fn scrub_carelessly(&mut self) {
        self.scrub.set_careless();
    }
}
