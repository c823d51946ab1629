//! One run: virtual clock, next-event loop, digest.

use crate::config::{FaultPlan, SimConfig, Spindles};
use crate::drives;
use crate::fault_log::FaultLog;
use crate::flushes::DiskFlushes;
use crate::heads::{DiskHeads, DiskLayout};
use crate::measure::{Measure, Outcome};
use crate::uncached::Uncached;
use destage_disk::{Completed, Disk, DiskOp, DiskSpec};
use destage_engine::controller::{ConfigError, Controller};
use destage_engine::counters::Counters;
use destage_engine::event::{Action, Event};
use destage_engine::event::{DiskCommand, Owner};
use destage_engine::flushes::Flushed;
use destage_engine::request::{Direction, HostError, HostRequest, PageRange, RequestId};
use destage_engine::track::controller::TrackController;
use destage_engine::units::{DiskId, Duration, Instant};
use destage_report::model::{FaultUse, RunReport};
use destage_workload::source::{Source, SourceError, SourceRequest};
use std::collections::VecDeque;
use thiserror::Error;

/// Why a run could not be made or finished.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimError {
    /// The configuration makes no controller.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration makes no track cache.
    #[error("{0}")]
    Track(String),
    /// The options make no read cache.
    #[error("{0}")]
    ReadCache(String),
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The controller refused a request of the source.
    #[error(
        "request {number} (page {}, {} pages) was refused: {error}",
        .range.first,
        .range.pages
    )]
    Refused {
        /// Number of the request, from 1.
        number: u64,
        /// Its pages.
        range: PageRange,
        /// Why.
        error: HostError,
    },
    /// The source had no request at all.
    #[error("the workload has no requests")]
    NoRequests,
}

/// A host request on its way.
#[derive(Clone, Copy)]
struct Outstanding {
    arrival: Instant,
    submitted: Instant,
    tag: u32,
    direction: Direction,
    range: PageRange,
}

/// A digest that takes one word at a time.
#[derive(Clone, Copy)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// The simulator of one run.
struct Simulator<'a> {
    engine: Engine,
    /// Sectors in the engine's unit of space.
    unit_sectors: u64,
    disks: Vec<Disk>,
    /// When each disk's command in service completes.
    completes: Vec<Instant>,
    source: &'a mut dyn Source,
    outstanding: Vec<Outstanding>,
    idle: Vec<u32>,
    appends: VecDeque<(Instant, Event)>,
    nvs_latency: Duration,
    actions: Vec<Action>,
    /// Disks that may have something to start.
    touched: Vec<usize>,
    issued: u64,
    /// When the last request arrived, and when the last answer was given.
    last: (Instant, Instant),
    requests_max: u64,
    answered_max: u64,
    in_system: u64,
    measure: Measure,
    digest: Digest,
    faults: FaultPlan,
    /// How many of the disks that are to fail have failed.
    fails_done: usize,
    log: FaultLog,
    spec: DiskSpec,
    spindles: Spindles,
    /// Of disks that are gone and have no spare.
    gone: Vec<bool>,
    /// Commands that each disk has, where one may fail.
    with_disks: Vec<Vec<DiskCommand>>,
    flushes: DiskFlushes,
    /// Writes that wait until they are on the disks, if the array has no cache.
    uncached: Option<Uncached>,
}

/// The state machine that the run drives.
enum Engine {
    Array(Box<Controller>),
    Tracks(Box<TrackController>),
}

impl Engine {
    fn new(config: &SimConfig) -> Result<Engine, SimError> {
        Ok(match &config.track {
            None => {
                let mut controller = Controller::new(&config.controller)?;
                let drive = destage_disk::Disk::new(&config.disk);
                let per_page = u64::from(config.disk.sectors_per_page());
                controller.set_drive_pages(drive.sectors() / per_page);
                let faults = &config.faults;
                controller
                    .set_read_cache(faults.read_cache.as_ref())
                    .map_err(|error| SimError::ReadCache(error.to_string()))?;
                if let Some(rebuild) = &faults.rebuild {
                    controller.set_rebuild_limits(rebuild.limits);
                }
                Engine::Array(Box::new(controller))
            }
            Some(track) => {
                let controller = TrackController::new(track, config.controller.window);
                Engine::Tracks(Box::new(controller.map_err(SimError::Track)?))
            }
        })
    }

