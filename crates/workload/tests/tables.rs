//! Parquet and Arrow files of other programs: types, compressions, presets, what is refused, and
//! what is written.
#![cfg(feature = "tables")]

mod support;

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, LargeStringArray,
    RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray, UInt16Array, UInt64Array,
};
use destage_workload::trace::convert::convert;
use destage_workload::trace::{Columns, Op, ReadOptions, Reader};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use support::{of_format, read, record, tuple};

type Column = (&'static str, ArrayRef);

fn parquet(columns: Vec<Column>, compression: Compression) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    let batch = batch.expect("columns of one length");
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(2))
        .build();
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("complete");
    bytes
}

fn arrow(columns: Vec<Column>, compression: Option<arrow_ipc::CompressionType>) -> Vec<u8> {
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    let batch = batch.expect("columns of one length");
    let options = IpcWriteOptions::default().try_with_compression(compression).expect("known");
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options);
    let writer = writer.as_mut().expect("a writer");
    for at in 0..batch.num_rows() {
        writer.write(&batch.slice(at, 1)).expect("written");
    }
    writer.finish().expect("complete");
    bytes
}

fn of_columns(text: &str) -> ReadOptions {
    let columns = Some(Columns::parse(text).expect("a description"));
    ReadOptions { columns, ..ReadOptions::default() }
}

fn error(content: &[u8], options: &ReadOptions) -> String {
    let error = read(content, "t", options).expect_err("refused").to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// Columns of all the types that are read, and what they mean.
fn mixed() -> Vec<Column> {
    let kinds: DictionaryArray<Int8Type> =
        [Some("GET"), Some("PUT"), Some("FLUSH"), Some("GET")].into_iter().collect();
    vec![
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(vec![
                1_000_000, 1_000_005, 1_000_006, 1_000_007,
            ])),
        ),
        ("note", Arc::new(StringArray::from(vec!["a", "b", "c", "d"]))),
        ("kind", Arc::new(kinds)),
        ("lba", Arc::new(Float64Array::from(vec![8.0, 16.0, 0.0, 3e9]))),
        ("len", Arc::new(UInt16Array::from(vec![512, 1024, 0, 3]))),
        ("disk", Arc::new(LargeStringArray::from(vec!["sdb", "sda", "sda", "sdb"]))),
        ("write", Arc::new(BooleanArray::from(vec![false, true, true, false]))),
        ("text", Arc::new(StringViewArray::from(vec!["8", "16", "0", "24"]))),
    ]
}

#[test]
fn the_types_of_other_programs_are_read_in_every_compression() {
    use Op::{Read, Write};
    let options = of_columns(
        "time=ts, op=kind:read=GET:write=PUT:skip=*, offset=lba:sectors, size=len, \
         device=disk:name",
    );
    let expected = [
        (0, 0, 4096, 512, Read),
        (5_000, 1, 8192, 1024, Write),
        (7_000, 0, 3_000_000_000 * 512, 3, Read),
    ];
    let gzip = Compression::GZIP(GzipLevel::default());
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let parquets =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, gzip, zstd, Compression::LZ4_RAW];
    let mut files: Vec<Vec<u8>> = parquets.map(|how| parquet(mixed(), how)).into();
    let lz4 = arrow_ipc::CompressionType::LZ4_FRAME;
    for how in [None, Some(lz4), Some(arrow_ipc::CompressionType::ZSTD)] {
        // One dictionary for all batches.
        let plain: Vec<Column> = mixed().into_iter().filter(|(name, _)| *name != "kind").collect();
        let kinds = StringArray::from(vec!["GET", "PUT", "FLUSH", "GET"]);
        files.push(arrow([plain, vec![("kind", Arc::new(kinds) as ArrayRef)]].concat(), how));
    }
    for file in &files {
        let records = read(file, "t", &options).expect("a trace");
        assert_eq!(records.iter().map(tuple).collect::<Vec<_>>(), expected);
    }
    let others = of_columns("time=1:us, op=write:read=false:write=true, offset=text:sectors");
    let records = read(&files[0], "t", &others).expect("a trace");
    let found: Vec<_> = records.iter().map(|r| (r.offset_bytes, r.length_bytes, r.op)).collect();
    assert_eq!(
        found,
        [(4096, 512, Read), (8192, 512, Write), (0, 512, Write), (24 * 512, 512, Read)]
    );
}

