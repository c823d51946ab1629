//! The drive's buffer: read-ahead and write-back.

mod common;

use common::{read, serve, small, write};
use destage_disk::{Disk, DiskSpec, Scheduler};
use destage_engine::units::Instant;

const READ_AHEAD: &str = "bus_mb_per_s = 10.0\n[read_ahead]\nsegments = 2\n\
                          segment_sectors = 48\nahead_sectors = 40";
const WRITE_BACK: &str = "bus_mb_per_s = 10.0\n[write_back]\ncapacity_sectors = 32";
const MS: u64 = 1_000_000;

#[test]
fn what_was_read_ahead_is_served_at_bus_speed() {
    let mut disk = Disk::new(&small(READ_AHEAD, ""));
    let mut now = Instant::ZERO;
    assert!(!serve(&mut disk, &mut now, read(4, 4)).cache_hit);
    now.0 += 50 * MS;
    let hit = serve(&mut disk, &mut now, read(8, 10));
    assert!(hit.cache_hit);
    assert_eq!(hit.service.total().0, 512_000, "10 sectors of 512 B at 10 MB/s");
    assert!(serve(&mut disk, &mut now, read(4, 8)).cache_hit, "the data read is kept as well");
    now.0 += 50 * MS;
    assert!(!serve(&mut disk, &mut now, read(400, 4)).cache_hit);
    now.0 += 50 * MS;
    assert!(serve(&mut disk, &mut now, read(20, 4)).cache_hit, "a second stream, a second segment");
    assert!(!serve(&mut disk, &mut now, read(800, 4)).cache_hit);
    assert!(!serve(&mut disk, &mut now, read(404, 4)).cache_hit, "the least recent was replaced");
}

#[test]
fn read_ahead_stops_at_its_limit_and_at_other_commands() {
    let mut disk = Disk::new(&small(READ_AHEAD, ""));
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, read(0, 4));
    now.0 += 100 * MS;
    assert!(!serve(&mut disk.clone(), &mut now.clone(), read(44, 4)).cache_hit, "past the limit");
    let mut disk = Disk::new(&small(READ_AHEAD, ""));
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, read(0, 4));
    // 10 ms a revolution of 24 sectors: in 2 ms some four sectors pass.
    now.0 += 2 * MS;
    serve(&mut disk, &mut now, read(1200, 1));
    assert!(serve(&mut disk.clone(), &mut now.clone(), read(4, 4)).cache_hit);
    assert!(!serve(&mut disk, &mut now, read(4, 6)).cache_hit, "interrupted before these");
}

#[test]
fn read_ahead_to_the_next_track_needs_a_sequential_predecessor() {
    let to_next =
        READ_AHEAD.replace("ahead_sectors = 40", "ahead_sectors = 40\nuntil = \"next-track\"");
    let ahead = |reads: &[(u64, u32)], wanted: u64| {
        let mut disk = Disk::new(&small(&to_next, ""));
        let mut now = Instant::ZERO;
        for &(lbn, sectors) in reads {
            serve(&mut disk, &mut now, read(lbn, sectors));
            now.0 += 100 * MS;
        }
        serve(&mut disk, &mut now, read(wanted, 1)).cache_hit
    };
    // Tracks of 24 sectors.
    assert!(ahead(&[(30, 4)], 47), "the end of the track with the next sector");
    assert!(!ahead(&[(30, 4)], 48), "no further after a read that nothing preceded");
    assert!(ahead(&[(20, 8)], 71), "the segment reaches back to the track before");
    assert!(!ahead(&[(20, 8)], 72));
    assert!(ahead(&[(10, 4), (14, 10)], 47), "the next sector is on the next track");
    assert!(ahead(&[(0, 4), (4, 20), (24, 2)], 71), "a read before was on the track before");
}

#[test]
fn read_ahead_longer_than_its_segment_keeps_the_last_of_it() {
    let short =
        READ_AHEAD.replace("segment_sectors = 48", "segment_sectors = 8\nuntil = \"next-track\"");
    let mut disk = Disk::new(&small(&short, ""));
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, read(0, 2));
    now.0 += 100 * MS;
    assert!(!serve(&mut disk.clone(), &mut now.clone(), read(2, 2)).cache_hit, "overwritten");
    assert!(serve(&mut disk, &mut now, read(16, 8)).cache_hit, "the last of the track");
}

