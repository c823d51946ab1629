//! A new NVS mirror, filled under load: the power failing at any operation of it leaves either
//! the old set or the new; when it counts, it alone has everything.

use destage_engine::units::PAGE_BYTES;
use destage_served::Ack;
use destage_torture::Survivors;
use destage_torture::case::{Case, Wanted};
use destage_torture::load::{Kind, Request};
use destage_torture::run::Run;

/// An array with one NVS device in use, of one or two.
fn one_left(nvs: u16) -> Run {
    let level = Some(destage_engine::array::geometry::Level::Raid5);
    let wanted = Wanted { level, ack: Some(Ack::Nvs), nvs: Some(nvs), ..Wanted::default() };
    let mut case = Case::draw(3, &wanted);
    (case.nvs_pages, case.block_bytes, case.faults) = (24, 512, false);
    case.settings.cache_off = false;
    let mut run = Run::new(case).expect("created");
    run.open().expect("opened");
    for n in 0..60 {
        write(&mut run, n);
        run.answered().expect("answered");
        if nvs == 2 && n == 30 {
            run.world.nvs[0].gone = true;
        }
    }
    assert_eq!(run.nvs_in_use().len(), 1);
    run
}

fn write(run: &mut Run, n: u64) {
    let pages = run.bytes() / PAGE_BYTES - 2;
    let (offset, bytes) = (n * 7 % pages * PAGE_BYTES, (1 + n % 2) * PAGE_BYTES);
    run.submit(Request { kind: Kind::Write, offset, bytes, fua: false }).expect("submitted");
}

/// Writes while the mirror is filled; whether it was before the power failed.
fn fill(run: &mut Run) -> Result<bool, String> {
    let lost = 1 - run.nvs_in_use()[0];
    run.replace_nvs(lost)?;
    for n in 0..5_000 {
        if n % 4 == 0 && n < 1200 {
            write(run, n);
        }
        run.step()?;
        if run.world.crashed {
            return Ok(false);
        }
        if run.is_mirrored() {
            return Ok(true);
        }
    }
    Err(format!("it is not filled: {:?}", run.mirror_status()))
}

#[test]
fn the_power_failing_at_any_step_leaves_the_old_set_or_the_new() {
    let every = std::env::var("TORTURE_EVERY").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for nvs in [2, 1] {
        for survivors in [Survivors::None, Survivors::All, Survivors::Random] {
            let (mut crashes, mut joined) = (0, 0);
            for operations in (0u64..).step_by(every) {
                let mut run = one_left(nvs);
                let old = run.nvs_in_use()[0];
                run.world.crash_at = Some(run.world.operations + operations);
                let whole = fill(&mut run).unwrap_or_else(|why| panic!("{operations}: {why}"));
                if whole {
                    assert!(crashes > 20, "only {crashes}");
                    break;
                }
                crashes += 1;
                run.crash(survivors);
                let at = format!("{nvs}, {survivors:?} at {operations}");
                run.assembles().expect(&at);
                run.open().expect(&at);
                let now = run.nvs_in_use();
                assert!(now == [old] || now == [0, 1], "{now:?}");
                joined += u64::from(now.len() == 2);
                run.read_all().expect(&at);
                if now.len() == 2 {
                    // Either of them has all of it.
                    run.crash(Survivors::Random);
                    run.world.replace_nvs(if operations % 2 == 0 { old } else { 1 - old });
                    run.open().expect(&at);
                    run.read_all().expect(&at);
                }
                run.settle().expect(&at);
            }
            assert!(joined > 0, "no crash came after the first superblock");
        }
    }
}

#[test]
fn the_new_device_alone_has_everything() {
    for nvs in [1, 2] {
        for more in [0, 40, 200] {
            let mut run = one_left(nvs);
            let old = run.nvs_in_use()[0];
            assert_eq!(fill(&mut run), Ok(true));
            for n in 0..more {
                write(&mut run, n * 3);
                run.step().expect("a step");
            }
            run.crash(Survivors::Random);
            run.world.replace_nvs(old);
            run.open().expect("opened with the new one");
            assert_eq!(run.nvs_in_use(), [1 - old]);
            run.read_all().expect("nothing is lost");
            run.settle().expect("right on the disks");
        }
    }
}

/// Its anchors are at 4 and 8 KiB.
#[test]
fn one_anchor_of_the_new_device_is_enough() {
    for rotten in [8, 16] {
        let mut run = one_left(1);
        assert_eq!(fill(&mut run), Ok(true));
        run.crash(Survivors::All);
        run.world.replace_nvs(0);
        assert!(run.world.nvs[1].rot(rotten, 100), "sector {rotten} was written");
        run.open().expect("opened with the other anchor");
        assert_eq!(run.nvs_in_use(), [1]);
        run.read_all().expect("nothing is lost");
        run.settle().expect("right on the disks");
    }
}

#[test]
fn a_new_device_that_fails_on_the_way_leaves_the_good_one() {
    for steps in [1, 5, 20, 60] {
        let mut run = one_left(2);
        let old = run.nvs_in_use()[0];
        run.replace_nvs(1 - old).expect("begun");
        for n in 0..steps {
            write(&mut run, n);
            run.step().expect("a step");
        }
        run.world.nvs[usize::from(1 - old)].gone = true;
        run.answered().expect("answered");
        run.drained().expect("drained");
        assert_eq!((run.nvs_in_use(), run.mirror_status()), (vec![old], None));
        assert_eq!(fill(&mut run), Ok(true));
        run.settle().expect("right on the disks");
    }
}
