//! `destage sweep`: every combination of options into a dataset.

use super::{format, text, threads};
use crate::failure::Failure;
use crate::progress;
use crate::run_args::run_options;
use clap::ArgMatches;
use destage_report::model::simulated_as;
use destage_report::{Cell, Format, Table};
use destage_sim::axis::parse_axis;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;
use destage_sim::sweep::{self, Dataset, Sweep, SweepPoint};
use serde_json::{Map, Value};
use std::path::Path;

/// Runs what is missing and prints all rows.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let base = run_options(matches)?;
    let grid = matches.get_many::<String>("grid").expect("required");
    let axes = grid.map(|axis| parse_axis("grid", axis)).collect::<Result<Vec<_>, _>>()?;
    let seeds = *matches.get_one::<u32>("seeds").expect("default");
    let names: Vec<String> = axes.iter().map(|(name, _)| name.clone()).collect();
    let points = Sweep { base, axes, seeds }.points(&Default::default(), &Default::default())?;
    let dataset = Dataset::open(Path::new(text(matches, "out").expect("required")))?;
    let bar = progress::bar("points");
    let run = |label: &str, options: &RunOptions| run_one(label, options, &make_source);
    let swept = sweep::run(&points, &dataset, threads(matches), &run, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    eprintln!("destage: {} points were there, {} were run", swept.found, swept.run);
    let rows = points.iter().map(|point| read(&dataset, point)).collect::<Result<Vec<_>, _>>()?;
    Ok(match format(matches) {
        Format::Json => serde_json::to_string_pretty(&rows).expect("no keys but text") + "\n",
        Format::Csv => whole_table(&rows).render(Format::Csv),
        Format::Table => {
            let table = short_table(&names, &points, &rows).render(Format::Table);
            settings(&names, &points) + &table + &warnings(&names, &points, &rows)
        }
    })
}

/// Whose settings all points have; where that is swept, the table has it.
fn settings(axes: &[String], points: &[SweepPoint]) -> String {
    let options = points.first().filter(|_| axes.iter().all(|name| name != "as"));
    let said = options.and_then(|point| simulated_as(&point.options.describe()));
    said.map_or_else(String::new, |said| format!("{said}\n\n"))
}

/// Runs whose warnings are printed; the rest are counted.
const WARNED_MAX: usize = 10;

/// What the runs warn of, one by one.
fn warnings(axes: &[String], points: &[SweepPoint], rows: &[Map<String, Value>]) -> String {
    let mut lines = Vec::new();
    for (point, row) in points.iter().zip(rows) {
        let said = row.get("warnings").and_then(Value::as_str).unwrap_or_default();
        if !said.is_empty() {
            let seed = (!axes.iter().any(|name| name == "seed")).then_some("seed");
            let names = axes.iter().map(String::as_str).chain(seed);
            let values = names.map(|name| format!("{name}={}", point.options.get(name)));
            lines.push(format!("  - {}: {said}", values.collect::<Vec<_>>().join(" ")));
        }
    }
    let more = lines.len().saturating_sub(WARNED_MAX);
    lines.truncate(WARNED_MAX);
    if more > 0 {
        lines.push(format!("  - {more} more runs have some: see `warnings` in --format csv"));
    }
    if lines.is_empty() { String::new() } else { format!("\nWarnings\n{}\n", lines.join("\n")) }
}

/// The row of a point as named values.
fn read(dataset: &Dataset, point: &SweepPoint) -> Result<Map<String, Value>, Failure> {
    let path = dataset.path(&point.key);
    let named = |why: &dyn std::fmt::Display| Failure::failed(format!("{}: {why}", path.display()));
    let file = std::fs::File::open(&path).map_err(|why| named(&why))?;
    let rows = destage_render::parquet_read(file).map_err(|why| named(&why))?;
    let row = rows.into_iter().next().ok_or_else(|| named(&"it has no row"))?;
    Ok(row.into_iter().collect())
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::String(text) => Cell::text(text.as_str()),
        Value::Number(number) if number.is_u64() => Cell::int(number.as_u64().unwrap_or(0)),
        Value::Number(number) => Cell::written(number.to_string()),
        _ => Cell::empty(),
    }
}

fn whole_table(rows: &[Map<String, Value>]) -> Table {
    let names: Vec<(&str, &str)> =
        rows.first().into_iter().flat_map(Map::keys).map(|name| (name.as_str(), "")).collect();
    let mut table = Table::new(&names);
    for row in rows {
        table.push(row.values().map(cell).collect());
    }
    table
}

/// Figures of the short table: column, heading, unit, decimals.
const FIGURES: [(&str, &str, &str, usize); 7] = [
    ("iops", "throughput", "I/O/s", 1),
    ("response_mean_ms", "mean", "ms", 2),
    ("response_p95_ms", "p95", "ms", 1),
    ("response_p99_ms", "p99", "ms", 1),
    ("hit_write_page_share", "page hits", "share", 3),
    ("stalled_write_share", "stalled", "share", 4),
    ("time_full_share", "full", "share", 4),
];

fn short_table(axes: &[String], points: &[SweepPoint], rows: &[Map<String, Value>]) -> Table {
    let mut heads: Vec<(&str, &str)> = axes.iter().map(|name| (name.as_str(), "")).collect();
    let has_seed = axes.iter().any(|name| name == "seed");
    if !has_seed {
        heads.push(("seed", ""));
    }
    heads.extend(FIGURES.iter().map(|(_, head, unit, _)| (*head, *unit)));
    heads.push(("dirty pages", ""));
    let mut table = Table::new(&heads);
    for (point, row) in points.iter().zip(rows) {
        let mut cells: Vec<Cell> =
            axes.iter().map(|name| Cell::text(point.options.get(name))).collect();
        if !has_seed {
            cells.push(Cell::text(point.options.get("seed")));
        }
        for (column, _, _, decimals) in FIGURES {
            cells.push(Cell::maybe(row.get(column).and_then(Value::as_f64), decimals));
        }
        cells.push(Cell::text(row.get("balance").and_then(Value::as_str).unwrap_or_default()));
        table.push(cells);
    }
    table
}
