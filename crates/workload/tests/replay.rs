//! Replay, conversion and generation, on files that the tests make.

mod support;

use std::path::{Path, PathBuf};

use destage_engine::request::Direction;
use destage_engine::units::Instant;
use destage_workload::generator;
use destage_workload::source::{Source, SourceRequest};
use destage_workload::trace::convert::{convert, generate};
use destage_workload::trace::replay::{Layout, ReplayOptions, ReplayPace, TraceSource};
use destage_workload::trace::write::{OutputFormat, write_atomically};
use destage_workload::trace::{Compression, Op, ReadOptions, Reader, TraceError, TraceRecord};
use support::record;

const TRACE: &str = "time_ns,device,offset_bytes,length_bytes,op\n\
    100,7,4095,2,W\n200,2,0,4096,R\n300,7,81920,8192,?\n400,2,0,0,W\n500,2,8192,1,W\n";

fn trace(folder: &Path) -> PathBuf {
    let path = folder.join("t.csv");
    std::fs::write(&path, TRACE).unwrap();
    path
}

fn drain(source: &mut TraceSource) -> Vec<SourceRequest> {
    let mut taken = Vec::new();
    while let Some(at) = source.next_at() {
        taken.push(source.take(at).unwrap());
        source.completed(0, at);
    }
    taken
}

fn pages(request: &SourceRequest) -> (u64, u64, u32, Direction) {
    let SourceRequest { arrival, direction, range, .. } = *request;
    (arrival.0, range.first.0, range.pages, direction)
}

#[test]
fn devices_lie_one_after_another() {
    use Direction::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let (read, replay) = (ReadOptions::default(), ReplayOptions::default());
    let layout = Layout::scan(&path, &read, &replay).unwrap();
    // The largest end, 22 pages, is rounded up to 32; with a chunk of 16 the stride is 48.
    assert_eq!((layout.stride_pages, layout.volume_pages(), layout.requests), (48, 70, 4));
    let mut source = TraceSource::open(&path, &read, &replay, 70).unwrap();
    let expected = [(0, 48, 2, Write), (100, 0, 1, Read), (200, 68, 2, Read), (400, 2, 1, Write)];
    assert_eq!(drain(&mut source).iter().map(pages).collect::<Vec<_>>(), expected);
    let only = ReplayOptions { device: Some(7), pace: ReplayPace::Open { speed: 2.0 }, ..replay };
    let mut source = TraceSource::open(&path, &read, &only, 22).unwrap();
    let expected = [(0, 0, 2, Write), (100, 20, 2, Read)];
    assert_eq!(drain(&mut source).iter().map(pages).collect::<Vec<_>>(), expected);
}

#[test]
fn packed_devices_follow_each_other_and_stay_apart() {
    use Direction::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let replay = ReplayOptions { packed: true, ..ReplayOptions::default() };
    let layout = Layout::scan(&path, &ReadOptions::default(), &replay).unwrap();
    // The 3 pages of device 2 are rounded up to 16, and a chunk of 16 follows.
    let spans: Vec<_> = layout.devices.iter().map(|d| (d.device, d.first_page, d.pages)).collect();
    assert_eq!((spans, layout.volume_pages()), (vec![(2, 0, 3), (7, 32, 22)], 54));
    let mut source = TraceSource::open(&path, &ReadOptions::default(), &replay, 54).unwrap();
    let expected = [(0, 32, 2, Write), (100, 0, 1, Read), (200, 52, 2, Read), (400, 2, 1, Write)];
    assert_eq!(drain(&mut source).iter().map(pages).collect::<Vec<_>>(), expected);
}

#[test]
fn closed_replay_keeps_its_number_outstanding() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let replay =
        ReplayOptions { pace: ReplayPace::Closed { outstanding: 2 }, ..ReplayOptions::default() };
    let mut source = TraceSource::open(&path, &ReadOptions::default(), &replay, 100).unwrap();
    assert_eq!(source.bound(), "2 outstanding");
    for _ in 0..2 {
        assert_eq!(source.next_at(), Some(Instant(0)));
        source.take(Instant(0)).unwrap();
    }
    assert_eq!(source.next_at(), None);
    source.completed(0, Instant(77));
    assert_eq!(source.next_at(), Some(Instant(77)));
    assert_eq!(source.take(Instant(77)).unwrap().arrival, Instant(77));
    source.completed(0, Instant(80));
    source.take(Instant(80)).unwrap();
    source.completed(0, Instant(90));
    assert_eq!(source.next_at(), None);
}

