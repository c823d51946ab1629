//! What is answered, kept and reported when members cannot be read (docs/durability.md, "Rows that
//! cannot be computed").

mod common;

use common::{Devices, SECTOR, Served, opened, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::flushes::Durability;
use destage_engine::units::{DiskId, PAGE_BYTES, Page};
use destage_nvslog::member::MemberRecord;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{
    Ack, Alarm, Allow, AssembleError, Cause, Command, Device, Media, NoSuperblock, OnNvsLoss,
    OpenError, Refusal, ScrubRefusal, Settings, Wrong, member_bytes,
};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// Write groups of one stripe, whose strips have one page.
fn array(level: Level, disks: u16, nvs: u16) -> Devices {
    let (strip_pages, group_stripes, disk_pages) = (1, 1, 32);
    let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
    Devices::created(geometry, Sizes::for_pages(40, 512), 512, nvs)
}

/// The member of a page, and the page's first byte there.
fn place(served: &Served, page: u64) -> (Device, u64) {
    let place = served.volume.controller().geometry().place(Page(page));
    (Device::Member(place.disk.0), DATA_START + place.page * PAGE_BYTES)
}

/// Asks, and waits this long for the answer.
fn asked(served: &mut Served, command: Command, payload: &[u8], nanos: u64) -> Option<bool> {
    let now = served.now();
    served.volume.submit(now, 7, command, payload);
    served.run_until(now.0 + nanos, |_| false);
    let answer = served.answer()?;
    assert!(answer.is_ok() || answer == Err(Refusal::Unreadable));
    Some(answer.is_ok())
}

fn read_of(page: u64) -> Command {
    Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize }
}

fn write(served: &mut Served, page: u64, fill: u8) -> Option<bool> {
    let command = Command::Write { offset: page * PAGE_BYTES, fua: false };
    asked(served, command, &[fill; PAGE_BYTES as usize], SECOND)
}

/// Member 0 has failed, and of these rows the pages of another member cannot be read: a write of
/// them needs the old bytes, or what the failed member had. Returns the pages.
fn uncomputable(served: &mut Served, count: usize) -> Vec<u64> {
    let geometry = *served.volume.controller().geometry();
    let on_failed = |page: u64| geometry.place(Page(page)).disk == DiskId(0);
    let pages = 0..geometry.volume_pages().0;
    let other = |page: u64| if page.is_multiple_of(2) { page + 1 } else { page - 1 };
    let pages: Vec<u64> = pages.filter(|page| on_failed(other(*page))).take(count).collect();
    assert_eq!(pages.len(), count);
    served.unreadable = pages.iter().map(|page| place(served, *page)).collect();
    served.volume.give_up_member(0, Cause::Asked);
    served.run();
    pages
}

/// Without a log only memory has what cannot be destaged: whoever waits for it gets an error, and
/// does not wait for the next try. A FLUSH does not promise again what was refused.
#[test]
fn without_nvs_a_write_that_cannot_reach_the_disks_is_answered_with_an_error() {
    let flush = Settings { ack: Ack::Flush, ..settings() };
    let mut served = Served::open_with(array(Level::Raid5, 3, 0), &flush);
    let pages = uncomputable(&mut served, 4);
    for page in pages {
        assert_eq!(write(&mut served, page, 1), Some(false), "page {page}");
        assert_eq!(write(&mut served, page, 2), Some(false), "page {page}, which is kept");
        let flushed = asked(&mut served, Command::Flush, &[], SECOND);
        assert_eq!(flushed, Some(true), "{page} was refused");
    }
    served.unreadable.clear();
    let now = served.now();
    served.run_until(now.0 + 11 * SECOND, |volume| volume.status().kept_pages == 0);
    assert_eq!(served.volume.status().kept_pages, 0);
}

/// The others have what it cannot read, unless one of them is missing.
#[test]
fn a_member_with_many_unreadable_pages_is_given_up_unless_the_array_would_stop() {
    for degraded in [false, true] {
        let few = Settings { read_errors_max: 3, ..settings() };
        let mut served = Served::open_with(array(Level::Raid5, 3, 1), &few);
        served.write(0, 512, 1);
        served.flush_cache();
        if degraded {
            served.volume.give_up_member(0, Cause::Asked);
            served.run();
        }
        let of_member = |page: &u64| place(&served, *page).0 == Device::Member(1);
        let pages: Vec<u64> = (0..64).filter(of_member).collect();
        served.unreadable = pages.iter().map(|page| place(&served, *page)).collect();
        for (count, page) in (1..).zip(pages) {
            assert_eq!(asked(&mut served, read_of(page), &[], SECOND), Some(!degraded));
            let expected: &[u16] = match (degraded, count) {
                (true, _) => &[0],
                (false, 1..=3) => &[],
                (false, _) => &[1],
            };
            assert_eq!(served.volume.status().failed, expected, "after {count} errors");
            assert!(!served.volume.status().stopped, "after {count} errors");
        }
    }
}

