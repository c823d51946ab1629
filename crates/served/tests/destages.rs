//! What destages log, read, write and flush, and what is left of them when the power fails
//! (docs/durability.md, "Steps").

mod common;

use common::{Devices, SECTOR, Served, opened, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::flushes::Durability;
use destage_engine::units::{PAGE_BYTES, Page};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Ack, Allow, Cause, Command, Device, Media, Op, OpKind, Refusal, Settings};

const SECOND: u64 = 1_000_000_000;
const PAGE: usize = PAGE_BYTES as usize;
/// Sectors of a page.
const SECTORS: usize = PAGE / SECTOR;

fn array(level: Level, disks: u16, strip_pages: u64, group_stripes: u64) -> Devices {
    let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages: 32 };
    Devices::created(geometry, Sizes::for_pages(40, 512), 512, 1)
}

/// A start without a member of four.
fn open_without(mut devices: Devices, member: u16) -> Served {
    devices.0.remove(&Device::Member(member));
    let all: Vec<Device> = (0..4).map(Device::Member).chain([Device::Nvs(0)]).collect();
    let assembly = devices.assembled_of(&all, &Allow::degraded()).expect("an array");
    let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
    let mut served = Served::of(devices, volume);
    served.run();
    served
}

fn write_page(served: &mut Served, page: u64, fill: u8) {
    served.write(page * SECTORS as u64, SECTORS, fill);
}

fn check_page(served: &mut Served, page: u64, fill: u8, what: &str) {
    let read = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE };
    assert!(served.ask(read, &[]) == [fill; PAGE], "page {page}, {what}");
}

/// Asks, and waits a second for the answer.
fn asked(served: &mut Served, command: Command, payload: &[u8]) -> Option<Result<(), Refusal>> {
    let now = served.now();
    served.volume.submit(now, 7, command, payload);
    served.run_until(now.0 + SECOND, |_| false);
    served.answer().map(|answer| answer.map(|_| ()))
}

/// What a power failure leaves after this many operations, of destages among others.
fn cut(mut served: Served, operations: u64) -> Devices {
    served.left = operations;
    let now = served.now();
    served.volume.flush_cache(now);
    served.run_until(now.0 + SECOND, |_| false);
    served.devices
}

/// What a power failure leaves after this many operations of a destage. Counts the intents that are
/// open then.
fn cut_destage(before: &Devices, operations: u64, open: &mut u64) -> Devices {
    let mut devices = cut(Served::open(before.clone()), operations);
    let assembly = devices.assembled(&Allow::default());
    *open += destage_served::inspect(&mut devices, &assembly).open_intents;
    devices
}

/// The page is in the last row of a group of two stripes. The power fails at any moment of its
/// destage, and then a member is missing.
#[test]
fn a_destage_that_is_redone_without_a_member_leaves_its_row_consistent() {
    let mut served = Served::open(array(Level::Raid5, 4, 4, 2));
    served.write(0, 24 * SECTORS, 1);
    served.flush_cache();
    write_page(&mut served, 15, 2);
    let before = served.devices;
    let mut open = 0;
    for operations in 0..16 {
        let devices = cut_destage(&before, operations, &mut open);
        for member in 0..4 {
            let mut served = open_without(devices.clone(), member);
            let what = format!("without member {member} after {operations} operations");
            for page in 0..24 {
                check_page(&mut served, page, if page == 15 { 2 } else { 1 }, &what);
            }
        }
    }
    assert!(open > 2, "some crashes came while the destage was open");
}

/// The disk of P is missing, so the log has the checksum of Q alone. The power fails at any moment
/// of a destage that modifies a row, and then the page's own disk fails, too.
#[test]
fn a_destage_that_is_redone_without_p_leaves_its_row_consistent() {
    let mut served = Served::open(array(Level::Raid6, 6, 2, 2));
    served.write(0, 16 * SECTORS, 1);
    served.flush_cache();
    let geometry = *served.volume.controller().geometry();
    let place = geometry.place(Page(9));
    let stripe = geometry.row_of_disk_page(place.page).1.stripe;
    let p = geometry.parity_disks(stripe).next().expect("P");
    served.volume.give_up_member(p.0, Cause::Asked);
    served.run();
    write_page(&mut served, 9, 2);
    let before = served.devices;
    let mut open = 0;
    for operations in 0..16 {
        let devices = cut_destage(&before, operations, &mut open);
        let mut served = Served::open(devices);
        served.flush_cache();
        served.volume.give_up_member(place.disk.0, Cause::Asked);
        served.run();
        let what = format!("after {operations} operations");
        for page in 0..16 {
            check_page(&mut served, page, if page == 9 { 2 } else { 1 }, &what);
        }
    }
    assert!(open > 2, "some crashes came while the destage was open");
}

