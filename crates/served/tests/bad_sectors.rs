//! What sectors that cannot be read, or written, do to an array that has all it needs elsewhere
//! (docs/durability.md, "Errors of devices").

mod common;

use common::{Devices, SECTOR, Served, opened, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::limits::Limits;
use destage_engine::units::{DiskId, Duration, PAGE_BYTES, Page};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{
    Allow, Cause, Command, Device, Media, Op, OpKind, Refusal, Settings, Volume, member_bytes,
};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
const PAGE: usize = PAGE_BYTES as usize;

/// Write groups of one stripe.
fn array(level: Level, disks: u16, strip_pages: u64) -> Devices {
    let geometry = Geometry { level, disks, strip_pages, group_stripes: 1, disk_pages: 256 };
    Devices::created(geometry, Sizes::for_pages(40, 512), 512, 1)
}

/// The same, with something on its disks.
fn filled(level: Level, disks: u16, strip_pages: u64) -> Served {
    let mut served = Served::open(array(level, disks, strip_pages));
    served.write(0, 64 * PAGE / SECTOR, 1);
    served.flush_cache();
    assert!(served.volume.drained());
    served
}

fn at(disk: DiskId, row: u64) -> (Device, u64) {
    (Device::Member(disk.0), DATA_START + row * PAGE_BYTES)
}

/// Where a page of the volume is.
fn place(served: &Served, page: u64) -> (Device, u64) {
    let place = served.volume.controller().geometry().place(Page(page));
    at(place.disk, place.page)
}

/// The data and parity disks of the first row.
fn first_row(served: &Served) -> (Vec<DiskId>, Vec<DiskId>) {
    let geometry = served.volume.controller().geometry();
    let stripe = geometry.row_of_disk_page(0).1.stripe;
    let data = 0..geometry.data_strips() as u16;
    let data = data.map(|strip| geometry.data_disk(stripe, strip)).collect();
    (data, geometry.parity_disks(stripe).collect())
}

/// What is answered within this time: with which byte each sector begins.
fn asked(
    served: &mut Served,
    command: Command,
    payload: &[u8],
    nanos: u64,
) -> Result<Vec<u8>, Refusal> {
    let now = served.now();
    served.volume.submit(now, 7, command, payload);
    served.run_until(now.0 + nanos, |_| false);
    let answer = served.answer().expect("an answer");
    answer.map(|bytes| bytes.chunks_exact(SECTOR).map(|sector| sector[0]).collect())
}

fn read(served: &mut Served, page: u64, pages: u64) -> Result<Vec<u8>, Refusal> {
    let bytes = (pages * PAGE_BYTES) as usize;
    asked(served, Command::Read { offset: page * PAGE_BYTES, bytes }, &[], SECOND)
}

fn write(served: &mut Served, page: u64, fill: u8) {
    let command = Command::Write { offset: page * PAGE_BYTES, fua: false };
    asked(served, command, &[fill; PAGE], SECOND).expect("written");
}

fn flush(served: &mut Served, nanos: u64) {
    let now = served.now();
    served.volume.flush_cache(now);
    served.run_until(now.0 + nanos, |_| false);
}

/// What an operator does after a member has failed: an empty device is in its place.
fn replace(served: &mut Served, member: u16) {
    let needs = member_bytes(served.volume.controller().geometry());
    served.devices.0.insert(Device::Member(member), (needs, BTreeMap::new()));
    let now = served.now();
    served.volume.replace(now, member, [0x50 + member as u8; 16], needs).expect("begun");
}

/// A destage that cannot be computed is tried again every 5 s, and reads the same pages each time;
/// so does a client that polls one.
#[test]
fn a_page_that_is_read_again_and_again_does_not_make_its_member_fail() {
    for (level, disks, failed) in [(Level::Raid5, 4, None), (Level::Raid6, 5, Some(1))] {
        let mut served = filled(level, disks, 1);
        let (data, parity) = first_row(&served);
        let data: Vec<DiskId> = data.into_iter().filter(|disk| Some(disk.0) != failed).collect();
        if let Some(member) = failed {
            served.volume.give_up_member(member, Cause::Asked);
            served.run();
        }
        let before = served.volume.status().failed;
        served.unreadable = [data[1], parity[0]].map(|disk| at(disk, 0)).to_vec();
        let geometry = *served.volume.controller().geometry();
        let page_of = |disk| (0..).find(|page| geometry.place(Page(*page)).disk == disk);
        write(&mut served, page_of(data[0]).expect("a page"), 2);
        flush(&mut served, 600 * SECOND);
        assert_eq!(served.volume.status().kept_pages, 1, "{level:?}");
        assert_eq!(served.volume.status().failed, before, "{level:?}: a kept destage");
        let page = page_of(data[1]).expect("a page");
        (0..300).for_each(|_| assert_eq!(read(&mut served, page, 1), Err(Refusal::Unreadable)));
        assert_eq!(served.volume.status().failed, before, "{level:?}: a client");
    }
}

/// Each of these is another bad sector: one that is bad again after it was written, too.
#[test]
fn a_member_fails_when_more_than_100_of_its_pages_could_not_be_read() {
    let reads: [fn(u64) -> u64; 2] = [|nth| 2 * nth, |_| 6];
    for page in reads {
        let mut served = Served::open(array(Level::Raid4, 3, 4));
        let mut count = 0;
        while served.volume.status().failed.is_empty() {
            let (device, bad) = at(DiskId(0), page(count));
            served.unreadable = vec![(device, bad + 512)];
            // A run is read page by page before any of it counts.
            let strip = page(count) / 4 * 8;
            assert_eq!(read(&mut served, strip, 4), Ok(vec![0; 32]));
            count += 1;
        }
        assert_eq!((count, served.volume.status().failed), (101, vec![0]));
    }
}

/// With parity and the old data of what is written, the row's other pages are not needed.
#[test]
fn a_row_is_modified_in_place_where_its_clean_pages_cannot_be_read() {
    for (level, disks) in
        [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid5, 5), (Level::Raid6, 6)]
    {
        for sectors in [8, 3] {
            let mut served = filled(level, disks, 1);
            let (data, _) = first_row(&served);
            served.unreadable = data[1..].iter().map(|disk| at(*disk, 0)).collect();
            served.write(0, sectors, 2);
            flush(&mut served, SECOND);
            let kept = served.volume.status().kept_pages;
            assert_eq!((kept, served.volume.drained()), (0, true), "{level:?} of {disks}");
            served.unreadable.clear();
            let status = served.scrub(false);
            assert!(status.ranges.is_empty(), "{level:?} of {disks}: {status:?}");
            let page = read(&mut served, 0, 1).expect("read");
            assert!(
                page[..sectors] == [2].repeat(sectors)
                    && page[sectors..] == [1].repeat(8 - sectors)
            );
        }
    }
}

