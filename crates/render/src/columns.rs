//! The flat form of a run: one row of named, typed columns, the same in CSV and Parquet.

use destage_report::model::{CompareReport, DiskUse, RunReport};
use destage_report::table::csv_field;

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
    pub(crate) get: Get,
}

const fn text(name: &'static str, get: fn(&RunReport) -> String) -> Column {
    Column { name, get: Get::Text(get) }
}

const fn int(name: &'static str, get: fn(&RunReport) -> u64) -> Column {
    Column { name, get: Get::Int(get) }
}

const fn num(name: &'static str, get: fn(&RunReport) -> f64) -> Column {
    Column { name, get: Get::Num(get) }
}

const fn maybe(name: &'static str, get: fn(&RunReport) -> Option<f64>) -> Column {
    Column { name, get: Get::MaybeNum(get) }
}

/// Columns of a run, in order. Names are stable: a new one goes to the end, none changes meaning
/// without a new [`destage_report::model::SCHEMA`].
pub(crate) const RUN: &[Column] = &[
    int("schema", |r| u64::from(r.schema)),
    text("label", |r| r.label.clone()),
    int("seed", |r| r.seed),
    num("warmup_s", |r| r.warmup_s),
    num("measured_s", |r| r.measured_s),
    maybe("target_iops", |r| r.target_iops),
    num("iops", |r| r.iops),
    int("requests", |r| r.response.all.count),
    num("response_mean_ms", |r| r.response.all.mean_ms),
    num("response_p50_ms", |r| r.response.all.p50_ms),
    num("response_p95_ms", |r| r.response.all.p95_ms),
    num("response_p99_ms", |r| r.response.all.p99_ms),
    num("response_p999_ms", |r| r.response.all.p999_ms),
    num("response_max_ms", |r| r.response.all.max_ms),
    int("reads", |r| r.response.reads.count),
    num("read_mean_ms", |r| r.response.reads.mean_ms),
    num("read_p50_ms", |r| r.response.reads.p50_ms),
    num("read_p95_ms", |r| r.response.reads.p95_ms),
    num("read_p99_ms", |r| r.response.reads.p99_ms),
    num("read_p999_ms", |r| r.response.reads.p999_ms),
    num("read_max_ms", |r| r.response.reads.max_ms),
    int("writes", |r| r.response.writes.count),
    num("write_mean_ms", |r| r.response.writes.mean_ms),
    num("write_p50_ms", |r| r.response.writes.p50_ms),
    num("write_p95_ms", |r| r.response.writes.p95_ms),
    num("write_p99_ms", |r| r.response.writes.p99_ms),
    num("write_p999_ms", |r| r.response.writes.p999_ms),
    num("write_max_ms", |r| r.response.writes.max_ms),
    int("host_waits", |r| r.host_wait.requests),
    num("host_wait_mean_ms", |r| r.host_wait.mean_ms),
    num("host_wait_p99_ms", |r| r.host_wait.p99_ms),
    num("host_wait_max_ms", |r| r.host_wait.max_ms),
    num("hit_write_page_share", |r| r.hits.write_page),
    num("hit_write_group_share", |r| r.hits.write_group),
    num("hit_write_request_share", |r| r.hits.write_request),
    num("hit_read_request_share", |r| r.hits.read_request),
    int("stalled_writes", |r| r.stalled_writes),
    num("time_full_share", |r| r.time_full),
    num("occupancy_mean_share", |r| r.occupancy.mean),
    num("occupancy_min_share", |r| r.occupancy.min),
    num("occupancy_max_share", |r| r.occupancy.max),
    text("balance", |r| r.balance.state.to_string()),
    num("dirtied_pages_per_s", |r| r.balance.dirtied_pages_per_s),
    num("destaged_pages_per_s", |r| r.balance.destaged_pages_per_s),
    int("destages", |r| r.destage.groups),
    int("destaged_pages", |r| r.destage.pages),
    int("destaged_runs", |r| r.destage.runs),
    num("pages_per_destage", |r| r.destage.pages_per_destage),
    num("runs_per_destage", |r| r.destage.runs_per_destage),
    num("full_stripe_share", |r| r.destage.full_stripe_share),
    num("destage_distance_pages", |r| r.destage.mean_distance_pages),
    int("disk_flushes", |r| r.destage.flushes),
    int("disks", |r| r.disks.len() as u64),
    int("disk_reads", |r| r.disks.iter().map(|d| d.reads).sum()),
    int("disk_writes", |r| r.disks.iter().map(|d| d.writes).sum()),
    num("disk_busy_share", |r| over_disks(r, |d| d.utilisation)),
    num("disk_seek_share", |r| over_disks(r, |d| d.seek)),
    num("disk_rotation_share", |r| over_disks(r, |d| d.rotation)),
    num("disk_transfer_share", |r| over_disks(r, |d| d.transfer)),
    num("disk_overhead_share", |r| over_disks(r, |d| d.overhead)),
    int("events", |r| r.events),
    text("digest", |r| r.digest.clone()),
    text("options", |r| serde_json::to_string(&r.options).unwrap_or_default()),
    text("warnings", |r| r.warnings.join("; ")),
    maybe("read_cache_hit_share", |r| r.read_cache.as_ref().map(|cache| cache.hits)),
    maybe("rgr", |r| r.read_cache.as_ref().map(|cache| cache.rgr)),
    maybe("lost_page_weight", |r| r.read_cache.as_ref().and_then(|cache| cache.weight)),
    maybe("rebuild_s", |r| r.fault.as_ref().and_then(|fault| fault.rebuild_s)),
    maybe("rebuilt_share", |r| r.fault.as_ref().map(|fault| fault.rebuilt_share)),
    maybe("lost_pages", |r| r.fault.as_ref().map(|fault| fault.lost_pages as f64)),
    maybe("bands_cleaned", |r| r.media_cache.as_ref().map(|media| media.bands_cleaned as f64)),
    maybe("media_moved_pages", |r| r.media_cache.as_ref().map(|media| media.moved_pages as f64)),
    maybe("write_amplification", |r| r.media_cache.as_ref().map(|m| m.write_amplification)),
    text("response_histogram", |r| serde_json::to_string(&r.histogram).unwrap_or_default()),
    maybe("stalled_write_share", |r| r.stalled_share),
    int("recalled_pages", |r| r.destage.recalled_pages),
    int("idle_destages", |r| r.destage.idle_groups),
    int("idle_delayed_reads", |r| r.destage.idle_delayed_reads),
];

