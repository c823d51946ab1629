//! Devices that fail: a member is no longer used, or an NVS device, and that is recorded on all
//! devices that are left before anything that builds on it is acknowledged. Also the NVS mirror
//! that replaces one.

use super::Volume;
use crate::defect::Defect;
use crate::devices::Situation;
use crate::io::{Device, IoClass, IoError, OpKind};
use crate::log::{MirrorRefusal, MirrorStatus, NewMirror};
use crate::ops::{Finished, LogOp, Purpose};
use crate::rebuilds::Rebuilds;
use crate::request::{Alarm, Cause, Refusal};
use crate::settings::OnNvsLoss;
use destage_engine::event::{DiskCommand, Event, Owner};
use destage_engine::units::{DiskId, Instant};
use destage_nvslog::superblock::{Superblock, Uuid};

impl Volume {
    /// An operation failed.
    pub(super) fn failed(&mut self, finished: Finished, error: IoError) {
        // A flush that failed may have dropped what it did not write: a second one proves nothing.
        let again = error.passes() && !matches!(finished.kind, OpKind::Flush);
        if again && !self.settings.defect.is(Defect::FailsFullDevices) {
            let purpose = finished.purpose;
            self.ops.try_later(finished, error);
            if let Purpose::Command(command) = purpose {
                // Others of this disk, which it may do, take its place.
                self.step(Event::DiskWaits(command.disk));
            }
            return;
        }
        let Finished { device, purpose, kind, .. } = finished;
        let cause = Cause::of(&kind, error);
        if let Purpose::Command(command) = &purpose {
            self.flushes.ended(command);
        }
        match (device, purpose) {
            (Device::Member(member), Purpose::Command(command))
                if !command.write && error.class == IoClass::Medium =>
            {
                let most = self.settings.read_errors_max;
                // Of a run, the engine reads the pages one by one.
                let too_many =
                    command.pages == 1 && self.devices.note_bad_page(member, command.first, most);
                if too_many && self.survives_without(member) {
                    self.fail_member(member, Some(purpose), cause);
                } else {
                    self.step(Event::DiskError(command));
                }
            }
            // The page stays unreadable. Without the member, the array would stop.
            (Device::Member(member), Purpose::Command(command))
                if is_repair(&command)
                    && error.class == IoClass::Medium
                    && !self.survives_without(member) =>
            {
                self.step(Event::DiskError(command));
            }
            (Device::Member(member), _) => self.fail_member(member, Some(purpose), cause),
            // What cannot be copied to a new mirror may be of no use, and the device that it is
            // copied from is still good.
            (Device::Nvs(number), Purpose::Log(LogOp::Mirror { .. }))
                if self.log.devices().contains(&number) && error.class == IoClass::Medium =>
            {
                self.log.end_mirror(&mut self.ops);
            }
            (Device::Nvs(number), _) => self.fail_nvs(number, Some(purpose), cause),
        }
        self.after();
    }

    /// Fails the devices that have not answered for too long.
    pub(super) fn fail_stalled(&mut self) {
        let limit = self.settings.stall_limit;
        self.ops.look_for_stalls(limit);
        while !self.is_still()
            && let Some(device) = self.ops.stalled(limit)
        {
            match device {
                Device::Member(member) => self.fail_member(member, None, Cause::Stalled(limit)),
                Device::Nvs(number) => self.fail_nvs(number, None, Cause::Stalled(limit)),
            }
        }
    }

    /// Fails a member: an operator asked for it, or the driver noticed something. An array that
    /// has stopped records nothing more.
    pub fn give_up_member(&mut self, member: u16, cause: Cause) {
        if !self.is_still() {
            self.fail_member(member, None, cause);
            self.after();
        }
    }

