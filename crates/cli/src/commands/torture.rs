//! `destage torture`: the served array under crashes and failing devices.

use super::{format, text, threads};
use crate::failure::Failure;
use crate::progress;
use clap::ArgMatches;
use destage_engine::array::geometry::Level;
use destage_report::{Cell, Table};
use destage_served::Ack;
use destage_sim::parallel::in_parallel;
use destage_torture::case::Wanted;
use destage_torture::run::Counts;
use destage_torture::{Outcome, torture};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Power failures of a case.
const CRASHES: u64 = 8;
/// Cases that are handed to the threads at once.
const CASES: u64 = 256;

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let wanted = wanted(matches)?;
    let seed = first_seed(text(matches, "seed").expect("default"))?;
    let hours = matches.get_one::<f64>("hours");
    let end = hours.map(|hours| span(*hours).map(|span| Instant::now() + span)).transpose()?;
    let crashes = matches.get_one::<u64>("crashes").copied().unwrap_or(1000);
    let cases = if end.is_some() { u64::MAX - seed } else { crashes.div_ceil(CRASHES) };
    let bar = progress::bar("cases");
    if end.is_none() {
        bar.set_length(cases);
    }
    let mut counts = Counts::default();
    let mut done = 0;
    while done < cases && end.is_none_or(|end| Instant::now() < end) {
        let batch = CASES.min(cases - done);
        let seeds: Vec<u64> = (seed + done..seed + done + batch).collect();
        let progress = |_| bar.inc(1);
        let work = |seed: &u64| torture(*seed, CRASHES, &wanted);
        let failed = |outcome: &Outcome| outcome.failure.is_some();
        let outcomes = in_parallel(&seeds, threads(matches), &work, failed, &progress);
        for outcome in &outcomes {
            counts.add(&outcome.counts);
        }
        if let Some(failed) = outcomes.iter().find(|outcome| outcome.failure.is_some()) {
            bar.finish_and_clear();
            return Err(failure(failed, matches));
        }
        done += batch;
    }
    bar.finish_and_clear();
    Ok(table(seed, done, &counts).render(format(matches)))
}

fn wanted(matches: &ArgMatches) -> Result<Wanted, Failure> {
    let level = text(matches, "level");
    let policy = text(matches, "policy").map(destage_engine::policy::choose);
    Ok(Wanted {
        level: level.and_then(Level::named),
        policy: policy.transpose().map_err(Failure::usage)?,
        ack: text(matches, "ack").map(|ack| if ack == "nvs" { Ack::Nvs } else { Ack::Flush }),
        nvs: text(matches, "nvs").and_then(|devices| devices.parse().ok()),
        scrubs: true,
        rebuilds: true,
        mishaps: true,
        relogs: true,
        pressed: true,
        ..Wanted::default()
    })
}

fn first_seed(text: &str) -> Result<u64, Failure> {
    if text == "clock" {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(Failure::failed)?;
        let seed = now.as_micros() as u64;
        // Nothing else says it if this is killed.
        eprintln!("destage: the first seed is {seed}");
        return Ok(seed);
    }
    text.parse().map_err(|_| Failure::usage(format!("--seed {text}: expected a number or `clock`")))
}

fn span(hours: f64) -> Result<Duration, Failure> {
    let bad = || Failure::usage(format!("--hours {hours}: expected a time above 0"));
    if hours > 0.0 {
        Duration::try_from_secs_f64(hours * 3600.0).map_err(|_| bad())
    } else {
        Err(bad())
    }
}

/// What failed, and the line that runs it again.
fn failure(outcome: &Outcome, matches: &ArgMatches) -> Failure {
    let mut line = format!("destage torture --seed {} --crashes 1", outcome.seed);
    for name in ["level", "policy", "ack", "nvs"] {
        if let Some(value) = text(matches, name) {
            line += &format!(" --{name} {value}");
        }
    }
    let why = outcome.failure.as_deref().unwrap_or_default();
    Failure::failed(format!("{why} (seed {}: {}); again: {line}", outcome.seed, outcome.case))
}

fn table(seed: u64, cases: u64, counts: &Counts) -> Table {
    let mut table = Table::new(&[("counted", ""), ("number", "")]);
    for (name, number) in [
        ("first seed", seed),
        ("cases", cases),
        ("crashes", counts.crashes),
        ("of these, kills with the power on", counts.kills),
        ("recoveries", counts.recoveries),
        ("requests checked", counts.requests),
        ("requests withdrawn", counts.withdrawn),
        ("pages destaged", counts.destaged),
        ("drains while rows were polled", counts.polled),
        ("destages begun in idle time", counts.idle_destages),
        ("destages redone", counts.redone),
        ("records moved in the log", counts.moved),
        ("members failed", counts.members_failed),
        ("NVS devices failed", counts.nvs_failed),
        ("read errors repaired", counts.repairs),
        ("bits rotten in a mirrored log", counts.rotten),
        ("scrubs", counts.scrubs),
        ("rows scrubbed", counts.rows_scrubbed),
        ("NVS mirrors filled", counts.mirrors),
        ("NVS mirrors checked alone", counts.mirrors_checked),
        ("NVS logs replaced", counts.relogs),
        ("members replaced", counts.replaced),
        ("spares failed", counts.spares_failed),
        ("rebuilds resumed", counts.resumed),
        ("members rebuilt", counts.rebuilt),
        ("pages read from read caches", counts.cached),
        ("devices away, restored, cut, full or unreadable", counts.mishaps),
        ("NVS writes lost or misdirected, and rot", counts.deceits),
        ("starts refused for that", counts.refused),
        ("starts ended at once, in loops", counts.restarts),
        ("losses accepted", counts.losses_accepted),
        ("lives with something slow", counts.slow),
        ("creations interrupted", counts.cut_creations),
        ("starts with other settings", counts.other_settings),
        ("destages that waited for unreadable rows", counts.kept),
        ("clean stops", counts.stops),
        ("checks failed", 0),
    ] {
        table.push(vec![Cell::text(name), Cell::int(number)]);
    }
    table
}
