//! Rows that a crash left half written, in a group that cannot be destaged for as long as some
//! page of it cannot be read: what such a row implies is not used, and a scrub leaves it out
//! (docs/durability.md, "Rows that cannot be computed").

mod common;

use common::{opened, quiet_case};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::PAGE_BYTES;
use destage_torture::load::{Kind, Request};
use destage_torture::run::{End, Run};
use destage_torture::{Survivors, case::Case};

fn write(run: &mut Run, page: u64) {
    run.submit(Request::write(page * PAGE_BYTES, PAGE_BYTES)).expect("submitted");
    assert_eq!(run.answered(), Ok(End::Done));
}

/// Whether a page can be read. What is read is right.
fn reads(run: &mut Run, page: u64) -> bool {
    reads_all(run, page, 1)
}

/// Whether pages can be read at once.
fn reads_all(run: &mut Run, page: u64, pages: u64) -> bool {
    let before = run.counts.unreadable;
    let (offset, bytes) = (page * PAGE_BYTES, pages * PAGE_BYTES);
    let read = Request { kind: Kind::Read, offset, bytes, fua: false };
    run.submit(read).expect("submitted");
    assert_eq!(run.answered(), Ok(End::Done));
    run.counts.unreadable == before
}

/// The page of the volume at this place.
fn page_at(run: &Run, member: u16, row: u64) -> Option<u64> {
    let place = |page: &u64| run.place_of(*page) == (member, row);
    (0..run.bytes() / PAGE_BYTES).find(place)
}

/// A group of which two rows are half written, or none.
struct HalfWritten {
    run: Run,
    /// The pages of the volume that the missing member had of these rows.
    clean: [u64; 2],
    row: u64,
}

/// Without member 0 a destage writes two rows, in which member 1 has a page: those of the first
/// stripe from `row` on that fits. The power fails after this many operations, and then what member
/// 1 had of the first row cannot be read. `None`: the destage was done, or is done when redone.
fn half_written(mut case: Case, row: u64, draw: u64) -> Option<HalfWritten> {
    let (seed, operations) = (draw / 32, draw % 32);
    case.seed = seed;
    let step = case.geometry.strip_pages as usize;
    let mut run = opened(case);
    run.fill_open().expect("filled");
    run.give_up(0).expect("given up");
    assert_eq!(run.quiet(), Ok(()));
    let fits = |row: &u64| page_at(&run, 0, *row).is_some() && page_at(&run, 1, *row).is_some();
    let row = (row..).step_by(step).find(fits).expect("a stripe that fits");
    let [clean, dirty] = [0, 1].map(|member| {
        [row, row + 2].map(|row| page_at(&run, member, row).expect("it has data of the stripe"))
    });
    dirty.into_iter().for_each(|page| write(&mut run, page));
    run.world.crash_at = Some(run.world.operations + operations);
    if run.drained() == Ok(End::Done) {
        return None;
    }
    run.crash(Survivors::Random);
    run.spoil(1, row);
    assert_eq!(run.open(), Ok(End::Done), "{draw}");
    run.flush_cache().expect("begun");
    let tried = |run: &Run| run.status().kept_pages == 2 || run.dirty_pages().is_empty();
    assert_eq!(run.drive_until(&tried), Ok(End::Done), "{draw}");
    (run.status().kept_pages == 2).then_some(HalfWritten { run, clean, row })
}

/// Rebuilds member 0. Returns whether the second row was in doubt.
fn rebuild(half: &mut HalfWritten) -> bool {
    half.run.replace_member(0).expect("a spare");
    assert_eq!(half.run.drive_until(&|run| run.is_in_sync()), Ok(End::Done));
    half.run.lost_pages_now().contains(&(0, half.row + 2))
}

fn small() -> Case {
    quiet_case(Level::Raid5, 4, 1, 32)
}

#[test]
fn a_rebuild_computes_nothing_from_half_written_rows() {
    for readable in [false, true] {
        let mut doubted = 0;
        for mut half in (0..256).filter_map(|draw| half_written(small(), 0, draw)) {
            // That the page can be read again is not noticed before the next try.
            if readable {
                half.run.world.members[1].heal();
            }
            doubted += u64::from(rebuild(&mut half));
            for page in half.clean {
                reads(&mut half.run, page);
            }
        }
        assert!(doubted > 2, "{doubted}");
    }
}

#[test]
fn a_scrub_that_leaves_out_half_written_rows_is_not_complete() {
    let mut halves = (0..256).filter_map(|draw| half_written(small(), 0, draw));
    let mut half = halves.find_map(|mut half| rebuild(&mut half).then_some(half));
    let run = &mut half.as_mut().expect("one was in doubt").run;
    assert_eq!(run.status().kept_pages, 2);
    assert_eq!(run.scrub_quietly(true), Ok(End::Done));
    let scrub = run.last_scrub().expect("a scrub");
    assert!(!scrub.whole && scrub.rows_done < scrub.rows, "{scrub:?}");
}

/// Which rows are in doubt is known of each page of a group, also of more than 64.
#[test]
fn of_a_large_group_only_half_written_rows_are_in_doubt() {
    let (strip_pages, group_stripes, disk_pages) = (16, 2, 64);
    let geometry =
        Geometry { level: Level::Raid5, disks: 5, strip_pages, group_stripes, disk_pages };
    let mut case = quiet_case(Level::Raid5, 5, 1, 32);
    case.geometry = geometry.checked().expect("an array");
    let mut doubted = 0;
    for draw in 0..128 {
        // The second stripe of its group.
        let Some(HalfWritten { mut run, clean, row }) = half_written(case.clone(), 16, draw) else {
            continue;
        };
        assert_eq!(row / strip_pages % 2, 1, "the upper half of the group");
        let first = clean[0] / 128 * 128;
        let unread: Vec<u64> =
            (first..first + 128).filter(|page| !reads(&mut run, *page)).collect();
        assert!(unread == clean || unread == clean[..1], "{draw}: {unread:?}");
        if unread.len() == 2 {
            doubted += 1;
            // The row of the first page is not in doubt.
            assert!(!reads_all(&mut run, clean[1] - 1, 3), "{draw}");
        }
    }
    assert!(doubted > 2, "{doubted}");
}
