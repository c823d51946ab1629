//! What a command of a served array is: its name, help and arguments, what it asks and answers.
//! [`COMMANDS`](super::COMMANDS) lists them all.

use super::end_reports::{EndReport, EndReports};
use crate::array::backend::ArrayHandle;
use crate::array::refusal::{RecordingError, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::PathBuf;

/// What people and programs see of a command. The command line, the control socket, HTTP, the
/// page, completions and man pages are all made from it.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// What else the help says, with an example.
    pub details: &'static str,
    /// Its arguments, each a field of the request.
    pub arguments: &'static [Argument],
    /// It changes the array, or ends its server.
    pub changes: bool,
    /// It can be given over HTTP.
    pub http: bool,
    /// What the page asks before it gives the command. `{NAME}` stands for an argument.
    pub question: &'static str,
    /// What the command line prints when it is done. `{NAME}` stands for an argument.
    pub done: &'static str,
}

/// An argument of a command.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name, also that of the field in the request.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Whether it must be given. The command line then takes it without `--NAME`, in its order.
    pub required: bool,
    /// What it is for, in one line.
    pub help: &'static str,
}

impl Argument {
    /// An argument that must be given.
    #[must_use]
    pub const fn required(name: &'static str, kind: Kind, help: &'static str) -> Argument {
        Argument { name, kind, required: true, help }
    }

    /// An argument that may be left out.
    #[must_use]
    pub const fn option(name: &'static str, kind: Kind, help: &'static str) -> Argument {
        Argument { name, kind, required: false, help }
    }
}

/// What an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A member: its path or URI in the configuration, or its number.
    Member,
    /// A new device; the command line can make it as a file.
    NewDevice,
    /// A device that the configuration names.
    Device,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text, called this in the help.
    Text(&'static str),
    /// A number of bytes, with this default if there is one.
    Bytes(Option<&'static str>),
    /// Yes, if it is given. Always an option.
    Flag,
}

/// A command: its value is a request, with its arguments.
pub trait Command: Serialize + DeserializeOwned + Send + 'static {
    /// What people and programs see of it.
    const ABOUT: About;
    /// What it answers.
    type Reply: Serialize + DeserializeOwned;

    /// Whether the request as such makes sense.
    ///
    /// # Errors
    /// If it does not.
    fn check(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Does it, on a thread of the control socket.
    ///
    /// # Errors
    /// If the array refuses, or it fails.
    fn run(self, context: &mut Context<'_>) -> Result<Self::Reply, Refusal>;
}

/// What a command has to work with.
pub struct Context<'a> {
    /// The array.
    pub(super) array: &'a ArrayHandle,
    /// What is answered without the data thread.
    pub(super) monitor: &'a dyn Monitoring,
    /// Reports progress to the client; false if the client has disconnected.
    pub(super) progress: &'a mut dyn FnMut(u64) -> bool,
    /// The clients that wait for the result of the server's end.
    pub(super) end_reports: &'a EndReports,
    /// The server waits with its end until this client has its answer.
    pub(super) end_report: Option<EndReport>,
    /// The server ends, and the connection lasts until it has.
    pub(super) ends: bool,
}

/// What a monitor of the array answers.
pub trait Monitoring: Send + Sync {
    /// What other policies would have done; `None`: the server follows none.
    fn what_if(&self) -> Option<Value>;

    /// Records requests. `progress` gets their number, and returns whether to continue.
    fn record(
        &self,
        recording: &Recording,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Value, RecordingError>;
}

/// What to record, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The file, by its absolute path.
    pub out: PathBuf,
    /// For this long at most.
    pub time: Option<std::time::Duration>,
    /// This many requests at most.
    pub requests: u64,
    /// Only one in this many write groups, chosen by its number.
    pub one_in: u64,
}

/// A command in the table.
pub struct Entry {
    /// What people and programs see of it.
    pub about: About,
    parse: fn(Value) -> Result<Parsed, Refusal>,
}

type Work = dyn FnOnce(&mut Context<'_>) -> Result<Value, Refusal> + Send;

/// A request that is understood.
pub(super) struct Parsed(Box<Work>);

impl Entry {
    pub(super) const fn of<C: Command>() -> Entry {
        Entry { about: C::ABOUT, parse: parse::<C> }
    }

    pub(super) fn parse(&self, arguments: Value) -> Result<Parsed, Refusal> {
        (self.parse)(arguments)
    }
}

impl Parsed {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Value, Refusal> {
        (self.0)(context)
    }
}

fn parse<C: Command>(arguments: Value) -> Result<Parsed, Refusal> {
    let malformed = |error: serde_json::Error| Refusal::Malformed(format!("invalid: {error}"));
    let command: C = serde_json::from_value(arguments).map_err(malformed)?;
    command.check()?;
    Ok(Parsed(Box::new(move |context| {
        serde_json::to_value(command.run(context)?).map_err(malformed)
    })))
}
