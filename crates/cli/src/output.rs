//! Results into files, by extension. Paths are checked before the work begins; a file is written
//! completely or not at all.

use crate::commands::text;
use crate::failure::Failure;
use crate::paths::Paths;
use clap::ArgMatches;
use destage_render::PlotFormat;
use destage_report::Format;
use destage_report::model::{CompareReport, RunReport};
use destage_report::trace::TraceAnalyses;
use std::path::{Path, PathBuf};

/// The output paths of a command, each known to be writable when the work began.
pub struct Outputs {
    paths: Vec<PathBuf>,
}

/// Extensions understood for a run, and for a comparison.
const RUN: &[&str] = &["html", "json", "csv", "txt", "parquet"];
/// Extensions understood for a table.
const TABLE: &[&str] = &["json", "csv", "txt"];
/// Extensions understood for an analysis of traces.
const ANALYSIS: &[&str] = &["html", "json", "csv", "txt"];

impl Outputs {
    /// Checks the extensions of `--out` paths, and that each can be written and may be.
    pub fn for_runs<'a>(
        names: impl Iterator<Item = &'a String>,
        paths: &mut Paths,
    ) -> Result<Outputs, Failure> {
        Outputs::checked(names, RUN, paths)
    }

    /// The same for a table.
    pub fn for_table<'a>(
        names: impl Iterator<Item = &'a String>,
        paths: &mut Paths,
    ) -> Result<Outputs, Failure> {
        Outputs::checked(names, TABLE, paths)
    }

    /// The same for an analysis of traces.
    pub fn for_analysis<'a>(
        names: impl Iterator<Item = &'a String>,
        paths: &mut Paths,
    ) -> Result<Outputs, Failure> {
        Outputs::checked(names, ANALYSIS, paths)
    }

    fn checked<'a>(
        names: impl Iterator<Item = &'a String>,
        known: &[&str],
        all: &mut Paths,
    ) -> Result<Outputs, Failure> {
        let paths: Vec<PathBuf> = names.map(PathBuf::from).collect();
        for path in &paths {
            if !known.contains(&extension(path)) {
                return Err(Failure::usage(format!(
                    "--out {}: unknown extension; use one of: {}",
                    path.display(),
                    known.join(", ")
                )));
            }
            all.report(path)?;
        }
        Ok(Outputs { paths })
    }

    /// Writes a comparison to every path.
    pub fn write_compare(&self, report: &CompareReport) -> Result<(), Failure> {
        for path in &self.paths {
            let bytes = match extension(path) {
                "html" => destage_render::html(report).into_bytes(),
                "json" => destage_render::render_compare(report, Format::Json).into_bytes(),
                "csv" => destage_render::render_compare(report, Format::Csv).into_bytes(),
                "parquet" => destage_render::parquet_compare(report).map_err(Failure::failed)?,
                _ => destage_render::render_compare(report, Format::Table).into_bytes(),
            };
            destage_report::write_file(path, &bytes)?;
        }
        Ok(())
    }

    /// Writes an analysis of traces to every path.
    pub fn write_analysis(&self, analyses: &TraceAnalyses) -> Result<(), Failure> {
        for path in &self.paths {
            let text = match extension(path) {
                "html" => destage_render::trace_html(analyses),
                "json" => destage_render::render_trace(analyses, Format::Json),
                "csv" => destage_render::render_trace(analyses, Format::Csv),
                _ => destage_render::render_trace(analyses, Format::Table),
            };
            destage_report::write_file(path, text.as_bytes())?;
        }
        Ok(())
    }

    /// Writes a table to every path.
    pub fn write_table(&self, render: impl Fn(Format) -> String) -> Result<(), Failure> {
        for path in &self.paths {
            let format = match extension(path) {
                "json" => Format::Json,
                "csv" => Format::Csv,
                _ => Format::Table,
            };
            destage_report::write_file(path, render(format).as_bytes())?;
        }
        Ok(())
    }

    /// Writes a run to every path; `page` is the comparison that its page shows.
    pub fn write_run(&self, run: &RunReport, page: &CompareReport) -> Result<(), Failure> {
        for path in &self.paths {
            let bytes = match extension(path) {
                "html" => destage_render::html(page).into_bytes(),
                "json" => destage_render::render_run(run, Format::Json).into_bytes(),
                "csv" => destage_render::render_run(run, Format::Csv).into_bytes(),
                "parquet" => destage_render::parquet_runs(&[run]).map_err(Failure::failed)?,
                _ => destage_render::render_run(run, Format::Table).into_bytes(),
            };
            destage_report::write_file(path, &bytes)?;
        }
        Ok(())
    }
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or("")
}

/// The plot format of a path's extension.
pub fn plot_format(path: &Path) -> Result<PlotFormat, Failure> {
    PlotFormat::of_path(path).map_err(Failure::usage)
}

/// That of `--plot-format`.
pub fn plots_format(matches: &ArgMatches) -> PlotFormat {
    let png = text(matches, "plot-format") == Some(PlotFormat::Png.extension());
    if png { PlotFormat::Png } else { PlotFormat::Svg }
}
