//! `destage bench`: load an NBD server.

use super::emulate::bytes;
use super::{format, text};
use crate::failure::Failure;
use clap::ArgMatches;
use destage_nbd::client::Uri;
use destage_report::{Cell, Table};
use destage_server::bench::{self, BenchError, Load, Measured, Pattern};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs the load, or checks a log.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let uri = text(matches, "uri").expect("required");
    let uri: Uri = uri.parse().map_err(Failure::usage)?;
    if let Some(path) = text(matches, "check") {
        return check(matches, &uri, Path::new(path));
    }
    let load = load(matches)?;
    let bar = crate::progress::spinner("connecting");
    let last = std::cell::Cell::new((Duration::ZERO, 0u64));
    let progress = |time: Duration, answered: u64| {
        let (before, seen) = last.replace((time, answered));
        let rate = (answered - seen) as f64 / (time - before).as_secs_f64();
        bar.set_message(format!("{rate:.0} requests/s"));
    };
    let measured = bench::run(&uri, &load, &progress);
    bar.finish_and_clear();
    let measured = measured.map_err(|error| match error {
        BenchError::Unfit(_) => Failure::usage(error),
        error => Failure::failed(format!("{uri}: {error}")),
    })?;
    let mut table = rows(&load, &measured).render(format(matches));
    if load.verify && text(matches, "format") == Some("table") {
        table.push_str(&format!(
            "verified: {} blocks hold what was acknowledged\n",
            measured.verified
        ));
    }
    Ok(table)
}

fn load(matches: &ArgMatches) -> Result<Load, Failure> {
    let number = |name| *matches.get_one::<u64>(name).expect("default");
    let within = |name, most: u64| match number(name) {
        value if (1..=most).contains(&value) => Ok(value as usize),
        value => Err(Failure::usage(format!("--{name} takes 1 to {most}, not {value}"))),
    };
    let (random, write_percent) = match text(matches, "rw").expect("default") {
        "randread" => (true, 0),
        "randrw" => (true, 50),
        "write" => (false, 100),
        "read" => (false, 0),
        _ => (true, 100),
    };
    let block = bytes(text(matches, "bs").expect("default"))?;
    if block == 0 || block > 64 << 20 {
        return Err(Failure::usage("--bs takes 1 to 64M"));
    }
    let rate = matches.get_one::<f64>("rate").copied();
    if rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
        return Err(Failure::usage("--rate is above 0"));
    }
    Ok(Load {
        pattern: Pattern { random, write_percent },
        block,
        depth: within("depth", 65_536)?,
        connections: within("connections", 1024)?,
        time: seconds(text(matches, "time").expect("default"))?,
        size: text(matches, "size").map(bytes).transpose()?,
        flush_every: number("fsync-every"),
        fua: matches.get_flag("fua"),
        rate,
        verify: matches.get_flag("verify"),
        log: text(matches, "log").map(PathBuf::from),
        seed: number("seed"),
        server_pid: matches.get_one::<u32>("server-pid").copied(),
    })
}

/// A time as `500ms`, `10s`, `2m`; plain numbers are seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => Some(0.001),
        "" | "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    };
    let number = digits.parse::<f64>().ok().filter(|number| (0.0..=1e7).contains(number));
    let time = number.zip(unit).map(|(number, unit)| number * unit).filter(|time| *time > 0.0);
    time.map(Duration::from_secs_f64)
        .ok_or_else(|| Failure::usage(format!("--time {text}: a time, as 500ms, 10s or 2m")))
}

fn rows(load: &Load, measured: &Measured) -> Table {
    let mut table = Table::new(&[
        ("kind", ""),
        ("requests", ""),
        ("errors", ""),
        ("rate", "/s"),
        ("moved", "MB/s"),
        ("mean", "us"),
        ("p50", "us"),
        ("p99", "us"),
        ("p99.9", "us"),
        ("max", "us"),
        ("server CPU", "us/request"),
    ]);
    let time = measured.time.as_secs_f64();
    let cpu = measured.server_cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / measured.requests() as f64);
    for (name, tally) in ["read", "write", "flush"].iter().zip(&measured.tallies) {
        let times = &tally.latency_ns;
        if times.is_empty() {
            continue;
        }
        let rate = times.len() as f64 / time;
        let moved = if *name == "flush" { 0.0 } else { rate * load.block as f64 / 1e6 };
        let quantile = |share| Cell::num(times.value_at_quantile(share) as f64 / 1e3, 1);
        table.push(vec![
            Cell::text(*name),
            Cell::int(times.len()),
            Cell::int(tally.errors),
            Cell::num(rate, 0),
            Cell::num(moved, 1),
            Cell::num(times.mean() / 1e3, 1),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            Cell::num(times.max() as f64 / 1e3, 1),
            Cell::maybe(cpu, 2),
        ]);
    }
    table
}

fn check(matches: &ArgMatches, uri: &Uri, path: &Path) -> Result<String, Failure> {
    let found = bench::check(uri, path).map_err(|error| match error {
        BenchError::Client(error) => Failure::failed(format!("{uri}: {error}")),
        error => Failure::failed(error),
    })?;
    if let Some((sector, generation, there)) = found.first {
        let there =
            there.map_or("nothing of this run".to_string(), |there| format!("write {there}"));
        return Err(Failure::failed(format!(
            "{} of {} blocks lost an acknowledged write ({} bytes cannot be read); first at byte \
             {sector}: write {generation} was acknowledged, {there} is there",
            found.lost, found.blocks, found.unreadable
        )));
    }
    let mut table =
        Table::new(&[("acknowledged", ""), ("blocks", ""), ("lost", ""), ("newer", "")]);
    let numbers = [found.writes, found.blocks, found.lost, found.newer];
    table.push(numbers.into_iter().map(Cell::int).collect());
    Ok(table.render(format(matches)))
}
