//! `destage track-trace`: a trace through a write cache organised by track, without time.

use super::text;
use crate::failure::Failure;
use clap::ArgMatches;
use destage_engine::track::replay::{TrackCounts, TrackEvent};
use destage_engine::units::PAGE_BYTES;
use destage_report::Format;
use destage_sim::options::RunOptions;
use destage_sim::track_trace::{TrackOutcome, replay};
use std::fmt::Write;
use std::path::Path;

/// Replays the trace.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let mut options = RunOptions::default();
    let set = |options: &mut RunOptions, name: &str, value: &str| {
        options.set(name, value).map_err(Failure::usage)
    };
    set(&mut options, "group", "track")?;
    let path = text(matches, "file").expect("required");
    set(&mut options, "trace", path)?;
    for name in ["policy", "rate", "disk", "trace-format", "trace-columns"] {
        set(&mut options, name, text(matches, name).expect("required or default"))?;
    }
    set(&mut options, "nvs", &pages(text(matches, "nvs").expect("default"))?)?;
    if matches.get_flag("events") && super::format(matches) == Format::Json {
        return Err(Failure::usage("--events prints lines of text: leave out --format json"));
    }
    let config = options.build().map_err(Failure::from)?;
    let track = config.track.expect("asked for");
    let device = match text(matches, "device").expect("default") {
        "all" => None,
        number => Some(number.parse().map_err(|_| {
            Failure::usage(format!("--device takes a device number or all, not `{number}`"))
        })?),
    };
    let mut events = String::new();
    let wanted = matches.get_flag("events");
    let mut on_event = |event| {
        if wanted {
            let _ = match event {
                TrackEvent::Clean { track, sectors } => writeln!(events, "C {track} {sectors}"),
                TrackEvent::Write { stalled } => writeln!(events, "W {}", u8::from(stalled)),
            };
        }
    };
    let read = options.read_options().map_err(Failure::from)?;
    let outcome = replay(Path::new(path), &read, device, &track, &mut on_event)?;
    match super::format(matches) {
        Format::Json => Ok(json(&outcome)),
        _ => Ok(events + &table(&outcome)),
    }
}

/// A size in bytes as the options of a run have it: bytes with a unit, or a number of pages.
fn pages(nvs: &str) -> Result<String, Failure> {
    match nvs.parse::<u64>() {
        Ok(bytes) if bytes % PAGE_BYTES == 0 => Ok((bytes / PAGE_BYTES).to_string()),
        Ok(bytes) => Err(Failure::usage(format!(
            "--nvs takes a multiple of {PAGE_BYTES} bytes, or a size like 256K, not `{bytes}`"
        ))),
        Err(_) => Ok(nvs.to_string()),
    }
}

fn rows(counts: &TrackCounts) -> [(&'static str, u64); 8] {
    [
        ("reads", counts.reads),
        ("read hits", counts.read_hits),
        ("writes", counts.writes),
        ("sectors written", counts.sectors_written),
        ("sector hits", counts.sector_hits),
        ("stalled writes", counts.stalls),
        ("writes to disk", counts.cleans),
        ("sectors to disk", counts.cleaned_sectors),
    ]
}

fn table(outcome: &TrackOutcome) -> String {
    let mut out = String::new();
    for (name, count) in rows(&outcome.counts) {
        let _ = writeln!(out, "{name:<16}{count:>12}");
    }
    let _ = writeln!(out, "H {:016x}", outcome.hash);
    out
}

fn json(outcome: &TrackOutcome) -> String {
    let mut fields: Vec<String> = rows(&outcome.counts)
        .iter()
        .map(|(name, count)| format!("  \"{}\": {count}", name.replace(' ', "_")))
        .collect();
    fields.push(format!("  \"hash\": \"{:016x}\"", outcome.hash));
    format!("{{\n{}\n}}\n", fields.join(",\n"))
}
