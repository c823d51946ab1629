//! Random torture until it finds something: what `destage torture` draws, with or without one of
//! the deliberate faults (docs/proof.md, "Planted faults"). It is an example because examples,
//! like tests, are built with these.

use destage_served::Defect;
use destage_torture::case::Wanted;
use destage_torture::{Outcome, torture};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

const HELP: &str = "\
Crash random arrays until a check fails. Exit code 1: one has failed.

Usage: random [--crashes N] [--seed N] [--threads N] [--defect NAME]

  --crashes N    Most crashes, rounded up to whole cases of 8 [default: 5000]
  --seed N       The first seed [default: 1]
  --threads N    Threads [default: 2]
  --defect NAME  An array with this deliberate fault, e.g. TrustsSlots";

/// Crashes of a case.
const CRASHES: u64 = 8;

struct Asked {
    crashes: u64,
    seed: u64,
    threads: u64,
    defect: Defect,
}

fn asked() -> Result<Asked, String> {
    let mut asked = Asked { crashes: 5000, seed: 1, threads: 2, defect: Defect::None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--help" {
            return Err(HELP.into());
        }
        let value = arguments.next().ok_or_else(|| format!("{name}: needs a value\n{HELP}"))?;
        let number = || value.parse().map_err(|_| format!("{name} {value}: expected a number"));
        match name.as_str() {
            "--crashes" => asked.crashes = number()?,
            "--seed" => asked.seed = number()?,
            "--threads" => asked.threads = number()?.max(1),
            "--defect" => {
                let named = Defect::ALL.iter().find(|defect| format!("{defect:?}") == value);
                asked.defect = *named.ok_or_else(|| format!("--defect {value}: no such defect"))?;
            }
            _ => return Err(format!("{name}: no such option\n{HELP}")),
        }
    }
    Ok(asked)
}

/// The first of these seeds that fails, and how many crashes there were up to it.
fn first_failure(asked: &Asked) -> (u64, Option<Outcome>) {
    let wanted = Wanted {
        defect: asked.defect,
        scrubs: true,
        rebuilds: true,
        mishaps: true,
        relogs: true,
        pressed: true,
        ..Wanted::default()
    };
    let cases = asked.crashes.div_ceil(CRASHES);
    let (next, end) = (AtomicU64::new(0), AtomicU64::new(cases));
    let work = || {
        let mut outcomes = Vec::new();
        loop {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= end.load(Ordering::Relaxed) {
                return outcomes;
            }
            let outcome = torture(asked.seed + case, CRASHES, &wanted);
            if outcome.failure.is_some() {
                // Those before it are still carried out: the first one counts.
                end.fetch_min(case, Ordering::Relaxed);
            }
            outcomes.push(outcome);
        }
    };
    let mut outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..asked.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    outcomes.sort_by_key(|outcome| outcome.seed);
    let failed = outcomes.iter().position(|outcome| outcome.failure.is_some());
    let crashes = outcomes[..failed.map_or(outcomes.len(), |at| at + 1)]
        .iter()
        .map(|outcome| outcome.counts.crashes.max(1))
        .sum();
    (crashes, failed.map(|at| outcomes.swap_remove(at)))
}

fn main() -> ExitCode {
    let asked = match asked() {
        Ok(asked) => asked,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    // A check that fails by a panic is reported like the others.
    std::panic::set_hook(Box::new(|_| {}));
    match first_failure(&asked) {
        (crashes, None) => {
            println!("{crashes} crashes, no check failed");
            ExitCode::SUCCESS
        }
        (crashes, Some(Outcome { seed, case, failure, .. })) => {
            let why = failure.unwrap_or_default();
            println!("after {crashes} crashes: {why} (seed {seed}: {case})");
            ExitCode::from(1)
        }
    }
}
