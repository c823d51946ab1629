//! `status`: the state of the array.

use super::command::{About, Command, Context};
use crate::array::backend::ArrayHandle;
use crate::array::refusal::Refusal;
use destage_report::live::ArrayStatus;
use serde::{Deserialize, Serialize};

/// Reports the state of the array.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {}

impl Command for Status {
    const ABOUT: About = About {
        name: "status",
        help: "Show the state of a served array: occupancy, queues, hits, latencies, devices, \
               alarms",
        details: "Example: destage status tank --format json",
        arguments: &[],
        changes: false,
        http: false,
        question: "",
        done: "",
    };
    type Reply = ArrayStatus;

    fn run(self, context: &mut Context<'_>) -> Result<ArrayStatus, Refusal> {
        status(context.array)
    }
}

pub(super) fn status(array: &ArrayHandle) -> Result<ArrayStatus, Refusal> {
    let status = array.answer(|array, port| Box::new(array.status(port)))?;
    Ok(ArrayStatus { connections: array.connections(), ..*status })
}
