//! The simulator's errors as the exceptions of `destage.errors`.

use destage_sim::compare::CompareError;
use destage_sim::options::OptionError;
use destage_sim::simulator::SimError;
use pyo3::prelude::*;

/// An exception of `destage.errors`, by name.
pub fn error(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py
        .import("destage.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// A bad option, or bad input that an option names.
pub fn option(py: Python<'_>, why: &OptionError) -> PyErr {
    error(py, if why.is_input { "InputError" } else { "OptionError" }, &why.message)
}

/// A run that failed.
pub fn compare(py: Python<'_>, why: &CompareError) -> PyErr {
    let class = match why {
        CompareError::Option(why) => return option(py, why),
        CompareError::Run { error, .. } => match error {
            SimError::Config(_) | SimError::Track(_) | SimError::ReadCache(_) => "OptionError",
            SimError::Source(_) => "InputError",
            SimError::Refused { .. } => "RefusedError",
            SimError::NoRequests => "NoRequestsError",
        },
    };
    error(py, class, &why.to_string())
}
