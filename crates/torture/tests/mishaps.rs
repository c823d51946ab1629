//! Mishaps of devices while the array is down (docs/durability.md, "Marks"; torture's
//! `mishaps.rs`): random cases, the scenarios in which it was first seen, and volumes with a
//! deliberate fault, which random torture must catch within 5,000 crashes.

mod common;

use common::{opened, quiet_case, quiet_with};
use destage_engine::array::geometry::Level;
use destage_engine::units::PAGE_BYTES;
use destage_served::{Ack, Defect, Device, IoError, OnNvsLoss, Status};
use destage_torture::case::Wanted;
use destage_torture::load::{Kind, Request};
use destage_torture::run::{Counts, End, Run};
use destage_torture::{Outcome, Survivors, torture};

/// A number from the environment: to try more than the test does.
fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

fn wanted() -> Wanted {
    Wanted { scrubs: true, rebuilds: true, mishaps: true, ..Wanted::default() }
}

/// A read that waits spans a page that was trimmed, and the engine forgets that page in the step in
/// which the read begins: it is left out, not unreadable.
#[test]
fn a_trimmed_page_within_a_read_that_waited_reads_as_zeros() {
    let outcome = torture(1_795_392_793_040_440, 8, &wanted());
    assert_eq!(outcome.failure, None, "{}", outcome.case);
}

#[test]
fn random_cases_with_mishaps() {
    let (from, cases) = (number("TORTURE_SEED", 1), number("TORTURE_CASES", 120));
    let mut counts = Counts::default();
    for seed in from..from + cases {
        let outcome = torture(seed, 8, &wanted());
        assert_eq!(outcome.failure, None, "seed {seed}: {}", outcome.case);
        counts.add(&outcome.counts);
    }
    println!("{counts:?}");
    assert!(counts.mishaps > 4 * cases && counts.refused > 0, "{counts:?}");
    assert!(counts.cut_creations > 0 && counts.other_settings > cases, "{counts:?}");
    assert!(counts.stops > 0 && counts.kept > 0 && counts.plain_starts > cases / 2, "{counts:?}");
}

/// A repaired second copy of a superblock made a try look as if something were built on it.
#[test]
fn a_repaired_superblock_makes_no_try_complete() {
    let outcome = torture(301_717, 8, &wanted());
    assert_eq!(outcome.failure, None, "{}", outcome.case);
}

/// The second copy of a superblock was damaged on a device that lacked an interrupted change. It
/// was repaired as if nothing had been built on it, and then the device looked stale.
#[test]
fn a_repaired_superblock_keeps_what_a_try_was_made_on() {
    let outcome = torture(3_040_814, 8, &wanted());
    assert_eq!(outcome.failure, None, "{}", outcome.case);
}

/// What `destage torture` draws, with lives in which the log comes round.
#[test]
fn arrays_under_pressure_keep_what_they_acknowledged() {
    let wanted = Wanted { relogs: true, pressed: true, ..wanted() };
    let (from, cases) = (number("TORTURE_SEED", 1), number("TORTURE_CASES", 24));
    let seeds = from..from + cases;
    let outcomes: Vec<_> = seeds.clone().map(|seed| torture(seed, 8, &wanted)).collect();
    for outcome in &outcomes {
        assert_eq!(outcome.failure, None, "seed {}: {}", outcome.seed, outcome.case);
    }
    let plain = seeds.map(|seed| torture(seed, 8, &Wanted { pressed: false, ..wanted.clone() }));
    let sum = |outcomes: Vec<Outcome>| {
        let mut counts = Counts::default();
        outcomes.iter().for_each(|outcome| counts.add(&outcome.counts));
        counts
    };
    let (pressed, plain) = (sum(outcomes), sum(plain.collect()));
    assert!(pressed.moved > 100, "{} records moved", pressed.moved);
    assert!(pressed.slow > plain.slow, "{} slow lives, {}", pressed.slow, plain.slow);
    assert!(pressed.supposed > 20 && plain.supposed == 0, "{} tried on copies", pressed.supposed);
    let [first, second] = [1, 2].map(|_| torture(5, 4, &wanted));
    assert_eq!(first.digest, second.digest);
}

