//! `destage bench`: load an NBD server.

use super::bench_report::{Intervals, hdr_path, render, write_hdr};
use super::quantity::{bytes, seconds};
use super::{bench_feed, format, text};
use crate::failure::Failure;
use crate::paths::Paths;
use clap::ArgMatches;
use clap::parser::ValueSource;
use destage_load::{
    self, Arrivals, BenchError, FLUSH, Load, Measured, Pace, Pattern, Progress, Target,
};
use destage_nbd::client::Uri;
use destage_report::{Cell, Table};
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
    let hdr = text(matches, "hdr").map(Path::new);
    let mut paths = Paths::reading(text(matches, "trace"));
    load.log.as_ref().map_or(Ok(()), |log| paths.report(log))?;
    for place in 0..=FLUSH {
        hdr.map_or(Ok(()), |path| paths.report(&hdr_path(path, place)))?;
    }
    let (measured, intervals) = measure(matches, &uri, &load)?;
    if let Some(path) = hdr {
        write_hdr(path, &measured)?;
    }
    let result = render(&load, &about(matches), &measured, &intervals, format(matches));
    match measured.first_errno {
        None => Ok(result),
        Some(errno) => {
            print!("{result}");
            let (failed, all) = (measured.errors(), measured.requests());
            let error = std::io::Error::from_raw_os_error(errno as i32);
            let message = format!("{uri}: {failed} of {all} requests failed, the first: {error}");
            Err(Failure::failed(message))
        }
    }
}

/// Runs the load; shows its progress on standard error.
fn measure(matches: &ArgMatches, uri: &Uri, load: &Load) -> Result<(Measured, Intervals), Failure> {
    let failed = |error| match error {
        BenchError::Unfit(_) => Failure::usage(error),
        BenchError::Feed(_) | BenchError::File(..) => Failure::failed(error),
        error => Failure::failed(format!("{uri}: {error}")),
    };
    let target = Target::connect(uri, load).map_err(failed)?;
    let feed = bench_feed::feed(matches, &target)?;
    let bar = crate::progress::spinner("no answers yet");
    let (mut intervals, mut last) = (Intervals::new(), (Duration::ZERO, 0u64));
    let measured = target.run(load, feed, &mut |progress| match progress {
        Progress::Second(time, answered) => {
            let (before, seen) = std::mem::replace(&mut last, (time, answered));
            let rate = (answered - seen) as f64 / (time - before).as_secs_f64();
            let warming = if time < load.warmup { ", warming up" } else { "" };
            bar.set_message(format!("{rate:.0} requests/s{warming}"));
        }
        Progress::Lap(lap) => {
            if load.interval.is_some() {
                let line = intervals.take(lap);
                bar.suspend(|| eprintln!("{line}"));
            }
        }
    });
    bar.finish_and_clear();
    Ok((measured.map_err(failed)?, intervals))
}

/// What was asked, for the report: what was given, and what counts without.
fn about(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    const WORDS: [&str; 21] = [
        "uri",
        "workload",
        "trace",
        "rw",
        "bs",
        "size",
        "trace-format",
        "trace-columns",
        "trace-order",
        "trace-device",
        "wrap",
        "skip-bad",
        "time",
        "warmup",
        "arrivals",
        "interval",
        "log",
        "timeout",
        "hdr",
        "iops",
        "speed",
    ];
    const NUMBERS: [&str; 4] = ["depth", "connections", "seed", "fsync-every"];
    let pattern = text(matches, "workload").or(text(matches, "trace")).is_none();
    let mut about = Vec::new();
    for name in WORDS {
        let counts = match name {
            "rw" | "bs" => pattern,
            "arrivals" => matches.contains_id("iops"),
            _ => true,
        };
        let value = matches.get_raw(name).and_then(|mut values| values.next());
        if let Some(value) = value.filter(|_| counts) {
            about.push((name, value.to_string_lossy().into_owned()));
        }
    }
    for name in NUMBERS {
        about.push((name, matches.get_one::<u64>(name).expect("default").to_string()));
    }
    let flags = ["closed", "verify", "fua"].into_iter().filter(|name| matches.get_flag(name));
    about.extend(flags.map(|name| (name, "true".to_string())));
    about
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
    let time = |name| text(matches, name).map(|time| seconds(name, time)).transpose();
    let traced = text(matches, "trace").is_some();
    let interval = time("interval")?;
    if interval.is_some_and(|interval| interval < Duration::from_millis(100)) {
        return Err(Failure::usage("--interval is at least 100ms"));
    }
    let default_time = (!traced).then_some(Duration::from_secs(10));
    Ok(Load {
        pattern: Pattern { random, write_percent },
        block,
        depth: within("depth", 65_536)?,
        connections: within("connections", 1024)?,
        pace: pace(matches)?,
        warmup: time("warmup")?.unwrap_or(Duration::ZERO),
        time: time("time")?.or(default_time),
        interval,
        patience: time("timeout")?.expect("default"),
        size: text(matches, "size").map(bytes).transpose()?,
        flush_every: number("fsync-every"),
        fua: matches.get_flag("fua"),
        verify: matches.get_flag("verify"),
        log: text(matches, "log").map(PathBuf::from),
        seed: number("seed"),
        server_pid: matches.get_one::<u32>("server-pid").copied(),
    })
}

fn pace(matches: &ArgMatches) -> Result<Pace, Failure> {
    let iops = matches.get_one::<f64>("iops").copied();
    let arrivals = match text(matches, "arrivals") {
        Some("poisson") => Arrivals::Poisson,
        _ => Arrivals::Even,
    };
    if iops.is_none() && matches.value_source("arrivals") == Some(ValueSource::CommandLine) {
        return Err(Failure::usage("--arrivals goes with --iops"));
    }
    match iops {
        Some(iops) if iops > 0.0 && iops <= 1e9 => Ok(Pace::Scheduled { iops, arrivals }),
        Some(_) => Err(Failure::usage("--iops is above 0")),
        None if matches.get_flag("closed") => Ok(Pace::Closed),
        None => Ok(Pace::Own),
    }
}

fn check(matches: &ArgMatches, uri: &Uri, path: &Path) -> Result<String, Failure> {
    let found = destage_load::check(uri, path).map_err(|error| match error {
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