#[test]
fn one_command_at_a_time_streams_at_the_media_rate() {
    let stream = |more: &str, idle: u64| {
        let mut disk = Disk::new(&small(more, ""));
        let mut now = Instant::ZERO;
        for lbn in (0..600).step_by(6) {
            serve(&mut disk, &mut now, read(lbn, 6));
            now.0 += idle;
        }
        now.0
    };
    let (with, without) = (stream(READ_AHEAD, 100_000), stream("", 100_000));
    // 600 sectors are 25 tracks and 24 switches of some 0.83 to 1.25 ms.
    assert!((270 * MS..310 * MS).contains(&with), "{with}");
    assert!(without > 3 * with, "without read-ahead every command waits for a revolution");
}

#[test]
fn a_read_that_the_read_ahead_is_about_to_meet_waits_for_it() {
    let mut disk = Disk::new(&small(READ_AHEAD, ""));
    let mut now = Instant::ZERO;
    let first = now.0 + serve(&mut disk, &mut now, read(0, 4)).service.total().0;
    let hit = serve(&mut disk, &mut now, read(10, 4));
    assert!(hit.cache_hit);
    // Sectors 4 to 13 pass in 10/24 of 10 ms.
    assert!(now.0.abs_diff(first + 10 * 10 * MS / 24) <= 2, "{hit:?}");
}

#[test]
fn writes_make_segments_stale() {
    let mut disk = Disk::new(&small(READ_AHEAD, ""));
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, read(0, 4));
    now.0 += 50 * MS;
    assert!(!serve(&mut disk, &mut now, write(10, 1)).cache_hit);
    assert!(!serve(&mut disk, &mut now, read(8, 4)).cache_hit);
}

#[test]
fn writes_are_acknowledged_early_until_the_cache_is_full() {
    let mut disk = Disk::new(&small(WRITE_BACK, ""));
    let mut now = Instant::ZERO;
    for lbn in [100, 300, 500, 700] {
        let done = serve(&mut disk, &mut now, write(lbn, 8));
        assert!(done.cache_hit);
        assert_eq!(done.service.total().0, 409_600, "8 sectors of 512 B at 10 MB/s");
    }
    assert!(disk.dirty_sectors(now) >= 16, "the medium needs milliseconds for each");
    let fifth = serve(&mut disk, &mut now, write(900, 8));
    let sixth = serve(&mut disk, &mut now, write(1100, 8));
    let slowest = fifth.service.total().max(sixth.service.total());
    assert!(slowest.0 > MS, "a full cache waits for the medium: {slowest:?}");
    assert!(!serve(&mut disk, &mut now, write(100, 33)).cache_hit, "larger than the cache");
}

#[test]
fn idle_time_empties_the_write_cache_and_flush_says_when() {
    let mut disk = Disk::new(&small(WRITE_BACK, ""));
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, write(100, 8));
    serve(&mut disk, &mut now, write(700, 8));
    assert!(serve(&mut disk.clone(), &mut now.clone(), read(702, 4)).cache_hit, "dirty data");
    let flushed = disk.clone().flush(now);
    assert!(flushed.0 > now.0 + 2 * MS && flushed.0 < now.0 + 40 * MS, "{flushed:?}");
    assert_eq!(disk.dirty_sectors(Instant(now.0 + 100 * MS)), 0);
    assert_eq!(disk.flush(Instant(now.0 + 100 * MS)), Instant(now.0 + 100 * MS));
    let done = serve(&mut disk, &mut Instant(now.0 + 100 * MS), read(702, 4));
    assert!(!done.cache_hit, "written data is not kept for reads");
}

#[test]
fn overwrites_are_absorbed() {
    let mut disk = Disk::new(&small(WRITE_BACK, ""));
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, write(700, 8));
    for _ in 0..20 {
        let done = serve(&mut disk, &mut now, write(400, 8));
        now = Instant(now.0 - done.service.total().0 + 409_600);
        assert!(disk.dirty_sectors(now) <= 16);
    }
}

#[test]
fn a_read_waits_for_the_background_write_under_way() {
    let spec = DiskSpec { scheduler: Scheduler::Sptf, ..small(WRITE_BACK, "") };
    let mut disk = Disk::new(&spec);
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, write(1200, 8));
    let busy_until = disk.clone().flush(now);
    now.0 += 1;
    let done = serve(&mut disk, &mut now, read(0, 1));
    assert!(now >= busy_until && done.service.overhead.0 > 0, "{done:?}");
}

