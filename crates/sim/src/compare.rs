//! Several variants on identical input, along a swept option, over seeds, on all processors.

use crate::config::SimConfig;
use crate::contradictions;
use crate::estimate::{Reach, estimate, reach};
use crate::findings;
use crate::options::{OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::simulator::{SimError, simulate};
use destage_report::model::{AtResponse, Axis, CompareReport, Point, RunReport, SCHEMA};
use destage_workload::source::Source;
use thiserror::Error;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Heading.
    pub title: String,
    /// The command that makes it again.
    pub command: String,
    /// Options common to all runs.
    pub base: RunOptions,
    /// Variants: a label and the options that make it.
    pub variants: Vec<(String, Vec<(String, String)>)>,
    /// A swept option and its values.
    pub sweep: Option<(String, Vec<String>)>,
    /// Minimum seeds per point, from the base seed upwards.
    pub seeds: u32,
    /// More seeds until half the 95 % confidence interval of the mean throughput and response
    /// time is within this share of the mean, if given.
    pub confidence: Option<f64>,
    /// Maximum seeds per point.
    pub seeds_max: u32,
    /// Response times in ms at which throughput is read off a sweep of `iops`.
    pub levels_ms: Vec<f64>,
}

/// Why a comparison failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompareError {
    /// An option does not fit.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A run failed.
    #[error("{label}: {error}")]
    Run {
        /// Which run.
        label: String,
        /// Why.
        error: SimError,
    },
}

impl CompareError {
    /// The same of the run at this point of a sweep, e.g. `policy=wow nvs=4096`.
    pub(crate) fn at(self, point: &str) -> CompareError {
        match self {
            CompareError::Run { error, .. } => CompareError::Run { label: point.into(), error },
            CompareError::Option(OptionError { message, is_input }) => {
                OptionError { message: format!("{point}: {message}"), is_input }.into()
            }
        }
    }
}

/// Makes the source of a run.
pub type MakeSource<'a> =
    dyn Fn(&RunOptions, &SimConfig) -> Result<Box<dyn Source + Send>, OptionError> + Sync + 'a;

/// Makes a run of a variant's label and options.
pub type RunBy<'a> = dyn Fn(&str, &RunOptions) -> Result<RunReport, CompareError> + Sync + 'a;

/// One run, options and all, as a report.
///
/// # Errors
/// An option that does not fit, or a run that fails.
pub fn run_one(
    label: &str,
    options: &RunOptions,
    make_source: &MakeSource<'_>,
) -> Result<RunReport, CompareError> {
    let config = options.build()?;
    let mut source = make_source(options, &config)?;
    run_built(label, options, &config, &mut *source)
}

/// [`run_one`] of a configuration already built from the options, whose policy may be another.
///
/// # Errors
/// As [`run_one`].
pub fn run_built(
    label: &str,
    options: &RunOptions,
    config: &SimConfig,
    source: &mut dyn Source,
) -> Result<RunReport, CompareError> {
    let mut report = simulate(config, source)
        .map_err(|error| CompareError::Run { label: label.to_string(), error })?;
    if report.measured_s == 0.0 && report.response.all.count == 0 {
        return Err(unmeasured(options, report.warmup_s).into());
    }
    report.label = label.to_string();
    report.seed = options.seed()?;
    report.options.extend(options.describe());
    report.options.insert("policy".into(), config.controller.policy.choice.describe());
    report.options.insert("rate".into(), config.controller.rate.choice.describe());
    let rate = &config.controller.rate.choice;
    for param in rate.entry.params.iter().filter(|p| ["high", "low"].contains(&p.name)) {
        report.options.insert(param.name.into(), rate.text(param.name).into());
    }
    report.options.insert("window".into(), config.disk.window.to_string());
    Ok(report)
}

/// The load has ended in the warm-up, after this many seconds.
fn unmeasured(options: &RunOptions, end_s: f64) -> OptionError {
    let more = match options.get("requests") {
        "all" => String::new(),
        requests => format!(", or more than --requests {requests}"),
    };
    OptionError::usage(format!(
        "the load ended after {end_s:.1} s, in the warm-up (--warmup {}): nothing was measured. \
         Use a shorter warm-up (--warmup 0 measures from the start){more}",
        options.get("warmup")
    ))
}

