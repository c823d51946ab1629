//! Mishaps of devices while the array is down: they are absent and come back later, can be read
//! and not written, are restored from an older copy, are cut short, cannot read some sectors, or
//! have a bit rotten in a superblock. A start must either get along without the device or refuse;
//! after a refusal the mishap is undone, and the array must start.

use super::device::{Device as Disk, RECENT};
use super::mishap_state::{Mishaps, Snapshot};
use super::run::{End, Run};
use super::starve::{RECORDS, SUPERBLOCKS};
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::member::MemberRecord;
use destage_nvslog::superblock::{DATA_START, Superblock};
use destage_served::{Device, IoError, Volume, member_bytes};

/// Sectors of the two anchors.
pub(super) const ANCHORS: [u64; 2] = [8, 16];

impl Run {
    /// Sometimes a mishap while the power is off.
    pub(super) fn maybe_mishap(&mut self) {
        if !self.case.mishaps {
            return;
        }
        self.come_back();
        if !self.mishaps.undo.is_empty() || self.mishaps.must_start || self.mishaps.rotten_log {
            // One fault of the log at a time. And no start has seen the others yet: with more they
            // might leave nobody who knows of them.
            return;
        }
        self.maybe_damage_a_record();
        if self.maybe_lose_record()
            || self.maybe_lose_anchor()
            || self.maybe_away()
            || self.maybe_damage_log()
        {
            return;
        }
        // Earlier mishaps must be over: they cannot be undone in a copy.
        let over = self.mishaps.undo.is_empty()
            && self.mishaps.rotten.is_empty()
            && !self.mishaps.rotten_log
            && !self.mishaps.lost_record
            && !self.world.nvs.iter().any(Disk::has_bad);
        if over && self.draws.mishaps.below(4) == 0 {
            self.take_snapshot();
        }
        if over && !self.mishaps.pending() && self.draws.unwritable.below(8) == 0 {
            self.make_unwritable();
            return;
        }
        if self.draws.mishaps.below(2) == 0 {
            return;
        }
        match self.draws.mishaps.below(16) {
            0..=2 => self.nvs_away(),
            3..=8 => self.nvs_unreadable(),
            9 | 10 => self.cut_short(),
            11 | 12 => self.restore_one(),
            13 => self.restore_all(),
            _ => self.rot_superblock(),
        }
    }

    /// A start was completed: the mishaps are part of the array now.
    pub(super) fn mishaps_over(&mut self) -> Result<(), String> {
        if let Some(snapshot) = &mut self.mishaps.snapshot {
            snapshot.starts += 1;
        }
        self.mishaps.undo.clear();
        if core::mem::take(&mut self.mishaps.lost_record) {
            self.world.members.iter_mut().for_each(Disk::heal);
        }
        self.relogging = false;
        self.cut_acceptance = false;
        (self.change_cut, self.change_doubted) = (false, false);
        (self.mishaps.changed, self.mishaps.must_start) = (false, false);
        (self.mishaps.rotten_log, self.mishaps.unreadable_log) = (false, false);
        for (device, ..) in core::mem::take(&mut self.mishaps.rotten) {
            self.superblocks_repaired(device)?;
        }
        if self.case.nvs < 2 {
            self.ring_is_readable()?;
            self.world.nvs.iter_mut().for_each(Disk::heal);
        }
        Ok(())
    }

    /// No start leaves a part of the log that cannot be read: the log could end before it, and a
    /// later start could not know whether it does.
    fn ring_is_readable(&self) -> Result<(), String> {
        let Some(volume) = self.volume.as_ref().filter(|_| !self.nvs_lost()) else { return Ok(()) };
        let Superblock { block_bytes, ring_blocks, .. } = volume.superblock();
        let first = DATA_START / 512;
        let ring = first..first + u64::from(block_bytes) * ring_blocks / 512;
        // Of several devices, one may have been left out.
        let [nvs] = &self.world.nvs[..] else { return Ok(()) };
        match nvs.first_bad(ring) {
            None => Ok(()),
            Some(sector) => {
                let block = (sector - first) * 512 / u64::from(block_bytes);
                Err(format!("a start left block {block} of the log as it was: unreadable"))
            }
        }
    }

