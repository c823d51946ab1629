//! What a comparison tabulates for each point: one list for the text tables and the HTML report.

use crate::columns::over_disks;
use crate::model::{Latency, Point, RunReport};

/// Where a metric's value comes from.
#[derive(Clone, Copy)]
pub(crate) enum From {
    /// The point itself.
    Point(fn(&Point) -> f64),
    /// Each run; the mean over them is shown.
    Runs(fn(&RunReport) -> f64),
}

/// One figure of a point.
pub(crate) struct Metric {
    /// Heading over neighbouring columns.
    pub(crate) group: &'static str,
    /// Short column heading.
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) decimals: usize,
    /// What it is in full, for axis labels and menus; empty for what is no chart of its own.
    pub(crate) long: &'static str,
    /// Whether values spread over orders of magnitude.
    pub(crate) log: bool,
    from: From,
}

impl Metric {
    /// The value at a point; absent if it has no runs or nothing was counted.
    pub(crate) fn value(&self, point: &Point) -> Option<f64> {
        let value = match self.from {
            From::Point(get) => get(point),
            From::Runs(get) => mean(point, get),
        };
        value.is_finite().then_some(value)
    }
}

/// Mean over the runs of a point; NaN if there are none.
pub(crate) fn mean(point: &Point, get: fn(&RunReport) -> f64) -> f64 {
    point.runs.iter().map(get).sum::<f64>() / point.runs.len() as f64
}

/// NaN where no request was counted: a mean of nothing is not 0.
fn of(latency: &Latency, get: fn(&Latency) -> f64) -> f64 {
    if latency.count == 0 { f64::NAN } else { get(latency) }
}

const fn metric(
    heads: (&'static str, &'static str, &'static str),
    decimals: usize,
    long: &'static str,
    from: From,
) -> Metric {
    let (group, name, unit) = heads;
    Metric { group, name, unit, decimals, long, log: false, from }
}

/// A response time, mean over the runs.
const fn response(
    heads: (&'static str, &'static str),
    decimals: usize,
    long: &'static str,
    get: fn(&RunReport) -> f64,
) -> Metric {
    metric((heads.0, heads.1, "ms"), decimals, long, From::Runs(get))
}

const fn log(metric: Metric) -> Metric {
    Metric { log: true, ..metric }
}

/// How many of [`METRICS`] the first text table shows; the second has the others.
pub(crate) const IN_FIRST_TABLE: usize = 14;

/// The response metrics start here: mean.
pub(crate) const RESPONSE: usize = 2;

const ALL: &str = "response, all";
const DISK: &str = "disk time";

/// A share from 0 to 1 as percent, mean over the runs.
const fn share(
    group: &'static str,
    name: &'static str,
    long: &'static str,
    percent: fn(&RunReport) -> f64,
) -> Metric {
    metric((group, name, "%"), 1, long, From::Runs(percent))
}

/// All metrics, in the order shown.
pub(crate) const METRICS: &[Metric] = &[
    metric(("throughput", "mean", "I/O/s"), 1, "Throughput", From::Point(|p| p.iops.mean)),
    metric(("throughput", "±", "I/O/s"), 1, "", From::Point(|p| p.iops.half_width)),
    metric((ALL, "mean", "ms"), 2, "Mean response time", From::Point(|p| p.response_ms.mean)),
    metric((ALL, "±", "ms"), 2, "", From::Point(|p| p.response_ms.half_width)),
    response((ALL, "p50"), 2, "Median response time", |r| of(&r.response.all, |l| l.p50_ms)),
    response((ALL, "p99"), 1, "99th percentile of response time", |r| {
        of(&r.response.all, |l| l.p99_ms)
    }),
    response((ALL, "p99.9"), 1, "99.9th percentile of response time", |r| {
        of(&r.response.all, |l| l.p999_ms)
    }),
    response(("reads", "mean"), 2, "Mean response time of reads", |r| {
        of(&r.response.reads, |l| l.mean_ms)
    }),
    response(("writes", "mean"), 2, "Mean response time of writes", |r| {
        of(&r.response.writes, |l| l.mean_ms)
    }),
    metric(("NVS full", "stalled", "writes"), 0, "Stalled writes", From::Runs(stalled)),
    share("NVS full", "time", "Time full", |r| 100.0 * r.time_full),
    share("occupancy", "mean", "Mean NVS occupancy", |r| 100.0 * r.occupancy.mean),
    share("occupancy", "min", "Least NVS occupancy", |r| 100.0 * r.occupancy.min),
    share("occupancy", "max", "Largest NVS occupancy", |r| 100.0 * r.occupancy.max),
    share("write hits", "page", "Write page hit ratio", |r| 100.0 * r.hits.write_page),
    share("write hits", "group", "Write group hit ratio", |r| 100.0 * r.hits.write_group),
    share("write hits", "request", "Write request hit ratio", |r| 100.0 * r.hits.write_request),
    share("read hits", "request", "Read request hit ratio", |r| 100.0 * r.hits.read_request),
    metric(("destages", "count", ""), 0, "Destages", From::Runs(|r| r.destage.groups as f64)),
    metric(("destages", "pages", "each"), 2, "Pages per destage", From::Runs(pages_each)),
    metric(("destages", "runs", "each"), 2, "Runs per destage", From::Runs(runs_each)),
    share("destages", "full str.", "Full-stripe destages", |r| 100.0 * r.destage.full_stripe_share),
    log(metric(
        ("destages", "distance", "pages"),
        0,
        "Mean destage distance",
        From::Runs(distance),
    )),
    share(DISK, "busy", "Disk utilisation", |r| 100.0 * over_disks(r, |d| d.utilisation)),
    share(DISK, "seek", "Disk time seeking", |r| 100.0 * over_disks(r, |d| d.seek)),
    share(DISK, "rotate", "Disk time waiting for rotation", |r| {
        100.0 * over_disks(r, |d| d.rotation)
    }),
    share(DISK, "xfer", "Disk time transferring", |r| 100.0 * over_disks(r, |d| d.transfer)),
    share(DISK, "ovhd", "Disk time in command overhead", |r| 100.0 * over_disks(r, |d| d.overhead)),
];

fn stalled(run: &RunReport) -> f64 {
    run.stalled_writes as f64
}

fn pages_each(run: &RunReport) -> f64 {
    run.destage.pages_per_destage
}

fn runs_each(run: &RunReport) -> f64 {
    run.destage.runs_per_destage
}

fn distance(run: &RunReport) -> f64 {
    run.destage.mean_distance_pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_cut_where_a_group_begins() {
        assert_eq!(METRICS[RESPONSE].long, "Mean response time");
        assert_ne!(METRICS[IN_FIRST_TABLE - 1].group, METRICS[IN_FIRST_TABLE].group);
    }

    #[test]
    fn a_mean_of_nothing_is_absent() {
        let without_runs = Point::default();
        assert_eq!(METRICS[4].value(&without_runs), None);
        let idle = Point { runs: vec![RunReport::default()], ..Point::default() };
        assert_eq!(METRICS[4].value(&idle), None);
        assert_eq!(METRICS[10].value(&idle), Some(0.0));
    }
}
