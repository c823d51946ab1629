//! Missing strips of a row from the others and the parities.
//!
//! A row is given as its data strips, `None` where unknown, with P and Q where there are; any
//! length of bytes, the same for all. One unknown takes one parity, two take P and Q
//! (H. P. Anvin, "The mathematics of RAID-6", 2004).

use super::field::{divide, p_and_q_of, p_of, power, q_into, scale, xor_into};
use alloc::vec;
use alloc::vec::Vec;

/// The data strips that are unknown, with their bytes; `None`: too few parities.
pub fn missing_strips(
    data: &[Option<&[u8]>],
    p: Option<&[u8]>,
    q: Option<&[u8]>,
) -> Option<Vec<(u16, Vec<u8>)>> {
    let mut unknown = (0..data.len()).filter(|strip| data[*strip].is_none()).map(|s| s as u16);
    let (first, second, third) = (unknown.next(), unknown.next(), unknown.next());
    match (first, second, third) {
        (None, ..) => Some(Vec::new()),
        (Some(x), None, _) => match (p, q) {
            (Some(p), _) => Some(vec![(x, with_known(data, p))]),
            (None, Some(q)) => {
                let mut bytes = with_known_q(data, q);
                scale(&mut bytes, divide(1, power(x)));
                Some(vec![(x, bytes)])
            }
            (None, None) => None,
        },
        (Some(x), Some(y), None) => {
            let (p, q) = (with_known(data, p?), with_known_q(data, q?));
            // P' = dx + dy and Q' = 2^x dx + 2^y dy: dx = (Q' + 2^y P') / (2^x + 2^y).
            let mut dx = q;
            q_into(&mut dx, y, &p);
            scale(&mut dx, divide(1, power(x) ^ power(y)));
            let mut dy = p;
            xor_into(&mut dy, &dx);
            Some(vec![(x, dx), (y, dy)])
        }
        _ => None,
    }
}

/// P, and Q if asked for, of whole data strips.
pub fn parities(data: &[&[u8]], with_q: bool) -> (Vec<u8>, Option<Vec<u8>>) {
    let bytes = data.first().map_or(0, |strip| strip.len());
    let mut p = vec![0; bytes];
    let mut q = with_q.then(|| vec![0; bytes]);
    match &mut q {
        Some(q) => p_and_q_of(data, &mut p, q),
        None => p_of(data, &mut p),
    }
    (p, q)
}

fn with_known(data: &[Option<&[u8]>], p: &[u8]) -> Vec<u8> {
    let mut sum = p.to_vec();
    data.iter().flatten().for_each(|from| xor_into(&mut sum, from));
    sum
}

fn with_known_q(data: &[Option<&[u8]>], q: &[u8]) -> Vec<u8> {
    let mut sum = q.to_vec();
    for (strip, from) in data.iter().enumerate() {
        if let Some(from) = from {
            q_into(&mut sum, strip as u16, from);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(width: usize, bytes: usize) -> Vec<Vec<u8>> {
        let byte = |strip: usize, i: usize| (strip * 97 + i * 31 + strip * i) as u8 ^ 0x5a;
        (0..width).map(|strip| (0..bytes).map(|i| byte(strip, i)).collect()).collect()
    }

    #[test]
    fn every_one_or_two_lost_strips_come_back() {
        for width in [2, 3, 6, 17] {
            let row = row(width, 512);
            let whole: Vec<&[u8]> = row.iter().map(Vec::as_slice).collect();
            let (p, q) = parities(&whole, true);
            for x in 0..width {
                for y in x..width {
                    let lost = |s: usize| s == x || s == y;
                    let data: Vec<Option<&[u8]>> =
                        (0..width).map(|s| (!lost(s)).then_some(whole[s])).collect();
                    let given: &[[Option<&[u8]>; 2]] = if x == y {
                        &[[Some(&p), None], [None, q.as_deref()], [Some(&p), q.as_deref()]]
                    } else {
                        &[[Some(&p), q.as_deref()]]
                    };
                    for [p, q] in given {
                        for (strip, bytes) in missing_strips(&data, *p, *q).expect("enough") {
                            assert_eq!(bytes, row[usize::from(strip)], "{x} {y} of {width}");
                        }
                    }
                    if x != y {
                        assert!(missing_strips(&data, Some(&p), None).is_none());
                    }
                    assert!(missing_strips(&data, None, None).is_none());
                }
            }
        }
    }
}
