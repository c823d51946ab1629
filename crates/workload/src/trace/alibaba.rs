//! Alibaba block traces: `device_id,opcode,offset,length,timestamp`: bytes, R or W, microseconds.

use destage_engine::registry::Entry;

use super::text::{number, number_32, op_word, scaled, split};
use super::{Bad, Format, LineParser, Parser, SECOND_NS, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "alibaba",
        summary: "Alibaba CSV: device_id,R|W,offset,length,timestamp us",
        source: "Alibaba block-traces 2020",
        params: &[],
    },
    endings: &[],
    has_times: true,
    has_service: false,
    disorder_ns: SECOND_NS,
    parser: |_, _| Ok(Parser::Lines(Box::new(Alibaba))),
    sniff: None,
};

struct Alibaba;

impl LineParser for Alibaba {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        if line.starts_with(b"device_id,") {
            return Ok(None);
        }
        let record = record(line).ok_or(Bad::new("device_id,R|W,offset,length,timestamp_us"))?;
        Ok(Some(record))
    }
}

fn record(line: &[u8]) -> Option<TraceRecord> {
    let [device, opcode, offset, length, timestamp] = split(line, b',')?;
    Some(TraceRecord {
        time_ns: number(timestamp)?.checked_mul(1_000)?,
        device: number_32(device)?,
        offset_bytes: scaled(number(offset)?, 1)?,
        length_bytes: scaled(number(length)?, 1)?,
        op: op_word(opcode)?,
        service: None,
    })
}
