//! The bus sector by sector, overheads by kind, and what a drive's buffer and heads do besides.

mod common;

use common::{read, serve, small, write};
use destage_disk::{Completed, Disk, DiskOp, DiskSpec, SpecError, find, registry};
use destage_engine::units::Instant;

const MS: u64 = 1_000_000;
/// Time of a sector on the small drive's first zone: 10 ms a revolution of 24.
const SECTOR: u64 = 416_667;

/// Serves commands one after another, each right after the one before; times in ns.
fn times(spec: &DiskSpec, ops: &[DiskOp]) -> Vec<u64> {
    let (mut disk, mut now) = (Disk::new(spec), Instant::ZERO);
    ops.iter().map(|op| serve(&mut disk, &mut now, *op).service.total().0).collect()
}

fn near(actual: u64, expected: u64) {
    assert!(actual.abs_diff(expected) < 50, "{actual}, not {expected}");
}

fn bus(sector_ms: f64, more: &str) -> DiskSpec {
    small(
        &format!("bus = {{ read_sector_ms = {sector_ms}, write_sector_ms = {sector_ms}{more} }}"),
        "",
    )
}

#[test]
fn a_reads_last_sector_crosses_the_bus_after_it_was_read() {
    near(times(&bus(0.1, ""), &[read(0, 6)])[0], 6 * SECTOR + MS / 10);
    // A slower bus starts with the first sector and then sets the pace.
    near(times(&bus(1.0, ""), &[read(0, 6)])[0], SECTOR + 6 * MS);
}

#[test]
fn a_transfer_begins_when_its_share_is_in_the_buffer() {
    let held = bus(1.0, ", read_start = 0.5, reselect_ms = 0.2");
    near(times(&held, &[read(0, 6)])[0], 3 * SECTOR + MS / 5 + 6 * MS);
    // Where the share is of each track, the first track's sectors cross while the heads move on.
    let whole = bus(0.1, ", read_start = 1.0");
    let by_track = bus(0.1, ", read_start = 1.0, read_start_of = 'track'");
    near(times(&whole, &[read(0, 6)])[0], 6 * SECTOR + 6 * MS / 10);
    near(times(&by_track, &[read(0, 6)])[0], 6 * SECTOR + 6 * MS / 10);
    let (whole, by_track) = (times(&whole, &[read(20, 8)])[0], times(&by_track, &[read(20, 8)])[0]);
    near(whole, by_track + 4 * MS / 10);
}

#[test]
fn a_write_waits_for_its_data_while_the_arm_moves() {
    let lead = bus(1.0, ", write_lead_ms = 2.0");
    // Its data are there after 3 ms: too late for a slot at .4 ms, in time for one at 3.3.
    near(times(&lead, &[write(1, 1)])[0], 10 * MS + 2 * SECTOR);
    near(times(&lead, &[write(8, 1)])[0], 9 * SECTOR);
    // Six sectors take 6 ms on the bus and 2.5 on the medium: the first is held back 5.5 ms.
    near(times(&lead, &[write(13, 6)])[0], 10 * MS + 19 * SECTOR);
    near(times(&lead, &[write(14, 6)])[0], 20 * SECTOR);
}

#[test]
fn overheads_depend_on_the_kind_and_on_what_came_before() {
    let spec = small(
        "[overhead]\nread_ms = 0.1\nwrite_ms = 0.2\nread_after_write_ms = 0.3\n\
         write_after_read_ms = 0.4\nread_done_ms = 0.01\nwrite_done_ms = 0.02\n\
         [overhead.hit]\nread_ms = 0.05\nread_after_write_ms = 0.06\nwrite_ms = 0.07\n\
         write_after_read_ms = 0.08\n[read_ahead]\nsegments = 1\nsegment_sectors = 48\n\
         ahead_sectors = 24",
        "",
    );
    let (mut disk, mut now) = (Disk::new(&spec), Instant::ZERO);
    let mut overhead = |op| {
        now.0 += 50 * MS;
        let done: Completed = serve(&mut disk, &mut now, op);
        (done.cache_hit, done.service.overhead.0)
    };
    assert_eq!(overhead(read(0, 2)), (false, 110_000));
    assert_eq!(overhead(read(2, 2)), (true, 60_000));
    assert_eq!(overhead(write(100, 2)), (false, 420_000));
    assert_eq!(overhead(write(200, 2)), (false, 220_000));
    assert_eq!(overhead(read(300, 2)), (false, 310_000));
    assert_eq!(overhead(read(302, 2)), (true, 60_000));
}