/// A point to be measured: variant, axis value, options without seed.
struct Cell {
    variant: String,
    value: String,
    options: RunOptions,
    runs: Vec<RunReport>,
}

impl Comparison {
    /// The files that its runs may read: values of `trace` and `disk`.
    pub fn files(&self) -> Vec<&str> {
        let is_file = |name: &str| ["trace", "disk"].contains(&name);
        let changes = self.variants.iter().flat_map(|(_, changes)| changes);
        let changed = changes.filter(|(name, _)| is_file(name)).map(|(_, value)| value.as_str());
        let swept = self.sweep.iter().filter(|(name, _)| is_file(name));
        let swept = swept.flat_map(|(_, values)| values.iter().map(String::as_str));
        ["trace", "disk"]
            .map(|name| self.base.get(name))
            .into_iter()
            .chain(changed)
            .chain(swept)
            .collect()
    }

    /// Whether every run could be made, without making any.
    ///
    /// # Errors
    /// The first option that does not fit.
    pub fn check(&self) -> Result<(), CompareError> {
        self.cells().map(|_| ())
    }

    fn cells(&self) -> Result<Vec<Cell>, CompareError> {
        self.contradictions()?;
        let one = (String::new(), vec![String::new()]);
        let (name, values) = self.sweep.as_ref().unwrap_or(&one);
        let mut cells = Vec::new();
        for (variant, changes) in &self.variants {
            for value in values {
                let mut options = self.base.clone();
                for (option, value) in changes {
                    options.set(option, value)?;
                }
                if !name.is_empty() {
                    options.set(name, value)?;
                }
                options.check_given()?;
                options.build()?;
                if self.seeds > 1 || self.confidence.is_some() {
                    contradictions::of_seeds(&options, "more than one seed")?;
                } else if name == "seed" {
                    contradictions::of_seeds(&options, "a sweep of seed")?;
                }
                let (variant, value) = (variant.clone(), value.clone());
                cells.push(Cell { variant, value, options, runs: Vec::new() });
            }
        }
        Ok(cells)
    }

    fn contradictions(&self) -> Result<(), OptionError> {
        contradictions::of_axes(&self.base, &self.sweep)?;
        self.distinct_variants()?;
        if self.variants.is_empty() {
            return Err(OptionError::usage("nothing to compare: name one or more policies".into()));
        }
        let swept = self.sweep.as_ref().map(|(name, _)| name);
        let several = self.seeds > 1 || self.confidence.is_some();
        contradictions::of_swept_seeds(swept.is_some_and(|name| name == "seed"), several)?;
        for (_, changes) in &self.variants {
            if let Some((name, value)) = changes.iter().find(|(name, _)| Some(name) == swept) {
                return Err(OptionError::usage(format!(
                    "a sweep of {name} contradicts {name}={value}, which is compared: list what to \
                     compare once, and sweep another option"
                )));
            }
        }
        Ok(())
    }

    /// No variant is listed twice, nor a policy by two names.
    fn distinct_variants(&self) -> Result<(), OptionError> {
        for (index, (label, _)) in self.variants.iter().enumerate() {
            if self.variants[..index].iter().any(|(other, _)| other == label) {
                return Err(OptionError::usage(format!("{label} is compared with itself")));
            }
        }
        // Variants with a label of their own may be equal: a comparison may want to show that.
        let policy = |(label, changes): &(String, Vec<(String, String)>)| match changes.as_slice() {
            [(name, value)] if name == "policy" && value == label => Some(value.clone()),
            _ => None,
        };
        let policies: Vec<String> = self.variants.iter().filter_map(policy).collect();
        contradictions::distinct(&self.base, "policy", &policies)
    }

    /// Runs everything with `threads` threads; `progress(done, total)` is called from any of them.
    ///
    /// # Errors
    /// The first option that does not fit, before anything runs; or the first run that fails.
    pub fn run(
        &self,
        threads: usize,
        make_source: &MakeSource<'_>,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<CompareReport, CompareError> {
        let run = |label: &str, options: &RunOptions| run_one(label, options, make_source);
        self.run_by(threads, &run, progress)
    }

