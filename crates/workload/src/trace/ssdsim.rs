//! Five integers per line, the format of SSDsim and of the DTRS and WebSearch conversions:
//! time in ns, device, sector, sectors, flag (0 write, 1 read).

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use destage_engine::units::SECTOR_BYTES;

use super::text::{number, number_32, op_digit, records, scaled, words};
use super::{Format, Parser, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "ssdsim",
        summary: "time ns, device, sector, sectors, 0 write / 1 read (SSDsim, DTRS)",
        source: "SSDsim",
        params: &[Param {
            name: "read",
            unit: "-",
            default: "1",
            range: "0|1",
            help: "the flag that reads",
        }],
    },
    endings: &[".ascii"],
    has_times: true,
    has_service: false,
    as_bytes: Some("--trace-columns 'time=1:ns, device=2, offset=3, size=4, op=5:read=1:write=0'"),
    disorder_ns: 0,
    parser,
    sniff: None,
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    let read = b'0' + choice.number("read", 0u8, 1)?;
    let expected = "five whole numbers: time_ns device sector sectors 0|1";
    Ok(records(None, expected, move |line| record(line, read)))
}

fn record(line: &[u8], read: u8) -> Option<TraceRecord> {
    let [time, device, sector, sectors, flag] = words(line)?;
    Some(TraceRecord {
        time_ns: number(time)?,
        device: number_32(device)?,
        offset_bytes: scaled(number(sector)?, SECTOR_BYTES)?,
        length_bytes: scaled(number(sectors)?, SECTOR_BYTES)?,
        op: op_digit(flag, read)?,
        service: None,
    })
}
