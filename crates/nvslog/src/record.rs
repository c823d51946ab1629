//! Records: the entries of a commit, typed, to bytes and back.

use super::{RANGE_PAGES_MAX, put, u16_at, u32_at, u64_at};
use alloc::vec::Vec;
use destage_engine::units::{PAGE_BYTES, Page, SECTORS_PER_PAGE};

/// CRC-32C of each sector of a parity page.
pub type SectorSums = [u32; SECTORS_PER_PAGE as usize];

/// One entry of a commit (docs/nvs-format.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Bytes of a page; the payload follows the descriptor.
    Data {
        /// The page.
        page: Page,
        /// Its number in the order of writes.
        version: u64,
        /// First byte in the page.
        offset: u16,
        /// Bytes, at least 1.
        bytes: u16,
        /// CRC-32C of the payload filled to whole blocks.
        crc: u32,
        /// New, or a copy.
        origin: Origin,
    },
    /// Whole pages that read zeros.
    Zero {
        /// The pages.
        pages: Pages,
        /// Its number in the order of writes.
        version: u64,
        /// New, or a copy.
        origin: Origin,
    },
    /// What is held of these pages counts no more.
    Trim {
        /// The pages.
        pages: Pages,
        /// Its number in the order of writes.
        version: u64,
    },
    /// What was held of these pages is on the disks.
    Release {
        /// The pages.
        pages: Pages,
        /// Up to this version.
        through: u64,
    },
    /// The disks are about to be written.
    Intent {
        /// The pages.
        pages: Pages,
        /// With what is held up to this version.
        through: u64,
        /// A copy of an older record.
        moved: bool,
    },
    /// What an intent will write as the parity of a row.
    Parity {
        /// First page of the intent.
        first: Page,
        /// The row in the group.
        row: u32,
        /// Checksums of P's sectors.
        p: SectorSums,
        /// Checksums of Q's sectors.
        q: Option<SectorSums>,
        /// A copy of an older record.
        moved: bool,
    },
}

/// Whether a record is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the host, with a version of its own.
    New,
    /// A copy of an older record, with its version.
    Moved,
    /// A copy of a record that an open intent has frozen.
    Frozen,
}

/// A run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// First page.
    pub first: Page,
    /// Number of pages, at least 1.
    pub count: u32,
}

impl Pages {
    /// `count` pages from `first`.
    #[must_use]
    pub const fn new(first: Page, count: u32) -> Pages {
        Pages { first, count }
    }

    /// One past the last page.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.first.0 + self.count as u64
    }

    /// Whether the two share a page.
    #[must_use]
    pub const fn overlaps(self, other: Pages) -> bool {
        self.first.0 < other.end() && other.first.0 < self.end()
    }
}

/// Why bytes are no record. The checksum held, so a program wrote them so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// A type, flag or length of a newer format, or of none.
    Unknown,
    /// The record ends behind the descriptor.
    Short,
    /// No pages, too many, or past the last page number.
    Pages,
    /// No bytes, or bytes past the end of the page.
    Range,
    /// A version that is not above those before it.
    Version,
    /// An intent that overlaps an open one, or parity of none.
    Intent,
}

impl core::fmt::Display for RecordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            RecordError::Unknown => "a type, flag or length that this version does not know",
            RecordError::Short => "a record that ends behind its commit's descriptor",
            RecordError::Pages => "a run of no pages, of too many, or past the last page number",
            RecordError::Range => "a run of no bytes, or past the end of its page",
            RecordError::Version => "a version out of order",
            RecordError::Intent => "an intent over an open one, or parity without an intent",
        })
    }
}

const DATA: u8 = 1;
const ZERO: u8 = 2;
const TRIM: u8 = 3;
const RELEASE: u8 = 4;
const INTENT: u8 = 5;
const PARITY: u8 = 6;
const MOVED: u8 = 1;
const HAS_Q: u8 = 2;
const FROZEN: u8 = 4;

