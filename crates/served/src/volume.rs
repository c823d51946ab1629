//! The volume: requests in, device operations and replies out.
//!
//! Invariants (numbers as in docs/durability.md): a reply to a write leaves only when the log
//! says that its commit and all before it are durable (D1); a release is logged only when the
//! disks are flushed (D2); nothing is written to a disk before its intent is durable (D4).

use crate::Buffer;
use crate::destages::Destage;
use crate::faults::Faults;
use crate::io::{Device, IoError, Op, OpId, OpKind};
use crate::log::{Log, Waiter};
use crate::memory::{Memory, PageMap};
use crate::ops::{Finished, Ops, Purpose};
use crate::reads::DiskRead;
use crate::request::{Alarm, Answer, Command, Refusal, Reply, Ticket};
use crate::settings::{Ack, Settings};
use crate::slab::Slab;
use crate::writes::Fill;
use destage_engine::controller::Controller;
use destage_engine::event::Owner;
use destage_engine::event::{Action, Event};
use destage_engine::request::{PageRange, RequestId};
use destage_engine::units::{Instant, PAGE_BYTES, Page};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A request of the host, of one part or more.
pub(crate) struct Whole {
    pub(crate) ticket: Ticket,
    pub(crate) parts: u32,
    pub(crate) error: Option<Refusal>,
    /// In the mode `flush`: to be durable before it is answered.
    pub(crate) durable: bool,
    pub(crate) answer: Option<Answer>,
    /// Parts that come one after another.
    pub(crate) rest: Option<crate::writes::Rest>,
}

/// What the engine knows as one request.
pub(crate) enum Part {
    /// A write of the range's pages; see `writes.rs`.
    Write(crate::writes::Write),
    /// A trim.
    Discard { whole: u64, range: PageRange },
    /// A read.
    Read(crate::reads::Read),
}

/// Bytes that are given with an event: the number of the write, and they.
pub(crate) type Given<'a> = (u64, &'a [u8]);
/// Of no write.
pub(crate) const NO_BYTES: Given<'static> = (u64::MAX, &[]);

/// The served array.
pub struct Volume {
    pub(crate) controller: Controller,
    pub(crate) settings: Settings,
    pub(crate) log: Log,
    pub(crate) memory: Memory,
    /// The read cache, if there is one.
    pub(crate) clean: Option<crate::clean::Clean>,
    pub(crate) ops: Ops,
    pub(crate) wholes: Slab<Whole>,
    pub(crate) parts: Slab<Part>,
    pub(crate) fills: PageMap<Fill>,
    /// How many there have been.
    pub(crate) fills_begun: u64,
    pub(crate) disk_reads: PageMap<DiskRead>,
    pub(crate) destages: Vec<Option<Destage>>,
    pub(crate) faults: Faults,
    /// Written through, not on the disks yet.
    pub(crate) through: Vec<crate::writes::Through>,
    events: VecDeque<Event>,
    actions: Vec<Action>,
    /// Empty: memory for what the log has resolved.
    resolved: Vec<crate::log::Waiter>,
    replies: Vec<Reply>,
    pub(crate) alarms: Vec<Alarm>,
    running: bool,
    /// Pages of the last run whose destages are being redone.
    pub(crate) redoing: u32,
    /// Groups whose destage the last run left open, and what it wrote.
    pub(crate) adopted: PageMap<u64>,
    /// The scrub under way, or the last.
    pub(crate) scrub: Option<crate::scrub::Scrub>,
    /// The NVS mirror that is being filled.
    pub(crate) mirror: Option<crate::mirror::Mirror>,
    /// How many were, since the start.
    pub(crate) mirrors: u64,
    pub(crate) recent: crate::watch::Recent,
    /// Members that are being rebuilt.
    pub(crate) rebuilds: Vec<crate::rebuild::Rebuild>,
    /// What windows of rebuilds have read.
    pub(crate) windows: BTreeMap<u32, crate::rebuild::Window>,
    /// Buffers to be used again.
    pub(crate) spent: Vec<crate::Buffer>,
    /// When destages that could not be computed are tried again.
    pub(crate) try_kept_at: Option<Instant>,
    /// What each member knows of itself.
    pub(crate) records: Vec<crate::records::Record>,
}

