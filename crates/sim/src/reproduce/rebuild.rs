//! Runs of degraded arrays with a read cache: what they serve, how long a rebuild under load takes,
//! and what Equations 3 and 4 of the VDF paper make of it.
//!
//! Options: those of `destage sim`, and `load`, the share of what the plain policy's degraded array
//! can serve that users ask for during the rebuild. The disk in `fail` fails when the cache is
//! warm. Variants set `read-cache`. Without `trace` the load is the options' own workload.
//!
//! Each point is made of these runs, all after the failure:
//! - `closed`: requests as completions allow: the most that the array serves, and the requests to
//!   its surviving disks at that rate (BW of the equations);
//! - `open`: at parts of that rate, for the rate at which a read takes 20 ms;
//! - `rebuild`: at `load` times what the plain policy's `closed` run served, with a spare;
//! - `idle`: the same rebuild with hardly any load.

use super::runner::{Cell, Plan, Runner, Sample};
use crate::compare::{CompareError, run_one};
use crate::estimate::crossing;
use crate::options::{OPTIONS, OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::readcache::plain_name;
use crate::sources::make_source;
use destage_report::model::RunReport;

/// Runs degraded arrays.
pub struct RebuildRunner;

/// Figures of a point.
const FIGURES: [&str; 14] = [
    "rgr",
    "service-rate",
    "service-20ms",
    "rebuild-s",
    "rebuild-idle-s",
    "predicted-s",
    "predicted-over-simulated",
    "rebuild-rgr",
    "read-ms",
    "read-p99-ms",
    "user-iops",
    "utilisation",
    "mttr-h",
    "mttdl-years",
];

/// Parts of the closed loop's rate at which response times are taken.
const PARTS: [f64; 5] = [0.4, 0.6, 0.75, 0.88, 0.97];
/// Response time at which the service rate is read off.
const SERVICE_MS: f64 = 20.0;
/// Mean time to failure of a disk that reliability is computed with.
const MTTF_HOURS: f64 = 1e6;
/// Requests a second where there should be hardly any.
const IDLE_IOPS: f64 = 2.0;

fn options_of(
    plan: &Plan,
    changes: &[(String, String)],
    value: &str,
) -> Result<RunOptions, OptionError> {
    let mut options = RunOptions::default();
    let base = plan.base.iter().filter(|(name, _)| name != "load");
    let swept = plan.sweep.as_ref().map(|(name, _)| (name.clone(), value.to_string()));
    for (name, value) in base.chain(changes).chain(&swept) {
        options.set(name, value)?;
    }
    if !options.get("trace").is_empty() {
        let trace = plan.traces.join(options.get("trace"));
        options.set("trace", &trace.display().to_string())?;
        options.set("trace-repeat", "on")?;
        if options.get("trace-mode") == "open" {
            options.set("trace-mode", "closed:64")?;
        }
    }
    options.set("warmup", "fail")?;
    Ok(options)
}

fn load(plan: &Plan) -> Result<f64, OptionError> {
    let text = plan.setting("load").unwrap_or("0.7");
    let share = text.parse().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| OptionError::usage(format!("load is a share below 1, not `{text}`")))
}

/// The pace of the load: closed, or open at a rate.
fn at_rate(options: &RunOptions, iops: Option<f64>) -> Result<RunOptions, OptionError> {
    let mut options = options.clone();
    let is_trace = !options.get("trace").is_empty();
    match iops {
        Some(iops) if is_trace => options.set("trace-mode", &format!("rate:{iops:.3}"))?,
        Some(iops) => options.set("iops", &format!("{iops:.3}"))?,
        None if is_trace => {}
        None => {
            let workload = options.get("workload");
            let join = if workload.contains(':') { ',' } else { ':' };
            options.set("workload", &format!("{workload}{join}threads=64,iops=0"))?;
        }
    }
    Ok(options)
}

fn run(options: &RunOptions) -> Result<RunReport, CompareError> {
    run_one(options.get("read-cache"), options, &make_source)
}

/// Requests to surviving disks a second.
fn penalties_per_s(report: &RunReport) -> f64 {
    let cache = report.read_cache.as_ref();
    cache.map_or(f64::NAN, |c| c.rgr * c.requests as f64 / report.measured_s)
}

fn rebuild_s(report: &RunReport) -> f64 {
    report.fault.as_ref().and_then(|fault| fault.rebuild_s).unwrap_or(f64::NAN)
}

