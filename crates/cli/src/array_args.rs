//! The command lines of an array: create, serve, recover, record; and those of its server's list.

use crate::server_args::serves;
#[cfg(feature = "plan")]
use crate::shared_args::force;
use crate::shared_args::{flag, format_arg, option};
use clap::{Arg, ArgAction, Command, value_parser};
use destage_server::array::control::{About, Argument, COMMANDS, Kind, Set};

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

/// The read cache; any option you omit keeps its value.
fn read_cache_args() -> impl Iterator<Item = Arg> {
    Set::READ_CACHE.iter().map(argument)
}

/// An argument of a command in the server's list.
fn argument(of: &Argument) -> Arg {
    let taking = |value: &'static str| match of.required {
        true => Arg::new(of.name).value_name(value).required(true).help(of.help),
        false => option(of.name, value, of.help),
    };
    match of.kind {
        Kind::Member => taking("DISK"),
        Kind::NewDevice => taking("DEVICE"),
        Kind::Device => taking("PATH"),
        Kind::Choice(words) => taking("WHAT").value_parser(words.to_vec()),
        Kind::Text(value) => taking(value),
        Kind::Bytes(None) => taking("BYTES"),
        Kind::Bytes(Some(default)) => taking("BYTES").default_value(default),
        Kind::Flag => flag(of.name, of.help),
    }
}

/// The commands of the server's list that are commands of the command line. `status --what-if` and
/// `trace record` give the others.
pub fn served() -> impl Iterator<Item = Command> {
    let all = || COMMANDS.iter().map(|entry| &entry.about);
    let alone = |about: &&About| !["what-if", "record"].contains(&about.name);
    let of_nvs = |about: &About| about.name.strip_prefix(OF_NVS);
    let nvs = Command::new("nvs")
        .about("Replace an NVS device of a served array, or change the size of its log")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(all().filter_map(|about| Some(command(of_nvs(about)?, about))));
    let plain = all().filter(alone).filter(move |about| of_nvs(about).is_none());
    plain.map(|about| command(about.name, about)).chain([nvs])
}

/// How the names of the commands begin that are below `destage nvs`.
pub(crate) const OF_NVS: &str = "nvs-";

fn command(called: &'static str, about: &About) -> Command {
    Command::new(called)
        .about(about.help)
        .after_help(about.details)
        .arg(name())
        .args(about.arguments.iter().map(argument))
        .args(added(about))
        .args(places())
}

/// What the command line adds to a command.
fn added(about: &About) -> Vec<Arg> {
    let mut added = Vec::new();
    if about.arguments.iter().any(|argument| argument.kind == Kind::NewDevice) {
        added.push(sparse());
    }
    match about.name {
        "status" => added.extend([
            flag("what-if", "What other policies would have destaged (serve --what-if)"),
            format_arg(),
        ]),
        "replace" => added.push(background()),
        "nvs-resize" => added.push(format_arg()),
        "scrub" => added.extend([
            flag("check", "Only compare, and report what is wrong [default]")
                .conflicts_with("repair"),
            background(),
            format_arg(),
        ]),
        _ => {}
    }
    added
}

fn background() -> Arg {
    flag("background", "Do not wait: see `destage status`")
}

/// `destage create`.
pub fn create() -> Command {
    Command::new("create")
        .about("Create an array: superblocks on its disks and NVS, a configuration file")
        .after_help(
            "A disk or NVS is a file, a block device, or (disks) an NBD URI; PATH,size=BYTES makes \
             a file of that size. Devices that hold data are refused. Disks that may not be \
             all zeros are zeroed on levels with redundancy, which takes as long as writing them.\n\
             Level target: one disk that is an array itself (md, a RAID card): give its strip \
             and its --width in data disks; destage then orders writes for the array underneath.\n\
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
            option(
                "nvs",
                "PATH",
                "NVS device; give two to mirror them; without, writes go to the disks",
            )
            .action(ArgAction::Append),
        )
        .arg(
            option("spare", "DISK", "A disk ready to replace a failed member; repeat")
                .action(ArgAction::Append),
        )
        .arg(option("strip", "BYTES", "Strip (chunk) size per disk").default_value("64K"))
        .arg(
            option("width", "N", "With --level target: number of its data disks")
                .default_value("1")
                .value_parser(value_parser!(u64).range(1..=1024)),
        )
        .arg(
            option("group-stripes", "K", "Stripes in a write group; levels 4, 5, 6")
                .default_value("1")
                .value_parser(value_parser!(u64).range(1..=1024)),
        )
        .args(destage_args())
        .arg(accept_same_drive())
        .arg(flag("assume-clean", "Do not zero the disks: they are all zeros, or in sync"))
        .arg(sparse())
        .args(read_cache_args())
        .args(places())
}

