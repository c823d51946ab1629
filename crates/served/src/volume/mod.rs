//! The volume: the coordinator of the served array. Each part owns its state and knows nothing of
//! the others; here requests, results and the engine's actions are passed between them.
//!
//! Invariants (numbers as in docs/durability.md): a reply to a write leaves only when the log
//! says that its commit and all before it are durable (D1); a release is logged only when the
//! disks are flushed (D2); nothing is written to a disk before its intent is durable (D4).

mod destaging;
mod failures;
mod hosts;
mod open;
mod repairs;
mod status;
mod withdraw;

use crate::Buffer;
use crate::at_risk::AtRisk;
use crate::destages::Destages;
use crate::devices::Devices;
use crate::engine::Engine;
use crate::io::{Device, IoError, Op, OpId, OpKind};
use crate::log::{Log, Waiter};
use crate::ops::{Finished, LogOp, Ops, Purpose};
use crate::pages::DirtyPages;
use crate::read_cache::ReadCache;
use crate::rebuilds::{DATA, Rebuilds};
use crate::request::{Alarm, Refusal, Reply};
use crate::requests::{EngineOp, Requests};
use crate::scrub::Scrub;
use crate::settings::Settings;
use crate::stripes::Stripes;
use destage_engine::controller::Controller;
use destage_engine::event::{Action, DiskCommand, Event, Owner};
use destage_engine::flushes::Flushes;
use destage_engine::policy::PolicyChoice;
use destage_engine::rate::RateChoice;
use destage_engine::registry::ChoiceError;
use destage_engine::request::RequestId;
use destage_engine::units::{Instant, PAGE_BYTES, Page};

pub use open::{Creation, OpenError, create, knows_lost_pages, open, prepare_spare};
pub use status::Status;

/// The bytes of a write that the engine is given, as the caller has them.
#[derive(Clone, Copy)]
struct Payload<'a> {
    id: RequestId,
    bytes: &'a [u8],
}

/// The served array.
pub struct Volume {
    engine: Engine,
    settings: Settings,
    ops: Ops,
    requests: Requests,
    log: Log,
    pages: DirtyPages,
    read_cache: Option<ReadCache>,
    destages: Destages,
    flushes: Flushes,
    devices: Devices,
    rebuilds: Rebuilds,
    scrub: Scrub,
    stripes: Stripes,
    /// Rows may not fit since a run without a log was interrupted, and are not repaired yet.
    rows_doubted: bool,
    /// Writes that wait for a commit.
    appends_waiting: usize,
    /// What the disks do not have yet of what a lost NVS had.
    at_risk: AtRisk,
}

