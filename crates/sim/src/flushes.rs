//! Flushes of the modelled disks, when the engine's scheduler wants them.
//!
//! A flush begins when the disk's command in service is done, and no other command begins before it
//! is. It covers what was done before it, as the scheduler takes it to.

use crate::config::SimConfig;
use destage_disk::Disk;
use destage_engine::event::DiskCommand;
use destage_engine::flushes::{Durability, Flushed, Flushes};
use destage_engine::units::Instant;

/// The flushes of all disks.
pub(crate) struct DiskFlushes {
    flushes: Flushes,
    /// When the flush in flight of each disk is done.
    done: Vec<Instant>,
    /// Some disk is flushed at all.
    any: bool,
}

impl DiskFlushes {
    pub(crate) fn new(config: &SimConfig, disks: usize) -> DiskFlushes {
        let mut flushes = Flushes::new(disks as u16, config.flush_limits);
        (0..disks as u16).for_each(|disk| flushes.set(disk, config.durability));
        let any = matches!(config.durability, Durability::Flush | Durability::Epochs);
        DiskFlushes { flushes, done: vec![Instant::NEVER; disks], any }
    }

    /// A command goes to its disk. Returns whether it is durable when it is done.
    pub(crate) fn submitted(&mut self, command: &DiskCommand) -> bool {
        self.flushes.submitted(command);
        self.flushes.is_durable(command)
    }

    /// A command is done.
    pub(crate) fn finished(&mut self, command: &DiskCommand) {
        self.flushes.finished(command, self.flushes.is_durable(command));
    }

    /// A destage waits until what it has written is durable. Returns it if that is so now.
    pub(crate) fn wanted(&mut self, index: u32, now: Instant, gone: &[bool]) -> Option<Flushed> {
        self.flushes.wanted(index, now, |disk| gone[usize::from(disk)])
    }

    /// Begins the flushes that are due, of disks that can; returns how many. Until it is done, such
    /// a disk begins nothing.
    pub(crate) fn begin(&mut self, models: &mut [Disk], now: Instant) -> u64 {
        let mut begun = 0;
        if !self.any {
            return 0;
        }
        for (disk, model) in models.iter_mut().enumerate() {
            if !model.busy() && self.flushes.begin(disk as u16, now) {
                self.done[disk] = model.flush(now);
                begun += 1;
            }
        }
        begun
    }

    /// When the next flush is due of a disk that has nothing else to do.
    pub(crate) fn due(&self, models: &[Disk]) -> Option<Instant> {
        if !self.any {
            return None;
        }
        let idle = (0..).zip(models).filter(|(_, model)| !model.busy());
        idle.filter_map(|(disk, _)| self.flushes.due(disk)).min()
    }

    /// Whether a flush of the disk is in flight.
    pub(crate) fn holds(&self, disk: usize) -> bool {
        self.done[disk] < Instant::NEVER
    }

    /// The disk whose flush is done first, and when.
    pub(crate) fn next(&self) -> Option<(Instant, usize)> {
        let times = self.done.iter().enumerate().map(|(disk, done)| (*done, disk));
        times.min().filter(|(at, _)| self.any && *at < Instant::NEVER)
    }

    /// The flush in flight of a disk is done. Returns the destages that wait for no other one.
    pub(crate) fn done(&mut self, disk: usize, now: Instant) -> Vec<Flushed> {
        self.done[disk] = Instant::NEVER;
        self.flushes.done(disk as u16, now)
    }

    /// A disk has failed: nobody waits for it.
    pub(crate) fn failed(&mut self, disk: usize) -> Vec<Flushed> {
        self.done[disk] = Instant::NEVER;
        let how = self.flushes.how(disk as u16);
        let flushed = self.flushes.failed(disk as u16);
        // A spare is of the same model.
        self.flushes.set(disk as u16, how);
        flushed
    }
}
