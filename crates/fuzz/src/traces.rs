//! Traces in every format, detected, named or described by columns, compressed or not: what is read
//! keeps to the bounds that the reader promises, and comes back from our own format as it was.

#[path = "../../workload/tests/support/mod.rs"]
mod samples;

use crate::feed::Feed;
use destage_workload::trace::analyze::analyze;
use destage_workload::trace::info::TraceInfo;
use destage_workload::trace::{
    Columns, FORMATS, ReadOptions, Reader, Sample, Selection, TimeOrder, TraceError, TraceRecord,
};

/// Most bytes of an input: compressed ones grow.
const BYTES_MAX: usize = 8192;
/// Most records that are looked at.
const RECORDS_MAX: usize = 20_000;
/// Most bytes of requests for which the footprint, which grows with them, is computed.
const FOOTPRINT_MAX: u64 = 1 << 32;
/// Most bytes of requests that are analysed, which takes more memory for each page.
const ANALYSED_MAX: u64 = 1 << 30;
/// Offsets are below it, and times are not above it.
const LIMIT: u64 = 1 << 62;

pub(crate) fn check(data: &[u8]) -> bool {
    let mut feed = Feed::new(&data[..data.len().min(BYTES_MAX)]);
    let (format, bits) = (usize::from(feed.u8()), feed.u8());
    let orders = [TimeOrder::Check, TimeOrder::Lift, TimeOrder::Skip, TimeOrder::Sort];
    let mut content = feed.rest();
    let mut columns = None;
    if bits & 64 != 0 {
        // The first line describes the columns.
        let end = content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len());
        let text = String::from_utf8_lossy(&content[..end]).into_owned();
        content = content.get(end + 1..).unwrap_or_default();
        match Columns::parse(&text) {
            Ok(understood) => columns = Some(understood),
            Err(why) => {
                assert!(!why.is_empty() && !why.contains('\n'), "{why}");
                return false;
            }
        }
    }
    let named = FORMATS.get(format % (FORMATS.len() + 1)).filter(|_| columns.is_none());
    let options = ReadOptions {
        format: named.map(|format| format.entry.name.to_string()),
        columns,
        skip_bad: bits & 4 != 0,
        order: orders[usize::from(bits & 3)],
        select: if bits & 32 == 0 { Selection::default() } else { part(format as u64) },
        ..ReadOptions::default()
    };
    let name = ["a", "a.csv.gz", "P9.lis", "a.dtrc"][usize::from(bits >> 3 & 3)];
    let Ok(records) = read(content, name, &options) else { return false };
    if !records.is_empty() {
        again(&records);
    }
    let bytes: u64 = records.iter().map(|record| record.length_bytes).sum();
    if records.len() < RECORDS_MAX && bytes < FOOTPRINT_MAX {
        let opened = samples::reader(content, name, &options).map(TraceInfo::of);
        let info = opened.expect("opened before").expect("read before");
        assert_eq!(info.requests, records.len() as u64);
        assert!(info.footprint_blocks <= info.read_footprint_blocks + info.write_footprint_blocks);
        let shares = [info.write_share(), info.overwrite_share(), info.first_touch_share()];
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{info:?}");
        if bytes < ANALYSED_MAX {
            analysed(samples::reader(content, name, &options).expect("opened before"), &info);
        }
    }
    true
}

/// A part of a trace, of which each limit takes effect on some inputs.
fn part(number: u64) -> Selection {
    Selection {
        from_ns: (number & 1 != 0).then_some(number),
        until_ns: (number & 2 != 0).then_some(number << 24),
        devices: if number & 4 != 0 { vec![0, 1] } else { Vec::new() },
        range: (number & 8 != 0).then_some((512, 1 << 22)),
        sample: Sample::new(0.5, 4096 << (number & 3), number),
    }
}

