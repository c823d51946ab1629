//! Tests of how records gather in batches, and of what is written of a batch, and when.

use super::*;
use destage_nvslog::commit::Claim;

/// Records of the batches that wait.
fn records(log: &Log) -> Vec<usize> {
    log.queue.iter().map(|batch| batch.records.len()).collect()
}

fn releases(log: &mut Log, count: u64) {
    (0..count).for_each(|index| log.release(PageRange::new(Page(index * 4), 4), index));
}

/// Writes these pages, each filled with its number.
fn write(log: &mut Log, pages: core::ops::Range<u8>) {
    pages.for_each(|page| {
        log.write_page(u64::from(page), &[page; PAGE], ALL_SECTORS);
    });
}

/// What was pushed since the last call, all of it durable writes.
fn written(ops: &mut Ops) -> Vec<(Device, u64, SharedBytes)> {
    let mut out = Vec::new();
    ops.take(&mut out);
    let written = out.iter().map(|op| match &op.kind {
        OpKind::Write { offset, buffer, durable: true } => (op.device, *offset, buffer.clone()),
        _ => panic!("{op:?}"),
    });
    written.collect()
}

/// The header has 64 bytes and each record 24. A commit has 65,536 bytes at most, and in a ring of
/// 64 blocks eight blocks.
#[test]
fn a_batch_takes_records_until_the_commit_is_full() {
    for (ring, most) in [(1 << 12, 2728), (64, 168)] {
        let mut log = with_ring(ring);
        releases(&mut log, most);
        assert_eq!(records(&log), [most as usize]);
        releases(&mut log, 1);
        assert_eq!(records(&log), [most as usize, 1]);
    }
}

/// One page at least, or nothing would ever be written.
#[test]
fn a_batch_takes_no_more_pages_than_there_are_slots_to_spare() {
    for (spare, expected) in [(0, vec![1; 4]), (3, vec![3, 1]), (4, vec![4])] {
        let mut log = empty();
        log.spare_slots = spare;
        write(&mut log, 0..4);
        let pages: Vec<usize> = log.queue.iter().map(|batch| batch.pages).collect();
        assert_eq!(pages, expected);
    }
}

/// More zeros than one commit has room for begin in the present one.
#[test]
fn zeros_begin_another_batch_only_if_that_keeps_them_together() {
    let after = |before: u64, zeros: u32| {
        let mut log = empty();
        releases(&mut log, before);
        log.clear(PageRange::new(Page(0), zeros * ZERO_PAGES_MAX), true);
        records(&log)
    };
    assert_eq!(after(0, 6), [6]);
    assert_eq!(after(2722, 6), [2728]);
    assert_eq!(after(2723, 6), [2723, 6]);
    assert_eq!(after(1, 2728), [1, 2728]);
    assert_eq!(after(1, 2729), [2728, 2]);
}

#[test]
fn records_of_zeros_have_two_pages_at_most_and_a_version_each() {
    let mut log = empty();
    let range = PageRange::new(Page(7), 5);
    assert_eq!(log.clear(range, true), 3);
    assert_eq!(log.clear(range, false), 4);
    let zero = |first, count, version| {
        let pages = Pages::new(Page(first), count);
        Record::Zero { pages, version, origin: Origin::New }
    };
    let trim = Record::Trim { pages: Pages::new(Page(7), 5), version: 4 };
    assert_eq!(log.queue[0].records, [zero(7, 2, 1), zero(9, 2, 2), zero(11, 1, 3), trim]);
    assert_eq!((log.queue.len(), log.last_version()), (1, 4));
}

#[test]
fn a_commit_and_each_run_of_neighbouring_slots_are_one_write() {
    let (mut ops, mut log) = (Ops::default(), empty());
    log.devices = vec![0, 1];
    assert!(log.space.slots.found(3), "it has a page");
    write(&mut log, 1..6);
    log.turn(&mut ops);
    let written = written(&mut ops);
    assert_eq!(written.len(), 6);
    let slots = RING + (1 << 12) * 512;
    let filled = |fills: &[u8]| fills.iter().flat_map(|fill| [*fill; PAGE]).collect::<Vec<u8>>();
    for (device, written) in (0..).map(Device::Nvs).zip(written.chunks(3)) {
        let [commit, first, second] = written else { panic!("{written:?}") };
        assert_eq!([commit, first, second].map(|write| write.0), [device; 3]);
        let offsets = [commit, first, second].map(|write| write.1);
        assert_eq!(offsets, [RING, slots, slots + 4 * PAGE as u64]);
        assert_eq!(commit.2.len(), 512);
        assert!(first.2[..] == filled(&[1, 2, 3]) && second.2[..] == filled(&[4, 5]));
    }
}

