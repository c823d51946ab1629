//! Reports as Python sees them: JSON, arrays of their series, and what the renderers make of them.

use crate::errors;
use destage_render::PlotFormat;
use destage_report::Format;
use destage_report::model::{CompareReport, Point, RunReport};
use numpy::PyArray1;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

/// One run.
#[pyclass(frozen, module = "destage._native")]
pub struct Run(pub RunReport);

/// Several runs.
#[pyclass(frozen, module = "destage._native")]
pub struct Compared(pub CompareReport);

fn format(py: Python<'_>, text: &str) -> PyResult<Format> {
    text.parse().map_err(|why: destage_report::UnknownFormat| {
        errors::error(py, "OptionError", &why.to_string())
    })
}

fn from_json<T: serde::de::DeserializeOwned>(py: Python<'_>, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|why| errors::error(py, "InputError", &why.to_string()))
}

fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("reports have no keys but text")
}

fn as_compare(run: &RunReport) -> CompareReport {
    let point = Point { variant: run.label.clone(), runs: vec![run.clone()], ..Point::default() };
    CompareReport { points: vec![point], ..CompareReport::default() }
}

/// A description of a plot, as JSON, drawn as SVG.
#[pyfunction]
pub fn draw(py: Python<'_>, spec: &str) -> PyResult<String> {
    drawn(py, &from_json(py, spec)?)
}

/// The page of advice that is given as JSON.
#[pyfunction]
pub fn advice_html(py: Python<'_>, advice: &str) -> PyResult<String> {
    Ok(destage_render::advice_html(&from_json(py, advice)?))
}

/// For each name of a line or bar its place in the palette and its colour, as every plot has them.
#[pyfunction]
pub fn looks(names: Vec<String>) -> Vec<(usize, String)> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let places = destage_report::look::looks(&names);
    places.into_iter().map(|place| (place, destage_render::color(place))).collect()
}

fn drawn(py: Python<'_>, spec: &destage_report::plot::PlotSpec) -> PyResult<String> {
    let failed = |why: &dyn std::fmt::Display| errors::error(py, "DestageError", &why.to_string());
    let bytes = destage_render::draw(spec, PlotFormat::Svg).map_err(|why| failed(&why))?;
    String::from_utf8(bytes).map_err(|why| failed(&why))
}

fn svg(py: Python<'_>, report: &CompareReport, name: &str) -> PyResult<String> {
    let plots = destage_render::plots(report);
    let Some((_, spec)) = plots.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = plots.iter().map(|(known, _)| *known).collect();
        let message = format!("no plot `{name}`; there are: {}", known.join(", "));
        return Err(errors::error(py, "OptionError", &message));
    };
    drawn(py, spec)
}

#[pymethods]
impl Run {
    /// The report as JSON; the samples of its series only if asked for.
    #[pyo3(signature = (series = true))]
    fn json(&self, series: bool) -> String {
        if series {
            return to_json(&self.0);
        }
        let interval_s = self.0.series.interval_s;
        let series = destage_report::model::Series { interval_s, ..Default::default() };
        to_json(&RunReport { series, ..without_series(&self.0) })
    }

    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Run> {
        from_json(py, text).map(Run)
    }

    /// One of the series as an array of its own.
    fn series<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let series = &self.0.series;
        let values = match name {
            "occupancy" => &series.occupancy,
            "occupancy_max" => &series.occupancy_max,
            "iops" => &series.iops,
            "response_ms" => &series.response_ms,
            "destaged_pages_per_s" => &series.destaged_pages_per_s,
            _ => return Err(PyKeyError::new_err(name.to_string())),
        };
        Ok(PyArray1::from_slice(py, values))
    }

    /// The flat columns as a JSON list of pairs.
    fn row(&self) -> String {
        to_json(&destage_render::run_row(&self.0))
    }

    /// As the command line prints it: table, json or csv.
    fn render(&self, py: Python<'_>, form: &str) -> PyResult<String> {
        Ok(destage_render::render_run(&self.0, format(py, form)?))
    }

    /// The flat columns of the command line's Parquet.
    fn parquet(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        destage_render::parquet_runs(&[&self.0])
            .map_err(|why| errors::error(py, "DestageError", &why.to_string()))
    }

    /// The plots of the HTML report as JSON: pairs of a name and what to draw.
    fn plots(&self) -> String {
        to_json(&destage_render::plots(&as_compare(&self.0)))
    }

    /// One of them as SVG.
    fn svg(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        svg(py, &as_compare(&self.0), name)
    }
}

/// A copy but for the series.
fn without_series(run: &RunReport) -> RunReport {
    RunReport {
        schema: run.schema,
        label: run.label.clone(),
        options: run.options.clone(),
        seed: run.seed,
        warmup_s: run.warmup_s,
        measured_s: run.measured_s,
        target_iops: run.target_iops,
        iops: run.iops,
        response: run.response.clone(),
        histogram: run.histogram.clone(),
        host_wait: run.host_wait,
        hits: run.hits.clone(),
        stalled_writes: run.stalled_writes,
        stalled_share: run.stalled_share,
        time_full: run.time_full,
        occupancy: run.occupancy.clone(),
        balance: run.balance.clone(),
        destage: run.destage.clone(),
        service: run.service.clone(),
        read_cache: run.read_cache.clone(),
        fault: run.fault.clone(),
        disks: run.disks.clone(),
        warnings: run.warnings.clone(),
        digest: run.digest.clone(),
        events: run.events,
        ..RunReport::default()
    }
}

#[pymethods]
impl Compared {
    /// The report as JSON, without its runs.
    fn json(&self) -> String {
        let without_runs = |point: &Point| Point {
            variant: point.variant.clone(),
            value: point.value.clone(),
            iops: point.iops,
            response_ms: point.response_ms,
            runs: Vec::new(),
        };
        let report = CompareReport {
            schema: self.0.schema,
            title: self.0.title.clone(),
            command: self.0.command.clone(),
            options: self.0.options.clone(),
            axis: self.0.axis.clone(),
            points: self.0.points.iter().map(without_runs).collect(),
            at_response: self.0.at_response.clone(),
            findings: self.0.findings.clone(),
        };
        to_json(&report)
    }

    /// All of it as JSON.
    fn full_json(&self) -> String {
        to_json(&self.0)
    }

    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Compared> {
        from_json(py, text).map(Compared)
    }

    /// The runs of each point.
    fn runs(&self) -> Vec<Vec<Run>> {
        let of = |point: &Point| point.runs.iter().cloned().map(Run).collect();
        self.0.points.iter().map(of).collect()
    }

    fn render(&self, py: Python<'_>, form: &str) -> PyResult<String> {
        Ok(destage_render::render_compare(&self.0, format(py, form)?))
    }

    fn parquet(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        destage_render::parquet_compare(&self.0)
            .map_err(|why| errors::error(py, "DestageError", &why.to_string()))
    }

    /// The one-file HTML report.
    fn html(&self) -> String {
        destage_render::html(&self.0)
    }

    fn plots(&self) -> String {
        to_json(&destage_render::plots(&self.0))
    }

    fn svg(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        svg(py, &self.0, name)
    }
}
