//! Files that a command makes for an array: members, NVS, spares. They are removed if it fails.

use super::target::{name, places};
use super::text;
use crate::failure::Failure;
use crate::say;
use clap::ArgMatches;
use destage_server::array::control::AskError;
use destage_server::array::{DeviceSpec, allocate};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;

/// Files that were made, removed when this is dropped.
#[derive(Default)]
pub(super) struct Made(Vec<String>);

impl Made {
    /// They are in use.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }

    /// Keeps them unless the server has refused them and does not name them in the configuration.
    pub(super) fn settle<T>(self, matches: &ArgMatches, answer: &Result<T, AskError>) {
        let refused = matches!(answer, Err(AskError::Refused(_) | AskError::NotServed(_)));
        let named = match places(matches).read(name(matches)) {
            Ok(config) => {
                let mut all = config.disks.iter().chain(&config.nvs).chain(&config.spares);
                all.any(|device| self.0.iter().any(|made| absolute_path(made) == *device))
            }
            // Without the configuration, a file that is in use must not be removed.
            Err(_) => true,
        };
        if !refused || named {
            self.keep();
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn absolute_path(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_string(), |path| path.display().to_string())
}

/// A device as the configuration names it: the server may be started from another folder.
pub(super) fn absolute(spec: &DeviceSpec) -> String {
    match spec {
        DeviceSpec::Path(path) => absolute_path(&path.display().to_string()),
        DeviceSpec::Nbd(uri) => uri.clone(),
    }
}

/// The devices of an argument; files that are to be made are made.
pub(super) fn devices(
    matches: &ArgMatches,
    argument: &str,
    made: &mut Made,
) -> Result<Vec<DeviceSpec>, Failure> {
    let sparse = matches.get_flag("sparse");
    let Some(given) = matches.get_many::<String>(argument) else { return Ok(Vec::new()) };
    given
        .map(|text| match text.rsplit_once(",size=") {
            None => text.parse().map_err(Failure::usage),
            Some((path, size)) => {
                make(path, super::quantity::bytes(size)?, sparse, made)?;
                path.parse().map_err(Failure::usage)
            }
        })
        .collect()
}

/// The one device of an argument.
pub(super) fn device(
    matches: &ArgMatches,
    argument: &str,
    made: &mut Made,
) -> Result<String, Failure> {
    let all = devices(matches, argument, made)?;
    Ok(all.first().map(absolute).unwrap_or_else(|| {
        // The argument is required.
        text(matches, argument).unwrap_or_default().to_string()
    }))
}

/// Makes a file for its owner alone. Unless it is sparse it gets its space now: writes to a member
/// that finds none later would wait.
fn make(path: &str, size: u64, sparse: bool, made: &mut Made) -> Result<(), Failure> {
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = open.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AlreadyExists => ". Leave out size= to use it as it is",
            ErrorKind::NotFound => ". Make its folder first",
            _ => "",
        };
        Failure::failed(format!("{path}: cannot make the file: {error}{hint}"))
    })?;
    made.0.push(path.to_string());
    if !sparse && size > 0 && allocated(&file, path, size)? {
        return Ok(());
    }
    file.set_len(size)
        .map_err(|error| Failure::failed(format!("{path}: cannot set its size: {error}")))
}

/// Gives a file its space; `false` if its file system cannot.
fn allocated(file: &File, path: &str, size: u64) -> Result<bool, Failure> {
    match allocate(file, size) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            say::line(format_args!(
                "{path}: its file system cannot allocate space in advance: the file is sparse, \
                 and writes wait when the file system is full"
            ));
            Ok(false)
        }
        Err(error) if error.kind() == ErrorKind::StorageFull => Err(Failure::failed(format!(
            "{path}: cannot allocate {size} bytes: no space left on its file system (ENOSPC). \
             Make room, give a smaller size=, or --sparse to allocate space as it is written"
        ))),
        Err(error) => {
            Err(Failure::failed(format!("{path}: cannot allocate {size} bytes: {error}")))
        }
    }
}
