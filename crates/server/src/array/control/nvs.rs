//! `replace-nvs`: a new NVS device.

use super::command::{About, Argument, Command, Context, Kind};
use crate::array::backend::nvs;
use crate::array::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// Adds an NVS device, in place of a failed one, of a named one, or as the first mirror.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceNvs {
    /// The device to replace; `None`: the one that is not in use.
    #[serde(default)]
    pub old: Option<String>,
    /// The new device.
    pub new: String,
}

impl Command for ReplaceNvs {
    const ABOUT: About = About {
        name: "replace-nvs",
        help: "Add an NVS device to a served array: in place of a failed one, or as its mirror",
        details: "The server copies the log while it serves. The command waits until the new \
                  device is in sync. The device must be empty and large enough for the log. With \
                  --old the server first gives up a device that is still in use.\n\
                  Example: destage replace-nvs tank /dev/nvme1n1p4",
        arguments: &[
            Argument::required(
                "new",
                Kind::NewDevice,
                "The new device; PATH,size=BYTES makes a file",
            ),
            Argument::option(
                "old",
                Kind::Device,
                "The device to replace [default: the one that is not in use]",
            ),
        ],
        changes: true,
        http: true,
        question: "Copy the NVS log to a new device? It must be empty.",
        done: "the log is being copied to {new}: see `destage status`",
    };
    type Reply = ();

    fn run(self, context: &mut Context<'_>) -> Result<(), Refusal> {
        nvs::replace(context.array, self.old.as_deref(), &self.new)
    }
}
