//! What a log holds after some records, when two logs are equal, and what is moved of one.

use destage_engine::units::Page;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::contents::{Contents, HeldPage, Stored};
use destage_nvslog::record::{ALL_SECTORS, Origin, Pages, Record, RecordError, SectorSums};
use destage_nvslog::space::{LogSpace, Purpose};

const ANCHOR: Anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };

fn empty_space() -> LogSpace {
    LogSpace::new(512, 512, ANCHOR)
}

/// What is held after some records of one commit, and its space.
fn applied(records: &[Record]) -> (Contents, LogSpace) {
    let mut space = empty_space();
    space.allocate(1, Purpose::Host).expect("room");
    let mut contents = Contents::default();
    for record in records {
        contents.apply(record, 1, &mut space).expect("applied");
    }
    (contents, space)
}

fn intent(first: u64, count: u32, through: u64) -> Record {
    Record::Intent { pages: Pages::new(Page(first), count), through, moved: true }
}

/// What is held after commits of one record each.
fn committed(records: &[Record]) -> Contents {
    let (mut contents, mut space) = (Contents::default(), empty_space());
    for record in records {
        let place = space.allocate(1, Purpose::Host).expect("room");
        contents.apply(record, place.sequence, &mut space).expect("applied");
    }
    contents
}

fn zero(page: u64, version: u64, origin: Origin) -> Record {
    Record::Zero { pages: Pages::new(Page(page), 1), version, origin }
}

