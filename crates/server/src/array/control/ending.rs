//! `flush` and `stop`: destage everything, and end the server.

use super::command::{About, Argument, Command, Context, Kind};
use super::status::status;
use crate::array::ending::Drained;
use crate::array::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often a client hears how many pages are dirty.
const REPORT: Duration = Duration::from_millis(500);

/// Destages everything.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flush {}

impl Command for Flush {
    const ABOUT: About = About {
        name: "flush",
        help: "Destage everything of a served array; returns when nothing is dirty",
        details: "Example: destage flush tank",
        arguments: &[],
        changes: true,
        http: true,
        question: "Destage everything at full depth?",
        done: "nothing is dirty",
    };
    type Reply = ();

    fn run(self, context: &mut Context<'_>) -> Result<(), Refusal> {
        drained(context)
    }
}

/// Ends the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Destage everything first.
    pub drain: bool,
    /// End even if deleted files, which only the server still has, are lost.
    #[serde(default)]
    pub force: bool,
    /// Only report whether the server would refuse.
    #[serde(default)]
    pub check: bool,
}

impl Command for Stop {
    const ABOUT: About = About {
        name: "stop",
        help: "End the server of an array",
        details: "Without --drain, dirty pages stay safe in the NVS; the next start continues with \
                  them. The server refuses to end while it has the only copy of a member or NVS \
                  device whose file was deleted: SIGTERM then says how to save it, --force loses \
                  it. --check exits with 1 and the reason if the server would refuse, and changes \
                  nothing.\n\
                  Example: destage stop tank --drain",
        arguments: &[
            Argument::option("drain", Kind::Flag, "Destage everything first"),
            Argument::option(
                "force",
                Kind::Flag,
                "End even if deleted files, which only the server has, are lost",
            ),
            Argument::option(
                "check",
                Kind::Flag,
                "Only report whether the server would refuse to end",
            ),
        ],
        changes: true,
        http: false,
        question: "",
        done: "stopped",
    };
    type Reply = ();

    fn check(&self) -> Result<(), Refusal> {
        match (self.check, self.drain, self.force) {
            (true, true, _) => Err(Refusal::Contradiction("check", "drain")),
            (true, _, true) => Err(Refusal::Contradiction("check", "force")),
            _ => Ok(()),
        }
    }

    fn run(self, context: &mut Context<'_>) -> Result<(), Refusal> {
        if self.force {
            context.array.run(|array, _| array.force_end());
        } else {
            may_end(context)?;
        }
        if self.check {
            return Ok(());
        }
        if !self.drain {
            context.ends = true;
            context.array.stop();
            return Ok(());
        }
        drained(context)?;
        if !self.force {
            may_end(context)?;
        }
        // The result is known when the server is about to end; it waits until the client has it.
        context.end_report = Some(context.end_reports.begin());
        context.ends = true;
        let (sender, result) = channel();
        context.array.run(move |array, _| array.drain_at_end(sender));
        context.array.stop();
        wait(context, &result)
    }
}

/// Refuses an end that would lose files. The devices are checked now.
fn may_end(context: &Context<'_>) -> Result<(), Refusal> {
    let watch = context.array.answer(|array, _| array.device_watch())?;
    let found = watch.look_now();
    context.array.answer(move |array, port| {
        found.iter().for_each(|found| array.trouble(port, found));
        array.check_end()
    })?
}

/// Waits until nothing is dirty, and reports how many pages are left.
fn drained(context: &mut Context<'_>) -> Result<(), Refusal> {
    let (sender, result) = channel();
    context.array.run(move |array, _| array.drain(sender));
    wait(context, &result)
}

fn wait(context: &mut Context<'_>, result: &Receiver<Drained>) -> Result<(), Refusal> {
    loop {
        match result.recv_timeout(REPORT) {
            Ok(result) => return Ok(result?),
            Err(RecvTimeoutError::Disconnected) => return Err(Refusal::Ending),
            Err(RecvTimeoutError::Timeout) => {
                (context.progress)(status(context.array)?.dirty_pages);
            }
        }
    }
}
