//! The log's bytes: vectors written by hand, round trips, refusals, room, speed of replay.

use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::Page;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Claim, Header, Kind, commit_blocks};
use destage_nvslog::contents::Contents;
use destage_nvslog::member::{LOST_MAX, MemberRecord};
use destage_nvslog::record::{ALL_SECTORS, Origin, Pages, Record, RecordError};
use destage_nvslog::recover::{
    Damage, Layout, Part, RecoverError, Recovered, Recovery, Repair, Witness,
};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::slots::Slots;
use destage_nvslog::space::{LogSpace, Purpose};
use destage_nvslog::superblock::{FORMAT_VERSION, REBUILDS_MAX, Role, Superblock, SuperblockError};
use destage_nvslog::{COMMIT_BYTES_MAX, LogId, NUMBER_MAX, crc::crc32c};

const LOG: LogId = LogId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn header(kind: Kind, sequence: u64, block: u64) -> Header {
    let durable_through = sequence - 1;
    Header { epoch: 1, sequence, durable_through, block, last_version: 1000, kind }
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

#[test]
fn records_by_hand() {
    let (page, pages) = (Page(0x0102), Pages::new(Page(0x0304), 5));
    let (p, q) = ([0x11; 8], Some([0x22; 8]));
    let moved = Origin::Moved;
    let (far, sectors) = (Page(0xABC_0000_0102), 0b101);
    let data = Record::Data { page: far, version: 9, slot: 7, sectors, crc: 0xAABB, origin: moved };
    for (record, expected) in [
        (data, "01110305 bbaa0000 090000000000c0ab 02010000 07000000"),
        (
            Record::Zero { pages, version: 10, origin: Origin::Frozen },
            "02510300 05000000 0403000000000000 0a00000000000000",
        ),
        (
            Record::Trim { pages, version: 11 },
            "03010300 05000000 0403000000000000 0b00000000000000",
        ),
        (
            Record::Release { pages, through: 12 },
            "04010300 05000000 0403000000000000 0c00000000000000",
        ),
        (
            Record::Intent { pages, through: 13, moved: false },
            "05010300 05000000 0403000000000000 0d00000000000000",
        ),
        (
            Record::Parity { first: page, row: 3, p, q, moved: true },
            &format!(
                "06310a00 03000000 0201000000000000 {} {}",
                "11000000".repeat(8),
                "22000000".repeat(8)
            ),
        ),
    ] {
        assert_eq!(hex(&encoded(&record)), expected.replace(' ', ""), "{record:?}");
        assert_eq!(Record::decode(&encoded(&record)), Ok((Some(record), record.encoded_bytes())));
    }
}

#[test]
fn the_vector_of_the_format_page() {
    let mut bytes = Vec::new();
    let header = Header { last_version: 0, ..header(Kind::Opens, 1, 0) };
    commit::encode(&header, &[], LOG, 512, &mut bytes);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/nvs-format.md");
    let page = std::fs::read_to_string(page).expect("docs/nvs-format.md");
    let rows: Vec<String> = bytes[..64].chunks(16).map(hex).collect();
    assert!(page.contains(&rows.join("\n")), "{}", rows.join("\n"));
    assert!(page.contains(&format!("The format version is {FORMAT_VERSION}.")));
    assert_eq!(bytes.len(), 512);
    // By hand: magic, checksum, epoch, sequence, durable through, block, records, bytes, flags.
    let crc = crc32c(&[&LOG.0, &bytes[12..]].concat()).to_le_bytes();
    let words = [1u64, 0, 0, 64 << 32, 1 << 32, 0].map(u64::to_le_bytes).concat();
    assert_eq!(bytes[..64], [b"DSTGCMIT", &crc[..], &[1, 0, 0, 0], &words].concat());
}

/// Each number of a header has a limit of its own; the checksum is not looked at yet.
#[test]
fn headers_with_numbers_beyond_their_limits_are_not_read() {
    let mut bytes = Vec::new();
    commit::encode(&header(Kind::Plain, 7, 3), &[], LOG, 512, &mut bytes);
    let with = |at: usize, number: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + number.len()].copy_from_slice(number);
        Claim::read(&changed)
    };
    assert_eq!(with(0, b"DSTGCMIT").map(|claim| claim.header), Some(header(Kind::Plain, 7, 3)));
    let (most, many) = ((NUMBER_MAX - 1).to_le_bytes(), NUMBER_MAX.to_le_bytes());
    for (at, name) in [(16, "sequence"), (56, "last version")] {
        assert!(with(at, &most).is_some() && with(at, &many).is_none(), "{name}");
    }
    assert!(with(12, &(u32::MAX - 1).to_le_bytes()).is_some());
    assert_eq!(with(12, &u32::MAX.to_le_bytes()), None, "epoch");
    assert_eq!(with(24, &7u64.to_le_bytes()), None, "durable through itself");
    for (length, fits) in [(63, false), (64, true), (COMMIT_BYTES_MAX as u32, true)] {
        assert_eq!(with(44, &length.to_le_bytes()).is_some(), fits, "{length} bytes");
    }
    assert_eq!(with(44, &(COMMIT_BYTES_MAX as u32 + 1).to_le_bytes()), None);
    // Only a commit that pads has padding.
    assert_eq!(with(48, &1u32.to_le_bytes()), None);
    assert_eq!(with(52, &1u32.to_le_bytes()).map(|claim| claim.header.kind), Some(Kind::Opens));
    let pads = with(48, &[1, 0, 0, 0, 2, 0, 0, 0]).map(|claim| claim.header.kind);
    assert_eq!(pads, Some(Kind::Pads { blocks: 1 }));
    assert_eq!(with(52, &3u32.to_le_bytes()), None);
    assert_eq!(Claim::read(&bytes[..63]), None);
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
    (*state >> 33) % below
}

