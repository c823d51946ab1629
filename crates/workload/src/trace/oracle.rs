//! libCacheSim oracleGeneral: little-endian records of 24 bytes: time u32 (s), object u64, size u32
//! (bytes), next access i64 (-1: none). No operation is recorded.

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use super::text::scaled;
use super::vscsi::{u32_at, u64_at};
use super::{Bad, Format, Op, Parsed, Parser, RecordParser, TraceRecord};

const RECORD_BYTES: usize = 24;

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "oracle-general",
        summary: "libCacheSim oracleGeneral, binary; operations are not recorded",
        source: "libCacheSim",
        params: &[Param {
            name: "unit",
            unit: "bytes",
            default: "512",
            range: "1..1048576",
            help: "bytes that an object number counts in",
        }],
    },
    endings: &[".oraclegeneral", ".oraclegeneral.bin"],
    has_times: true,
    has_service: false,
    as_bytes: None,
    disorder_ns: 0,
    parser,
    sniff: Some(fits),
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    let unit_bytes = choice.number("unit", 1, 1_048_576)?;
    Ok(Parser::Records(Box::new(Oracle { unit_bytes })))
}

/// Times in order, sizes below 2 GiB, next accesses ahead.
fn fits(head: &[u8]) -> bool {
    let mut count = 0;
    let mut latest = 0;
    for record in head.chunks_exact(RECORD_BYTES).take(64) {
        let (time, size) = (u32_at(record, 0), u32_at(record, 12));
        let next = u64_at(record, 16) as i64;
        count += 1;
        if time < latest || size >= 1 << 31 || next != -1 && !(count..1 << 40).contains(&next) {
            return false;
        }
        latest = time;
    }
    count > 0
}

struct Oracle {
    unit_bytes: u64,
}

impl RecordParser for Oracle {
    fn record_bytes(&self) -> usize {
        RECORD_BYTES
    }

    fn record(&mut self, bytes: &[u8]) -> Result<Parsed, Bad> {
        let next = u64_at(bytes, 16) as i64;
        if next < -1 {
            return Err(Bad::new("a next access of -1 or more"));
        }
        let Some(offset_bytes) = scaled(u64_at(bytes, 4), self.unit_bytes) else {
            return Err(Bad::new("an object number that fits 62 bits in bytes (see `unit`)"));
        };
        Ok(Parsed::Request(TraceRecord {
            time_ns: u64::from(u32_at(bytes, 0)) * 1_000_000_000,
            device: 0,
            offset_bytes,
            length_bytes: u64::from(u32_at(bytes, 12)),
            op: Op::Unknown,
            service: None,
        }))
    }
}