#[test]
fn the_same_seed_has_the_same_mishaps() {
    for seed in 1..12 {
        let [first, second] = [1, 2].map(|_| torture(seed, 4, &wanted()));
        assert_eq!(first.digest, second.digest, "seed {seed}");
    }
}

/// A killed process leaves superblocks in the caches of devices. The next start reads them, and the
/// power fails in it: what it has built on them must not be lost.
#[test]
fn a_start_makes_durable_what_it_builds_on() {
    for (level, nvs) in [(Level::Raid0, 1), (Level::Raid5, 2), (Level::Raid10, 0)] {
        for (kill, crash) in (0..60).flat_map(|kill| (0..40).map(move |crash| (kill, crash))) {
            let mut run = quiet(level, nvs);
            if nvs > 0 {
                write(&mut run, 0);
            }
            run.crash(Survivors::None);
            run.world.crash_at = Some(run.world.operations + kill);
            if run.open() == Ok(End::Done) {
                break;
            }
            run.killed();
            run.world.crash_at = Some(run.world.operations + crash);
            if run.open() == Ok(End::Crash) {
                run.crash(Survivors::None);
                assert_eq!(run.open(), Ok(End::Done), "{level:?}: {kill}, then {crash}");
            }
            run.world.crash_at = None;
            assert_eq!(run.read_all(), Ok(End::Done), "{level:?}: {kill}, then {crash}");
        }
    }
}

/// A member whose flush fails at a start may have dropped what the last run left in its cache.
#[test]
fn a_member_whose_flush_fails_at_a_start_is_left_out() {
    for nvs in [1, 2] {
        let mut run = quiet(Level::Raid5, nvs);
        (0..8).for_each(|page| write(&mut run, page));
        run.killed();
        run.world.members[1].flush_fails = Some(IoError::MEDIUM);
        assert_eq!(run.open(), Ok(End::Done));
        assert_eq!(run.status().failed, [1]);
        assert_eq!(run.read_all(), Ok(End::Done));
        assert_eq!(run.drained(), Ok(End::Done));
        assert_eq!(run.read_all(), Ok(End::Done));
    }
}

/// An NVS device whose flush fails at a start, whichever it is, may have dropped what the start
/// wrote: the start does without it, or is refused.
#[test]
fn an_nvs_device_whose_flush_fails_at_a_start_is_not_used() {
    for (nvs, flushes) in [1, 2].into_iter().flat_map(|nvs| (0..7).map(move |n| (nvs, n))) {
        let mut run = quiet(Level::Raid5, nvs);
        (0..8).for_each(|page| write(&mut run, page));
        run.killed();
        let disk = &mut run.world.nvs[0];
        (disk.flush_fails, disk.flushes_before) = (Some(IoError::MEDIUM), flushes);
        let opened = run.open();
        let failed = run.world.nvs[0].flush_fails.is_none();
        println!("{nvs} NVS devices, after {flushes} flushes: failed {failed}, {opened:?}");
        assert!(failed || flushes > 3, "a start flushes more often than {flushes} times");
        if nvs == 1 && failed {
            assert!(opened.is_err(), "after {flushes} flushes: {opened:?}");
            run.world.nvs[0].flush_fails = None;
            assert_eq!(run.open(), Ok(End::Done));
        } else {
            assert_eq!(opened, Ok(End::Done));
            assert_eq!(run.status().nvs_devices.contains(&0), !failed, "after {flushes} flushes");
        }
        assert_eq!(run.read_all(), Ok(End::Done));
        run.crash(Survivors::None);
        assert_eq!(run.open(), Ok(End::Done));
        assert_eq!(run.read_all(), Ok(End::Done));
    }
}

