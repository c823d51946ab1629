//! `destage readcache-trace`: the reads of a trace through read caches.

use super::{format, text};
use crate::failure::Failure;
use crate::output::Outputs;
use crate::paths::Paths;
use crate::progress;
use crate::run_args::trace_options;
use clap::ArgMatches;
use clap::parser::ValueSource;
use destage_engine::array::geometry::Level;
use destage_engine::readcache::{ReadChoice, ReadPolicyError, Vdf, choose};
use destage_engine::registry::{ChoiceError, nearest_first};
use destage_engine::request::PageRange;
use destage_report::{Cell, Format, Table};
use destage_sim::axis::parse_sweep;
use destage_sim::readcache::working_set;
use destage_sim::readcache::{
    Failed, FailedSet, Offline, Row, Single, Study, reads_of, replay_one,
};
use std::fmt::Write;
use std::path::Path;

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let (mut study, sizes) = study(matches)?;
    study.check()?;
    if matches.get_flag("events") && study.single().is_none() {
        return Err(Failure::usage("--events takes one policy, array, size and failed disk"));
    }
    let mut paths = Paths::reading(text(matches, "file"));
    let outputs = Outputs::for_table(matches.get_many("out").unwrap_or_default(), &mut paths)?;
    let read = trace_options(matches)?;
    let path = Path::new(text(matches, "file").expect("required"));
    let reads = reads_of(path, &read, None)?;
    if sizes.iter().any(|size| matches!(size, Size::Share(_))) {
        let all = working_set(&reads);
        study.blocks = sizes.iter().map(|size| size.blocks(all)).collect();
        study.check()?;
    }
    if let Some(single) = study.single() {
        return one(&single, &reads, matches, &outputs);
    }
    study.add_plain_forms()?;
    let threads = match matches.get_one::<u64>("threads") {
        Some(threads) => *threads as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let bar = progress::bar("replays");
    let rows = study.run(&reads, threads, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    let table = table(rows.iter().map(|row| (row, None)));
    outputs.write_table(|format| table.render(format))?;
    Ok(table.render(format(matches)))
}

/// One policy in one case: its figures and its hash.
fn one(
    single: &Single<'_>,
    reads: &[PageRange],
    matches: &ArgMatches,
    outputs: &Outputs,
) -> Result<String, Failure> {
    let mut events = String::new();
    let wanted = matches.get_flag("events");
    let (row, hash) = replay_one(single, reads, &mut |block, access| {
        if !wanted {
            return;
        }
        let _ = match access.evicted {
            Some(evicted) => writeln!(events, "{} {block} {evicted}", u8::from(access.hit)),
            None => writeln!(events, "{} {block} -", u8::from(access.hit)),
        };
    });
    let render = |format: Format| match format {
        Format::Table => figures(&row, hash),
        format => table([(&row, Some(hash))].into_iter()).render(format),
    };
    outputs.write_table(render)?;
    Ok(events + &render(format(matches)))
}

fn figures(row: &Row, hash: u64) -> String {
    let warm = row.rgr_warm.map_or("-".to_string(), |rgr| format!("{rgr:.6}"));
    format!(
        "policy {}\nblock requests {}\nRGR all {:.6}\nRGR warm {warm}\nhit ratio {:.6}\n\
         H {hash:016x}\n",
        row.policy, row.requests, row.rgr, row.hit_ratio
    )
}

fn table<'a>(rows: impl Iterator<Item = (&'a Row, Option<u64>)>) -> Table {
    let mut table = Table::new(&[
        ("policy", ""),
        ("disks", ""),
        ("blocks", ""),
        ("failed", ""),
        ("requests", ""),
        ("hit ratio", ""),
        ("RGR", ""),
        ("RGR warm", ""),
        ("reduction", "%"),
        ("reduction warm", "%"),
        ("ceiling", "%"),
        ("hash", ""),
    ]);
    for (row, hash) in rows {
        let percent = |share: Option<f64>| Cell::maybe(share.map(|s| s * 100.0), 2);
        table.push(vec![
            Cell::text(row.policy.as_str()),
            Cell::int(row.disks),
            Cell::int(row.blocks),
            Cell::text(row.failed.as_ref().map_or("mean".to_string(), |set| name_of(set))),
            Cell::int(row.requests),
            Cell::num(row.hit_ratio, 6),
            Cell::num(row.rgr, 6),
            Cell::maybe(row.rgr_warm, 6),
            percent(row.reduction),
            percent(row.reduction_warm),
            Cell::num(row.ceiling * 100.0, 2),
            hash.map_or_else(Cell::empty, |hash| Cell::text(format!("{hash:016x}"))),
        ]);
    }
    table
}

fn name_of(failed: &[u64]) -> String {
    match failed {
        [] => "none".to_string(),
        set => set.iter().map(u64::to_string).collect::<Vec<_>>().join("+"),
    }
}

/// A cache size.
#[derive(Clone, Copy)]
enum Size {
    Blocks(u64),
    /// Thousandths of a per cent of the blocks that the trace's reads ask for.
    Share(u64),
}

