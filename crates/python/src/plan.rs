//! Sweeps, tournaments and advice.

use crate::control::RunControl;
use crate::destage_policy;
use crate::errors;
use crate::options::run_options;
use crate::run::{outcome, source};
use crate::trace::TraceData;
use destage_engine::policy::PolicyChoice;
use destage_sim::advise::goal::Goal;
use destage_sim::advise::{Question, advise as find, ladder, thresholds_of};

use destage_report::Format;
use destage_report::advice::Prices;
use destage_report::model::RunReport;
use destage_report::tournament::ScoreCard;
use destage_sim::compare::{CompareError, run_built};
use destage_sim::config::SimConfig;
use destage_sim::options::{OptionError, RunOptions};
use destage_sim::sweep as rows;
use destage_sim::sweep::{Dataset, Sweep, SweepPoint};
use destage_sim::tournament::grid::Grid;
use destage_sim::tournament::{Play, Tournament, write};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What makes each policy that is in no table, by its name.
type OwnPolicies = BTreeMap<String, Py<PyAny>>;

/// Options by name, and the digest of the inputs.
type Point = (Vec<(String, String)>, String);

fn given(options: &RunOptions) -> Vec<(String, String)> {
    options.given().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Every combination of the axes, each with the key of its row. `digests` has those of traces that
/// are in memory, and `own` those of policies that are in no table, by name.
#[pyfunction]
#[pyo3(signature = (options, axes, seeds, digests, own = BTreeMap::new()))]
pub fn sweep_points(
    py: Python<'_>,
    options: Vec<(String, String)>,
    axes: Vec<(String, Vec<String>)>,
    seeds: u32,
    digests: BTreeMap<String, String>,
    own: BTreeMap<String, String>,
) -> PyResult<Vec<Point>> {
    let sweep = Sweep { base: run_options(py, options)?, axes, seeds };
    let points = py.detach(|| sweep.points(&digests, &own));
    let points = points.map_err(|why| errors::option(py, &why))?;
    Ok(points.into_iter().map(|point| (given(&point.options), point.key)).collect())
}

/// The policies of users, as the simulator takes them.
fn choices(
    py: Python<'_>,
    own: &OwnPolicies,
    control: &Arc<RunControl>,
) -> PyResult<BTreeMap<String, PolicyChoice>> {
    let made = own.iter().map(|(name, factory)| {
        let choice = destage_policy::choice(py, factory.clone_ref(py), name, control)?;
        Ok((name.clone(), choice))
    });
    made.collect()
}

/// The run of a point.
fn run_of(
    label: &str,
    options: &RunOptions,
    own: &BTreeMap<String, PolicyChoice>,
    trace: Option<&TraceData>,
    control: &Arc<RunControl>,
) -> Result<RunReport, CompareError> {
    let config = match own.get(label) {
        None => options.build()?,
        Some(choice) => {
            let mut config = rows::with_own_policy(options).build()?;
            config.controller.policy = choice.clone();
            config
        }
    };
    let mut source = source(options, &config, trace, control)?;
    run_built(label, options, &config, &mut *source)
}

/// Runs one point; its row as the bytes of a Parquet file.
#[pyfunction]
#[pyo3(signature = (options, key, trace = None, own = OwnPolicies::new()))]
pub fn run_point(
    py: Python<'_>,
    options: Vec<(String, String)>,
    key: &str,
    trace: Option<&Bound<'_, TraceData>>,
    own: OwnPolicies,
) -> PyResult<Vec<u8>> {
    let options = run_options(py, options)?;
    let control = RunControl::new(None);
    let own = choices(py, &own, &control)?;
    let trace = trace.map(Bound::get);
    let run = |label: &str, options: &RunOptions| run_of(label, options, &own, trace, &control);
    let point = SweepPoint { options, key: key.to_string() };
    let result = py.detach(|| rows::row(&point, &run));
    outcome(py, &control, result)
}

/// Runs the points that have no row in the directory yet, on this many threads; how many rows were
/// there and how many were run.
#[pyfunction]
#[pyo3(signature = (points, directory, threads, traces, progress = None,
    own = OwnPolicies::new()))]
pub fn sweep(
    py: Python<'_>,
    points: Vec<Point>,
    directory: PathBuf,
    threads: usize,
    traces: BTreeMap<String, Py<TraceData>>,
    progress: Option<Py<PyAny>>,
    own: OwnPolicies,
) -> PyResult<(usize, usize)> {
    let mut all = Vec::with_capacity(points.len());
    for (options, key) in points {
        all.push(SweepPoint { options: run_options(py, options)?, key });
    }
    let control = RunControl::new(None);
    let own = choices(py, &own, &control)?;
    let run = |label: &str, options: &RunOptions| {
        let trace = traces.get(options.get("trace")).map(|trace| trace.get());
        run_of(label, options, &own, trace, &control)
    };
    let report_progress = |done: usize, total: usize| {
        if let Some(progress) = &progress {
            control.attempt(|py| progress.call1(py, (done, total)).map(drop));
        }
    };
    let result = py.detach(|| {
        let dataset = Dataset::open(&directory)?;
        rows::run(&all, &dataset, threads, &run, &report_progress)
    });
    let swept = outcome(py, &control, result)?;
    Ok((swept.found, swept.run))
}

