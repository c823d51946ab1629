//! Where requests go, without when: what the arrival loops draw from.

use destage_engine::request::{Direction, PageRange};
use destage_engine::units::Page;

use crate::random::Seeded;

/// One access: direction and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read or write.
    pub direction: Direction,
    /// Pages of the volume.
    pub range: PageRange,
}

/// An endless sequence of accesses. Deterministic from its seed.
pub trait Pattern {
    /// The next access.
    fn next_access(&mut self) -> Access;
}

/// A pattern that can be moved to a worker thread.
pub(super) type BoxedPattern = Box<dyn Pattern + Send>;

/// Draws directions: writes with a given share.
pub(super) struct Directions {
    random: Seeded,
    write_share: f64,
}

impl Directions {
    pub(super) fn new(seed: u64, write_share: f64) -> Directions {
        Directions { random: Seeded::new(seed, "direction"), write_share }
    }

    /// One more direction. Draws a number only if both occur.
    pub(super) fn draw(&mut self) -> Direction {
        if self.write_share >= 1.0 || self.write_share > 0.0 && self.random.chance(self.write_share)
        {
            Direction::Write
        } else {
            Direction::Read
        }
    }

    /// The access of `pages` pages from page `first`, with a direction drawn.
    pub(super) fn access(&mut self, first: u64, pages: u32) -> Access {
        Access { direction: self.draw(), range: PageRange::new(Page(first), pages) }
    }
}
