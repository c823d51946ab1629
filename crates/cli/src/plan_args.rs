//! Arguments of the planner: sim, compare, sweep, tournament, advise, reproduce.

use crate::run_args::{option_args, option_args_over, with_default};
use crate::shared_args::{flag, format_arg, option, out_arg, threads_arg};
use clap::{Arg, ArgAction, Command, value_parser};
use destage_sim::advise::TRY_THRESHOLDS;
use destage_sim::options::RunOptions;

/// The planner's commands.
pub fn commands() -> [Command; 6] {
    [sim(), compare(), sweep(), tournament(), advise(), reproduce()]
}

fn sim() -> Command {
    Command::new("sim")
        .about("Run one simulation and report all its figures")
        .after_help(
            "Example: destage sim --policy wow --iops 800 --nvs 128M\n         \
             destage sim --trace vm.vscsi.gz --policy stow --nvs 4096 --format json",
        )
        .arg(format_arg())
        .arg(out_arg("Also write to FILE: .html, .json, .csv, .txt or .parquet; repeatable"))
        .arg(option("plot", "FILE", "Draw occupancy over time to FILE (.svg or .png)"))
        .arg(option("series", "FILE", "Write the time series to FILE (.parquet)"))
        .args(option_args(|_| true))
}

fn compare() -> Command {
    Command::new("compare")
        .about("Run several policies on identical input and compare them")
        .after_help(
            "Examples:\n  \
             destage compare --sweep iops=500..1200..50 --out r.html\n  \
             destage compare --policies wow,stow --sweep nvs=8192,32768,131072 --iops 800\n  \
             destage compare --policies lrw,stow --trace vm.vscsi.gz --nvs 16M --disks 3\n  \
             destage compare --experiment specs/experiments/stow-fig8a-90-80.toml --out r.html\n\
             A sweep takes any run option. Separate its values by commas, or by semicolons where \
             a value has commas; or give a range FIRST..LAST..STEP.",
        )
        .arg(format_arg())
        .arg(
            option(
                "policies",
                "LIST",
                "Policies to compare, with parameters as in wow:initial-bit=1",
            )
            .default_value("lrw,cscan,wow,stow"),
        )
        .arg(option("sweep", "OPTION=VALUES", "Option to sweep"))
        .arg(number("seeds", "Minimum number of seeds per point", "1"))
        .arg(
            option(
                "ci",
                "%",
                "Add seeds until half the 95 % confidence interval is below this share",
            )
            .value_parser(value_parser!(f64)),
        )
        .arg(number("seeds-max", "Maximum number of seeds per point, with --ci", "20"))
        .arg(
            option(
                "at-ms",
                "ms",
                "Response times to compare throughput at in a sweep of iops, e.g. 10,20",
            )
            .default_value("20"),
        )
        .arg(threads_arg())
        .arg(option(
            "experiment",
            "FILE",
            "Read policies, sweep and options from a TOML file; flags override it",
        ))
        .arg(
            option("panel", "NAME", "Panel of the file, if it is an item of `destage reproduce`")
                .requires("experiment"),
        )
        .arg(option("title", "TEXT", "Heading of the report"))
        .arg(out_arg("Also write to FILE: .html, .json, .csv, .txt or .parquet; repeatable"))
        .arg(option("plots", "DIR", "Draw every plot of the report into DIR"))
        .arg(plot_format_arg())
        .args(option_args(|name| name != "policy"))
}

fn sweep() -> Command {
    Command::new("sweep")
        .about("Run every combination of options, each once, into a dataset of Parquet files")
        .after_help(
            "Each finished point is one file DIR/KEY.parquet. Its key is a digest of everything \
             that the result depends on (docs/sweeps.md). Run the same command again to resume; \
             finished points are not run again. destage.sweep in Python fills and reads the same \
             dataset, on one machine or a Dask cluster.\n\
             Example: destage sweep --out rows --grid policy=lrw,cscan,wow,stow \
             --grid nvs=8192,32768 --grid iops=400..1000..100 --seeds 3",
        )
        .arg(
            option(
                "grid",
                "OPTION=VALUES",
                "An option and its values, as in compare --sweep; repeatable",
            )
            .action(ArgAction::Append)
            .required(true),
        )
        .arg(
            option("out", "DIR", "The dataset directory: created if missing, resumed if present")
                .required(true),
        )
        .arg(number("seeds", "Seeds per combination, from --seed upwards", "1"))
        .arg(threads_arg())
        .arg(format_arg())
        .args(option_args(|_| true))
}

fn tournament() -> Command {
    Command::new("tournament")
        .about("Play policies over a fixed grid of cells and write a score card")
        .after_help(
            "Every policy plays every cell with its best setting and is compared with the better \
             of the references (docs/tournament.md). Finished runs are kept in DIR/rows: run the \
             same command again to resume. DIR also gets the card as index.html, card.json, \
             card.csv and card.txt. destage.tournament in Python also takes policies written in \
             Python.\n\
             Examples:\n  \
             destage tournament --quick --out cup\n  \
             destage tournament --protocols safe --cells 'complete disks;degraded' --out cup\n  \
             destage tournament --policies ebb,stow:initial-bit=1 --against stow,wow --out cup \
             --traces traces",
        )
        .arg(
            option("out", "DIR", "Directory of the runs and the card: created, or resumed")
                .required(true),
        )
        .arg(
            option(
                "policies",
                "LIST",
                "Policies to judge, with parameters as in wow:initial-bit=1",
            )
            .default_value("ebb"),
        )
        .arg(
            option("against", "LIST", "References: each figure is compared with the better one")
                .default_value("stow,wow"),
        )
        .arg(option(
            "grid",
            "FILE",
            "Another grid than the program's, as specs/tournament/grid.toml",
        ))
        .arg(option(
            "cells",
            "LIST",
            "Only cells whose names have one of these texts in them; separate them by semicolons",
        ))
        .arg(option("protocols", "LIST", "Only these of the grid's protocols; the first is judged"))
        .arg(flag("quick", "One seed, one protocol, fewer settings and rates, shorter windows"))
        .arg(option(
            "traces",
            "DIR",
            "Where the traces of the grid are; without it they are skipped",
        ))
        .arg(option("seed", "N", "First seed").value_parser(value_parser!(u64)).default_value("1"))
        .arg(threads_arg())
        .arg(format_arg())
}

