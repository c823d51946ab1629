//! Devices that fail: members are given up, NVS devices too, and the change is on all that are
//! left before anything that builds on it is acknowledged.

use crate::Buffer;
use crate::defect::Defect;
use crate::io::{Device, IoClass, IoError, OpKind};
use crate::memory::PAGE;
use crate::ops::{Finished, Purpose};
use crate::request::{Alarm, Cause, Refusal, Reply};
use crate::settings::OnNvsLoss;
use crate::volume::{Volume, Whole};
use destage_engine::event::Event;
use destage_engine::units::{DiskId, Duration, Instant};
use destage_nvslog::superblock::{NOT_JOINED, Role, Superblock, Uuid};
use std::sync::Arc;

/// First bytes of the two copies of a superblock.
pub(crate) const SUPERBLOCKS: [u64; 2] = [0, 12_288];

/// Destages that wait for a member to be flushed.
#[derive(Default)]
pub(crate) struct Flushes {
    pub(crate) now: Vec<u32>,
    pub(crate) next: Vec<u32>,
}

/// With which generations the devices in use came into use; [`NOT_JOINED`]: not in use.
#[derive(Clone, Debug)]
pub(crate) struct Since {
    pub(crate) members: Vec<u64>,
    pub(crate) nvs: Vec<u64>,
}

/// A change of the set of devices that is being written to all of them: first copies on the NVS
/// devices, first copies on the members, then all second ones. A member that has it so says that
/// the NVS devices in use have it too (see `assemble`).
struct Change {
    phase: Phase,
    pending: u32,
    /// What is written.
    superblock: Superblock,
    /// Another change came meanwhile: it is written after this one.
    again: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The NVS device that is new in the set, alone: until others name it, it is not needed.
    Joins,
    Nvs,
    Members,
    /// Members that are being rebuilt, and those that are whole from this change on: none of them
    /// is ever ahead of the others.
    Spares,
    Second,
}

/// What is known of the devices.
pub(crate) struct Faults {
    pub(crate) superblock: Superblock,
    pub(crate) members: Vec<Uuid>,
    pub(crate) nvs: Vec<Uuid>,
    /// With which generations they came into use.
    pub(crate) since: Since,
    pub(crate) flushes: Vec<Flushes>,
    /// Destages flushed while a change is under way.
    pub(crate) held: Vec<(u32, bool)>,
    /// Destages intended while a change is under way.
    pub(crate) held_intents: Vec<u32>,
    /// No request is served any more.
    pub(crate) stopped: bool,
    /// The NVS device that the change under way adds.
    pub(crate) joined: Option<u16>,
    pub(crate) read_errors: Vec<u32>,
    /// Devices with operations that wait to be tried again.
    waiting: Vec<Device>,
    /// Whose failure stopped the array.
    pub(crate) stopped_by: Option<u16>,
    /// When stalls were looked for last, and since when without a pause.
    looked: Instant,
    patient_since: Instant,
    change: Option<Change>,
    changes: u64,
    /// The last generation that all devices in use have.
    pub(crate) complete: u64,
    /// A change waits for a rebuilt member to be flushed.
    waits: bool,
}

impl Faults {
    pub(crate) fn new(superblock: Superblock, members: Vec<Uuid>, nvs: Vec<Uuid>) -> Faults {
        Faults {
            superblock,
            flushes: members.iter().map(|_| Flushes::default()).collect(),
            read_errors: vec![0; members.len()],
            waiting: Vec::new(),
            since: Since { members: vec![0; members.len()], nvs: vec![0; nvs.len()] },
            members,
            nvs,
            held: Vec::new(),
            held_intents: Vec::new(),
            stopped: false,
            joined: None,
            stopped_by: None,
            looked: Instant::default(),
            patient_since: Instant::default(),
            change: None,
            changes: 0,
            complete: superblock.generation,
            waits: false,
        }
    }

    /// Whether a change of the set of devices is not durable yet.
    pub(crate) fn changing(&self) -> bool {
        self.change.is_some() || self.waits
    }

    /// The superblock of a device.
    pub(crate) fn superblock_of(&self, device: Device) -> Superblock {
        self.on_device(self.superblock, device)
    }

    fn on_device(&self, superblock: Superblock, device: Device) -> Superblock {
        let (role, device, joined) = match device {
            Device::Member(number) => {
                let place = usize::from(number);
                (Role::Member(number), self.members[place], self.since.members[place])
            }
            Device::Nvs(number) => {
                let place = usize::from(number);
                (Role::Nvs(number), self.nvs[place], self.since.nvs[place])
            }
        };
        Superblock { role, device, joined, ..superblock }
    }

