//! What bytes are read as: records, headers and anchors whose checksum holds, each limit at its
//! edge.

use destage_engine::units::Page;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Claim, Header, Kind};
use destage_nvslog::crc::Crc;
use destage_nvslog::record::{
    ALL_SECTORS, Origin, PAGES_MAX, Pages, Record, RecordError, VERSION_MAX,
};
use destage_nvslog::recover::{Damage, RecoverError};
use destage_nvslog::{HEADER_BYTES, LogId, NUMBER_MAX, RANGE_PAGES_MAX};

const LOG: LogId = LogId([7; 16]);

fn encoded(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

/// Its first eight bytes say what it is and how long. The types that a program knows have 24 bytes
/// at least.
#[test]
fn a_record_is_skipped_by_its_length_of_eight_bytes_or_more() {
    let skipped = [128, 1, 1, 0, 0, 0, 0, 0];
    assert_eq!(Record::decode(&skipped), Ok((None, 8)));
    for length in 0..8 {
        assert_eq!(Record::decode(&skipped[..length]), Err(RecordError::Short), "{length}");
    }
    let mut trim = encoded(&Record::Trim { pages: Pages::new(Page(4), 2), version: 3 });
    for eights in [1, 2] {
        trim[2] = eights;
        assert_eq!(Record::decode(&trim), Err(RecordError::Unknown), "{eights}");
    }
}

#[test]
fn a_record_names_pages_up_to_the_last_one_and_a_million_at_most() {
    let decoded = |first, count, version| {
        let record = Record::Trim { pages: Pages::new(Page(first), count), version };
        let found = Record::decode(&encoded(&record));
        assert!(found.is_err() || found == Ok((Some(record), 24)));
        found.err()
    };
    let (page, version) = (PAGES_MAX - 1, VERSION_MAX - 1);
    assert_eq!(decoded(page, RANGE_PAGES_MAX, version), None);
    assert_eq!(decoded(page + 1, RANGE_PAGES_MAX, version), Some(RecordError::Pages));
    assert_eq!(decoded(page, RANGE_PAGES_MAX + 1, version), Some(RecordError::Pages));
    assert_eq!(decoded(page, RANGE_PAGES_MAX, version + 1), Some(RecordError::Version));
    assert_eq!(decoded(page, 1, 0), None);
    // The number of a page and a version share eight bytes.
    for (page, version) in [(page, 0), (page, version), (0, version), (u64::from(u32::MAX), 0)] {
        let (page, slot, sectors) = (Page(page), u32::MAX - 1, ALL_SECTORS);
        let record = Record::Data { page, version, slot, sectors, crc: 5, origin: Origin::Frozen };
        assert_eq!(Record::decode(&encoded(&record)), Ok((Some(record), 24)));
    }
}

#[test]
fn errors_say_which_record_is_wrong_and_why() {
    let error = RecordError::Version;
    assert_eq!(error.to_string(), "a version out of order");
    let damage = Damage::Record { index: 2, error };
    let text = RecoverError { block: 5, sequence: 9, damage }.to_string();
    let expected = "the NVS log is damaged at block 5, commit 9: record 2: a version out of order";
    assert_eq!(text, expected);
}

/// What is behind it in its block is looked at with the checksum.
#[test]
fn a_header_is_read_from_its_own_bytes() {
    let (epoch, sequence, durable_through, block, last_version) = (1, 2, 1, 1, 0);
    let kind = Kind::Plain;
    let header = Header { epoch, sequence, durable_through, block, last_version, kind };
    let mut bytes = Vec::new();
    commit::encode(&header, &[], LOG, 512, &mut bytes);
    let read = |length: usize| Claim::read(&bytes[..length]).map(|claim| claim.header);
    assert_eq!([read(HEADER_BYTES), read(512)], [Some(header); 2]);
    assert_eq!([read(HEADER_BYTES - 1), read(8), read(0)], [None; 3]);
    bytes[0] ^= 1;
    assert_eq!(Claim::read(&bytes), None);
}

/// A later program may use the bytes that are reserved now: this one does not know what they mean.
#[test]
fn an_anchor_with_reserved_bytes_or_numbers_too_high_is_refused() {
    let anchor = Anchor { number: 7, tail_sequence: 5, tail_block: 3, durable_through: 9 };
    let with = |at: usize, byte: u8| {
        let mut bytes = anchor.encode(LOG);
        bytes[at] = byte;
        let crc = Crc::default().with(&LOG.0).with(&bytes[12..]).value();
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        Anchor::decode(&bytes, LOG)
    };
    assert_eq!(with(16, 8), Some(Anchor { number: 8, ..anchor }));
    for reserved in [12, 15, 48, 511] {
        assert_eq!(with(reserved, 1), None, "byte {reserved}");
    }
    let numbers = |number, tail_sequence, durable_through| {
        let anchor = Anchor { number, tail_sequence, durable_through, ..anchor };
        let found = Anchor::decode(&anchor.encode(LOG), LOG);
        assert!(found.is_none() || found == Some(anchor));
        found.is_some()
    };
    let most = NUMBER_MAX - 1;
    assert!(numbers(most, most, most));
    assert!(!numbers(NUMBER_MAX, most, most));
    assert!(!numbers(most, NUMBER_MAX, most));
    assert!(!numbers(most, most, NUMBER_MAX));
}
