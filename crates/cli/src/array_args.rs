//! The command lines of a served array: create, serve, status, flush, stop, set, recover.

use crate::server_args::serves;
use crate::shared_args::{flag, format_arg, option};
use clap::{Arg, ArgAction, Command, value_parser};
use destage_engine::readcache::coherent::OnWrite;

pub(crate) fn name() -> Arg {
    Arg::new("name").value_name("NAME").required(true).help("The array")
}

pub(crate) fn places() -> [Arg; 2] {
    [
        option("config-dir", "DIR", "Folder of the configurations [root: /etc/destage]"),
        option("run-dir", "DIR", "Folder of the control sockets [root: /run/destage]"),
    ]
}

/// Of files that are made.
pub(crate) fn sparse() -> Arg {
    flag("sparse", "Allocate the space of files made with size= as it is written, not at once")
}

/// The read cache; what is not given is as it was.
fn read_cache_args() -> [Arg; 4] {
    [
        option("read-cache", "POLICY", "Read cache beside the NVS, see `destage policies`; or off"),
        option("read-cache-size", "BYTES", "Its size, as 1G [at first: 128M]"),
        option("vdf", "FORM", "How it heeds failed disks: off, paper, adaptive[:..], auto"),
        option("read-cache-writes", "WHAT", "Cached pages that are written: dropped, or brought")
            .value_parser(OnWrite::NAMES.map(|(name, _)| name)),
    ]
}

/// `destage create`.
pub fn create() -> Command {
    Command::new("create")
        .about("Create an array: superblocks on its disks and NVS, a configuration file")
        .after_help(
            "A disk or NVS is a file, a block device, or (disks) an NBD URI; PATH,size=BYTES makes \
             a file of that size. Devices that hold anything are refused. Disks that may not be \
             all zeros are zeroed on levels with redundancy, which takes as long as writing them.\n\
             Level target: one disk that is an array itself (md, a RAID card): give its strip and \
             its --width in data disks, and destage orders for it.\n\
             Example:\n  destage create tank --level 5 --disk a.img,size=1G --disk b.img,size=1G \
             --disk c.img,size=1G --nvs nvs.img,size=64M",
        )
        .arg(name())
        .arg(
            option("level", "LEVEL", "RAID level")
                .default_value("5")
                .value_parser(["single", "0", "10", "4", "5", "6", "target"]),
        )
        .arg(
            option("disk", "DISK", "A member, in order; repeat")
                .required(true)
                .action(ArgAction::Append),
        )
        .arg(
            option("nvs", "PATH", "NVS; twice: mirrored; none: every write goes to the disks")
                .action(ArgAction::Append),
        )
        .arg(
            option("spare", "DISK", "Takes the place of a member that fails; repeat")
                .action(ArgAction::Append),
        )
        .arg(option("strip", "BYTES", "Bytes on one disk before the next").default_value("64K"))
        .arg(
            option("width", "N", "Level target: its data disks")
                .default_value("1")
                .value_parser(value_parser!(u64).range(1..=1024)),
        )
        .arg(
            option("group-stripes", "K", "Stripes in a write group; levels 4, 5, 6")
                .default_value("1")
                .value_parser(value_parser!(u64).range(1..=1024)),
        )
        .arg(option("policy", "POLICY", "See `destage policies`").default_value("stow"))
        .arg(option("rate", "RATE", "See `destage policies`").default_value("linear:90/80"))
        .arg(
            option("ack", "WHEN", "Writes are answered when durable in NVS, or at FLUSH and FUA")
                .default_value("nvs")
                .value_parser(["nvs", "flush"]),
        )
        .arg(
            option("on-nvs-loss", "WHAT", "When the last NVS device fails")
                .default_value("write-through")
                .value_parser(["write-through", "stop"]),
        )
        .arg(flag("assume-clean", "Do not zero the disks: they are all zeros, or in sync"))
        .arg(sparse())
        .args(read_cache_args())
        .args(places())
}

