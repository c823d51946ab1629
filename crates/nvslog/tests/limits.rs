//! Limits of the log, each at its very edge; what a start reads, and never past the ring's end;
//! which records are moved, and when.

use destage_engine::units::Page;
use destage_nvslog::LogId;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Header, Kind};
use destage_nvslog::contents::{Contents, HeldPage, Stored};
use destage_nvslog::crc::Crc;
use destage_nvslog::record::{
    ALL_SECTORS, Origin, Pages, Record, RecordError, SectorSums, VERSION_MAX,
};
use destage_nvslog::recover::{
    Damage, Layout, Part, RecoverError, Recovered, Recovery, Want, Witness,
};
use destage_nvslog::space::{LogSpace, Purpose};

const LOG: LogId = LogId([7; 16]);
const ANCHOR: Anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
const RING: u64 = 512;
const BLOCK: usize = 512;

fn opens() -> Header {
    let (epoch, sequence, durable_through, block, last_version) = (1, 1, 0, 0, 0);
    Header { epoch, sequence, durable_through, block, last_version, kind: Kind::Opens }
}

fn zeros(first: u64, count: u32) -> Record {
    let pages = Pages::new(Page(first), count);
    Record::Zero { pages, version: 1, origin: Origin::New }
}

/// A ring with these commits, one behind the other.
fn ring(commits: &[(Header, Vec<Record>)]) -> Vec<u8> {
    let mut image = Vec::new();
    for (header, records) in commits {
        assert_eq!(header.block as usize, image.len() / BLOCK);
        commit::encode(header, records, LOG, BLOCK as u32, &mut image);
    }
    image.resize(RING as usize * BLOCK, 0);
    image
}

/// Recovers from a ring of which some blocks cannot be read. The slots are zeros.
fn recovered(image: &[u8], slots: u32, bad: &[u64]) -> Result<Recovered, RecoverError> {
    recovered_of(&[(image, bad)], slots)
}

/// The same with a ring for each device.
fn recovered_of(copies: &[(&[u8], &[u64])], slots: u32) -> Result<Recovered, RecoverError> {
    let block_bytes = BLOCK as u32;
    let layout = Layout { log: LOG, block_bytes, ring_blocks: RING, slots, copies: copies.len() };
    let mut recovery = Recovery::new(layout, ANCHOR)?;
    while let Some(Want { part, copy }) = recovery.want() {
        let (image, bad) = copies[copy];
        let Part::Ring { block, blocks } = part else {
            recovery.give(Some(&[0; 4096]))?;
            continue;
        };
        assert!(blocks > 0 && block + blocks <= RING, "past the ring's end: {part:?}");
        let bytes = &image[block as usize * BLOCK..(block + blocks) as usize * BLOCK];
        let readable = !bad.iter().any(|bad| (block..block + blocks).contains(bad));
        recovery.give(readable.then_some(bytes))?;
    }
    Ok(recovery.finish())
}

/// Why an array with many pages, in groups of one, does not start with a log of one commit.
fn refused(header: Header, records: Vec<Record>, slots: u32) -> Option<Damage> {
    let found = recovered(&ring(&[(header, records)]), slots, &[]);
    found.and_then(|found| found.check(1 << 40, 1)).err().map(|error| error.damage)
}

#[test]
fn a_start_refuses_numbers_that_have_come_half_as_far_as_they_go() {
    let of_epoch = |epoch| refused(Header { epoch, ..opens() }, vec![], 64);
    assert_eq!(of_epoch(u32::MAX / 2 - 1), None);
    assert_eq!(of_epoch(u32::MAX / 2), Some(Damage::Numbers));
    assert_eq!(of_epoch(0), Some(Damage::Missing(Witness::Anchor)), "epochs begin at 1");
    let of_version = |last_version| refused(Header { last_version, ..opens() }, vec![], 64);
    assert_eq!(of_version(VERSION_MAX / 2 - 1), None);
    assert_eq!(of_version(VERSION_MAX / 2), Some(Damage::Numbers));
    // A record's own limit.
    let trim = |version| {
        let mut bytes = Vec::new();
        Record::Trim { pages: Pages::new(Page(4), 2), version }.encode(&mut bytes);
        Record::decode(&bytes).map(|_| ())
    };
    assert_eq!(trim(VERSION_MAX - 1), Ok(()));
    assert_eq!(trim(VERSION_MAX), Err(RecordError::Version));
}

/// Four pages for each slot, or 65,536 if that is more.
#[test]
fn a_log_holds_as_many_pages_as_its_slots_allow() {
    let too_many = Some(Damage::Record { index: 0, error: RecordError::Pages });
    for (slots, most) in [(64, 1 << 16), (1 << 14, 1 << 16), (20_000, 80_000)] {
        let with =
            |pages| refused(Header { last_version: 1, ..opens() }, vec![zeros(0, pages)], slots);
        assert_eq!(with(most), None, "{slots} slots");
        assert_eq!(with(most + 1), too_many, "{slots} slots");
    }
}