/// A commit of five blocks, with four blocks left before the end of the ring.
#[test]
fn padding_fills_the_ring_to_its_end() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    log.space = LogSpace::new(64, 512, Anchor { tail_block: 60, ..ANCHOR });
    log.space.slots = Slots::new(2048);
    log.begin_write(90);
    write(&mut log, 0..90);
    log.turn(&mut ops);
    let written = written(&mut ops);
    let [padding, commit, pages] = &written[..] else { panic!("{written:?}") };
    assert_eq!([padding.1, commit.1, pages.1], [RING + 60 * 512, RING, RING + 64 * 512]);
    let lengths = [padding, commit, pages].map(|write| write.2.len());
    assert_eq!(lengths, [512, 5 * 512, 90 * PAGE]);
    let header = |bytes: &[u8]| {
        let claim = Claim::read(bytes).expect("a commit");
        assert!(claim.holds(bytes, log.id, 512));
        claim.header
    };
    let (block, kind) = (60, Kind::Pads { blocks: 3 });
    let first = Header { epoch: 1, sequence: 1, durable_through: 0, block, last_version: 0, kind };
    assert_eq!(header(&padding.2), first);
    let (block, last_version, kind) = (0, 90, Kind::Plain);
    let second = Header { sequence: 2, block, last_version, kind, ..first };
    assert_eq!(header(&commit.2), second);
    let LogStatus { bytes_written, bytes_used, .. } = log.status();
    assert_eq!((bytes_written, bytes_used), (6 * 512 + 90 * PAGE as u64, 9 * 512));
}

#[test]
fn nothing_is_due_while_a_commit_is_in_flight() {
    let of = |millis| Instant::ZERO + Duration::from_millis(millis);
    let (mut ops, mut log) = (Ops::default(), empty());
    ops.set_now(of(100));
    write(&mut log, 1..2);
    log.turn(&mut ops);
    assert_eq!((in_flight(&log), log.deadline()), (vec![1], None));
    ops.set_now(of(200));
    log.turn(&mut ops);
    assert_eq!((in_flight(&log), log.queue.len()), (vec![1], 0));
    write(&mut log, 2..3);
    log.turn(&mut ops);
    assert_eq!((in_flight(&log), log.queue.len(), log.deadline()), (vec![1], 1, None));
    done(&mut log, 1);
    log.turn(&mut ops);
    done(&mut log, 2);
    assert_eq!((in_flight(&log), log.deadline()), (vec![], Some(of(250))));
}

/// A change of the set of devices must be durable first. Then the commits are, in their order.
#[test]
fn no_commit_is_durable_while_all_are_held_back() {
    let (mut ops, mut log) = (Ops::default(), empty());
    for (waiter, first) in [(1, 0), (2, 100)] {
        write(&mut log, first..first + SHARE as u8);
        log.wait(Waiter::Intent(waiter));
        log.turn(&mut ops);
    }
    assert_eq!(in_flight(&log), [1, 2]);
    log.hold();
    for sequence in [2, 1] {
        done(&mut log, sequence);
    }
    assert_eq!((log.next_durable(), log.durable_version(), log.settled()), (None, 0, false));
    log.resume();
    let durable = [(); 3].map(|()| log.next_durable());
    assert_eq!(durable, [Some(Waiter::Intent(1)), Some(Waiter::Intent(2)), None]);
    assert_eq!((log.durable_version(), log.settled()), (2 * SHARE as u64, true));
}

/// A commit in flight frees them too when it is durable.
#[test]
fn an_empty_commit_is_written_for_slots_only_if_it_is_needed_and_frees_some() {
    let (mut ops, mut log) = (Ops::default(), empty());
    let mut turn = |log: &mut Log| {
        log.turn(&mut ops);
        (in_flight(log), log.queue.len())
    };
    log.space.slots = Slots::new(2 * SHARE as u32);
    for sequence in [1, 2] {
        write(&mut log, 0..SHARE as u8);
        assert_eq!(turn(&mut log), (vec![sequence], 0));
        if sequence == 1 {
            done(&mut log, sequence);
        }
    }
    write(&mut log, 0..SHARE as u8);
    assert_eq!(turn(&mut log), (vec![2], 1), "commit 2 is in flight");
    done(&mut log, 2);
    assert_eq!(turn(&mut log), (vec![3], 1), "it confirms commit 2");
    done(&mut log, 3);
    assert_eq!(turn(&mut log), (vec![4], 0));
    done(&mut log, 4);
    // A copy of the device reads all slots now: no commit frees any.
    log.space.slots = Slots::new(64);
    log.space.slots.hold_back(0..64);
    write(&mut log, 20..21);
    assert_eq!(turn(&mut log), (vec![], 1));
    log.space.slots.hold_back(0..0);
    assert_eq!(turn(&mut log), (vec![5], 0));
}

/// 42 pages count of 64 blocks, of which 18 are kept. The few blocks of older writes are not worth
/// an anchor, unless a commit waits for them.
#[test]
fn a_commit_that_waits_for_room_gets_the_little_that_can_be_freed() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    for (count, page) in (0..42).cycle().take(500).enumerate() {
        write(&mut log, page..page + 1);
        for _ in 0..20 {
            log.turn(&mut ops);
            carried_out(&mut log, &mut ops);
        }
        assert!(log.settled(), "after {count} writes: {} free", log.space.free_blocks());
    }
}

/// 100 records of a commit of five blocks, at the tail of a ring of 64.
#[test]
fn live_records_of_a_commit_are_moved_together() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    log.begin_write(100);
    write(&mut log, 100..200);
    let mut moved = Vec::new();
    for _ in 0..46 {
        log.turn(&mut ops);
        carried_out(&mut log, &mut ops);
        moved.push(log.status().records_moved);
        write(&mut log, 1..2);
    }
    moved.dedup();
    assert_eq!(moved, [0, 100]);
}
