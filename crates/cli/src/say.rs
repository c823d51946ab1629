//! What a command says on standard error.

use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Where lines go while a log is written: behind its lines.
static LOG: Mutex<Option<Box<dyn Write + Send>>> = Mutex::new(None);

/// Says a line. If nobody can read it, since the disk of the log is full or its reader has ended,
/// the command continues: `eprintln!` would end a server there.
pub fn line(text: impl Display) {
    let text = format!("destage: {text}\n");
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = match &mut *log {
        Some(log) => log.write_all(text.as_bytes()),
        None => std::io::stderr().write_all(text.as_bytes()),
    };
}

/// Lines go to this log from now on, or to standard error again.
#[cfg(feature = "serve")]
pub fn to_log(log: Option<Box<dyn Write + Send>>) {
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = log;
}
