//! One file as a stream of records. It holds one line or record, never the file; only
//! [`TimeOrder::Sort`] holds more, and that is bounded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufRead, Read};
use std::path::Path;

use super::error::{TraceError, TracePosition, printable};
use super::input::{Compression, Head, Input};
use super::options::{ReadOptions, TimeOrder};
use super::{
    Bad, Format, Parsed, Parser, TraceRecord, columns, detect, format_of, input, native, parse,
};
use destage_engine::registry::{Choice, ChoiceError};

/// Longest line taken for text.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// No disk request is larger; what claims to be is garbage.
const REQUEST_BYTES_MAX: u64 = 1 << 32;
/// No disk takes longer for a request, and none is done before it begins.
const SERVICE_NS_MAX: u64 = 1 << 42;
/// Times further from the first are garbage.
const SPAN_NS_MAX: u64 = 1 << 62;
/// Records that [`TimeOrder::Sort`] holds back.
const SORT_WINDOW: usize = 65_536;

/// A record that waits to be put in order: time, position in the file, then what it is.
struct Held {
    time_ns: u64,
    sequence: u64,
    place: TracePosition,
    record: TraceRecord,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        (self.time_ns, self.sequence) == (other.time_ns, other.sequence)
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.time_ns, self.sequence).cmp(&(other.time_ns, other.sequence))
    }
}

/// Reads the file of a trace.
pub(super) struct Stream {
    file: String,
    format: &'static Format,
    compression: Compression,
    options: ReadOptions,
    parser: Parser,
    input: Input,
    buffer: Vec<u8>,
    /// Lines, or records, begun so far.
    number: u64,
    /// Bytes taken from the decompressed stream (binary formats).
    bytes: u64,
    header_read: bool,
    requests: u64,
    bad: u64,
    first_bad: Option<TraceError>,
    disordered: u64,
    /// Time of the first record, and the latest, as the trace gives them.
    base_ns: Option<u64>,
    latest_ns: u64,
    held: BinaryHeap<Reverse<Held>>,
    place: TracePosition,
    ended: bool,
}

impl Stream {
    /// Opens a trace, telling compression and (unless given) format by content.
    ///
    /// # Errors
    /// The file cannot be opened, is empty, or no format fits.
    pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<Stream, TraceError> {
        Stream::new(path.display().to_string(), input::open(path)?, Some(path), options)
    }

    /// Reads from any stream; `name` appears in messages and is a hint to the format.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub(super) fn from_read(
        source: Box<dyn Read + Send>,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Stream, TraceError> {
        let opened = input::from_read(source, name)
            .map_err(|error| TraceError::Io { file: name.to_string(), why: error.to_string() })?;
        Stream::new(name.to_string(), opened, None, options)
    }

    fn new(
        file: String,
        (head, mut input, compression): (Head, Input, Compression),
        path: Option<&Path>,
        options: &ReadOptions,
    ) -> Result<Stream, TraceError> {
        if head.bytes.is_empty() && head.complete {
            return Err(TraceError::Empty { file });
        }
        check_native(&file, &head, options)?;
        let table = table(&file, &head, &mut input, compression, path, options)?;
        let (format, parser) = match (table, &options.columns, &options.format) {
            (Some(table), ..) => table,
            (None, Some(columns), _) => (&columns::FORMAT, columns.lines()),
            (None, None, Some(text)) => named(&parse(text)?, &head)?,
            (None, None, None) => match detect::detect(&head) {
                Some(format) => named(&parse(format.entry.name)?, &head)?,
                None => return Err(undetected(file, &head, input)),
            },
        };
        let place = match parser {
            Parser::Lines(_) if head.is_utf_16() => return Err(utf_16(file)),
            Parser::Lines(_) => TracePosition::Line(0),
            Parser::Records(_) => TracePosition::Record { number: 0, byte: 0 },
            Parser::NoAddresses => return Err(no_addresses(file)),
            #[cfg(feature = "tables")]
            Parser::Rows(_) => TracePosition::Row(0),
            #[cfg(feature = "tables")]
            Parser::NoTable => {
                let why = String::from("the file is neither Parquet nor an Arrow IPC file");
                return Err(TraceError::Io { file, why });
            }
        };
        Ok(Stream {
            file,
            format,
            compression,
            options: options.clone(),
            parser,
            input,
            buffer: Vec::new(),
            number: 0,
            bytes: 0,
            header_read: false,
            requests: 0,
            bad: 0,
            first_bad: None,
            disordered: 0,
            base_ns: None,
            latest_ns: 0,
            held: BinaryHeap::new(),
            place,
            ended: false,
        })
    }

