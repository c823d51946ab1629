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

/// 2^strip in GF(2^8).
#[must_use]
pub fn power(strip: u16) -> u8 {
    EXPONENTS[usize::from(strip) % 255]
}

/// Quotient in GF(2^8).
///
/// # Panics
/// If `b` is 0.
#[must_use]
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
#[must_use]
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
    fn two_lost_strips_can_be_told_apart() {
        // 2^i for up to 255 strips are distinct, so P and Q together find two unknowns.
        let mut seen = [false; 256];
        for e in EXPONENTS {
            assert!(!core::mem::replace(&mut seen[usize::from(e)], true));
        }
    }
}
