//! All devices of an array: operations in flight, which are done in any order, and power that fails
//! at any of them.

use super::device::{Device as Disk, Lost, SECTOR, Survivors};
use super::starve::{ANCHOR_BYTES, ANCHORS, RECORDS, SUPERBLOCKS, Starved};
use destage_engine::flushes::Durability;
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::commit::Claim;
use destage_nvslog::record::Record;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Buffer, Device, IoError, Media, Op, OpId, OpKind};
use destage_workload::random::Seeded;

/// The error of a device that is busy.
const EAGAIN: i32 = 11;

/// Operations that may be done before one that is slow.
const SLOW_MAX: u64 = 200;

/// An operation in flight.
struct Flight {
    op: Op,
    /// When it was submitted.
    asked: u64,
    hangs: bool,
    /// Before the operation of this number others are done first.
    slow_until: u64,
    /// What a read has seen, though it is not done.
    seen: Option<Buffer>,
}

/// In which order operations in flight are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Drawn; reads may look early, and parts of writes may be done before the rest.
    #[default]
    Drawn,
    /// The oldest first.
    Oldest,
    /// The newest first.
    Newest,
    /// Those on members first, the oldest of them before the others.
    Members,
    /// Those on NVS devices first, the oldest of them before the others.
    Nvs,
}

/// Whether this is a commit.
fn is_commit(op: &Op) -> bool {
    let OpKind::Write { buffer, .. } = &op.kind else { return false };
    matches!(op.device, Device::Nvs(_)) && Claim::read(buffer).is_some()
}

/// What befalls an operation before it begins.
fn fails(disk: &mut Disk, op: &Op) -> Result<(), IoError> {
    if disk.gone {
        return Err(IoError::GONE);
    }
    if disk.unwritable && matches!(op.kind, OpKind::Write { .. }) {
        return Err(IoError::MEDIUM);
    }
    if disk.full && matches!(op.kind, OpKind::Write { .. }) {
        disk.was_full = true;
        return Err(IoError::FULL);
    }
    if disk.busy > 0 && !matches!(op.kind, OpKind::Flush) {
        disk.busy -= 1;
        disk.was_full = true;
        return Err(IoError::from_errno(EAGAIN));
    }
    if matches!(op.kind, OpKind::Write { .. }) && core::mem::take(&mut disk.write_fails) {
        return Err(IoError::MEDIUM);
    }
    let second = matches!(op.kind, OpKind::Write { offset, .. } if offset == SUPERBLOCKS[1]);
    if disk.is_stuck(op) || second && core::mem::take(&mut disk.mark_fails) {
        return Err(IoError::MEDIUM);
    }
    Ok(())
}

/// Whether this is a commit with a destage's intent.
fn intends(op: &Op) -> bool {
    let OpKind::Write { buffer, .. } = &op.kind else { return false };
    let records = Claim::read(buffer).and_then(|claim| claim.records(buffer).ok());
    records.unwrap_or_default().iter().any(|record| matches!(record, Record::Intent { .. }))
}

/// The result of an operation.
pub type Done = (OpId, Result<Option<Buffer>, IoError>);

