//! Runs of a write cache by track over a trace, with a disk that takes its time (`time = "disk"`,
//! the default) or without time (`time = "none"`).
//!
//! Options are those of `destage sim`, with `group=track` set; `trace` names a file in the folder
//! of traces. `high` and `low` set one threshold of the rate, so that a sweep can be over one.

use super::runner::{Cell, Plan, RunFigures, Runner};
use crate::compare::{CompareError, run_one};
use crate::options::{OPTIONS, OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::sources::make_source;
use crate::track_trace;
use destage_report::model::RunReport;
use std::collections::BTreeMap;

/// Runs caches by track.
pub struct TrackRunner;

/// Counts that a run has with and without time.
const COUNTS: [&str; 6] = [
    "trace-writes",
    "writes-to-disk",
    "writes-share",
    "stalled-writes",
    "stalled-share",
    "sectors-per-write",
];

/// What only a run with a disk has.
const TIMES: [&str; 6] = [
    "service-ms",
    "read-service-ms",
    "write-service-ms",
    "read-queue-ms",
    "write-queue-ms",
    "response-ms",
];

/// One run: its options, and whether time passes.
struct TrackRun {
    options: RunOptions,
    timed: bool,
}

fn job(plan: &Plan, changes: &[(String, String)], value: &str) -> Result<TrackRun, OptionError> {
    let mut all: BTreeMap<&str, &str> = plan
        .base
        .iter()
        .chain(changes)
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    if let Some((name, _)) = &plan.sweep {
        all.insert(name, value);
    }
    let timed = match all.remove("time") {
        None | Some("disk") => true,
        Some("none") => false,
        Some(other) => {
            return Err(OptionError::usage(format!("time takes disk or none, not `{other}`")));
        }
    };
    let mut options = RunOptions::default();
    options.set("group", "track")?;
    let thresholds = match (all.remove("high"), all.remove("low")) {
        (Some(high), Some(low)) => format!("{high}/{low}"),
        (high, low) => high.or(low).unwrap_or_default().to_string(),
    };
    for (name, value) in all {
        options.set(name, value)?;
    }
    if !thresholds.is_empty() {
        options.set("thresholds", &thresholds)?;
    }
    options.set("trace", &plan.trace().to_string_lossy())?;
    options.build()?;
    options.replay_options()?;
    Ok(TrackRun { options, timed })
}

/// A job for each variant and value, in that order.
fn jobs(plan: &Plan) -> Result<Vec<TrackRun>, OptionError> {
    let values = plan.values();
    let variants = plan.variants.iter();
    variants.flat_map(|(_, changes)| values.iter().map(|value| job(plan, changes, value))).collect()
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn counts(writes: u64, cleans: u64, sectors: u64, stalls: u64) -> Vec<(&'static str, f64)> {
    let values = [
        writes as f64,
        cleans as f64,
        share(cleans, writes),
        stalls as f64,
        share(stalls, writes),
        share(sectors, cleans),
    ];
    COUNTS.into_iter().zip(values).collect()
}

fn timed(report: &RunReport) -> RunFigures {
    let (writes, destage) = (report.response.writes.count, &report.destage);
    let mut figures = counts(writes, destage.groups, destage.pages, report.stalled_writes);
    let service = report.service.clone().unwrap_or_default();
    let times = [
        service.all_ms,
        service.reads_ms,
        service.writes_ms,
        service.reads_queue_ms,
        service.writes_queue_ms,
        report.response.all.mean_ms,
    ];
    figures.extend(TIMES.into_iter().zip(times));
    RunFigures {
        figures: figures.into_iter().collect(),
        digest: report.digest.clone(),
        ..RunFigures::default()
    }
}

fn untimed(options: &RunOptions) -> Result<RunFigures, CompareError> {
    let config = options.build()?;
    let track = config.track.expect("group=track was set");
    let (read, replay) = (options.read_options()?, options.replay_options()?);
    let path = std::path::Path::new(options.get("trace"));
    let outcome = track_trace::replay(path, &read, replay.device, &track, &mut |_| {})?;
    let c = outcome.counts;
    let figures = counts(c.writes, c.cleans, c.cleaned_sectors, c.stalls).into_iter().collect();
    Ok(RunFigures { figures, digest: format!("{:016x}", outcome.hash), ..RunFigures::default() })
}

fn run(job: &TrackRun) -> Result<RunFigures, CompareError> {
    match job.timed {
        true => Ok(timed(&run_one("track", &job.options, &make_source)?)),
        false => untimed(&job.options),
    }
}

impl Runner for TrackRunner {
    fn figures(&self) -> Vec<&'static str> {
        COUNTS.into_iter().chain(TIMES).collect()
    }

    fn unit(&self, option: &str) -> &'static str {
        match option {
            "high" | "low" => "% of NVS",
            _ => OPTIONS.iter().find(|o| o.name == option).map_or("-", |o| o.unit),
        }
    }

    fn check(&self, plan: &Plan) -> Result<(), CompareError> {
        if plan.setting("trace").is_none() {
            return Err(OptionError::usage("a run by track takes a trace".into()).into());
        }
        jobs(plan)?;
        Ok(())
    }

    fn run(
        &self,
        plan: &Plan,
        threads: usize,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Cell>, CompareError> {
        let jobs = jobs(plan)?;
        let samples: Vec<RunFigures> = in_parallel(&jobs, threads, &run, Result::is_err, progress)
            .into_iter()
            .collect::<Result<_, _>>()?;
        let values = plan.values();
        let names = plan.variants.iter();
        let names = names.flat_map(|(name, _)| values.iter().map(move |value| (name, value)));
        // A replay draws nothing, so every seed gives the same.
        let seeds = plan.seeds.max(1) as usize;
        let cell = |((name, value), sample): ((&String, &String), RunFigures)| Cell {
            variant: name.clone(),
            value: value.clone(),
            samples: vec![sample; seeds],
        };
        Ok(names.zip(samples).map(cell).collect())
    }
}
