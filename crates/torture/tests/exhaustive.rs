//! Exhaustive at small scope (docs/proof.md): every crash of short scripts, and the deliberate
//! faults that lie in that scope.

use destage_served::Defect;
use destage_torture::exhaustive::{Scope, explore, replay};

/// Deliberate faults in scope, each with a script that shows it.
const IN_SCOPE: &[(Defect, &str)] = &[
    (Defect::AcknowledgesEarly, "parts"),
    (Defect::ReleasesBeforeFlush, "parts"),
    (Defect::SkipsFlushesOfOneMember, "parts"),
    (Defect::SkipsParityLog, "parts"),
    (Defect::LosesOtherParity, "apart"),
    (Defect::ReusesSlotsEarly, "slots"),
    (Defect::TrustsSlots, "parts"),
    (Defect::TrustsCommits, "long"),
    (Defect::MisplacesSectors, "parts"),
    (Defect::ForgetsLostDevices, "parts"),
    (Defect::ChecksBeforeFlush, "parts"),
    (Defect::RebuildsFromTooFar, "parts"),
    (Defect::IgnoresNvsSet, "parts"),
];

/// The others, and what the scope lacks that they need.
const OUT_OF_SCOPE: &[(Defect, &str)] = &[
    (Defect::ReusesSpaceEarly, "the head stays 18 blocks behind the tail, more than three writes"),
    (Defect::ReusesSlotsUnconfirmed, "commits of 16 pages or more in flight together"),
    (Defect::ScrubsCarelessly, "a scrub next to a destage"),
    (Defect::CachesOvertakenReads, "a read cache"),
    (Defect::CachesWhatWasRepaired, "a read cache"),
    (Defect::EndsLogAtErrors, "sectors that cannot be read"),
    (Defect::DestagesUncomputableRows, "sectors that cannot be read"),
    (Defect::IgnoresSizes, "devices that are cut short"),
    (Defect::IgnoresMarks, "devices that are restored from copies"),
    (Defect::FailsFullDevices, "devices without space"),
    (Defect::OverwritesNamedLog, "an array that gets another log"),
    (Defect::NamesLogEarly, "an array that gets another log"),
    (Defect::ReplacesFullLog, "an array that gets another log"),
    (Defect::KeepsDamagedSuperblocks, "rot: a superblock is one sector, old or new after a crash"),
];

fn scope_with(script: &str) -> Scope {
    Scope::SHORT.only(script).or_else(|_| Scope::FULL.only(script)).expect("a script")
}

#[test]
fn nothing_is_wrong_in_the_short_scope() {
    println!("{}", Scope::SHORT);
    match explore(&Scope::SHORT, Defect::None, 2, &|_| ()) {
        Ok(figures) => {
            println!("{figures}");
            assert!(figures.distinct > 10_000 && figures.starts > figures.distinct, "{figures}");
        }
        Err(failure) => panic!("{}: {}", failure.place, failure.why),
    }
}

/// The short scope has no clean rows between those that are destaged.
#[test]
fn parity_that_is_written_back_is_right_after_every_crash() {
    let apart = scope_with("apart").scripts;
    let explored =
        explore(&Scope { scripts: apart, nvs: &[1], ..Scope::SHORT }, Defect::None, 2, &|_| ());
    let figures = explored.unwrap_or_else(|failure| panic!("{}: {}", failure.place, failure.why));
    println!("{figures}");
    assert!(figures.distinct > 100 && figures.starts > 1_000, "{figures}");
}

#[test]
fn deliberate_faults_in_scope_are_caught() {
    for (defect, script) in IN_SCOPE {
        let found = explore(&scope_with(script), *defect, 1, &|_| ());
        let failure = found.expect_err(&format!("{defect:?} is not caught"));
        println!("{defect:?} on {script}: after {}", failure.figures);
        // The name of the state leads to it again.
        let place = failure.place.to_string().parse().expect("its own name");
        assert_eq!(replay(&place, *defect), Err(failure.why), "{defect:?} at {place}");
    }
    for (defect, why) in OUT_OF_SCOPE {
        println!("{defect:?} is out of scope: it needs {why}");
    }
}

#[test]
fn every_deliberate_fault_is_in_scope_or_out_of_it_with_a_reason() {
    let listed = || IN_SCOPE.iter().chain(OUT_OF_SCOPE).map(|(defect, _)| defect);
    for defect in Defect::ALL {
        let times = listed().filter(|other| *other == defect).count();
        assert_eq!(times, 1, "{defect:?} must be in one list");
    }
}

#[test]
fn the_figures_do_not_depend_on_threads() {
    let scope = Scope { nvs: &[1], ..scope_with("start") };
    let [one, three] = [1, 3].map(|threads| {
        let explored = explore(&scope, Defect::None, threads, &|_| ());
        explored.expect("nothing is wrong")
    });
    assert_eq!(one, three);
}
