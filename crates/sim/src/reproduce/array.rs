//! Runs of simulated arrays: the figures of a [`RunReport`] by name.

use super::runner::{Cell, Plan, RunFigures, Runner, TimeSeries};
use crate::compare::{CompareError, Comparison};
use crate::config::SimConfig;
use crate::options::RunOptions;
use crate::settling::is_unsettled;
use crate::sources::Sources;
use destage_report::model::{RunReport, WritePenalty};

/// Runs simulated arrays.
pub struct ArrayRunner;

/// A figure of a run.
type RunFigure = (&'static str, fn(&RunReport) -> f64);

/// Every figure by name.
const FIGURES: &[RunFigure] = &[
    ("iops", |r| r.iops),
    ("target-iops", |r| r.target_iops.unwrap_or(f64::NAN)),
    ("response-ms", |r| r.response.all.mean_ms),
    ("read-ms", |r| r.response.reads.mean_ms),
    ("write-ms", |r| r.response.writes.mean_ms),
    ("page-hits", |r| r.hits.write_page),
    ("group-hits", |r| r.hits.write_group),
    ("request-hits", |r| r.hits.write_request),
    ("distance", |r| r.destage.mean_distance_pages),
    ("pages-per-destage", |r| r.destage.pages_per_destage),
    ("full-stripe-share", |r| r.destage.full_stripe_share),
    ("time-full", |r| r.time_full),
    ("occupancy-mean", |r| r.occupancy.mean),
    ("occupancy-min", |r| r.occupancy.min),
    ("occupancy-max", |r| r.occupancy.max),
    ("occupancy-range", |r| r.occupancy.max - r.occupancy.min),
    ("rgr", |r| r.read_cache.as_ref().map_or(f64::NAN, |c| c.rgr)),
    ("rebuild-s", |r| r.fault.as_ref().and_then(|f| f.rebuild_s).unwrap_or(f64::NAN)),
    ("put-off", |r| r.fault.as_ref().map_or(f64::NAN, |f| f.put_off as f64)),
    ("requests-a-page", |r| {
        let requests: u64 = r.disks.iter().map(|disk| disk.reads + disk.writes).sum();
        requests as f64 / r.destage.pages as f64
    }),
    ("write-penalty-paper", |r| penalty(r, |p| p.paper)),
    ("write-penalty-exact", |r| penalty(r, |p| p.exact)),
    ("destage-variation", |r| variation(measured(r, &r.series.destaged_pages_per_s))),
];

fn penalty(report: &RunReport, get: fn(&WritePenalty) -> f64) -> f64 {
    let penalty = report.fault.as_ref().and_then(|fault| fault.write_penalty.as_ref());
    penalty.map_or(f64::NAN, get)
}

/// The part of a series within the measured window.
fn measured<'a>(report: &RunReport, series: &'a [f64]) -> &'a [f64] {
    let before = (report.warmup_s / report.series.interval_s).ceil() as usize;
    series.get(before.min(series.len())..).unwrap_or_default()
}

/// Standard deviation as a share of the mean.
fn variation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
    (squares / count).sqrt() / mean.max(f64::MIN_POSITIVE)
}

fn over_time(report: &RunReport, values: impl Iterator<Item = f64>) -> TimeSeries {
    let interval = report.series.interval_s;
    values.enumerate().map(|(i, value)| ((i + 1) as f64 * interval, value)).collect()
}

fn sample(report: &RunReport) -> RunFigures {
    let series = &report.series;
    let total = series.destaged_pages_per_s.iter().scan(0.0, |total, pages| {
        *total += pages * series.interval_s;
        Some(*total)
    });
    RunFigures {
        figures: FIGURES.iter().map(|(name, get)| (*name, get(report))).collect(),
        series: [
            ("occupancy", over_time(report, series.occupancy.iter().copied())),
            ("destaged-total", over_time(report, total)),
            ("response-ms", over_time(report, series.response_ms.iter().copied())),
        ]
        .into(),
        unsettled: is_unsettled(report),
        digest: report.digest.clone(),
    }
}

fn comparison(plan: &Plan) -> Result<Comparison, CompareError> {
    let mut base = RunOptions::default();
    // A panel's sweep replaces the item's common value.
    let swept = plan.sweep.as_ref().map(|(name, _)| name);
    for (name, value) in plan.base.iter().filter(|(name, _)| Some(name) != swept) {
        base.set(name, value)?;
    }
    if plan.setting("trace").is_some() {
        base.set("trace", &plan.trace().display().to_string())?;
    }
    Ok(Comparison {
        title: plan.title.clone(),
        command: String::new(),
        base,
        variants: plan.variants.clone(),
        sweep: plan.sweep.clone(),
        seeds: plan.seeds,
        confidence: None,
        seeds_max: plan.seeds,
        levels_ms: Vec::new(),
    })
}

impl Runner for ArrayRunner {
    fn figures(&self) -> Vec<&'static str> {
        FIGURES.iter().map(|(name, _)| *name).collect()
    }

    fn check(&self, plan: &Plan) -> Result<(), CompareError> {
        comparison(plan)?.check()
    }

    fn run(
        &self,
        plan: &Plan,
        threads: usize,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Cell>, CompareError> {
        let sources = Sources::default();
        let make_source = |options: &RunOptions, config: &SimConfig| sources.make(options, config);
        let report = comparison(plan)?.run(threads, &make_source, &|done, _| progress(done))?;
        let cell = |point: &destage_report::model::Point| Cell {
            variant: point.variant.clone(),
            value: point.value.clone(),
            samples: point.runs.iter().map(sample).collect(),
        };
        Ok(report.points.iter().map(cell).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_relative() {
        assert_eq!(variation(&[2.0, 2.0]), 0.0);
        assert!((variation(&[1.0, 3.0]) - 0.5).abs() < 1e-12);
        assert_eq!(variation(&[]), 0.0);
    }
}
