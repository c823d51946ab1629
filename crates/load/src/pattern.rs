//! The requests of a pattern, as a feed for each connection.

use super::feed::{Feed, FeedError, FeedRequest};
use super::known::Units;
use super::load::{Load, Pattern};
use destage_engine::mix::mix;

/// Random or ascending blocks. Connection `number` of `n` uses the blocks `number`, `number + n`,
/// ..., so that no two connections write to the same one.
pub(super) struct PatternFeed {
    pattern: Pattern,
    units: Units,
    /// Blocks that are its own.
    blocks: u64,
    state: u64,
    next: u64,
}

impl PatternFeed {
    pub(super) fn new(load: &Load, size: u64, number: usize) -> PatternFeed {
        let units = Units::blocks(load, number);
        PatternFeed {
            pattern: load.pattern,
            units,
            blocks: (size / load.block - units.first).div_ceil(units.stride),
            state: mix(load.seed.wrapping_add((number as u64) << 32)),
            next: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(1);
        ((u128::from(mix(self.state)) * u128::from(below)) >> 64) as u64
    }
}

impl Feed for PatternFeed {
    fn next_at(&mut self) -> Option<u64> {
        Some(0)
    }

    fn take(&mut self, now_ns: u64) -> Result<FeedRequest, FeedError> {
        let block = if self.pattern.random {
            self.draw(self.blocks)
        } else {
            self.next = (self.next + 1) % self.blocks;
            self.next
        };
        let write = self.draw(100) < self.pattern.write_percent;
        let (offset, length) = (self.units.offset(block as usize), self.units.bytes);
        Ok(FeedRequest { due_ns: now_ns, tag: 0, write, offset, length })
    }

    fn completed(&mut self, _tag: u32, _now_ns: u64) {}
}
