//! Superblocks, anchors and records of members: what is accepted has one encoding.

use crate::edits::labels;
use destage_nvslog::LogId;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::Claim;
use destage_nvslog::crc::crc32c_of_both;
use destage_nvslog::member::{MemberRecord, RECORD_BYTES};
use destage_nvslog::record::Record;
use destage_nvslog::superblock::Superblock;

const LOG: LogId = LogId([2; 16]);
const SECTOR: usize = 512;

/// The bytes, and the same with a checksum that holds.
fn both(data: &[u8], bytes: usize, prefix: &[u8]) -> [Vec<u8>; 2] {
    let mut given = data.to_vec();
    given.resize(bytes, 0);
    let mut right = given.clone();
    let crc = crc32c_of_both(prefix, &right[12..]);
    right[8..12].copy_from_slice(&crc.to_le_bytes());
    [given, right]
}

pub(crate) fn check(data: &[u8]) -> bool {
    let mut understood = false;
    for bytes in both(data, SECTOR, &[]) {
        match Superblock::decode(&bytes) {
            Ok(superblock) => {
                understood = true;
                let again = Superblock { unknown_write_features: 0, ..superblock };
                assert_eq!(Superblock::decode(&again.encode()), Ok(again));
                assert!(superblock.device_bytes() > 0);
                let chosen = Superblock::choose(&bytes, &again.encode());
                assert!(chosen.is_ok_and(|chosen| chosen.confirmed));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    for bytes in both(data, SECTOR, &LOG.0) {
        if let Some(anchor) = Anchor::decode(&bytes, LOG) {
            understood = true;
            assert_eq!(anchor.encode(LOG)[..], bytes);
        }
    }
    for bytes in both(data, RECORD_BYTES, &[]) {
        if let Some(record) = MemberRecord::decode(&bytes) {
            understood = true;
            assert_eq!(record.encode()[..], bytes);
        }
    }
    understood | commit(data)
}

/// Records, one behind the other: each that is understood has one encoding.
fn commit(data: &[u8]) -> bool {
    let mut rest = data;
    let mut again = Vec::new();
    while let Ok((record, length)) = Record::decode(rest) {
        again.clear();
        if let Some(record) = record {
            record.encode(&mut again);
            assert_eq!(again, &rest[..length]);
        }
        rest = &rest[length..];
    }
    if let Some(claim) = Claim::read(data) {
        let _ = (claim.blocks(512), claim.holds(data, LOG, 512));
        if data.len() >= claim.bytes as usize {
            let _ = claim.records(data);
        }
    }
    !again.is_empty()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let lost = vec![3, 9, 1 << 40];
    let record = MemberRecord { number: 4, device: [7; 16], below: 12, lost };
    let mut seeds = labels();
    seeds.push(record.encode().to_vec());
    seeds.sort();
    seeds.dedup();
    seeds.iter_mut().for_each(|seed| seed.truncate(SECTOR));
    seeds
}