/// When writes are durable, and how they are destaged.
fn destage_args() -> [Arg; 8] {
    let [durability, flush_bound] = durability_args();
    [
        durability.default_value("auto"),
        flush_bound.default_value("150"),
        option("policy", "POLICY", "Destage policy, see `destage policies`").default_value("stow"),
        option("rate", "RATE", "Destage rate, see `destage policies`")
            .default_value("linear:90/80"),
        option("ack", "WHEN", "When writes are durable: when answered (nvs), or at FLUSH and FUA")
            .default_value("nvs")
            .value_parser(["nvs", "flush"]),
        option(
            "max-dirty",
            "BYTES",
            "Most bytes of dirty pages, which are in memory too [default: a quarter of the \
             machine's memory, when it is served]",
        ),
        option(
            "stripe-memory",
            "BYTES",
            "Memory for old data and parity of destaged rows, on levels 4, 5 and 6 [default: 0]",
        ),
        option("on-nvs-loss", "WHAT", "What to do when the last NVS device fails")
            .default_value("write-through")
            .value_parser(["write-through", "stop"]),
    ]
}

/// How destages become durable on the members.
fn durability_args() -> [Arg; 2] {
    [
        option(
            "durability",
            "HOW",
            "How destages become durable on members with a volatile cache: FUA writes, a flush as \
             soon as one is wanted, flushes that many destages share (epochs), or none, because \
             the caches are off; auto: by what each member's cache is",
        )
        .value_parser(["auto", "fua", "flush", "epochs", "off"]),
        option(
            "flush-bound",
            "MS",
            "Longest time that a flush of a member should take, in milliseconds, because its \
             reads wait for it; for epochs",
        )
        .value_parser(value_parser!(u32).range(1..=60_000)),
    ]
}

/// `destage serve`.
pub fn serve() -> Command {
    let serve = Command::new("serve")
        .about("Serve an array over NBD until `destage stop`, SIGTERM or SIGINT")
        .after_help(
            "Recovers the NVS log first. SIGTERM ends cleanly without destaging: dirty pages \
             stay in the NVS. RUST_LOG sets the log level, e.g. info or destage=warn.\n\
             Examples:\n  destage serve tank --nbd unix:/run/tank.sock\n  \
             destage serve tank --nbd unix:/run/tank.sock --http 127.0.0.1:9090 --what-if",
        )
        .arg(name());
    serves(serve)
        .args(watch_args())
        .args(missing_args())
        .arg(
            option("ack", "WHEN", "Override the configured acknowledgement mode")
                .value_parser(["nvs", "flush"]),
        )
        .args(durability_args())
        .arg(accept_same_drive())
        .args(read_cache_args())
        .args(places())
}

/// Of commands that refuse two members in one drive.
fn accept_same_drive() -> Arg {
    flag(
        "accept-same-drive",
        "Let several members be in one drive, although they fail together: partitions, or units \
         of a drive with two actuators",
    )
}

/// What a start may be without.
fn missing_args() -> [Arg; 5] {
    [
        flag(
            "degraded",
            "Start without members and an NVS mirror that are missing or out of date, where \
             redundancy is left",
        ),
        option(
            "use-nvs",
            "PATH",
            "Use only this NVS device although it is out of date; prints what is lost",
        ),
        option(
            "use-disk",
            "PATH",
            "Use this member although it is out of date; prints what is lost",
        ),
        flag(
            "without-nvs",
            "Start without any NVS device, because all are lost for good; prints what is lost",
        )
        .conflicts_with("use-nvs"),
        flag("accept-loss", "Confirm the loss that --use-nvs, --use-disk or --without-nvs reports"),
    ]
}

/// The page, metrics, what-if, alarms, log.
fn watch_args() -> [Arg; 7] {
    [
        option("http", "ADDRESS:PORT", "Serve a page and metrics there, e.g. 127.0.0.1:9090"),
        flag("allow-remote-http", "Let other machines see the page; it has no TLS, so use a proxy")
            .requires("http"),
        option("http-name", "NAME", "A name of the page behind a proxy; repeat")
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
            "Shell command to run at each alarm; see docs/operations.md",
        ),
        option("log-format", "FORM", "Format of the log on standard error")
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
            "The server writes FILE, under a temporary name until it is complete; .zst, .gz or .xz \
             compress it. Recording ends with --time or --requests, or when you interrupt this \
             command; the file keeps what was recorded. Simulate a sample by write group \
             (--one-in) with an NVS that is smaller in proportion.\n\
             Example: destage trace record tank --out tank.dtrc.zst --time 10m",
        )
        .arg(name())
        .arg(option("out", "FILE", "The trace: .dtrc or .csv, compressed or not").required(true))
        .arg(force())
        .arg(option("time", "TIME", "How long, e.g. 30s or 10m"))
        .arg(
            option("requests", "N", "Most requests")
                .default_value("100000000")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(
            option("one-in", "N", "Only requests that begin in one of N write groups")
                .default_value("1")
                .value_parser(value_parser!(u64).range(1..=1_000_000)),
        )
        .args(places())
}

/// `destage recover`.
pub fn recover() -> Command {
    Command::new("recover")
        .about("Recover an array's NVS log without serving it, or inspect it")
        .after_help(
            "Redoes interrupted destages and destages everything, so that the disks have it all. \
             With --inspect it changes nothing.\n\
             Example: destage recover tank --inspect",
        )
        .arg(name())
        .arg(flag("inspect", "Only report what the log holds, and what is wrong with it"))
        .args(missing_args())
        .arg(format_arg())
        .args(places())
}