    /// Devices that the next generation is the first to use came into use with it.
    pub(crate) fn note_joined(&mut self) {
        let superblock = &self.superblock;
        let members = (0..).zip(&mut self.since.members);
        let members = members.map(|(member, since)| (!superblock.has_failed(member), since));
        let nvs = superblock.nvs.iter().zip(&mut self.since.nvs);
        let nvs = nvs.map(|(device, since)| (device.is_some(), since));
        for (used, since) in members.chain(nvs) {
            match (used, *since) {
                (false, _) => *since = NOT_JOINED,
                (true, NOT_JOINED) => *since = superblock.generation,
                (true, _) => {}
            }
        }
    }
}

impl Volume {
    /// An operation failed.
    pub(crate) fn failed(&mut self, finished: Finished, error: IoError) {
        // A flush that failed may have dropped what it did not write: a second one proves nothing.
        let again = error.passes() && !matches!(finished.kind, OpKind::Flush);
        if again && !self.log.defect.is(Defect::FailsFullDevices) {
            if !self.faults.waiting.contains(&finished.device) {
                self.faults.waiting.push(finished.device);
                self.alarm(Alarm::DeviceWaits(finished.device, error));
            }
            let command = match &finished.purpose {
                Purpose::Command(command) => Some(*command),
                _ => None,
            };
            self.ops.try_later(finished);
            if let Some(command) = command {
                // Others of this disk, which it may do, take its place.
                self.step(Event::DiskWaits(command.disk));
            }
            return;
        }
        let Finished { device, purpose, kind, .. } = finished;
        let cause = Cause::of(&kind, error);
        match (device, purpose) {
            (Device::Member(member), Purpose::Command(command))
                if !command.write && error.class == IoClass::Medium =>
            {
                let errors = &mut self.faults.read_errors[usize::from(member)];
                *errors += 1;
                if *errors > self.settings.read_errors_max && self.survives_without(member) {
                    self.fail_member(member, Some(purpose), cause);
                } else {
                    self.step(Event::DiskError(command));
                }
            }
            (Device::Member(member), _) => self.fail_member(member, Some(purpose), cause),
            // What cannot be copied may be dead, and the good device is still good.
            (Device::Nvs(copy), Purpose::Mirror { .. })
                if self.log.copies.contains(&copy) && error.class == IoClass::Medium =>
            {
                self.mirror_failed();
            }
            (Device::Nvs(copy), _) => self.fail_nvs(copy, Some(purpose), cause),
        }
        self.after();
    }

    /// Gives up the device that has not answered for longest, if that is too long. Time in which
    /// nobody looked is none: the process was stopped, or the machine, and what a device
    /// answered meanwhile has not been heard yet.
    pub(crate) fn look_for_stalls(&mut self) {
        let (now, limit) = (self.ops.now(), self.settings.stall_limit);
        let looked = core::mem::replace(&mut self.faults.looked, now);
        if now.since(looked).0 > limit.0 / 2 {
            self.faults.patient_since = now;
        }
        while let Some((device, since)) = self.ops.oldest() {
            if self.faults.stopped || now < since.max(self.faults.patient_since) + limit {
                return;
            }
            match device {
                Device::Member(member) => self.fail_member(member, None, Cause::Stalled(limit)),
                Device::Nvs(copy) => self.fail_nvs(copy, None, Cause::Stalled(limit)),
            }
        }
    }

    /// When to look for stalls again: several times within the limit, so that a pause is seen.
    pub(crate) fn stall_deadline(&self) -> Option<Instant> {
        let (_, since) = self.ops.oldest()?;
        let limit = self.settings.stall_limit;
        let over = since.max(self.faults.patient_since) + limit;
        Some(over.min(self.faults.looked + Duration(limit.0 / 8)))
    }

    /// An operation on a device succeeded that shows that it takes writes again: a write, or what
    /// was tried again. When nothing waits for the device any more, that is the end of the alarm.
    pub(crate) fn answers(&mut self, device: Device) {
        if !self.faults.waiting.is_empty()
            && self.faults.waiting.contains(&device)
            && !self.ops.waits(device)
        {
            self.faults.waiting.retain(|other| *other != device);
            self.alarm(Alarm::DeviceAnswers(device));
        }
    }

