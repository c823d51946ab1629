//! Writes of part of a page: acknowledged without a read of the disks, and completed when they are
//! read or destaged.

mod common;

use common::quiet_with;
use destage_engine::array::geometry::Level;
use destage_torture::load::{Kind, Request};
use destage_torture::run::{End, Run};

const LEVELS: [Level; 6] =
    [Level::Single, Level::Raid0, Level::Raid10, Level::Raid4, Level::Raid5, Level::Raid6];

/// An array of four disks with data on them, and nothing dirty.
fn filled(level: Level) -> Run {
    let mut run = quiet_with(level, 1, 32);
    run.fill_open().expect("filled");
    assert_eq!(run.drained(), Ok(End::Done));
    run
}

/// Writes some sectors.
fn write(run: &mut Run, sector: u64, sectors: u64) {
    run.submit(Request::write(sector * 512, sectors * 512)).expect("submitted");
    assert_eq!(run.answered(), Ok(End::Done));
}

/// Parts of the pages of a group: one sector, several, both ends of a write, and a whole page.
fn write_parts(run: &mut Run) {
    write(run, 3, 1);
    write(run, 2 * 8 + 1, 3);
    write(run, 4 * 8 + 6, 12);
    write(run, 7 * 8, 8);
    write(run, 3, 2);
}

#[test]
fn a_part_of_a_page_is_acknowledged_though_no_disk_answers() {
    for level in LEVELS {
        let mut run = filled(level);
        run.world.members.iter_mut().for_each(|disk| disk.hangs = true);
        write_parts(&mut run);
        run.world.members.iter_mut().for_each(|disk| disk.hangs = false);
        assert_eq!(run.read_all(), Ok(End::Done), "{level:?}");
        assert_eq!(run.drained(), Ok(End::Done), "{level:?}");
        assert_eq!(run.settle(), Ok(()), "{level:?}");
    }
}

#[test]
fn parts_of_pages_of_a_failed_member_are_completed_from_its_row() {
    for level in [Level::Raid10, Level::Raid4, Level::Raid5, Level::Raid6] {
        for member in 0..4 {
            let mut run = filled(level);
            write_parts(&mut run);
            run.give_up(member).expect("given up");
            assert_eq!(run.read_all(), Ok(End::Done), "{level:?} without {member}");
            write(&mut run, 8 + 5, 2);
            assert_eq!(run.drained(), Ok(End::Done), "{level:?} without {member}");
            assert_eq!(run.read_all(), Ok(End::Done), "{level:?} without {member}");
            assert_eq!(run.settle(), Ok(()), "{level:?} without {member}");
        }
    }
}

/// What the NVS has of a page is read though the rest cannot be, and is not lost.
#[test]
fn parts_of_a_page_that_cannot_be_read_stay_in_the_nvs() {
    let mut run = filled(Level::Raid0);
    run.spoil(0, 0);
    write(&mut run, 3, 1);
    run.flush_cache().expect("begun");
    let read = Request { kind: Kind::Read, ..Request::write(3 * 512, 512) };
    run.submit(read).expect("submitted");
    assert_eq!(run.answered(), Ok(End::Done));
    assert_eq!(run.dirty_pages(), [0]);
    assert_eq!(run.unreadable_reads(), 0);
}