fn advise() -> Command {
    let derived = ["policy", "nvs", "thresholds", "trace"];
    let mut served = RunOptions::default();
    served.set("as", "served").expect("an option");
    Command::new("advise")
        .about("Find the cheapest NVS size, policy and thresholds that meet a goal")
        .after_help(
            "A goal is FIGURE<LIMIT; join several by commas. Figures: [reads.|writes.]mean, p50, \
             p95, p99, p99.9 or max with a limit in us, ms or s; or full (share of time in which a \
             write waits for space) with one in %.\n\
             Examples:\n  \
             destage advise vm.vscsi.gz --array 5:5xstow-ref --goal 'p99<30ms'\n  \
             destage advise --workload spc1 --iops 700 --goal 'p99<60ms,full<1%' \
             --out advice.html\n  \
             destage advise vm.vscsi.gz --goal 'p99<30ms' --load-factor 1.25 --prices \
             nvs=12,memory=4 --out advice.html",
        )
        .arg(Arg::new("file").value_name("TRACE").help("Trace to plan for [default: --workload]"))
        .arg(option("goal", "GOAL", "Goal to meet, e.g. p99<30ms").required(true))
        .arg(option(
            "array",
            "LEVEL:NxDISK",
            "RAID level, number and model of disks, e.g. 5:5xstow-ref",
        ))
        .args(candidates())
        .arg(threads_arg())
        .arg(format_arg())
        .arg(out_arg(
            "Also write to FILE: .html (charts and tables), .json, .csv, .txt, or .svg and .png \
             for the curve",
        ))
        .args(option_args_over(&served, |name| !derived.contains(&name)))
        .mut_arg("prefill", |arg| with_default(arg, "on for a trace without --requests, else off"))
}

/// What `advise` considers, and how thoroughly.
fn candidates() -> [Arg; 8] {
    [
        option("policies", "LIST", "Policies to consider; use semicolons where one has commas")
            .default_value("lrw,cscan,wow,stow,ebb"),
        option(
            "try-thresholds",
            "LIST",
            "Thresholds to consider, high/low in % of the NVS; those of --rate if it names its own",
        )
        .default_value(TRY_THRESHOLDS),
        option(
            "sizes",
            "FROM..TO",
            "NVS sizes to consider in pages, or bytes with K, M, G; four steps per doubling",
        )
        .default_value("256..1048576"),
        option("seeds", "N", "Seeds with which the answer must hold, for generated loads")
            .default_value("3")
            .value_parser(value_parser!(u32).range(1..=1000)),
        option(
            "load-factor",
            "x",
            "Headroom: the goal must also hold at this multiple of the load",
        )
        .default_value("1")
        .value_parser(value_parser!(f64)),
        option(
            "prices",
            "LIST",
            "Prices per GiB, to report what each size costs, e.g. nvs=12,memory=4. The NVS device \
             has sectors of 4,096 bytes; for a mirror give twice its price",
        ),
        flag("check-curve", "Also replay every write group, and report the error of the samples"),
        option(
            "sample-groups",
            "N",
            "Minimum write groups per sample; fewer is faster, less exact",
        )
        .default_value("2048")
        .value_parser(value_parser!(u64).range(1..)),
    ]
}

fn reproduce() -> Command {
    Command::new("reproduce")
        .about("Repeat the papers' figures and tables, next to the published values")
        .after_help(
            "Examples:\n  \
             destage reproduce --list\n  \
             destage reproduce stow:fig8 wow --quick\n  \
             destage reproduce --all --out reproduction\n\
             The table marks a value outside its band as OUTSIDE; the exit code stays 0.",
        )
        .arg(
            Arg::new("item")
                .value_name("PAPER[:ITEM]")
                .action(ArgAction::Append)
                .conflicts_with("all")
                .help("A paper or one of its figures or tables; repeatable"),
        )
        .arg(flag("all", "Reproduce every item"))
        .arg(flag("quick", "Short windows and few points: minutes instead of an hour"))
        .arg(flag("list", "List the items, and how many runs each takes"))
        .arg(format_arg())
        .arg(option("out", "DIR", "Write every figure, the tables and an HTML page into DIR"))
        .arg(option(
            "traces",
            "DIR",
            "Directory of real traces; items whose trace is missing are SKIPPED \
             [default: DESTAGE_TRACES, or ../shared/traces]",
        ))
        .arg(plot_format_arg())
        .arg(threads_arg())
}

fn plot_format_arg() -> Arg {
    option("plot-format", "FORMAT", "Format of the plots")
        .value_parser(["svg", "png"])
        .default_value("svg")
}

fn number(name: &'static str, help: &'static str, default: &'static str) -> Arg {
    option(name, "N", help)
        .default_value(default)
        .value_parser(value_parser!(u32).range(1..=10_000))
}
