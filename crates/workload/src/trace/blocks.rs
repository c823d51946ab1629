//! Plain lists of blocks: one integer per line, the usual form in studies of read caches.
//! Neither times nor operations nor sizes are recorded: each line is one block.

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use super::text::{number, records, scaled, words};
use super::{Format, Op, Parser, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "blocks",
        summary: "one block number a line; # begins a comment; no times, no operations",
        source: "docs/readcache.md",
        params: &[Param {
            name: "unit",
            unit: "bytes",
            default: "4096",
            range: "1..1048576",
            help: "bytes of a block",
        }],
    },
    endings: &[".blocks"],
    has_times: false,
    has_service: false,
    as_bytes: None,
    disorder_ns: 0,
    parser,
    sniff: None,
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    let unit_bytes = choice.number("unit", 1, 1_048_576)?;
    let expected = "one whole number: a block";
    Ok(records(Some(b"#"), expected, move |line| record(line, unit_bytes)))
}

fn record(line: &[u8], unit_bytes: u64) -> Option<TraceRecord> {
    let [block] = words(line)?;
    Some(TraceRecord {
        time_ns: 0,
        device: 0,
        offset_bytes: scaled(number(block)?, unit_bytes)?,
        length_bytes: unit_bytes,
        op: Op::Unknown,
        service: None,
    })
}
