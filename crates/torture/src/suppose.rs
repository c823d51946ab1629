//! After a crash, on a copy of the array: suppose that one thing more had failed which the array
//! promises to survive. It must start, and have everything. The run itself continues as if nothing
//! had been tried.

use super::deceits::last_confirmed;
use super::device::{Device as Disk, SECTOR};
use super::mishaps::ANCHORS;
use super::run::{End, Run};
use super::starve::{ANCHOR_BYTES, Kind as Slow, RING_BLOCKS, SUPERBLOCKS, Starved};
use crate::Survivors;
use destage_engine::array::disks::DiskSet;
use destage_engine::units::DiskId;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::Claim;
use destage_nvslog::superblock::{DATA_START, Superblock};
use destage_served::Device;
use std::collections::BTreeSet;

/// Power failures, each in the start of a copy: at any time, and as it marks the devices, for each
/// of them.
const POWER_FAILURES: u64 = 4;
const FAILURES_OF_MARKS: u64 = 4;

/// Starts that the power ends as they write their opening commits, at most.
const TORN_OPENINGS: u64 = 3;

/// Sectors that an NVS device cannot read.
const UNREADABLE: u64 = 8;

/// Sets of members that are away, where two may be.
const SETS_OF_TWO: u32 = 3;

/// Operations and requests of one more life, at most.
const SOON: u64 = 400;
const LATER: u64 = 6000;
const REQUESTS: u64 = 10_000;

/// What fails on the copy.
#[derive(Clone, Debug)]
enum Fault {
    /// No NVS device can read this anchor.
    Anchor(u64),
    /// This anchor of all NVS devices rots, and the power fails as the next start writes one; or
    /// none rots, and it fails as two starts do.
    TornAnchors(Option<u64>),
    /// The power fails as some starts, one after the other, write the commits that open their
    /// epochs: memory tears them, and what they are written over.
    TornOpenings,
    /// This copy of the anchor has nothing of what was written since the last start.
    Stale(u64),
    /// This NVS device of two is missing.
    Missing(u16),
    /// This NVS device of two cannot read some of what is written on it. After the next start the
    /// other one is missing.
    Unreadable(u16),
    /// This NVS device of two, which has deceived, is alone after a start that had both.
    Alone(u16),
    /// The only NVS device has not written the newest commit that a later one says is durable.
    LostCommit,
    /// The power fails as a start has written ring or slots, which need not be durable. This NVS
    /// device of two is missing at the next.
    Interrupted(u16),
    /// The power fails as a start has written ring or slots without one of two NVS devices, this
    /// one first, and then as the next start has without the other. Then both are back.
    ByTurns(u16),
    /// A bit of this copy of this device's superblock rots.
    Superblock(Device, u64),
    /// These members are away, as many as the level tolerates.
    Away(DiskSet),
    /// Neither copy of this member's record can be read, which has lost pages, or says how far it
    /// is rebuilt.
    Record(u16),
    /// The power, in the start, before the operation of this number.
    Power(u64),
    /// The power, when the log has come round without a new first copy of the anchor; and then
    /// more again.
    Later,
}