/// A few bytes could take all memory.
#[test]
fn an_arrow_file_that_expands_too_far_is_refused() {
    // Numbers that are not compressed well: 16 KiB may say that they are 512 MiB.
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 44) as i64
    };
    let numbers: Vec<i64> = (0..4_001).map(|_| next()).collect();
    let column = || Arc::new(Int64Array::from(numbers.clone())) as ArrayRef;
    let names = ["time", "offset", "size", "op"];
    let batch = RecordBatch::try_from_iter(names.map(|name| (name, column())));
    let batch = batch.expect("columns of one length");
    let zstd = Some(arrow_ipc::CompressionType::ZSTD);
    let options = arrow_ipc::writer::IpcWriteOptions::default().try_with_compression(zstd);
    let mut file = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new_with_options(
        &mut file,
        &batch.schema(),
        options.expect("known"),
    )
    .expect("a writer");
    writer.write(&batch).expect("written");
    writer.finish().expect("complete");
    drop(writer);
    let options = of_columns("time=time:us, offset=offset:sectors, size=size, op=op");
    let said = (8 * numbers.len() as u64).to_le_bytes();
    let at = file.windows(8).position(|bytes| bytes == said).expect("a size");
    for (mib, refused) in [(200_u64, false), (300, true)] {
        file[at..at + 8].copy_from_slice(&(mib << 20).to_le_bytes());
        let why = error(&file, &options);
        assert_eq!(
            why.contains("expands to 300 MiB: write the file with smaller"),
            refused,
            "{why}"
        );
    }
}

#[test]
fn presets_are_found_by_the_names_of_the_columns() {
    let number = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let tectonic = || -> Vec<Column> {
        vec![
            ("block_id", number(vec![7, 9, 7])),
            ("io_offset", number(vec![4096, 0, 0])),
            ("io_size", number(vec![512, 512, 1])),
            ("op_time", Arc::new(Float64Array::from(vec![1.5, 2.0, 2.0]))),
            ("op_name", number(vec![1, 4, 6])),
        ]
    };
    for content in [parquet(tectonic(), Compression::SNAPPY), arrow(tectonic(), None)] {
        for options in [ReadOptions::default(), of_format("tectonic")] {
            let records = read(&content, "t", &options).expect("a trace");
            let found: Vec<_> = records.iter().map(tuple).collect();
            let expected = [
                (0, 0, 4096, 512, Op::Read),
                (500_000_000, 0, 8 << 20, 512, Op::Write),
                (500_000_000, 0, 0, 1, Op::Write),
            ];
            assert_eq!(found, expected);
        }
    }
    let key_value: Vec<Column> = vec![
        ("key", number(vec![7, 9, 7])),
        ("op", Arc::new(StringArray::from(vec!["SET", "GET", "GET"]))),
        ("size", number(vec![10, 20, 10])),
        ("op_count", number(vec![1, 1, 1])),
        ("key_size", number(vec![1, 1, 1])),
    ];
    let content = parquet(key_value, Compression::UNCOMPRESSED);
    assert!(error(&content, &ReadOptions::default()).contains("have no addresses on a disk"));
    assert!(error(&content, &of_format("cachelib-kv")).contains("have no addresses on a disk"));
    let records = read(&content, "t", &of_format("cachelib-kv:place=4K")).expect("a trace");
    let found: Vec<_> = records.iter().map(|r| (r.offset_bytes, r.op)).collect();
    assert_eq!(found, [(0, Op::Write), (4096, Op::Read), (0, Op::Read)]);
}