    /// Undoes the mishaps after a start was refused; whether there were any.
    pub(super) fn undo_mishaps(&mut self) -> bool {
        if self.mishaps.must_start {
            return false;
        }
        let undo = core::mem::take(&mut self.mishaps.undo);
        let mut undone = !undo.is_empty();
        for (device, mut disk) in undo.into_iter().rev() {
            if matches!(device, Device::Member(_)) && !self.bad_media {
                // It can read since what it could not when the copy was made.
                disk.heal();
            }
            *self.world.device(device) = disk;
        }
        // Bits that rotted before that are rotten in the copies, too.
        for (device, sector, bit, bytes) in core::mem::take(&mut self.mishaps.rotten) {
            let disk = self.world.device(device);
            let mut now = [0; 512];
            if disk.read(sector * 512, &mut now).is_ok() && now == bytes {
                undone |= disk.rot(sector, bit);
            }
        }
        // Those too that were away when something else befell them.
        let away = self.come_back();
        let healed = self.world.nvs.iter().any(Disk::has_bad);
        self.world.nvs.iter_mut().for_each(Disk::heal);
        let any = away || healed || undone;
        self.counts.refused += u64::from(any);
        any
    }

    fn come_back(&mut self) -> bool {
        let away = core::mem::take(&mut self.mishaps.away);
        for device in &away {
            let disk = self.world.device(*device);
            (disk.gone, disk.unwritable) = (false, false);
        }
        !away.is_empty()
    }

    /// A device can be read and not written until the start after the next, or the first write to a
    /// log fails.
    fn make_unwritable(&mut self) {
        let members = u64::from(self.case.geometry.disks);
        let which = self.draws.unwritable.below(members + self.world.nvs.len() as u64);
        let device = match which.checked_sub(members) {
            Some(copy) => Device::Nvs(copy as u16),
            None if self.may_be_away(which as u16) => Device::Member(which as u16),
            None => return,
        };
        if !self.world.device(device).gone {
            match device {
                Device::Nvs(_) if self.draws.unwritable.below(2) == 0 => {
                    self.world.device(device).write_fails = true;
                }
                _ if self.draws.records.below(2) == 0 => {
                    let disk = self.world.device(device);
                    disk.flush_fails = Some(IoError::MEDIUM);
                    disk.flushes_before = self.draws.records.below(8);
                }
                _ => self.world.device(device).unwritable = true,
            }
            self.mishaps.away.push(device);
            self.counts.mishaps += 1;
        }
    }

    /// While nothing is lost, sometimes both copies of a member's record are damaged. Nobody looks
    /// there until a page is lost, of any member; from then on each member must have a record.
    fn maybe_damage_a_record(&mut self) {
        let may = self.case.pressed && self.with_records.is_empty() && self.none_said_lost();
        if !may || self.draws.records.below(4) > 0 {
            return;
        }
        let member = self.draws.records.below(self.world.members.len() as u64) as usize;
        let disk = &mut self.world.members[member];
        if RECORDS.iter().all(|at| MemberRecord::begins(disk.kept(at / 512))) {
            for at in RECORDS {
                disk.rot(at / 512, 100);
            }
            self.counts.mishaps += 1;
        }
    }

    /// Whether all superblocks say that no page of any member is lost.
    fn none_said_lost(&self) -> bool {
        let disks = self.world.members.iter().filter(|disk| !disk.gone).chain(&self.world.nvs);
        let mut copies = disks.flat_map(|disk| SUPERBLOCKS.map(|at| disk.kept(at / 512)));
        copies.all(|copy| Superblock::decode(copy).is_ok_and(|said| !said.lost_pages))
    }

