//! SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`: seconds, R or W, bytes. The response
//! time may be missing.

use destage_engine::registry::Entry;

use super::text::{decimal, number, number_32, op_word, records, scaled, split};
use super::{Format, SECOND_NS, TraceRecord};

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
    as_bytes: None,
    disorder_ns: SECOND_NS,
    parser: |_, _| {
        Ok(records(Some(b"Timestamp,Response"), "seconds,response,R|W,LUN,offset,size", record))
    },
    sniff: None,
};

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
