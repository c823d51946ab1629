//! The arguments of `destage readcache-trace`.

use crate::shared_args::{format_arg, out_arg, trace_input};
use clap::{Arg, ArgAction, Command};

fn list(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// The command.
pub fn command() -> Command {
    Command::new("readcache-trace")
        .about("Replay the reads of a trace through read caches over an array with a failed disk")
        .after_help(
            "One policy in one case prints its figures and a hash over every hit, miss and \
             eviction; several print a table, fault-aware forms (vdf-NAME) beside their plain \
             forms. RGR: requests to the surviving disks per block request.\n\
             Examples:\n  \
             destage readcache-trace OLTP.lis --policy vdf-lru --disks 5 --blocks 1024\n  \
             destage readcache-trace vm.vscsi.gz --policy vdf-lru,vdf-lfu --disks 5,6,7,8 \
             --failed all --blocks 4096,16384\n  \
             destage readcache-trace vm.vscsi.gz --policy arc,vdf-arc --disks 5 --blocks 4096 \
             --sweep disks=5..8..1",
        )
        .args(trace_input())
        .arg(
            Arg::new("device")
                .long("device")
                .value_name("N")
                .value_parser(clap::value_parser!(u32))
                .help("Only this device of the trace"),
        )
        .arg(list("policy", "LIST", "Read policies; see `destage policies`").required(true))
        .arg(list("disks", "LIST", "Disks in the array").default_value("5"))
        .arg(list("failed", "LIST", "Failed disk, all, none, or 0+3 together").default_value("0"))
        .arg(list("blocks", "LIST", "Blocks of 4 KiB in the cache [default: 4096]"))
        .arg(
            list("level", "LEVEL", "RAID level")
                .default_value("5")
                .value_parser(["5", "4", "6", "10", "0", "single"]),
        )
        .arg(
            list("ties", "RULE", "Of equally frequent blocks, which LFU evicts")
                .value_parser(["oldest", "literal"]),
        )
        .arg(list("vdf", "FORM", "Form of all policies: off, paper (as vdf-NAME) or adaptive"))
        .arg(
            list("sweep", "NAME=VALUES", "Values of blocks, disks or failed; may be repeated")
                .action(ArgAction::Append),
        )
        .arg(
            Arg::new("events")
                .long("events")
                .action(ArgAction::SetTrue)
                .help("Print every block request: 1 hit or 0 miss, the block, the evicted one"),
        )
        .arg(
            Arg::new("threads")
                .long("threads")
                .value_name("N")
                .value_parser(clap::value_parser!(u64).range(1..=4096))
                .help("Threads to use [default: one a processor]"),
        )
        .arg(format_arg())
        .arg(out_arg("Also write to FILE: .json, .csv or .txt; may be repeated"))
}