    /// Where pages are lost, or a member is rebuilt in part, sometimes neither copy of a member's
    /// record of that can be read at the next start, and both can at the one after. No start may
    /// take lost pages for zeros, or what a rebuild has not reached for what was written. Whether
    /// it is so.
    fn maybe_lose_record(&mut self) -> bool {
        let members = self.with_records.len() as u64;
        let which = self.draws.records.below(members.max(1)) as usize;
        let Some(member) = self.with_records.get(which).copied() else { return false };
        let right = !self.nvs_lost && self.rows_are_right() && !self.mishaps.any();
        if self.draws.records.below(2) > 0 || !right || self.world.members[usize::from(member)].gone
        {
            return false;
        }
        self.lose_record(member);
        true
    }

    /// Neither copy of a member's record can be read, until a start is refused for that.
    pub(super) fn lose_record(&mut self, member: u16) {
        self.keep_for_undo(Device::Member(member));
        let sectors = RECORDS[0] / 512..(RECORDS[1] + PAGE_BYTES) / 512;
        sectors.for_each(|sector| self.world.members[usize::from(member)].spoil(sector));
        self.mishaps.lost_record = true;
        self.counts.mishaps += 1;
    }

    /// Where a crash left two different anchors, one of them often cannot be read, at once or after
    /// the life that follows. The other is enough: no start may be refused for that. Whether it is
    /// so.
    fn maybe_lose_anchor(&mut self) -> bool {
        let differ = |disk: &Disk| disk.kept(ANCHORS[0]) != disk.kept(ANCHORS[1]);
        let cut = self.world.nvs.iter().any(differ);
        let was_cut = core::mem::replace(&mut self.anchors_cut, cut);
        // Where that is tried on copies, the older one mostly stays.
        let rare = if self.case.pressed { 3 } else { 2 };
        let drawn = was_cut || cut && self.draws.soon.below(rare) == 0;
        // The other one may be torn, in memory.
        let left = !self.world.nvs_is_memory && !self.world.nvs.iter().any(Disk::has_bad);
        if !drawn || self.mishaps.any() || !left {
            return false;
        }
        let mut which = ANCHORS[self.draws.soon.below(2) as usize];
        if let Some(newest) = self.newest_of_two_anchors().filter(|_| self.case.pressed)
            && self.draws.soon.below(4) > 0
        {
            // The older one must do: nothing behind its tail may have been written again.
            which = newest;
        }
        self.world.nvs.iter_mut().for_each(|disk| disk.spoil(which));
        self.mishaps.must_start = true;
        self.counts.mishaps += 1;
        true
    }

    /// Sometimes members are away, any of them, or the NVS devices that were left when a change of
    /// the set of devices was interrupted. Whether any are.
    fn maybe_away(&mut self) -> bool {
        let cut = self.cut_change.take();
        let new = self.newly_mirrored.take().filter(|_| self.is_mirrored());
        if self.mishaps.any() || self.nvs_lost() || !self.rows_are_right() || self.change_doubted {
            return false;
        }
        let mut away = match cut {
            Some(nvs) if self.draws.soon.below(2) == 0 => {
                nvs.into_iter().map(Device::Nvs).collect()
            }
            _ => Vec::new(),
        };
        let intact = self.is_mirrored() && !self.world.nvs.iter().any(Disk::has_bad);
        let start = core::mem::take(&mut self.cut_start) && intact;
        if start && away.is_empty() && self.draws.soon.below(2) == 0 {
            away.push(Device::Nvs(self.draws.soon.below(2) as u16));
        }
        if let (Some(new), true) = (new, away.is_empty() && self.draws.soon.below(2) == 0) {
            // The new one has everything.
            away.push(Device::Nvs(1 - new));
        }
        let members = u64::from(self.case.geometry.disks);
        if self.draws.soon.below(8) == 0 {
            for _ in 0..1 + self.draws.soon.below(2) {
                away.push(Device::Member(self.draws.soon.below(members) as u16));
            }
        }
        if !self.has_witness_without(&away) {
            // Old disks that are back would be all that there is, and look like the array.
            return false;
        }
        away.retain(|device| !self.world.device(*device).gone);
        for device in &away {
            self.world.device(*device).gone = true;
            self.counts.mishaps += 1;
        }
        self.mishaps.away.extend(&away);
        let one_of_two = |away: &[Device]| matches!(away, [Device::Nvs(_)]);
        self.mishaps.must_start = self.is_alone_enough() && one_of_two(&away);
        !away.is_empty()
    }

