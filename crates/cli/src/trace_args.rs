//! Arguments of disks, trace, and the replays of a trace without time.

use crate::run_args::{option_args, trace_device, trace_input};
use crate::shared_args::{flag, force, format_arg, option, out_arg, threads_arg};
use clap::{Arg, ArgAction, Command, value_parser};

/// The commands about disk models and traces.
pub fn commands() -> [Command; 6] {
    [disks(), trace(), policy_trace(), track_trace(), readcache_trace(), writecache_trace()]
}

fn required(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).required(true).help(help)
}

fn disks() -> Command {
    Command::new("disks")
        .about("List, show and convert disk models")
        .arg_required_else_help(false)
        .after_help(
            "Examples: destage disks\n          destage disks show stow-ref --plot seek.svg",
        )
        .arg(format_arg())
        .subcommand(
            Command::new("show")
                .about("Show the figures of a disk, measured on its model")
                .after_help("Example: destage disks show stow-ref --plot seek.svg")
                .arg(required("name", "NAME", "A model's name or .toml file"))
                .arg(
                    option("format", "FORMAT", "Output format; toml: the spec itself")
                        .value_parser(["table", "json", "csv", "toml"])
                        .default_value("table"),
                )
                .arg(option("plot", "FILE", "Draw seek curve and zones to FILE (.svg or .png)")),
        )
        .subcommand(disks_validate())
        .subcommand(disks_fit())
        .subcommand(disks_measure())
        .subcommand(
            Command::new("keys")
                .about("List every key of a disk spec with unit, range and default")
                .after_help("Example: destage disks keys --format csv")
                .arg(
                    option("format", "FORMAT", "Output format")
                        .value_parser(["table", "json", "csv", "markdown"])
                        .default_value("table"),
                ),
        )
        .subcommand(
            Command::new("convert")
                .about("Convert DiskSim parameter files into a disk spec")
                .after_help(
                    "Example: destage disks convert cheetah9LP.model cheetah9LP.seek --name mine \
                     --out mine.toml",
                )
                .arg(required("model", "MODEL", "DiskSim .model file"))
                .arg(Arg::new("seek").value_name("SEEK").help("DiskSim .seek file, if separate"))
                .arg(option("specs", "FILE", "DiskSim .diskspecs file"))
                .arg(option("name", "NAME", "Name of the spec [default: the model's]"))
                .arg(option("out", "FILE", "Output file, .toml [default: standard output]"))
                .arg(force()),
        )
}

fn disks_fit() -> Command {
    let number = |name, value, help| option(name, value, help).value_parser(value_parser!(f64));
    Command::new("fit")
        .about("Make a disk spec from a data sheet's numbers or from fio's JSON")
        .after_help(
            "Needed: capacity, rotation, the outer rate, and the mean seek or random reads at \
             depth 1. The table lists where each number of the spec is from, and how much each \
             assumed one moves random reads at depths 1 and 32; its last lines have all \
             together.\n\
             Examples:\n  \
             destage disks fit --capacity 8T --rpm 7200 --seek 8.0 --outer 255 --out mine.toml\n  \
             destage disks fit --capacity 8T --rpm 7200 --fio fio.json --out mine.toml",
        )
        .arg(option("capacity", "SIZE", "Capacity in the maker's units, e.g. 20T").required(true))
        .arg(number("rpm", "N", "Revolutions per minute").required(true))
        .arg(number("seek", "MS", "Mean seek of reads"))
        .arg(number("write-seek", "MS", "Mean seek of writes"))
        .arg(number("track-seek", "MS", "Seek to the next track"))
        .arg(number("full-seek", "MS", "Full stroke"))
        .arg(number("outer", "MB/S", "Sustained rate at the outer edge, in 10^6 bytes per second"))
        .arg(number("inner", "MB/S", "Sustained rate at the inner edge"))
        .arg(option("heads", "N", "Surfaces with data").value_parser(value_parser!(u64)))
        .arg(option("cache", "SIZE", "The drive's buffer, e.g. 256M; its write cache is on"))
        .arg(
            option("sector-bytes", "N", "Size of a sector")
                .value_parser(value_parser!(u64).range(1..=4096))
                .default_value("512"),
        )
        .arg(
            option(
                "fio",
                "FILE",
                "fio's JSON: random 4k reads by depth, sequential reads at offset 0 and at 90 % \
                 and up; repeatable",
            )
            .action(ArgAction::Append),
        )
        .arg(option("name", "NAME", "Name of the spec [default: the file's]"))
        .arg(option("out", "FILE", "The spec that is written, .toml").required(true))
        .arg(force())
        .arg(format_arg())
}