fn random_record(state: &mut u64) -> Record {
    let page = Page(random(state, 1 << 31));
    let pages = Pages::new(page, 1 + random(state, 1 << 20) as u32);
    let version = random(state, 1000);
    let origin = [Origin::New, Origin::Moved, Origin::Frozen][random(state, 3) as usize];
    let moved = random(state, 2) == 0;
    let sums = |state: &mut u64| std::array::from_fn(|_| random(state, 1 << 31) as u32);
    match random(state, 7) {
        0 => Record::Zero { pages, version, origin },
        1 => Record::Trim { pages, version },
        2 => Record::Release { pages, through: version },
        3 => Record::Intent { pages, through: version, moved },
        4 => {
            let q = moved.then(|| sums(state));
            Record::Parity { first: page, row: version as u32, p: sums(state), q, moved }
        }
        _ => {
            let sectors = 1 + random(state, 255) as u8;
            let (slot, crc) = (random(state, 1 << 31) as u32, random(state, 1 << 31) as u32);
            Record::Data { page, version, slot, sectors, crc, origin }
        }
    }
}

#[test]
fn round_trips() {
    let state = &mut 1;
    for sequence in 1..3000u64 {
        let count = random(state, 12);
        let records: Vec<Record> = (0..count).map(|_| random_record(state)).collect();
        let mut bytes = Vec::new();
        let header = header(Kind::Plain, sequence, 77);
        commit::encode(&header, &records, LOG, 512, &mut bytes);
        assert_eq!(bytes.len() as u64, 512 * commit_blocks(&records, 512));
        let claim = Claim::read(&bytes).expect("a header");
        assert_eq!((claim.header, claim.blocks(512)), (header, bytes.len() as u64 / 512));
        assert!(claim.holds(&bytes, LOG, 512) && !claim.holds(&bytes, LogId([9; 16]), 512));
        assert_eq!(claim.records(&bytes), Ok(records));
        // Any flipped bit shows.
        let bit = random(state, bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let still = Claim::read(&bytes).is_some_and(|claim| claim.holds(&bytes, LOG, 512));
        assert!(!still, "bit {bit} of commit {sequence}");
    }
}

/// A later program's additions: a type that may be skipped is; other types and versions are not.
#[test]
fn records_of_later_versions() {
    let record = Record::Trim { pages: Pages::new(Page(4), 2), version: 3 };
    let mut bytes = Vec::new();
    commit::encode(&header(Kind::Plain, 9, 7), &[record, record], LOG, 512, &mut bytes);
    let records = |bytes: &[u8]| Claim::read(bytes).expect("a header").records(bytes);
    bytes[64] = 0x85;
    assert_eq!(records(&bytes), Ok(vec![record]), "skipped by its length");
    bytes[64] = 5 + 64;
    assert_eq!(records(&bytes), Err((0, RecordError::Unknown)));
    (bytes[64], bytes[65]) = (3, 2);
    assert_eq!(records(&bytes), Err((0, RecordError::Unknown)), "version 2 of the type");
}

#[test]
fn records_of_no_sense_are_refused() {
    let trim = encoded(&Record::Trim { pages: Pages::new(Page(4), 2), version: 3 });
    let with = |at: usize, byte: u8| {
        let mut bytes = trim.clone();
        bytes[at] = byte;
        Record::decode(&bytes).map(|_| ())
    };
    assert_eq!(with(0, 9), Err(RecordError::Unknown), "type");
    assert_eq!(with(1, 17), Err(RecordError::Unknown), "a trim is never moved");
    assert_eq!(with(2, 2), Err(RecordError::Unknown), "length");
    assert_eq!(with(2, 0), Err(RecordError::Unknown), "no length");
    assert_eq!(with(2, 4), Err(RecordError::Short), "length past the end");
    assert_eq!(with(3, 1), Err(RecordError::Unknown), "reserved");
    assert_eq!(with(4, 0), Err(RecordError::Pages), "no pages");
    assert_eq!(with(7, 1), Err(RecordError::Pages), "too many pages");
    assert_eq!(with(15, 0xFF), Err(RecordError::Pages), "past the last page");
    assert_eq!(with(23, 1), Err(RecordError::Version), "past the last version");
    assert_eq!(Record::decode(&trim[..20]), Err(RecordError::Short));
    // Random bytes never panic, and what is taken has these very bytes.
    let state = &mut 5;
    for _ in 0..100_000 {
        let mut bytes: Vec<u8> = (0..80).map(|_| random(state, 256) as u8).collect();
        bytes[0] = random(state, 8) as u8;
        bytes[1] = bytes[1] & 0xF0 | 1;
        (bytes[2], bytes[3]) = ([3, 4, 6, 10][random(state, 4) as usize], bytes[3] & 1);
        if let Ok((Some(record), length)) = Record::decode(&bytes) {
            assert_eq!(encoded(&record), bytes[..length]);
        }
    }
}

#[test]
fn anchors() {
    let anchor = Anchor { number: 7, tail_sequence: 5, tail_block: 3, durable_through: 9 };
    let bytes = anchor.encode(LOG);
    assert_eq!(
        hex(&bytes[16..48]),
        "0700000000000000050000000000000003000000000000000900000000000000"
    );
    assert_eq!(bytes[8..12], crc32c(&[&LOG.0, &bytes[12..]].concat()).to_le_bytes());
    let older = Anchor { number: 6, ..anchor }.encode(LOG);
    assert_eq!(Anchor::choose([&bytes[..], &older], LOG), Some(anchor));
    for bit in 0..512 * 8 {
        let mut torn = bytes;
        torn[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Anchor::decode(&torn, LOG), None, "bit {bit}");
    }
    assert_eq!(Anchor::decode(&bytes, LogId([9; 16])), None);
    let forged = Anchor { number: u64::MAX, ..anchor };
    assert_eq!(Anchor::decode(&forged.encode(LOG), LOG), None, "the next is one more");
    assert_eq!(Anchor::choose([&[0u8; 512][..], &bytes[..100]], LOG), None);
}

fn superblock(role: Role) -> Superblock {
    let geometry = Geometry {
        level: Level::Raid6,
        disks: 6,
        strip_pages: 16,
        group_stripes: 2,
        disk_pages: 3200,
    };
    Superblock {
        generation: 5,
        base: 4,
        base_identity: 0,
        joined: 3,
        array: [1; 16],
        device: [2; 16],
        log: LOG,
        role,
        geometry,
        nvs: [Some([5; 16]), Some([6; 16])],
        block_bytes: 512,
        ring_blocks: 1 << 20,
        dirty_pages_max: 38_836,
        slots: 40_000,
        unknown_write_features: 0,
        failed: [0; 128],
        rebuilds: [None; REBUILDS_MAX],
        lost_pages: false,
        doubted_rows: false,
    }
}

#[test]
fn each_member_has_a_mark_of_its_own() {
    for member in 0..1024 {
        let mut block = superblock(Role::Member(5));
        block.mark(member, true);
        assert!((0..1024).all(|other| block.has_failed(other) == (other == member)), "{member}");
        block.mark(member, false);
        assert_eq!(block.failed, [0; 128]);
    }
}

#[test]
fn superblocks() {
    for role in [Role::Member(5), Role::Nvs(1), Role::Spare] {
        let mut block = superblock(role);
        if role == Role::Nvs(1) {
            block.mark(3, true);
            (block.lost_pages, block.doubted_rows) = (true, true);
            assert!(block.set_rebuild(3, Some([7; 16])) && block.set_rebuild(0, Some([8; 16])));
            assert_eq!((block.has_failed(3), block.rebuilt_onto(3)), (true, Some([7; 16])));
            assert!(block.set_rebuild(3, Some([9; 16])) && block.set_rebuild(0, None));
            assert_eq!((block.rebuilt_onto(3), block.rebuilt_onto(0)), (Some([9; 16]), None));
        }
        let bytes = block.encode();
        assert_eq!(Superblock::decode(&bytes), Ok(block));
        for bit in 64..512 * 8 {
            let mut torn = bytes;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Superblock::decode(&torn), Err(SuperblockError::Damaged), "bit {bit}");
            let chosen = Superblock::choose(&torn, &bytes).map(|c| (c.superblock, c.damaged));
            assert_eq!(chosen, Ok((block, [true, false])));
        }
        let newer = Superblock { generation: 6, ..block };
        let chosen = Superblock::choose(&bytes, &newer.encode()).map(|c| c.superblock);
        assert_eq!(chosen, Ok(newer));
    }
    let bytes = superblock(Role::Member(5)).encode();
    assert_eq!(
        hex(&bytes[72..128]),
        "0106050006000000 1000000000000000 0200000000000000 800c000000000000 0002000000000000 \
         0000100000000000 b497000000000000"
            .replace(' ', "")
    );
    let with = |at: usize, value: u8| {
        let mut bytes = bytes;
        bytes[at] = value;
        let crc = crc32c(&bytes[12..]).to_le_bytes();
        bytes[8..12].copy_from_slice(&crc);
        Superblock::decode(&bytes).err()
    };
    assert_eq!(with(23, 255), Some(SuperblockError::Field("generation")), "the next is one more");
    let numbered = |generation| Superblock { generation, ..superblock(Role::Member(5)) };
    assert!(Superblock::decode(&numbered(NUMBER_MAX / 2 - 1).encode()).is_ok());
    let most = Superblock::decode(&numbered(NUMBER_MAX / 2).encode()).err();
    assert_eq!(most, Some(SuperblockError::Field("generation")));
    assert_eq!(with(448, 1), None, "an NVS device in use");
    assert_eq!(with(72, 3), Some(SuperblockError::Field("role")), "a spare has no number");
    assert_eq!(with(108, 4), Some(SuperblockError::Field("reserved bytes")));
    assert_eq!(with(256, 7), Some(SuperblockError::Field("rebuild")), "member 6 of 6");
    assert_eq!(with(258, 7), Some(SuperblockError::Field("rebuild")));
    assert_eq!(with(264, 7), Some(SuperblockError::Field("rebuild")), "a device of none");
    assert_eq!(with(74, 6), Some(SuperblockError::Field("role")), "member 6 of 6");
    assert_eq!(with(73, 9), Some(SuperblockError::Field("level")));
    assert_eq!(with(77, 5), Some(SuperblockError::Field("geometry")), "1286 members");
    assert_eq!(with(78, 1), Some(SuperblockError::Field("reserved bytes")));
    assert_eq!(with(496, 1), None, "the generation with which it came into use");
    assert_eq!(with(505, 1), Some(SuperblockError::Field("slots")), "fewer than dirty pages");
    assert_eq!(with(96, 1), Some(SuperblockError::Field("disk size")));
    assert!(matches!(with(80, 0), Some(SuperblockError::Geometry(_))));
    assert_eq!(Superblock::decode(&[0; 512]), Err(SuperblockError::Foreign));
}