    /// Whether each NVS device suffices without the other. Of memory a crash in the very mark tears
    /// a superblock copy, and the device may look stale.
    fn is_alone_enough(&self) -> bool {
        self.is_mirrored() && !self.world.nvs_is_memory
    }

    /// One NVS device or both are away.
    fn nvs_away(&mut self) {
        let which = self.draws.mishaps.below(4);
        let clean = !self.mishaps.any() && !self.world.nvs.iter().any(Disk::has_bad);
        for copy in 0..self.world.nvs.len() as u64 {
            if which == copy || which == 3 && self.draws.mishaps.below(2) == 0 {
                let device = Device::Nvs(copy as u16);
                self.world.device(device).gone = true;
                self.mishaps.away.push(device);
                self.counts.mishaps += 1;
            }
        }
        let alone = clean && self.is_alone_enough();
        self.mishaps.must_start = alone && self.mishaps.away.len() == 1;
    }

    /// Sectors of an NVS device cannot be read.
    fn nvs_unreadable(&mut self) {
        let Some(copy) = self.any_nvs() else { return };
        if copy > 0 && self.world.nvs[0].has_bad() {
            return;
        }
        let written = self.world.nvs[copy].written();
        let newest = |age: u64| self.world.nvs[copy].last_durable(age as usize);
        let first: Vec<u64> = match self.draws.mishaps.below(8) {
            0 => vec![[self.draws.mishaps.below(32), 8, 16][self.draws.mishaps.below(3) as usize]],
            // Of the newest commit, perhaps: no later one says that it was durable.
            1..=3 => vec![newest(self.draws.mishaps.below(RECENT as u64))],
            // All that was written last: an erase block of flash.
            4 | 5 => (0..RECENT as u64).map(newest).collect(),
            _ if written.is_empty() => return,
            _ => vec![written[self.draws.mishaps.below(written.len() as u64) as usize]],
        };
        let sectors = 1 + self.draws.mishaps.below(3);
        self.change_doubted |= self.change_cut && first.iter().any(|sector| *sector < 32);
        for sector in first.into_iter().flat_map(|first| first..first + sectors) {
            self.world.nvs[copy].spoil(sector);
        }
        // Without what is made frequent, no anchor is lost that often.
        self.mishaps.unreadable_log = self.case.pressed;
        self.counts.mishaps += 1;
    }

    fn any_nvs(&mut self) -> Option<usize> {
        let devices = self.world.nvs.len() as u64;
        (devices > 0).then(|| self.draws.mishaps.below(devices) as usize)
    }

    /// Sectors of an NVS device behind its first MiB.
    fn nvs_sectors(&self) -> u64 {
        (self.case.nvs_bytes() - (1 << 20)) / 512
    }

    /// A device is shorter than it was.
    fn cut_short(&mut self) {
        let Some(device) = self.any_device().filter(|device| self.has_witness(*device)) else {
            return;
        };
        let start = 1 << 20;
        let end = match device {
            Device::Member(_) => member_bytes(&self.case.geometry),
            Device::Nvs(_) => start + self.nvs_sectors() * 512,
        };
        let len = start + self.draws.mishaps.below((end - start) / 512) * 512;
        self.keep_for_undo(device);
        self.world.device(device).truncate(len);
        self.counts.mishaps += 1;
    }