/// What a host's read reconstructs is written to the member again.
#[test]
fn a_read_reports_the_page_that_it_repairs() {
    let mut served = Served::open(array(Level::Raid5, 3, 1));
    served.write(0, 512, 1);
    served.flush_cache();
    let (device, at) = place(&served, 5);
    let (Device::Member(member), page) = (device, (at - DATA_START) / PAGE_BYTES) else {
        panic!("{device}")
    };
    served.unreadable = vec![(device, at)];
    served.devices.write(device, at, &[9; PAGE_BYTES as usize]).expect("written");
    served.volume.take_alarms();
    let before = served.volume.load(device).written_bytes;
    assert_eq!(served.ask(read_of(5), &[]), [1; PAGE_BYTES as usize]);
    assert_eq!(served.volume.take_alarms(), [Alarm::Repaired { member, page, pages: 1 }]);
    assert_eq!(served.volume.load(device).written_bytes - before, PAGE_BYTES);
    assert_eq!(read(&mut served, device, at), [1; SECTOR]);
}

/// A destage of rows 0 and 2 reads over row 1, and writes its parity back. If it cannot read a page
/// of that row, it does without.
#[test]
fn a_row_between_those_of_a_destage_stays_as_it_is() {
    for (level, disks) in [(Level::Raid4, 5), (Level::Raid5, 5), (Level::Raid6, 8)] {
        let geometry = Geometry { level, disks, strip_pages: 3, group_stripes: 1, disk_pages: 24 };
        let stripe = geometry.row_of_disk_page(1).1.stripe;
        let data = geometry.data_disk(stripe, 0);
        for bad in [None, Some(data)].into_iter().chain(geometry.parity_disks(stripe).map(Some)) {
            let mut served =
                Served::open(Devices::created(geometry, Sizes::for_pages(40, 512), 512, 1));
            let pages = geometry.volume_pages().0;
            served.write(0, (pages * PAGE_BYTES) as usize / SECTOR, 1);
            served.flush_cache();
            let row = |disk: DiskId| (Device::Member(disk.0), DATA_START + PAGE_BYTES);
            served.unreadable = bad.map(row).into_iter().collect();
            assert_eq!([0, 2].map(|page| write(&mut served, page, 2)), [Some(true); 2]);
            served.flush_cache();
            assert!(served.volume.drained(), "{level:?}, {bad:?}");
            served.unreadable.clear();
            let status = served.scrub(false);
            assert!(status.ranges.is_empty(), "{level:?}, {bad:?}: {status:?}");
            for page in 0..pages {
                let read = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize };
                let fill = if [0, 2].contains(&page) { 2 } else { 1 };
                assert_eq!(served.ask(read, &[]), [fill; PAGE_BYTES as usize], "{level:?}: {page}");
            }
        }
    }
}

/// Eight are tried again every 5 s, and when one succeeds the next ones at once.
#[test]
fn kept_pages_are_destaged_soon_after_they_can_be_read_again() {
    let mut served = Served::open(array(Level::Raid5, 3, 1));
    let pages = uncomputable(&mut served, 20);
    for page in &pages {
        assert_eq!(write(&mut served, *page, 3), Some(true), "the NVS has it");
    }
    let now = served.now();
    served.volume.flush_cache(now);
    served.run_until(now.0 + SECOND, |_| false);
    assert_eq!(served.volume.status().kept_pages, 20);
    // For as long as nothing changes they stay, and can be read.
    served.run_until(now.0 + 60 * SECOND, |_| false);
    assert_eq!(served.volume.status().kept_pages, 20);
    served.unreadable.clear();
    let now = served.now();
    served.run_until(now.0 + 6 * SECOND, |volume| volume.status().kept_pages == 0);
    assert_eq!(served.volume.status().kept_pages, 0);
    served.run();
    assert!(served.volume.drained() && served.volume.idle());
    // Every alarm is withdrawn.
    let (mut kept, mut destaged) = (Vec::new(), Vec::new());
    for alarm in served.volume.take_alarms() {
        match alarm {
            Alarm::PagesKept { first_page, .. } => kept.push(first_page),
            Alarm::PagesDestaged { first_page } => destaged.push(first_page),
            _ => {}
        }
    }
    destaged.sort_unstable();
    kept.sort_unstable();
    assert_eq!((kept.len(), &kept), (20, &destaged));
    for page in pages {
        let read = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize };
        assert_eq!(served.ask(read, &[]), [3; PAGE_BYTES as usize]);
    }
}

