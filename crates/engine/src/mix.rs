//! Hashes, for sampling by number and for comparing runs; not for secrets.

/// Mixes the bits of a number, so that neighbours become numbers that have nothing in common: the
/// finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
pub const fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// The offset basis of FNV-1a, 64 bits.
pub(crate) const FNV_OFFSET: u64 = 14_695_981_039_346_656_037;

/// The offset basis without its last digit: the event hashes of replays are defined with this one.
pub(crate) const EVENT_HASH_OFFSET: u64 = 1_469_598_103_934_665_603;

/// Continues an FNV-1a hash with these bytes.
#[inline]
pub(crate) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211);
    bytes.iter().fold(hash, add)
}
