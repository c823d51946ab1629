//! Traces: one file a format, found in one table, all read as a stream of [`TraceRecord`]s.
//!
//! ```no_run
//! use destage_workload::trace::{ReadOptions, Reader};
//! for record in Reader::open("trace.csv.gz".as_ref(), &ReadOptions::default())? {
//!     println!("{:?}", record?);
//! }
//! # Ok::<(), destage_workload::trace::TraceError>(())
//! ```

mod alibaba;
pub mod analyze;
mod arc;
mod blkparse;
mod blktrace;
mod blocks;
mod columns;
pub mod convert;
mod detect;
mod disksim;
mod doubt;
mod error;
mod fio;
pub mod info;
mod input;
mod mixer;
mod msr;
pub mod native;
mod options;
mod oracle;
mod reader;
pub mod replay;
pub mod select;
mod spc;
mod srt;
mod ssdsim;
mod stream;
mod systor;
#[cfg(feature = "tables")]
mod table_writer;
mod tencent;
mod text;
mod validation;
mod vscsi;
pub mod write;

use std::borrow::Cow;
use std::io;

pub use columns::Columns;
pub use error::{TraceError, TracePosition};
pub use input::Compression;
pub use options::{MergeDevices, MergeTimes, ReadOptions, TimeOrder};
pub use reader::{Files, Reader, files};
pub use select::{Sample, Selection};

use destage_engine::registry::{Choice, ChoiceError, Entry};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// The format does not say.
    Unknown,
}

impl Op {
    /// As text has it.
    pub(crate) const fn letter(self) -> &'static str {
        match self {
            Op::Read => "R",
            Op::Write => "W",
            Op::Unknown => "?",
        }
    }
}

/// What some formats measured of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// From arrival to the start of service.
    pub start_ns: u64,
    /// From arrival to the end of service.
    pub stop_ns: u64,
    /// The host marked the request asynchronous.
    pub asynchronous: bool,
    /// The host marked the request synchronous (a host may mark neither).
    pub synchronous: bool,
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Arrival, relative to the first record; 0 throughout in formats without times.
    pub time_ns: u64,
    /// Device, ASU, LUN or volume, as the format numbers them. Each has addresses of its own.
    pub device: u32,
    /// First byte on the device; below 2^62.
    pub offset_bytes: u64,
    /// Bytes, as recorded; below 2^62. Some traces have requests of 0 bytes.
    pub length_bytes: u64,
    /// Read, write, or not recorded.
    pub op: Op,
    /// Measured service times, in formats that have them.
    pub service: Option<Service>,
}

impl TraceRecord {
    /// One past the last byte.
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.length_bytes
    }

    /// The pages touched, the first and one past the last; the same for a request of 0 bytes.
    pub const fn pages(&self) -> (u64, u64) {
        self.pages_of(destage_engine::units::PAGE_BYTES)
    }

    /// [`TraceRecord::pages`] where a page has this many bytes.
    pub const fn pages_of(&self, page_bytes: u64) -> (u64, u64) {
        let first = self.offset_bytes / page_bytes;
        if self.length_bytes == 0 {
            return (first, first);
        }
        (first, self.end_bytes().div_ceil(page_bytes))
    }
}

/// What a line or record should have been.
#[derive(Debug)]
pub(crate) enum Bad {
    /// It is not what its format says.
    Malformed {
        expected: Cow<'static, str>,
        /// The part of it that is wrong, if that is known.
        found: Option<String>,
    },
    /// The file has not the columns that are needed, in words.
    Columns(String),
}

impl Bad {
    pub(crate) const fn new(expected: &'static str) -> Bad {
        Bad::Malformed { expected: Cow::Borrowed(expected), found: None }
    }

    /// Of a part of the line or record.
    pub(crate) fn of_cell(expected: String, found: &[u8]) -> Bad {
        let (expected, found) = (Cow::Owned(expected), Some(error::printable(found)));
        Bad::Malformed { expected, found }
    }
}

/// Reads one line at a time.
pub(crate) trait LineParser: Send {
    /// The request on this line, or none if the line is a header, a comment or another event. The
    /// line has no end-of-line characters and is not blank. Times are not yet relative.
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad>;

    /// Whether times are sums of waits, which not every program records.
    fn has_waits(&self) -> bool {
        false
    }
}

/// What one binary record turned out to be.
pub(crate) enum Parsed {
    /// A request. Times are not yet relative.
    Request(TraceRecord),
    /// Not a read or write.
    Ignored,
    /// The mark at the end, carrying the number of requests that there should have been.
    End(u64),
}

