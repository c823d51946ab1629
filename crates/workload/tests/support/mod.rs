//! Small traces in every format, made here.

#![allow(dead_code)]

use std::io::{Cursor, Write};

use destage_workload::trace::write::{OutputFormat, TraceWriter};
use destage_workload::trace::{Op, ReadOptions, Reader, TraceError, TraceRecord};

/// One sample: name of the file, format that must be detected, content, what must be read.
pub struct SampleTrace {
    /// A hint only where content cannot tell.
    pub name: &'static str,
    /// Format expected.
    pub format: &'static str,
    /// Bytes of the file.
    pub content: Vec<u8>,
    /// (time_ns, device, offset_bytes, length_bytes, op).
    pub records: Vec<(u64, u32, u64, u64, Op)>,
}

/// A record as a tuple.
pub fn tuple(record: &TraceRecord) -> (u64, u32, u64, u64, Op) {
    (record.time_ns, record.device, record.offset_bytes, record.length_bytes, record.op)
}

/// A reader over bytes.
pub fn reader(content: &[u8], name: &str, options: &ReadOptions) -> Result<Reader, TraceError> {
    Reader::from_read(Box::new(Cursor::new(content.to_vec())), name, options)
}

/// Everything read, or the first error.
pub fn read(
    content: &[u8],
    name: &str,
    options: &ReadOptions,
) -> Result<Vec<TraceRecord>, TraceError> {
    reader(content, name, options)?.collect()
}

/// Options that name a format.
pub fn of_format(format: &str) -> ReadOptions {
    ReadOptions { format: Some(format.to_string()), ..ReadOptions::default() }
}

fn vscsi(version: u16, sn: u32, len: u32, cmd: u16, lbn: u64, ts: u64) -> Vec<u8> {
    let (sn, len, segments) = (sn.to_le_bytes(), len.to_le_bytes(), 1u32.to_le_bytes());
    let (cmd, ver) = (cmd.to_le_bytes(), (version << 8).to_le_bytes());
    let (lbn, ts) = (lbn.to_le_bytes(), ts.to_le_bytes());
    if version == 1 {
        [&sn[..], &len, &segments, &cmd, &ver, &lbn, &ts].concat()
    } else {
        [&cmd[..], &ver, &sn, &len, &segments, &lbn, &ts, &[0; 8]].concat()
    }
}

fn srt() -> Vec<u8> {
    let mut content = b"$$TR_IOREC-1.3 (made here)\nsectorsize = 256,\n\x0c".to_vec();
    for words in [
        [56, 1, 10, 5, 174, 19_687, 4096, 1040, 0x0800_0107, 4, 1, 27, 0, 1],
        [56, 1, 11, 0, 10, 20, 1000, 8, 0x0800_0008, 4, 1, 0x100_0000 | 0x100, 0, 1u32],
    ] {
        content.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }
    content
}

fn oracle(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let mut content = Vec::new();
    for (time, id, size, next) in records {
        content.extend(time.to_le_bytes());
        content.extend(id.to_le_bytes());
        content.extend(size.to_le_bytes());
        content.extend(next.to_le_bytes());
    }
    content
}

/// Events of blktrace: (version, time, sector, bytes, action, bytes that follow).
pub fn blktrace(events: &[(u32, u64, u64, u32, u64, u16)], big: bool) -> Vec<u8> {
    let mut content = Vec::new();
    let mut put = |value: u64, bytes: usize| match big {
        true => content.extend(&value.to_be_bytes()[8 - bytes..]),
        false => content.extend(&value.to_le_bytes()[..bytes]),
    };
    for &(version, time, sector, bytes, action, more) in events {
        put(0x6561_7400 | u64::from(version), 4);
        let middle = match version {
            7 => [(action, 4), (42, 4)],
            _ => [(42, 4), (action, 8)],
        };
        let first = [(1, 4), (time, 8), (sector, 8), (u64::from(bytes), 4)];
        let last = [(8 << 20 | 16, 4), (3, 4), (0, 2), (u64::from(more), 2)];
        for (value, bytes) in first.into_iter().chain(middle).chain(last) {
            put(value, bytes);
        }
        (0..if version == 8 { 12 } else { 0 } + more).for_each(|_| put(0x5a, 1));
    }
    content
}

/// Events of one kind of trace: a message, a queued write, its issue, a flush, a discard, a read
/// with a control group behind it.
pub fn blktrace_events(version: u32, big: bool) -> Vec<u8> {
    let (queue, write, read) = (1 << 20, 1 << 17, 1 << 16);
    blktrace(
        &[
            (version, 90, 0, 0, 1 << 26 | 2, 5),
            (version, 100, 8, 4096, queue | write | 1, 0),
            (version, 150, 8, 4096, write | 1 << 23 | 7, 0),
            (version, 160, 0, 0, queue | write | 1, 0),
            (version, 170, 0, 8192, queue | write | 1 << 29 | 1, 0),
            (version, 2_100, 16, 512, queue | read | 0x101, 8),
        ],
        big,
    )
}

/// Our own binary format, by the library's writer.
pub fn native(records: &[TraceRecord]) -> Vec<u8> {
    written(records, OutputFormat::Destage { with_service: true })
}

