//! `make exhaustive`: every crash of short scripts on a small array (docs/proof.md). It is an
//! example because examples, like tests, are built with the deliberate faults.

use destage_served::Defect;
use destage_torture::exhaustive::{Place, Scope, explore, replay};
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
Explore every crash of short scripts on a small array, and check every start after it.

Usage: exhaustive [--scope full|short] [--threads N] [--script NAME] [--defect NAME] [--at STATE]

  --scope full|short  What is explored [default: full]
  --threads N         Threads [default: 2]
  --script NAME       Only this script
  --defect NAME       Explore an array with this deliberate fault, e.g. TrustsSlots
  --at STATE          Go to this state alone, as a failure names it";

/// What the arguments ask for.
struct Asked {
    scope: Scope,
    threads: usize,
    defect: Defect,
    at: Option<Place>,
}

fn asked() -> Result<Asked, String> {
    let (scope, threads, defect) = (Scope::FULL, 2, Defect::None);
    let mut asked = Asked { scope, threads, defect, at: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--help" {
            return Err(HELP.into());
        }
        let value = arguments.next().ok_or_else(|| format!("{name}: needs a value\n{HELP}"))?;
        match name.as_str() {
            "--scope" => match value.as_str() {
                "full" => asked.scope = Scope::FULL,
                "short" => asked.scope = Scope::SHORT,
                _ => return Err(format!("--scope {value}: expected full or short")),
            },
            "--threads" => {
                asked.threads =
                    value.parse().map_err(|_| format!("--threads {value}: a number"))?;
            }
            "--script" => asked.scope = asked.scope.only(&value)?,
            "--defect" => {
                let named = Defect::ALL.iter().find(|defect| format!("{defect:?}") == value);
                asked.defect = *named.ok_or_else(|| format!("--defect {value}: no such defect"))?;
            }
            "--at" => asked.at = Some(value.parse()?),
            _ => return Err(format!("{name}: no such option\n{HELP}")),
        }
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let Asked { scope, threads, defect, at } = match asked() {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if let Some(place) = at {
        return match replay(&place, defect) {
            Ok(()) => {
                println!("Nothing is wrong at {place}.");
                ExitCode::SUCCESS
            }
            Err(why) => {
                println!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    let begun = Instant::now();
    let seconds = || begun.elapsed().as_secs();
    println!("{scope}");
    let explored = explore(&scope, defect, threads, &|line| eprintln!("{:5} s  {line}", seconds()));
    match explored {
        Ok(figures) => {
            println!("Nothing is wrong in {figures}. It took {} s.", seconds());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{}", failure.why);
            println!("Found after {}, {} s. This repeats it:", failure.figures, seconds());
            let defect = match defect {
                Defect::None => String::new(),
                defect => format!(" --defect {defect:?}"),
            };
            println!(
                "cargo run --release -p destage-torture --example exhaustive --{defect} --at {}",
                failure.place
            );
            ExitCode::FAILURE
        }
    }
}
