//! One file per command; each returns the text for standard output.

#[cfg(feature = "plan")]
mod advise;
#[cfg(feature = "serve")]
mod array;
#[cfg(feature = "serve")]
mod assembly_words;
#[cfg(feature = "load")]
mod bench;
#[cfg(feature = "load")]
mod bench_feed;
#[cfg(feature = "load")]
mod bench_report;
#[cfg(feature = "plan")]
mod compare;
#[cfg(feature = "plan")]
mod disks;
#[cfg(feature = "plan")]
mod disks_fit;
#[cfg(feature = "plan")]
mod disks_measure;
#[cfg(feature = "plan")]
mod disks_plot;
#[cfg(feature = "serve")]
mod emulate;
#[cfg(feature = "serve")]
mod files;
#[cfg(feature = "serve")]
mod listener;
#[cfg(feature = "serve")]
mod loss;
#[cfg(feature = "serve")]
mod monitoring;
mod policies;
#[cfg(feature = "plan")]
mod policy_trace;
#[cfg(any(feature = "plan", feature = "serve"))]
mod quantity;
#[cfg(feature = "plan")]
mod readcache_trace;
#[cfg(feature = "plan")]
mod reproduce;
#[cfg(feature = "serve")]
mod served;
#[cfg(feature = "plan")]
mod sim;
#[cfg(feature = "plan")]
mod sweep;
#[cfg(feature = "serve")]
mod target;
#[cfg(feature = "torture")]
mod torture;
#[cfg(feature = "plan")]
mod tournament;
#[cfg(feature = "plan")]
mod trace;
#[cfg(feature = "plan")]
mod trace_analyze;
#[cfg(feature = "plan")]
mod track_trace;
#[cfg(feature = "plan")]
mod validate;
#[cfg(feature = "plan")]
mod writecache_trace;

use crate::failure::Failure;
use clap::ArgMatches;
use destage_report::Format;

/// Runs the command asked for.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let (command, matches) = matches.subcommand().expect("clap requires a command");
    #[cfg(feature = "plan")]
    if let Some(result) = plan(command, matches) {
        return result;
    }
    #[cfg(feature = "serve")]
    if let Some(result) = serve(command, matches) {
        return result;
    }
    match command {
        "policies" => Ok(policies::run(matches)),
        #[cfg(feature = "load")]
        "bench" => bench::run(matches),
        #[cfg(feature = "torture")]
        "torture" => torture::run(matches),
        "completions" => Ok(completions(matches)),
        "man" => man(matches),
        _ => unreachable!("clap knows the commands"),
    }
}

/// The commands about simulations, disk models and traces.
#[cfg(feature = "plan")]
fn plan(command: &str, matches: &ArgMatches) -> Option<Result<String, Failure>> {
    Some(match command {
        "sim" => sim::run(matches),
        "compare" => compare::run(matches),
        "sweep" => sweep::run(matches),
        "tournament" => tournament::run(matches),
        "advise" => advise::run(matches),
        "disks" => disks::run(matches),
        "trace" => trace::run(matches),
        "track-trace" => track_trace::run(matches),
        "policy-trace" => policy_trace::run(matches),
        "readcache-trace" => readcache_trace::run(matches),
        "writecache-trace" => writecache_trace::run(matches),
        "reproduce" => reproduce::run(matches),
        _ => return None,
    })
}

/// The commands about served arrays.
#[cfg(feature = "serve")]
fn serve(command: &str, matches: &ArgMatches) -> Option<Result<String, Failure>> {
    Some(match command {
        "emulate" => emulate::run(matches),
        "create" => array::create(matches),
        "serve" => array::serve(matches),
        "recover" => array::recover(matches),
        _ => return served::run(command, matches),
    })
}

fn completions(matches: &ArgMatches) -> String {
    let shell = *matches.get_one::<clap_complete::Shell>("shell").expect("required");
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::command(), "destage", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn man(matches: &ArgMatches) -> Result<String, Failure> {
    let folder = text(matches, "folder").expect("required");
    clap_mangen::generate_to(crate::args::command(), folder)
        .map_err(|error| Failure::failed(format!("{folder}: {error}")))?;
    Ok(String::new())
}

/// The `--format` asked for.
fn format(matches: &ArgMatches) -> Format {
    let text = matches.get_one::<String>("format").map_or("table", String::as_str);
    text.parse().expect("clap has checked it")
}

/// The `--threads` asked for; by default one per processor.
#[cfg(feature = "plan")]
fn threads(matches: &ArgMatches) -> usize {
    match matches.get_one::<u64>("threads") {
        Some(threads) => *threads as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// A string argument, if given.
pub fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.get_one::<String>(name).map(String::as_str)
}