/// Q fails as a destage begins, so the log has the checksum of P alone, and the power fails before
/// the failure is recorded. Q is back, and the power fails in the redo, which writes both. Then the
/// disks of two other pages of the row are missing: what is known of both parities counts.
#[test]
fn a_redo_logs_the_checksums_of_a_parity_that_is_back() {
    let mut served = Served::open(array(Level::Raid6, 6, 2, 2));
    served.write(0, 16 * SECTORS, 1);
    served.flush_cache();
    write_page(&mut served, 9, 2);
    let before = served.devices;
    let geometry = *served.volume.controller().geometry();
    let place = geometry.place(Page(9));
    let stripe = geometry.row_of_disk_page(place.page).1.stripe;
    let q = geometry.parity_disks(stripe).nth(1).expect("Q");
    let clean = [11, 13].map(|page| Device::Member(geometry.place(Page(page)).disk.0));
    let mut tried = 0;
    for first in 0..8 {
        let mut served = Served::open(before.clone());
        let now = served.now();
        served.volume.flush_cache(now);
        served.steps(first);
        served.volume.give_up_member(q.0, Cause::Asked);
        served.waits = |op| matches!(op.kind, OpKind::Write { offset: 0, .. });
        let mut devices = cut(served, u64::MAX);
        let assembly = devices.assembled(&Allow::default());
        let open = destage_served::inspect(&mut devices, &assembly).open_intents > 0;
        if !open || !assembly.failed.is_empty() {
            continue;
        }
        tried += 1;
        for operations in 0..30 {
            let mut devices = devices.clone();
            let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
            let mut devices = cut(Served::of(devices, volume), operations);
            clean.iter().for_each(|device| drop(devices.0.remove(device)));
            let all: Vec<Device> = (0..6).map(Device::Member).chain([Device::Nvs(0)]).collect();
            let assembly = devices.assembled_of(&all, &Allow::degraded()).expect("an array");
            let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
            let mut served = Served::of(devices, volume);
            served.run();
            let what = format!("Q failed after {first} operations, {operations} of the redo");
            for page in 0..16 {
                check_page(&mut served, page, if page == 9 { 2 } else { 1 }, &what);
            }
        }
    }
    assert!(tried > 0, "some crashes came when P's checksum was logged");
}

/// Rows 5 and 7 of a group of two stripes are written, and what is read of row 6 between them.
#[test]
fn a_row_between_those_of_a_destage_keeps_its_parity_in_each_stripe() {
    let mut served = Served::open(array(Level::Raid5, 5, 4, 2));
    served.write(0, 32 * SECTORS, 1);
    served.flush_cache();
    [17, 19].into_iter().for_each(|page| write_page(&mut served, page, 2));
    let before = *served.volume.controller().counters();
    served.flush_cache();
    assert!(served.volume.drained());
    let counters = served.volume.controller().counters();
    let commands =
        (counters.disk_reads - before.disk_reads, counters.disk_writes - before.disk_writes);
    assert_eq!(commands, (2, 3), "data and parity are read, and parity is written, in one run");
    let status = served.scrub(false);
    assert!(status.ranges.is_empty(), "{status:?}");
    for page in 0..32 {
        check_page(&mut served, page, if [17, 19].contains(&page) { 2 } else { 1 }, "destaged");
    }
}

/// The second destage of a page reads neither its old bytes nor the parity.
#[test]
fn a_destage_takes_what_the_last_one_wrote_from_the_stripe_memory() {
    let memory = Settings { stripe_memory: 64, ..settings() };
    let mut served = Served::open_with(array(Level::Raid5, 4, 1, 1), &memory);
    for fill in [2, 3] {
        write_page(&mut served, 4, fill);
        served.flush_cache();
        assert!(served.volume.drained());
    }
    let counters = served.volume.controller().counters();
    assert_eq!((counters.disk_reads, counters.recalled_pages), (2, 2));
    let held = served.volume.status().stripe_memory.map(|memory| (memory.held, memory.pages));
    assert_eq!(held, Some((2, 64)), "a page, and its parity");
    let status = served.scrub(false);
    assert!(status.ranges.is_empty(), "{status:?}");
    check_page(&mut served, 4, 3, "destaged");
}

/// A page of a row that is remembered rots, and a scrub writes the row's parity again.
#[test]
fn the_stripe_memory_forgets_a_row_that_a_scrub_has_repaired() {
    let memory = Settings { stripe_memory: 64, read_cache: None, ..settings() };
    let mut served = Served::open_with(array(Level::Raid5, 4, 1, 1), &memory);
    write_page(&mut served, 4, 2);
    served.flush_cache();
    let place = served.volume.controller().geometry().place(Page(5));
    let at = DATA_START + place.page * PAGE_BYTES;
    served.devices.write(Device::Member(place.disk.0), at, &[9; PAGE]).expect("written");
    let status = served.scrub(true);
    assert_eq!(status.ranges.len(), 1, "{status:?}");
    write_page(&mut served, 4, 3);
    served.flush_cache();
    assert!(served.volume.drained());
    let status = served.scrub(false);
    assert!(status.ranges.is_empty(), "{status:?}");
}

