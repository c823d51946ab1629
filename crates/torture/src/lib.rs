//! Torture of the served array: the very code that serves data, on simulated devices with
//! contents that crash at any operation, lose what was not flushed, fail and rot
//! (docs/durability.md, "Tests").

mod accepts;
mod alarms;
mod apart;
mod audit;
mod blame;
pub mod case;
mod changes;
mod clients;
mod counts;
mod deceits;
mod device;
mod draws;
mod errors;
pub mod exhaustive;
mod faults;
pub mod load;
mod memory;
mod mirror;
mod mishap_state;
mod mishaps;
mod model;
mod polls;
mod pressed;
mod readcache;
mod rebuild;
mod refusals;
mod relog;
pub mod run;
mod scrub;
mod sectors;
mod sets;
mod settle;
mod start;
mod start_refusals;
mod starve;
mod suppose;
pub mod sweep;
mod world;

use case::{Case, Wanted};
use destage_workload::random::Seeded;
pub use device::Survivors;
use run::{Counts, End, Run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// The case in a line.
    pub case: String,
    /// What was counted.
    pub counts: Counts,
    /// Hash of all that happened.
    pub digest: u64,
    /// What went wrong.
    pub failure: Option<String>,
}

/// Carries out the case of a seed with this many crashes.
pub fn torture(seed: u64, crashes: u64, wanted: &Wanted) -> Outcome {
    memory::begin();
    let case = Case::draw(seed, wanted);
    let described = case.describe();
    let work = || {
        let mut run = Run::new(case)?;
        let result = lives(&mut run, crashes);
        Ok((run.counts, run.world.digest, result.err()))
    };
    let result: Result<(Counts, u64, Option<String>), String> =
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    let (counts, digest, failure) = match result {
        Ok(parts) => parts,
        Err(failure) => (Counts::default(), 0, Some(failure)),
    };
    Outcome { seed, case: described, counts, digest, failure }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a message"))
}

/// Power failures with anchors in last lives, at most.
const LATE_CUTS: u32 = 4;

fn lives(run: &mut Run, crashes: u64) -> Result<(), String> {
    let mut rng = Seeded::new(run.case.seed, "torture-lives");
    let mut rng_of_stops = Seeded::new(run.case.seed, "torture-stops");
    let (mut left, mut late) = (crashes, LATE_CUTS);
    loop {
        if left == 0 {
            run.world.late_cuts += core::mem::take(&mut late);
        }
        if left > 0 {
            let until = if rng.below(4) == 0 { 40 } else { 400 };
            run.world.crash_at = Some(run.world.operations + rng.below(until));
        }
        let mut end = run.open_either_way()?;
        if end == End::Done && left > 0 {
            end = run.maybe_start_in_a_loop()?;
        }
        if end == End::Done && left > 0 {
            // The crash comes in recovery, in the reads after it, or under load.
            run.world.crash_at = Some(run.world.operations + rng.below(600) + run.longer());
        }
        if end == End::Done {
            end = run.check_rows()?;
        }
        if end == End::Done {
            end = run.read_after_a_start()?;
        }
        if end == End::Done {
            run.check_cut_writes()?;
        }
        if end == End::Done {
            end = run.maybe_relog()?;
        }
        if end == End::Done {
            end = run.drain_while_polled()?;
        }
        if end == End::Done {
            if left > 0 {
                run.maybe_starve();
            }
            // A load that ends before the power fails ends in a clean stop.
            let short = run.case.mishaps && left > 0 && rng_of_stops.below(4) == 0;
            let short = short && !run.world.lasts();
            end = run.load(match left {
                _ if short => 30,
                0 => 200,
                _ => 10_000,
            })?;
        }
        if end == End::Done && run.case.mishaps && left > 0 {
            run.stop_cleanly()?;
        } else if end == End::Done && run.settle_or_stop()? == End::Done {
            return Ok(());
        }
        if left == 0 && run.may_lack_rows() {
            // Pages of lost rows fill the NVS, and nothing will drain it.
            return Ok(());
        }
        run.note_counts();
        left = left.saturating_sub(1);
        power_off(run, &mut rng)?;
    }
}

/// A life ends, and devices may be other ones at the next start.
///
/// # Errors
/// A copy of the array does not survive what it should.
fn power_off(run: &mut Run, rng: &mut Seeded) -> Result<(), String> {
    if run.stopped {
        // What is dirty is destaged from memory for as long as the power is on.
        for _ in 0..rng.below(400) {
            run.step()?;
        }
    }
    let survivors = [Survivors::None, Survivors::All, Survivors::Random, Survivors::Random]
        [rng.below(4) as usize];
    // What a member has of a change in its cache alone is there after a kill.
    let rare = if run.case.pressed && run.world.caches_marks() { 2 } else { 4 };
    if run.world.takes_all {
        run.crash(Survivors::None);
    } else if run.case.mishaps && run.draws.kills.below(rare) == 0 {
        run.killed();
    } else {
        let survivors = run.in_runs(survivors);
        run.crash(survivors);
    }
    run.check_sets()?;
    run.maybe_suppose()?;
    run.note_agreement();
    if run.case.faults && rng.below(6) == 0 {
        run.take_member_away();
    }
    if run.case.faults && rng.below(4) == 0 {
        run.rot();
    }
    run.maybe_bring_back();
    run.maybe_mishap();
    run.maybe_deceive()?;
    run.maybe_change_settings();
    Ok(())
}

/// A bit flips in the only copy of a log that was confirmed to its end. Recovery must report it,
/// unless the bit does not count. Returns whether it was detected; then the array is opened with
/// the bit as it was.
///
/// # Errors
/// It counts and was not detected.
pub fn rotten_log(seed: u64, wanted: &Wanted) -> Result<bool, String> {
    let mut case = Case::draw(seed, &Wanted { nvs: Some(1), ..wanted.clone() });
    case.faults = false;
    let mut run = Run::new(case)?;
    run.open()?;
    run.load(60)?;
    run.quiet()?;
    let used = run.log_bytes_used();
    run.crash(Survivors::None);
    // The log has not wrapped around yet: most of it is in its first blocks.
    let (sector, bit) = run.place_in_log(used);
    run.world.nvs[0].rot(sector, bit);
    let detected = match run.open() {
        Ok(_) => false,
        Err(why) if why.starts_with("open: ") => {
            run.world.nvs[0].rot(sector, bit);
            run.open()?;
            true
        }
        Err(why) => return Err(why),
    };
    run.read_all()?;
    run.settle()?;
    Ok(detected)
}
