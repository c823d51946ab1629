//! Tests of anchors, and of the steps in which a new mirror is filled.

use super::*;

const OLD: Device = Device::Nvs(0);
const NEW: Device = Device::Nvs(1);
const UUID: [u8; 16] = [9; 16];

/// An operation: the device, what it does, the first byte, and how many.
type Step = (Device, &'static str, u64, usize);

fn step_of(op: &Op) -> Step {
    let (does, offset, bytes) = match &op.kind {
        OpKind::Read { offset, bytes } => ("reads", *offset, *bytes),
        OpKind::Write { offset, buffer, durable: false } => ("writes", *offset, buffer.len()),
        OpKind::Write { offset, buffer, .. } => ("writes durably", *offset, buffer.len()),
        OpKind::Flush => ("flushes", 0, 0),
    };
    (op.device, does, offset, bytes)
}

fn steps_of(ops: &[Op]) -> Vec<Step> {
    ops.iter().map(step_of).collect()
}

/// The operations that were pushed since the last call.
fn pushed(ops: &mut Ops) -> Vec<Op> {
    let mut out = Vec::new();
    ops.take(&mut out);
    out
}

/// The only operation that was pushed since the last call.
fn only(ops: &mut Ops) -> Op {
    let mut out = pushed(ops);
    assert_eq!(out.len(), 1, "{out:?}");
    out.remove(0)
}

/// That operation is done. What the copy reads is 7 everywhere, and what it writes must be, too.
fn step(log: &mut Log, ops: &mut Ops) -> Step {
    let op = only(ops);
    let mut read = None;
    match &op.kind {
        OpKind::Read { bytes, .. } => read = Some(Buffer::copy_of(&vec![7; *bytes])),
        OpKind::Write { buffer, durable: false, .. } => assert!(buffer.iter().all(|b| *b == 7)),
        _ => {}
    }
    finish(log, ops, &op, read);
    step_of(&op)
}

fn begin(log: &mut Log, ops: &mut Ops) {
    let new = NewMirror { device: 1, uuid: UUID, bytes: u64::MAX, block_bytes: 512 };
    log.add_mirror(&new, ops).expect("begun");
}

/// The flush that follows when everything is copied.
fn flush_after_copy(log: &mut Log, ops: &mut Ops) -> Op {
    loop {
        let op = only(ops);
        let read = match op.kind {
            OpKind::Read { bytes, .. } => Some(Buffer::zeroed(bytes)),
            OpKind::Write { .. } => None,
            OpKind::Flush => return op,
        };
        finish(log, ops, &op, read);
    }
}

fn anchor_in(op: &Op) -> Option<Anchor> {
    let OpKind::Write { buffer, .. } = &op.kind else { return None };
    Anchor::decode(buffer, LogId([1; 16]))
}

/// What an anchor says after nine writes of one page.
const NINTH: Anchor = Anchor { number: 2, tail_sequence: 9, tail_block: 8, durable_through: 9 };

/// B is written when A is durable on both, and the blocks are free when B is.
#[test]
fn an_anchor_frees_blocks_when_two_devices_have_both_copies() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    log.devices = vec![0, 1];
    let mut anchors = overwrite(&mut log, &mut ops, 9);
    for at in ANCHORS {
        assert_eq!(steps_of(&anchors), [OLD, NEW].map(|of| (of, "writes durably", at, 512)));
        for anchor in &anchors {
            log.turn(&mut ops);
            assert!(pushed(&mut ops).is_empty());
            assert_eq!(log.status().bytes_used, 9 * 512);
            assert_eq!(anchor_in(anchor), Some(NINTH));
            finish(&mut log, &mut ops, anchor, None);
        }
        anchors = pushed(&mut ops);
    }
    assert!(anchors.is_empty());
    assert_eq!(log.status().bytes_used, 512);
}

