//! The arguments of `destage torture`.

use crate::shared_args::{format_arg, threads_arg};
use clap::{Arg, Command};

fn drawn(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    let help = format!("{help} [default: drawn from the seed]");
    Arg::new(name).long(name).value_name(value).help(help)
}

/// The command.
pub fn command() -> Command {
    Command::new("torture")
        .about("Crash the served array at any operation on simulated devices, and check every byte")
        .after_help(
            "Each case is an array, a load and faults drawn from its seed, with 8 power failures; \
             seeds count up from --seed. A case that fails is reported with the command that \
             runs it again, and the exit code is 1. See docs/durability.md, \"Tests\".\n\
             Examples:\n  \
             destage torture --crashes 10000\n  \
             destage torture --level 6 --ack flush --hours 0.5 --seed clock",
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .default_value("1")
                .help("First seed, or `clock` for a fresh one"),
        )
        .arg(
            Arg::new("crashes")
                .long("crashes")
                .value_name("N")
                .value_parser(clap::value_parser!(u64).range(1..))
                .conflicts_with("hours")
                .help("Power failures, rounded up to whole cases [default: 1000]"),
        )
        .arg(
            Arg::new("hours")
                .long("hours")
                .value_name("H")
                .value_parser(clap::value_parser!(f64))
                .help("Run for this many hours instead"),
        )
        .arg(
            drawn("level", "LEVEL", "RAID level")
                .value_parser(["5", "4", "6", "10", "0", "single"]),
        )
        .arg(drawn("policy", "NAME", "Destage policy; see `destage policies`"))
        .arg(drawn("ack", "WHEN", "When a write is acknowledged").value_parser(["nvs", "flush"]))
        .arg(drawn("nvs", "N", "NVS devices").value_parser(["0", "1", "2"]))
        .arg(threads_arg())
        .arg(format_arg())
}
