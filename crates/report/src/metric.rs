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
fn of(latency: &Latency, value: f64) -> f64 {
    if latency.count == 0 { f64::NAN } else { value }
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

const fn log(metric: Metric) -> Metric {
    Metric { log: true, ..metric }
}

/// How many of [`METRICS`] the first text table shows; the second has the others.
pub(crate) const IN_FIRST_TABLE: usize = 14;

/// The response metrics start here: mean.
pub(crate) const RESPONSE: usize = 2;

/// All metrics, in the order shown.
#[rustfmt::skip]
pub(crate) const METRICS: &[Metric] = &[
    metric(("throughput", "mean", "I/O/s"), 1, "Throughput", From::Point(|p| p.iops.mean)),
    metric(("throughput", "±", "I/O/s"), 1, "", From::Point(|p| p.iops.half_width)),
    metric(("response, all", "mean", "ms"), 2, "Mean response time", From::Point(|p| p.response_ms.mean)),
    metric(("response, all", "±", "ms"), 2, "", From::Point(|p| p.response_ms.half_width)),
    metric(("response, all", "p50", "ms"), 2, "Median response time",
        From::Runs(|r| of(&r.response.all, r.response.all.p50_ms))),
    metric(("response, all", "p99", "ms"), 1, "99th percentile of response time",
        From::Runs(|r| of(&r.response.all, r.response.all.p99_ms))),
    metric(("response, all", "p99.9", "ms"), 1, "99.9th percentile of response time",
        From::Runs(|r| of(&r.response.all, r.response.all.p999_ms))),
    metric(("reads", "mean", "ms"), 2, "Mean response time of reads",
        From::Runs(|r| of(&r.response.reads, r.response.reads.mean_ms))),
    metric(("writes", "mean", "ms"), 2, "Mean response time of writes",
        From::Runs(|r| of(&r.response.writes, r.response.writes.mean_ms))),
    metric(("NVS full", "stalled", "writes"), 0, "Stalled writes", From::Runs(|r| r.stalled_writes as f64)),
    metric(("NVS full", "time", "%"), 1, "Time full", From::Runs(|r| 100.0 * r.time_full)),
    metric(("occupancy", "mean", "%"), 1, "Mean NVS occupancy", From::Runs(|r| 100.0 * r.occupancy.mean)),
    metric(("occupancy", "min", "%"), 1, "", From::Runs(|r| 100.0 * r.occupancy.min)),
    metric(("occupancy", "max", "%"), 1, "", From::Runs(|r| 100.0 * r.occupancy.max)),
    metric(("write hits", "page", "%"), 1, "Write hits, pages", From::Runs(|r| 100.0 * r.hits.write_page)),
    metric(("write hits", "group", "%"), 1, "Write hits, groups", From::Runs(|r| 100.0 * r.hits.write_group)),
    metric(("write hits", "request", "%"), 1, "Write hits, requests", From::Runs(|r| 100.0 * r.hits.write_request)),
    metric(("read hits", "request", "%"), 1, "Read hits, requests", From::Runs(|r| 100.0 * r.hits.read_request)),
    metric(("destages", "count", ""), 0, "Destages", From::Runs(|r| r.destage.groups as f64)),
    metric(("destages", "pages", "each"), 2, "Pages per destage", From::Runs(|r| r.destage.pages_per_destage)),
    metric(("destages", "runs", "each"), 2, "Runs per destage", From::Runs(|r| r.destage.runs_per_destage)),
    metric(("destages", "full str.", "%"), 1, "Full-stripe destages", From::Runs(|r| 100.0 * r.destage.full_stripe_share)),
    log(metric(("destages", "distance", "pages"), 0, "Mean destage distance", From::Runs(|r| r.destage.mean_distance_pages))),
    metric(("disk time", "busy", "%"), 1, "Disk utilisation", From::Runs(|r| 100.0 * over_disks(r, |d| d.utilisation))),
    metric(("disk time", "seek", "%"), 1, "Disk time seeking", From::Runs(|r| 100.0 * over_disks(r, |d| d.seek))),
    metric(("disk time", "rotate", "%"), 1, "Disk time waiting for rotation", From::Runs(|r| 100.0 * over_disks(r, |d| d.rotation))),
    metric(("disk time", "xfer", "%"), 1, "Disk time transferring", From::Runs(|r| 100.0 * over_disks(r, |d| d.transfer))),
    metric(("disk time", "ovhd", "%"), 1, "Disk time in command overhead", From::Runs(|r| 100.0 * over_disks(r, |d| d.overhead))),
];

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
