//! DiskSim 4 parameter files (`.model`, `.seek`, `.diskspecs`) to a [`crate::DiskSpec`].
//!
//! [`parse`] knows the syntax, [`convert`] what the parameters mean.

mod convert;
mod parse;

pub use convert::{Sources, convert};
pub use parse::{Block, Entry, Value, parse};

/// A file's name, for messages, and its text.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Name as the user gave it.
    pub file: &'a str,
    /// Contents.
    pub text: &'a str,
}

/// What is wrong with a DiskSim file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ConvertError {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, in one line.
    pub message: String,
}
