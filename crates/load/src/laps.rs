//! Counting by laps: the first is the warm-up, each other one an interval.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Place of reads in [`Tally::kinds`].
pub const READ: usize = 0;
/// Place of writes.
pub const WRITE: usize = 1;
/// Place of flushes.
pub const FLUSH: usize = 2;

fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(100, 3_600_000_000_000, 3).expect("bounds that it takes")
}

/// Requests of one kind.
#[derive(Debug, Clone)]
pub struct Kind {
    /// Nanoseconds from the start of a request to its reply. In an open loop they count from when
    /// it was due.
    pub latency_ns: Histogram<u64>,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Bytes of the other requests.
    pub bytes: u64,
}

/// Requests that were answered in some time.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Reads, writes and flushes.
    pub kinds: [Kind; 3],
    /// Nanoseconds between when requests were due and when they started; empty in a closed loop.
    pub begun_late_ns: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        let kind = || Kind { latency_ns: times(), errors: 0, bytes: 0 };
        Tally { kinds: [kind(), kind(), kind()], begun_late_ns: times() }
    }
}

impl Tally {
    /// Answered requests of all kinds.
    pub fn requests(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.latency_ns.len()).sum()
    }

    pub(super) fn record(&mut self, kind: usize, ns: u64, bytes: u64, failed: bool) {
        let kind = &mut self.kinds[kind];
        kind.latency_ns.saturating_record(ns);
        if failed {
            kind.errors += 1;
        } else {
            kind.bytes += bytes;
        }
    }

    fn add(&mut self, other: &Tally) {
        for (sum, part) in self.kinds.iter_mut().zip(&other.kinds) {
            if !part.latency_ns.is_empty() {
                sum.latency_ns.add(&part.latency_ns).expect("the same bounds");
            }
            sum.errors += part.errors;
            sum.bytes += part.bytes;
        }
        if !other.begun_late_ns.is_empty() {
            self.begun_late_ns.add(&other.begun_late_ns).expect("the same bounds");
        }
    }
}

/// A lap of all workers.
#[derive(Debug)]
pub struct Lap {
    /// When it began, from the end of the warm-up.
    pub begin: Duration,
    /// When it ended.
    pub end: Duration,
    /// What was answered in it.
    pub tally: Tally,
}

/// A lap of one worker: its number, when it ended, what was answered in it.
pub(super) type Part = (u64, u64, Box<Tally>);

/// One worker's laps.
pub(super) struct Laps {
    number: u64,
    end_ns: u64,
    interval_ns: u64,
    pub(super) tally: Box<Tally>,
    parts: Sender<Part>,
}

impl Laps {
    pub(super) fn new(warmup: Duration, interval: Option<Duration>, parts: Sender<Part>) -> Laps {
        let interval_ns = interval.map_or(u64::MAX, |interval| interval.as_nanos() as u64);
        let warmup_ns = warmup.as_nanos() as u64;
        let (number, end_ns) = if warmup_ns > 0 { (0, warmup_ns) } else { (1, interval_ns) };
        Laps { number, end_ns, interval_ns, tally: Box::default(), parts }
    }

    /// Ends the laps that are over.
    #[inline]
    pub(super) fn at(&mut self, now_ns: u64) {
        while now_ns >= self.end_ns {
            let end_ns = self.end_ns;
            self.end_ns = end_ns.saturating_add(self.interval_ns);
            self.hand_over(end_ns);
        }
    }

    /// Ends the last lap.
    pub(super) fn finish(&mut self, now_ns: u64) {
        self.at(now_ns);
        self.hand_over(now_ns);
    }

    fn hand_over(&mut self, end_ns: u64) {
        let tally = std::mem::take(&mut self.tally);
        // Without a receiver, the run has failed already.
        let _ = self.parts.send((self.number, end_ns, tally));
        self.number += 1;
    }
}

/// Puts the workers' laps together.
pub(super) struct Collector {
    workers: usize,
    warmup: Duration,
    /// Laps that not all workers have ended: how many have, the last end, and what they counted.
    open: BTreeMap<u64, (usize, u64, Tally)>,
    begin: Duration,
    /// All but the warm-up.
    pub(super) sum: Tally,
}

impl Collector {
    pub(super) fn new(warmup: Duration, workers: usize) -> Collector {
        Collector {
            workers,
            warmup,
            open: BTreeMap::new(),
            begin: Duration::ZERO,
            sum: Tally::default(),
        }
    }

    /// Takes a worker's lap; returns the lap that it completes.
    pub(super) fn take(&mut self, (number, end_ns, part): Part) -> Option<Lap> {
        if number == 0 {
            return None;
        }
        let lap = self.open.entry(number).or_insert_with(|| (0, 0, Tally::default()));
        lap.0 += 1;
        lap.1 = lap.1.max(end_ns);
        lap.2.add(&part);
        if lap.0 < self.workers { None } else { self.close() }
    }

    /// The next lap that is left at the end: workers do not end at the same time.
    pub(super) fn close(&mut self) -> Option<Lap> {
        let (_, end_ns, tally) = self.open.pop_first()?.1;
        self.sum.add(&tally);
        let end = Duration::from_nanos(end_ns).saturating_sub(self.warmup);
        let begin = std::mem::replace(&mut self.begin, end);
        Some(Lap { begin, end, tally })
    }

    /// When the last lap ended, from the end of the warm-up.
    pub(super) fn end(&self) -> Duration {
        self.begin
    }
}