/// The devices.
pub struct World {
    /// The members.
    pub members: Vec<Disk>,
    /// The NVS devices.
    pub nvs: Vec<Disk>,
    flights: Vec<Flight>,
    clock: u64,
    rng: Seeded,
    /// For reads that look early, so that other draws do not shift.
    early: Seeded,
    /// Operations that were carried out.
    pub operations: u64,
    /// In which order they are.
    pub order: Order,
    /// The power fails before the operation of this number.
    pub crash_at: Option<u64>,
    /// Before the operation of this number this device fails.
    pub fails: Option<(u64, Device)>,
    /// The power has failed.
    pub crashed: bool,
    /// Hash of all that happened.
    pub digest: u64,
    /// Reads before the array is served that failed.
    pub failed_reads: u64,
    /// For tests of tests: the sizes of the devices are not known.
    pub sizes_unknown: bool,
    /// Bytes of a member and of an NVS device, if operations behind them are to be noticed.
    pub room: Option<(u64, u64)>,
    /// Such an operation.
    pub beyond: Option<String>,
    /// Bytes of devices that are not what the volume wrote there, and not looked at yet.
    pub wronged: Vec<(Device, core::ops::Range<u64>)>,
    /// Draws crashes that come soon after writes of superblocks, anchors and records, and after
    /// those of a start.
    pub hasty: Option<Seeded>,
    /// Draws operations that take long.
    pub slow: Option<Seeded>,
    /// What takes as long as anything else can be done.
    pub(super) starved: Option<Starved>,
    /// Writes before the array is served, whole or torn.
    pub early_writes: u64,
    /// The number of the first of these: a start marks the devices with it.
    pub(super) first_write: Option<u64>,
    /// Operations that write an anchor in a start.
    pub(super) anchor_writes: Vec<u64>,
    /// The same for ring and slots.
    pub(super) log_writes: Vec<u64>,
    /// Those that wrote a device's first copy of its superblock.
    pub(super) mark_writes: Vec<u64>,
    /// The next commit of this NVS device with a destage's intent cannot be written.
    pub(super) fails_intent: Option<u16>,
    /// What NVS devices write may be torn anywhere, not only between sectors.
    pub nvs_is_memory: bool,
    /// The newest commit in flight is not done before the power fails.
    pub(super) newest_held: bool,
    /// The power failure that is about to come leaves nothing of what is not durable.
    pub(super) takes_all: bool,
    /// How many power failures may come with anchors though none is to come otherwise.
    pub(super) late_cuts: u32,
    /// The power fails before every second flush of a start that orders two writes of an NVS
    /// device.
    pub pressed: bool,
}

impl World {
    /// Devices full of zeros.
    pub fn new(members: u16, nvs: u16, seed: u64) -> World {
        World {
            members: vec![Disk::default(); usize::from(members)],
            nvs: vec![Disk::default(); usize::from(nvs)],
            flights: Vec::new(),
            clock: 1,
            rng: Seeded::new(seed, "torture-devices"),
            early: Seeded::new(seed, "torture-early-reads"),
            operations: 0,
            order: Order::default(),
            crash_at: None,
            fails: None,
            crashed: false,
            digest: 0xcbf2_9ce4_8422_2325,
            failed_reads: 0,
            sizes_unknown: false,
            room: None,
            beyond: None,
            wronged: Vec::new(),
            hasty: None,
            slow: None,
            starved: None,
            early_writes: 0,
            first_write: None,
            anchor_writes: Vec::new(),
            log_writes: Vec::new(),
            mark_writes: Vec::new(),
            fails_intent: None,
            nvs_is_memory: false,
            newest_held: false,
            takes_all: false,
            late_cuts: 0,
            pressed: false,
        }
    }

    /// Pages of members that are being written: the member and its page.
    pub(super) fn member_writes(&self) -> Vec<(u16, u64)> {
        let place = |flight: &Flight| match (flight.op.device, &flight.op.kind) {
            (Device::Member(member), OpKind::Write { offset, .. }) if *offset >= DATA_START => {
                Some((member, (offset - DATA_START) / PAGE_BYTES))
            }
            _ => None,
        };
        self.flights.iter().filter_map(place).collect()
    }

    /// The same devices, with nothing in flight.
    pub(super) fn copy(&self, seed: u64) -> World {
        let mut copy = World::new(0, 0, seed);
        (copy.members, copy.nvs) = (self.members.clone(), self.nvs.clone());
        (copy.clock, copy.nvs_is_memory) = (self.clock, self.nvs_is_memory);
        copy
    }

    /// The same devices after a power failure that leaves nothing of what is not durable.
    pub(super) fn after_a_power_failure(&self) -> World {
        let mut left = self.copy(0);
        left.crash(Survivors::None);
        left
    }

    /// Whether a member has a superblock or a record in its cache alone.
    pub(super) fn caches_marks(&self) -> bool {
        self.members.iter().any(Disk::caches_marks)
    }

    /// Adds a value to the digest.
    pub fn note(&mut self, what: u64) {
        self.digest = (self.digest ^ what).wrapping_mul(0x0000_0100_0000_01b3);
        self.digest ^= self.digest >> 29;
    }

    /// A device.
    pub fn device(&mut self, device: Device) -> &mut Disk {
        match device {
            Device::Member(number) => &mut self.members[usize::from(number)],
            Device::Nvs(number) => &mut self.nvs[usize::from(number)],
        }
    }

    /// Puts an empty device in the place of an NVS device: its operations are gone.
    pub fn replace_nvs(&mut self, copy: u16) {
        self.flights.retain(|flight| flight.op.device != Device::Nvs(copy));
        self.nvs[usize::from(copy)] = Disk::default();
    }