/// The log begins 14 blocks before the end of the ring, and has 20. An eighth of the ring is copied
/// at once; then 64 slots at once, from the next used one on.
#[test]
fn a_mirror_is_filled_step_by_step() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    log.space = LogSpace::new(64, 512, Anchor { tail_block: 50, ..ANCHOR });
    log.space.slots = Slots::new(200);
    for page in 0..20 {
        log.write_page(page, &[7; PAGE], ALL_SECTORS);
        log.turn(&mut ops);
        carried_out(&mut log, &mut ops);
    }
    assert!(log.space.slots.found(150));
    begin(&mut log, &mut ops);
    let of = 20 * 512 + 200 * PAGE as u64;
    let filled = |bytes| Some(MirrorStatus { copy: 1, bytes, of });
    for (copied, first, blocks) in [(0, 50, 8), (8, 58, 6), (14, 0, 6)] {
        assert_eq!(log.mirror_status(), filled(copied * 512));
        let (offset, bytes) = (RING + first * 512, blocks * 512);
        assert_eq!(step(&mut log, &mut ops), (OLD, "reads", offset, bytes));
        assert_eq!(step(&mut log, &mut ops), (NEW, "writes", offset, bytes));
    }
    for (first, count) in [(0, 64), (150, 50)] {
        assert_eq!(log.mirror_status(), filled(20 * 512 + first * PAGE as u64));
        let (offset, bytes) = (RING + 64 * 512 + first * PAGE as u64, count * PAGE);
        assert_eq!(step(&mut log, &mut ops), (OLD, "reads", offset, bytes));
        assert_eq!(step(&mut log, &mut ops), (NEW, "writes", offset, bytes));
    }
    assert_eq!(step(&mut log, &mut ops), (NEW, "flushes", 0, 0));
    for at in ANCHORS {
        assert_eq!(log.take_filled_mirror(), None);
        assert_eq!(step(&mut log, &mut ops), (NEW, "writes durably", at, 512));
    }
    assert!(pushed(&mut ops).is_empty());
    assert_eq!(log.mirror_status(), filled(of));
    assert_eq!(log.take_filled_mirror(), Some((1, UUID)));
    assert_eq!((log.devices(), log.joining()), (&[0, 1][..], None));
    assert_eq!(log.mirror_status(), filled(of), "the superblocks do not name it yet");
    assert!(log.mirror_named(1));
    assert_eq!(log.mirror_status(), None);
}

#[test]
fn of_a_large_ring_256_kib_are_copied_at_once() {
    let (mut ops, mut log) = (Ops::default(), with_ring(1 << 13));
    assert!(overwrite(&mut log, &mut ops, 600).is_empty());
    begin(&mut log, &mut ops);
    for (first, blocks) in [(0, 512), (512, 88)] {
        let (offset, bytes) = (RING + first * 512, blocks * 512);
        assert_eq!(step(&mut log, &mut ops), (OLD, "reads", offset, bytes));
        assert_eq!(step(&mut log, &mut ops), (NEW, "writes", offset, bytes));
    }
}

/// Of the ring those that went to the old device alone, and of slots those that may be writing
/// them.
#[test]
fn a_copy_waits_for_commits_in_flight() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    log.write_page(1, &[7; PAGE], ALL_SECTORS);
    log.turn(&mut ops);
    assert_eq!(pushed(&mut ops).len(), 2);
    begin(&mut log, &mut ops);
    let of = 2048 * PAGE as u64;
    assert_eq!(log.mirror_status(), Some(MirrorStatus { copy: 1, bytes: 0, of }));
    log.mirror_turn(&mut ops);
    assert!(pushed(&mut ops).is_empty());
    done(&mut log, 1);
    log.mirror_turn(&mut ops);
    assert_eq!(step(&mut log, &mut ops), (OLD, "reads", RING, 512));
    let copy = only(&mut ops);
    assert_eq!(step_of(&copy), (NEW, "writes", RING, 512));
    log.write_page(2, &[7; PAGE], ALL_SECTORS);
    log.turn(&mut ops);
    let commit: Vec<Device> = pushed(&mut ops).iter().map(|op| op.device).collect();
    assert_eq!(commit, [OLD, OLD, NEW, NEW]);
    finish(&mut log, &mut ops, &copy, None);
    log.mirror_turn(&mut ops);
    assert!(pushed(&mut ops).is_empty());
    done(&mut log, 2);
    log.mirror_turn(&mut ops);
    assert_eq!(step(&mut log, &mut ops), (OLD, "reads", RING + 64 * 512, 64 * PAGE));
}

