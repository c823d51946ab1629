//! Operations in flight: what each is for, since when, which are tried again later, and which
//! device has stalled. Also what goes to the driver with them: alarms and used buffers.

use crate::Buffer;
use crate::io::{Device, IoError, Op, OpId, OpKind};
use crate::load::{DeviceLoad, Loads};
use crate::request::Alarm;
use destage_engine::event::DiskCommand;
use destage_engine::units::{Duration, Instant};
use std::collections::BTreeMap;

/// What an operation of the log is for. Only the log looks inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LogOp {
    /// A commit.
    Commit { sequence: u64 },
    /// A copy of the anchor.
    Anchor,
    /// A step of filling a new NVS mirror, by its number.
    Mirror { number: u64 },
}

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Purpose {
    /// The log.
    Log(LogOp),
    /// A command of the engine.
    Command(DiskCommand),
    /// A flush of a member that destages have written.
    Flush,
    /// A flush of a member that a scrub has written.
    ScrubFlush,
    /// A step of a member's record: a flush, or a copy of it.
    Record,
    /// A copy of the superblock, for the change of this number.
    Superblock { change: u64 },
}

#[derive(Debug)]
struct InFlight {
    device: Device,
    purpose: Purpose,
    since: Instant,
    /// Kept so that it can be tried again.
    kind: OpKind,
    /// The device was full or busy at an earlier try.
    retried: bool,
}

/// A finished operation.
pub(crate) struct Finished {
    pub(crate) device: Device,
    pub(crate) purpose: Purpose,
    pub(crate) kind: OpKind,
    /// The device was full or busy at an earlier try.
    pub(crate) retried: bool,
}

/// An operation that found the device full or busy is tried again after this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Most buffers that are kept for the driver.
const SPENT_MAX: usize = 64;

/// Operations in flight, and what the driver has to fetch.
#[derive(Default)]
pub(crate) struct Ops {
    next: u64,
    in_flight: BTreeMap<u64, InFlight>,
    out: Vec<Op>,
    /// Operations that are tried again at this time.
    later: Vec<(Instant, Finished)>,
    /// Devices for which an alarm says that operations wait to be tried again.
    waiting: Vec<Device>,
    now: Instant,
    /// The driver has set the time.
    started: bool,
    /// When stalls were looked for last, and since when without a pause.
    looked: Instant,
    patient_since: Instant,
    loads: Loads,
    alarms: Vec<Alarm>,
    spent: Vec<Buffer>,
}

