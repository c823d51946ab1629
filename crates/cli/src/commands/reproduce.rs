//! `destage reproduce`: the papers' figures and tables, run again.

use super::{format, text, threads};
use crate::again::command_line;
use crate::failure::Failure;
use crate::output::plots_format;
use crate::paths::check_folder;
use crate::progress;
use clap::ArgMatches;
use destage_render::PlotFormat;
use destage_report::model::SCHEMA;
use destage_report::{Cell, Format, Reproduction, Table};
use destage_sim::reproduce::{ITEMS, Item, find, trace_folder};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two lines of progress, if there is no progress bar.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let items = items(matches)?;
    if matches.get_flag("list") {
        return Ok(list(&items).render(format(matches)));
    }
    let out = text(matches, "out").map(Path::new);
    if let Some(folder) = out {
        check_folder(folder, &["index.html".into()])?;
    }
    let plots = plots_format(matches);
    let keep = |report: &Reproduction| out.map_or(Ok(()), |folder| write(folder, report, plots));
    let report = reproduce(matches, &items, &keep)?;
    Ok(destage_report::render_reproduction(&report, format(matches)))
}

/// The items asked for, each once, in the order of the table.
fn items(matches: &ArgMatches) -> Result<Vec<&'static Item>, Failure> {
    let named: Vec<&String> = matches.get_many("item").unwrap_or_default().collect();
    let all = matches.get_flag("all") || (matches.get_flag("list") && named.is_empty());
    if !all && named.is_empty() {
        return Err(Failure::usage(
            "name what to reproduce, e.g. stow:fig8 or wow, or use --all; --list shows all items",
        ));
    }
    let mut wanted = Vec::new();
    for name in named {
        wanted.extend(find(name)?.into_iter().map(Item::id));
    }
    Ok(ITEMS.iter().filter(|item| all || wanted.contains(&item.id())).collect())
}

fn list(items: &[&Item]) -> Table {
    let mut table = Table::new(&[("item", ""), ("title", ""), ("runs", ""), ("quick runs", "")]);
    for item in items {
        let runs = |quick| Cell::int(item.runs(quick).unwrap_or_default() as u64);
        let title = Cell::text(item.file().title);
        table.push(vec![Cell::text(item.id()), title, runs(false), runs(true)]);
    }
    table
}

/// Runs the items; `keep` gets the report after each.
fn reproduce(
    matches: &ArgMatches,
    items: &[&Item],
    keep: &dyn Fn(&Reproduction) -> Result<(), Failure>,
) -> Result<Reproduction, Failure> {
    let quick = matches.get_flag("quick");
    let threads = threads(matches);
    let traces = text(matches, "traces").map_or_else(trace_folder, PathBuf::from);
    let runs: Result<Vec<usize>, _> = items.iter().map(|item| item.runs(quick)).collect();
    let runs = runs?;
    let bar = progress::bar("runs");
    bar.set_length(runs.iter().sum::<usize>() as u64);
    let named = matches.get_many("item").unwrap_or_default().map(String::as_str);
    let command = ["reproduce"].into_iter().chain(named).collect::<Vec<_>>().join(" ");
    let command = command_line(&command, matches, ["all", "quick"]);
    let mut report = Reproduction { schema: SCHEMA, command, quick, items: Vec::new() };
    let mut before = 0;
    for (item, runs) in items.iter().zip(runs) {
        let started = Instant::now();
        let said = Mutex::new(started);
        let done = |done: usize| {
            bar.set_position((before + done) as u64);
            let mut said = said.lock().expect("no thread panicked");
            if bar.is_hidden() && said.elapsed() >= BETWEEN_LINES {
                *said = Instant::now();
                eprintln!("{}: {done} of {runs} runs, {:.0?}", item.id(), started.elapsed());
            }
        };
        report.items.push(item.run(quick, threads, &traces, &done)?);
        keep(&report)?;
        before += runs;
        if bar.is_hidden() && items.len() > 1 {
            let made = report.items.last().map_or(0, |item| item.runs);
            eprintln!("{}: {made} runs done in {:.0?}", item.id(), started.elapsed());
        }
    }
    bar.finish_and_clear();
    Ok(report)
}

fn write(folder: &Path, report: &Reproduction, plots: PlotFormat) -> Result<(), Failure> {
    for item in &report.items {
        for figure in &item.figures {
            let bytes = destage_render::draw(&figure.plot, plots).map_err(Failure::failed)?;
            let item = item.id.replace(':', "-");
            let name = format!("{item}-{}.{}", figure.name, plots.extension());
            destage_report::write_file(&folder.join(name), &bytes)?;
        }
    }
    for (name, format) in
        [("index.json", Format::Json), ("index.csv", Format::Csv), ("index.txt", Format::Table)]
    {
        let bytes = destage_report::render_reproduction(report, format);
        destage_report::write_file(&folder.join(name), bytes.as_bytes())?;
    }
    let page = destage_render::reproduction_html(report);
    destage_report::write_file(&folder.join("index.html"), page.as_bytes())?;
    Ok(())
}
