//! Tests of the log as it is written.

mod batches;
mod mirrors;

use super::*;
use crate::io::Op;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::record::ALL_SECTORS;
use destage_nvslog::slots::Slots;

const ANCHOR: Anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };

fn empty() -> Log {
    with_ring(1 << 12)
}

fn with_ring(blocks: u64) -> Log {
    let mut space = LogSpace::new(blocks, 512, ANCHOR);
    space.slots = Slots::new(2048);
    Log::new(Start {
        id: LogId([1; 16]),
        block_bytes: 512,
        devices: vec![0],
        space,
        contents: Contents::default(),
        epoch: 1,
        defect: Defect::None,
        spare_slots: 512,
    })
}

fn in_flight(log: &Log) -> Vec<u64> {
    log.in_flight.iter().map(|flight| flight.sequence).collect()
}

/// All writes of a commit are durable.
fn done(log: &mut Log, sequence: u64) {
    let of = |log: &Log| log.in_flight.iter().find(|f| f.sequence == sequence).map(|f| f.pending);
    while of(log).is_some_and(|pending| pending > 0) {
        log.commit_done(sequence);
    }
}

#[test]
fn no_batch_is_larger_than_a_commit() {
    let mut log = empty();
    (0..600).for_each(|page| {
        log.write_page(page, &[7; PAGE], ALL_SECTORS);
    });
    assert!(log.queue.iter().all(|batch| batch.pages <= COMMIT_PAGES_MAX));
    assert_eq!(log.queue.len(), 3);
}

#[test]
fn writes_that_come_at_once_go_out_in_several_commits_and_none_is_split() {
    let mut log = empty();
    for first in (0..64).map(|write| write * 3) {
        log.begin_write(3);
        (first..first + 3).for_each(|page| {
            log.write_page(page, &[7; PAGE], ALL_SECTORS);
        });
    }
    let pages: Vec<usize> = log.queue.iter().map(|batch| batch.pages).collect();
    assert_eq!(pages, [18, 174]);
}

/// A commit may have 256 pages here: 85 writes of three.
#[test]
fn a_write_that_a_commit_has_no_room_for_goes_into_the_next() {
    let (mut ops, mut log) = (Ops::default(), empty());
    for write in 0..200 {
        log.begin_write(3);
        (write * 3..write * 3 + 3).for_each(|page| {
            log.write_page(page, &[7; PAGE], ALL_SECTORS);
        });
        if write < 2 {
            // From now on two are in flight, and one batch gathers all the rest.
            log.turn(&mut ops);
        }
    }
    let pages: Vec<usize> = log.queue.iter().map(|batch| batch.pages).collect();
    assert!(pages.iter().all(|pages| pages.is_multiple_of(3)), "{pages:?}");
    assert!(pages.contains(&255), "{pages:?}");
}

/// What a destage logs goes with a write of the host, if one comes soon.
#[test]
fn records_of_destages_wait_for_company_but_not_long() {
    let of = |millis| Instant::ZERO + Duration::from_millis(millis);
    let group = PageRange::new(Page(0), 4);
    for company in [true, false] {
        let (mut ops, mut log) = (Ops::default(), empty());
        ops.set_now(of(100));
        log.intend(group, 1);
        log.wait(Waiter::Intent(1));
        log.turn(&mut ops);
        assert_eq!((in_flight(&log).len(), log.deadline()), (0, Some(of(101))));
        if company {
            log.write_page(1, &[7; PAGE], ALL_SECTORS);
        } else {
            ops.set_now(of(101));
        }
        log.turn(&mut ops);
        assert_eq!(in_flight(&log).len(), 1);
        let sequence = in_flight(&log)[0];
        done(&mut log, sequence);
        assert_eq!(log.next_durable(), Some(Waiter::Intent(1)));
        log.release(group, 1);
        ops.set_now(of(200));
        log.turn(&mut ops);
        assert_eq!((in_flight(&log).len(), log.deadline()), (0, Some(of(250))));
        ops.set_now(of(250));
        log.turn(&mut ops);
        assert_eq!(in_flight(&log).len(), 1, "nobody waits for it, but it is written");
    }
}

#[test]
fn records_of_destages_that_fill_a_block_are_written() {
    let (mut ops, mut log) = (Ops::default(), empty());
    for group in 0..19 {
        log.turn(&mut ops);
        assert!(in_flight(&log).is_empty(), "{group}");
        log.release(PageRange::new(Page(group * 4), 4), 1);
    }
    log.turn(&mut ops);
    assert_eq!(in_flight(&log).len(), 1);
}

