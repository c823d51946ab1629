//! The options of a run as arguments, drawn from the table in `destage_sim::options`.

use crate::shared_args::option;
use clap::{Arg, ArgMatches};
use destage_engine::registry::Param;
use destage_sim::options::{OPTIONS, OptionError, RunOptions};
use destage_workload::trace::ReadOptions;

/// An argument for each option of a run that `wanted` accepts.
pub fn option_args(wanted: impl Fn(&str) -> bool) -> Vec<Arg> {
    option_args_over(&RunOptions::default(), wanted)
}

/// The same in a command that has these options where none are given.
pub fn option_args_over(defaults: &RunOptions, wanted: impl Fn(&str) -> bool) -> Vec<Arg> {
    let wanted = OPTIONS.iter().filter(|option| wanted(option.name));
    wanted
        .map(|option| {
            if option.name == "skip-bad" {
                return skip_bad().help_heading("Run options");
            }
            let unit = if option.unit == "-" { "VALUE" } else { option.unit };
            Arg::new(option.name)
                .long(option.name)
                .value_name(unit)
                .help_heading("Run options")
                .help(help(option, defaults.get(option.name)))
        })
        .collect()
}

fn help(option: &Param, default: &str) -> String {
    let default = match default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    format!("{}: {}{default}", option.help, option.range)
}

/// The argument of an option whose default is in words.
pub fn with_default(arg: Arg, default: &str) -> Arg {
    let option = OPTIONS.iter().find(|option| option.name == arg.get_id().as_str());
    let text = help(option.expect("a run option"), default);
    arg.help(text)
}

/// `--skip-bad`, which needs no value.
fn skip_bad() -> Arg {
    option("skip-bad", "on|off", "Skip malformed lines of the trace, and count them")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("on")
}

/// The options of a run as given.
pub fn run_options(matches: &ArgMatches) -> Result<RunOptions, OptionError> {
    let mut options = RunOptions::default();
    set_given(matches, &mut options)?;
    options.check_given()?;
    Ok(options)
}

/// Sets those options that were given.
pub fn set_given(matches: &ArgMatches, options: &mut RunOptions) -> Result<(), OptionError> {
    for option in OPTIONS {
        if let Ok(Some(value)) = matches.try_get_one::<String>(option.name) {
            options.set(option.name, value)?;
        }
    }
    Ok(())
}

/// The options of a run that say how a trace is read, in the order of the help.
const TRACE_OPTIONS: [&str; 11] = [
    "trace-format",
    "trace-columns",
    "trace-order",
    "skip-bad",
    "trace-device",
    "trace-from",
    "trace-until",
    "trace-range",
    "trace-sample",
    "trace-merge",
    "trace-devices",
];

/// How the trace of a command is read.
pub fn trace_options(matches: &ArgMatches) -> Result<ReadOptions, OptionError> {
    let mut options = RunOptions::default();
    for name in TRACE_OPTIONS {
        if let Ok(Some(value)) = matches.try_get_one::<String>(name) {
            options.set(name, value)?;
        }
    }
    options.read_options()
}

/// The trace that a command reads, and how.
pub fn trace_input() -> Vec<Arg> {
    let file = Arg::new("file")
        .value_name("FILE")
        .required(true)
        .help("Trace; text plain, gzip, zstd or xz. A+B merges two by time");
    [file].into_iter().chain(trace_selection()).collect()
}

/// How a trace is read, and what of it.
pub fn trace_selection() -> impl Iterator<Item = Arg> {
    let args = option_args(|name| TRACE_OPTIONS.contains(&name) && name != "trace-device");
    args.into_iter().map(|arg| match arg.get_id().as_str() {
        "skip-bad" => skip_bad(),
        "trace-columns" => arg.alias("columns").help_heading(None::<&str>),
        _ => arg.help_heading(None::<&str>),
    })
}

/// `--trace-device`, or `--device` in short.
pub fn trace_device() -> Arg {
    option("trace-device", "N", "Only these devices of the trace: a number, or several as 0+3")
        .alias("device")
}