    /// Puts an empty device in the place of a member; returns the old one.
    pub fn replace_member(&mut self, member: u16) -> Disk {
        self.flights.retain(|flight| flight.op.device != Device::Member(member));
        core::mem::take(&mut self.members[usize::from(member)])
    }

    /// The answers to what is in flight are nobody's: another volume begins with its first number.
    pub fn forget_flights(&mut self) {
        self.flights.clear();
    }

    /// A member has a cache as is assumed of it: none, or a volatile one. A member that is written
    /// with FUA keeps by chance nothing of what is not.
    pub fn set_cache(&mut self, member: u16, how: Durability) {
        let disk = &mut self.members[usize::from(member)];
        disk.cache_off = how == Durability::Off;
        disk.drops_cache = how == Durability::Fua;
    }

    /// Takes operations.
    pub fn take(&mut self, ops: &mut Vec<Op>) {
        for op in ops.drain(..) {
            let hangs = self.device(op.device).hangs;
            self.look_behind(&op);
            self.clock += 1;
            self.maybe_hold_commits(&op);
            let slow_until = self.slow_until(&op).max(self.held_until_a_crash(&op));
            self.device(op.device).was_slow |= slow_until > 0;
            self.flights.push(Flight { op, asked: self.clock, hangs, slow_until, seen: None });
        }
    }

    /// Often an anchor is done before the commits in flight, and the power fails then; a few times
    /// in a last life, too.
    fn maybe_hold_commits(&mut self, op: &Op) {
        let anchors = matches!(&op.kind, OpKind::Write { offset, .. } if ANCHORS.contains(offset));
        if anchors && self.pressed && self.nvs_is_memory {
            self.maybe_crash_at_once(4);
        }
        let commits = self.flights.iter().any(|flight| is_commit(&flight.op));
        let late = self.crash_at.is_none() && self.late_cuts > 0;
        let may = self.pressed && anchors && commits && (self.crash_at.is_some() || late);
        let lasts = self.lasts();
        let Some(rng) = self.hasty.as_mut().filter(|_| may && !lasts) else { return };
        if rng.below(4) > 0 {
            return;
        }
        let soon = self.operations + rng.below(16);
        self.crash_at = Some(self.crash_at.map_or(soon, |at| at.min(soon)));
        self.late_cuts -= u32::from(late);
        for flight in self.flights.iter_mut().filter(|flight| is_commit(&flight.op)) {
            flight.slow_until = soon;
        }
    }

    /// One of this many times, the power fails before much else is done.
    pub(super) fn maybe_crash_at_once(&mut self, of: u64) {
        let lasts = self.lasts();
        let Some(rng) = self.hasty.as_mut().filter(|_| !lasts) else { return };
        if rng.below(of) == 0 {
            let soon = self.operations + rng.below(3);
            self.crash_at = self.crash_at.map(|at| at.min(soon));
        }
    }

    /// Sometimes the newest of several commits in flight is not done before the power fails.
    fn held_until_a_crash(&mut self, op: &Op) -> u64 {
        let may = self.pressed && self.crash_at.is_some() && !self.lasts();
        let other = |flight: &Flight| flight.op.device == op.device && is_commit(&flight.op);
        if !may || !is_commit(op) || !self.flights.iter().any(other) {
            return 0;
        }
        let Some(rng) = self.hasty.as_mut() else { return 0 };
        if rng.below(32) > 0 {
            return 0;
        }
        let soon = self.operations + 10 + rng.below(40);
        self.crash_at = self.crash_at.map(|at| at.min(soon));
        self.newest_held = true;
        soon + 1
    }

    /// By chance writes in flight of members are not done before the operation of this number.
    pub(super) fn hold_some_writes(&mut self, until: u64, rng: &mut Seeded) {
        for flight in &mut self.flights {
            let writes = matches!(flight.op.kind, OpKind::Write { .. });
            if writes && matches!(flight.op.device, Device::Member(_)) && rng.below(2) == 0 {
                flight.slow_until = flight.slow_until.max(until);
            }
        }
    }

