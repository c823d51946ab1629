//! VSCSI, as CloudPhysics recorded virtual disks: little-endian records of 32 bytes (version 1) or
//! 40 (version 2), microseconds, sectors of 512 bytes, lengths in bytes, SCSI command codes.

use destage_engine::registry::Entry;

use super::text::scaled;
use super::{Bad, Format, Op, Parsed, Parser, RecordParser, TraceRecord};

/// Where each version keeps its fields.
#[derive(Clone, Copy)]
struct Layout {
    record_bytes: usize,
    version: u16,
    length: usize,
    command: usize,
    version_at: usize,
    block: usize,
    time: usize,
}

/// sn u32, len u32, nSG u32, cmd u16, ver u16, lbn u64, ts u64.
const VERSION_1: Layout = Layout {
    record_bytes: 32,
    version: 1,
    length: 4,
    command: 12,
    version_at: 14,
    block: 16,
    time: 24,
};
/// cmd u16, ver u16, sn u32, len u32, nSG u32, lbn u64, ts u64, rt u64.
const VERSION_2: Layout = Layout {
    record_bytes: 40,
    version: 2,
    length: 8,
    command: 0,
    version_at: 2,
    block: 16,
    time: 24,
};

pub(super) const FORMAT_1: Format = Format {
    entry: &Entry {
        name: "vscsi1",
        summary: "VSCSI version 1, binary (CloudPhysics)",
        source: "CloudPhysics; libCacheSim",
        params: &[],
    },
    endings: &[".vscsi", ".vscsi1", ".vscsitrace"],
    has_times: true,
    has_service: false,
    as_bytes: None,
    disorder_ns: 0,
    parser: |_, _| Ok(Parser::Records(Box::new(VERSION_1))),
    sniff: Some(|head| VERSION_1.fits(head)),
};

pub(super) const FORMAT_2: Format = Format {
    entry: &Entry {
        name: "vscsi2",
        summary: "VSCSI version 2, binary (CloudPhysics)",
        source: "CloudPhysics; libCacheSim",
        params: &[],
    },
    endings: &[".vscsi2"],
    has_times: true,
    has_service: false,
    as_bytes: None,
    disorder_ns: 0,
    parser: |_, _| Ok(Parser::Records(Box::new(VERSION_2))),
    sniff: Some(|head| VERSION_2.fits(head)),
};

impl Layout {
    /// Whether the first records all carry the version, and known commands for the most part.
    fn fits(self, head: &[u8]) -> bool {
        let records = head.chunks_exact(self.record_bytes).take(64);
        let (mut count, mut transfers) = (0, 0);
        for record in records {
            if u16_at(record, self.version_at) >> 8 != self.version {
                return false;
            }
            count += 1;
            transfers += usize::from(op_of(u16_at(record, self.command)).is_some());
        }
        count > 0 && 2 * transfers >= count
    }
}

impl RecordParser for Layout {
    fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    fn record(&mut self, bytes: &[u8]) -> Result<Parsed, Bad> {
        if u16_at(bytes, self.version_at) >> 8 != self.version {
            return Err(Bad::new("a record that carries the version of its VSCSI format"));
        }
        let Some(op) = op_of(u16_at(bytes, self.command)) else { return Ok(Parsed::Ignored) };
        let time_ns = u64_at(bytes, self.time).checked_mul(1_000);
        let offset_bytes = scaled(u64_at(bytes, self.block), 512);
        let (Some(time_ns), Some(offset_bytes)) = (time_ns, offset_bytes) else {
            return Err(Bad::new("a time and a block that fit 64 bits in ns and bytes"));
        };
        let length_bytes = u64::from(u32_at(bytes, self.length));
        let record =
            TraceRecord { time_ns, device: 0, offset_bytes, length_bytes, op, service: None };
        Ok(Parsed::Request(record))
    }
}

/// Reads and writes of 6, 10, 12 and 16 bytes; other commands move no data.
fn op_of(command: u16) -> Option<Op> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(Op::Write),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// A little-endian 32-bit number.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A little-endian 64-bit number.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
