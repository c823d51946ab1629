//! Rows of Parquet and Arrow IPC files (Feather version 2), which are read batch by batch. Only the
//! columns that are needed are read.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, Write};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};
use bytes::Bytes;
use destage_engine::registry::{ChoiceError, Entry};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::super::{Format, Parser, ReadOptions, Row, RowParser, parse};
use super::arrow_file::{ArrowFile, one_line};
use super::grammar::{Column, Place, Spec};
use super::guarded::guarded;
use super::presets;
use super::rows::{CELLS, Cell, Rows};
use super::{of_columns, unknown_columns};

/// Rows that are read at once from Parquet; Arrow files have batches of their own.
const BATCH_ROWS: usize = 8192;

pub(in crate::trace) const PARQUET: Format = Format {
    sniff: Some(|head| head.starts_with(b"PAR1")),
    ..of_columns(
        &Entry {
            name: "parquet",
            summary: "Parquet with our columns, those of a preset, or by --trace-columns",
            source: "Apache Parquet",
            params: &[],
        },
        &[".parquet"],
        |_, _| Ok(Parser::NoTable),
    )
};

pub(in crate::trace) const ARROW: Format = Format {
    sniff: Some(|head| head.starts_with(b"ARROW1")),
    ..of_columns(
        &Entry {
            name: "arrow",
            summary: "Arrow IPC file (Feather version 2), likewise",
            source: "Apache Arrow",
            params: &[],
        },
        &[".arrow", ".feather"],
        |_, _| Ok(Parser::NoTable),
    )
};

/// The format of a table that begins so.
pub(in crate::trace) fn format_of(head: &[u8]) -> Option<&'static Format> {
    [&PARQUET, &ARROW].into_iter().find(|format| format.sniff.is_some_and(|sniff| sniff(head)))
}

/// Where a table is read from.
pub(in crate::trace) enum Source {
    /// A file.
    File(File),
    /// Its contents.
    Bytes(Vec<u8>),
}

/// Why a table cannot be read.
pub(in crate::trace) enum Refused {
    /// It names keys, not addresses.
    NoAddresses,
    /// The format that was named has a parameter that does not fit.
    Choice(ChoiceError),
    /// In words.
    Because(String),
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused::Because(why)
    }
}

/// Opens a table and finds its columns: those that the options describe, or of the first preset
/// that fits.
pub(in crate::trace) fn open(
    format: &'static Format,
    source: Source,
    options: &ReadOptions,
) -> Result<Box<dyn RowParser>, Refused> {
    let specs = match (&options.columns, &options.format) {
        (Some(columns), _) => Some(vec![Arc::clone(&columns.0)]),
        (None, None) => Some(presets::all()),
        (None, Some(text)) => {
            let choice = parse(text).map_err(Refused::Choice)?;
            // These say what the file is, the other formats of columns only which ones it has.
            let kinds = [&PARQUET, &ARROW, &presets::CSV].map(|kind| kind.entry.name);
            match choice.entry.name {
                name if name == format.entry.name => Some(presets::all()),
                name if kinds.contains(&name) => None,
                _ => presets::of_table(&choice).map_err(Refused::Choice)?,
            }
        }
    };
    let specs = &specs.ok_or_else(|| {
        let named = options.format.as_deref().unwrap_or_default();
        format!("the file is {}, not {named}: leave the format out", format.entry.name)
    })?[..];
    if specs.is_empty() {
        return Err(Refused::NoAddresses);
    }
    let described = options.columns.is_some();
    match (format.entry.name, source) {
        ("parquet", Source::File(file)) => parquet(file, specs, described),
        ("parquet", Source::Bytes(bytes)) => parquet(Bytes::from(bytes), specs, described),
        (_, Source::File(file)) => arrow(BufReader::new(file), specs, described),
        (_, Source::Bytes(bytes)) => arrow(Cursor::new(bytes), specs, described),
    }
}

fn parquet(
    source: impl parquet::file::reader::ChunkReader + 'static,
    specs: &[Arc<Spec>],
    described: bool,
) -> Result<Box<dyn RowParser>, Refused> {
    let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(source).map_err(one_line))?;
    let bound = Bound::of(builder.schema(), specs, described)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), bound.roots.iter().copied());
    let builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
    let reader = guarded(|| builder.build().map_err(one_line))?;
    Ok(bound.reader(Box::new(reader.map(|batch| batch.map_err(one_line)))))
}

fn arrow(
    source: impl Read + Seek + Send + 'static,
    specs: &[Arc<Spec>],
    described: bool,
) -> Result<Box<dyn RowParser>, Refused> {
    let file = guarded(|| ArrowFile::open(source))?;
    let bound = Bound::of(file.schema(), specs, described)?;
    let file = file.only(&bound.roots);
    Ok(bound.reader(Box::new(file)))
}

/// The columns that are read.
struct Bound {
    /// Their positions in the file, in order.
    roots: Vec<usize>,
    /// The position among those, and the cell that it fills.
    wanted: Vec<(usize, usize)>,
    rows: Rows,
}