impl Volume {
    pub(crate) fn from_parts(
        controller: Controller,
        settings: Settings,
        log: Log,
        memory: Memory,
        faults: Faults,
    ) -> Volume {
        let records = faults.members.iter().map(|uuid| crate::records::Record::new(*uuid));
        let records = records.collect();
        Volume {
            controller,
            settings,
            log,
            memory,
            clean: None,
            ops: Ops::default(),
            wholes: Slab::default(),
            parts: Slab::default(),
            fills: PageMap::default(),
            fills_begun: 0,
            disk_reads: PageMap::default(),
            destages: Vec::new(),
            faults,
            through: Vec::new(),
            events: VecDeque::new(),
            actions: Vec::new(),
            resolved: Vec::new(),
            replies: Vec::new(),
            alarms: Vec::new(),
            running: false,
            redoing: 0,
            adopted: PageMap::default(),
            scrub: None,
            mirror: None,
            mirrors: 0,
            recent: crate::watch::Recent::default(),
            rebuilds: Vec::new(),
            windows: BTreeMap::new(),
            spent: Vec::new(),
            try_kept_at: None,
            records,
        }
    }

    /// Bytes of the volume.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.controller.geometry().volume_pages().0 * PAGE_BYTES
    }

    /// Takes a request. `payload` is the bytes of a write, empty else.
    pub fn submit(&mut self, now: Instant, ticket: Ticket, command: Command, payload: &[u8]) {
        self.ops.set_now(now);
        let (offset, bytes, writes) = match command {
            Command::Read { offset, bytes } => (offset, bytes as u64, false),
            Command::Write { offset, .. } => (offset, payload.len() as u64, true),
            Command::Zero { offset, bytes, .. } | Command::Trim { offset, bytes, .. } => {
                (offset, bytes, true)
            }
            Command::Flush => (0, 0, false),
        };
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes()) {
            self.refuse(ticket, Refusal::BeyondEnd { writes });
            return;
        }
        if self.faults.stopped {
            self.refuse(ticket, Refusal::Stopped);
            return;
        }
        let fua = match command {
            Command::Write { fua, .. } | Command::Zero { fua, .. } | Command::Trim { fua, .. } => {
                fua
            }
            Command::Flush => true,
            Command::Read { .. } => false,
        };
        let durable = fua && self.settings.ack == Ack::Flush;
        let whole = Whole { ticket, parts: 1, error: None, durable, answer: None, rest: None };
        let whole = self.wholes.insert(whole);
        match command {
            Command::Read { offset, bytes } => self.read(whole, offset, bytes),
            Command::Write { offset, .. } => self.write(whole, offset, payload),
            Command::Zero { offset, bytes, .. } => self.zero(whole, offset, bytes),
            Command::Trim { offset, bytes, .. } => self.trim(whole, offset, bytes),
            Command::Flush => {}
        }
        self.part_done(whole, None);
    }

    fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        self.push_reply(Reply { ticket, result: Err(refusal) });
    }

    pub(crate) fn push_reply(&mut self, reply: Reply) {
        self.replies.push(reply);
    }

    /// A part of a request is done.
    pub(crate) fn part_done(&mut self, index: u64, error: Option<Refusal>) {
        if self.wholes.get(index).is_none() {
            // It was refused when the array stopped.
            return;
        }
        let whole = self.wholes.get_mut(index);
        whole.error = whole.error.or(error);
        whole.parts -= 1;
        if whole.parts > 0 {
            return;
        }
        if self.next_of_rest(index) {
            return;
        }
        let whole = self.wholes.get_mut(index);
        if core::mem::take(&mut whole.durable) && whole.error.is_none() {
            whole.parts = 1;
            self.answer_when_durable(index);
            return;
        }
        let Whole { ticket, error, answer, .. } = self.wholes.remove(index);
        let result = error.map_or(Ok(answer.unwrap_or(Answer::Done)), Err);
        self.replies.push(Reply { ticket, result });
    }

    /// An operation is done. A read gives its bytes.
    pub fn done(&mut self, now: Instant, id: OpId, result: Result<Option<Buffer>, IoError>) {
        self.ops.set_now(now);
        if self.faults.stopped && !self.log.lost() {
            // Nothing goes on: what the NVS holds is kept as it is.
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
        let Finished { device, purpose, kind, again } = finished;
        if again || matches!(kind, OpKind::Write { .. }) {
            self.answers(device);
        }
        if let OpKind::Write { buffer, .. } = kind
            && let Some(buffer) = Arc::into_inner(buffer)
        {
            self.spent.push(buffer);
        }
        match purpose {
            Purpose::Commit { sequence } => self.log.commit_done(sequence),
            Purpose::Anchor => self.log.anchor_done(&mut self.ops),
            Purpose::Move { page, version } => self.log.moved(page, version, bytes),
            Purpose::Command(command) => {
                match bytes {
                    Some(bytes) if !command.write => self.disk_bytes(&command, bytes),
                    _ => self.found_again(&command),
                }
                self.step(Event::DiskDone(command.disk, command.owner));
            }
            Purpose::Flush => self.member_flushed(device),
            Purpose::ScrubFlush => self.scrub_flushed(true),
            Purpose::Mirror { number } => self.mirror_done(number, bytes),
            Purpose::Superblock { change } => self.superblock_done(change),
            Purpose::Record => self.record_done(device),
        }
        self.after();
    }

    /// After a batch of requests and completions: the log writes what has gathered, operations
    /// that take too long are given up.
    pub fn turn(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.look_for_stalls();
        for command in self.ops.try_again() {
            self.step(Event::DiskTriesAgain(command.disk));
        }
        self.kept_turn();
        self.mirror_turn();
        self.rebuild_turn();
        self.write_log();
        self.after();
    }

    /// When [`Volume::turn`] is to be called though nothing happened.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let stall = self.stall_deadline();
        let rebuild = self.rebuild_deadline();
        let retry = self.ops.retry_deadline();
        let kept = self.try_kept_at.filter(|_| !self.controller.is_paused());
        [self.log.deadline(), stall, rebuild, retry, kept].into_iter().flatten().min()
    }

    pub(crate) fn write_log(&mut self) {
        self.log.turn(&self.memory, &mut self.ops);
    }

    /// Carries out what has come of the log.
    pub(crate) fn after(&mut self) {
        let mut resolved = core::mem::take(&mut self.resolved);
        loop {
            self.log.take_resolved(&mut resolved);
            if resolved.is_empty() {
                self.resolved = resolved;
                return;
            }
            for waiter in resolved.drain(..) {
                match waiter {
                    Waiter::Append(id) => self.step(Event::NvsDone(id)),
                    // The disks go their own way only when what was given up cannot come back:
                    // a lost log, or a member whose parity is older than the data.
                    Waiter::Intent(index) if self.faults.changing() => {
                        self.faults.held_intents.push(index);
                    }
                    Waiter::Intent(index) => self.step(Event::Intended(index)),
                    Waiter::Answer(whole) => self.answered(whole),
                }
            }
        }
    }

    fn answered(&mut self, whole: u64) {
        let waits = self.wholes.get(whole).is_some_and(|whole| whole.answer.is_none());
        if waits && self.log.lost() {
            // The log was lost before it had all: the disks must have it.
            self.answer_when_durable(whole);
        } else {
            self.part_done(whole, None);
        }
    }

    /// Lets the engine handle an event, and carries out what it says.
    pub(crate) fn step(&mut self, event: Event) {
        self.step_given(event, NO_BYTES);
    }

    /// The same; the bytes of one write are given with it, and kept if they are not used here.
    pub(crate) fn step_given(&mut self, event: Event, given: Given<'_>) {
        self.events.push_back(event);
        if core::mem::replace(&mut self.running, true) {
            self.keep(given.0, given.1);
            return;
        }
        while let Some(event) = self.events.pop_front() {
            let mut actions = core::mem::take(&mut self.actions);
            self.controller.step(self.ops.now(), event, &mut actions);
            for action in actions.drain(..) {
                self.act(action, given);
            }
            self.tell_lacking();
            self.actions = actions;
        }
        self.running = false;
    }

    pub(crate) fn act(&mut self, action: Action, given: Given<'_>) {
        match action {
            Action::NvsAppend { id, .. } => self.append(id, given),
            Action::Begin { index, group } => self.begin(index, group),
            Action::Intend { index } => self.intend(index),
            Action::FlushDisks { index } => self.flush_disks(index),
            Action::Released { index, group, .. } => self.released(index, group),
            Action::ReadAgain { index, id } => self.read_again(index, id),
            Action::ReadRows { index, first, pages } => {
                let read = self.disk_reads.entry(u64::from(index)).or_default();
                read.pieces.rows_hold(first, pages);
            }
            Action::ReadNow { id, missing } => self.read_now(id, missing),
            Action::Disk(command) => match command.owner {
                Owner::Destage(index) => self.destage_command(index, &command),
                Owner::HostRead(index) => self.read_command(index, &command),
                Owner::Rebuild(window) => self.window_command(window, &command),
                Owner::Scrub(index) => self.scrub_command(index, &command),
            },
            Action::Reply { id, result } => {
                let error = result.err().map(|_| Refusal::Unreadable);
                self.engine_reply(id, error);
            }
            Action::ScrubCompare { index, chunk } => self.scrub_compare(index, chunk),
            Action::ScrubDone { index, whole } => self.scrub_done(index, whole),
            Action::ScrubEnded { whole } => self.scrub_ended(whole),
            Action::NvsRelease { .. } => unreachable!("only without the safe protocol"),
            Action::Keep { page, bytes } => self.keep_clean(page, bytes),
            Action::Drop { page } => self.drop_clean(page),
            Action::Regenerate { window, disk, first, pages } => {
                self.regenerate(window, disk, first, pages);
            }
            Action::Checkpoint { disk, .. } => self.checkpoint(disk.0),
            Action::Rebuilt { disk } => self.rebuilt(disk.0),
            Action::RebuildStopped { .. } => self.forget_windows(),
            // Said when the window is computed: a page may yet be told otherwise.
            Action::Unrecoverable { .. } => {}
        }
    }

    fn engine_reply(&mut self, id: RequestId, error: Option<Refusal>) {
        match self.parts.remove(id.0) {
            Part::Write(write) => self.write_answered(write, error),
            Part::Discard { whole, .. } => self.part_done(whole, error),
            Part::Read(read) => self.read_answered(read, error),
        }
    }

    pub(crate) fn alarm(&mut self, alarm: Alarm) {
        self.alarms.push(alarm);
    }

    /// Hands out the operations to be carried out.
    pub fn take_ops(&mut self, into: &mut Vec<Op>) {
        self.ops.take(into);
    }

    /// Hands out the answers.
    pub fn take_replies(&mut self, into: &mut Vec<Reply>) {
        into.append(&mut self.replies);
    }

    /// Hands out the alarms.
    pub fn take_alarms(&mut self) -> Vec<Alarm> {
        core::mem::take(&mut self.alarms)
    }

    /// Destages everything at full depth until nothing is held or a write comes.
    pub fn flush_cache(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.step(Event::Flush);
        self.write_log();
        self.after();
    }

    /// Confirms the log: the last thing before a clean stop, when nothing else is under way.
    pub fn confirm(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.log.confirm();
        self.write_log();
    }

    /// Goes on with another policy and another rate.
    ///
    /// # Errors
    /// A parameter out of range; nothing is changed then.
    pub fn change(
        &mut self,
        policy: &destage_engine::policy::PolicyChoice,
        rate: &destage_engine::rate::RateChoice,
    ) -> Result<(), destage_engine::registry::ChoiceError> {
        self.controller.change(policy, rate)
    }

    /// Begins no destages until it is told to again: before a stop that does not drain.
    pub fn pause(&mut self, paused: bool) {
        self.controller.pause(paused);
    }

    /// Whether all is on the disks that can be.
    #[must_use]
    pub fn drained(&self) -> bool {
        self.controller.occupancy().0 == self.controller.kept_pages()
    }

    /// Whether nothing is under way: no request, no operation, nothing to be logged.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.wholes.is_empty() && self.quiet()
    }

    /// Whether nothing is under way on any device, and nothing to be logged: requests may wait for
    /// space that nothing makes any more.
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.ops.under_way() == 0
            && self.log.settled()
            && self.controller.destages_in_flight() == 0
            && !self.faults.changing()
    }

    /// Whether the destages that the last run left open are redone, so that it may be served.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.redoing == 0
    }

    /// A request for this byte, of the volume or beyond it, is likely to come soon: what it will
    /// look up is looked at now. Where several come, the processor fetches from memory for all of
    /// them at once, and not for one after the other.
    pub fn soon(&self, offset: u64) {
        let page = offset / PAGE_BYTES;
        if page >= self.controller.geometry().volume_pages().0 {
            return;
        }
        std::hint::black_box((
            self.memory.current(page).map(|held| held.version),
            self.log.contents.touch(Page(page)),
            self.controller.directory().missing(Page(page), 1),
        ));
    }

    /// The engine, to look at.
    #[must_use]
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    pub(crate) fn device_of(disk: destage_engine::units::DiskId) -> Device {
        Device::Member(disk.0)
    }
}
