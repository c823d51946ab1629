//! The command line. Options of a run are drawn from the table in `destage_sim::options`.

use crate::shared_args::{format_arg, option_args, out_arg, threads_arg, trace_input};
use clap::{Arg, ArgAction, Command};
use destage_sim::options::OPTIONS;

/// The whole command.
pub fn command() -> Command {
    Command::new("destage")
        .version(env!("CARGO_PKG_VERSION"))
        .about("The write cache for disk arrays: which destage policy, and how much NVS")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "Start with: destage compare --policies lrw,cscan,wow,stow --sweep iops=300..1100..200",
        )
        .subcommands([
            sim(),
            compare(),
            policies(),
            disks(),
            trace(),
            policy_trace(),
            track_trace(),
            crate::readcache_args::command(),
            crate::plan_args::sweep(),
            crate::plan_args::advise(),
            reproduce(),
            crate::array_args::create(),
            crate::array_args::serve(),
            crate::array_args::recover(),
            crate::server_args::emulate(),
            crate::server_args::bench(),
            crate::torture_args::command(),
            completions(),
            man(),
        ])
        .subcommands(crate::array_args::served())
}

fn sim() -> Command {
    Command::new("sim")
        .about("Run one simulation and report all its figures")
        .after_help(
            "Example: destage sim --policy wow --iops 800 --nvs 128M\n         \
             destage sim --trace vm.vscsi.gz --policy stow --nvs 4096 --format json",
        )
        .arg(format_arg())
        .arg(out_arg("Also write to FILE: .json, .csv, .txt or .parquet; may be repeated"))
        .arg(
            Arg::new("plot")
                .long("plot")
                .value_name("FILE")
                .help("Draw occupancy over time to FILE (.svg or .png)"),
        )
        .arg(
            Arg::new("series")
                .long("series")
                .value_name("FILE")
                .help("Write the time series to FILE (.parquet)"),
        )
        .args(option_args(&[]))
}

fn compare() -> Command {
    Command::new("compare")
        .about("Run several policies on identical input and compare them")
        .after_help(
            "Examples:\n  \
             destage compare --sweep iops=300..1100..200 --out r.html\n  \
             destage compare --policies wow,stow --sweep nvs=8192,32768,131072 --iops 800\n  \
             destage compare --policies lrw,stow --trace vm.vscsi.gz --nvs 16M --disks 3\n  \
             destage compare --experiment specs/experiments/stow-fig8a-90-80.toml --out r.html\n\
             A sweep takes any run option; values are separated by commas (or by semicolons, where \
             a value has commas), or are a range FIRST..LAST..STEP.",
        )
        .arg(format_arg())
        .arg(
            Arg::new("policies")
                .long("policies")
                .value_name("LIST")
                .default_value("lrw,cscan,wow,stow")
                .help("Policies to compare, each with its parameters as in wow:initial-bit=1"),
        )
        .arg(Arg::new("sweep").long("sweep").value_name("OPTION=VALUES").help("Option to sweep"))
        .arg(number("seeds", "Seeds a point at least", "1"))
        .arg(
            Arg::new("ci")
                .long("ci")
                .value_name("%")
                .value_parser(clap::value_parser!(f64))
                .help("Repeat seeds until half the 95 % confidence interval is within this share"),
        )
        .arg(number("seeds-max", "Seeds a point at most, with --ci", "20"))
        .arg(
            Arg::new("at-ms")
                .long("at-ms")
                .value_name("ms")
                .default_value("20")
                .help("Response times at which throughput is read off a sweep of iops, as 10,20"),
        )
        .arg(threads_arg())
        .arg(
            Arg::new("experiment")
                .long("experiment")
                .value_name("FILE")
                .help("Take policies, sweep and options from a TOML file; flags given win"),
        )
        .arg(Arg::new("title").long("title").value_name("TEXT").help("Heading of the report"))
        .arg(out_arg("Also write to FILE: .html, .json, .csv, .txt or .parquet; may be repeated"))
        .arg(
            Arg::new("plots")
                .long("plots")
                .value_name("DIR")
                .help("Draw every plot of the report into DIR"),
        )
        .arg(plot_format_arg())
        .args(option_args(&["policy"]))
}

fn plot_format_arg() -> Arg {
    Arg::new("plot-format")
        .long("plot-format")
        .value_name("FORMAT")
        .value_parser(["svg", "png"])
        .default_value("svg")
        .help("Form of those plots")
}

fn number(name: &'static str, help: &'static str, default: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N")
        .default_value(default)
        .value_parser(clap::value_parser!(u32).range(1..=10_000))
        .help(help)
}

fn policies() -> Command {
    Command::new("policies")
        .about("List destage policies, rate schemes, read-cache policies and RAID levels")
        .after_help("Example: destage policies --format json")
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(["table", "json", "csv", "markdown"])
                .default_value("table")
                .help("Form of the list; markdown is docs/policies.md"),
        )
}

