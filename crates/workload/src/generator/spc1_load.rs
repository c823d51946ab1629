//! The SPC-1-like load: eight Poisson streams a BSU, with a bound on what a BSU has outstanding.
//!
//! Open loop: arrivals keep to their schedule; those that find their BSU at its bound wait here, in
//! order, and are issued as completions free places, with their scheduled time as `arrival`. The
//! requests and their schedule are thus the same whatever the array does. Semi-open: a stream that
//! finds its BSU at the bound stops until a place is free, in order of stopping; its next gap is
//! counted from there, and `arrival` is the time of issue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};
use destage_engine::units::Instant;

use super::common;
use super::pattern::Access;
use super::spc1::{PAGES_MIN, STREAM_NAMES, STREAM_SHARES, STREAMS, Streams, Style};
use super::{BoxedSource, WorkloadError};
use crate::random::Seeded;
use crate::source::{Source, SourceError, SourceRequest};

/// I/O per second of one BSU.
const BSU_IOPS: f64 = 50.0;

pub(super) const ENTRY: Entry = Entry {
    name: "spc1",
    summary: "SPC-1-like streams (v1): three storage units, walks, sequential runs; not SPC-1",
    source: "McNutt's hierarchical reuse; docs/simulator.md, SPC-1-like",
    params: &[
        Param {
            name: "iops",
            unit: "1/s",
            default: "500",
            range: "1..100000000",
            help: "target rate, shared by max(1, round(iops / 50)) BSUs",
        },
        Param {
            name: "loop",
            unit: "-",
            default: "open",
            range: "open|semi-open",
            help: "open: arrivals keep their schedule; semi-open: a blocked stream's clock shifts",
        },
        Param {
            name: "style",
            unit: "-",
            default: "classic",
            range: "classic|v2",
            help: "form of the hierarchical walk",
        },
        Param {
            name: "bound",
            unit: "-",
            default: "8",
            range: "1..1000000",
            help: "requests a BSU may have outstanding",
        },
        Param {
            name: "bsus",
            unit: "-",
            default: "0",
            range: "0..100000",
            help: "number of BSUs; 0: one for every 50 I/O per second",
        },
        common::REQUESTS,
        common::SPAN,
    ],
};

/// Whether arrivals keep to their schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// They do; late ones wait in the source.
    Open,
    /// A blocked stream's clock shifts.
    SemiOpen,
}

/// Everything that defines an SPC-1-like load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spc1Config {
    /// Requests per second, over all BSUs.
    pub target_iops: f64,
    /// Form of the walk.
    pub style: Style,
    /// Open or semi-open.
    pub arrivals: Loop,
    /// Requests a BSU may have outstanding, at least 1.
    pub bound: u32,
    /// Number of BSUs; 0: one for every 50 I/O per second.
    pub bsus: u32,
    /// Pages used, from the start of the volume; at least [`PAGES_MIN`].
    pub span_pages: u64,
    /// Requests before the load ends.
    pub request_limit: u64,
}

pub(super) fn build(
    choice: &Choice,
    volume_pages: u64,
    seed: u64,
) -> Result<BoxedSource, WorkloadError> {
    let span_pages = common::span_pages(choice, volume_pages)?;
    let config = Spc1Config {
        target_iops: choice.number("iops", 1.0, common::IOPS_MAX)?,
        style: one_of(choice, "style", &[("classic", Style::Classic), ("v2", Style::V2)])?,
        arrivals: one_of(choice, "loop", &[("open", Loop::Open), ("semi-open", Loop::SemiOpen)])?,
        bound: choice.number("bound", 1, 1_000_000)?,
        bsus: choice.number("bsus", 0, 100_000)?,
        span_pages,
        request_limit: common::request_limit(choice)?,
    };
    if config.bsu_count() > 100_000 {
        let expected = String::from("given when iops is above 5000000");
        let (entry, param, value) = (ENTRY.name, "bsus", String::from("0"));
        return Err(ChoiceError::BadValue { entry, param, value, expected }.into());
    }
    if span_pages < PAGES_MIN {
        let (workload, needed_pages) = (ENTRY.name, PAGES_MIN);
        return Err(WorkloadError::TooSmall { workload, needed_pages, pages: span_pages });
    }
    Ok(Box::new(Spc1::new(config, seed)))
}

/// The value of a parameter that has a few named ones.
fn one_of<T: Copy>(
    choice: &Choice,
    param: &'static str,
    known: &[(&str, T)],
) -> Result<T, ChoiceError> {
    let value = choice.text(param);
    known.iter().find(|k| k.0 == value).map(|k| k.1).ok_or_else(|| ChoiceError::BadValue {
        entry: choice.entry.name,
        param,
        value: value.to_string(),
        expected: known.iter().map(|k| k.0).collect::<Vec<_>>().join(" or "),
    })
}

