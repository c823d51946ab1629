//! Failed members and rebuild on simulated devices (docs/durability.md, "Failed members, spares
//! and rebuild"): random cases, the power failing at any operation of a rebuild, old disks that
//! come back, failures within and beyond redundancy, sectors that cannot be read, and volumes
//! with a deliberate fault.

use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::{DiskId, Duration, PAGE_BYTES, Page};
use destage_served::{Ack, Defect, Lost};
use destage_torture::case::{Case, Wanted};
use destage_torture::load::{Kind, Request};
use destage_torture::run::{Counts, End, Run};
use destage_torture::{Survivors, torture};
use destage_workload::random::Seeded;

const EVERY_KIND: [Survivors; 3] = [Survivors::None, Survivors::All, Survivors::Random];

/// A number from the environment: to try more than the test does.
fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

fn case(level: Level, defect: Defect) -> Case {
    let (level_wanted, nvs) = (Some(level), Some(1));
    let ack = Some(Ack::Nvs);
    let wanted = Wanted { level: level_wanted, ack, nvs, defect, ..Wanted::default() };
    let mut case = Case::draw(5, &wanted);
    let disks = match level {
        Level::Raid6 => 5,
        _ => 4,
    };
    let (strip_pages, group_stripes) = (2, 2);
    let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages: 64 };
    case.geometry = geometry.checked().expect("an array");
    (case.nvs_pages, case.block_bytes, case.faults) = (24, 512, false);
    (case.scrubs, case.rebuilds) = (true, true);
    case.settings.cache_off = false;
    case
}

/// An array that holds data all over.
fn filled(level: Level, defect: Defect) -> Run {
    let mut run = Run::new(case(level, defect)).expect("created");
    run.fill().expect("filled");
    run
}

fn load_one(run: &mut Run, n: u64) -> Result<(), String> {
    let pages = run.bytes() / PAGE_BYTES - 2;
    let (offset, kind) =
        (n * 37 % pages * PAGE_BYTES, if n.is_multiple_of(3) { Kind::Read } else { Kind::Write });
    run.submit(Request { kind, offset, bytes: (1 + n % 2) * PAGE_BYTES, fua: false })
}

/// Writes and reads while members are rebuilt; `Done` when the array is in sync.
fn rebuild(run: &mut Run) -> Result<End, String> {
    // Small windows: many steps.
    run.limit_rebuilds(4);
    for n in 0..20_000u64 {
        if let Some(member) = run.wants_spare() {
            run.replace_member(member)?;
        }
        if n.is_multiple_of(3) && n < 1500 {
            load_one(run, n)?;
        }
        run.step()?;
        if run.world.crashed {
            return Ok(End::Crash);
        }
        if run.is_in_sync() {
            return run.answered();
        }
    }
    Err(format!("it is not rebuilt: {:?}", run.rebuilds()))
}

/// An old disk is put back, and the next start fails before it is seen: no other member may be
/// taken away then.
#[test]
fn an_old_disk_counts_as_failed_before_it_is_seen() {
    let wanted = Wanted { scrubs: true, rebuilds: true, ..Wanted::default() };
    let outcome = torture(1_795_288_045_292_675, 8, &wanted);
    assert_eq!(outcome.failure, None, "{}", outcome.case);
}

/// After a pause of the process or machine, operations in flight are older than the limit.
#[test]
fn a_pause_is_no_stall() {
    let mut run = filled(Level::Raid5, Defect::None);
    for n in 0..200 {
        load_one(&mut run, n).expect("asked");
        run.pause(Duration(60_000_000_000)).expect("continues");
        run.step().expect("right");
    }
    run.answered().expect("answered");
    run.drained().expect("drained");
    let status = run.status();
    assert!(status.failed.is_empty(), "{:?}", status.failed);
}

