//! The served array's read cache on simulated devices (docs/durability.md, "The read cache"):
//! what is cached is read without a device, what is overwritten, trimmed, repaired or on a lost
//! disk reads right; volumes whose cache has a deliberate fault are caught.

use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::readcache::choose;
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::units::{PAGE_BYTES, Page};
use destage_served::{Ack, Defect, Status};
use destage_torture::case::{Case, Wanted};
use destage_torture::load::{Kind, Request};
use destage_torture::run::Run;

const ON_WRITE: [OnWrite; 3] = [OnWrite::Invalidate, OnWrite::Update, OnWrite::Keep];

/// An array full of data, all of it on the disks; a read cache of this many pages.
fn filled(level: Level, name: &str, pages: u64, on_write: OnWrite, defect: Defect) -> Run {
    let wanted =
        Wanted { level: Some(level), ack: Some(Ack::Nvs), nvs: Some(1), ..Wanted::default() };
    let mut case = Case::draw(7, &wanted);
    let disks = match level {
        Level::Single => 1,
        Level::Raid6 => 6,
        _ => 4,
    };
    let geometry = Geometry { level, disks, strip_pages: 4, group_stripes: 2, disk_pages: 64 };
    case.geometry = geometry.checked().expect("an array");
    (case.nvs_pages, case.block_bytes, case.faults) = (48, 512, false);
    (case.settings.cache_off, case.settings.defect) = (false, defect);
    case.settings.window = 8;
    let policy = choose(name).expect("of the table");
    case.settings.read_cache = Some(ReadCacheChoice { policy, pages, on_write });
    let mut run = Run::new(case).expect("created");
    run.fill().expect("filled");
    run
}

/// A request, answered and checked.
fn ask(run: &mut Run, kind: Kind, page: u64, pages: u64) {
    let (offset, bytes) = (page * PAGE_BYTES, pages * PAGE_BYTES);
    run.submit(Request { kind, offset, bytes, fua: false }).expect("asked");
    run.answered().expect("right");
}

/// What a read added: device reads, pages from the cache, penalty.
fn read(run: &mut Run, page: u64, pages: u64) -> (u64, u64, u64) {
    let before = run.status().counters;
    ask(run, Kind::Read, page, pages);
    let after = run.status().counters;
    (
        after.disk_reads - before.disk_reads,
        after.read_pages_cached - before.read_pages_cached,
        after.read_penalty - before.read_penalty,
    )
}

#[test]
fn the_second_read_touches_no_device_and_writes_are_seen() {
    for level in [Level::Raid5, Level::Raid10] {
        for on_write in ON_WRITE {
            let mut run = filled(level, "lru", 32, on_write, Defect::None);
            // `keep` has what was written last.
            ask(&mut run, Kind::Read, 64, 32);
            let (reads, cached, penalty) = read(&mut run, 3, 6);
            assert!(reads > 0 && (cached, penalty) == (0, 6), "{level:?}: {reads}");
            assert_eq!(read(&mut run, 3, 6), (0, 6, 0), "{level:?}, {on_write:?}");
            // Part of it is written: the rest is cached still, and the NVS has the part.
            ask(&mut run, Kind::Write, 4, 2);
            assert_eq!(read(&mut run, 3, 6), (0, 4, 0), "{level:?}, {on_write:?}");
            run.drained().expect("drained");
            let (reads, cached, _) = read(&mut run, 3, 6);
            let updated = on_write != OnWrite::Invalidate;
            assert_eq!(
                (reads == 0, cached),
                (updated, if updated { 6 } else { 4 }),
                "{on_write:?}"
            );
            for kind in [Kind::Trim, Kind::Zero, Kind::Write, Kind::Trim] {
                ask(&mut run, kind, 3, 2);
                read(&mut run, 2, 8);
                run.drained().expect("drained");
                read(&mut run, 2, 8);
            }
            run.settle().expect("right");
        }
    }
}

#[test]
fn destaged_pages_may_stay_without_a_read() {
    let mut run = filled(Level::Raid5, "lru", 64, OnWrite::Keep, Defect::None);
    ask(&mut run, Kind::Write, 10, 5);
    run.drained().expect("drained");
    assert_eq!(read(&mut run, 10, 5), (0, 5, 0));
    let Status { read_cache, .. } = run.status();
    let cache = read_cache.expect("a cache");
    assert_eq!((cache.state.held, cache.state.pages), (64, 64), "and no more than that");
    assert!(cache.memory_bytes < 64 * (PAGE_BYTES + 200), "{}", cache.memory_bytes);
}