fn disks_measure() -> Command {
    Command::new("measure")
        .about("Make a disk spec from a drive, by timing what it does")
        .after_help(
            "Takes minutes of the drive's time; nothing else may use it. Writes nothing to the \
             drive unless --destructive says where it may: without, write cache, FLUSH, FUA and \
             settling of writes are assumed. The same command continues a measurement that was \
             interrupted, from OUT.state. The last rows of the table compare the spec with a \
             random and a mixed trace that it was not made from.\n\
             Examples:\n  \
             destage disks measure /dev/sdc --out sdc.toml --plot sdc.svg\n  \
             destage disks measure /dev/sdc --destructive all --out sdc.toml\n  \
             destage disks measure 'nbd+unix:///?socket=/tmp/disk0.sock' --out disk0.toml",
        )
        .arg(required(
            "target",
            "TARGET",
            "Block device, file, NBD URI, or a model's name or .toml file",
        ))
        .arg(option(
            "destructive",
            "RANGE",
            "Bytes of the drive that may be overwritten, e.g. 10G-30G, or all",
        ))
        .arg(option("name", "NAME", "Name of the spec [default: the file's]"))
        .arg(option("out", "FILE", "The spec that is written, .toml").required(true))
        .arg(option("plot", "FILE", "Draw seek curve and zones to FILE (.svg or .png)"))
        .arg(force())
        .arg(format_arg())
}

fn disks_validate() -> Command {
    Command::new("validate")
        .about("Validate a disk model against measured service times")
        .after_help(
            "Requests of a validation trace are issued one at a time, each after the host's \
             recorded think time; those of other traces at their recorded start of service. rms \
             is the root mean square of the horizontal distance between the two distributions of \
             response time. demerit is rms over the measured mean.\n\
             Example: destage disks validate cheetah9lp cheetah9LP.trace.gz --plot c.svg",
        )
        .arg(required("spec", "SPEC", "A model's name or .toml file"))
        .arg(required(
            "trace",
            "TRACE",
            "Trace with service times (validation or srt); plain, gzip, zstd or xz",
        ))
        .arg(
            option("device", "N", "Device of the trace")
                .default_value("0")
                .value_parser(value_parser!(u32)),
        )
        .arg(
            option("pace", "HOW", "When requests are issued; auto: closed for a validation trace")
                .default_value("auto")
                .value_parser(["auto", "closed", "recorded"]),
        )
        .arg(option("plot", "FILE", "Draw both distributions to FILE (.svg or .png)"))
        .arg(format_arg())
}

/// The trace that a command writes.
fn trace_output() -> [Arg; 2] {
    let out = required(
        "out",
        "OUT",
        "Output file: .csv, .parquet or .arrow; any other name: the binary format. .gz, .zst or \
         .xz behind it compresses CSV and the binary format",
    );
    [out, force()]
}

/// How columns are described.
const COLUMNS_HELP: &str = "\
Examples:
  destage trace info vm.vscsi.gz
  destage trace info io.csv --columns 'time=ts:us, op=kind:read=R:write=W, offset=lba:sectors, \
size=len:bytes'

Columns (--trace-columns, or --columns) describe text, Parquet and Arrow files: \
FIELD=COLUMN:SETTING, separated by commas. COLUMN is a name of the first line or a position \
from 1; quotes go around a name with , : + * or digits alone. A name with * is a pattern: * is any \
text, in any case of letters, and one column must be like it.
  time=C:UNIT          s, ms, us, ns or filetime; typed times of Parquet and Arrow need no unit
  op=C:read=A|B:write=C|D:skip=E*
                       texts of each operation, * for any end; unknown=... counts as reads;
                       without lists: R, read, W, write, ?
  offset=C:UNIT        bytes [default], sectors (512), pages (4096) or a number as 4K
  size=C:UNIT          likewise; if it is left out, each request has one sector or page
  device=C             a number; device=C:name numbers names in the order of appearance
  object=C:BYTES       what has addresses of its own, e.g. object=block_id:8M: objects follow each
                       other in the order of first appearance; C+D: two columns name it
  sep=NAME             comma, semicolon, tab, space, bar [default: by the first line]";

