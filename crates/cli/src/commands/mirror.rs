//! `destage replace-nvs`: a new NVS mirror for a served array.

use super::array::{asked, give};
use super::files::{Made, absolute, device};
use super::target::name;
use super::text;
use crate::failure::Failure;
use crate::progress;
use clap::ArgMatches;
use destage_server::array::{DeviceSpec, Request};
use std::time::Duration;

/// How often its state is asked for.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let name = name(matches);
    let old: Option<DeviceSpec> =
        text(matches, "old").map(str::parse).transpose().map_err(Failure::usage)?;
    // A server that is not there makes no file.
    asked(matches, &Request::Status)?;
    let mut made = Made::default();
    let new = device(matches, "new", &mut made)?;
    let request = Request::ReplaceNvs { old: old.as_ref().map(absolute), new: new.clone() };
    give(matches, &request, made)?;
    let bar = progress::bar("bytes of the log");
    let status = loop {
        let status = asked(matches, &Request::Status)?.expect("a status was asked for");
        let Some(mirror) = &status.mirror else { break status };
        bar.set_length(mirror.bytes);
        bar.set_position(mirror.bytes_copied);
        std::thread::sleep(LOOK);
    };
    bar.finish_and_clear();
    let whole = |d: &destage_report::live::DeviceStatus| d.device == new && d.state == "in use";
    if status.devices.iter().any(whole) {
        return Ok(format!("{name}: {new} has all of the log: the NVS is mirrored\n"));
    }
    Err(Failure::failed(format!("{new} was not filled: see the alarms of `destage status {name}`")))
}
