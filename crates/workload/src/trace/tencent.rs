//! Tencent CBS: `timestamp,offset,size,type,volume`: Unix seconds, sectors, 0 read / 1 write.

use destage_engine::registry::Entry;

use destage_engine::units::SECTOR_BYTES;

use super::text::{number, number_32, op_digit, records, scaled, split};
use super::{Format, SECOND_NS, TraceRecord};

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
    as_bytes: Some("--trace-columns 'time=1:s, offset=2, size=3, op=4:read=0:write=1, device=5'"),
    disorder_ns: SECOND_NS,
    parser: |_, _| {
        Ok(records(Some(b"Timestamp,Offset"), "seconds,offset,size,0 read|1 write,volume", record))
    },
    sniff: None,
};

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
