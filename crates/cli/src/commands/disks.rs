//! `destage disks`: list, show, convert; `validate` has a file of its own.

use super::{format, text};
use crate::failure::Failure;
use crate::output::plot_format;
use crate::paths::Paths;
use clap::ArgMatches;
use destage_disk::disksim::{self, Source, Sources};
use destage_disk::{DiskSpec, Figures};
use destage_report::{Cell, PlotSpec, Table};
use std::path::Path;

/// Runs the subcommand, or lists.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    match matches.subcommand() {
        Some(("show", matches)) => show(matches),
        Some(("convert", matches)) => convert(matches),
        Some(("validate", matches)) => super::validate::run(matches),
        _ => list(matches),
    }
}

fn list(matches: &ArgMatches) -> Result<String, Failure> {
    let mut table = Table::new(&[
        ("name", ""),
        ("capacity", "GB"),
        ("revolution", "ms"),
        ("seek one", "ms"),
        ("seek mean", "ms"),
        ("seek full", "ms"),
        ("outer", "MB/s"),
        ("inner", "MB/s"),
        ("QD 1", "IOPS"),
        ("QD 16", "IOPS"),
        ("summary", ""),
    ]);
    for entry in destage_disk::registry() {
        let spec = destage_disk::find(entry.name).map_err(Failure::failed)?;
        let mut cells = vec![Cell::text(entry.name)];
        cells.extend(figure_cells(&Figures::measure(&spec)));
        cells.push(Cell::text(entry.summary));
        table.push(cells);
    }
    Ok(table.render(format(matches)))
}

fn figure_cells(figures: &Figures) -> Vec<Cell> {
    let rate = |zone: Option<&destage_disk::ZoneRate>| zone.map(|z| z.mb_per_s);
    vec![
        Cell::num(figures.capacity_bytes as f64 / 1e9, 1),
        Cell::num(figures.revolution.as_millis_f64(), 3),
        Cell::num(figures.single_track_seek.as_millis_f64(), 2),
        Cell::num(figures.avg_seek.as_millis_f64(), 2),
        Cell::num(figures.max_seek.as_millis_f64(), 2),
        Cell::maybe(rate(figures.zones.first()), 1),
        Cell::maybe(rate(figures.zones.last()), 1),
        Cell::num(figures.random_read_iops_1, 0),
        Cell::num(figures.random_read_iops_16, 0),
    ]
}

fn show(matches: &ArgMatches) -> Result<String, Failure> {
    let name = text(matches, "name").expect("required");
    let spec = destage_disk::find(name)?;
    if let Some(path) = text(matches, "plot").map(Path::new) {
        let format = plot_format(path)?;
        Paths::reading([name]).report(path)?;
        let bytes = destage_render::draw(&plot(&spec), format).map_err(Failure::failed)?;
        destage_report::write_file(path, &bytes)?;
    }
    let figures = Figures::measure(&spec);
    let mut table = Table::new(&[("figure", ""), ("value", ""), ("unit", "")]);
    let mut row = |name: String, value: String, unit: &str| {
        table.push(vec![Cell::text(name), Cell::text(value), Cell::text(unit)]);
    };
    row("name".into(), spec.name.clone(), "");
    row("summary".into(), spec.summary.clone(), "");
    row("source".into(), spec.source.trim().replace('\n', " "), "");
    row("capacity".into(), format!("{:.2}", figures.capacity_bytes as f64 / 1e9), "GB");
    row("sectors".into(), figures.sectors.to_string(), "sectors");
    row("revolution".into(), format!("{:.3}", figures.revolution.as_millis_f64()), "ms");
    for (name, time) in [
        ("seek, one cylinder", figures.single_track_seek),
        ("seek, mean of random reads", figures.avg_seek),
        ("seek, full stroke", figures.max_seek),
    ] {
        row(name.into(), format!("{:.3}", time.as_millis_f64()), "ms");
    }
    row(
        "random 4 KiB reads, depth 1".into(),
        format!("{:.1}", figures.random_read_iops_1),
        "I/O/s",
    );
    row(
        "random 4 KiB reads, depth 16".into(),
        format!("{:.1}", figures.random_read_iops_16),
        "I/O/s",
    );
    for (index, zone) in figures.zones.iter().enumerate() {
        row(format!("sustained rate, zone {index}"), format!("{:.2}", zone.mb_per_s), "MB/s");
    }
    Ok(table.render(format(matches)))
}

/// Seek time over distance, and the edges of the zones as lines.
fn plot(spec: &DiskSpec) -> PlotSpec {
    let curve: Vec<(f64, f64)> = destage_disk::seek_curve(spec)
        .into_iter()
        .map(|(cylinders, ms)| (f64::from(cylinders), ms))
        .collect();
    let zones = destage_disk::zones(spec);
    let steps: Vec<(f64, f64)> = zones
        .iter()
        .flat_map(|zone| {
            let y = f64::from(zone.sectors_per_track) / 100.0;
            [
                (f64::from(zone.first_cylinder), y),
                (f64::from(zone.first_cylinder + zone.cylinders), y),
            ]
        })
        .collect();
    PlotSpec::lines(
        &format!("{}: seek curve and zones", spec.name),
        "distance, or cylinder of the zone (cylinders)",
        "seek time (ms); sectors a track / 100",
    )
    .series("seek time (ms)", curve)
    .series("zones: sectors a track / 100", steps)
}

/// Text of a file and its name.
fn load(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::failed(format!("{path}: {error}")))
}

fn convert(matches: &ArgMatches) -> Result<String, Failure> {
    let model = text(matches, "model").expect("required");
    let model_text = load(model)?;
    let given = |name: &str| {
        text(matches, name).map(|path| Ok::<_, Failure>((path, load(path)?))).transpose()
    };
    let (seek, specs) = (given("seek")?, given("specs")?);
    let stem = Path::new(model).file_stem().and_then(|s| s.to_str()).unwrap_or("disk");
    let name = text(matches, "name").unwrap_or(stem);
    let sources = Sources {
        model: Source { file: model, text: &model_text },
        seek: seek.as_ref().map(|(file, text)| Source { file, text }),
        specs: specs.as_ref().map(|(file, text)| Source { file, text }),
    };
    if let Some(path) = text(matches, "out") {
        let inputs = ["model", "seek", "specs"].into_iter().filter_map(|name| text(matches, name));
        Paths::reading(inputs).report(Path::new(path))?;
    }
    let spec = disksim::convert(name, sources).map_err(Failure::failed)?;
    match text(matches, "out") {
        None => Ok(spec.to_toml()),
        Some(path) => {
            destage_report::write_file(Path::new(path), spec.to_toml().as_bytes())?;
            Ok(String::new())
        }
    }
}
