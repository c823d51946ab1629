//! Options of a run, as they come from Python.

use crate::errors;
use destage_sim::options::RunOptions;
use pyo3::prelude::*;

/// The options of a run by name.
pub fn run_options(py: Python<'_>, given: Vec<(String, String)>) -> PyResult<RunOptions> {
    let mut options = RunOptions::default();
    for (name, value) in given {
        options.set(&name, &value).map_err(|why| errors::option(py, &why))?;
    }
    options.check_given().map_err(|why| errors::option(py, &why))?;
    Ok(options)
}
