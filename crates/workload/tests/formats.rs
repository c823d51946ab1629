//! Every trace format: detection, values, compressions, each kind of damage, arbitrary bytes.

mod support;

use std::io::Read;

use destage_workload::trace::analyze::analyze;
use destage_workload::trace::info::TraceInfo;
use destage_workload::trace::{
    Columns, Compression, FORMATS, Op, ReadOptions, Reader, Service, TimeOrder, TraceError, entries,
};
use proptest::prelude::*;
use support::{compress, of_format, read, reader, record, samples, streamed, tuple};

#[test]
fn every_format_has_a_sample_is_detected_and_read() {
    let samples = samples();
    // Key-value traces are refused: tests/columns.rs.
    for entry in entries().into_iter().filter(|entry| entry.name != "cachelib-kv") {
        assert!(samples.iter().any(|s| s.format == entry.name), "no sample of {}", entry.name);
    }
    for sample in &samples {
        let plain = ReadOptions::default();
        let opened = reader(&sample.content, sample.name, &plain).unwrap();
        assert_eq!(opened.format().entry.name, sample.format, "{}", sample.name);
        for options in [plain, of_format(sample.format)] {
            let records = read(&sample.content, sample.name, &options).unwrap();
            let records: Vec<_> = records.iter().map(tuple).collect();
            assert_eq!(records, sample.records, "{}", sample.format);
        }
    }
}

#[test]
fn every_format_is_analysed() {
    for sample in samples() {
        let open = || reader(&sample.content, sample.name, &ReadOptions::default()).unwrap();
        let info = TraceInfo::of(open()).unwrap();
        let found = analyze(open(), None, &mut |_| ()).unwrap();
        assert_eq!(found.format, sample.format);
        assert_eq!(found.total.requests(), sample.records.len() as u64, "{}", sample.format);
        assert_eq!(found.pages.all, info.footprint_blocks, "{}", sample.format);
        assert_eq!(found.time.is_some(), info.duration_ns.is_some_and(|ns| ns > 0));
        let device = sample.records[0].1;
        let of_device = sample.records.iter().filter(|record| record.1 == device).count() as u64;
        let found = analyze(open(), Some(device), &mut |_| ()).unwrap();
        assert_eq!(found.total.requests(), of_device, "{}", sample.format);
    }
}

#[test]
fn srt_keeps_service_times_and_flags() {
    let sample = samples().into_iter().find(|s| s.format == "srt").unwrap();
    let records = read(&sample.content, "a", &ReadOptions::default()).unwrap();
    let first =
        Service { start_ns: 174_000, stop_ns: 19_687_000, asynchronous: false, synchronous: false };
    let second =
        Service { start_ns: 10_000, stop_ns: 20_000, asynchronous: true, synchronous: true };
    assert_eq!([records[0].service, records[1].service], [Some(first), Some(second)]);
    let again = read(&support::native(&records), "a", &ReadOptions::default()).unwrap();
    assert_eq!(again, records);
    for (start_ns, stop_ns) in [(10_000, 9_999), (0, (1 << 42) + 1), (u64::MAX, u64::MAX)] {
        let mut records = records.clone();
        records[1].service = Some(Service { start_ns, stop_ns, ..second });
        let why = message(&support::native(&records), &ReadOptions::default());
        assert!(why.contains("expected a service that stops after it starts, within 73"), "{why}");
    }
}

#[test]
fn compressions_are_detected_by_content_and_may_be_concatenated() {
    for sample in streamed() {
        for (ending, compression) in
            [("gz", Compression::Gzip), ("zst", Compression::Zstd), ("xz", Compression::Xz)]
        {
            let (front, back) = sample.content.split_at(sample.content.len() / 2);
            let packed = [compress(front, ending), compress(back, ending)].concat();
            let name = format!("{}.{ending}", sample.name);
            let opened = reader(&packed, &name, &ReadOptions::default()).unwrap();
            assert_eq!(opened.compression(), compression);
            assert_eq!(opened.format().entry.name, sample.format);
            let records: Vec<_> = opened.map(|r| tuple(&r.unwrap())).collect();
            assert_eq!(records, sample.records, "{} {ending}", sample.format);
        }
    }
}

#[test]
fn what_surrounds_a_trace_is_not_read_as_one() {
    for sample in streamed() {
        let options = of_format(sample.format);
        let same = |content: &[u8]| {
            let records = read(content, sample.name, &options).expect("a trace");
            let records: Vec<_> = records.iter().map(tuple).collect();
            assert_eq!(records, sample.records, "{}", sample.format);
        };
        // Zeros to the end of a block, as tapes leave them, and a byte order mark before text.
        let packed = compress(&sample.content, "gz");
        same(&[&packed[..], &[0; 700]].concat());
        if !sample.content.contains(&0) {
            same(&[b"\xef\xbb\xbf", &sample.content[..]].concat());
        }
        let said = message(&[&packed[..], b"# the end"].concat(), &options);
        assert!(said.contains("something that is not gzip follows the compressed data"), "{said}");
        assert!(!said.contains("truncated"), "{said}");
    }
}

