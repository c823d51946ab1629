//! The commands of a served array: one list, from which the command line, the control socket, HTTP
//! and the page are made. To add a command, write a file here and add it to [`COMMANDS`].

mod client;
mod command;
mod end_reports;
mod ending;
mod members;
mod monitoring;
mod nvs;
mod scrub;
mod set;
mod socket;
mod status;

pub use client::{AskError, Asked, ask, ask_to_end, ask_value};
pub use command::{About, Argument, Command, Entry, Kind, Monitoring, Recording};
pub use ending::{Flush, Stop};
pub use members::{Fail, Replace, Spare, SpareChange};
pub use monitoring::{Record, WhatIf};
pub use nvs::{NvsReplace, NvsResize};
pub use scrub::Scrub;
pub use set::Set;
pub use socket::{Control, check_client, listen, wait_until_free};
pub use status::Status;

use super::refusal::Refusal;
use command::Parsed;
use serde_json::{Map, Value};

/// All commands, in the order in which the help lists them.
pub const COMMANDS: &[Entry] = &[
    Entry::of::<Status>(),
    Entry::of::<Flush>(),
    Entry::of::<Stop>(),
    Entry::of::<Set>(),
    Entry::of::<Scrub>(),
    Entry::of::<Fail>(),
    Entry::of::<Replace>(),
    Entry::of::<Spare>(),
    Entry::of::<NvsReplace>(),
    Entry::of::<NvsResize>(),
    Entry::of::<WhatIf>(),
    Entry::of::<Record>(),
];

/// The command of this name.
pub fn command(name: &str) -> Option<&'static Entry> {
    COMMANDS.iter().find(|entry| entry.about.name == name)
}

/// A request of the control socket: the name of the command, and its arguments.
fn parse(request: Value) -> Result<Parsed, Refusal> {
    let Value::Object(mut arguments) = request else {
        return Err(Refusal::Malformed("send a JSON object".to_string()));
    };
    let name = arguments.remove("command");
    let entry = name.as_ref().and_then(Value::as_str).and_then(command);
    let Some(entry) = entry else {
        let names: Vec<&str> = COMMANDS.iter().map(|entry| entry.about.name).collect();
        let text = format!("invalid: `command` must be one of {}", names.join(", "));
        return Err(Refusal::Malformed(text));
    };
    entry.parse(Value::Object(arguments))
}

/// Checks a request without carrying it out. A key that is not an argument is refused, because what
/// it meant would not be done.
///
/// # Errors
/// If it does not make sense.
pub fn check(entry: &Entry, arguments: Map<String, Value>) -> Result<(), Refusal> {
    entry.parse(Value::Object(arguments)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_refuses_arguments_that_it_does_not_have() {
        for Entry { about, .. } in COMMANDS {
            let refused = parse(serde_json::json!({ "command": about.name, "no-such": 1 }));
            let why = refused.err().expect("refused").to_string();
            assert!(why.contains("unknown field `no-such`"), "{}: {why}", about.name);
        }
    }
}
