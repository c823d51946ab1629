//! Which devices are in use, and how a change of that set is written to all of them: it is durable
//! on all before anything that builds on it is acknowledged (docs/durability.md, "Marks").

use crate::Buffer;
use crate::defect::Defect;
use crate::io::{Device, IoError, Media, OpKind, write_durably};
use crate::ops::{Ops, Purpose};
use crate::records::MemberRecords;
use crate::store::PAGE;
use destage_engine::event::DiskCommand;
use destage_nvslog::LogId;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{NOT_JOINED, Role, Superblock, Uuid};
use std::collections::BTreeSet;

/// First bytes of the two copies of a superblock.
pub(crate) const SUPERBLOCKS: [u64; 2] = [0, 12_288];

/// The generations with which the devices came into use; [`NOT_JOINED`]: not in use.
#[derive(Clone, Debug)]
pub(crate) struct Since {
    pub(crate) members: Vec<u64>,
    pub(crate) nvs: Vec<u64>,
}

impl Since {
    pub(crate) fn of(&mut self, device: Device) -> &mut u64 {
        match device {
            Device::Member(number) => &mut self.members[usize::from(number)],
            Device::Nvs(number) => &mut self.nvs[usize::from(number)],
        }
    }
}

/// A change that is being written to all devices: first copies on the NVS devices, then first
/// copies on the members, then second copies in the same order. A member that has one thereby says
/// that the NVS devices in use have it too (see `assemble`).
struct Change {
    phase: Phase,
    pending: u32,
    /// What is written.
    superblock: Superblock,
    /// There has been another change since: it is written after this one.
    again: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The NVS device that is new, alone: it is not needed until others name it.
    NewNvs,
    Nvs,
    Members,
    /// Members that are being rebuilt, and those that are in sync from this change on: none of
    /// them is ever ahead of the others.
    Spares,
    SecondNvs,
    Second,
}

/// What a change has to know besides.
pub(crate) struct Situation<'a> {
    /// NVS devices in use.
    pub(crate) nvs: &'a [u16],
    /// Members that the superblocks name as being rebuilt, or will.
    pub(crate) rebuilding: Vec<u16>,
    /// One of them is rebuilt and not flushed yet.
    pub(crate) flushing: bool,
}

/// Pages of a member that could not be read. One that is read again and again counts once.
#[derive(Clone, Default)]
struct BadPages {
    /// Those that were not written since.
    now: BTreeSet<u64>,
    /// How many there were.
    found: u32,
}

/// The devices of the array.
pub(crate) struct Devices {
    superblock: Superblock,
    members: Vec<Uuid>,
    nvs: Vec<Uuid>,
    since: Since,
    /// By member.
    bad_pages: Vec<BadPages>,
    /// No request is served any more.
    stopped: bool,
    /// The member whose failure stopped the array.
    stopped_by: Option<u16>,
    /// The NVS device that the change in progress adds.
    new_nvs: Option<u16>,
    change: Option<Change>,
    /// How many there have been.
    changes: u64,
    /// A change waits until a rebuilt member is flushed.
    waits: bool,
    /// The last generation that all devices in use have, and its identity.
    complete: (u64, u32),
    pub(crate) records: MemberRecords,
}

impl Devices {
    pub(crate) fn new(superblock: Superblock, members: Vec<Uuid>, nvs: Vec<Uuid>) -> Devices {
        Devices {
            since: Since { members: vec![0; members.len()], nvs: vec![0; nvs.len()] },
            bad_pages: vec![BadPages::default(); members.len()],
            records: MemberRecords::new(&members),
            members,
            nvs,
            stopped: false,
            stopped_by: None,
            new_nvs: None,
            change: None,
            changes: 0,
            waits: false,
            complete: (superblock.generation, superblock.identity()),
            superblock,
        }
    }

    /// The same devices, which came into use with these generations.
    pub(crate) fn joined(self, since: Since) -> Devices {
        Devices { since, ..self }
    }

    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
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

    pub(crate) fn members(&self) -> u16 {
        self.members.len() as u16
    }

    pub(crate) fn member(&self, member: u16) -> Uuid {
        self.members[usize::from(member)]
    }