/// A trace by the library's writer.
pub fn written(records: &[TraceRecord], format: OutputFormat) -> Vec<u8> {
    use destage_workload::trace::Compression;
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, format, Compression::None).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

/// A plain record.
pub fn record(time_ns: u64, device: u32, offset: u64, length: u64, op: Op) -> TraceRecord {
    TraceRecord { time_ns, device, offset_bytes: offset, length_bytes: length, op, service: None }
}

fn text(
    name: &'static str,
    format: &'static str,
    content: &str,
    records: Vec<(u64, u32, u64, u64, Op)>,
) -> SampleTrace {
    SampleTrace { name, format, content: content.as_bytes().to_vec(), records }
}

/// Samples that may come compressed, or through a pipe.
pub fn streamed() -> Vec<SampleTrace> {
    samples().into_iter().filter(|s| !["parquet", "arrow"].contains(&s.format)).collect()
}

/// A sample of every format.
pub fn samples() -> Vec<SampleTrace> {
    let mut all = column_samples();
    all.extend(event_samples());
    all.extend(cloud_samples());
    all.extend(binary_samples());
    all
}

fn binary_samples() -> Vec<SampleTrace> {
    use Op::{Read, Unknown, Write};
    let native_records = [record(0, 3, 4096, 512, Read), record(9, 0, 0, 8192, Write)];
    let vscsi_records = vec![(0, 0, 8 * 512, 4096, Write), (7_000, 0, 512, 512, Read)];
    let vscsi_of = |version| {
        // The flush between moves no data.
        [
            vscsi(version, 1, 4096, 0x2a, 8, 100),
            vscsi(version, 2, 0, 0x35, 0, 103),
            vscsi(version, 3, 512, 0x28, 1, 107),
        ]
        .concat()
    };
    let table_records = [record(0, 3, 4096, 512, Read), record(7, 0, 1, 0, Unknown)];
    let rows: Vec<_> = table_records.iter().map(tuple).collect();
    let sda = 8 << 20 | 16;
    let blktrace_records = vec![(0, sda, 4096, 4096, Write), (2_000, sda, 8192, 512, Read)];
    let sample = |name, format, content, records| SampleTrace { name, format, content, records };
    vec![
        sample("a", "destage", native(&native_records), native_records.iter().map(tuple).collect()),
        sample(
            "a",
            "srt",
            srt(),
            vec![(0, 1, 1040 * 256, 4096, Read), (999_995_000, 0, 8 * 256, 1000, Write)],
        ),
        sample("a", "blktrace", blktrace_events(7, false), blktrace_records.clone()),
        sample("a", "blktrace", blktrace_events(7, true), blktrace_records.clone()),
        sample("a", "blktrace", blktrace_events(8, false), blktrace_records),
        sample("a", "parquet", written(&table_records, OutputFormat::Parquet), rows.clone()),
        sample("a", "arrow", written(&table_records, OutputFormat::Arrow), rows),
        sample("a", "vscsi1", vscsi_of(1), vscsi_records.clone()),
        sample("a", "vscsi2", vscsi_of(2), vscsi_records),
        sample(
            "a",
            "oracle-general",
            oracle(&[(5, 2, 4096, 2), (6, 2, 4096, -1)]),
            vec![(0, 0, 1024, 4096, Unknown), (1_000_000_000, 0, 1024, 4096, Unknown)],
        ),
    ]
}

fn column_samples() -> Vec<SampleTrace> {
    use Op::{Read, Unknown, Write};
    vec![
        text(
            "a",
            "msr",
            "128166372003061629,hm,1,Read,383496192,32768,413\n\
             128166372003061639,hm,1,Write,4096,512,413\n",
            vec![(0, 1, 383_496_192, 32_768, Read), (1000, 1, 4096, 512, Write)],
        ),
        text(
            "a",
            "msr",
            "0 128166372003061629,hm,0,Read,0,512,1\r\n\
             1 128166372003061629,src,0,Write,0,512,1\r\n",
            vec![(0, 0, 0, 512, Read), (0, 1 << 16, 0, 512, Write)],
        ),
        text(
            "a",
            "ssdsim",
            "0 0 303567 7 0\n26214000 1 8 8 1\n",
            vec![(0, 0, 303_567 * 512, 3584, Write), (26_214_000, 1, 4096, 4096, Read)],
        ),
        text(
            "a",
            "disksim",
            "13.191135\t30\t0\t5\t1\n17.829285 20 8 6 0\n",
            vec![(0, 30, 0, 2560, Read), (4_638_150, 20, 4096, 3072, Write)],
        ),
        text(
            "OLTP.lis",
            "arc",
            "1 1 0 0\n2 3 0 0\n",
            vec![(0, 0, 4096, 4096, Unknown), (0, 0, 8192, 3 * 4096, Unknown)],
        ),
        text(
            "P9.lis",
            "arc",
            "16 8 3 0\n1 1 0 1\n",
            vec![(0, 0, 8192, 4096, Unknown), (0, 0, 512, 512, Unknown)],
        ),
        text(
            "a",
            "blocks",
            "# blocks\n3\n0\n",
            vec![(0, 0, 3 * 4096, 4096, Unknown), (0, 0, 0, 4096, Unknown)],
        ),
    ]
}

