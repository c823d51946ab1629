//! Another log: the power failing at any operation of it leaves the array with the old log, with
//! the new one, or with none, and all that was acknowledged is there. Devices that were away come
//! back with a log that does not count any more.

use destage_engine::array::geometry::Level;
use destage_engine::units::PAGE_BYTES;
use destage_served::{Ack, Defect, IoError};
use destage_torture::case::{Case, Wanted};
use destage_torture::load::{Kind, Request};
use destage_torture::run::{Counts, End, Run};
use destage_torture::{Survivors, torture};

/// A number from the environment: to try more than the test does.
fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// An array with dirty pages.
fn array(nvs: u16, level: Level, defect: Defect) -> Run {
    let wanted =
        Wanted { level: Some(level), ack: Some(Ack::Nvs), nvs: Some(nvs), ..Wanted::default() };
    let mut case = Case::draw(3, &wanted);
    (case.nvs_pages, case.block_bytes, case.faults) = (24, 512, false);
    (case.settings.cache_off, case.settings.defect) = (false, defect);
    case.settings.on_nvs_loss = destage_served::OnNvsLoss::WriteThrough;
    let mut run = Run::new(case).expect("created");
    run.open().expect("opened");
    write_some(&mut run, 0);
    run
}

fn write_some(run: &mut Run, first: u64) {
    let pages = run.bytes() / PAGE_BYTES - 2;
    for n in first..first + 40 {
        let (offset, bytes) = (n * 7 % pages * PAGE_BYTES, (1 + n % 2) * PAGE_BYTES);
        run.submit(Request { kind: Kind::Write, offset, bytes, fua: false }).expect("submitted");
        run.answered().expect("answered");
    }
}

/// Another log, the power failing at this operation of it. Returns whether it failed, and the NVS
/// devices in use after the start that follows.
fn crash_at(
    mut run: Run,
    operation: u64,
    pages: u64,
    survivors: Survivors,
) -> Result<(bool, Vec<u16>), String> {
    run.world.crash_at = Some(run.world.operations + operation);
    let crashed = run.relog(pages)? == End::Crash;
    run.world.crash_at = None;
    if crashed {
        run.crash(survivors);
        run.assembles()?;
        run.open()?;
    }
    let used = run.nvs_in_use();
    if used.is_empty() && !run.holds_nothing(0) {
        return Err("the device cannot be given again".to_string());
    }
    run.read_all()?;
    write_some(&mut run, 100);
    // What the log has now survives another crash.
    if used.is_empty() {
        run.drained()?;
    }
    run.crash(Survivors::Random);
    run.open()?;
    run.read_all()?;
    if used.is_empty() {
        // Where the last try ended without an NVS, the next one gives the array one.
        run.relog(pages)?;
        if run.nvs_in_use().is_empty() {
            return Err("no NVS after another try".to_string());
        }
        run.read_all()?;
    }
    run.settle()?;
    Ok((crashed, used))
}

/// Crashes at every operation; how often each number of NVS devices was in use afterwards.
fn sweep(nvs: u16, level: Level, pages: u64, defect: Defect) -> Result<[u64; 3], String> {
    let every = number("TORTURE_EVERY", 1) as usize;
    let mut used = [0; 3];
    for survivors in [Survivors::None, Survivors::All, Survivors::Random] {
        for operation in (0u64..).step_by(every) {
            let run = array(nvs, level, defect);
            let (crashed, after) = crash_at(run, operation, pages, survivors)
                .map_err(|why| format!("{nvs} {pages} {survivors:?} at {operation}: {why}"))?;
            used[after.len()] += 1;
            if !crashed {
                break;
            }
        }
    }
    Ok(used)
}

#[test]
fn the_power_failing_at_any_operation_leaves_the_old_log_the_new_one_or_none() {
    for (nvs, pages) in [(1, 8), (2, 60)] {
        let used = sweep(nvs, Level::Raid5, pages, Defect::None);
        let used = used.unwrap_or_else(|why| panic!("{why}"));
        assert!(used[0] > 0 && used[usize::from(nvs)] > 20, "{used:?}");
    }
}