#[test]
fn text_of_two_bytes_a_letter_is_named() {
    let text = "time_ns,device,offset_bytes,length_bytes,op\n0,0,0,4096,W\n";
    let small: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let columns = Some(Columns::parse("time=time_ns:ns, offset=3, size=4").expect("columns"));
    let described = ReadOptions { columns, ..ReadOptions::default() };
    let whys = "is UTF-16 text: convert it to UTF-8, e.g. iconv -f UTF-16 -t UTF-8";
    for content in [[&b"\xff\xfe"[..], &small].concat(), [&b"\xfe\xff"[..], &big].concat()] {
        for options in [ReadOptions::default(), of_format("csv"), described.clone()] {
            assert_eq!(message(&content, &options), format!("t: {whys}"));
            assert_eq!(message(&compress(&content, "gz"), &options), format!("t: {whys}"));
        }
        let named = read(&content, "t.csv", &ReadOptions::default()).expect_err("an error");
        assert_eq!(named.to_string(), format!("t.csv: {whys}"));
    }
}

/// The error of reading, as users see it.
fn message(content: &[u8], options: &ReadOptions) -> String {
    let error = read(content, "t", options).expect_err("an error");
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn a_malformed_line_is_named_or_counted() {
    for sample in samples() {
        // Only lines of text can be spoilt one by one.
        let Ok(content) = String::from_utf8(sample.content.clone()) else { continue };
        if content.contains('\0') {
            continue;
        }
        let mut lines: Vec<&str> = content.lines().collect();
        let at = lines.iter().position(|l| l.bytes().any(|b| b.is_ascii_digit())).unwrap();
        let at = if sample.format == "fio" { 3 } else { at + 1 };
        lines.insert(at, "8,0 this is not a request, is it?");
        let spoilt = lines.join("\n");
        let options = of_format(sample.format);
        let expected = format!("t: line {}: expected ", at + 1);
        let message = message(spoilt.as_bytes(), &options);
        assert!(message.starts_with(&expected), "{}: {message}", sample.format);
        // Where columns are described, the error shows the one that is wrong.
        let all = message.ends_with("found `8,0 this is not a request, is it?`");
        assert!(all || message.contains(" in column "), "{message}");
        let skipping = ReadOptions { skip_bad: true, ..options };
        let mut opened = reader(spoilt.as_bytes(), sample.name, &skipping).unwrap();
        let records: Vec<_> = opened.by_ref().map(|r| tuple(&r.unwrap())).collect();
        assert_eq!(records, sample.records, "{}", sample.format);
        assert_eq!(opened.bad(), 1);
        assert!(opened.first_bad().unwrap().to_string().contains("expected"));
    }
}

#[test]
fn each_kind_of_wrong_is_one_clear_line() {
    let plain = ReadOptions::default();
    assert_eq!(message(b"", &plain), "t: the trace is empty: no request in it");
    assert_eq!(message(&compress(b"", "gz"), &plain), "t: the trace is empty: no request in it");
    assert_eq!(
        message(b"# only a comment\n", &of_format("csv")),
        "t: the trace is empty: no request in it"
    );
    let garbage: Vec<u8> =
        (0..10_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert!(message(&garbage, &plain).starts_with("t: no trace format fits the content; name one"));
    assert!(message(b"hello\nworld\n", &plain).starts_with("t: no trace format fits"));
    assert!(
        message(b"x", &of_format("msrr")).starts_with("unknown trace format `msrr`; known: msr")
    );
    assert_eq!(
        message(b"9 0 0 8 0\n5 0 0 8 0\n", &plain),
        "t: line 2: time -4 ns is before the previous 0 ns; choose an order: sort, lift or skip"
    );
    assert_eq!(
        message(b"0 0 0 8 0\n5 0 0 99999999 0\n", &plain),
        "t: line 2: expected a request of at most 4 GiB, found `5 0 0 99999999 0`"
    );
    let long = vec![b'7'; 100_000];
    assert!(
        message(&long, &of_format("ssdsim"))
            .starts_with("t: line 1: expected a line of text of at most 65536 bytes, found `7777")
    );
}

/// The header of the first block of an xz file names 4 GiB.
#[test]
fn a_dictionary_of_xz_that_takes_the_memory_is_refused() {
    const HEADER: usize = 12;
    let sample = &streamed()[0];
    let mut packed = compress(&sample.content, "xz");
    let length = (usize::from(packed[HEADER]) + 1) * 4;
    let crc = HEADER + length - 4;
    let filter = packed[HEADER..crc].windows(2).position(|bytes| bytes == [0x21, 1]);
    packed[HEADER + filter.expect("LZMA2") + 2] = 40;
    let mut sum = flate2::Crc::new();
    sum.update(&packed[HEADER..crc]);
    packed[crc..crc + 4].copy_from_slice(&sum.sum().to_le_bytes());
    let error = read(&packed, sample.name, &ReadOptions::default()).expect_err("refused");
    assert!(error.to_string().ends_with("unpack it with `xz -d` first"), "{error}");
}

#[test]
fn truncation_is_noticed() {
    for sample in streamed() {
        let binary = sample.content.contains(&0);
        if binary {
            let cut = &sample.content[..sample.content.len() - 1];
            let message = message(cut, &of_format(sample.format));
            assert!(message.ends_with(": the file is truncated"), "{}: {message}", sample.format);
            assert!(message.contains("record"), "{message}");
        }
        for ending in ["gz", "zst", "xz"] {
            let packed = compress(&sample.content, ending);
            for cut in [packed.len() - 3, packed.len() * 2 / 3] {
                let error = read(&packed[..cut], sample.name, &ReadOptions::default());
                let truncated = matches!(error, Err(TraceError::Truncated { .. }));
                assert!(truncated, "{} {ending} {cut}: {error:?}", sample.format);
            }
            let mut damaged = packed.clone();
            let middle = damaged.len() / 2;
            damaged[middle..middle + 4].iter_mut().for_each(|b| *b ^= 0x5a);
            assert!(read(&damaged, sample.name, &of_format(sample.format)).is_err());
        }
    }
    // Cut between two records: the end mark is missing.
    let native = support::native(&[record(0, 0, 0, 1, Op::Read), record(1, 0, 0, 1, Op::Read)]);
    let message = message(&native[..native.len() - 48], &ReadOptions::default());
    assert_eq!(message, "t: record 3 at byte 112: it has 0 of its 48 bytes: the file is truncated");
}

#[test]
fn disorder_is_lifted_skipped_or_sorted() {
    let text = b"time_ns,device,offset_bytes,length_bytes,op\n\
        10,0,0,1,R\n30,0,1,1,R\n20,0,2,1,R\n40,0,3,1,R\n5,0,4,1,R\n";
    let with = |order| {
        let options = ReadOptions { order, ..ReadOptions::default() };
        let mut opened = reader(text, "t", &options).unwrap();
        let seen: Vec<_> =
            opened.by_ref().map(|r| r.map(|r| (r.time_ns, r.offset_bytes))).collect();
        (seen, opened.disordered())
    };
    let ok = |records: &[(u64, u64)]| records.iter().copied().map(Ok).collect::<Vec<_>>();
    assert_eq!(with(TimeOrder::Lift), (ok(&[(0, 0), (20, 1), (20, 2), (30, 3), (30, 4)]), 2));
    assert_eq!(with(TimeOrder::Skip), (ok(&[(0, 0), (20, 1), (30, 3)]), 2));
    assert_eq!(with(TimeOrder::Sort), (ok(&[(0, 4), (5, 0), (15, 2), (25, 1), (35, 3)]), 0));
    assert!(with(TimeOrder::Check).0[2].is_err());
    // A little disorder is normal where several processors write one trace.
    let msr = b"20,h,0,Read,0,1,1\n10,h,0,Read,0,1,1\n";
    let records = read(msr, "t", &of_format("msr")).unwrap();
    assert_eq!((records[0].time_ns, records[1].time_ns), (0, 0));
    let far = b"20000001,h,0,Read,0,1,1\n10000000,h,0,Read,0,1,1\n";
    assert!(read(far, "t", &of_format("msr")).is_err());
}

#[test]
fn parameters_change_units_and_flags() {
    let flipped = read(b"0 0 8 8 0\n", "t", &of_format("ssdsim:read=0")).unwrap();
    assert_eq!(flipped[0].op, Op::Read);
    let arc = read(b"1 1 0 0\n", "t", &of_format("arc:unit=4096")).unwrap();
    assert_eq!(arc[0].offset_bytes, 4096);
    let issued = b"8,0 3 1 0.0 697 Q W 8 + 8 [x]\n8,0 3 1 0.1 697 D W 8 + 8 [x]\n";
    assert_eq!(read(issued, "t", &of_format("blkparse:action=D")).unwrap().len(), 1);
}

#[test]
fn info_counts_blocks() {
    let text = "time_ns,device,offset_bytes,length_bytes,op\n0,0,0,8192,W\n1,0,4096,4096,W\n\
                2,0,8192,1,R\n3,1,0,262145,W\n3000,0,8191,2,R\n";
    let info = TraceInfo::of(reader(text.as_bytes(), "t", &ReadOptions::default()).unwrap());
    let info = info.unwrap();
    assert_eq!((info.requests, info.reads, info.writes, info.unknown), (5, 2, 3, 0));
    assert_eq!((info.block_writes, info.overwrites), (2 + 1 + 65, 1));
    assert_eq!((info.block_reads, info.read_footprint_blocks), (3, 2));
    assert_eq!((info.write_footprint_blocks, info.footprint_blocks), (67, 68));
    assert_eq!((info.duration_ns, info.request_bytes_max), (Some(3000), 262_145));
    assert_eq!(info.devices.len(), 2);
    assert_eq!(info.devices[0].sequential, 1);
    assert_eq!(info.devices[1].end_bytes, 262_145);
}

/// A reader that makes lines as they are asked for: 2 million requests in little memory.
struct Endless {
    line: u64,
    rest: Vec<u8>,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() && self.line < 2_000_000 {
            self.rest =
                format!("{} 0 {} 8 {}\n", self.line, self.line % 4096, self.line % 2).into();
            self.line += 1;
        }
        let count = buffer.len().min(self.rest.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

#[test]
fn two_million_requests_stream_through() {
    for order in [TimeOrder::Check, TimeOrder::Sort] {
        let source = Box::new(Endless { line: 0, rest: Vec::new() });
        let options = ReadOptions { order, ..ReadOptions::default() };
        let reader = Reader::from_read(source, "t", &options).unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), 2_000_000);
    }
}

/// Every reader, on these bytes, with and without skipping, ends without a panic.
fn survive(bytes: &[u8]) {
    let names = FORMATS.iter().map(|f| Some(f.entry.name.to_string())).chain([None]);
    for format in names {
        for (skip_bad, order) in [
            (false, TimeOrder::Check),
            (true, TimeOrder::Lift),
            (true, TimeOrder::Sort),
            (true, TimeOrder::Skip),
        ] {
            let options =
                ReadOptions { format: format.clone(), skip_bad, order, ..ReadOptions::default() };
            let Ok(opened) = reader(bytes, "t.csv", &options) else { continue };
            for record in opened.flatten() {
                assert!(record.end_bytes() < 1 << 63 && record.pages().1 <= 1 << 51);
            }
            if let Ok(opened) = reader(bytes, "t.csv", &options) {
                let _ = TraceInfo::of(opened);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survive(&bytes);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[-0-9RWrw.,;+eE :\n\t]{0,300}") {
        survive(text.as_bytes());
    }

    #[test]
    fn spoilt_samples_never_panic(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
        ending in 0usize..4,
    ) {
        let samples = samples();
        let sample = which.get(&samples);
        let mut content = sample.content.clone();
        let place = at.index(content.len());
        content[place] = byte;
        let mut packed = compress(&content, ["", "gz", "zst", "xz"][ending]);
        if byte % 2 == 0 {
            let place = at.index(packed.len());
            packed[place] ^= byte;
        } else {
            packed.truncate(cut.index(packed.len() + 1));
        }
        survive(&packed);
    }

    #[test]
    fn what_is_written_is_read(
        raw in prop::collection::vec(
            (0u64..1 << 40, any::<u32>(), 0u64..1 << 60, 0u64..1 << 32, 0u8..3),
            1..50,
        )
    ) {
        let mut time_ns = 0;
        let records: Vec<_> = raw
            .iter()
            .enumerate()
            .map(|(index, &(gap, device, offset, length, op))| {
                time_ns += if index == 0 { 0 } else { gap };
                let op = [Op::Read, Op::Write, Op::Unknown][op as usize];
                record(time_ns, device, offset, length, op)
            })
            .collect();
        use destage_workload::trace::write::OutputFormat::{Arrow, Destage, Parquet};
        for format in [Destage { with_service: true }, Parquet, Arrow] {
            let bytes = support::written(&records, format);
            let again = read(&bytes, "t", &ReadOptions::default()).unwrap();
            prop_assert_eq!(&again, &records);
        }
        let mut csv = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
        for record in &records {
            destage_workload::trace::write::csv_line(record, &mut csv);
        }
        let again = read(csv.as_bytes(), "t", &ReadOptions::default()).unwrap();
        prop_assert_eq!(&again, &records);
    }
}