fn disks() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true).help("A name or .toml file");
    Command::new("disks")
        .about("List, show and convert disk models")
        .arg_required_else_help(false)
        .after_help(
            "Examples: destage disks\n          destage disks show stow-ref --plot seek.svg",
        )
        .arg(format_arg())
        .subcommand(
            Command::new("show")
                .about("Figures of a disk, measured from its model, and its seek curve and zones")
                .after_help("Example: destage disks show stow-ref --plot seek.svg")
                .arg(name())
                .arg(format_arg())
                .arg(
                    Arg::new("plot")
                        .long("plot")
                        .value_name("FILE")
                        .help("Draw seek curve and zones to FILE (.svg or .png)"),
                ),
        )
        .subcommand(disks_validate())
        .subcommand(
            Command::new("convert")
                .about("Convert DiskSim parameter files into a disk spec")
                .after_help(
                    "Example: destage disks convert cheetah9LP.model cheetah9LP.seek --name mine \
                     --out mine.toml",
                )
                .arg(Arg::new("model").value_name("MODEL").required(true).help("DiskSim .model"))
                .arg(Arg::new("seek").value_name("SEEK").help("DiskSim .seek, if apart"))
                .arg(Arg::new("specs").long("specs").value_name("FILE").help("DiskSim .diskspecs"))
                .arg(
                    Arg::new("name")
                        .long("name")
                        .value_name("NAME")
                        .help("Name of the spec [default: the model's]"),
                )
                .arg(
                    Arg::new("out")
                        .long("out")
                        .value_name("FILE")
                        .help("Write there instead of to standard output"),
                ),
        )
}

fn disks_validate() -> Command {
    Command::new("validate")
        .about("Hold a disk model against a trace of measured service times")
        .after_help(
            "Requests of a validation trace are issued one at a time, each as long after the one \
             before as the host thought; those of other traces at their recorded start of \
             service. rms is the root mean square of the horizontal distance between the two \
             distributions of response time, demerit is rms over the measured mean.\n\
             Example: destage disks validate cheetah9lp cheetah9LP.trace.gz --plot c.svg",
        )
        .arg(Arg::new("spec").value_name("SPEC").required(true).help("A name or .toml file"))
        .arg(
            Arg::new("trace")
                .value_name("TRACE")
                .required(true)
                .help("Trace with service times (validation or srt); gzip, zstd, xz or plain"),
        )
        .arg(
            Arg::new("device")
                .long("device")
                .value_name("N")
                .default_value("0")
                .value_parser(clap::value_parser!(u32))
                .help("Device of the trace"),
        )
        .arg(
            Arg::new("pace")
                .long("pace")
                .value_name("HOW")
                .default_value("auto")
                .value_parser(["auto", "closed", "recorded"])
                .help("When requests are issued; auto: closed for a validation trace"),
        )
        .arg(
            Arg::new("plot")
                .long("plot")
                .value_name("FILE")
                .help("Draw both distributions to FILE (.svg or .png)"),
        )
        .arg(format_arg())
}

/// Where a trace is written.
fn trace_output() -> [Arg; 1] {
    [Arg::new("out")
        .value_name("OUT")
        .required(true)
        .help("File to write: .csv for plain CSV, else the binary format; .gz, .zst, .xz compress")]
}

fn trace() -> Command {
    Command::new("trace")
        .about("Inspect, convert and generate traces")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("info")
                .about("Exact counts: mix, footprint, overwrites, duration, sequential share")
                .after_help("Example: destage trace info vm.vscsi.gz")
                .args(trace_input())
                .arg(format_arg()),
            Command::new("head")
                .about("Print the first records")
                .after_help("Example: destage trace head vm.vscsi.gz -n 5")
                .args(trace_input())
                .arg(
                    Arg::new("count")
                        .short('n')
                        .value_name("N")
                        .default_value("10")
                        .value_parser(clap::value_parser!(u64))
                        .help("Records"),
                )
                .arg(format_arg()),
            Command::new("convert")
                .about("Convert a trace to CSV or to the compact binary format")
                .after_help("Example: destage trace convert vm.vscsi.gz vm.csv.zst")
                .args(trace_input())
                .args(trace_output()),
            crate::array_args::record(),
            Command::new("generate")
                .about("Write the requests of a generated load to a trace")
                .after_help(
                    "Example: destage trace generate out.dst.zst --workload spc1 --iops 500 \
                     --requests 100000",
                )
                .args(trace_output())
                .args(option_args_of(&[
                    "workload",
                    "iops",
                    "requests",
                    "seed",
                    "disk",
                    "disks",
                    "level",
                    "strip",
                    "backend",
                    "group-stripes",
                ])),
            Command::new("formats")
                .about("List trace formats")
                .after_help("Example: destage trace formats --format json")
                .arg(format_arg()),
            Command::new("workloads")
                .about("List load generators")
                .after_help("Example: destage trace workloads")
                .arg(format_arg()),
        ])
}

fn option_args_of(names: &[&str]) -> Vec<Arg> {
    let without: Vec<&str> =
        OPTIONS.iter().map(|o| o.name).filter(|name| !names.contains(name)).collect();
    option_args(&without)
}