    /// Some operations take as long as many others, of superblocks, anchors and records often, and
    /// what a new mirror gets.
    fn slow_until(&mut self, op: &Op) -> u64 {
        let operations = self.operations;
        if let Some(starved) = self.starved.as_mut().filter(|starved| starved.until > operations)
            && starved.takes(op)
        {
            return starved.until;
        }
        let Some(rng) = &mut self.slow else { return 0 };
        let marks = matches!(&op.kind, OpKind::Write { offset, .. } if *offset < DATA_START);
        let copies =
            matches!((op.device, &op.kind), (Device::Nvs(_), OpKind::Write { durable: false, .. }));
        // The second copy of an anchor: its first one alone must free nothing.
        let second = self.pressed
            && matches!(&op.kind, OpKind::Write { offset, .. } if *offset == ANCHORS[1]);
        let of = match () {
            () if second => 2,
            () if marks || copies => 8,
            () => 200,
        };
        match rng.below(of) {
            0 => self.operations + rng.below(SLOW_MAX << u32::from(second)),
            _ => 0,
        }
    }

    /// An operation must not reach behind the end of its device.
    fn look_behind(&mut self, op: &Op) {
        let end = match &op.kind {
            OpKind::Read { offset, bytes } => offset + *bytes as u64,
            OpKind::Write { offset, buffer, .. } => offset + buffer.len() as u64,
            OpKind::Flush => 0,
        };
        let room = self.room.map_or(u64::MAX, |(member, nvs)| match op.device {
            Device::Member(_) => member,
            Device::Nvs(_) => nvs,
        });
        if end > room {
            let device = op.device;
            self.beyond = Some(format!("{device}: an operation ends at {end}, behind {room}"));
        }
    }

    /// Whether an operation can be done.
    pub fn can_finish(&self) -> bool {
        self.flights.iter().any(|flight| !flight.hangs)
    }

    /// Whether the log is to come round before the power fails.
    pub(super) fn lasts(&self) -> bool {
        self.starved.as_ref().is_some_and(Starved::lasts)
    }

    /// One of this many times, the power fails soon if it is to fail at all.
    pub(super) fn maybe_crash_soon(&mut self, of: u64) {
        let lasts = self.lasts();
        let Some(rng) = self.hasty.as_mut().filter(|_| !lasts) else { return };
        if rng.below(of) == 0 {
            let soon = self.operations + rng.below(12);
            self.crash_at = self.crash_at.map(|at| at.min(soon));
        }
    }

    /// The power often fails before a flush that orders nothing between two writes of the data: one
    /// of them may reach the medium without the other.
    fn maybe_crash_now(&mut self, device: Device) {
        let several = self.device(device).caches_several() && !self.lasts();
        let Some(rng) = self.hasty.as_mut().filter(|_| several) else { return };
        let often = self.pressed && matches!(device, Device::Nvs(_));
        if rng.below(if often { 2 } else { 4 }) == 0 {
            let now = self.operations;
            self.crash_at = self.crash_at.map(|_| now);
        }
    }

    /// Often the power fails just after a mark is durable on a device that has data in its cache:
    /// no mark may count what a power failure can take. A member's record counts pages.
    fn maybe_crash_after_a_mark(&mut self, offset: u64) {
        let may = self.pressed && !self.lasts();
        let Some(rng) = self.hasty.as_mut().filter(|_| may) else { return };
        let counts_pages = RECORDS.contains(&offset);
        if rng.below(if counts_pages { 2 } else { 16 }) == 0 && self.crash_at.is_some() {
            self.crash_at = Some(self.operations);
            self.takes_all = counts_pages;
        }
    }

    /// Counts one more operation; whether the power fails before it.
    fn count(&mut self) -> bool {
        if self.crash_at == Some(self.operations) {
            self.crashed = true;
        }
        if let Some((at, device)) = self.fails
            && at == self.operations
        {
            self.device(device).gone = true;
        }
        self.operations += 1;
        self.clock += 1;
        self.crashed
    }

    /// Carries out any of the operations in flight; sometimes only a part of a write.
    pub fn finish_one(&mut self) -> Option<Done> {
        self.release_held();
        let mut able: Vec<usize> =
            (0..self.flights.len()).filter(|i| !self.flights[*i].hangs).collect();
        if able.is_empty() {
            return None;
        }
        let quick = |i: &usize| self.flights[*i].slow_until <= self.operations;
        if able.iter().any(quick) {
            able.retain(quick);
            self.starved.iter_mut().for_each(Starved::waits);
        } else if !self.starved_too_long(&able) {
            return None;
        }
        let chosen = match self.order {
            Order::Drawn => self.draw_one(&able)?,
            order => able.into_iter().min_by_key(|i| self.turn_of(order, *i))?,
        };
        if self.count() {
            return None;
        }
        let Flight { op, asked, seen, .. } = self.flights.swap_remove(chosen);
        let result = match self.carry_out(&op, asked) {
            Ok(Some(read)) => Ok(Some(seen.unwrap_or(read))),
            other => other,
        };
        // A flush that fails may have dropped what it did not write.
        let again = !matches!(op.kind, OpKind::Flush);
        let waits = |error: &IoError| again && error.passes();
        self.device(op.device).erred |= result.as_ref().is_err_and(|error| !waits(error));
        self.note(op.id.0 << 2 | u64::from(result.is_ok()) << 1);
        Some((op.id, result))
    }