/// The records, which are in order and within their bounds.
fn read(content: &[u8], name: &str, options: &ReadOptions) -> Result<Vec<TraceRecord>, TraceError> {
    let mut reader = samples::reader(content, name, options).inspect_err(one_line)?;
    let mut records: Vec<TraceRecord> = Vec::new();
    for record in reader.by_ref().take(RECORDS_MAX) {
        let record = record.inspect_err(one_line)?;
        assert!(record.offset_bytes < LIMIT && record.length_bytes <= 1 << 32, "{record:?}");
        let before = records.last().map_or(0, |before| before.time_ns);
        assert!(before <= record.time_ns && record.time_ns <= LIMIT, "{before} {record:?}");
        let (first, end) = record.pages();
        assert!(first <= end);
        records.push(record);
    }
    reader.first_bad().into_iter().for_each(one_line);
    if records.len() < RECORDS_MAX {
        assert!(reader.next().is_none(), "nothing comes behind the end");
    }
    Ok(records)
}

fn one_line(error: &TraceError) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains('\n'), "{text}");
}

/// What an analysis says agrees with what is known of the trace, and with itself.
fn analysed(reader: Reader, info: &TraceInfo) {
    let found = analyze(reader, None, &mut |_| ()).expect("read before");
    assert_eq!(found.total.requests(), info.requests);
    assert_eq!(found.pages.all, info.footprint_blocks);
    assert_eq!(found.read_reuse.first_touches, info.read_footprint_blocks);
    assert_eq!(found.write_reuse.accesses, info.block_writes);
    let overwrites: u64 = found.write_reuse.caches.iter().map(|cache| cache.reuses).sum();
    assert_eq!(overwrites, info.overwrites);
    let Some(time) = found.time else { return };
    assert!(time.intervals.len() <= 360, "{}", time.intervals.len());
    let requests: u64 = time.intervals.iter().map(|interval| interval.total.requests()).sum();
    assert_eq!(requests, info.requests);
    let hours: u64 = time.hours.iter().map(|hour| hour.total.requests()).sum();
    assert_eq!(hours, info.requests);
}

/// Times are relative to the first record, which our own format repeats.
fn again(records: &[TraceRecord]) {
    let format = Some("destage".to_string());
    let options = ReadOptions { format, ..ReadOptions::default() };
    let reader: Result<Reader, _> = samples::reader(&samples::native(records), "a", &options);
    let again: Result<Vec<TraceRecord>, _> = reader.and_then(Iterator::collect);
    assert_eq!(again.as_deref(), Ok(records));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for sample in samples::samples() {
        let number = FORMATS.iter().position(|format| format.entry.name == sample.format);
        let number = number.unwrap_or(FORMATS.len()) as u8;
        let hint = if sample.name == "P9.lis" { 16 } else { 0 };
        seeds.push([&[FORMATS.len() as u8, hint], &sample.content[..]].concat());
        seeds.push([&[number, hint | 4], &sample.content[..]].concat());
        seeds.push([&[number, hint | 32], &sample.content[..]].concat());
    }
    // Columns that are described, of text and of tables.
    const WORDS: &str = "time=ts:us, op=kind:read=R*|1:write=W:skip=*, offset=lba:sectors, \
                         size=len, object=disk+part:64K\nts,kind,lba,len,disk,part\n\
                         5,R,0,512,a,1\n7.5,W,8,4096,b,1\n9,T,0,1,b,2\n9,1,1,512,b,2\n";
    const PLACES: &str = "time=1:filetime,offset=\"2\":pages,size=3,device=4:name,sep=bar\n\
                          1|2|3|4\n10|7|4096|sda\n12|8|1|\"sd|b\"\n";
    let own = "time=time_ns:ns,offset=offset_bytes,size=length_bytes,device=device,op=5:read=*\n";
    for text in [WORDS, PLACES, &PLACES.replace("\"2\"", "2")] {
        seeds.push([&[0, 64], text.as_bytes()].concat());
        seeds.push([&[0, 64 | 4], text.as_bytes()].concat());
    }
    for sample in samples::samples().iter().filter(|s| ["parquet", "arrow"].contains(&s.format)) {
        seeds.push([&[0, 64][..], own.as_bytes(), &sample.content].concat());
    }
    for (order, ending) in (0..).zip(["gz", "zst", "xz"]) {
        for sample in samples::samples().iter().take(2) {
            let packed = samples::compress(&sample.content, ending);
            seeds.push([&[FORMATS.len() as u8, order], &packed[..]].concat());
        }
    }
    seeds
}