fn trace() -> Command {
    const GENERATED: [&str; 10] = [
        "workload",
        "iops",
        "requests",
        "seed",
        "disk",
        "disks",
        "level",
        "strip",
        "disk-fraction",
        "group-stripes",
    ];
    let command = Command::new("trace")
        .about("Inspect, analyse, convert and generate traces")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("info")
                .about("Exact counts: mix, footprint, overwrites, duration, sequential share")
                .after_help(COLUMNS_HELP)
                .args(trace_input())
                .arg(trace_device())
                .arg(format_arg()),
            analyze(),
            Command::new("head")
                .about("Print the first records")
                .after_help("Example: destage trace head vm.vscsi.gz -n 5")
                .args(trace_input())
                .arg(trace_device())
                .arg(
                    option("count", "N", "Number of records")
                        .short('n')
                        .default_value("10")
                        .value_parser(value_parser!(u64)),
                )
                .arg(format_arg()),
            convert(),
            Command::new("generate")
                .about("Write the requests of a generated load to a trace")
                .after_help(
                    "Example: destage trace generate out.dst.zst --workload spc1 --iops 500 \
                     --requests 100000",
                )
                .args(trace_output())
                .args(option_args(|name| GENERATED.contains(&name))),
            Command::new("formats")
                .about("List trace formats")
                .after_help("Example: destage trace formats --format json")
                .arg(format_arg()),
            Command::new("workloads")
                .about("List load generators")
                .after_help("Example: destage trace workloads")
                .arg(format_arg()),
        ]);
    #[cfg(feature = "serve")]
    let command = command.subcommand(crate::array_args::record());
    command
}

fn convert() -> Command {
    Command::new("convert")
        .about("Convert a trace to CSV, Parquet, Arrow or the compact binary format")
        .after_help(
            "Writes what is read: with the options below only a part of the trace, and \
                     several traces as one.\n\
                     Examples:\n  \
                     destage trace convert vm.vscsi.gz vm.csv.zst\n  \
                     destage trace convert week.srt.gz day.dtrc.zst --trace-until 1d --device 0\n  \
                     destage trace convert big.csv.gz tenth.dtrc.zst --trace-sample 1/10\n  \
                     destage trace convert hm_0.csv+hm_1.csv hm.dtrc.zst",
        )
        .args(trace_input())
        .arg(trace_device())
        .args(trace_output())
}

fn analyze() -> Command {
    let file = |arg: Arg| match arg.get_id() == "file" {
        true => arg
            .num_args(1..)
            .action(ArgAction::Append)
            .help("Traces; plain, gzip, zstd or xz. Each is analysed as a trace of its own"),
        false => arg,
    };
    Command::new("analyze")
        .about("What load a trace is: rates, sizes, working sets, reuse distances, heat")
        .after_help(
            "Reports the rate over time and its peaks, the share of reads and writes by hour, \
             request sizes, the sequential share, working sets, exact reuse distances and LRU miss \
             ratios of reads and of writes, and the heat of pages and addresses. docs/traces.md \
             defines every figure. JSON has all of them; a table shows a part, CSV the first \
             table.\n\
             Examples:\n  \
             destage trace analyze vm.vscsi.gz --out vm.html\n  \
             destage trace analyze mon.csv.gz tue.csv.gz --format json\n  \
             destage trace analyze week.srt.gz --device 0",
        )
        .args(trace_input().into_iter().map(file))
        .arg(trace_device())
        .arg(format_arg())
        .arg(out_arg("Also write to FILE: .html, .json, .csv or .txt; repeatable"))
}

fn policy_trace() -> Command {
    let number = |name, default: &'static str, help| {
        option(name, "N", help).default_value(default).value_parser(value_parser!(u64))
    };
    let percent = |name, default: &'static str, help| {
        option(name, "%", help).default_value(default).value_parser(value_parser!(f64))
    };
    Command::new("policy-trace")
        .about("Replay writes and destages through one policy, event by event, without time")
        .after_help(
            "The file has lines `W first_page pages` and `D`; blank lines and lines that begin \
             with # are skipped. Output: `W page_hits group_hits new_pages`, `D group pages \
             mask`, and last a hash over them.\n\
             Example: destage policy-trace events.txt --policy stow --pages 1024",
        )
        .arg(required("file", "FILE", "Events, or - for standard input"))
        .arg(option("policy", "NAME", "Destage policy").required(true))
        .arg(
            option("pages", "N", "NVS size in pages")
                .required(true)
                .value_parser(value_parser!(u64)),
        )
        .arg(number("group-pages", "64", "Pages per write group"))
        .arg(number("disks", "5", "Number of disks"))
        .arg(number("queue-depth", "20", "Destage writes in flight"))
        .arg(percent("high", "90", "High threshold"))
        .arg(percent("low", "80", "Low threshold"))
        .arg(
            option("level", "LEVEL", "RAID level")
                .default_value("5")
                .value_parser(["5", "4", "6", "10", "0", "single"]),
        )
        .arg(number("seq-threshold", "16", "Pages after which a stream counts as sequential"))
}