/// Second copies are written when all devices have the first: a device that has both says that
/// what followed may build on it.
#[test]
fn superblocks_are_confirmed_by_their_second_copy() {
    let block = superblock(Role::Nvs(0));
    let older = Superblock { generation: 4, ..block };
    let (bytes, old) = (block.encode(), older.encode());
    let mut torn = bytes;
    torn[100] ^= 1;
    let said = |first: &[u8], second: &[u8]| {
        let said = Superblock::choose(first, second).unwrap();
        assert_eq!(said.older.is_some(), second == old && said.superblock == block);
        (said.superblock.generation, said.confirmed, said.damaged)
    };
    assert_eq!(said(&bytes, &bytes), (5, true, [false, false]));
    assert_eq!(said(&bytes, &old), (5, false, [false, false]));
    assert_eq!(said(&bytes, &[0; 4096]), (5, false, [false, false]), "a new device");
    assert_eq!(said(&torn, &old), (4, true, [true, false]), "torn before the second");
    assert_eq!(said(&bytes, &torn), (5, true, [false, true]), "it may have been of this one");
    assert_eq!(said(&bytes, &[0xff; 4096]), (5, true, [false, true]), "it cannot be read");
}

#[test]
fn superblocks_of_other_formats_are_refused_with_a_reason() {
    let with = |at: usize, value: u8| {
        let mut bytes = superblock(Role::Member(5)).encode();
        bytes[at] = value;
        let crc = crc32c(&bytes[12..]).to_le_bytes();
        bytes[8..12].copy_from_slice(&crc);
        bytes
    };
    let this = FORMAT_VERSION as u8;
    for (at, value, error) in [
        (12, 1, SuperblockError::Older(1)),
        (12, this - 1, SuperblockError::Older(FORMAT_VERSION - 1)),
        (12, this + 1, SuperblockError::Newer(FORMAT_VERSION + 1)),
        (480, 1, SuperblockError::Features(1)),
        (483, 128, SuperblockError::Features(1 << 31)),
    ] {
        assert_eq!(Superblock::decode(&with(at, value)), Err(error), "{at}: {value}");
    }
    let read_only = Superblock::decode(&with(484, 4)).expect("it may be read");
    assert_eq!(read_only.unknown_write_features, 4);
    assert!(SuperblockError::Older(2).to_string().contains("before the first release"));
    assert!(SuperblockError::Features(4).to_string().contains("mask 0x4"));
    let known = superblock(Role::Member(5)).encode();
    for (newer, error) in [
        (with(480, 1), SuperblockError::Features(1)),
        (with(12, this + 1), SuperblockError::Newer(FORMAT_VERSION + 1)),
    ] {
        for [first, second] in [[&known, &newer], [&newer, &known]] {
            let chosen = Superblock::choose(first, second);
            assert_eq!(chosen, Err(error), "the newer program wrote last");
        }
    }
}

