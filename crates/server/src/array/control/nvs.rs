//! `nvs replace` and `nvs resize`: a new NVS device, and a log with other sizes.

use super::command::{About, Argument, Command, Context, Kind};
use crate::array::backend::nvs::{self, Resized};
use crate::array::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// Adds an NVS device, in place of a failed one, of a named one, as the first mirror, or as the
/// first one of an array that has none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvsReplace {
    /// The device to replace; `None`: the one that is not in use.
    #[serde(default)]
    pub old: Option<String>,
    /// The new device.
    pub new: String,
}

impl Command for NvsReplace {
    const ABOUT: About = About {
        name: "nvs-replace",
        help: "Add an NVS device to a served array: in place of a failed one, as a mirror, or as \
               the first one",
        details: "The server copies the log while it serves. The command waits until the new \
                  device is in sync. The device must be empty and large enough for the log. With \
                  --old the server first gives up a device that is still in use. If no NVS device \
                  is in use, the new one gets an empty log, as large as the device: the server \
                  destages what is dirty, and requests then wait for a moment.\n\
                  Example: destage nvs replace tank /dev/nvme1n1p4",
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
        nvs::replace(context.array, self.old.as_deref(), &self.new, context.progress)
    }
}

/// Gives the NVS devices in use a log with other sizes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvsResize {
    /// Bytes of each device to use; `None`: all.
    #[serde(default)]
    pub size: Option<u64>,
}

impl Command for NvsResize {
    const ABOUT: About = About {
        name: "nvs-resize",
        help: "Use more or less of the NVS devices of a served array",
        details: "Without --size the server uses all of each device, e.g. after a partition has \
                  grown. With --size it makes a file longer or shorter; of a block device it uses \
                  this much. Of two devices the smaller one counts. The server first destages all \
                  dirty pages while it serves, which takes their number divided by the rate at \
                  which they are destaged. Then requests wait for a moment, and none fails. If you \
                  interrupt the command, the change continues.\n\
                  Example: destage nvs resize tank --size 4G",
        arguments: &[Argument::option(
            "size",
            Kind::Bytes(None),
            "Bytes of each device to use, e.g. 4G [default: all]",
        )],
        changes: true,
        http: true,
        question: "Destage everything, and use another size of the NVS devices?",
        done: "the NVS has another size",
    };
    type Reply = Resized;

    fn run(self, context: &mut Context<'_>) -> Result<Resized, Refusal> {
        nvs::resize(context.array, self.size, context.progress)
    }
}