/// A write that begins inside a sector needs the rest of it.
#[test]
fn a_write_of_part_of_a_sector_that_cannot_be_read_is_answered_with_an_error() {
    let mut served = Served::open(array(Level::Raid5, 3, 1));
    let page = uncomputable(&mut served, 1)[0];
    let offset = page * PAGE_BYTES + 700;
    for bytes in [100, 2 * PAGE_BYTES as usize] {
        let command = Command::Write { offset, fua: false };
        assert_eq!(asked(&mut served, command, &vec![1; bytes], SECOND), Some(false));
        assert_eq!(served.volume.status().requests, 0);
    }
    // Complete sectors need nothing.
    let command = Command::Write { offset: page * PAGE_BYTES, fua: false };
    assert_eq!(asked(&mut served, command, &[1; 2 * SECTOR], SECOND), Some(true));
}

/// The read of the last page fails after that of the first one has ended the write.
#[test]
fn a_write_neither_of_whose_ends_can_be_read_is_answered_once() {
    let mut served = Served::open(array(Level::Raid5, 3, 1));
    served.write(0, 512, 1);
    served.flush_cache();
    let pages = uncomputable(&mut served, 2);
    let (offset, end) = (pages[0] * PAGE_BYTES + 700, pages[1] * PAGE_BYTES + 300);
    let (command, payload) =
        (Command::Write { offset, fua: false }, vec![2; (end - offset) as usize]);
    assert_eq!(asked(&mut served, command, &payload, SECOND), Some(false));
    assert_eq!((served.answer(), served.volume.status().requests), (None, 0));
    // Nothing of it is left: the page is read again for the next write.
    served.unreadable.clear();
    let (device, at) = place(&served, pages[1]);
    served.devices.write(device, at, &[3; PAGE_BYTES as usize]).expect("written");
    assert_eq!(asked(&mut served, command, &payload, SECOND), Some(true));
    let bytes = served.ask(read_of(pages[1]), &[]);
    assert!(bytes[..300] == [2; 300] && bytes[300..] == [3; PAGE_BYTES as usize - 300]);
}

#[test]
fn a_scrub_reports_rows_of_which_too_little_can_be_read() {
    for (level, disks, bad) in [(Level::Raid5, 3, 2), (Level::Raid6, 4, 3), (Level::Raid10, 4, 2)] {
        let mut served = Served::open(array(level, disks, 1));
        served.write(0, 256, 1);
        served.flush_cache();
        let rows = [3, 4, 9];
        for row in rows {
            let of = |member| (Device::Member(member), DATA_START + row * PAGE_BYTES);
            served.unreadable.extend((0..bad).map(of));
        }
        let status = served.scrub(false);
        assert_eq!((status.lost_rows, status.rows_left()), (3, 3), "{level:?}: {status:?}");
        assert!(status.ranges.iter().all(|range| range.wrong == Wrong::Lost), "{status:?}");
        let ranges: Vec<(u64, u64)> = status.ranges.iter().map(|r| (r.first, r.pages)).collect();
        assert_eq!(ranges, [(3, 2), (9, 1)], "{level:?}");
        assert_eq!(status.rows_elsewhere, 0);
    }
}

#[test]
fn a_level_without_redundancy_has_nothing_to_scrub() {
    let mut served = Served::open(array(Level::Raid0, 3, 1));
    let now = served.now();
    assert_eq!(served.volume.start_scrub(now, false), Err(ScrubRefusal::NothingToCompare));
    assert!(!served.volume.scrub_running());
}