/// Columns before those of the run, in a comparison of variants.
pub(crate) const COMPARE: [&str; 4] = ["variant", "axis", "axis_unit", "axis_value"];

/// The columns of a run with their values, as in the CSV and Parquet.
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

/// The column of an option that is swept.
pub(crate) fn option_column(name: &str) -> String {
    format!("option_{}", name.replace('-', "_"))
}

/// The values of [`COMPARE`] for each run of a comparison, with the run.
pub(crate) fn compare_rows(report: &CompareReport) -> Vec<([&str; 4], &RunReport)> {
    let (axis, unit) = match &report.axis {
        Some(axis) => (axis.name.as_str(), axis.unit.as_str()),
        None => ("", ""),
    };
    let of_point = |point: &'_ destage_report::model::Point| point.runs.len();
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
    let axis = report.axis.as_ref().map(|axis| option_column(&axis.name));
    let head = axis.as_ref().map_or_else(String::new, |axis| format!(",{}", csv_field(axis)));
    let mut out = format!("{},{}{head}\r\n", COMPARE.join(","), names().join(","));
    for (prefix, run) in compare_rows(report) {
        let prefix = prefix.map(csv_field);
        let value = axis.as_ref().map_or_else(String::new, |_| format!(",{}", prefix[3]));
        out += &format!("{},{}{value}\r\n", prefix.join(","), fields(run).join(","));
    }
    out
}
