//! Two halves of an array, each of which has everything, serve one after the other, each while the
//! other is away. With all devices there again the array is refused: each half has acknowledged
//! what the other lacks.

use super::load::{Kind, Request};
use super::run::{End, Run};
use crate::Survivors;
use destage_engine::array::disks::DiskSet;
use destage_engine::units::{DiskId, PAGE_BYTES};
use destage_served::{Allow, Assembly, Device, Found};

/// Pages that each half acknowledges.
const PAGES: u64 = 3;
/// Starts of a half after that, each of which the power ends, at most.
const STARTS: u64 = 3;
/// Operations after which it does, at most: those that mark the devices are among them.
const OPERATIONS: u64 = 60;
/// Ways to halve the members that are tried.
const DRAWS: u64 = 8;

impl Run {
    /// Two halves: the members and NVS devices of each suffice.
    pub(super) fn halves(&mut self) -> Option<[Vec<Device>; 2]> {
        if !self.uses_both() || !self.failing().is_empty() {
            return None;
        }
        let disks = self.case.geometry.disks;
        for _ in 0..DRAWS {
            let drawn: Vec<u64> = (0..disks).map(|_| self.draws.supposed.below(2)).collect();
            let half = |which| (0..disks).filter(|at| drawn[usize::from(*at)] == which).collect();
            let halves: [Vec<u16>; 2] = [0, 1].map(half);
            let without =
                |half: &Vec<u16>| -> DiskSet { half.iter().map(|m| DiskId(*m)).collect() };
            if halves.iter().all(|half| self.case.geometry.survives(&without(half))) {
                let mut number = 0..2;
                return Some(halves.map(|half| {
                    let nvs = number.next().map(Device::Nvs);
                    half.into_iter().map(Device::Member).chain(nvs).collect()
                }));
            }
        }
        None
    }

    /// Lets each half serve on a copy of its own, and puts the two together.
    ///
    /// # Errors
    /// They make an array without a word of what the half that is not used had acknowledged.
    pub(super) fn suppose_apart(&mut self, halves: &[Vec<Device>; 2]) -> Result<(), String> {
        self.counts.supposed += 1;
        let mut copies = [self.copy(), self.copy()];
        for (copy, away) in copies.iter_mut().zip(halves.iter().rev()) {
            let served = copy.serves_without(away);
            if !served.map_err(|why| format!("{away:?} away besides: {why}"))? {
                return Ok(());
            }
        }
        let [mut all, mut other] = copies;
        for device in &halves[1] {
            core::mem::swap(all.world.device(*device), other.world.device(*device));
        }
        let mut found: Vec<Found> = Vec::new();
        for device in halves.iter().flatten() {
            found.push((*device, destage_served::read_superblock(&mut all.world, *device)));
        }
        found.sort_unstable_by_key(|(device, _)| *device);
        match destage_served::assemble(&found, &Allow::default()) {
            Err(_) => Ok(()),
            Ok(Assembly { failed, copies, .. }) => {
                let left = format!("without members {failed:?}, with NVS {copies:?}");
                Err(format!("halves that served apart make an array: {halves:?}, {left}"))
            }
        }
    }

    /// Serves without these devices and acknowledges something. Then the power fails, perhaps
    /// again in later starts. Whether it was acknowledged.
    fn serves_without(&mut self, away: &[Device]) -> Result<bool, String> {
        self.case.faults = false;
        self.mishaps.must_start = true;
        for device in away {
            self.world.device(*device).gone = true;
            self.mishaps.away.push(*device);
        }
        if self.open_either_way()? == End::Crash {
            return Ok(false);
        }
        for page in 0..PAGES {
            let (offset, bytes) = (page * PAGE_BYTES, PAGE_BYTES);
            self.submit(Request { kind: Kind::Write, offset, bytes, fua: true })?;
        }
        if self.answered()? == End::Crash {
            return Ok(false);
        }
        for _ in 0..self.draws.supposed.below(STARTS + 1) {
            self.crash(Survivors::Random);
            let soon = self.draws.supposed.below(OPERATIONS);
            self.world.crash_at = Some(self.world.operations + soon);
            self.open_either_way()?;
        }
        self.crash(Survivors::Random);
        Ok(true)
    }
}
