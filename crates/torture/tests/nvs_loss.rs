//! What the alarm of a lost NVS says of the pages that a crash would lose.

use destage_engine::units::PAGE_BYTES;
use destage_served::{Ack, OnNvsLoss};
use destage_torture::case::{Case, Wanted};
use destage_torture::load::{Kind, Request};
use destage_torture::run::Run;

/// An array with one NVS device and nothing dirty.
fn drained() -> Run {
    let level = Some(destage_engine::array::geometry::Level::Raid5);
    let wanted = Wanted { level, ack: Some(Ack::Nvs), nvs: Some(1), ..Wanted::default() };
    let mut case = Case::draw(3, &wanted);
    (case.nvs_pages, case.block_bytes, case.faults) = (128, 512, false);
    case.settings.on_nvs_loss = OnNvsLoss::WriteThrough;
    let mut run = Run::new(case).expect("created");
    run.open().expect("opened");
    (0..20).for_each(|n| write(&mut run, n));
    run.answered().expect("answered");
    run.drained().expect("drained");
    run
}

fn write(run: &mut Run, n: u64) {
    let offset = n * PAGE_BYTES;
    let request = Request { kind: Kind::Write, offset, bytes: PAGE_BYTES, fua: false };
    run.submit(request).expect("submitted");
}

#[test]
fn writes_that_were_not_acknowledged_are_not_counted_as_lost() {
    let mut run = drained();
    run.world.nvs[0].gone = true;
    // Of these nobody has heard that they are durable.
    (0..30).for_each(|n| write(&mut run, n));
    run.answered().expect("answered");
    assert_eq!(run.said_at_risk, Some(0));
}

#[test]
fn writes_that_were_acknowledged_are_counted_once() {
    let mut run = drained();
    (0..10).for_each(|n| write(&mut run, n));
    run.answered().expect("answered");
    let dirty = run.status().dirty_pages;
    assert!(dirty > 0, "the cache holds them");
    run.world.nvs[0].gone = true;
    (5..30).for_each(|n| write(&mut run, n));
    run.answered().expect("answered");
    // A page that is written again while its older copy is dirty is one page still.
    let said = run.said_at_risk.expect("an alarm");
    assert!((1..=dirty).contains(&said), "{said} of {dirty}");
}

/// What was acknowledged is below the new writes, and the disks have neither.
#[test]
fn pages_that_are_being_written_over_are_counted_and_waited_for() {
    let mut run = drained();
    (0..3).for_each(|n| write(&mut run, n));
    run.answered().expect("answered");
    assert_eq!(run.status().dirty_pages, 3, "the cache holds them");
    run.world.nvs[0].gone = true;
    (0..3).for_each(|n| write(&mut run, n));
    let lost = |run: &Run| run.said_at_risk.is_some();
    run.drive_until(&lost).expect("no check failed");
    assert_eq!(run.said_at_risk, Some(3));
    let flush = Request { kind: Kind::Flush, offset: 0, bytes: 0, fua: false };
    let answers = run.counts.requests;
    run.submit(flush).expect("submitted");
    assert_eq!(run.counts.requests, answers, "the disks do not have them yet");
    run.answered().expect("answered");
}

/// Only a FLUSH asks for what the NVS had acknowledged.
#[test]
fn a_read_of_another_page_does_not_wait_for_what_is_at_risk() {
    let mut run = drained();
    (0..10).for_each(|n| write(&mut run, n));
    run.answered().expect("answered");
    run.world.nvs[0].gone = true;
    write(&mut run, 0);
    let lost = |run: &Run| run.said_at_risk.is_some();
    run.drive_until(&lost).expect("no check failed");
    let answers = run.counts.requests;
    let (offset, bytes) = (15 * PAGE_BYTES, PAGE_BYTES);
    run.submit(Request { kind: Kind::Read, offset, bytes, fua: false }).expect("submitted");
    let any = |run: &Run| run.counts.requests > answers;
    run.drive_until(&any).expect("no check failed");
    assert!(run.status().dirty_pages > 0, "not all is destaged");
    run.answered().expect("answered");
}

/// Of a write that only memory has, a read would show what a crash takes back.
#[test]
fn without_an_nvs_a_read_waits_for_the_write_that_it_shows() {
    let mut run = drained();
    run.world.nvs[0].gone = true;
    write(&mut run, 0);
    run.answered().expect("answered");
    assert!(run.said_at_risk.is_some(), "the NVS is lost");
    let answers = run.counts.requests;
    write(&mut run, 3);
    let (offset, bytes) = (3 * PAGE_BYTES, PAGE_BYTES);
    run.submit(Request { kind: Kind::Read, offset, bytes, fua: false }).expect("submitted");
    let any = |run: &Run| run.counts.requests > answers;
    run.drive_until(&any).expect("no check failed");
    assert_eq!(run.status().dirty_pages, 0, "the disks have it");
    run.answered().expect("answered");
    assert_eq!(run.counts.requests, answers + 2);
}
