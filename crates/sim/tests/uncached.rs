//! An array without its write cache: every write is answered, and only when the disks have it.

use destage_report::model::RunReport;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;

fn run(level: &str, disks: &str, changes: &[(&str, &str)]) -> RunReport {
    let mut options = RunOptions::default();
    let usual = [("level", level), ("disks", disks), ("warmup", "0"), ("measure", "all")];
    for (name, value) in usual.iter().chain(changes) {
        options.set(name, value).expect("an option");
    }
    run_one("run", &options, &make_source).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

const OFF: (&str, &str) = ("write-cache", "off");

#[test]
fn every_write_is_answered_after_the_disks_under_both_protocols() {
    let writes = ("workload", "random:threads=4,requests=300");
    for (level, disks) in [("5", "5"), ("6", "6"), ("10", "4"), ("0", "4"), ("single", "1")] {
        for protocol in ["papers", "safe"] {
            let report = run(level, disks, &[writes, OFF, ("protocol", protocol)]);
            let writes = &report.response.writes;
            assert_eq!(writes.count, 300, "{level} {protocol}");
            // A random access of this drive takes a seek and half a turn, about 8 ms.
            assert!(writes.mean_ms > 6.0, "{level} {protocol}: {} ms", writes.mean_ms);
        }
    }
}

#[test]
fn a_write_without_a_cache_waits_for_data_and_parity() {
    for protocol in ["papers", "safe"] {
        let changes = [("iops", "50"), ("requests", "1000"), ("protocol", protocol), OFF];
        let response = run("5", "5", &changes).response;
        assert_eq!(response.all.count, 1000, "{protocol}");
        let [reads, writes] = [response.reads.mean_ms, response.writes.mean_ms];
        assert!(writes > 1.2 * reads, "{protocol}: writes {writes} ms, reads {reads} ms");
    }
}

/// A request of 100 pages covers two or three write groups, which leave the NVS one by one.
#[test]
fn a_write_without_a_cache_waits_for_all_of_its_groups() {
    let writes = ("workload", "uniform:pages=100,requests=200,iops=10");
    for issue in ["group", "runs"] {
        let report = run("5", "5", &[writes, OFF, ("issue", issue)]);
        assert_eq!(report.response.writes.count, 200, "{issue}");
        assert!(report.response.writes.mean_ms > 6.0, "{issue}");
    }
}
