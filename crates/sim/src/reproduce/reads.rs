//! Runs of read caches over the reads of a trace, arrays of several sizes at once.
//!
//! Options: `trace`, a file in the folder of traces; `trace-device`, `trace-format`; `level`;
//! `disks`, a list; `failed`, `all` or a list of disks that fail in turn, alone. Variants set
//! `policy`; the sweep is over `blocks`. Figures are means over the failed disks.

use super::runner::{Cell, Plan, RunFigures, Runner};
use crate::compare::CompareError;
use crate::options::{OptionError, RunOptions};
use crate::readcache::{Failed, Row, Study, StudyError, plain_name, reads_of};
use destage_engine::array::geometry::Level;
use destage_engine::readcache::choose;
use std::collections::BTreeMap;

/// Runs read caches.
pub struct ReadsRunner;

/// Names of the figures of an array with this many disks.
macro_rules! of_disks {
    ($($disks:literal),*) => {
        [$(($disks, [concat!("rgr-", $disks), concat!("reduction-", $disks)])),*]
    };
}

/// Disks, with the names of RGR and of its reduction below the plain form's, in per cent.
const OF_DISKS: [(u64, [&str; 2]); 8] = of_disks![3, 4, 5, 6, 7, 8, 9, 10];

/// Over all numbers of disks.
const OVER_DISKS: [&str; 5] =
    ["reduction-most", "reduction-least", "reduction-mean", "reduction-growth", "ceiling-share"];

fn error(error: StudyError) -> CompareError {
    match error {
        StudyError::Policy(_) | StudyError::Penalty(_) => OptionError::usage(error.to_string()),
        StudyError::NoReads(_) | StudyError::Trace(_) => OptionError::input(error.to_string()),
    }
    .into()
}

fn numbers(name: &str, text: &str) -> Result<Vec<u64>, OptionError> {
    let bad = |_| OptionError::usage(format!("{name} takes whole numbers, not `{text}`"));
    text.split(',').map(|part| part.trim().parse().map_err(bad)).collect()
}

/// How the trace is read, and which of its devices.
fn run_options(plan: &Plan) -> Result<RunOptions, OptionError> {
    let mut options = RunOptions::default();
    for (name, value) in &plan.base {
        if name.starts_with("trace-") {
            options.set(name, value)?;
        } else if !["trace", "level", "disks", "failed"].contains(&name.as_str()) {
            return Err(OptionError::usage(format!("read caches have no option `{name}`")));
        }
    }
    Ok(options)
}

fn study(plan: &Plan) -> Result<Study, CompareError> {
    let level = plan.setting("level").unwrap_or("5");
    let level = Level::named(level);
    let level = level.ok_or_else(|| OptionError::usage("no such level".into()))?;
    let disks = numbers("disks", plan.setting("disks").unwrap_or("5"))?;
    if let Some(odd) = disks.iter().find(|n| OF_DISKS.iter().all(|(known, _)| known != *n)) {
        return Err(OptionError::usage(format!("disks take 3 to 10, not `{odd}`")).into());
    }
    let failed = match plan.setting("failed").unwrap_or("all") {
        "all" => Failed::All,
        list => {
            Failed::Cases(numbers("failed", list)?.into_iter().map(|disk| vec![disk]).collect())
        }
    };
    let Some(("blocks", blocks)) = plan.sweep.as_ref().map(|(n, v)| (n.as_str(), v)) else {
        return Err(OptionError::usage("read caches are swept over blocks".into()).into());
    };
    let mut policies = Vec::new();
    for (label, changes) in &plan.variants {
        let [(name, policy)] = changes.as_slice() else {
            return Err(OptionError::usage(format!("`{label}`: a policy and no more")).into());
        };
        if name != "policy" {
            return Err(OptionError::usage(format!("`{label}`: no option `{name}`")).into());
        }
        policies.push(choose(policy).map_err(|e| OptionError::usage(e.to_string()))?);
    }
    let blocks = numbers("blocks", &blocks.join(","))?;
    let study = Study { policies, offline: vec![], level, disks, blocks, failed };
    study.check().map_err(error)?;
    Ok(study)
}

