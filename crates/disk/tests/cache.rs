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
