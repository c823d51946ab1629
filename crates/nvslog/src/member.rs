//! Member records: how far the rebuild of a member is, and which of its pages are lost; in two
//! copies on the member itself.

use super::crc::crc32c;
use super::superblock::Uuid;
use super::{FOUND_MAX, field, put, u32_at, u64_at};
use alloc::vec::Vec;

const MAGIC: &[u8; 8] = b"DSTGMEMB";
/// Bytes of a record.
pub const RECORD_BYTES: usize = 4096;
const LIST: usize = 64;
/// Most lost pages that a record names.
pub const LOST_MAX: usize = (RECORD_BYTES - LIST) / 8;

/// What a member knows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberRecord {
    /// One more than the last record's.
    pub number: u64,
    /// The device.
    pub device: Uuid,
    /// While it is being rebuilt: its pages below are in sync.
    pub below: u64,
    /// Pages that could not be computed, in order; at most [`LOST_MAX`].
    pub lost: Vec<u64>,
}

impl MemberRecord {
    /// The record's bytes.
    ///
    /// # Panics
    /// If it names too many pages.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        assert!(self.lost.len() <= LOST_MAX, "more lost pages than a record has room for");
        let mut bytes = [0; RECORD_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 12, &(self.lost.len() as u32).to_le_bytes());
        put(&mut bytes, 16, &self.number.to_le_bytes());
        put(&mut bytes, 24, &self.device);
        put(&mut bytes, 40, &self.below.to_le_bytes());
        for (i, page) in self.lost.iter().enumerate() {
            put(&mut bytes, LIST + 8 * i, &page.to_le_bytes());
        }
        let crc = crc32c(&bytes[12..]);
        put(&mut bytes, 8, &crc.to_le_bytes());
        bytes
    }

    /// The record in these bytes; `None` if they are torn, damaged or none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<MemberRecord> {
        let bytes = bytes.get(..RECORD_BYTES)?;
        if bytes[..8] != *MAGIC || u32_at(bytes, 8) != crc32c(&bytes[12..]) {
            return None;
        }
        let count = u32_at(bytes, 12) as usize;
        if count > LOST_MAX {
            return None;
        }
        let lost: Vec<u64> = (0..count).map(|i| u64_at(bytes, LIST + 8 * i)).collect();
        let rest = bytes[48..LIST].iter().chain(&bytes[LIST + 8 * count..]);
        let number = u64_at(bytes, 16);
        let ordered = number < FOUND_MAX && lost.windows(2).all(|pair| pair[0] < pair[1]);
        (ordered && rest.into_iter().all(|byte| *byte == 0)).then(|| MemberRecord {
            number,
            device: field(bytes, 24),
            below: u64_at(bytes, 40),
            lost,
        })
    }

    /// Whether the bytes begin as a record's do, intact or not.
    #[must_use]
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// The one of a device's two copies that counts.
    #[must_use]
    pub fn choose(copies: [&[u8]; 2], device: Uuid) -> Option<MemberRecord> {
        let whole = copies.into_iter().filter_map(MemberRecord::decode);
        whole.filter(|record| record.device == device).max_by_key(|record| record.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, lost: &[u64]) -> MemberRecord {
        MemberRecord { number, device: [2; 16], below: 640, lost: lost.to_vec() }
    }

    /// Bytes whose checksum holds are a record only if each of them makes sense.
    #[test]
    fn a_record_is_refused_unless_all_of_it_makes_sense() {
        let lost = |lost: &[u64]| Some(record(4, lost));
        let with = |at: usize, value: &[u8]| {
            let mut bytes = record(4, &[3, 9]).encode();
            put(&mut bytes, at, value);
            let crc = crc32c(&bytes[12..]);
            put(&mut bytes, 8, &crc.to_le_bytes());
            MemberRecord::decode(&bytes)
        };
        assert_eq!(with(0, MAGIC), lost(&[3, 9]));
        assert_eq!(with(0, b"DSTGSUPR"), None);
        // Reserved bytes, and those behind the list.
        for at in [48, 63, 80, 4095] {
            assert_eq!(with(at, &[1]), None, "byte {at}");
        }
        // The pages are in order, none twice.
        let second = |page: u64| with(72, &page.to_le_bytes());
        assert!([0, 2, 3].map(second).iter().all(Option::is_none));
        assert_eq!([4, 9].map(second), [lost(&[3, 4]), lost(&[3, 9])]);
        let count = |count: u32| with(12, &count.to_le_bytes());
        assert!([0, 1, 3, 504, 505, u32::MAX].map(count).iter().all(Option::is_none));
        let numbered = |number: u64| with(16, &number.to_le_bytes()).map(|record| record.number);
        assert_eq!(numbered(FOUND_MAX - 1), Some(FOUND_MAX - 1));
        assert_eq!([FOUND_MAX, FOUND_MAX + 1].map(numbered), [None; 2]);
    }

    /// A start distinguishes a damaged record from a device that never had one.
    #[test]
    fn a_damaged_record_still_begins_as_one() {
        let mut bytes = record(4, &[3]).encode();
        bytes[8..].fill(7);
        assert!(MemberRecord::decode(&bytes).is_none() && MemberRecord::begins(&bytes));
        assert!(MemberRecord::begins(&bytes[..8]) && !MemberRecord::begins(&bytes[..7]));
        bytes[7] ^= 1;
        assert!(!MemberRecord::begins(&bytes) && !MemberRecord::begins(&[0; RECORD_BYTES]));
    }

    #[test]
    fn a_record_has_room_for_504_pages() {
        assert_eq!(LOST_MAX, 504);
        let full: Vec<u64> = (1..=504).collect();
        let bytes = record(4, &full).encode();
        assert_eq!((u32_at(&bytes, 12), u64_at(&bytes, 4088)), (504, 504));
        assert_eq!(MemberRecord::decode(&bytes), Some(record(4, &full)));
    }
}