/// Policies over a grid of cells: the score card as JSON and as text. `own` has what makes those
/// that are in no table, `digests` the digests of their sources.
#[pyfunction]
#[pyo3(signature = (policies, against, out, threads, grid = None, quick = false, traces = None,
    seed = 1, own = OwnPolicies::new(), digests = BTreeMap::new(), progress = None,
    cells = vec![], protocols = vec![]))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the Python function")]
pub fn tournament(
    py: Python<'_>,
    policies: Vec<String>,
    against: Vec<String>,
    out: PathBuf,
    threads: usize,
    grid: Option<PathBuf>,
    quick: bool,
    traces: Option<PathBuf>,
    seed: u64,
    own: OwnPolicies,
    digests: BTreeMap<String, String>,
    progress: Option<Py<PyAny>>,
    cells: Vec<String>,
    protocols: Vec<String>,
) -> PyResult<(String, String)> {
    let control = RunControl::new(None);
    let made = choices(py, &own, &control)?;
    let run = |label: &str, options: &RunOptions| run_of(label, options, &made, None, &control);
    let report_progress = |done: usize, total: usize| {
        if let Some(progress) = &progress {
            control.attempt(|py| progress.call1(py, (done, total)).map(drop));
        }
    };
    let result = py.detach(|| -> Result<ScoreCard, CompareError> {
        let grid = grid.map_or_else(|| Ok(Grid::own()), |path| Grid::read(&path))?;
        let grid = grid.part(&cells, &protocols)?;
        let grid = if quick { grid.quickly() } else { grid };
        let dataset = Dataset::open(&out.join("rows"))?;
        let command = "destage.tournament(...)".to_string();
        let tournament =
            Tournament { grid: &grid, policies, against, seed, traces, own: digests, command };
        let (dataset, progress) = (&dataset, &report_progress);
        let card = tournament.run(&Play { dataset, threads, run: &run, progress })?;
        write(&out, &card).map_err(|why| OptionError::input(why.to_string()))?;
        Ok(card)
    });
    let card = outcome(py, &control, result)?;
    Ok((card.render(Format::Json), card.render(Format::Table)))
}

/// The cheapest NVS that reaches a goal, and how to draw how near each size comes, as JSON.
#[pyfunction]
#[pyo3(signature = (options, goal, policies, thresholds, sizes, seeds, threads, check_curve,
    sample_groups, trace = None, progress = None, load_factor = 1.0, prices = None))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the Python function")]
pub fn advise(
    py: Python<'_>,
    options: Vec<(String, String)>,
    goal: &str,
    policies: Vec<String>,
    thresholds: Option<Vec<String>>,
    sizes: (u64, u64),
    seeds: u32,
    threads: usize,
    check_curve: bool,
    sample_groups: u64,
    trace: Option<&Bound<'_, TraceData>>,
    progress: Option<Py<PyAny>>,
    load_factor: f64,
    prices: Option<&str>,
) -> PyResult<(String, String)> {
    let trace = trace.map(Bound::get);
    let mut base = run_options(py, options)?;
    if let Some(trace) = trace {
        base.set("trace", trace.name()).map_err(|why| errors::option(py, &why))?;
    }
    let goal = Goal::parse(goal).map_err(|why| errors::option(py, &why))?;
    let thresholds = thresholds_of(&base, thresholds).map_err(|why| errors::option(py, &why))?;
    let prices = prices.map(Prices::parse).transpose();
    let prices = prices.map_err(|why| errors::error(py, "OptionError", &why))?;
    let sizes_pages = ladder(sizes.0, sizes.1);
    let question = Question {
        base,
        goal,
        policies,
        thresholds,
        sizes_pages,
        seeds,
        check_curve,
        sample_groups,
        load_factor,
        prices,
    };
    let control = RunControl::new(None);
    let make = |options: &RunOptions, config: &SimConfig| source(options, config, trace, &control);
    let report_progress = |step: &str| {
        if let Some(progress) = &progress {
            control.attempt(|py| progress.call1(py, (step,)).map(drop));
        }
    };
    let result = py.detach(|| find(&question, threads, &make, &report_progress));
    let advice = outcome(py, &control, result)?;
    let plot = serde_json::to_string(&advice.plot()).expect("a plot has no keys but text");
    Ok((advice.render(Format::Json), plot))
}