/// A start redoes a destage on level 10, and cannot complete one of its pages. The mirrors of the
/// other pages can be read as ever: nothing of them is lost when a member is rebuilt.
#[test]
fn on_mirrors_a_page_that_cannot_be_completed_puts_no_other_in_doubt() {
    let mut served = Served::open(array(Level::Raid10, 4, 1));
    served.write(0, 512, 5);
    served.flush_cache();
    // A sector of page 0: the destage reads the others.
    served.write(1, 1, 6);
    let before = served.devices.clone();
    let mut redone = 0;
    for operations in 0..8 {
        let mut served = Served::open(before.clone());
        let now = served.now();
        served.volume.flush_cache(now);
        served.left = operations;
        served.run_until(now.0 + SECOND, |_| false);
        let mut devices = served.devices;
        let assembly = devices.assembled(&Allow::default());
        redone += destage_served::inspect(&mut devices, &assembly).open_intents;
        let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
        let mut served = Served::of(devices, volume);
        served.unreadable = [0, 1].map(|member| (Device::Member(member), DATA_START)).to_vec();
        let now = served.now();
        served.volume.flush_cache(now);
        served.run_until(now.0 + SECOND, |_| false);
        served.volume.give_up_member(2, Cause::Asked);
        let now = served.now();
        served.run_until(now.0 + SECOND, |_| false);
        let needs = member_bytes(served.volume.controller().geometry());
        served.devices.0.insert(Device::Member(2), (needs, BTreeMap::new()));
        served.volume.replace(now, 2, [0x55; 16], needs).expect("begun");
        served.run_until(now.0 + 100 * SECOND, |volume| volume.rebuild_status().is_empty());
        assert!(served.volume.rebuild_status().is_empty(), "{operations}");
        assert_eq!(served.volume.lost_pages(), [], "{operations}");
        let lost = |alarm: &Alarm| matches!(alarm, Alarm::PagesLost { .. });
        assert!(!served.volume.take_alarms().iter().any(lost), "{operations}");
        served.volume.give_up_member(3, Cause::Asked);
        let read = Command::Read { offset: PAGE_BYTES, bytes: PAGE_BYTES as usize };
        assert_eq!(asked(&mut served, read, &[], SECOND), Some(true), "{operations}");
    }
    assert!(redone > 0, "a start redid the destage");
    let bytes = served.devices.bytes(Device::Member(0)).expect("there");
    assert_eq!(bytes, member_bytes(served.volume.controller().geometry()));
}

/// Product in the field of Q: x^8 + x^4 + x^3 + x^2 + 1.
fn product(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b > 0 {
        product ^= if b & 1 == 1 { a } else { 0 };
        (a, b) = (a << 1 ^ if a & 0x80 == 0 { 0 } else { 0x1d }, b >> 1);
    }
    product
}

/// Changes strips 0 and 1 of the first row such that P and Q look as if strip 2 alone were wrong.
fn tear_like_another(served: &mut Served) {
    let one = 7;
    let fits = |other: &u8| one ^ product(2, *other) == product(4, one ^ *other);
    let other = (1..=u8::MAX).find(fits).expect("one fits");
    for (page, change) in [(0, one), (1, other)] {
        let (device, offset) = place(served, page);
        let mut bytes = read(served, device, offset);
        bytes.iter_mut().for_each(|byte| *byte ^= change);
        served.devices.write(device, offset, &bytes).expect("written");
    }
}

/// What the first row is repaired to.
fn repaired(served: &mut Served) -> Wrong {
    let status = served.scrub(true);
    assert_eq!((status.inconsistent_rows, status.rows_left()), (1, 0), "{status:?}");
    status.ranges[0].wrong
}

/// After a loss of log a write may have left two strips of a row. A repair overwrites no third one,
/// also after further starts, until all rows are repaired.
#[test]
fn after_a_loss_of_log_a_repair_takes_no_strip_for_a_wrong_one() {
    let mut served = Served::open(array(Level::Raid6, 6, 1));
    served.write(0, 256, 1);
    served.flush_cache();
    let (third, at) = place(&served, 2);
    // It looks as if strip 2 were wrong: without a loss it is.
    let mut sound = Served::open(served.devices.clone());
    tear_like_another(&mut sound);
    let Device::Member(member) = third else { panic!("{third}") };
    assert_eq!(repaired(&mut sound), Wrong::Member(member));

    let accepted = Allow { stale: vec![Device::Nvs(0)], ..Allow::default() };
    let lost = Served::open_as(served.devices.clone(), &accepted);
    let mut later = Served::open(lost.devices);
    tear_like_another(&mut later);
    let before = read(&mut later, third, at);
    assert_eq!(repaired(&mut later), Wrong::Parity);
    assert_eq!(read(&mut later, third, at), before);
    later.stop();
    let mut consistent = Served::open(later.devices);
    tear_like_another(&mut consistent);
    assert_eq!(repaired(&mut consistent), Wrong::Member(member), "all rows were repaired");

    // The NVS is lost while it serves, and the power fails.
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    served.run();
    let said = destage_served::read_superblock(&mut served.devices, Device::Member(0));
    assert!(said.expect("a superblock").superblock.doubted_rows);
}