impl Spc1Config {
    /// Number of BSUs that share the target.
    pub fn bsu_count(&self) -> u32 {
        match self.bsus {
            0 => libm::round(self.target_iops / BSU_IOPS).max(1.0) as u32,
            given => given,
        }
    }
}

/// A request that found its BSU at the bound, or a stream that stopped there.
struct Waiting {
    scheduled_ns: u64,
    stream: u32,
    /// The request, already drawn in an open loop.
    access: Option<Access>,
}

/// One BSU.
#[derive(Default)]
struct Bsu {
    outstanding: u32,
    waiting: VecDeque<Waiting>,
    /// Whether its first waiting request is in `Spc1::ready`.
    in_ready: bool,
}

/// Arrival clock of one stream.
struct Clock {
    random: Seeded,
    gap_ns_mean: f64,
}

/// The load.
pub struct Spc1 {
    config: Spc1Config,
    streams: Streams,
    clocks: Vec<Clock>,
    /// Next scheduled arrival of every stream.
    arrivals: Tournament,
    bsus: Vec<Bsu>,
    /// BSUs at their bound.
    full_bsus: usize,
    /// (issue time, scheduled time, BSU) of BSUs that have a free place and a waiting request.
    ready: BinaryHeap<Reverse<(u64, u64, u32)>>,
    clock_ns: u64,
    left: u64,
}

impl Spc1 {
    /// The load that `config` describes.
    pub fn new(config: Spc1Config, seed: u64) -> Spc1 {
        let bsu_count = config.bsu_count();
        let bsu_iops = config.target_iops / f64::from(bsu_count);
        let stream_count = bsu_count as usize * STREAMS;
        let mut clocks: Vec<Clock> = (0..stream_count)
            .map(|index| {
                let (bsu, kind) = (index / STREAMS, index % STREAMS);
                let label = format!("spc1/bsu {bsu}/stream {}/gaps", STREAM_NAMES[kind]);
                let gap_ns_mean = 1e9 / (bsu_iops * STREAM_SHARES[kind]);
                Clock { random: Seeded::new(seed, &label), gap_ns_mean }
            })
            .collect();
        let first: Vec<u64> = clocks.iter_mut().map(Clock::gap_ns).collect();
        Spc1 {
            config,
            streams: Streams::new(config.style, bsu_count, config.span_pages, seed),
            clocks,
            arrivals: Tournament::new(&first),
            bsus: (0..bsu_count).map(|_| Bsu::default()).collect(),
            full_bsus: 0,
            ready: BinaryHeap::new(),
            clock_ns: 0,
            left: config.request_limit,
        }
    }

    /// Moves arrivals that find their BSU at the bound, or others waiting there, out of the way,
    /// until the next one is free to be issued. Stops when no BSU has a place.
    fn settle(&mut self) -> Option<u64> {
        while self.full_bsus < self.bsus.len() {
            let (at_ns, stream) = self.arrivals.first();
            if let Some(Reverse((ready_ns, ..))) = self.ready.peek()
                && *ready_ns <= at_ns
            {
                return Some((*ready_ns).max(self.clock_ns));
            }
            if at_ns == u64::MAX {
                return None;
            }
            let bsu = &self.bsus[stream as usize / STREAMS];
            if bsu.outstanding < self.config.bound && bsu.waiting.is_empty() {
                return Some(at_ns.max(self.clock_ns));
            }
            self.set_aside(at_ns, stream);
        }
        None
    }

    /// Puts an arrival into its BSU's queue.
    fn set_aside(&mut self, scheduled_ns: u64, stream: u32) {
        let access = match self.config.arrivals {
            Loop::Open => {
                let next_ns = scheduled_ns + self.clocks[stream as usize].gap_ns();
                self.arrivals.set(stream, next_ns);
                Some(self.streams.next_access(stream as usize))
            }
            Loop::SemiOpen => {
                self.arrivals.set(stream, u64::MAX);
                None
            }
        };
        let bsu = &mut self.bsus[stream as usize / STREAMS];
        bsu.waiting.push_back(Waiting { scheduled_ns, stream, access });
    }

    /// If the BSU has a free place and a waiting request, announces it.
    fn announce(&mut self, index: u32) {
        let bsu = &mut self.bsus[index as usize];
        if bsu.in_ready || bsu.outstanding >= self.config.bound {
            return;
        }
        if let Some(waiting) = bsu.waiting.front() {
            bsu.in_ready = true;
            let issue_ns = waiting.scheduled_ns.max(self.clock_ns);
            self.ready.push(Reverse((issue_ns, waiting.scheduled_ns, index)));
        }
    }

