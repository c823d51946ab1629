//! `scrub`: compare all rows.

use super::command::{About, Argument, Command, Context, Kind};
use crate::array::refusal::Refusal;
use crate::array::scrub::{SCRUB_LIMIT, SCRUB_LIMIT_MIN};
use destage_block::Driver;
use serde::{Deserialize, Serialize};

/// Begins a scrub, or ends the running one.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scrub {
    /// Repair inconsistent rows.
    #[serde(default)]
    pub repair: bool,
    /// Bytes of the members read per second, at most; `None`: the default.
    pub limit: Option<u64>,
    /// End the running scrub.
    #[serde(default)]
    pub stop: bool,
}

impl Command for Scrub {
    const ABOUT: About = About {
        name: "scrub",
        help: "Compare all rows of a served array: parity with data, copies with each other",
        details: "Reads all members while the array serves; host reads have priority. Without \
                  --repair it rewrites only pages that a member cannot read. With --repair it also \
                  repairs inconsistent rows: on level 10 from the first copy; on levels 4 and 5 by \
                  computing parity from the data; on level 6 a single corrupt strip is identified \
                  from P and Q and repaired, otherwise P and Q are recomputed. The command waits. \
                  If you interrupt it, the scrub continues. Exit code 1: inconsistent rows are \
                  left, or not all rows were compared.\n\
                  Example: destage scrub tank --repair --limit 200M",
        arguments: &[
            Argument::option("repair", Kind::Flag, "Repair inconsistent rows"),
            Argument::option(
                "limit",
                Kind::Bytes(Some("100M")),
                "Most bytes read per second from all members together",
            ),
            Argument::option("stop", Kind::Flag, "End the running scrub"),
        ],
        changes: true,
        http: true,
        question: "Read all disks and compare all rows?",
        done: "the scrub is running: see `destage status`",
    };
    type Reply = ();

    fn check(&self) -> Result<(), Refusal> {
        match self.limit {
            _ if self.stop && self.repair => Err(Refusal::Contradiction("stop", "repair")),
            Some(limit) if limit < SCRUB_LIMIT_MIN => Err(Refusal::ScrubLimit(SCRUB_LIMIT_MIN)),
            _ => Ok(()),
        }
    }

    fn run(self, context: &mut Context<'_>) -> Result<(), Refusal> {
        let limit = self.limit.unwrap_or(SCRUB_LIMIT);
        context.array.answer(move |array, port| match self.stop {
            true => array.stop_scrub(port.now()),
            false => array.start_scrub(port.now(), self.repair, limit),
        })?
    }
}