/// `destage serve`.
pub fn serve() -> Command {
    let serve = Command::new("serve")
        .about("Serve an array over NBD until `destage stop`, SIGTERM or SIGINT")
        .after_help(
            "Recovers the NVS log first. SIGTERM ends cleanly without destaging: what is dirty \
             stays in NVS. RUST_LOG says what is logged, as info or destage=warn.\n\
             Examples:\n  destage serve tank --nbd unix:/run/tank.sock\n  \
             destage serve tank --nbd unix:/run/tank.sock --http 127.0.0.1:9090 --what-if",
        )
        .arg(name());
    serves(serve)
        .args(watch_args())
        .args(missing_args())
        .arg(
            option("ack", "WHEN", "In place of what the configuration says")
                .value_parser(["nvs", "flush"]),
        )
        .args(read_cache_args())
        .args(places())
}

/// What a start may do without.
fn missing_args() -> [Arg; 4] {
    [
        flag(
            "degraded",
            "Start without members and an NVS mirror that are missing or out of date, where \
             redundancy is left",
        ),
        option(
            "use-nvs",
            "PATH",
            "Use this NVS device though it is out of date, and no other; prints what is lost",
        ),
        option("use-disk", "PATH", "Use this member though it is out of date; prints what is lost"),
        flag("accept-loss", "Do that: lose what --use-nvs or --use-disk says is lost"),
    ]
}

/// The page, metrics, what-if, alarms, log.
fn watch_args() -> [Arg; 7] {
    [
        option("http", "ADDRESS:PORT", "Serve a page and metrics there, as 127.0.0.1:9090"),
        flag("allow-remote-http", "Let other machines see it: without TLS, so behind a proxy")
            .requires("http"),
        option("http-name", "NAME", "A name by which the page is reached through a proxy; repeat")
            .requires("http")
            .action(ArgAction::Append),
        option("http-token-file", "FILE", "The token for changes [default: a new one each start]")
            .requires("http"),
        option("what-if", "N", "Shadow policies that follow one write group in N [1]")
            .num_args(0..=1)
            .default_missing_value("1")
            .value_parser(value_parser!(u64).range(1..=1024)),
        option(
            "alarm-command",
            "COMMAND",
            "Run by the shell at each alarm; see docs/operations.md",
        ),
        option("log-format", "FORM", "Of the log on standard error")
            .default_value("text")
            .value_parser(["text", "json"]),
    ]
}