    /// Gives up a member: an operator's word, or something that the driver noticed.
    pub fn give_up_member(&mut self, member: u16, cause: Cause) {
        self.fail_member(member, None, cause);
        self.after();
    }

    /// Gives up a member: an error, no answer, or an operator's word.
    pub(crate) fn fail_member(&mut self, member: u16, purpose: Option<Purpose>, cause: Cause) {
        let mut purposes: Vec<Purpose> = purpose.into_iter().collect();
        let device = Device::Member(member);
        // They fail as those that are with the disk.
        for _ in 0..self.ops.waiting_commands(device) {
            self.step(Event::DiskTriesAgain(DiskId(member)));
        }
        purposes.extend(self.ops.abandon(device));
        self.faults.waiting.retain(|other| *other != device);
        if !self.controller.failed().contains(DiskId(member)) {
            self.alarm(Alarm::MemberFailed(member, cause));
            if !self.survives_without(member) {
                self.stop_serving(member);
                return;
            }
            self.faults.superblock.mark(member, true);
            self.forget_rebuild(member);
            self.change_devices();
            self.step(Event::DiskFailed(DiskId(member)));
        } else if self.is_attached(member) {
            // The spare that was to become it.
            self.alarm(Alarm::RebuildStopped(member, cause));
            self.forget_rebuild(member);
            self.change_devices();
            self.step(Event::DiskFailed(DiskId(member)));
        }
        for purpose in purposes {
            match purpose {
                Purpose::Command(command) => self.step(Event::DiskError(command)),
                Purpose::ScrubFlush => self.scrub_flushed(false),
                Purpose::Superblock { change } => self.superblock_done(change),
                _ => {}
            }
        }
        self.member_flush_failed(member);
    }

    /// Whether the level bears it if a member fails, too.
    #[must_use]
    pub fn survives_without(&self, member: u16) -> bool {
        let mut failed = self.controller.failed().clone();
        failed.insert(DiskId(member));
        self.controller.geometry().survives(&failed)
    }

    /// Too many members are gone: nothing is answered any more but with an error. What is dirty
    /// stays in NVS.
    fn stop_serving(&mut self, member: u16) {
        (self.faults.stopped, self.faults.stopped_by) = (true, Some(member));
        let lost = self.lost();
        self.alarm(Alarm::ArrayStopped(Box::new(lost)));
        self.refuse_all();
    }

    fn refuse_all(&mut self) {
        for Whole { ticket, .. } in self.wholes.drain() {
            self.push_reply(Reply { ticket, result: Err(Refusal::Stopped) });
        }
    }

    /// Gives up an NVS device.
    pub(crate) fn fail_nvs(&mut self, copy: u16, purpose: Option<Purpose>, cause: Cause) {
        let mut purposes: Vec<Purpose> = purpose.into_iter().collect();
        purposes.extend(self.ops.abandon(Device::Nvs(copy)));
        self.faults.waiting.retain(|other| *other != Device::Nvs(copy));
        if self.log.joining == Some(copy) {
            self.mirror_failed();
        } else if self.log.copies.contains(&copy) {
            self.log.copies.retain(|other| *other != copy);
            self.faults.since.nvs[usize::from(copy)] = NOT_JOINED;
            self.name_nvs();
            self.change_devices();
            if self.log.lost() {
                self.mirror_failed();
                self.nvs_lost(copy, cause);
            } else {
                self.alarm(Alarm::NvsMirrorLost(copy, cause));
            }
        }
        for purpose in purposes {
            match purpose {
                Purpose::Commit { sequence } => self.log.commit_done(sequence),
                Purpose::Anchor => self.log.anchor_done(&mut self.ops),
                Purpose::Move { page, version } => self.log.moved(page, version, None),
                Purpose::Superblock { change } => self.superblock_done(change),
                _ => {}
            }
        }
    }

    fn nvs_lost(&mut self, copy: u16, cause: Cause) {
        // What is newer than the last commit was not acknowledged.
        let pages = self.memory.pages_through(self.log.durable_version()) as u64;
        self.alarm(Alarm::NvsLost { copy, pages, cause });
        self.log.give_up();
        if self.settings.on_nvs_loss == OnNvsLoss::Stop {
            self.faults.stopped = true;
            self.refuse_all();
        }
        self.step(Event::Flush);
    }

    /// Marks a clean stop: the last thing before it, when nothing else is under way.
    pub fn mark_stop(&mut self, now: Instant) {
        self.ops.set_now(now);
        if !self.faults.stopped {
            self.change_devices();
        }
    }

