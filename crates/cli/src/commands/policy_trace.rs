//! `destage policy-trace`: an event file through one policy, event by event.

use super::text;
use crate::failure::Failure;
use clap::ArgMatches;
use destage_engine::array::geometry::Level;
use destage_engine::policytrace::{TraceConfig, replay};
use std::io::Read;

/// Replays the file.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let config = config(matches)?;
    let path = text(matches, "file").expect("required");
    let mut events = Vec::new();
    let read = match path {
        "-" => std::io::stdin().lock().read_to_end(&mut events).map(|_| ()),
        path => std::fs::read(path).map(|bytes| events = bytes),
    };
    read.map_err(|error| Failure::failed(format!("{path}: {error}")))?;
    let events = String::from_utf8(events).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|b| **b == b'\n').count() + 1;
        Failure::failed(format!("{path}: line {line}: expected text, found binary data"))
    })?;
    replay(&events, &config).map_err(|error| Failure::failed(format!("{path}: {error}")))
}

fn config(matches: &ArgMatches) -> Result<TraceConfig, Failure> {
    let number = |name: &str, low: u64, high: u64| {
        let value = *matches.get_one::<u64>(name).expect("required or default");
        match (low..=high).contains(&value) {
            true => Ok(value),
            false => Err(Failure::usage(format!("--{name} takes {low} to {high}, not {value}"))),
        }
    };
    let percent = |name: &str| {
        let value = *matches.get_one::<f64>(name).expect("default");
        match (0.0..=100.0).contains(&value) {
            true => Ok((value * 100.0).round() as u64),
            false => Err(Failure::usage(format!("--{name} takes 0 to 100 %, not {value}"))),
        }
    };
    let (high, low) = (percent("high")?, percent("low")?);
    if high <= low {
        return Err(Failure::usage("--high must be above --low"));
    }
    let policy = text(matches, "policy").expect("required");
    Ok(TraceConfig {
        policy: destage_engine::policy::choose(policy).map_err(Failure::usage)?,
        pages: number("pages", 1, u64::from(u32::MAX) - 1)?,
        group_pages: number("group-pages", 1, destage_engine::nvs::directory::MAX_PAGES_PER_GROUP)?,
        disks: number("disks", 1, 1 << 20)?,
        queue_depth: number("queue-depth", 1, 1 << 32)?,
        high,
        low,
        mirrored: text(matches, "level").and_then(Level::named).is_some_and(Level::is_mirrored),
        seq_threshold: number("seq-threshold", 0, u64::from(u32::MAX))? as u32,
    })
}
