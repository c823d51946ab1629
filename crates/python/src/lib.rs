//! Glue between the Python package `destage` and the simulator: convert, call, map errors.
//!
//! Options cross as text by name, as on the command line, reports as JSON, time series and traces
//! as NumPy arrays. What users see is in `python/destage`.

mod control;
mod destage_policy;
mod errors;
mod listing;
mod options;
mod plan;
mod read_policy;
mod results;
mod run;
mod trace;

use pyo3::prelude::*;

/// The native part of the package; use `destage` itself.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<results::Run>()?;
    module.add_class::<results::Compared>()?;
    module.add_class::<trace::TraceData>()?;
    module.add_class::<destage_policy::PageWrite>()?;
    module.add_class::<destage_policy::PolicyContext>()?;
    module.add_class::<destage_policy::Nvs>()?;
    module.add_function(wrap_pyfunction!(results::draw, module)?)?;
    module.add_function(wrap_pyfunction!(results::looks, module)?)?;
    module.add_function(wrap_pyfunction!(results::advice_html, module)?)?;
    module.add_function(wrap_pyfunction!(run::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(run::compare, module)?)?;
    module.add_function(wrap_pyfunction!(run::replay_policy, module)?)?;
    module.add_function(wrap_pyfunction!(read_policy::read_cache, module)?)?;
    module.add_function(wrap_pyfunction!(plan::sweep_points, module)?)?;
    module.add_function(wrap_pyfunction!(plan::run_point, module)?)?;
    module.add_function(wrap_pyfunction!(plan::sweep, module)?)?;
    module.add_function(wrap_pyfunction!(plan::tournament, module)?)?;
    module.add_function(wrap_pyfunction!(plan::advise, module)?)?;
    module.add_function(wrap_pyfunction!(listing::tables, module)?)?;
    module.add_function(wrap_pyfunction!(listing::disk, module)?)?;
    Ok(())
}
