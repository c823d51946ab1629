//! Our own binary format, `.dtrc`.
//!
//! All numbers are little-endian. A header of 16 bytes: `DSTGTRC1`, record size u32 (32, or 48 with
//! service times), zero u32. Then records:
//!
//! | byte | what |
//! |---|---|
//! | 0 | time u64, ns from the first record |
//! | 8 | offset u64, bytes |
//! | 16 | length u64, bytes |
//! | 24 | device u32 |
//! | 28 | operation u8: 0 read, 1 write, 2 not recorded, 255 end mark |
//! | 29 | flags u8: bit 0 has service times, bit 1 asynchronous, bit 2 synchronous |
//! | 30 | zero u16 |
//! | 32 | service start u64, ns from arrival (48-byte records only) |
//! | 40 | service stop u64, ns from arrival (48-byte records only) |
//!
//! The last record is an end mark whose time field holds the number of requests, so that a
//! truncated file is noticed wherever it was cut.

use std::io::{self, BufRead};

use destage_engine::registry::Entry;

use super::vscsi::{u32_at, u64_at};
use super::{Bad, Format, Op, Parsed, Parser, RecordParser, Service, TraceRecord};

/// What a file begins with.
const MAGIC: &[u8; 8] = b"DSTGTRC1";
const HEADER_BYTES: usize = 16;
const PLAIN_BYTES: usize = 32;
const SERVICE_BYTES: usize = 48;
const OP_END: u8 = 255;

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "destage",
        summary: "our own binary format: 32 bytes per request, or 48 with service times",
        source: "crates/workload/src/trace/native.rs",
        params: &[],
    },
    endings: &[".dtrc"],
    has_times: true,
    has_service: true,
    as_bytes: None,
    disorder_ns: 0,
    parser: |_, _| Ok(Parser::Records(Box::new(Native { record_bytes: PLAIN_BYTES }))),
    sniff: Some(|head| head.starts_with(MAGIC)),
};

struct Native {
    record_bytes: usize,
}

impl RecordParser for Native {
    fn header(&mut self, input: &mut dyn BufRead) -> io::Result<Result<u64, Bad>> {
        let mut header = [0; HEADER_BYTES];
        input.read_exact(&mut header)?;
        self.record_bytes = u32_at(&header, 8) as usize;
        let known = matches!(self.record_bytes, PLAIN_BYTES | SERVICE_BYTES);
        if !header.starts_with(MAGIC) || !known || u32_at(&header, 12) != 0 {
            return Ok(Err(Bad::new("the header DSTGTRC1 with a record size of 32 or 48")));
        }
        Ok(Ok(HEADER_BYTES as u64))
    }

    fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    fn record(&mut self, bytes: &[u8]) -> Result<Parsed, Bad> {
        let (offset_bytes, length_bytes) = (u64_at(bytes, 8), u64_at(bytes, 16));
        let (op, flags) = (bytes[28], bytes[29]);
        let op = match op {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Unknown,
            OP_END => return Ok(Parsed::End(u64_at(bytes, 0))),
            _ => return Err(Bad::new("an operation of 0, 1, 2 or 255 at byte 28 of the record")),
        };
        if offset_bytes >= 1 << 62 || length_bytes >= 1 << 62 {
            return Err(Bad::new("an offset and a length below 2^62"));
        }
        let service = (flags & 1 == 1 && self.record_bytes == SERVICE_BYTES).then(|| Service {
            start_ns: u64_at(bytes, 32),
            stop_ns: u64_at(bytes, 40),
            asynchronous: flags & 2 != 0,
            synchronous: flags & 4 != 0,
        });
        let (time_ns, device) = (u64_at(bytes, 0), u32_at(bytes, 24));
        let record = TraceRecord { time_ns, device, offset_bytes, length_bytes, op, service };
        Ok(Parsed::Request(record))
    }

    fn wants_end(&self) -> bool {
        true
    }
}

/// The header of a file with or without service times.
pub(super) fn header(with_service: bool) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&(record_size(with_service) as u32).to_le_bytes());
    header
}

/// The contents of a file of these records, which are 32 bytes each; none if they are not.
pub fn frame(records: &[u8]) -> Option<Vec<u8>> {
    if !records.len().is_multiple_of(PLAIN_BYTES) {
        return None;
    }
    let (end, end_bytes) = encode_end((records.len() / PLAIN_BYTES) as u64, false);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + records.len() + end_bytes);
    bytes.extend_from_slice(&header(false));
    bytes.extend_from_slice(records);
    bytes.extend_from_slice(&end[..end_bytes]);
    Some(bytes)
}

/// Appends a request as a record of 32 bytes, without its service times.
pub fn append(record: &TraceRecord, records: &mut Vec<u8>) {
    let (bytes, size) = encode(record, false);
    records.extend_from_slice(&bytes[..size]);
}

const fn record_size(with_service: bool) -> usize {
    if with_service { SERVICE_BYTES } else { PLAIN_BYTES }
}

/// A record's bytes are the first of these, as many as [`encode`] says.
pub(super) type Encoded = [u8; SERVICE_BYTES];

/// One request.
pub(super) fn encode(record: &TraceRecord, with_service: bool) -> (Encoded, usize) {
    let op = match record.op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Unknown => 2,
    };
    let mut bytes = fields(record.time_ns, record.offset_bytes, record.length_bytes, op);
    bytes[24..28].copy_from_slice(&record.device.to_le_bytes());
    if let Some(service) = record.service.filter(|_| with_service) {
        bytes[29] = 1 | u8::from(service.asynchronous) << 1 | u8::from(service.synchronous) << 2;
        bytes[32..40].copy_from_slice(&service.start_ns.to_le_bytes());
        bytes[40..48].copy_from_slice(&service.stop_ns.to_le_bytes());
    }
    (bytes, record_size(with_service))
}

/// The end mark.
pub(super) fn encode_end(requests: u64, with_service: bool) -> (Encoded, usize) {
    (fields(requests, 0, 0, OP_END), record_size(with_service))
}

fn fields(time: u64, offset_bytes: u64, length_bytes: u64, op: u8) -> Encoded {
    let mut bytes = [0; SERVICE_BYTES];
    bytes[0..8].copy_from_slice(&time.to_le_bytes());
    bytes[8..16].copy_from_slice(&offset_bytes.to_le_bytes());
    bytes[16..24].copy_from_slice(&length_bytes.to_le_bytes());
    bytes[28] = op;
    bytes
}
