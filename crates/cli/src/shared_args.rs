//! Arguments that several commands have.

use clap::{Arg, ArgAction, ArgMatches};
use destage_sim::options::{OPTIONS, OptionError, RunOptions};

pub fn format_arg() -> Arg {
    Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .value_parser(["table", "json", "csv"])
        .default_value("table")
        .help("Form of the result on standard output")
}

pub fn out_arg(help: &'static str) -> Arg {
    Arg::new("out").long("out").value_name("FILE").action(ArgAction::Append).help(help)
}

/// One argument for each option of a run, but those named.
pub fn option_args(without: &[&str]) -> Vec<Arg> {
    let wanted = OPTIONS.iter().filter(|o| !without.contains(&o.name));
    wanted
        .map(|option| {
            if option.name == "skip-bad" {
                return skip_bad().help_heading("Run options");
            }
            let unit = if option.unit == "-" { "" } else { option.unit };
            let default = match option.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            Arg::new(option.name)
                .long(option.name)
                .value_name(if unit.is_empty() { "VALUE" } else { option.unit })
                .help_heading("Run options")
                .help(format!("{}: {}{default}", option.help, option.range))
        })
        .collect()
}

/// The options of a run as given.
pub fn run_options(matches: &ArgMatches) -> Result<RunOptions, OptionError> {
    let mut options = RunOptions::default();
    set_given(matches, &mut options)?;
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

pub fn threads_arg() -> Arg {
    Arg::new("threads")
        .long("threads")
        .value_name("N")
        .value_parser(clap::value_parser!(u64).range(1..=4096))
        .help("Threads to use [default: one a processor]")
}

/// What names a trace to read.
pub fn trace_input() -> [Arg; 4] {
    [
        Arg::new("file").value_name("FILE").required(true).help("Trace; gzip, zstd, xz or plain"),
        Arg::new("trace-format")
            .long("trace-format")
            .value_name("NAME")
            .default_value("auto")
            .help("Format, if it should not be detected; see `destage trace formats`"),
        Arg::new("trace-order")
            .long("trace-order")
            .value_name("HOW")
            .default_value("auto")
            .help("Times out of order: auto, strict, lift, skip, sort"),
        skip_bad(),
    ]
}

/// `--skip-bad`, which may stand alone.
pub fn skip_bad() -> Arg {
    Arg::new("skip-bad")
        .long("skip-bad")
        .value_name("on|off")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("on")
        .help("Count malformed lines of the trace and go on")
}

pub fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}
