//! ARC `.lis` traces: start block, count, an ignored number, a line number. Neither times nor
//! operations are recorded. Blocks are 4 KiB pages in OLTP and 512-byte sectors in P1 to P14.

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use super::text::{number, records, scaled, words};
use super::{Format, Op, Parser, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "arc",
        summary: "ARC .lis: start block, count, ignored, number; no times, no operations",
        source: "Megiddo and Modha, ARC (FAST 2003)",
        params: &[Param {
            name: "unit",
            unit: "bytes",
            default: "0",
            range: "0..1048576",
            help: "bytes of a block; 0: 4096 if the file's name begins with OLTP, else 512",
        }],
    },
    endings: &[".lis"],
    has_times: false,
    has_service: false,
    as_bytes: None,
    disorder_ns: 0,
    parser,
    sniff: None,
};

fn parser(choice: &Choice, name: &str) -> Result<Parser, ChoiceError> {
    let unit_bytes = match choice.number("unit", 0, 1_048_576)? {
        0 if name.starts_with("oltp") => 4096,
        0 => 512,
        given => given,
    };
    let expected = "four whole numbers: start_block count ignored number";
    Ok(records(None, expected, move |line| record(line, unit_bytes)))
}

fn record(line: &[u8], unit_bytes: u64) -> Option<TraceRecord> {
    let [start, count, ignored, line_number] = words(line)?;
    number(ignored)?;
    number(line_number)?;
    Some(TraceRecord {
        time_ns: 0,
        device: 0,
        offset_bytes: scaled(number(start)?, unit_bytes)?,
        length_bytes: scaled(number(count)?, unit_bytes)?,
        op: Op::Unknown,
        service: None,
    })
}
