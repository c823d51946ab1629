//! The plots of a comparison.

use crate::metric::{METRICS, Metric, RESPONSE, mean};
use crate::view::{View, axis_label, occupancy, thresholds};
use destage_report::model::{CompareReport, Point, RunReport, TimeBucket, cumulative};
use destage_report::plot::{PlotSpec, Scale};

/// Samples of a time series that a plot 850 pixels wide can show.
const SAMPLES: usize = 800;

/// From this ratio of largest to smallest value on, response times are drawn on a log scale.
const LOG_FROM: f64 = 60.0;

/// A figure of a run, 0 to 1 or in its own unit.
type RunFigure = (&'static str, fn(&RunReport) -> f64);

pub(crate) const HITS: [RunFigure; 4] = [
    ("Written pages", |r| r.hits.write_page),
    ("Written pages, by group", |r| r.hits.write_group),
    ("Write requests", |r| r.hits.write_request),
    ("Read requests", |r| r.hits.read_request),
];

/// Where a disk's time goes; with idle time they add up to 1.
pub(crate) const DISK_TIME: [RunFigure; 5] = [
    ("Seek", |r| crate::columns::over_disks(r, |d| d.seek)),
    ("Rotation", |r| crate::columns::over_disks(r, |d| d.rotation)),
    ("Transfer", |r| crate::columns::over_disks(r, |d| d.transfer)),
    ("Overhead", |r| crate::columns::over_disks(r, |d| d.overhead)),
    ("Idle", |r| (1.0 - crate::columns::over_disks(r, |d| d.utilisation)).max(0.0)),
];

/// Requests whose response times are drawn in a plot of their own. A write cache answers nearly all
/// writes at once: a curve of reads and writes would begin at the share of the writes.
pub(crate) struct Kind {
    /// Name of the plot.
    pub(crate) plot: &'static str,
    /// What the requests are called.
    pub(crate) name: &'static str,
    count: fn(&TimeBucket) -> u64,
}

pub(crate) static KINDS: [Kind; 2] = [
    Kind { plot: "distribution-reads", name: "reads", count: |bucket| bucket.reads },
    Kind { plot: "distribution-writes", name: "writes", count: |bucket| bucket.writes },
];

impl Kind {
    /// Whether any run has such requests.
    pub(crate) fn occurs(&self, report: &CompareReport) -> bool {
        let mut runs = report.points.iter().flat_map(|point| &point.runs);
        runs.any(|run| run.histogram.iter().any(|bucket| (self.count)(bucket) > 0))
    }
}

/// Names that plots of a comparison may have.
pub const PLOT_NAMES: [&str; 8] = [
    "response",
    "throughput",
    "distribution-reads",
    "distribution-writes",
    "occupancy",
    "hits",
    "distance",
    "disk-time",
];

/// All plots of a comparison, each with a name of [`PLOT_NAMES`], fit for a file. What cannot be
/// drawn along the axis is drawn at the axis value at which the variants' response times differ
/// most; its title says which.
pub fn plots(report: &CompareReport) -> Vec<(&'static str, PlotSpec)> {
    let view = View::new(report);
    let value = view.values.get(view.telling()).copied().unwrap_or_default();
    let mut plots = Vec::new();
    if view.sweeps_load() {
        plots.push(("response", response_curves(&view)));
    } else if view.sweep().is_some() {
        plots.push(("throughput", along_axis(&view, &METRICS[0])));
        plots.push(("response", along_axis(&view, &METRICS[RESPONSE])));
    } else {
        plots.push(("throughput", throughput_bars(&view)));
        plots.push(("response", response_bars(&view)));
    }
    for kind in KINDS.iter().filter(|kind| kind.occurs(report)) {
        plots.push((kind.plot, distribution_plot(&view, kind, value)));
    }
    plots.push(("occupancy", occupancy_plot(&view, value)));
    plots.push(("hits", hits_plot(&view, value)));
    plots.push(("distance", distance_plot(&view)));
    plots.push(("disk-time", disk_time_plot(&view, value)));
    plots
}

/// The heading of a plot at one axis value.
fn heading(view: &View<'_>, what: &str, value: &str) -> String {
    let at = view.at(value);
    if at.is_empty() { what.to_owned() } else { format!("{what} at {at}") }
}

/// Linear, or logarithmic where values differ widely.
pub(crate) fn response_scale(values: impl Iterator<Item = f64>) -> Scale {
    let (mut low, mut high) = (f64::INFINITY, 0.0);
    for value in values.filter(|v| v.is_finite() && *v > 0.0) {
        low = f64::min(low, value);
        high = f64::max(high, value);
    }
    if high > LOG_FROM * low { Scale::Log10 } else { Scale::Linear }
}

fn response_curves(view: &View<'_>) -> PlotSpec {
    let title = "Response time by throughput";
    let scale = response_scale(view.report.points.iter().map(|p| p.response_ms.mean));
    let mut plot = PlotSpec::lines(title, "Throughput (I/O/s)", "Mean response time (ms)");
    for variant in &view.variants {
        let points: Vec<&Point> =
            view.values.iter().filter_map(|value| view.point(variant, value)).collect();
        let places = points.iter().map(|p| (p.iops.mean, p.response_ms.mean)).collect();
        let errors = points.iter().map(|p| p.response_ms.half_width).collect();
        plot = plot.series_with_errors(variant, places, errors);
    }
    let mut levels: Vec<f64> = view.report.at_response.iter().map(|at| at.response_ms).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    for level in levels {
        plot = plot.h_line(level, &format!("{level} ms"));
    }
    plot.y_scale(scale)
}

/// A metric of each variant along the swept parameter.
fn along_axis(view: &View<'_>, metric: &Metric) -> PlotSpec {
    let Some(axis) = view.report.axis.as_ref() else {
        return PlotSpec::lines(metric.long, "", "");
    };
    let (label, name) = (axis_label(axis), axis.name.as_str());
    let unit = format!("{} ({})", metric.long, metric.unit);
    let mut plot = PlotSpec::lines(&format!("{} by {name}", metric.long), &label, &unit);
    let errors = METRICS.iter().find(|m| m.group == metric.group && m.name == "±");
    let mut all = Vec::new();
    for variant in &view.variants {
        let mut line = Vec::new();
        let mut halves = Vec::new();
        for (i, value) in view.values.iter().enumerate() {
            let Some(point) = view.point(variant, value) else { continue };
            let x = view.numbers.as_ref().map_or(i as f64, |numbers| numbers[i]);
            let y = metric.value(point).unwrap_or(f64::NAN);
            line.push((x, y));
            all.push(y);
            halves.push(errors.and_then(|m| m.value(point)).unwrap_or(0.0));
        }
        plot = plot.series_with_errors(variant, line, halves);
    }
    if view.numbers.is_none() {
        plot = plot.categories(view.values.iter().map(|&value| value.to_owned()).collect());
    } else if view.is_binary() {
        plot = plot.x_scale(Scale::Log2);
    }
    let scale = if metric.log { Scale::Log10 } else { response_scale(all.into_iter()) };
    let scaled = metric.log || metric.unit == "ms";
    plot.y_scale(if scaled { scale } else { Scale::Linear })
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The only value when nothing is swept.
fn only<'a>(view: &View<'a>) -> &'a str {
    view.values.first().copied().unwrap_or_default()
}