fn parity(first: u64) -> Record {
    Record::Parity { first: Page(first), row: 0, p: [5; 8], q: Some([6; 8]), moved: true }
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
fn logs_are_equal_if_they_hold_equal_records() {
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
    let with = |records: &[Record]| applied(records).0;
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
    assert_eq!(format!("{all:?}"), "Contents(1 pages, 1 frozen, 1 intents)");
}

/// A page, a frozen page, an intent, parity, and a version that was given out.
#[test]
fn logs_differ_if_one_of_the_things_that_they_hold_does() {
    let trim = Record::Trim { pages: Pages::new(Page(8), 1), version: 1 };
    let [held, frozen] = [Origin::Moved, Origin::Frozen].map(|origin| zero(8, 1, origin));
    for record in [held, frozen, intent(8, 1, 1), parity(8), trim] {
        let with = || applied(&[record]).0;
        assert_eq!(with(), with());
        assert_ne!(with(), Contents::default(), "{record:?}");
        assert_ne!(Contents::default(), with(), "{record:?}");
    }
}

/// It does so wherever the record is now. Records of other versions stay.
#[test]
fn a_copy_takes_the_place_of_the_record_with_its_version() {
    let versions = |records: &[Record]| {
        let contents = applied(records).0;
        let version = |held: Option<HeldPage>| held.map(|held| held.version);
        (version(contents.page(Page(8))), version(contents.frozen(Page(8))))
    };
    let [new, newer] = [1, 2].map(|version| zero(8, version, Origin::New));
    let both = [new, intent(8, 1, 1), newer];
    assert_eq!(versions(&both), (Some(2), Some(1)));
    for (version, origin) in [(2, Origin::Moved), (1, Origin::Frozen)] {
        let with_copy = [&both[..], &[zero(8, version, origin)]].concat();
        assert_eq!(versions(&with_copy), (Some(2), Some(1)), "{origin:?}");
    }
    let [moved, frozen] = [Origin::Moved, Origin::Frozen].map(|origin| zero(8, 1, origin));
    assert_eq!(versions(&[new, frozen]), (None, Some(1)));
    assert_eq!(versions(&[new, frozen, moved]), (Some(1), None));
}

/// It is moved as it is. Another one of any of its pages is nothing that a program writes.
#[test]
fn an_open_intent_is_repeated_only_as_it_is() {
    for (again, refused) in [
        (intent(8, 8, 3), false),
        (intent(8, 8, 4), true),
        (intent(8, 8, 2), true),
        (intent(8, 4, 3), true),
        (intent(8, 9, 3), true),
        (intent(12, 8, 3), true),
        (intent(15, 1, 3), true),
        (intent(4, 8, 3), true),
        (intent(0, 8, 3), false),
        (intent(16, 8, 4), false),
    ] {
        let (mut contents, mut space) = applied(&[intent(8, 8, 3)]);
        let result = contents.apply(&again, 1, &mut space);
        assert_eq!(result, if refused { Err(RecordError::Intent) } else { Ok(()) }, "{again:?}");
    }
}

/// It freezes what is held of its pages up to its version, and nothing else.
#[test]
fn an_intent_freezes_its_pages_as_they_are_then() {
    let zero = |page, version| zero(page, version, Origin::New);
    let pages = [zero(7, 1), zero(8, 2), zero(15, 3), zero(16, 4), zero(9, 5), zero(10, 6)];
    let (mut contents, mut space) = applied(&pages);
    contents.apply(&intent(8, 8, 5), 1, &mut space).expect("applied");
    let frozen: Vec<u64> = (0..20).filter(|page| contents.frozen(Page(*page)).is_some()).collect();
    let held: Vec<u64> = (0..20).filter(|page| contents.page(Page(*page)).is_some()).collect();
    assert_eq!((frozen, held), (vec![8, 9, 15], vec![7, 10, 16]));
    assert_eq!((contents.pages_frozen(), contents.pages_held()), (3, 3));
    assert!((8..16).all(|page| contents.intent_of(Page(page)).is_some()));
    assert!([7, 16].iter().all(|page| contents.intent_of(Page(*page)).is_none()));
}

/// A release closes an intent that it covers, and drops its parity then. All other parity stays.
#[test]
fn a_release_closes_the_intents_that_it_covers() {
    for (first, count, through, closes) in [
        (8, 8, 3, true),
        (8, 8, 4, true),
        (8, 8, 2, false),
        (8, 7, 3, false),
        (8, 9, 3, true),
        (0, 16, 3, true),
        (0, 15, 3, false),
        (9, 7, 3, false),
        (16, 8, 3, false),
        (0, 8, 3, false),
    ] {
        let before = [intent(8, 8, 3), parity(8), intent(24, 8, 3), parity(24)];
        let (mut contents, mut space) = applied(&before);
        let release = Record::Release { pages: Pages::new(Page(first), count), through };
        contents.apply(&release, 1, &mut space).expect("applied");
        let open: Vec<u64> = contents.intents().map(|intent| intent.pages.first.0).collect();
        let with_parity = |first: &u64| contents.parity(Page(*first), 0).is_some();
        let has_parity: Vec<u64> = (0..32).filter(with_parity).collect();
        let left = if closes { vec![24] } else { vec![8, 24] };
        assert_eq!((open, has_parity), (left.clone(), left), "{first}, {count}, {through}");
    }
    // Parity that begins where the release ends is not of its pages.
    let (mut contents, mut space) = applied(&[parity(8), parity(16)]);
    let release = Record::Release { pages: Pages::new(Page(8), 8), through: 1 };
    contents.apply(&release, 1, &mut space).expect("applied");
    assert_eq!((contents.parity(Page(8), 0), contents.parity(Page(16), 0).is_some()), (None, true));
}

/// The live records of some commits, and of no others: intents, parity, frozen pages, other pages.
#[test]
fn what_is_moved_is_of_the_commits_that_were_asked_for() {
    let contents = committed(&[
        zero(3, 1, Origin::New),
        zero(11, 2, Origin::New),
        intent(40, 8, 0),
        parity(40),
        zero(41, 2, Origin::Frozen),
        zero(21, 3, Origin::New),
        zero(31, 4, Origin::New),
        intent(56, 8, 0),
    ]);
    let moved = |page, version| zero(page, version, Origin::Moved);
    let frozen = zero(41, 2, Origin::Frozen);
    let expected = [intent(40, 8, 0), parity(40), frozen, moved(11, 2), moved(21, 3)];
    assert_eq!(contents.live_in(&(2..7)), expected);
    assert_eq!(contents.live_in(&(1..2)), [moved(3, 1)]);
    assert_eq!(contents.live_in(&(7..8)), [moved(31, 4)]);
    assert_eq!(contents.live_in(&(8..9)), [intent(56, 8, 0)]);
    assert_eq!(contents.live_in(&(9..10)), []);
}

/// A new record of the page takes the place of its old one, between the neighbours along the
/// commits.
#[test]
fn touching_a_page_looks_at_its_neighbours_too() {
    let records: Vec<Record> = (1..=5).map(|page| zero(10 * page, page, Origin::New)).collect();
    let contents = committed(&records);
    let touched = [40, 50, 60].map(|page| contents.touch(Page(page)));
    assert_eq!(touched, [Some(3 ^ 5), Some(4), None]);
}
