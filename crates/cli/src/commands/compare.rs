//! `destage compare`: several policies on identical input.

use super::{format, text, threads};
use crate::again::of_runs;
use crate::failure::Failure;
use crate::output::{Outputs, plots_format};
use crate::paths::{Paths, check_folder};
use crate::progress;
use crate::run_args::set_given;
use clap::ArgMatches;
use clap::parser::ValueSource;
use destage_engine::policy::POLICIES;
use destage_sim::compare::Comparison;
use destage_sim::experiment::Experiment;
use destage_sim::sources::make_source;
use std::path::Path;

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let comparison = comparison(matches)?;
    let inputs = comparison.files().into_iter();
    let mut paths = Paths::reading(inputs.chain(text(matches, "experiment")));
    let outputs = Outputs::for_runs(matches.get_many("out").unwrap_or_default(), &mut paths)?;
    let plots = text(matches, "plots").map(Path::new);
    let kind = plots_format(matches);
    let ending = kind.extension();
    if let Some(directory) = plots {
        let names = destage_render::PLOT_NAMES.map(|name| format!("{name}.{ending}"));
        check_folder(directory, &names)?;
    }
    let bar = progress::bar("runs");
    let report = comparison.run(threads(matches), &make_source, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    outputs.write_compare(&report)?;
    if let Some(directory) = plots {
        for (name, spec) in destage_render::plots(&report) {
            let bytes = destage_render::draw(&spec, kind).map_err(Failure::failed)?;
            destage_report::write_file(&directory.join(format!("{name}.{ending}")), &bytes)?;
        }
    }
    Ok(destage_render::render_compare(&report, format(matches)))
}

/// The comparison from an experiment file, if any, and the flags, which win.
fn comparison(matches: &ArgMatches) -> Result<Comparison, Failure> {
    let mut experiment = match text(matches, "experiment") {
        Some(path) => Experiment::read(Path::new(path), text(matches, "panel"))?,
        None => Experiment::default(),
    };
    let given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let none = experiment.policies.is_empty() && experiment.variants.is_empty();
    if given("policies") || none {
        experiment.variants.clear();
        experiment.policies = split_policies(text(matches, "policies").expect("default"));
    }
    if let Some(sweep) = text(matches, "sweep") {
        experiment.sweep_instead(destage_sim::axis::parse_sweep(sweep)?);
    }
    if let Some(title) = text(matches, "title") {
        experiment.title = Some(title.to_string());
    }
    for (name, field) in
        [("seeds", &mut experiment.seeds), ("seeds-max", &mut experiment.seeds_max)]
    {
        if given(name) {
            *field = matches.get_one::<u32>(name).copied();
        }
    }
    if let Some(percent) = matches.get_one::<f64>("ci") {
        if percent.is_nan() || *percent <= 0.0 {
            return Err(Failure::usage(format!("--ci takes a percentage above 0, not {percent}")));
        }
        experiment.confidence_percent = Some(*percent);
    }
    if given("at-ms") || experiment.at_ms.is_empty() {
        experiment.at_ms = levels(text(matches, "at-ms").expect("default"))?;
    }
    let mut base = experiment.options()?;
    set_given(matches, &mut base)?;
    let comparison = experiment.comparison(base, of_runs("compare", matches));
    without_effect(&comparison, &given)?;
    comparison.check()?;
    Ok(comparison)
}

/// Refuses flags that would change nothing.
fn without_effect(comparison: &Comparison, given: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
    let of_load = comparison.sweep.as_ref().is_some_and(|(name, _)| name == "iops");
    let message = if given("at-ms") && !of_load {
        "--at-ms reads throughput off a sweep of iops: add --sweep iops=FIRST..LAST..STEP"
    } else if given("seeds-max") && comparison.confidence.is_none() {
        "--seeds-max bounds the seeds that --ci adds: add --ci, or use --seeds"
    } else if given("plot-format") && !given("plots") {
        "--plot-format is the format of --plots: add --plots DIR"
    } else {
        return Ok(());
    };
    Err(Failure::usage(message))
}

fn levels(text: &str) -> Result<Vec<f64>, Failure> {
    let parse = |part: &str| part.trim().parse::<f64>().ok().filter(|ms| *ms > 0.0);
    let levels: Option<Vec<f64>> = text.split(',').map(parse).collect();
    levels
        .ok_or_else(|| Failure::usage(format!("--at-ms takes times in ms as 10,20, not `{text}`")))
}

/// Splits at commas, but keeps a policy's own parameters with it.
pub(super) fn split_policies(text: &str) -> Vec<String> {
    let is_policy = |part: &str| {
        let name = part.split(':').next().unwrap_or(part);
        POLICIES.iter().any(|p| p.entry.name == name)
    };
    let mut policies: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match policies.last_mut() {
            Some(last) if last.contains(':') && !is_policy(part) => {
                last.push(',');
                last.push_str(part);
            }
            _ => policies.push(part.to_string()),
        }
    }
    policies
}
