//! A modelled disk in real time: which requests are done when.

use destage_disk::{Disk, DiskOp, DiskSpec};
use destage_engine::units::Instant;
use std::collections::VecDeque;

/// A request to a modelled disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRequest {
    /// Move bytes.
    Move {
        /// First byte.
        offset: u64,
        /// Bytes, at least one; a sector touched in part is moved completely.
        length: u64,
        /// To the disk.
        write: bool,
        /// A write is done only when it is on the medium.
        durable: bool,
    },
    /// Done when all writes that are done already are on the medium.
    Flush,
}

/// A [`Disk`] in real time, at `speed` virtual seconds per second.
///
/// Times are exact in virtual time: a command begins when the one before it is done, not when the
/// thread woke up.
#[derive(Debug)]
pub struct Emulator {
    disk: Disk,
    speed: f64,
    /// The virtual time up to which the disk has been run.
    settled: Instant,
    /// When the command in service is done.
    busy_until: Option<Instant>,
    /// No command begins before this: the write-back cache is being emptied.
    held_until: Instant,
    /// A write may be done before it is on the medium.
    volatile: bool,
    /// Flushes that wait for the command in service.
    flushes: VecDeque<u64>,
    /// Keys of requests that are done at these virtual times, in order.
    leaving: VecDeque<(Instant, u64)>,
    next_key: u64,
}

impl Emulator {
    /// An idle disk.
    pub fn new(spec: &DiskSpec, speed: f64) -> Emulator {
        Emulator {
            disk: Disk::new(spec),
            speed,
            settled: Instant::ZERO,
            busy_until: None,
            held_until: Instant::ZERO,
            volatile: spec.write_back.is_some(),
            flushes: VecDeque::new(),
            leaving: VecDeque::new(),
            next_key: 0,
        }
    }

    /// Bytes that the disk holds.
    pub fn bytes(&self) -> u64 {
        self.disk.sectors() * u64::from(self.disk.sector_bytes())
    }

    fn virtual_time(&self, real: Instant) -> Instant {
        Instant((real.0 as f64 * self.speed) as u64)
    }

    /// The real time of a virtual time.
    pub fn real_time(&self, virtual_time: Instant) -> Instant {
        Instant((virtual_time.0 as f64 / self.speed).ceil() as u64)
    }

    /// Starts a request and returns its key. Keys ascend.
    ///
    /// # Panics
    /// If it is empty or passes the end of the disk.
    pub fn request(&mut self, now: Instant, request: DiskRequest) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        let now = self.virtual_time(now);
        self.settle(now);
        match request {
            DiskRequest::Move { offset, length, write, durable } => {
                let sector = u64::from(self.disk.sector_bytes());
                let (first, end) = (offset / sector, (offset + length).div_ceil(sector));
                let op = DiskOp { lbn: first, sectors: (end - first) as u32, write, tag: key };
                if write && durable {
                    self.disk.submit_durable(now, op);
                } else {
                    self.disk.submit(now, op);
                }
            }
            // Whatever it has acknowledged is on the medium.
            DiskRequest::Flush if !self.volatile => self.leave(now, key),
            DiskRequest::Flush => {
                self.flushes.push_back(key);
                self.release_flushes(now);
            }
        }
        self.start(now);
        key
    }

    /// What of some bytes a power failure would lose: first byte and end of each stretch that is
    /// acknowledged and not on the medium at the time up to which the disk has been run.
    pub fn unwritten(&mut self, offset: u64, length: u64) -> Vec<(u64, u64)> {
        let sector = u64::from(self.disk.sector_bytes());
        let (first, end) = (offset / sector, (offset + length).div_ceil(sector));
        let part = |(from, to): (u64, u64)| {
            ((from * sector).max(offset), (to * sector).min(offset + length))
        };
        let stretches = self.disk.unwritten(self.settled, first, end - first);
        stretches.into_iter().map(part).collect()
    }

    /// When [`Emulator::done`] next returns a request, unless another one starts before.
    pub fn due(&self) -> Option<Instant> {
        let leaving = self.leaving.front().map(|(at, _)| *at);
        let held = (self.disk.queued() > 0 && !self.disk.busy()).then_some(self.held_until);
        [leaving, self.busy_until, held].into_iter().flatten().min().map(|at| self.real_time(at))
    }

    /// The next request that is done by now, and the virtual time at which it was.
    pub fn done(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let now = self.virtual_time(now);
        self.settle(now);
        match self.leaving.front() {
            Some((at, key)) if *at <= now => {
                let found = (*key, *at);
                self.leaving.pop_front();
                Some(found)
            }
            _ => None,
        }
    }

    /// Runs the disk up to a virtual time.
    fn settle(&mut self, now: Instant) {
        loop {
            match self.busy_until {
                Some(at) if at <= now => {
                    self.busy_until = None;
                    self.finish(at);
                    self.start(at);
                }
                None if self.disk.queued() > 0 && self.held_until <= now => {
                    self.start(self.held_until.max(self.settled));
                }
                _ => break,
            }
        }
        self.settled = self.settled.max(now);
    }

    fn start(&mut self, now: Instant) {
        if self.busy_until.is_none() && self.held_until <= now {
            self.busy_until = self.disk.start(now);
            self.settled = self.settled.max(now);
        }
    }

    fn finish(&mut self, at: Instant) {
        let key = self.disk.finish(at).op.tag;
        self.leave(at, key);
        self.release_flushes(at);
    }

    /// Writes what the drive's cache holds. Nothing else begins before that is done.
    fn empty_cache(&mut self, at: Instant) -> Instant {
        let begin = at.max(self.held_until);
        self.held_until = self.disk.flush(begin).max(begin);
        self.held_until
    }

    /// Flushes come before the queued commands. They are done when the cache is empty.
    fn release_flushes(&mut self, at: Instant) {
        if self.disk.busy() {
            return;
        }
        while let Some(key) = self.flushes.pop_front() {
            let on_medium = self.empty_cache(at);
            self.leave(on_medium, key);
        }
    }

    fn leave(&mut self, at: Instant, key: u64) {
        let position = self.leaving.partition_point(|(other, _)| *other <= at);
        self.leaving.insert(position, (at, key));
    }
}
