//! Whether it pays that groups with few pages wait: ebb's measure of how much they grow
//! (docs/ebb.md, "Sparse groups").

/// Groups over which means are taken.
const MEMORY: u64 = 2048;
/// Groups that must have waited before their growth decides.
const SEEN: u64 = 512;
/// While it does not pay, one in this many picks makes groups wait, to measure again.
const PROBE: u32 = 16;

/// What is known of the groups that waited for one more turn.
#[derive(Default)]
pub struct Sparing {
    /// Pages of groups when they began to wait.
    before: Mean,
    /// Pages of those that waited, when they were picked.
    after: Mean,
    picks: u32,
}

impl Sparing {
    /// Whether groups that hold few pages wait at the next pick.
    pub fn spares(&mut self) -> bool {
        self.picks = self.picks.wrapping_add(1);
        self.pays() || self.picks.is_multiple_of(PROBE)
    }

    /// Whether groups that waited have grown by a thirty-second part.
    fn pays(&self) -> bool {
        self.after.count < SEEN || self.after.mean * 32 >= self.before.mean * 33
    }

    /// A group of `pages` begins to wait.
    pub fn begin(&mut self, pages: u64) {
        self.before.add(pages);
    }

    /// A group that waited is picked with `pages`.
    pub fn end(&mut self, pages: u64) {
        self.after.add(pages);
    }
}

/// The mean of the first numbers, and later one over about [`MEMORY`] of them.
#[derive(Default)]
struct Mean {
    /// In parts of 65,536.
    mean: i64,
    count: u64,
}

impl Mean {
    fn add(&mut self, number: u64) {
        self.count = (self.count + 1).min(MEMORY);
        self.mean += ((number << 16) as i64 - self.mean) / self.count as i64;
    }
}
