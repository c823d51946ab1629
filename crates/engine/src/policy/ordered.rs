//! Groups in address order: insert, remove, and the first at or after an address.
//!
//! A hierarchy of bitmaps (64-way) over all groups of the volume where that costs at most 8
//! bytes per page of NVS (or a megabyte), so each operation touches one word per level; a B-tree
//! where the volume is too large for that.

use crate::units::GroupId;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

const DENSE_BYTES_MIN: u64 = 1 << 20;
const DENSE_BYTES_PER_PAGE: u64 = 8;

/// Some successive groups of a set: those of one word of the bitmap, found together.
pub struct Run {
    base: u64,
    bits: u64,
}

impl Iterator for Run {
    type Item = GroupId;

    #[inline]
    fn next(&mut self) -> Option<GroupId> {
        if self.bits == 0 {
            return None;
        }
        let group = GroupId(self.base + u64::from(self.bits.trailing_zeros()));
        self.bits &= self.bits - 1;
        Some(group)
    }
}

/// An ordered set of groups.
pub enum OrderedGroups {
    /// Bitmaps, leaves first; each further level has a bit for each word of the one below.
    Dense(Vec<Vec<u64>>),
    /// A B-tree.
    Sparse(BTreeSet<u64>),
}

impl OrderedGroups {
    /// An empty set over groups `0..groups` for an NVS of `nvs_pages`.
    pub fn new(groups: u64, nvs_pages: u64) -> OrderedGroups {
        if groups / 8 > (nvs_pages * DENSE_BYTES_PER_PAGE).max(DENSE_BYTES_MIN) {
            return OrderedGroups::Sparse(BTreeSet::new());
        }
        let mut levels = Vec::new();
        let mut words = groups.div_ceil(64).max(1) as usize;
        loop {
            levels.push(vec![0u64; words]);
            if words == 1 {
                return OrderedGroups::Dense(levels);
            }
            words = words.div_ceil(64);
        }
    }

    /// Adds a group.
    pub fn insert(&mut self, group: GroupId) {
        match self {
            OrderedGroups::Sparse(set) => {
                set.insert(group.0);
            }
            OrderedGroups::Dense(levels) => {
                let mut at = group.0;
                for level in levels {
                    let word = &mut level[(at >> 6) as usize];
                    let was = *word;
                    *word |= 1 << (at & 63);
                    if was != 0 {
                        return;
                    }
                    at >>= 6;
                }
            }
        }
    }

    /// Takes a group out.
    pub fn remove(&mut self, group: GroupId) {
        match self {
            OrderedGroups::Sparse(set) => {
                set.remove(&group.0);
            }
            OrderedGroups::Dense(levels) => {
                let mut at = group.0;
                for level in levels {
                    let word = &mut level[(at >> 6) as usize];
                    *word &= !(1 << (at & 63));
                    if *word != 0 {
                        return;
                    }
                    at >>= 6;
                }
            }
        }
    }

    /// The lowest group not below `from`.
    pub fn at_or_after(&self, from: u64) -> Option<GroupId> {
        match self {
            OrderedGroups::Sparse(set) => set.range(from..).next().copied().map(GroupId),
            OrderedGroups::Dense(levels) => {
                let mut at = from;
                for (height, level) in levels.iter().enumerate() {
                    let word = (at >> 6) as usize;
                    let rest = level.get(word)? & (u64::MAX << (at & 63));
                    if rest != 0 {
                        let found = (word as u64) << 6 | u64::from(rest.trailing_zeros());
                        return Some(GroupId(descend(levels, height, found, u64::trailing_zeros)));
                    }
                    at = (at >> 6) + 1;
                }
                None
            }
        }
    }

    /// The highest group not above `from`.
    pub fn at_or_before(&self, from: u64) -> Option<GroupId> {
        match self {
            OrderedGroups::Sparse(set) => set.range(..=from).next_back().copied().map(GroupId),
            OrderedGroups::Dense(levels) => {
                let bits = levels[0].len() as u64 * 64;
                let mut at = from.min(bits - 1);
                for (height, level) in levels.iter().enumerate() {
                    let word = (at >> 6) as usize;
                    let rest = level[word] & (u64::MAX >> (63 - (at & 63)));
                    if rest != 0 {
                        let found = (word as u64) << 6 | u64::from(highest(rest));
                        return Some(GroupId(descend(levels, height, found, highest)));
                    }
                    at = (at >> 6).checked_sub(1)?;
                }
                None
            }
        }
    }

    /// [`OrderedGroups::next`] and, as far as one look shows them, the groups after it.
    pub fn run(&self, from: u64) -> Option<Run> {
        let GroupId(first) = self.next(from)?;
        Some(match self {
            OrderedGroups::Sparse(_) => Run { base: first, bits: 1 },
            OrderedGroups::Dense(levels) => {
                let bits = levels[0][(first >> 6) as usize] & (u64::MAX << (first & 63));
                Run { base: first & !63, bits }
            }
        })
    }

    /// The lowest group not below `from`, or else the lowest of all.
    pub fn next(&self, from: u64) -> Option<GroupId> {
        self.at_or_after(from).or_else(|| if from == 0 { None } else { self.at_or_after(0) })
    }
}

/// Number of the highest bit of a word that is not 0.
fn highest(word: u64) -> u32 {
    63 - word.leading_zeros()
}

/// From a bit at `height` down to a group: the lowest or the highest below it.
fn descend(levels: &[Vec<u64>], height: usize, mut at: u64, end: fn(u64) -> u32) -> u64 {
    for level in levels[..height].iter().rev() {
        at = at << 6 | u64::from(end(level[at as usize]));
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_agree_with_a_tree() {
        const GROUPS: u64 = 300_000;
        let mut dense = OrderedGroups::new(GROUPS, 1000);
        assert!(matches!(dense, OrderedGroups::Dense(_)));
        let mut tree = OrderedGroups::Sparse(BTreeSet::new());
        let mut state = 7u64;
        for round in 0..40_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Mostly a narrow band, so that groups are met again.
            let span = if round % 3 == 0 { GROUPS } else { 500 };
            let group = GroupId((state >> 33) % span);
            if state >> 62 == 0 {
                dense.remove(group);
                tree.remove(group);
            } else if round % 7 == 0 {
                dense.insert(group);
                tree.insert(group);
            }
            assert_eq!(dense.next(group.0), tree.next(group.0));
            assert_eq!(dense.at_or_before(group.0), tree.at_or_before(group.0));
        }
        for set in [&mut dense, &mut tree] {
            while let Some(group) = set.next(GROUPS / 2) {
                set.remove(group);
            }
            assert_eq!(set.next(0), None);
        }
    }
}