#[test]
fn what_does_not_fit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let file = path.display();
    let (read, replay) = (ReadOptions::default(), ReplayOptions::default());
    let error = |replay, volume| {
        TraceSource::open(&path, &read, &replay, volume).err().expect("an error").to_string()
    };
    assert_eq!(
        error(replay, 69),
        format!(
            "{file}: line 4: the request ends at page 70, past the volume's 69 pages; use a larger \
             volume, one device, or wrap"
        )
    );
    let wrapped = ReplayOptions { wrap: true, ..replay };
    let mut source = TraceSource::open(&path, &read, &wrapped, 1).unwrap();
    let error_of_take = source.take(Instant(0)).unwrap_err().to_string();
    let above = format!("{file}: line 2: a request of 2 pages is above the limit of 1");
    assert_eq!(error_of_take, above);
    let absent = ReplayOptions { device: Some(3), ..replay };
    assert_eq!(error(absent, 99), format!("{file}: no request is for device 3; there are: [2, 7]"));
    let mut source = TraceSource::open(&path, &read, &wrapped, 67).unwrap();
    let ends: Vec<_> = drain(&mut source).iter().map(|r| r.range.first.0).collect();
    assert_eq!(ends, [48, 0, 1, 2]);
    let untimed = folder.path().join("x.lis");
    std::fs::write(&untimed, "1 1 0 0\n").unwrap();
    let error = Layout::scan(&untimed, &read, &replay).unwrap_err().to_string();
    assert!(error.contains("format `arc` records no times: replay it closed"), "{error}");
}

#[test]
fn an_error_on_the_way_is_given_by_take() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let (read, replay) = (ReadOptions::default(), ReplayOptions::default());
    let layout = Layout::scan(&path, &read, &replay).unwrap();
    std::fs::write(&path, TRACE.replace("200,2", "2x0,2")).unwrap();
    let mut source = TraceSource::with_layout(&path, &read, &replay, 70, layout).unwrap();
    let at = source.next_at().unwrap();
    source.take(at).unwrap();
    let at = source.next_at().unwrap();
    let error = source.take(at).unwrap_err().to_string();
    assert!(
        error.contains("t.csv: line 3: expected a time as a number in column time_ns"),
        "{error}"
    );
    assert_eq!(source.next_at(), None);
}

fn read_all(path: &Path) -> Vec<TraceRecord> {
    Reader::open(path, &ReadOptions::default()).unwrap().map(Result::unwrap).collect()
}

#[test]
fn conversion_keeps_every_record_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from.dtrc");
    let records: Vec<_> =
        (0..5_000).map(|n| record(n * 10, n as u32 % 3, n * 512, 4096, Op::Write)).collect();
    std::fs::write(&from, support::native(&records)).unwrap();
    for (name, compression) in [
        ("to.dtrc", Compression::None),
        ("to.dtrc.gz", Compression::Gzip),
        ("to.dtrc.zst", Compression::Zstd),
        ("to.csv.xz", Compression::Xz),
        ("to.csv", Compression::None),
    ] {
        let to = folder.path().join(name);
        let mut reader = Reader::open(&from, &ReadOptions::default()).unwrap();
        assert_eq!(convert(&mut reader, &to, None).unwrap(), 5_000);
        let opened = Reader::open(&to, &ReadOptions::default()).unwrap();
        assert_eq!(opened.compression(), compression);
        assert_eq!(opened.format().entry.name == "csv", name.contains("csv"));
        assert_eq!(read_all(&to), records, "{name}");
    }
}