fn throughput_bars(view: &View<'_>) -> PlotSpec {
    let value = only(view);
    let at = |variant: &&str| view.point(variant, value).map_or(f64::NAN, |p| p.iops.mean);
    let bars = view.variants.iter().map(at).collect();
    PlotSpec::bars("Throughput", "", "Throughput (I/O/s)", owned(&view.variants))
        .bar_series("", bars)
}

fn response_bars(view: &View<'_>) -> PlotSpec {
    let metrics = [0, 2, 3, 4, 5].map(|i| RESPONSE + i).map(|i| &METRICS[i]);
    let categories = ["Mean", "Median", "95 %", "99 %", "99.9 %"];
    let value = only(view);
    let mut plot = PlotSpec::bars(
        "Response time of all requests",
        "Mean and percentiles",
        "Response time (ms)",
        owned(&categories),
    );
    let mut all = Vec::new();
    for variant in &view.variants {
        let point = view.point(variant, value);
        let figure = |m: &&Metric| point.and_then(|p| m.value(p)).unwrap_or(f64::NAN);
        let values: Vec<f64> = metrics.iter().map(figure).collect();
        all.extend_from_slice(&values);
        plot = plot.bar_series(variant, values);
    }
    plot.y_scale(response_scale(all.into_iter()))
}

