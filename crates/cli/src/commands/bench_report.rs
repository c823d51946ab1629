//! What came of a load, as tables, JSON and the files of HdrHistogram plotters.

use crate::failure::Failure;
use destage_load::{FLUSH, Kind, Lap, Load, Measured, Tally, percentiles};
use destage_report::{Cell, Format, Table};
use std::path::{Path, PathBuf};

/// Names of the kinds, in their order.
const KINDS: [&str; 3] = ["read", "write", "flush"];
/// Latencies that are reported: name and share.
const SHARES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Columns of a kind's figures.
fn columns() -> Vec<(&'static str, &'static str)> {
    let counts =
        [("kind", ""), ("requests", ""), ("errors", ""), ("rate", "/s"), ("moved", "MB/s")];
    let shares = SHARES.iter().map(|share| (share.0, "us"));
    counts.into_iter().chain([("mean", "us")]).chain(shares).chain([("max", "us")]).collect()
}

fn cells(place: usize, kind: &Kind, seconds: f64) -> Vec<Cell> {
    let times = &kind.latency_ns;
    let moved = if place == FLUSH { 0.0 } else { kind.bytes as f64 / seconds / 1e6 };
    let mut cells = vec![
        Cell::text(KINDS[place]),
        Cell::int(times.len()),
        Cell::int(kind.errors),
        Cell::num(times.len() as f64 / seconds, 0),
        Cell::num(moved, 1),
        Cell::num(times.mean() / 1e3, 1),
    ];
    cells.extend(SHARES.map(|(_, share)| Cell::num(us(times.value_at_quantile(share)), 1)));
    cells.push(Cell::num(us(times.max()), 1));
    cells
}

/// The kinds that occurred.
fn kinds(tally: &Tally) -> impl Iterator<Item = (usize, &Kind)> {
    tally.kinds.iter().enumerate().filter(|(_, kind)| !kind.latency_ns.is_empty())
}

fn rows(measured: &Measured) -> Table {
    let mut columns = columns();
    columns.push(("server CPU", "us/request"));
    let mut table = Table::new(&columns);
    let cpu = measured.server_cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / measured.requests() as f64);
    for (place, kind) in kinds(&measured.tally) {
        let mut cells = cells(place, kind, measured.time.as_secs_f64());
        cells.push(Cell::maybe(cpu, 2));
        table.push(cells);
    }
    table
}

/// The intervals of a run, as they end.
pub struct Intervals(Table);

impl Intervals {
    pub fn new() -> Intervals {
        let mut all = vec![("begin", "s"), ("end", "s")];
        all.extend(columns());
        Intervals(Table::new(&all))
    }

    /// Takes one in; gives a line about it.
    pub fn take(&mut self, lap: &Lap) -> String {
        let (begin, end) = (lap.begin.as_secs_f64(), lap.end.as_secs_f64());
        let seconds = end - begin;
        let mut line = format!("{end:8.1} s:");
        let mut separator = ' ';
        for (place, kind) in kinds(&lap.tally) {
            let mut row = vec![Cell::num(begin, 3), Cell::num(end, 3)];
            row.extend(cells(place, kind, seconds));
            self.0.push(row);
            let times = &kind.latency_ns;
            line.push_str(&format!(
                "{separator} {} {:.0}/s, mean {:.0}, p99 {:.0}, max {:.0} us",
                KINDS[place],
                times.len() as f64 / seconds,
                times.mean() / 1e3,
                us(times.value_at_quantile(0.99)),
                us(times.max())
            ));
            separator = ';';
        }
        if separator == ' ' {
            line.push_str(" no answers");
        }
        line
    }
}

/// Everything in the form asked for. `about` is what was asked: names and values.
pub fn render(
    load: &Load,
    about: &[(&str, String)],
    measured: &Measured,
    intervals: &Intervals,
    format: Format,
) -> String {
    let rows = rows(measured);
    match format {
        Format::Csv => rows.render(format),
        Format::Json => json(about, measured, &rows, intervals),
        Format::Table => {
            let mut text = rows.render(format);
            let late = &measured.tally.begun_late_ns;
            if !late.is_empty() {
                text.push_str(&format!(
                    "begun late (us): p50 {:.1}, p99 {:.1}, max {:.1}; due and not begun at the \
                     end: {}\n",
                    us(late.value_at_quantile(0.5)),
                    us(late.value_at_quantile(0.99)),
                    us(late.max()),
                    measured.not_begun
                ));
            }
            if load.verify {
                let (number, unit) = (measured.verified, unit(about));
                text.push_str(&format!("verified: {number} {unit} hold what was acknowledged\n"));
            }
            text
        }
    }
}

/// What is counted when contents are verified.
fn unit(about: &[(&str, String)]) -> &'static str {
    if about.iter().any(|(name, _)| *name == "rw") { "blocks" } else { "sectors" }
}

fn json(about: &[(&str, String)], measured: &Measured, rows: &Table, all: &Intervals) -> String {
    let parsed = |table: &Table| -> serde_json::Value {
        serde_json::from_str(&table.render(Format::Json)).expect("JSON of our own")
    };
    let asked: serde_json::Map<String, serde_json::Value> =
        about.iter().map(|(name, value)| (name.to_string(), value.as_str().into())).collect();
    let late = &measured.tally.begun_late_ns;
    let share = |share| (!late.is_empty()).then(|| us(late.value_at_quantile(share)));
    let all = serde_json::json!({
        "load": asked,
        "time_s": measured.time.as_secs_f64(),
        "requests": measured.requests(),
        "errors": measured.errors(),
        "first_errno": measured.first_errno,
        "kinds": parsed(rows),
        "begun_late_us": {
            "p50": share(0.5), "p90": share(0.9), "p95": share(0.95), "p99": share(0.99),
            "p99_9": share(0.999), "max": share(1.0),
        },
        "not_begun": measured.not_begun,
        "verified": measured.verified,
        "server_cpu_s": measured.server_cpu.map(|cpu| cpu.as_secs_f64()),
        "intervals": parsed(&all.0),
    });
    format!("{all:#}\n")
}

/// The file of a kind next to `path`: NAME.EXT becomes NAME.read.EXT.
pub fn hdr_path(path: &Path, place: usize) -> PathBuf {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("hgrm");
    path.with_extension(format!("{}.{extension}", KINDS[place]))
}

/// Writes the percentiles of each kind that occurred to a file of its own.
pub fn write_hdr(path: &Path, measured: &Measured) -> Result<(), Failure> {
    for (place, kind) in kinds(&measured.tally) {
        let text = percentiles(&kind.latency_ns);
        destage_report::write_file(&hdr_path(path, place), text.as_bytes())?;
    }
    Ok(())
}