fn policy_trace() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .default_value(default)
            .value_parser(clap::value_parser!(u64))
            .help(help)
    };
    let percent = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("%")
            .default_value(default)
            .value_parser(clap::value_parser!(f64))
            .help(help)
    };
    Command::new("policy-trace")
        .about("Replay writes and destages through one policy, event by event, without time")
        .after_help(
            "The file has lines `W first_page pages` and `D`; blank lines and lines beginning with \
             # are skipped. Output: `W page_hits group_hits new_pages`, `D group pages mask`, and \
             last a hash over them.\n\
             Example: destage policy-trace events.txt --policy stow --pages 1024",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("Events, or - for standard input"),
        )
        .arg(Arg::new("policy").long("policy").value_name("NAME").required(true).help("Policy"))
        .arg(
            Arg::new("pages")
                .long("pages")
                .value_name("N")
                .required(true)
                .value_parser(clap::value_parser!(u64))
                .help("NVS pages"),
        )
        .arg(number("group-pages", "64", "Pages in a write group"))
        .arg(number("disks", "5", "Disks in the array"))
        .arg(number("queue-depth", "20", "Queue depth"))
        .arg(percent("high", "90", "High threshold"))
        .arg(percent("low", "80", "Low threshold"))
        .arg(
            Arg::new("level")
                .long("level")
                .value_name("LEVEL")
                .default_value("5")
                .value_parser(["5", "4", "6", "10", "0", "single"])
                .help("RAID level"),
        )
        .arg(number("seq-threshold", "16", "Pages until a stream is sequential"))
}

fn track_trace() -> Command {
    let option = |name: &'static str, value: &'static str, default: &'static str, help| {
        Arg::new(name).long(name).value_name(value).default_value(default).help(help)
    };
    Command::new("track-trace")
        .about("Replay a trace through a write cache organised by track, without time")
        .after_help(
            "Cleaning takes no time here, so that the counts are exact; `destage sim --group \
             track` is the same cache on a modelled disk. With --events come lines `C track \
             dirty_sectors` and `W stalled`, and last a hash over them.\n\
             Example: destage track-trace week.srt.gz --device 0 --policy lrw --rate dual:90/15",
        )
        .arg(Arg::new("file").value_name("FILE").required(true).help("Trace, any known format"))
        .arg(option("policy", "NAME", "lrw", "What to clean: lrw, lst, stf, ..."))
        .arg(option("rate", "NAME", "write-behind", "When to clean: write-behind, single, dual"))
        .arg(option("nvs", "BYTES", "256K", "NVS size, with K or M"))
        .arg(option("disk", "NAME", "hp-c2200a", "Disk whose tracks count; one zone only"))
        .arg(option("device", "N", "all", "Device of the trace, or all"))
        .arg(option("trace-format", "NAME", "auto", "Format of the trace"))
        .arg(
            Arg::new("events")
                .long("events")
                .action(clap::ArgAction::SetTrue)
                .help("Print every event"),
        )
        .arg(option("format", "FORMAT", "table", "Output form").value_parser(["table", "json"]))
}

fn reproduce() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("reproduce")
        .about("Run figures and tables of the papers again, beside the published values")
        .after_help(
            "Examples:\n  \
             destage reproduce --list\n  \
             destage reproduce stow:fig8 wow --quick\n  \
             destage reproduce --all --out reproduction\n\
             The table says OUTSIDE where a value leaves its band; the exit code stays 0.",
        )
        .arg(
            Arg::new("item")
                .value_name("PAPER[:ITEM]")
                .action(ArgAction::Append)
                .conflicts_with("all")
                .help("A paper or one of its figures or tables; may be repeated"),
        )
        .arg(flag("all", "Everything there is"))
        .arg(flag("quick", "Short windows and few points: minutes in place of an hour"))
        .arg(flag("list", "List what there is, and how many runs each takes"))
        .arg(format_arg())
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .help("Write every figure, the tables and a page of all of them into DIR"),
        )
        .arg(Arg::new("traces").long("traces").value_name("DIR").help(
            "Folder of real traces; what needs one that is not there is SKIPPED \
                     [default: DESTAGE_TRACES, or ../shared/traces]",
        ))
        .arg(plot_format_arg())
        .arg(threads_arg())
}

fn completions() -> Command {
    Command::new("completions")
        .about("Print a shell completion script")
        .after_help(
            "The Debian package has those of bash, zsh and fish installed.\n\
             Example: destage completions bash > /etc/bash_completion.d/destage",
        )
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(clap::value_parser!(clap_complete::Shell)),
        )
}

/// Not for users: the package's build makes its man pages by it.
fn man() -> Command {
    Command::new("man")
        .hide(true)
        .about("Write a man page for each command into a folder")
        .after_help("Example: destage man target/man && man -l target/man/destage-serve.1")
        .arg(Arg::new("folder").value_name("DIR").required(true).help("A folder that is there"))
}
