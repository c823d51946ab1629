//! Arguments that several commands share.

use clap::{Arg, ArgAction};

pub fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub fn format_arg() -> Arg {
    option("format", "FORMAT", "Output format")
        .value_parser(["table", "json", "csv"])
        .default_value("table")
}

#[cfg(feature = "plan")]
pub fn out_arg(help: &'static str) -> Arg {
    option("out", "FILE", help).action(ArgAction::Append)
}

#[cfg(feature = "plan")]
pub fn threads_arg() -> Arg {
    option("threads", "N", "Number of threads [default: one per processor]")
        .value_parser(clap::value_parser!(u64).range(1..=4096))
}

/// Without it, a trace that exists stays.
#[cfg(feature = "plan")]
pub fn force() -> Arg {
    flag("force", "Replace the output file if it exists")
}
