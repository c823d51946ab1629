//! Writing Parquet and Arrow IPC files with the columns of our CSV.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::TraceRecord;
use super::columns::presets::OWN;

/// Rows of a batch, and of a row group of Parquet.
const BATCH_ROWS: usize = 1 << 16;
const GROUP_ROWS: usize = 1 << 18;

/// Writes records as rows.
pub(super) struct TableWriter<W: Write + Send> {
    file: File<W>,
    schema: SchemaRef,
    /// All columns but the operation, which is text.
    numbers: [Vec<i64>; 4],
    ops: Vec<&'static str>,
}

enum File<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    Arrow(Box<FileWriter<W>>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file, which is Parquet or Arrow IPC.
    pub(super) fn new(output: W, parquet: bool) -> io::Result<TableWriter<W>> {
        let fields = OWN.map(|name| {
            let kind = if name == "op" { DataType::Utf8 } else { DataType::Int64 };
            Field::new(name, kind, false)
        });
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let file = if parquet {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .set_max_row_group_row_count(Some(GROUP_ROWS))
                .build();
            let writer = ArrowWriter::try_new(output, Arc::clone(&schema), Some(properties));
            File::Parquet(Box::new(writer.map_err(io::Error::other)?))
        } else {
            let options = IpcWriteOptions::default()
                .try_with_compression(Some(CompressionType::ZSTD))
                .map_err(io::Error::other)?;
            let writer = FileWriter::try_new_with_options(output, &schema, options);
            File::Arrow(Box::new(writer.map_err(io::Error::other)?))
        };
        Ok(TableWriter { file, schema, numbers: Default::default(), ops: Vec::new() })
    }

    pub(super) fn write(&mut self, record: &TraceRecord) -> io::Result<()> {
        let TraceRecord { time_ns, device, offset_bytes, length_bytes, op, .. } = *record;
        let row = [time_ns, u64::from(device), offset_bytes, length_bytes];
        for (column, value) in self.numbers.iter_mut().zip(row) {
            // Readers keep all of them below 2^62.
            column.push(i64::try_from(value).map_err(io::Error::other)?);
        }
        self.ops.push(op.letter());
        if self.ops.len() == BATCH_ROWS { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let numbers = self.numbers.iter_mut().map(std::mem::take);
        let numbers = numbers.map(|column| Arc::new(Int64Array::from(column)) as ArrayRef);
        let ops = Arc::new(StringArray::from(std::mem::take(&mut self.ops))) as ArrayRef;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), numbers.chain([ops]).collect());
        let batch = batch.map_err(io::Error::other)?;
        match &mut self.file {
            File::Parquet(writer) => writer.write(&batch).map_err(io::Error::other),
            File::Arrow(writer) => writer.write(&batch).map_err(io::Error::other),
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        if !self.ops.is_empty() {
            self.write_batch()?;
        }
        match self.file {
            File::Parquet(writer) => writer.close().map(drop).map_err(io::Error::other),
            File::Arrow(mut writer) => writer.finish().map_err(io::Error::other),
        }
    }
}