fn event_samples() -> Vec<SampleTrace> {
    use Op::{Read, Write};
    vec![
        text(
            "a",
            "spc",
            "0,20941264,8192,W,0.551706\n1,8,512,r,0.554041,x\n",
            vec![(0, 0, 20_941_264 * 512, 8192, Write), (2_335_000, 1, 4096, 512, Read)],
        ),
        text(
            "a",
            "blkparse",
            "  8,0    3        1     0.000000000   697  Q   W 8 + 8 [kjournald]\n  \
             8,0    3        2     0.000000100   697  G   W 8 + 8 [kjournald]\n  \
             8,16   1        3     0.000002000   697  Q  RA 16 + 1 [x]\n  \
             8,0    0        0     0.000003000     0  m   N cfq something\n  \
             8,0    1        4     0.000004000   697  Q FWS [x]\n\
             CPU0 (8,0):\n Reads Queued:           0,        0KiB\n",
            vec![(0, 8 << 20, 4096, 4096, Write), (2000, 8 << 20 | 16, 8192, 512, Read)],
        ),
        text(
            "a",
            "fio",
            "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a write 0 4096\n\
             /dev/a wait 150 0\n/dev/b read 8192 512\n/dev/a close\n",
            vec![(0, 0, 0, 4096, Write), (150_000, 1, 8192, 512, Read)],
        ),
        text(
            "a",
            "fio",
            "fio version 3 iolog\n2 a add\n3 a open\n878 a write 0 16384\n888 a read 4096 512\n\
             890 a sync\n900 a close\n",
            vec![(0, 0, 0, 16_384, Write), (10_000, 0, 4096, 512, Read)],
        ),
    ]
}

fn cloud_samples() -> Vec<SampleTrace> {
    use Op::{Read, Unknown, Write};
    vec![
        text(
            "a",
            "alibaba",
            "419,W,8792731648,16384,1577808144360767\n420,R,4096,512,1577808144360768\n",
            vec![(0, 419, 8_792_731_648, 16_384, Write), (1000, 420, 4096, 512, Read)],
        ),
        text(
            "a",
            "tencent",
            "1538323200,12910952,128,0,1063\n1538323201,8,8,1,1064\n",
            vec![
                (0, 1063, 12_910_952 * 512, 65_536, Read),
                (1_000_000_000, 1064, 4096, 4096, Write),
            ],
        ),
        text(
            "a",
            "systor",
            "Timestamp,Response,IOType,LUN,Offset,Size\n\
             1455592828.000030,0.000079,W,0,26214400,4096\n1455592828.000040,,R,6,0,512\n",
            vec![(0, 0, 26_214_400, 4096, Write), (10_000, 6, 0, 512, Read)],
        ),
        text(
            "a",
            "csv",
            "time_ns,device,offset_bytes,length_bytes,op\n5,1,4096,512,R\n6,0,0,0,?\n",
            vec![(0, 1, 4096, 512, Read), (1, 0, 0, 0, Unknown)],
        ),
        text(
            "a",
            "tectonic",
            "block_id io_offset io_size op_time op_name pipeline user_namespace user_name\n\
             77 1048576 131072 1570000000.5 1 0 3 9\n901 0 4096 1570000000.75 4 0 3 9\n\
             77 0 512 1570000001 100 0 3 9\n",
            vec![
                (0, 0, 1 << 20, 131_072, Read),
                (250_000_000, 0, 8 << 20, 4096, Write),
                (500_000_000, 0, 0, 512, Unknown),
            ],
        ),
        text(
            "a",
            "tectonic",
            "# block_id io_offset io_size op_time op_name user_namespace user_name rs_shard_id \
             op_count host_name\n\
             77 0 4096 1676400000 2 3 9 0 1 5\n77 0 4096 1676400000 6 3 9 11 1 5\n",
            vec![(0, 0, 0, 4096, Read), (0, 0, 8 << 20, 4096, Write)],
        ),
        text(
            "a",
            "cachelib-block",
            "op_time,block_id,block_id_size,rs_shard_id,op_name,op_count,io_offset,io_size\n\
             1676400000,ab,40,3,getChunkData.NotInitialized,1,524288,262144\n\
             1676400002,ab,40,4,putChunk.NotInitialized,1,0,8388608\n",
            vec![(0, 0, 524_288, 262_144, Read), (2_000_000_000, 0, 8 << 20, 8 << 20, Write)],
        ),
        text(
            "a",
            "validation",
            "W Hit    4583176   4    663.00000  45422.00000\nR Miss  8  1  100.5  1\n",
            vec![(0, 0, 4_583_176 * 512, 2048, Write), (46_085_000, 0, 4096, 512, Read)],
        ),
    ]
}

/// Compresses in the way the ending says.
pub fn compress(content: &[u8], ending: &str) -> Vec<u8> {
    match ending {
        "gz" => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        }
        "zst" => {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.include_checksum(true).unwrap();
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        }
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        }
        _ => content.to_vec(),
    }
}