    /// Issues the first waiting request of the BSU announced first.
    fn take_waiting(&mut self, now_ns: u64) -> SourceRequest {
        let Reverse((_, _, index)) = self.ready.pop().expect("a BSU was announced");
        let bsu = &mut self.bsus[index as usize];
        bsu.in_ready = false;
        let waiting = bsu.waiting.pop_front().expect("an announced BSU has a waiting request");
        let (arrival_ns, access) = match waiting.access {
            Some(access) => (waiting.scheduled_ns, access),
            None => {
                let next_ns = now_ns + self.clocks[waiting.stream as usize].gap_ns();
                self.arrivals.set(waiting.stream, next_ns);
                (now_ns, self.streams.next_access(waiting.stream as usize))
            }
        };
        self.issue(arrival_ns, waiting.stream, access)
    }

    /// Issues the earliest scheduled arrival.
    fn take_scheduled(&mut self, now_ns: u64) -> SourceRequest {
        let (scheduled_ns, stream) = self.arrivals.first();
        let arrival_ns = match self.config.arrivals {
            Loop::Open => scheduled_ns,
            Loop::SemiOpen => now_ns,
        };
        self.arrivals.set(stream, arrival_ns + self.clocks[stream as usize].gap_ns());
        let access = self.streams.next_access(stream as usize);
        self.issue(arrival_ns, stream, access)
    }

    fn issue(&mut self, arrival_ns: u64, stream: u32, access: Access) -> SourceRequest {
        let index = stream / STREAMS as u32;
        let bsu = &mut self.bsus[index as usize];
        bsu.outstanding += 1;
        self.full_bsus += usize::from(bsu.outstanding == self.config.bound);
        self.announce(index);
        SourceRequest {
            arrival: Instant(arrival_ns),
            tag: stream,
            direction: access.direction,
            range: access.range,
        }
    }
}

impl Source for Spc1 {
    fn next_at(&mut self) -> Option<Instant> {
        if self.left == 0 {
            return None;
        }
        self.settle().map(Instant)
    }

    fn take(&mut self, now: Instant) -> Result<SourceRequest, SourceError> {
        self.settle().expect("next_at announced a request");
        self.clock_ns = self.clock_ns.max(now.0);
        self.left -= 1;
        let scheduled_ns = self.arrivals.first().0;
        let waiting_first = self.ready.peek().is_some_and(|r| r.0.0 <= scheduled_ns);
        let now_ns = self.clock_ns;
        Ok(if waiting_first { self.take_waiting(now_ns) } else { self.take_scheduled(now_ns) })
    }

    fn completed(&mut self, tag: u32, now: Instant) {
        self.clock_ns = self.clock_ns.max(now.0);
        let index = tag / STREAMS as u32;
        let bsu = &mut self.bsus[index as usize];
        self.full_bsus -= usize::from(bsu.outstanding == self.config.bound);
        bsu.outstanding -= 1;
        self.announce(index);
    }

    fn target_iops(&self) -> Option<f64> {
        Some(self.config.target_iops)
    }

    fn bound(&self) -> String {
        format!("{} a BSU, {} BSUs", self.config.bound, self.bsus.len())
    }
}

impl Clock {
    #[inline]
    fn gap_ns(&mut self) -> u64 {
        self.random.exponential_ns(self.gap_ns_mean)
    }
}

/// The earliest of many times, kept by a tree of winners: changing one costs its path to the root.
struct Tournament {
    leaves: usize,
    /// Node 1 is the root; the entrants follow the inner nodes. (time, entrant), ties to the lower.
    nodes: Vec<(u64, u32)>,
}

impl Tournament {
    fn new(times_ns: &[u64]) -> Tournament {
        let leaves = times_ns.len().next_power_of_two();
        let mut nodes = vec![(u64::MAX, u32::MAX); 2 * leaves];
        for (entrant, &time_ns) in times_ns.iter().enumerate() {
            nodes[leaves + entrant] = (time_ns, entrant as u32);
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        Tournament { leaves, nodes }
    }

    /// The earliest time and its entrant.
    #[inline]
    fn first(&self) -> (u64, u32) {
        self.nodes[1]
    }

    #[inline]
    fn set(&mut self, entrant: u32, time_ns: u64) {
        let mut node = self.leaves + entrant as usize;
        self.nodes[node] = (time_ns, entrant);
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
        }
    }
}
