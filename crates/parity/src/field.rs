//! Parity arithmetic: XOR for P, GF(2^8) with polynomial 0x11D and generator 2 for Q.
//!
//! Q of a row is the sum over data strips d of 2^d times the strip's bytes, as RAID-6
//! implementations have it (H. P. Anvin, "The mathematics of RAID-6", 2004).

const POLYNOMIAL: u16 = 0x11D;

const fn exponents() -> [u8; 255] {
    let mut table = [0u8; 255];
    let mut value: u16 = 1;
    let mut i = 0;
    while i < 255 {
        table[i] = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        i += 1;
    }
    table
}

const EXPONENTS: [u8; 255] = exponents();

/// `into ^= from`, byte by byte.
///
/// # Panics
/// If the lengths differ.
pub fn xor_into(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len());
    for (i, f) in into.iter_mut().zip(from) {
        *i ^= f;
    }
}

/// `into ^= 2^strip * from` in GF(2^8): what data strip number `strip` adds to Q.
///
/// # Panics
/// If the lengths differ.
pub fn q_into(into: &mut [u8], strip: u16, from: &[u8]) {
    assert_eq!(into.len(), from.len());
    let products = products(power(strip));
    for (i, f) in into.iter_mut().zip(from) {
        *i ^= products[usize::from(*f)];
    }
}

/// Bytes of a strip that are worked on at once: P and Q of them stay in the registers of the
/// usual processors while all strips are gone through.
const BLOCK: usize = 64;
const WORDS: usize = BLOCK / size_of::<u64>();
type Words = [u64; WORDS];

/// P of whole data strips, each source read once.
///
/// # Panics
/// If the lengths differ.
pub fn p_of(data: &[&[u8]], p: &mut [u8]) {
    assert!(data.iter().all(|strip| strip.len() == p.len()), "strips of one length");
    let mut blocks = p.chunks_exact_mut(BLOCK);
    for (at, into) in (0..).step_by(BLOCK).zip(&mut blocks) {
        let mut sum = [0; WORDS];
        for strip in data {
            add(&mut sum, &load(&strip[at..at + BLOCK]));
        }
        store(&sum, into);
    }
    let rest = blocks.into_remainder();
    rest.fill(0);
    for strip in data {
        xor_into(rest, &strip[strip.len() - rest.len()..]);
    }
}

/// P and Q of whole data strips, each source read once. Q is a polynomial in 2 whose coefficients
/// are the strips (Horner's rule): doubled before each strip from the last on.
///
/// # Panics
/// If the lengths differ.
pub fn p_and_q_of(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    assert_eq!(p.len(), q.len());
    assert!(data.iter().all(|strip| strip.len() == p.len()), "strips of one length");
    let mut blocks = p.chunks_exact_mut(BLOCK);
    let mut q_blocks = q.chunks_exact_mut(BLOCK);
    for ((at, p), q) in (0..).step_by(BLOCK).zip(&mut blocks).zip(&mut q_blocks) {
        let (mut sum, mut polynomial) = ([0; WORDS], [0; WORDS]);
        for strip in data.iter().rev() {
            let bytes = load(&strip[at..at + BLOCK]);
            polynomial.iter_mut().for_each(|word| *word = doubled(*word));
            add(&mut sum, &bytes);
            add(&mut polynomial, &bytes);
        }
        store(&sum, p);
        store(&polynomial, q);
    }
    let (p, q) = (blocks.into_remainder(), q_blocks.into_remainder());
    p.fill(0);
    q.fill(0);
    for (strip, from) in (0..).zip(data) {
        let from = &from[from.len() - p.len()..];
        xor_into(p, from);
        q_into(q, strip, from);
    }
}

#[inline]
fn add(sum: &mut Words, words: &Words) {
    sum.iter_mut().zip(words).for_each(|(sum, word)| *sum ^= word);
}

#[inline]
fn load(bytes: &[u8]) -> Words {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    }
    words
}

