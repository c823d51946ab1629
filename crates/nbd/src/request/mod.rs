//! Requests of the transmission phase: their types, what is refused, and the server's decoder.

mod decoder;
mod rules;

pub use decoder::{Decoder, Reason, Step};
pub(crate) use rules::{Header, Rules};

use crate::session::ContextSet;
use crate::wire;

/// A client's command. Offsets and lengths are bytes, inside the export and not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub enum Command {
    /// `dont_fragment`: at most one content chunk in the reply (`NBD_CMD_FLAG_DF`).
    Read { offset: u64, length: u32, dont_fragment: bool },
    /// Its payload follows, as [`Step::Payload`].
    Write { offset: u64, length: u32, fua: bool },
    /// All writes replied to before are to be durable.
    Flush,
    /// The contents are no longer needed.
    Trim { offset: u64, length: u64, fua: bool },
    /// Will be read soon.
    Cache { offset: u64, length: u64 },
    /// `fast_zero`: fail with `NBD_ENOTSUP` unless faster than writing.
    WriteZeroes { offset: u64, length: u64, fua: bool, no_hole: bool, fast_zero: bool },
    /// `one`: at most one extent a context; `contexts`: those to report on.
    BlockStatus { offset: u64, length: u64, one: bool, contexts: ContextSet },
}

/// A command, and the number that its replies carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The client's own number for it.
    pub cookie: u64,
    /// What to do.
    pub command: Command,
}

impl Command {
    /// First byte; 0 for FLUSH. Extended replies repeat it.
    pub fn offset(&self) -> u64 {
        match *self {
            Command::Read { offset, .. }
            | Command::Write { offset, .. }
            | Command::Trim { offset, .. }
            | Command::Cache { offset, .. }
            | Command::WriteZeroes { offset, .. }
            | Command::BlockStatus { offset, .. } => offset,
            Command::Flush => 0,
        }
    }
}

/// Why a request is refused. The stream stays in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No such command.
    UnknownCommand,
    /// The transmission flags do not offer it, or no metadata context was selected.
    NotAdvertised,
    /// A flag that is unknown, or not for this command, or not offered.
    Flags,
    /// A change to a read-only export.
    ReadOnly,
    /// A length of zero where there must be some, or not zero where it must be.
    Length,
    /// Not a multiple of the minimum block size.
    Unaligned,
    /// WRITE or WRITE_ZEROES past the end of the export.
    WriteBeyondEnd,
    /// Another command past the end of the export.
    BeyondEnd,
    /// Longer than the maximum block size.
    TooLong,
    /// A read longer than the maximum block size that must not be fragmented.
    TooLongUnfragmented,
    /// A payload that names no contexts, unknown ones, or one twice.
    Filter,
}

impl Refusal {
    /// The error value to reply with.
    pub fn errno(self) -> u32 {
        match self {
            Refusal::ReadOnly => wire::NBD_EPERM,
            Refusal::WriteBeyondEnd => wire::NBD_ENOSPC,
            Refusal::TooLongUnfragmented => wire::NBD_EOVERFLOW,
            Refusal::UnknownCommand
            | Refusal::NotAdvertised
            | Refusal::Flags
            | Refusal::Length
            | Refusal::Unaligned
            | Refusal::BeyondEnd
            | Refusal::TooLong
            | Refusal::Filter => wire::NBD_EINVAL,
        }
    }

    /// A text for people, to go with the error.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::UnknownCommand => "unknown command",
            Refusal::NotAdvertised => "command not offered",
            Refusal::Flags => "command flag unknown or not offered",
            Refusal::ReadOnly => "the export is read-only",
            Refusal::Length => "invalid length",
            Refusal::Unaligned => "not aligned to the minimum block size",
            Refusal::WriteBeyondEnd | Refusal::BeyondEnd => "beyond the end of the export",
            Refusal::TooLong => "longer than the maximum block size",
            Refusal::TooLongUnfragmented => "too long to send unfragmented",
            Refusal::Filter => "invalid list of metadata contexts",
        }
    }
}
