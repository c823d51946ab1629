//! blktrace's binary events, versions 7 and 8, in the byte order of the machine that wrote them.
//! blktrace writes a file for each processor; [`super::files`] finds those of one recording.

use std::io::{self, BufRead};

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};
use destage_engine::units::SECTOR_BYTES;

use super::text::scaled;
use super::{Bad, Format, Op, Parsed, Parser, RecordParser, SECOND_NS, TraceRecord};

/// The upper 24 bits of the first word of an event; the lower 8 are the version.
const MAGIC: u32 = 0x6561_7400;
/// Bytes of an event of version 7, and of version 8.
const SIZES: [(u32, usize); 2] = [(7, 48), (8, 64)];
/// Categories of an event, above the 16 bits of its action.
const READ: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const PASS_THROUGH: u64 = 1 << 9;
const NOTIFY: u64 = 1 << 10;
const DISCARD: u64 = 1 << 13;

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "blktrace",
        summary: "blktrace, binary; NAME stands for NAME.blktrace.0, .1, ..., merged by time",
        source: "linux/blktrace_api.h",
        params: &[Param {
            name: "action",
            unit: "-",
            default: "Q",
            range: "Q|D|C",
            help: "the event that counts as a request: Q queued, D issued, C completed",
        }],
    },
    endings: &[],
    has_times: true,
    has_service: false,
    as_bytes: None,
    disorder_ns: SECOND_NS,
    parser,
    sniff: Some(|head| head.first_chunk().is_some_and(|first| version(*first).is_some())),
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    let action = match choice.text("action") {
        "Q" => 1,
        "D" => 7,
        "C" => 8,
        other => {
            return Err(ChoiceError::BadValue {
                entry: choice.entry.name,
                param: "action",
                value: other.to_string(),
                expected: String::from("Q, D or C"),
            });
        }
    };
    Ok(Parser::Records(Box::new(Events { action, big: false, version: 7, size: 48 })))
}

/// Whether numbers are big-endian, and the version, if this is how an event begins.
fn version(first: [u8; 4]) -> Option<(bool, u32)> {
    let known = |word: u32| {
        let version = word & 0xff;
        (word & !0xff == MAGIC && SIZES.iter().any(|(v, _)| *v == version)).then_some(version)
    };
    let little = known(u32::from_le_bytes(first)).map(|version| (false, version));
    little.or_else(|| known(u32::from_be_bytes(first)).map(|version| (true, version)))
}

struct Events {
    action: u64,
    big: bool,
    version: u32,
    size: usize,
}

impl Events {
    fn number(&self, bytes: &[u8]) -> u64 {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match self.big {
            true => bytes.iter().fold(0, add),
            false => bytes.iter().rev().fold(0, add),
        }
    }
}

impl RecordParser for Events {
    fn header(&mut self, input: &mut dyn BufRead) -> io::Result<Result<u64, Bad>> {
        let first = input.fill_buf()?.first_chunk().copied();
        let Some((big, version)) = first.and_then(version) else {
            return Ok(Err(Bad::new("an event of blktrace, of version 7 or 8")));
        };
        (self.big, self.version) = (big, version);
        self.size = if version == 7 { SIZES[0].1 } else { SIZES[1].1 };
        Ok(Ok(0))
    }

    fn record_bytes(&self) -> usize {
        self.size
    }

    fn trailer_bytes(&self, bytes: &[u8]) -> usize {
        let at = if self.version == 7 { 46 } else { 50 };
        self.number(&bytes[at..at + 2]) as usize
    }

    fn record(&mut self, bytes: &[u8]) -> Result<Parsed, Bad> {
        if bytes.first_chunk().copied().and_then(version) != Some((self.big, self.version)) {
            return Err(Bad::new("an event that begins with blktrace's mark"));
        }
        let (action, device) = match self.version {
            7 => (self.number(&bytes[28..32]), &bytes[36..40]),
            _ => (self.number(&bytes[32..40]), &bytes[40..44]),
        };
        let categories = action >> 16;
        let other = categories & (PASS_THROUGH | NOTIFY | DISCARD) != 0;
        // Bit 8 of the action says that a control group follows.
        if action & 0xff != self.action || other {
            return Ok(Parsed::Ignored);
        }
        let op = match (categories & READ, categories & WRITE) {
            (_, WRITE) => Op::Write,
            (READ, _) => Op::Read,
            _ => return Ok(Parsed::Ignored),
        };
        let length_bytes = self.number(&bytes[24..28]);
        // A flush has no bytes.
        if length_bytes == 0 {
            return Ok(Parsed::Ignored);
        }
        let Some(offset_bytes) = scaled(self.number(&bytes[16..24]), SECTOR_BYTES) else {
            return Err(Bad::new("a sector below 2^53"));
        };
        let (time_ns, device) = (self.number(&bytes[8..16]), self.number(device) as u32);
        let record = TraceRecord { time_ns, device, offset_bytes, length_bytes, op, service: None };
        Ok(Parsed::Request(record))
    }
}