/// The disk of a row's P stops answering while another member of the row is missing, and the power
/// fails before that is recorded: then it is used again. What the log says of its parity, which the
/// second plan could not compute, must not be taken for what it holds.
#[test]
fn parity_that_was_not_computed_is_not_taken_for_written() {
    for (seed, crash) in (1..12).flat_map(|seed| (0..24).map(move |crash| (seed, crash))) {
        let mut case = quiet_case(Level::Raid6, 7, 1, 32);
        case.seed = seed;
        let mut run = opened(case);
        let geometry = run.case.geometry;
        let (_, at) = geometry.row_of_disk_page(0);
        let parity: Vec<u16> = geometry.parity_disks(at.stripe).map(|disk| disk.0).collect();
        let page = |run: &Run, strip| {
            let disk = geometry.data_disk(at.stripe, strip).0;
            (0..48).find(|page| run.place_of(*page) == (disk, 0)).expect("a page of the row")
        };
        let (written, missing) = (page(&run, 0), page(&run, 1));
        let gone = run.disk_of(missing);
        run.give_up(gone).expect("given up");
        assert_eq!(run.quiet(), Ok(()));
        write(&mut run, written);
        run.world.members[usize::from(parity[0])].hangs = true;
        run.flush_cache().expect("begun");
        let failed = |run: &Run| run.status().failed.contains(&parity[0]);
        assert_eq!(run.drive_until(&failed), Ok(End::Done));
        run.world.crash_at = Some(run.world.operations + crash);
        let recorded = |run: &Run| !run.volume_is_changing();
        run.drive_until(&recorded).expect("no check failed");
        run.crash(Survivors::None);
        assert_eq!(run.open(), Ok(End::Done), "{seed}, {crash}");
        assert_eq!(run.read_all(), Ok(End::Done), "{seed}, {crash}");
    }
}

/// Crashes until random torture finds a deliberate fault; `None`: it does not within 5,000.
fn caught(defect: Defect) -> Option<(u64, String)> {
    // A mirror has what the only device lacks.
    let nvs = (defect == Defect::EndsLogAtErrors).then_some(1);
    let wanted = Wanted { defect, nvs, ..wanted() };
    let mut crashes = 0;
    let mut seed = 1;
    while crashes < 5000 {
        let outcome = torture(seed, 8, &wanted);
        crashes += outcome.counts.crashes.max(1);
        if let Some(why) = outcome.failure {
            return Some((crashes, why));
        }
        seed += 1;
    }
    None
}

#[test]
fn random_torture_catches_each_fault() {
    for defect in [
        Defect::IgnoresNvsSet,
        Defect::EndsLogAtErrors,
        Defect::DestagesUncomputableRows,
        Defect::IgnoresSizes,
        Defect::IgnoresMarks,
        Defect::FailsFullDevices,
        Defect::KeepsDamagedSuperblocks,
    ] {
        let caught = caught(defect);
        println!("{defect:?}: {caught:?}");
        assert!(caught.is_some(), "{defect:?} is not caught within 5,000 crashes");
    }
}

/// An array of four disks without random mishaps.
fn quiet(level: Level, nvs: u16) -> Run {
    quiet_with(level, nvs, 32)
}

fn write(run: &mut Run, page: u64) {
    run.submit(Request::write(page * PAGE_BYTES, PAGE_BYTES)).expect("submitted");
    assert_eq!(run.answered(), Ok(End::Done));
}

#[test]
fn a_lost_nvs_mirror_that_comes_back_alone_is_refused() {
    let mut run = quiet(Level::Raid5, 2);
    write(&mut run, 0);
    run.crash(Survivors::None);
    run.world.nvs[1].gone = true;
    assert_eq!(run.open(), Ok(End::Done), "with one of two");
    write(&mut run, 0);
    run.drained().expect("drained");
    run.crash(Survivors::None);
    run.world.nvs[0].gone = true;
    let refused = run.open().expect_err("the other one is out of date");
    assert!(refused.contains("Nvs(0)"), "{refused}");
    // With both there, the one that was away is not used.
    run.world.nvs[0].gone = false;
    assert_eq!(run.open(), Ok(End::Done));
    assert_eq!(run.nvs_in_use(), [0]);
    assert_eq!(run.read_all(), Ok(End::Done));
}

#[test]
fn a_sector_of_the_only_nvs_that_cannot_be_read_is_no_end_of_the_log() {
    let mut run = quiet(Level::Raid5, 1);
    (0..8).for_each(|page| write(&mut run, page));
    run.quiet().expect("confirmed");
    run.crash(Survivors::None);
    for sector in run.world.nvs[0].written() {
        run.world.nvs[0].spoil(sector);
        // After a refusal the sector can be read again, and the array must start.
        assert_eq!(run.open(), Ok(End::Done), "sector {sector}");
        assert_eq!(run.read_all(), Ok(End::Done), "sector {sector}");
        run.crash(Survivors::None);
    }
    assert!(run.counts.refused >= 8, "{:?}", run.counts);
}

