//! The options for the read cache, failing disks and rebuild of a run.

use crate::config::{FaultPlan, RebuildPlan};
use crate::options::{OptionError, RunOptions};
use destage_engine::array::disks::DiskSet;
use destage_engine::array::geometry::Geometry;
use destage_engine::limits::Limits;
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::readcache::{Vdf, choose};
use destage_engine::units::{DiskId, Instant};

/// Reads the options.
pub(crate) fn plan(options: &RunOptions, geometry: &Geometry) -> Result<FaultPlan, OptionError> {
    let fails = fails(options, geometry)?;
    let rebuild = rebuild(options, &fails)?;
    let plan = FaultPlan {
        rebuild,
        until_rebuilt: options.get("measure").split(':').next() == Some("rebuild"),
        read_cache: read_cache(options)?,
        fails,
    };
    let none = plan.fails.is_empty() && plan.read_cache.is_none();
    if options.get("group") == "track" && !none {
        let message = "--group track has neither a read cache nor failing disks";
        return Err(OptionError::usage(message.into()));
    }
    Ok(plan)
}

fn read_cache(options: &RunOptions) -> Result<Option<ReadCacheChoice>, OptionError> {
    let name = options.get("read-cache");
    if name == "off" {
        return Ok(None);
    }
    let usage = |error: &dyn std::fmt::Display| OptionError::usage(error.to_string());
    let mut policy = choose(name).map_err(|error| usage(&error))?;
    if options.get("vdf") != "auto" {
        let vdf = Vdf::parse(options.get("vdf")).ok_or_else(|| options.bad("vdf"))?;
        policy = policy.with_vdf(vdf).map_err(|error| usage(&error))?;
    }
    let pages = options.pages("read-cache-size")?;
    policy.check(pages).map_err(|error| usage(&error))?;
    let on_write = options.one_of("read-cache-writes", &OnWrite::NAMES)?;
    Ok(Some(ReadCacheChoice { policy, pages, on_write }))
}

/// Seconds of the run, to the nanosecond.
fn instant(text: &str) -> Option<Instant> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.0..=1e9).contains(s))?;
    Some(Instant((seconds * 1e9) as u64))
}

fn fails(options: &RunOptions, geometry: &Geometry) -> Result<Vec<(Instant, DiskId)>, OptionError> {
    let mut fails = Vec::new();
    for text in options.get("fail").split(';').filter(|text| !text.is_empty()) {
        let (mut disk, mut at) = (None, Some(Instant::ZERO));
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("disk", value)) => disk = value.trim().parse::<u16>().ok(),
                Some(("at", value)) => at = instant(value.trim()),
                _ => return Err(options.bad("fail")),
            }
        }
        let disk = disk.filter(|disk| *disk < geometry.disks);
        let (Some(disk), Some(at)) = (disk, at) else { return Err(options.bad("fail")) };
        fails.push((at, DiskId(disk)));
    }
    fails.sort_unstable();
    let all: DiskSet = fails.iter().map(|(_, disk)| *disk).collect();
    if all.iter().count() < fails.len() || !(all.is_empty() || geometry.survives(&all)) {
        return Err(OptionError::usage(format!(
            "--fail: level {} with {} disks does not survive these",
            geometry.level.entry().entry.name,
            geometry.disks
        )));
    }
    Ok(fails)
}

fn rebuild(
    options: &RunOptions,
    fails: &[(Instant, DiskId)],
) -> Result<Option<RebuildPlan>, OptionError> {
    let text = options.get("rebuild");
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    let bad = || options.bad("rebuild");
    match (word, fails.first()) {
        ("off", _) if rest.is_empty() => Ok(None),
        ("on", None) => Err(OptionError::usage("--rebuild takes a disk that fails: --fail".into())),
        ("on", Some((failed_at, _))) => {
            let mut plan = RebuildPlan { at: *failed_at, limits: Limits::default() };
            for part in rest.split(',').filter(|part| !part.is_empty()) {
                let (name, value) = part.split_once('=').ok_or_else(bad)?;
                set(&mut plan, name.trim(), value.trim()).ok_or_else(bad)?;
            }
            if plan.at < *failed_at {
                return Err(OptionError::usage("--rebuild begins before the disk fails".into()));
            }
            Ok(Some(plan))
        }
        _ => Err(bad()),
    }
}

fn set(plan: &mut RebuildPlan, name: &str, value: &str) -> Option<()> {
    match name {
        "at" => plan.at = instant(value)?,
        _ => destage_engine::limits::set_limit(&mut plan.limits, name, value)?,
    }
    Some(())
}
