//! Limits of the log, each at its very edge; what a start reads, and never past the ring's end.

use destage_engine::units::Page;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Claim, Header, Kind};
use destage_nvslog::contents::Contents;
use destage_nvslog::crc::{Crc, crc32c};
use destage_nvslog::record::{ALL_SECTORS, Origin, Pages, Record, RecordError, VERSION_MAX};
use destage_nvslog::recover::{
    Damage, Layout, Part, RecoverError, Recovered, Recovery, Repair, Want, Witness,
};
use destage_nvslog::space::{LogSpace, Purpose};
use destage_nvslog::{LogId, NUMBER_MAX};

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
    recovered_from(ANCHOR, copies, slots)
}

/// The same with a log that begins elsewhere.
fn recovered_from(
    anchor: Anchor,
    copies: &[(&[u8], &[u64])],
    slots: u32,
) -> Result<Recovered, RecoverError> {
    run(begun(anchor, copies.len(), slots)?, |want| part_of(copies, want))
}

fn begun(anchor: Anchor, copies: usize, slots: u32) -> Result<Recovery, RecoverError> {
    let block_bytes = BLOCK as u32;
    Recovery::new(Layout { log: LOG, block_bytes, ring_blocks: RING, slots, copies }, anchor)
}

/// Recovers from what is read; `None`: the device cannot read it.
fn run(
    mut recovery: Recovery,
    mut read: impl FnMut(Want) -> Option<Vec<u8>>,
) -> Result<Recovered, RecoverError> {
    while let Some(want) = recovery.want() {
        recovery.give(read(want).as_deref())?;
    }
    Ok(recovery.finish())
}

fn part_of(copies: &[(&[u8], &[u64])], Want { part, copy }: Want) -> Option<Vec<u8>> {
    let (image, bad) = copies[copy];
    let Part::Ring { block, blocks } = part else { return Some(vec![0; 4096]) };
    assert!(blocks > 0 && block + blocks <= RING, "past the ring's end: {part:?}");
    let bytes = &image[block as usize * BLOCK..(block + blocks) as usize * BLOCK];
    let readable = !bad.iter().any(|bad| (block..block + blocks).contains(bad));
    readable.then(|| bytes.to_vec())
}

/// Why a log of one commit cannot be read.
fn unread(header: Header, records: Vec<Record>) -> Option<Damage> {
    recovered(&ring(&[(header, records)]), 64, &[]).err().map(|error| error.damage)
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
    let of_anchor = |number, tail_sequence| {
        let anchor = Anchor { number, tail_sequence, ..ANCHOR };
        let image = ring(&[(Header { sequence: tail_sequence, ..opens() }, vec![])]);
        let found = recovered_from(anchor, &[(&image[..], &[][..])], 64);
        found.and_then(|found| found.check(1 << 40, 1)).err().map(|error| error.damage)
    };
    let half = NUMBER_MAX / 2;
    assert_eq!(of_anchor(half - 1, 1), None);
    assert_eq!(of_anchor(half, 1), Some(Damage::Numbers));
    // The next commit has the sequence behind that of the only one.
    assert_eq!(of_anchor(1, half - 2), None);
    assert_eq!(of_anchor(1, half - 1), Some(Damage::Numbers));
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
    // Those that an intent froze are counted with the others.
    let half = 1 << 15;
    let with = |count| {
        let pages = Pages::new(Page(1 << 20), count);
        let more = Record::Zero { pages, version: 2, origin: Origin::New };
        let intent = Record::Intent { pages: Pages::new(Page(0), half), through: 1, moved: false };
        unread(Header { last_version: 2, ..opens() }, vec![zeros(0, half), intent, more])
    };
    assert_eq!(with(half), None);
    let third = Damage::Record { index: 2, error: RecordError::Pages };
    assert_eq!(with(half + 1), Some(third));
}