#[test]
fn random_cases() {
    let (from, cases) = (number("TORTURE_SEED", 1), number("TORTURE_CASES", 48));
    let mut counts = Counts::default();
    let levels = [Level::Raid5, Level::Raid6, Level::Raid10, Level::Raid4];
    for seed in from..from + cases {
        let level = Some(levels[(seed % 4) as usize]);
        let wanted = Wanted { scrubs: true, rebuilds: true, level, ..Wanted::default() };
        let outcome = torture(seed, 8, &wanted);
        assert_eq!(outcome.failure, None, "seed {seed}: {}", outcome.case);
        counts.add(&outcome.counts);
    }
    println!("{counts:?}");
    assert!(counts.rebuilt > cases / 2 && counts.resumed > 0, "{counts:?}");
    assert!(counts.replaced > counts.rebuilt && counts.spares_failed > 0, "{counts:?}");
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    for seed in 1..6 {
        let level = Some(Level::Raid6);
        let wanted = Wanted { scrubs: true, rebuilds: true, level, ..Wanted::default() };
        let [first, second] = [1, 2].map(|_| torture(seed, 4, &wanted));
        assert_eq!((first.digest, first.failure), (second.digest, None), "seed {seed}");
    }
}

/// The power failing before an operation of the rebuild, and again in the one that follows.
/// Returns whether it was in sync before the power failed.
fn crash_at(level: Level, survivors: Survivors, at: u64) -> Result<(bool, Run), String> {
    let mut run = filled(level, Defect::None);
    for n in 0..6 {
        load_one(&mut run, n * 5 + 1)?;
    }
    run.world.crash_at = Some(run.world.operations + at);
    run.give_up(1)?;
    if level == Level::Raid6 {
        run.give_up(3)?;
    }
    if rebuild(&mut run)? == End::Done {
        return Ok((true, run));
    }
    run.crash(survivors);
    if at % 5 == 4 && !run.retired.is_empty() {
        // The disk that failed is put back where its successor was.
        run.bring_back(0);
    }
    run.open()?;
    run.check_rows()?;
    run.read_all()?;
    run.world.crash_at = Some(run.world.operations + at * 7 % 400);
    if rebuild(&mut run)? == End::Crash {
        run.crash(Survivors::Random);
        run.open()?;
    }
    run.world.crash_at = None;
    run.read_all()?;
    run.settle()?;
    Ok((false, run))
}

#[test]
fn the_power_failing_at_any_step_loses_nothing() {
    let every = number("TORTURE_EVERY", 1);
    for level in [Level::Raid5, Level::Raid6, Level::Raid10] {
        let mut counts = Counts::default();
        for at in (0..).step_by(every as usize) {
            let survivors = EVERY_KIND[(at / every % 3) as usize];
            let failed = |why| panic!("{level:?}, {survivors:?}, power failing at {at}: {why}");
            let (whole, run) = crash_at(level, survivors, at).unwrap_or_else(failed);
            counts.add(&run.counts);
            if whole {
                break;
            }
        }
        println!("{level:?}: {counts:?}");
        assert!(counts.crashes > 15 && counts.resumed > 5, "{level:?}: {counts:?}");
    }
}

#[test]
fn a_member_that_was_replaced_is_out_of_date_for_good() {
    for level in [Level::Raid5, Level::Raid10] {
        let mut run = filled(level, Defect::None);
        run.give_up(2).expect("given up");
        assert_eq!(rebuild(&mut run), Ok(End::Done));
        for n in 0..40 {
            load_one(&mut run, n).expect("written");
            run.answered().expect("answered");
        }
        run.drained().expect("drained");
        run.crash(Survivors::All);
        run.bring_back(0);
        let refused = run.assembles().expect_err("the old disk is taken");
        assert!(refused.contains("Stale"), "{refused}");
        // Its successor is still good.
        run.bring_back(0);
        run.assembles().expect("an array");
        run.bring_back(0);
        // Without it the array is degraded, and right.
        run.open().expect("opened");
        assert_eq!(run.failed.iter().collect::<Vec<_>>(), [DiskId(2)]);
        run.read_all().expect("nothing is lost");
        // From now on the successor is out of date.
        for n in 0..20 {
            load_one(&mut run, n * 3 + 1).expect("written");
            run.answered().expect("answered");
        }
        run.crash(Survivors::Random);
        run.bring_back(0);
        run.open().expect("opened");
        run.read_all().expect("nothing is lost");
        run.settle().expect("right on the disks");
    }
}

