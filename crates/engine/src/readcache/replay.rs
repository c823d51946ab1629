//! Replays block requests through a read cache and counts what they cost the surviving disks.

use super::penalty::Penalties;
use super::{Access, ReadCache};
use crate::mix::{EVENT_HASH_OFFSET, fnv};
use crate::request::PageRange;

/// What a replay adds up to. RGR is `penalty / requests`, its warm form the same of the warm ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Block requests.
    pub requests: u64,
    /// Of them, those found in the cache.
    pub hits: u64,
    /// Requests to surviving disks that the misses cause.
    pub penalty: u64,
    /// Block requests that came when the cache was full.
    pub warm_requests: u64,
    /// Their penalties.
    pub warm_penalty: u64,
}

impl Tally {
    /// Counts one block request.
    #[inline]
    pub fn count(&mut self, hit: bool, warm: bool, penalty: u64) {
        self.requests += 1;
        self.hits += u64::from(hit);
        self.penalty += penalty;
        if warm {
            self.warm_requests += 1;
            self.warm_penalty += penalty;
        }
    }
}

/// A hash over every hit, miss and eviction, in order (FNV-1a; docs/readcache.md).
#[derive(Clone, Copy, Debug)]
pub struct EventHash(u64);

impl Default for EventHash {
    fn default() -> EventHash {
        EventHash(EVENT_HASH_OFFSET)
    }
}

impl EventHash {
    /// Adds one block request: a byte, 1 for a hit, then the evicted block or all ones.
    pub fn add(&mut self, access: Access) {
        let evicted = access.evicted.unwrap_or(u64::MAX).to_le_bytes();
        self.0 = fnv(fnv(self.0, &[u8::from(access.hit)]), &evicted);
    }

    /// The hash so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Replays these ranges, blocks ascending, into the tally. `event` receives every block request.
/// Without events, [`ReadCache::run`] does the same faster.
pub fn replay(
    cache: &mut dyn ReadCache,
    ranges: &[PageRange],
    penalties: &Penalties,
    tally: &mut Tally,
    event: &mut dyn FnMut(u64, Access),
) {
    for range in ranges {
        for block in range.first.0..range.end().0 {
            let warm = cache.held() == cache.blocks();
            let access = cache.access(block);
            tally.count(access.hit, warm, if access.hit { 0 } else { penalties.of(block) });
            event(block, access);
        }
    }
}