/// Some sectors of a page are written. The others are read from its disk or the mirror of that, or
/// come of the row.
#[test]
fn a_page_that_the_nvs_has_in_part_is_completed_from_what_is_left() {
    let all = [(Level::Raid0, 3), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)];
    let mirror_or_row = [(Level::Raid10, 4, 0), (Level::Raid5, 4, 0), (Level::Raid6, 5, 1)];
    let intact = all.map(|(level, disks)| (level, disks, None)).into_iter();
    let degraded = mirror_or_row.map(|(level, disks, failed)| (level, disks, Some(failed)));
    for (level, disks, failed) in intact.chain(degraded) {
        let mut served = filled(level, disks, 1);
        if let Some(member) = failed {
            assert_eq!(place(&served, 0).0, Device::Member(member));
            served.volume.give_up_member(member, Cause::Asked);
            served.run();
        }
        served.write(0, 3, 2);
        flush(&mut served, SECOND);
        let kept = served.volume.status().kept_pages;
        assert_eq!((kept, served.volume.drained()), (0, true), "{level:?} without {failed:?}");
        let page = read(&mut served, 0, 1);
        assert_eq!(page, Ok(vec![2, 2, 2, 1, 1, 1, 1, 1]), "{level:?} without {failed:?}");
    }
}

