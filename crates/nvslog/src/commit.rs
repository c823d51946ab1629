//! Commits: a header and its records. The pages that they name are in slots.

use super::crc::crc32c_of_both;
use super::record::{Record, RecordError};
use super::{COMMIT_BYTES_MAX, HEADER_BYTES, LogId, NUMBER_MAX, put, u32_at, u64_at};
use alloc::vec::Vec;

const MAGIC: &[u8; 8] = b"DSTGCMIT";
const OPENS: u32 = 1;
const PADS: u32 = 2;

/// What a commit's header says, but for what follows from its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// One more with each start.
    pub epoch: u32,
    /// One more with each commit.
    pub sequence: u64,
    /// All commits up to this sequence were durable when this one was written.
    pub durable_through: u64,
    /// Where in the ring the header is.
    pub block: u64,
    /// Highest version given out so far.
    pub last_version: u64,
    /// What it is for.
    pub kind: Kind,
}

/// What a commit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records, or none.
    Plain,
    /// The first of an epoch.
    Opens,
    /// Fills the ring to its end.
    Pads {
        /// Blocks behind the commit's own.
        blocks: u32,
    },
}

/// What the first block of a commit says before its checksum is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The header.
    pub header: Header,
    /// Header and records, without filling.
    pub bytes: u32,
    records: u32,
    crc: u32,
}

/// Why an intact commit cannot be used: a program wrote it so.
pub type BadRecord = (u32, RecordError);

impl Claim {
    /// Reads a header without trusting it; `None` if it cannot be one.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Claim> {
        if bytes.len() < HEADER_BYTES || bytes[..8] != *MAGIC {
            return None;
        }
        let (length, padding) = (u32_at(bytes, 44), u32_at(bytes, 48));
        let kind = match u32_at(bytes, 52) {
            0 => Kind::Plain,
            OPENS => Kind::Opens,
            PADS => Kind::Pads { blocks: padding },
            _ => return None,
        };
        let sizes_fit = (HEADER_BYTES..=COMMIT_BYTES_MAX).contains(&(length as usize))
            && (padding == 0 || matches!(kind, Kind::Pads { .. }));
        let header = Header {
            epoch: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            durable_through: u64_at(bytes, 24),
            block: u64_at(bytes, 32),
            last_version: u64_at(bytes, 56),
            kind,
        };
        let numbers_fit = header.sequence < NUMBER_MAX
            && header.epoch < u32::MAX
            && header.last_version < NUMBER_MAX
            && header.durable_through < header.sequence;
        let (records, crc) = (u32_at(bytes, 40), u32_at(bytes, 8));
        (sizes_fit && numbers_fit).then_some(Claim { header, bytes: length, records, crc })
    }

    /// Blocks of header and records: those that are written and read.
    #[must_use]
    pub fn own_blocks(&self, block_bytes: u32) -> u64 {
        u64::from(self.bytes.div_ceil(block_bytes))
    }

    /// Blocks of the commit, padding included.
    #[must_use]
    pub fn blocks(&self, block_bytes: u32) -> u64 {
        let padding = match self.header.kind {
            Kind::Pads { blocks } => u64::from(blocks),
            _ => 0,
        };
        self.own_blocks(block_bytes) + padding
    }

    /// Whether the checksum holds; `bytes` begin with all own blocks.
    #[must_use]
    pub fn holds(&self, bytes: &[u8], log: LogId, block_bytes: u32) -> bool {
        let end = (self.own_blocks(block_bytes) * u64::from(block_bytes)) as usize;
        bytes.len() >= end && crc32c_of_both(&log.0, &bytes[12..end]) == self.crc
    }

    /// The records of a commit whose checksum holds, without those that may be skipped.
    ///
    /// # Errors
    /// The number of the record that is invalid, and why.
    pub fn records(&self, bytes: &[u8]) -> Result<Vec<Record>, BadRecord> {
        let mut rest = &bytes[HEADER_BYTES..self.bytes as usize];
        let mut records = Vec::new();
        let mut count = 0;
        while !rest.is_empty() {
            let (record, length) = Record::decode(rest).map_err(|error| (count, error))?;
            records.extend(record);
            rest = &rest[length..];
            count += 1;
        }
        let padding = matches!(self.header.kind, Kind::Pads { .. });
        if count != self.records || (padding && count > 0) {
            return Err((count, RecordError::Short));
        }
        Ok(records)
    }
}

/// Blocks of a commit with these records.
#[must_use]
pub fn commit_blocks(records: &[Record], block_bytes: u32) -> u64 {
    let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
    ((HEADER_BYTES + bytes) as u64).div_ceil(u64::from(block_bytes))
}

/// Appends a commit to `out`.
///
/// # Panics
/// If the records are over the limits: the driver bounds a commit before.
pub fn encode(
    header: &Header,
    records: &[Record],
    log: LogId,
    block_bytes: u32,
    out: &mut Vec<u8>,
) {
    encode_with(crc32c_of_both, header, records, (log, block_bytes), out);
}

/// The same with the driver's own CRC-32C, of some bytes and those behind them: many processors
/// have it.
///
/// # Panics
/// As [`encode`].
pub fn encode_with(
    checksum: impl Fn(&[u8], &[u8]) -> u32,
    header: &Header,
    records: &[Record],
    (log, block_bytes): (LogId, u32),
    out: &mut Vec<u8>,
) {
    let at = out.len();
    out.resize(at + HEADER_BYTES, 0);
    records.iter().for_each(|record| record.encode(out));
    let bytes = out.len() - at;
    assert!(bytes <= COMMIT_BYTES_MAX, "too many records for a commit");
    out.resize(at + bytes.next_multiple_of(block_bytes as usize), 0);
    let (flags, padding) = match header.kind {
        Kind::Plain => (0, 0),
        Kind::Opens => (OPENS, 0),
        Kind::Pads { blocks } => {
            assert!(records.is_empty(), "padding has no records");
            (PADS, blocks)
        }
    };
    let to = &mut out[at..];
    put(to, 0, MAGIC);
    put(to, 12, &header.epoch.to_le_bytes());
    put(to, 16, &header.sequence.to_le_bytes());
    put(to, 24, &header.durable_through.to_le_bytes());
    put(to, 32, &header.block.to_le_bytes());
    put(to, 40, &(records.len() as u32).to_le_bytes());
    put(to, 44, &(bytes as u32).to_le_bytes());
    put(to, 48, &padding.to_le_bytes());
    put(to, 52, &flags.to_le_bytes());
    put(to, 56, &header.last_version.to_le_bytes());
    let crc = checksum(&log.0, &to[12..]);
    put(to, 8, &crc.to_le_bytes());
}