#[test]
fn a_row_that_cannot_be_computed_keeps_its_pages() {
    let mut run = quiet(Level::Raid5, 1);
    run.fill_open().expect("filled");
    run.give_up(0).expect("given up");
    let page = (0..48).find(|page| run.disk_of(*page) == 1).expect("a page of member 1");
    write(&mut run, page);
    let (member, disk_page) = run.place_of(page);
    run.spoil(member, disk_page);
    run.flush_cache().expect("begun");
    for _ in 0..20_000 {
        run.step().expect("no check failed");
    }
    assert_eq!(run.dirty_pages(), [page], "it stays in NVS");
    assert_eq!(run.read_all(), Ok(End::Done), "it reads right, and so does what can be read");
    run.world.members[usize::from(member)].heal();
    assert_eq!(run.drained(), Ok(End::Done), "tried again");
    assert_eq!(run.read_all(), Ok(End::Done));
    assert_eq!(run.settle(), Ok(()));
}

/// Two pages of a group in different rows, the page of member 0 in the row of the second, and the
/// first row. The first page is on member 1.
fn in_two_rows(run: &Run) -> (u64, u64, u64, u64) {
    let page_at = |member: u16, row: u64| {
        (0..12).find(|page| run.place_of(*page) == (member, row)).expect("a page of the group")
    };
    let first = (0..2).find(|row| (0..12).any(|page| run.place_of(page) == (1, *row)));
    let row = first.expect("a data page of member 1 in the first rows");
    (page_at(1, row), page_at(1, row + 1), page_at(0, row + 1), row)
}

/// A degraded array with two dirty rows in a group, of which one cannot be computed, and the page
/// of the failed member in the row of the other.
fn with_a_kept_group() -> (Run, u64, u64) {
    let mut run = quiet(Level::Raid5, 1);
    run.fill_open().expect("filled");
    run.give_up(0).expect("given up");
    let (lost, fine, clean, row) = in_two_rows(&run);
    write(&mut run, lost);
    write(&mut run, fine);
    run.spoil(1, row);
    (run, clean, row)
}

fn reads(run: &mut Run, page: u64) -> bool {
    let before = run.counts.unreadable;
    let offset = page * PAGE_BYTES;
    let read = Request { kind: Kind::Read, offset, bytes: PAGE_BYTES, fua: false };
    run.submit(read).expect("submitted");
    assert_eq!(run.answered(), Ok(End::Done));
    run.counts.unreadable == before
}

/// A member fails after a destage was computed and before it writes: nothing of it is in doubt.
#[test]
fn a_failure_before_the_intent_is_durable_makes_no_row_doubtful() {
    let mut tried = 0;
    for steps in 1..12 {
        let mut run = quiet(Level::Raid5, 1);
        run.fill_open().expect("filled");
        let (lost, fine, clean, row) = in_two_rows(&run);
        write(&mut run, lost);
        write(&mut run, fine);
        let writes = run.status().counters.disk_writes;
        run.world.nvs[0].hangs = true;
        run.flush_cache().expect("begun");
        (0..steps).for_each(|_| run.step().expect("no check failed"));
        let Status { counters, nvs_devices, .. } = run.status();
        if counters.disk_writes > writes || nvs_devices.is_empty() {
            break;
        }
        run.world.members[0].gone = true;
        run.spoil(1, row);
        run.give_up(0).expect("given up");
        run.world.nvs[0].hangs = false;
        run.world.let_go();
        let kept = |run: &Run| run.status().kept_pages == 2;
        assert_eq!(run.drive_until(&kept), Ok(End::Done), "both rows, after {steps} steps");
        assert!(reads(&mut run, clean), "its row was not written, after {steps} steps");
        tried += 1;
    }
    assert!(tried > 2, "{tried}");
}

