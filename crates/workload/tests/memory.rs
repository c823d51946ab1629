//! A replay streams its trace: ten times the requests take no more memory.

use destage_workload::source::Source;
use destage_workload::trace::ReadOptions;
use destage_workload::trace::replay::{ReplayOptions, TraceSource};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "a global allocator that counts cannot be written without")]
// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes taken at most by a replay of this many requests, all of which were read.
fn most_bytes(folder: &Path, requests: u64) -> usize {
    let path = folder.join(format!("{requests}.csv"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    writeln!(file, "time_ns,device,offset_bytes,length_bytes,op").expect("written");
    for i in 0..requests {
        let offset = i.wrapping_mul(7919) % 100_000 * 4096;
        writeln!(file, "{},0,{offset},4096,W", i * 1000).expect("written");
    }
    file.into_inner().expect("written");
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let (read, replay) = (ReadOptions::default(), ReplayOptions::default());
    let mut source = TraceSource::open(&path, &read, &replay, 100_000).expect("a trace");
    let mut taken = 0;
    while let Some(at) = source.next_at() {
        let request = source.take(at).expect("a request");
        source.completed(request.tag, at);
        taken += 1;
    }
    assert_eq!(taken, requests);
    MOST.load(Ordering::Relaxed) - before
}

#[test]
fn ten_times_the_requests_take_no_more_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let [few, many] = [30_000, 300_000].map(|requests| most_bytes(folder.path(), requests));
    println!("30,000 requests: {few} bytes at most; 300,000: {many}");
    assert!(many <= few + few / 10 + 4096, "{few} bytes grew to {many}");
    assert!(many < 4 << 20, "{many} bytes");
}
