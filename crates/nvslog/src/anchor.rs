//! Anchors: where the log begins, in two copies.

use super::crc::Crc;
use super::{LogId, NUMBER_MAX, SUPERBLOCK_BYTES, put, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"DSTGANCR";
const USED_BYTES: usize = 48;

/// Where the log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// One more than the last anchor's.
    pub number: u64,
    /// Sequence of the first commit.
    pub tail_sequence: u64,
    /// Its block.
    pub tail_block: u64,
    /// No commit up to this sequence may be missing.
    pub durable_through: u64,
}

impl Anchor {
    /// The anchor's bytes.
    #[must_use]
    pub fn encode(&self, log: LogId) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 16, &self.number.to_le_bytes());
        put(&mut bytes, 24, &self.tail_sequence.to_le_bytes());
        put(&mut bytes, 32, &self.tail_block.to_le_bytes());
        put(&mut bytes, 40, &self.durable_through.to_le_bytes());
        let crc = Crc::default().with(&log.0).with(&bytes[12..]).value();
        put(&mut bytes, 8, &crc.to_le_bytes());
        bytes
    }

    /// The anchor in these bytes; `None` if they are torn, damaged or another log's.
    #[must_use]
    pub fn decode(bytes: &[u8], log: LogId) -> Option<Anchor> {
        let bytes = bytes.get(..SUPERBLOCK_BYTES)?;
        let crc = Crc::default().with(&log.0).with(&bytes[12..]).value();
        if bytes[..8] != *MAGIC || u32_at(bytes, 8) != crc {
            return None;
        }
        let anchor = Anchor {
            number: u64_at(bytes, 16),
            tail_sequence: u64_at(bytes, 24),
            tail_block: u64_at(bytes, 32),
            durable_through: u64_at(bytes, 40),
        };
        let reserved = u32_at(bytes, 12) == 0 && bytes[USED_BYTES..].iter().all(|b| *b == 0);
        let numbers = [anchor.number, anchor.tail_sequence, anchor.durable_through];
        (reserved && numbers.iter().all(|number| *number < NUMBER_MAX)).then_some(anchor)
    }

    /// The one of the copies read (two a device) that counts.
    #[must_use]
    pub fn choose<'a>(copies: impl IntoIterator<Item = &'a [u8]>, log: LogId) -> Option<Anchor> {
        let whole = copies.into_iter().filter_map(|bytes| Anchor::decode(bytes, log));
        whole.max_by_key(|anchor| anchor.number)
    }
}
