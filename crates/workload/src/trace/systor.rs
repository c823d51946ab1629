//! SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`: seconds, R or W, bytes. The response
//! time may be missing.

use destage_engine::registry::Entry;

use super::text::{decimal, number, number_32, op_word, scaled, split};
use super::{Bad, Format, LineParser, Parser, SECOND_NS, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "systor",
        summary: "SYSTOR '17 CSV: Timestamp,Response,IOType,LUN,Offset,Size",
        source: "Lee et al., SYSTOR 2017",
        params: &[],
    },
    endings: &[],
    has_times: true,
    has_service: false,
    disorder_ns: SECOND_NS,
    parser: |_, _| Ok(Parser::Lines(Box::new(Systor))),
    sniff: None,
};

struct Systor;

impl LineParser for Systor {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        if line.starts_with(b"Timestamp,Response") {
            return Ok(None);
        }
        let record = record(line).ok_or(Bad::new("seconds,response,R|W,LUN,offset,size"))?;
        Ok(Some(record))
    }
}

fn record(line: &[u8]) -> Option<TraceRecord> {
    let [timestamp, response, kind, lun, offset, size] = split(line, b',')?;
    if !response.is_empty() {
        decimal(response, 9)?;
    }
    Some(TraceRecord {
        time_ns: decimal(timestamp, 9)?,
        device: number_32(lun)?,
        offset_bytes: scaled(number(offset)?, 1)?,
        length_bytes: scaled(number(size)?, 1)?,
        op: op_word(kind)?,
        service: None,
    })
}