#[test]
fn what_cannot_be_read_is_named() {
    let content = parquet(mixed(), Compression::SNAPPY);
    let plain = ReadOptions::default();
    assert_eq!(
        error(&content, &plain),
        "t: its columns are ts, note, kind, lba, len, disk, write, text: say what they hold with \
         --trace-columns, e.g. 'time=ts:us, op=kind, offset=lba:sectors, size=len'"
    );
    assert_eq!(
        error(&content, &of_columns("offset=where:pages")),
        "t: no column is named where; there are: ts, note, kind, lba, len, disk, write, text"
    );
    assert_eq!(
        error(&content, &of_columns("offset=where*:pages")),
        "t: no column is like where*; there are: ts, note, kind, lba, len, disk, write, text"
    );
    assert_eq!(
        error(&content, &of_columns("offset=l*:pages")),
        "t: several columns are like l*: lba, len"
    );
    assert_eq!(
        error(&content, &of_columns("offset=9:pages")),
        "t: there are 8 columns, and none has the number 9"
    );
    assert!(
        error(&content, &of_columns("time=ts:s,offset=lba:pages")).starts_with(
            "t: column ts has the type Timestamp(µs), which says its unit: leave it out"
        )
    );
    assert_eq!(
        error(&content, &of_columns("time=len,offset=lba:pages")),
        "t: column len has plain numbers: they need a unit, e.g. time=len:us"
    );
    assert_eq!(
        error(&content, &of_columns("offset=note:pages")),
        "t: row 1: expected an offset as a whole number of units of 4096 bytes in column note, \
         found `a`"
    );
    assert_eq!(
        error(&content, &of_format("msr")),
        "t: the file is parquet, not msr: leave the format out"
    );
    assert_eq!(
        error(b"0 0 0 8 0\n", &of_format("parquet")),
        "t: the file is neither Parquet nor an Arrow IPC file"
    );
    let packed = support::compress(&content, "gz");
    assert_eq!(
        error(&packed, &plain),
        "t: a compressed parquet file: decompress it, its columns are compressed"
    );
    assert!(error(&content[..content.len() - 1], &plain).starts_with("t: "));
    let missing: Vec<Column> =
        vec![("a", Arc::new(UInt64Array::from(vec![Some(1), None, Some(2)])))];
    let content = parquet(missing, Compression::UNCOMPRESSED);
    let options = of_columns("offset=a:pages");
    assert_eq!(
        error(&content, &options),
        "t: row 2: expected an offset as a whole number of units of 4096 bytes in column a, \
         found ``"
    );
    let skipping = ReadOptions { skip_bad: true, ..options };
    assert_eq!(read(&content, "t", &skipping).expect("read").len(), 2);
}

#[test]
fn a_format_that_the_first_bytes_contradict_is_refused() {
    let native = support::native(&[record(0, 0, 0, 4096, Op::Write)]);
    let parquet = parquet(mixed(), Compression::SNAPPY);
    for (content, is, not) in [
        (&parquet, "parquet", "csv"),
        (&parquet, "parquet", "arrow"),
        (&arrow(mixed(), None), "arrow", "csv"),
        (&arrow(mixed(), None), "arrow", "parquet"),
        (&native, "destage", "csv"),
        (&native, "destage", "parquet"),
    ] {
        let why = format!("t: the file is {is}, not {not}: leave the format out");
        assert_eq!(error(content, &of_format(not)), why);
    }
    assert_eq!(
        error(&native, &of_columns("offset=1:pages")),
        "t: the file is destage, which has no columns: leave them out"
    );
    assert_eq!(read(&native, "t", &of_format("destage")).expect("read").len(), 1);
}

#[test]
fn what_is_converted_is_parquet_or_arrow() {
    let folder = tempfile::tempdir().expect("a folder");
    let records: Vec<_> = (0..200_000u64)
        .map(|i| record(i * 10, (i % 3) as u32, i * 7 % 4099 * 512, 512 << (i % 4), Op::Write))
        .collect();
    let native = folder.path().join("a.dtrc");
    std::fs::write(&native, support::native(&records)).expect("written");
    for (name, magic) in
        [("a.parquet", &b"PAR1"[..]), ("a.arrow", b"ARROW1"), ("a.FEATHER", b"ARROW1")]
    {
        let path = folder.path().join(name);
        let mut reader = Reader::open(&native, &ReadOptions::default()).expect("a trace");
        assert_eq!(convert(&mut reader, &path, None), Ok(200_000));
        let bytes = std::fs::read(&path).expect("a file");
        assert!(bytes.starts_with(magic) && bytes.ends_with(magic), "{name}");
        let again = Reader::open(&path, &ReadOptions::default()).expect("a trace");
        let again: Result<Vec<_>, _> = again.collect();
        assert_eq!(again.expect("read"), records, "{name}");
    }
    let mut reader = Reader::open(&native, &ReadOptions::default()).expect("a trace");
    let packed = folder.path().join("a.parquet.zst");
    let error = convert(&mut reader, &packed, None).expect_err("refused").to_string();
    assert!(error.ends_with("leave .gz, .zst or .xz out of the name"), "{error}");
    assert!(!packed.exists());
}