#[test]
fn a_read_on_arrival_takes_one_revolution_at_most() {
    let spec = small("read_on_arrival = true", "");
    // 20 of 24 sectors; the head comes when sector 4 begins, in the midst of them.
    let all = times(&spec, &[read(0, 4), read(0, 20)]);
    near(all[1], 10 * MS);
    // Over the end of a track it reads in order.
    let plain = small("", "");
    let over = [read(0, 4), read(0, 30)];
    assert_eq!(times(&spec, &over), times(&plain, &over));
}

#[test]
fn the_heads_jog_between_a_write_and_a_read() {
    let jogs = |op| {
        let (mut disk, mut now) = (Disk::new(&small("jog_ms = 0.5", "")), Instant::ZERO);
        serve(&mut disk, &mut now, write(0, 2));
        serve(&mut disk, &mut now, op).service.seek.0
    };
    assert_eq!((jogs(read(8, 2)), jogs(write(8, 2))), (500_000, 0));
    assert_eq!(jogs(read(30, 2)), 700_000, "a head switch takes longer");
}

fn ahead(more: &str) -> DiskSpec {
    small(
        &format!("[read_ahead]\nsegments = 2\nsegment_sectors = 100\nahead_sectors = 80\n{more}"),
        "",
    )
}

/// Whether a read is a buffer hit long after the first command.
fn hits(spec: &DiskSpec, first: DiskOp, then: DiskOp) -> bool {
    let (mut disk, mut now) = (Disk::new(spec), Instant::ZERO);
    serve(&mut disk, &mut now, first);
    now.0 += 200 * MS;
    serve(&mut disk, &mut now, then).cache_hit
}

#[test]
fn read_ahead_stops_where_the_spec_says() {
    // Tracks of 24 sectors, cylinders of 72.
    for (until, track, cylinder) in
        [("end", true, true), ("cylinder", true, false), ("track", false, false)]
    {
        let spec = ahead(&format!("until = '{until}'"));
        assert!(hits(&spec, read(4, 2), read(20, 4)), "{until}");
        assert_eq!(hits(&spec, read(4, 2), read(30, 4)), track, "{until}");
        assert_eq!(hits(&spec, read(4, 2), read(72, 4)), cylinder, "{until}");
    }
}

#[test]
fn what_passed_before_is_kept_and_what_was_read_dropped_where_the_spec_says() {
    // The head comes at the start of the track and waits for sector 20.
    let (first, before, again) = (read(20, 2), read(10, 2), read(20, 2));
    let spec = ahead("");
    assert_eq!((hits(&spec, first, before), hits(&spec, first, again)), (false, true));
    let spec = ahead("keeps_before = true");
    assert_eq!((hits(&spec, first, before), hits(&spec, first, again)), (true, true));
    let spec = ahead("drops_read = true");
    assert_eq!((hits(&spec, first, before), hits(&spec, first, again)), (false, false));
    assert!(hits(&spec, first, read(22, 2)));
}

#[test]
fn the_medium_reads_only_what_the_buffer_lacks() {
    let spec = ahead("until = 'track'");
    let (mut disk, mut now) = (Disk::new(&spec), Instant::ZERO);
    serve(&mut disk, &mut now, read(10, 4));
    now.0 = 100 * MS;
    let done = serve(&mut disk, &mut now, read(20, 8));
    assert_eq!((done.op.lbn, done.op.sectors, done.cache_hit), (20, 8, false));
    near(done.service.transfer.0, 4 * SECTOR);
    // The whole is in the buffer now.
    assert!(serve(&mut disk, &mut now, read(20, 8)).cache_hit);
}

