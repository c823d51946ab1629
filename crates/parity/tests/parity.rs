//! P and Q byte for byte against a public erasure-coding crate, `reed-solomon-erasure`: its field
//! GF(2^8) is that of RAID-6 (0x11D), and Q is the sum of the strips times powers of 2 in it.

use destage_parity::erasure::{missing_strips, parities};
use destage_parity::field::q_into;
use proptest::collection::vec;
use proptest::prelude::*;
use reed_solomon_erasure::galois_8::{exp, mul, mul_slice_xor};

/// P and Q as the crate's field has them.
fn theirs(row: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let length = row[0].len();
    let (mut p, mut q) = (vec![0; length], vec![0; length]);
    for (strip, bytes) in row.iter().enumerate() {
        mul_slice_xor(1, bytes, &mut p);
        mul_slice_xor(exp(2, strip), bytes, &mut q);
    }
    (p, q)
}

#[test]
fn every_product_of_every_strip_is_theirs() {
    let all: Vec<u8> = (0..=255).collect();
    for strip in 0..255 {
        let mut ours = vec![0; 256];
        q_into(&mut ours, strip, &all);
        let theirs: Vec<u8> = all.iter().map(|b| mul(exp(2, usize::from(strip)), *b)).collect();
        assert_eq!(ours, theirs, "strip {strip}");
    }
}

#[test]
fn p_and_q_of_pages_are_theirs() {
    for width in [1, 2, 3, 4, 5, 6, 14, 254] {
        let byte = |s: usize, i: usize| (s * 131 + i * 29 + s * i * 3 + (i >> 8)) as u8;
        let row: Vec<Vec<u8>> =
            (0..width).map(|s| (0..4096).map(|i| byte(s, i)).collect()).collect();
        let row: Vec<&[u8]> = row.iter().map(Vec::as_slice).collect();
        let (p, q) = theirs(&row);
        assert_eq!(parities(&row, false), (p.clone(), None), "{width} strips");
        assert_eq!(parities(&row, true), (p, Some(q)), "{width} strips");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any bytes of any length; what two lost strips held comes back from their P and Q.
    #[test]
    fn any_bytes(row in vec(vec(any::<u8>(), 200), 2..12), length in 1..200usize, x in 0..64usize) {
        let row: Vec<&[u8]> = row.iter().map(|strip| &strip[..length]).collect();
        let (p, q) = theirs(&row);
        prop_assert_eq!(parities(&row, true), (p.clone(), Some(q.clone())));
        let (x, y) = (x % row.len(), (x + 1) % row.len());
        let data: Vec<Option<&[u8]>> =
            (0..row.len()).map(|s| (s != x && s != y).then_some(row[s])).collect();
        for (strip, bytes) in missing_strips(&data, Some(&p), Some(&q)).expect("two of two") {
            prop_assert_eq!(bytes.as_slice(), row[usize::from(strip)]);
        }
    }
}