/// Another member fails at any operation of a rebuild: as soon as all is written the rebuilt one
/// may be all that is left, and is in sync before the failure is recorded.
#[test]
fn a_rebuilt_member_is_in_sync_before_another_failure_is_recorded() {
    let mut served = Served::open(array(Level::Raid5, 3, 1));
    served.write(0, 256, 3);
    served.flush_cache();
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    let needs = member_bytes(served.volume.controller().geometry());
    served.devices.0.insert(Device::Member(1), (needs, BTreeMap::new()));
    let before = served.devices;
    let (mut survived, mut stopped) = (0, 0);
    for operations in 0..1000 {
        let mut served = Served::open_as(before.clone(), &Allow::degraded());
        let now = served.now();
        served.volume.replace(now, 1, [0x55; 16], needs).expect("begun");
        served.slow_flush = Some(Device::Member(1));
        served.steps(operations);
        let joined = served.volume.rebuild_status().is_empty();
        served.volume.give_up_member(2, Cause::Asked);
        for _ in 0..60 {
            served.steps(1);
            let assembled = served.devices.try_assembled(&Allow::degraded());
            assert!(assembled.is_ok(), "after {operations} operations: {:?}", assembled.err());
        }
        match served.volume.status().failed[..] {
            [2] => survived += 1,
            _ => stopped += 1,
        }
        if joined {
            break;
        }
    }
    assert!(survived > 5 && stopped > 5, "{survived} survived, {stopped} stopped");
}

/// Level 6 without NVS, of which member 1 has failed and is being rebuilt.
fn rebuilding() -> Served {
    let mut served = Served::open(array(Level::Raid6, 4, 0));
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    let needs = member_bytes(served.volume.controller().geometry());
    served.devices.0.insert(Device::Member(1), (needs, BTreeMap::new()));
    let now = served.now();
    served.volume.replace(now, 1, [0x55; 16], needs).expect("begun");
    served
}

/// The failure of another member is not recorded before the rebuilt one is flushed, and nothing
/// that is written without it is answered.
#[test]
fn a_change_that_waits_for_a_rebuilt_member_holds_answers_back() {
    let mut served = rebuilding();
    served.no_flush = Some(Device::Member(1));
    let now = served.now();
    served.run_until(now.0 + 10 * SECOND, |_| false);
    assert!(!served.volume.is_changing());
    served.volume.give_up_member(2, Cause::Asked);
    assert!(served.volume.is_changing());
    assert_eq!(write(&mut served, 0, 7), None, "it waits for the change");
    assert!(served.volume.is_changing());
    served.no_flush = None;
    served.run();
    assert!(served.answer().is_some_and(|answer| answer.is_ok()) && !served.volume.is_changing());
    assert_eq!(served.volume.status().failed, [2]);
}

/// Another member fails during a rebuild and comes back later. It was never used without the
/// rebuilt one, which came into use only then.
#[test]
fn a_rebuilt_member_came_into_use_when_it_was_rebuilt() {
    let mut served = rebuilding();
    served.run_until(u64::MAX, |volume| !volume.rebuild_status().is_empty());
    served.steps(8);
    served.volume.give_up_member(2, Cause::Asked);
    served.run();
    assert_eq!(served.volume.status().failed, [2], "member 1 is rebuilt");
    served.stop();
    let [first, rebuilt, failed] = [0, 1, 2].map(|member| {
        let said = destage_served::read_superblock(&mut served.devices, Device::Member(member));
        said.expect("a superblock").superblock
    });
    assert!(failed.has_failed(1), "it failed before");
    assert!(rebuilt.joined > first.joined && rebuilt.joined > failed.generation);
    let assembly = served.devices.try_assembled(&Allow::default());
    assert_eq!(assembly.map(|assembly| assembly.failed), Ok(vec![2]));
}

/// The row of which a page is lost, and the two copies of a member's record of that.
const LOST_ROW: u64 = 5;
const RECORDS: [u64; 2] = [16_384, 20_480];

fn in_lost_row(member: u16) -> (Device, u64) {
    (Device::Member(member), DATA_START + LOST_ROW * PAGE_BYTES)
}

/// An array of which a rebuild left a page of member 1 lost, stopped.
fn with_a_lost_page(level: Level, disks: u16) -> (Devices, Vec<(u16, u64)>) {
    lose_a_page(array(level, disks, 1), level)
}

/// The same with an array of that level.
fn lose_a_page(devices: Devices, level: Level) -> (Devices, Vec<(u16, u64)>) {
    let mut served = Served::open(devices);
    served.write(0, 256, 3);
    served.flush_cache();
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    let unreadable = if level == Level::Raid6 { vec![0, 2] } else { vec![0] };
    served.unreadable = unreadable.into_iter().map(in_lost_row).collect();
    let needs = member_bytes(served.volume.controller().geometry());
    served.devices.0.insert(Device::Member(1), (needs, BTreeMap::new()));
    let now = served.now();
    served.volume.replace(now, 1, [0x55; 16], needs).expect("begun");
    served.run_until(now.0 + 100 * SECOND, |volume| volume.rebuild_status().is_empty());
    served.run_until(now.0 + 200 * SECOND, |_| false);
    let lost = served.volume.lost_pages();
    assert!(lost.contains(&(1, LOST_ROW)), "{lost:?}");
    served.unreadable.clear();
    served.stop();
    (served.devices, lost)
}

