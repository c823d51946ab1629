//! Two halves of an array, each of which has everything, serve one after the other, each while the
//! other is away. With all devices there again the array is refused: each half has acknowledged
//! what the other lacks. With a device that was away while the others served, and had acknowledged
//! nothing alone, the array starts.

use super::load::{Kind, Request};
use super::mirror::assembled;
use super::run::{End, Run};
use super::starve::SUPERBLOCKS;
use crate::Survivors;
use destage_engine::array::disks::DiskSet;
use destage_engine::units::{DiskId, PAGE_BYTES};
use destage_served::{Allow, AssembleError, Assembly, Device};

/// Pages that each half acknowledges.
const PAGES: u64 = 3;
/// Starts of a half before and after that, each of which the power ends, at most.
const STARTS: u64 = 3;
/// Operations after which it does, at most: those that mark the devices are among them.
const OPERATIONS: u64 = 60;
/// A start is cut short after one of this many first marks.
const FIRST_MARKS: u64 = 3;
/// Sets of devices of both halves that are tried.
const MIXES: u64 = 12;
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
        if let Ok(Assembly { failed, copies, .. }) = assembled(&mut all.world, &Allow::default()) {
            let left = format!("without members {failed:?}, with NVS {copies:?}");
            return Err(format!("halves that served apart make an array: {halves:?}, {left}"));
        }
        all.check_mixes(halves)
    }

    /// Of two halves that served apart, some devices are there, with `--degraded` or without; in
    /// some of these starts the power fails.
    ///
    /// # Errors
    /// Devices of both halves are used.
    fn check_mixes(&mut self, halves: &[Vec<Device>; 2]) -> Result<(), String> {
        for _ in 0..MIXES {
            for device in halves.iter().flatten() {
                self.world.device(*device).gone = self.draws.supposed.below(3) == 0;
            }
            let degraded = self.draws.supposed.below(2) == 0;
            let allow = Allow { degraded, ..Allow::default() };
            let Ok(assembly) = assembled(&mut self.world, &allow) else { continue };
            let used = |device: &Device| match device {
                Device::Member(number) => !assembly.failed.contains(number),
                Device::Nvs(copy) => assembly.copies.contains(copy),
            };
            if halves.iter().all(|half| half.iter().any(used)) {
                let all: Vec<&Device> = halves.iter().flatten().filter(|d| used(d)).collect();
                return Err(format!(
                    "of halves that served apart {halves:?} both are used: {all:?}"
                ));
            }
            if self.draws.supposed.below(2) == 0 {
                let soon = self.draws.supposed.below(OPERATIONS);
                self.world.crash_at = Some(self.world.operations + soon);
                let settings = self.case.settings.clone();
                drop(destage_served::open(&mut self.world, &assembly, settings));
                self.world.crash(Survivors::Random);
            }
        }
        Ok(())
    }

    /// Devices that have a second copy of a change which others lack: nothing was built on it.
    pub(super) fn ahead(&self) -> Vec<Device> {
        let second = |device: &Device| self.generation_at(*device, SUPERBLOCKS[1]);
        let marked = self.marked();
        let first = |device: &Device| self.generation_at(*device, SUPERBLOCKS[0]);
        let newest = marked.iter().filter_map(first).max();
        let least = marked.iter().filter(|device| first(device) == newest).filter_map(second).min();
        marked.into_iter().filter(|device| second(device) > least).collect()
    }

    /// Lets the others serve while this device is away, or a start of theirs be cut short, and asks
    /// for a start with all. Sometimes a start with all was cut short before, as the first devices
    /// were marked.
    ///
    /// # Errors
    /// It is refused, with `--degraded` too, or the one before.
    pub(super) fn suppose_back(&mut self, device: Device) -> Result<(), String> {
        let mut copy = self.copy();
        if self.draws.supposed.below(2) == 0 {
            let marks = copy.after_a_start()?.world.mark_writes;
            let drawn = self.draws.supposed.below(FIRST_MARKS) as usize;
            if let Some(mark) = marks.get(drawn) {
                copy.interrupt_a_start(mark + 1)?;
            }
        }
        copy.world.device(device).gone = true;
        if assembled(&mut copy.world, &Allow::degraded()).is_err() {
            return Ok(());
        }
        self.counts.supposed += 1;
        let ended = match self.draws.supposed.below(2) {
            0 => copy.marks_without(device).map(|()| true),
            _ => copy.serves_without(&[device]),
        };
        if !ended.map_err(|why| format!("{device:?} away besides: {why}"))? {
            return Ok(());
        }
        copy.world.device(device).gone = false;
        // It looks as if it had served without them, or others are missing.
        let allowed = |why: &AssembleError| {
            matches!(why, AssembleError::Disagrees(_) | AssembleError::Degraded(..))
        };
        let why = match assembled(&mut copy.world, &Allow::default()) {
            Err(why) if !allowed(&why) => Err(why),
            _ => assembled(&mut copy.world, &Allow::degraded()),
        };
        why.map(drop).map_err(|why| format!("{device:?} was away, and is back: refused: {why:?}"))
    }

    /// A start without this device is cut short after all others have their first marks.
    fn marks_without(&mut self, device: Device) -> Result<(), String> {
        self.mishaps.away.push(device);
        let marks = self.after_a_start()?.world.mark_writes;
        let Some(last) = marks.last() else { return Ok(()) };
        let more = self.draws.supposed.below(marks.len() as u64);
        self.interrupt_a_start(last + 1 + more)
    }

    /// Serves without these devices and acknowledges something. The power fails then, and perhaps
    /// in starts before and after that. Whether it was acknowledged.
    fn serves_without(&mut self, away: &[Device]) -> Result<bool, String> {
        self.case.faults = false;
        self.starts_that_end_soon(away)?;
        if self.starts_without(away)? == End::Crash {
            return Ok(false);
        }
        for page in 0..PAGES {
            let (offset, bytes) = (page * PAGE_BYTES, PAGE_BYTES);
            self.submit(Request { kind: Kind::Write, offset, bytes, fua: true })?;
        }
        if self.answered()? == End::Crash {
            return Ok(false);
        }
        self.crash(Survivors::Random);
        self.starts_that_end_soon(away)?;
        Ok(true)
    }

    /// Some starts, in or after each of which the power fails.
    fn starts_that_end_soon(&mut self, away: &[Device]) -> Result<(), String> {
        for _ in 0..self.draws.supposed.below(STARTS + 1) {
            let soon = self.draws.supposed.below(OPERATIONS);
            self.world.crash_at = Some(self.world.operations + soon);
            self.starts_without(away)?;
            self.crash(Survivors::Random);
        }
        Ok(())
    }

    fn starts_without(&mut self, away: &[Device]) -> Result<End, String> {
        self.mishaps.must_start = true;
        for device in away {
            self.world.device(*device).gone = true;
            self.mishaps.away.push(*device);
        }
        self.open_either_way()
    }
}