    /// What was held back for long enough is as anything else.
    fn release_held(&mut self) {
        let held = self.starved.as_ref().and_then(|starved| starved.held_until);
        if held.is_some_and(|until| until <= self.operations) {
            self.starved = None;
            self.flights.iter_mut().for_each(|flight| flight.slow_until = 0);
        }
    }

    /// Only slow operations can be done. Whether one is: the power may fail instead.
    fn starved_too_long(&mut self, able: &[usize]) -> bool {
        let may_crash = self.crash_at.is_some();
        let waits = able.iter().all(|i| self.flights[*i].slow_until == u64::MAX);
        let Some(starved) = self.starved.as_mut().filter(|_| waits) else { return true };
        let (over, crashes) = starved.is_over(may_crash);
        self.crashed |= crashes;
        over
    }

    /// Any of these operations; none if only a part of a write is done.
    fn draw_one(&mut self, able: &[usize]) -> Option<usize> {
        let looks = self.early.below(self.flights.len() as u64) as usize;
        self.look(looks);
        let chosen = able[self.rng.below(able.len() as u64) as usize];
        if self.rng.below(16) == 0 {
            self.write_in_part(chosen);
            return None;
        }
        Some(chosen)
    }

    /// The operation with the smallest is done next.
    fn turn_of(&self, order: Order, flight: usize) -> (bool, u64) {
        let Flight { op, asked, .. } = &self.flights[flight];
        let is_member = matches!(op.device, Device::Member(_));
        match order {
            Order::Drawn | Order::Oldest => (false, *asked),
            Order::Newest => (false, u64::MAX - asked),
            Order::Members => (!is_member, *asked),
            Order::Nvs => (is_member, *asked),
        }
    }

    fn carry_out(&mut self, op: &Op, asked: u64) -> Result<Option<Buffer>, IoError> {
        let clock = self.clock;
        if matches!(&op.kind, OpKind::Write { offset, .. } if *offset < DATA_START) {
            self.maybe_crash_soon(16);
        }
        fails(self.device(op.device), op)?;
        if self
            .fails_intent
            .take_if(|copy| op.device == Device::Nvs(*copy) && intends(op))
            .is_some()
        {
            return Err(IoError::MEDIUM);
        }
        let disk = self.device(op.device);
        match &op.kind {
            OpKind::Read { offset, bytes } => {
                let mut buffer = Buffer::zeroed(*bytes);
                disk.read(*offset, &mut buffer)?;
                Ok(Some(buffer))
            }
            OpKind::Write { offset, buffer, durable: true } => {
                disk.write_durably(*offset, buffer, asked);
                if *offset < DATA_START && disk.caches_data() {
                    self.maybe_crash_after_a_mark(*offset);
                }
                Ok(None)
            }
            OpKind::Write { offset, buffer, .. } => {
                let (offset, bytes) = (*offset, buffer.len() as u64);
                match disk.loses_write.take_if(|_| offset >= DATA_START) {
                    None => disk.write(offset, buffer, clock),
                    Some(lost) => {
                        // But for parts of it that are there already.
                        disk.parts_done(offset..offset + bytes, clock);
                        self.wronged.push((op.device, offset..offset + bytes));
                        if let Lost::At(other) = lost {
                            self.device(op.device).write(other, buffer, clock);
                            self.wronged.push((op.device, other..other + bytes));
                        }
                    }
                }
                Ok(None)
            }
            OpKind::Flush => {
                if let Some(error) = disk.flush_error() {
                    disk.forget_unflushed();
                    return Err(error);
                }
                disk.flush(asked);
                Ok(None)
            }
        }
    }