#[test]
fn a_small_batch_waits_until_the_commits_in_flight_are_done() {
    let (mut ops, mut log) = (Ops::default(), empty());
    log.write_page(1, &[7; PAGE], ALL_SECTORS);
    log.turn(&mut ops);
    assert_eq!(in_flight(&log).len(), 1, "nothing to wait for");
    (10..10 + SHARE as u64).for_each(|page| {
        log.write_page(page, &[7; PAGE], ALL_SECTORS);
    });
    log.turn(&mut ops);
    assert_eq!(in_flight(&log).len(), 2, "enough for a commit of its own");
    log.write_page(2, &[7; PAGE], ALL_SECTORS);
    let first = in_flight(&log)[0];
    done(&mut log, first);
    log.turn(&mut ops);
    assert_eq!(in_flight(&log).len(), 1, "it gathers");
    let second = in_flight(&log)[0];
    done(&mut log, second);
    log.turn(&mut ops);
    assert_eq!(in_flight(&log).len(), 1, "nothing to wait for any more");
    assert!(log.queue.is_empty());
}

/// A page that is written again and again takes slots, and an empty commit frees them.
#[test]
fn slots_that_are_not_confirmed_are_waited_for() {
    let (mut ops, mut log) = (Ops::default(), empty());
    log.space.slots = Slots::new(4);
    log.spare_slots = 3;
    for round in 0..20 {
        log.write_page(7, &[round; PAGE], ALL_SECTORS);
        log.wait(Waiter::Intent(u32::from(round)));
        while !log.settled() {
            log.turn(&mut ops);
            let all = in_flight(&log);
            assert!(!all.is_empty(), "round {round}: nothing would ever be durable");
            all.into_iter().for_each(|sequence| done(&mut log, sequence));
        }
        assert_eq!(log.next_durable(), Some(Waiter::Intent(u32::from(round))));
    }
}

/// The operations that were pushed since the last call; those of the copy to a new mirror are kept
/// apart, and all others are done.
fn carried_out(log: &mut Log, ops: &mut Ops) -> (Vec<OpKind>, Vec<OpKind>) {
    let (mut copies, mut done) = (Vec::new(), Vec::new());
    loop {
        let mut out = Vec::new();
        ops.take(&mut out);
        if out.is_empty() {
            return (copies, done);
        }
        for op in out {
            match ops.finish(op.id).expect("in flight").purpose {
                Purpose::Log(LogOp::Mirror { .. }) => copies.push(op.kind),
                Purpose::Log(purpose) => {
                    log.op_done(purpose, None, ops);
                    done.push(op.kind);
                }
                _ => panic!("not of the log"),
            }
        }
        log.mirror_turn(ops);
        log.turn(ops);
    }
}

/// An operation of the log is done.
fn finish(log: &mut Log, ops: &mut Ops, op: &Op, bytes: Option<Buffer>) {
    let finished = ops.finish(op.id).expect("in flight");
    let Purpose::Log(of) = finished.purpose else { panic!("not of the log: {op:?}") };
    log.op_done(of, bytes, ops);
}

/// Writes page 1 this many times, in a commit each. The operations of commits are done, and all
/// others are kept.
fn overwrite(log: &mut Log, ops: &mut Ops, times: u32) -> Vec<Op> {
    let mut kept = Vec::new();
    for _ in 0..times {
        log.write_page(1, &[7; PAGE], ALL_SECTORS);
        log.turn(ops);
        loop {
            let mut out = Vec::new();
            ops.take(&mut out);
            if out.is_empty() {
                break;
            }
            let (commits, others): (Vec<Op>, Vec<Op>) = out.into_iter().partition(|op| {
                matches!(op.kind, OpKind::Write { offset, durable: true, .. } if offset >= RING)
            });
            kept.extend(others);
            commits.iter().for_each(|op| finish(log, ops, op, None));
            log.turn(ops);
        }
    }
    kept
}

#[test]
fn what_is_written_is_counted() {
    let (mut ops, mut log) = (Ops::default(), empty());
    for page in [5, 6, 9] {
        log.write_page(page, &[7; PAGE], ALL_SECTORS);
    }
    log.turn(&mut ops);
    let bytes = |op: &OpKind| match op {
        OpKind::Write { buffer, .. } => buffer.len() as u64,
        _ => 0,
    };
    let written: u64 = carried_out(&mut log, &mut ops).1.iter().map(bytes).sum();
    assert!(written > 3 * PAGE as u64);
    assert_eq!(log.status().bytes_written, written);
}