    /// The file as it was named.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The format being read.
    pub(super) fn format(&self) -> &'static Format {
        self.format
    }

    /// Whether times are sums of waits.
    pub(super) fn has_waits(&self) -> bool {
        matches!(&self.parser, Parser::Lines(parser) if parser.has_waits())
    }

    /// The option that reads the file with bytes in place of sectors, unless units were given.
    pub(super) fn as_bytes(&self) -> Option<&'static str> {
        let given = |text: &str| text.contains("sector=");
        self.format.as_bytes.filter(|_| !self.options.format.as_deref().is_some_and(given))
    }

    /// How the file is compressed.
    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// Where the record last returned was.
    pub(super) fn place(&self) -> TracePosition {
        self.place
    }

    /// Malformed lines or records left out so far (only with `skip_bad`).
    pub(super) fn bad(&self) -> u64 {
        self.bad
    }

    /// The first of them.
    pub(super) fn first_bad(&self) -> Option<&TraceError> {
        self.first_bad.as_ref()
    }

    /// Records so far that came before their predecessors' time and were lifted, sorted or left
    /// out.
    pub(super) fn disordered(&self) -> u64 {
        self.disordered
    }

    /// The next request as the trace has it, not yet in order.
    fn next_raw(&mut self) -> Result<Option<(TraceRecord, TracePosition)>, TraceError> {
        loop {
            let found = match &self.parser {
                Parser::Lines(_) => self.next_line(),
                Parser::Records(_) => self.next_record(),
                #[cfg(feature = "tables")]
                Parser::Rows(_) => self.next_row(),
                _ => unreachable!("refused at the start"),
            };
            match found {
                Err(bad @ TraceError::Malformed { .. }) if self.options.skip_bad => {
                    self.bad += 1;
                    self.first_bad.get_or_insert(bad);
                    if !self.header_read && matches!(self.parser, Parser::Records(_)) {
                        return Err(self.first_bad.clone().expect("set above"));
                    }
                }
                Err(error) => return Err(error),
                Ok(Step::Request(record, place)) if record.length_bytes > REQUEST_BYTES_MAX => {
                    let bad = self.malformed(place, Bad::new("a request of at most 4 GiB"));
                    self.leave_out(bad)?;
                }
                Ok(Step::Request(TraceRecord { service: Some(service), .. }, place))
                    if !(service.start_ns..=SERVICE_NS_MAX).contains(&service.stop_ns) =>
                {
                    let expected = "a service that stops after it starts, within 73 minutes";
                    let bad = self.malformed(place, Bad::new(expected));
                    self.leave_out(bad)?;
                }
                Ok(Step::Request(record, place)) => {
                    self.requests += 1;
                    return Ok(Some((record, place)));
                }
                Ok(Step::Nothing) => {}
                Ok(Step::End) if self.requests == 0 => {
                    return Err(match self.first_bad.take() {
                        Some(bad) => bad,
                        None => TraceError::Empty { file: self.file.clone() },
                    });
                }
                Ok(Step::End) => return Ok(None),
            }
        }
    }

    /// Counts a malformed record, or fails with it.
    fn leave_out(&mut self, bad: TraceError) -> Result<(), TraceError> {
        if !self.options.skip_bad {
            return Err(bad);
        }
        self.bad += 1;
        self.first_bad.get_or_insert(bad);
        Ok(())
    }

    fn next_line(&mut self) -> Result<Step, TraceError> {
        self.buffer.clear();
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX);
        let taken = limited.read_until(b'\n', &mut self.buffer);
        self.number += 1;
        let place = TracePosition::Line(self.number);
        if taken.map_err(|error| self.stream_error(place, &error))? == 0 {
            return Ok(Step::End);
        }
        if self.buffer.len() as u64 == LINE_BYTES_MAX && !self.buffer.ends_with(b"\n") {
            self.skip_line().map_err(|error| self.stream_error(place, &error))?;
            let bad = Bad::new("a line of text of at most 65536 bytes");
            return Err(self.malformed(place, bad));
        }
        let line = self.buffer.trim_ascii_end();
        if line.is_empty() {
            return Ok(Step::Nothing);
        }
        let Parser::Lines(parser) = &mut self.parser else { unreachable!("a format of lines") };
        match parser.line(line) {
            Ok(Some(record)) => Ok(Step::Request(record, place)),
            Ok(None) => Ok(Step::Nothing),
            Err(bad) => Err(self.malformed(place, bad)),
        }
    }

    /// Passes over the rest of a line that is too long.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let chunk = self.input.fill_buf()?;
            let end = chunk.iter().position(|&b| b == b'\n');
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.input.consume(used);
            if end.is_some() || used == 0 {
                return Ok(());
            }
        }
    }

    fn next_record(&mut self) -> Result<Step, TraceError> {
        let Parser::Records(parser) = &mut self.parser else { unreachable!("a binary format") };
        if !self.header_read {
            let place = TracePosition::Record { number: 0, byte: 0 };
            match parser.header(&mut self.input) {
                Ok(Ok(bytes)) => self.bytes = bytes,
                Ok(Err(bad)) => return Err(self.malformed(place, bad)),
                Err(error) => return Err(self.stream_error(place, &error)),
            }
            self.header_read = true;
            return Ok(Step::Nothing);
        }
        let place = TracePosition::Record { number: self.number + 1, byte: self.bytes };
        let size = parser.record_bytes();
        let wants_end = parser.wants_end();
        self.buffer.resize(size, 0);
        let got = fill(&mut self.input, &mut self.buffer)
            .map_err(|error| self.stream_error(place, &error))?;
        self.buffer.truncate(got);
        self.number += 1;
        self.bytes += got as u64;
        if got == 0 && !wants_end {
            return Ok(Step::End);
        }
        if got < size {
            let what = format!("it has {got} of its {size} bytes");
            return Err(TraceError::Truncated { file: self.file.clone(), place, what });
        }
        self.skip_trailer(place)?;
        let Parser::Records(parser) = &mut self.parser else { unreachable!("a binary format") };
        match parser.record(&self.buffer) {
            Ok(Parsed::Request(record)) => Ok(Step::Request(record, place)),
            Ok(Parsed::Ignored) => Ok(Step::Nothing),
            Ok(Parsed::End(count)) => self.check_end(count, place),
            Err(bad) => Err(self.malformed(place, bad)),
        }
    }

    #[cfg(feature = "tables")]
    fn next_row(&mut self) -> Result<Step, TraceError> {
        let Parser::Rows(parser) = &mut self.parser else { unreachable!("a table") };
        let row = parser.row();
        let row = row.map_err(|why| {
            let (file, place) = (self.file.clone(), TracePosition::Row(self.number));
            TraceError::Table { file, place, why }
        })?;
        self.number += 1;
        let place = TracePosition::Row(self.number);
        match row {
            None => Ok(Step::End),
            Some(Ok(Some(record))) => Ok(Step::Request(record, place)),
            Some(Ok(None)) => Ok(Step::Nothing),
            Some(Err(bad)) => Err(self.malformed(place, bad)),
        }
    }

    /// Passes over what follows the record in the buffer.
    fn skip_trailer(&mut self, place: TracePosition) -> Result<(), TraceError> {
        let Parser::Records(parser) = &self.parser else { unreachable!("a binary format") };
        let wanted = parser.trailer_bytes(&self.buffer) as u64;
        if wanted == 0 {
            return Ok(());
        }
        let got = io::copy(&mut (&mut self.input).take(wanted), &mut io::sink());
        let got = got.map_err(|error| self.stream_error(place, &error))?;
        self.bytes += got;
        if got < wanted {
            let what = format!("it has {got} of the {wanted} bytes behind it");
            return Err(TraceError::Truncated { file: self.file.clone(), place, what });
        }
        Ok(())
    }

    /// Whether the end mark is right, and nothing follows it.
    fn check_end(&mut self, count: u64, place: TracePosition) -> Result<Step, TraceError> {
        let rest = self.input.fill_buf().map(<[u8]>::len);
        let rest = rest.map_err(|error| self.stream_error(place, &error))?;
        let seen = self.requests + self.bad;
        if rest == 0 && count == seen {
            return Ok(Step::End);
        }
        let expected = format!("an end mark after {count} requests, and nothing after it");
        let found = format!("{seen} requests, then {rest} bytes or more");
        Err(TraceError::Malformed { file: self.file.clone(), place, expected, found })
    }

    fn malformed(&self, place: TracePosition, bad: Bad) -> TraceError {
        let file = self.file.clone();
        match bad {
            Bad::Malformed { expected, found } => TraceError::Malformed {
                file,
                place,
                expected: expected.into_owned(),
                found: found.unwrap_or_else(|| printable(self.buffer.trim_ascii_end())),
            },
            Bad::Columns(why) => TraceError::Table { file, place, why },
        }
    }

    fn stream_error(&self, place: TracePosition, error: &io::Error) -> TraceError {
        stream_error(self.file.clone(), self.compression, place, error)
    }

    /// The time of the first record as the trace has it, once that was read.
    pub(super) fn base_ns(&self) -> Option<u64> {
        self.base_ns
    }

    /// The next record in order, its time made relative to the first. Not to be called again after
    /// an error.
    pub(super) fn next_ordered(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        if self.options.order == TimeOrder::Sort && self.format.has_times {
            return self.next_sorted();
        }
        loop {
            let Some((mut record, place)) = self.next_raw()? else { return Ok(None) };
            self.place = place;
            if self.format.has_times && !self.admit(&mut record, place)? {
                continue;
            }
            return Ok(Some(record));
        }
    }

    /// Makes the time relative and in order; false if the record is to be left out.
    fn admit(
        &mut self,
        record: &mut TraceRecord,
        place: TracePosition,
    ) -> Result<bool, TraceError> {
        let base_ns = *self.base_ns.get_or_insert_with(|| {
            self.latest_ns = record.time_ns;
            record.time_ns
        });
        if record.time_ns.saturating_sub(base_ns) > SPAN_NS_MAX {
            let bad = self.malformed(place, Bad::new("a time within 146 years of the first"));
            return self.leave_out(bad).map(|()| false);
        }
        if record.time_ns < self.latest_ns {
            let early_ns = self.latest_ns - record.time_ns;
            match self.options.order {
                TimeOrder::Check | TimeOrder::Sort if early_ns > self.format.disorder_ns => {
                    return Err(TraceError::OutOfOrder {
                        file: self.file.clone(),
                        place,
                        time_ns: i128::from(record.time_ns) - i128::from(base_ns),
                        previous_ns: i128::from(self.latest_ns) - i128::from(base_ns),
                    });
                }
                TimeOrder::Skip => {
                    self.disordered += 1;
                    return Ok(false);
                }
                _ => {}
            }
            self.disordered += 1;
            record.time_ns = self.latest_ns;
        }
        self.latest_ns = record.time_ns;
        record.time_ns -= base_ns;
        Ok(true)
    }

    fn next_sorted(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        while !self.ended && self.held.len() < SORT_WINDOW {
            match self.next_raw()? {
                Some((record, place)) => {
                    let (time_ns, sequence) = (record.time_ns, self.requests);
                    self.held.push(Reverse(Held { time_ns, sequence, place, record }));
                }
                None => self.ended = true,
            }
        }
        let Some(Reverse(mut held)) = self.held.pop() else { return Ok(None) };
        self.place = held.place;
        if self.admit(&mut held.record, held.place)? {
            return Ok(Some(held.record));
        }
        self.next_sorted()
    }
}

