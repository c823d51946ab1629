//! The served array under crashes and failing devices (docs/durability.md, "Tests"): random
//! cases, crashes at every operation of short scenarios, the same seed twice, and volumes with a
//! deliberate fault, which must be caught.

use destage_engine::array::geometry::{LEVELS, Level};
use destage_engine::units::PAGE_BYTES;
use destage_served::{Ack, Defect, OnNvsLoss};
use destage_torture::case::{Case, Wanted};
use destage_torture::load::Request;
use destage_torture::run::{Counts, End, Run};
use destage_torture::sweep::Sweep;
use destage_torture::{Survivors, rotten_log, torture};

const EVERY_KIND: [Survivors; 3] = [Survivors::None, Survivors::All, Survivors::Random];

/// A number from the environment: to try more than the test does.
fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

#[test]
fn random_cases() {
    let (from, cases) = (number("TORTURE_SEED", 1), number("TORTURE_CASES", 40));
    let mut counts = Counts::default();
    let wanted = Wanted { scrubs: true, ..Wanted::default() };
    for seed in from..from + cases {
        let outcome = torture(seed, 8, &wanted);
        assert_eq!(outcome.failure, None, "seed {seed}: {}", outcome.case);
        counts.add(&outcome.counts);
    }
    println!("{counts:?}");
    assert!(counts.crashes >= 8 * cases && counts.recoveries > 0 && counts.destaged > 0);
    assert!(counts.mirrors > 0, "{counts:?}");
    assert!(counts.scrubs > cases && counts.rows_scrubbed > 100 * cases, "{counts:?}");
    assert!(counts.cached > 40 * cases, "{counts:?}");
    assert!(counts.idle_destages > cases, "{counts:?}");
}

/// Seeds that once found a fault of the volume; it had no read cache then.
#[test]
fn seeds_that_found_something() {
    let only = number("TORTURE_ONLY", 0);
    let wanted = Wanted { read_cache: Some(false), ..Wanted::default() };
    for seed in [only, 2, 37, 64, 76, 107, 109, 168, 190, 196, 209, 292, 358, 376, 877, 957, 1340] {
        let outcome = torture(seed, 8, &wanted);
        assert_eq!(outcome.failure, None, "seed {seed}: {}", outcome.case);
    }
    let outcome = torture(190_028_588, 8, &Wanted::default());
    assert_eq!(outcome.failure, None, "{}", outcome.case);
}

/// Its last NVS device fails when the load has ended, and the array stops: what is dirty is in the
/// NVS, and the disks must not be judged before it is back.
#[test]
fn an_array_that_stops_as_its_load_ends_goes_on() {
    let wanted = Wanted { nvs: Some(1), read_cache: Some(false), ..Wanted::default() };
    let mut case = Case::draw(3, &wanted);
    case.faults = false;
    case.settings.cache_off = false;
    case.settings.on_nvs_loss = OnNvsLoss::Stop;
    let mut run = Run::new(case).expect("created");
    run.open().expect("opened");
    for page in 0..8 {
        run.submit(Request::write(page * PAGE_BYTES, PAGE_BYTES)).expect("submitted");
        run.answered().expect("answered");
    }
    run.submit(Request::write(0, PAGE_BYTES)).expect("submitted");
    run.world.nvs[0].gone = true;
    assert_eq!(run.settle_or_stop(), Ok(End::Crash));
    run.crash(Survivors::None);
    run.world.nvs[0].gone = false;
    assert_eq!(run.open(), Ok(End::Done));
    assert_eq!(run.read_all(), Ok(End::Done));
    assert_eq!(run.settle(), Ok(()));
}

/// The read of a page that is to be completed is slow; the page is written whole, destaged, and
/// written in part again: that write must not take what the first read brings.
#[test]
fn a_slow_read_completes_no_later_write() {
    let wanted = Wanted { read_cache: Some(false), scrubs: true, ..Wanted::default() };
    let outcome = torture(2410, 8, &wanted);
    assert_eq!(outcome.failure, None, "{}", outcome.case);
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    for seed in 1..12 {
        let wanted = Wanted { scrubs: seed % 2 == 0, ..Wanted::default() };
        let [first, second] = [1, 2].map(|_| torture(seed, 4, &wanted));
        assert_ne!(first.digest, 0);
        assert_eq!(first.digest, second.digest, "seed {seed}");
    }
}

