//! What can be wrong with a trace: one line each, naming the file, the place and the way out.

use std::fmt;

use destage_engine::registry::ChoiceError;
use thiserror::Error;

/// Where in a trace something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePosition {
    /// A line of text, from 1.
    Line(u64),
    /// A record of a binary format, from 1, and the byte at which it begins (after
    /// decompression), from 0.
    Record {
        /// Number of the record.
        number: u64,
        /// Its first byte.
        byte: u64,
    },
    /// A row of a table, from 1.
    Row(u64),
}

impl fmt::Display for TracePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracePosition::Line(line) => write!(f, "line {line}"),
            TracePosition::Record { number, byte } => write!(f, "record {number} at byte {byte}"),
            TracePosition::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// Why a trace could not be read, replayed or written. `file` is the path as given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// The file could not be opened, read or written.
    #[error("{file}: {why}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        why: String,
    },
    /// There is not one request in the file.
    #[error("{file}: the trace is empty: no request in it")]
    Empty {
        /// The file.
        file: String,
    },
    /// No format fits the content.
    #[error(
        "{file}: no trace format fits the content; name one of: {}; or describe its columns with \
         --trace-columns", .known.join(", "))]
    UnknownFormat {
        /// The file.
        file: String,
        /// The formats there are.
        known: Vec<&'static str>,
    },
    /// A Parquet or Arrow file that cannot be read, or text without the columns that are needed.
    #[error("{file}: {place}: {why}")]
    Table {
        /// The file.
        file: String,
        /// The line, or the last row that was read.
        place: TracePosition,
        /// What is wrong with it.
        why: String,
    },
    /// The trace names keys, not addresses.
    #[error(
        "{file}: the keys of a key-value trace have no addresses on a disk. `--trace-format \
         {format}:place=4K` gives each key a place of 4 KiB, in the order of first appearance"
    )]
    NoAddresses {
        /// The file.
        file: String,
        /// The format.
        format: &'static str,
    },
    /// The format's name or one of its parameters does not fit.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// A line or record that is not what its format says.
    #[error("{file}: {place}: expected {expected}, found `{found}`")]
    Malformed {
        /// The file.
        file: String,
        /// The line or record.
        place: TracePosition,
        /// What should have been there.
        expected: String,
        /// The beginning of what was there, made printable.
        found: String,
    },
    /// The file ends in the middle of something.
    #[error("{file}: {place}: {what}: the file is truncated")]
    Truncated {
        /// The file.
        file: String,
        /// The last line or record that was begun.
        place: TracePosition,
        /// What is incomplete.
        what: String,
    },
    /// The compressed data is damaged.
    #[error("{file}: {place}: the compressed data is damaged: {why}")]
    Damaged {
        /// The file.
        file: String,
        /// The line or record that could not be read.
        place: TracePosition,
        /// What the decompressor said.
        why: String,
    },
    /// A time stamp is earlier than the one before by more than its format allows.
    #[error(
        "{file}: {place}: time {time_ns} ns is before the previous {previous_ns} ns; \
         choose an order: sort, lift or skip"
    )]
    OutOfOrder {
        /// The file.
        file: String,
        /// The record that is too early.
        place: TracePosition,
        /// Its time, relative to the first record; negative if it is before that one.
        time_ns: i128,
        /// The latest time before it.
        previous_ns: i128,
    },
    /// The format records no times, so an open replay is not possible.
    #[error(
        "{file}: format `{format}` records no times: replay it closed, with a number of \
         requests outstanding"
    )]
    NoTimes {
        /// The file.
        file: String,
        /// The format.
        format: &'static str,
    },
    /// Every request has the same time, or nearly; replaying those would issue all at once.
    #[error(
        "{file}: {} requests of this `{format}` trace have the same time: replay it with \
         --trace-mode closed:N or rate:IOPS", all_but(.later)
    )]
    OneTime {
        /// The file.
        file: String,
        /// The format.
        format: &'static str,
        /// Requests that are later than the one before.
        later: u64,
    },
    /// No record is of the device asked for.
    #[error("{file}: no request is for device {device}; there are: {known:?}")]
    NoSuchDevice {
        /// The file.
        file: String,
        /// What was asked for.
        device: u32,
        /// Devices there are, the first few.
        known: Vec<u32>,
    },
    /// The selection leaves nothing of the trace.
    #[error(
        "{file}: no request is left of {read} that were read: the times, devices, addresses or the \
         sample that were asked for have none"
    )]
    NothingSelected {
        /// The trace.
        file: String,
        /// Requests before the end of the time asked for.
        read: u64,
    },
    /// A trace without times cannot be merged with another by time.
    #[error(
        "{file}: format `{format}` records no times, so this trace cannot be merged with another"
    )]
    NoMerge {
        /// The file.
        file: String,
        /// The format.
        format: &'static str,
    },
    /// The times of two traces are decades apart.
    #[error(
        "{file}: its times are decades after those of the other traces: no clock recorded both. \
         Merge them by --trace-merge start."
    )]
    OtherClock {
        /// The file.
        file: String,
    },
    /// More distinct pages than an analysis can number.
    #[error(
        "{file}: more than {limit_pages} distinct pages are accessed: analyse one device at a time \
         with --device"
    )]
    TooManyPages {
        /// The file.
        file: String,
        /// Pages that can be numbered.
        limit_pages: u64,
    },
    /// A request reaches past the end of the volume.
    #[error(
        "{file}: {place}: the request ends at page {end_page}, past the volume's \
         {volume_pages} pages; use a larger volume, one device, or wrap"
    )]
    BeyondVolume {
        /// The file.
        file: String,
        /// The record.
        place: TracePosition,
        /// One past its last page on the volume.
        end_page: u64,
        /// Pages of the volume.
        volume_pages: u64,
    },
    /// A request is larger than the limit that was set.
    #[error("{file}: {place}: a request of {pages} pages is above the limit of {limit_pages}")]
    TooLarge {
        /// The file.
        file: String,
        /// The record.
        place: TracePosition,
        /// Its pages.
        pages: u64,
        /// Pages allowed.
        limit_pages: u64,
    },
}

/// How many requests are all but these.
fn all_but(others: &u64) -> &'static str {
    if *others == 0 { "all" } else { "nearly all" }
}

/// The first bytes of something found, as printable text of at most 60 characters.
pub(super) fn printable(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let mut text: String = cut.escape_ascii().to_string().chars().take(SHOWN).collect();
    if bytes.len() > SHOWN {
        text.push_str("...");
    }
    text
}