/// An empty commit confirms those before it when the log was idle for 50 ms, and at a stop; never
/// twice, and not what waits to be written.
#[test]
fn an_idle_log_confirms_its_last_commit_once() {
    let of = |millis| Instant::ZERO + Duration::from_millis(millis);
    let (mut ops, mut log) = (Ops::default(), empty());
    ops.set_now(of(100));
    log.write_page(1, &[7; PAGE], ALL_SECTORS);
    log.turn(&mut ops);
    carried_out(&mut log, &mut ops);
    assert_eq!((in_flight(&log).len(), log.deadline()), (0, Some(of(150))));
    let mut commits_at = |millis, log: &mut Log| {
        ops.set_now(of(millis));
        log.turn(&mut ops);
        carried_out(log, &mut ops).1.len()
    };
    assert_eq!(commits_at(149, &mut log), 0);
    assert_eq!(commits_at(150, &mut log), 1);
    assert_eq!((commits_at(1000, &mut log), log.deadline()), (0, None));
    log.confirm();
    assert_eq!(commits_at(1001, &mut log), 0, "nothing is to be confirmed");
    log.write_page(2, &[7; PAGE], ALL_SECTORS);
    assert_eq!(commits_at(1002, &mut log), 2, "the slot and the commit");
    log.confirm();
    assert_eq!(commits_at(1003, &mut log), 1, "at a stop at once");
    log.write_page(3, &[7; PAGE], ALL_SECTORS);
    log.confirm();
    assert_eq!(log.queue.len(), 1, "what waits confirms those before it");
}

/// Also if its last commit has no pages: zeros, trims and releases.
#[test]
fn a_commit_without_pages_is_confirmed_too() {
    let pages = PageRange::new(Page(4), 4);
    type Logs = fn(&mut Log, PageRange);
    let release: Logs = |log, pages| log.release(pages, 1);
    let zeros: Logs = |log, pages| {
        log.clear(pages, true);
    };
    let trim: Logs = |log, pages| {
        log.clear(pages, false);
    };
    for logs in [zeros, trim, release] {
        let (mut ops, mut log) = (Ops::default(), empty());
        ops.set_now(Instant::ZERO + Duration::from_secs(1));
        logs(&mut log, pages);
        log.confirm();
        log.turn(&mut ops);
        assert_eq!(carried_out(&mut log, &mut ops).1.len(), 1, "the commit");
        assert!(log.deadline().is_some(), "it is to be confirmed");
        log.confirm();
        log.turn(&mut ops);
        assert_eq!(carried_out(&mut log, &mut ops).1.len(), 1, "an empty one behind it");
    }
}

/// A read that shows what the second of two commits has is answered when that one is durable.
#[test]
fn who_waits_for_all_that_was_logged_waits_for_the_newest_commit() {
    let (mut ops, mut log) = (Ops::default(), empty());
    for first in [0, 100] {
        (first..first + SHARE as u64).for_each(|page| {
            log.write_page(page, &[7; PAGE], ALL_SECTORS);
        });
        log.turn(&mut ops);
    }
    let [first, second] = in_flight(&log)[..] else { panic!("two commits") };
    assert!(log.queue.is_empty());
    log.wait(Waiter::Intent(1));
    done(&mut log, first);
    assert_eq!(log.next_durable(), None);
    done(&mut log, second);
    assert_eq!(log.next_durable(), Some(Waiter::Intent(1)));
}

/// The ring's blocks are copied to a new mirror while the log is used. Until they are, no anchor
/// frees them: the copy would bring old blocks over new commits.
#[test]
fn no_anchor_frees_what_a_new_mirror_does_not_have_yet() {
    let (mut ops, mut log) = (Ops::default(), empty());
    let mut write = |log: &mut Log, times: u32| {
        let (mut copies, mut done) = (Vec::new(), Vec::new());
        for _ in 0..times {
            log.write_page(1, &[7; PAGE], ALL_SECTORS);
            log.turn(&mut ops);
            let (more, others) = carried_out(log, &mut ops);
            copies.extend(more);
            done.extend(others);
        }
        (copies, done)
    };
    // An eighth of the ring, 512 blocks, is worth an anchor.
    write(&mut log, 400);
    let mut other = Ops::default();
    let new = NewMirror { device: 1, uuid: [9; 16], bytes: u64::MAX, block_bytes: 512 };
    log.add_mirror(&new, &mut other).expect("begun");
    let mut out = Vec::new();
    other.take(&mut out);
    let [copy] = &out[..] else { panic!("{out:?}") };
    let OpKind::Read { offset, bytes } = copy.kind else { panic!("{copy:?}") };
    assert_eq!((offset, bytes), (RING, 400 * 512));
    let anchors = |done: &[OpKind]| {
        let at = |kind: &&OpKind| matches!(kind, OpKind::Write { offset, .. } if *offset < RING);
        done.iter().filter(at).count()
    };
    let (_, done) = write(&mut log, 600);
    assert_eq!(anchors(&done), 0, "the first blocks are not copied");
    assert!(log.space.anchor_due(false, None).is_some());
    // The copy is read, and written: from then on the blocks may be freed.
    log.mirror_done(1, Some(Buffer::zeroed(bytes)), &mut other);
    log.mirror_done(1, None, &mut other);
    let (_, done) = write(&mut log, 1);
    assert_eq!(anchors(&done), 2);
}

