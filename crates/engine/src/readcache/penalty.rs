//! What a miss costs the surviving disks of a parity array: the penalties of docs/readcache.md.

use super::fault::Weight;
use crate::array::geometry::{DISKS_MAX, Geometry, Level, Redundancy};
use crate::units::{Page, StripeId};
use alloc::boxed::Box;
use alloc::vec;

/// Blocks of a chunk unless said otherwise.
pub const CHUNK_BLOCKS: u64 = 16;

/// Why penalties cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PenaltyError {
    /// The level has no parity to read a lost block from.
    NoParity(&'static str),
    /// Too few or too many disks for the level.
    Disks {
        /// The level.
        level: &'static str,
        /// Fewest.
        least: u16,
        /// What was given.
        given: u64,
    },
    /// The array has no such disk.
    NoSuchDisk {
        /// What was given.
        failed: u64,
        /// Disks in the array.
        disks: u16,
    },
    /// More disks failed than the level tolerates.
    TooManyFailed(&'static str),
    /// A chunk of no blocks.
    NoChunk,
}

impl core::fmt::Display for PenaltyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            PenaltyError::NoParity(level) => {
                write!(f, "level {level} has no parity; fault-aware read caches need it")
            }
            PenaltyError::Disks { level, least, given } => {
                write!(f, "level {level} takes {least} to {DISKS_MAX} disks, not {given}")
            }
            PenaltyError::NoSuchDisk { failed, disks } => {
                write!(f, "disk {failed} cannot fail: the array has disks 0 to {}", disks - 1)
            }
            PenaltyError::TooManyFailed(level) => {
                write!(f, "level {level} does not survive that many failed disks")
            }
            PenaltyError::NoChunk => write!(f, "a chunk must have at least 1 block"),
        }
    }
}

impl core::error::Error for PenaltyError {}

const DATA_LOST: u8 = 1;
const PARITY_LOST: u8 = 2;

/// What a missed block costs with the failed disks of an array. Made once per fault; a look-up is
/// one remainder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Penalties {
    chunk_blocks: u64,
    disks: u16,
    single_parity: bool,
    /// Penalty of a block that is lost.
    lost: u64,
    /// By chunk number modulo its length: what of the chunk and its parity is lost.
    pattern: Box<[u8]>,
    /// 2^64 divided by the length of the pattern, rounded up.
    reciprocal: u64,
    rebuilt_below: u64,
    /// As `pattern`, of the blocks below: of the disks that are not rebuilt. None: all are.
    below: Option<Box<[u8]>>,
}

#[inline]
fn divide(value: u64, by: u64) -> u64 {
    match (u32::try_from(value), u32::try_from(by)) {
        _ if by.is_power_of_two() => value >> by.trailing_zeros(),
        (Ok(value), Ok(by)) => u64::from(value / by),
        _ => value / by,
    }
}

impl Penalties {
    /// The penalties of an array of `disks` disks with these failed, each given once. None failed
    /// is allowed: every miss then costs 1.
    pub fn new(
        level: Level,
        disks: u64,
        failed: &[u64],
        chunk_blocks: u64,
    ) -> Result<Penalties, PenaltyError> {
        let name = level.name();
        if level.parities() == 0 {
            return Err(PenaltyError::NoParity(name));
        }
        let least = level.entry().disks_min;
        let few = u64::from(least)..=u64::from(DISKS_MAX);
        if !few.contains(&disks) {
            return Err(PenaltyError::Disks { level: name, least, given: disks });
        }
        let disks = disks as u16;
        if let Some(&failed) = failed.iter().find(|f| **f >= u64::from(disks)) {
            return Err(PenaltyError::NoSuchDisk { failed, disks });
        }
        if failed.len() > usize::from(level.parities()) {
            return Err(PenaltyError::TooManyFailed(name));
        }
        if chunk_blocks == 0 {
            return Err(PenaltyError::NoChunk);
        }
        let pattern = pattern(level, disks, failed);
        Ok(Penalties {
            chunk_blocks,
            disks,
            single_parity: level.parities() == 1,
            lost: u64::from(disks - level.parities()),
            reciprocal: u64::MAX / pattern.len() as u64 + 1,
            pattern,
            rebuilt_below: 0,
            below: None,
        })
    }

    /// The same with the blocks below `block` rebuilt: they weigh 1.
    #[must_use]
    pub fn rebuilt_below(mut self, block: u64) -> Penalties {
        self.rebuilt_below = block;
        self
    }

    /// The same with the blocks below `block` rebuilt, but not those of `others`.
    #[must_use]
    pub fn rebuilt_but(mut self, block: u64, level: Level, others: &[u64]) -> Penalties {
        self.rebuilt_below = block;
        self.below = (!others.is_empty()).then(|| pattern(level, self.disks, others));
        self
    }

    #[inline]
    fn what_is_lost(&self, block: u64) -> u8 {
        if block < self.rebuilt_below {
            let chunk = || divide(block, self.chunk_blocks);
            return self.below.as_ref().map_or(0, |below| below[self.turn(chunk())]);
        }
        let chunk = divide(block, self.chunk_blocks);
        self.pattern[self.turn(chunk)]
    }

    /// The chunk's number in its turn of the layout: a remainder, of 32-bit numbers by two
    /// multiplications, as a division takes longer than all the rest of a hit.
    #[inline]
    fn turn(&self, chunk: u64) -> usize {
        let length = self.pattern.len() as u64;
        match u32::try_from(chunk) {
            Ok(chunk) => {
                let fraction = self.reciprocal.wrapping_mul(u64::from(chunk));
                ((u128::from(fraction) * u128::from(length)) >> 64) as usize
            }
            Err(_) => (chunk % length) as usize,
        }
    }

