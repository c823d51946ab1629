//! `destage sim`: one run.

use super::{format, text};
use crate::again::of_runs;
use crate::failure::Failure;
use crate::output::{Outputs, plot_format};
use crate::paths::Paths;
use crate::progress;
use crate::run_args::run_options;
use clap::ArgMatches;
use destage_sim::compare::{of_run, run_one};
use destage_sim::sources::make_source;
use std::path::Path;

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let options = run_options(matches)?;
    let mut paths = Paths::of_run(&options);
    let outputs = Outputs::for_runs(matches.get_many("out").unwrap_or_default(), &mut paths)?;
    let plot = text(matches, "plot").map(Path::new);
    let series = text(matches, "series").map(Path::new);
    if let Some(path) = series.filter(|path| path.extension().is_none_or(|e| e != "parquet")) {
        return Err(Failure::usage(format!(
            "--series {}: the series is written as Parquet: name it .parquet",
            path.display()
        )));
    }
    for path in plot.iter().chain(&series) {
        paths.report(path)?;
    }
    let plot = plot.map(|path| plot_format(path).map(|format| (path, format))).transpose()?;
    let label = options.get("policy").to_string();
    let spinner = progress::spinner("simulating");
    let report = run_one(&label, &options, &make_source)?;
    spinner.finish_and_clear();
    let title = format!("Simulation of {label}");
    let page = of_run(report.clone(), title, of_runs("sim", matches));
    outputs.write_run(&report, &page)?;
    if let Some(path) = series {
        let bytes = destage_render::parquet_series(&[&report]).map_err(Failure::failed)?;
        destage_report::write_file(path, &bytes)?;
    }
    let rendered = destage_render::render_run(&report, format(matches));
    if let Some((path, format)) = plot {
        let plots = destage_render::plots(&page);
        let (_, spec) = plots
            .iter()
            .find(|(name, _)| name.starts_with("occupancy"))
            .ok_or_else(|| Failure::failed("the run has no occupancy series to draw"))?;
        let bytes = destage_render::draw(spec, format).map_err(Failure::failed)?;
        destage_report::write_file(path, &bytes)?;
    }
    Ok(rendered)
}
