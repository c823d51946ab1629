//! One file a command; each returns the text for standard output.

mod advise;
mod array;
mod assembly_words;
mod bench;
mod bench_feed;
mod bench_report;
mod compare;
mod disks;
mod emulate;
mod files;
mod listener;
mod loss;
mod monitoring;
mod place;
mod policies;
mod policy_trace;
mod quantities;
mod readcache_trace;
mod reproduce;
mod served;
mod sim;
mod sweep;
mod torture;
mod trace;
mod track_trace;
mod validate;

use crate::failure::Failure;
use clap::ArgMatches;
use destage_report::Format;

/// Runs the command asked for.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    match matches.subcommand() {
        Some(("sim", matches)) => sim::run(matches),
        Some(("compare", matches)) => compare::run(matches),
        Some(("sweep", matches)) => sweep::run(matches),
        Some(("advise", matches)) => advise::run(matches),
        Some(("policies", matches)) => Ok(policies::run(matches)),
        Some(("disks", matches)) => disks::run(matches),
        Some(("trace", matches)) => trace::run(matches),
        Some(("track-trace", matches)) => track_trace::run(matches),
        Some(("policy-trace", matches)) => policy_trace::run(matches),
        Some(("readcache-trace", matches)) => readcache_trace::run(matches),
        Some(("reproduce", matches)) => reproduce::run(matches),
        Some(("emulate", matches)) => emulate::run(matches),
        Some(("create", matches)) => array::create(matches),
        Some(("serve", matches)) => array::serve(matches),
        Some(("recover", matches)) => array::recover(matches),
        Some(("bench", matches)) => bench::run(matches),
        Some(("torture", matches)) => torture::run(matches),
        Some(("completions", matches)) => {
            let shell = *matches.get_one::<clap_complete::Shell>("shell").expect("required");
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::args::command(), "destage", &mut script);
            Ok(String::from_utf8_lossy(&script).into_owned())
        }
        Some(("man", matches)) => {
            let folder = text(matches, "folder").expect("required");
            clap_mangen::generate_to(crate::args::command(), folder)
                .map_err(|error| Failure::failed(format!("{folder}: {error}")))?;
            Ok(String::new())
        }
        Some((name, matches)) => {
            served::run(name, matches).unwrap_or_else(|| unreachable!("clap knows its commands"))
        }
        None => unreachable!("clap requires a command"),
    }
}

/// The `--format` asked for.
fn format(matches: &ArgMatches) -> Format {
    let text = matches.get_one::<String>("format").map_or("table", String::as_str);
    text.parse().expect("clap has checked it")
}

/// The `--threads` asked for; one a processor if none.
fn threads(matches: &ArgMatches) -> usize {
    match matches.get_one::<u64>("threads") {
        Some(threads) => *threads as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// A string argument, if given.
fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.get_one::<String>(name).map(String::as_str)
}