/// Nor when the head has come round to where the copy began, and the tail would follow it there.
#[test]
fn no_anchor_frees_what_is_not_copied_once_the_ring_has_come_round() {
    let (mut ops, mut log) = (Ops::default(), empty());
    let mut write = |log: &mut Log, page: u64, times: u32| {
        for _ in 0..times {
            log.write_page(page, &[7; PAGE], ALL_SECTORS);
            log.turn(&mut ops);
            carried_out(log, &mut ops);
        }
    };
    // Pages 2 and 3 hold the tail back.
    for (page, times) in [(2, 1), (1, 1400), (3, 1), (1, 598)] {
        write(&mut log, page, times);
    }
    let mut other = Ops::default();
    let new = NewMirror { device: 1, uuid: [9; 16], bytes: u64::MAX, block_bytes: 512 };
    log.add_mirror(&new, &mut other).expect("begun");
    for _ in 0..3 {
        log.mirror_done(1, Some(Buffer::zeroed(512 * 512)), &mut other);
        log.mirror_done(1, None, &mut other);
    }
    // Of 2,000 blocks 1,536 are copied. Within these the tail may move, and then no further.
    write(&mut log, 2, 1);
    let tail = log.space.anchor().tail_block;
    assert!((1300..1400).contains(&tail), "{tail}");
    write(&mut log, 3, 1);
    for (page, times) in [(1, 2900), (2, 1), (3, 1), (1, 90)] {
        write(&mut log, page, times);
    }
    assert!(log.space.head() < 1000, "{}: it has come round", log.space.head());
    assert_eq!(log.space.anchor().tail_block, tail);
    log.mirror_done(1, Some(Buffer::zeroed(464 * 512)), &mut other);
    log.mirror_done(1, None, &mut other);
    write(&mut log, 1, 1);
    assert_ne!(log.space.anchor().tail_block, tail, "all is copied");
}

/// Records of destages take the room of a commit before its pages do.
#[test]
fn a_write_for_whose_records_a_commit_has_no_room_goes_into_the_next() {
    for releases in 40..60 {
        let (mut ops, mut log) = (Ops::default(), empty());
        for write in 0..200 {
            (0..releases).for_each(|index| log.release(PageRange::new(Page(index * 4), 4), index));
            log.begin_write(3);
            (write * 3..write * 3 + 3).for_each(|page| {
                log.write_page(page, &[7; PAGE], ALL_SECTORS);
            });
            if write < 2 {
                log.turn(&mut ops);
            }
        }
        let pages: Vec<usize> = log.queue.iter().map(|batch| batch.pages).collect();
        assert!(pages.iter().all(|pages| pages.is_multiple_of(3)), "{releases}: {pages:?}");
        // Not their pages closed them.
        assert!(pages.len() > 2 && pages.iter().all(|pages| *pages < 250), "{pages:?}");
    }
}

/// Page by page, what is left of them would need more blocks than were written.
#[test]
fn zeros_of_many_pages_can_be_moved_when_the_ring_comes_round() {
    let (mut ops, mut log) = (Ops::default(), empty());
    log.clear(PageRange::new(Page(0), 16_384), true);
    // Every third page is written since: what is left is in many pieces.
    (0..16_384).step_by(3).take(900).for_each(|page| {
        log.write_page(page, &[7; PAGE], ALL_SECTORS);
    });
    for write in 0..20_000 {
        log.write_page(20_000 + write % 64, &[7; PAGE], ALL_SECTORS);
        for _ in 0..20 {
            log.turn(&mut ops);
            carried_out(&mut log, &mut ops);
        }
        assert!(log.settled(), "after {write} writes: {} free", log.space.free_blocks());
    }
    assert!(log.records_moved > 0);
}