    /// Any device whose loss the checks tolerate.
    fn any_device(&mut self) -> Option<Device> {
        let members = u64::from(self.case.geometry.disks);
        let all = members + self.world.nvs.len() as u64;
        let which = self.draws.mishaps.below(all);
        if which >= members {
            return Some(Device::Nvs((which - members) as u16));
        }
        // One that is gone and comes back as another would be gone again after the undo.
        let gone = self.world.members[which as usize].gone;
        let tolerates = !gone && self.holes.is_empty();
        tolerates.then_some(Device::Member(which as u16))
    }

    fn keep_for_undo(&mut self, device: Device) {
        let disk = self.world.device(device).clone();
        self.mishaps.undo.push((device, disk));
        self.mishaps.changed = true;
    }

    fn take_snapshot(&mut self) {
        self.mishaps.snapshot = Some(Box::new(self.snapshot()));
    }

    /// Everything as it is, with the power off; but all sectors of members can be read.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut members = self.world.members.clone();
        members.iter_mut().for_each(Disk::heal);
        Snapshot {
            members,
            nvs: self.world.nvs.clone(),
            model: self.model.clone(),
            failed: self.failed.clone(),
            holes: self.holes.clone(),
            reported_lost: self.reported_lost.clone(),
            rows_lost: self.rows_lost,
            retired: self.retired.clone(),
            nvs_lost: self.nvs_lost(),
            mirrored: self.is_mirrored(),
            cut_acceptance: self.cut_acceptance,
            left_whole: self.left_whole,
            relogging: self.relogging,
            stopped_cleanly: self.stopped_cleanly,
            change_doubted: self.change_doubted,
            wronged: self.wronged.clone(),
            unreadable_log: self.mishaps.unreadable_log,
            nvs_pages: self.case.nvs_pages,
            room: self.world.room,
            starts: 0,
        }
    }

    /// One device is as it was some starts ago.
    fn restore_one(&mut self) {
        let Some(device) = self.any_device() else { return };
        let Some(snapshot) = &self.mishaps.snapshot else { return };
        let old = match device {
            Device::Member(number) => snapshot.members.get(usize::from(number)),
            Device::Nvs(number) => snapshot.nvs.get(usize::from(number)),
        };
        let Some(old) = old.filter(|disk| snapshot.starts > 0 && !disk.gone).cloned() else {
            return;
        };
        // A disk that is new in its place is not the one that was copied.
        let uuid = |disk: &Disk| Superblock::decode(disk.kept(0)).ok().map(|said| said.device);
        if !self.has_witness(device) || uuid(&old) != uuid(self.world.device(device)) {
            return;
        }
        self.keep_for_undo(device);
        *self.world.device(device) = old;
        self.counts.mishaps += 1;
    }

    /// Whether a device besides this one is there and in use. Without any, nothing says that this
    /// one is older than the array.
    fn has_witness(&self, device: Device) -> bool {
        self.has_witness_without(&[device])
    }

    /// Whether a device besides these is there and in use.
    fn has_witness_without(&self, devices: &[Device]) -> bool {
        let there = |disk: &Disk| !disk.gone && !disk.unwritable;
        let members = (0u16..).zip(&self.world.members).any(|(number, disk)| {
            let used = !self.failed.contains(destage_engine::units::DiskId(number));
            !devices.contains(&Device::Member(number)) && used && there(disk)
        });
        // Which one of two is in use is known only with the power on, and one with a new log that
        // is not named yet knows nothing.
        let in_use = !self.relogging
            && !self.nvs_lost()
            && (self.is_mirrored() || self.world.nvs.len() == 1);
        let nvs = (0u16..)
            .zip(&self.world.nvs)
            .any(|(number, disk)| !devices.contains(&Device::Nvs(number)) && in_use && there(disk));
        members || nvs
    }

    /// All devices are as they were: the array is as it was then.
    pub(super) fn restore_all(&mut self) {
        let Some(snapshot) = self.mishaps.snapshot.take() else { return };
        let Snapshot {
            members,
            nvs,
            model,
            failed,
            holes,
            reported_lost,
            rows_lost,
            retired,
            nvs_lost,
            mirrored,
            cut_acceptance,
            left_whole,
            relogging,
            stopped_cleanly,
            change_doubted,
            wronged,
            unreadable_log,
            nvs_pages,
            room,
            ..
        } = *snapshot;
        (self.case.nvs_pages, self.world.room) = (nvs_pages, room);
        (self.world.members, self.world.nvs) = (members, nvs);
        (self.model, self.failed, self.holes) = (model, failed, holes);
        (self.reported_lost, self.rows_lost, self.retired) = (reported_lost, rows_lost, retired);
        self.set_nvs_state(nvs_lost, mirrored);
        self.cut_acceptance = cut_acceptance;
        (self.left_whole, self.relogging) = (left_whole, relogging);
        (self.stopped_cleanly, self.wronged) = (stopped_cleanly, wronged);
        self.change_doubted = change_doubted;
        // Perhaps: what was done then may have been a change.
        self.change_cut = true;
        self.mishaps = Mishaps { unreadable_log, ..Mishaps::default() };
        self.cut_writes.clear();
        self.right_strips.clear();
        self.counts.mishaps += 1;
    }

    /// A bit flips in one copy of a superblock.
    fn rot_superblock(&mut self) {
        let Some(device) = self.any_device() else { return };
        let sector = [0, 24][self.draws.mishaps.below(2) as usize];
        let bit = self.draws.mishaps.below(4096);
        if self.mishaps.rotten.is_empty() && self.world.device(device).rot(sector, bit) {
            self.change_doubted |= self.change_cut && matches!(device, Device::Nvs(_));
            // With a crash in a mark it may look like a device that was restored, and is refused.
            let mut bytes = [0; 512];
            if self.world.device(device).read(sector * 512, &mut bytes).is_ok() {
                self.mishaps.rotten.push((device, sector, bit, bytes));
            }
            self.counts.mishaps += 1;
        }
    }

    /// After a start, no device in use has a damaged copy of its superblock.
    fn superblocks_repaired(&mut self, device: Device) -> Result<(), String> {
        let used = match device {
            Device::Nvs(copy) => self.nvs_in_use().contains(&copy),
            Device::Member(member) => !self.failed.contains(destage_engine::units::DiskId(member)),
        };
        let changing = self.volume().is_changing();
        let disk = self.world.device(device);
        if !used || disk.gone || disk.hangs || changing {
            return Ok(());
        }
        let mut copies = [[0; 512]; 2];
        for (copy, at) in copies.iter_mut().zip([0, 12_288]) {
            disk.read(at, copy).map_err(|error| format!("{device}: superblock: {error}"))?;
        }
        if copies[0] != copies[1] {
            return Err(format!("{device}: a damaged superblock copy was not repaired"));
        }
        Ok(())
    }

    /// A device has no space for a while.
    pub(super) fn maybe_fill_up(&mut self) {
        if !self.case.mishaps {
            return;
        }
        let devices = || self.world.members.iter().chain(&self.world.nvs);
        let (full, all) = (devices().any(|disk| disk.full), devices().count());
        if full && self.draws.mishaps.below(20) == 0 {
            self.make_space();
        } else if !full && self.draws.mishaps.below(300) == 0 {
            let which = self.draws.mishaps.below(all as u64) as usize;
            let (members, nvs) = (&mut self.world.members, &mut self.world.nvs);
            members.iter_mut().chain(nvs).nth(which).expect("one of them").full = true;
            self.counts.mishaps += 1;
        }
    }

    /// A clean stop: operations in flight end, the log is confirmed, and all devices
    /// are marked. It must come to an end, whatever the devices do.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn stop_cleanly(&mut self) -> Result<End, String> {
        self.make_space();
        let now = self.now();
        let volume = self.volume_mut();
        volume.pause(true);
        volume.stop_scrub(now);
        volume.end_mirror(now);
        self.collect()?;
        // Writes that wait for space are never answered: nothing is destaged any more.
        let idle = |run: &Run| run.volume().quiet();
        for step in [Volume::confirm, Volume::mark_stop] {
            if self.drive_until(&idle)? == End::Crash {
                return Ok(End::Crash);
            }
            let now = self.now();
            step(self.volume_mut(), now);
            self.collect()?;
        }
        let end = self.drive_until(&idle)?;
        self.stopped_cleanly = end == End::Done;
        if self.stopped_cleanly && !self.nvs_lost() {
            // Whatever was answered is in the log.
            let now = self.model.ask();
            self.model.flushed(now, true);
        }
        self.counts.stops += u64::from(self.stopped_cleanly);
        Ok(end)
    }

    /// Whether a device has no space: requests may wait until it has.
    pub(super) fn any_full(&self) -> bool {
        self.world.members.iter().chain(&self.world.nvs).any(|disk| disk.full)
    }

    /// There is space on all devices again.
    pub(super) fn make_space(&mut self) {
        self.world.members.iter_mut().chain(&mut self.world.nvs).for_each(|disk| disk.full = false);
    }

    /// Another member cannot read some sectors while one has failed already: what is in these rows
    /// may be lost until it can read them again.
    pub(super) fn maybe_spoil_degraded(&mut self) {
        if !self.case.mishaps || self.draws.mishaps.below(60) > 0 {
            return;
        }
        if self.bad_media && self.draws.mishaps.below(4) == 0 {
            // The errors pass.
            self.world.members.iter_mut().for_each(Disk::heal);
            return;
        }
        let geometry = self.case.geometry;
        let redundant = geometry.level.is_redundant();
        if !redundant || self.failed.is_empty() || !self.holes.is_empty() {
            return;
        }
        if self.world.members.iter().filter(|disk| disk.has_bad()).count() > 1 {
            return;
        }
        self.bad_media = true;
        let mut member = self.draws.mishaps.below(u64::from(geometry.disks)) as usize;
        if let (true, Some(failed)) = (geometry.level.is_mirrored(), self.failed.iter().next()) {
            member = usize::from(failed.0 ^ 1);
        }
        // Mostly in a row that is about to be destaged.
        let dirty = self.dirty_pages();
        let page = match dirty.len() as u64 {
            0 => self.draws.mishaps.below(geometry.disk_pages),
            pages => {
                let page = dirty[self.draws.mishaps.below(pages) as usize];
                geometry.place(destage_engine::units::Page(page)).page
            }
        };
        let first = (1 << 20) / 512 + page * 8 + self.draws.mishaps.below(8);
        for sector in first..first + 1 + self.draws.mishaps.below(8) {
            self.world.members[member].spoil(sector);
        }
        self.many_bad = true;
        self.counts.mishaps += 1;
    }

    /// The member and the page of it where a page of the volume is.
    pub fn place_of(&self, page: u64) -> (u16, u64) {
        let place = self.case.geometry.place(destage_engine::units::Page(page));
        (place.disk.0, place.page)
    }

    /// The member where a page of the volume is.
    pub fn disk_of(&self, page: u64) -> u16 {
        self.place_of(page).0
    }

    /// Bytes of the ring in use.
    pub fn log_bytes_used(&self) -> u64 {
        self.volume().status().log_bytes_used
    }

    /// Any sector of the first bytes of the ring, and any bit of it.
    pub fn place_in_log(&mut self, bytes: u64) -> (u64, u64) {
        ((1 << 20) / 512 + self.draws.run.below(bytes / 512), self.draws.run.below(4096))
    }
}