#[test]
fn member_records() {
    let record = |number, lost: &[u64]| MemberRecord {
        number,
        device: [2; 16],
        below: 640,
        lost: lost.to_vec(),
    };
    let full: Vec<u64> = (0..LOST_MAX as u64).map(|page| page * 3).collect();
    for lost in [&[][..], &[0, 9, 700], &full] {
        let (old, new) = (record(4, &[1]), record(5, lost));
        let bytes = new.encode();
        assert_eq!(MemberRecord::decode(&bytes), Some(new.clone()));
        for bit in (64..4096 * 8).step_by(13) {
            let mut torn = bytes;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(MemberRecord::decode(&torn), None, "bit {bit}");
            let chosen = MemberRecord::choose([&torn, &old.encode()], [2; 16]);
            assert_eq!(chosen, Some(old.clone()));
        }
        let copies = [&old.encode()[..], &bytes];
        assert_eq!(MemberRecord::choose(copies, [2; 16]), Some(new));
        assert_eq!(MemberRecord::choose(copies, [3; 16]), None, "of another device");
    }
    let mut torn = record(1, &[1, 2]).encode();
    torn[512..1024].fill(7);
    assert_eq!(MemberRecord::decode(&torn), None);
    assert_eq!(MemberRecord::decode(&[0; 4096]), None);
    assert_eq!(MemberRecord::decode(&[0; 40]), None);
}

