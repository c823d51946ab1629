//! The one state machine: `step(now, event, &mut actions)`.
//!
//! Invariants:
//! - A write is replied to only after its `NvsDone`.
//! - A page leaves the NVS only after the last disk write of its destage is done.
//! - `occupancy` never exceeds the NVS: it is asserted, not hoped.
//! - Same events, same actions.

mod change;
mod read_cache;
mod reads;
mod rebuild;
mod scrub;

use crate::array::disks::DiskSet;
use crate::array::geometry::Geometry;
use crate::array::plan::DiskRun;
use crate::counters::Counters;
use crate::destage::defer::PutOff;
use crate::destage::discards::Discards;
use crate::destage::phases::Protocol;
use crate::destage::{Count, Destager, Issue, Surroundings};
use crate::dispatch::{Dispatch, Order};
use crate::event::{Action, Event};
use crate::event::{DiskCommand, Owner};
use crate::faults::Faults;
use crate::heads::{Heads, NoHeads};
use crate::limits::Limits;
use crate::nvs::directory::{Directory, Slot};
use crate::policy::PolicyChoice;
use crate::rate::RateChoice;
use crate::readcache::coherent::Clean;
use crate::rebuild::Rebuild;
use crate::request::{Direction, HostError, HostRequest, PageRange, RequestId};
use crate::sequential::{Classified, DetectorKind};
use crate::units::{DiskId, Duration, GroupId, Instant, Page, PageCount};
use crate::writecache::WriteCache;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use change::Shape;
use reads::HostRead;
use scrub::Scrub;

/// Everything that shapes a controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// The array, checked.
    pub geometry: Geometry,
    /// NVS size.
    pub nvs_pages: PageCount,
    /// What to destage.
    pub policy: PolicyChoice,
    /// When to destage.
    pub rate: RateChoice,
    /// Greatest number of destage writes in flight (Q).
    pub queue_depth: u32,
    /// What counts as a destage write.
    pub count: Count,
    /// How a group's runs are issued.
    pub issue: Issue,
    /// Which sequential detector.
    pub detector: DetectorKind,
    /// Pages after which a stream is sequential (T).
    pub sequential_threshold: u32,
    /// Commands a drive sees at once.
    pub window: u32,
    /// Order in which commands enter that window.
    pub order: Order,
    /// What the order of disk writes is to bear.
    pub protocol: Protocol,
}