    /// Whether the block must be computed from the other disks.
    #[inline]
    pub fn is_lost(&self, block: u64) -> bool {
        self.what_is_lost(block) & DATA_LOST != 0
    }

    /// Requests to the surviving disks that a miss of the block causes.
    #[inline]
    pub fn of(&self, block: u64) -> u64 {
        // Not a branch: which disk a block is on cannot be predicted.
        1 + u64::from(self.is_lost(block)) * (self.lost - 1)
    }

    /// Penalty of a block that is lost: n-1, or n-2 on level 6.
    pub fn of_lost(&self) -> u64 {
        self.lost
    }

    /// What the VDF paper has a lost block weigh: its penalty.
    pub fn weight(&self) -> Weight {
        Weight::quarters(self.lost.saturating_mul(4))
    }

    /// The chunks that are lost before any is rebuilt, and all chunks, over one turn of the layout.
    pub fn lost_share(&self) -> (u64, u64) {
        let lost = self.pattern.iter().filter(|what| **what & DATA_LOST != 0).count();
        (lost as u64, self.pattern.len() as u64)
    }

    /// Requests that a small write of the block causes, as the VDF paper counts them (section 6.5):
    /// 4, or n if the block or its parity is lost. `None` on level 6, which it does not discuss.
    pub fn write_paper(&self, block: u64) -> Option<u64> {
        let intact = self.what_is_lost(block) == 0;
        self.single_parity.then_some(if intact { 4 } else { u64::from(self.disks) })
    }

    /// Requests that a small write of the block really causes: n-1 where the block is lost (n-2
    /// reads, the parity written), 1 where its parity is (the block written), else 4.
    pub fn write_exact(&self, block: u64) -> Option<u64> {
        let requests = match self.what_is_lost(block) {
            0 => 4,
            PARITY_LOST => 1,
            _ => u64::from(self.disks) - 1,
        };
        self.single_parity.then_some(requests)
    }
}

/// What of each chunk is lost, over one turn of the layout.
fn pattern(level: Level, disks: u16, failed: &[u64]) -> Box<[u8]> {
    let rotates = matches!(level.entry().redundancy, Redundancy::Parity { rotates: true, .. });
    let turn = u64::from(if rotates { disks } else { 1 });
    let geometry = Geometry { level, disks, strip_pages: 1, group_stripes: 1, disk_pages: turn };
    let width = geometry.data_strips();
    let mut pattern = vec![0; (turn * width) as usize];
    for (chunk, what) in (0..).zip(&mut pattern) {
        let gone = |disk: u16| failed.contains(&u64::from(disk));
        let stripe = StripeId(chunk / width);
        if gone(geometry.place(Page(chunk)).disk.0) {
            *what |= DATA_LOST;
        }
        if gone(geometry.parity_disk(stripe).0) {
            *what |= PARITY_LOST;
        }
    }
    pattern.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raid5_of_five_loses_what_the_layout_says() {
        let penalties = Penalties::new(Level::Raid5, 5, &[0], 16).unwrap();
        // Parity on disks 4, 3, 2, 1, 0; data follows it.
        let lost: std::vec::Vec<u64> =
            (0..20).filter(|chunk| penalties.of(chunk * 16 + 15) == 4).collect();
        assert_eq!(lost, [0, 5, 10, 15]);
        assert_eq!(penalties.of(20 * 16), 4);
        assert_eq!(penalties.write_exact(0), Some(4));
        assert_eq!(penalties.write_exact(16 * 16), Some(1));
        assert_eq!(penalties.write_paper(16 * 16), Some(5));
        assert_eq!(penalties.write_paper(16), Some(4));
        assert_eq!(penalties.clone().rebuilt_below(1).of(0), 1);
        assert_eq!(penalties.of(u64::MAX), 4, "chunk 15 of its turn");
    }

    #[test]
    fn turns_are_remainders() {
        for disks in [3, 5, 8, 31, 1024] {
            let penalties = Penalties::new(Level::Raid5, disks, &[0], 16).unwrap();
            let length = disks * (disks - 1);
            for chunk in (0..50_000).chain(u64::from(u32::MAX) - 50_000..1 << 32).chain([1 << 40]) {
                assert_eq!(penalties.turn(chunk) as u64, chunk % length);
            }
        }
    }

    #[test]
    fn raid4_and_raid6() {
        let raid4 = Penalties::new(Level::Raid4, 4, &[3], 16).unwrap();
        assert!((0..100).all(|block| raid4.of(block) == 1 && raid4.write_exact(block) == Some(1)));
        let raid6 = Penalties::new(Level::Raid6, 6, &[1, 4], 16).unwrap();
        let lost = (0..24).filter(|chunk| raid6.of(chunk * 16) == 4).count();
        assert_eq!((lost, raid6.write_paper(0)), (8, None));
    }

    #[test]
    fn what_makes_no_penalties_is_refused() {
        let new = |level, disks, failed: &[u64]| Penalties::new(level, disks, failed, 16);
        assert_eq!(new(Level::Raid10, 4, &[0]), Err(PenaltyError::NoParity("10")));
        assert!(matches!(new(Level::Raid5, 2, &[0]), Err(PenaltyError::Disks { .. })));
        assert!(matches!(new(Level::Raid5, 5, &[5]), Err(PenaltyError::NoSuchDisk { .. })));
        assert_eq!(new(Level::Raid5, 5, &[0, 1]), Err(PenaltyError::TooManyFailed("5")));
        assert_eq!(Penalties::new(Level::Raid5, 5, &[], 0), Err(PenaltyError::NoChunk));
    }
}