fn no_addresses(file: String) -> TraceError {
    TraceError::NoAddresses { file, format: columns::presets::CACHELIB_KV.entry.name }
}

/// Refuses to read our binary format as another one.
fn check_native(file: &str, head: &Head, options: &ReadOptions) -> Result<(), TraceError> {
    if !native::FORMAT.sniff.is_some_and(|sniff| sniff(&head.bytes)) {
        return Ok(());
    }
    let name = native::FORMAT.entry.name;
    let why = match (&options.columns, &options.format) {
        (Some(_), _) => format!("the file is {name}, which has no columns: leave them out"),
        (None, Some(text)) if parse(text)?.entry.name != name => {
            format!("the file is {name}, not {text}: leave the format out")
        }
        _ => return Ok(()),
    };
    Err(TraceError::Io { file: file.to_string(), why })
}

/// The reader of a Parquet or Arrow file, if it is one: these are read from several places, so a
/// stream of bytes is taken into memory.
#[cfg(feature = "tables")]
fn table(
    file: &str,
    head: &Head,
    input: &mut Input,
    compression: Compression,
    path: Option<&Path>,
    options: &ReadOptions,
) -> Result<Option<(&'static Format, Parser)>, TraceError> {
    use columns::tables::{Refused, Source, format_of, open};
    let Some(format) = format_of(&head.bytes) else { return Ok(None) };
    let io_error = |why: String| TraceError::Io { file: file.to_string(), why };
    if compression != Compression::None {
        let name = format.entry.name;
        let why = format!("a compressed {name} file: decompress it, its columns are compressed");
        return Err(io_error(why));
    }
    let source = match path {
        Some(path) => std::fs::File::open(path).map(Source::File),
        None => {
            let mut bytes = Vec::new();
            input.read_to_end(&mut bytes).map(|_| Source::Bytes(bytes))
        }
    };
    let source = source.map_err(|error| io_error(error.to_string()))?;
    match open(format, source, options) {
        Ok(rows) => Ok(Some((format, Parser::Rows(rows)))),
        Err(Refused::NoAddresses) => Err(no_addresses(file.to_string())),
        Err(Refused::Choice(error)) => Err(error.into()),
        Err(Refused::Because(why)) => Err(io_error(why)),
    }
}