/// All records of the largest commit are live when the ring comes round, and its end may be in the
/// way where they are moved to: the reserve has room for the padding, too.
#[test]
fn the_reserve_has_room_to_move_the_largest_commit_at_the_end_of_the_ring() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    let settle = |log: &mut Log, ops: &mut Ops| {
        for _ in 0..20 {
            log.turn(ops);
            carried_out(log, ops);
        }
        assert!(log.settled(), "head {}: {} free", log.space.head(), log.space.free_blocks());
    };
    log.begin_write(160);
    (0..160).for_each(|page| {
        log.write_page(page, &[7; PAGE], ALL_SECTORS);
    });
    settle(&mut log, &mut ops);
    for write in 0..500 {
        log.write_page(1000 + write % 3, &[7; PAGE], ALL_SECTORS);
        settle(&mut log, &mut ops);
    }
    assert!(log.records_moved > 0);
}

/// P of a disk that is missing is not computed, and its record has no checksums.
#[test]
fn checksums_of_parity_that_was_not_computed_are_not_known() {
    let (mut ops, mut log) = (Ops::default(), empty());
    log.write_page(1, &[7; PAGE], ALL_SECTORS);
    let all = [
        RowSums { p: None, q: Some([1; 8]) },
        RowSums { p: Some([2; 8]), q: None },
        RowSums { p: Some([3; 8]), q: Some([4; 8]) },
    ];
    for (row, sums) in (0..).zip(all) {
        log.parity(Page(0), row, sums);
    }
    log.turn(&mut ops);
    carried_out(&mut log, &mut ops);
    for (row, sums) in (0..).zip(all) {
        assert_eq!(log.parity_of(Page(0), row), Some(sums));
    }
}

/// An operation of a resync that has ended is done while another one runs.
#[test]
fn a_resync_takes_no_step_of_an_earlier_one_for_its_own() {
    let (mut ops, mut log) = (Ops::default(), empty());
    log.write_page(1, &[7; PAGE], ALL_SECTORS);
    log.turn(&mut ops);
    carried_out(&mut log, &mut ops);
    let new = NewMirror { device: 1, uuid: [9; 16], bytes: u64::MAX, block_bytes: 512 };
    let mut read = || {
        log.add_mirror(&new, &mut ops).expect("begun");
        let mut out = Vec::new();
        ops.take(&mut out);
        let [copy] = &out[..] else { panic!("{out:?}") };
        let OpKind::Read { bytes, .. } = copy.kind else { panic!("{copy:?}") };
        let Purpose::Log(LogOp::Mirror { number }) = ops.finish(copy.id).expect("of it").purpose
        else {
            panic!("{copy:?}")
        };
        log.end_mirror(&mut ops);
        (number, bytes)
    };
    let (earlier, bytes) = read();
    assert_ne!(read().0, earlier);
    log.add_mirror(&new, &mut ops).expect("begun");
    let mut out = Vec::new();
    ops.take(&mut out);
    log.mirror_done(earlier, Some(Buffer::zeroed(bytes)), &mut ops);
    ops.take(&mut out);
    assert_eq!(out.len(), 1, "the read of the later one alone");
}

#[test]
fn zeros_of_a_small_write_are_one_commit() {
    let mut log = empty();
    (0..2650).for_each(|index| log.release(PageRange::new(Page(index * 4), 4), index));
    log.clear(PageRange::new(Page(1), 256), true);
    let records: Vec<usize> = log.queue.iter().map(|batch| batch.records.len()).collect();
    assert_eq!(records, [2650, 128]);
}

/// Commits of one block, each with a page in a slot.
#[test]
fn blocks_in_use_and_bytes_written_are_counted_commit_by_commit() {
    let (mut ops, mut log) = (Ops::default(), empty());
    assert_eq!((log.status().bytes_used, log.status().bytes_written), (0, 0));
    for commits in 1..=5 {
        assert!(log.settled());
        log.write_page(1, &[7; PAGE], ALL_SECTORS);
        assert!(!log.settled(), "it waits");
        log.turn(&mut ops);
        assert!(!log.settled(), "it is in flight");
        carried_out(&mut log, &mut ops);
        let LogStatus { bytes_written, records_moved, bytes_used } = log.status();
        assert_eq!((bytes_used, bytes_written), (commits * 512, commits * (512 + PAGE as u64)));
        assert_eq!(records_moved, 0);
    }
}