impl Size {
    fn parse(value: &str) -> Result<Size, Failure> {
        let Some(percent) = value.strip_suffix('%') else {
            return number("blocks", value).map(Size::Blocks).map_err(|_| Size::bad(value));
        };
        let percent: f64 = percent.parse().map_err(|_| Size::bad(value))?;
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(Size::bad(value));
        }
        Ok(Size::Share((percent * 1000.0).round() as u64))
    }

    fn bad(value: &str) -> Failure {
        Failure::usage(format!(
            "--blocks takes whole numbers, or shares of the working set above 0% and up to 100%, \
             e.g. 10%, not `{value}`"
        ))
    }

    /// In blocks, of a working set of `all`; a share is rounded down, and at least one block.
    fn blocks(self, all: u64) -> u64 {
        match self {
            Size::Blocks(blocks) => blocks,
            Size::Share(share) => ((u128::from(all) * u128::from(share) / 100_000) as u64).max(1),
        }
    }
}

/// The study and its cache sizes; shares are filled in when the trace has been read.
fn study(matches: &ArgMatches) -> Result<(Study, Vec<Size>), Failure> {
    let level = text(matches, "level").expect("default");
    let level = Level::named(level).expect("clap has checked it");
    let given = |name: &str, default: &str| text(matches, name).unwrap_or(default).to_string();
    let mut lists = [("disks", ""), ("blocks", "4096"), ("failed", "")].map(|(name, default)| {
        let values = given(name, default);
        (name, values.split(',').map(|v| v.trim().to_string()).collect::<Vec<String>>())
    });
    let mut swept: Vec<String> = Vec::new();
    for sweep in matches.get_many::<String>("sweep").unwrap_or_default() {
        let (name, values) = parse_sweep(sweep)?;
        let Some(list) = lists.iter_mut().find(|(known, _)| *known == name) else {
            return Err(Failure::usage(format!(
                "--sweep takes disks, blocks or failed, not `{name}`"
            )));
        };
        if matches.value_source(&name) == Some(ValueSource::CommandLine) || swept.contains(&name) {
            return Err(Failure::usage(format!("`{name}` is given twice: list its values once")));
        }
        swept.push(name);
        list.1 = values;
    }
    let [(_, disks), (_, blocks), (_, failed)] = lists;
    let sizes = blocks.iter().map(|v| Size::parse(v)).collect::<Result<Vec<Size>, Failure>>()?;
    let (policies, offline) = policies(matches)?;
    let study = Study {
        policies,
        offline,
        level,
        disks: numbers("disks", &disks)?,
        blocks: sizes.iter().map(|size| size.blocks(1)).collect(),
        failed: failed_of(&failed)?,
    };
    Ok((study, sizes))
}

/// The policies, and what knows the future among them.
fn policies(matches: &ArgMatches) -> Result<(Vec<ReadChoice>, Vec<Offline>), Failure> {
    let (mut policies, mut offline) = (Vec::new(), Vec::new());
    for name in text(matches, "policy").expect("required").split(',').map(str::trim) {
        if let Some(named) = Offline::named(name) {
            offline.push(named);
            continue;
        }
        let mut choice = choose(name).map_err(|error| Failure::usage(with_offline(error)))?;
        if let Some(text) = text(matches, "vdf") {
            let vdf = Vdf::parse(text);
            let bad = || Failure::usage(format!("--vdf takes {}, not `{text}`", Vdf::RANGE));
            choice = choice.with_vdf(vdf.ok_or_else(bad)?).map_err(Failure::usage)?;
        }
        policies.push(choice);
    }
    Ok((policies, offline))
}

/// Adds what knows the future to the names that an error lists.
fn with_offline(error: ReadPolicyError) -> ReadPolicyError {
    let ReadPolicyError::Choice(ChoiceError::Unknown { kind, name, known }) = error else {
        return error;
    };
    let offline = [Offline::Optimum, Offline::AwareOptimum, Offline::Bound].map(Offline::name);
    let known = nearest_first(&name, known.into_iter().chain(offline));
    ReadPolicyError::Choice(ChoiceError::Unknown { kind, name, known })
}

fn number(option: &str, value: &str) -> Result<u64, Failure> {
    let bad = |_| Failure::usage(format!("--{option} takes whole numbers, not `{value}`"));
    value.parse().map_err(bad)
}

fn numbers(option: &str, values: &[String]) -> Result<Vec<u64>, Failure> {
    values.iter().map(|value| number(option, value)).collect()
}

fn failed_of(values: &[String]) -> Result<Failed, Failure> {
    if values == ["all"] {
        return Ok(Failed::All);
    }
    let set = |value: &String| match value.as_str() {
        "none" => Ok(FailedSet::new()),
        value => value.split('+').map(|disk| number("failed", disk)).collect(),
    };
    Ok(Failed::Cases(values.iter().map(set).collect::<Result<Vec<FailedSet>, Failure>>()?))
}