impl Bound {
    /// By the first of several specifications whose columns are all there.
    fn of(schema: &Schema, specs: &[Arc<Spec>], described: bool) -> Result<Bound, Refused> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let mut missing = None;
        for spec in specs {
            match spec.located(&names) {
                Ok((spec, places)) => return Ok(Bound::of_places(schema, spec, &places)?),
                Err(why) => missing = missing.or(Some(why)),
            }
        }
        if specs.len() > 1 && presets::has_key_value_names(|name| names.contains(&name)) {
            return Err(Refused::NoAddresses);
        }
        let missing = missing.filter(|_| described);
        Err(Refused::Because(missing.unwrap_or_else(|| unknown_columns(&names))))
    }

    fn of_places(schema: &Schema, spec: Spec, places: &[Place]) -> Result<Bound, String> {
        let count = schema.fields().len();
        let mut time_unit_ns = 1;
        for Place { at, cell, column } in places {
            if *at >= count {
                return Err(format!("there are {count} columns, and none has the number {column}"));
            }
            let kind = schema.field(*at).data_type();
            if *cell == 0 {
                let asked = spec.time.as_ref().and_then(|(_, unit)| *unit);
                time_unit_ns = time_unit(kind, asked, column)?;
            } else if !is_plain(kind) {
                return Err(format!("column {column} has the type {kind}, not numbers or text"));
            }
        }
        let mut roots: Vec<usize> = places.iter().map(|place| place.at).collect();
        roots.sort_unstable();
        roots.dedup();
        let at = |position: usize| roots.binary_search(&position).expect("it is one of them");
        let wanted = places.iter().map(|place| (at(place.at), place.cell)).collect();
        Ok(Bound { wanted, rows: Rows::new(spec, time_unit_ns), roots })
    }

    fn reader(self, batches: Batches) -> Box<dyn RowParser> {
        let buffers = std::array::from_fn(|_| Vec::new());
        let Bound { wanted, rows, .. } = self;
        Box::new(Table { batches, wanted, rows, columns: Vec::new(), left: 0, at: 0, buffers })
    }
}

/// Nanoseconds of the unit of a column's times.
fn time_unit(kind: &DataType, asked: Option<u64>, column: &Column) -> Result<u64, String> {
    let typed = match kind {
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        },
        kind if is_plain(kind) => {
            let needed = "has plain numbers: they need a unit, e.g.";
            return asked.ok_or_else(|| format!("column {column} {needed} time={column}:us"));
        }
        kind => return Err(format!("column {column} has the type {kind}, which is not a time")),
    };
    match asked {
        Some(asked) if asked != typed => {
            Err(format!("column {column} has the type {kind}, which says its unit: leave it out"))
        }
        _ => Ok(typed),
    }
}

/// Numbers, text or truth values.
fn is_plain(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_plain(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Boolean => true,
        DataType::Float32 | DataType::Float64 => true,
        kind => kind.is_integer(),
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

struct Table {
    batches: Batches,
    wanted: Vec<(usize, usize)>,
    rows: Rows,
    /// Of the batch.
    columns: Vec<ColumnData>,
    /// Rows of the batch, and the next.
    left: usize,
    at: usize,
    buffers: [Vec<u8>; CELLS],
}

/// A column of a batch. Of a dictionary: its values, and where each row has its own.
struct ColumnData {
    values: ArrayRef,
    keys: Option<(ArrayRef, Vec<usize>)>,
}

impl ColumnData {
    fn of(column: &ArrayRef) -> ColumnData {
        match column.as_any_dictionary_opt() {
            Some(dictionary) if !dictionary.values().is_empty() => ColumnData {
                values: Arc::clone(dictionary.values()),
                keys: Some((Arc::clone(column), dictionary.normalized_keys())),
            },
            _ => ColumnData { values: Arc::clone(column), keys: None },
        }
    }

    fn cell<'a>(&'a self, row: usize, buffer: &'a mut Vec<u8>) -> Cell<'a> {
        match &self.keys {
            Some((outer, _)) if outer.is_null(row) => Cell::Missing,
            Some((_, keys)) => cell(&self.values, keys[row], buffer),
            None => cell(&self.values, row, buffer),
        }
    }
}

impl RowParser for Table {
    fn row(&mut self) -> Row {
        while self.at == self.left {
            let batch = guarded(|| self.batches.next().transpose())?;
            let Some(batch) = batch else { return Ok(None) };
            self.columns = batch.columns().iter().map(ColumnData::of).collect();
            (self.left, self.at) = (batch.num_rows(), 0);
        }
        let mut cells = [Cell::Missing; CELLS];
        for ((column, cell), buffer) in self.wanted.iter().zip(&mut self.buffers) {
            cells[*cell] = self.columns[*column].cell(self.at, buffer);
        }
        self.at += 1;
        Ok(Some(self.rows.record(&cells)))
    }
}

/// A value of a column of a type that is read.
fn cell<'a>(values: &'a ArrayRef, row: usize, buffer: &'a mut Vec<u8>) -> Cell<'a> {
    if values.is_null(row) {
        return Cell::Missing;
    }
    macro_rules! integer {
        ($kind:ty) => {
            match u64::try_from(values.as_primitive::<$kind>().value(row)) {
                Ok(number) => Cell::Number(number),
                Err(_) => written(buffer, values.as_primitive::<$kind>().value(row)),
            }
        };
    }
    match values.data_type() {
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Timestamp(TimeUnit::Second, _) => integer!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => integer!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integer!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => integer!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => integer!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => integer!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => integer!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => integer!(DurationNanosecondType),
        DataType::Float32 => written(buffer, values.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => written(buffer, values.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => written(buffer, values.as_boolean().value(row)),
        DataType::Utf8 => Cell::Text(values.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => Cell::Text(values.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => Cell::Text(values.as_string_view().value(row).as_bytes()),
        _ => Cell::Missing,
    }
}

/// A value as text, which keeps what is not a whole number for an error.
fn written(buffer: &mut Vec<u8>, value: impl std::fmt::Display) -> Cell<'_> {
    buffer.clear();
    write!(buffer, "{value}").expect("a vector takes everything");
    Cell::Text(buffer)
}
