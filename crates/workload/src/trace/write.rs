//! Writing traces: our binary format or CSV, compressed as the file's name says, under a temporary
//! name until complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::columns::presets::OWN;
use super::error::TraceError;
use super::input::Compression;
use super::{TraceRecord, native};

const ZSTD_LEVEL: i32 = 3;
const XZ_LEVEL: u32 = 6;

/// A form in which traces are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Our own binary format, see [`super::native`].
    Destage {
        /// Keep service times (48 bytes per request instead of 32).
        with_service: bool,
    },
    /// CSV with the columns time_ns, device, offset_bytes, length_bytes, op (R, W or ?).
    Csv,
    /// Parquet with the same columns.
    Parquet,
    /// An Arrow IPC file (Feather version 2) with the same columns.
    Arrow,
}

impl OutputFormat {
    /// What the file's name ends in, before `.gz`, `.zst` or `.xz`: `.csv`, `.parquet`, `.arrow` or
    /// `.feather`; anything else is the binary format.
    pub fn of_path(path: &Path, with_service: bool) -> OutputFormat {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let name = Compression::of_name(&name).1;
        let endings = [
            (".csv", OutputFormat::Csv),
            (".parquet", OutputFormat::Parquet),
            (".arrow", OutputFormat::Arrow),
            (".feather", OutputFormat::Arrow),
        ];
        let found = endings.into_iter().find(|(ending, _)| name.ends_with(ending));
        found.map_or(OutputFormat::Destage { with_service }, |(_, format)| format)
    }
}

/// Writes a file completely or not at all: `write` fills a temporary file next to `path`, which is
/// synced and renamed to `path` when it is complete, and removed if anything fails.
///
/// # Errors
/// [`TraceError::Io`] if the file cannot be written or is not a regular file; else what `write`
/// returned.
pub fn write_atomically<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let file = path.display().to_string();
    let io_error = |error: io::Error| TraceError::Io { file: file.clone(), why: error.to_string() };
    if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        let why = String::from("exists and is not a regular file; name another output");
        return Err(TraceError::Io { file, why });
    }
    // What a link points to is replaced, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let temporary = temporary_name(&target);
    let opened = OpenOptions::new().write(true).create_new(true).open(&temporary);
    let mut writer = BufWriter::with_capacity(1 << 16, opened.map_err(io_error)?);
    let written = write(&mut writer).and_then(|value| {
        writer.flush().map_err(io_error)?;
        writer.get_ref().sync_all().map_err(io_error)?;
        fs::rename(&temporary, &target).map_err(io_error)?;
        Ok(value)
    });
    if written.is_err() {
        // Best effort: the first failure is what matters.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn temporary_name(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.{}-{count}.tmp", std::process::id()))
}

/// Writes records one after another.
pub struct TraceWriter<W: Write + Send> {
    body: Body<W>,
    requests: u64,
}

/// What is written.
enum Body<W: Write + Send> {
    /// The binary format.
    Destage { sink: Sink<W>, with_service: bool },
    /// CSV, and the line that is being made.
    Csv { sink: Sink<W>, line: String },
    #[cfg(feature = "tables")]
    Table(super::table_writer::TableWriter<W>),
}

impl<W: Write + Send> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(
        output: W,
        format: OutputFormat,
        compression: Compression,
    ) -> io::Result<TraceWriter<W>> {
        let body = match format {
            OutputFormat::Destage { with_service } => {
                let mut sink = Sink::new(output, compression)?;
                sink.write_all(&native::header(with_service))?;
                Body::Destage { sink, with_service }
            }
            OutputFormat::Csv => {
                let mut sink = Sink::new(output, compression)?;
                writeln!(sink, "{}", OWN.join(","))?;
                Body::Csv { sink, line: String::new() }
            }
            OutputFormat::Parquet | OutputFormat::Arrow if compression != Compression::None => {
                let why = "Parquet and Arrow compress their columns: leave .gz, .zst or .xz out of \
                           the name";
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
            #[cfg(feature = "tables")]
            OutputFormat::Parquet | OutputFormat::Arrow => Body::Table(
                super::table_writer::TableWriter::new(output, format == OutputFormat::Parquet)?,
            ),
            #[cfg(not(feature = "tables"))]
            OutputFormat::Parquet | OutputFormat::Arrow => {
                let why = "this build writes no Parquet and no Arrow files";
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
        };
        Ok(TraceWriter { body, requests: 0 })
    }

    /// Appends a request.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&mut self, record: &TraceRecord) -> io::Result<()> {
        self.requests += 1;
        match &mut self.body {
            Body::Destage { sink, with_service } => {
                let (bytes, size) = native::encode(record, *with_service);
                sink.write_all(&bytes[..size])
            }
            Body::Csv { sink, line } => {
                line.clear();
                csv_line(record, line);
                sink.write_all(line.as_bytes())
            }
            #[cfg(feature = "tables")]
            Body::Table(table) => table.write(record),
        }
    }

    /// Ends the trace. Without this it is incomplete, and readers say so.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> io::Result<u64> {
        match self.body {
            Body::Destage { mut sink, with_service } => {
                let (bytes, size) = native::encode_end(self.requests, with_service);
                sink.write_all(&bytes[..size])?;
                sink.finish()?;
            }
            Body::Csv { sink, .. } => sink.finish()?,
            #[cfg(feature = "tables")]
            Body::Table(table) => table.finish()?,
        }
        Ok(self.requests)
    }
}

/// Appends the record as a line of our CSV.
pub fn csv_line(record: &TraceRecord, line: &mut String) {
    use std::fmt::Write;
    let op = record.op.letter();
    let TraceRecord { time_ns, device, offset_bytes, length_bytes, .. } = record;
    writeln!(line, "{time_ns},{device},{offset_bytes},{length_bytes},{op}")
        .expect("a string takes everything");
}

/// Where bytes go.
enum Sink<W: Write> {
    Plain(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Xz(liblzma::write::XzEncoder<W>),
}

impl<W: Write> Sink<W> {
    fn new(output: W, compression: Compression) -> io::Result<Sink<W>> {
        Ok(match compression {
            Compression::None => Sink::Plain(output),
            Compression::Gzip => {
                let level = flate2::Compression::default();
                Sink::Gzip(flate2::write::GzEncoder::new(output, level))
            }
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(output, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Sink::Zstd(encoder)
            }
            Compression::Xz => Sink::Xz(liblzma::write::XzEncoder::new(output, XZ_LEVEL)),
        })
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Sink::Plain(mut output) => output.flush(),
            Sink::Gzip(encoder) => encoder.finish().map(drop),
            Sink::Zstd(encoder) => encoder.finish().map(drop),
            Sink::Xz(encoder) => encoder.finish().map(drop),
        }
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(output) => output.write(bytes),
            Sink::Gzip(encoder) => encoder.write(bytes),
            Sink::Zstd(encoder) => encoder.write(bytes),
            Sink::Xz(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(output) => output.flush(),
            Sink::Gzip(encoder) => encoder.flush(),
            Sink::Zstd(encoder) => encoder.flush(),
            Sink::Xz(encoder) => encoder.flush(),
        }
    }
}