/// Shares in per cent of the requests of a kind whose response time is below each bound, over all
/// runs of a point; empty without such requests.
pub(crate) fn distribution(point: &Point, kind: &Kind) -> Vec<(f64, f64)> {
    let mut sums: Vec<TimeBucket> = Vec::new();
    for bucket in point.runs.iter().flat_map(|run| &run.histogram) {
        match sums.binary_search_by(|sum| sum.below_ms.total_cmp(&bucket.below_ms)) {
            Ok(at) => {
                sums[at].reads += bucket.reads;
                sums[at].writes += bucket.writes;
            }
            Err(at) => sums.insert(at, *bucket),
        }
    }
    let shares = cumulative(&sums, kind.count);
    shares.into_iter().map(|(below, share)| (below, 100.0 * share)).collect()
}

fn distribution_plot(view: &View<'_>, kind: &Kind, value: &str) -> PlotSpec {
    let title = heading(view, &format!("Distribution of response times of {}", kind.name), value);
    let label = format!("Share of {} below it (%)", kind.name);
    let mut plot = PlotSpec::lines(&title, "Response time (ms)", &label)
        .x_scale(Scale::Log10)
        .y_covers(0.0, 100.0);
    for variant in &view.variants {
        let point = view.point(variant, value);
        let points = point.map(|point| distribution(point, kind)).unwrap_or_default();
        plot = plot.series(variant, points);
    }
    plot
}

fn occupancy_plot(view: &View<'_>, value: &str) -> PlotSpec {
    let title = heading(view, "NVS occupancy over time", value);
    let mut plot = PlotSpec::lines(&title, "Time (s)", "NVS occupancy (%)").y_covers(0.0, 100.0);
    let mut lines: Vec<(String, f64)> = Vec::new();
    let mut warm: f64 = 0.0;
    for variant in &view.variants {
        let run = view.run(variant, value);
        let points = run.map(|run| occupancy(run, SAMPLES)).unwrap_or_default();
        plot = plot.series(variant, points);
        let Some(run) = run else { continue };
        warm = warm.max(run.warmup_s);
        for (name, level) in thresholds(run) {
            let line = (format!("{name} {level} %"), level);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    for (name, level) in lines {
        plot = plot.h_line(level, &name);
    }
    if warm > 0.0 { plot.v_line(warm, "measured from here") } else { plot }
}

fn hits_plot(view: &View<'_>, value: &str) -> PlotSpec {
    if view.sweep().is_some() && !view.sweeps_load() {
        let pages = METRICS.iter().find(|m| m.long == "Write page hit ratio");
        return along_axis(view, pages.unwrap_or(&METRICS[0])).y_covers(0.0, 0.0);
    }
    let title = heading(view, "Hit ratios", value);
    let categories = HITS.map(|(name, _)| name);
    let mut plot = PlotSpec::bars(&title, "Hits of", "Hit ratio (%)", owned(&categories));
    for variant in &view.variants {
        let ratio = |(_, get): RunFigure| {
            view.point(variant, value).map_or(f64::NAN, |point| 100.0 * mean(point, get))
        };
        plot = plot.bar_series(variant, HITS.map(ratio).to_vec());
    }
    plot
}

fn distance_plot(view: &View<'_>) -> PlotSpec {
    let metric = METRICS.iter().find(|m| m.log).unwrap_or(&METRICS[0]);
    if view.sweep().is_some() {
        return along_axis(view, metric);
    }
    let at = |variant: &&str| {
        view.point(variant, only(view)).and_then(|p| metric.value(p)).unwrap_or(f64::NAN)
    };
    let bars = view.variants.iter().map(at).collect();
    let label = format!("{} ({})", metric.long, metric.unit);
    PlotSpec::bars("Distance between consecutive destages", "", &label, owned(&view.variants))
        .bar_series("", bars)
        .y_scale(Scale::Log10)
}

fn disk_time_plot(view: &View<'_>, value: &str) -> PlotSpec {
    let title = heading(view, "Where the disks' time goes (mean of the disks)", value);
    let mut plot = PlotSpec::stack(&title, "", "Share of time (%)", owned(&view.variants));
    for (name, get) in DISK_TIME {
        let share = |variant: &&str| {
            view.point(variant, value).map_or(f64::NAN, |point| 100.0 * mean(point, get))
        };
        plot = plot.bar_series(name, view.variants.iter().map(share).collect());
    }
    plot.y_covers(0.0, 100.0)
}
