//! Simulated arrays that lose a disk: every level and both protocols continue to serve,
//! rebuilds end and keep their limits, and a read cache that takes the failed disk into account
//! asks less of the others.

use destage_engine::array::layout::DiskPage;
use destage_engine::request::PageRange;
use destage_engine::units::DiskId;
use destage_report::model::RunReport;
use destage_sim::compare::run_one;
use destage_sim::config::SimConfig;
use destage_sim::options::{OptionError, RunOptions};
use destage_sim::sources::make_source;
use destage_workload::source::{Mapped, Source, SourceRequest};

const BASE: [(&str, &str); 8] = [
    ("disk-fraction", "1G"),
    ("nvs", "2048"),
    ("workload", "zipf:theta=0.9,writes=0.3"),
    ("iops", "150"),
    ("read-cache", "lru"),
    ("read-cache-size", "8192"),
    ("fail", "disk=0,at=30"),
    ("warmup", "fail"),
];

fn run(changes: &[(&str, &str)]) -> RunReport {
    let mut options = RunOptions::default();
    for (name, value) in BASE.iter().chain(changes) {
        options.set(name, value).expect("an option");
    }
    run_one("run", &options, &make_source).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

fn rebuild_s(report: &RunReport) -> f64 {
    report.fault.as_ref().and_then(|fault| fault.rebuild_s).expect("it is rebuilt")
}

fn rgr(report: &RunReport) -> f64 {
    report.read_cache.as_ref().expect("a read cache").rgr
}

#[test]
fn every_level_goes_on_and_is_rebuilt_under_both_protocols() {
    for (level, disks, fail) in [
        ("4", "5", "disk=0,at=5"),
        ("5", "5", "disk=0,at=5"),
        ("6", "6", "disk=0,at=5;disk=3,at=6"),
        ("10", "4", "disk=0,at=5"),
    ] {
        for protocol in ["papers", "safe"] {
            let run = || {
                run(&[
                    ("level", level),
                    ("disks", disks),
                    ("fail", fail),
                    ("protocol", protocol),
                    ("nvs-latency", "50"),
                    ("rebuild", "on:at=7"),
                    ("warmup", "0"),
                    ("measure", "rebuild"),
                    ("read-cache-writes", "keep"),
                ])
            };
            let report = run();
            assert!(rebuild_s(&report) > 1.0, "{level} {protocol}");
            let fault = report.fault.as_ref().expect("a disk failed");
            assert_eq!((fault.rebuilt_share, fault.lost_pages), (1.0, 0));
            assert!(report.iops > 130.0, "{level} {protocol}: {} of 150 are served", report.iops);
            assert_eq!(report.digest, run().digest, "the same run, the same events");
        }
    }
}

#[test]
fn a_degraded_disk_does_nothing_and_writes_have_penalties() {
    let report = run(&[("measure", "20")]);
    assert_eq!((report.disks[0].reads, report.disks[0].writes), (0, 0));
    assert!(report.disks[1].reads > 0);
    let penalty = report.fault.and_then(|fault| fault.write_penalty).expect("writes");
    // A fifth of the rows has its parity on the failed disk, a fifth of the data is there.
    assert!((3.3..3.5).contains(&penalty.exact), "{}", penalty.exact);
    assert!((4.3..4.5).contains(&penalty.paper), "{}", penalty.paper);
}

#[test]
fn a_fault_aware_cache_asks_less_of_the_other_disks() {
    let with = |vdf| {
        rgr(&run(&[
            ("vdf", vdf),
            ("fail", "disk=0,at=60"),
            ("measure", "60"),
            ("disks", "8"),
            ("iops", "600"),
            ("workload", "zipf:theta=0.9,writes=0"),
            ("read-cache-size", "4096"),
        ]))
    };
    let (off, paper, adaptive) = (with("off"), with("paper"), with("adaptive"));
    assert!(paper < 0.95 * off, "{paper} of {off}");
    assert!(adaptive < 0.95 * off, "{adaptive} of {off}");
    let healthy = |vdf| {
        let report = run(&[("vdf", vdf), ("fail", ""), ("warmup", "30"), ("measure", "30")]);
        assert_eq!(report.fault, None);
        (report.digest.clone(), rgr(&report))
    };
    let plain = healthy("off");
    assert_eq!(plain, healthy("paper"), "no fault, no difference");
    assert_eq!(plain, healthy("adaptive"));
}

#[test]
fn rebuilds_keep_their_limits() {
    let rebuild = |limits: &str, iops: &str| {
        run(&[
            ("rebuild", &format!("on:{limits}")),
            ("measure", "rebuild"),
            ("warmup", "fail"),
            ("iops", iops),
        ])
    };
    let full = rebuild("window=128", "300");
    let idle = rebuild_s(&rebuild("depth=1", "1"));
    let quarter = rebuild_s(&rebuild("share=25", "1"));
    assert!((3.3..4.4).contains(&(quarter / idle)), "a quarter of the time: {quarter} {idle}");
    // 256 MiB a disk at 4 MB/s, whatever the share.
    let floor = rebuild_s(&rebuild("share=1,min=4", "1"));
    assert!((60.0..75.0).contains(&floor), "{floor}");
    let most = full.response.reads.mean_ms * 0.6;
    let kind = rebuild(&format!("reads-under={most}"), "300");
    assert!(rebuild_s(&kind) > 1.2 * rebuild_s(&full));
    let reads = kind.response.reads.mean_ms;
    assert!(reads < 1.2 * most, "reads under {most} ms took {reads} ms");
}

#[test]
fn destages_that_are_expensive_are_deferred() {
    let with = |on| {
        run(&[
            ("vdf-writes", on),
            ("workload", "spc1"),
            ("disks", "8"),
            ("measure", "30"),
            ("read-cache", "off"),
        ])
    };
    let put_off = |report: &RunReport| report.fault.as_ref().expect("a fault").put_off;
    assert_eq!(put_off(&with("off")), 0);
    assert!(put_off(&with("on")) > 0);
}

#[test]
fn a_window_ends_after_so_many_requests_or_when_a_rebuild_takes_too_long() {
    let report = run(&[("measure", "requests:100")]);
    assert_eq!(report.response.all.count, 100);
    let limited = |most: &str| run(&[("rebuild", "on"), ("measure", most)]);
    let whole = rebuild_s(&limited("rebuild"));
    assert_eq!(rebuild_s(&limited(&format!("rebuild:{:.0}", whole + 1.0))), whole);
    let report = limited("rebuild:2");
    let fault = report.fault.expect("a disk failed");
    assert_eq!((fault.rebuild_s, report.measured_s), (None, 2.0));
    assert!(fault.rebuilt_share > 0.0 && fault.rebuilt_share < 1.0, "{}", fault.rebuilt_share);
}

/// The load, moved to the pages of disk 0.
fn on_disk_0(
    options: &RunOptions,
    config: &SimConfig,
) -> Result<Box<dyn Source + Send>, OptionError> {
    let geometry = config.controller.geometry;
    let source = make_source(options, config)?;
    Ok(Box::new(Mapped::new(source, move |request, _| {
        let page = request.range.first.0 % geometry.disk_pages;
        let first = geometry.page_at(DiskPage { disk: DiskId(0), page }).expect("no parity there");
        Ok(SourceRequest { range: PageRange::new(first, 1), ..request })
    })))
}

/// Mean response time of reads of disk 0, one after the other, in ms.
fn reads_of_disk_0(changes: &[(&str, &str)]) -> f64 {
    let mut options = RunOptions::default();
    let base = [
        ("level", "4"),
        ("disk-fraction", "1G"),
        ("nvs", "2048"),
        ("workload", "random:threads=1,writes=0"),
        ("warmup", "2"),
        ("measure", "20"),
    ];
    for (name, value) in base.iter().chain(changes) {
        options.set(name, value).expect("an option");
    }
    run_one("run", &options, &on_disk_0).expect("a run").response.reads.mean_ms
}

/// docs/disk-models.md: a degraded read waits for the slowest of four disks.
#[test]
fn degraded_reads_take_longer_where_disks_do_not_turn_in_phase() {
    let lost = ("fail", "disk=0,at=1");
    let (healthy, degraded) = (reads_of_disk_0(&[]), reads_of_disk_0(&[lost]));
    assert!((degraded / healthy - 1.0).abs() < 0.01, "in phase: {healthy}, degraded {degraded}");
    let longer = |seed| {
        let free = [("spindles", "free"), ("seed", seed)];
        reads_of_disk_0(&[free[0], free[1], lost]) - reads_of_disk_0(&free)
    };
    // Four fifths of a revolution of 6 ms in place of a half.
    let mean = ["1", "2", "3", "4"].map(longer).iter().sum::<f64>() / 4.0;
    assert!((1.5..2.1).contains(&mean), "{mean} ms longer, expected about 1.8");
}