#[test]
fn what_the_buffer_holds_crosses_the_bus_while_the_medium_reads_the_rest() {
    let spec = |sector_ms: f64| {
        let bus = format!("[bus]\nread_sector_ms = {sector_ms}\nwrite_sector_ms = {sector_ms}");
        ahead(&format!("until = 'track'\n{bus}"))
    };
    let took = |spec: &DiskSpec| {
        let (mut disk, mut now) = (Disk::new(spec), Instant::ZERO);
        serve(&mut disk, &mut now, read(10, 4));
        now.0 = 100 * MS;
        // Four of its sectors are on the track that was read to its end.
        serve(&mut disk, &mut now, read(20, 8)).service
    };
    // The bus is the slower: all sectors cross it, from the start on.
    near(took(&spec(4.0)).total().0, 32 * MS);
    // The medium is: the front has crossed when the rest comes.
    near(took(&spec(0.1)).transfer.0, 4 * SECTOR + MS / 10);
}

/// Sequential reads, whatever the read-ahead has of them, take the time of the bus at least.
#[test]
fn no_read_of_a_shipped_drive_is_faster_than_its_bus() {
    let mut drives = 0;
    for entry in registry() {
        let spec = find(entry.name).unwrap();
        let at_rate = spec.bus_mb_per_s.map(|rate| f64::from(spec.sector_bytes) / rate / 1e3);
        let Some(sector_ms) = spec.bus.map(|bus| bus.read_sector_ms).or(at_rate) else { continue };
        drives += 1;
        for (sectors, pause) in
            [8, 24, 64, 128, 512].into_iter().flat_map(|n| [0, 2 * MS, 20 * MS].map(|ns| (n, ns)))
        {
            let (mut disk, mut now) = (Disk::new(&spec), Instant::ZERO);
            for at in 0..60 {
                let done = serve(&mut disk, &mut now, read(at * u64::from(sectors), sectors));
                let (took, least) =
                    (done.service.total().as_millis_f64(), f64::from(sectors) * sector_ms);
                assert!(took > least - 1e-5, "{}: {sectors} sectors in {took} ms", entry.name);
                now.0 += pause;
            }
        }
    }
    assert_eq!(drives, 12);
}

#[test]
fn only_writes_that_append_are_acknowledged_early_where_the_spec_says() {
    let early = |more: &str| {
        let spec = small(&format!("[write_back]\ncapacity_sectors = 64\n{more}"), "");
        let (mut disk, mut now) = (Disk::new(&spec), Instant::ZERO);
        [write(10, 2), write(12, 2), write(100, 2), read(300, 2), write(102, 2)].map(|op| {
            now.0 += 100 * MS;
            serve(&mut disk, &mut now, op).cache_hit
        })
    };
    assert_eq!(early(""), [true, true, true, false, true]);
    assert_eq!(early("appends_only = true"), [false, true, false, false, true]);
}

#[test]
fn a_bus_that_cannot_be_is_refused() {
    let mut spec = bus(0.1, "");
    spec.bus_mb_per_s = Some(10.0);
    assert!(matches!(spec.validate(), Err(SpecError::Value { key: "bus_mb_per_s", .. })));
    let mut spec = bus(0.1, "");
    spec.bus.as_mut().unwrap().read_start = 1.5;
    assert!(matches!(spec.validate(), Err(SpecError::Value { key: "bus.read_start", .. })));
    spec = bus(0.1, "");
    spec.overhead.read_done_ms = -1.0;
    assert!(matches!(spec.validate(), Err(SpecError::Value { key: "overhead.read_done_ms", .. })));
}
