//! `destage tournament`: policies over a grid of cells, and their score card.

use super::compare::split_policies;
use super::{format, text, threads};
use crate::failure::Failure;
use crate::paths::check_folder;
use crate::progress;
use clap::ArgMatches;
use clap::parser::ValueSource;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;
use destage_sim::sweep::Dataset;
use destage_sim::tournament::grid::Grid;
use destage_sim::tournament::{Play, Tournament};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Plays what is missing, writes the card and prints it.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let grid = match text(matches, "grid") {
        Some(path) => Grid::read(Path::new(path))?,
        None => Grid::own(),
    };
    let grid = if matches.get_flag("quick") { grid.quickly() } else { grid };
    let out = Path::new(text(matches, "out").expect("required"));
    let dataset = Dataset::open(&out.join("rows"))?;
    check_folder(out, &["index.html".into()])?;
    let listed = |name| split_policies(text(matches, name).expect("default"));
    let tournament = Tournament {
        grid: &grid,
        policies: listed("policies"),
        against: listed("against"),
        seed: *matches.get_one::<u64>("seed").expect("default"),
        traces: text(matches, "traces").map(PathBuf::from),
        own: BTreeMap::new(),
        command: command_line(matches),
    };
    let bar = progress::bar("plays");
    let card = tournament.run(&Play {
        dataset: &dataset,
        threads: threads(matches),
        run: &|label: &str, options: &RunOptions| run_one(label, options, &make_source),
        progress: &|done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        },
    })?;
    bar.finish_and_clear();
    destage_sim::tournament::write(out, &card)?;
    Ok(card.render(format(matches)))
}

/// The command that makes the card again, but for where it is kept.
fn command_line(matches: &ArgMatches) -> String {
    let mut line = String::from("destage tournament");
    for name in ["policies", "against", "grid", "traces", "seed"] {
        if matches.value_source(name) == Some(ValueSource::CommandLine) {
            let value = matches.get_raw(name).and_then(|mut values| values.next());
            line += &format!(" --{name} {}", value.unwrap_or_default().to_string_lossy());
        }
    }
    if matches.get_flag("quick") { line + " --quick" } else { line }
}