/// What befell a disk before it was replaced is over when it comes back: the checks know nothing
/// of it.
#[test]
fn a_disk_that_comes_back_can_be_read_and_written() {
    let mut run = filled(Level::Raid5, Defect::None);
    run.spoil(2, 1);
    (run.world.members[2].write_fails, run.world.members[2].hangs) = (true, true);
    run.give_up(2).expect("given up");
    run.replace_member(2).expect("replaced");
    run.crash(Survivors::None);
    run.bring_back(0);
    let back = &run.world.members[2];
    assert!(!back.has_bad() && !back.write_fails && !back.hangs && !back.gone);
}

/// A second failure that the level tolerates, during a rebuild.
#[test]
fn a_second_failure_within_redundancy_is_tolerated() {
    for (level, second) in [(Level::Raid6, 3), (Level::Raid10, 3)] {
        for steps in [3, 20, 60, 150] {
            let mut run = filled(level, Defect::None);
            run.give_up(0).expect("given up");
            run.limit_rebuilds(4);
            run.replace_member(0).expect("replaced");
            for n in 0..steps {
                load_one(&mut run, n).expect("written");
                run.step().expect("a step");
            }
            run.give_up(second).expect("given up");
            assert_eq!(rebuild(&mut run), Ok(End::Done), "{level:?} after {steps}");
            run.read_all().expect("nothing is lost");
            run.settle().expect("right on the disks");
        }
    }
}

/// The spare fails on the way; the next one is rebuilt from the start.
#[test]
fn a_spare_that_fails_is_replaced() {
    for level in [Level::Raid5, Level::Raid6, Level::Raid10] {
        for steps in [2, 15, 40, 90] {
            let mut run = filled(level, Defect::None);
            run.give_up(1).expect("given up");
            run.limit_rebuilds(4);
            run.replace_member(1).expect("replaced");
            for n in 0..steps {
                load_one(&mut run, n).expect("written");
                run.step().expect("a step");
            }
            run.world.members[1].gone = true;
            assert_eq!(rebuild(&mut run), Ok(End::Done), "{level:?} after {steps}");
            run.settle().expect("right on the disks");
        }
    }
}

/// By the geometry alone: pages whose row has lost more than the level tolerates.
fn lost_by_hand(run: &Run, gone: &[(u16, u64)]) -> Vec<u64> {
    let geometry = run.case.geometry;
    let is_gone = |disk: DiskId, page: u64| {
        gone.iter().any(|(member, from)| *member == disk.0 && *from <= page)
    };
    let lost = |page: &u64| {
        let place = geometry.place(Page(*page));
        let row = match geometry.level {
            Level::Raid10 => place.disk.0..place.disk.0 + 2,
            _ => 0..geometry.disks,
        };
        let missing = row.filter(|disk| is_gone(DiskId(*disk), place.page)).count();
        is_gone(place.disk, place.page) && missing > usize::from(geometry.level.tolerates())
    };
    (0..geometry.volume_pages().0).filter(lost).collect()
}

/// A second failure beyond redundancy: the array stops, says exactly what is lost, keeps what is
/// dirty, and has all again when the member is back.
#[test]
fn beyond_redundancy_it_stops_and_says_what_is_lost() {
    for (level, first, second) in [(Level::Raid5, 1, 3), (Level::Raid10, 2, 3)] {
        let mut run = filled(level, Defect::None);
        run.give_up(first).expect("given up");
        run.limit_rebuilds(4);
        run.replace_member(first).expect("replaced");
        while run.rebuilds()[0].progress.done_pages < 20 {
            run.step().expect("a step");
        }
        for page in [3, 40, 41, 90] {
            run.submit(Request::write(page * PAGE_BYTES, PAGE_BYTES)).expect("written");
        }
        run.answered().expect("answered");
        run.fail_beyond(second);
        let _ = run.read_all();
        let lost: Lost = run.lost();
        let done = lost.members.iter().find(|(m, _)| *m == first).expect("the spare").1;
        assert!(done >= 20 && !lost.more, "{lost:?}");
        let reported: Vec<u64> =
            lost.ranges.iter().flat_map(|(from, pages)| *from..from + pages).collect();
        let dirty = run.dirty_pages();
        let mut wanted = lost_by_hand(&run, &[(first, done), (second, 0)]);
        assert!(wanted.len() > 10, "{wanted:?}");
        wanted.retain(|page| !dirty.contains(page));
        assert_eq!(reported, wanted);
        assert_eq!(lost.pages, wanted.len() as u64);
        // It comes back: nothing was lost, and the rebuild continues.
        run.crash(Survivors::None);
        run.open().expect("opened");
        run.read_all().expect("all is there");
        assert_eq!(rebuild(&mut run), Ok(End::Done));
        run.settle().expect("right on the disks");
    }
}