/// `destage trace record`.
#[cfg(feature = "plan")]
pub fn record() -> Command {
    Command::new("record")
        .about("Record the load of a served array as a trace")
        .after_help(
            "The server writes FILE, whole or not at all; .zst, .gz or .xz compress it. Recording \
             ends with --time or --requests, or when this command is interrupted: what came until \
             then is kept. A sample by write group (--one-in) is to be simulated with an NVS \
             smaller in proportion.\n\
             Example: destage trace record tank --out tank.dtrc.zst --time 10m",
        )
        .arg(name())
        .arg(option("out", "FILE", "The trace: .dtrc or .csv, compressed or not").required(true))
        .arg(option("time", "TIME", "How long, as 30s or 10m"))
        .arg(
            option("requests", "N", "Most requests")
                .default_value("100000000")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(
            option("one-in", "N", "Only requests that begin in one write group of N")
                .default_value("1")
                .value_parser(value_parser!(u64).range(1..=1_000_000)),
        )
        .args(places())
}

/// `destage status`.
pub fn status() -> Command {
    Command::new("status")
        .about("How a served array stands: occupancy, queues, hits, times, devices, alarms")
        .after_help("Example: destage status tank --format json")
        .arg(name())
        .arg(flag("what-if", "What other policies would have destaged (serve --what-if)"))
        .arg(format_arg())
        .args(places())
}

/// `destage flush`.
pub fn flush() -> Command {
    Command::new("flush")
        .about("Destage everything of a served array; returns when nothing is dirty")
        .after_help("Example: destage flush tank")
        .arg(name())
        .args(places())
}

/// `destage stop`.
pub fn stop() -> Command {
    Command::new("stop")
        .about("End the server of an array")
        .after_help(
            "Without --drain what is dirty stays in NVS, safe; the next start continues with it. \
             The server refuses to end while it has the only copy of a member or NVS whose file \
             was deleted: SIGTERM then says how to save it, --force loses it. --check exits with 1 \
             and the reason if the server would refuse, and changes nothing.\n\
             Example: destage stop tank --drain",
        )
        .arg(name())
        .arg(flag("drain", "Destage everything first"))
        .arg(flag("force", "End even if deleted files, which only the server has, are lost by it"))
        .arg(
            flag("check", "Only say whether the server would refuse to end")
                .conflicts_with_all(["drain", "force"]),
        )
        .args(places())
}

/// `destage set`.
pub fn set() -> Command {
    Command::new("set")
        .about(
            "Change policy, rate, read cache or rebuild limits of a served array, until it stops",
        )
        .after_help(
            "Another read cache begins empty. Limits of rebuilds: window=PAGES,depth=N,share=% (of \
             the time),min=MB/S (that share and reads-under leave),reads-under=MS (reads of \
             hosts); what is not said is as by default, without limits.\n\
             Examples:\n  destage set tank --policy wow --rate linear:70/40\n  \
             destage set tank --read-cache lru --read-cache-size 1G --vdf adaptive\n  \
             destage set tank --rebuild share=50,min=20",
        )
        .arg(name())
        .arg(option("policy", "POLICY", "See `destage policies`"))
        .arg(option("rate", "RATE", "See `destage policies`"))
        .arg(option("rebuild", "LIMITS", "How fast rebuilds go"))
        .args(read_cache_args())
        .args(places())
}

/// `destage replace-nvs`.
pub fn replace_nvs() -> Command {
    Command::new("replace-nvs")
        .about("Give a served array a second NVS device: in place of a lost one, or a first mirror")
        .after_help(
            "The log is copied while the array serves; the command waits until the new device \
             has all of it and counts. The device must be empty and hold at least the log. With \
             --old a device that is still in use is given up first.\n\
             Example: destage replace-nvs tank /dev/nvme1n1p4",
        )
        .arg(name())
        .arg(
            Arg::new("new")
                .value_name("NEW")
                .required(true)
                .help("The new device; PATH,size=BYTES makes a file"),
        )
        .arg(option("old", "PATH", "The device to replace [the one that is not in use]"))
        .arg(sparse())
        .args(places())
}

/// `destage scrub`.
pub fn scrub() -> Command {
    Command::new("scrub")
        .about("Compare all rows of a served array: parity with data, copies with each other")
        .after_help(
            "Reads all members while the array serves; host reads go first. Without --repair \
             only pages that a member cannot read are written again. With --repair: level 10, \
             the first copy counts; levels 4 and 5, parity is computed from the data; level 6, a \
             single wrong strip is told by P and Q and put right, else P and Q are computed. The \
             command waits; the scrub goes on if it is interrupted. Exit code 1: rows are wrong \
             and were not put right, or not all were compared.\n\
             Example: destage scrub tank --repair --rate 200M",
        )
        .arg(name())
        .arg(flag("check", "Only look, and say what is wrong [default]"))
        .arg(flag("repair", "Put right what is wrong").conflicts_with("check"))
        .arg(
            option("rate", "BYTES", "Bytes of the members read in a second, all together")
                .default_value("100M"),
        )
        .arg(flag("background", "Do not wait: see `destage status`"))
        .arg(flag("stop", "End the scrub under way").conflicts_with_all([
            "check",
            "repair",
            "background",
        ]))
        .arg(format_arg())
        .args(places())
}

/// `destage recover`.
pub fn recover() -> Command {
    Command::new("recover")
        .about("Recover an array's NVS log without serving it, or look at it")
        .after_help(
            "Redoes interrupted destages and destages everything, so that the disks have it all. \
             With --inspect nothing is changed.\n\
             Example: destage recover tank --inspect",
        )
        .arg(name())
        .arg(flag("inspect", "Only say what the log holds, and what is wrong with it"))
        .args(missing_args())
        .arg(format_arg())
        .args(places())
}
