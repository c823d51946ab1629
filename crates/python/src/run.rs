//! Runs and comparisons.

use crate::control::{RunControl, controlled};
use crate::destage_policy;
use crate::errors;
use crate::options::run_options;
use crate::results::{Compared, Run};
use crate::trace::TraceData;
use destage_engine::policytrace::{self, TraceConfig};
use destage_sim::compare::{CompareError, run_built};
use destage_sim::config::SimConfig;
use destage_sim::experiment::Experiment;
use destage_sim::options::{OptionError, RunOptions};
use destage_sim::sources::{make_source, trace_source};
use destage_workload::source::Source;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user's policy: what makes it, and its name.
type OwnPolicy = (Py<PyAny>, String);

/// The source of a run: a trace in memory, or what the options name.
pub fn source(
    options: &RunOptions,
    config: &SimConfig,
    trace: Option<&TraceData>,
    control: &Arc<RunControl>,
) -> Result<Box<dyn Source + Send>, OptionError> {
    let source = match trace {
        Some(trace) => trace_source(options, config, trace.input())?,
        None => make_source(options, config)?,
    };
    Ok(controlled(source, control))
}

/// What a call returned, unless an exception ended it.
pub fn outcome<T>(
    py: Python<'_>,
    control: &RunControl,
    result: Result<T, CompareError>,
) -> PyResult<T> {
    match control.raised() {
        Some(raised) => Err(raised),
        None => result.map_err(|why| errors::compare(py, &why)),
    }
}

/// One run.
#[pyfunction]
#[pyo3(signature = (options, trace = None, policy = None, progress = None))]
pub fn simulate(
    py: Python<'_>,
    options: Vec<(String, String)>,
    trace: Option<&Bound<'_, TraceData>>,
    policy: Option<OwnPolicy>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let mut options = run_options(py, options)?;
    let control = RunControl::new(progress);
    let trace = trace.map(Bound::get);
    if let Some(trace) = trace {
        options.set("trace", trace.name()).map_err(|why| errors::option(py, &why))?;
    }
    let mut config = options.build().map_err(|why| errors::option(py, &why))?;
    let in_python = policy.is_some();
    let mut label = options.get("policy").to_string();
    if let Some((factory, name)) = policy {
        config.controller.policy = destage_policy::choice(py, factory, &name, &control)?;
        label = name;
    }
    let run = || -> Result<_, CompareError> {
        let mut source = source(&options, &config, trace, &control)?;
        run_built(&label, &options, &config, &mut *source)
    };
    // A policy in Python would take and leave the interpreter at every page.
    let result = if in_python { run() } else { py.detach(run) };
    outcome(py, &control, result).map(Run)
}

/// Several policies on identical input: what `destage compare` does. `policies` are the labels;
/// `own` has what makes those that are in no table.
#[pyfunction]
#[pyo3(signature = (options, policies, own, sweep, seeds, at_ms, threads, title = None,
    trace = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the Python function")]
pub fn compare(
    py: Python<'_>,
    options: Vec<(String, String)>,
    policies: Vec<String>,
    own: BTreeMap<String, Py<PyAny>>,
    sweep: Option<(String, Vec<String>)>,
    seeds: u32,
    at_ms: Vec<f64>,
    threads: usize,
    title: Option<String>,
    trace: Option<&Bound<'_, TraceData>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Compared> {
    let trace = trace.map(Bound::get);
    let mut base = run_options(py, options)?;
    if let Some(trace) = trace {
        base.set("trace", trace.name()).map_err(|why| errors::option(py, &why))?;
    }
    let experiment =
        Experiment { title, policies, sweep, seeds: Some(seeds), at_ms, ..Experiment::default() };
    let mut comparison = experiment.comparison(base, "destage.compare(...)".into());
    let control = RunControl::new(None);
    let mut choices = BTreeMap::new();
    for (label, changes) in &mut comparison.variants {
        if let Some(factory) = own.get(label) {
            changes.clear();
            let choice = destage_policy::choice(py, factory.clone_ref(py), label, &control)?;
            choices.insert(label.clone(), choice);
        }
    }
    let run = |label: &str, options: &RunOptions| {
        let mut config = options.build()?;
        if let Some(choice) = choices.get(label) {
            config.controller.policy = choice.clone();
        }
        let mut source = source(options, &config, trace, &control)?;
        run_built(label, options, &config, &mut *source)
    };
    let report_progress = |done: usize, total: usize| {
        if let Some(progress) = &progress {
            control.attempt(|py| progress.call1(py, (done, total)).map(drop));
        }
    };
    let result = py.detach(|| comparison.run_by(threads, &run, &report_progress));
    outcome(py, &control, result).map(Compared)
}

/// Replays lines of `W first pages` and `D` through a policy, without time: what
/// `destage policy-trace` prints.
#[pyfunction]
#[pyo3(signature = (text, policy, pages, group_pages = 64, disks = 5, queue_depth = 20,
    high = 90.0, low = 80.0, mirrored = false, seq_threshold = 16, own = None))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the Python function")]
pub fn replay_policy(
    py: Python<'_>,
    text: &str,
    policy: &str,
    pages: u64,
    group_pages: u64,
    disks: u64,
    queue_depth: u64,
    high: f64,
    low: f64,
    mirrored: bool,
    seq_threshold: u32,
    own: Option<Py<PyAny>>,
) -> PyResult<String> {
    let bad = |message: &str| errors::error(py, "OptionError", message);
    if pages == 0 || pages >= u64::from(u32::MAX) || !(1..=65_535).contains(&group_pages) {
        return Err(bad("pages takes 1 to 2^32-2, group_pages 1 to 65535"));
    }
    if !(0.0..=100.0).contains(&low) || !(low..=100.0).contains(&high) {
        return Err(bad("thresholds are per cent of the NVS, low not above high"));
    }
    let control = RunControl::new(None);
    let policy = match own {
        Some(factory) => destage_policy::choice(py, factory, policy, &control)?,
        None => destage_engine::policy::choose(policy).map_err(|why| bad(&why.to_string()))?,
    };
    let (high, low) = ((high * 100.0) as u64, (low * 100.0) as u64);
    let config = TraceConfig {
        policy,
        pages,
        group_pages,
        disks,
        queue_depth,
        high,
        low,
        mirrored,
        seq_threshold,
    };
    let output = policytrace::replay(text, &config);
    match control.raised() {
        Some(raised) => Err(raised),
        None => output.map_err(|why| errors::error(py, "InputError", &why.to_string())),
    }
}