/// Which pages are lost is in two copies on the member. Without both they would read as zeros: the
/// member is not used, unless the operator insists.
#[test]
fn a_member_whose_lost_pages_are_not_known_is_not_used() {
    let (device, first) = (Device::Member(1), |copy: usize| RECORDS[copy] + 2 * SECTOR as u64);
    let (mut devices, lost) = with_a_lost_page(Level::Raid5, 3);
    let opened_as = |devices: &mut Devices, allow: &Allow| {
        let assembly = devices.assembled(allow);
        let known = destage_served::knows_lost_pages(devices, &assembly, 1);
        (known, opened(devices, &assembly, &settings()).map(|volume| volume.lost_pages()))
    };
    for copy in [0, 1] {
        let mut devices = devices.clone();
        devices.write(device, first(copy), &[9; SECTOR]).expect("written");
        let (known, said) = opened_as(&mut devices, &Allow::default());
        assert_eq!((known, said), (true, Ok(lost.clone())), "without copy {copy}");
    }
    for copy in [0, 1] {
        devices.write(device, first(copy), &[9; SECTOR]).expect("written");
    }
    let before = devices.to_text();
    let (known, said) = opened_as(&mut devices, &Allow::default());
    assert_eq!((known, said), (false, Err(OpenError::LostPagesUnknown(device))));
    assert!(devices.to_text() == before, "nothing was changed");
    // Without the member, the others have all that is not lost.
    let why = OpenError::LostPagesUnknown(device).unusable().expect("unusable");
    assert_eq!(why, (device, NoSuperblock::LostPagesUnknown));
    let of = |devices: &mut Devices, member| match member {
        1 => Err(why.1),
        _ => destage_served::read_superblock(devices, Device::Member(member)),
    };
    let mut found: Vec<_> = (0..3).map(|at| (Device::Member(at), of(&mut devices, at))).collect();
    let nvs = destage_served::read_superblock(&mut devices, Device::Nvs(0));
    found.push((Device::Nvs(0), nvs));
    let refused = destage_served::assemble(&found, &Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Degraded(device, why.1)));
    let assembly = destage_served::assemble(&found, &Allow::degraded()).expect("an array");
    let mut degraded = devices.clone();
    opened(&mut degraded, &assembly, &settings()).expect("it opens");
    let insists = Allow { stale: vec![device], ..Allow::default() };
    let (_, said) = opened_as(&mut devices, &insists);
    assert_eq!(said, Ok(lost.into_iter().filter(|(member, _)| *member != 1).collect()));
}

/// A page of member 1 is lost, and all of its row is written and on the disks; but the record that
/// no longer names it waits for a flush.
fn with_an_unrecorded_page(level: Level, disks: u16) -> Served {
    let (devices, _) = with_a_lost_page(level, disks);
    let mut served = Served::open(devices);
    if level == Level::Raid5 {
        served.volume.give_up_member(0, Cause::Asked);
        served.run();
    }
    (0..disks).for_each(|member| served.volume.set_durability(member, Durability::Off));
    served.no_flush = Some(Device::Member(1));
    let command = Command::Write { offset: 2 * LOST_ROW * PAGE_BYTES, fua: false };
    served.ask(command, &[9; 2 * PAGE_BYTES as usize]);
    let now = served.now();
    served.volume.flush_cache(now);
    served.run_until(now.0 + SECOND, |_| false);
    assert!(!served.volume.lost_pages().contains(&(1, LOST_ROW)), "it is written");
    served
}

fn check_lost_row(served: &mut Served) {
    let offset = 2 * LOST_ROW * PAGE_BYTES;
    let read = Command::Read { offset, bytes: 2 * PAGE_BYTES as usize };
    assert_eq!(served.ask(read, &[]), [9; 2 * PAGE_BYTES as usize]);
}