#[test]
fn a_restart_makes_no_row_doubtful_that_was_not_written() {
    let (mut run, clean, row) = with_a_kept_group();
    run.flush_cache().expect("begun");
    let kept = |run: &Run| run.status().kept_pages == 2;
    assert_eq!(run.drive_until(&kept), Ok(End::Done), "both rows");
    // With this commit the intent is durable.
    write(&mut run, 90);
    run.crash(Survivors::All);
    run.spoil(1, row);
    assert_eq!(run.open(), Ok(End::Done));
    assert_eq!(run.drive_until(&kept), Ok(End::Done), "redone, and kept again");
    assert!(reads(&mut run, clean), "a row that was not written reads right");
    run.replace_member(0).expect("a spare");
    for _ in 0..20_000 {
        run.step().expect("no check failed");
    }
    let lost = run.lost_pages_now();
    assert!(!lost.contains(&run.place_of(clean)), "only what nothing implies is lost: {lost:?}");
}

#[test]
fn writes_to_a_group_that_is_kept_are_answered_without_a_log() {
    let (mut run, clean, _) = with_a_kept_group();
    run.world.nvs[0].gone = true;
    // The log is lost with this write, and the destages of all that is dirty begin.
    run.submit(Request::write(90 * PAGE_BYTES, PAGE_BYTES)).expect("submitted");
    for _ in 0..20_000 {
        run.step().expect("no check failed");
    }
    run.submit(Request::write(clean * PAGE_BYTES, PAGE_BYTES)).expect("submitted");
    assert_eq!(run.answered(), Ok(End::Done), "with an error, not never");
}

/// The system reports a write-back that failed once, and the next flush succeeds.
#[test]
fn a_flush_that_fails_for_lack_of_space_is_not_made_good_by_the_next() {
    let mut run = quiet(Level::Raid5, 1);
    run.fill_open().expect("filled");
    let page = (0..96).find(|page| run.disk_of(*page) == 1).expect("a page of member 1");
    write(&mut run, page);
    run.world.members[1].flush_fails = Some(IoError::FULL);
    assert_eq!(run.drained(), Ok(End::Done));
    assert_eq!(run.status().failed, [1], "what it had not written is lost");
    run.crash(Survivors::None);
    assert_eq!(run.open(), Ok(End::Done));
    assert_eq!(run.read_all(), Ok(End::Done));
}

#[test]
fn a_full_member_is_still_read() {
    let mut run = quiet_with(Level::Raid5, 1, 2);
    run.fill_open().expect("filled");
    run.world.members[1].full = true;
    for page in (0..96).step_by(5) {
        write(&mut run, page);
    }
    run.flush_cache().expect("begun");
    for _ in 0..5000 {
        run.step().expect("no check failed");
    }
    let dirty = run.dirty_pages();
    let clean = (0..96).find(|page| run.disk_of(*page) == 1 && !dirty.contains(page));
    let offset = clean.expect("a page that only the member has") * PAGE_BYTES;
    run.submit(Request { kind: Kind::Read, offset, bytes: PAGE_BYTES, fua: false }).expect("asked");
    assert_eq!(run.answered(), Ok(End::Done));
    run.world.members[1].full = false;
    assert_eq!(run.drained(), Ok(End::Done));
    assert_eq!(run.read_all(), Ok(End::Done));
}

#[test]
fn a_device_that_was_cut_short_is_not_used() {
    let mut run = quiet(Level::Raid5, 1);
    run.fill_open().expect("filled");
    run.crash(Survivors::None);
    run.world.members[2].truncate((1 << 20) + 16 * PAGE_BYTES);
    assert_eq!(run.open(), Ok(End::Done), "degraded");
    assert!(run.status().failed.contains(&2));
    assert_eq!(run.read_all(), Ok(End::Done));
    run.crash(Survivors::None);
    let whole = run.world.nvs[0].clone();
    run.world.nvs[0].truncate((1 << 20) + 8192);
    let refused = run.open().expect_err("it may hold what the disks do not have");
    assert!(refused.contains("NvsMissing(Nvs(0), Short"), "{refused}");
    run.world.nvs[0] = whole;
    assert_eq!(run.open(), Ok(End::Done));
    assert_eq!(run.read_all(), Ok(End::Done));
}