impl Volume {
    /// Bytes of the volume.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.controller().geometry().volume_pages().0 * PAGE_BYTES
    }

    /// The engine, to look at.
    #[must_use]
    pub fn controller(&self) -> &Controller {
        self.engine.controller()
    }

    /// An operation is done. A read returns its bytes.
    pub fn done(&mut self, now: Instant, id: OpId, result: Result<Option<Buffer>, IoError>) {
        self.ops.set_now(now);
        if self.is_still() {
            return;
        }
        let Some(finished) = self.ops.finish(id) else { return };
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) => {
                self.failed(finished, error);
                return;
            }
        };
        let Finished { device, purpose, kind, retried } = finished;
        if retried || matches!(kind, OpKind::Write { .. }) {
            self.ops.answered(device);
        }
        let durable = matches!(kind, OpKind::Write { durable: true, .. });
        if let OpKind::Write { buffer, .. } = kind
            && let Some(buffer) = buffer.into_buffer()
        {
            self.ops.recycle(buffer);
        }
        match (purpose, device) {
            (Purpose::Log(op), _) => {
                self.log.op_done(op, bytes, &mut self.ops);
                if matches!(op, LogOp::Mirror { .. }) {
                    self.mirror_turn();
                }
            }
            (Purpose::Command(command), _) => {
                self.flushes.finished(&command, durable);
                self.command_done(&command, id, bytes);
                self.step(Event::DiskDone(command.disk, command.owner));
            }
            (Purpose::Flush, Device::Member(member)) => self.member_flushed(member),
            (Purpose::ScrubFlush, _) => self.scrub_flushed(true),
            (Purpose::Superblock { change }, _) => self.superblock_written(change),
            (Purpose::Record, Device::Member(member)) => self.record_step_done(member),
            (Purpose::Flush | Purpose::Record, Device::Nvs(_)) => {}
        }
        self.after();
    }

    /// Whether the array has stopped and nothing continues: what its NVS holds is kept as it is,
    /// and no device that is given up is recorded. Without NVS the members still get what is
    /// dirty.
    fn is_still(&self) -> bool {
        self.devices.stopped() && !self.log.lost()
    }

    /// After a batch of requests and completions: the log writes what has gathered, operations
    /// that take too long are given up, and what waited for its time continues.
    pub fn turn(&mut self, now: Instant) {
        self.ops.set_now(now);
        if self.is_still() {
            return;
        }
        self.fail_stalled();
        for command in self.ops.retry_due() {
            self.step(Event::DiskTriesAgain(command.disk));
        }
        self.retry_uncomputable();
        self.mirror_turn();
        self.rebuild_turn();
        self.write_log();
        self.after();
        self.flush_members();
    }

    /// When [`Volume::turn`] has to be called without a further event.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.is_still() {
            return None;
        }
        let stall = self.ops.stall_deadline(self.settings.stall_limit);
        let rebuild = self.rebuild_deadline();
        let retry = self.ops.retry_deadline();
        let uncomputable = self.destages.retry_at().filter(|_| !self.controller().is_paused());
        let flush = self.flushes.deadline();
        let all = [self.log.deadline(), stall, rebuild, retry, uncomputable, flush];
        all.into_iter().flatten().min()
    }

    fn write_log(&mut self) {
        self.log.turn(&mut self.ops);
    }

    /// Continues what waited for commits that have become durable.
    fn after(&mut self) {
        while let Some(waiter) = self.log.next_durable() {
            match waiter {
                Waiter::Append(id) => {
                    self.appends_waiting -= 1;
                    let done = self.appended(id);
                    self.step(done);
                }
                // The disks may be written only when a device that failed cannot come back: a
                // lost log, or a member whose parity is older than the data.
                Waiter::Intent(index) if self.devices.changing() => {
                    self.destages.hold_intent(index);
                }
                Waiter::Intent(index) => self.step(Event::Intended(index)),
                Waiter::Answer(host) => self.host_durable(host),
            }
        }
    }

    /// Gives the engine an event, and carries out its actions. An event that is raised by an
    /// action waits until the engine has handled those before it.
    fn step(&mut self, event: Event) {
        if !self.engine.raise(event) {
            self.run(None);
        }
    }

    /// The same for a write, with its bytes. They are copied to memory and log if the engine
    /// admits the write at once. Not to be called from an action.
    fn step_with(&mut self, event: Event, payload: Payload<'_>) {
        let acting = self.engine.raise(event);
        assert!(!acting, "a payload lasts only as long as its call");
        self.run(Some(payload));
    }

    fn run(&mut self, payload: Option<Payload<'_>>) {
        while let Some(mut actions) = self.engine.next(self.ops.now()) {
            for action in actions.drain(..) {
                self.act(action, payload);
            }
            self.report_lacking();
            self.engine.acted(actions);
        }
    }

    fn act(&mut self, action: Action, payload: Option<Payload<'_>>) {
        match action {
            Action::NvsAppend { id, .. } => self.append(id, payload),
            Action::Begin { index, group } => self.begin_destage(index, group),
            Action::Intend { index } => self.intend(index),
            Action::FlushDisks { index } => self.flush_disks(index),
            Action::Released { index, .. } => self.released(index),
            Action::ReadAgain { id, .. } => self.requests.read(id).restart(),
            Action::ReadRows { index, first, pages } => {
                let id = self.controller().read_id(index);
                self.requests.read(id).pieces.rows_hold(first, pages, self.ops.next_id());
            }
            Action::ReadNow { id, missing } => self.read_now(id, missing),
            Action::LeftOut { id, range } => self.left_out(id, range),
            Action::Disk(command) => self.command(&command),
            Action::Reply { id, result } => {
                let error = result.err().map(|_| Refusal::Unreadable);
                self.engine_reply(id, error);
            }
            Action::ScrubCompare { index, chunk } => self.scrub_compare(index, chunk),
            Action::ScrubDone { index, whole } => self.scrub.chunk_done(index, whole),
            Action::ScrubEnded { whole } => self.scrub_ended(whole),
            Action::NvsRelease { .. } => unreachable!("only without the safe protocol"),
            Action::Recall { index, disk, row } => self.recall(index, disk, row),
            Action::Remember { index, row, disks } => self.remember(index, row, disks),
            Action::Forget { row } => self.stripes.forget(row),
            Action::ForgetAll => self.stripes.clear(),
            Action::Keep { page, bytes } => self.cache_page(page, bytes),
            Action::Drop { page } => {
                if let Some(cache) = &mut self.read_cache {
                    cache.drop_page(page.0);
                }
            }
            Action::Regenerate { window, disk, first, pages } => {
                self.reconstruct(window, disk, first, pages);
            }
            Action::Checkpoint { disk, .. } => self.checkpoint(disk.0),
            Action::Rebuilt { disk } => self.rebuilt(disk.0),
            Action::RebuildStopped { .. } => self.forget_windows(),
            // Reported when the window is reconstructed: a page may yet be found otherwise.
            Action::Unrecoverable { .. } => {}
        }
    }

    fn engine_reply(&mut self, id: RequestId, error: Option<Refusal>) {
        match self.requests.remove(id) {
            EngineOp::Write(write) => self.write_answered(&write, error),
            EngineOp::Discard { host, .. } => self.part_done(host, error),
            EngineOp::Read(read) => self.read_answered(read, error),
        }
    }

    /// The engine wants a disk read or written.
    fn command(&mut self, command: &DiskCommand) {
        let bytes = match command.owner {
            _ if !command.write => None,
            Owner::Destage(index) => {
                let geometry = self.engine.controller().geometry();
                Some(self.destages.bytes_to_write(index, command, geometry, &self.pages))
            }
            Owner::HostRead(index) => {
                let Some(bytes) = self.repaired_bytes(index, command) else {
                    // Not enough is readable: the reply to the read will be an error.
                    self.step(Event::DiskDone(command.disk, command.owner));
                    return;
                };
                Some(bytes)
            }
            Owner::Rebuild(window) => {
                // If there are none, the rebuild was stopped in this very step.
                let computed = self.rebuilds.take_window(window).computed;
                let zeros = || Buffer::zeroed((u64::from(command.pages) * PAGE_BYTES) as usize);
                Some(computed.unwrap_or_else(zeros))
            }
            Owner::Scrub(index) => Some(self.scrub.repair_bytes(index, command)),
        };
        if self.is_out_of_reach(command) {
            self.step(Event::DiskError(*command));
            return;
        }
        self.flushes.submitted(command);
        let offset = DATA + command.first * PAGE_BYTES;
        let kind = match bytes {
            Some(bytes) => {
                let durable = self.flushes.is_durable(command);
                OpKind::Write { offset, buffer: bytes.into(), durable }
            }
            None => {
                OpKind::Read { offset, bytes: (u64::from(command.pages) * PAGE_BYTES) as usize }
            }
        };
        self.ops.push(Device::Member(command.disk.0), Purpose::Command(*command), kind);
    }

    /// A disk was read or written for the engine.
    fn command_done(&mut self, command: &DiskCommand, op: OpId, bytes: Option<Buffer>) {
        let DiskCommand { disk, first, write, .. } = *command;
        let Some(bytes) = bytes.filter(|_| !write) else {
            self.devices.pages_written(command);
            self.devices.records.pages_written(command, &mut self.ops, self.settings.defect);
            return;
        };
        let pieces = match command.owner {
            Owner::Destage(index) => self.destages.pieces(index),
            // Nothing takes what is read for a rebuild that was stopped.
            Owner::Rebuild(window) if self.engine.controller().window_disk(window).is_none() => {
                return;
            }
            Owner::Rebuild(window) => self.rebuilds.pieces(window),
            Owner::Scrub(index) => return self.scrub.add_bytes(index, command, op, bytes),
            Owner::HostRead(index) => {
                let id = self.engine.controller().read_id(index);
                &mut self.requests.read(id).pieces
            }
        };
        pieces.add(disk, first, op, bytes);
    }

    /// Takes the operations to be carried out.
    pub fn take_ops(&mut self, into: &mut Vec<Op>) {
        self.ops.take(into);
    }

    /// Takes the replies.
    pub fn take_replies(&mut self, into: &mut Vec<Reply>) {
        self.requests.take_replies(into);
    }

    /// Takes the alarms.
    pub fn take_alarms(&mut self) -> Vec<Alarm> {
        self.ops.take_alarms()
    }

    /// Takes buffers that are no longer needed.
    pub fn take_spent(&mut self) -> Vec<Buffer> {
        self.ops.take_spent()
    }

    /// Destages everything at full depth until nothing is dirty or a write comes.
    pub fn flush_cache(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.step(Event::Flush);
        self.write_log();
        self.after();
    }

    /// From now on writes are answered when they are on the disks, or no longer: then less and less
    /// is dirty, however much is written.
    pub fn write_through(&mut self, now: Instant, on: bool) {
        self.ops.set_now(now);
        self.settings.cache_off = on;
        self.answer_written();
        self.after();
    }

    /// Confirms the log: the last step before a clean stop, when nothing else is in flight.
    pub fn confirm(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.log.confirm();
        self.write_log();
    }

    /// Switches to another policy and another rate.
    ///
    /// # Errors
    /// A parameter is out of range; nothing is changed then.
    pub fn change(&mut self, policy: &PolicyChoice, rate: &RateChoice) -> Result<(), ChoiceError> {
        self.engine.controller_mut().change(policy, rate)
    }

    /// Begins no destages while paused: before a stop that does not drain.
    pub fn pause(&mut self, paused: bool) {
        self.engine.controller_mut().pause(paused);
    }

    /// A request for this byte, of the volume or beyond it, is likely to come soon: what it will
    /// look up is looked up now. If there are several, the processor fetches from memory for all
    /// of them at once, and not for one after the other.
    pub fn soon(&self, offset: u64) {
        let page = offset / PAGE_BYTES;
        if page >= self.controller().geometry().volume_pages().0 {
            return;
        }
        std::hint::black_box((
            self.pages.current(page).map(|held| held.version),
            self.log.touch(Page(page)),
            self.controller().directory().missing(Page(page), 1),
        ));
    }
}
