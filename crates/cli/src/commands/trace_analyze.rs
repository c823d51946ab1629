//! `destage trace analyze`: what load traces are.

use super::format;
use crate::failure::Failure;
use crate::output::Outputs;
use crate::paths::Paths;
use crate::progress;
use crate::run_args::trace_options;
use clap::ArgMatches;
use destage_report::trace::{TRACE_SCHEMA, TraceAnalyses};
use destage_workload::trace::Reader;
use destage_workload::trace::analyze::analyze;
use std::path::Path;

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let files: Vec<&String> = matches.get_many("file").expect("required").collect();
    let mut paths = Paths::reading(files.iter().map(|file| file.as_str()));
    let outs = matches.get_many("out").unwrap_or_default();
    let outputs = Outputs::for_analysis(outs, &mut paths)?;
    let read = trace_options(matches)?;
    let open = |file: &&String| Reader::open(Path::new(file), &read).map_err(Failure::failed);
    let readers = files.iter().map(open).collect::<Result<Vec<Reader>, Failure>>()?;
    let mut traces = Vec::with_capacity(files.len());
    for (file, reader) in files.iter().zip(readers) {
        let spinner = progress::spinner(&format!("reading {file}"));
        let found = analyze(reader, None, &mut |requests| {
            let millions = requests as f64 / 1e6;
            spinner.set_message(format!("reading {file}: {millions:.1} M requests"));
        });
        spinner.finish_and_clear();
        traces.push(found.map_err(Failure::failed)?);
    }
    let analyses = TraceAnalyses { schema: TRACE_SCHEMA, traces };
    outputs.write_analysis(&analyses)?;
    Ok(destage_render::render_trace(&analyses, format(matches)))
}