impl Run {
    /// Sometimes tries what more the array survives: always where few crashes leave that much to
    /// lose.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn maybe_suppose(&mut self) -> Result<(), String> {
        let clean = !self.mishaps.any() && !self.nvs_lost() && !self.change_doubted;
        let intact = |disk: &Disk| !disk.has_bad() && !disk.gone && !disk.unwritable;
        if !self.case.pressed || !clean || !self.world.nvs.iter().all(intact) {
            return Ok(());
        }
        let often = self.draws.supposed.below(4) == 0;
        self.suppose_of_anchors(often)?;
        self.suppose_of_nvs(often)?;
        if let Some(halves) = self.halves() {
            self.suppose_apart(&halves)?;
        }
        self.suppose_of_superblocks(often)?;
        for member in self.with_records.clone() {
            if self.rows_are_right() && !self.world.members[usize::from(member)].gone {
                self.suppose(Fault::Record(member))?;
            }
        }
        self.suppose_power_failures()
    }

    /// Anchors that rot, are torn or are old.
    fn suppose_of_anchors(&mut self, often: bool) -> Result<(), String> {
        let newest = self.newest_of_two_anchors();
        if let Some(newest) = newest {
            self.suppose(Fault::Anchor(newest))?;
        }
        if (newest.is_some() || self.anchors_differ()) && !self.is_copy {
            self.suppose(Fault::Later)?;
        }
        if !self.world.nvs_is_memory && self.has_new_anchors() {
            for place in ANCHORS {
                self.suppose(Fault::Stale(place))?;
            }
        }
        // A sector of a block device has all of an anchor or nothing.
        if (often || self.world.nvs_is_memory) && self.has_both_anchors() {
            for lost in [None, Some(ANCHORS[0]), Some(ANCHORS[1])] {
                self.suppose(Fault::TornAnchors(lost))?;
            }
        }
        if self.world.nvs_is_memory && self.has_both_anchors() {
            self.suppose(Fault::TornOpenings)?;
        }
        Ok(())
    }

    /// NVS devices that are away, cannot read something, or have lost a commit.
    fn suppose_of_nvs(&mut self, often: bool) -> Result<(), String> {
        if (often || self.cut_change.is_some()) && self.uses_both() {
            self.suppose(Fault::Missing(0))?;
            self.suppose(Fault::Missing(1))?;
            let which = self.draws.supposed.below(2) as u16;
            self.suppose(Fault::Unreadable(which))?;
            self.suppose(Fault::Interrupted(0))?;
            self.suppose(Fault::Interrupted(1))?;
            self.suppose(Fault::ByTurns(which))?;
        }
        let one = self.world.nvs.len() == 1 && !self.world.nvs_is_memory;
        let has_lost = |disk: &Disk| !disk.was_full && last_confirmed(disk).is_some();
        if often && one && self.world.nvs.iter().any(has_lost) {
            self.suppose(Fault::LostCommit)?;
        }
        Ok(())
    }

    /// Devices that are back or away after a change was cut short, and superblocks that rot.
    fn suppose_of_superblocks(&mut self, often: bool) -> Result<(), String> {
        let mut disks = self.world.members.iter().chain(&self.world.nvs);
        if self.cut_change.is_some() && !disks.any(Disk::has_cached) {
            for device in self.ahead() {
                // A copy in memory may be torn in the next mark.
                if !(self.world.nvs_is_memory && matches!(device, Device::Nvs(_))) {
                    self.suppose_back(device)?;
                }
            }
        }
        if self.nvs_named_by_all().is_some() {
            let sets =
                if self.case.geometry.level.parities() == 2 { SETS_OF_TWO } else { often.into() };
            for _ in 0..sets {
                if let Some(away) = self.may_all_be_away() {
                    self.suppose(Fault::Away(away))?;
                }
            }
            let marked = self.marked();
            if self.has_old_member(&marked) {
                // Nobody may take the change that left it out for one that was not completed.
                for device in &marked {
                    self.suppose(Fault::Superblock(*device, 1))?;
                }
            } else if often && !marked.is_empty() {
                let device = marked[self.draws.supposed.below(marked.len() as u64) as usize];
                let copy = self.draws.supposed.below(2);
                self.suppose(Fault::Superblock(device, copy))?;
            }
        }
        Ok(())
    }

    /// Power failures in the next start.
    fn suppose_power_failures(&mut self) -> Result<(), String> {
        let devices = (self.world.members.len() + self.world.nvs.len()) as u64;
        let marks = self.world.caches_marks() || self.cut_change.is_some();
        if marks || self.world.nvs.iter().any(Disk::has_cached) {
            let started = self.after_a_start()?.world;
            let first_write = started.first_write.unwrap_or(0);
            let operations = started.operations.max(1);
            for _ in 0..POWER_FAILURES {
                let at = self.draws.supposed.below(operations);
                self.suppose(Fault::Power(at))?;
            }
            for _ in 0..if marks { FAILURES_OF_MARKS * devices } else { 0 } {
                let at = first_write + self.draws.supposed.below(2 * devices);
                self.suppose(Fault::Power(at))?;
            }
        }
        Ok(())
    }

    /// Whether this life wrote anchors.
    fn has_new_anchors(&self) -> bool {
        let written = self.world.nvs.iter().flat_map(Disk::written_durably);
        let places = ANCHORS.map(|place| place * SECTOR as u64);
        written.into_iter().any(|write| places.contains(&write.offset))
    }

    /// A copy after a start, whose operations are counted.
    pub(super) fn after_a_start(&mut self) -> Result<Run, String> {
        let mut copy = self.copy();
        copy.open_either_way().map_err(|why| format!("a start besides: {why}"))?;
        Ok(copy)
    }

    /// Whether both anchors of all NVS devices are intact. What a kill left in a cache may be torn.
    fn has_both_anchors(&self) -> bool {
        let intact = |disk: &Disk| {
            let log = Superblock::decode(disk.kept(0)).ok().map(|said| said.log);
            let is_one =
                |at: &u64| log.is_some_and(|log| Anchor::decode(disk.kept(*at), log).is_some());
            ANCHORS.iter().all(is_one) && !disk.has_cached()
        };
        !self.world.nvs.is_empty() && self.world.nvs.iter().all(intact)
    }

    /// An NVS device of two has deceived: after a start that had both it may be alone.
    ///
    /// # Errors
    /// It does not have everything.
    pub(super) fn suppose_alone(&mut self, copy: u16) -> Result<(), String> {
        if !self.case.pressed || !self.uses_both() {
            return Ok(());
        }
        self.suppose(Fault::Alone(copy))
    }

    fn suppose(&mut self, fault: Fault) -> Result<(), String> {
        self.counts.supposed += 1;
        self.copy().survive(&fault).map_err(|why| format!("{fault:?} besides: {why}"))
    }

    /// Where the newer anchor is, if there are two: the older one must do. A copy in memory may be
    /// torn.
    pub(super) fn newest_of_two_anchors(&self) -> Option<u64> {
        let disk = self.world.nvs.first().filter(|_| !self.world.nvs_is_memory)?;
        let [first, second] = ANCHORS
            .map(|at| u64::from_le_bytes(disk.kept(at)[16..24].try_into().expect("8 bytes")));
        (first != second).then_some(ANCHORS[usize::from(second > first)])
    }

    /// Whether one of two NVS devices has an older anchor in some place.
    fn anchors_differ(&self) -> bool {
        let [one, other] = &self.world.nvs[..] else { return false };
        self.uses_both() && ANCHORS.iter().any(|at| one.kept(*at) != other.kept(*at))
    }

    /// Members that may be away together, as many as the level tolerates now.
    fn may_all_be_away(&mut self) -> Option<DiskSet> {
        let disks = u64::from(self.case.geometry.disks);
        if self.world.members.iter().any(Disk::has_bad) {
            return None;
        }
        let (mut away, mut all) = (DiskSet::default(), self.failing());
        for _ in 0..2 * disks {
            let member = DiskId(self.draws.supposed.below(disks) as u16);
            let mut more = all.clone();
            more.insert(member);
            if !all.contains(member)
                && self.may_be_away(member.0)
                && self.case.geometry.survives(&more)
            {
                away.insert(member);
                all = more;
            }
        }
        (!away.is_empty()).then_some(away)
    }

    /// The devices in use.
    pub(super) fn marked(&self) -> Vec<Device> {
        let members = (0u16..).zip(&self.world.members);
        let used = members.filter(|(at, disk)| !disk.gone && !self.failed.contains(DiskId(*at)));
        let nvs = (0..self.world.nvs.len() as u16).map(Device::Nvs);
        used.map(|(at, _)| Device::Member(at)).chain(nvs).collect()
    }

    /// Whether a member that has failed is back, and has the array's superblock of before.
    fn has_old_member(&self, marked: &[Device]) -> bool {
        let first = SUPERBLOCKS[0];
        let newest = marked.first().and_then(|device| self.generation_at(*device, first));
        self.failed.iter().any(|member| {
            let there = !self.world.members[usize::from(member.0)].gone;
            there && self.generation_at(Device::Member(member.0), first) < newest
        })
    }

    /// The generation of the copy of a device's superblock at this place, if it has one.
    pub(super) fn generation_at(&self, device: Device, at: u64) -> Option<u64> {
        let disk = match device {
            Device::Member(member) => &self.world.members[usize::from(member)],
            Device::Nvs(copy) => &self.world.nvs[usize::from(copy)],
        };
        Superblock::decode(disk.kept(at / SECTOR as u64))
            .ok()
            .map(|superblock| superblock.generation)
    }

    /// Whether each of two NVS devices suffices.
    pub(super) fn uses_both(&self) -> bool {
        let two = self.world.nvs.len() == 2 && !self.world.nvs_is_memory;
        two && self.rows_are_right() && self.nvs_named_by_all() == Some(2)
    }

    /// How many NVS devices are in use, if all devices say the same: of a change that some know of,
    /// one device alone cannot know whether it was completed.
    pub(super) fn nvs_named_by_all(&self) -> Option<usize> {
        if !self.case.geometry.survives(&self.failed) {
            // The array has stopped, and what failed last is used again.
            return None;
        }
        let members = (0u16..).zip(&self.world.members);
        let used = members.filter(|(number, _)| !self.failed.contains(DiskId(*number)));
        let mut said = BTreeSet::new();
        for disk in used.map(|(_, disk)| disk).chain(&self.world.nvs) {
            for at in SUPERBLOCKS {
                let copy = Superblock::decode(disk.kept(at / 512)).ok()?;
                said.insert((copy.generation, copy.nvs.iter().flatten().count()));
            }
            if disk.has_cached() {
                return None;
            }
        }
        let named = said.pop_first().map(|(_, named)| named);
        named.filter(|_| said.is_empty())
    }

    /// The same array, with its power off.
    pub(super) fn copy(&mut self) -> Run {
        let mut case = self.case.clone();
        case.seed ^= self.draws.supposed.below(u64::MAX);
        let world = self.world.copy(case.seed);
        let mut copy = Run::of(case, world, self.model.clone());
        copy.mishaps.snapshot = Some(Box::new(self.snapshot()));
        copy.restore_all();
        copy.is_copy = true;
        copy.failed_lately = self.failed_lately.clone();
        copy.cut_writes = self.cut_writes.clone();
        (copy.change_cut, copy.marks_cut) = (self.change_cut, self.marks_cut);
        copy.plain = self.plain;
        copy
    }

    fn survive(&mut self, fault: &Fault) -> Result<(), String> {
        self.mishaps.must_start = true;
        let end = match *fault {
            Fault::Later => return self.survive_later(),
            Fault::Anchor(place) => {
                self.world.nvs.iter_mut().for_each(|disk| disk.spoil(place));
                self.open_either_way()?
            }
            Fault::TornAnchors(lost) => self.survive_torn_anchors(lost)?,
            Fault::TornOpenings => self.survive_torn_openings()?,
            Fault::Stale(place) => {
                let at = place * SECTOR as u64;
                for disk in &mut self.world.nvs {
                    let first = disk.written_durably().iter().find(|write| write.offset == at);
                    if let Some(old) = first.map(|write| write.old.clone()) {
                        disk.put(at, &old);
                    }
                }
                self.open_either_way()?
            }
            Fault::Missing(copy) => {
                self.world.device(Device::Nvs(copy)).gone = true;
                self.mishaps.away.push(Device::Nvs(copy));
                self.open_either_way()?
            }
            Fault::Unreadable(copy) => self.survive_unreadable(copy)?,
            Fault::Alone(copy) => self.survive_alone(copy)?,
            Fault::LostCommit => {
                let lost = last_confirmed(&self.world.nvs[0]).expect("there is one");
                self.world.nvs[0].put(lost.offset, &lost.old);
                self.mishaps.must_start = false;
                match self.open_either_way() {
                    // If it starts it has everything.
                    Err(why) if why.starts_with("open: ") => return Ok(()),
                    other => other?,
                }
            }
            Fault::Interrupted(copy) => self.survive_interrupted(copy)?,
            Fault::ByTurns(first) => self.survive_by_turns(first)?,
            Fault::Away(ref members) => self.survive_away(members)?,
            Fault::Superblock(device, copy) => {
                let sector = SUPERBLOCKS[copy as usize] / SECTOR as u64;
                let bit = self.draws.supposed.below(8 * SECTOR as u64);
                self.world.device(device).rot(sector, bit);
                self.open_either_way()?
            }
            Fault::Record(member) => {
                self.mishaps.must_start = false;
                self.lose_record(member);
                self.survive_one_more_life()?
            }
            Fault::Power(at) => {
                self.world.crash_at = Some(at);
                self.open_either_way()?;
                let runs = self.draws.supposed.below(2) == 0;
                self.start_again(Some(if runs { Survivors::Runs } else { Survivors::Random }))?
            }
        };
        self.check_survived(end)
    }

    /// The power fails, or all is there.
    fn check_survived(&mut self, mut end: End) -> Result<(), String> {
        if end == End::Crash && !self.world.crashed {
            return Err("it ends, and the power has not failed".to_string());
        }
        if end == End::Done {
            end = self.check_rows()?;
        }
        if end == End::Done {
            end = self.read_all()?;
        }
        if end == End::Done {
            self.check_cut_writes()?;
        }
        Ok(())
    }

    /// Members are away; sometimes a start before was interrupted, with what it redid of destages.
    fn survive_away(&mut self, members: &DiskSet) -> Result<End, String> {
        if self.draws.supposed.below(2) == 0 {
            let operations = self.after_a_start()?.world.operations.max(1);
            let at = self.draws.supposed.below(operations);
            self.interrupt_a_start(at)?;
        }
        for member in members.iter().map(|disk| Device::Member(disk.0)) {
            self.world.device(member).gone = true;
            self.mishaps.away.push(member);
        }
        self.open_either_way()
    }

    /// The power fails as one start writes an anchor, or two do.
    fn survive_torn_anchors(&mut self, lost: Option<u64>) -> Result<End, String> {
        if let Some(place) = lost {
            let bit = self.draws.supposed.below(8 * ANCHOR_BYTES);
            for disk in &mut self.world.nvs {
                disk.rot(place, bit);
            }
        }
        for _ in 0..if lost.is_some() { 1 } else { 2 } {
            let writes = self.after_a_start()?.world.anchor_writes;
            if !writes.is_empty() {
                let drawn = writes[self.draws.supposed.below(writes.len() as u64) as usize];
                self.interrupt_a_start(drawn)?;
            }
        }
        self.open_either_way()
    }

    /// The opening commit is the last that a start writes to the log, on each NVS device.
    fn survive_torn_openings(&mut self) -> Result<End, String> {
        for _ in 0..1 + self.draws.supposed.below(TORN_OPENINGS) {
            let writes = self.after_a_start()?.world.log_writes;
            let last = &writes[writes.len().saturating_sub(self.world.nvs.len())..];
            if !last.is_empty() {
                let drawn = last[self.draws.supposed.below(last.len() as u64) as usize];
                self.interrupt_a_start(drawn)?;
            }
        }
        self.open_either_way()
    }

    /// The power fails as a start has written to the log, and this NVS device is missing at the
    /// next.
    fn survive_interrupted(&mut self, copy: u16) -> Result<End, String> {
        let writes = self.after_a_start()?.world.log_writes;
        // The last ones open the next epoch.
        let drawn = self.draws.supposed.below(2 * writes.len().max(1) as u64) as usize;
        if let Some(write) = writes.get(drawn).or(writes.last()) {
            self.interrupt_a_start(write + 1)?;
        }
        self.world.device(Device::Nvs(copy)).gone = true;
        self.mishaps.away.push(Device::Nvs(copy));
        self.open_either_way()
    }

    /// Neither start is completed: nothing is acknowledged that only one of the two has.
    fn survive_by_turns(&mut self, first: u16) -> Result<End, String> {
        for copy in [first, 1 - first] {
            self.world.device(Device::Nvs(copy)).gone = true;
            self.mishaps.away.push(Device::Nvs(copy));
            // The second is refused if the first has recorded that the other was missing.
            if let Ok(started) = self.after_a_start() {
                let writes = started.world.log_writes;
                let drawn = self.draws.supposed.below(writes.len().max(1) as u64) as usize;
                if let Some(write) = writes.get(drawn) {
                    self.interrupt_a_start(write + 1)?;
                }
            }
            self.world.device(Device::Nvs(copy)).gone = false;
            self.mishaps.away.clear();
        }
        self.open_either_way()
    }

    /// The power fails in a start, before or in its operation of this number.
    pub(super) fn interrupt_a_start(&mut self, operation: u64) -> Result<(), String> {
        self.world.crash_at = Some(self.world.operations + operation);
        self.open_either_way()?;
        self.crash(Survivors::Random);
        self.mishaps.must_start = true;
        Ok(())
    }

    /// A start repairs what this NVS device lacks: after it, this one alone has everything.
    fn survive_unreadable(&mut self, copy: u16) -> Result<End, String> {
        let disk = self.world.device(Device::Nvs(copy));
        let mut written = disk.written();
        written.retain(|sector| *sector >= DATA_START / SECTOR as u64);
        for _ in 0..UNREADABLE.min(written.len() as u64) {
            let drawn = self.draws.supposed.below(written.len() as u64) as usize;
            self.world.device(Device::Nvs(copy)).spoil(written[drawn]);
        }
        if let Some(second) = self.second_of_a_long_commit(copy) {
            self.world.device(Device::Nvs(copy)).spoil(second);
        }
        self.survive_alone(copy)
    }

    /// The first sector of the second block of a commit of several.
    fn second_of_a_long_commit(&mut self, copy: u16) -> Option<u64> {
        let block_bytes = self.case.block_bytes;
        let disk = &self.world.nvs[usize::from(copy)];
        let first = |block: u64| (DATA_START + block * u64::from(block_bytes)) / SECTOR as u64;
        let is_long = |block: &u64| {
            let claim = Claim::read(disk.kept(first(*block)));
            claim.is_some_and(|claim| claim.own_blocks(block_bytes) > 1)
        };
        let long: Vec<u64> = (0..RING_BLOCKS - 1).filter(is_long).collect();
        let drawn = self.draws.supposed.below(long.len().max(1) as u64) as usize;
        long.get(drawn).map(|block| first(block + 1))
    }

    /// One more life with a load, in which nothing else fails, and the start after it.
    fn survive_one_more_life(&mut self) -> Result<End, String> {
        self.case.faults = false;
        if self.open_either_way()? == End::Done && !self.rebuilds().is_empty() {
            self.world.crash_at = Some(self.world.operations + self.draws.supposed.below(SOON));
            self.load(REQUESTS)?;
        }
        self.start_again(Some(Survivors::Random))
    }

    fn survive_alone(&mut self, copy: u16) -> Result<End, String> {
        let end = self.open_either_way()?;
        let both = self.volume.as_ref().is_some_and(|v| v.status().nvs_devices.len() == 2);
        if end == End::Crash || !both || self.volume().is_changing() {
            return Ok(end);
        }
        self.crash(Survivors::Random);
        self.world.device(Device::Nvs(1 - copy)).gone = true;
        self.mishaps.away.push(Device::Nvs(1 - copy));
        self.mishaps.must_start = true;
        self.open_either_way()
    }

    /// One more life, until the log waits for the first copy of the anchor; what a start left of
    /// an older one shows then.
    fn survive_later(&mut self) -> Result<(), String> {
        self.case.faults = false;
        self.open_either_way()?;
        let first = ANCHORS[0] * SECTOR as u64;
        let slow = Slow::Marks([first, u64::MAX]);
        self.world.starved = Some(Starved::new(slow, self.case.seed));
        self.world.crash_at = Some(self.world.operations + LATER);
        if self.load(REQUESTS)? == End::Crash {
            self.crash(Survivors::Random);
            self.maybe_suppose()?;
            for copy in 0..if self.uses_both() { 2 } else { 0 } {
                self.suppose(Fault::Missing(copy))?;
            }
        }
        Ok(())
    }
}