#[inline]
fn store(words: &Words, into: &mut [u8]) {
    for (word, bytes) in words.iter().zip(into.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Each of the eight bytes times 2.
#[inline]
fn doubled(word: u64) -> u64 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let top = word & !LOW_BITS;
    // All ones in the bytes whose top bit is lost.
    let overflows = (top << 1).wrapping_sub(top >> 7);
    (word & LOW_BITS) << 1 ^ overflows & 0x1d1d_1d1d_1d1d_1d1d
}

/// 2^strip in GF(2^8).
pub fn power(strip: u16) -> u8 {
    EXPONENTS[usize::from(strip) % 255]
}

/// Quotient in GF(2^8).
///
/// # Panics
/// If `b` is 0.
pub fn divide(a: u8, b: u8) -> u8 {
    let log = |of: u8| EXPONENTS.iter().position(|e| *e == of).expect("not zero");
    if a == 0 { 0 } else { EXPONENTS[(log(a) + 255 - log(b)) % 255] }
}

/// Multiplies every byte.
pub fn scale(bytes: &mut [u8], factor: u8) {
    let products = products(factor);
    bytes.iter_mut().for_each(|byte| *byte = products[usize::from(*byte)]);
}

/// Products of all bytes with a factor.
fn products(factor: u8) -> [u8; 256] {
    let mut products = [0u8; 256];
    // Each product is that of the byte without its top bit, plus the factor shifted as far.
    let mut shifted = factor;
    for bit in 0..8 {
        let half = 1 << bit;
        for low in 0..half {
            products[half + low] = products[low] ^ shifted;
        }
        shifted = multiply(shifted, 2);
    }
    products
}

/// Product in GF(2^8).
pub fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0u16;
    let mut shifted = u16::from(a);
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= shifted;
        }
        shifted <<= 1;
        if shifted & 0x100 != 0 {
            shifted ^= POLYNOMIAL;
        }
    }
    product as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn the_field_is_a_field() {
        for a in 1..=255u8 {
            assert_eq!(multiply(a, 1), a);
            let inverses = (1..=255u8).filter(|&b| multiply(a, b) == 1).count();
            assert_eq!(inverses, 1);
        }
        for a in [0u8, 1, 3, 0x80, 0xff] {
            for b in 1..=255u8 {
                assert_eq!(products(b)[usize::from(a)], multiply(a, b));
                assert_eq!(multiply(divide(a, b), b), a);
            }
        }
        assert_eq!(multiply(0x80, 2), 0x1D);
        assert_eq!(EXPONENTS[8], 0x1D);
    }

    #[test]
    fn all_strips_at_once_give_what_one_after_another_gives() {
        for (width, length) in [(1, 4096), (2, 64), (3, 100), (5, 63), (17, 4096), (250, 130)] {
            let strip = |s: usize| (0..length).map(move |i| (s * 89 + i * 7 + s * i / 3) as u8);
            let row: Vec<Vec<u8>> = (0..width).map(|s| strip(s).collect()).collect();
            let refs: Vec<&[u8]> = row.iter().map(Vec::as_slice).collect();
            let (mut p, mut q) = (vec![0; length], vec![0; length]);
            for (strip, from) in refs.iter().enumerate() {
                xor_into(&mut p, from);
                q_into(&mut q, strip as u16, from);
            }
            let (mut new_p, mut new_q) = (vec![0xee; length], vec![0xee; length]);
            p_of(&refs, &mut new_p);
            assert_eq!(new_p, p, "{width} of {length}");
            new_p.fill(0xee);
            p_and_q_of(&refs, &mut new_p, &mut new_q);
            assert_eq!((new_p, new_q), (p, q), "{width} of {length}");
        }
    }

    #[test]
    fn two_lost_strips_can_be_distinguished() {
        // 2^i for up to 255 strips are distinct, so P and Q together find two unknowns.
        let mut seen = [false; 256];
        for e in EXPONENTS {
            assert!(!core::mem::replace(&mut seen[usize::from(e)], true));
        }
    }
}