#[test]
fn failed_output_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from.csv");
    std::fs::write(&from, format!("{TRACE}rubbish\n")).unwrap();
    let to = folder.path().join("to.csv");
    std::fs::write(&to, "what was there").unwrap();
    let mut reader = Reader::open(&from, &ReadOptions::default()).unwrap();
    convert(&mut reader, &to, None).unwrap_err();
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "what was there");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    let nowhere = folder.path().join("no/such/folder.csv");
    let error = write_atomically(&nowhere, |_| Ok(())).unwrap_err();
    assert!(matches!(error, TraceError::Io { .. }));
    let error = write_atomically(folder.path(), |_| Ok(())).unwrap_err().to_string();
    assert!(error.ends_with("exists and is not a regular file; name another output"), "{error}");
    let missing = Reader::open(&folder.path().join("none"), &ReadOptions::default());
    assert!(matches!(missing.err(), Some(TraceError::Io { .. })));
    let directory = Reader::open(folder.path(), &ReadOptions::default());
    assert!(directory.err().unwrap().to_string().ends_with("is a directory, not a trace"));
}

#[test]
fn a_generated_trace_replays_as_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    for load in ["spc1:iops=200", "zipf:iops=0,threads=3", "random:requests=500"] {
        let build = || generator::build(&generator::parse(load).unwrap(), 10_000, 5).unwrap();
        let path = folder.path().join("g.dtrc.zst");
        let written = generate(build().as_mut(), 2_000, 1_000_000, &path, None).unwrap();
        assert_eq!(written, if load.contains("500") { 500 } else { 2_000 });
        let first = std::fs::read(&path).unwrap();
        generate(build().as_mut(), 2_000, 1_000_000, &path, None).unwrap();
        assert_eq!(first, std::fs::read(&path).unwrap(), "{load} is not the same twice");
        let records = read_all(&path);
        assert_eq!(records.len() as u64, written);
        assert!(records.is_sorted_by_key(|r| r.time_ns));
        let csv = folder.path().join("g.csv");
        generate(build().as_mut(), 2_000, 1_000_000, &csv, Some(OutputFormat::Csv)).unwrap();
        assert_eq!(read_all(&csv), records);
        let options = ReplayOptions::default();
        let mut replay =
            TraceSource::open(&path, &ReadOptions::default(), &options, 10_000).unwrap();
        for (request, record) in drain(&mut replay).iter().zip(&records) {
            assert_eq!(request.arrival.0, record.time_ns);
            assert_eq!(request.range.first.0 * 4096, record.offset_bytes);
            assert_eq!(request.direction == Direction::Write, record.op == Op::Write);
        }
    }
}

#[test]
fn a_replay_at_a_rate_takes_reads_only_and_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let replay = ReplayOptions {
        pace: ReplayPace::Rate { iops: 1000.0, seed: 3 },
        reads_only: true,
        repeat: true,
        ..ReplayOptions::default()
    };
    let open = || TraceSource::open(&path, &ReadOptions::default(), &replay, 70).unwrap();
    let take = |source: &mut TraceSource| {
        let requests = (0..2000).map(|_| {
            let at = source.next_at().expect("it never ends");
            source.take(at).unwrap()
        });
        requests.map(|r| pages(&r)).collect::<Vec<_>>()
    };
    let all = take(&mut open());
    assert_eq!(all, take(&mut open()), "a seed gives the same times");
    assert!(all.iter().all(|(.., direction)| *direction == Direction::Read));
    // Of each turn: the read of device 2, and the one not recorded of device 7.
    assert!(all.chunks(2).all(|turn| (turn[0].1, turn[1].1) == (0, 68)));
    assert!(all.is_sorted_by_key(|request| request.0));
    let mean_ns = all.last().unwrap().0 / 2000;
    assert!((950_000..1_050_000).contains(&mean_ns), "{mean_ns}");
    let once = ReplayOptions { repeat: false, ..replay };
    let mut source = TraceSource::open(&path, &ReadOptions::default(), &once, 70).unwrap();
    assert_eq!(drain(&mut source).len(), 2);
}

#[test]
fn a_trace_without_reads_ends_even_if_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.csv");
    std::fs::write(&path, "time_ns,device,offset_bytes,length_bytes,op\n1,0,0,4096,W\n").unwrap();
    let replay = ReplayOptions {
        pace: ReplayPace::Closed { outstanding: 1 },
        reads_only: true,
        repeat: true,
        ..ReplayOptions::default()
    };
    let mut source = TraceSource::open(&path, &ReadOptions::default(), &replay, 70).unwrap();
    assert_eq!(source.next_at(), None);
}
