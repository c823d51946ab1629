//! Hashes of the engine's own tables.

/// A multiplicative hash (Fibonacci hashing): numbers at any equal distance have different high
/// bits. The low bits are not mixed.
#[inline]
pub fn of(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A hash of which all bits are mixed, whatever the distances of the numbers.
#[inline]
pub fn mixed(number: u64) -> u64 {
    let hash = of(number);
    let hash = of(hash ^ hash >> 32);
    hash ^ hash >> 32
}
