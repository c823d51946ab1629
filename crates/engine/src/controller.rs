//! The one state machine: `step(now, event, &mut actions)`.
//!
//! Invariants:
//! - A write is replied to only after its `NvsDone`.
//! - A page leaves the NVS only after the last disk write of its destage is done.
//! - `occupancy` never exceeds the NVS: it is asserted, not hoped.
//! - Same events, same actions.

use crate::array::geometry::Geometry;
use crate::counters::Counters;
use crate::destager::{Count, Destager, Issue, Surroundings};
use crate::dispatch::{DiskCommand, Dispatch, Order, Owner};
use crate::heads::{Heads, NoHeads};
use crate::nvs::directory::{Directory, Slot};
use crate::policy::{PolicyChoice, PolicyContext};
use crate::rate::RateChoice;
use crate::request::{Direction, HostError, HostRequest, PageRange, RequestId};
use crate::sequential::{Classified, Detector, DetectorKind};
use crate::units::{DiskId, GroupId, Instant, Page, PageCount};
use crate::writecache::WriteCache;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

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

/// What a driver tells the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A host request arrived.
    Host(HostRequest),
    /// The append of this write is durable. Appends complete in the order they were asked for.
    NvsDone(RequestId),
    /// A disk command completed.
    DiskDone(DiskId, Owner),
    /// Destage everything at full depth, whatever the rate, until the NVS is empty or a host
    /// write arrives.
    Flush,
}

/// What the controller wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make these pages durable in NVS, then tell `NvsDone`.
    NvsAppend {
        /// The write.
        id: RequestId,
        /// Its pages.
        range: PageRange,
    },
    /// Read or write a disk, then tell `DiskDone`.
    Disk(DiskCommand),
    /// Answer the host.
    Reply {
        /// The request.
        id: RequestId,
        /// Served, or refused.
        result: Result<(), HostError>,
    },
    /// These pages of a group are on the disks: their NVS space may be used again.
    NvsRelease {
        /// The group.
        group: GroupId,
        /// How many pages.
        pages: u64,
    },
}

struct WaitingWrite {
    request: HostRequest,
    classified: Classified,
}

struct Append {
    request: HostRequest,
    classified: Classified,
    missing: u64,
    pinned: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct HostRead {
    id: RequestId,
    pending: u32,
}

/// The controller.
pub struct Controller {
    geometry: Geometry,
    cache: WriteCache,
    destager: Destager,
    dispatch: Dispatch,
    waiting: VecDeque<WaitingWrite>,
    appends: VecDeque<Append>,
    reads: Vec<HostRead>,
    idle_reads: Vec<u32>,
    counters: Counters,
    flushing: bool,
    now: Instant,
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
        let thresholds = rate.thresholds();
        let policy = config.policy.build(&PolicyContext {
            nvs_pages: config.nvs_pages.0,
            groups: geometry.groups(),
            disks: u64::from(geometry.disks),
            queue_depth: u64::from(config.queue_depth),
            high: thresholds.high,
            low: thresholds.low,
            mirrored: geometry.level == crate::array::geometry::Level::Raid10,
        })?;
        let per_group = geometry.pages_per_group();
        let detector = if policy.needs_detector() || rate.needs_detector() {
            Detector::new(config.detector, config.sequential_threshold, per_group)
        } else {
            Detector::Off
        };
        let directory = Directory::new(config.nvs_pages, per_group, geometry.groups());
        Ok(Controller {
            geometry,
            cache: WriteCache::new(directory, detector, policy),
            destager: Destager::new(rate, config.queue_depth, config.issue, config.count),
            dispatch: Dispatch::new(geometry.disks, config.window, config.order),
            waiting: VecDeque::new(),
            appends: VecDeque::new(),
            reads: Vec::new(),
            idle_reads: Vec::new(),
            counters: Counters::default(),
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
            Event::NvsDone(id) => self.durable(id, actions),
            Event::DiskDone(disk, owner) => {
                self.dispatch.done(disk, actions);
                match owner {
                    Owner::HostRead(index) => self.read_done(index, actions),
                    Owner::Destage(index) => self.destage_done(index, heads, actions),
                }
            }
            Event::Flush => self.flushing = true,
        }
        self.pump(heads, actions);
    }

