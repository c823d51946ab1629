//! Traces in memory: records of 32 bytes, as in the `.dtrc` format, that NumPy sees as a
//! structured array.

use crate::errors;
use crate::options::run_options;
use destage_sim::sweep::sha256_hex;
use destage_workload::trace::info::TraceInfo;
use destage_workload::trace::replay::TraceInput;
use destage_workload::trace::{Columns, ReadOptions, Reader, TimeOrder, TraceError, native};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// The contents of a `.dtrc` file.
#[pyclass(frozen, module = "destage._native")]
pub struct TraceData {
    name: String,
    bytes: Arc<[u8]>,
}

impl TraceData {
    /// As the input of a replay.
    pub fn input(&self) -> TraceInput {
        TraceInput::Bytes(self.name.clone(), Arc::clone(&self.bytes))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn input_error(py: Python<'_>, why: &TraceError) -> PyErr {
    errors::error(py, "InputError", &why.to_string())
}

#[pymethods]
impl TraceData {
    /// Takes the records of an array of bytes.
    #[staticmethod]
    fn from_records(
        py: Python<'_>,
        records: PyReadonlyArray1<'_, u8>,
        name: &str,
    ) -> PyResult<TraceData> {
        let failed =
            |why: &dyn std::fmt::Display| errors::error(py, "InputError", &why.to_string());
        let framed = native::frame(records.as_slice().map_err(|why| failed(&why))?);
        let bytes = framed.ok_or_else(|| failed(&"a trace has records of 32 bytes"))?;
        Ok(TraceData { name: name.to_string(), bytes: bytes.into() })
    }

    /// The trace as the bytes of a `.dtrc` file.
    fn file_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        PyArray1::from_slice(py, &self.bytes)
    }

    /// SHA-256 of those bytes, in hex.
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| sha256_hex(&self.bytes))
    }

    /// Counts of the trace as JSON.
    fn info(&self, py: Python<'_>) -> PyResult<String> {
        let options = ReadOptions::default();
        let info = py.detach(|| TraceInfo::of(self.input().reader(&options)?));
        let info = info.map_err(|why| input_error(py, &why))?;
        Ok(serde_json::json!({
            "requests": info.requests,
            "write_share": info.write_share(),
            "overwrite_share": info.overwrite_share(),
            "sequential_share": info.sequential_share(),
        })
        .to_string())
    }

    /// The part of it that options of a run select, such as `trace-from`; its records as bytes.
    fn select<'py>(
        &self,
        py: Python<'py>,
        options: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let options = run_options(py, options)?;
        let options = options.read_options().map_err(|why| errors::option(py, &why))?;
        let bytes = py.detach(|| records(self.input().reader(&options)?));
        Ok(PyArray1::from_vec(py, bytes.map_err(|why| input_error(py, &why))?))
    }

    /// Reads a trace of any format; its records as bytes.
    #[staticmethod]
    #[pyo3(signature = (path, format = None, order = "auto", skip_bad = false, columns = None))]
    fn read<'py>(
        py: Python<'py>,
        path: PathBuf,
        format: Option<String>,
        order: &str,
        skip_bad: bool,
        columns: Option<&str>,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let order = match order {
            "auto" => TimeOrder::default(),
            name => TimeOrder::from_name(name).ok_or_else(|| {
                errors::error(py, "OptionError", "order takes auto, check, lift, skip or sort")
            })?,
        };
        let columns = columns
            .map(Columns::parse)
            .transpose()
            .map_err(|why| errors::error(py, "OptionError", &format!("columns: {why}")))?;
        let options = ReadOptions { format, columns, skip_bad, order, ..ReadOptions::default() };
        let bytes = py.detach(|| records(Reader::open(&path, &options)?));
        Ok(PyArray1::from_vec(py, bytes.map_err(|why| input_error(py, &why))?))
    }
}

/// What is read, as the records of a `.dtrc` file.
fn records(reader: Reader) -> Result<Vec<u8>, TraceError> {
    let mut bytes = Vec::new();
    for record in reader {
        native::append(&record?, &mut bytes);
    }
    Ok(bytes)
}
