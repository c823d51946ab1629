//! Queue, scheduler, layout and streaming of the disk model.

mod common;

use std::collections::HashSet;

use common::{Random, read, serve, small, write};
use destage_disk::{Disk, DiskOp, DiskSpec, Scheduler, find, zones};
use destage_engine::units::Instant;

/// Serves everything queued; the tags in order of service.
fn drain(disk: &mut Disk, mut now: Instant) -> Vec<u64> {
    let mut order = Vec::new();
    while let Some(done) = disk.start(now) {
        now = done;
        order.push(disk.finish(now).op.tag);
    }
    order
}

fn queue(disk: &mut Disk, lbns: &[u64]) {
    for (tag, &lbn) in (0..).zip(lbns) {
        disk.submit(Instant::ZERO, DiskOp { lbn, sectors: 1, write: false, tag });
    }
}

#[test]
fn fcfs_keeps_arrival_order_and_cscan_goes_round() {
    let lbns = [900, 100, 500, 1300, 300, 700];
    let order = |scheduler, window| {
        let mut disk = Disk::new(&DiskSpec { scheduler, window, ..small("", "") });
        queue(&mut disk, &lbns);
        drain(&mut disk, Instant::ZERO)
    };
    assert_eq!(order(Scheduler::Fcfs, 6), [0, 1, 2, 3, 4, 5]);
    assert_eq!(order(Scheduler::Cscan, 6), [1, 4, 2, 5, 0, 3]);
    // Two at a time: 100 of {900, 100}, 500 of {900, 500}, 900 of {900, 1300}, ...
    assert_eq!(order(Scheduler::Cscan, 2), [1, 2, 0, 3, 4, 5]);
    assert_eq!(order(Scheduler::Sptf, 1), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn only_the_window_is_seen() {
    let mut disk = Disk::new(&DiskSpec { scheduler: Scheduler::Sptf, window: 2, ..small("", "") });
    queue(&mut disk, &[1300, 1200, 0]);
    let first = drain(&mut disk, Instant::ZERO)[0];
    assert_ne!(first, 2, "the third command is nearest but beyond the window");
    assert_eq!((disk.queued(), disk.outstanding(), disk.busy()), (0, 0, false));
}

#[test]
fn sptf_never_picks_worse_than_any_candidate() {
    for name in ["stow-ref", "wow-ref"] {
        let spec = find(name).unwrap();
        let per_command = (spec.overhead.per_command_ms * 1e6) as u64;
        let mut checked = 0;
        let mut random = Random(3);
        let mut disk = Disk::new(&spec);
        let mut now = Instant::ZERO;
        let mut queued = Vec::new();
        for tag in 0..3000 {
            while queued.len() < spec.window {
                let lbn = random.below(disk.sectors() - 8);
                let op = DiskOp { lbn, sectors: 8, write: random.below(2) == 0, tag };
                disk.submit(now, op);
                queued.push(op);
            }
            let before = disk.clone();
            let best = queued.iter().map(|op| {
                // Settling is in the positioning; overheads differ by a constant only.
                before.positioning_time(Instant(now.0 + per_command), op.lbn, op.write).0
            });
            let best = best.min().unwrap();
            now = disk.start(now).unwrap();
            let done = disk.finish(now);
            queued.retain(|op| *op != done.op);
            let took = done.service.seek + done.service.rotation;
            if done.service.overhead.0 == per_command {
                checked += 1;
                assert!(took.0 <= best, "{:?} took {took:?}, another {best}", done.op);
            }
        }
        assert!(checked > 2900, "{name}: {checked}");
    }
}

#[test]
fn overheads_are_paid_as_described() {
    let mut spec = small("[overhead]\nidle_ms = 0.2\nper_command_ms = 0.5", "");
    spec.window = 8;
    let mut disk = Disk::new(&spec);
    let ops = [read(0, 4), read(4, 4), write(8, 4), write(12, 2), read(15, 1)];
    ops.iter().for_each(|op| disk.submit(Instant::ZERO, *op));
    let mut now = Instant::ZERO;
    let mut paid = Vec::new();
    while let Some(done) = disk.start(now) {
        now = done;
        paid.push(disk.finish(now).service.overhead.0);
    }
    assert_eq!(paid, [700_000, 0, 500_000, 0, 500_000]);
    assert_eq!(serve(&mut disk, &mut now, read(16, 1)).service.overhead.0, 200_000);
    spec.overhead = destage_disk::Overhead { read_ms: 1.1, write_ms: 5.1, ..Default::default() };
    let mut disk = Disk::new(&spec);
    assert_eq!(serve(&mut disk, &mut now, read(0, 1)).service.overhead.0, 1_100_000);
    assert_eq!(serve(&mut disk, &mut now, read(1, 1)).service.overhead.0, 1_100_000);
    assert_eq!(serve(&mut disk, &mut now, write(2, 1)).service.overhead.0, 5_100_000);
}

#[test]
fn settling_is_paid_by_writes_that_move_the_heads() {
    let spec = small("", "");
    let moved = |op: DiskOp| {
        let mut disk = Disk::new(&spec);
        let mut now = Instant::ZERO;
        serve(&mut disk, &mut now, read(0, 1));
        serve(&mut disk, &mut now, op).service.seek.0
    };
    assert_eq!((moved(read(10, 1)), moved(write(10, 1))), (0, 0));
    assert_eq!((moved(read(30, 1)), moved(write(30, 1))), (700_000, 1_000_000));
    assert_eq!((moved(read(72, 1)), moved(write(72, 1))), (900_000, 1_200_000));
}

/// Time of `sectors` from `lbn` on, in commands of `chunk`, two always outstanding.
fn stream_ns(spec: &DiskSpec, lbn: u64, sectors: u64, chunk: u64, write: bool) -> u64 {
    let mut disk = Disk::new(spec);
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, DiskOp { lbn, sectors: 1, write, tag: 0 });
    let mut next = lbn + 1;
    let mut submit = |disk: &mut Disk, now| {
        let sectors = chunk.min(lbn + sectors - next) as u32;
        if sectors > 0 {
            disk.submit(now, DiskOp { lbn: next, sectors, write, tag: 0 });
            next += u64::from(sectors);
        }
    };
    // The disk is kept from going idle by a command already there.
    disk.submit(now, DiskOp { lbn, sectors: 1, write, tag: 0 });
    submit(&mut disk, now);
    now = disk.start(now).unwrap();
    disk.finish(now);
    let begin = now.0;
    loop {
        submit(&mut disk, now);
        let Some(done) = disk.start(now) else { return now.0 - begin };
        now = done;
        disk.finish(now);
    }
}

#[test]
fn a_sequential_stream_reaches_the_media_rate_in_each_zone() {
    for name in ["stow-ref", "wow-ref"] {
        let mut spec = find(name).unwrap();
        spec.scheduler = Scheduler::Fcfs;
        let revolution = 60e9 / spec.rpm;
        for zone in zones(&spec) {
            let (heads, track) = (f64::from(spec.heads), f64::from(zone.sectors_per_track));
            let skewed = (heads - 1.0) * f64::from(zone.track_skew) + f64::from(zone.cylinder_skew);
            let cylinder_ns = heads * revolution + skewed * revolution / track;
            let sectors = 20 * u64::from(spec.heads) * u64::from(zone.sectors_per_track);
            for write in [false, true] {
                let took = stream_ns(&spec, zone.first_lbn, sectors, 128, write) as f64;
                let ratio = took / (20.0 * cylinder_ns);
                assert!((0.98..1.01).contains(&ratio), "{name} {zone:?}: {ratio}");
            }
        }
    }
}

#[test]
fn queued_commands_that_continue_take_exactly_as_long_as_one() {
    for (name, write) in [("stow-ref", false), ("stow-ref", true), ("hp97560", false)] {
        let mut spec = find(name).unwrap();
        spec.scheduler = Scheduler::Fcfs;
        spec.overhead = destage_disk::Overhead::default();
        spec.bus_mb_per_s = None;
        spec.window = 8;
        // Across tracks, cylinders and a zone.
        let all = zones(&spec);
        let lbn = all.get(1).map_or(100_000, |zone| zone.first_lbn - 20_000);
        let whole = stream_ns(&spec, lbn, 40_000, 40_000, write);
        for chunk in [1, 7, 8, 100, 739, 5000] {
            let parts = stream_ns(&spec, lbn, 40_000, chunk, write);
            assert_eq!(parts, whole, "{name} in commands of {chunk} sectors");
        }
    }
}

#[test]
fn every_sector_has_a_place_of_its_own() {
    let slips = "spare_sectors = 3\nslips = [[5, 1], [60, 2]]";
    let ranges = "spares_per = 'range'\nrange_cylinders = 2";
    for (more, zone) in [
        ("", ""),
        ("order = 'serpentine'", ""),
        ("order = 'serpentine-by-zone'", "track_skew = 2\ncylinder_skew = 5"),
        ("", slips),
        ("", "unused_front = 17\nspare_sectors = 30"),
        ("spares_per = 'track'", "spare_sectors = 1\nslips = [[5, 1], [30, 1]]"),
        ("spares_per = 'cylinder'", slips),
        (ranges, slips),
    ] {
        let spec = small(more, zone);
        let disk = Disk::new(&spec);
        let mut places = HashSet::new();
        let mut last = (0, 0);
        for lbn in 0..disk.sectors() {
            let (cylinder, head, sector) = disk.place_of(lbn);
            assert!(cylinder < 26 && head < 3 && sector < 24, "{more} {zone}: {lbn}");
            assert!(places.insert((cylinder, head, sector)), "{more} {zone}: {lbn} is not alone");
            assert!(cylinder >= last.0, "cylinders ascend");
            last = (cylinder, head);
            if spec.spares_per == destage_disk::SparesPer::Zone && zone == slips {
                let slipped = cylinder == 0 && head == 0 && sector == 5;
                assert!(!slipped, "{lbn} is on a slipped sector");
            }
        }
        // The whole drive in one command meets every stretch.
        let mut now = Instant::ZERO;
        let mut disk = Disk::new(&spec);
        let sectors = disk.sectors() as u32;
        serve(&mut disk, &mut now, read(0, sectors));
    }
}

#[test]
fn spares_and_the_cap_lower_the_capacity() {
    let all = 3 * (9 * 24 + 10 * 20 + 7 * 16);
    let held = |more: &str, zone: &str| Disk::new(&small(more, zone)).sectors();
    assert_eq!(held("", ""), all);
    assert_eq!(held("sectors = 700", ""), 700);
    assert_eq!(held("", "spare_sectors = 5\nunused_front = 2"), all - 21);
    assert_eq!(held("spares_per = 'track'", "spare_sectors = 1"), all - 3 * 26);
    assert_eq!(held("spares_per = 'cylinder'", "spare_sectors = 2"), all - 2 * 26);
    let ranges = "spares_per = 'range'\nrange_cylinders = 2";
    assert_eq!(held(ranges, "spare_sectors = 2"), all - 2 * (4 + 5 + 3));
}

#[test]
fn a_slow_bus_bounds_reads_and_holds_writes_back() {
    let mut disk = Disk::new(&small("bus_mb_per_s = 0.1", ""));
    let mut now = Instant::ZERO;
    let service = serve(&mut disk, &mut now, read(0, 10)).service;
    assert_eq!(service.transfer.0, 51_200_000);
    let service = serve(&mut disk, &mut now, write(0, 10)).service;
    let total = service.total().0;
    assert!((51_200_000..51_200_000 + 10_000_000).contains(&total), "{service:?}");
    assert!(service.transfer.0 < 5_000_000);
}

#[test]
fn the_same_calls_give_the_same_times() {
    let run = || {
        let spec = find("stow-ref").unwrap();
        let (mut disk, mut random) = (Disk::new(&spec), Random(11));
        let (mut now, mut digest) = (Instant::ZERO, 0_u64);
        for _ in 0..5000 {
            while disk.outstanding() < 16 {
                let lbn = random.below(disk.sectors() / 8) * 8;
                let op = DiskOp { lbn, sectors: 8, write: random.below(2) == 0, tag: lbn };
                disk.submit(now, op);
            }
            now = disk.start(now).unwrap();
            digest = digest.wrapping_mul(0x100_0000_01b3) ^ disk.finish(now).op.tag ^ now.0;
        }
        digest
    };
    assert_eq!(run(), run());
    assert_eq!(run(), DIGEST, "the model's times changed: say so in the changelog");
}

/// Of the model as it is; any change to a service time changes it.
const DIGEST: u64 = 13_262_120_984_806_182_205;
