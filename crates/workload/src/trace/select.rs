//! Which part of a trace is read: a time, devices, a range of addresses, a sample. Every command
//! that reads traces selects here, and docs/traces.md defines what is kept.

use super::TraceRecord;
use super::text::decimal;

/// Bytes of a block of a sample, unless given.
const SAMPLE_BLOCK_BYTES: u64 = 1 << 20;
/// Limits of that size.
const SAMPLE_BLOCK_RANGE: std::ops::RangeInclusive<u64> = 4096..=1 << 40;

/// What of a trace is kept. The default keeps everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only requests from this time on, relative to the first request of the trace.
    pub from_ns: Option<u64>,
    /// Only requests before this time.
    pub until_ns: Option<u64>,
    /// Only these devices; all of them if empty.
    pub devices: Vec<u32>,
    /// Only these bytes of each device, the first and one past the last. Requests are cut to them.
    pub range: Option<(u64, u64)>,
    /// Only some of the blocks.
    pub sample: Option<Sample>,
}

/// Some blocks of every device, chosen by a hash of their address: all accesses to a block are
/// kept, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Blocks whose hash is at most this are kept.
    threshold: u64,
    /// Size of a block.
    block_bytes: u64,
    /// Another seed chooses other blocks.
    seed: u64,
}

impl Sample {
    /// Keeps this share of the blocks.
    ///
    /// None: a share that is not above 0 and at most 1, or a block size that is not a power of two
    /// from 4 KiB to 1 TiB.
    pub fn new(share: f64, block_bytes: u64, seed: u64) -> Option<Sample> {
        let fits = SAMPLE_BLOCK_RANGE.contains(&block_bytes) && block_bytes.is_power_of_two();
        // A share of 1 saturates to all hashes.
        let threshold = (share * 2f64.powi(64)) as u64;
        (fits && share > 0.0 && share <= 1.0).then_some(Sample { threshold, block_bytes, seed })
    }

    /// `SHARE[:block=BYTES][:seed=N]`; the share is a decimal or `1/N`.
    pub fn parse(text: &str) -> Option<Sample> {
        let mut parts = text.split(':');
        let share = parts.next()?;
        let share = match share.split_once('/') {
            Some((part, of)) => part.parse::<f64>().ok()? / of.parse::<f64>().ok()?,
            None => share.parse().ok()?,
        };
        let (mut block_bytes, mut seed) = (SAMPLE_BLOCK_BYTES, 0);
        for part in parts {
            match part.split_once('=')? {
                ("block", size) => block_bytes = bytes(size)?,
                ("seed", number) => seed = number.parse().ok()?,
                _ => return None,
            }
        }
        Sample::new(share, block_bytes, seed)
    }

    /// Whether a block is kept.
    fn keeps(&self, device: u32, block: u64) -> bool {
        let key = mix(mix(self.seed ^ u64::from(device)).wrapping_add(block));
        key <= self.threshold
    }
}

/// The finaliser of splitmix64, after its increment.
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Selection {
    /// Whether everything is kept.
    pub fn is_all(&self) -> bool {
        *self == Selection::default()
    }

    /// Whether nothing at this time or later is kept.
    pub(super) fn is_past(&self, time_ns: u64) -> bool {
        self.until_ns.is_some_and(|until| time_ns >= until)
    }

    /// Hands the parts of a request that are kept to `keep`, by address.
    pub(super) fn apply(&self, record: &TraceRecord, keep: &mut dyn FnMut(TraceRecord)) {
        let early = self.from_ns.is_some_and(|from| record.time_ns < from);
        let other = !self.devices.is_empty() && !self.devices.contains(&record.device);
        if early || other || self.is_past(record.time_ns) {
            return;
        }
        let Some(record) = self.cut(record) else { return };
        match &self.sample {
            None => keep(record),
            Some(sample) => sampled(sample, &record, keep),
        }
    }

    /// The part of a request that is in the range.
    fn cut(&self, record: &TraceRecord) -> Option<TraceRecord> {
        let Some((first, end)) = self.range else { return Some(*record) };
        let (from, to) = (record.offset_bytes.max(first), record.end_bytes().min(end));
        let empty = record.length_bytes == 0 && (first..end).contains(&record.offset_bytes);
        (from < to || empty).then(|| TraceRecord {
            offset_bytes: from,
            length_bytes: to.saturating_sub(from),
            ..*record
        })
    }
}

/// The runs of blocks of a request that are in the sample.
fn sampled(sample: &Sample, record: &TraceRecord, keep: &mut dyn FnMut(TraceRecord)) {
    let (size, end) = (sample.block_bytes, record.end_bytes());
    let mut at = record.offset_bytes;
    let mut run: Option<u64> = None;
    loop {
        let block = at / size;
        let kept = sample.keeps(record.device, block);
        let next = end.min((block + 1).saturating_mul(size));
        let begun = match (kept, run) {
            (true, None) => {
                run = Some(at);
                at
            }
            (true, Some(begun)) | (false, Some(begun)) => begun,
            (false, None) => at,
        };
        let ends = !kept || next == end;
        if ends && run.take().is_some() {
            let to = if kept { next } else { at };
            keep(TraceRecord { offset_bytes: begun, length_bytes: to - begun, ..*record });
        }
        if next == end {
            return;
        }
        at = next;
    }
}