/// After a crash the page would be lost again: until the record is written, the NVS keeps what
/// replaces it.
#[test]
fn what_replaces_a_lost_page_is_kept_until_the_record_no_longer_names_the_page() {
    let mut served = with_an_unrecorded_page(Level::Raid5, 3);
    let mut later = Served::open_as(served.devices.clone(), &Allow::degraded());
    check_lost_row(&mut later);
    let second = |devices: &mut Devices| {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        devices.read(Device::Member(1), RECORDS[1], &mut bytes).expect("read");
        bytes
    };
    let older = second(&mut served.devices);
    served.no_flush = None;
    served.run();
    assert!(served.volume.drained() && served.volume.idle(), "released");
    let mut later = Served::open_as(served.devices.clone(), &Allow::degraded());
    check_lost_row(&mut later);
    // Likewise where the crash left the older second copy.
    let mut devices = served.devices;
    assert!(second(&mut devices) != older);
    devices.write(Device::Member(1), RECORDS[1], &older).expect("written");
    let mut later = Served::open_as(devices, &Allow::degraded());
    check_lost_row(&mut later);
}

#[test]
fn what_waits_for_the_record_of_a_member_is_released_when_the_member_fails() {
    let mut served = with_an_unrecorded_page(Level::Raid6, 4);
    assert!(!served.volume.drained(), "the record waits");
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    assert!(served.volume.drained() && served.volume.idle());
    check_lost_row(&mut served);
}

/// What the others say since a member failed says nothing of the member's own lost pages.
#[test]
fn the_lost_pages_of_a_member_that_is_used_again_are_known() {
    let (devices, lost) = with_a_lost_page(Level::Raid5, 3);
    let mut served = Served::open(devices);
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    served.stop();
    let again = Allow { stale: vec![Device::Member(1)], ..Allow::default() };
    let mut served = Served::open_as(served.devices, &again);
    assert_eq!(served.volume.lost_pages(), lost);
    // It came into use with this start: what was written without it, it does not have.
    let said = destage_served::read_superblock(&mut served.devices, Device::Member(1));
    let said = said.expect("a superblock").superblock;
    assert_eq!(said.joined, said.generation);
    // What it would be computed from cannot be read.
    served.unreadable = vec![in_lost_row(0)];
    let mut pages = 2 * LOST_ROW..2 * LOST_ROW + 2;
    let page = pages.find(|page| place(&served, *page).0 == Device::Member(1)).expect("data");
    let read = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize };
    assert_eq!(asked(&mut served, read, &[], SECOND), Some(false));
    let later = Served::open(served.devices);
    assert_eq!(later.volume.lost_pages(), lost, "the superblocks say so again");
}

/// What replaced it may be lost with the cache of the member: a change says that pages are lost.
#[test]
fn a_change_says_that_pages_are_lost_until_what_replaced_them_is_flushed() {
    let mut served = with_an_unrecorded_page(Level::Raid6, 4);
    let says_after_failure = |served: &mut Served, member| {
        served.volume.give_up_member(member, Cause::Asked);
        let now = served.now();
        served.run_until(now.0 + SECOND, |_| false);
        let said = destage_served::read_superblock(&mut served.devices, Device::Member(2));
        said.expect("a superblock").superblock.lost_pages
    };
    assert!(says_after_failure(&mut served, 0));
    served.no_flush = None;
    served.run();
    assert!(!says_after_failure(&mut served, 3), "the record no longer names them");
    assert_eq!(served.volume.status().failed, [0, 3]);
}

/// Neither copy of a member's record is intact.
fn damage_records(devices: &mut Devices, member: u16) {
    let record = MemberRecord { number: 1, device: [member as u8; 16], ..MemberRecord::default() };
    let mut bytes = record.encode();
    bytes[100] ^= 1;
    for at in RECORDS {
        devices.write(Device::Member(member), at, &bytes).expect("written");
    }
}

/// Nobody believes the records before a page of any member is lost. Once one is, a start must not
/// do without a member for a record that was damaged before.
#[test]
fn a_record_that_was_damaged_before_a_page_was_lost_keeps_no_member_out() {
    let mut devices = array(Level::Raid5, 3, 1);
    [0, 2].iter().for_each(|member| damage_records(&mut devices, *member));
    let (mut devices, lost) = lose_a_page(devices, Level::Raid5);
    let assembly = devices.assembled(&Allow::default());
    let volume = opened(&mut devices, &assembly, &settings());
    assert_eq!(volume.map(|volume| volume.lost_pages()), Ok(lost.clone()));
    // The others do not know of the lost page, and the member is used again.
    let mut served = Served::open(devices);
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    served.stop();
    [0, 2].iter().for_each(|member| damage_records(&mut served.devices, *member));
    let again = Allow { stale: vec![Device::Member(1)], ..Allow::default() };
    let served = Served::open_as(served.devices, &again);
    assert_eq!(served.volume.lost_pages(), lost);
    assert_eq!(Served::open(served.devices).volume.lost_pages(), lost);
}