impl Record {
    /// Bytes of the record.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        match self {
            Record::Data { .. } => 32,
            Record::Parity { q: None, .. } => 48,
            Record::Parity { q: Some(_), .. } => 80,
            _ => 24,
        }
    }

    /// Blocks of payload.
    #[must_use]
    pub const fn payload_blocks(&self, block_bytes: u32) -> u64 {
        match self {
            Record::Data { bytes, .. } => (*bytes as u64).div_ceil(block_bytes as u64),
            _ => 0,
        }
    }

    /// Whether it is a copy of an older record.
    #[must_use]
    pub const fn moved(&self) -> bool {
        match self {
            Record::Data { origin, .. } | Record::Zero { origin, .. } => {
                !matches!(origin, Origin::New)
            }
            Record::Intent { moved, .. } | Record::Parity { moved, .. } => *moved,
            Record::Trim { .. } | Record::Release { .. } => false,
        }
    }

    /// The version that this record was given: new data, zeros, trims.
    #[must_use]
    pub const fn new_version(&self) -> Option<u64> {
        match self {
            Record::Data { version, origin: Origin::New, .. }
            | Record::Zero { version, origin: Origin::New, .. }
            | Record::Trim { version, .. } => Some(*version),
            _ => None,
        }
    }

    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + self.encoded_bytes(), 0);
        let to = &mut out[at..];
        let run = |to: &mut [u8], kind: u8, pages: Pages, number: u64| {
            to[0] = kind;
            put(to, 4, &pages.count.to_le_bytes());
            put(to, 8, &pages.first.0.to_le_bytes());
            put(to, 16, &number.to_le_bytes());
        };
        match *self {
            Record::Data { page, version, offset, bytes, crc, .. } => {
                to[0] = DATA;
                put(to, 4, &crc.to_le_bytes());
                put(to, 8, &page.0.to_le_bytes());
                put(to, 16, &version.to_le_bytes());
                put(to, 24, &offset.to_le_bytes());
                put(to, 26, &bytes.to_le_bytes());
            }
            Record::Zero { pages, version, .. } => run(to, ZERO, pages, version),
            Record::Trim { pages, version } => run(to, TRIM, pages, version),
            Record::Release { pages, through } => run(to, RELEASE, pages, through),
            Record::Intent { pages, through, .. } => run(to, INTENT, pages, through),
            Record::Parity { first, row, p, q, .. } => {
                to[0] = PARITY;
                to[1] = if q.is_some() { HAS_Q } else { 0 };
                put(to, 4, &row.to_le_bytes());
                put(to, 8, &first.0.to_le_bytes());
                for (i, sum) in p.iter().chain(q.iter().flatten()).enumerate() {
                    put(to, 16 + 4 * i, &sum.to_le_bytes());
                }
            }
        }
        if let Record::Data { origin: Origin::Frozen, .. }
        | Record::Zero { origin: Origin::Frozen, .. } = self
        {
            to[1] |= FROZEN;
        }
        to[1] |= u8::from(self.moved()) * MOVED;
        put(to, 2, &(self.encoded_bytes() as u16).to_le_bytes());
    }

    /// The record at the start of `bytes`, and its length.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn decode(bytes: &[u8]) -> Result<(Record, usize), RecordError> {
        if bytes.len() < 24 {
            return Err(RecordError::Short);
        }
        let length = usize::from(u16_at(bytes, 2));
        let Some(bytes) = bytes.get(..length) else { return Err(RecordError::Short) };
        if length < 24 {
            return Err(RecordError::Unknown);
        }
        let record = Record::typed(bytes)?;
        // One record has one encoding: whatever else the bytes say is not of this version.
        let mut again = Vec::with_capacity(length);
        record.encode(&mut again);
        if again == bytes { Ok((record, length)) } else { Err(RecordError::Unknown) }
    }

    fn typed(bytes: &[u8]) -> Result<Record, RecordError> {
        let moved = bytes[1] & MOVED != 0;
        let origin = match (moved, bytes[1] & FROZEN != 0) {
            (false, false) => Origin::New,
            (true, false) => Origin::Moved,
            (_, true) => Origin::Frozen,
        };
        let argument = u32_at(bytes, 4);
        let (first, number) = (Page(u64_at(bytes, 8)), u64_at(bytes, 16));
        let run = || {
            let pages = Pages::new(first, argument);
            let most = u64::MAX / PAGE_BYTES - u64::from(RANGE_PAGES_MAX);
            let fits = (1..=RANGE_PAGES_MAX).contains(&argument) && first.0 <= most;
            if fits { Ok(pages) } else { Err(RecordError::Pages) }
        };
        Ok(match (bytes[0], bytes.len()) {
            (DATA, 32) => {
                let (offset, bytes) = (u16_at(bytes, 24), u16_at(bytes, 26));
                let end = u64::from(offset) + u64::from(bytes);
                if bytes == 0 || end > PAGE_BYTES {
                    return Err(RecordError::Range);
                }
                if first.0 > u64::MAX / PAGE_BYTES - 1 {
                    return Err(RecordError::Pages);
                }
                Record::Data { page: first, version: number, offset, bytes, crc: argument, origin }
            }
            (ZERO, 24) => Record::Zero { pages: run()?, version: number, origin },
            (TRIM, 24) => Record::Trim { pages: run()?, version: number },
            (RELEASE, 24) => Record::Release { pages: run()?, through: number },
            (INTENT, 24) => Record::Intent { pages: run()?, through: number, moved },
            (PARITY, 48 | 80) => {
                let sums = |at| core::array::from_fn(|i| u32_at(bytes, at + 4 * i));
                let q = (bytes.len() == 80).then(|| sums(48));
                Record::Parity { first, row: argument, p: sums(16), q, moved }
            }
            _ => return Err(RecordError::Unknown),
        })
    }
}