#[test]
fn a_log_continues_the_counts_of_the_one_before() {
    let (mut earlier, mut log) = (empty(), empty());
    (earlier.bytes_written, earlier.records_moved) = (100, 7);
    (log.bytes_written, log.records_moved) = (20, 3);
    log.count_from(&earlier);
    let LogStatus { bytes_written, records_moved, bytes_used } = log.status();
    assert_eq!((bytes_written, records_moved, bytes_used), (120, 10, 0));
}

/// A device that is no longer used has done nothing: what it was to write is not there.
#[test]
fn a_step_of_a_resync_that_is_given_up_is_not_done() {
    let (mut ops, mut log) = (Ops::default(), empty());
    log.write_page(1, &[7; PAGE], ALL_SECTORS);
    log.turn(&mut ops);
    carried_out(&mut log, &mut ops);
    let new = NewMirror { device: 1, uuid: [9; 16], bytes: u64::MAX, block_bytes: 512 };
    log.add_mirror(&new, &mut ops).expect("begun");
    let number = log.mirrors;
    log.mirror_done(number, Some(Buffer::zeroed(512)), &mut ops);
    let mut out = Vec::new();
    ops.take(&mut out);
    let [_, Op { kind: OpKind::Write { .. }, .. }] = &out[..] else { panic!("{out:?}") };
    out.clear();
    let before = log.mirror_status();
    log.op_abandoned(LogOp::Mirror { number }, &mut ops);
    ops.take(&mut out);
    assert!(out.is_empty() && log.mirror_status() == before, "{out:?}");
    log.op_done(LogOp::Mirror { number }, None, &mut ops);
    ops.take(&mut out);
    assert!(out.len() == 1 && log.mirror_status() != before, "{out:?}");
}

/// Records of destages alone wait for others, in a block that has room for these.
#[test]
fn a_batch_waits_only_with_what_no_host_waits_for() {
    let mut log = empty();
    let mut patience = |pages: usize, records: usize, bytes: usize, waiters: &[Waiter]| {
        let release = Record::Release { pages: Pages::new(Page(0), 4), through: 1 };
        let mut batch = log.new_batch();
        (batch.pages, batch.bytes, batch.records) = (pages, bytes, vec![release; records]);
        batch.waiters = waiters.to_vec();
        batch.patience(512)
    };
    let (intent, append) = (Waiter::Intent(1), Waiter::Append(RequestId(2)));
    let (answer, short) = (Waiter::Answer(HostId(3)), Duration::from_millis(1));
    assert_eq!(patience(0, 1, 88, &[]), CONFIRM_AFTER);
    assert_eq!(patience(0, 18, 511, &[]), CONFIRM_AFTER);
    assert_eq!(patience(0, 1, 88, &[intent]), short);
    assert_eq!(patience(0, 18, 511, &[intent, intent]), short);
    let at_once = [
        patience(0, 19, 512, &[]),
        patience(0, 19, 513, &[intent]),
        patience(1, 1, 88, &[]),
        patience(1, 1, 88, &[intent]),
        patience(0, 0, HEADER_BYTES, &[]),
        patience(0, 1, 88, &[append]),
        patience(0, 1, 88, &[intent, answer]),
    ];
    assert_eq!(at_once, [Duration::ZERO; 7]);
}

#[test]
fn more_is_held_back_from_17_batches_that_wait() {
    let mut log = empty();
    for waiting in 0..20 {
        assert_eq!(log.is_behind(), waiting > 16, "{waiting}");
        let batch = log.new_batch();
        log.queue.push_back(batch);
    }
}

/// All of its writes, on both.
#[test]
fn two_devices_must_have_a_commit_before_it_is_durable() {
    let (mut ops, mut log) = (Ops::default(), empty());
    log.devices = vec![0, 1];
    log.write_page(1, &[7; PAGE], ALL_SECTORS);
    log.wait(Waiter::Intent(1));
    log.turn(&mut ops);
    let [sequence] = in_flight(&log)[..] else { panic!("one commit") };
    for left in (0..4).rev() {
        assert_eq!(log.next_durable(), None, "{left}");
        log.commit_done(sequence + 1);
        log.commit_done(sequence);
        assert_eq!(log.in_flight.front().map_or(0, |flight| flight.pending), left);
    }
    assert_eq!((log.next_durable(), log.durable_version()), (Some(Waiter::Intent(1)), 1));
}