    /// [`Comparison::run`], each run made by `run` from its variant's label and its options.
    ///
    /// # Errors
    /// As [`Comparison::run`].
    pub fn run_by(
        &self,
        threads: usize,
        run: &RunBy<'_>,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<CompareReport, CompareError> {
        let mut cells = self.cells()?;
        let mut done = 0;
        loop {
            let jobs = self.jobs(&cells)?;
            if jobs.is_empty() {
                return self.report(cells);
            }
            let total = done + jobs.len();
            let reports =
                run_all(&jobs, threads, run, &|finished| progress(done + finished, total))?;
            done = total;
            for (job, report) in jobs.iter().zip(reports) {
                cells[job.cell].runs.push(report);
            }
        }
    }

    /// The runs that are still wanted.
    fn jobs(&self, cells: &[Cell]) -> Result<Vec<SeedRun>, CompareError> {
        let base_seed = self.base.seed()?;
        let mut jobs = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            let have = cell.runs.len() as u32;
            let wanted = match self.confidence {
                _ if have == 0 => self.seeds.max(1),
                Some(share) if have < self.seeds_max && !settled(&cell.runs, share) => have + 1,
                _ => have,
            };
            for seed in have..wanted {
                let mut options = cell.options.clone();
                options.set("seed", &base_seed.wrapping_add(u64::from(seed)).to_string())?;
                let place = match &self.sweep {
                    Some((name, _)) => format!("{} at {name}={}", cell.variant, cell.value),
                    None => cell.variant.clone(),
                };
                jobs.push(SeedRun { cell: index, label: cell.variant.clone(), place, options });
            }
        }
        Ok(jobs)
    }

    fn report(&self, cells: Vec<Cell>) -> Result<CompareReport, CompareError> {
        let points: Vec<Point> = cells.into_iter().map(point).collect();
        let axis = self.sweep.as_ref().map(|(name, values)| {
            let option = crate::options::OPTIONS.iter().find(|o| o.name == name);
            let unit = option.map_or("-", |o| o.unit).to_string();
            Axis { name: name.clone(), unit, values: values.clone() }
        });
        let mut report = CompareReport {
            schema: SCHEMA,
            title: self.title.clone(),
            command: self.command.clone(),
            options: self.base.describe(),
            axis,
            points,
            ..CompareReport::default()
        };
        if let Some(run) = report.points.iter().flat_map(|p| &p.runs).next() {
            let bound = run.options.get("outstanding-bound").cloned().unwrap_or_default();
            report.options.insert("outstanding-bound (first run)".into(), bound);
        }
        let replays = self.varies("trace");
        report.options.retain(|name, _| !(self.varies(name) || replays && name == "workload"));
        if self.sweep.as_ref().is_some_and(|(name, _)| name == "iops") {
            report.at_response = self.at_response(&report.points);
        }
        report.findings = findings::of(&report);
        if let Some(share) = self.confidence {
            let open = report.points.iter().filter(|p| !settled(&p.runs, share)).count();
            if open > 0 {
                report.findings.push(format!(
                    "Warning: {open} of {} points did not reach the confidence interval of {} % \
                     within {} seeds.",
                    report.points.len(),
                    share * 100.0,
                    self.seeds_max
                ));
            }
        }
        Ok(report)
    }

    /// Whether runs may differ in this option.
    fn varies(&self, name: &str) -> bool {
        let mut changes = self.variants.iter().flat_map(|(_, changes)| changes);
        let is_swept = self.sweep.as_ref().is_some_and(|(swept, _)| swept == name);
        name == "policy" || is_swept || changes.any(|(changed, _)| changed == name)
    }

    fn at_response(&self, points: &[Point]) -> Vec<AtResponse> {
        let mut found = Vec::new();
        for &response_ms in &self.levels_ms {
            for (variant, _) in &self.variants {
                // By rising target; a point without answers has no response time.
                let mut of_variant: Vec<&Point> =
                    points.iter().filter(|p| p.variant == *variant && p.iops.mean > 0.0).collect();
                let target = |p: &Point| p.value.parse::<f64>().unwrap_or(f64::MAX);
                of_variant.sort_by(|a, b| target(a).total_cmp(&target(b)));
                let curve: Vec<(f64, f64)> =
                    of_variant.iter().map(|p| (p.iops.mean, time(p, response_ms))).collect();
                let mut at =
                    AtResponse { variant: variant.clone(), response_ms, ..AtResponse::default() };
                match reach(&curve, response_ms) {
                    Some(Reach::At(iops, place)) => {
                        let between = [place, place + 1].map(|at| target(of_variant[at]));
                        at.between_iops = Some(between);
                        at.iops = at.coarse().is_none().then_some(iops);
                    }
                    Some(Reach::AtLeast(iops)) => at.at_least_iops = Some(iops),
                    Some(Reach::Below(iops)) => at.below_iops = Some(iops),
                    None => {}
                }
                found.push(at);
            }
        }
        found
    }
}