#[test]
fn devices_that_went_back_in_time_are_refused_and_all_together_are_not() {
    for level in [Level::Single, Level::Raid5] {
        let mut run = quiet(level, 1);
        write(&mut run, 3);
        run.crash(Survivors::None);
        let (members, nvs) = (run.world.members.clone(), run.world.nvs.clone());
        assert_eq!(run.open(), Ok(End::Done));
        write(&mut run, 3);
        run.drained().expect("drained");
        run.crash(Survivors::None);
        let (now, model) = (run.world.nvs[0].clone(), run.model.clone());
        run.world.nvs[0] = nvs[0].clone();
        let refused = run.open().expect_err("its dirty page is old");
        assert!(refused.contains("Stale { device: Nvs(0)"), "{refused}");
        run.world.nvs[0] = now;
        assert_eq!(run.open(), Ok(End::Done));
        run.crash(Survivors::None);
        run.world.members[0] = members[0].clone();
        match level {
            Level::Single => {
                let refused = run.open().expect_err("there is no other member");
                assert!(refused.contains("Stale { device: Member(0)"), "{refused}");
            }
            _ => {
                assert_eq!(run.open(), Ok(End::Done), "degraded");
                assert!(run.status().failed.contains(&0));
                assert_eq!(run.read_all(), Ok(End::Done));
                run.crash(Survivors::None);
            }
        }
        // All as they were: the array as it was, which nothing contradicts.
        (run.world.members, run.world.nvs, run.model) = (members, nvs, model);
        assert_eq!(run.open(), Ok(End::Done), "{level:?}");
    }
}

#[test]
fn a_damaged_superblock_copy_is_repaired_at_each_start() {
    let mut run = quiet(Level::Raid5, 2);
    for round in 0..6 {
        run.crash(Survivors::None);
        for disk in run.world.members.iter_mut().chain(&mut run.world.nvs) {
            // One copy after the other: without repair the second would be the end.
            assert!(disk.rot([0, 24][round % 2], 800));
        }
        assert_eq!(run.open(), Ok(End::Done), "round {round}");
        assert!(run.status().failed.is_empty() && run.nvs_in_use() == [0, 1]);
    }
}

#[test]
fn a_start_leaves_out_a_device_that_can_be_read_and_not_written() {
    for device in [Device::Member(0), Device::Member(2), Device::Nvs(0), Device::Nvs(1)] {
        let mut run = quiet(Level::Raid5, 2);
        run.fill_open().expect("filled");
        write(&mut run, 3);
        run.crash(Survivors::None);
        run.world.device(device).unwritable = true;
        run.plain = true;
        let refused = run.open().expect_err("it cannot be marked");
        let named = format!("Degraded({device:?}, Unwritable(");
        assert!(refused.contains(&named), "{refused}");
        // What the refused start wrote on the others is not in the way of the next one.
        run.plain = false;
        assert_eq!(run.open(), Ok(End::Done), "{device}");
        match device {
            Device::Member(member) => assert_eq!(run.status().failed, [member]),
            Device::Nvs(copy) => assert_eq!(run.nvs_in_use(), [1 - copy]),
        }
        assert_eq!(run.read_all(), Ok(End::Done), "{device}");
        write(&mut run, 4);
        run.crash(Survivors::None);
        // It can be written again: it lacks what was written without it.
        run.world.device(device).unwritable = false;
        assert_eq!(run.open(), Ok(End::Done), "{device}");
        assert!(run.status().failed.len() == 1 || run.nvs_in_use().len() == 1);
        assert_eq!(run.read_all(), Ok(End::Done), "{device}");
        assert_eq!(run.settle(), Ok(()));
    }
}

#[test]
fn a_device_that_cannot_be_written_and_is_needed_refuses_the_start() {
    for (level, device) in [(Level::Raid0, Device::Member(1)), (Level::Raid5, Device::Nvs(0))] {
        let mut run = quiet(level, 1);
        write(&mut run, 3);
        run.crash(Survivors::None);
        run.world.device(device).unwritable = true;
        for plain in [true, false] {
            run.plain = plain;
            let refused = run.open().expect_err("it cannot be marked");
            assert!(!refused.contains("open: "), "{refused}");
        }
        run.world.device(device).unwritable = false;
        run.plain = true;
        assert_eq!(run.open(), Ok(End::Done), "{device}");
        assert_eq!(run.read_all(), Ok(End::Done), "{device}");
    }
}

