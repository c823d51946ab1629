//! The closed loop: threads that each wait for their request before they issue the next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use destage_engine::units::{Duration, Instant};

use super::pattern::BoxedPattern;
use crate::source::{Source, SourceError, SourceRequest};

/// `threads` requests outstanding over a pattern, with a constant think time.
pub(super) struct Closed {
    pattern: BoxedPattern,
    threads: u32,
    think: Duration,
    /// Threads that may issue at once, in the order they became so.
    ready: VecDeque<(Instant, u32)>,
    /// Threads that think, earliest first; empty without think time.
    thinking: BinaryHeap<Reverse<(Instant, u32)>>,
    clock: Instant,
    left: u64,
}

impl Closed {
    /// `limit` requests in all; every thread issues its first at the origin.
    pub(super) fn new(pattern: BoxedPattern, threads: u32, think: Duration, limit: u64) -> Closed {
        let ready = (0..threads).map(|thread| (Instant::ZERO, thread)).collect();
        let thinking = BinaryHeap::new();
        Closed { pattern, threads, think, ready, thinking, clock: Instant::ZERO, left: limit }
    }
}

impl Source for Closed {
    fn next_at(&mut self) -> Option<Instant> {
        if self.left == 0 {
            return None;
        }
        let ready = self.ready.front().map(|r| r.0);
        let thinking = self.thinking.peek().map(|t| t.0.0);
        let earliest = ready.into_iter().chain(thinking).min()?;
        Some(earliest.max(self.clock))
    }

    fn take(&mut self, now: Instant) -> Result<SourceRequest, SourceError> {
        self.clock = self.clock.max(now);
        self.left -= 1;
        let thinker_first = match (self.ready.front(), self.thinking.peek()) {
            (Some(ready), Some(thinker)) => thinker.0.0 < ready.0,
            (ready, _) => ready.is_none(),
        };
        let (_, tag) = if thinker_first {
            self.thinking.pop().expect("next_at announced a thread").0
        } else {
            self.ready.pop_front().expect("next_at announced a thread")
        };
        let access = self.pattern.next_access();
        let arrival = now;
        Ok(SourceRequest { arrival, tag, direction: access.direction, range: access.range })
    }

    fn completed(&mut self, tag: u32, now: Instant) {
        if self.think == Duration::ZERO {
            self.ready.push_back((now, tag));
        } else {
            self.thinking.push(Reverse((now + self.think, tag)));
        }
    }

    fn bound(&self) -> String {
        format!("{} threads", self.threads)
    }
}
