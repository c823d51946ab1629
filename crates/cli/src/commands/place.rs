//! Which array a command is for, and where its configuration and its control socket are.

use super::text;
use crate::failure::Failure;
use clap::ArgMatches;
use destage_server::array::Places;
use std::path::{Path, PathBuf};

pub(super) fn places(matches: &ArgMatches) -> Places {
    let config = text(matches, "config-dir").map(Path::new);
    // A folder of one's own keeps its sockets too.
    let run = text(matches, "run-dir").map(Path::new).or(config);
    Places::new(config, run)
}

pub(super) fn name(matches: &ArgMatches) -> &str {
    text(matches, "name").expect("required")
}

pub(super) fn control(matches: &ArgMatches) -> Result<PathBuf, Failure> {
    places(matches).control_of(name(matches)).map_err(Failure::usage)
}
