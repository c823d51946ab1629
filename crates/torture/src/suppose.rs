//! After a crash, on a copy of the array: suppose that one thing more had failed which the array
//! promises to survive. It must start, and have everything. The run itself continues as if nothing
//! had been tried.

use super::device::{Device as Disk, SECTOR};
use super::mishaps::ANCHORS;
use super::run::{End, Run};
use super::starve::SUPERBLOCKS;
use crate::Survivors;
use destage_engine::units::DiskId;
use destage_nvslog::superblock::Superblock;
use destage_served::Device;
use std::collections::BTreeSet;

/// Power failures, each in the start of a copy.
const POWER_FAILURES: u64 = 4;

/// What fails on the copy.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// No NVS device can read this anchor.
    Anchor(u64),
    /// This copy of the anchor has nothing of what was written since the last start.
    Stale(u64),
    /// This NVS device of two is missing.
    Missing(u16),
    /// The power, in the start, before the operation of this number.
    Power(u64),
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
        if let Some(newest) = self.newest_of_two_anchors() {
            self.suppose(Fault::Anchor(newest))?;
        }
        if !self.world.nvs_is_memory && self.has_new_anchors() {
            for place in ANCHORS {
                self.suppose(Fault::Stale(place))?;
            }
        }
        if (often || self.cut_change.is_some()) && self.uses_both() {
            self.suppose(Fault::Missing(0))?;
            self.suppose(Fault::Missing(1))?;
        }
        if self.world.nvs.iter().any(Disk::has_cached) {
            let operations = self.operations_of_a_start()?;
            for _ in 0..POWER_FAILURES {
                let at = self.draws.supposed.below(operations);
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

    fn operations_of_a_start(&mut self) -> Result<u64, String> {
        let mut copy = self.copy();
        copy.open_either_way().map_err(|why| format!("a start besides: {why}"))?;
        Ok(copy.world.operations.max(1))
    }

    fn suppose(&mut self, fault: Fault) -> Result<(), String> {
        self.counts.supposed += 1;
        self.copy().survive(fault).map_err(|why| format!("{fault:?} besides: {why}"))
    }

    /// Where the newer anchor is, if there are two: the older one must do. A copy in memory may be
    /// torn.
    pub(super) fn newest_of_two_anchors(&self) -> Option<u64> {
        let disk = self.world.nvs.first().filter(|_| !self.world.nvs_is_memory)?;
        let [first, second] = ANCHORS
            .map(|at| u64::from_le_bytes(disk.kept(at)[16..24].try_into().expect("8 bytes")));
        (first != second).then_some(ANCHORS[usize::from(second > first)])
    }

    /// Whether each of two NVS devices suffices.
    fn uses_both(&self) -> bool {
        let two = self.world.nvs.len() == 2 && !self.world.nvs_is_memory;
        two && self.rows_are_right() && self.nvs_named_by_all() == Some(2)
    }

    /// How many NVS devices are in use, if all devices say the same: of a change that some know of,
    /// one device alone cannot know whether it was completed.
    pub(super) fn nvs_named_by_all(&self) -> Option<usize> {
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
    fn copy(&mut self) -> Run {
        let mut case = self.case.clone();
        case.seed ^= self.draws.supposed.below(u64::MAX);
        let world = self.world.copy(case.seed);
        let mut copy = Run::of(case, world, self.model.clone());
        copy.mishaps.snapshot = Some(Box::new(self.snapshot()));
        copy.restore_all();
        copy.wronged = self.wronged.clone();
        copy.failed_lately = self.failed_lately.clone();
        (copy.relogging, copy.cut_writes) = (self.relogging, self.cut_writes.clone());
        (copy.change_cut, copy.plain) = (self.change_cut, self.plain);
        copy
    }

    fn survive(&mut self, fault: Fault) -> Result<(), String> {
        self.mishaps.must_start = true;
        let mut end = match fault {
            Fault::Anchor(place) => {
                self.world.nvs.iter_mut().for_each(|disk| disk.spoil(place));
                self.open_either_way()?
            }
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
            Fault::Power(at) => {
                self.world.crash_at = Some(at);
                self.open_either_way()?;
                let runs = self.draws.supposed.below(2) == 0;
                self.start_again(Some(if runs { Survivors::Runs } else { Survivors::Random }))?
            }
        };
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
}
