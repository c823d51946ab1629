//! Parquet: the columns of the CSV, one row per run, and the time series.

use crate::columns::{COMPARE, Get, RUN, compare_rows, option_column};
use destage_report::model::{CompareReport, RunReport};
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError as Lower;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};
use serde_json::Value;
use std::sync::Arc;

/// The Parquet writer refused its input, which is a bug here, or a file is invalid; exit 1.
#[derive(Debug, thiserror::Error)]
#[error("cannot make or read the Parquet file: {}", .0.to_string().replace('\n', " "))]
pub struct ParquetError(#[from] Lower);

/// A named column with all its values.
struct Column {
    name: String,
    data: Data,
}

enum Data {
    Text(Vec<String>),
    Int(Vec<u64>),
    Num(Vec<f64>),
    MaybeNum(Vec<Option<f64>>),
}

/// A file with one row per run, in the columns of the CSV.
pub fn parquet_runs(runs: &[&RunReport]) -> Result<Vec<u8>, ParquetError> {
    write(&run_columns(runs))
}

/// A file with the one row of a sweep's point: `key`, the columns of a run, and one for each of its
/// options, whatever the sweep varies.
pub fn parquet_row(key: &str, run: &RunReport) -> Result<Vec<u8>, ParquetError> {
    let mut columns = vec![Column { name: "key".into(), data: Data::Text(vec![key.to_owned()]) }];
    columns.extend(run_columns(&[run]));
    columns.extend(run.options.iter().map(|(name, value)| Column {
        name: option_column(name),
        data: Data::Text(vec![value.clone()]),
    }));
    write(&columns)
}

/// Reads a file of rows back: each a list of names and values.
pub fn parquet_read(file: std::fs::File) -> Result<Vec<Vec<(String, Value)>>, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let value = |field: &Field| match field {
            Field::Str(text) => Value::from(text.as_str()),
            Field::ULong(number) => Value::from(*number),
            Field::Double(number) => Value::from(*number),
            _ => Value::Null,
        };
        rows.push(
            row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect(),
        );
    }
    Ok(rows)
}

/// A file with one row per run of each point, in the columns of the comparison's CSV.
pub fn parquet_compare(report: &CompareReport) -> Result<Vec<u8>, ParquetError> {
    let rows = compare_rows(report);
    let mut columns = Vec::new();
    for (i, name) in COMPARE.into_iter().enumerate() {
        let values = rows.iter().map(|(prefix, _)| prefix[i].to_owned()).collect();
        columns.push(Column { name: name.into(), data: Data::Text(values) });
    }
    let runs: Vec<&RunReport> = rows.iter().map(|(_, run)| *run).collect();
    columns.extend(run_columns(&runs));
    if let Some(axis) = &report.axis {
        let values = rows.iter().map(|(prefix, _)| prefix[3].to_owned()).collect();
        columns.push(Column { name: option_column(&axis.name), data: Data::Text(values) });
    }
    write(&columns)
}

/// A file with one row per run and sample: `label`, `seed`, `time_s` (end of the interval, from
/// the start of the warm-up), then the fields of [`destage_report::model::Series`].
pub fn parquet_series(runs: &[&RunReport]) -> Result<Vec<u8>, ParquetError> {
    write(&series_columns(runs))
}

fn run_columns(runs: &[&RunReport]) -> Vec<Column> {
    let column = |column: &crate::columns::Column| {
        let data = match column.get {
            Get::Text(get) => Data::Text(runs.iter().map(|run| get(run)).collect()),
            Get::Int(get) => Data::Int(runs.iter().map(|run| get(run)).collect()),
            Get::Num(get) => Data::Num(runs.iter().map(|run| get(run)).collect()),
            Get::MaybeNum(get) => Data::MaybeNum(runs.iter().map(|run| get(run)).collect()),
        };
        Column { name: column.name.into(), data }
    };
    RUN.iter().map(column).collect()
}

/// Rows a run gives: the length of its longest series.
fn samples(run: &RunReport) -> usize {
    let series = &run.series;
    let lists = [
        &series.occupancy,
        &series.occupancy_max,
        &series.iops,
        &series.response_ms,
        &series.destaged_pages_per_s,
    ];
    lists.map(Vec::len).into_iter().max().unwrap_or(0)
}

fn series_columns(runs: &[&RunReport]) -> Vec<Column> {
    let mut label = Vec::new();
    let mut seed = Vec::new();
    let mut time = Vec::new();
    for run in runs {
        for sample in 0..samples(run) {
            label.push(run.label.clone());
            seed.push(run.seed);
            time.push((sample + 1) as f64 * run.series.interval_s);
        }
    }
    let values = |get: fn(&RunReport) -> &Vec<f64>| {
        let of_run = |run: &&RunReport| {
            let list = get(run);
            (0..samples(run)).map(|i| list.get(i).copied()).collect::<Vec<_>>()
        };
        Data::MaybeNum(runs.iter().flat_map(of_run).collect())
    };
    vec![
        Column { name: "label".into(), data: Data::Text(label) },
        Column { name: "seed".into(), data: Data::Int(seed) },
        Column { name: "time_s".into(), data: Data::Num(time) },
        Column { name: "occupancy_share".into(), data: values(|run| &run.series.occupancy) },
        Column {
            name: "occupancy_max_share".into(),
            data: values(|run| &run.series.occupancy_max),
        },
        Column { name: "iops".into(), data: values(|run| &run.series.iops) },
        Column { name: "response_mean_ms".into(), data: values(|run| &run.series.response_ms) },
        Column {
            name: "destaged_pages_per_s".into(),
            data: values(|run| &run.series.destaged_pages_per_s),
        },
    ]
}

fn field(column: &Column) -> Result<TypePtr, Lower> {
    let (physical, converted, repetition) = match column.data {
        Data::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED),
        Data::Int(_) => (Physical::INT64, ConvertedType::UINT_64, Repetition::REQUIRED),
        Data::Num(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::REQUIRED),
        Data::MaybeNum(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
    };
    let builder = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(repetition)
        .with_converted_type(converted);
    Ok(Arc::new(builder.build()?))
}

fn write(columns: &[Column]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("destage").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut out) = group.next_column()? else { break };
        fill(&mut out, &column.data)?;
        out.close()?;
    }
    group.close()?;
    Ok(writer.into_inner()?)
}

fn fill(out: &mut SerializedColumnWriter<'_>, data: &Data) -> Result<(), Lower> {
    match data {
        Data::Text(values) => {
            let bytes: Vec<ByteArray> =
                values.iter().map(|text| ByteArray::from(text.as_str())).collect();
            out.typed::<ByteArrayType>().write_batch(&bytes, None, None)?;
        }
        Data::Int(values) => {
            // Parquet's unsigned 64-bit integers are stored as the signed ones of the same bits.
            let bits: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
            out.typed::<Int64Type>().write_batch(&bits, None, None)?;
        }
        Data::Num(values) => {
            out.typed::<DoubleType>().write_batch(values, None, None)?;
        }
        Data::MaybeNum(values) => {
            let present: Vec<f64> = values.iter().copied().flatten().collect();
            let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
            out.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?;
        }
    }
    Ok(())
}