    /// A read looks at its device, but is done only later: it may return what was there before.
    fn look(&mut self, flight: usize) {
        let Flight { op, seen, .. } = &self.flights[flight];
        let (device, OpKind::Read { offset, bytes }) = (op.device, &op.kind) else { return };
        let (offset, mut buffer) = (*offset, Buffer::zeroed(*bytes));
        if seen.is_none() && self.device(device).read(offset, &mut buffer).is_ok() {
            self.flights[flight].seen = Some(buffer);
        }
    }

    /// Reads in flight look now; no operation in flight is done until [`World::let_go`].
    pub fn hold(&mut self) {
        for flight in 0..self.flights.len() {
            self.look(flight);
            self.flights[flight].hangs = true;
        }
    }

    /// Operations that were held may be done.
    pub fn let_go(&mut self) {
        self.flights.iter_mut().for_each(|flight| flight.hangs = false);
    }

    /// Some sectors of a write reach the device before it is done.
    fn write_in_part(&mut self, flight: usize) {
        let Op { device, kind, .. } = &self.flights[flight].op;
        let OpKind::Write { offset, buffer, .. } = kind else { return };
        let disk = match device {
            Device::Member(number) => &mut self.members[usize::from(*number)],
            Device::Nvs(number) => &mut self.nvs[usize::from(*number)],
        };
        if disk.gone || disk.unwritable {
            return;
        }
        for (i, bytes) in buffer.chunks_exact(SECTOR).enumerate() {
            if self.rng.below(2) == 0 {
                disk.write(offset + (i * SECTOR) as u64, bytes, u64::MAX);
            }
        }
    }

    /// The power fails: operations in flight are torn, and caches are lost but for the survivors.
    pub fn crash(&mut self, survivors: Survivors) {
        if self.pressed && self.early.below(2) == 0 {
            // What is slow has not begun.
            self.flights.retain(|flight| flight.slow_until < u64::MAX);
        }
        let torn = self.torn_anchors();
        for flight in 0..self.flights.len() {
            match survivors {
                Survivors::None => {}
                Survivors::Random => self.write_in_part(flight),
                Survivors::Runs if self.rng.below(2) == 0 => {}
                Survivors::All | Survivors::Runs => self.write_undone(flight),
            }
        }
        self.flights.clear();
        for disk in &mut self.members {
            disk.crash(survivors, &mut self.rng);
        }
        for disk in &mut self.nvs {
            match (self.nvs_is_memory, survivors) {
                (true, Survivors::Random) => disk.tear(&mut self.rng),
                _ => disk.crash(survivors, &mut self.rng),
            }
        }
        torn.iter().for_each(|(device, at, bytes)| self.device(*device).put(*at, bytes));
        self.note(0xC0A5);
        (self.crash_at, self.crashed, self.starved) = (None, false, None);
        (self.fails_intent, self.newest_held, self.takes_all) = (None, false, false);
    }

    /// The process is killed, and the power stays on: what is in flight may still be done, and the
    /// devices keep their caches. A later power failure takes what nobody has flushed since.
    pub fn killed(&mut self, rng: &mut Seeded) {
        let in_flight = core::mem::take(&mut self.flights);
        // Often all members are ahead of all NVS devices, or behind them.
        let alike = self.pressed && rng.below(2) == 0;
        let [members, nvs] = [(); 2].map(|()| rng.below(3));
        for Flight { op, asked, .. } in in_flight {
            self.clock += 1;
            let drawn = match op.device {
                _ if !alike => rng.below(3),
                Device::Member(_) => members,
                Device::Nvs(_) => nvs,
            };
            // Nobody hears whether it was done, and a durable write may have got half-way.
            match (drawn, op) {
                (0, op) => drop(self.carry_out(&op, asked)),
                (1, Op { id, device, kind: OpKind::Write { offset, buffer, .. } }) => {
                    let buffer = match device {
                        Device::Nvs(_) if self.nvs_is_memory => {
                            let most = buffer.len() as u64;
                            self.device(device).copied_in_part(offset, &buffer, most, rng).into()
                        }
                        _ => buffer,
                    };
                    let kind = OpKind::Write { offset, buffer, durable: false };
                    drop(self.carry_out(&Op { id, device, kind }, asked));
                }
                _ => {}
            }
        }
        let now = self.clock;
        self.members.iter_mut().chain(&mut self.nvs).for_each(|disk| disk.all_done(now));
        self.note(0xD1ED);
        (self.crash_at, self.crashed, self.starved) = (None, false, None);
        (self.fails_intent, self.newest_held, self.takes_all) = (None, false, false);
    }

