//! `destage writecache-trace`: the writes of a trace through write caches.

use super::{format, text, threads};
use crate::failure::Failure;
use crate::output::Outputs;
use crate::paths::Paths;
use crate::run_args::trace_options;
use clap::ArgMatches;
use destage_engine::nvs::directory::MAX_PAGES_PER_GROUP;
use destage_engine::registry::{ChoiceError, nearest_first};
use destage_report::{Cell, Table};
use destage_sim::write_study::{BOUND, NvsSize, WriteRow, WriteStudy};
use std::path::Path;

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let study = study(matches)?;
    let mut paths = Paths::reading(text(matches, "file"));
    let outputs = Outputs::for_table(matches.get_many("out").unwrap_or_default(), &mut paths)?;
    let read = trace_options(matches)?;
    let path = Path::new(text(matches, "file").expect("required"));
    let rows = study.run(path, &read, None, threads(matches))?;
    let table = table(&rows);
    outputs.write_table(|format| table.render(format))?;
    Ok(table.render(format(matches)))
}

fn study(matches: &ArgMatches) -> Result<WriteStudy, Failure> {
    let list = |name| text(matches, name).expect("default").split(',').map(str::trim);
    let policies = list("policy").filter(|name| *name != BOUND);
    let number = |name: &str, most: u64| {
        let value = *matches.get_one::<u64>(name).expect("default");
        match (1..=most).contains(&value) {
            true => Ok(value),
            false => Err(Failure::usage(format!("--{name} takes 1 to {most}, not {value}"))),
        }
    };
    Ok(WriteStudy {
        policies: policies
            .map(|name| {
                let error = |error| Failure::usage(with_bound(error));
                destage_engine::policy::choose(name).map_err(error)
            })
            .collect::<Result<_, Failure>>()?,
        bound: list("policy").any(|name| name == BOUND),
        nvs: list("nvs").map(NvsSize::parse).collect::<Result<_, _>>()?,
        group_pages: number("group-pages", MAX_PAGES_PER_GROUP)?,
        disks: number("disks", 1 << 20)?,
    })
}

/// Adds the bound to the names that an error lists.
fn with_bound(error: ChoiceError) -> ChoiceError {
    match error {
        ChoiceError::Unknown { kind, name, known } => {
            let known = nearest_first(&name, known.into_iter().chain([BOUND]));
            ChoiceError::Unknown { kind, name, known }
        }
        other => other,
    }
}

fn table(rows: &[WriteRow]) -> Table {
    let mut table = Table::new(&[
        ("policy", ""),
        ("NVS", "pages"),
        ("written", "pages"),
        ("destages", ""),
        ("per destage", "pages"),
        ("destaged", "pages"),
        ("destages over bound", "%"),
        ("pages over bound", "%"),
    ]);
    for row in rows {
        let per_destage = row.destaged as f64 / row.destages as f64;
        let of_policy = row.policy != BOUND;
        let percent = |share: Option<f64>| Cell::maybe(share.map(|share| share * 100.0), 2);
        table.push(vec![
            Cell::text(row.policy.as_str()),
            Cell::int(row.nvs_pages),
            Cell::int(row.written),
            Cell::int(row.destages),
            Cell::maybe(of_policy.then_some(per_destage), 2),
            Cell::int(row.destaged),
            percent(row.over_bound.map(|over| over.0)),
            percent(row.over_bound.map(|over| over.1)),
        ]);
    }
    table
}