/// Whether the NVS is written before a member when a page is destaged that was acknowledged so.
fn log_is_first(level: Level, ack: Ack) -> bool {
    let mut served = Served::open_with(array(level, 4, 1, 1), &Settings { ack, ..settings() });
    let now = served.now();
    served.volume.submit(now, 7, Command::Write { offset: 0, fua: false }, &[1; PAGE]);
    if ack == Ack::Nvs {
        served.run();
    }
    served.seen = Some(Vec::new());
    let now = served.now();
    served.volume.flush_cache(now);
    served.run_until(now.0 + SECOND, |_| false);
    assert!(served.volume.drained(), "{level:?}");
    let seen = served.seen.take().expect("operations");
    let first = |nvs: bool| {
        seen.iter().position(|(_, device, kind)| {
            matches!(kind, OpKind::Write { .. }) && matches!(device, Device::Nvs(_)) == nvs
        })
    };
    let member = first(false).expect("a page is written");
    first(true).is_some_and(|log| log < member)
}

/// A level without redundancy needs no intent, but a page that only memory has is logged first.
#[test]
fn a_member_is_written_when_the_log_has_what_must_be_known_of_it() {
    assert!(log_is_first(Level::Raid5, Ack::Nvs));
    assert!(log_is_first(Level::Raid5, Ack::Flush));
    assert!(log_is_first(Level::Raid10, Ack::Nvs));
    assert!(log_is_first(Level::Raid0, Ack::Flush));
    assert!(!log_is_first(Level::Raid0, Ack::Nvs), "the log has the page already");
}

/// Whether a member's flush begins in the turn after this many operations of a destage, or after
/// the array has stopped in the meantime.
fn begins_flush(operations: u64, stops: bool) -> bool {
    let mut served = Served::open(array(Level::Raid0, 3, 1, 1));
    (0..3).for_each(|member| served.volume.set_durability(member, Durability::Flush));
    served.write(0, 3 * SECTORS, 1);
    let now = served.now();
    served.volume.flush_cache(now);
    served.steps(operations);
    if stops {
        served.volume.give_up_member(0, Cause::Asked);
        assert!(served.volume.status().stopped);
    }
    let mut ops: Vec<Op> = Vec::new();
    served.volume.take_ops(&mut ops);
    ops.clear();
    let now = served.now();
    served.volume.turn(now);
    served.volume.take_ops(&mut ops);
    ops.iter().any(|op| matches!((op.device, &op.kind), (Device::Member(_), OpKind::Flush)))
}

#[test]
fn an_array_that_has_stopped_flushes_no_member() {
    let begins = |stops: bool| (0..16).any(|operations| begins_flush(operations, stops));
    assert!(begins(false));
    assert!(!begins(true));
}

/// Page 4 waits for the flush of its member. Page 1 was written after the NVS was lost, and cannot
/// be destaged: its old bytes cannot be read, and member 0 is missing.
#[test]
fn a_flush_waits_for_what_a_lost_nvs_had_whatever_cannot_be_destaged_of_later_writes() {
    let mut served = Served::open(array(Level::Raid5, 3, 1, 1));
    served.volume.give_up_member(0, Cause::Asked);
    served.run();
    write_page(&mut served, 4, 1);
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    served.run_until(now.0 + SECOND, |volume| !volume.is_changing());
    served.no_flush = Some(Device::Member(1));
    served.unreadable = vec![(Device::Member(1), DATA_START)];
    let write = Command::Write { offset: PAGE_BYTES, fua: false };
    assert_eq!(asked(&mut served, write, &[9; PAGE]), Some(Err(Refusal::Unreadable)));
    assert_eq!(served.volume.status().kept_pages, 1);
    assert_eq!(asked(&mut served, Command::Flush, &[]), None, "page 4 is not flushed");
    served.no_flush = None;
    let now = served.now();
    served.run_until(now.0 + SECOND, |_| false);
    assert_eq!(served.answer(), Some(Ok(Vec::new())));
}

/// Page 7 was dirty when the NVS was lost, and cannot be destaged: its old bytes cannot be read,
/// and member 0 is missing.
#[test]
fn a_flush_is_refused_if_what_a_lost_nvs_had_cannot_be_destaged() {
    let mut served = Served::open(array(Level::Raid5, 3, 1, 1));
    served.volume.give_up_member(0, Cause::Asked);
    served.run();
    served.unreadable = vec![(Device::Member(1), DATA_START + 3 * PAGE_BYTES)];
    write_page(&mut served, 7, 1);
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    served.run_until(now.0 + SECOND, |_| false);
    assert_eq!(served.volume.status().kept_pages, 1);
    assert_eq!(asked(&mut served, Command::Flush, &[]), Some(Err(Refusal::Unreadable)));
}

#[test]
fn what_the_driver_says_of_members_counts() {
    let mut served = Served::open(array(Level::Raid5, 3, 1, 1));
    assert_eq!(served.volume.controller().drive_pages(), 32);
    served.volume.set_drive_bytes(1 << 40);
    assert_eq!(served.volume.controller().drive_pages(), 1 << 28);
    served.volume.set_durability(1, Durability::Fua);
    let how = [0, 1, 2].map(|member| served.volume.durability(member));
    assert_eq!(how, [Durability::Epochs, Durability::Fua, Durability::Epochs]);
}
