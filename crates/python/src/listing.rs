//! The lists of policies, rates, workloads, disks, options, from their tables.

use crate::errors;
use destage_engine::array::geometry::LEVELS;
use destage_engine::policy::POLICIES;
use destage_engine::rate::RATES;
use destage_engine::registry::{Entry, Param};
use destage_sim::options::OPTIONS;
use pyo3::prelude::*;
use serde_json::{Value, json};

fn param(param: &Param) -> Value {
    json!({
        "name": param.name,
        "unit": param.unit,
        "default": param.default,
        "range": param.range,
        "help": param.help,
    })
}

fn entry(entry: &Entry) -> Value {
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "source": entry.source,
        "params": entry.params.iter().map(param).collect::<Vec<_>>(),
    })
}

fn list<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<Value> {
    entries.into_iter().map(entry).collect()
}

/// Every table, as JSON.
#[pyfunction]
pub fn tables() -> String {
    json!({
        "policies": list(POLICIES.iter().map(|row| &row.entry)),
        "rates": list(RATES.iter().map(|row| &row.entry)),
        "read_policies": list(destage_engine::readcache::entries()),
        "levels": list(LEVELS.iter().map(|row| &row.entry)),
        "disks": list(destage_disk::registry().iter().copied()),
        "workloads": list(destage_workload::generator::entries()),
        "formats": list(destage_workload::trace::entries()),
        "options": OPTIONS.iter().map(param).collect::<Vec<_>>(),
    })
    .to_string()
}

/// Size of a disk model in bytes.
#[pyfunction]
pub fn disk(py: Python<'_>, name: &str) -> PyResult<u64> {
    let spec = destage_disk::find(name);
    let spec = spec.map_err(|why| errors::error(py, "OptionError", &why.to_string()))?;
    Ok(destage_disk::Disk::new(&spec).sectors() * u64::from(spec.sector_bytes))
}
