//! Ebb: STOW's choice of groups, and at each disk turns between host reads and destages. A random
//! group that holds few pages waits for one more turn of the clock (docs/ebb.md).

use super::stow::Stow;
use super::{Alternation, PolicyEntry};
use crate::registry::{Choice, ChoiceError, Entry, Param};
use crate::units::Duration;
use alloc::boxed::Box;

const PARAMS: &[Param] = &[
    Param {
        name: "held",
        unit: "windows",
        default: "1",
        range: "0 to 1000",
        help: "host reads that may wait for a disk's burst of destages when destages are urgent",
    },
    Param {
        name: "longest",
        unit: "ms",
        default: "100",
        range: "0 to 100000",
        help: "longest wait of the first of these reads when destages are urgent",
    },
    Param {
        name: "keep",
        unit: "-",
        default: "on",
        range: "on or off",
        help: "hold the NVS fuller than the thresholds say while hosts use much of it again",
    },
    Param {
        name: "near",
        unit: "thousandths of the drive",
        default: "15",
        range: "0 to 1000",
        help: "mean distance below which no read is held for a burst; 1 GiB at least, 0: none",
    },
    Param {
        name: "sparse",
        unit: "-",
        default: "on",
        range: "on or off",
        help: "random groups with less than 3/4 of the mean pages wait one more turn, once",
    },
];

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "ebb",
        summary: "STOW's choice; disks destage in bursts near the head when reads ebb",
        source: "ours; docs/ebb.md",
        params: PARAMS,
    },
    make: |choice, context| {
        let alternation = Alternation {
            held: choice.number("held", 0, 1_000)?,
            longest: Duration::from_millis(choice.number("longest", 0, 100_000)?),
            near: choice.number("near", 0, 1_000)?,
            keep: on(choice, "keep")?,
        };
        Ok(Box::new(Stow::in_turns(context, alternation, on(choice, "sparse")?)))
    },
};

fn on(choice: &Choice, param: &'static str) -> Result<bool, ChoiceError> {
    match choice.text(param) {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(ChoiceError::BadValue {
            entry: choice.entry.name,
            param,
            value: other.into(),
            expected: "on or off".into(),
        }),
    }
}
