//! Devices that are used though they are out of date: which an operator names, and what that loses.

use super::text;
use crate::failure::Failure;
use crate::say;
use clap::ArgMatches;
use destage_served::{Allow, Assembly, Device, inspect, knows_lost_pages};
use destage_server::array::{ArrayConfig, Devices};
use std::fmt::Write;

/// What the arguments allow a start to do without.
pub fn allowed(matches: &ArgMatches, config: &ArrayConfig) -> Result<Allow, Failure> {
    let mut stale = Vec::new();
    for (argument, devices, of) in named(config) {
        let Some(given) = text(matches, argument) else { continue };
        let Some(place) = place_of(given, devices) else {
            return Err(Failure::usage(format!(
                "--{argument} {given}: the configuration does not name this device; it names {}",
                devices.join(", ")
            )));
        };
        stale.push(of(place));
    }
    let [degraded, without_nvs, accept] =
        ["degraded", "without-nvs", "accept-loss"].map(|flag| matches.get_flag(flag));
    if stale.is_empty() && !without_nvs && accept {
        return Err(Failure::usage(
            "--accept-loss goes with --use-nvs PATH or --use-disk PATH, the device that is used as \
             it is, or with --without-nvs",
        ));
    }
    Ok(Allow { degraded, stale, without_nvs, ..Allow::default() })
}

/// An option, the paths that it may name, and what the device in such a place is.
type Named<'a> = (&'static str, &'a [String], fn(u16) -> Device);

/// The options that name such a device, the paths that they may name, and what these are.
fn named(config: &ArrayConfig) -> [Named<'_>; 2] {
    [("use-nvs", &config.nvs, Device::Nvs), ("use-disk", &config.disks, Device::Member)]
}

fn place_of(given: &str, names: &[String]) -> Option<u16> {
    let absolute = std::path::absolute(given).map(|path| path.display().to_string());
    let same = |name: &String| name == given || absolute.as_ref().is_ok_and(|path| path == name);
    names.iter().position(same).map(|place| place as u16)
}

/// Says what is lost with the devices that are used though they are out of date; refuses without
/// `--accept-loss`.
pub fn accepted(
    matches: &ArgMatches,
    config: &ArrayConfig,
    devices: &mut Devices,
    assembly: &Assembly,
) -> Result<(), Failure> {
    let mut lost = String::new();
    for (argument, names, of) in named(config) {
        let Some(place) = text(matches, argument).and_then(|given| place_of(given, names)) else {
            continue;
        };
        if let Device::Member(number) = of(place)
            && !knows_lost_pages(devices, assembly, number)
        {
            let _ = write!(
                lost,
                "{} (member {number}) is used though its record of lost pages cannot be read. \
                 Lost: which pages these are: they read as zeros. ",
                names[usize::from(place)]
            );
        } else if !assembly.stale.contains(&of(place)) {
            return Err(Failure::failed(format!(
                "{}: --{argument} is for a device that is out of date, and this one is in sync or \
                 being rebuilt: start without --{argument}",
                names[usize::from(place)]
            )));
        }
    }
    // If no superblock names an NVS device, nothing is lost without.
    let named = assembly.superblock.nvs_devices() > 0;
    let without_nvs = named && matches.get_flag("without-nvs");
    if assembly.stale.is_empty() && !without_nvs && lost.is_empty() {
        return Ok(());
    }
    if without_nvs {
        lost += &without_nvs_words(config, assembly);
    }
    for device in &assembly.stale {
        lost += &stale_words(*device, config, devices, assembly);
    }
    if matches.get_flag("accept-loss") {
        say::line(lost.trim_end());
        return Ok(());
    }
    Err(Failure::failed(format!("{lost}Nothing was changed. To do so: add --accept-loss")))
}

/// What is lost when a device is used though it is out of date.
fn stale_words(
    device: Device,
    config: &ArrayConfig,
    devices: &mut Devices,
    assembly: &Assembly,
) -> String {
    match device {
        Device::Nvs(number) => {
            let path = &config.nvs[usize::from(number)];
            let held = inspect(devices, assembly);
            let mut lost = format!(
                "{path} (NVS device {number}) is used as it is. Lost: every acknowledged write \
                 that only the right NVS device held. Its own {} dirty pages may be older than \
                 what the disks have, and replace it at {}. ",
                held.dirty_pages,
                ranges(&held.ranges)
            );
            if !held.lost.is_empty() {
                let lost_too = ranges(&held.lost);
                let _ = write!(lost, "Of these it cannot read, and loses, {lost_too}. ");
            }
            lost
        }
        Device::Member(number) => {
            let path = &config.disks[usize::from(number)];
            let bytes = assembly.superblock.geometry.disk_pages * 4096;
            format!(
                "{path} (member {number}) is used as it is. Lost: what was written to it since, \
                 anywhere in its {bytes} bytes; parity and copies no longer match: run `destage \
                 scrub --repair`. "
            )
        }
    }
}

/// What is lost with all NVS devices.
fn without_nvs_words(config: &ArrayConfig, assembly: &Assembly) -> String {
    let most = assembly.superblock.dirty_pages_max;
    let most = config.dirty_pages_max().map_or(most, |limit| most.min(limit));
    format!(
        "No NVS device is used ({}). Lost: every acknowledged write that was not on the disks yet. \
         Only the NVS knew which these are: at most {most} pages of 4,096 bytes, anywhere in the \
         {} bytes of the volume; these pages have what was written to them before. Destages may \
         have been interrupted, so parity and copies may not match: run `destage scrub --repair`, \
         then give the array another NVS device (`destage nvs replace`). ",
        config.nvs.join(", "),
        assembly.superblock.geometry.volume_pages().0 * 4096
    )
}

fn ranges(ranges: &[(u64, u64)]) -> String {
    const MOST: usize = 64;
    let one =
        |(first, pages): &(u64, u64)| format!("{} to {}", first * 4096, (first + pages) * 4096 - 1);
    let listed: Vec<String> = ranges.iter().take(MOST).map(one).collect();
    match ranges.len() {
        0 => "no byte of the volume".to_string(),
        n if n > MOST => format!("bytes {} and {} more ranges", listed.join(", "), n - MOST),
        _ => format!("bytes {}", listed.join(", ")),
    }
}
