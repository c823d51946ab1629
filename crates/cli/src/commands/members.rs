//! `destage fail | replace | spare`: members that fail, and devices that take their place.

use super::array::{asked, give};
use super::files::{Made, absolute, device};
use super::target::name;
use super::text;
use crate::failure::Failure;
use crate::progress;
use clap::ArgMatches;
use destage_report::live::{ArrayStatus, DeviceStatus};
use destage_server::array::{DeviceSpec, Request};
use std::time::Duration;

/// How often its state is asked for.
const LOOK: Duration = Duration::from_millis(50);

fn now(matches: &ArgMatches) -> Result<ArrayStatus, Failure> {
    Ok(asked(matches, &Request::Status)?.expect("a status was asked for"))
}

/// A member as the configuration names it, or its number.
fn member(matches: &ArgMatches, argument: &str) -> Result<String, Failure> {
    let given = text(matches, argument).expect("required");
    if given.parse::<u16>().is_ok() {
        return Ok(given.to_string());
    }
    let spec: DeviceSpec = given.parse().map_err(Failure::usage)?;
    Ok(absolute(&spec))
}

/// `destage fail`.
pub fn fail(matches: &ArgMatches) -> Result<String, Failure> {
    let disk = member(matches, "disk")?;
    asked(matches, &Request::Fail { disk: disk.clone() })?;
    let status = now(matches)?;
    let spares = status.devices.iter().filter(|d| d.kind == "spare" && d.state == "ready").count();
    let next = match (spares, status.rebuilds.is_empty()) {
        (0, true) => "no spare is at hand: `destage replace`",
        _ => "a spare is rebuilt: `destage status`",
    };
    Ok(format!("{}: {disk} is given up; the array is {}; {next}\n", status.name, status.state))
}

/// `destage replace`.
pub fn replace(matches: &ArgMatches) -> Result<String, Failure> {
    let name = name(matches);
    let old = member(matches, "old")?;
    // A server that is not there makes no file.
    now(matches)?;
    let mut made = Made::default();
    let new = device(matches, "new", &mut made)?;
    give(matches, &Request::Replace { old, new: new.clone() }, made)?;
    if matches.get_flag("background") {
        return Ok(format!("{name}: {new} is being rebuilt: see `destage status {name}`\n"));
    }
    let bar = progress::bar("bytes of the member");
    let status = loop {
        let status = now(matches)?;
        let of = |rebuild: &&destage_report::live::RebuildStatus| rebuild.device == new;
        let Some(rebuild) = status.rebuilds.iter().find(of) else { break status };
        bar.set_length(rebuild.bytes);
        bar.set_position(rebuild.bytes_done);
        std::thread::sleep(LOOK);
    };
    bar.finish_and_clear();
    let whole = |d: &DeviceStatus| d.kind == "member" && d.device == new && d.state == "in use";
    if status.devices.iter().any(whole) {
        return Ok(format!("{name}: {new} is rebuilt: the member is whole\n"));
    }
    Err(Failure::failed(format!(
        "{new} was not rebuilt: see the alarms of `destage status {name}`"
    )))
}

/// `destage spare`.
pub fn spare(matches: &ArgMatches) -> Result<String, Failure> {
    let name = name(matches);
    let add = text(matches, "what") == Some("add");
    now(matches)?;
    let mut made = Made::default();
    let device =
        if add { device(matches, "device", &mut made)? } else { member(matches, "device")? };
    give(matches, &Request::Spare { device: device.clone(), add }, made)?;
    Ok(match add {
        true => format!("{name}: {device} is a spare\n"),
        false => format!("{name}: {device} is no spare any more\n"),
    })
}
