//! The flat form of a run: one row of named, typed columns, the same in CSV and Parquet.

use crate::model::{CompareReport, DiskUse, RunReport};
use crate::table::csv_field;

/// How a column gets its value out of a run.
#[derive(Clone, Copy)]
pub(crate) enum Get {
    Text(fn(&RunReport) -> String),
    Int(fn(&RunReport) -> u64),
    Num(fn(&RunReport) -> f64),
    MaybeNum(fn(&RunReport) -> Option<f64>),
}

/// One column of the flat form.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) get: Get,
}

const fn text(name: &'static str, help: &'static str, get: fn(&RunReport) -> String) -> Column {
    Column { name, help, get: Get::Text(get) }
}

const fn int(name: &'static str, help: &'static str, get: fn(&RunReport) -> u64) -> Column {
    Column { name, help, get: Get::Int(get) }
}

const fn num(name: &'static str, help: &'static str, get: fn(&RunReport) -> f64) -> Column {
    Column { name, help, get: Get::Num(get) }
}

const fn maybe(
    name: &'static str,
    help: &'static str,
    get: fn(&RunReport) -> Option<f64>,
) -> Column {
    Column { name, help, get: Get::MaybeNum(get) }
}

/// Columns of a run, in order. Names are stable: a new one goes to the end, none changes meaning
/// without a new [`crate::model::SCHEMA`].
pub(crate) const RUN: &[Column] = &[
    int("schema", "version of these columns", |r| u64::from(r.schema)),
    text("label", "name of the run", |r| r.label.clone()),
    int("seed", "seed of all generators", |r| r.seed),
    num("warmup_s", "virtual seconds before measuring began", |r| r.warmup_s),
    num("measured_s", "virtual seconds measured", |r| r.measured_s),
    maybe("target_iops", "requests a second aimed at; empty for closed loops and traces", |r| {
        r.target_iops
    }),
    num("iops", "requests completed a second", |r| r.iops),
    int("requests", "requests completed", |r| r.response.all.count),
    num("response_mean_ms", "mean response time", |r| r.response.all.mean_ms),
    num("response_p50_ms", "median response time", |r| r.response.all.p50_ms),
    num("response_p99_ms", "99th percentile", |r| r.response.all.p99_ms),
    num("response_p999_ms", "99.9th percentile", |r| r.response.all.p999_ms),
    num("response_max_ms", "largest response time", |r| r.response.all.max_ms),
    int("reads", "reads completed", |r| r.response.reads.count),
    num("read_mean_ms", "the same for reads", |r| r.response.reads.mean_ms),
    num("read_p50_ms", "", |r| r.response.reads.p50_ms),
    num("read_p99_ms", "", |r| r.response.reads.p99_ms),
    num("read_p999_ms", "", |r| r.response.reads.p999_ms),
    num("read_max_ms", "", |r| r.response.reads.max_ms),
    int("writes", "writes completed", |r| r.response.writes.count),
    num("write_mean_ms", "the same for writes", |r| r.response.writes.mean_ms),
    num("write_p50_ms", "", |r| r.response.writes.p50_ms),
    num("write_p99_ms", "", |r| r.response.writes.p99_ms),
    num("write_p999_ms", "", |r| r.response.writes.p999_ms),
    num("write_max_ms", "", |r| r.response.writes.max_ms),
    num("hit_write_page_share", "pages written that were in NVS, 0 to 1", |r| r.hits.write_page),
    num("hit_write_group_share", "pages written into a group that was in NVS before", |r| {
        r.hits.write_group
    }),
    num("hit_write_request_share", "writes with all pages in NVS", |r| r.hits.write_request),
    num("hit_read_request_share", "reads with all pages in NVS", |r| r.hits.read_request),
    int("stalled_writes", "writes that waited for space", |r| r.stalled_writes),
    num("time_full_share", "share of time in which a write waited, 0 to 1", |r| r.time_full),
    num("occupancy_mean_share", "NVS in use, time-weighted mean, 0 to 1", |r| r.occupancy.mean),
    num("occupancy_min_share", "smallest", |r| r.occupancy.min),
    num("occupancy_max_share", "largest", |r| r.occupancy.max),
    int("destages", "groups destaged", |r| r.destage.groups),
    int("destaged_pages", "pages destaged", |r| r.destage.pages),
    int("destaged_runs", "contiguous runs of pages destaged", |r| r.destage.runs),
    num("pages_per_destage", "mean", |r| r.destage.pages_per_destage),
    num("runs_per_destage", "mean", |r| r.destage.runs_per_destage),
    num("full_stripe_share", "destaged stripes that needed no reads, 0 to 1", |r| {
        r.destage.full_stripe_share
    }),
    num("destage_distance_pages", "mean distance between starts of consecutive destages", |r| {
        r.destage.mean_distance_pages
    }),
    int("disks", "member disks", |r| r.disks.len() as u64),
    int("disk_reads", "read commands, all disks", |r| r.disks.iter().map(|d| d.reads).sum()),
    int("disk_writes", "write commands, all disks", |r| r.disks.iter().map(|d| d.writes).sum()),
    num("disk_busy_share", "share of time busy, mean of the disks, 0 to 1", |r| {
        over_disks(r, |d| d.utilisation)
    }),
    num("disk_seek_share", "of time, seeking", |r| over_disks(r, |d| d.seek)),
    num("disk_rotation_share", "of time, waiting for rotation", |r| over_disks(r, |d| d.rotation)),
    num("disk_transfer_share", "of time, transferring", |r| over_disks(r, |d| d.transfer)),
    num("disk_overhead_share", "of time, in command overhead", |r| over_disks(r, |d| d.overhead)),
    int("events", "events handled", |r| r.events),
    text("digest", "of all that happened: same inputs, same digest", |r| r.digest.clone()),
    text("options", "every option of the run, as a JSON object", |r| {
        serde_json::to_string(&r.options).unwrap_or_default()
    }),
    text("warnings", "what to know before trusting the run, joined by `; `", |r| {
        r.warnings.join("; ")
    }),
    maybe("read_cache_hit_share", "pages read, not in NVS but in the read cache, 0 to 1", |r| {
        r.read_cache.as_ref().map(|cache| cache.hits)
    }),
    maybe("rgr", "requests to disks a page read, by penalties; empty without a read cache", |r| {
        r.read_cache.as_ref().map(|cache| cache.rgr)
    }),
    maybe("lost_page_weight", "weight of lost pages at the end; empty with no disk failed", |r| {
        r.read_cache.as_ref().and_then(|cache| cache.weight)
    }),
    maybe("rebuild_s", "time of the rebuild, if it came to its end", |r| {
        r.fault.as_ref().and_then(|fault| fault.rebuild_s)
    }),
    maybe("rebuilt_share", "of the disk, at the end, 0 to 1; empty where no disk failed", |r| {
        r.fault.as_ref().map(|fault| fault.rebuilt_share)
    }),
    maybe("lost_pages", "pages that a rebuild could not compute", |r| {
        r.fault.as_ref().map(|fault| fault.lost_pages as f64)
    }),
];