    /// A member is no longer used. `purpose`: of the operation that failed.
    pub(super) fn fail_member(&mut self, member: u16, purpose: Option<Purpose>, cause: Cause) {
        let mut purposes: Vec<Purpose> = purpose.into_iter().collect();
        let device = Device::Member(member);
        // Commands that wait to be tried again fail like those that the disk has.
        for _ in 0..self.ops.waiting_commands(device) {
            self.step(Event::DiskTriesAgain(DiskId(member)));
        }
        purposes.extend(self.ops.give_up(device));
        if !self.engine.failed(member) {
            self.ops.alarm(Alarm::MemberFailed(member, cause));
            if !self.survives_without(member) {
                self.stop_serving(member);
                return;
            }
            self.devices.mark(member, true);
            self.forget_rebuild(member);
            self.change_devices();
            self.step(Event::DiskFailed(DiskId(member)));
        } else if self.rebuilds.contains(member) {
            // The spare that was to become it; the superblocks may not name it yet.
            self.ops.alarm(Alarm::RebuildStopped(member, cause));
            self.forget_rebuild(member);
            self.change_devices();
            self.step(Event::DiskFailed(DiskId(member)));
        }
        for purpose in purposes {
            match purpose {
                Purpose::Command(command) => self.step(Event::DiskError(command)),
                Purpose::ScrubFlush => self.scrub_flushed(false),
                Purpose::Superblock { change } => self.superblock_written(change),
                _ => {}
            }
        }
        let flushed = self.flushes.failed(member);
        self.destages_flushed(flushed);
    }

    /// Whether the array tolerates the failure of this member, too.
    #[must_use]
    pub fn survives_without(&self, member: u16) -> bool {
        let mut failed = self.controller().failed().clone();
        failed.insert(DiskId(member));
        self.controller().geometry().survives(&failed)
    }

    /// Too many members have failed: every request is answered with an error. What is dirty stays
    /// in the NVS.
    fn stop_serving(&mut self, member: u16) {
        self.devices.stop(Some(member));
        let lost = self.lost();
        self.ops.alarm(Alarm::ArrayStopped(Box::new(lost)));
        self.requests.refuse_all(Refusal::Stopped);
    }

    /// Serves no request any more: another start has to find out what the array is.
    pub fn halt(&mut self) {
        self.devices.stop(self.devices.stopped_by());
        self.requests.refuse_all(Refusal::Stopped);
    }

    /// Fails an NVS device: an operator asked for it, or the driver noticed something. An array
    /// that has stopped records nothing more.
    pub fn give_up_nvs(&mut self, now: Instant, copy: u16, cause: Cause) {
        self.ops.set_now(now);
        if !self.is_still() {
            self.fail_nvs(copy, None, cause);
            self.after();
        }
    }

    /// An NVS device is no longer used. `purpose`: of the operation that failed.
    fn fail_nvs(&mut self, number: u16, purpose: Option<Purpose>, cause: Cause) {
        let mut purposes: Vec<Purpose> = purpose.into_iter().collect();
        purposes.extend(self.ops.give_up(Device::Nvs(number)));
        if self.log.joining() == Some(number) {
            self.log.end_mirror(&mut self.ops);
        } else if self.log.devices().contains(&number) {
            self.log.remove_device(number);
            self.devices.nvs_failed(number);
            self.devices.name_nvs(self.log.devices());
            if self.log.lost() {
                self.devices.doubt_rows(true);
            }
            self.change_devices();
            if self.log.lost() {
                self.log.end_mirror(&mut self.ops);
                self.nvs_lost(number, cause);
            } else {
                self.ops.alarm(Alarm::NvsMirrorLost(number, cause));
            }
        }
        for purpose in purposes {
            match purpose {
                Purpose::Log(op) => self.log.op_abandoned(op, &mut self.ops),
                Purpose::Superblock { change } => self.superblock_written(change),
                _ => {}
            }
        }
    }

    fn nvs_lost(&mut self, copy: u16, cause: Cause) {
        // What is newer than the last commit was not acknowledged.
        let pages = self.pages.pages_through(self.log.durable_version()).count() as u64;
        self.at_risk.begin(self.log.last_version(), &self.pages);
        self.ops.alarm(Alarm::NvsLost { copy, pages, cause });
        self.log.give_up();
        if self.settings.on_nvs_loss == OnNvsLoss::Stop {
            self.devices.stop(self.devices.stopped_by());
            self.requests.refuse_all(Refusal::Stopped);
        }
        self.step(Event::Flush);
    }

    /// Records a clean stop: the last step before it, when nothing else is in flight.
    pub fn mark_stop(&mut self, now: Instant) {
        self.ops.set_now(now);
        if self.log.lost() && self.rows_fit() {
            self.devices.doubt_rows(false);
        }
        if !self.devices.stopped() {
            self.change_devices();
        }
    }