/// It could free what is to be copied.
#[test]
fn a_copy_begins_when_no_anchor_is_in_flight() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    let anchors = overwrite(&mut log, &mut ops, 9);
    assert_eq!(steps_of(&anchors), [(OLD, "writes durably", ANCHORS[0], 512)]);
    begin(&mut log, &mut ops);
    assert!(pushed(&mut ops).is_empty());
    finish(&mut log, &mut ops, &anchors[0], None);
    log.mirror_turn(&mut ops);
    let second = only(&mut ops);
    assert_eq!(step_of(&second), (OLD, "writes durably", ANCHORS[1], 512));
    log.mirror_turn(&mut ops);
    assert!(pushed(&mut ops).is_empty());
    finish(&mut log, &mut ops, &second, None);
    log.mirror_turn(&mut ops);
    assert_eq!(step(&mut log, &mut ops), (OLD, "reads", RING + 8 * 512, 512));
    assert_eq!(step(&mut log, &mut ops), (NEW, "writes", RING + 8 * 512, 512));
    // The only used slot is the ninth.
    let slots = RING + 64 * 512 + 8 * PAGE as u64;
    assert_eq!(step(&mut log, &mut ops), (OLD, "reads", slots, 64 * PAGE));
    assert_eq!(step(&mut log, &mut ops), (NEW, "writes", slots, 64 * PAGE));
    assert_eq!(step(&mut log, &mut ops), (NEW, "flushes", 0, 0));
}

/// The new mirror gets the anchor that the old device has then. No other is written until the
/// superblocks name the mirror.
#[test]
fn a_mirror_gets_the_last_anchor_of_the_old_device() {
    let (mut ops, mut log) = (Ops::default(), with_ring(64));
    assert!(overwrite(&mut log, &mut ops, 3).is_empty());
    begin(&mut log, &mut ops);
    let flush = flush_after_copy(&mut log, &mut ops);
    let anchors = overwrite(&mut log, &mut ops, 9);
    assert_eq!(steps_of(&anchors), [(OLD, "writes durably", ANCHORS[0], 512)]);
    finish(&mut log, &mut ops, &flush, None);
    assert!(pushed(&mut ops).is_empty(), "an anchor is in flight");
    finish(&mut log, &mut ops, &anchors[0], None);
    log.mirror_turn(&mut ops);
    assert_eq!(step(&mut log, &mut ops), (OLD, "writes durably", ANCHORS[1], 512));
    log.mirror_turn(&mut ops);
    for at in ANCHORS {
        let op = only(&mut ops);
        assert_eq!(step_of(&op), (NEW, "writes durably", at, 512));
        assert_eq!(anchor_in(&op), Some(NINTH));
        finish(&mut log, &mut ops, &op, None);
    }
    assert_eq!(log.take_filled_mirror(), Some((1, UUID)));
    assert!(overwrite(&mut log, &mut ops, 9).is_empty());
    assert!(log.mirror_named(1));
    let anchors = overwrite(&mut log, &mut ops, 1);
    assert_eq!(steps_of(&anchors), [OLD, NEW].map(|of| (of, "writes durably", ANCHORS[0], 512)));
}

#[test]
fn a_log_is_mirrored_if_the_new_device_and_another_one_are_in_use() {
    let mut log = empty();
    for (devices, mirrored) in [(vec![1], false), (vec![0], false), (vec![0, 1], true)] {
        log.devices = devices;
        assert_eq!(log.mirror_named(1), mirrored);
    }
    assert!(!log.mirror_named(2));
}

#[test]
fn refusals_of_a_mirror_say_why() {
    for (refusal, words) in [
        (MirrorRefusal::NoLog, "no NVS device is in use"),
        (MirrorRefusal::Mirrored, "both NVS devices are in use"),
        (MirrorRefusal::Running, "is running"),
        (MirrorRefusal::Stopped, "has stopped"),
        (MirrorRefusal::TooSmall(4097), "needs 4097 bytes"),
        (MirrorRefusal::Blocks(512), "have 512 bytes"),
    ] {
        assert!(refusal.to_string().contains(words), "{refusal}");
    }
}
