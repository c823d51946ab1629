//! Arguments of `destage sweep` and `destage advise`.

use crate::shared_args::{format_arg, option_args, out_arg, threads_arg};
use clap::{Arg, ArgAction, Command};

/// `destage sweep`.
pub fn sweep() -> Command {
    Command::new("sweep")
        .about("Run every combination of options, each once, into a dataset of Parquet files")
        .after_help(
            "Every finished point is one file DIR/KEY.parquet, whose key is a digest of all that \
             the result depends on (docs/sweeps.md). Run the same command again to go on where it \
             stopped; points that are there are not run again. destage.sweep in Python fills and \
             reads the same dataset, on one machine or a Dask cluster.\n\
             Example: destage sweep --out rows --grid policy=lrw,cscan,wow,stow \
             --grid nvs=8192,32768 --grid iops=400..1000..100 --seeds 3",
        )
        .arg(
            Arg::new("grid")
                .long("grid")
                .value_name("OPTION=VALUES")
                .action(ArgAction::Append)
                .required(true)
                .help("An option and its values, as for compare's --sweep; may be repeated"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .required(true)
                .help("The dataset: made if it is not there, gone on with if it is"),
        )
        .arg(
            Arg::new("seeds")
                .long("seeds")
                .value_name("N")
                .default_value("1")
                .value_parser(clap::value_parser!(u32).range(1..=10_000))
                .help("Seeds a combination, from --seed upwards"),
        )
        .arg(threads_arg())
        .arg(format_arg())
        .args(option_args(&[]))
}

/// `destage advise`.
pub fn advise() -> Command {
    Command::new("advise")
        .about("Find the cheapest NVS size, policy and thresholds that reach a goal")
        .after_help(
            "A goal is FIGURE<LIMIT, several joined by commas: [reads.|writes.]mean, p50, p99, \
             p99.9 or max in us, ms or s, or full (time in which a write waits for space) in %.\n\
             Examples:\n  \
             destage advise vm.vscsi.gz --array 5:5xstow-ref --goal 'p99<30ms'\n  \
             destage advise --workload spc1 --iops 700 --goal 'p99<60ms,full<1%' --out advice.svg",
        )
        .arg(Arg::new("file").value_name("TRACE").help("Trace to plan for; else --workload"))
        .arg(
            Arg::new("goal")
                .long("goal")
                .value_name("GOAL")
                .required(true)
                .help("What must be reached, as p99<30ms"),
        )
        .arg(
            Arg::new("array")
                .long("array")
                .value_name("LEVEL:NxDISK")
                .help("RAID level, number and model of disks, as 5:5xstow-ref"),
        )
        .args(choices())
        .arg(threads_arg())
        .arg(format_arg())
        .arg(out_arg("Also write to FILE: .json, .csv, .txt, or .svg and .png for the curve"))
        .args(option_args(&["policy", "nvs", "thresholds", "trace"]))
}

/// What is considered, and how.
fn choices() -> [Arg; 6] {
    [
        Arg::new("policies")
            .long("policies")
            .value_name("LIST")
            .default_value("lrw,cscan,wow,stow")
            .help("Policies to consider; semicolons between them where one has commas"),
        Arg::new("try-thresholds")
            .long("try-thresholds")
            .value_name("LIST")
            .default_value("90/80,70/40,50/20")
            .help("Thresholds of the rate to consider, high/low in % of the NVS"),
        Arg::new("sizes")
            .long("sizes")
            .value_name("FROM..TO")
            .default_value("256..1048576")
            .help("NVS sizes to consider in pages, four steps a doubling"),
        Arg::new("seeds")
            .long("seeds")
            .value_name("N")
            .default_value("3")
            .value_parser(clap::value_parser!(u32).range(1..=1000))
            .help("Seeds that the answer must hold with, where the load is generated"),
        Arg::new("check-curve")
            .long("check-curve")
            .action(ArgAction::SetTrue)
            .help("Replay every write group too, and say how far the sampled curve is off"),
        Arg::new("sample-groups")
            .long("sample-groups")
            .value_name("N")
            .default_value("2048")
            .value_parser(clap::value_parser!(u64).range(1..))
            .help("Write groups of a sample at least; fewer make it faster and less exact"),
    ]
}