fn layout(ring_blocks: u64, slots: u32) -> Layout {
    Layout { log: LOG, block_bytes: 512, ring_blocks, slots, copies: 1 }
}

/// The array that the logs here are of.
const ARRAY_PAGES: u64 = 1 << 21;
const GROUP_PAGES: u64 = 1;

/// Recovers from a ring, with slots that are all zeros.
fn replay(image: &[u8], ring_blocks: u64, anchor: Anchor) -> Result<u64, RecoverError> {
    replay_without(image, ring_blocks, anchor, u64::MAX)
}

/// The same where a block of the ring cannot be read.
fn replay_without(
    image: &[u8],
    ring_blocks: u64,
    anchor: Anchor,
    unreadable: u64,
) -> Result<u64, RecoverError> {
    let recovered = recovered_without(image, ring_blocks, anchor, unreadable)?;
    recovered.check(ARRAY_PAGES, GROUP_PAGES)?;
    Ok(recovered.commits)
}

fn recovered_without(
    image: &[u8],
    ring_blocks: u64,
    anchor: Anchor,
    unreadable: u64,
) -> Result<Recovered, RecoverError> {
    let mut recovery = Recovery::new(layout(ring_blocks, 64), anchor)?;
    while let Some(want) = recovery.want() {
        match want.part {
            Part::Ring { block, blocks } => {
                let from = block as usize * 512;
                let bytes = &image[from..from + blocks as usize * 512];
                let readable = !(block..block + blocks).contains(&unreadable);
                recovery.give(readable.then_some(bytes))?;
            }
            Part::Slot(slot) => {
                assert!(slot < 64, "a slot that the device does not have");
                recovery.give(Some(&[0; 4096]))?;
            }
        }
    }
    Ok(recovery.finish())
}

