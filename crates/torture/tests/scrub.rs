//! Scrub on simulated devices: what is flipped in data, parity, Q or a copy is found, and nothing
//! else, under load; what is repaired reads right; a crash in the midst of it does no harm.

use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::{PAGE_BYTES, Page, StripeId};
use destage_served::{Ack, Defect, Wrong};
use destage_torture::case::{Case, Wanted};
use destage_torture::load::Request;
use destage_torture::run::{End, Run};
use destage_torture::torture;

const LEVELS: [Level; 4] = [Level::Raid10, Level::Raid4, Level::Raid5, Level::Raid6];

/// An array whose second half holds data and is not written any more.
fn filled(level: Level) -> Run {
    filled_with(level, 0)
}

/// The same, with a stripe memory of this many pages.
fn filled_with(level: Level, stripe_memory: u64) -> Run {
    let wanted =
        Wanted { level: Some(level), ack: Some(Ack::Nvs), nvs: Some(1), ..Wanted::default() };
    let mut case = Case::draw(7, &wanted);
    let disks = if level == Level::Raid6 { 6 } else { 4 };
    let (strip_pages, group_stripes) = (4, 2);
    let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages: 64 };
    case.geometry = geometry.checked().expect("an array");
    (case.nvs_pages, case.block_bytes, case.faults) = (48, 512, false);
    (case.settings.cache_off, case.settings.read_cache) = (false, None);
    case.settings.stripe_memory = stripe_memory;
    let mut run = Run::new(case).expect("created");
    run.fill().expect("filled");
    run
}

/// Writes to the first half while a scrub is running.
fn scrub_under_load(run: &mut Run, repair: bool) {
    run.begin_scrub(repair).expect("begun");
    let half = run.bytes() / PAGE_BYTES / 2;
    for step in 0u64.. {
        assert!(step < 20_000, "the scrub does not end: {:?}", run.last_scrub());
        if run.last_scrub().is_some_and(|scrub| !scrub.running) {
            break;
        }
        if step % 3 == 0 && step < 600 {
            run.submit(Request::write(step * 7 % (half - 2) * PAGE_BYTES, 2 * PAGE_BYTES))
                .expect("written");
        }
        run.step().expect("the scrub found what it should");
    }
    assert_eq!(run.answered(), Ok(End::Done));
}

/// A page of a member in the second half by what it holds: data, P, Q, or a copy.
fn place(run: &Run, what: &str) -> (u16, u64) {
    let geometry = run.case.geometry;
    let page = geometry.volume_pages().0 / 4 * 3;
    let place = geometry.place(Page(page));
    let stripe = StripeId(place.page / geometry.strip_pages);
    match what {
        "data" => (place.disk.0, place.page),
        "copy" => (place.disk.0 + 1, place.page),
        "p" => (geometry.parity_disk(stripe).0, place.page),
        "q" => (geometry.q_disk(stripe).0, place.page),
        other => unreachable!("{other}"),
    }
}

#[test]
fn what_is_flipped_is_found_under_load_and_nothing_else() {
    for level in LEVELS {
        let places: &[&str] = match level {
            Level::Raid10 => &["data", "copy"],
            Level::Raid6 => &["data", "p", "q"],
            _ => &["data", "p"],
        };
        for what in places {
            let mut run = filled(level);
            scrub_under_load(&mut run, false);
            let clean = run.last_scrub().expect("a scrub");
            assert_eq!((clean.whole, clean.inconsistent_rows), (true, 0), "{level:?}");
            assert_eq!(clean.rows_done, clean.rows);
            let (member, page) = place(&run, what);
            run.flip(member, page, 77);
            scrub_under_load(&mut run, false);
            let found = run.last_scrub().expect("a scrub");
            assert_eq!((found.inconsistent_rows, found.rows_left()), (1, 1), "{level:?} {what}");
            let expected = match level {
                Level::Raid6 => Wrong::Member(member),
                Level::Raid10 => Wrong::Copies,
                _ => Wrong::Parity,
            };
            assert_eq!(found.ranges[0].wrong, expected, "{level:?} {what}");
            scrub_under_load(&mut run, true);
            let mended = run.last_scrub().expect("a scrub");
            assert_eq!((mended.repaired_rows, mended.rows_left()), (1, 0), "{level:?} {what}");
            run.forget_flips();
            scrub_under_load(&mut run, false);
            assert_eq!(run.last_scrub().expect("a scrub").inconsistent_rows, 0);
            // Without a Q nothing shows that it was the data, or the first copy.
            if level == Level::Raid6 || *what != "data" {
                run.settle().unwrap_or_else(|why| panic!("{level:?} {what}: {why}"));
            }
        }
    }
}

#[test]
fn on_level_6_sectors_of_two_strips_of_a_row_are_put_right() {
    let mut run = filled(Level::Raid6);
    let page = run.case.geometry.volume_pages().0 / 4 * 3;
    let geometry = run.case.geometry;
    let a = geometry.place(Page(page));
    let b = geometry.place(Page(page + geometry.strip_pages));
    assert_eq!(a.page, b.page);
    run.flip(a.disk.0, a.page, 5);
    run.flip(b.disk.0, b.page, 4096 + 5);
    run.scrub(true).expect("scrubbed");
    run.forget_flips();
    run.settle().expect("both were right");
}

