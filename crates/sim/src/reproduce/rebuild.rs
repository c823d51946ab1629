//! Runs of degraded arrays with a read cache: what they serve, how long a rebuild under load takes,
//! and what Equations 3 and 4 of the VDF paper make of it.
//!
//! Options: those of `destage sim`, of which `measure` is that of the closed run; `load`, the share
//! of what the plain policy's degraded array can serve that users ask for during the rebuild, which
//! may be swept; `curve`, the `measure` at each of some rates, or `off`. The disk in `fail` fails
//! when the cache is warm. Variants set `read-cache`. Without `trace` the load is the
//! options' own workload.
//!
//! Each point is made of these runs, all after the failure; those of other points that would be
//! the same are made once:
//! - `closed`: requests as completions allow: the most that the array serves, and the requests to
//!   its surviving disks at that rate (BW of the equations);
//! - `open`: at parts of that rate, for the rate at which a read takes 20 ms;
//! - `idle`: a rebuild with hardly any load;
//! - `rebuild`: the same at `load` times what the plain policy's `closed` run served; given up
//!   after [`PATIENCE`] times the idle one: the array is overloaded then, and never done.

use super::runner::{Cell, Plan, RunFigures, Runner};
use crate::compare::{CompareError, run_one};
use crate::estimate::crossing;
use crate::options::{OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::readcache::plain_name;
use crate::sources::Sources;
use destage_report::model::RunReport;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Runs degraded arrays.
pub struct RebuildRunner;

/// Figures of a point.
const FIGURES: [&str; 15] = [
    "rgr",
    "service-rate",
    "service-20ms",
    "rebuild-s",
    "rebuilt-share",
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

/// Settings of the runner's own.
const OWN: [&str; 2] = ["load", "curve"];
/// Parts of the closed loop's rate at which response times are taken.
const PARTS: [f64; 5] = [0.4, 0.6, 0.75, 0.88, 0.97];
/// Further ones, one after another, where reads are not slow enough at all those, or too slow.
const ABOVE: [f64; 4] = [1.03, 1.1, 1.2, 1.4];
const BELOW: [f64; 4] = [0.2, 0.1, 0.05, 0.02];
/// Response time at which the service rate is read off.
const SERVICE_MS: f64 = 20.0;
/// Mean time to failure of a disk that reliability is computed with.
const MTTF_HOURS: f64 = 1e6;
/// Requests per second of an idle load.
const IDLE_IOPS: f64 = 2.0;
/// Times an idle rebuild's length after which one under load is given up.
pub const PATIENCE: f64 = 12.0;

/// A point: its options, and what of them is the runner's own.
struct PointSetup {
    variant: String,
    value: String,
    options: RunOptions,
    load: f64,
    /// What is measured at each rate.
    curve: Option<String>,
}

fn jobs(plan: &Plan) -> Result<Vec<PointSetup>, OptionError> {
    let mut jobs = Vec::new();
    for (variant, changes) in &plan.variants {
        for value in plan.values() {
            for seed in 1..=plan.seeds.max(1) {
                let mut job = job(plan, variant, changes, &value)?;
                job.options.set("seed", &seed.to_string())?;
                jobs.push(job);
            }
        }
    }
    Ok(jobs)
}

fn job(
    plan: &Plan,
    variant: &str,
    changes: &[(String, String)],
    value: &str,
) -> Result<PointSetup, OptionError> {
    let mut options = RunOptions::default();
    let mut own = BTreeMap::from([("load", "0.7"), ("curve", "40")]);
    let swept = plan.sweep.as_ref().map(|(name, _)| (name.clone(), value.to_string()));
    let all = || plan.base.iter().chain(changes).chain(&swept);
    let replays = all().any(|(name, _)| name == "trace");
    for (name, value) in all() {
        match OWN.iter().find(|known| *known == name) {
            Some(known) => drop(own.insert(known, value)),
            // An item's panels have traces or generated loads; what it says of traces is for those.
            None if name.starts_with("trace-") && !replays => {}
            None => options.set(name, value)?,
        }
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
    let share = own["load"].parse().ok().filter(|share| (0.0..1.0).contains(share));
    let bad = || OptionError::usage(format!("load is a share below 1, not `{}`", own["load"]));
    Ok(PointSetup {
        variant: variant.to_string(),
        value: value.to_string(),
        load: share.ok_or_else(bad)?,
        curve: Some(own["curve"]).filter(|window| *window != "off").map(str::to_string),
        options,
    })
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

/// What is kept of a run.
#[derive(Clone, Debug)]
struct Run {
    iops: f64,
    rgr: f64,
    /// Requests to surviving disks a second.
    penalties_per_s: f64,
    rebuild_s: f64,
    rebuilt_share: f64,
    read_ms: f64,
    read_p99_ms: f64,
    digest: String,
}

impl Run {
    fn of(report: &RunReport) -> Run {
        let cache = report.read_cache.as_ref();
        let fault = report.fault.as_ref();
        let penalties = cache.map_or(f64::NAN, |c| c.rgr * c.requests as f64);
        Run {
            iops: report.iops,
            rgr: cache.map_or(f64::NAN, |cache| cache.rgr),
            penalties_per_s: penalties / report.measured_s,
            rebuild_s: fault.and_then(|fault| fault.rebuild_s).unwrap_or(f64::NAN),
            rebuilt_share: fault.map_or(f64::NAN, |fault| fault.rebuilt_share),
            read_ms: report.response.reads.mean_ms,
            read_p99_ms: report.response.reads.p99_ms,
            digest: report.digest.clone(),
        }
    }
}

type Once = Arc<OnceLock<Result<Run, CompareError>>>;

/// The runs of a plan, each made once.
#[derive(Default)]
struct Runs {
    sources: Sources,
    made: Mutex<BTreeMap<String, Once>>,
}

impl Runs {
    fn run(&self, options: &RunOptions) -> Result<Run, CompareError> {
        let key = format!("{:?}", options.describe());
        let once =
            Arc::clone(self.made.lock().expect("no thread panicked").entry(key).or_default());
        let make = || {
            let source = |options: &RunOptions, config: &_| self.sources.make(options, config);
            run_one(options.get("read-cache"), options, &source).map(|report| Run::of(&report))
        };
        once.get_or_init(make).clone()
    }

    /// A rebuild at this rate, given up after this many seconds.
    fn rebuild(&self, options: &RunOptions, iops: f64, most_s: f64) -> Result<Run, CompareError> {
        let mut options = at_rate(options, Some(iops))?;
        if options.get("rebuild") == "off" {
            options.set("rebuild", "on")?;
        }
        options.set("measure", &format!("rebuild:{most_s:.0}"))?;
        self.run(&options)
    }

    /// A rebuild with hardly any load, of which it does not matter what is cached.
    fn idle(&self, options: &RunOptions) -> Result<Run, CompareError> {
        let mut options = options.clone();
        options.set("read-cache", "lru")?;
        options.set("vdf", "auto")?;
        self.rebuild(&options, IDLE_IOPS, 1e9)
    }

    /// The rate at which a read takes [`SERVICE_MS`].
    fn service(&self, job: &PointSetup, closed: &Run) -> Result<Option<f64>, CompareError> {
        let Some(window) = &job.curve else { return Ok(None) };
        let at = |part: f64| -> Result<(f64, f64), CompareError> {
            let mut options = at_rate(&job.options, Some(part * closed.iops))?;
            options.set("measure", window)?;
            let open = self.run(&options)?;
            Ok((open.iops, open.read_ms))
        };
        let mut curve = PARTS.into_iter().map(at).collect::<Result<Vec<_>, _>>()?;
        for (above, below) in ABOVE.into_iter().zip(BELOW) {
            if curve[curve.len() - 1].1 <= SERVICE_MS {
                curve.push(at(above)?);
            } else if curve[0].1 > SERVICE_MS {
                curve.insert(0, at(below)?);
            }
        }
        Ok(crossing(&curve, SERVICE_MS))
    }

    fn point(&self, job: &PointSetup) -> Result<RunFigures, CompareError> {
        let options = &job.options;
        let closed = self.run(&at_rate(options, None)?)?;
        let mut plain = options.clone();
        if let Some(name) = plain_name(options.get("read-cache")) {
            plain.set("read-cache", name)?;
        }
        let service = self.service(job, &closed)?;
        let idle = self.idle(options)?;
        let user_iops = job.load * self.run(&at_rate(&plain, None)?)?.iops;
        let rebuild = self.rebuild(options, user_iops, PATIENCE * idle.rebuild_s)?;
        let utilisation = rebuild.penalties_per_s / closed.penalties_per_s;
        let predicted_s = idle.rebuild_s / (1.0 - utilisation).max(0.0);
        let (mttr_h, mttdl_years) = reliability(options, &rebuild)?;
        let values = [
            closed.rgr,
            closed.iops,
            service.unwrap_or(f64::NAN),
            rebuild.rebuild_s,
            rebuild.rebuilt_share,
            idle.rebuild_s,
            predicted_s,
            predicted_s / rebuild.rebuild_s,
            rebuild.rgr,
            rebuild.read_ms,
            rebuild.read_p99_ms,
            user_iops,
            utilisation,
            mttr_h,
            mttdl_years,
        ];
        let figures = FIGURES.into_iter().zip(values);
        let figures = figures.filter(|(_, value)| value.is_finite()).collect();
        Ok(RunFigures { figures, digest: rebuild.digest, ..RunFigures::default() })
    }
}

/// Hours that the entire disk would take, and years to the loss of data with them.
fn reliability(options: &RunOptions, rebuild: &Run) -> Result<(f64, f64), CompareError> {
    let config = options.build()?;
    let geometry = &config.controller.geometry;
    let used_sectors = geometry.disk_pages * u64::from(config.disk.sectors_per_page());
    let whole = destage_disk::Disk::new(&config.disk).sectors() as f64 / used_sectors as f64;
    let (mttr_h, disks) = (rebuild.rebuild_s * whole / 3600.0, f64::from(geometry.disks));
    let mttdl_h = MTTF_HOURS * MTTF_HOURS / (disks * (disks - 1.0) * mttr_h);
    Ok((mttr_h, mttdl_h / 8766.0))
}

impl Runner for RebuildRunner {
    fn figures(&self) -> Vec<&'static str> {
        FIGURES.to_vec()
    }

    fn check(&self, plan: &Plan) -> Result<(), CompareError> {
        for job in jobs(plan)? {
            let config = job.options.build()?;
            if config.faults.read_cache.is_none() || config.faults.fails.is_empty() {
                let message = format!("`{}`: a read cache and a disk that fails", job.variant);
                return Err(OptionError::usage(message).into());
            }
        }
        Ok(())
    }

    fn run(
        &self,
        plan: &Plan,
        threads: usize,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Cell>, CompareError> {
        let (jobs, runs) = (jobs(plan)?, Runs::default());
        let work = |job: &PointSetup| runs.point(job);
        let samples = in_parallel(&jobs, threads, &work, Result::is_err, progress);
        let mut cells: Vec<Cell> = Vec::new();
        for (PointSetup { variant, value, .. }, sample) in jobs.into_iter().zip(samples) {
            let sample = sample?;
            match cells.last_mut().filter(|c| (&c.variant, &c.value) == (&variant, &value)) {
                Some(cell) => cell.samples.push(sample),
                None => cells.push(Cell { variant, value, samples: vec![sample] }),
            }
        }
        Ok(cells)
    }
}