/// A block behind the end that cannot be read is named, and is to be overwritten: the log may end
/// before it at a later start.
#[test]
fn an_unreadable_block_behind_the_end_is_named() {
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    let mut image = Vec::new();
    for sequence in 1..=3 {
        let kind = if sequence == 1 { Kind::Opens } else { Kind::Plain };
        commit::encode(&header(kind, sequence, sequence - 1), &[], LOG, 512, &mut image);
    }
    image.resize(64 * 512, 0);
    for block in [4, 10, 63] {
        let recovered = recovered_without(&image, 64, anchor, block).expect("recovered");
        assert_eq!((recovered.commits, &recovered.unreadable[..]), (3, &[block][..]));
        assert!(!recovered.ends_with_opening);
        assert_eq!(recovered.to_overwrite().collect::<Vec<_>>(), [block]);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    let mut image = Vec::new();
    for sequence in 1..=3 {
        let kind = if sequence == 1 { Kind::Opens } else { Kind::Plain };
        commit::encode(&header(kind, sequence, sequence - 1), &[], LOG, 512, &mut image);
    }
    image.resize(64 * 512, 0);
    assert_eq!(replay(&image, 64, anchor), Ok(3));
    let damage = |block: usize, anchor| {
        let mut image = image.clone();
        image[block * 512 + 300] ^= 1;
        replay(&image, 64, anchor)
    };
    let missing =
        |block, sequence, by| Err(RecoverError { block, sequence, damage: Damage::Missing(by) });
    let by = Witness::Commit { block: 2, sequence: 3 };
    assert_eq!(damage(0, anchor), missing(0, 1, Witness::Anchor));
    assert_eq!(damage(1, anchor), missing(1, 2, by));
    assert_eq!(damage(2, anchor), Ok(2), "nothing says that the last was durable");
    let anchor = Anchor { durable_through: 3, ..anchor };
    assert_eq!(damage(2, anchor), missing(2, 3, Witness::Anchor));
    let text = damage(1, anchor).expect_err("damaged").to_string();
    assert!(text.contains("block 1") && text.contains("commit 2"), "{text}");
    let outside = Anchor { tail_block: 64, ..anchor };
    assert!(matches!(
        replay(&image, 64, outside),
        Err(RecoverError { damage: Damage::Anchor, .. })
    ));
}

/// Two devices have different commits of the same number in the same place. If the epochs differ,
/// the later one holds: the other device was absent. In the same epoch nobody can tell.
#[test]
fn different_commits_of_one_epoch_are_damage() {
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    let ring = |epoch, last_version| {
        let mut image = Vec::new();
        commit::encode(&header(Kind::Opens, 1, 0), &[], LOG, 512, &mut image);
        let kind = if epoch == 1 { Kind::Plain } else { Kind::Opens };
        let second = Header { epoch, last_version, ..header(kind, 2, 1) };
        commit::encode(&second, &[], LOG, 512, &mut image);
        image.resize(64 * 512, 0);
        image
    };
    let recovered = |images: [&[u8]; 2]| {
        let two = Layout { copies: 2, ..layout(64, 64) };
        let mut recovery = Recovery::new(two, anchor)?;
        while let Some(want) = recovery.want() {
            let Part::Ring { block, blocks } = want.part else { panic!("no slot is named") };
            let from = block as usize * 512;
            recovery.give(Some(&images[want.copy][from..from + blocks as usize * 512]))?;
        }
        let found = recovery.finish();
        Ok((found.commits, found.repairs))
    };
    let [one, other, later] = [ring(1, 1000), ring(1, 1001), ring(2, 1001)];
    assert_eq!(recovered([&one, &one]), Ok((2, vec![])));
    let diverged = RecoverError { block: 1, sequence: 2, damage: Damage::Diverged };
    assert_eq!(recovered([&one, &other]), Err(diverged));
    assert_eq!(recovered([&other, &one]), Err(diverged));
    let part = Part::Ring { block: 1, blocks: 1 };
    for (images, copy, from) in [([&one, &later], 0, 1), ([&later, &one], 1, 0)] {
        let repair = Repair { copy, from, part };
        assert_eq!(recovered(images.map(|image| &image[..])), Ok((2, vec![repair])));
    }
}

/// The second commit's slot has other bytes. Either it is not complete, or a later commit confirmed
/// it, and the slot was written again. If the later one cannot be read, nobody knows.
#[test]
fn a_commit_in_doubt_before_an_unreadable_block_is_damage() {
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    let (page, origin) = (Page(7), Origin::New);
    let data = Record::Data { page, version: 1, slot: 3, sectors: ALL_SECTORS, crc: 5, origin };
    let mut image = Vec::new();
    commit::encode(&header(Kind::Opens, 1, 0), &[], LOG, 512, &mut image);
    commit::encode(&header(Kind::Plain, 2, 1), &[data], LOG, 512, &mut image);
    image.resize(64 * 512, 0);
    assert_eq!(replay(&image, 64, anchor), Ok(1), "it was not complete");
    let damage = RecoverError { block: 2, sequence: 3, damage: Damage::Unreadable };
    assert_eq!(replay_without(&image, 64, anchor, 2), Err(damage));
    assert_eq!(replay_without(&image, 64, anchor, 9), Ok(1), "farther on nothing can be expected");
}

/// Logs whose checksums hold but whose records make no sense: an answer or an error, no panic.
#[test]
fn nonsense_with_good_checksums_does_not_panic() {
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    let state = &mut 9;
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3000 {
        let mut image = Vec::new();
        let mut version = 0;
        for sequence in 1..=1 + random(state, 6) {
            let mut records = Vec::new();
            for _ in 0..random(state, 6) {
                let mut record = random_record(state);
                let pages = Pages::new(Page(random(state, 12)), 1 + random(state, 6) as u32);
                version += random(state, 20).min(1);
                match &mut record {
                    Record::Data { page, version: v, slot, crc, origin, .. } => {
                        (*page, *slot) = (pages.first, random(state, 66) as u32);
                        *crc = crc32c(&[0; 4096]);
                        *v = if *origin == Origin::New { version } else { random(state, 20) };
                    }
                    Record::Zero { pages: p, version: v, origin } => {
                        *p = pages;
                        *v = if *origin == Origin::New { version } else { random(state, 20) };
                    }
                    Record::Trim { pages: p, version: v } => (*p, *v) = (pages, version),
                    Record::Release { pages: p, through } => {
                        (*p, *through) = (pages, random(state, 20));
                    }
                    Record::Intent { pages: p, through, .. } => {
                        (*p, *through) = (pages, random(state, 20));
                    }
                    Record::Parity { first, .. } => *first = pages.first,
                }
                records.push(record);
            }
            let kind = if sequence == 1 { Kind::Opens } else { Kind::Plain };
            let header = header(kind, sequence, image.len() as u64 / 512);
            commit::encode(&header, &records, LOG, 512, &mut image);
        }
        image.resize(512 * 512, 0);
        match replay(&image, 512, anchor) {
            Ok(_) => read += 1,
            Err(RecoverError { damage: Damage::Record { .. }, .. }) => refused += 1,
            // Intents of several pages, where groups have one.
            Err(RecoverError { damage: Damage::Destage(_), .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    println!("{read} read, {refused} refused");
    assert!(read > 300 && refused > 300);
}

/// What a log of one commit with these records is refused for.
fn refused(records: &[Record]) -> Option<Damage> {
    refused_with(Header { last_version: 9, ..header(Kind::Opens, 1, 0) }, records)
}

fn refused_with(header: Header, records: &[Record]) -> Option<Damage> {
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    let mut image = Vec::new();
    commit::encode(&header, records, LOG, 512, &mut image);
    image.resize(512 * 512, 0);
    replay(&image, 512, anchor).err().map(|error| error.damage)
}

#[test]
fn a_log_that_names_what_its_array_does_not_have_is_refused() {
    let zeros = |first, count, origin| Record::Zero {
        pages: Pages::new(Page(first), count),
        version: 1,
        origin,
    };
    let intent = |first, count| Record::Intent {
        pages: Pages::new(Page(first), count),
        through: 1,
        moved: false,
    };
    let last = ARRAY_PAGES - 1;
    assert_eq!(refused(&[zeros(last, 1, Origin::New), intent(last, 1)]), None);
    let beyond = Some(Damage::Pages(Page(ARRAY_PAGES)));
    assert_eq!(refused(&[zeros(last, 2, Origin::New)]), beyond);
    assert_eq!(refused(&[zeros(7, 2, Origin::New), intent(7, 2)]), Some(Damage::Destage(Page(7))));
    assert_eq!(refused(&[zeros(7, 1, Origin::Frozen)]), Some(Damage::Destage(Page(7))));
    let newer = Record::Zero { pages: Pages::new(Page(7), 1), version: 2, origin: Origin::Frozen };
    let with = [zeros(7, 1, Origin::New), intent(7, 1), newer];
    assert_eq!(refused(&with), Some(Damage::Destage(Page(7))), "its release would leave it");
    // As many zeros as the records of a commit can name would take 100 GiB.
    let many: Vec<Record> = (0..2000).map(|n| zeros(n << 20, 1 << 20, Origin::Moved)).collect();
    let too_many = |index| Some(Damage::Record { index, error: RecordError::Pages });
    assert_eq!(refused(&many), too_many(0));
    // So would those of many records that are within the limit one by one.
    let many: Vec<Record> = (0..3).map(|n| zeros(n << 15, 1 << 15, Origin::Moved)).collect();
    assert_eq!(refused(&many), too_many(2));
}

#[test]
fn numbers_that_leave_no_room_are_refused() {
    let first = header(Kind::Opens, 1, 0);
    let with = |epoch, last_version| refused_with(Header { epoch, last_version, ..first }, &[]);
    assert_eq!(with(1, 1 << 50), None);
    assert_eq!(with(1, (1 << 52) - 1), Some(Damage::Numbers));
    assert_eq!(with(u32::MAX - 1, 0), Some(Damage::Numbers));
    let last = MemberRecord { number: u64::MAX, ..MemberRecord::default() };
    assert_eq!(MemberRecord::decode(&last.encode()), None);
}

/// A page is destaged: it is out of the log, and these records say so in the next commit.
fn destage_page(
    page: Page,
    contents: &mut Contents,
    space: &mut LogSpace,
    records: &mut Vec<Record>,
) {
    let (pages, through) = (Pages::new(page, 1), contents.last_version());
    records.push(Record::Intent { pages, through, moved: false });
    records.push(Record::Parity { first: page, row: 0, p: [0; 8], q: None, moved: false });
    let release = Record::Release { pages, through };
    contents.apply(&release, space.next_sequence() - 1, space).expect("applied");
    records.push(release);
}

/// Bytes written to the device per byte of host data in the steady state: single pages, a sweep
/// over the addresses as the destage order, 90 % of the most dirty pages held; and pages moved.
fn amplification(block_bytes: u32, writes_per_commit: u64, hot: bool) -> (f64, u64) {
    let Sizes { ring_blocks, slots, dirty_pages } =
        Sizes::of_device(64 << 20, block_bytes).expect("large enough");
    let volume = 16 * dirty_pages;
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    let (mut space, mut contents) =
        (LogSpace::new(ring_blocks, block_bytes, anchor), Contents::default());
    space.slots = Slots::new(slots);
    let (mut state, mut sweep) = (3, 0);
    let (mut host, mut log, mut moved) = (0u64, 0u64, 0u64);
    let mut extra: Vec<Record> = Vec::new();
    let mut version = 0;
    while host < 8 * dirty_pages {
        if host < 2 * dirty_pages {
            // Not yet the steady state.
            (log, moved) = (0, 0);
        }
        let mut records = std::mem::take(&mut extra);
        let mut taken = Vec::new();
        assert!(space.slots.take(writes_per_commit as usize, &mut taken), "slots are confirmed");
        for slot in taken {
            let within = if hot && random(&mut state, 2) == 0 { volume / 20 } else { volume };
            let page = Page(random(&mut state, within));
            version += 1;
            host += 1;
            let (sectors, origin) = (ALL_SECTORS, Origin::New);
            records.push(Record::Data { page, version, slot, sectors, crc: 0, origin });
        }
        loop {
            let purpose = if records[0].moved() { Purpose::Housekeeping } else { Purpose::Host };
            let blocks = commit_blocks(&records, block_bytes);
            let Some(place) = space.allocate(blocks, purpose) else {
                let anchor = space.anchor_due(true, None).expect("something to free");
                space.anchored(anchor);
                continue;
            };
            log += blocks + place.padding.map_or(0, |_| 1);
            for record in records.drain(..) {
                contents.apply(&record, place.sequence, &mut space).expect("applied");
            }
            space.confirmed(space.durable());
            space.made_durable(place.sequence);
            if let Some(anchor) = space.anchor_due(false, None) {
                space.anchored(anchor);
                log += 2;
            }
            let Some(commits) = space.evacuate(0) else { break };
            records.extend(contents.live_in(&commits));
            moved += records.len() as u64;
            records.truncate(2000);
        }
        while contents.pages_held() as u64 > dirty_pages * 9 / 10 {
            while contents.page(Page(sweep)).is_none() {
                sweep = (sweep + 1) % volume;
            }
            destage_page(Page(sweep), &mut contents, &mut space, &mut extra);
        }
    }
    let pages = 6 * dirty_pages;
    let bytes = log * u64::from(block_bytes) + pages * 4096;
    (bytes as f64 / (pages * 4096) as f64, moved)
}

/// The figures of docs/nvs-format.md, "Sizes".
#[test]
fn little_more_is_written_than_the_host_wrote() {
    for (block_bytes, writes, most) in
        [(512, 32, 1.15), (512, 4, 1.3), (512, 1, 1.3), (4096, 32, 1.2), (4096, 1, 2.1)]
    {
        for hot in [false, true] {
            let (ratio, moved) = amplification(block_bytes, writes, hot);
            println!(
                "blocks of {block_bytes}, {writes} writes per commit, hot {hot}: {ratio:.3}, \
                 {moved} records moved"
            );
            assert!(ratio <= most, "{block_bytes}, {writes}: {ratio}");
        }
    }
}
