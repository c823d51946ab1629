//! What a comparison tabulates for each point: one list for the text tables and the HTML report.

use crate::columns::over_disks;
use destage_report::model::{Estimate, FaultUse, Latency, Point, ReadCacheUse, RunReport};

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
    /// What it is in full, for axis labels and menus; empty if it has no chart of its own.
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
pub(crate) const IN_FIRST_TABLE: usize = 15;

/// The first of those that are shown only where a run has them, in a third table.
pub(crate) const OPTIONAL: usize = 29;

/// The response metrics start here: mean.
pub(crate) const RESPONSE: usize = 2;

const ALL: &str = "response, all";
const DISK: &str = "disk time";
const CACHE: &str = "read cache";
const REBUILD: &str = "rebuild";
const HOST: &str = "wait at the host";

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
    metric(("throughput", "±", "I/O/s"), 1, "", From::Point(|p| half_width(&p.iops))),
    metric((ALL, "mean", "ms"), 2, "Mean response time", From::Point(|p| p.response_ms.mean)),
    metric((ALL, "±", "ms"), 2, "", From::Point(|p| half_width(&p.response_ms))),
    response((ALL, "p50"), 2, "Median response time", |r| of(&r.response.all, |l| l.p50_ms)),
    response((ALL, "p95"), 1, "95th percentile of response time", |r| {
        of(&r.response.all, |l| l.p95_ms)
    }),
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
    share("NVS full", "stalled", "Writes that waited for space", |r| 100.0 * stalled(r)),
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
    share(CACHE, "hits", "Read cache page hit ratio", |r| 100.0 * cache(r, |c| c.hits)),
    metric((CACHE, "RGR", "req/page"), 4, "RGR", From::Runs(|r| cache(r, |c| c.rgr))),
    metric((CACHE, "weight", "x"), 2, "Weight of lost pages", From::Runs(weight)),
    metric((REBUILD, "time", "s"), 1, "Reconstruction time", From::Runs(rebuild_time)),
    share(REBUILD, "done", "Share of the disk rebuilt", |r| 100.0 * fault(r, |f| f.rebuilt_share)),
    metric((REBUILD, "lost", "pages"), 0, "Pages lost", From::Runs(lost)),
    share(HOST, "waited", "Requests that waited at the host", |r| 100.0 * host(r, waited)),
    metric((HOST, "mean", "ms"), 2, "Mean wait at the host", From::Runs(|r| host(r, wait_mean))),
    metric((HOST, "p99", "ms"), 1, "99th percentile of the wait at the host", From::Runs(wait_p99)),
];

/// The metrics that a comparison shows: all but those that none of its points has.
pub(crate) fn shown(points: &[Point]) -> impl Iterator<Item = (usize, &'static Metric)> + '_ {
    let has = |metric: &Metric| points.iter().any(|point| metric.value(point).is_some());
    METRICS.iter().enumerate().filter(move |(i, metric)| *i < OPTIONAL || has(metric))
}

/// NaN without a read cache.
fn cache(run: &RunReport, get: fn(&ReadCacheUse) -> f64) -> f64 {
    run.read_cache.as_ref().map_or(f64::NAN, get)
}

/// NaN where no disk failed.
fn fault(run: &RunReport, get: fn(&FaultUse) -> f64) -> f64 {
    run.fault.as_ref().map_or(f64::NAN, get)
}

fn weight(run: &RunReport) -> f64 {
    cache(run, |cache| cache.weight.unwrap_or(f64::NAN))
}

/// NaN also where the rebuild did not come to its end.
fn rebuild_time(run: &RunReport) -> f64 {
    fault(run, |fault| fault.rebuild_s.unwrap_or(f64::NAN))
}

/// NaN where no request waited at the host.
fn host(run: &RunReport, get: fn(&RunReport) -> f64) -> f64 {
    if run.host_wait.requests == 0 { f64::NAN } else { get(run) }
}

fn waited(run: &RunReport) -> f64 {
    run.host_wait.requests as f64 / run.response.all.count.max(1) as f64
}

fn wait_mean(run: &RunReport) -> f64 {
    run.host_wait.mean_ms
}

fn wait_p99(run: &RunReport) -> f64 {
    host(run, |run| run.host_wait.p99_ms)
}

fn lost(run: &RunReport) -> f64 {
    fault(run, |fault| fault.lost_pages as f64)
}

/// Share of writes that waited for space; NaN without writes.
pub(crate) fn stalled(run: &RunReport) -> f64 {
    run.stalled_share.unwrap_or(f64::NAN)
}

/// NaN for one seed, which has no interval.
pub(crate) fn half_width(estimate: &Estimate) -> f64 {
    if estimate.seeds > 1 { estimate.half_width } else { f64::NAN }
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
        assert_eq!(METRICS[OPTIONAL].group, CACHE);
        assert_ne!(METRICS[OPTIONAL - 1].group, CACHE);
    }

    #[test]
    fn a_mean_of_nothing_is_absent() {
        let without_runs = Point::default();
        assert_eq!(METRICS[4].value(&without_runs), None);
        let idle = Point { runs: vec![RunReport::default()], ..Point::default() };
        assert_eq!(METRICS[4].value(&idle), None);
        assert_eq!(METRICS[11].value(&idle), Some(0.0));
    }

    #[test]
    fn what_no_run_has_is_not_shown() {
        let mut run = RunReport::default();
        let point = |run: &RunReport| Point { runs: vec![run.clone()], ..Point::default() };
        assert_eq!(shown(&[point(&run)]).count(), OPTIONAL);
        run.read_cache = Some(ReadCacheUse { rgr: 1.5, ..ReadCacheUse::default() });
        let groups = |points: &[Point]| -> Vec<&str> {
            shown(points).skip(OPTIONAL).map(|(_, metric)| metric.name).collect()
        };
        let both = [point(&RunReport::default()), point(&run)];
        assert_eq!(groups(&both), ["hits", "RGR"]);
        run.fault = Some(FaultUse { rebuild_s: Some(7.0), ..FaultUse::default() });
        assert_eq!(groups(&[point(&run)]), ["hits", "RGR", "time", "done", "lost"]);
    }
}
