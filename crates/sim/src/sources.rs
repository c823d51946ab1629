//! The source of a run, from its options.

use crate::options::{OptionError, RunOptions};
use crate::simulator::SimConfig;
use destage_workload::generator;
use destage_workload::source::Source;
use destage_workload::trace::replay::TraceSource;
use std::path::Path;

/// Makes the source that the options ask for: a trace or a generated load.
///
/// # Errors
/// An unknown workload, a parameter out of range, or a trace that cannot be replayed.
pub fn make_source(
    options: &RunOptions,
    config: &SimConfig,
) -> Result<Box<dyn Source + Send>, OptionError> {
    let volume_pages = config.controller.geometry.volume_pages().0;
    if !options.get("trace").is_empty() {
        return trace_source(options, volume_pages);
    }
    let mut text = options.get("workload").to_string();
    if !options.get("iops").is_empty() {
        text.push(if text.contains(':') { ',' } else { ':' });
        text.push_str("iops=");
        text.push_str(options.get("iops"));
    }
    let usage = |error: &dyn std::fmt::Display| OptionError::usage(error.to_string());
    let choice = generator::parse(&text).map_err(|error| usage(&error))?;
    generator::build(&choice, volume_pages, options.seed()?).map_err(|error| usage(&error))
}

fn trace_source(
    options: &RunOptions,
    volume_pages: u64,
) -> Result<Box<dyn Source + Send>, OptionError> {
    let (read, replay) = (options.read_options()?, options.replay_options()?);
    let path = Path::new(options.get("trace"));
    let source = TraceSource::open(path, &read, &replay, volume_pages)
        .map_err(|error| OptionError::input(error.to_string()))?;
    Ok(Box::new(source))
}