/// A crash left the second copy of a record as it was before the last lost page was written. The
/// superblocks say that none is lost, and it must not count again later.
#[test]
fn an_older_record_that_a_crash_left_is_written_over_at_the_next_start() {
    let mut devices = array(Level::Raid5, 3, 1);
    let device = [destage_served::read_superblock(&mut devices, Device::Member(1))];
    let [Ok(said)] = device else { panic!("a superblock") };
    let record = |number, lost: &[u64]| MemberRecord {
        number,
        device: said.superblock.device,
        lost: lost.to_vec(),
        ..MemberRecord::default()
    };
    let copies = [record(8, &[]), record(7, &[LOST_ROW])].map(|record| record.encode());
    for (at, bytes) in RECORDS.iter().zip(&copies) {
        devices.write(Device::Member(1), *at, bytes).expect("written");
    }
    let mut devices = Served::open(devices).devices;
    for at in RECORDS {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        devices.read(Device::Member(1), at, &mut bytes).expect("read");
        let said = MemberRecord::decode(&bytes).expect("a record");
        assert!(said.number >= 8 && said.lost.is_empty(), "{said:?}");
    }
}

/// Otherwise the other copy, damaged years later, would be one too many.
#[test]
fn a_damaged_copy_of_a_record_of_lost_pages_is_repaired_at_a_start() {
    let (devices, lost) = with_a_lost_page(Level::Raid5, 3);
    let device = Device::Member(1);
    for (damaged, other) in [(0, 1), (1, 0)] {
        let mut devices = devices.clone();
        devices.write(device, RECORDS[damaged] + SECTOR as u64, &[9; SECTOR]).expect("written");
        let mut served = Served::open(devices);
        let page = |served: &mut Served, copy: usize| {
            let mut bytes = vec![0; PAGE_BYTES as usize];
            served.devices.read(device, RECORDS[copy], &mut bytes).expect("read");
            bytes
        };
        assert!(page(&mut served, damaged) == page(&mut served, other), "copy {damaged}");
        let mut devices = served.devices;
        devices.write(device, RECORDS[other] + SECTOR as u64, &[9; SECTOR]).expect("written");
        assert_eq!(Served::open(devices).volume.lost_pages(), lost, "copy {damaged}");
    }
}

/// A lost NVS no longer keeps what it acknowledged: a flush waits until the disks have it.
#[test]
fn after_the_loss_of_the_nvs_a_flush_waits_for_what_it_had_acknowledged() {
    let mut served = Served::open(array(Level::Raid5, 3, 1));
    served.write(0, 64, 7);
    assert!(served.volume.status().dirty_pages > 0);
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    served.volume.submit(now, 8, Command::Flush, &[]);
    while served.volume.status().dirty_pages > 0 {
        assert_eq!(served.answer(), None, "{} pages", served.volume.status().dirty_pages);
        served.steps(1);
    }
    served.run();
    assert!(served.answer().is_some_and(|answer| answer.is_ok()));
    // What is written from now on is on the disks when it is answered.
    served.write(0, 64, 8);
    let now = served.now();
    served.volume.submit(now, 9, Command::Flush, &[]);
    assert!(served.answer().is_some());
}

/// Neither the NVS nor the disks have what a write of such an array has put into memory.
#[test]
fn a_flush_in_flight_at_the_loss_of_the_nvs_waits_for_the_disks() {
    let on_loss = OnNvsLoss::WriteThrough;
    let flush = Settings { ack: Ack::Flush, on_nvs_loss: on_loss, ..settings() };
    let mut served = Served::open_with(array(Level::Raid5, 3, 1), &flush);
    let now = served.now();
    let command = Command::Write { offset: 0, fua: false };
    served.volume.submit(now, 7, command, &[7; 64 * SECTOR]);
    assert!(served.answer().is_some(), "it is in memory");
    served.volume.submit(now, 8, Command::Flush, &[]);
    // The NVS does nothing of what it is given now.
    served.left = 0;
    served.steps(1);
    assert_eq!(served.answer(), None);
    assert!(served.volume.status().dirty_pages > 0);
    served.left = u64::MAX;
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    while served.volume.status().dirty_pages > 0 {
        assert_eq!(served.answer(), None, "{} pages", served.volume.status().dirty_pages);
        served.steps(1);
    }
    served.run();
    assert!(served.answer().is_some_and(|answer| answer.is_ok()));
}

fn read(served: &mut Served, device: Device, offset: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    served.devices.read(device, offset, &mut bytes).expect("read");
    bytes
}
