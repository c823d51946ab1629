//! UMass SPC: `ASU,LBA,size,opcode,timestamp`: 512-byte sectors, size in bytes, r or w, seconds.

use destage_engine::registry::Entry;

use destage_engine::units::SECTOR_BYTES;

use super::text::{decimal, number, number_32, op_word, records, scaled};
use super::{Format, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "spc",
        summary: "UMass SPC: ASU,LBA,size,r|w,seconds",
        source: "UMass trace repository, SPC trace file format",
        params: &[],
    },
    endings: &[".spc"],
    has_times: true,
    has_service: false,
    as_bytes: None,
    disorder_ns: 0,
    parser: |_, _| Ok(records(None, "ASU,LBA,size,r|w,seconds", record)),
    sniff: None,
};

fn record(line: &[u8]) -> Option<TraceRecord> {
    // Optional fields may follow.
    let mut fields = line.splitn(6, |&byte| byte == b',').map(<[u8]>::trim_ascii);
    let (asu, block, size) = (fields.next()?, fields.next()?, fields.next()?);
    let (opcode, seconds) = (fields.next()?, fields.next()?);
    Some(TraceRecord {
        time_ns: decimal(seconds, 9)?,
        device: number_32(asu)?,
        offset_bytes: scaled(number(block)?, SECTOR_BYTES)?,
        length_bytes: scaled(number(size)?, 1)?,
        op: op_word(opcode)?,
        service: None,
    })
}