/// Sectors that cannot be read while a member is rebuilt: exactly their pages are named, reads
/// of them fail and never show other bytes, also after a crash; a write makes them good again.
#[test]
fn unreadable_sectors_are_named_and_never_made_up() {
    for level in [Level::Raid5, Level::Raid6, Level::Raid10] {
        let mut run = filled(level, Defect::None);
        let (failed, bad) = (1, 0);
        run.give_up(failed).expect("given up");
        if level == Level::Raid6 {
            run.give_up(4).expect("given up");
        }
        let page = 21;
        run.spoil(bad, page);
        run.limit_rebuilds(4);
        assert_eq!(run.replace_failed(), Ok(End::Done));
        let lost: Vec<u64> =
            run.reported_lost.iter().flat_map(|(from, n)| *from..from + n).collect();
        let geometry = run.case.geometry;
        let members: &[u16] =
            if level == Level::Raid6 { &[bad, failed, 4] } else { &[bad, failed] };
        let of = |member: &u16| {
            let place = destage_engine::array::layout::DiskPage { disk: DiskId(*member), page };
            geometry.page_at(place).map(|page| page.0)
        };
        let mut wanted: Vec<u64> = members.iter().filter_map(of).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut reported = lost.clone();
        reported.sort_unstable();
        reported.dedup();
        assert_eq!(reported, wanted, "{level:?}");
        assert!(run.lost_pages_now().contains(&(failed, page)));
        // Every read is either right or refused; so it is after a crash.
        run.read_all().expect("nothing is made up");
        assert!(run.unreadable_reads() > 0);
        run.crash_keeping_bad(Survivors::Random);
        run.open().expect("opened");
        assert!(run.lost_pages_now().contains(&(failed, page)), "forgotten by a crash");
        let before = run.unreadable_reads();
        run.read_all().expect("nothing is made up");
        assert!(run.unreadable_reads() > before);
        // The other member reads again: then everything can be reconstructed.
        run.settle().unwrap_or_else(|why| panic!("{level:?}: {why}"));
        assert_eq!(run.lost_at_end(), [], "{level:?}");
    }
}

/// The first failure of a volume with a deliberate fault.
fn caught(defect: Defect, level: Level) -> Option<(u64, String)> {
    let mut rng = Seeded::new(9, "caught");
    for round in 0..60 {
        let steps = 5 + rng.below(200);
        let tried = std::panic::catch_unwind(|| attempt(defect, level, steps, round));
        match tried {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Some((round, why)),
            Err(_) => return Some((round, "panic".to_string())),
        }
    }
    None
}

fn attempt(defect: Defect, level: Level, steps: u64, round: u64) -> Result<(), String> {
    let mut run = filled(level, defect);
    run.give_up(1)?;
    run.limit_rebuilds(4);
    run.replace_member(1)?;
    for n in 0..steps {
        load_one(&mut run, n + round)?;
        run.step()?;
    }
    run.crash(Survivors::None);
    let away = !run.retired.is_empty() && round.is_multiple_of(2);
    if away {
        // The spare is away for one start.
        run.bring_back(0);
        run.open()?;
        for n in 0..30 {
            load_one(&mut run, n * 5)?;
            run.answered()?;
        }
        run.drained()?;
        run.crash(Survivors::None);
        run.bring_back(0);
    }
    run.open()?;
    run.read_all()?;
    run.settle()
}

#[test]
fn deliberate_faults_are_caught() {
    for level in [Level::Raid5, Level::Raid10] {
        assert_eq!(caught(Defect::None, level), None);
        // One fault cannot make an absent spare continue (D12): its mark is old.
        for defect in [Defect::ChecksBeforeFlush, Defect::RebuildsFromTooFar] {
            let failure = caught(defect, level);
            println!("{defect:?} on {level:?}: {failure:?}");
            assert!(failure.is_some(), "{defect:?} on {level:?} is not caught");
        }
    }
}