/// Of two copies one failed, and the other served alone, which now cannot be written. What the
/// first one had is older: no start takes it for the array.
#[test]
fn an_older_copy_does_not_stand_in_for_one_that_cannot_be_written() {
    let mut run = opened(quiet_case(Level::Raid10, 2, 0, 32));
    write(&mut run, 3);
    run.world.members[1].gone = true;
    write(&mut run, 3);
    run.drained().expect("drained");
    run.crash(Survivors::None);
    run.plain = true;
    assert_eq!(run.open(), Ok(End::Done));
    assert_eq!(run.status().failed, [1]);
    run.crash(Survivors::None);
    run.world.members[1].gone = false;
    run.world.members[0].unwritable = true;
    for plain in [true, false] {
        run.plain = plain;
        let refused = run.open().expect_err("only an older copy can be written");
        assert!(refused.contains("TooManyMissing") || plain, "{refused}");
    }
    run.world.members[0].unwritable = false;
    assert_eq!(run.open(), Ok(End::Done));
    assert_eq!(run.read_all(), Ok(End::Done));
}

#[test]
fn a_full_device_is_reported_once_until_it_takes_writes() {
    let mut run = quiet(Level::Raid5, 1);
    run.fill_open().expect("filled");
    run.world.members[2].full = true;
    (0..16).for_each(|page| write(&mut run, page));
    run.flush_cache().expect("begun");
    let began = run.now();
    while run.now().since(began).0 < 20_000_000_000 {
        // The device answers reads in the meantime.
        run.step().expect("no check failed");
        assert_eq!(run.read_all(), Ok(End::Done));
    }
    assert_eq!((run.counts.waits, run.counts.waits_ended), (1, 0));
    run.world.members[2].full = false;
    assert_eq!(run.drained(), Ok(End::Done));
    assert_eq!((run.counts.waits, run.counts.waits_ended), (1, 1));
}

#[test]
fn a_bad_sector_of_the_nvs_costs_a_start_few_reads() {
    let mut run = quiet(Level::Raid5, 1);
    write(&mut run, 0);
    run.quiet().expect("confirmed");
    let used = run.log_bytes_used() / 512;
    run.crash(Survivors::None);
    // Behind the end of the log, where a start looks for commits that were durable.
    run.world.nvs[0].spoil((1 << 20) / 512 + used + 200);
    let before = run.world.failed_reads;
    assert_eq!(run.open(), Ok(End::Done));
    let failed = run.world.failed_reads - before;
    assert!((1..8).contains(&failed), "{failed} reads failed");
}

/// Each start writes to the ring. However many end at once, it never fills.
#[test]
fn starts_that_end_at_once_do_not_fill_the_log() {
    for nvs in [1, 2] {
        let mut run = quiet(Level::Raid5, nvs);
        (0..8).for_each(|page| write(&mut run, page));
        for _ in 0..200 {
            run.crash(Survivors::None);
            assert_eq!(run.open(), Ok(End::Done));
        }
        assert_eq!(run.read_all(), Ok(End::Done));
        assert_eq!(run.drained(), Ok(End::Done));
    }
}

/// Each of two NVS devices is alone in a start, one after the other, and the power fails in both.
/// Nothing was built on either start: the next one uses both devices.
#[test]
fn two_interrupted_starts_with_one_nvs_device_each_leave_one_log() {
    for case in 0..3_000 {
        let mut run = quiet(Level::Raid5, 2);
        (0..4).for_each(|page| write(&mut run, page));
        run.world.crash_at = Some(run.world.operations + 1 + case % 13);
        assert_eq!(run.load(30), Ok(End::Crash));
        run.crash(Survivors::Random);
        for (gone, at) in [(0, case % 29), (1, case % 31)] {
            run.world.nvs[gone].gone = true;
            run.world.crash_at = Some(run.world.operations + at);
            // The second start is refused if the first one's marks are complete.
            let end = run.open();
            assert_ne!(end, Ok(End::Done), "case {case}: it ends within {at} operations");
            run.crash([Survivors::None, Survivors::All, Survivors::Random][gone + 1]);
        }
        assert_eq!(run.open(), Ok(End::Done), "case {case}");
        assert_eq!(run.read_all(), Ok(End::Done), "case {case}");
    }
}

