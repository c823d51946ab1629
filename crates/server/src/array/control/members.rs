//! `fail`, `replace`, `spare`: members that fail, and devices that replace them.

use super::command::{About, Argument, Command, Context, Kind};
use crate::array::backend::members;
use crate::array::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// Gives up a member.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// The member.
    pub disk: String,
}

impl Command for Fail {
    const ABOUT: About = About {
        name: "fail",
        help: "Give up a member of a served array",
        details: "The server stops using the disk, and what it holds is out of date from then on. \
                  The array continues with less redundancy; if there is a spare, it is rebuilt at \
                  once. The server refuses to give up a member without which data would be lost.\n\
                  Example: destage fail tank /dev/sdc",
        arguments: &[Argument::required(
            "disk",
            Kind::Member,
            "The member: its path in the configuration, or its number",
        )],
        changes: true,
        http: true,
        question: "Give up {disk}? The array continues with less redundancy, and what the disk \
                   holds is out of date from then on.",
        done: "{disk} is given up; `destage status` shows whether a spare is being rebuilt",
    };
    type Reply = ();

    fn run(self, context: &mut Context<'_>) -> Result<(), Refusal> {
        context.array.answer(move |array, _| array.fail_member(&self.disk))?
    }
}

/// Replaces a failed member.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// The failed member.
    pub old: String,
    /// The new device.
    pub new: String,
}

impl Command for Replace {
    const ABOUT: About = About {
        name: "replace",
        help: "Replace a failed member with a new device and rebuild it, while serving",
        details: "The device must be empty, or a spare of the array, and as large as the members. \
                  The command waits until the rebuild is complete. If you interrupt the command, \
                  the rebuild continues, also after a restart of the server. `destage set` limits \
                  its speed.\n\
                  Example: destage replace tank /dev/sdc /dev/sdf",
        arguments: &[
            Argument::required(
                "old",
                Kind::Member,
                "The failed member: its path in the configuration, or its number",
            ),
            Argument::required(
                "new",
                Kind::NewDevice,
                "The new device; PATH,size=BYTES makes a file",
            ),
        ],
        changes: true,
        http: true,
        question: "Rebuild {old} on a new device, which must be empty?",
        done: "{new} is being rebuilt: see `destage status`",
    };
    type Reply = ();

    fn run(self, context: &mut Context<'_>) -> Result<(), Refusal> {
        members::replace(context.array, &self.old, &self.new)
    }
}

/// Adds or removes a spare.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// Which of them.
    pub what: SpareChange,
    /// The device.
    pub device: String,
}

/// What happens to a spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpareChange {
    /// It is added.
    Add,
    /// It is removed.
    Remove,
}

impl Command for Spare {
    const ABOUT: About = About {
        name: "spare",
        help: "Add a spare to a served array, or remove one",
        details: "When a member fails, a spare replaces it at once and is rebuilt. A spare must be \
                  empty and as large as the members. The configuration file names it from then \
                  on.\n\
                  Example: destage spare tank add /dev/sdf",
        arguments: &[
            Argument::required("what", Kind::Choice(&["add", "remove"]), "What to do"),
            Argument::required(
                "device",
                Kind::NewDevice,
                "The spare; with add, PATH,size=BYTES makes a file",
            ),
        ],
        changes: true,
        http: true,
        question: "Spare {device}: {what}?",
        done: "spare {device}: {what} done",
    };
    type Reply = ();

    fn run(self, context: &mut Context<'_>) -> Result<(), Refusal> {
        match self.what {
            SpareChange::Add => members::add_spare(context.array, &self.device),
            SpareChange::Remove => members::remove_spare(context.array, &self.device),
        }
    }
}
