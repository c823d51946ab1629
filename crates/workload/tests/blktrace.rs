//! blktrace's recordings: a file for each processor, and the event that counts.

mod support;

use destage_workload::trace::{Op, ReadOptions, Reader};
use support::{blktrace, blktrace_events, of_format, read, tuple};

#[test]
fn the_action_decides_which_event_counts() {
    let content = blktrace_events(7, false);
    let issued = read(&content, "a", &of_format("blktrace:action=D")).expect("a trace");
    assert_eq!(
        issued.iter().map(tuple).collect::<Vec<_>>(),
        [(0, 8 << 20 | 16, 4096, 4096, Op::Write)]
    );
    let completed = read(&content, "a", &of_format("blktrace:action=C"));
    assert!(completed.expect_err("no event").to_string().contains("empty"));
    let wrong = read(&content, "a", &of_format("blktrace:action=X")).expect_err("no such action");
    assert!(wrong.to_string().contains("Q, D or C"), "{wrong}");
}

#[test]
fn files_of_all_processors_are_one_trace() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let write = 1 << 20 | 1 << 17 | 1;
    let at = |times: &[u64]| {
        let events = times.iter().map(|time| (7, *time, *time, 512, write, 0));
        blktrace(&events.collect::<Vec<_>>(), false)
    };
    let file = |cpu: u32| folder.path().join(format!("sdb.blktrace.{cpu}"));
    for (cpu, times) in [(0, &[10, 40, 90][..]), (1, &[]), (2, &[20, 30]), (11, &[5, 95])] {
        std::fs::write(file(cpu), at(times)).expect("written");
    }
    let times = |name: &str| {
        let reader = Reader::open(&folder.path().join(name), &ReadOptions::default());
        let records = reader.expect("a trace").map(|record| record.expect("an event"));
        records.map(|record| (record.time_ns + 5, record.device >> 20)).collect::<Vec<_>>()
    };
    let expected = [5, 10, 20, 30, 40, 90, 95].map(|time| (time, 8));
    assert_eq!(times("sdb"), expected);
    assert_eq!(times("sdb.blktrace"), expected);
    assert_eq!(times("sdb.blktrace.2"), [(5, 8), (15, 8)]);
}
