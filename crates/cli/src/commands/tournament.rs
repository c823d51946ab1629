//! `destage tournament`: policies over a grid of cells, and their score card.

use super::compare::split_policies;
use super::{format, text, threads};
use crate::again::command_line;
use crate::failure::Failure;
use crate::paths::check_folder;
use crate::progress;
use clap::ArgMatches;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;
use destage_sim::sweep::Dataset;
use destage_sim::tournament::grid::Grid;
use destage_sim::tournament::{Play, Tournament};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a card depends on.
const GIVEN: [&str; 8] =
    ["policies", "against", "grid", "cells", "protocols", "traces", "seed", "quick"];

/// Plays what is missing, writes the card and prints it.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let grid = match text(matches, "grid") {
        Some(path) => Grid::read(Path::new(path))?,
        None => Grid::own(),
    };
    let list = |name: &str, between: char| -> Vec<String> {
        let texts = text(matches, name).into_iter().flat_map(|listed| listed.split(between));
        texts.map(|one| one.trim().to_string()).collect()
    };
    let grid = grid.part(&list("cells", ';'), &list("protocols", ','))?;
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
        command: command_line("tournament", matches, GIVEN),
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