    /// Writes a superblock of the next generation to all devices that are left.
    pub(crate) fn change_devices(&mut self) {
        if self.log.defect.is(Defect::ForgetsLostDevices) {
            return;
        }
        self.log.hold = true;
        if let Some(change) = &mut self.faults.change {
            // Two at once could come to a device in the wrong order.
            change.again = true;
            return;
        }
        self.begin_change();
        self.write_superblocks();
    }

    /// A change with all that is known now; later, if a rebuilt member is not flushed yet: without
    /// the one that fails now it may be needed.
    fn begin_change(&mut self) {
        self.faults.change = None;
        self.faults.waits = self.rebuilds.iter().any(crate::rebuild::Rebuild::is_flushed_now);
        if self.faults.waits {
            return;
        }
        self.faults.superblock.generation += 1;
        self.faults.superblock.base = self.faults.complete;
        self.faults.note_joined();
        self.faults.superblock.lost_pages = self.records.iter().any(|record| record.lost() > 0);
        self.faults.changes += 1;
        let superblock = self.faults.superblock;
        let phase = if self.faults.joined.is_some() { Phase::Joins } else { Phase::Nvs };
        self.faults.change = Some(Change { phase, pending: 0, superblock, again: false });
    }

    /// Begins a phase of a change, or the next that has something to write.
    fn write_superblocks(&mut self) {
        let (number, joined) = (self.faults.changes, self.faults.joined);
        while let Some(change) = &mut self.faults.change {
            let (phase, superblock) = (change.phase, change.superblock);
            let filled = |m: &u16| self.rebuilds.iter().any(|r| r.is_named() && r.member == *m);
            let whole = |m: &u16| !self.faults.superblock.has_failed(*m) && !filled(m);
            let all = || 0..self.faults.members.len() as u16;
            let members = all().filter(whole).map(Device::Member);
            let spares = all().filter(filled).map(Device::Member);
            let nvs = self.log.copies.iter().map(|copy| Device::Nvs(*copy));
            let devices: Vec<Device> = match phase {
                Phase::Joins => nvs.filter(|d| joined.map(Device::Nvs) == Some(*d)).collect(),
                Phase::Nvs => nvs.collect(),
                Phase::Members => members.collect(),
                Phase::Spares => spares.collect(),
                Phase::Second => nvs.chain(members).chain(spares).collect(),
            };
            change.pending = devices.len() as u32;
            let offset = SUPERBLOCKS[usize::from(phase == Phase::Second)];
            for device in &devices {
                let mut buffer = Buffer::zeroed(PAGE);
                let bytes = self.faults.on_device(superblock, *device).encode();
                buffer[..bytes.len()].copy_from_slice(&bytes);
                let kind = OpKind::Write { offset, buffer: Arc::new(buffer), durable: true };
                self.ops.push(*device, Purpose::Superblock { change: number }, kind);
            }
            if !devices.is_empty() {
                return;
            }
            self.next_of_change();
        }
    }

    fn next_of_change(&mut self) {
        let Some(change) = &mut self.faults.change else { return };
        if change.again {
            // Nothing is built on this try, which is not on all devices: the next says what is so
            // now. Were this one ended first, what failed would look as if it had been restored.
            self.begin_change();
            return;
        }
        match change.phase {
            Phase::Joins => change.phase = Phase::Nvs,
            Phase::Nvs => change.phase = Phase::Members,
            Phase::Members => change.phase = Phase::Spares,
            Phase::Spares => change.phase = Phase::Second,
            Phase::Second => self.changed(),
        }
    }

    /// One device has the superblock of a change, or has gone.
    pub(crate) fn superblock_done(&mut self, change: u64) {
        if change != self.faults.changes {
            return;
        }
        let Some(under_way) = &mut self.faults.change else { return };
        under_way.pending -= 1;
        if under_way.pending == 0 {
            self.next_of_change();
            self.write_superblocks();
        }
    }

    /// A change is durable: what waited for it goes on.
    fn changed(&mut self) {
        let Some(change) = self.faults.change.take() else { return };
        self.faults.complete = change.superblock.generation;
        self.rebuilds_recorded(&change.superblock);
        self.mirror_joined();
        self.log.hold = false;
        self.log.advance();
        for index in core::mem::take(&mut self.faults.held_intents) {
            self.step(Event::Intended(index));
        }
        for (index, whole) in core::mem::take(&mut self.faults.held) {
            self.step(Event::Flushed(index, whole));
        }
        self.look_through();
    }
}
