//! The command lines of `emulate` and `bench`.

use super::args::format_arg;
use clap::{Arg, ArgAction, Command, value_parser};

pub fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// Where a server listens, and TLS.
pub fn listen_args() -> [Arg; 7] {
    [
        option("nbd", "ADDRESS", "Listen there: unix:PATH or tcp:ADDRESS:PORT; may be repeated")
            .required(true)
            .action(ArgAction::Append),
        option("tls-cert", "FILE", "Certificate chain (PEM): TCP clients must use TLS")
            .requires("tls-key"),
        option("tls-key", "FILE", "Its private key (PEM)").requires("tls-cert"),
        option("tls-client-ca", "FILE", "Only clients with a certificate signed by this CA (PEM)")
            .requires("tls-cert"),
        flag("tls-required", "Clients of Unix sockets must use TLS too").requires("tls-cert"),
        flag("allow-plain-tcp", "Listen without TLS where other machines can connect"),
        option("busy-poll", "US", "Microseconds to look for work before sleeping; 0: never")
            .long_help(
                "Where requests come within so many microseconds of each other, the data thread \
                 looks for the next one that long before it sleeps, which saves the time to wake \
                 it and costs a busy processor meanwhile; 0: never [default: 20, 0 with one \
                 processor]",
            )
            .value_parser(value_parser!(u64).range(0..=1_000_000)),
    ]
}

/// `destage emulate`.
pub fn emulate() -> Command {
    Command::new("emulate")
        .about("Serve a modelled disk in real time over NBD")
        .after_help(
            "Every request is answered when the model says that the drive would be done. `ram` is \
             no drive: memory that answers at once. Ends on SIGINT or SIGTERM.\n\
             Example: destage emulate stow-ref --size 16G --nbd unix:/tmp/disk0.sock",
        )
        .arg(Arg::new("spec").value_name("SPEC").required(true).help("A disk, .toml file, or ram"))
        .arg(option("size", "BYTES", "Bytes served, as 512M or 64G [default: all; ram: 1G]"))
        .args(listen_args())
        .arg(
            option("speed", "K", "Virtual seconds in a real one")
                .default_value("1")
                .value_parser(value_parser!(f64)),
        )
        .arg(option("file", "PATH", "Keep the contents in this file in place of memory"))
}

/// `destage bench`.
pub fn bench() -> Command {
    let number = |name, default, help| {
        option(name, "N", help).default_value(default).value_parser(value_parser!(u64))
    };
    Command::new("bench")
        .about("Load an NBD server: IOPS, latencies, what is lost when it dies")
        .after_help(
            "Examples:\n  \
             destage bench 'nbd+unix:///?socket=/tmp/disk0.sock' --rw randwrite --depth 32\n  \
             destage bench nbd://127.0.0.1/ --log acked.log    # kill the server meanwhile\n  \
             destage bench nbd://127.0.0.1/ --check acked.log  # which writes are lost?\n\
             With --rate, latency counts from when a request was due.",
        )
        .arg(Arg::new("uri").value_name("URI").required(true).help("nbd://... or nbd+unix://..."))
        .arg(option("rw", "LOAD", "What to do").default_value("randwrite").value_parser([
            "randwrite",
            "randread",
            "randrw",
            "write",
            "read",
        ]))
        .arg(option("bs", "BYTES", "Bytes of a request").default_value("4K"))
        .arg(number("depth", "32", "Requests under way on each connection"))
        .arg(number("connections", "1", "Connections"))
        .arg(option("time", "TIME", "How long, as 10s or 2m").default_value("10s"))
        .arg(option("size", "BYTES", "Stay within the first bytes [default: all]"))
        .arg(number("fsync-every", "0", "A FLUSH after so many writes; 0 for none"))
        .arg(flag("fua", "Writes are to be durable when they are answered"))
        .arg(
            option("rate", "N", "Requests a second over all connections, whatever the answers")
                .value_parser(value_parser!(f64)),
        )
        .arg(flag("verify", "Stamp what is written and check what is read, and all at the end"))
        .arg(option("log", "FILE", "Record what was acknowledged, for --check; stamps blocks"))
        .arg(option("check", "FILE", "Read what FILE says was acknowledged; 1 if any is lost"))
        .arg(number("seed", "1", "Seed of the addresses"))
        .arg(
            option("server-pid", "PID", "Report that process's CPU time a request")
                .value_parser(value_parser!(u32)),
        )
        .arg(format_arg())
}