/// Why a configuration makes no controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// An NVS of no pages.
    NoNvs,
    /// More NVS than array.
    NvsLargerThanArray {
        /// NVS pages asked for.
        nvs_pages: u64,
        /// Pages in the volume.
        volume_pages: u64,
    },
    /// More NVS than the engine's 32-bit slots can number.
    NvsTooLarge,
    /// A queue depth or window of 0.
    Zero(&'static str),
    /// A policy or rate parameter is out of range.
    Choice(crate::registry::ChoiceError),
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ConfigError::NoNvs => write!(f, "the NVS must have at least 1 page"),
            ConfigError::NvsLargerThanArray { nvs_pages, volume_pages } => write!(
                f,
                "an NVS of {nvs_pages} pages is larger than the array's {volume_pages} pages"
            ),
            ConfigError::NvsTooLarge => write!(f, "the NVS must have fewer than 2^32 - 1 pages"),
            ConfigError::Zero(what) => write!(f, "{what} must be at least 1"),
            ConfigError::Choice(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConfigError {}

impl From<crate::registry::ChoiceError> for ConfigError {
    fn from(error: crate::registry::ChoiceError) -> ConfigError {
        ConfigError::Choice(error)
    }
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        let (nvs_pages, volume_pages) = (self.nvs_pages.0, self.geometry.volume_pages().0);
        if nvs_pages == 0 {
            return Err(ConfigError::NoNvs);
        }
        if nvs_pages > volume_pages {
            return Err(ConfigError::NvsLargerThanArray { nvs_pages, volume_pages });
        }
        if nvs_pages >= u64::from(u32::MAX) {
            return Err(ConfigError::NvsTooLarge);
        }
        for (value, what) in [(self.queue_depth, "queue depth"), (self.window, "the window")] {
            if value == 0 {
                return Err(ConfigError::Zero(what));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct WaitingWrite {
    request: HostRequest,
    /// `None`: a discard.
    classified: Option<Classified>,
}

struct Append {
    request: HostRequest,
    /// `None`: a discard.
    classified: Option<Classified>,
    missing: u64,
    pinned: Vec<Slot>,
}

/// The controller.
pub struct Controller {
    pub(crate) geometry: Geometry,
    pub(crate) cache: WriteCache,
    pub(crate) destager: Destager,
    pub(crate) dispatch: Dispatch,
    waiting: VecDeque<WaitingWrite>,
    appends: VecDeque<Append>,
    pub(crate) reads: Vec<HostRead>,
    pub(crate) idle_reads: Vec<u32>,
    /// Reads that wait for rows to be whole.
    pub(crate) parked: Vec<HostRequest>,
    pub(crate) faults: Faults,
    pub(crate) clean: Option<Clean>,
    pub(crate) rebuilds: Vec<Rebuild>,
    pub(crate) limits: Limits,
    pub(crate) next_window: u32,
    /// Mean response time of host reads from disk, of late.
    pub(crate) read_mean: Duration,
    pub(crate) put_off: PutOff,
    discards: Discards,
    pub(crate) counters: Counters,
    protocol: Protocol,
    pub(crate) paused: bool,
    pub(crate) scrub: Scrub,
    pub(crate) shape: Shape,
    flushing: bool,
    pub(crate) now: Instant,
}

impl Controller {
    /// A controller with an empty NVS.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &Config) -> Result<Controller, ConfigError> {
        config.check()?;
        let geometry = config.geometry;
        let rate = config.rate.build(config.nvs_pages.0)?;
        let policy = config.policy.build(&Shape::of(config).context(&geometry, rate.as_ref()))?;
        let per_group = geometry.pages_per_group();
        let detector = Shape::of(config).detector(&geometry, policy.as_ref(), rate.as_ref());
        let directory = Directory::new(config.nvs_pages, per_group, geometry.groups());
        Ok(Controller {
            geometry,
            cache: WriteCache::new(directory, detector, policy),
            destager: Destager::new(
                rate,
                config.queue_depth,
                config.issue,
                config.count,
                config.protocol,
            ),
            dispatch: Dispatch::new(geometry.disks, config.window, config.order),
            waiting: VecDeque::new(),
            appends: VecDeque::new(),
            reads: Vec::new(),
            idle_reads: Vec::new(),
            parked: Vec::new(),
            faults: Faults::default(),
            clean: None,
            rebuilds: Vec::new(),
            limits: Limits::default(),
            next_window: 0,
            read_mean: Duration::ZERO,
            put_off: PutOff::default(),
            discards: Discards::default(),
            counters: Counters::default(),
            protocol: config.protocol,
            scrub: Scrub::default(),
            paused: false,
            shape: Shape::of(config),
            flushing: false,
            now: Instant::ZERO,
        })
    }

    /// Handles one event at `now` (never earlier than the last) and appends what is to be done.
    pub fn step(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        self.step_with(now, event, &NoHeads, actions);
    }

    /// [`Controller::step`] by a driver that knows where the heads are at `now`.
    pub fn step_with(
        &mut self,
        now: Instant,
        event: Event,
        heads: &dyn Heads,
        actions: &mut Vec<Action>,
    ) {
        assert!(now >= self.now, "time went backwards");
        self.now = now;
        self.counters.events += 1;
        match event {
            Event::Host(request) => self.arrive(request, actions),
            Event::Discard(id, range) => self.arrive_discard(id, range, actions),
            Event::NvsDone(id) => self.durable(id, actions),
            Event::DiskDone(disk, owner) => {
                self.dispatch.done(disk, actions);
                match owner {
                    Owner::HostRead(index) => self.read_done(index, actions),
                    Owner::Destage(index) => self.destage_done(index, heads, actions),
                    Owner::Rebuild(window) => self.window_done(window, actions),
                    Owner::Scrub(index) => self.scrub_done(index, actions),
                }
            }
            Event::DiskError(command) => self.disk_error(&command, actions),
            Event::DiskFailed(disk) => self.disk_failed(disk, actions),
            Event::DiskWaits(disk) => self.dispatch.done(disk, actions),
            Event::DiskTriesAgain(disk) => self.dispatch.again(disk),
            Event::Rebuild { disk, from } => self.begin_rebuild(disk, from),
            Event::Repaired(disk) => self.repaired(disk),
            Event::Regenerated(window) => self.regenerated(window, actions),
            Event::Tick => {}
            Event::Intended(index) => self.phase_done(index, actions),
            Event::NotComputable(index) => {
                self.destager.keep(index);
                // Reads that wait for its rows would wait for ever.
                self.retry_parked(actions);
            }
            Event::TryKept => {
                self.with_destager(&NoHeads, actions, |d, around| d.try_kept(around));
            }
            Event::Flushed(index, whole) => {
                if !whole {
                    self.destager.spoil(index);
                }
                self.phase_done(index, actions);
            }
            Event::Flush => self.flushing = true,
            Event::ScrubStart => self.scrub_start(),
            Event::ScrubAllow(pages) => self.scrub_allow(pages),
            Event::ScrubRepair(index, run) => self.scrub_repair(index, run),
            Event::ScrubCompared(index) => self.scrub_compared(index, actions),
            Event::ScrubStop => self.scrub_stop(),
        }
        if !self.rebuilds.is_empty() {
            self.pump_rebuilds(actions);
        }
        self.pump(heads, actions);
    }

    fn pump(&mut self, heads: &dyn Heads, actions: &mut Vec<Action>) {
        self.scrub_pump(actions);
        if self.paused {
            return;
        }
        let forced = self.flushing || !self.waiting.is_empty();
        let before = self.cache.directory.occupancy();
        self.with_destager(heads, actions, |destager, around| destager.pump(forced, around));
        if self.cache.directory.occupancy() < before {
            // Discarded pages left without being written.
            self.destager.on_occupancy(self.cache.directory.occupancy());
            self.admit_waiting(actions);
        }
    }

    pub(crate) fn with_destager<T>(
        &mut self,
        heads: &dyn Heads,
        actions: &mut Vec<Action>,
        work: impl FnOnce(&mut Destager, &mut Surroundings<'_>) -> T,
    ) -> T {
        let mut around = Surroundings {
            geometry: &self.geometry,
            cache: &mut self.cache,
            heads,
            dispatch: &mut self.dispatch,
            faults: &self.faults,
            rebuilds: &self.rebuilds,
            clean: self.clean.as_mut(),
            put_off: &mut self.put_off,
            discards: &mut self.discards,
            counters: &mut self.counters,
            actions,
        };
        work(&mut self.destager, &mut around)
    }

    fn arrive(&mut self, request: HostRequest, actions: &mut Vec<Action>) {
        if let Err(error) = self.check(&request) {
            actions.push(Action::Reply { id: request.id, result: Err(error) });
            return;
        }
        match request.direction {
            Direction::Read => self.arrive_read(request, actions),
            Direction::Write => self.arrive_write(request, actions),
        }
    }

    fn check(&self, request: &HostRequest) -> Result<(), HostError> {
        let volume_pages = self.geometry.volume_pages().0;
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

    fn arrive_write(&mut self, request: HostRequest, actions: &mut Vec<Action>) {
        self.flushing = false;
        let classified = self.cache.classify(request.range);
        let missing = self.missing(&request);
        let first_in_line = self.waiting.is_empty() || missing == 0;
        if first_in_line && self.fits(request.range, missing) {
            self.append(WaitingWrite { request, classified: Some(classified) }, missing, actions);
        } else {
            self.counters.stalled_writes += 1;
            self.waiting.push_back(WaitingWrite { request, classified: Some(classified) });
        }
    }

    /// Pages that a write needs room for.
    fn missing(&self, request: &HostRequest) -> u64 {
        let PageRange { first, pages } = request.range;
        self.cache.directory.missing(first, pages)
    }

    fn fits(&self, range: PageRange, missing: u64) -> bool {
        let directory = &self.cache.directory;
        missing <= directory.free_pages() && directory.can_pin(range.first, range.pages)
    }

    fn arrive_discard(&mut self, id: RequestId, range: PageRange, actions: &mut Vec<Action>) {
        let request = HostRequest { id, direction: Direction::Write, range };
        let volume_pages = self.geometry.volume_pages().0;
        if range.pages == 0 || range.first.0 > volume_pages.saturating_sub(range.pages.into()) {
            let error = HostError::BeyondVolume { volume_pages };
            actions.push(Action::Reply { id, result: Err(error) });
        } else if self.waiting.is_empty() && self.fits(range, 0) {
            self.append(WaitingWrite { request, classified: None }, 0, actions);
        } else {
            self.waiting.push_back(WaitingWrite { request, classified: None });
        }
    }

    fn append(&mut self, write: WaitingWrite, missing: u64, actions: &mut Vec<Action>) {
        let WaitingWrite { request, classified } = write;
        let PageRange { first, pages } = request.range;
        let pinned = self.cache.directory.reserve(missing, first, pages);
        self.destager.on_occupancy(self.cache.directory.occupancy());
        actions.push(Action::NvsAppend { id: request.id, range: request.range });
        self.appends.push_back(Append { request, classified, missing, pinned });
    }

    fn durable(&mut self, id: RequestId, actions: &mut Vec<Action>) {
        let append = self.appends.pop_front().expect("an append is under way");
        assert_eq!(append.request.id, id, "appends complete in order");
        self.cache.directory.unreserve(append.missing, &append.pinned);
        let Some(classified) = append.classified else {
            self.discards.discard(append.request.range, &self.cache.directory);
            self.outdate(append.request.range, true, actions);
            actions.push(Action::Reply { id, result: Ok(()) });
            self.admit_waiting(actions);
            return;
        };
        self.discards.written(append.request.range, self.geometry.pages_per_group());
        let admitted = self.cache.admit(append.request.range, classified);
        self.outdate(append.request.range, false, actions);
        if self.protocol == Protocol::Safe
            && admitted.group_hits < u64::from(append.request.range.pages)
        {
            self.pin_for_later_appends(append.request.range);
        }
        self.destager.on_occupancy(self.cache.directory.occupancy());
        let counters = &mut self.counters;
        counters.write_requests += 1;
        counters.write_request_hits += u64::from(admitted.new_pages == 0);
        counters.pages_written += u64::from(append.request.range.pages);
        counters.page_hits += admitted.page_hits;
        counters.group_hits += admitted.group_hits;
        actions.push(Action::Reply { id, result: Ok(()) });
        // A request that could not pin a group any more may now.
        self.admit_waiting(actions);
    }

    /// Keeps groups just created from being picked while later appends to them are pending: the
    /// log has those already, and an intent must not come behind what it does not cover. The
    /// last of them, since appends complete in order, lets go.
    fn pin_for_later_appends(&mut self, created: PageRange) {
        let per_group = self.geometry.pages_per_group();
        let first = created.first.0 / per_group;
        for group in first..=(created.end().0 - 1) / per_group {
            let pages = group * per_group..(group + 1) * per_group;
            let meets = |append: &Append| {
                let range = append.request.range;
                range.first.0 < pages.end && pages.start < range.end().0
            };
            if let Some(last) = self.appends.iter().rposition(meets) {
                let slot = self.cache.directory.find(GroupId(group)).expect("just written");
                self.appends[last].pinned.extend(self.cache.directory.pin_if_free(slot));
            }
        }
    }

    fn admit_waiting(&mut self, actions: &mut Vec<Action>) {
        while let Some(write) = self.waiting.front() {
            let (write, request) = (*write, write.request);
            let missing = write.classified.map_or(0, |_| self.missing(&request));
            if !self.fits(request.range, missing) {
                return;
            }
            self.waiting.pop_front();
            self.append(write, missing, actions);
        }
    }

    fn destage_done(&mut self, index: u32, heads: &dyn Heads, actions: &mut Vec<Action>) {
        if self.with_destager(heads, actions, |d, around| d.on_disk_done(index, around)) {
            self.released(actions);
        }
    }

    fn released(&mut self, actions: &mut Vec<Action>) {
        self.destager.on_occupancy(self.cache.directory.occupancy());
        self.admit_waiting(actions);
        if !self.parked.is_empty() {
            self.retry_parked(actions);
        }
    }

    fn phase_done(&mut self, index: u32, actions: &mut Vec<Action>) {
        if self.with_destager(&NoHeads, actions, |d, around| d.next_phase(index, around)) {
            self.released(actions);
        }
    }

    pub(crate) fn unheld(&mut self, group: GroupId, actions: &mut Vec<Action>) {
        self.with_destager(&NoHeads, actions, |d, around| d.unheld(group, around));
    }

    pub(crate) fn unlocked(&mut self, group: GroupId, actions: &mut Vec<Action>) {
        self.with_destager(&NoHeads, actions, |d, around| d.unlocked(group, around));
    }

    fn disk_error(&mut self, command: &DiskCommand, actions: &mut Vec<Action>) {
        self.dispatch.done(command.disk, actions);
        match command.owner {
            Owner::HostRead(index) => self.read_failed(index, command, actions),
            Owner::Rebuild(_) => self.window_failed(command, actions),
            Owner::Scrub(index) => self.scrub_failed(index, command, actions),
            Owner::Destage(index) => {
                let DiskCommand { disk, first, pages, write, .. } = *command;
                let gone = self.faults.lost(disk, first);
                let papers = self.protocol == Protocol::Papers;
                self.with_destager(&NoHeads, actions, |destager, around| {
                    if papers && write {
                        // The row's other disks have it.
                    } else if write || gone || papers {
                        destager.spoil(index);
                    } else {
                        destager.read_peers(index, DiskRun { disk, first, pages }, around);
                    }
                });
                self.destage_done(index, &NoHeads, actions);
            }
        }
    }

    /// Before anything else: a disk that is known to have failed.
    pub fn without_disk(&mut self, disk: DiskId) {
        self.faults.failed.insert(disk);
        self.heed_faults();
    }

    /// Before anything else: pages that the NVS held at the last stop, oldest write first.
    ///
    /// # Panics
    /// If there is no room: the NVS has shrunk.
    pub fn restore(&mut self, page: Page) {
        let range = PageRange::new(page, 1);
        assert!(self.cache.directory.free_pages() > 0, "more was held than there is room for");
        self.cache.admit(range, Classified { random: 1, sequential: false });
        self.destager.on_occupancy(self.cache.directory.occupancy());
    }

    /// Before anything else: pages of a group whose destage the last run left open. It is
    /// redone now; [`Action::Begin`] comes first. `doubt`: its pages of rows that may have been
    /// written in part.
    pub fn redo(
        &mut self,
        group: GroupId,
        mask: &[u64],
        doubt: Vec<u64>,
        actions: &mut Vec<Action>,
    ) {
        self.cache.directory.put_in_flight(group, mask);
        self.destager.on_occupancy(self.cache.directory.occupancy());
        self.with_destager(&NoHeads, actions, |d, around| d.adopt(group, mask, doubt, around));
    }

    /// The pages of a destage under way, bit i = page i of the group.
    #[must_use]
    pub fn destage_mask(&self, index: u32) -> &[u64] {
        self.destager.mask(index)
    }

    /// Whether a destage redoes what may have been written in part.
    #[must_use]
    pub fn is_redo(&self, index: u32) -> bool {
        self.destager.is_redo(index)
    }

    /// The disks that have failed.
    #[must_use]
    pub fn failed(&self) -> &DiskSet {
        &self.faults.failed
    }

    /// The array.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Pages that occupy NVS space.
    #[must_use]
    pub fn occupancy(&self) -> PageCount {
        PageCount(self.cache.directory.occupancy())
    }

    /// Pages of groups whose destage cannot be computed: what a flush leaves.
    #[must_use]
    pub fn kept_pages(&self) -> u64 {
        self.destager.kept().map(|group| self.cache.directory.pages_of(group)).sum()
    }

    /// Whether the destage of this group cannot be computed.
    #[must_use]
    pub fn is_kept(&self, group: GroupId) -> bool {
        self.destager.keeps(group)
    }

    /// Writes waiting for space.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Destage writes in flight.
    #[must_use]
    pub fn destages_in_flight(&self) -> u32 {
        self.destager.in_flight()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The directory, to look at.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.cache.directory
    }
}