/// Pages that the disks do not have and the NVS has, in a read of others.
#[test]
fn what_only_the_nvs_has_does_not_fail_a_read_of_more() {
    let whole_rows = [(Level::Single, 1), (Level::Raid0, 3), (Level::Raid5, 4), (Level::Raid10, 4)];
    for (level, disks) in whole_rows {
        let mut served = filled(level, disks, 4);
        served.volume.pause(true);
        let dirty = [1, 6, 9];
        dirty.iter().for_each(|page| write(&mut served, *page, 2));
        // Too little is left of their rows; of the next two each, what is needed is there.
        let (_, parity) = first_row(&served);
        let bad = dirty.map(|page| place(&served, page));
        served.unreadable = bad.to_vec();
        served.unreadable.extend(parity.iter().flat_map(|disk| [1, 2].map(|row| at(*disk, row))));
        if level == Level::Raid10 {
            let mirrors = bad.map(|(device, at)| match device {
                Device::Member(member) => (Device::Member(member ^ 1), at),
                Device::Nvs(_) => unreachable!("a member"),
            });
            served.unreadable.extend(mirrors);
        }
        if level == Level::Raid5 {
            let clean = place(&served, 7);
            served.unreadable.push(clean);
        }
        let answer = read(&mut served, 0, 12);
        let wanted = (0..12).flat_map(|page| [if dirty.contains(&page) { 2 } else { 1 }; 8]);
        assert!(answer == Ok(wanted.collect()), "{level:?}: {:?}", answer.err());
        // A page that nobody has.
        let lost = place(&served, 2);
        served.unreadable.push(lost);
        if level == Level::Raid10 {
            let Device::Member(member) = lost.0 else { panic!("{lost:?}") };
            served.unreadable.push((Device::Member(member ^ 1), lost.1));
        }
        assert_eq!(read(&mut served, 0, 12), Err(Refusal::Unreadable), "{level:?}");
    }
}

/// A member is rebuilt beyond the first row, and then takes long.
fn half_rebuilt(level: Level, disks: u16, member: u16) -> Served {
    let mut served = filled(level, disks, 1);
    served.volume.give_up_member(member, Cause::Asked);
    served.run();
    let share_permille = 1;
    let slow = Limits { window_pages: 4, share_permille, ..Limits::default() };
    served.volume.set_rebuild_limits(slow);
    replace(&mut served, member);
    let done = |volume: &Volume| {
        volume.rebuild_status().iter().any(|rebuild| rebuild.progress.done_pages >= 8)
    };
    served.run_until(u64::MAX, done);
    assert!(done(&served.volume));
    served
}

/// How far the rebuild of a member is, and its last checkpoint.
fn rebuilt(volume: &Volume, member: u16) -> Option<(u64, u64)> {
    let rebuilds = volume.rebuild_status();
    let rebuild = rebuilds.iter().find(|rebuild| rebuild.member == member)?;
    Some((rebuild.progress.done_pages, rebuild.checkpoint))
}

/// It makes no progress for a while: how far it has come is recorded, once.
#[test]
fn a_rebuild_that_rests_has_a_checkpoint_after_five_seconds() {
    let mut served = half_rebuilt(Level::Raid5, 4, 3);
    served.volume.pause(true);
    let now = served.now().0;
    let after = |served: &mut Served, seconds: u64| {
        served.run_until(now + seconds * SECOND, |_| false);
        rebuilt(&served.volume, 3).expect("it is being rebuilt")
    };
    let (done, checkpoint) = after(&mut served, 4);
    assert!((8..256).contains(&done) && checkpoint == 0, "{done}, {checkpoint}");
    assert_eq!(after(&mut served, 6), (done, done));
    served.seen = Some(Vec::new());
    assert_eq!(after(&mut served, 60), (done, done));
    let seen = served.seen.take().expect("seen");
    assert!(seen.iter().all(|(_, device, _)| *device != Device::Member(3)));
}