/// The header of a commit has the highest version so far: a record with a higher one is not of it,
/// be it new or moved.
#[test]
fn no_record_has_a_higher_version_than_its_header_says() {
    let with = |record| {
        let header = Header { last_version: 9, ..opens() };
        unread(header, vec![zeros(4, 1), record])
    };
    let (page, slot, sectors) = (Page(7), 3, ALL_SECTORS);
    let (pages, crc) = (Pages::new(page, 1), crc32c(&[0; 4096]));
    let higher = Some(Damage::Record { index: 1, error: RecordError::Version });
    for (version, damage) in [(9, None), (10, higher)] {
        for origin in [Origin::New, Origin::Moved, Origin::Frozen] {
            assert_eq!(with(Record::Zero { pages, version, origin }), damage, "{origin:?}");
            let data = Record::Data { page, version, slot, sectors, crc, origin };
            assert_eq!(with(data), damage, "{origin:?}");
        }
        assert_eq!(with(Record::Trim { pages, version }), damage);
        assert_eq!(with(Record::Release { pages, through: version }), None);
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

/// It writes one if segments at the tail are free, and if it took back the opening of the last
/// epoch: should the commit in its place be torn, those before it still count.
#[test]
fn a_start_writes_an_anchor_only_if_there_is_something_new_to_say() {
    // Each commit has one block; the last one opens an epoch, or does not.
    let log = |count: u64, last: Kind| {
        let commits = (1..=count).map(|sequence| {
            let (block, durable_through) = (sequence - 1, sequence - 1);
            let (epoch, kind) = match last {
                _ if sequence == 1 => (1, Kind::Opens),
                Kind::Opens if sequence == count => (2, last),
                _ => (1, Kind::Plain),
            };
            (Header { epoch, sequence, durable_through, block, kind, ..opens() }, vec![])
        });
        ring(&commits.collect::<Vec<_>>())
    };
    let room = |count, last| {
        let mut found = recovered(&log(count, last), 64, &[]).expect("a log");
        found.make_room();
        (found.space.anchor(), found.space.next_sequence(), found.space.head())
    };
    assert_eq!(room(1, Kind::Opens), (ANCHOR, 2, 1), "the log begins with it");
    assert_eq!(room(2, Kind::Plain), (ANCHOR, 3, 2));
    let restated = Anchor { number: 2, durable_through: 1, ..ANCHOR };
    assert_eq!(room(2, Kind::Opens), (restated, 2, 1));
    // Eight blocks are a segment.
    let (number, durable_through) = (2, 9);
    let moved = Anchor { number, tail_sequence: 9, tail_block: 8, durable_through };
    assert_eq!(room(9, Kind::Plain), (moved, 10, 9));
    assert_eq!(room(10, Kind::Opens), (moved, 10, 9));
    assert_eq!(room(9, Kind::Opens), (Anchor { durable_through: 8, ..restated }, 9, 8));
    // What was dropped may say that the opening was durable.
    for (last, epoch, overwritten) in [(Kind::Opens, 2, &[7, 20][..]), (Kind::Plain, 1, &[20][..])]
    {
        let mut image = log(2, last);
        let (sequence, durable_through, block, kind) = (9, 2, 7, Kind::Plain);
        let dropped = Header { epoch, sequence, durable_through, block, kind, ..opens() };
        put_commit(&mut image, &dropped, &[]);
        let found = recovered(&image, 64, &[20]).expect("a log");
        assert_eq!((&found.dropped[..], &found.unreadable[..]), (&[7][..], &[20][..]));
        assert_eq!(found.to_overwrite().collect::<Vec<_>>(), overwritten, "{last:?}");
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

/// Nothing of these logs can be freed. An opening that is taken back is another matter: if the
/// commit in its place is torn, all before it must still count.
#[test]
fn a_start_restates_the_anchor_only_if_it_takes_an_opening_back() {
    let mut reopened = three_commits();
    reopened[2].0 = Header { epoch: 2, kind: Kind::Opens, ..reopened[2].0 };
    let restated = Anchor { number: 2, durable_through: 2, ..ANCHOR };
    for (commits, anchor, next) in [
        (three_commits(), ANCHOR, 4),
        (reopened, restated, 3),
        // The log begins with it.
        (vec![(opens(), vec![])], ANCHOR, 2),
    ] {
        let mut found = recovered(&ring(&commits), 8, &[]).expect("a log");
        found.make_room();
        assert_eq!((found.space.anchor(), found.space.next_sequence()), (anchor, next));
    }
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
    for block in [100, 254, 255, 256, RING - 3] {
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

/// The newest commit names two slots. If one was not written, the log ends before the commit; if
/// no device can read it, nobody knows, unless an operator accepts the loss.
#[test]
fn a_slot_that_cannot_be_read_does_not_end_the_log() {
    let data = |page, version, slot| {
        let (page, sectors, crc) = (Page(page), ALL_SECTORS, crc32c(&[7; 4096]));
        Record::Data { page, version, slot, sectors, crc, origin: Origin::New }
    };
    let second = Header { sequence: 2, durable_through: 1, block: 1, kind: Kind::Plain, ..opens() };
    let second = Header { last_version: 2, ..second };
    let image = ring(&[(opens(), vec![]), (second, vec![data(4, 1, 3), data(5, 2, 6)])]);
    let copies: [(&[u8], &[u64]); 2] = [(&image[..], &[][..]); 2];
    // What each device has in the bytes of the two slots.
    let found = |slots: [[Option<u8>; 2]; 2], takes_what_is_left| {
        let mut recovery = begun(ANCHOR, 2, 8)?;
        recovery.takes_what_is_left = takes_what_is_left;
        let found = run(recovery, |want| match want.part {
            Part::Slot(slot) => {
                let byte = slots[want.copy][usize::from(slot == 6)];
                byte.map(|byte| vec![byte; 4096])
            }
            Part::Ring { .. } => part_of(&copies, want),
        })?;
        Ok::<_, RecoverError>((found.commits, found.cut, found.repairs))
    };
    let (right, other) = (Some(7), Some(0));
    assert_eq!(found([[right, right]; 2], false), Ok((2, false, vec![])));
    assert_eq!(found([[right, other]; 2], false), Ok((1, false, vec![])));
    assert_eq!(found([[right, other], [right, None]], false), Ok((1, false, vec![])));
    assert_eq!(found([[right, other]; 2], true), Ok((1, true, vec![])));
    let unreadable = RecoverError { block: 1, sequence: 2, damage: Damage::Unreadable };
    assert_eq!(found([[right, None]; 2], false), Err(unreadable));
    assert_eq!(found([[None, right]; 2], false), Err(unreadable));
    assert_eq!(found([[right, None]; 2], true), Ok((1, true, vec![])));
    // One device has it: the other one is repaired.
    let repair = |copy, from, slot| Repair { copy, from, part: Part::Slot(slot) };
    for slots in [[[None, right], [right, other]], [[other, right], [right, None]]] {
        let repairs = vec![repair(0, 1, 3), repair(1, 0, 6)];
        assert_eq!(found(slots, false), Ok((2, false, repairs)));
    }
}

/// An operator accepts the loss of what is behind a block that cannot be read.
#[test]
fn a_log_is_cut_where_it_cannot_be_read_if_that_is_accepted() {
    let image = ring(&three_commits());
    let copies: [(&[u8], &[u64]); 1] = [(&image[..], &[1][..])];
    let unreadable = RecoverError { block: 1, sequence: 2, damage: Damage::Unreadable };
    assert_eq!(recovered_of(&copies, 8).err(), Some(unreadable));
    let mut recovery = begun(ANCHOR, 1, 8).expect("an anchor");
    recovery.takes_what_is_left = true;
    let found = run(recovery, |want| part_of(&copies, want)).expect("what is left");
    assert_eq!((found.commits, found.cut, found.space.head()), (1, true, 1));
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

/// Writes a commit where its header says, as far as the ring goes.
fn put_commit(image: &mut [u8], header: &Header, records: &[Record]) {
    let mut bytes = Vec::new();
    commit::encode(header, records, LOG, BLOCK as u32, &mut bytes);
    let to = &mut image[header.block as usize * BLOCK..];
    let fits = bytes.len().min(to.len());
    to[..fits].copy_from_slice(&bytes[..fits]);
}

/// Nor is one at the place where the log continues.
#[test]
fn a_commit_does_not_go_round_the_end_of_the_ring() {
    let mut image = vec![0; RING as usize * BLOCK];
    let (block, kind) = (RING - 1, Kind::Plain);
    put_commit(&mut image, &Header { block: RING - 2, ..opens() }, &[]);
    let header = Header { sequence: 2, durable_through: 1, block, kind, ..opens() };
    let trims = (1..=30).map(|version| Record::Trim { pages: Pages::new(Page(4), 2), version });
    put_commit(&mut image, &header, &trims.collect::<Vec<_>>());
    let anchor = Anchor { tail_block: RING - 2, ..ANCHOR };
    let found = recovered_from(anchor, &[(&image[..], &[][..])], 64).expect("a log");
    assert_eq!((found.commits, found.space.head()), (1, RING - 1));
    assert_eq!(found.dropped, [RING - 1]);
}

/// The first commit fills the ring to its end, and the next ones continue at block 0. One block
/// stays free, so that head and tail differ.
#[test]
fn a_commit_that_would_fill_the_ring_is_not_read() {
    for tail in 1..4 {
        let mut image = vec![0; RING as usize * BLOCK];
        let kind = Kind::Pads { blocks: (RING - tail - 1) as u32 };
        put_commit(&mut image, &Header { block: tail, kind, ..opens() }, &[]);
        for block in 0..tail {
            let (sequence, durable_through, kind) = (block + 2, block + 1, Kind::Plain);
            let header = Header { sequence, durable_through, block, kind, ..opens() };
            put_commit(&mut image, &header, &[]);
        }
        let anchor = Anchor { tail_block: tail, ..ANCHOR };
        let found = recovered_from(anchor, &[(&image[..], &[][..])], 64).expect("a log");
        assert_eq!((found.commits, found.space.head()), (tail, tail - 1));
        assert_eq!((found.space.free_blocks(), &found.dropped[..]), (1, &[tail - 1][..]));
    }
}

/// The records of a commit are as many as its header says, and padding has none.
#[test]
fn a_header_says_how_many_records_its_commit_has() {
    let mut bytes = Vec::new();
    commit::encode(&opens(), &[zeros(4, 1), zeros(9, 1)], LOG, BLOCK as u32, &mut bytes);
    let with = |at: usize, byte: u8| {
        let mut changed = bytes.clone();
        changed[at] = byte;
        Claim::read(&changed).expect("a header").records(&changed)
    };
    for (says, wrong) in [(1, true), (2, false), (3, true)] {
        let records = with(40, says);
        assert_eq!(records.err(), wrong.then_some((2, RecordError::Short)), "{says}");
    }
    assert_eq!(with(52, 0), Ok(vec![zeros(4, 1), zeros(9, 1)]), "a plain commit");
    assert_eq!(with(52, 2), Err((2, RecordError::Short)), "padding");
}

/// It reads the first block of a commit, then all of one that has more, and from the end of the log
/// to its tail 256 blocks at once, but not round the ring's end. A block found there that cannot be
/// read is overwritten, so it must not be one of the log's own.
#[test]
fn a_start_reads_each_part_once_and_nothing_of_the_log_behind_its_end() {
    // The device, the first block, how many.
    type Read = (usize, u64, u64);
    let trims = (1..=50).map(|version| Record::Trim { pages: Pages::new(Page(4), 2), version });
    let trims: Vec<Record> = trims.collect();
    let mut image = vec![0; RING as usize * BLOCK];
    put_commit(&mut image, &Header { block: 300, ..opens() }, &[]);
    let later = Header { last_version: 50, kind: Kind::Plain, ..opens() };
    let second = Header { sequence: 2, durable_through: 1, block: 301, ..later };
    put_commit(&mut image, &second, &trims);
    let asked_of = |image: &[u8], copies: usize, bad: &[u64]| {
        let mut asked: Vec<Read> = Vec::new();
        let recovery = begun(Anchor { tail_block: 300, ..ANCHOR }, copies, 8).expect("an anchor");
        let found = run(recovery, |want| {
            let Part::Ring { block, blocks } = want.part else { panic!("no slot is named") };
            asked.push((want.copy, block, blocks));
            part_of(&vec![(image, bad); copies], want)
        });
        let found = found.expect("a log");
        assert_eq!((found.commits, found.space.head(), &found.unreadable[..]), (2, 304, bad));
        (asked, found.dropped)
    };
    let log: [Read; 4] = [(0, 300, 1), (0, 301, 1), (0, 301, 3), (0, 304, 1)];
    let [before, after, rest]: [Read; 3] = [(0, 304, 208), (0, 0, 256), (0, 256, 44)];
    assert_eq!(asked_of(&image, 1, &[]), ([&log[..], &[before, after, rest]].concat(), vec![]));
    // One by one if one of them cannot be read, and then as before.
    let singly: Vec<Read> = (304..RING).map(|block| (0, block, 1)).collect();
    let expected = [&log[..], &[before], &singly, &[after, rest]].concat();
    assert_eq!(asked_of(&image, 1, &[320]), (expected, vec![]));
    // Each commit of both devices, and then what is behind the end of one and of the other.
    let commits: [Read; 6] =
        [(0, 300, 1), (1, 300, 1), (0, 301, 1), (0, 301, 3), (1, 301, 1), (1, 301, 3)];
    let ends: [Read; 2] = [(0, 304, 1), (1, 304, 1)];
    let other: [Read; 3] = [before, after, rest].map(|(_, block, blocks)| (1, block, blocks));
    let expected = [&commits[..], &ends, &[before, after, rest], &other].concat();
    assert_eq!(asked_of(&image, 2, &[]), (expected, vec![]));
    // A commit that was dropped is read again only if it was not read completely: at block 255.
    for block in [RING - 3, 255] {
        put_commit(&mut image, &Header { sequence: 9, durable_through: 8, block, ..later }, &trims);
        image[(block as usize + 2) * BLOCK + 100] ^= 1;
    }
    let expected = [&log[..], &[before, after, (0, 255, 3), rest]].concat();
    assert_eq!(asked_of(&image, 1, &[]), (expected, vec![RING - 3, 255]));
}

/// Padding ends with the ring.
#[test]
fn padding_ends_with_the_ring() {
    for (blocks, follows) in [(RING - 4, false), (RING - 3, true), (RING - 2, false)] {
        let mut image = vec![0; RING as usize * BLOCK];
        put_commit(&mut image, &Header { block: 1, ..opens() }, &[]);
        let kind = Kind::Pads { blocks: blocks as u32 };
        let header = Header { sequence: 2, durable_through: 1, block: 2, kind, ..opens() };
        put_commit(&mut image, &header, &[]);
        let anchor = Anchor { tail_block: 1, ..ANCHOR };
        let found = recovered_from(anchor, &[(&image[..], &[][..])], 64).expect("a log");
        let (commits, head) = if follows { (2, 0) } else { (1, 2) };
        assert_eq!((found.commits, found.space.head()), (commits, head), "{blocks}");
    }
}

/// Commits are of the epoch that was opened last; one that opens an epoch is of a later one.
#[test]
fn an_epoch_is_opened_once_and_has_commits_of_its_own() {
    let first = Header { epoch: 2, ..opens() };
    let second = |kind, epoch| {
        let (sequence, durable_through, block) = (2, 1, 1);
        let header = Header { epoch, sequence, durable_through, block, kind, ..first };
        let found = recovered(&ring(&[(first, vec![]), (header, vec![])]), 64, &[]);
        let found = found.map(|found| (found.commits, found.epoch, found.dropped));
        found.map_err(|error| error.damage)
    };
    assert_eq!(second(Kind::Opens, 1), Ok((1, 2, vec![])));
    assert_eq!(second(Kind::Opens, 2), Ok((1, 2, vec![1])));
    assert_eq!(second(Kind::Opens, 3), Ok((2, 3, vec![])));
    assert_eq!(second(Kind::Plain, 1), Ok((1, 2, vec![])));
    assert_eq!(second(Kind::Plain, 2), Ok((2, 2, vec![])));
    // Its epoch must have been opened before.
    let by = Witness::Commit { block: 1, sequence: 2 };
    assert_eq!(second(Kind::Plain, 3), Err(Damage::Missing(by)));
}

/// Groups of eight pages with something of a destage: its intent is through the newest version that
/// it froze there. Parity of what the array does not have says nothing.
#[test]
fn a_log_that_was_cut_lacks_the_intents_of_what_is_left_of_destages() {
    let zeros = |first, count, version, origin| {
        let pages = Pages::new(Page(first), count);
        Record::Zero { pages, version, origin }
    };
    let parity = |first| {
        let (first, row, p, q) = (Page(first), 0, [5; 8], None);
        Record::Parity { first, row, p, q, moved: true }
    };
    let intent = |first, through, moved| {
        let pages = Pages::new(Page(first), 8);
        Record::Intent { pages, through, moved }
    };
    let (page, version, slot, sectors) = (Page(26), 7, 3, ALL_SECTORS);
    let (crc, origin) = (crc32c(&[0; 4096]), Origin::Frozen);
    let records = vec![
        zeros(9, 1, 6, Origin::Frozen),
        zeros(15, 2, 4, Origin::Frozen),
        Record::Data { page, version, slot, sectors, crc, origin },
        intent(32, 5, true),
        zeros(33, 1, 5, Origin::Frozen),
        // It is only dirty.
        zeros(50, 1, 8, Origin::Moved),
        parity(32),
        parity(56),
        parity(64),
        parity(72),
    ];
    let image = ring(&[(Header { last_version: 9, ..opens() }, records)]);
    let found = recovered(&image, 8, &[]).expect("a log");
    let lacking = [(8, 6), (16, 4), (24, 7), (56, 0)];
    let lacking = lacking.map(|(first, through)| intent(first, through, false));
    assert_eq!(found.lacking_intents(64, 8), lacking);
    assert_eq!(found.lacking_intents(56, 8), lacking[..3]);
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
    // A record has two pages at most, and one behind the other.
    let two_and_one = [one(Origin::Moved), zero(9, 1, 1, Origin::Moved)];
    assert_eq!(moved(&[zero(7, 3, 1, Origin::New)]), two_and_one);
    let trim = Record::Trim { pages: Pages::new(Page(8), 1), version: 2 };
    let apart = [zero(7, 1, 1, Origin::Moved), zero(9, 1, 1, Origin::Moved)];
    assert_eq!(moved(&[zero(7, 3, 1, Origin::New), trim]), apart);
}
