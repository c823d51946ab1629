//! The space of a ring: which commits have room, how far the tail may move, and which records are
//! moved, and when.

use destage_nvslog::anchor::Anchor;
use destage_nvslog::slots::Slots;
use destage_nvslog::space::{Allocation, LogSpace, Purpose};

const ANCHOR: Anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };

/// A ring of 4,096 blocks whose log begins at this one.
fn begun_at(tail_block: u64) -> LogSpace {
    LogSpace::new(1 << 12, 512, Anchor { tail_block, ..ANCHOR })
}

/// A ring in which one commit of one block was written after the other; the first few have records
/// that count.
fn used(blocks: u64, live: &[u64]) -> LogSpace {
    let mut space = begun_at(0);
    for sequence in 1..=blocks {
        let place = space.allocate(1, Purpose::Housekeeping).expect("room");
        assert_eq!((place.block, place.sequence), (sequence - 1, sequence));
        assert_eq!(space.head(), sequence % (1 << 12));
    }
    live.iter().for_each(|sequence| space.born(*sequence));
    space.made_durable(blocks);
    space
}

/// A segment is 1/64 of the ring, and a commit at most 1/8 of it or 64 KiB.
#[test]
fn a_ring_is_divided_by_its_blocks() {
    for (ring, block_bytes, segment, commit, reserve) in [
        (64, 512, 1, 8, 18),
        (1000, 512, 15, 125, 280),
        (1024, 512, 16, 128, 288),
        (1100, 512, 17, 128, 290),
        (64, 4096, 1, 8, 18),
        (128, 4096, 2, 16, 36),
        (1 << 20, 4096, 16_384, 16, 32_800),
    ] {
        let space = LogSpace::new(ring, block_bytes, ANCHOR);
        let parts = (space.segment_blocks(), space.commit_blocks_max(), space.reserve_blocks());
        assert_eq!(parts, (segment, commit, reserve), "{ring} blocks of {block_bytes}");
        let blocks = [space.ring_blocks(), space.free_blocks(), space.contiguous_blocks()];
        assert_eq!(blocks, [ring; 3]);
        assert_eq!((space.head(), space.next_sequence(), space.durable()), (0, 1, 0));
    }
}

/// A host leaves the reserve free, and what moves records leaves one block. What does not fit
/// before the ring's end begins behind padding.
#[test]
fn a_commit_is_given_room_only_if_enough_stays_free() {
    let reserve = used(1, &[]).reserve_blocks();
    for (purpose, kept) in [(Purpose::Host, reserve), (Purpose::Housekeeping, 1)] {
        for (blocks, pad) in [(96, 0), (97, 96), (128, 96)] {
            for (free, fits) in [(pad + blocks + kept, true), (pad + blocks + kept - 1, false)] {
                // The head is 96 blocks before the ring's end.
                let tail_block = free - 96;
                let mut space = begun_at(tail_block);
                assert!(space.replay(4_000 - tail_block));
                assert_eq!(space.free_blocks(), free);
                let place = space.allocate(blocks, purpose);
                assert_eq!(place.is_some(), fits, "{purpose:?} {blocks}: {free}");
                let Some(place) = place else {
                    assert_eq!((space.free_blocks(), space.next_sequence()), (free, 2));
                    continue;
                };
                let expected = match pad {
                    0 => Allocation { padding: None, block: 4_000, sequence: 2 },
                    _ => Allocation { padding: Some((4_000, 2, pad)), block: 0, sequence: 3 },
                };
                assert_eq!(place, expected, "{purpose:?} {blocks}");
                assert_eq!(space.free_blocks(), kept);
                assert_eq!(space.head(), (place.block + blocks) % (1 << 12));
                assert_eq!(space.next_sequence(), place.sequence + 1);
            }
        }
    }
}

/// The tail goes to a segment whose first commit is durable, behind segments without live records:
/// what killed these is durable, too.
#[test]
fn the_tail_passes_what_is_dead_for_good_and_stops_at_what_is_durable() {
    let tail = |durable: u64, killers: &[u64]| {
        let mut space = begun_at(0);
        (0..200).for_each(|_| assert!(space.replay(1)));
        [3, 4].into_iter().for_each(|sequence| space.born(sequence));
        (3..).zip(killers).for_each(|(sequence, killer)| space.died(sequence, None, *killer));
        space.made_durable(durable);
        let due = space.anchor_due(true, None)?;
        assert_eq!((due.number, due.durable_through), (2, durable));
        assert_eq!(due.tail_block, due.tail_sequence - 1);
        Some(due.tail_sequence)
    };
    assert_eq!(tail(200, &[]), None, "both are live");
    assert_eq!(tail(200, &[150]), None, "one is live");
    let dead = [200, 193, 192, 150, 149].map(|durable| tail(durable, &[150, 100]));
    assert_eq!(dead, [Some(193), Some(193), Some(129), Some(129), None]);
    assert_eq!(tail(149, &[100, 150]), None);
    assert_eq!(tail(128, &[10, 20]), Some(65));
    assert_eq!(tail(64, &[10, 20]), None, "the commit at the tail would not be durable");
}