/// Members 1 and 3 have failed, and a page of member 0 cannot be read: what member 1 has again of
/// its row is needed.
#[test]
fn what_is_rebuilt_of_one_member_counts_for_the_rebuild_of_another() {
    let mut served = half_rebuilt(Level::Raid6, 5, 1);
    served.volume.give_up_member(3, Cause::Asked);
    served.run_until(u64::MAX, |volume| !volume.is_changing());
    served.unreadable = vec![at(DiskId(0), 2)];
    replace(&mut served, 3);
    let done = |volume: &Volume, member| rebuilt(volume, member).map(|(done, _)| done);
    served.run_until(u64::MAX, |volume| done(volume, 3) >= Some(4));
    let both = [1, 3].map(|member| done(&served.volume, member).expect("not complete yet"));
    assert!((8..256).contains(&both[0]) && both[1] < 256, "{both:?}");
    assert_eq!(served.volume.lost_pages(), []);
}

/// Of the first row the spare has the parity: it is written, and flushed like any other member.
#[test]
fn a_destage_of_rebuilt_rows_is_done_while_the_rebuild_continues() {
    let mut served = half_rebuilt(Level::Raid5, 4, 3);
    assert_eq!(first_row(&served).1, [DiskId(3)]);
    let now = served.now();
    let command = Command::Write { offset: 0, fua: false };
    served.volume.submit(now, 7, command, &[2; PAGE]);
    served.volume.flush_cache(now);
    served.run_until(now.0 + SECOND / 16, |_| false);
    assert!(served.volume.drained(), "it is on the disks");
    assert_eq!(served.volume.rebuild_status().len(), 1, "the rebuild continues");
}

/// A drive that can neither read a sector nor write it again is no worse than one that cannot read
/// it, as long as the array cannot do without the drive.
#[test]
fn a_repair_that_cannot_be_written_does_not_stop_a_degraded_array() {
    for (level, disks, member, bad) in [(Level::Raid5, 4, 3, 0), (Level::Raid10, 4, 1, 0)] {
        let mut served = half_rebuilt(level, disks, member);
        let geometry = *served.volume.controller().geometry();
        let on_bad = |page: &u64| geometry.place(Page(*page)).disk == DiskId(bad);
        let page = (0..16).find(on_bad).expect("a page");
        served.unreadable = vec![place(&served, page)];
        served.unwritable = served.unreadable.clone();
        for _ in 0..3 {
            let command = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE };
            let answer = asked(&mut served, command, &[], SECOND / 1000);
            assert_eq!(answer, Ok(vec![1; 8]), "{level:?}");
        }
        assert_eq!(served.volume.status().failed, [member], "{level:?}");
        // As soon as the array can do without the drive, such a write gives it up.
        served.run_until(u64::MAX, |volume| volume.rebuild_status().is_empty());
        assert_eq!(read(&mut served, page, 1), Ok(vec![1; 8]));
        served.run();
        assert_eq!(served.volume.status().failed, [bad], "{level:?}");
    }
}

/// Another member fails while a scrub writes a page again.
#[test]
fn a_repair_of_a_scrub_that_cannot_be_written_does_not_stop_a_degraded_array() {
    let mut served = filled(Level::Raid5, 4, 1);
    served.unreadable = vec![at(DiskId(2), 3)];
    served.unwritable = served.unreadable.clone();
    let now = served.now();
    served.volume.start_scrub(now, true).expect("begun");
    served.volume.allow_scrub(now, u64::MAX);
    let (device, bad) = served.unwritable[0];
    let repairs = |op: &Op| {
        let here = |offset: u64| op.device == device && offset == bad;
        matches!(op.kind, OpKind::Write { offset, .. } if here(offset))
    };
    assert!(served.steps_until(repairs));
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    assert_eq!(served.volume.status().failed, [1]);
    served.unreadable.clear();
    assert_eq!(read(&mut served, 0, 64), Ok(vec![1; 64 * 8]));
}

fn opened_as(mut devices: Devices, settings: &Settings) -> Served {
    let assembly = devices.assembled(&Allow::default());
    let volume = opened(&mut devices, &assembly, settings).expect("it opens");
    Served::of(devices, volume)
}

