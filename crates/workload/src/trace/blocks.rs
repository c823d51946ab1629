//! Plain lists of blocks: one integer per line, the usual form in studies of read caches.
//! Neither times nor operations nor sizes are recorded: each line is one block.

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use super::text::{number, scaled, words};
use super::{Bad, Format, LineParser, Op, Parser, TraceRecord};

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
    disorder_ns: 0,
    parser,
    sniff: None,
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    Ok(Parser::Lines(Box::new(Blocks { unit_bytes: choice.number("unit", 1, 1_048_576)? })))
}

struct Blocks {
    unit_bytes: u64,
}

impl LineParser for Blocks {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        if line.first() == Some(&b'#') {
            return Ok(None);
        }
        let record = record(line, self.unit_bytes).ok_or(Bad::new("one whole number: a block"))?;
        Ok(Some(record))
    }
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
