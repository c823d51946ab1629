//! What a verified load writes: every sector says where it belongs and which write it is of.

use destage_engine::mix::mix;

/// Bytes with a stamp of their own: what a disk writes completely or not at all.
pub const SECTOR: usize = 512;

const MAGIC: u64 = 0x6465_7374_6167_6531;

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
}

/// The words of a sector: magic, run, offset, generation, then a sequence drawn from them.
fn words(run: u64, offset: u64, generation: u64) -> impl Iterator<Item = u64> {
    let seed = mix(run ^ mix(offset ^ mix(generation)));
    let rest = (4..SECTOR as u64 / 8).map(move |at| seed.wrapping_mul(2 * at + 1));
    [MAGIC, run, offset, generation].into_iter().chain(rest)
}

/// Fills sectors from `offset` on.
pub fn stamp(bytes: &mut [u8], run: u64, offset: u64, generation: u64) {
    for (sector, number) in bytes.chunks_exact_mut(SECTOR).zip(0u64..) {
        let at = offset + number * SECTOR as u64;
        for (place, word) in sector.chunks_exact_mut(8).zip(words(run, at, generation)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The generation of a sector, if it is undamaged, of this run and of this offset.
fn generation_of(sector: &[u8], run: u64, offset: u64) -> Option<u64> {
    let generation = word(sector, 3);
    let intact = (0..).zip(words(run, offset, generation)).all(|(at, is)| word(sector, at) == is);
    intact.then_some(generation)
}

/// The first sector whose generation is not allowed.
pub fn first_wrong(
    bytes: &[u8],
    run: u64,
    offset: u64,
    allowed: std::ops::RangeInclusive<u64>,
) -> Option<(u64, Option<u64>)> {
    bytes.chunks_exact(SECTOR).zip(0u64..).find_map(|(sector, number)| {
        let at = offset + number * SECTOR as u64;
        let found = generation_of(sector, run, at);
        let right = found.is_some_and(|generation| allowed.contains(&generation));
        (!right).then_some((at, found))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_shows_place_and_generation_and_every_damage() {
        let mut bytes = vec![0; 4096];
        stamp(&mut bytes, 7, 8192, 3);
        assert_eq!(first_wrong(&bytes, 7, 8192, 3..=3), None);
        assert_eq!(first_wrong(&bytes, 7, 8192, 4..=9), Some((8192, Some(3))));
        assert_eq!(first_wrong(&bytes, 8, 8192, 3..=3), Some((8192, None)));
        assert_eq!(first_wrong(&bytes, 7, 0, 3..=3), Some((0, None)));
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert!(first_wrong(&bytes, 7, 8192, 3..=3).is_some(), "byte {at}");
            bytes[at] ^= 0x10;
        }
    }
}
