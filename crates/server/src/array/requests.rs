//! Requests of clients in flight, and how long they took.

use super::latency::Latencies;
use super::tap::{Seen, SeenOp, Tap};
use crate::Token;
use destage_engine::units::Instant;
use destage_report::live::LatencyStatus;
use destage_served::{Command, Slab, Ticket, Volume};
use hdrhistogram::Histogram;
use std::collections::BTreeSet;

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    Flush,
}

struct Waiting {
    token: Token,
    since: Instant,
    kind: Kind,
}

/// The requests of clients. Arrays are of reads, writes and flushes.
pub(super) struct Requests {
    waiting: Slab<Waiting>,
    /// Response times in nanoseconds, exact to three digits, for the status.
    times: [Histogram<u64>; 3],
    /// The same in few buckets, for the monitor, which takes a copy each second.
    latencies: [Latencies; 3],
    read_bytes: u64,
    written_bytes: u64,
    tap: Option<Tap>,
    /// The next request may have come earlier than it was taken.
    held_back: bool,
}

impl Default for Requests {
    fn default() -> Requests {
        let histogram = || Histogram::new_with_bounds(1, 1 << 40, 3).expect("bounds that fit");
        Requests {
            waiting: Slab::default(),
            times: [histogram(), histogram(), histogram()],
            latencies: Default::default(),
            read_bytes: 0,
            written_bytes: 0,
            tap: None,
            held_back: false,
        }
    }
}

impl Requests {
    /// Copies each request into this queue.
    pub(super) fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// The next request may have come earlier than it is taken.
    pub(super) fn held_back(&mut self) {
        self.held_back = true;
    }

    /// A request has come; returns its ticket.
    #[inline]
    pub(super) fn begin(
        &mut self,
        now: Instant,
        token: Token,
        command: &Command,
        payload: usize,
        volume: &Volume,
    ) -> Ticket {
        self.count(now, command, payload, volume);
        let kind = match command {
            Command::Read { .. } => Kind::Read,
            Command::Flush => Kind::Flush,
            _ => Kind::Write,
        };
        self.waiting.insert(Waiting { token, since: now, kind })
    }

    /// The requests for whose tokens this holds.
    pub(super) fn tickets_where(&self, holds: &dyn Fn(&Token) -> bool) -> BTreeSet<Ticket> {
        let waiting = self.waiting.iter();
        waiting.filter(|(_, waiting)| holds(&waiting.token)).map(|(ticket, _)| ticket).collect()
    }

    /// The request with this ticket is answered; returns what names it to the port.
    #[inline]
    pub(super) fn end(&mut self, now: Instant, ticket: Ticket) -> Token {
        let Waiting { token, since, kind } = self.waiting.remove(ticket);
        let ns = now.since(since).0;
        let _ = self.times[kind as usize].record(ns.max(1));
        self.latencies[kind as usize].record(ns);
        token
    }

    #[inline]
    fn count(&mut self, at: Instant, command: &Command, payload: usize, of: &Volume) {
        let (offset, bytes, op) = match *command {
            Command::Read { offset, bytes } => (offset, bytes as u64, SeenOp::Read),
            Command::Write { offset, .. } => (offset, payload as u64, SeenOp::Write),
            Command::Zero { offset, bytes, .. } => (offset, bytes, SeenOp::Write),
            Command::Trim { offset, bytes, .. } => (offset, bytes, SeenOp::Trim),
            Command::Flush => return,
        };
        match op {
            SeenOp::Read => self.read_bytes += bytes,
            SeenOp::Write => self.written_bytes += bytes,
            SeenOp::Trim => {}
        }
        let held_back = std::mem::take(&mut self.held_back);
        let Some(tap) = &self.tap else { return };
        let seen = || {
            let held = of.controller().directory().held_pages();
            Seen { at, offset, bytes, op, held_pages: held as u32, held_back }
        };
        tap.push(seen, op == SeenOp::Read);
    }

    /// Response times since the start, for the status.
    pub(super) fn latency_status(&self) -> [LatencyStatus; 3] {
        self.times.each_ref().map(latency_status)
    }

    /// Response times since the start, for the monitor.
    pub(super) fn latencies(&self) -> [Latencies; 3] {
        self.latencies.clone()
    }

    /// Bytes that clients have read and written.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.read_bytes, self.written_bytes)
    }
}

fn latency_status(times: &Histogram<u64>) -> LatencyStatus {
    let us = |ns: u64| ns as f64 / 1e3;
    if times.is_empty() {
        return LatencyStatus::default();
    }
    LatencyStatus {
        requests: times.len(),
        mean_us: times.mean() / 1e3,
        p50_us: us(times.value_at_quantile(0.5)),
        p99_us: us(times.value_at_quantile(0.99)),
        p999_us: us(times.value_at_quantile(0.999)),
        max_us: us(times.max()),
    }
}