#[test]
fn a_lost_disk_counts_at_once_and_what_is_cached_of_it_needs_no_row() {
    for (level, penalty) in [(Level::Raid5, 3), (Level::Raid6, 4)] {
        let mut run = filled(level, "vdf-lru", 16, OnWrite::Invalidate, Defect::None);
        let geometry = run.case.geometry;
        let lost = geometry.place(Page(0)).disk;
        assert_eq!(read(&mut run, 0, 1).2, 1);
        assert_eq!(run.status().read_cache.expect("a cache").state.weight, None);
        run.give_up(lost.0).expect("given up");
        let state = run.status().read_cache.expect("a cache").state;
        assert!(state.weight.is_some(), "{level:?}");
        assert_eq!(state.before, run.status().counters, "counted again since then");
        assert_eq!(read(&mut run, 0, 1), (0, 1, 0));
        // The block of the lost disk outlives younger ones of the others; lru would have none.
        let others = (0..geometry.volume_pages().0).map(Page);
        for page in others.filter(|page| geometry.place(*page).disk != lost).take(17) {
            read(&mut run, page.0, 1);
        }
        assert_eq!(read(&mut run, 0, 1), (0, 1, 0), "{level:?}");
        // Another page of that disk costs what it costs.
        assert_eq!(read(&mut run, 1, 1).2, penalty, "{level:?}");
        run.settle().expect("right");
    }
}

/// A page of data whose disk, or whose copy, holds a wrong bit is read, then repaired by a scrub,
/// then read again.
fn repaired(level: Level, defect: Defect) -> Result<(), String> {
    let mut run = filled(level, "lru", 32, OnWrite::Invalidate, defect);
    let page = run.case.geometry.volume_pages().0 / 4 * 3;
    let place = run.case.geometry.place(Page(page));
    run.flip(place.disk.0, place.page, 77);
    let read =
        Request { kind: Kind::Read, offset: page * PAGE_BYTES, bytes: PAGE_BYTES, fua: false };
    run.submit(read).expect("asked");
    // Nothing on this level shows a read that a bit is wrong.
    let wrong = run.answered().expect_err("the flipped bit");
    assert!(wrong.contains("bytes that nobody wrote there"), "{wrong}");
    assert!(run.status().read_cache.expect("a cache").state.held > 0);
    run.scrub(true)?;
    run.forget_flips();
    run.submit(read)?;
    run.answered().map(|_| ())
}

#[test]
fn what_a_scrub_puts_right_is_read_right() {
    assert_eq!(repaired(Level::Raid6, Defect::None), Ok(()));
    let kept = repaired(Level::Raid6, Defect::CachesWhatWasRepaired).expect_err("the old bytes");
    assert!(kept.contains("bytes that nobody wrote there"), "{kept}");
}

/// A read looks at the devices, is overtaken by a write and its destage, and ends then; what the
/// next read gives. `exchanged`: the cache is off while the write comes.
fn overtaken(
    level: Level,
    on_write: OnWrite,
    defect: Defect,
    exchanged: bool,
) -> Result<(), String> {
    let mut run = filled(level, "lru", 32, on_write, defect);
    let cache = run.case.settings.read_cache.clone();
    run.exchange_cache(cache.clone());
    let request = |kind| Request { kind, offset: 0, bytes: 2 * PAGE_BYTES, fua: false };
    run.submit(request(Kind::Read))?;
    run.world.hold();
    if exchanged {
        run.exchange_cache(None);
    }
    run.submit(request(Kind::Write))?;
    run.flush_cache()?;
    let destaged = |run: &Run| {
        let status = run.status();
        status.requests == 1 && status.occupancy_pages == 0 && status.dirty_pages == 0
    };
    run.drive_until(&destaged)?;
    if exchanged {
        run.exchange_cache(cache);
    }
    run.world.let_go();
    run.answered()?;
    run.submit(request(Kind::Read))?;
    run.answered()?;
    run.settle()
}

#[test]
fn a_read_that_a_write_overtakes_leaves_nothing_old() {
    for level in [Level::Single, Level::Raid5, Level::Raid6, Level::Raid10] {
        for on_write in ON_WRITE {
            for exchanged in [false, true] {
                let outcome = overtaken(level, on_write, Defect::None, exchanged);
                assert_eq!(outcome, Ok(()), "{level:?}, {on_write:?}, {exchanged}");
            }
        }
        for on_write in [OnWrite::Invalidate, OnWrite::Update] {
            let why = overtaken(level, on_write, Defect::CachesOvertakenReads, false);
            let why = why.expect_err("the old bytes");
            assert!(why.contains("in place of"), "{level:?}: {why}");
        }
    }
}
