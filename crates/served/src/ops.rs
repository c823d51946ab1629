//! Operations under way: what each is for.

use crate::io::{Device, Op, OpId, OpKind};
use crate::watch::Loads;
use destage_engine::event::DiskCommand;
use destage_engine::units::{Duration, Instant};
use std::collections::BTreeMap;

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Purpose {
    /// A commit of the log.
    Commit { sequence: u64 },
    /// A copy of the anchor.
    Anchor,
    /// A payload that is to be moved.
    Move { page: u64, version: u64 },
    /// A command of the engine.
    Command(DiskCommand),
    /// A flush of a member.
    Flush,
    /// A flush of a member that a scrub has written.
    ScrubFlush,
    /// A step of filling a new NVS mirror, of this number.
    Mirror { number: u64 },
    /// A step of a member's record: a flush, or a copy of it.
    Record,
    /// A copy of the superblock, for the change of this number.
    Superblock { change: u64 },
}

#[derive(Debug)]
struct UnderWay {
    device: Device,
    purpose: Purpose,
    since: Instant,
    /// To ask for it again.
    kind: OpKind,
    /// The device was full or busy when it was asked for before.
    again: bool,
}

/// A finished operation.
pub(crate) struct Finished {
    pub(crate) device: Device,
    pub(crate) purpose: Purpose,
    pub(crate) kind: OpKind,
    /// The device was full or busy when it was asked for before.
    pub(crate) again: bool,
}

/// After this long an operation is tried again that found the device full or busy.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Operations under way, and those to be handed out.
#[derive(Default)]
pub(crate) struct Ops {
    next: u64,
    under_way: BTreeMap<u64, UnderWay>,
    out: Vec<Op>,
    /// Operations that are tried again at this time.
    later: Vec<(Instant, Finished)>,
    now: Instant,
    /// The driver has told the time.
    started: bool,
    pub(crate) loads: Loads,
}

impl Ops {
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
        if !core::mem::replace(&mut self.started, true) {
            // What `open` asks for waits from now on.
            self.under_way.values_mut().for_each(|op| op.since = now);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn push(&mut self, device: Device, purpose: Purpose, kind: OpKind) {
        self.push_as(device, purpose, kind, false);
    }

    fn push_as(&mut self, device: Device, purpose: Purpose, kind: OpKind, again: bool) {
        let id = self.next;
        self.next += 1;
        self.loads.begin(device, &kind, self.now);
        let under_way = UnderWay { device, purpose, since: self.now, kind: kind.clone(), again };
        self.under_way.insert(id, under_way);
        self.out.push(Op { id: OpId(id), device, kind });
    }

    /// What a finished operation was for; `None` if nobody waits for it any more.
    pub(crate) fn finish(&mut self, id: OpId) -> Option<Finished> {
        let UnderWay { device, purpose, kind, again, .. } = self.under_way.remove(&id.0)?;
        self.loads.end(device, 1, self.now);
        Some(Finished { device, purpose, kind, again })
    }

    /// The device is full or busy: the operation is tried again later.
    pub(crate) fn try_later(&mut self, finished: Finished) {
        self.later.push((self.now + RETRY_AFTER, finished));
    }

    /// Asks again for what is due; the members' commands among it.
    pub(crate) fn try_again(&mut self) -> Vec<DiskCommand> {
        let now = self.now;
        let (due, later) = core::mem::take(&mut self.later).into_iter().partition(|l| l.0 <= now);
        self.later = later;
        let due: Vec<(Instant, Finished)> = due;
        let mut commands = Vec::new();
        for (_, Finished { device, purpose, kind, .. }) in due {
            if let Purpose::Command(command) = &purpose {
                commands.push(*command);
            }
            self.push_as(device, purpose, kind, true);
        }
        commands
    }

    /// When the next operation is tried again.
    pub(crate) fn retry_deadline(&self) -> Option<Instant> {
        self.later.iter().map(|(due, _)| *due).min()
    }

    /// Whether operations on this device wait to be tried again, or are being tried again.
    pub(crate) fn waits(&self, device: Device) -> bool {
        self.later.iter().any(|(_, finished)| finished.device == device)
            || self.under_way.values().any(|op| op.again && op.device == device)
    }

    /// Commands of the engine that wait to be tried again on a device.
    pub(crate) fn waiting_commands(&self, device: Device) -> usize {
        let is_command = |purpose: &Purpose| matches!(purpose, Purpose::Command(_));
        self.later.iter().filter(|(_, f)| f.device == device && is_command(&f.purpose)).count()
    }

    /// Forgets what is under way on a device: its purposes are returned, its answers ignored.
    pub(crate) fn abandon(&mut self, device: Device) -> Vec<Purpose> {
        let of_device = |op: &UnderWay| op.device == device;
        let ids: Vec<u64> =
            self.under_way.iter().filter(|(_, op)| of_device(op)).map(|(id, _)| *id).collect();
        self.out.retain(|op| op.device != device);
        self.loads.end(device, ids.len(), self.now);
        let under_way = ids.into_iter().filter_map(|id| self.under_way.remove(&id));
        let mut purposes: Vec<Purpose> = under_way.map(|op| op.purpose).collect();
        let later = self.later.extract_if(.., |(_, finished)| finished.device == device);
        purposes.extend(later.map(|(_, finished)| finished.purpose));
        purposes
    }

    /// The device of the operation that has been under way longest, and since when.
    pub(crate) fn oldest(&self) -> Option<(Device, Instant)> {
        self.under_way.values().next().map(|op| (op.device, op.since))
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len() + self.later.len()
    }

    pub(crate) fn take(&mut self, into: &mut Vec<Op>) {
        into.append(&mut self.out);
    }
}