/// Columns that stand before those of the run where several variants are compared.
pub(crate) const COMPARE: [(&str, &str); 4] = [
    ("variant", "what was compared"),
    ("axis", "name of the swept parameter; empty without a sweep"),
    ("axis_unit", "its unit"),
    ("axis_value", "its value as written"),
];

/// Names and meanings of the columns of a run in CSV and Parquet, for the docs. A comparison has
/// four more before them: `variant`, `axis`, `axis_unit`, `axis_value`.
pub fn run_columns() -> impl Iterator<Item = (&'static str, &'static str)> {
    RUN.iter().map(|column| (column.name, column.help))
}

/// The columns of a run with their values, as in the CSV and Parquet.
#[must_use]
pub fn run_row(run: &RunReport) -> Vec<(&'static str, serde_json::Value)> {
    let value = |column: &Column| match column.get {
        Get::Text(get) => get(run).into(),
        Get::Int(get) => get(run).into(),
        Get::Num(get) => get(run).into(),
        Get::MaybeNum(get) => get(run).into(),
    };
    RUN.iter().map(|column| (column.name, value(column))).collect()
}

/// Mean over the member disks, 0 without disks.
pub(crate) fn over_disks(run: &RunReport, get: fn(&DiskUse) -> f64) -> f64 {
    if run.disks.is_empty() {
        return 0.0;
    }
    run.disks.iter().map(get).sum::<f64>() / run.disks.len() as f64
}

fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

fn fields(run: &RunReport) -> Vec<String> {
    let field = |column: &Column| match column.get {
        Get::Text(get) => csv_field(&get(run)),
        Get::Int(get) => get(run).to_string(),
        Get::Num(get) => number(get(run)),
        Get::MaybeNum(get) => get(run).map(number).unwrap_or_default(),
    };
    RUN.iter().map(field).collect()
}

fn names() -> Vec<&'static str> {
    RUN.iter().map(|column| column.name).collect()
}

/// One header line and one line for the run.
pub(crate) fn run_csv(run: &RunReport) -> String {
    format!("{}\r\n{}\r\n", names().join(","), fields(run).join(","))
}

/// The values of [`COMPARE`] for each run of a comparison, with the run.
pub(crate) fn compare_rows(report: &CompareReport) -> Vec<([&str; 4], &RunReport)> {
    let (axis, unit) = match &report.axis {
        Some(axis) => (axis.name.as_str(), axis.unit.as_str()),
        None => ("", ""),
    };
    let of_point = |point: &'_ crate::model::Point| point.runs.len();
    let mut rows = Vec::with_capacity(report.points.iter().map(of_point).sum());
    for point in &report.points {
        for run in &point.runs {
            rows.push(([point.variant.as_str(), axis, unit, point.value.as_str()], run));
        }
    }
    rows
}

/// One header line and one line for each run of each point.
pub(crate) fn compare_csv(report: &CompareReport) -> String {
    let prefix = COMPARE.map(|(name, _)| name);
    let mut out = format!("{},{}\r\n", prefix.join(","), names().join(","));
    for (prefix, run) in compare_rows(report) {
        let prefix = prefix.map(csv_field);
        out += &format!("{},{}\r\n", prefix.join(","), fields(run).join(","));
    }
    out
}