#[test]
fn a_durable_write_goes_to_the_medium_past_the_cache() {
    let mut disk = Disk::new(&small(WRITE_BACK, ""));
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, write(1000, 8));
    disk.submit_durable(now, write(700, 8));
    now = disk.start(now).unwrap();
    let done = disk.finish(now);
    assert!(!done.cache_hit && done.service.total().0 > MS, "{done:?}");
    assert_eq!(disk.unwritten(now, 700, 8), []);
    assert_eq!(disk.unwritten(now, 0, 1200), [(1000, 1008)], "it does not flush the others");
    assert!(serve(&mut disk, &mut now, write(700, 8)).cache_hit);
    assert_eq!(disk.unwritten(now, 704, 8), [(704, 708)]);
}

#[test]
fn a_flush_costs_its_fixed_part_only_where_something_is_to_be_written() {
    let with = |more: &str| Disk::new(&small(&format!("{WRITE_BACK}\n{more}"), ""));
    let (mut without, mut fixed) = (with(""), with("flush_ms = 30.0"));
    let now = Instant(5);
    assert_eq!(fixed.flush(now), now);
    let mut both = [now, now];
    serve(&mut without, &mut both[0], write(700, 8));
    serve(&mut fixed, &mut both[1], write(700, 8));
    assert_eq!(fixed.flush(both[1]).0, without.flush(both[0]).0 + 30 * MS);
    let later = Instant(both[1].0 + 500 * MS);
    assert_eq!(fixed.flush(later), later, "written while idle");
}

#[test]
fn a_cache_that_holds_few_stretches_waits_for_the_medium() {
    let capacity = "bus_mb_per_s = 10.0\n[write_back]\ncapacity_sectors = 1000\nextents = 2";
    let mut disk = Disk::new(&small(capacity, ""));
    let mut now = Instant::ZERO;
    let mut slow =
        |disk: &mut Disk, lbn| serve(disk, &mut now, write(lbn, 1)).service.total().0 > MS;
    assert!(!slow(&mut disk, 100) && !slow(&mut disk, 900));
    assert!(!slow(&mut disk, 901), "it continues a stretch");
    assert!([300, 1100, 500].map(|lbn| slow(&mut disk, lbn)).contains(&true));
}

#[test]
fn the_cache_writes_in_the_order_of_its_window() {
    let last = |window: u32| {
        let more = format!("{WRITE_BACK}\nwindow = {window}");
        let mut disk = Disk::new(&small(&more, ""));
        let mut now = Instant::ZERO;
        // The first keeps the medium busy while the others come.
        for lbn in [0, 1200, 40, 1160] {
            serve(&mut disk, &mut now, write(lbn, 2));
        }
        let done = disk.flush(now);
        (done, disk.head_cylinder())
    };
    let (in_order, nearest) = (last(1), last(0));
    let cylinder = |lbn| Disk::new(&small(WRITE_BACK, "")).cylinder_of(lbn);
    assert_eq!((in_order.1, nearest.1), (cylinder(1160), cylinder(1200)));
    assert_ne!(in_order.0, nearest.0);
}

#[test]
fn the_age_limit_keeps_a_queued_command_from_starving() {
    let waits = |more: &str| {
        let spec = DiskSpec { scheduler: Scheduler::Sptf, ..small(more, "") };
        let mut disk = Disk::new(&spec);
        let mut now = Instant::ZERO;
        serve(&mut disk, &mut now, read(0, 1));
        disk.submit(now, read(1300, 1));
        for round in 0..400 {
            while disk.outstanding() < 3 {
                disk.submit(now, read(round % 20, 1));
            }
            now = disk.start(now).unwrap();
            if disk.finish(now).op.lbn == 1300 {
                return now.0;
            }
        }
        u64::MAX
    };
    let (without, with) = (waits(""), waits("max_wait_ms = 100.0"));
    assert_eq!(without, u64::MAX, "short seeks always win");
    assert!((100 * MS..130 * MS).contains(&with), "{with}");
}

#[test]
fn a_long_stretch_is_written_in_parts() {
    let more = "bus_mb_per_s = 1000.0\n[write_back]\ncapacity_sectors = 600\nwrite_sectors = 24";
    let wait = |more: &str| {
        let mut disk = Disk::new(&small(more, ""));
        let mut now = Instant::ZERO;
        serve(&mut disk, &mut now, write(0, 480));
        now.0 += MS;
        serve(&mut disk, &mut now, read(1200, 1)).service.overhead.0
    };
    let (parts, at_once) = (wait(more), wait(&more.replace("write_sectors = 24", "")));
    assert!(parts < 25 * MS && at_once > 200 * MS, "{parts} {at_once}");
}