#[test]
fn a_crash_in_the_midst_of_a_repair_does_no_harm() {
    for level in LEVELS {
        for operations in 0..60 {
            let mut run = filled(level);
            let (member, page) = place(&run, if level == Level::Raid10 { "copy" } else { "p" });
            for page in page & !3..(page & !3) + 4 {
                run.flip(member, page, 900);
            }
            run.world.crash_at = Some(run.world.operations + operations);
            let end = run.scrub(true).expect("found as flipped");
            if end == End::Done {
                assert!(operations > 10, "{level:?}");
                break;
            }
            run.forget_flips();
            run.crash_and_open().expect("opened");
            run.scrub_quietly(true).expect("scrubbed");
            run.scrub(false).expect("nothing is wrong any more");
            run.settle().unwrap_or_else(|why| panic!("{level:?} at {operations}: {why}"));
        }
    }
}

#[test]
fn pages_that_cannot_be_read_are_written_again() {
    for level in LEVELS {
        let mut run = filled(level);
        let (member, page) = place(&run, "data");
        let sector = ((1 << 20) + page * PAGE_BYTES) / 512 + 3;
        run.world.members[usize::from(member)].spoil(sector);
        run.scrub(false).expect("scrubbed");
        let scrub = run.last_scrub().expect("a scrub");
        assert_eq!((scrub.unreadable_rows, scrub.rows_left()), (1, 0), "{level:?}");
        assert_eq!(scrub.ranges[0].wrong, Wrong::Unreadable(member));
        assert!(!run.world.members[usize::from(member)].has_bad());
        run.settle().expect("as it was");
    }
}

#[test]
fn a_scrub_that_does_not_wait_for_destages_is_caught() {
    for level in [Level::Raid5, Level::Raid10] {
        let wanted = Wanted {
            level: Some(level),
            nvs: Some(1),
            scrubs: true,
            defect: Defect::ScrubsCarelessly,
            ..Wanted::default()
        };
        let failure = (1..200).find_map(|seed| torture(seed, 4, &wanted).failure);
        println!("{level:?}: {failure:?}");
        assert!(failure.is_some_and(|why| why.contains("a scrub found")), "{level:?}");
    }
}

/// Writes a page of a row whose other pages of data, and perhaps its parity, cannot be read, and
/// destages what can be. The dirty pages then, and the pages that were kept in the NVS.
fn destaged_next_to_unreadable_pages(stripe_memory: u64, parity: bool) -> (u64, Vec<u64>, u64) {
    let mut run = filled_with(Level::Raid5, stripe_memory);
    let geometry = run.case.geometry;
    let first = geometry.volume_pages().0 / 4 * 3;
    let page = first / geometry.strip_pages * geometry.strip_pages;
    let at = geometry.place(Page(page));
    // The row's other strips: written over is only the first.
    for strip in 1..3 {
        let other = geometry.place(Page(page + strip * geometry.strip_pages));
        assert_eq!(other.page, at.page, "one row");
        let sector = ((1 << 20) + other.page * PAGE_BYTES) / 512;
        run.world.members[usize::from(other.disk.0)].spoil(sector);
    }
    if !parity {
        let disk = geometry.parity_disk(StripeId(at.page / geometry.strip_pages));
        let sector = ((1 << 20) + at.page * PAGE_BYTES) / 512;
        run.world.members[usize::from(disk.0)].spoil(sector);
    }
    run.submit(Request::write(page * PAGE_BYTES, PAGE_BYTES)).expect("written");
    run.answered().expect("answered");
    assert_eq!(run.drained(), Ok(End::Done), "all but that page");
    (page, run.dirty_pages(), run.counts.kept)
}

#[test]
fn a_row_that_too_few_disks_can_read_is_kept_in_nvs_when_it_is_destaged() {
    let (page, dirty, kept) = destaged_next_to_unreadable_pages(0, false);
    assert_eq!((dirty, kept), (vec![page], 1));
}

#[test]
fn a_row_whose_old_data_and_parity_can_be_read_is_modified_in_place() {
    let (_, dirty, kept) = destaged_next_to_unreadable_pages(0, true);
    assert_eq!((dirty, kept), (vec![], 0));
}

#[test]
fn a_row_whose_old_data_and_parity_are_in_memory_is_destaged_without_reads() {
    let (_, dirty, kept) = destaged_next_to_unreadable_pages(1000, false);
    assert_eq!((dirty, kept), (vec![], 0));
}

/// The row's parity in memory is that of before the repair.
#[test]
fn a_row_that_a_scrub_repaired_is_no_longer_in_the_stripe_memory() {
    let mut run = filled_with(Level::Raid5, 1000);
    let geometry = run.case.geometry;
    let (member, page) = place(&run, "data");
    run.flip(member, page, 77);
    run.scrub(true).expect("found as flipped");
    assert_eq!(run.last_scrub().expect("a scrub").repaired_rows, 1);
    run.forget_flips();
    let flipped = geometry.volume_pages().0 / 4 * 3;
    let other = (flipped..).find(|page| run.disk_of(*page) != member).expect("another strip");
    assert_eq!(run.place_of(other).1 / geometry.strip_pages, page / geometry.strip_pages);
    let other = other + page % geometry.strip_pages;
    run.submit(Request::write(other * PAGE_BYTES, PAGE_BYTES)).expect("written");
    assert_eq!(run.answered(), Ok(End::Done));
    assert_eq!(run.drained(), Ok(End::Done));
    run.scrub(false).expect("the parity is that of the data");
    assert_eq!(run.last_scrub().expect("a scrub").inconsistent_rows, 0);
}
