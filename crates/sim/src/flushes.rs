//! Flushes of the modelled disks, for destages in phases: the disks that a destage has written are
//! flushed, and one flush of a disk serves all destages that wait for it, as in a served array.
//!
//! A disk without a write-back cache has nothing to flush. Another one begins when its command in
//! service is done, and begins no other command before its cache is empty.

use destage_disk::{Disk, DiskSpec};
use destage_engine::array::disks::DiskSet;
use destage_engine::event::{DiskCommand, Owner};
use destage_engine::units::Instant;

/// A destage that waits.
#[derive(Clone, Default)]
struct Waiting {
    /// Disks written since they were last flushed for it.
    written: DiskSet,
    /// Flushes that are not done.
    flushes: u32,
}

/// Flushes of one disk.
#[derive(Clone)]
struct OfDisk {
    /// Destages that wait for the flush in flight, and for the one after it.
    now: Vec<u32>,
    next: Vec<u32>,
    /// When the flush in flight is done.
    done: Instant,
}

/// The flushes of all disks.
pub(crate) struct Flushes {
    /// Whether the disks acknowledge writes before these are on the medium.
    volatile: bool,
    destages: Vec<Waiting>,
    disks: Vec<OfDisk>,
}

impl Flushes {
    pub(crate) fn new(spec: &DiskSpec, disks: usize) -> Flushes {
        let none = OfDisk { now: Vec::new(), next: Vec::new(), done: Instant::NEVER };
        let volatile = spec.write_back.is_some();
        Flushes { volatile, destages: Vec::new(), disks: vec![none; disks] }
    }

    /// A command goes to its disk.
    pub(crate) fn submitted(&mut self, command: &DiskCommand) {
        if let (true, true, Owner::Destage(index)) = (self.volatile, command.write, command.owner) {
            self.of(index).written.insert(command.disk);
        }
    }

    fn of(&mut self, index: u32) -> &mut Waiting {
        let index = index as usize;
        if self.destages.len() <= index {
            self.destages.resize_with(index + 1, Waiting::default);
        }
        &mut self.destages[index]
    }

    /// A destage wants the disks flushed that it has written. Returns those; if none, it does not
    /// wait.
    pub(crate) fn wanted(&mut self, index: u32, gone: &[bool]) -> Vec<usize> {
        let written = std::mem::take(&mut self.of(index).written);
        let disks = written.iter().map(|disk| usize::from(disk.0));
        let disks: Vec<usize> = disks.filter(|disk| !gone[*disk]).collect();
        self.of(index).flushes = disks.len() as u32;
        disks.iter().for_each(|disk| self.disks[*disk].next.push(index));
        disks
    }

    /// Begins a flush if one is wanted and the disk can. Until it is done, the disk begins nothing.
    pub(crate) fn begin(&mut self, disk: usize, model: &mut Disk, now: Instant) {
        let of = &mut self.disks[disk];
        if of.now.is_empty() && !of.next.is_empty() && !model.busy() {
            of.now = std::mem::take(&mut of.next);
            of.done = model.flush(now);
        }
    }

    /// Whether a flush of the disk is in flight.
    pub(crate) fn holds(&self, disk: usize) -> bool {
        !self.disks[disk].now.is_empty()
    }

    /// The disk whose flush is done first, and when.
    pub(crate) fn next(&self) -> Option<(Instant, usize)> {
        if !self.volatile {
            return None;
        }
        let times = self.disks.iter().enumerate().map(|(disk, of)| (of.done, disk));
        times.min().filter(|(at, _)| *at < Instant::NEVER)
    }

    /// The flush in flight of a disk is done. Returns the destages that wait for no other one.
    pub(crate) fn done(&mut self, disk: usize) -> Vec<u32> {
        let of = &mut self.disks[disk];
        of.done = Instant::NEVER;
        let waiting = std::mem::take(&mut of.now);
        self.one_less(waiting)
    }

    /// A disk has failed: nobody waits for it.
    pub(crate) fn failed(&mut self, disk: usize) -> Vec<u32> {
        let mut waiting = self.done(disk);
        let next = std::mem::take(&mut self.disks[disk].next);
        waiting.extend(self.one_less(next));
        waiting
    }

    fn one_less(&mut self, mut waiting: Vec<u32>) -> Vec<u32> {
        waiting.retain(|index| {
            let destage = &mut self.destages[*index as usize];
            destage.flushes -= 1;
            destage.flushes == 0
        });
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_disk::{DiskOp, find};
    use destage_engine::units::DiskId;

    fn write(destage: u32, disk: u16) -> DiskCommand {
        let owner = Owner::Destage(destage);
        DiskCommand { disk: DiskId(disk), first: 0, pages: 1, write: true, owner }
    }

    #[test]
    fn disks_without_a_write_back_cache_are_not_waited_for() {
        let mut flushes = Flushes::new(&find("stow-ref").expect("built in"), 2);
        flushes.submitted(&write(0, 1));
        assert!(flushes.wanted(0, &[false; 2]).is_empty());
    }

    #[test]
    fn a_flush_takes_the_time_of_the_cache_and_serves_all_who_wait() {
        let spec = find("cheetah9lp").expect("built in");
        let mut disk = Disk::new(&spec);
        let mut flushes = Flushes::new(&spec, 1);
        let mut now = Instant::ZERO;
        for (tag, lbn) in [(0, 1_000_000), (1, 5_000_000)] {
            flushes.submitted(&write(tag as u32, 0));
            disk.submit(now, DiskOp { lbn, sectors: 8, write: true, tag });
            now = disk.start(now).expect("it is idle");
            disk.finish(now);
        }
        assert_eq!(flushes.wanted(0, &[false]), [0]);
        flushes.begin(0, &mut disk, now);
        assert!(flushes.holds(0));
        let (first, of) = flushes.next().expect("one is in flight");
        assert_eq!(of, 0);
        assert!(first > now, "the cache holds two writes");
        // The other one comes too late for it, and waits for the next.
        assert_eq!(flushes.wanted(1, &[false]), [0]);
        flushes.begin(0, &mut disk, now);
        assert_eq!(flushes.done(0), [0]);
        flushes.begin(0, &mut disk, first);
        assert_eq!(flushes.next(), Some((first, 0)), "nothing was written since");
        assert_eq!(flushes.failed(0), [1]);
        assert_eq!(flushes.next(), None);
        // Of a disk that is gone nothing is waited for.
        flushes.submitted(&write(2, 0));
        assert!(flushes.wanted(2, &[true]).is_empty());
    }
}
