//! Fields of text lines: splitting, integers, decimals, operations. Integer arithmetic only.

use super::{Bad, LineParser, Op, Parser, TraceRecord};

/// Lines of which each is a record by itself.
struct Records<F> {
    /// How a line of headings begins, in formats that may have one.
    heading: Option<&'static [u8]>,
    /// What a line should be.
    expected: &'static str,
    record: F,
}

impl<F: Fn(&[u8]) -> Option<TraceRecord> + Send> LineParser for Records<F> {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        if self.heading.is_some_and(|heading| line.starts_with(heading)) {
            return Ok(None);
        }
        (self.record)(line).map(Some).ok_or(Bad::new(self.expected))
    }
}

/// Reads each line with `record`, but those that begin with `heading`.
pub(super) fn records(
    heading: Option<&'static [u8]>,
    expected: &'static str,
    record: impl Fn(&[u8]) -> Option<TraceRecord> + Send + 'static,
) -> Parser {
    Parser::Lines(Box::new(Records { heading, expected, record }))
}

/// Splits at every `separator`; `None` if there are not exactly `N` fields.
#[inline]
pub(super) fn split<const N: usize>(line: &[u8], separator: u8) -> Option<[&[u8]; N]> {
    let mut fields = [&line[..0]; N];
    let mut count = 0;
    for field in line.split(|&byte| byte == separator) {
        *fields.get_mut(count)? = field.trim_ascii();
        count += 1;
    }
    (count == N).then_some(fields)
}

/// Splits at runs of spaces and tabs; `None` if there are not exactly `N` fields.
#[inline]
pub(super) fn words<const N: usize>(line: &[u8]) -> Option<[&[u8]; N]> {
    let mut fields = [&line[..0]; N];
    let mut count = 0;
    for field in all_words(line) {
        *fields.get_mut(count)? = field;
        count += 1;
    }
    (count == N).then_some(fields)
}

/// Every word of a line.
pub(super) fn all_words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// An integer without sign.
#[inline]
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// An integer that fits 32 bits.
#[inline]
pub(super) fn number_32(field: &[u8]) -> Option<u32> {
    number(field).and_then(|value| u32::try_from(value).ok())
}

/// A decimal number, such as `12.5` or `1e-3`, times 10^`shift`, without digits behind the point
/// then. Seconds to nanoseconds is a shift of 9.
pub(super) fn decimal(field: &[u8], shift: i32) -> Option<u64> {
    let split_at = field.iter().position(|b| matches!(b, b'e' | b'E'));
    let (mantissa, exponent) = match split_at {
        None => (field, 0),
        Some(at) => (&field[..at], signed_exponent(&field[at + 1..])?),
    };
    let point = mantissa.iter().position(|&b| b == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = (&mantissa[..point], mantissa.get(point + 1..).unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = if whole.is_empty() { 0 } else { u128::from(number(whole)?) };
    let mut places = 0;
    for &byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if places < 18 {
            value = value * 10 + u128::from(digit);
            places += 1;
        }
    }
    let shift = shift + exponent - places;
    let power = 10u128.checked_pow(shift.unsigned_abs());
    let scaled = if shift >= 0 {
        if value == 0 { 0 } else { value.checked_mul(power?)? }
    } else {
        power.map_or(0, |power| value / power)
    };
    u64::try_from(scaled).ok()
}

fn signed_exponent(field: &[u8]) -> Option<i32> {
    let (negative, digits) = match field {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let size = i32::try_from(number(digits)?).ok().filter(|size| *size <= 100)?;
    Some(if negative { -size } else { size })
}

/// `R`, `Read`, `W`, `write` and the like.
#[inline]
pub(super) fn op_word(field: &[u8]) -> Option<Op> {
    match field {
        b"R" | b"r" => Some(Op::Read),
        b"W" | b"w" => Some(Op::Write),
        _ if field.eq_ignore_ascii_case(b"read") => Some(Op::Read),
        _ if field.eq_ignore_ascii_case(b"write") => Some(Op::Write),
        _ => None,
    }
}

/// `0` and `1`, one of which reads.
#[inline]
pub(super) fn op_digit(field: &[u8], read: u8) -> Option<Op> {
    match field {
        [digit @ (b'0' | b'1')] => Some(if *digit == read { Op::Read } else { Op::Write }),
        _ => None,
    }
}

/// Bytes of a count of units, refused where offset and length would pass 2^63.
#[inline]
pub(super) fn scaled(count: u64, unit_bytes: u64) -> Option<u64> {
    count.checked_mul(unit_bytes).filter(|bytes| *bytes < 1 << 62)
}

/// Numbers for names, in order of appearance.
#[derive(Default)]
pub(super) struct Names {
    names: Vec<Vec<u8>>,
    last: usize,
}

impl Names {
    /// The number of a name.
    pub(super) fn index(&mut self, name: &[u8]) -> Result<u32, Bad> {
        const NAMES_MAX: usize = 65_536;
        const NAME_BYTES_MAX: usize = 4096;
        if self.names.get(self.last).is_some_and(|n| n == name) {
            return Ok(self.last as u32);
        }
        self.last = match self.names.iter().position(|n| n == name) {
            Some(index) => index,
            None if self.names.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX => {
                self.names.push(name.to_vec());
                self.names.len() - 1
            }
            None => return Err(Bad::new("at most 65536 names of at most 4096 bytes")),
        };
        Ok(self.last as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, shift, expected) in [
            ("13.191135", 6, Some(13_191_135)),
            ("0.026214", 9, Some(26_214_000)),
            ("1455592828.000030", 9, Some(1_455_592_828_000_030_000)),
            ("1.6e-05", 9, Some(16_000)),
            ("5", 3, Some(5_000)),
            (".5", 1, Some(5)),
            ("7.", 0, Some(7)),
            ("0.1234567890123456789012", 9, Some(123_456_789)),
            ("99999999999999999999", 0, None),
            ("18446744073709551615", 9, None),
            ("1.2.3", 0, None),
            ("-1", 0, None),
            ("", 0, None),
            (".", 0, None),
            ("e5", 0, None),
            ("1e", 0, None),
            ("1e999", 0, None),
            ("0e99", 9, Some(0)),
        ] {
            assert_eq!(decimal(text.as_bytes(), shift), expected, "{text}");
        }
    }

    #[test]
    fn numbers_do_not_wrap() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b"+1"), None);
        assert_eq!(scaled(1 << 60, 512), None);
    }

    #[test]
    fn splitting_wants_the_exact_count() {
        assert_eq!(split(b"a, b,c", b','), Some([&b"a"[..], b"b", b"c"]));
        assert_eq!(split::<2>(b"a,b,c", b','), None);
        assert_eq!(words(b"  a \t b "), Some([&b"a"[..], b"b"]));
        assert_eq!(words::<3>(b"a b"), None);
    }
}
