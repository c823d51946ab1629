//! Tencent CBS: `timestamp,offset,size,type,volume`: Unix seconds, sectors, 0 read / 1 write.

use destage_engine::registry::Entry;

use destage_engine::units::SECTOR_BYTES;

use super::text::{number, number_32, op_digit, scaled, split};
use super::{Bad, Format, LineParser, Parser, SECOND_NS, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "tencent",
        summary: "Tencent CBS CSV: seconds,offset,size,0 read|1 write,volume (sectors)",
        source: "Tencent block storage traces (ATC 2020)",
        params: &[],
    },
    endings: &[],
    has_times: true,
    has_service: false,
    disorder_ns: SECOND_NS,
    parser: |_, _| Ok(Parser::Lines(Box::new(Tencent))),
    sniff: None,
};

struct Tencent;

impl LineParser for Tencent {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        if line.starts_with(b"Timestamp,Offset") {
            return Ok(None);
        }
        let record = record(line).ok_or(Bad::new("seconds,offset,size,0 read|1 write,volume"))?;
        Ok(Some(record))
    }
}

fn record(line: &[u8]) -> Option<TraceRecord> {
    let [timestamp, offset, size, kind, volume] = split(line, b',')?;
    Some(TraceRecord {
        time_ns: number(timestamp)?.checked_mul(1_000_000_000)?,
        device: number_32(volume)?,
        offset_bytes: scaled(number(offset)?, SECTOR_BYTES)?,
        length_bytes: scaled(number(size)?, SECTOR_BYTES)?,
        op: op_digit(kind, b'0')?,
        service: None,
    })
}