/// The mean response time of a point, for a curve that is to cross `level_ms`. It does not contain
/// what requests waited at the host: a wait there that is longer than the level is above it too.
fn time(point: &Point, level_ms: f64) -> f64 {
    let waits = point.runs.iter().map(|run| run.host_wait.mean_ms);
    let wait_ms = waits.sum::<f64>() / point.runs.len().max(1) as f64;
    match point.response_ms.mean {
        response_ms if response_ms <= level_ms && wait_ms > level_ms => wait_ms,
        response_ms => response_ms,
    }
}

fn settled(runs: &[RunReport], share: f64) -> bool {
    let within = |values: Vec<f64>| {
        let estimate = estimate(&values);
        estimate.seeds > 1 && estimate.half_width <= share * estimate.mean
    };
    within(runs.iter().map(|r| r.iops).collect())
        && within(runs.iter().map(|r| r.response.all.mean_ms).collect())
}

/// A run as the comparison of one variant, for what shows comparisons.
pub fn of_run(run: RunReport, title: String, command: String) -> CompareReport {
    let (variant, options) = (run.label.clone(), run.options.clone());
    let point = Point {
        iops: estimate(&[run.iops]),
        response_ms: estimate(&[run.response.all.mean_ms]),
        variant,
        runs: vec![run],
        ..Point::default()
    };
    let points = vec![point];
    let mut report =
        CompareReport { schema: SCHEMA, title, command, options, points, ..Default::default() };
    report.findings = findings::of(&report);
    report
}

fn point(cell: Cell) -> Point {
    let collect = |f: fn(&RunReport) -> f64| cell.runs.iter().map(f).collect::<Vec<f64>>();
    Point {
        iops: estimate(&collect(|r| r.iops)),
        response_ms: estimate(&collect(|r| r.response.all.mean_ms)),
        variant: cell.variant,
        value: cell.value,
        runs: cell.runs,
    }
}

struct SeedRun {
    cell: usize,
    label: String,
    /// The variant and the value of the sweep, for errors.
    place: String,
    options: RunOptions,
}

/// Runs the jobs on this many threads; the first error ends it.
fn run_all(
    jobs: &[SeedRun],
    threads: usize,
    run: &RunBy<'_>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<RunReport>, CompareError> {
    let work = |job: &SeedRun| run(&job.label, &job.options).map_err(|error| error.at(&job.place));
    in_parallel(jobs, threads, &work, Result::is_err, progress).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_at_the_host_beyond_the_level_is_above_it() {
        let of = |response_ms: f64, wait_ms: f64| {
            let mut run = RunReport::default();
            run.host_wait.mean_ms = wait_ms;
            let point =
                Point { response_ms: estimate(&[response_ms]), runs: vec![run], ..<_>::default() };
            time(&point, 20.0)
        };
        assert_eq!(of(12.0, 0.0), 12.0);
        assert_eq!(of(12.0, 19.0), 12.0, "shorter than the level");
        assert_eq!(of(12.0, 4500.0), 4500.0);
        assert_eq!(of(25.0, 4500.0), 25.0, "it is above the level already");
    }
}
