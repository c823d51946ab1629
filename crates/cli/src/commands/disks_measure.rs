//! `destage disks measure`: a spec from a drive.

use super::disks_fit::comment;
use super::disks_plot::plot;
use super::quantity::bytes;
use super::{format, text};
use crate::failure::Failure;
use crate::output::plot_format;
use crate::paths::Paths;
use clap::ArgMatches;
use destage_disk::DiskSpec;
use destage_disk::measure::{self, Check, MeasureError, Measured, ModelProbe, Probe};
use destage_report::{Cell, Table};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// About how many commands a measurement takes, and the checks; for the progress bar.
const COMMANDS: u64 = 10_000;
const CHECKS: u64 = 4_000;
/// Seed of the traces that check the spec.
const CHECK_SEED: u64 = 0x6465_7374;

/// Measures, writes the spec, and lists what it is and how well it predicts.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let target = text(matches, "target").expect("required");
    let out = Path::new(text(matches, "out").expect("required"));
    let mut paths = Paths::reading([target]);
    paths.spec(out, matches.get_flag("force"))?;
    let drawing = text(matches, "plot").map(Path::new);
    let drawing = drawing.map(|path| plot_format(path).map(|form| (path, form))).transpose()?;
    drawing.map_or(Ok(()), |(path, _)| paths.report(path))?;
    let mut state = State::load(out, target)?;
    let range = text(matches, "destructive");
    let mut probe = open(target, range)?;
    if let (Some(range), true) = (range, probe.writable().is_empty()) {
        let bytes = probe.sectors() * u64::from(probe.sector_bytes());
        return Err(Failure::usage(format!(
            "--destructive {range}: {target} ends at byte {bytes}. Give a range inside it."
        )));
    }
    let stem = out.file_stem().and_then(|stem| stem.to_str()).unwrap_or("disk");
    let name = text(matches, "name").unwrap_or(stem);
    let (spec, checks) = measured(&mut *probe, &mut state, name, target)?;
    let written = comment(&state.measured.notes(target));
    let toml = format!("{written}\n\n{}", spec.to_toml());
    destage_report::write_file(out, toml.as_bytes())?;
    if let Some((path, form)) = drawing {
        let drawn = destage_render::draw(&plot(&spec), form).map_err(Failure::failed)?;
        destage_report::write_file(path, &drawn)?;
    }
    state.remove();
    Ok(table(&spec, &state.measured, &checks).render(format(matches)))
}

fn measured(
    probe: &mut dyn Probe,
    state: &mut State,
    name: &str,
    target: &str,
) -> Result<(DiskSpec, Vec<Check>), Failure> {
    let failed = |error: MeasureError| match error {
        MeasureError::Device(text) => Failure::failed(text),
        MeasureError::NotADisk(text) => Failure::failed(format!("{target}: {text}")),
    };
    let bar = crate::progress::bar("commands");
    bar.set_length(COMMANDS + CHECKS);
    let path = state.path.clone();
    let mut save = |measured: &Measured| save(&path, target, measured);
    let mut result = std::mem::take(&mut state.measured);
    let ran = measure::measure(probe, &mut result, &mut save, &mut |done| {
        bar.set_position(done.min(COMMANDS));
    });
    state.measured = result;
    ran.map_err(failed)?;
    let spec = state.measured.spec(name).map_err(failed)?;
    let checks = measure::check(probe, &spec, CHECK_SEED, &mut |done| {
        bar.set_position(COMMANDS + done);
    });
    bar.finish_and_clear();
    Ok((spec, checks.map_err(failed)?))
}

/// What has been measured so far, next to the output.
struct State {
    path: PathBuf,
    measured: Measured,
}

