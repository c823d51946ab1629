//! Alibaba block traces: `device_id,opcode,offset,length,timestamp`: bytes, R or W, microseconds.

use destage_engine::registry::Entry;

use super::text::{number, number_32, op_word, records, scaled, split};
use super::{Format, SECOND_NS, TraceRecord};

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
    as_bytes: None,
    disorder_ns: SECOND_NS,
    parser: |_, _| {
        Ok(records(Some(b"device_id,"), "device_id,R|W,offset,length,timestamp_us", record))
    },
    sniff: None,
};

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
