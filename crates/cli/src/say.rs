//! What a command says on standard error.

use std::fmt::Display;
use std::io::Write;

/// Says a line. If nobody can read it, since the disk of the log is full or its reader has ended,
/// the command continues: `eprintln!` would end a server there.
pub fn line(text: impl Display) {
    let _ = std::io::stderr().write_all(format!("destage: {text}\n").as_bytes());
}
