//! Records: the entries of a commit, typed, to bytes and back.

use super::{RANGE_PAGES_MAX, put, u32_at, u64_at};
use alloc::vec::Vec;
use destage_engine::units::{Page, SECTORS_PER_PAGE};

/// CRC-32C of each sector of a parity page.
pub type SectorSums = [u32; SECTORS_PER_PAGE as usize];

/// In a record, of a P that was not computed because its disk is missing: no sector is to be taken
/// for it. All sectors of a page have this checksum once in 2^256.
pub const UNKNOWN_SUMS: SectorSums = [u32::MAX; SECTORS_PER_PAGE as usize];

/// One entry of a commit (docs/nvs-format.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A page, or some of its sectors. It replaces what the log had of the page.
    Data {
        /// The page.
        page: Page,
        /// Its number in the order of writes.
        version: u64,
        /// Where the bytes are.
        slot: u32,
        /// Bit i: sector i of the slot is the page's; never 0.
        sectors: u8,
        /// CRC-32C of the slot.
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

/// All sectors of a page.
pub const ALL_SECTORS: u8 = u8::MAX;
/// Pages of a Data record are below this.
pub const PAGES_MAX: u64 = 1 << 44;
/// Versions are below this.
pub const VERSION_MAX: u64 = 1 << 52;

/// Whether a record is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the host, with a version of its own.
    New,
    /// A copy of an older record, with its version.
    Moved,
    /// A copy of a record that an open intent has frozen, or its completion.
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
    /// No valid sector.
    Sectors,
    /// A slot that the device does not have, or that two records name.
    Slot,
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
            RecordError::Sectors => "a page without a valid sector",
            RecordError::Slot => "a slot that the device does not have, or that another page has",
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
/// Version of the record types, in the low bits of the second byte; the flags are above it.
const TYPE_VERSION: u8 = 1;
const MOVED: u8 = 16;
const HAS_Q: u8 = 32;
const FROZEN: u8 = 64;
/// Types that a program may skip if it does not know them.
const MAY_BE_SKIPPED: u8 = 128;

/// Bytes of the record of a page.
pub const DATA_BYTES: usize = 24;

/// Most pages of a Zero record that a program writes. What is left of such a record is one record
/// again when it is moved: the live records of a segment never take more blocks than the segment
/// has, or the ring could not come round (D17). Longer ones are read.
pub const ZERO_PAGES_MAX: u32 = 2;

impl Record {
    /// Bytes of the record.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        match self {
            Record::Parity { q: None, .. } => 48,
            Record::Parity { q: Some(_), .. } => 80,
            _ => DATA_BYTES,
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

    /// The version of the data, zeros or trim that it records, for the first time or again.
    #[must_use]
    pub const fn version(&self) -> Option<u64> {
        match self {
            Record::Data { version, .. }
            | Record::Zero { version, .. }
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
            Record::Data { page, version, slot, sectors, crc, .. } => {
                assert!(page.0 < PAGES_MAX && version < VERSION_MAX, "out of limits");
                to[0] = DATA;
                to[3] = sectors;
                put(to, 4, &crc.to_le_bytes());
                put(to, 8, &(version + (page.0 >> 32 << 52)).to_le_bytes());
                put(to, 16, &(page.0 as u32).to_le_bytes());
                put(to, 20, &slot.to_le_bytes());
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
        to[1] |= TYPE_VERSION;
        if self.moved() {
            to[1] |= MOVED;
        }
        to[2] = (self.encoded_bytes() / 8) as u8;
    }

    /// The record at the start of `bytes`, and its length; no record if this program may skip it.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn decode(bytes: &[u8]) -> Result<(Option<Record>, usize), RecordError> {
        if bytes.len() < 8 {
            return Err(RecordError::Short);
        }
        let length = usize::from(bytes[2]) * 8;
        let Some(bytes) = bytes.get(..length) else { return Err(RecordError::Short) };
        if length == 0 {
            return Err(RecordError::Unknown);
        }
        if bytes[0] & MAY_BE_SKIPPED != 0 {
            return Ok((None, length));
        }
        if length < 24 || bytes[1] & 15 != TYPE_VERSION {
            return Err(RecordError::Unknown);
        }
        let record = Record::typed(bytes)?;
        // One record has one encoding: whatever else the bytes say is not of this version.
        let mut again = Vec::with_capacity(length);
        record.encode(&mut again);
        if again == bytes { Ok((Some(record), length)) } else { Err(RecordError::Unknown) }
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
            let fits = (1..=RANGE_PAGES_MAX).contains(&argument) && first.0 < PAGES_MAX;
            let numbered = number < VERSION_MAX;
            match (fits, numbered) {
                (true, true) => Ok(pages),
                (false, _) => Err(RecordError::Pages),
                (_, false) => Err(RecordError::Version),
            }
        };
        Ok(match (bytes[0], bytes.len()) {
            (DATA, 24) => {
                let high = first.0 >> 52;
                let page = Page((high << 32) + u64::from(u32_at(bytes, 16)));
                let (version, slot) = (first.0 & (VERSION_MAX - 1), u32_at(bytes, 20));
                let (sectors, crc) = (bytes[3], argument);
                if sectors == 0 {
                    return Err(RecordError::Sectors);
                }
                Record::Data { page, version, slot, sectors, crc, origin }
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
