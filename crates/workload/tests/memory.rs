//! A replay and an analysis stream their trace: ten times the requests take no more memory.

#[path = "../../engine/tests/counting/mod.rs"]
mod counting;

use destage_workload::source::Source;
use destage_workload::trace::analyze::analyze;
use destage_workload::trace::replay::{ReplayOptions, TraceSource};
use destage_workload::trace::{ReadOptions, Reader};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A trace of writes of 100,000 pages in turn.
fn trace(folder: &Path, requests: u64) -> PathBuf {
    let path = folder.join(format!("{requests}.csv"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    writeln!(file, "time_ns,device,offset_bytes,length_bytes,op").expect("written");
    for i in 0..requests {
        let offset = i.wrapping_mul(7919) % 100_000 * 4096;
        writeln!(file, "{},0,{offset},4096,W", i * 1000).expect("written");
    }
    file.into_inner().expect("written");
    path
}

/// Bytes taken at most by an analysis of this many requests of as many pages in turn, or fewer.
fn most_bytes_of_analysis(folder: &Path, requests: u64) -> usize {
    let path = trace(folder, requests);
    counting::most_during(|| {
        let reader = Reader::open(&path, &ReadOptions::default()).expect("a trace");
        let found = analyze(reader, None, &mut |_| ()).expect("analysed");
        assert_eq!(found.total.writes, requests);
        assert_eq!(found.pages.all, requests.min(100_000));
    })
}

/// Bytes taken at most by a replay of this many requests, all of which were read.
fn most_bytes(folder: &Path, requests: u64) -> usize {
    let path = trace(folder, requests);
    counting::most_during(|| {
        let (read, replay) = (ReadOptions::default(), ReplayOptions::default());
        let mut source = TraceSource::open(&path, &read, &replay, 100_000).expect("a trace");
        let mut taken = 0;
        while let Some(at) = source.next_at() {
            let request = source.take(at).expect("a request");
            source.completed(request.tag, at);
            taken += 1;
        }
        assert_eq!(taken, requests);
    })
}

/// Bytes taken at most by writing a trace as a table and reading it again.
#[cfg(feature = "tables")]
fn most_bytes_of_table(folder: &Path, requests: u64, name: &str) -> usize {
    let (path, table) = (trace(folder, requests), folder.join(name));
    counting::most_during(|| {
        let mut reader = Reader::open(&path, &ReadOptions::default()).expect("a trace");
        destage_workload::trace::convert::convert(&mut reader, &table, None).expect("written");
        let reader = Reader::open(&table, &ReadOptions::default()).expect("a trace");
        assert_eq!(reader.map(Result::unwrap).count() as u64, requests);
    })
}

#[cfg(feature = "tables")]
fn tables_are_not_held_in_memory(folder: &Path) {
    for name in ["a.parquet", "a.arrow"] {
        let of = |requests| most_bytes_of_table(folder, requests, name);
        let [few, many] = [300_000, 1_500_000].map(of);
        println!("{name}: 300,000 requests: {few} bytes at most; 1,500,000: {many}");
        // The list of batches grows.
        assert!(many <= few + few / 4, "{name}: {few} bytes grew to {many}");
        assert!(many < 40 << 20, "{name}: {many} bytes");
    }
}

#[test]
fn ten_times_the_requests_take_no_more_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let [few, many] = [30_000, 300_000].map(|requests| most_bytes(folder.path(), requests));
    println!("30,000 requests: {few} bytes at most; 300,000: {many}");
    assert!(many <= few + few / 10 + 4096, "{few} bytes grew to {many}");
    assert!(many < 4 << 20, "{many} bytes");
    // 100,000 pages, once and then eight times.
    let [once, again] = [100_000, 800_000].map(|n| most_bytes_of_analysis(folder.path(), n));
    println!("analysis of 100,000 pages: {once} bytes at most; accessed 8 times: {again}");
    assert!(again <= once + once / 10, "{once} bytes grew to {again}");
    assert!(again < 100_000 * 120, "{again} bytes");
    #[cfg(feature = "tables")]
    tables_are_not_held_in_memory(folder.path());
}
