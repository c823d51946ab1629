//! Writing traces: our binary format or CSV, compressed as the file's name says, under a temporary
//! name until complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::error::TraceError;
use super::input::Compression;
use super::{Op, TraceRecord, csv, native};

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
}

impl OutputFormat {
    /// CSV if the file's name ends in `.csv` (before `.gz`, `.zst` or `.xz`), else binary.
    pub fn of_path(path: &Path, with_service: bool) -> OutputFormat {
        let name = path.to_string_lossy().to_ascii_lowercase();
        if Compression::of_name(&name).1.ends_with(".csv") {
            OutputFormat::Csv
        } else {
            OutputFormat::Destage { with_service }
        }
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
pub struct TraceWriter<W: Write> {
    sink: Sink<W>,
    format: OutputFormat,
    requests: u64,
    line: String,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(
        output: W,
        format: OutputFormat,
        compression: Compression,
    ) -> io::Result<TraceWriter<W>> {
        let mut sink = Sink::new(output, compression)?;
        match format {
            OutputFormat::Destage { with_service } => {
                sink.write_all(&native::header(with_service))?;
            }
            OutputFormat::Csv => writeln!(sink, "{}", csv::HEADER)?,
        }
        Ok(TraceWriter { sink, format, requests: 0, line: String::new() })
    }

    /// Appends a request.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&mut self, record: &TraceRecord) -> io::Result<()> {
        self.requests += 1;
        match self.format {
            OutputFormat::Destage { with_service } => {
                let (bytes, size) = native::encode(record, with_service);
                self.sink.write_all(&bytes[..size])
            }
            OutputFormat::Csv => {
                self.line.clear();
                csv_line(record, &mut self.line);
                self.sink.write_all(self.line.as_bytes())
            }
        }
    }

    /// Ends the trace. Without this it is incomplete, and readers say so.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        if let OutputFormat::Destage { with_service } = self.format {
            let (bytes, size) = native::encode_end(self.requests, with_service);
            self.sink.write_all(&bytes[..size])?;
        }
        self.sink.finish()?;
        Ok(self.requests)
    }
}

/// Appends the record as a line of our CSV.
pub fn csv_line(record: &TraceRecord, line: &mut String) {
    use std::fmt::Write;
    let op = match record.op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Unknown => '?',
    };
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