/// An opening commit with a record that a start skips stays: only one of a block is taken back.
#[test]
fn an_opening_with_a_skipped_record_is_not_taken_back() {
    for records in [vec![], vec![zeros(4, 2)]] {
        let has_one = !records.is_empty();
        let mut image = ring(&[(opens(), records)]);
        if has_one {
            image[64] |= 128;
            let crc = Crc::default().with(&LOG.0).with(&image[12..BLOCK]).value();
            image[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        let found = recovered(&image, 8, &[]).expect("a log");
        assert_eq!((found.commits, found.ends_with_opening), (1, !has_one));
    }
}

/// The last two say that the one before them was durable.
fn three_commits() -> Vec<(Header, Vec<Record>)> {
    let plain = |sequence: u64| {
        let (durable_through, block, kind) = (sequence - 1, sequence - 1, Kind::Plain);
        (Header { sequence, durable_through, block, kind, ..opens() }, vec![])
    };
    vec![(opens(), vec![]), plain(2), plain(3)]
}

/// The last commit says that the one before it was durable. A block near it that cannot be read
/// must not hide it.
#[test]
fn a_block_that_cannot_be_read_hides_no_other() {
    let commits = three_commits();
    let mut image = ring(&commits);
    image[BLOCK + 100] ^= 1;
    let by = Witness::Commit { block: 2, sequence: 3 };
    for bad in [&[][..], &[3], &[9, 10, 300], &[RING - 1]] {
        let error = recovered(&image, 64, bad).err();
        assert_eq!(error.map(|error| error.damage), Some(Damage::Missing(by)), "{bad:?}");
    }
    // Without damage they are counted, and all that can be read is looked at.
    let image = ring(&commits);
    for bad in [&[][..], &[4], &[9, 10, 300], &[RING - 1]] {
        let found = recovered(&image, 64, bad).expect("a log");
        assert_eq!((found.commits, found.unreadable.len()), (3, bad.len()));
    }
}

/// One device has the last commit, the other not; or one cannot read a block behind the end.
#[test]
fn each_device_is_searched_behind_the_end() {
    let image = ring(&three_commits());
    let mut damaged = image.clone();
    damaged[BLOCK + 100] ^= 1;
    let mut without = damaged.clone();
    without[2 * BLOCK..3 * BLOCK].fill(0);
    let by = Some(Damage::Missing(Witness::Commit { block: 2, sequence: 3 }));
    for copies in [[&without, &damaged], [&damaged, &without]] {
        let error = recovered_of(&copies.map(|image| (&image[..], &[][..])), 64).err();
        assert_eq!(error.map(|error| error.damage), by);
    }
    for bad in [[&[][..], &[9]], [&[9], &[]]] {
        let found = recovered_of(&bad.map(|bad| (&image[..], bad)), 64).expect("a log");
        assert_eq!((found.commits, &found.unreadable[..]), (3, &[9][..]), "{bad:?}");
    }
}

/// So does one of several blocks of which the search reads only the first at once: at the end of
/// 256 blocks, or where a block near it cannot be read.
#[test]
fn a_commit_that_is_not_read_at_once_says_what_was_durable() {
    let trims = (1..=50).map(|version| Record::Trim { pages: Pages::new(Page(4), 2), version });
    for block in [100, 254, 255, 256] {
        let (sequence, durable_through, kind) = (60, 2, Kind::Plain);
        let header = Header { sequence, durable_through, block, kind, ..opens() };
        let mut image = ring(&[(opens(), vec![])]);
        let mut witness = Vec::new();
        commit::encode(&header, &trims.clone().collect::<Vec<_>>(), LOG, 512, &mut witness);
        assert_eq!(witness.len(), 3 * BLOCK);
        let at = block as usize * BLOCK;
        image[at..at + witness.len()].copy_from_slice(&witness);
        let by = Witness::Commit { block, sequence };
        for bad in [&[][..], &[block - 1], &[block + 3]] {
            let error = recovered(&image, 64, bad).err();
            assert_eq!(error.map(|error| error.damage), Some(Damage::Missing(by)), "{bad:?}");
        }
        // It says nothing if it is not complete.
        image[at + 2 * BLOCK + 100] ^= 1;
        let found = recovered(&image, 64, &[]).expect("a log");
        assert_eq!((found.commits, found.dropped), (1, vec![block]));
    }
}

/// The newest commit has three blocks. One that was not written ends the log; one that no device
/// can read may have been written, so it does not.
#[test]
fn a_part_of_a_commit_that_cannot_be_read_does_not_end_the_log() {
    let trims = (1..=50).map(|version| Record::Trim { pages: Pages::new(Page(4), 2), version });
    let second = Header { sequence: 2, durable_through: 1, block: 1, kind: Kind::Plain, ..opens() };
    let second = Header { last_version: 50, ..second };
    let image = ring(&[(opens(), vec![]), (second, trims.collect())]);
    let commits = |found: Result<Recovered, RecoverError>| {
        found.map(|found| found.commits).map_err(|error| error.damage)
    };
    assert_eq!(commits(recovered(&image, 64, &[])), Ok(2));
    for part in [2, 3] {
        let mut torn = image.clone();
        torn[part as usize * BLOCK..][..BLOCK].fill(0);
        assert_eq!(commits(recovered(&torn, 64, &[])), Ok(1));
        assert_eq!(commits(recovered(&image, 64, &[part])), Err(Damage::Unreadable));
        let (one, other) = ((&image[..], &[part][..]), (&image[..], &[][..]));
        assert_eq!(commits(recovered_of(&[one, other], 64)), Ok(2), "the other device has it");
        assert_eq!(commits(recovered_of(&[one, one], 64)), Err(Damage::Unreadable));
    }
}

/// A header at the end of the ring that claims blocks behind it is not a commit.
#[test]
fn nothing_is_read_behind_the_ring() {
    let mut image = ring(&[(opens(), vec![])]);
    let (sequence, durable_through, block) = (9, 8, RING - 1);
    let header = Header { sequence, durable_through, block, kind: Kind::Plain, ..opens() };
    let mut long = Vec::new();
    let trims = (1..=30).map(|version| Record::Trim { pages: Pages::new(Page(4), 2), version });
    commit::encode(&header, &trims.collect::<Vec<_>>(), LOG, BLOCK as u32, &mut long);
    assert!(long.len() > BLOCK);
    image[block as usize * BLOCK..].copy_from_slice(&long[..BLOCK]);
    let found = recovered(&image, 64, &[]).expect("a log");
    assert_eq!((found.commits, found.space.head()), (1, 1));
}

#[test]
fn runs_that_touch_do_not_overlap() {
    let run = |first, count| Pages::new(Page(first), count);
    for (one, other, overlap) in [
        (run(4, 4), run(8, 4), false),
        (run(4, 4), run(7, 4), true),
        (run(4, 4), run(0, 4), false),
        (run(4, 4), run(0, 5), true),
        (run(4, 4), run(5, 1), true),
    ] {
        assert_eq!(one.overlaps(other), overlap, "{one:?} {other:?}");
        assert_eq!(other.overlaps(one), overlap, "{one:?} {other:?}");
    }
}

/// Each record makes a difference that can be seen, and the same records none.
#[test]
fn logs_that_hold_the_same_are_equal() {
    let pages = Pages::new(Page(8), 4);
    let sums: SectorSums = [5; 8];
    let records = [
        Record::Data {
            page: Page(8),
            version: 1,
            slot: 2,
            sectors: ALL_SECTORS,
            crc: 9,
            origin: Origin::New,
        },
        Record::Intent { pages, through: 1, moved: false },
        Record::Parity { first: Page(8), row: 1, p: sums, q: None, moved: false },
        Record::Zero { pages: Pages::new(Page(9), 1), version: 2, origin: Origin::New },
    ];
    let with = |records: &[Record]| {
        let mut space = LogSpace::new(RING, BLOCK as u32, ANCHOR);
        space.allocate(1, Purpose::Host).expect("room");
        let mut contents = Contents::default();
        for record in records {
            contents.apply(record, 1, &mut space).expect("applied");
        }
        contents
    };
    for count in 0..records.len() {
        assert_eq!(with(&records[..count]), with(&records[..count]));
        assert_ne!(with(&records[..count]), with(&records[..=count]), "{:?}", records[count]);
    }
    let held =
        |stored, version| Some(HeldPage { version, sequence: 1, sectors: ALL_SECTORS, stored });
    let stored = Some(Stored { slot: 2, crc: 9 });
    assert_eq!(with(&records[..1]).page(Page(8)), held(stored, 1));
    let all = with(&records);
    assert_eq!((all.page(Page(8)), all.frozen(Page(8))), (None, held(stored, 1)));
    assert_eq!((all.page(Page(9)), all.frozen(Page(9))), (held(None, 2), None));
}

/// Neighbouring pages of zeros are moved as one record only if all else is the same.
#[test]
fn zeros_of_other_versions_or_destages_are_moved_apart() {
    let moved = |records: &[Record]| {
        let mut space = LogSpace::new(RING, BLOCK as u32, ANCHOR);
        space.allocate(1, Purpose::Host).expect("room");
        let mut contents = Contents::default();
        for record in records {
            contents.apply(record, 1, &mut space).expect("applied");
        }
        contents.live_in(&(0..9))
    };
    let zero = |first, count, version, origin| {
        let pages = Pages::new(Page(first), count);
        Record::Zero { pages, version, origin }
    };
    let one = |origin| zero(7, 2, 1, origin);
    assert_eq!(moved(&[one(Origin::New)]), [one(Origin::Moved)]);
    let with = |origin| [zero(7, 1, 1, origin), zero(8, 1, 2, origin)];
    assert_eq!(moved(&with(Origin::New)), with(Origin::Moved), "two versions");
    let intent = |moved| Record::Intent { pages: Pages::new(Page(0), 8), through: 1, moved };
    let [frozen, rest] = [zero(7, 1, 1, Origin::Frozen), zero(8, 1, 1, Origin::Moved)];
    let half_frozen = moved(&[one(Origin::New), intent(false)]);
    assert_eq!(half_frozen, [intent(true), frozen, rest]);
}

/// A ring in which one commit of one block was written after the other; the first few have records
/// that count.
fn used(blocks: u64, live: &[u64]) -> LogSpace {
    let mut space = LogSpace::new(1 << 12, BLOCK as u32, ANCHOR);
    for sequence in 1..=blocks {
        let place = space.allocate(1, Purpose::Housekeeping).expect("room");
        assert_eq!((place.block, place.sequence), (sequence - 1, sequence));
        assert_eq!(space.head(), sequence % (1 << 12));
    }
    live.iter().for_each(|sequence| space.born(*sequence));
    space.made_durable(blocks);
    space
}

/// 1/32 of the ring above the reserve stays free, or what the commit that waits needs.
#[test]
fn records_are_moved_when_too_little_of_the_ring_is_free() {
    let reserve = used(1, &[]).reserve_blocks();
    assert_eq!(reserve, 2 * (64 + 128), "two segments, each with a commit that began in it");
    for (waiting, wanted) in [(0, 128), (64, 128), (65, 130)] {
        let most = (1 << 12) - reserve - wanted;
        assert_eq!(used(most, &[3]).evacuate(waiting), None, "{waiting}");
        let moved = used(most + 1, &[3]).evacuate(waiting);
        assert!(moved.is_some_and(|commits| commits.contains(&3)), "{waiting}");
    }
    // If the newest segment alone has records, moving them would free nothing.
    let all = (1 << 12) - 1;
    assert_eq!(used(all, &[all]).evacuate(0), None);
}

/// What is moved at once fills a block: 21 records of 24 bytes.
#[test]
fn segments_are_moved_together_until_their_records_fill_a_block() {
    let all = (1 << 12) - 1;
    let few: Vec<u64> = (0..60).map(|segment| 1 + 64 * segment).collect();
    assert_eq!(used(all, &few).evacuate(0), Some(1..1 + 21 * 64), "one in each segment");
    let many: Vec<u64> = (1..=4 * 64).collect();
    assert_eq!(used(all, &many).evacuate(0), Some(1..65), "enough in the first");
}

/// A start may write an anchor with the same tail. The numbers of the next ones continue from
/// there.
#[test]
fn anchors_go_up_from_one_that_was_restated() {
    let mut space = used(2048, &[]);
    let before = space.anchor();
    space.restated();
    let durable_through = space.next_sequence() - 1;
    assert_eq!(space.anchor(), Anchor { number: before.number + 1, durable_through, ..before });
    let next = space.anchor_due(false, None).expect("half of the ring can be freed");
    assert_eq!((next.number, next.durable_through), (before.number + 2, 2048));
    assert!(next.tail_sequence > 1);
}

/// What is still needed bounds the tail: it goes as far as the segments before that.
#[test]
fn an_anchor_frees_what_is_before_a_block_that_is_needed_and_no_more() {
    // The tail is at block 0 of 4,096, or at 4,032 with the head behind it round the ring's end.
    let mut moved = used(4_033, &[]);
    let first = moved.anchor_due(true, None).expect("all but the last segment");
    moved.anchored(first);
    for _ in 0..1_000 {
        moved.allocate(1, Purpose::Host).expect("room");
    }
    moved.made_durable(moved.next_sequence() - 1);
    for space in [used(1_000, &[]), moved] {
        let tail = space.anchor().tail_block;
        for blocks in [0, 63, 64, 500, 639, 640] {
            let needed = (tail + blocks) % 4_096;
            let due = space.anchor_due(true, Some(needed));
            let freed = due.map_or(0, |due| (due.tail_block + 4_096 - tail) % 4_096);
            assert_eq!(freed, blocks / 64 * 64, "{tail}: {blocks}");
        }
        // Less than 1/8 of the ring is not worth it while nothing waits.
        assert_eq!(space.anchor_due(false, Some((tail + 511) % 4_096)), None);
        assert!(space.anchor_due(false, Some((tail + 512) % 4_096)).is_some());
    }
}