/// Both copies of a record that says how far a rebuild was cannot be read at a start, which begins
/// the rebuild again, and can be read at the next. What the first one left behind is not in sync.
#[test]
fn a_record_that_could_not_be_read_at_a_start_says_nothing_at_the_next() {
    const RECORDS: [u64; 2] = [16_384, 20_480];
    let (spare, row) = (3, 40);
    let rebuild = Limits { window_pages: 1, share_permille: 1, ..Limits::default() };
    let slow = Settings { rebuild, ..settings() };
    let often = Settings { checkpoint_every: Duration(1), ..slow.clone() };
    let mut served = opened_as(half_rebuilt(Level::Raid5, 4, spare).devices, &often);
    served.run_until(u64::MAX, |volume| volume.rebuild_status()[0].checkpoint > 60);
    // Both copies are written.
    served.steps(8);
    let mut devices = served.devices;
    let device = Device::Member(spare);
    let kept = RECORDS.map(|copy| {
        let mut bytes = vec![0; PAGE];
        devices.read(device, copy, &mut bytes).expect("read");
        bytes
    });
    // They begin as they did.
    let unreadable = kept.each_ref().map(|bytes| [&bytes[..SECTOR], &[7; PAGE - SECTOR]].concat());
    for (copy, bytes) in RECORDS.into_iter().zip(&unreadable) {
        devices.write(device, copy, bytes).expect("written");
    }
    let mut served = opened_as(devices, &slow);
    let geometry = *served.volume.controller().geometry();
    let there = |page: &u64| geometry.place(Page(*page)).disk == DiskId(spare);
    let behind = |page: &u64| geometry.place(Page(*page)).page >= row;
    let page = (0..geometry.volume_pages().0).find(|page| there(page) && behind(page));
    let page = page.expect("a page");
    let now = served.now();
    let command = Command::Write { offset: page * PAGE_BYTES, fua: false };
    served.volume.submit(now, 7, command, &[9; PAGE]);
    served.volume.flush_cache(now);
    served.run_until(now.0 + SECOND / 16, |_| false);
    assert!(served.volume.drained(), "destaged, and the log says so");
    let progress = served.volume.rebuild_status()[0];
    assert!(progress.checkpoint == 0 && progress.progress.done_pages < row, "{progress:?}");
    // The power fails, and what was not overwritten can be read again.
    let mut devices = served.devices;
    for (nth, copy) in RECORDS.into_iter().enumerate() {
        let mut now = vec![0; PAGE];
        devices.read(device, copy, &mut now).expect("read");
        if now == unreadable[nth] {
            devices.write(device, copy, &kept[nth]).expect("written");
        }
    }
    let mut served = opened_as(devices, &slow);
    assert_eq!(read(&mut served, page, 1), Ok(vec![9; 8]));
}

/// A checkpoint waits for its flush until the last window is written: its record counts what that
/// flush has covered, and no more.
#[test]
fn the_record_of_a_checkpoint_does_not_end_a_rebuild() {
    let mut devices = array(Level::Raid5, 4, 1);
    let often = Settings { checkpoint_every: Duration::from_millis(50), ..settings() };
    let assembly = devices.assembled(&Allow::default());
    let volume = opened(&mut devices, &assembly, &often).expect("it opens");
    let mut served = Served::of(devices, volume);
    served.volume.give_up_member(3, Cause::Asked);
    served.run();
    let slow = Limits { window_pages: 4, share_permille: 1, ..Limits::default() };
    served.volume.set_rebuild_limits(slow);
    replace(&mut served, 3);
    served.run_until(u64::MAX, |volume| rebuilt(volume, 3).is_some_and(|(done, _)| done >= 8));
    let spare = Device::Member(3);
    let is_flush = |device: Device, kind: &OpKind| device == spare && matches!(kind, OpKind::Flush);
    served.no_flush = Some(spare);
    let now = served.now();
    served.run_until(now.0 + 10 * SECOND, |volume| volume.status().failed.is_empty());
    assert!(served.volume.status().failed.is_empty(), "all is written");
    (served.no_flush, served.seen) = (None, Some(Vec::new()));
    served.run();
    assert!(!served.volume.superblock().has_failed(3), "it is in sync");
    let seen = served.seen.take().expect("seen");
    let before = seen.iter().take_while(|(changes, _, _)| !changes);
    let flushes = before.filter(|(_, device, kind)| is_flush(*device, kind)).count();
    assert_eq!(flushes, 2, "of the checkpoint, and of all");
}
