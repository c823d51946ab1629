//! The source of a run, from its options.

use crate::options::{OptionError, RunOptions};
use crate::simulator::SimConfig;
use destage_workload::generator;
use destage_workload::source::Source;

/// Makes the source that the options ask for: a trace or a generated load.
///
/// # Errors
/// An unknown workload, a parameter out of range, or a trace that cannot be replayed.
pub fn make_source(
    options: &RunOptions,
    config: &SimConfig,
) -> Result<Box<dyn Source + Send>, OptionError> {
    let mut text = options.get("workload").to_string();
    if !options.get("iops").is_empty() {
        text.push(if text.contains(':') { ',' } else { ':' });
        text.push_str("iops=");
        text.push_str(options.get("iops"));
    }
    let volume_pages = config.controller.geometry.volume_pages().0;
    let usage = |error: &dyn std::fmt::Display| OptionError::usage(error.to_string());
    let choice = generator::parse(&text).map_err(|error| usage(&error))?;
    generator::build(&choice, volume_pages, options.seed()?).map_err(|error| usage(&error))
}