/// This build reads no tables.
#[cfg(not(feature = "tables"))]
fn table(
    _file: &str,
    _head: &Head,
    _input: &mut Input,
    _compression: Compression,
    _path: Option<&Path>,
    _options: &ReadOptions,
) -> Result<Option<(&'static Format, Parser)>, TraceError> {
    Ok(None)
}

/// The format of a choice, and its parser.
fn named(choice: &Choice, head: &Head) -> Result<(&'static Format, Parser), ChoiceError> {
    let format = format_of(choice);
    Ok((format, (format.parser)(choice, &head.name)?))
}

/// One step through the input.
enum Step {
    Request(TraceRecord, TracePosition),
    Nothing,
    End,
}

/// Reads until the buffer is full or the input ends; the bytes read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

fn utf_16(file: String) -> TraceError {
    let why = "is UTF-16 text: convert it to UTF-8, e.g. iconv -f UTF-16 -t UTF-8";
    TraceError::Io { file, why: why.to_string() }
}

/// Why a file has no known format: perhaps because its compressed data cannot be read.
fn undetected(file: String, head: &Head, mut input: Input) -> TraceError {
    if head.is_utf_16() {
        return utf_16(file);
    }
    let mut rest = vec![0; head.bytes.len() + 1];
    if let Err(error) = fill(&mut input, &mut rest) {
        let compression = Compression::of_magic(&[]);
        let place = TracePosition::Record { number: 0, byte: head.bytes.len() as u64 };
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let what = String::from("the compressed data ends early");
            return TraceError::Truncated { file, place, what };
        }
        return stream_error(file, compression, place, &error);
    }
    let known = super::FORMATS.iter().map(|f| f.entry.name).collect();
    TraceError::UnknownFormat { file, known }
}

fn stream_error(
    file: String,
    compression: Compression,
    place: TracePosition,
    error: &io::Error,
) -> TraceError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            let what = match compression {
                Compression::None => "the header is incomplete".to_string(),
                other => format!("the {other:?} data ends early").to_lowercase(),
            };
            TraceError::Truncated { file, place, what }
        }
        _ if compression == Compression::None && error.raw_os_error().is_some() => {
            TraceError::Io { file, why: error.to_string() }
        }
        _ => TraceError::Damaged { file, place, why: error.to_string() },
    }
}
