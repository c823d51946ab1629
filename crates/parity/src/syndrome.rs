//! What is wrong in a row whose parities do not fit its data: the syndromes, P and Q as read
//! XOR P and Q of the data as read, are zeros in a row that is right. If one data strip z is
//! wrong by e, they are e and 2^z e; a wrong P or Q shows in its own alone (H. P. Anvin, "The
//! mathematics of RAID-6", 2004, section 4).

use super::field::{multiply, power};

/// What explains the syndromes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// Only P is wrong.
    P,
    /// Only Q is wrong.
    Q,
    /// Only this data strip is wrong; P's syndrome is what it is wrong by.
    Strip(u16),
    /// Nothing single that is known: one parity alone locates nothing, or several are wrong.
    Unknown,
}

/// What is wrong in bytes of a row with this many data strips; `None`: nothing.
pub fn culprit(p: &[u8], q: Option<&[u8]>, strips: u16) -> Option<Culprit> {
    let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let Some(q) = q else { return (!zero(p)).then_some(Culprit::Unknown) };
    match (zero(p), zero(q)) {
        (true, true) => None,
        (false, true) => Some(Culprit::P),
        (true, false) => Some(Culprit::Q),
        (false, false) => {
            let explains = |strip: &u16| {
                let factor = power(*strip);
                p.iter().zip(q).all(|(p, q)| multiply(*p, factor) == *q)
            };
            let mut able = (0..strips).filter(explains);
            match (able.next(), able.next()) {
                (Some(strip), None) => Some(Culprit::Strip(strip)),
                _ => Some(Culprit::Unknown),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::erasure::parities;
    use crate::field::xor_into;
    use std::vec::Vec;

    /// The syndromes after a change, by number of the strip: data, then P, then Q.
    fn after(changes: &[(usize, usize, u8)], with_q: bool) -> Option<Culprit> {
        let mut row: Vec<Vec<u8>> =
            (0..5usize).map(|s| (0..64usize).map(|i| (s * 91 + i * 7) as u8).collect()).collect();
        let strips = row.clone();
        let refs: Vec<&[u8]> = strips.iter().map(Vec::as_slice).collect();
        let (p, q) = parities(&refs, with_q);
        row.push(p);
        row.extend(q);
        for (strip, byte, by) in changes {
            row[*strip][*byte] ^= by;
        }
        let refs: Vec<&[u8]> = row[..5].iter().map(Vec::as_slice).collect();
        let (mut p, mut q) = parities(&refs, with_q);
        xor_into(&mut p, &row[5]);
        if let Some(q) = &mut q {
            xor_into(q, &row[6]);
        }
        culprit(&p, q.as_deref(), 5)
    }

    #[test]
    fn one_wrong_strip_is_found_and_two_are_not() {
        assert_eq!(after(&[], true), None);
        assert_eq!(after(&[], false), None);
        for strip in 0..5 {
            let wrong = [(strip, 3, 0x80), (strip, 60, 1)];
            assert_eq!(after(&wrong, true), Some(Culprit::Strip(strip as u16)));
            assert_eq!(after(&wrong, false), Some(Culprit::Unknown));
        }
        assert_eq!(after(&[(5, 9, 0x11)], true), Some(Culprit::P));
        assert_eq!(after(&[(5, 9, 0x11)], false), Some(Culprit::Unknown));
        assert_eq!(after(&[(6, 9, 0x11)], true), Some(Culprit::Q));
        assert_eq!(after(&[(1, 9, 4), (2, 40, 4)], true), Some(Culprit::Unknown));
        assert_eq!(after(&[(5, 9, 4), (6, 40, 4)], true), Some(Culprit::Unknown));
    }
}