impl State {
    fn load(out: &Path, target: &str) -> Result<State, Failure> {
        let mut path = out.as_os_str().to_os_string();
        path.push(".state");
        let path = PathBuf::from(path);
        let shown = path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(State { path, measured: Measured::new(1) });
            }
            Err(error) => return Err(Failure::failed(format!("{shown}: cannot read: {error}"))),
        };
        let other = |what: &str| {
            Failure::failed(format!("{shown}: {what}. Remove it, or name another output."))
        };
        let saved: Value = serde_json::from_str(&text)
            .map_err(|error| other(&format!("is not a saved measurement: {error}")))?;
        if saved.get("target").and_then(Value::as_str) != Some(target) {
            return Err(other("is a measurement of another target"));
        }
        let measured = saved.get("measured").cloned().unwrap_or_default();
        let measured = serde_json::from_value(measured)
            .map_err(|error| other(&format!("is not a saved measurement: {error}")))?;
        Ok(State { path, measured })
    }

    fn remove(&self) {
        // Left behind, it only lets the command continue where there is nothing to do.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn save(path: &Path, target: &str, measured: &Measured) -> Result<(), MeasureError> {
    let text = json!({ "target": target, "measured": measured }).to_string();
    destage_report::write_file(path, text.as_bytes())
        .map_err(|error| MeasureError::Device(error.to_string()))
}

/// The drive; `range` says what may be overwritten.
fn open(target: &str, range: Option<&str>) -> Result<Box<dyn Probe>, Failure> {
    let range = range.map_or(Ok(0..0), byte_range)?;
    if target.contains("://") {
        return open_nbd(target, range);
    }
    let path = Path::new(target);
    if path.extension().is_none_or(|extension| extension != "toml") && path.exists() {
        return open_file(path, range);
    }
    let spec = destage_disk::find(target)?;
    let sectors = destage_disk::Disk::new(&spec).sectors();
    let size = u64::from(spec.sector_bytes);
    let writable = range.start.div_ceil(size)..(range.end / size).min(sectors);
    Ok(Box::new(ModelProbe::new(&spec, writable)))
}

#[cfg(feature = "load")]
fn open_nbd(target: &str, range: Range<u64>) -> Result<Box<dyn Probe>, Failure> {
    let uri: destage_nbd::client::Uri = target.parse().map_err(Failure::usage)?;
    let drive = destage_load::drive::NbdDrive::connect(&uri, range).map_err(Failure::failed)?;
    Ok(Box::new(drive))
}

#[cfg(feature = "load")]
fn open_file(path: &Path, range: Range<u64>) -> Result<Box<dyn Probe>, Failure> {
    let drive = destage_load::drive::FileDrive::open(path, range).map_err(Failure::failed)?;
    Ok(Box::new(drive))
}

#[cfg(not(feature = "load"))]
fn open_nbd(target: &str, _range: Range<u64>) -> Result<Box<dyn Probe>, Failure> {
    Err(Failure::usage(format!("{target}: this build has no load generator, only models")))
}

#[cfg(not(feature = "load"))]
fn open_file(path: &Path, range: Range<u64>) -> Result<Box<dyn Probe>, Failure> {
    open_nbd(&path.display().to_string(), range)
}

/// `all`, or first and last byte as in 10G-30G.
fn byte_range(text: &str) -> Result<Range<u64>, Failure> {
    if text == "all" {
        return Ok(0..u64::MAX);
    }
    let wrong =
        || Failure::usage(format!("--destructive {text}: a range of bytes, e.g. 10G-30G, or all"));
    let (first, end) = text.split_once('-').ok_or_else(wrong)?;
    let (first, end) = (bytes(first)?, bytes(end)?);
    if first < end { Ok(first..end) } else { Err(wrong()) }
}

fn table(spec: &DiskSpec, measured: &Measured, checks: &[Check]) -> Table {
    let mut table = Table::new(&[("figure", ""), ("value", ""), ("unit", "")]);
    let mut row = |name: &str, value: f64, decimals: usize, unit: &str| {
        table.push(vec![Cell::text(name), Cell::num(value, decimals), Cell::text(unit)]);
    };
    for (name, value, decimals, unit) in measured.figures(spec) {
        row(name, value, decimals, unit);
    }
    for check in checks {
        let name = |what: &str| format!("{} trace: {what}", check.trace);
        row(&name("commands"), check.commands as f64, 0, "");
        row(&name("mean service time"), check.measured_ms, 3, "ms");
        row(&name("mean predicted"), check.predicted_ms, 3, "ms");
        row(&name("error of the mean"), check.error() * 100.0, 2, "%");
        row(&name("rms"), check.rms_ms, 3, "ms");
        row(&name("demerit"), check.demerit() * 100.0, 2, "%");
    }
    table
}