/// Reads one record of fixed size at a time.
pub(crate) trait RecordParser: Send {
    /// Reads what comes before the records; returns its bytes. The inner error is a malformed
    /// header.
    fn header(&mut self, _input: &mut dyn io::BufRead) -> io::Result<Result<u64, Bad>> {
        Ok(Ok(0))
    }

    /// Bytes of a record.
    fn record_bytes(&self) -> usize;

    /// Bytes that follow this record and are passed over.
    fn trailer_bytes(&self, _bytes: &[u8]) -> usize {
        0
    }

    /// One record.
    fn record(&mut self, bytes: &[u8]) -> Result<Parsed, Bad>;

    /// Whether the trace must end with [`Parsed::End`].
    fn wants_end(&self) -> bool {
        false
    }
}

/// Any kind of parser.
pub(crate) enum Parser {
    /// Of lines.
    Lines(Box<dyn LineParser>),
    /// Of records.
    Records(Box<dyn RecordParser>),
    /// None: what the trace names has no addresses.
    NoAddresses,
    /// Of the rows of a table.
    #[cfg(feature = "tables")]
    Rows(Box<dyn RowParser>),
    /// None: the format is one of tables, and the file has none.
    #[cfg(feature = "tables")]
    NoTable,
}

/// A row's request, or none if it is left out; at the end nothing. The outer error ends the trace.
#[cfg(feature = "tables")]
pub(crate) type Row = Result<Option<Result<Option<TraceRecord>, Bad>>, String>;

/// Reads one row of a table at a time.
#[cfg(feature = "tables")]
pub(crate) trait RowParser: Send {
    /// The next row.
    fn row(&mut self) -> Row;
}

/// One row of the table of trace formats.
pub struct Format {
    /// Name, summary, source and parameters.
    pub entry: &'static Entry,
    /// How names of such files end, in lower case.
    pub endings: &'static [&'static str],
    /// Whether requests carry times.
    pub has_times: bool,
    /// Whether requests carry [`Service`] times.
    pub has_service: bool,
    /// The option that reads a file whose offsets and lengths are bytes, in formats of bare numbers
    /// that count sectors.
    as_bytes: Option<&'static str>,
    /// How far a time stamp may be behind the latest one: such disorder is normal in this format,
    /// and the time is lifted to the latest. More is an error.
    pub disorder_ns: u64,
    /// Makes the parser. The file's name in lower case is a hint.
    parser: fn(&Choice, &str) -> Result<Parser, ChoiceError>,
    /// Detects a binary format by its first bytes. Text formats are detected by trying them.
    sniff: Option<fn(&[u8]) -> bool>,
}

/// A second: disorder that is normal where several processors or servers write one trace.
const SECOND_NS: u64 = 1_000_000_000;

/// Every format. Of two that understand the same number of a file's lines, and whose endings do not
/// decide, the first is taken: put a strict format before a lenient one.
pub const FORMATS: &[Format] = &[
    native::FORMAT,
    srt::FORMAT,
    vscsi::FORMAT_1,
    vscsi::FORMAT_2,
    blktrace::FORMAT,
    fio::FORMAT,
    blkparse::FORMAT,
    columns::presets::CSV,
    columns::presets::CACHELIB_BLOCK,
    columns::presets::TECTONIC,
    columns::presets::CACHELIB_KV,
    systor::FORMAT,
    msr::FORMAT,
    alibaba::FORMAT,
    spc::FORMAT,
    tencent::FORMAT,
    validation::FORMAT,
    ssdsim::FORMAT,
    disksim::FORMAT,
    arc::FORMAT,
    blocks::FORMAT,
    oracle::FORMAT,
    #[cfg(feature = "tables")]
    columns::tables::PARQUET,
    #[cfg(feature = "tables")]
    columns::tables::ARROW,
];

/// The entries of the table, in its order.
pub fn entries() -> Vec<&'static Entry> {
    FORMATS.iter().map(|f| f.entry).collect()
}

/// Understands `name:param=value,...`.
///
/// # Errors
/// An unknown format or parameter.
pub fn parse(text: &str) -> Result<Choice, ChoiceError> {
    Choice::parse("trace format", &entries(), text)
}

/// The row a choice came from.
pub fn format_of(choice: &Choice) -> &'static Format {
    FORMATS.iter().find(|f| f.entry.name == choice.entry.name).expect("a choice from this table")
}
