//! DiskSim ascii: time in ms, device, block, blocks, flags in hexadecimal or decimal (bit 0: read).

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use super::text::{decimal, number, number_32, records, scaled, words};
use super::{Format, Op, Parser, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "disksim",
        summary: "DiskSim ascii: time ms, device, block, blocks, flags (bit 0 read)",
        source: "DiskSim 4 manual, section on input traces",
        params: &[Param {
            name: "sector",
            unit: "bytes",
            default: "512",
            range: "1..65536",
            help: "block size",
        }],
    },
    endings: &[".disksim"],
    has_times: true,
    has_service: false,
    as_bytes: Some("--trace-format disksim:sector=1"),
    disorder_ns: 0,
    parser,
    sniff: None,
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    let sector_bytes = choice.number("sector", 1, 65_536)?;
    let expected = "five numbers: time_ms device block blocks flags";
    Ok(records(None, expected, move |line| record(line, sector_bytes)))
}

fn record(line: &[u8], sector_bytes: u64) -> Option<TraceRecord> {
    let [time, device, block, blocks, flags] = words(line)?;
    let flags = match flags {
        [b'0', b'x' | b'X', digits @ ..] => {
            u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
        }
        flags => number(flags)?,
    };
    Some(TraceRecord {
        time_ns: decimal(time, 6)?,
        device: number_32(device)?,
        offset_bytes: scaled(number(block)?, sector_bytes)?,
        length_bytes: scaled(number(blocks)?, sector_bytes)?,
        op: if flags & 1 == 1 { Op::Read } else { Op::Write },
        service: None,
    })
}