    /// Whether the array serves no request any more.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Serves no request any more; `member`: because this one has failed.
    pub(crate) fn stop(&mut self, member: Option<u16>) {
        (self.stopped, self.stopped_by) = (true, member);
    }

    /// The member whose failure stopped the array.
    pub(crate) fn stopped_by(&self) -> Option<u16> {
        self.stopped_by
    }

    /// A member has failed, or is in sync.
    pub(crate) fn mark(&mut self, member: u16, failed: bool) {
        self.superblock.mark(member, failed);
    }

    /// Another device takes a failed member's place, to be rebuilt.
    pub(crate) fn begin_rebuild(&mut self, member: u16, device: Uuid) {
        let place = usize::from(member);
        self.members[place] = device;
        self.bad_pages[place] = BadPages::default();
        self.records.reset(member, device);
        self.superblock.set_rebuild(member, Some(device));
    }

    /// A member is rebuilt no further.
    pub(crate) fn end_rebuild(&mut self, member: u16) {
        self.superblock.set_rebuild(member, None);
        self.records.reset(member, self.member(member));
    }

    /// A rebuild is complete.
    pub(crate) fn rebuilt(&mut self, member: u16) {
        self.superblock.mark(member, false);
        self.superblock.set_rebuild(member, None);
    }

    /// A spare that is absent must not continue later from where it was.
    pub(crate) fn forget_spare(&mut self, member: u16) {
        self.superblock.set_rebuild(member, None);
    }

    /// The superblock names the NVS devices in use.
    pub(crate) fn name_nvs(&mut self, in_use: &[u16]) {
        self.superblock.nvs =
            core::array::from_fn(|place| in_use.contains(&(place as u16)).then(|| self.nvs[place]));
    }

    /// An NVS device has failed.
    pub(crate) fn nvs_failed(&mut self, number: u16) {
        self.since.nvs[usize::from(number)] = NOT_JOINED;
    }

    /// An NVS device has everything, and is named by the next change.
    pub(crate) fn add_nvs(&mut self, number: u16, device: Uuid) {
        self.nvs[usize::from(number)] = device;
        self.since.nvs[usize::from(number)] = NOT_JOINED;
        self.new_nvs = Some(number);
    }

    /// The NVS device that the change in progress adds.
    pub(crate) fn new_nvs(&self) -> Option<u16> {
        self.new_nvs
    }

    /// The same, when the change is over.
    pub(crate) fn take_new_nvs(&mut self) -> Option<u16> {
        self.new_nvs.take()
    }

    /// A page of a member could not be read. Whether these are more than `most`.
    pub(crate) fn note_bad_page(&mut self, member: u16, page: u64, most: u32) -> bool {
        let bad = &mut self.bad_pages[usize::from(member)];
        if bad.found <= most && bad.now.insert(page) {
            bad.found += 1;
        }
        bad.found > most
    }

    /// A command has written pages: if one of them cannot be read again, it is another bad one.
    pub(crate) fn pages_written(&mut self, command: &DiskCommand) {
        let bad = &mut self.bad_pages[usize::from(command.disk.0)].now;
        let pages = command.first..command.first + u64::from(command.pages);
        if !bad.is_empty() {
            bad.retain(|page| !pages.contains(page));
        }
    }

    /// At a start, the next generation is recorded on all devices before anything is served.
    /// `built`: the identity of the one that was found, if something may have been built on it, or
    /// all that it names have it by now.
    pub(crate) fn start_generation(&mut self, highest: u64, built: Option<u32>) {
        if let Some(identity) = built {
            self.superblock.base = self.superblock.generation;
            self.superblock.base_identity = identity;
        }
        // Of a stale member that is used again: the superblock that was found may not say so.
        self.superblock.lost_pages |= self.records.any_lost();
        // A number that a crash left on some device is not used again.
        self.superblock.generation = highest + 1;
        self.note_joined();
    }

    /// A page is lost, and none was before: from now on each start reads the records of all members
    /// in use, so each must have one.
    pub(crate) fn write_records(&mut self, ops: &mut Ops, defect: Defect) {
        for member in 0..self.members() {
            if !self.superblock.has_failed(member) {
                self.records.write_again(member, ops, defect);
            }
        }
    }

