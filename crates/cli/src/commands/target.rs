//! Which array a command is about, and where its files are.

use super::text;
use crate::failure::Failure;
use clap::ArgMatches;
use destage_server::array::Places;
use std::path::{Path, PathBuf};

pub(super) fn places(matches: &ArgMatches) -> Places {
    let config = text(matches, "config-dir").map(Path::new);
    // Without root's directories, the sockets are next to the configuration.
    let run = text(matches, "run-dir").map(Path::new).or(config);
    Places::new(config, run)
}

pub(super) fn name(matches: &ArgMatches) -> &str {
    text(matches, "name").expect("required")
}

/// The control socket of the array's server.
pub(super) fn control(matches: &ArgMatches) -> Result<PathBuf, Failure> {
    places(matches).control_of(name(matches)).map_err(Failure::usage)
}