/// A rebuild at this rate.
fn rebuild_at(options: &RunOptions, iops: f64) -> Result<RunReport, CompareError> {
    let mut options = at_rate(options, Some(iops))?;
    if options.get("rebuild") == "off" {
        options.set("rebuild", "on")?;
    }
    options.set("measure", "rebuild")?;
    run(&options)
}

fn point(options: &RunOptions, load: f64) -> Result<Sample, CompareError> {
    let rgr = |r: &RunReport| r.read_cache.as_ref().map_or(f64::NAN, |cache| cache.rgr);
    let closed = run(&at_rate(options, None)?)?;
    let plain = match plain_name(options.get("read-cache")) {
        None => closed.clone(),
        Some(name) => {
            let mut plain = options.clone();
            plain.set("read-cache", name)?;
            run(&at_rate(&plain, None)?)?
        }
    };
    let mut curve = Vec::new();
    for part in PARTS {
        let open = run(&at_rate(options, Some(part * closed.iops))?)?;
        curve.push((open.iops, open.response.reads.mean_ms));
    }
    let user_iops = load * plain.iops;
    let rebuild = rebuild_at(options, user_iops)?;
    let idle = rebuild_at(options, IDLE_IOPS)?;
    let utilisation = penalties_per_s(&rebuild) / penalties_per_s(&closed);
    let config = options.build()?;
    let disks = f64::from(config.controller.geometry.disks);
    let whole = destage_disk::Disk::new(&config.disk).sectors() as f64
        / (config.controller.geometry.disk_pages * destage_engine::units::SECTORS_PER_PAGE) as f64;
    let mttr_h = rebuild_s(&rebuild) * whole / 3600.0;
    let mttdl_years = MTTF_HOURS * MTTF_HOURS / (disks * (disks - 1.0) * mttr_h) / 8766.0;
    let values = [
        rgr(&closed),
        closed.iops,
        crossing(&curve, SERVICE_MS).unwrap_or(f64::NAN),
        rebuild_s(&rebuild),
        rebuild_s(&idle),
        rebuild_s(&idle) / (1.0 - utilisation),
        rebuild_s(&idle) / (1.0 - utilisation) / rebuild_s(&rebuild),
        rgr(&rebuild),
        rebuild.response.reads.mean_ms,
        rebuild.response.reads.p99_ms,
        user_iops,
        utilisation,
        mttr_h,
        mttdl_years,
    ];
    let figures = FIGURES.into_iter().zip(values).filter(|(_, value)| value.is_finite()).collect();
    Ok(Sample { figures, digest: rebuild.digest, ..Sample::default() })
}

impl Runner for RebuildRunner {
    fn figures(&self) -> Vec<&'static str> {
        FIGURES.to_vec()
    }

    fn unit(&self, option: &str) -> &'static str {
        OPTIONS.iter().find(|o| o.name == option).map_or("-", |o| o.unit)
    }

    fn check(&self, plan: &Plan) -> Result<(), CompareError> {
        load(plan)?;
        for (label, changes) in &plan.variants {
            for value in plan.values() {
                let options = options_of(plan, changes, &value)?;
                let config = options.build()?;
                if config.faults.read_cache.is_none() || config.faults.fails.is_empty() {
                    let message = format!("`{label}`: a read cache and a disk that fails");
                    return Err(OptionError::usage(message).into());
                }
            }
        }
        Ok(())
    }

    fn missing(&self, plan: &Plan) -> Option<String> {
        plan.setting("trace").and_then(|_| plan.missing_trace())
    }

    fn run(
        &self,
        plan: &Plan,
        threads: usize,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Cell>, CompareError> {
        let load = load(plan)?;
        let mut jobs = Vec::new();
        for (variant, changes) in &plan.variants {
            for value in plan.values() {
                for seed in 1..=plan.seeds.max(1) {
                    let mut options = options_of(plan, changes, &value)?;
                    options.set("seed", &seed.to_string())?;
                    jobs.push((variant.clone(), value.clone(), options));
                }
            }
        }
        let work = |(_, _, options): &(String, String, RunOptions)| point(options, load);
        let samples = in_parallel(&jobs, threads, &work, Result::is_err, progress);
        let mut cells: Vec<Cell> = Vec::new();
        for ((variant, value, _), sample) in jobs.into_iter().zip(samples) {
            let sample = sample?;
            match cells.last_mut().filter(|c| (&c.variant, &c.value) == (&variant, &value)) {
                Some(cell) => cell.samples.push(sample),
                None => cells.push(Cell { variant, value, samples: vec![sample] }),
            }
        }
        Ok(cells)
    }
}