    /// Often all anchors that are being written to memory are torn.
    fn torn_anchors(&mut self) -> Vec<(Device, u64, Buffer)> {
        if !self.nvs_is_memory || !self.pressed || self.early.below(2) == 0 {
            return Vec::new();
        }
        let mut rng = Seeded::new(self.early.below(u64::MAX), "torture-torn-anchors");
        let anchors = self.flights.iter().filter_map(|flight| match &flight.op.kind {
            OpKind::Write { offset, buffer, .. } if ANCHORS.contains(offset) => {
                Some((flight.op.device, *offset, buffer.to_vec()))
            }
            _ => None,
        });
        let anchors: Vec<_> = anchors.collect();
        let mut torn = |(device, at, new): (Device, u64, Vec<u8>)| {
            let disk = self.device(device);
            (device, at, disk.copied_in_part(at, &new, ANCHOR_BYTES, &mut rng))
        };
        anchors.into_iter().map(&mut torn).collect()
    }

    /// The power fails. What is written and not durable is all in the devices' caches now, writes
    /// in flight too: any of it may be there at the next start.
    pub fn power_fails(&mut self) {
        (0..self.flights.len()).for_each(|flight| self.write_undone(flight));
        self.flights.clear();
        (self.crash_at, self.crashed, self.fails) = (None, false, None);
    }

    /// All of a write is in its device's cache, and it is not done.
    fn write_undone(&mut self, flight: usize) {
        let Op { device, kind, .. } = &self.flights[flight].op;
        let disk = match device {
            Device::Member(number) => &mut self.members[usize::from(*number)],
            Device::Nvs(number) => &mut self.nvs[usize::from(*number)],
        };
        let lost = disk.gone || disk.unwritable;
        if let (OpKind::Write { offset, buffer, .. }, false) = (kind, lost) {
            disk.write(*offset, buffer, u64::MAX);
        }
    }
}

impl Media for World {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        if self.device(device).gone {
            return Err(IoError::GONE);
        }
        Ok(if self.sizes_unknown { u64::MAX } else { self.device(device).bytes() })
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        if self.count() || self.device(device).gone {
            return Err(IoError::GONE);
        }
        let read = self.device(device).read(offset, into);
        self.failed_reads += u64::from(read.is_err());
        read
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let gone = self.device(device).gone;
        let taken = !gone && !self.device(device).unwritable;
        self.early_writes += u64::from(!self.crashed);
        self.first_write.get_or_insert(self.operations);
        match device {
            _ if offset == SUPERBLOCKS[0] => self.mark_writes.push(self.operations),
            Device::Nvs(_) if ANCHORS.contains(&offset) => self.anchor_writes.push(self.operations),
            Device::Nvs(_) if offset >= DATA_START => self.log_writes.push(self.operations),
            _ => {}
        }
        if self.count() {
            // Parts of it may be written as the power fails.
            let torn = taken && self.operations == self.crash_at.unwrap_or(0) + 1;
            if torn && self.order != Order::Drawn {
                self.device(device).write(offset, bytes, u64::MAX);
            } else if torn {
                for (i, sector) in bytes.chunks_exact(SECTOR).enumerate() {
                    if self.rng.below(2) == 0 {
                        let at = offset + (i * SECTOR) as u64;
                        self.device(device).write(at, sector, u64::MAX);
                    }
                }
            }
            return Err(IoError::GONE);
        }
        if gone {
            return Err(IoError::GONE);
        }
        if self.device(device).unwritable {
            return Err(IoError::MEDIUM);
        }
        if offset >= DATA_START && core::mem::take(&mut self.device(device).write_fails) {
            return Err(IoError::MEDIUM);
        }
        self.maybe_crash_soon(64);
        let clock = self.clock;
        if let Device::Nvs(_) = device {
            self.device(device).note_early(offset, bytes, clock);
        }
        self.device(device).write(offset, bytes, clock);
        Ok(())
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.maybe_crash_now(device);
        if self.count() || self.device(device).gone {
            return Err(IoError::GONE);
        }
        let clock = self.clock;
        let disk = self.device(device);
        if let Some(error) = disk.flush_error() {
            disk.forget_unflushed();
            return Err(error);
        }
        disk.flush(clock);
        Ok(())
    }
}