    fn counters(&self) -> &Counters {
        match self {
            Engine::Array(controller) => controller.counters(),
            Engine::Tracks(controller) => controller.counters(),
        }
    }

    fn array(&self) -> Option<&Controller> {
        match self {
            Engine::Array(controller) => Some(controller),
            Engine::Tracks(_) => None,
        }
    }

    fn occupancy(&self) -> u64 {
        match self {
            Engine::Array(controller) => controller.occupancy().0,
            Engine::Tracks(controller) => controller.occupancy(),
        }
    }

    fn waiting(&self) -> usize {
        match self {
            Engine::Array(controller) => controller.waiting(),
            Engine::Tracks(controller) => controller.waiting(),
        }
    }
}

/// What happens next.
#[derive(Clone, Copy)]
enum Next {
    Disk(usize),
    Append,
    Arrival,
    /// A disk is flushed.
    Flushed(usize),
    /// It is time to flush a disk.
    FlushDue,
    /// A disk fails.
    Fail,
    /// The spare is there.
    Rebuild,
    /// The engine asked to be called.
    Tick,
}

/// Runs the source through the configuration.
pub fn simulate(config: &SimConfig, source: &mut dyn Source) -> Result<RunReport, SimError> {
    let target_iops = source.target_iops();
    let bound = source.bound();
    let mut simulator = Simulator::new(config, source)?;
    simulator.run()?;
    if simulator.issued == 0 {
        return Err(SimError::NoRequests);
    }
    let outcome = Outcome {
        counters: *simulator.engine.counters(),
        digest: simulator.digest.0,
        target_iops,
        in_system: simulator.in_system,
        behind: simulator.behind(),
        read_cache: simulator.engine.array().and_then(Controller::read_cache),
        fault: simulator.fault_use(),
        media_cache: drives::media_use(&mut simulator.disks, &config.disk, simulator.measure.now()),
    };
    let mut report = simulator.measure.report(&outcome);
    report.warnings.extend(simulator.source.notes());
    report.warnings.extend(drives::notes(config));
    report.warnings.extend(simulator.not_reached());
    report.options.insert("outstanding-bound".into(), bound);
    Ok(report)
}