fn track_trace() -> Command {
    let option =
        |name, value, default: &'static str, help| option(name, value, help).default_value(default);
    Command::new("track-trace")
        .about("Replay a trace through a write cache organised by track, without time")
        .after_help(
            "Cleaning takes no time here, so the counts are exact. `destage sim --group track` \
             puts the same cache on a modelled disk. --events prints lines `C track \
             dirty_sectors` and `W stalled`, and last a hash over them.\n\
             Example: destage track-trace week.srt.gz --device 0 --policy lrw --rate dual:90/15",
        )
        .arg(required("file", "FILE", "Trace in any known format"))
        .arg(option("policy", "NAME", "lrw", "Which track is cleaned next: lrw, lst, stf, ..."))
        .arg(option("rate", "NAME", "write-behind", "Rate: write-behind, single or dual"))
        .arg(option("nvs", "BYTES", "256K", "NVS size, e.g. 256K or 1M"))
        .arg(option("disk", "NAME", "hp-c2200a", "Disk model with a single zone"))
        .arg(option("device", "N", "all", "Device of the trace; all: its only one"))
        .arg(option("trace-format", "NAME", "auto", "Trace format"))
        .arg(option("trace-columns", "LIST", "", "Its columns, see `destage trace info --help`"))
        .arg(flag("events", "Print every event"))
        .arg(option("format", "FORMAT", "table", "Output format").value_parser(["table", "json"]))
}

fn writecache_trace() -> Command {
    let number = |name, default: &'static str, help| {
        option(name, "N", help).default_value(default).value_parser(value_parser!(u64))
    };
    Command::new("writecache-trace")
        .about("Replay the writes of a trace through write caches, without time")
        .after_help(
            "A group is destaged when the next write does not fit, and all groups at the end. \
             `bound` is what no policy undercuts: each group is destaged once per interval in \
             which it cannot be held (docs/simulator.md).\n\
             Example: destage writecache-trace vm.vscsi.gz --nvs 16M,10% --policy wow,stow,bound",
        )
        .args(trace_input())
        .arg(trace_device())
        .arg(
            option("policy", "LIST", "Destage policies, see `destage policies`; bound: the bound")
                .default_value("lrw,cscan,wow,stow,bound"),
        )
        .arg(
            option(
                "nvs",
                "LIST",
                "NVS sizes: pages, bytes as 64M, or shares of the different pages written as 10%",
            )
            .default_value("32768"),
        )
        .arg(number("group-pages", "64", "Pages per write group"))
        .arg(number("disks", "5", "Number of disks"))
        .arg(threads_arg())
        .arg(format_arg())
        .arg(out_arg("Also write to FILE: .json, .csv or .txt; repeatable"))
}

fn readcache_trace() -> Command {
    Command::new("readcache-trace")
        .about("Replay the reads of a trace through read caches of an array with failed disks")
        .after_help(
            "One policy in one case prints its figures and a hash over every hit, miss and \
             eviction. Several print a table that compares fault-aware forms (vdf-NAME) with \
             their plain forms. RGR: requests to the surviving disks per block requested.\n\
             Examples:\n  \
             destage readcache-trace OLTP.lis --policy vdf-lru --disks 5 --blocks 1024\n  \
             destage readcache-trace vm.vscsi.gz --policy vdf-lru,vdf-lfu --disks 5,6,7,8 \
             --failed all --blocks 4096,16384\n  \
             destage readcache-trace vm.vscsi.gz --policy arc,vdf-arc --blocks 4096 \
             --sweep disks=5..8..1",
        )
        .args(trace_input())
        .arg(trace_device())
        .arg(
            option(
                "policy",
                "LIST",
                "Read-cache policies, see `destage policies`; opt: Belady's optimum; vdf-opt: the \
                 same with failed disks taken into account; bound: what no cache exceeds in hits, \
                 nor undercuts in RGR",
            )
            .required(true),
        )
        .arg(option("disks", "LIST", "Numbers of disks in the array").default_value("5"))
        .arg(
            option("failed", "LIST", "Failed disks: a number, all, none, or several as 0+3")
                .default_value("0"),
        )
        .arg(option(
            "blocks",
            "LIST",
            "Cache sizes in blocks of 4 KiB, or as shares of the blocks that the trace reads, \
             e.g. 10% [default: 4096]",
        ))
        .arg(
            option("level", "LEVEL", "RAID level")
                .default_value("5")
                .value_parser(["5", "4", "6", "10", "0", "single"]),
        )
        .arg(option(
            "vdf",
            "FORM",
            "Failed-disk awareness (VDF) of all policies: off, paper, adaptive",
        ))
        .arg(
            option("sweep", "NAME=VALUES", "Values of blocks, disks or failed; repeatable")
                .action(ArgAction::Append),
        )
        .arg(flag("events", "Print every block request: 1 hit or 0 miss, block, evicted block"))
        .arg(threads_arg())
        .arg(format_arg())
        .arg(out_arg("Also write to FILE: .json, .csv or .txt; repeatable"))
}