    fn pump(&mut self, heads: &dyn Heads, actions: &mut Vec<Action>) {
        let forced = self.flushing || !self.waiting.is_empty();
        let mut around = Surroundings {
            geometry: &self.geometry,
            cache: &mut self.cache,
            heads,
            dispatch: &mut self.dispatch,
            counters: &mut self.counters,
            actions,
        };
        self.destager.pump(forced, &mut around);
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
        let PageRange { first, pages } = request.range;
        let missing = self.cache.directory.missing(first, pages);
        let first_in_line = self.waiting.is_empty() || missing == 0;
        if first_in_line && self.fits(request.range, missing) {
            self.append(request, classified, missing, actions);
        } else {
            self.counters.stalled_writes += 1;
            self.waiting.push_back(WaitingWrite { request, classified });
        }
    }

    fn fits(&self, range: PageRange, missing: u64) -> bool {
        let directory = &self.cache.directory;
        missing <= directory.free_pages() && directory.can_pin(range.first, range.pages)
    }

    fn append(
        &mut self,
        request: HostRequest,
        classified: Classified,
        missing: u64,
        actions: &mut Vec<Action>,
    ) {
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
        let admitted = self.cache.admit(append.request.range, append.classified);
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

    fn admit_waiting(&mut self, actions: &mut Vec<Action>) {
        while let Some(WaitingWrite { request, classified }) = self.waiting.front() {
            let (request, classified) = (*request, *classified);
            let PageRange { first, pages } = request.range;
            let missing = self.cache.directory.missing(first, pages);
            if !self.fits(request.range, missing) {
                return;
            }
            self.waiting.pop_front();
            self.append(request, classified, missing, actions);
        }
    }

    fn destage_done(&mut self, index: u32, heads: &dyn Heads, actions: &mut Vec<Action>) {
        let mut around = Surroundings {
            geometry: &self.geometry,
            cache: &mut self.cache,
            heads,
            dispatch: &mut self.dispatch,
            counters: &mut self.counters,
            actions,
        };
        if self.destager.on_disk_done(index, &mut around) {
            self.destager.on_occupancy(self.cache.directory.occupancy());
            self.admit_waiting(actions);
        }
    }

    fn arrive_read(&mut self, request: HostRequest, actions: &mut Vec<Action>) {
        self.counters.read_requests += 1;
        let PageRange { first, pages } = request.range;
        let Some((from, to)) = self.cache.directory.missing_span(first, pages) else {
            self.counters.read_request_hits += 1;
            actions.push(Action::Reply { id: request.id, result: Ok(()) });
            return;
        };
        let index = self.idle_reads.pop().unwrap_or_else(|| {
            self.reads.push(HostRead { id: request.id, pending: 0 });
            (self.reads.len() - 1) as u32
        });
        let mut pending = 0;
        let mut page = from;
        let mut last: Option<DiskCommand> = None;
        while page <= to {
            let rest = self.geometry.strip_pages - page.0 % self.geometry.strip_pages;
            let length = rest.min(to.0 - page.0 + 1);
            let command = self.read_command(page, length as u32, index);
            match &mut last {
                Some(run) if run.disk == command.disk && end(run) == command.first => {
                    run.pages += command.pages;
                }
                _ => {
                    pending += self.submit_read(last.replace(command), actions);
                }
            }
            page = page.offset(length);
        }
        pending += self.submit_read(last, actions);
        self.reads[index as usize] = HostRead { id: request.id, pending };
    }

    fn submit_read(&mut self, command: Option<DiskCommand>, actions: &mut Vec<Action>) -> u32 {
        let Some(command) = command else { return 0 };
        self.counters.disk_reads += 1;
        self.dispatch.submit(command, actions);
        1
    }

    /// A read of pages in one strip; on RAID-10 from the mirror with the shorter queue, then the
    /// nearer head.
    fn read_command(&self, page: Page, pages: u32, index: u32) -> DiskCommand {
        let place = self.geometry.place(page);
        let mut disk = place.disk;
        if self.geometry.level == crate::array::geometry::Level::Raid10 {
            let cost =
                |disk| (self.dispatch.length(disk), self.dispatch.distance(disk, place.page));
            let mirror = DiskId(disk.0 + 1);
            if cost(mirror) < cost(disk) {
                disk = mirror;
            }
        }
        let owner = Owner::HostRead(index);
        DiskCommand { disk, first: place.page, pages, write: false, owner }
    }

    fn read_done(&mut self, index: u32, actions: &mut Vec<Action>) {
        let read = &mut self.reads[index as usize];
        read.pending -= 1;
        if read.pending == 0 {
            actions.push(Action::Reply { id: read.id, result: Ok(()) });
            self.idle_reads.push(index);
        }
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

fn end(command: &DiskCommand) -> u64 {
    command.first + u64::from(command.pages)
}
