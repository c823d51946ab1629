//! The command lines of members that fail and are replaced: fail, replace, spare.

use crate::array_args::{name, places, sparse};
use crate::shared_args::flag;
use clap::{Arg, Command};

fn positional(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).required(true).help(help)
}

/// `destage fail`.
pub fn fail() -> Command {
    Command::new("fail")
        .about("Give up a member of a served array")
        .after_help(
            "Nothing more is asked of the disk, and what it holds is out of date from then on. \
             The array goes on with less redundancy; a spare is rebuilt at once if there is one. \
             A member without which data would be lost is refused.\n\
             Example: destage fail tank /dev/sdc",
        )
        .arg(name())
        .arg(positional("disk", "DISK", "As the configuration names it, or its number"))
        .args(places())
}

/// `destage replace`.
pub fn replace() -> Command {
    Command::new("replace")
        .about("Put a device into a failed member's place and rebuild it, while serving")
        .after_help(
            "The device must be empty, or a spare of the array, and as large as the members. The \
             command waits until the member is whole; the rebuild goes on if it is interrupted, \
             and over restarts. Its limits: `destage set`.\n\
             Example: destage replace tank /dev/sdc /dev/sdf",
        )
        .arg(name())
        .arg(positional("old", "OLD", "The failed member, by its name or number"))
        .arg(positional("new", "NEW", "The device; PATH,size=BYTES makes a file"))
        .arg(flag("background", "Do not wait: see `destage status`"))
        .arg(sparse())
        .args(places())
}

/// `destage spare`.
pub fn spare() -> Command {
    Command::new("spare")
        .about("Give a served array a spare, or take one away")
        .after_help(
            "A spare is rebuilt as soon as a member has failed. It must be empty and as large as \
             the members; the configuration file names it from then on.\n\
             Example: destage spare tank add /dev/sdf",
        )
        .arg(name())
        .arg(positional("what", "add|remove", "What to do").value_parser(["add", "remove"]))
        .arg(positional("device", "DISK", "The spare; with add, PATH,size=BYTES makes a file"))
        .arg(sparse())
        .args(places())
}