/// Means over the failed disks.
#[derive(Clone, Copy)]
struct Means {
    rgr: f64,
    ceiling: f64,
}

fn means(rows: &[Row], policy: &str, disks: u64, blocks: u64) -> Option<Means> {
    let wanted = |row: &&Row| {
        row.failed.is_some()
            && (row.policy.as_str(), row.disks, row.blocks) == (policy, disks, blocks)
    };
    let cases: Vec<&Row> = rows.iter().filter(wanted).collect();
    let mean =
        |get: fn(&Row) -> f64| cases.iter().map(|r| get(r)).sum::<f64>() / cases.len() as f64;
    (!cases.is_empty()).then(|| Means { rgr: mean(|r| r.rgr), ceiling: mean(|r| r.ceiling) })
}

fn sample(study: &Study, rows: &[Row], policy: &str, blocks: u64) -> RunFigures {
    let mut figures: BTreeMap<&'static str, f64> = BTreeMap::new();
    let (mut reductions, mut shares) = (Vec::new(), Vec::new());
    for disks in &study.disks {
        let names = OF_DISKS.iter().find(|(known, _)| known == disks);
        let (Some((_, [rgr, reduction])), Some(mine)) =
            (names, means(rows, policy, *disks, blocks))
        else {
            continue;
        };
        figures.insert(*rgr, mine.rgr);
        let plain = plain_name(policy).and_then(|p| means(rows, p, *disks, blocks));
        let Some(plain) = plain.filter(|plain| plain.rgr > 0.0) else { continue };
        let below = 1.0 - mine.rgr / plain.rgr;
        figures.insert(*reduction, below * 100.0);
        reductions.push(below * 100.0);
        shares.push(below / mine.ceiling);
    }
    if let [first, .., last] = reductions[..] {
        figures.insert("reduction-growth", last - first);
    }
    let mean = reductions.iter().sum::<f64>() / reductions.len().max(1) as f64;
    let most = |values: &[f64]| values.iter().copied().reduce(f64::max);
    if let Some(largest) = most(&reductions) {
        figures.insert("reduction-most", largest);
        figures.insert("reduction-least", reductions.iter().copied().fold(largest, f64::min));
        figures.insert("reduction-mean", mean);
        figures.insert("ceiling-share", most(&shares).unwrap_or(0.0) * 100.0);
    }
    RunFigures { figures, ..RunFigures::default() }
}

impl Runner for ReadsRunner {
    fn figures(&self) -> Vec<&'static str> {
        OF_DISKS.iter().flat_map(|(_, names)| *names).chain(OVER_DISKS).collect()
    }

    fn unit(&self, _option: &str) -> &'static str {
        "4 KiB blocks"
    }

    fn check(&self, plan: &Plan) -> Result<(), CompareError> {
        if plan.setting("trace").is_none() {
            return Err(OptionError::usage("read caches take a trace".into()).into());
        }
        run_options(plan)?.read_options()?;
        study(plan).map(drop)
    }

    fn run(
        &self,
        plan: &Plan,
        threads: usize,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Cell>, CompareError> {
        let (study, options) = (study(plan)?, run_options(plan)?);
        let device = options.replay_options()?.device;
        let reads = reads_of(&plan.trace(), &options.read_options()?, device).map_err(error)?;
        let runs = plan.runs();
        let done = |done: usize, total: usize| progress(done * runs / total);
        let rows = study.run(&reads, threads, &done).map_err(error)?;
        let seeds = plan.seeds.max(1) as usize;
        let mut cells = Vec::new();
        for ((variant, _), policy) in plan.variants.iter().zip(&study.policies) {
            for blocks in &study.blocks {
                let sample = sample(&study, &rows, &policy.describe(), *blocks);
                let (variant, value) = (variant.clone(), blocks.to_string());
                cells.push(Cell { variant, value, samples: vec![sample; seeds] });
            }
        }
        Ok(cells)
    }
}
