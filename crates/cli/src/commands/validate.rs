//! `destage disks validate`: a disk model against measured service times.

use super::{format, text};
use crate::failure::Failure;
use crate::output::plot_format;
use crate::paths::Paths;
use crate::progress;
use clap::ArgMatches;
use destage_report::{Cell, Format, PlotSpec, Table};
use destage_sim::validate::{
    IssueTimes, POINTS, ResponseComparison, ValidateOptions, Validation, validate,
};
use destage_workload::trace::{ReadOptions, Reader};
use std::path::Path;

/// Points of a distribution that are drawn.
const DRAWN: usize = 500;

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let spec = destage_disk::find(text(matches, "spec").expect("required"))?;
    let plot_path = text(matches, "plot").map(Path::new);
    let plot_as = plot_path.map(plot_format).transpose()?;
    let trace = Path::new(text(matches, "trace").expect("required"));
    let reader = Reader::open(trace, &ReadOptions::default()).map_err(Failure::failed)?;
    if let Some(path) = plot_path {
        Paths::reading(["spec", "trace"].into_iter().filter_map(|name| text(matches, name)))
            .report(path)?;
    }
    let options = ValidateOptions {
        device: *matches.get_one("device").expect("default"),
        pace: match text(matches, "pace") {
            Some("closed") => Some(IssueTimes::Closed),
            Some("recorded") => Some(IssueTimes::Recorded),
            _ => None,
        },
    };
    let spinner = progress::spinner("replaying");
    let validation = validate(&spec, reader, options).map_err(Failure::failed)?;
    spinner.finish_and_clear();
    if let (Some(path), Some(plot_as)) = (plot_path, plot_as) {
        let drawn = destage_render::draw(&plot(&spec.name, &validation), plot_as);
        destage_report::write_file(path, &drawn.map_err(Failure::failed)?)?;
    }
    Ok(render(&validation, format(matches)))
}

fn render(validation: &Validation, format: Format) -> String {
    let mut kinds = Table::new(&[
        ("requests", ""),
        ("number", ""),
        ("buffer hits", "%"),
        ("mean measured", "ms"),
        ("mean modelled", "ms"),
        ("rms", "ms"),
        ("demerit", "%"),
    ]);
    for comparison in [&validation.all].into_iter().chain(&validation.kinds) {
        kinds.push(cells(comparison));
    }
    let mut tenths = Table::new(&[
        ("requests, by response time", "%"),
        ("measured up to", "ms"),
        ("modelled up to", "ms"),
        ("rms", "ms"),
    ]);
    for (tenth, rms_ms) in (1..).zip(validation.rms_ms_by_tenth()) {
        let (measured_ms, modelled_ms) = validation.quantiles[tenth * POINTS / 10 - 1];
        tenths.push(vec![
            Cell::text(format!("{} to {}", tenth * 10 - 10, tenth * 10)),
            Cell::num(measured_ms, 3),
            Cell::num(modelled_ms, 3),
            Cell::num(rms_ms, 3),
        ]);
    }
    let (kinds, tenths) = (kinds.render(format), tenths.render(format));
    match format {
        Format::Table => format!("{kinds}\n{tenths}"),
        Format::Csv => kinds,
        Format::Json => {
            format!("{{\n\"kinds\": {},\n\"tenths\": {}\n}}\n", kinds.trim(), tenths.trim())
        }
    }
}

fn cells(comparison: &ResponseComparison) -> Vec<Cell> {
    vec![
        Cell::text(comparison.name),
        Cell::int(comparison.requests),
        Cell::num(comparison.hits as f64 * 100.0 / comparison.requests as f64, 1),
        Cell::num(comparison.measured_ms_mean, 3),
        Cell::num(comparison.modelled_ms_mean, 3),
        Cell::num(comparison.rms_ms, 3),
        Cell::num(comparison.demerit() * 100.0, 2),
    ]
}

/// Both cumulative distributions of response time.
fn plot(name: &str, validation: &Validation) -> PlotSpec {
    let curve = |time: fn(&(f64, f64)) -> f64| -> Vec<(f64, f64)> {
        let every = POINTS / DRAWN;
        let drawn = validation.quantiles.iter().skip(every - 1).step_by(every);
        (1..)
            .zip(drawn)
            .map(|(i, pair)| (time(pair), f64::from(i) * 100.0 / DRAWN as f64))
            .collect()
    };
    let title = format!(
        "{name}: measured and modelled, rms {:.3} ms, demerit {:.2} %",
        validation.all.rms_ms,
        validation.all.demerit() * 100.0
    );
    PlotSpec::lines(&title, "response time (ms)", "requests served within it (%)")
        .y_covers(0.0, 100.0)
        .series("measured", curve(|pair| pair.0))
        .series("modelled", curve(|pair| pair.1))
}