/// A time as `90`, `90s`, `1.5h`, `10m`, `250ms`, `2d`, in nanoseconds.
pub fn time_ns(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (factor, shift) = match unit {
        "ns" => (1, 0),
        "us" => (1, 3),
        "ms" => (1, 6),
        "s" | "" => (1, 9),
        "m" | "min" => (60, 9),
        "h" => (3600, 9),
        "d" => (86_400, 9),
        _ => return None,
    };
    decimal(number.as_bytes(), shift)?.checked_mul(factor).filter(|ns| *ns < 1 << 62)
}

/// A size as `4096`, `64K`, `10G`, in bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let number = super::text::number(digits.as_bytes())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes <= 1 << 62)
}

/// A range as `0..10G`, `10G..` or `..10G`, in bytes: the first and one past the last.
pub fn byte_range(text: &str) -> Option<(u64, u64)> {
    let (first, end) = text.split_once("..")?;
    let first = if first.is_empty() { 0 } else { bytes(first)? };
    let end = if end.is_empty() { 1 << 62 } else { bytes(end)? };
    (first < end).then_some((first, end))
}

/// Device numbers as `0+3`.
pub fn devices(text: &str) -> Option<Vec<u32>> {
    text.split('+').map(|number| super::text::number_32(number.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Op;
    use super::*;

    fn record(offset_bytes: u64, length_bytes: u64) -> TraceRecord {
        let (time_ns, device, op) = (5, 1, Op::Write);
        TraceRecord { time_ns, device, offset_bytes, length_bytes, op, service: None }
    }

    fn kept(selection: &Selection, record: &TraceRecord) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        selection.apply(record, &mut |part| parts.push((part.offset_bytes, part.length_bytes)));
        parts
    }

    #[test]
    fn texts_are_understood() {
        assert_eq!(time_ns("1.5h"), Some(5_400_000_000_000));
        assert_eq!(
            ["90", "250ms", "x", "1w"].map(time_ns)[..2],
            [Some(90 * 10u64.pow(9)), Some(250_000_000)]
        );
        assert_eq!((time_ns("x"), time_ns("1w"), time_ns("")), (None, None, None));
        assert_eq!(byte_range("4K..1G"), Some((4096, 1 << 30)));
        assert_eq!((byte_range("..8"), byte_range("5..5")), (Some((0, 8)), None));
        assert_eq!((devices("0+3"), devices("0,3"), devices("")), (Some(vec![0, 3]), None, None));
        assert_eq!(Sample::parse("1/4:block=64K:seed=7"), Sample::new(0.25, 65_536, 7));
        for wrong in ["0", "2", "x", "0.5:block=5000", "0.5:blocks=1M", "1/0", ""] {
            assert_eq!(Sample::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_request_is_cut_to_the_range() {
        let selection = Selection { range: Some((4096, 8192)), ..Selection::default() };
        assert_eq!(kept(&selection, &record(0, 1 << 20)), [(4096, 4096)]);
        assert_eq!(kept(&selection, &record(5000, 100)), [(5000, 100)]);
        assert_eq!(kept(&selection, &record(0, 4096)), []);
        assert_eq!(kept(&selection, &record(4096, 0)), [(4096, 0)]);
        assert_eq!(kept(&selection, &record(8192, 0)), []);
    }

    #[test]
    fn every_access_to_a_sampled_block_is_kept_and_no_other() {
        let sample = Sample::new(0.5, 4096, 3).expect("a sample");
        let selection = Selection { sample: Some(sample), ..Selection::default() };
        let chosen: Vec<bool> = (0..4096).map(|block| sample.keeps(1, block)).collect();
        let count = chosen.iter().filter(|kept| **kept).count();
        assert!((1900..2200).contains(&count), "{count}");
        for (offset, length) in [(0, 4096 * 4096), (100, 9000), (4095, 2), (8192, 0), (1, 4095)] {
            let mut expected = vec![0u32; 4096 * 4096];
            for byte in offset..offset + length {
                expected[byte as usize] += u32::from(chosen[byte as usize / 4096]);
            }
            let parts = kept(&selection, &record(offset, length));
            for &(first, bytes) in &parts {
                for byte in first..first + bytes {
                    expected[byte as usize] -= 1;
                }
            }
            assert!(expected.iter().all(|count| *count == 0), "{offset} {length}");
            assert!(parts.windows(2).all(|two| two[0].0 + two[0].1 < two[1].0), "runs are joined");
        }
        let empty = kept(&selection, &record(8192, 0));
        assert_eq!(empty.len(), usize::from(chosen[2]));
        let all = Selection { sample: Sample::new(1.0, 4096, 3), ..Selection::default() };
        assert_eq!(kept(&all, &record(7, 1 << 20)), [(7, 1 << 20)]);
    }
}
