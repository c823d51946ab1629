//! The command line: one table of commands, each defined in a file of its own arguments.

use crate::shared_args::option;
use clap::{Arg, Command};

/// The complete command line, with the commands of the features that this build has.
pub fn command() -> Command {
    let command = Command::new("destage")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A write cache for disk arrays: simulate destage policies, serve arrays")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(policies());
    #[cfg(feature = "plan")]
    let command = command.subcommands(crate::plan_args::commands());
    #[cfg(feature = "plan")]
    let command = command.subcommands(crate::trace_args::commands()).after_help(
        "Start with: destage compare --policies lrw,cscan,wow,stow --sweep iops=500..1200..50",
    );
    #[cfg(feature = "serve")]
    let command = command
        .subcommands([crate::array_args::create(), crate::array_args::serve()])
        .subcommands(crate::array_args::served())
        .subcommands([crate::array_args::recover(), crate::server_args::emulate()]);
    #[cfg(feature = "load")]
    let command = command.subcommand(crate::server_args::bench());
    #[cfg(feature = "torture")]
    let command = command.subcommand(crate::torture_args::command());
    command.subcommands([completions(), man()])
}

fn policies() -> Command {
    Command::new("policies")
        .about("List destage policies, rate schemes, read-cache policies and RAID levels")
        .after_help("Example: destage policies --format json")
        .arg(
            option("format", "FORMAT", "Output format; markdown prints docs/policies.md")
                .value_parser(["table", "json", "csv", "markdown"])
                .default_value("table"),
        )
}

fn completions() -> Command {
    Command::new("completions")
        .about("Print a shell completion script")
        .after_help(
            "The Debian package installs those of bash, zsh and fish.\n\
             Example: destage completions bash > /etc/bash_completion.d/destage",
        )
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(clap::value_parser!(clap_complete::Shell)),
        )
}

/// Hidden: the build of the package makes its man pages with it.
fn man() -> Command {
    Command::new("man")
        .hide(true)
        .about("Write a man page for each command into a directory")
        .after_help("Example: destage man target/man && man -l target/man/destage-serve.1")
        .arg(Arg::new("folder").value_name("DIR").required(true).help("An existing directory"))
}