/// Recovery finds one commit after the other. None goes round the ring's end, and one block stays
/// free.
#[test]
fn a_commit_that_is_found_must_fit_the_ring() {
    let mut space = used(4_090, &[]);
    assert!(!space.replay(7), "past the end");
    assert!(!space.replay(6), "no block would be free");
    assert!(space.replay(5));
    assert_eq!((space.free_blocks(), space.head(), space.next_sequence()), (1, 4_095, 4_092));
    assert!(!space.replay(1), "no block would be free");
    let mut space = begun_at(4_000);
    assert!(!space.replay(97), "past the end");
    assert!(space.replay(96));
    assert_eq!((space.head(), space.contiguous_blocks()), (0, 1 << 12));
    assert!(!space.replay(4_000), "no block would be free");
    assert!(space.replay(3_999));
    assert_eq!((space.free_blocks(), space.head(), space.next_sequence()), (1, 3_999, 3));
}

/// So that starts which end early take no room. The next commit has its block and its number.
#[test]
fn the_last_commit_is_taken_back_as_if_it_had_never_been() {
    let of = |space: &LogSpace| {
        let numbers = (space.next_sequence(), space.durable(), space.anchor_due(true, None));
        (space.head(), space.free_blocks(), numbers)
    };
    // 64 commits are a segment.
    for blocks in [2, 64, 65, 66] {
        let (mut space, mut before) = (used(blocks, &[]), used(blocks - 1, &[]));
        assert!(space.take_back());
        assert_eq!(of(&space), of(&before), "{blocks}");
        let places = [&mut space, &mut before].map(|space| space.allocate(1, Purpose::Host));
        assert_eq!(places[0], places[1]);
        assert_eq!(of(&space), of(&before), "{blocks}");
        // The next segments begin where they would have.
        for space in [&mut space, &mut before] {
            (0..200).for_each(|_| assert!(space.replay(1)));
            space.made_durable(space.next_sequence() - 1);
        }
        assert_eq!(of(&space), of(&before), "{blocks}");
        let due = space.anchor_due(true, None).expect("all but the last segment");
        [&mut space, &mut before].into_iter().for_each(|space| space.anchored(due));
        assert_eq!(of(&space), of(&before), "{blocks}");
    }
    assert!(!used(1, &[]).take_back(), "the log begins with it");
    let mut space = begun_at(4_094);
    assert!(space.replay(1) && space.replay(1));
    assert_eq!(space.head(), 0);
    assert!(space.take_back());
    assert_eq!((space.head(), space.next_sequence()), (4_095, 2));
    // What the one before it freed is not free before the new one is durable.
    let mut space = used(5, &[]);
    space.slots = Slots::new(8);
    assert!(space.slots.take(1, &mut Vec::new()));
    space.confirmed(5);
    assert!(space.take_back());
    space.allocate(1, Purpose::Host).expect("room");
    space.slots.killed(0, 5);
    space.confirmed(4);
    assert_eq!(space.slots.free(), 7);
    space.confirmed(5);
    assert_eq!(space.slots.free(), 8);
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

/// What has no live records before it is freed by the next anchor without a move.
#[test]
fn the_oldest_records_are_moved_unless_enough_is_free_before_them() {
    // One block is free, and each segment before the records is 64 more, of 512.
    let all = (1 << 12) - 1;
    for (segment, moved) in [(0, true), (1, true), (2, true), (7, true), (8, false), (9, false)] {
        let first = 1 + 64 * segment;
        let newest = 1 + 64 * 63;
        let commits = used(all, &[first + 5, first + 63]).evacuate(0);
        assert_eq!(commits, moved.then_some(first..newest), "segment {segment}");
    }
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

/// The tail's own segment is not free. The anchor also says that what its commits killed is dead.
#[test]
fn the_blocks_before_the_tail_of_an_anchor_are_free() {
    let mut space = used(1_000, &[]);
    space.slots = Slots::new(8);
    let mut taken = Vec::new();
    assert!(space.slots.take(2, &mut taken));
    taken.iter().zip([1_000, 1_001]).for_each(|(slot, killer)| space.slots.killed(*slot, killer));
    let tails = [(Some(64), 65), (Some(127 + 64), 129), (Some(300), 257), (None, 961)];
    for (number, (needed, tail)) in (2..).zip(tails) {
        let due = space.anchor_due(true, needed).expect("something to free");
        let (tail_sequence, tail_block, durable_through) = (tail, tail - 1, 1_000);
        assert_eq!(due, Anchor { number, tail_sequence, tail_block, durable_through });
        space.anchored(due);
        assert_eq!((space.anchor(), space.free_blocks()), (due, 4_096 - 1_000 + tail - 1));
        assert_eq!(space.slots.free(), 7, "what commit 1,001 killed waits");
    }
    assert_eq!(space.anchor_due(true, None), None, "the last segment stays");
}