/// A start is interrupted, and the next one cannot read a mark that it left: it must not make the
/// same mark, or the NVS device as it was in between would look as if it were up to date.
#[test]
fn a_mark_that_cannot_be_read_is_not_made_again() {
    for at in 1..40 {
        let mut run = quiet(Level::Raid5, 1);
        (0..4).for_each(|page| write(&mut run, page));
        run.crash(Survivors::None);
        run.world.crash_at = Some(run.world.operations + at);
        if run.open() == Ok(End::Done) {
            break;
        }
        run.crash(Survivors::All);
        let between = run.world.nvs[0].clone();
        run.world.nvs[0].spoil(0);
        assert_eq!(run.open(), Ok(End::Done), "{at}");
        write(&mut run, 0);
        run.crash(Survivors::All);
        run.world.nvs[0] = between;
        let end = run.open();
        assert!(end.is_err(), "{at}: it starts with an NVS device that is out of date");
    }
}

/// An NVS device fails when a start writes to its log, behind the marks. With another device the
/// start continues without it; alone it refuses, and starts when the device can be written again.
#[test]
fn an_nvs_device_that_fails_behind_the_marks_is_left_out() {
    for nvs in [1, 2] {
        let mut run = quiet(Level::Raid5, nvs);
        (0..8).for_each(|page| write(&mut run, page));
        run.killed();
        run.world.nvs[usize::from(nvs) - 1].write_fails = true;
        let end = run.open();
        if nvs == 1 {
            assert!(end.expect_err("it is the only one").contains("Nvs(0)"));
            assert_eq!(run.open(), Ok(End::Done));
        } else {
            assert_eq!(end, Ok(End::Done));
        }
        assert_eq!(run.nvs_in_use(), [0]);
        assert_eq!(run.read_all(), Ok(End::Done));
        assert_eq!(run.drained(), Ok(End::Done));
    }
}

/// A change was interrupted while its second copies were written, and the power failed as the next
/// start wrote the NVS device's first copy, which was torn: memory. The device looked stale.
#[test]
fn a_start_writes_the_second_copies_that_a_crash_prevented() {
    let outcome = torture(9_025_847, 8, &Wanted { relogs: true, ..wanted() });
    assert_eq!(outcome.failure, None, "{}", outcome.case);
}

/// The host gets no answers any more, but the disks get what only memory has.
#[test]
fn an_array_that_stops_with_its_nvs_goes_without_a_member_that_hangs() {
    let mut case = quiet_case(Level::Raid5, 4, 1, 32);
    case.settings.on_nvs_loss = OnNvsLoss::Stop;
    let limit = case.settings.stall_limit;
    let mut run = opened(case);
    run.fill_open().expect("filled");
    (0..8).for_each(|page| write(&mut run, page));
    assert!(run.status().dirty_pages > 0);
    let member = run.disk_of(0);
    run.world.members[usize::from(member)].hangs = true;
    run.world.nvs[0].gone = true;
    run.submit(Request::write(0, PAGE_BYTES)).expect("submitted");
    for _ in 0..1000 {
        run.step().expect("no check failed");
    }
    run.pause(limit + limit).expect("no check failed");
    for _ in 0..1000 {
        run.step().expect("no check failed");
    }
    assert_eq!(run.status().failed, [member]);
    assert_eq!(run.status().dirty_pages, 0, "the others have all of it");
}

/// Overwriting takes no space in the NVS, but what is not logged yet takes memory.
#[test]
fn writes_wait_for_a_log_that_is_far_behind() {
    let mut case = quiet_case(Level::Raid5, 4, 1, 32);
    case.settings.ack = Ack::Flush;
    let mut run = opened(case);
    let answers = run.counts.requests;
    for _ in 0..4000 {
        run.submit(Request::write(0, PAGE_BYTES)).expect("submitted");
    }
    let answered = run.counts.requests - answers;
    assert!((16..3900).contains(&answered), "{answered} without one commit");
    assert_eq!(run.answered(), Ok(End::Done));
    assert_eq!(run.counts.requests - answers, 4000);
}