#[test]
fn each_deliberate_fault_is_caught() {
    for defect in [Defect::NamesLogEarly, Defect::OverwritesNamedLog, Defect::ReplacesFullLog] {
        let caught = std::panic::catch_unwind(|| {
            if defect == Defect::ReplacesFullLog {
                let mut run = array(1, Level::Raid5, defect);
                return run.replace_log(60).and_then(|_| run.read_all()).map(|_| [0; 3]);
            }
            sweep(2, Level::Raid5, 60, defect)
        });
        let why = caught.map_or(Some("panicked".to_string()), Result::err);
        println!("{defect:?}: {why:?}");
        assert!(why.is_some(), "{defect:?} is not caught");
    }
}

/// The same without the fault: the log is not replaced, and nothing is lost.
#[test]
fn a_log_that_is_not_empty_is_not_replaced() {
    let mut run = array(1, Level::Raid5, Defect::None);
    let why = run.replace_log(60).expect_err("refused");
    assert!(why.contains("dirty pages"), "{why}");
    run.crash(Survivors::None);
    run.open().expect("opened");
    run.read_all().expect("nothing is lost");
}

/// A device that was away has the old log.
#[test]
fn a_device_that_was_away_does_not_come_back_with_the_old_log() {
    for away in [0, 1] {
        let mut run = array(2, Level::Raid5, Defect::None);
        run.world.nvs[away].gone = true;
        write_some(&mut run, 50);
        let old = run.world.nvs[away].clone();
        assert_eq!(run.relog(60), Ok(End::Done));
        write_some(&mut run, 90);
        run.crash(Survivors::None);
        run.world.nvs[away] = old;
        run.world.nvs[away].gone = false;
        run.plain = true;
        run.open().expect("the one in use is enough");
        assert_eq!(run.nvs_in_use(), [1 - away as u16]);
        run.read_all().expect("nothing is lost");
        // Alone it is refused.
        run.crash(Survivors::None);
        run.world.nvs[1 - away].gone = true;
        run.open().expect_err("it has another log");
    }
}

/// A device fails after another log is begun, and in the start that follows without a crash. That
/// start may need `--degraded`.
#[test]
fn a_device_fails_in_the_start_with_another_log() {
    let mut failed = [false; 2];
    for (flushes, logs) in (0..60).map(|n| (n / 3, n % 3)) {
        let mut run = array(2, Level::Raid5, Defect::None);
        for _ in 0..logs {
            assert_eq!(run.relog(60), Ok(End::Done));
        }
        run.world.nvs[0].flushes_before = flushes;
        run.world.nvs[0].flush_fails = Some(IoError::MEDIUM);
        let end = run.relog(60).unwrap_or_else(|why| panic!("after {flushes} flushes: {why}"));
        if end == End::Crash {
            run.crash(Survivors::None);
            run.open().expect("opened");
        }
        failed[usize::from(run.world.nvs[0].flush_fails.is_none())] = true;
        run.read_all().expect("nothing is lost");
    }
    assert_eq!(failed, [true; 2], "before and after");
}

/// The last NVS device is lost, and the array gets another one.
#[test]
fn an_array_that_lost_its_last_nvs_gets_another_one() {
    for nvs in [1, 2] {
        let mut run = array(nvs, Level::Raid5, Defect::None);
        run.world.nvs.iter_mut().for_each(|disk| disk.gone = true);
        write_some(&mut run, 50);
        assert!(run.nvs_in_use().is_empty());
        assert_eq!(run.relog(60), Ok(End::Done));
        assert_eq!(run.nvs_in_use(), [0]);
        write_some(&mut run, 90);
        run.crash(Survivors::Random);
        run.open().expect("opened");
        assert_eq!(run.nvs_in_use(), [0]);
        run.read_all().expect("nothing is lost");
        run.settle().expect("right on the disks");
    }
}

#[test]
fn random_cases_get_other_logs() {
    let wanted =
        Wanted { scrubs: true, rebuilds: true, mishaps: true, relogs: true, ..Wanted::default() };
    let (from, cases) = (number("TORTURE_SEED", 1), number("TORTURE_CASES", 120));
    let mut counts = Counts::default();
    for seed in from..from + cases {
        let outcome = torture(seed, 8, &wanted);
        assert_eq!(outcome.failure, None, "seed {seed}: {}", outcome.case);
        counts.add(&outcome.counts);
    }
    println!("{counts:?}");
    assert!(counts.relogs > cases / 2 && counts.relogs_begun > counts.relogs, "{counts:?}");
}
