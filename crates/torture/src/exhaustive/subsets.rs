//! What a power failure may leave: which of the sectors that were not durable reached the medium.

use crate::device::SECTOR;
use std::collections::BTreeSet;

/// A sector that was written and is not durable.
pub(super) struct Pending {
    /// The device's place among all of them.
    pub(super) device: usize,
    pub(super) sector: u64,
    /// What it changes in the hash of the media, for each version that may be there.
    pub(super) changes: Vec<u64>,
}

/// Which subsets are tried. A subset says of each sector whether it, or which of its versions,
/// reached the medium.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// All subsets, if there are at most 2 to this power.
    pub all: u32,
    /// Else: one sector alone, and all but one, of at most this many sectors.
    pub singles: usize,
    /// Two sectors, and all but two, of at most this many sectors.
    pub pairs: usize,
    /// All subsets of runs of neighbouring sectors, of at most this many runs.
    pub runs: usize,
}

impl core::fmt::Display for Bound {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Bound { all, singles, pairs, runs } = self;
        write!(
            f,
            "all if at most {}; else none, all, each sector and all but each (of up to {singles}), \
             two likewise (of up to {pairs}), each set of runs (of up to {runs})",
            1u64 << all
        )
    }
}

/// The subsets within the bound: for each sector how many of its versions reached the medium.
pub(super) fn subsets(pending: &[Pending], bound: &Bound) -> BTreeSet<Vec<u8>> {
    let most: Vec<u8> = pending.iter().map(|sector| sector.changes.len() as u8).collect();
    let number = most.iter().try_fold(1u64, |all, most| all.checked_mul(u64::from(*most) + 1));
    if number.is_some_and(|number| number <= 1 << bound.all) {
        return all_of(&most);
    }
    let none = vec![0; most.len()];
    let mut found = BTreeSet::from([none.clone(), most.clone()]);
    if most.len() <= bound.singles {
        one_more(&mut found, &[none.clone(), most.clone()], &most);
    }
    if most.len() <= bound.pairs {
        let singles: Vec<Vec<u8>> = found.iter().cloned().collect();
        one_more(&mut found, &singles, &most);
    }
    let runs: Vec<usize> = run_of_each(pending);
    let count = runs.last().map_or(0, |last| last + 1);
    if count <= bound.runs {
        for set in 0u64..1 << count {
            let kept = |(run, most): (&usize, &u8)| if set >> run & 1 == 1 { *most } else { 0 };
            found.insert(runs.iter().zip(&most).map(kept).collect());
        }
    }
    found
}

fn all_of(most: &[u8]) -> BTreeSet<Vec<u8>> {
    most.iter().fold(BTreeSet::from([Vec::new()]), |all, most| {
        let with = |one: Vec<u8>| {
            (0..=*most).map(move |kept| {
                let mut longer = one.clone();
                longer.push(kept);
                longer
            })
        };
        all.into_iter().flat_map(with).collect()
    })
}

/// Those that differ from one of `from` in one sector.
fn one_more(found: &mut BTreeSet<Vec<u8>>, from: &[Vec<u8>], most: &[u8]) {
    for one in from {
        for (sector, most) in most.iter().enumerate() {
            for kept in 0..=*most {
                let mut other = one.clone();
                other[sector] = kept;
                found.insert(other);
            }
        }
    }
}

/// The number of the run of neighbours that each sector is in.
fn run_of_each(pending: &[Pending]) -> Vec<usize> {
    let mut run = 0;
    let mut last: Option<&Pending> = None;
    let of = |sector: &Pending, last: Option<&Pending>| {
        last.is_some_and(|last| (last.device, last.sector + 1) == (sector.device, sector.sector))
    };
    pending
        .iter()
        .map(|sector| {
            run += usize::from(last.is_some() && !of(sector, last));
            last = Some(sector);
            run
        })
        .collect()
}

/// Hash of a sector's bytes at its place; zeros: 0. The hash of all media is the XOR of these.
pub(super) fn hash(device: usize, sector: u64, bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let (mut any, mut lanes) = (0, [1, 2, 3, 4]);
    // Four at a time, because each needs the one before it.
    for words in bytes[..SECTOR].chunks_exact(32) {
        for (lane, bytes) in lanes.iter_mut().zip(words.chunks_exact(8)) {
            let word = word(bytes);
            any |= word;
            *lane = mix(*lane, word);
        }
    }
    if any == 0 {
        return 0;
    }
    lanes.into_iter().fold(mix(device as u64 + 1, sector + 1), mix)
}

/// Mixes a value into a hash.
pub(super) fn mix(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ 0x9E37_79B9_7F4A_7C15)
        * u128::from(value ^ 0xBF58_476D_1CE4_E5B9 ^ hash.rotate_left(29));
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(sectors: &[(usize, u64)]) -> Vec<Pending> {
        let one = |(device, sector): &(usize, u64)| Pending {
            device: *device,
            sector: *sector,
            changes: vec![1],
        };
        sectors.iter().map(one).collect()
    }

    #[test]
    fn few_sectors_give_all_subsets_and_many_those_of_the_bound() {
        let bound = Bound { all: 3, singles: 10, pairs: 4, runs: 2 };
        assert_eq!(subsets(&pending(&[(0, 1), (0, 5), (1, 2)]), &bound).len(), 8);
        let four = pending(&[(0, 1), (0, 2), (1, 2), (1, 3)]);
        assert_eq!(subsets(&four, &bound).len(), 16, "none, 4, 6, 4, all");
        let five = pending(&[(0, 1), (0, 2), (0, 3), (1, 3), (1, 4)]);
        let found = subsets(&five, &bound);
        assert_eq!(found.len(), 2 + 5 + 5 + 2, "none, all, singles, and two runs");
        assert!(found.contains(&vec![1, 1, 1, 0, 0]));
        let many = Bound { singles: 4, pairs: 4, runs: 1, ..bound };
        assert_eq!(subsets(&five, &many).len(), 2);
        assert_eq!(subsets(&[], &bound).len(), 1);
    }

    #[test]
    fn a_sector_with_two_versions_has_three_outcomes() {
        let mut both = pending(&[(0, 1), (0, 2)]);
        both[0].changes.push(2);
        let bound = Bound { all: 3, singles: 0, pairs: 0, runs: 0 };
        assert_eq!(subsets(&both, &bound).len(), 6);
    }

    #[test]
    fn bytes_and_places_that_differ_have_other_hashes() {
        let (mut one, mut two) = ([0; SECTOR], [0; SECTOR]);
        (one[9], two[10]) = (1, 1);
        let all = [hash(0, 1, &one), hash(0, 1, &two), hash(1, 1, &one), hash(0, 2, &one)];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(hash(0, 1, &[0; SECTOR]), 0);
    }
}
