//! Commits: header and records in a descriptor, payloads behind it.

use super::crc::{Crc, crc32c, crc32c_of_both};
use super::record::{Record, RecordError};
use super::{
    DESCRIPTOR_BYTES_MAX, HEADER_BYTES, LogId, NUMBER_MAX, PAYLOAD_BYTES_MAX, put, u32_at, u64_at,
};
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
        /// Blocks behind the descriptor.
        blocks: u32,
    },
}

/// What the first block of a commit says before its checksum is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The header.
    pub header: Header,
    /// Header and records, without filling.
    pub descriptor_bytes: u32,
    /// Payload blocks.
    pub payload_blocks: u32,
    records: u32,
    crc: u32,
}

/// Why a whole descriptor makes no commit: a program wrote it so.
pub type BadRecord = (u32, RecordError);

impl Claim {
    /// Reads a header without trusting it; `None` if it cannot be one.
    #[must_use]
    pub fn read(bytes: &[u8], block_bytes: u32) -> Option<Claim> {
        if bytes.len() < HEADER_BYTES || bytes[..8] != *MAGIC {
            return None;
        }
        let (descriptor_bytes, payload_blocks) = (u32_at(bytes, 44), u32_at(bytes, 48));
        let kind = match u32_at(bytes, 52) {
            0 => Kind::Plain,
            OPENS => Kind::Opens,
            PADS => Kind::Pads { blocks: payload_blocks },
            _ => return None,
        };
        let payload_bytes = u64::from(payload_blocks) * u64::from(block_bytes);
        let sizes_fit = (HEADER_BYTES..=DESCRIPTOR_BYTES_MAX)
            .contains(&(descriptor_bytes as usize))
            && (payload_bytes <= PAYLOAD_BYTES_MAX || matches!(kind, Kind::Pads { .. }));
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
        (sizes_fit && numbers_fit).then_some(Claim {
            header,
            descriptor_bytes,
            payload_blocks,
            records,
            crc,
        })
    }

    /// Blocks of the descriptor.
    #[must_use]
    pub fn descriptor_blocks(&self, block_bytes: u32) -> u64 {
        u64::from(self.descriptor_bytes.div_ceil(block_bytes))
    }

    /// Blocks of the whole commit.
    #[must_use]
    pub fn blocks(&self, block_bytes: u32) -> u64 {
        self.descriptor_blocks(block_bytes) + u64::from(self.payload_blocks)
    }

    /// Blocks that are read to check it: not those of padding.
    #[must_use]
    pub fn read_blocks(&self, block_bytes: u32) -> u64 {
        match self.header.kind {
            Kind::Pads { .. } => self.descriptor_blocks(block_bytes),
            _ => self.blocks(block_bytes),
        }
    }

    /// Whether the descriptor's checksum holds; `bytes` begin with all of its blocks.
    #[must_use]
    pub fn holds(&self, bytes: &[u8], log: LogId, block_bytes: u32) -> bool {
        let end = (self.descriptor_blocks(block_bytes) * u64::from(block_bytes)) as usize;
        bytes.len() >= end && crc32c_of_both(&log.0, &bytes[12..end]) == self.crc
    }

    /// The records of a descriptor whose checksum holds.
    ///
    /// # Errors
    /// The number of the invalid record, and why.
    pub fn records(&self, bytes: &[u8], block_bytes: u32) -> Result<Vec<Record>, BadRecord> {
        let mut rest = &bytes[HEADER_BYTES..self.descriptor_bytes as usize];
        let mut records = Vec::new();
        let mut payload_blocks = 0;
        while !rest.is_empty() {
            let bad = |error| (records.len() as u32, error);
            let (record, length) = Record::decode(rest).map_err(bad)?;
            payload_blocks += record.payload_blocks(block_bytes);
            records.push(record);
            rest = &rest[length..];
        }
        let count = records.len() as u32;
        let padding = matches!(self.header.kind, Kind::Pads { .. });
        let expected = if padding { 0 } else { u64::from(self.payload_blocks) };
        if count != self.records || payload_blocks != expected || (padding && count > 0) {
            return Err((count, RecordError::Short));
        }
        Ok(records)
    }
}

/// Blocks of a descriptor with these records.
#[must_use]
pub fn descriptor_blocks(records: &[Record], block_bytes: u32) -> u64 {
    let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
    ((HEADER_BYTES + bytes) as u64).div_ceil(u64::from(block_bytes))
}

/// Blocks of a commit with these records.
#[must_use]
pub fn commit_blocks(records: &[Record], block_bytes: u32) -> u64 {
    let payload: u64 = records.iter().map(|record| record.payload_blocks(block_bytes)).sum();
    descriptor_blocks(records, block_bytes) + payload
}

/// Appends a commit's descriptor to `out`; the payloads, each by [`append_payload`], follow it.
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
    let mut payload_blocks = 0;
    for record in records {
        record.encode(out);
        payload_blocks += record.payload_blocks(block_bytes);
    }
    let descriptor_bytes = out.len() - at;
    assert!(descriptor_bytes <= DESCRIPTOR_BYTES_MAX, "too many records for a commit");
    assert!(payload_blocks * u64::from(block_bytes) <= PAYLOAD_BYTES_MAX, "too much payload");
    out.resize(at + descriptor_bytes.next_multiple_of(block_bytes as usize), 0);
    let (flags, payload_blocks) = match header.kind {
        Kind::Plain => (0, payload_blocks as u32),
        Kind::Opens => (OPENS, payload_blocks as u32),
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
    put(to, 44, &(descriptor_bytes as u32).to_le_bytes());
    put(to, 48, &payload_blocks.to_le_bytes());
    put(to, 52, &flags.to_le_bytes());
    put(to, 56, &header.last_version.to_le_bytes());
    let crc = checksum(&log.0, &to[12..]);
    put(to, 8, &crc.to_le_bytes());
}

/// Appends a payload, filled to whole blocks.
pub fn append_payload(bytes: &[u8], block_bytes: u32, out: &mut Vec<u8>) {
    let end = out.len() + bytes.len().next_multiple_of(block_bytes as usize);
    out.extend_from_slice(bytes);
    out.resize(end, 0);
}

/// Checksum of a payload with its filling.
#[must_use]
pub fn payload_crc(bytes: &[u8], block_bytes: u32) -> u32 {
    if bytes.len().is_multiple_of(block_bytes as usize) {
        return crc32c(bytes);
    }
    let mut filling = bytes.len().next_multiple_of(block_bytes as usize) - bytes.len();
    let mut crc = Crc::default().with(bytes);
    while filling > 0 {
        let part = filling.min(64);
        crc = crc.with(&[0; 64][..part]);
        filling -= part;
    }
    crc.value()
}
