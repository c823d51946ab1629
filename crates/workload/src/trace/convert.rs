//! Making traces: from other traces, or from generated loads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use destage_engine::request::Direction;
use destage_engine::units::{Instant, PAGE_BYTES};

use super::error::TraceError;
use super::input::Compression;
use super::reader::Reader;
use super::write::{OutputFormat, TraceWriter, write_atomically};
use super::{Op, TraceRecord};
use crate::source::Source;

/// Writes every record of `reader` to `output`; format and compression are what its name says
/// unless `format` is given. Returns the requests written.
///
/// # Errors
/// Whatever the reader meets, or an output that cannot be written; the output is then left as it
/// was.
pub fn convert(
    reader: &mut Reader,
    output: &Path,
    format: Option<OutputFormat>,
) -> Result<u64, TraceError> {
    let with_service = reader.has_service();
    let format = format.unwrap_or_else(|| OutputFormat::of_path(output, with_service));
    write_trace(output, format, |writer, io_error| {
        for record in reader.by_ref() {
            writer.write(&record?).map_err(io_error)?;
        }
        Ok(())
    })
}

/// Writes `requests` requests of a load to `output` as seen with every request completing
/// `service_ns` after its issue (which matters to closed and bounded loads only). Times are those
/// of issue, relative to the first. Returns the requests written, fewer if the load ends before.
///
/// # Errors
/// A load that fails, or an output that cannot be written; the output is then left as it was.
pub fn generate(
    source: &mut dyn Source,
    requests: u64,
    service_ns: u64,
    output: &Path,
    format: Option<OutputFormat>,
) -> Result<u64, TraceError> {
    let format = format.unwrap_or_else(|| OutputFormat::of_path(output, false));
    let mut records =
        Generated { source, service_ns, requests, issued: 0, first: None, busy: BinaryHeap::new() };
    write_trace(output, format, |writer, io_error| {
        while let Some(record) = records.next_record()? {
            writer.write(&record).map_err(io_error)?;
        }
        Ok(())
    })
}

fn write_trace(
    output: &Path,
    format: OutputFormat,
    fill: impl FnOnce(
        &mut TraceWriter<&mut BufWriter<File>>,
        &dyn Fn(io::Error) -> TraceError,
    ) -> Result<(), TraceError>,
) -> Result<u64, TraceError> {
    let file = output.display().to_string();
    let io_error = |error: io::Error| TraceError::Io { file: file.clone(), why: error.to_string() };
    let compression = Compression::of_name(&file.to_ascii_lowercase()).0;
    write_atomically(output, |buffered| {
        let mut writer = TraceWriter::new(buffered, format, compression).map_err(io_error)?;
        fill(&mut writer, &io_error)?;
        writer.finish().map_err(io_error)
    })
}

/// The requests of a load, each completing after a constant time.
struct Generated<'a> {
    source: &'a mut dyn Source,
    service_ns: u64,
    requests: u64,
    issued: u64,
    first: Option<Instant>,
    /// Completions to come: time, order of issue, tag.
    busy: BinaryHeap<Reverse<(u64, u64, u32)>>,
}

impl Generated<'_> {
    fn next_record(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        if self.issued == self.requests {
            return Ok(None);
        }
        let at = loop {
            let next = self.source.next_at();
            match (next, self.busy.peek()) {
                (Some(at), None) => break at,
                (Some(at), Some(Reverse(busy))) if at.0 < busy.0 => break at,
                (_, Some(&Reverse((done_ns, _, tag)))) => {
                    self.busy.pop();
                    self.source.completed(tag, Instant(done_ns));
                }
                (None, None) => return Ok(None),
            }
        };
        let request = self.source.take(at).map_err(|error| TraceError::Io {
            file: String::from("load"),
            why: error.to_string(),
        })?;
        self.issued += 1;
        self.busy.push(Reverse((at.0 + self.service_ns, self.issued, request.tag)));
        let first = *self.first.get_or_insert(at);
        Ok(Some(TraceRecord {
            time_ns: at.since(first).0,
            device: 0,
            offset_bytes: request.range.first.0 * PAGE_BYTES,
            length_bytes: u64::from(request.range.pages) * PAGE_BYTES,
            op: match request.direction {
                Direction::Read => Op::Read,
                Direction::Write => Op::Write,
            },
            service: None,
        }))
    }
}
