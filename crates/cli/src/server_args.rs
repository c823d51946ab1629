//! The command lines of `emulate` and `bench`.

#![cfg_attr(not(feature = "load"), allow(dead_code))]

use crate::shared_args::{flag, format_arg, option};
use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};
use destage_server::FrontEnd;

/// A command that serves: where it listens, for each front end; TLS, and limits of its clients.
pub fn serves(command: Command) -> Command {
    let entries = || FrontEnd::ALL.iter().map(|front_end| front_end.entry());
    let listen = entries().map(|entry| {
        let help = format!("Listen for {}: {}; may be repeated", entry.summary, entry.listen);
        Arg::new(entry.name)
            .long(entry.name)
            .value_name("ADDRESS")
            .help(help)
            .action(ArgAction::Append)
    });
    let one = ArgGroup::new("listen").args(entries().map(|entry| entry.name));
    command.args(listen).group(one.required(true).multiple(true)).args(listen_args())
}

/// TLS, and what bounds the clients of a server.
fn listen_args() -> [Arg; 9] {
    [
        option("tls-cert", "FILE", "Certificate chain (PEM): TCP clients must use TLS")
            .requires("tls-key"),
        option("tls-key", "FILE", "Its private key (PEM)").requires("tls-cert"),
        option("tls-client-ca", "FILE", "Only clients with a certificate signed by this CA (PEM)")
            .requires("tls-cert"),
        flag("tls-required", "Clients of Unix sockets must use TLS too").requires("tls-cert"),
        flag("allow-plain-tcp", "Listen without TLS where other machines can connect"),
        option("busy-poll", "US", "Microseconds to look for work before sleeping; 0: never")
            .long_help(
                "Before the data thread sleeps, it looks for new requests for up to this many \
                 microseconds, if requests come that close together. This saves the time to wake \
                 the thread and keeps a processor busy in that time; 0: never [default: 20, 0 \
                 with one processor]",
            )
            .value_parser(value_parser!(u64).range(0..=1_000_000)),
        option("connections", "N", "Most connections; unused ones give way [default: 256]")
            .value_parser(value_parser!(u64).range(1..=8192)),
        option(
            "reply-memory",
            "BYTES",
            "Memory for requests and replies of all clients, e.g. 64M [default: 128M]",
        )
        .long_help(
            "Memory for requests in flight and replies not sent yet, of all clients together \
             [default: 128M]. When it is reached, only clients that take their replies are \
             served: the others have half of it at most, and the server disconnects one that \
             takes nothing for --reply-timeout. One request may go over it.",
        ),
        option(
            "reply-timeout",
            "TIME",
            "Disconnect clients that take no reply, or send nothing of a WRITE, for this long \
             while --reply-memory is reached [default: 60s]",
        ),
    ]
}

/// `destage emulate`.
pub fn emulate() -> Command {
    let emulate = Command::new("emulate")
        .about("Serve a modelled disk in real time over NBD")
        .after_help(
            "Every request is answered when the model says that the drive would be done. `ram` is \
             no drive: memory that answers at once. Ends on SIGINT or SIGTERM.\n\
             Example: destage emulate stow-ref --size 16G --nbd unix:/tmp/disk0.sock",
        )
        .arg(Arg::new("spec").value_name("SPEC").required(true).help("A disk, .toml file, or ram"))
        .arg(option("size", "BYTES", "Bytes served, e.g. 512M or 64G [default: all; ram: 1G]"));
    serves(emulate)
        .arg(
            option("speed", "K", "Virtual seconds in a real one")
                .default_value("1")
                .value_parser(value_parser!(f64)),
        )
        .arg(option("file", "PATH", "Keep the contents in this file in place of memory"))
        .arg(flag(
            "power-cut",
            "End as in a power failure: --file loses what the write cache holds. Needs --file",
        ))
}

/// `destage bench`.
pub fn bench() -> Command {
    Command::new("bench")
        .about("Load an NBD server: IOPS, latencies, what is lost when it dies")
        .after_help(BENCH_HELP)
        .arg(Arg::new("uri").value_name("URI").required(true).help("nbd://... or nbd+unix://..."))
        .args(bench_requests())
        .args(bench_trace().map(|arg| arg.help_heading("Traces").requires("trace")))
        .args(bench_pace().map(|arg| arg.help_heading("When")))
        .args(bench_contents().map(|arg| arg.help_heading("Contents")))
        .args(bench_results().map(|arg| arg.help_heading("Results")))
}