    /// Records on all devices that are left which of them are in use.
    pub(super) fn change_devices(&mut self) {
        if self.settings.defect.is(Defect::ForgetsLostDevices) {
            return;
        }
        self.log.hold();
        let situation = situation(self.log.devices(), &self.rebuilds);
        let done = self.devices.change(&situation, &mut self.ops);
        self.devices_changed(done);
    }

    /// One device has the superblock of a change, or is no longer used.
    pub(super) fn superblock_written(&mut self, change: u64) {
        let situation = situation(self.log.devices(), &self.rebuilds);
        let done = self.devices.superblock_written(change, &situation, &mut self.ops);
        self.devices_changed(done);
    }

    /// A change is durable on all devices: what waited for it continues.
    fn devices_changed(&mut self, done: Option<Superblock>) {
        let Some(superblock) = done else { return };
        self.rebuilds_recorded(&superblock);
        if let Some(number) = self.devices.take_new_nvs()
            && self.log.mirror_named(number)
        {
            self.ops.alarm(Alarm::NvsMirrored(number));
        }
        self.log.resume();
        for index in self.destages.take_held_intents() {
            self.step(Event::Intended(index));
        }
        self.continue_flushed();
        self.answer_written();
    }

    /// Whether a change of the set of devices, the failure of one perhaps, is not recorded yet:
    /// until then no other device may take its place.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.devices.changing()
    }

    /// Begins to fill a new NVS mirror: number 0 or 1, one that is not in use. Only its first MiB
    /// must be zeros.
    ///
    /// # Errors
    /// See [`MirrorRefusal`].
    pub fn add_mirror(
        &mut self,
        now: Instant,
        copy: u16,
        device: Uuid,
        bytes: u64,
        block_bytes: u32,
    ) -> Result<(), MirrorRefusal> {
        self.ops.set_now(now);
        if self.devices.stopped() {
            return Err(MirrorRefusal::Stopped);
        }
        if self.devices.new_nvs().is_some() && !self.log.lost() {
            return Err(MirrorRefusal::Running);
        }
        let new = NewMirror { device: copy, uuid: device, bytes, block_bytes };
        self.log.add_mirror(&new, &mut self.ops)
    }

    /// The resync of a new NVS mirror. It ends when the superblocks of all devices name the mirror:
    /// before, the other device may not be taken away.
    #[must_use]
    pub fn mirror_status(&self) -> Option<MirrorStatus> {
        self.log.mirror_status()
    }

    /// Whether the superblocks are being written that name a new mirror.
    #[must_use]
    pub fn mirror_joins_now(&self) -> bool {
        self.devices.new_nvs().is_some()
    }

    /// Ends the resync of a new mirror, before a stop.
    pub fn end_mirror(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.log.end_mirror(&mut self.ops);
        self.after();
    }

    /// Continues the resync of a new mirror. When it has everything, the superblocks name it.
    pub(super) fn mirror_turn(&mut self) {
        self.log.mirror_turn(&mut self.ops);
        if !self.devices.changing()
            && let Some((number, device)) = self.log.take_filled_mirror()
        {
            self.devices.add_nvs(number, device);
            self.devices.name_nvs(self.log.devices());
            self.change_devices();
        }
    }
}

/// Whether a command writes what a member should have already.
fn is_repair(command: &DiskCommand) -> bool {
    command.write && matches!(command.owner, Owner::HostRead(_) | Owner::Scrub(_))
}

fn situation<'a>(nvs: &'a [u16], rebuilds: &Rebuilds) -> Situation<'a> {
    Situation { nvs, rebuilding: rebuilds.named(), flushing: rebuilds.flushing() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What else is written is nowhere else but in the NVS.
    #[test]
    fn only_writes_of_reads_and_scrubs_are_repairs() {
        for (owner, repairs) in [
            (Owner::HostRead(0), true),
            (Owner::Scrub(0), true),
            (Owner::Destage(0), false),
            (Owner::Rebuild(0), false),
        ] {
            let command = DiskCommand { disk: DiskId(0), first: 0, pages: 1, write: true, owner };
            assert_eq!(is_repair(&command), repairs, "{owner:?}");
            assert!(!is_repair(&DiskCommand { write: false, ..command }), "{owner:?} reads");
        }
    }
}