fn sweep(level: Level) -> Sweep {
    let (nvs, ack, survivors) = (1, Ack::Nvs, Survivors::Random);
    Sweep { level, nvs, ack, survivors, away: 0, defect: Defect::None, every: 1 }
}

#[test]
fn crashes_at_every_operation() {
    let every = number("TORTURE_EVERY", 2);
    for level in LEVELS.iter().map(|entry| entry.level) {
        for survivors in EVERY_KIND {
            for (nvs, ack) in [(1, Ack::Nvs), (2, Ack::Flush)] {
                let counts = Sweep { survivors, nvs, ack, every, ..sweep(level) }.run(false);
                let counts = counts.unwrap_or_else(|why| panic!("{why}"));
                assert!(counts.crashes > 10 && counts.moved > 0, "{level:?}: {counts:?}");
            }
        }
    }
}

#[test]
fn crashes_at_every_operation_of_recovery() {
    let every = number("TORTURE_EVERY", 11);
    for level in LEVELS.iter().map(|entry| entry.level) {
        let counts = Sweep { nvs: 2, every, ..sweep(level) }.run(true);
        let counts = counts.unwrap_or_else(|why| panic!("{why}"));
        assert!(counts.crashes > 20, "{level:?}: {counts:?}");
    }
}

#[test]
fn crashes_with_members_taken_away() {
    let every = number("TORTURE_EVERY", 5);
    for (level, away) in
        [(Level::Raid10, 1), (Level::Raid4, 1), (Level::Raid5, 1), (Level::Raid6, 2)]
    {
        for survivors in EVERY_KIND {
            let counts = Sweep { survivors, away, every, ..sweep(level) }.run(false);
            let counts = counts.unwrap_or_else(|why| panic!("{why}"));
            assert!(counts.crashes > 10, "{level:?}: {counts:?}");
        }
    }
}

/// The first failure of a volume with a deliberate fault.
fn caught(defect: Defect, level: Level) -> Option<(u64, String)> {
    // What is caught at which seed is as it was before there were read caches.
    let read_cache = Some(false);
    let wanted =
        Wanted { defect, level: Some(level), nvs: Some(1), read_cache, ..Wanted::default() };
    let failure = |seed| torture(seed, 8, &wanted).failure.map(|why| (seed, why));
    (1..4000).find_map(failure)
}

#[test]
fn deliberate_faults_are_caught() {
    for (defect, level) in [
        (Defect::AcknowledgesEarly, Level::Raid5),
        (Defect::ReleasesBeforeFlush, Level::Raid5),
        (Defect::ReleasesBeforeFlush, Level::Raid10),
        (Defect::SkipsParityLog, Level::Raid5),
        (Defect::SkipsParityLog, Level::Raid6),
        (Defect::ReusesSpaceEarly, Level::Raid5),
        (Defect::ReusesSlotsEarly, Level::Raid5),
        (Defect::ReusesSlotsUnconfirmed, Level::Raid5),
        (Defect::TrustsSlots, Level::Raid5),
        (Defect::TrustsCommits, Level::Raid5),
        (Defect::MisplacesSectors, Level::Raid5),
        (Defect::ForgetsLostDevices, Level::Raid5),
        (Defect::ForgetsLostDevices, Level::Raid10),
    ] {
        let failure = caught(defect, level);
        println!("{defect:?} on {level:?}: {failure:?}");
        assert!(failure.is_some(), "{defect:?} on {level:?} is not caught");
    }
}

#[test]
fn rot_in_a_log_without_a_mirror_is_detected_or_harmless() {
    let mut detected = 0;
    for seed in 1..number("TORTURE_ROT", 150) {
        detected += u64::from(rotten_log(seed, &Wanted::default()).unwrap_or_else(|why| {
            panic!("seed {seed}: {why}");
        }));
    }
    assert!(detected > 5, "only {detected} were detected");
}

/// The test of the release program (`cli/tests/packages.rs`) looks for these names.
#[test]
fn a_program_with_deliberate_faults_has_their_names() {
    let program = std::fs::read(std::env::current_exe().expect("this program")).expect("read");
    for name in Defect::ALL.iter().map(|defect| format!("{defect:?}")) {
        let found = program.windows(name.len()).any(|bytes| bytes == name.as_bytes());
        assert!(found, "{name}");
    }
}