    /// Writes the present generation, one device after the other: first copies on all of these
    /// devices, then second ones. A second copy says that all devices have the first.
    pub(crate) fn write(
        &self,
        media: &mut dyn Media,
        devices: &[Device],
        skips: &dyn Fn(Device, usize) -> bool,
    ) -> Result<(), (Device, IoError)> {
        for (copy, at) in SUPERBLOCKS.into_iter().enumerate() {
            for device in devices.iter().copied().filter(|device| !skips(*device, copy)) {
                write_durably(media, device, at, &self.superblock_of(device).encode())?;
            }
        }
        Ok(())
    }

    /// From the next generation on the superblocks say whether rows may have several strips that do
    /// not fit their parity.
    pub(crate) fn doubt_rows(&mut self, doubted: bool) {
        self.superblock.doubted_rows = doubted;
    }

    /// The superblocks describe another log from now on.
    pub(crate) fn set_log(&mut self, log: Uuid, block_bytes: u32, sizes: Sizes) {
        let Sizes { ring_blocks, slots, dirty_pages } = sizes;
        let superblock = Superblock { log: LogId(log), block_bytes, slots, ..self.superblock };
        self.superblock = Superblock { ring_blocks, dirty_pages_max: dirty_pages, ..superblock };
    }

    /// The NVS devices that have the log, by their places; none of them is in use yet.
    pub(crate) fn set_nvs(&mut self, nvs: &[Option<Uuid>]) {
        self.nvs = nvs.iter().map(|device| device.unwrap_or_default()).collect();
        self.since.nvs = vec![NOT_JOINED; nvs.len()];
    }

    /// All devices have the present generation.
    pub(crate) fn start_complete(&mut self) {
        self.complete = (self.superblock.generation, self.superblock.identity());
    }

