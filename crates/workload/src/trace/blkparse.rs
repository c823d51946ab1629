//! blkparse text: `major,minor cpu sequence seconds pid action rwbs sector + sectors [process]`,
//! and the summary after it, which is passed over.

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use destage_engine::units::SECTOR_BYTES;

use super::text::{all_words, decimal, number, number_32, scaled};
use super::{Bad, Format, LineParser, Op, Parser, SECOND_NS, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "blkparse",
        summary: "blktrace as text by blkparse",
        source: "blkparse(1)",
        params: &[Param {
            name: "action",
            unit: "-",
            default: "Q",
            range: "Q|D|C|...",
            help: "the event that counts as a request: Q queued, D issued, C completed",
        }],
    },
    endings: &[".blkparse"],
    has_times: true,
    has_service: false,
    as_bytes: None,
    disorder_ns: SECOND_NS,
    parser,
    sniff: None,
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    Ok(Parser::Lines(Box::new(Blkparse { action: choice.text("action").as_bytes().to_vec() })))
}

struct Blkparse {
    action: Vec<u8>,
}

/// How lines of the summary begin.
const SUMMARY: [&[u8]; 12] = [
    b"CPU",
    b"Total",
    b"Events",
    b"Throughput",
    b"Reads",
    b"Writes",
    b"Read",
    b"Write",
    b"IO",
    b"Skips",
    b"PC",
    b"Rdb",
];

impl LineParser for Blkparse {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        const EXPECTED: Bad =
            Bad::new("major,minor cpu sequence seconds pid action rwbs sector + sectors");
        let line = line.trim_ascii_start();
        if SUMMARY.iter().any(|start| line.starts_with(start)) {
            return Ok(None);
        }
        let mut fields = all_words(line);
        let mut next = || fields.next().ok_or(EXPECTED);
        let device = next()?;
        let (cpu, sequence, seconds, pid) = (next()?, next()?, next()?, next()?);
        let action = next()?;
        let device = device_number(device).ok_or(EXPECTED)?;
        let time_ns = decimal(seconds, 9).ok_or(EXPECTED)?;
        if [cpu, sequence, pid].iter().any(|field| number(field).is_none()) {
            return Err(EXPECTED);
        }
        if action != self.action {
            return Ok(None);
        }
        let rwbs = next()?;
        let op = match rwbs {
            _ if rwbs.contains(&b'D') => return Ok(None),
            _ if rwbs.contains(&b'R') => Op::Read,
            _ if rwbs.contains(&b'W') => Op::Write,
            _ => return Ok(None),
        };
        // A flush and the like has no sectors.
        let (Some(sector), Some(plus), Some(sectors)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return Ok(None);
        };
        if plus != b"+" {
            return Ok(None);
        }
        let offset_bytes = number(sector).and_then(|n| scaled(n, SECTOR_BYTES));
        let length_bytes = number(sectors).and_then(|n| scaled(n, SECTOR_BYTES));
        let (Some(offset_bytes), Some(length_bytes)) = (offset_bytes, length_bytes) else {
            return Err(EXPECTED);
        };
        Ok(Some(TraceRecord { time_ns, device, offset_bytes, length_bytes, op, service: None }))
    }
}

/// `8,16` as the kernel numbers devices: 12 bits of major, 20 of minor.
fn device_number(field: &[u8]) -> Option<u32> {
    let comma = field.iter().position(|&b| b == b',')?;
    let major = number_32(&field[..comma]).filter(|major| *major < 1 << 12)?;
    let minor = number_32(&field[comma + 1..]).filter(|minor| *minor < 1 << 20)?;
    Some(major << 20 | minor)
}