impl<'a> Simulator<'a> {
    fn new(config: &SimConfig, source: &'a mut dyn Source) -> Result<Simulator<'a>, SimError> {
        let disks = usize::from(config.controller.geometry.disks);
        Ok(Simulator {
            engine: Engine::new(config)?,
            unit_sectors: match config.track {
                Some(_) => 1,
                None => u64::from(config.disk.sectors_per_page()),
            },
            disks: (0..disks)
                .map(|disk| Disk::with_phase(&config.disk, config.spindles.phase(disk)))
                .collect(),
            completes: vec![Instant::NEVER; disks],
            source,
            outstanding: Vec::new(),
            idle: Vec::new(),
            appends: VecDeque::new(),
            nvs_latency: config.nvs_latency,
            actions: Vec::new(),
            touched: Vec::new(),
            issued: 0,
            last: (Instant::ZERO, Instant::ZERO),
            requests_max: config.requests_max,
            answered_max: config.answered_max,
            in_system: 0,
            measure: Measure::new(config),
            digest: Digest(0xCBF2_9CE4_8422_2325),
            faults: config.faults.clone(),
            fails_done: 0,
            log: FaultLog::default(),
            spec: config.disk.clone(),
            spindles: config.spindles,
            gone: vec![false; disks],
            with_disks: vec![Vec::new(); if config.faults.fails.is_empty() { 0 } else { disks }],
            flushes: DiskFlushes::new(config, disks),
            uncached: config.uncached.then(Uncached::default),
        })
    }

    fn run(&mut self) -> Result<(), SimError> {
        while let Some((now, next)) = self.next() {
            if !self.measure.advance(now, self.engine.counters()) {
                break;
            }
            match next {
                Next::Disk(disk) => self.disk_done(now, disk),
                Next::Append => {
                    let (_, done) = self.appends.pop_front().expect("an append is pending");
                    self.step(now, done);
                }
                Next::Arrival => self.arrive(now)?,
                Next::Flushed(disk) => self.flushed(now, disk),
                Next::FlushDue => {}
                Next::Fail => self.fail(now),
                Next::Rebuild => self.begin_rebuild(now),
                Next::Tick => self.step(now, Event::Tick),
            }
            self.carry_out(now);
            self.measure.observe(self.engine.occupancy(), self.engine.waiting() > 0);
            let rebuilt = self.faults.until_rebuilt && self.log.rebuilt.is_some();
            if rebuilt || self.measure.answered() >= self.answered_max {
                break;
            }
        }
        self.measure.close(self.engine.counters());
        Ok(())
    }

    /// How long the last answers were behind the last arrivals. Of a run that ended with requests
    /// in flight, how long the oldest of them had waited at the last answer.
    fn behind(&self) -> Duration {
        let (last_arrival, last_reply) = self.last;
        let mut waits: Vec<bool> = vec![true; self.outstanding.len()];
        self.idle.iter().for_each(|index| waits[*index as usize] = false);
        let in_flight = self.outstanding.iter().zip(waits).filter(|(_, waits)| *waits);
        let oldest = in_flight.map(|(request, _)| request.arrival).min().unwrap_or(last_arrival);
        Duration(last_reply.0.saturating_sub(oldest.0))
    }

    fn step(&mut self, now: Instant, event: Event) {
        let (disks, completes) = (&self.disks, &self.completes);
        let heads = |places| DiskHeads { disks, completes, now, places };
        let actions = &mut self.actions;
        match &mut self.engine {
            Engine::Array(controller) => {
                let geometry = *controller.geometry();
                controller.step_with(now, event, &heads(DiskLayout::Array(&geometry)), actions);
            }
            Engine::Tracks(controller) => {
                let places = DiskLayout::Tracks(controller.sectors_per_track());
                controller.step_with(now, event, &heads(places), actions);
            }
        }
    }

    /// The earliest event; at equal times disks come first, then appends, then arrivals.
    fn next(&mut self) -> Option<(Instant, Next)> {
        let mut at = Instant::NEVER;
        let mut next = None;
        for (disk, time) in self.completes.iter().enumerate() {
            if *time < at {
                (at, next) = (*time, Some(Next::Disk(disk)));
            }
        }
        if let Some((time, _)) = self.appends.front()
            && *time < at
        {
            (at, next) = (*time, Some(Next::Append));
        }
        let more = self.issued < self.requests_max;
        let arrival = if more { self.source.next_at() } else { None };
        if let Some(time) = arrival
            && time < at
        {
            (at, next) = (time, Some(Next::Arrival));
        }
        let rebuilding = self.log.began.is_some() && self.log.rebuilt.is_none();
        // No run waits for a failure after its load, unless it measures a rebuild.
        let over = arrival.is_none() && self.in_system == 0 && self.issued > 0;
        let waits = !over || rebuilding || self.faults.until_rebuilt;
        let mut earlier = |time: Option<Instant>, what: Next| {
            if let Some(time) = time.filter(|time| *time < at) {
                (at, next) = (time, Some(what));
            }
        };
        if let Some((time, disk)) = self.flushes.next() {
            earlier(Some(time), Next::Flushed(disk));
        }
        earlier(self.flushes.due(&self.disks), Next::FlushDue);
        if waits {
            earlier(self.faults.fails.get(self.fails_done).map(|fail| fail.0), Next::Fail);
        }
        if waits && self.fails_done > 0 && self.log.began.is_none() {
            earlier(self.faults.rebuild.map(|rebuild| rebuild.at), Next::Rebuild);
        }
        if rebuilding {
            earlier(self.engine.array().and_then(Controller::deadline), Next::Tick);
        }
        next.map(|next| (at, next))
    }

    fn arrive(&mut self, now: Instant) -> Result<(), SimError> {
        let SourceRequest { arrival, tag, direction, range } = self.source.take(now)?;
        self.issued += 1;
        self.in_system += 1;
        self.last.0 = arrival;
        self.measure.arrived(self.engine.counters());
        if direction == Direction::Write {
            self.log.written(range);
        }
        let entry = Outstanding { arrival, submitted: now, tag, direction, range };
        let index = match self.idle.pop() {
            Some(index) => {
                self.outstanding[index as usize] = entry;
                index
            }
            None => {
                self.outstanding.push(entry);
                (self.outstanding.len() - 1) as u32
            }
        };
        let id = RequestId(u64::from(index));
        let request = HostRequest { id, direction, range };
        self.step(now, Event::Host(request));
        for action in &self.actions {
            if let Action::Reply { result: Err(error), .. } = action {
                let number = self.issued;
                return Err(SimError::Refused { number, range, error: *error });
            }
        }
        Ok(())
    }

    fn disk_done(&mut self, now: Instant, index: usize) {
        let completed: Completed = self.disks[index].finish(now);
        self.completes[index] = Instant::NEVER;
        self.digest.add(now.0);
        self.digest.add(completed.op.lbn);
        let owner = owner_of(completed.op.tag);
        self.completed_at(index, &completed, owner);
        self.flushes.finished(&self.command_of(index, &completed));
        self.measure.disk(index, &completed, owner);
        let event = Event::DiskDone(DiskId(index as u16), owner);
        self.step(now, event);
        self.touched.push(index);
    }

    /// Carries out the actions, and those that follow from them at the same instant; then starts
    /// every disk that has something new to choose from.
    fn carry_out(&mut self, now: Instant) {
        let mut index = 0;
        while index < self.actions.len() {
            match self.actions[index] {
                Action::NvsAppend { id, .. } => self.append(now, Event::NvsDone(id)),
                Action::Intend { index } => self.append(now, Event::Intended(index)),
                Action::FlushDisks { index } => self.flush(now, index),
                Action::Reply { id, .. } => self.answer(now, id),
                // Under protocol safe, and under the papers'.
                Action::Released { .. } | Action::NvsRelease { .. } => self.written_through(now),
                Action::Disk(command) if self.gone[usize::from(command.disk.0)] => {
                    self.step(now, Event::DiskError(command));
                }
                Action::Disk(command) => self.submit(now, &command),
                // The modelled processor computes at once.
                Action::Regenerate { window, .. } => self.step(now, Event::Regenerated(window)),
                Action::Rebuilt { .. } => self.log.rebuilt(now),
                Action::Unrecoverable { .. } => self.log.lost_pages += 1,
                Action::Keep { .. }
                | Action::Drop { .. }
                | Action::Checkpoint { .. }
                | Action::RebuildStopped { .. } => {}
                Action::Begin { .. }
                | Action::Recall { .. }
                | Action::Remember { .. }
                | Action::Forget { .. }
                | Action::ForgetAll
                | Action::ReadAgain { .. }
                | Action::ReadRows { .. }
                | Action::ReadNow { .. }
                | Action::LeftOut { .. }
                | Action::ScrubCompare { .. }
                | Action::ScrubDone { .. }
                | Action::ScrubEnded { .. } => {}
            }
            index += 1;
        }
        self.actions.clear();
        let begun = self.flushes.begin(&mut self.disks, now);
        self.measure.flushes(begun);
        while let Some(disk) = self.touched.pop() {
            if self.flushes.holds(disk) {
                continue;
            }
            if let Some(time) = self.disks[disk].start(now) {
                self.completes[disk] = time;
            }
        }
    }

    /// Makes something durable in the NVS.
    fn append(&mut self, now: Instant, done: Event) {
        if self.nvs_latency == Duration::ZERO {
            self.step(now, done);
        } else {
            self.appends.push_back((now + self.nvs_latency, done));
        }
    }

    /// A destage waits until what it has written is durable.
    fn flush(&mut self, now: Instant, index: u32) {
        if let Some(flushed) = self.flushes.wanted(index, now, &self.gone) {
            self.step(now, Event::Flushed(flushed.index, flushed.ok));
        }
    }

    fn flushed(&mut self, now: Instant, disk: usize) {
        for Flushed { index, ok } in self.flushes.done(disk, now) {
            self.step(now, Event::Flushed(index, ok));
        }
        self.touched.push(disk);
    }

    /// The engine has answered a request. Without a cache a write waits for the disks.
    fn answer(&mut self, now: Instant, id: RequestId) {
        let Outstanding { direction, range, .. } = self.outstanding[id.0 as usize];
        match &mut self.uncached {
            Some(uncached) if direction == Direction::Write => {
                uncached.add(id, range);
                self.step(now, Event::Flush);
            }
            _ => self.reply(now, id),
        }
    }

    /// Pages have left memory: their data and parity are on the disks, and durable there under
    /// the safe protocol.
    fn written_through(&mut self, now: Instant) {
        let (Some(uncached), Engine::Array(controller)) = (&mut self.uncached, &self.engine) else {
            return;
        };
        for id in uncached.take_written(controller.directory()) {
            self.reply(now, id);
        }
    }

    fn submit(&mut self, now: Instant, command: &DiskCommand) {
        let disk = usize::from(command.disk.0);
        let op = DiskOp {
            lbn: command.first * self.unit_sectors,
            sectors: command.pages * self.unit_sectors as u32,
            write: command.write,
            tag: tag_of(command.owner),
        };
        match self.flushes.submitted(command) {
            true => self.disks[disk].submit_durable(now, op),
            false => self.disks[disk].submit(now, op),
        }
        if let Some(list) = self.with_disks.get_mut(disk) {
            list.push(*command);
        }
        self.touched.push(disk);
    }

    /// The next disk that is to fail does: what it had to do fails with it.
    fn fail(&mut self, now: Instant) {
        let (_, disk) = self.faults.fails[self.fails_done];
        self.fails_done += 1;
        let index = usize::from(disk.0);
        self.digest.add(now.0 ^ u64::from(disk.0));
        (self.gone[index], self.completes[index]) = (true, Instant::NEVER);
        // In its place, if ever, a new one.
        let phase = self.spindles.phase(self.disks.len() + self.fails_done);
        self.disks[index] = Disk::with_phase(&self.spec, phase);
        if let Some(controller) = self.engine.array() {
            self.log.fail(controller.geometry(), disk);
        }
        self.step(now, Event::DiskFailed(disk));
        for Flushed { index, ok } in self.flushes.failed(index) {
            self.step(now, Event::Flushed(index, ok));
        }
        for command in std::mem::take(&mut self.with_disks[index]) {
            self.step(now, Event::DiskError(command));
        }
    }

    fn begin_rebuild(&mut self, now: Instant) {
        let (_, disk) = self.faults.fails[0];
        self.gone[usize::from(disk.0)] = false;
        self.log.began = Some(now);
        self.step(now, Event::Rebuild { disk, from: 0 });
    }

    fn command_of(&self, disk: usize, completed: &Completed) -> DiskCommand {
        let DiskOp { lbn, sectors, write, tag } = completed.op;
        let first = lbn / self.unit_sectors;
        let pages = sectors / self.unit_sectors as u32;
        DiskCommand { disk: DiskId(disk as u16), first, pages, write, owner: owner_of(tag) }
    }

    /// A command has left its disk.
    fn completed_at(&mut self, disk: usize, completed: &Completed, owner: Owner) {
        let Some(list) = self.with_disks.get_mut(disk) else { return };
        let first = completed.op.lbn / self.unit_sectors;
        let is_it =
            |c: &DiskCommand| (c.owner, c.first, c.write) == (owner, first, completed.op.write);
        let at = list.iter().position(is_it).expect("a command that the disk had");
        list.swap_remove(at);
    }

    /// What was to happen to disks, and came after the end of the run.
    fn not_reached(&self) -> Vec<String> {
        self.log.not_reached(&self.faults, self.fails_done)
    }

    fn fault_use(&mut self) -> Option<FaultUse> {
        let controller = self.engine.array()?;
        if let Some(rebuild) = controller.rebuilds().next() {
            self.log.share = rebuild.done_pages as f64 / rebuild.disk_pages as f64;
        }
        self.log.report(controller.deferrals())
    }

    fn reply(&mut self, now: Instant, id: RequestId) {
        let Outstanding { arrival, submitted, tag, direction, .. } =
            self.outstanding[id.0 as usize];
        self.idle.push(id.0 as u32);
        self.in_system -= 1;
        self.last.1 = now;
        self.digest.add(now.0 ^ id.0 << 48);
        self.measure.completed(now.since(submitted), submitted.since(arrival), direction);
        self.source.completed(tag, now);
    }
}

const READ_TAG: u64 = 1 << 32;
const REBUILD_TAG: u64 = 1 << 33;

fn tag_of(owner: Owner) -> u64 {
    match owner {
        Owner::HostRead(index) => u64::from(index) | READ_TAG,
        Owner::Destage(index) => u64::from(index),
        Owner::Rebuild(window) => u64::from(window) | REBUILD_TAG,
        Owner::Scrub(_) => unreachable!("nothing is scrubbed here"),
    }
}

fn owner_of(tag: u64) -> Owner {
    match tag & (READ_TAG | REBUILD_TAG) {
        0 => Owner::Destage(tag as u32),
        READ_TAG => Owner::HostRead(tag as u32),
        _ => Owner::Rebuild(tag as u32),
    }
}