    /// Devices that the present generation is the first to use came into use with it.
    fn note_joined(&mut self) {
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

    /// Whether a change of the set of devices is not durable yet.
    pub(crate) fn changing(&self) -> bool {
        self.change.is_some() || self.waits
    }

    /// Writes a superblock of the next generation to all devices in use. Returns what they have
    /// when that is done, here and in [`Devices::superblock_written`].
    pub(crate) fn change(
        &mut self,
        situation: &Situation<'_>,
        ops: &mut Ops,
    ) -> Option<Superblock> {
        if let Some(change) = &mut self.change {
            // Two at once could reach a device in the wrong order.
            change.again = true;
            return None;
        }
        self.begin_change(situation);
        self.write_superblocks(situation, ops)
    }

    /// A change with all that is known now. It waits if a rebuilt member is not flushed yet: if
    /// another one fails now, the rebuilt one may be needed.
    fn begin_change(&mut self, situation: &Situation<'_>) {
        self.change = None;
        self.waits = situation.flushing;
        if self.waits {
            return;
        }
        self.superblock.generation += 1;
        (self.superblock.base, self.superblock.base_identity) = self.complete;
        self.note_joined();
        self.superblock.lost_pages = self.records.any_lost();
        self.changes += 1;
        let phase = if self.new_nvs.is_some() { Phase::NewNvs } else { Phase::Nvs };
        let superblock = self.superblock;
        self.change = Some(Change { phase, pending: 0, superblock, again: false });
    }

    /// Writes the present phase of the change, or the next that has something to write.
    fn write_superblocks(
        &mut self,
        situation: &Situation<'_>,
        ops: &mut Ops,
    ) -> Option<Superblock> {
        while let Some(Change { phase, superblock, .. }) = self.change {
            let devices = self.devices_of(phase, situation);
            let second = matches!(phase, Phase::SecondNvs | Phase::Second);
            let offset = SUPERBLOCKS[usize::from(second)];
            for device in &devices {
                let mut buffer = Buffer::zeroed(PAGE);
                let bytes = self.on_device(superblock, *device).encode();
                buffer[..bytes.len()].copy_from_slice(&bytes);
                let kind = OpKind::Write { offset, buffer: buffer.into(), durable: true };
                ops.push(*device, Purpose::Superblock { change: self.changes }, kind);
            }
            if !devices.is_empty() {
                self.change.as_mut()?.pending = devices.len() as u32;
                return None;
            }
            if let Some(done) = self.next_phase(situation) {
                return Some(done);
            }
        }
        None
    }

    fn devices_of(&self, phase: Phase, situation: &Situation<'_>) -> Vec<Device> {
        let rebuilt = |m: &u16| situation.rebuilding.contains(m);
        let in_sync = |m: &u16| !self.superblock.has_failed(*m) && !rebuilt(m);
        let members = (0..self.members()).filter(in_sync).map(Device::Member);
        let spares = (0..self.members()).filter(rebuilt).map(Device::Member);
        let nvs = situation.nvs.iter().map(|number| Device::Nvs(*number));
        match phase {
            Phase::NewNvs => nvs.filter(|d| self.new_nvs.map(Device::Nvs) == Some(*d)).collect(),
            Phase::Nvs | Phase::SecondNvs => nvs.collect(),
            Phase::Members => members.collect(),
            Phase::Spares => spares.collect(),
            Phase::Second => members.chain(spares).collect(),
        }
    }

    /// A phase is done; what the devices have if it was the last.
    fn next_phase(&mut self, situation: &Situation<'_>) -> Option<Superblock> {
        let change = self.change.as_mut()?;
        if change.again {
            // Nothing is built on this try, which not all devices have: the next one says what is
            // true now. If this one were completed, what failed would look as if it had been
            // restored.
            self.begin_change(situation);
            return None;
        }
        change.phase = match change.phase {
            Phase::NewNvs => Phase::Nvs,
            Phase::Nvs => Phase::Members,
            Phase::Members => Phase::Spares,
            Phase::Spares => Phase::SecondNvs,
            Phase::SecondNvs => Phase::Second,
            Phase::Second => {
                self.complete = (change.superblock.generation, change.superblock.identity());
                return self.change.take().map(|change| change.superblock);
            }
        };
        None
    }

    /// One device has the superblock of a change, or is no longer used.
    pub(crate) fn superblock_written(
        &mut self,
        change: u64,
        situation: &Situation<'_>,
        ops: &mut Ops,
    ) -> Option<Superblock> {
        if change != self.changes {
            return None;
        }
        let in_progress = self.change.as_mut()?;
        in_progress.pending -= 1;
        if in_progress.pending > 0 {
            return None;
        }
        let done = self.next_phase(situation);
        done.or_else(|| self.write_superblocks(situation, ops))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_superblock::superblock;
    use destage_engine::event::Owner;
    use destage_engine::units::DiskId;

    fn devices() -> Devices {
        Devices::new(superblock(), vec![[10; 16], [11; 16], [12; 16]], vec![[20; 16]])
    }

    /// The superblocks that are to be written, by device and copy, and the number of their change.
    fn written(ops: &mut Ops) -> Vec<(Device, usize, Superblock, u64)> {
        let mut out = Vec::new();
        ops.take(&mut out);
        let written = out.into_iter().map(|op| {
            let OpKind::Write { offset, buffer, durable: true } = &op.kind else {
                panic!("{op:?}")
            };
            let copy = SUPERBLOCKS.iter().position(|at| at == offset).expect("a superblock");
            let superblock = Superblock::decode(buffer).expect("a superblock");
            let Purpose::Superblock { change } = ops.finish(op.id).expect("in flight").purpose
            else {
                panic!("another purpose")
            };
            (op.device, copy, superblock, change)
        });
        written.collect()
    }

    /// Carries out a change to its end; the devices and copies that were written, and what they
    /// have.
    fn carried_out(
        devices: &mut Devices,
        situation: &Situation<'_>,
    ) -> (Vec<(Device, usize)>, Superblock) {
        let mut ops = Ops::default();
        let (mut places, mut done) = (Vec::new(), devices.change(situation, &mut ops));
        while done.is_none() {
            let now = written(&mut ops);
            assert!(!now.is_empty() && devices.changing(), "{places:?}");
            for (device, copy, superblock, change) in now {
                assert!(done.is_none() && devices.superblock_of(device) == superblock);
                places.push((device, copy));
                done = devices.superblock_written(change, situation, &mut ops);
            }
        }
        assert!(written(&mut ops).is_empty() && !devices.changing());
        (places, done.expect("looked at"))
    }

    /// NVS devices before members before spares, first copies before second ones. Each change is
    /// made on the one before.
    #[test]
    fn a_change_is_written_to_one_kind_of_devices_after_the_other() {
        let mut devices = devices();
        let [nvs, m0, m1, m2] =
            [Device::Nvs(0), Device::Member(0), Device::Member(1), Device::Member(2)];
        let situation = Situation { nvs: &[0], rebuilding: vec![], flushing: false };
        let built = superblock();
        let (places, first) = carried_out(&mut devices, &situation);
        let order = [nvs, m0, m1, m2];
        let twice = |order: &[Device]| -> Vec<(Device, usize)> {
            [0, 1].into_iter().flat_map(|copy| order.iter().map(move |d| (*d, copy))).collect()
        };
        assert_eq!(places, twice(&order));
        assert_eq!((first.generation, first.base, first.base_identity), (10, 9, built.identity()));
        // Member 1 has failed, and then is rebuilt.
        devices.mark(1, true);
        let (places, second) = carried_out(&mut devices, &situation);
        assert_eq!(places, twice(&[nvs, m0, m2]));
        assert_eq!((second.generation, second.base), (11, 10));
        assert_eq!(second.base_identity, first.identity());
        assert_eq!(devices.superblock_of(m1).joined, NOT_JOINED);
        let situation = Situation { rebuilding: vec![1], ..situation };
        devices.begin_rebuild(1, [99; 16]);
        assert_eq!(carried_out(&mut devices, &situation).0, twice(&[nvs, m0, m2, m1]));
        devices.rebuilt(1);
        let (places, last) = carried_out(&mut devices, &situation);
        assert_eq!(places, twice(&[nvs, m0, m2, m1]), "it is never ahead of the others");
        assert_eq!((last.generation, last.base), (13, 12));
        assert_eq!(devices.superblock_of(m1).joined, 13, "from now on it is in use");
        assert_eq!(devices.superblock_of(m0).joined, 0);
    }

    /// Something else changes while a change is being written: the next one says so, and is made on
    /// what all devices have.
    #[test]
    fn a_write_of_an_earlier_change_does_not_count_for_the_next() {
        let (mut devices, mut ops) = (devices(), Ops::default());
        let situation = Situation { nvs: &[0], rebuilding: vec![], flushing: false };
        assert_eq!(devices.change(&situation, &mut ops), None);
        let [(Device::Nvs(0), 0, tried, first)] = written(&mut ops)[..] else { panic!("one") };
        devices.mark(1, true);
        assert_eq!(devices.change(&situation, &mut ops), None);
        assert!(written(&mut ops).is_empty(), "one after the other");
        assert_eq!(devices.superblock_written(first, &situation, &mut ops), None);
        let [(Device::Nvs(0), 0, next, second)] = written(&mut ops)[..] else { panic!("one") };
        assert_eq!((tried.generation, tried.base, tried.has_failed(1)), (10, 9, false));
        assert_eq!((next.generation, next.base, next.has_failed(1)), (11, 9, true));
        assert_ne!(first, second);
        assert_eq!(devices.superblock_written(first, &situation, &mut ops), None);
        assert!(written(&mut ops).is_empty(), "it is of the earlier one");
        assert_eq!(devices.superblock_written(second, &situation, &mut ops), None);
        assert_eq!(written(&mut ops).len(), 2, "members 0 and 2");
    }

    #[test]
    fn a_change_waits_for_the_flush_of_a_rebuilt_member() {
        let (mut devices, mut ops) = (devices(), Ops::default());
        let mut situation = Situation { nvs: &[0], rebuilding: vec![], flushing: true };
        assert!(!devices.changing());
        assert_eq!(devices.change(&situation, &mut ops), None);
        assert!(devices.changing() && written(&mut ops).is_empty());
        assert_eq!(devices.superblock().generation, 9);
        situation.flushing = false;
        assert_eq!(devices.change(&situation, &mut ops), None);
        assert!(devices.changing() && written(&mut ops).len() == 1);
        assert_eq!(devices.superblock().generation, 10);
    }

    #[test]
    fn a_page_that_cannot_be_read_counts_again_when_it_was_written() {
        let mut devices = devices();
        assert_eq!([5, 6, 5, 6].map(|page| devices.note_bad_page(1, page, 2)), [false; 4]);
        let write = |first, pages| DiskCommand {
            disk: DiskId(1),
            first,
            pages,
            write: true,
            owner: Owner::Destage(0),
        };
        let other = DiskCommand { disk: DiskId(2), ..write(5, 2) };
        for elsewhere in [write(3, 2), write(7, 9), other] {
            devices.pages_written(&elsewhere);
            let counts = [5, 6].map(|page| devices.note_bad_page(1, page, 2));
            assert_eq!(counts, [false; 2], "{elsewhere:?}");
        }
        devices.pages_written(&write(4, 3));
        assert!(devices.note_bad_page(1, 6, 2), "the third");
        assert!(devices.note_bad_page(1, 6, 2), "it stays so");
        assert!(!devices.note_bad_page(0, 6, 2), "another member");
        assert!(!devices.note_bad_page(2, 6, 1) && devices.note_bad_page(2, 7, 1));
    }

    #[test]
    fn each_device_has_a_superblock_of_its_own() {
        let mut since = Since { members: vec![3, 4, NOT_JOINED], nvs: vec![5] };
        *since.of(Device::Member(1)) = 6;
        *since.of(Device::Nvs(0)) = 7;
        assert_eq!((&since.members[..], &since.nvs[..]), (&[3, 6, NOT_JOINED][..], &[7][..]));
        let devices = devices().joined(since);
        for (device, role, uuid, joined) in [
            (Device::Member(0), Role::Member(0), 10, 3),
            (Device::Member(1), Role::Member(1), 11, 6),
            (Device::Member(2), Role::Member(2), 12, NOT_JOINED),
            (Device::Nvs(0), Role::Nvs(0), 20, 7),
        ] {
            let expected = Superblock { role, device: [uuid; 16], joined, ..superblock() };
            assert_eq!(devices.superblock_of(device), expected);
        }
        assert_eq!((devices.members(), devices.member(1)), (3, [11; 16]));
    }

    #[test]
    fn a_stopped_array_knows_the_member_that_stopped_it() {
        let mut devices = devices();
        for (by, stopped) in [(None, false), (None, true), (Some(2), true)] {
            if stopped {
                devices.stop(by);
            }
            assert_eq!((devices.stopped(), devices.stopped_by()), (stopped, by));
        }
    }

    /// It is made on the generation that was found only if that one may have been built on. The
    /// next change is made on it.
    #[test]
    fn a_start_has_a_number_that_no_device_has() {
        let situation = Situation { nvs: &[0], rebuilding: vec![], flushing: false };
        for (built, base) in [(None, (8, 3)), (Some(77), (9, 77))] {
            let since = Since { members: vec![3, NOT_JOINED, 4], nvs: vec![NOT_JOINED] };
            let mut devices = devices().joined(since);
            devices.mark(2, true);
            devices.start_generation(14, built);
            let said = *devices.superblock();
            assert_eq!((said.generation, (said.base, said.base_identity)), (15, base));
            let all = [Device::Member(0), Device::Member(1), Device::Member(2), Device::Nvs(0)];
            let joined = all.map(|device| devices.superblock_of(device).joined);
            assert_eq!(joined, [3, 15, NOT_JOINED, 15]);
            devices.start_complete();
            let (_, next) = carried_out(&mut devices, &situation);
            assert_eq!((next.generation, next.base), (16, 15));
            assert_eq!(next.base_identity, said.identity());
        }
    }

    /// A start reads the records then. The superblocks that it found may say so alone, and a change
    /// says what is true.
    #[test]
    fn superblocks_say_whether_pages_are_lost() {
        let situation = Situation { nvs: &[0], rebuilding: vec![], flushing: false };
        let (mut devices, mut ops) = (devices(), Ops::default());
        let started = |devices: &mut Devices| {
            devices.start_generation(9, None);
            devices.superblock().lost_pages
        };
        assert!(!started(&mut devices));
        devices.records.note(1, 5, true);
        assert!(started(&mut devices));
        devices.records.note(1, 5, false);
        assert!(started(&mut devices), "as it was found");
        assert!(!carried_out(&mut devices, &situation).1.lost_pages);
        devices.records.note(2, 7, true);
        assert!(carried_out(&mut devices, &situation).1.lost_pages);
        devices.mark(0, true);
        devices.write_records(&mut ops, Defect::None);
        let mut out = Vec::new();
        ops.take(&mut out);
        let members: Vec<Device> = out.iter().map(|op| op.device).collect();
        assert_eq!(members, [Device::Member(1), Device::Member(2)], "those in use");
    }

    /// What was known of a member's device is not true of the next one.
    #[test]
    fn superblocks_name_a_rebuild_until_it_ends() {
        type End = fn(&mut Devices, u16);
        let ends: [(End, bool, usize); 3] = [
            (Devices::end_rebuild, true, 0),
            (Devices::forget_spare, true, 1),
            (Devices::rebuilt, false, 1),
        ];
        let mut devices = devices();
        let named = |devices: &Devices| {
            let said = devices.superblock();
            (said.rebuilt_onto(1), said.has_failed(1), devices.member(1))
        };
        for (number, (end, failed, lost)) in (97..).zip(ends) {
            for member in [0, 1] {
                for page in 5..8 {
                    devices.note_bad_page(member, page, 2);
                }
                devices.records.note(member, 5, true);
            }
            devices.mark(1, true);
            devices.begin_rebuild(1, [number; 16]);
            assert_eq!(named(&devices), (Some([number; 16]), true, [number; 16]));
            let many = [0, 1].map(|member| devices.note_bad_page(member, 9, 2));
            assert_eq!((many, devices.records.lost()), ([true, false], vec![(0, 5)]));
            devices.records.note(1, 6, true);
            end(&mut devices, 1);
            assert_eq!(named(&devices), (None, failed, [number; 16]));
            assert_eq!(devices.records.lost_of(1), lost, "{number}");
        }
    }

    /// The device that is new has a superblock before any other device names it.
    #[test]
    fn an_nvs_device_comes_into_use_when_all_devices_name_it() {
        let members = [Device::Member(0), Device::Member(1), Device::Member(2)];
        let uuids = vec![[10; 16], [11; 16], [12; 16]];
        let mut devices = Devices::new(superblock(), uuids, vec![[20; 16], [0; 16]]);
        let joined = |devices: &Devices| {
            [Device::Nvs(0), Device::Nvs(1)].map(|device| devices.superblock_of(device).joined)
        };
        let on = |nvs: &[u16], copy: usize| -> Vec<(Device, usize)> {
            let nvs = nvs.iter().map(|number| Device::Nvs(*number));
            nvs.chain(members).map(|device| (device, copy)).collect()
        };
        assert_eq!((devices.new_nvs(), devices.take_new_nvs()), (None, None));
        devices.add_nvs(1, [21; 16]);
        devices.name_nvs(&[0, 1]);
        assert_eq!(devices.superblock().nvs, [Some([20; 16]), Some([21; 16])]);
        assert_eq!((devices.new_nvs(), joined(&devices)), (Some(1), [0, NOT_JOINED]));
        let situation = Situation { nvs: &[0, 1], rebuilding: vec![], flushing: false };
        let (places, _) = carried_out(&mut devices, &situation);
        let first = vec![(Device::Nvs(1), 0)];
        assert_eq!(places, [first, on(&[0, 1], 0), on(&[0, 1], 1)].concat());
        assert_eq!((devices.take_new_nvs(), devices.new_nvs()), (Some(1), None));
        assert_eq!(joined(&devices), [0, 10]);
        // The other one fails, and a third takes its place.
        devices.nvs_failed(0);
        devices.name_nvs(&[1]);
        assert_eq!(devices.superblock().nvs, [None, Some([21; 16])]);
        assert_eq!(joined(&devices), [NOT_JOINED, 10]);
        let one = Situation { nvs: &[1], rebuilding: vec![], flushing: false };
        let (places, _) = carried_out(&mut devices, &one);
        assert_eq!(places, [on(&[1], 0), on(&[1], 1)].concat());
        devices.add_nvs(0, [22; 16]);
        devices.name_nvs(&[1, 0]);
        assert_eq!(devices.superblock().nvs, [Some([22; 16]), Some([21; 16])]);
        let (places, _) = carried_out(&mut devices, &situation);
        assert_eq!(places[..3], [(Device::Nvs(0), 0), (Device::Nvs(0), 0), (Device::Nvs(1), 0)]);
        assert_eq!((devices.take_new_nvs(), joined(&devices)), (Some(0), [12, 10]));
    }
}