const BENCH_HELP: &str = "\
Examples:
  destage bench 'nbd+unix:///?socket=/tmp/disk0.sock' --rw randwrite --depth 32
  destage bench nbd://127.0.0.1/ --rw randread --iops 2000 --arrivals poisson --warmup 10s
  destage bench nbd://127.0.0.1/ --workload spc1:iops=700 --time 5m --interval 1s --hdr spc1.hgrm
  destage bench nbd://127.0.0.1/ --workload 'mix:0.7*zipf+0.3*sequential(pages=16)' --closed
  destage bench nbd://127.0.0.1/ --trace vm.vscsi.gz --speed 10 --wrap on --verify
  destage bench nbd://127.0.0.1/ --log acked.log    # kill the server while it runs
  destage bench nbd://127.0.0.1/ --check acked.log  # which writes are lost?

What is asked comes from --rw, from a generator (--workload, see `destage trace workloads`) \
over the whole export, or from a trace (--trace). When it is asked: --rw keeps --depth requests \
in flight on each connection (a closed loop); a workload and a trace keep their own times (an \
open loop, if they have times); --iops and --closed make either of any. In an open loop a \
request's latency counts from when it was due, however late a slow server let it begin, and \
requests that were due but never issued before the end of the time are reported.

Exit code 1 if the server died or stalled, a request failed, or contents are wrong.";

fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    option(name, "N", help).default_value(default).value_parser(value_parser!(u64))
}

/// What is asked.
fn bench_requests() -> [Arg; 8] {
    [
        option("rw", "LOAD", "What to do").default_value("randwrite").value_parser([
            "randwrite",
            "randread",
            "randrw",
            "write",
            "read",
        ]),
        option("bs", "BYTES", "Bytes of a request of --rw").default_value("4K"),
        option("workload", "SPEC", "Requests of a generator, e.g. spc1:iops=700 or uniform:iops=0")
            .conflicts_with_all(["rw", "bs"]),
        option("trace", "FILE", "Requests of a trace; gzip, zstd, xz or plain")
            .conflicts_with_all(["rw", "bs", "workload"]),
        number("depth", "32", "Requests in flight on each connection, at most"),
        number("connections", "1", "Connections"),
        option("size", "BYTES", "Stay within the first bytes [default: all]"),
        number("seed", "1", "Seed of addresses and times"),
    ]
}

/// How a trace is read.
fn bench_trace() -> [Arg; 7] {
    [
        option("trace-format", "NAME", "Its format, if it should not be detected"),
        option("trace-columns", "LIST", "Its columns, see `destage trace info --help`"),
        option("trace-order", "HOW", "Times out of order: auto, check, lift, skip, sort"),
        option("trace-device", "N", "Only this device; else all, one after another"),
        option("wrap", "on|off", "Fold requests beyond the export back into it; off: refuse them"),
        option("skip-bad", "on|off", "Count malformed lines and continue"),
        option("speed", "K", "Speed up recorded times by this factor [default: 1]")
            .value_parser(value_parser!(f64))
            .conflicts_with_all(["closed", "iops"]),
    ]
}

/// When it is asked.
fn bench_pace() -> [Arg; 6] {
    [
        option("time", "TIME", "How long, e.g. 10s or 2m [default: 10s; a trace: all of it]"),
        option("warmup", "TIME", "Warm-up time, excluded from the results"),
        option("iops", "N", "Open loop: requests per second over all connections")
            .value_parser(value_parser!(f64)),
        option("arrivals", "HOW", "How requests of --iops follow each other")
            .value_parser(["even", "poisson"])
            .default_value("even"),
        flag("closed", "Closed loop: --depth in flight on each connection, as fast as possible")
            .conflicts_with("iops"),
        option("timeout", "TIME", "Give up if the server sends nothing for this long")
            .default_value("60s"),
    ]
}

/// What is written and what must be there.
fn bench_contents() -> [Arg; 5] {
    [
        flag("verify", "Stamp what is written and check what is read, and all at the end"),
        option("log", "FILE", "Record what was acknowledged, for --check; stamps blocks"),
        option("check", "FILE", "Read what FILE says was acknowledged; 1 if any is lost"),
        number("fsync-every", "0", "Send a FLUSH every N writes; 0: never"),
        flag("fua", "Writes are to be durable when they are answered"),
    ]
}

/// What is reported.
fn bench_results() -> [Arg; 4] {
    [
        format_arg(),
        option("interval", "TIME", "Print statistics at this interval (stderr and JSON)"),
        option(
            "hdr",
            "FILE",
            "Latencies for HdrHistogram plotters: FILE as NAME.read.EXT and so on",
        ),
        option("server-pid", "PID", "Report that process's CPU time per request")
            .value_parser(value_parser!(u32)),
    ]
}