impl Ops {
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
        if !core::mem::replace(&mut self.started, true) {
            // Operations that `open` pushed are in flight from now on.
            self.in_flight.values_mut().for_each(|op| op.since = now);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn push(&mut self, device: Device, purpose: Purpose, kind: OpKind) {
        self.push_as(device, purpose, kind, false);
    }

    /// The number of the next operation that is pushed.
    pub(crate) fn next_id(&self) -> OpId {
        OpId(self.next)
    }

    fn push_as(&mut self, device: Device, purpose: Purpose, kind: OpKind, retried: bool) {
        let id = self.next;
        self.next += 1;
        self.loads.begin(device, &kind, self.now);
        let op = InFlight { device, purpose, since: self.now, kind: kind.clone(), retried };
        self.in_flight.insert(id, op);
        self.out.push(Op { id: OpId(id), device, kind });
    }

    /// What a finished operation was for; `None` if it was abandoned.
    pub(crate) fn finish(&mut self, id: OpId) -> Option<Finished> {
        let InFlight { device, purpose, kind, retried, .. } = self.in_flight.remove(&id.0)?;
        self.loads.end(device, 1, self.now);
        Some(Finished { device, purpose, kind, retried })
    }

    /// The device is full or busy: the operation is tried again later, and the first such
    /// operation of the device raises an alarm.
    pub(crate) fn try_later(&mut self, finished: Finished, error: IoError) {
        let device = finished.device;
        if !self.waiting.contains(&device) {
            self.waiting.push(device);
            self.alarm(Alarm::DeviceWaits(device, error));
        }
        self.later.push((self.now + RETRY_AFTER, finished));
    }

    /// Pushes again the operations that are due; returns the members' commands among them.
    pub(crate) fn retry_due(&mut self) -> Vec<DiskCommand> {
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

    /// Commands of the engine that wait to be tried again on a device.
    pub(crate) fn waiting_commands(&self, device: Device) -> usize {
        let is_command = |purpose: &Purpose| matches!(purpose, Purpose::Command(_));
        self.later.iter().filter(|(_, f)| f.device == device && is_command(&f.purpose)).count()
    }

    /// The device takes writes again: a write has succeeded, or an operation that was tried again.
    /// The alarm ends when nothing of the device waits any more.
    pub(crate) fn answered(&mut self, device: Device) {
        if !self.waiting.is_empty() && self.waiting.contains(&device) && !self.retries(device) {
            self.waiting.retain(|other| *other != device);
            self.alarm(Alarm::DeviceAnswers(device));
        }
    }

    /// Whether operations on a device wait to be tried again, or are being tried again.
    fn retries(&self, device: Device) -> bool {
        self.later.iter().any(|(_, finished)| finished.device == device)
            || self.in_flight.values().any(|op| op.retried && op.device == device)
    }

    /// Forgets the operations on a device and returns their purposes; their results are ignored.
    pub(crate) fn abandon(&mut self, device: Device) -> Vec<Purpose> {
        let of_device = |op: &InFlight| op.device == device;
        let ids: Vec<u64> =
            self.in_flight.iter().filter(|(_, op)| of_device(op)).map(|(id, _)| *id).collect();
        self.out.retain(|op| op.device != device);
        self.loads.end(device, ids.len(), self.now);
        let in_flight = ids.into_iter().filter_map(|id| self.in_flight.remove(&id));
        let mut purposes: Vec<Purpose> = in_flight.map(|op| op.purpose).collect();
        let later = self.later.extract_if(.., |(_, finished)| finished.device == device);
        purposes.extend(later.map(|(_, finished)| finished.purpose));
        purposes
    }

    /// The same for a device that has failed: it is not waited for either.
    pub(crate) fn give_up(&mut self, device: Device) -> Vec<Purpose> {
        self.waiting.retain(|other| *other != device);
        self.abandon(device)
    }

    /// The device of the oldest operation in flight, and since when it is in flight.
    pub(crate) fn oldest(&self) -> Option<(Device, Instant)> {
        self.in_flight.values().next().map(|op| (op.device, op.since))
    }

    /// To be called before [`Ops::stalled`]. If nobody has called for long, the process or the
    /// machine was stopped: what devices answered in that time is not known yet, so that time does
    /// not count as a stall.
    pub(crate) fn look_for_stalls(&mut self, limit: Duration) {
        let looked = core::mem::replace(&mut self.looked, self.now);
        if self.now.since(looked).0 > limit.0 / 2 {
            self.patient_since = self.now;
        }
    }

    /// The device whose oldest operation has been in flight for longer than the limit.
    pub(crate) fn stalled(&self, limit: Duration) -> Option<Device> {
        let (device, since) = self.oldest()?;
        (self.now >= since.max(self.patient_since) + limit).then_some(device)
    }

    /// When to look for stalls again: several times within the limit, to detect a pause.
    pub(crate) fn stall_deadline(&self, limit: Duration) -> Option<Instant> {
        let (_, since) = self.oldest()?;
        let over = since.max(self.patient_since) + limit;
        Some(over.min(self.looked + Duration(limit.0 / 8)))
    }

    /// Operations in flight, and those that wait to be tried again.
    pub(crate) fn count(&self) -> usize {
        self.in_flight.len() + self.later.len()
    }

    pub(crate) fn load(&self, device: Device) -> DeviceLoad {
        self.loads.get(device, self.now)
    }

    /// Continues the counts of an earlier volume.
    pub(crate) fn count_from(&mut self, earlier: &Ops) {
        self.loads.count_from(&earlier.loads);
    }

    pub(crate) fn take(&mut self, into: &mut Vec<Op>) {
        into.append(&mut self.out);
    }

    pub(crate) fn alarm(&mut self, alarm: Alarm) {
        self.alarms.push(alarm);
    }

    pub(crate) fn take_alarms(&mut self) -> Vec<Alarm> {
        core::mem::take(&mut self.alarms)
    }

    /// Keeps a buffer that the driver may use for later reads.
    pub(crate) fn recycle(&mut self, buffer: Buffer) {
        self.spent.push(buffer);
    }

    /// How many more buffers are worth keeping.
    pub(crate) fn recycle_room(&self) -> usize {
        SPENT_MAX.saturating_sub(self.spent.len())
    }

    pub(crate) fn take_spent(&mut self) -> Vec<Buffer> {
        core::mem::take(&mut self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::event::Owner;
    use destage_engine::units::DiskId;

    const LIMIT: Duration = Duration::from_secs(8);
    const DISK: Device = Device::Member(1);

    fn second(n: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(n)
    }

    fn looked_at(ops: &mut Ops, n: u64) -> Option<Device> {
        ops.set_now(second(n));
        ops.look_for_stalls(LIMIT);
        ops.stalled(LIMIT)
    }

    #[test]
    fn a_device_stalls_after_the_limit_and_not_while_nobody_looked() {
        let mut ops = Ops::default();
        ops.set_now(second(1));
        ops.push(DISK, Purpose::Flush, OpKind::Flush);
        assert_eq!((2..=8).find_map(|n| looked_at(&mut ops, n)), None);
        assert_eq!(ops.stall_deadline(LIMIT), Some(second(9)));
        assert_eq!(looked_at(&mut ops, 100), None, "the process was stopped");
        assert_eq!((101..=107).find_map(|n| looked_at(&mut ops, n)), None);
        assert_eq!(looked_at(&mut ops, 108), Some(DISK));
        assert_eq!(ops.give_up(DISK), [Purpose::Flush]);
        assert_eq!(looked_at(&mut ops, 109), None);
    }

    #[test]
    fn an_operation_on_a_full_device_is_tried_again_and_the_alarm_ends_when_it_succeeds() {
        let mut ops = Ops::default();
        ops.push(DISK, Purpose::Record, OpKind::Flush);
        let id = ops.out.pop().map(|op| op.id).expect("an operation");
        let finished = ops.finish(id).expect("in flight");
        ops.try_later(finished, IoError::FULL);
        assert_eq!(ops.take_alarms(), [Alarm::DeviceWaits(DISK, IoError::FULL)]);
        ops.answered(DISK);
        assert!(ops.take_alarms().is_empty(), "it still waits");
        ops.set_now(ops.retry_deadline().expect("a time"));
        assert!(ops.retry_due().is_empty(), "no command of the engine");
        ops.answered(DISK);
        assert!(ops.take_alarms().is_empty(), "it is being tried again");
        let id = ops.out.pop().map(|op| op.id).expect("the same again");
        assert!(ops.finish(id).is_some_and(|finished| finished.retried));
        ops.answered(DISK);
        assert_eq!(ops.take_alarms(), [Alarm::DeviceAnswers(DISK)]);
    }

    /// Looking is due eight times within the limit. After a pause of more than half of it, what
    /// devices answered in that time is not known yet.
    #[test]
    fn a_pause_of_more_than_half_the_limit_does_not_count() {
        for (pause, stalls) in [(4, true), (5, false), (9, false), (15, false)] {
            let mut ops = Ops::default();
            ops.set_now(second(1));
            ops.push(DISK, Purpose::Flush, OpKind::Flush);
            let before = (2..=6).find_map(|n| looked_at(&mut ops, n));
            assert_eq!(before, None);
            let found = looked_at(&mut ops, 6 + pause);
            assert_eq!(found, stalls.then_some(DISK), "a pause of {pause} s");
        }
    }

    /// An operation on a device that is full.
    fn fails(ops: &mut Ops, device: Device) {
        ops.push(device, Purpose::Record, OpKind::Flush);
        let id = ops.out.pop().map(|op| op.id).expect("an operation");
        let finished = ops.finish(id).expect("in flight");
        ops.try_later(finished, IoError::FULL);
    }

    /// An operation of the device that was not tried before does not, nor does one of another
    /// device that is tried again.
    #[test]
    fn nothing_else_in_flight_delays_the_end_of_an_alarm() {
        let other = Device::Member(2);
        let mut ops = Ops::default();
        [DISK, other].into_iter().for_each(|device| fails(&mut ops, device));
        assert_eq!(ops.take_alarms().len(), 2);
        ops.set_now(ops.retry_deadline().expect("a time"));
        ops.retry_due();
        let again = ops.out.iter().find(|op| op.device == DISK).map(|op| op.id);
        assert!(ops.finish(again.expect("the same again")).is_some());
        ops.push(DISK, Purpose::Flush, OpKind::Flush);
        ops.answered(DISK);
        assert_eq!(ops.take_alarms(), [Alarm::DeviceAnswers(DISK)]);
        ops.answered(other);
        assert!(ops.take_alarms().is_empty(), "it is being tried again");
    }

    /// The alarm of one device says nothing of another.
    #[test]
    fn each_device_that_is_full_has_an_alarm_of_its_own() {
        let other = Device::Member(2);
        let mut ops = Ops::default();
        fails(&mut ops, DISK);
        fails(&mut ops, other);
        let waits = |device| Alarm::DeviceWaits(device, IoError::FULL);
        assert_eq!(ops.take_alarms(), [waits(DISK), waits(other)]);
        assert_eq!(ops.waiting_commands(DISK), 0, "what waits is not of the engine");
        ops.give_up(other);
        ops.set_now(ops.retry_deadline().expect("a time"));
        ops.retry_due();
        let id = ops.out.pop().map(|op| op.id).expect("the same again");
        ops.finish(id);
        ops.answered(DISK);
        assert_eq!(ops.take_alarms(), [Alarm::DeviceAnswers(DISK)]);
        ops.answered(DISK);
        assert_eq!(ops.take_alarms(), [], "once");
        fails(&mut ops, DISK);
        assert_eq!(ops.take_alarms(), [waits(DISK)], "full again");
    }

    /// Looking is due after an eighth of the limit, and when the limit is over.
    #[test]
    fn stalls_are_looked_for_several_times_within_the_limit() {
        let mut ops = Ops::default();
        assert_eq!(ops.stall_deadline(LIMIT), None, "nothing is in flight");
        ops.push(DISK, Purpose::Flush, OpKind::Flush);
        ops.set_now(second(1));
        assert_eq!(ops.oldest(), Some((DISK, second(1))), "since the driver has set the time");
        assert_eq!((looked_at(&mut ops, 3), looked_at(&mut ops, 6)), (None, None));
        assert_eq!(ops.oldest(), Some((DISK, second(1))));
        assert_eq!(ops.stall_deadline(LIMIT), Some(second(7)));
        ops.set_now(Instant(8_500_000_000));
        ops.look_for_stalls(LIMIT);
        assert_eq!(ops.stall_deadline(LIMIT), Some(second(9)), "the limit is over");
    }

    #[test]
    fn what_waits_to_be_tried_again_is_counted_until_its_device_is_given_up() {
        let (other, owner) = (Device::Member(2), Owner::Destage(0));
        let command = DiskCommand { disk: DiskId(1), first: 0, pages: 1, write: true, owner };
        let mut ops = Ops::default();
        ops.set_now(second(1));
        for (device, purpose) in
            [(DISK, Purpose::Command(command)), (DISK, Purpose::Record), (other, Purpose::Flush)]
        {
            ops.push(device, purpose, OpKind::Flush);
        }
        let finished = ops.finish(OpId(0)).expect("in flight");
        ops.try_later(finished, IoError::FULL);
        ops.answered(other);
        assert_eq!(ops.take_alarms(), [Alarm::DeviceWaits(DISK, IoError::FULL)]);
        assert_eq!((ops.count(), ops.retry_deadline()), (3, Some(second(2))));
        assert_eq!([DISK, other].map(|device| ops.waiting_commands(device)), [1, 0]);
        assert!(ops.retry_due().is_empty(), "not yet");
        ops.set_now(second(2));
        assert_eq!((ops.next_id(), ops.retry_due()), (OpId(3), vec![command]));
        assert_eq!((ops.count(), ops.retry_deadline(), ops.next_id()), (3, None, OpId(4)));
        assert_eq!(ops.give_up(DISK), [Purpose::Record, Purpose::Command(command)]);
        assert_eq!((ops.count(), ops.oldest()), (1, Some((other, second(1)))));
        assert_eq!([DISK, other].map(|device| ops.load(device).in_flight), [0, 1]);
        let mut out = Vec::new();
        ops.take(&mut out);
        assert_eq!(out.iter().map(|op| op.device).collect::<Vec<_>>(), [other]);
        ops.answered(DISK);
        assert!(ops.take_alarms().is_empty(), "it is not waited for any more");
    }

    #[test]
    fn used_buffers_are_kept_for_the_driver_up_to_a_number() {
        let mut ops = Ops::default();
        assert_eq!(ops.recycle_room(), SPENT_MAX);
        (1..=3).for_each(|sectors| ops.recycle(Buffer::zeroed(sectors * 512)));
        assert_eq!(ops.recycle_room(), SPENT_MAX - 3);
        let lengths: Vec<usize> = ops.take_spent().iter().map(|buffer| buffer.len()).collect();
        assert_eq!(lengths, [512, 1024, 1536]);
        assert_eq!(ops.recycle_room(), SPENT_MAX, "the driver has them");
        (0..=SPENT_MAX).for_each(|_| ops.recycle(Buffer::zeroed(512)));
        assert_eq!(ops.recycle_room(), 0);
    }
}
