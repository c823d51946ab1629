//! The open loop: Poisson arrivals that wait for nobody.

use destage_engine::units::Instant;

use super::pattern::BoxedPattern;
use crate::random::Seeded;
use crate::source::{Source, SourceError, SourceRequest};

/// Poisson arrivals over a pattern. Any number of requests may be outstanding.
pub(super) struct Open {
    pattern: BoxedPattern,
    gaps: Seeded,
    gap_ns_mean: f64,
    iops: f64,
    next: Instant,
    left: u64,
}

impl Open {
    /// `limit` requests at `iops` per second; the first comes one gap after the origin.
    pub(super) fn new(pattern: BoxedPattern, iops: f64, seed: u64, limit: u64) -> Open {
        let mut gaps = Seeded::new(seed, "open/gaps");
        let gap_ns_mean = 1e9 / iops;
        let next = Instant(gaps.exponential_ns(gap_ns_mean));
        Open { pattern, gaps, gap_ns_mean, iops, next, left: limit }
    }
}

impl Source for Open {
    fn next_at(&mut self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }

    fn take(&mut self, _now: Instant) -> Result<SourceRequest, SourceError> {
        let arrival = self.next;
        self.left -= 1;
        self.next.0 += self.gaps.exponential_ns(self.gap_ns_mean);
        let access = self.pattern.next_access();
        Ok(SourceRequest { arrival, tag: 0, direction: access.direction, range: access.range })
    }

    fn completed(&mut self, _tag: u32, _now: Instant) {}

    fn target_iops(&self) -> Option<f64> {
        Some(self.iops)
    }
}
