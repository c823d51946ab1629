//! The other side of the control socket: commands for the server of an array.

use super::command::Command;
use super::ending::Stop;
use super::socket::Line;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Why a command was not done.
#[derive(Debug, Error)]
pub enum AskError {
    /// No server of the array of this name runs.
    #[error("{0} is not being served: start it with `destage serve {0} ...`")]
    NotServed(String),
    /// The control socket cannot be used.
    #[error("{0}: {why}", why = socket_words(.1))]
    Socket(PathBuf, std::io::Error),
    /// The server ended before it answered.
    #[error("{0}: the server ended before it answered")]
    Ended(String),
    /// The server ended before it had destaged everything.
    #[error(
        "{0}: the server ended before it had destaged everything. Dirty pages are still in the \
         NVS: see `destage recover {0} --inspect`"
    )]
    EndedDirty(String),
    /// The answer is not one of this command.
    #[error("the server's answer is invalid: {0}")]
    Answer(String),
    /// The array refuses, or it failed.
    #[error("{0}")]
    Refused(String),
}

/// What the system says of a control socket, and what to do about it.
fn socket_words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "cannot connect to the control socket: {error}. Run the command as the user who \
             serves the array"
        ),
        _ => error.to_string(),
    }
}

/// An answer, and the connection that it came on.
pub struct Asked {
    /// The reply of the command.
    pub reply: Value,
    stream: UnixStream,
}

/// Gives a command to the server of an array. `progress` gets dirty pages left, or requests
/// recorded.
pub fn ask<C: Command>(
    socket: &Path,
    array: &str,
    command: &C,
    progress: impl FnMut(u64),
) -> Result<C::Reply, AskError> {
    let reply = ask_value(socket, array, C::ABOUT.name, arguments(command)?, progress)?.reply;
    serde_json::from_value(reply).map_err(|error| AskError::Answer(error.to_string()))
}

fn arguments<C: Command>(command: &C) -> Result<Map<String, Value>, AskError> {
    match serde_json::to_value(command) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        other => Err(AskError::Answer(format!("{other:?} is not a request"))),
    }
}

/// Has a server end, and waits until it has; false: it has not within this time. `progress` gets
/// dirty pages left.
pub fn ask_to_end(
    socket: &Path,
    array: &str,
    stop: &Stop,
    most: Duration,
    progress: impl FnMut(u64),
) -> Result<bool, AskError> {
    let asked = match ask_value(socket, array, Stop::ABOUT.name, arguments(stop)?, progress) {
        // The server is gone, as requested.
        Err(AskError::Ended(_)) if !stop.drain => return Ok(true),
        Err(AskError::Ended(name)) => return Err(AskError::EndedDirty(name)),
        asked => asked?,
    };
    let mut stream = asked.stream;
    let fail = |error| AskError::Socket(socket.to_path_buf(), error);
    stream.set_read_timeout(Some(most)).map_err(fail)?;
    // The connection ends with the process, and so do its locks on the devices.
    Ok(!matches!(stream.read(&mut [0]), Err(error)
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)))
}

/// Gives a command by its name and arguments.
pub fn ask_value(
    socket: &Path,
    array: &str,
    command: &str,
    mut arguments: Map<String, Value>,
    mut progress: impl FnMut(u64),
) -> Result<Asked, AskError> {
    let fail = |error| AskError::Socket(socket.to_path_buf(), error);
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            AskError::NotServed(array.to_string())
        }
        _ => fail(error),
    })?;
    arguments.insert("command".to_string(), Value::from(command));
    stream.write_all(format!("{}\n", Value::Object(arguments)).as_bytes()).map_err(fail)?;
    let input = stream.try_clone().map_err(fail)?;
    for line in BufReader::new(input).lines() {
        let line = line.map_err(fail)?;
        match serde_json::from_str(&line).map_err(|error| AskError::Answer(error.to_string()))? {
            Line::Progress(count) => progress(count),
            Line::Reply(reply) => return Ok(Asked { reply, stream }),
            Line::Error(text) => return Err(AskError::Refused(text)),
        }
    }
    Err(AskError::Ended(array.to_string()))
}
