//! The policy ebb next to stow: the same where it keeps the array's order, and shorter reads where
//! seeks are long.

use destage_report::model::RunReport;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;
use std::fmt::Write;

fn run(policy: &str, changes: &[(&str, &str)]) -> RunReport {
    let mut options = RunOptions::default();
    let usual = [("policy", policy), ("protocol", "safe"), ("queue-depth", "128")];
    for (name, value) in usual.iter().chain(changes) {
        options.set(name, value).expect("an option");
    }
    run_one("run", &options, &make_source).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

/// Uniform writes: no command is passed over for a lap of the clock, which leaves stow with fewer
/// places in a drive, and in how many depends on the seed.
#[test]
fn uniform_writes_are_faster_than_stow_at_its_better_depth() {
    let served = |policy: &str, depth: &str, seed: &str| {
        let load = [("workload", "random:threads=32"), ("nvs", "4096"), ("window", "8")];
        let short = [("queue-depth", depth), ("seed", seed), ("warmup", "60"), ("measure", "60")];
        run(policy, &[&load[..], &short[..]].concat()).iops
    };
    for seed in ["1", "2", "3"] {
        let best = |policy| served(policy, "20", seed).max(served(policy, "128", seed));
        let (ebb, stow) = (best("ebb"), best("stow"));
        assert!(ebb > 1.12 * stow, "seed {seed}: {ebb} against {stow} a second");
    }
}

/// Where seeks are short, reads are shorter since more of them are in the NVS and none waits for a
/// burst of destages.
#[test]
fn reads_are_shorter_on_a_part_of_each_disk() {
    let changes = [
        ("disk-fraction", "0.01"),
        ("iops", "4500"),
        ("window", "8"),
        ("order", "reads-first"),
        ("warmup", "100"),
        ("measure", "40"),
    ];
    let [ebb, no_keep, stow] = ["ebb", "ebb:keep=off", "stow"].map(|policy| run(policy, &changes));
    let read = |report: &RunReport| report.response.reads.mean_ms;
    assert!(read(&ebb) < 0.74 * read(&stow), "{} against {} ms", read(&ebb), read(&stow));
    assert!(read(&ebb) < 0.95 * read(&no_keep), "without keep {} ms", read(&no_keep));
    let held = |report: &RunReport| report.occupancy.mean;
    assert!(held(&ebb) > 0.92 && held(&no_keep) < 0.88, "{} and {}", held(&ebb), held(&no_keep));
    assert!(ebb.time_full == 0.0, "the NVS is never full");
}

/// Destages join commands that are near each other unless that is switched off.
#[test]
fn destages_read_over_clean_pages() {
    let reads = |policy: &str, changes: &[(&str, &str)]| {
        let near = [("disk-fraction", "0.01"), ("iops", "3000"), ("nvs", "16384")];
        let short = [("warmup", "20"), ("measure", "20")];
        let report = run(policy, &[&near[..], &short[..], changes].concat());
        report.disks.iter().map(|disk| disk.reads).sum::<u64>() as f64
    };
    assert!(reads("ebb", &[]) < 0.95 * reads("ebb", &[("bridge", "0")]));
    assert_eq!(reads("stow", &[]), reads("stow", &[("bridge", "0")]));
}

/// On complete disks reads wait less for destages whatever the window, and no wait is hidden at the
/// host.
#[test]
fn reads_are_shorter_on_complete_disks() {
    for (window, rate, share) in
        [("1", 600.0, 1.05), ("4", 900.0, 0.9), ("8", 1200.0, 0.85), ("32", 1200.0, 0.7)]
    {
        let iops = rate.to_string();
        let changes = [
            ("iops", iops.as_str()),
            ("window", window),
            ("order", "reads-first"),
            ("warmup", "400"),
            ("measure", "60"),
        ];
        let [ebb, stow] = ["ebb", "stow"].map(|policy| run(policy, &changes));
        let [new, old] = [&ebb, &stow].map(|report| report.response.reads.mean_ms);
        assert!(new < share * old, "window {window}: {new} against {old} ms");
        assert!(ebb.iops > 0.98 * rate && ebb.host_wait.mean_ms < 1.0, "{} I/O/s", ebb.iops);
    }
}

/// Large writes at random places are no streams: destaged in one order they are as fast as with
/// wow, which has one ring, and stow's two take the heads back and forth.
#[test]
fn large_writes_at_random_places_are_as_fast_as_with_wow() {
    for (pages, of_stow) in [("24", 1.2), ("48", 1.4), ("100", 1.4), ("500", 1.2)] {
        let workload = format!("random:threads=16,pages={pages}");
        let load = [("workload", workload.as_str()), ("queue-depth", "20"), ("order", "arrival")];
        for seed in ["1", "2"] {
            let short = [("seed", seed), ("measure", "60")];
            let [ebb, wow, stow] = ["ebb", "wow", "stow"]
                .map(|policy| run(policy, &[&load[..], &short[..]].concat()).iops);
            assert!(ebb > 0.98 * wow, "{pages} pages, seed {seed}: {ebb} against {wow} a second");
            assert!(ebb > of_stow * stow, "{pages} pages, seed {seed}: stow {stow} a second");
        }
    }
}

/// Nor are large writes with groups smaller or larger than they are, hot or with a stream next to
/// them: both queues are scanned as one, and a group that they add to is not used again for that.
#[test]
fn large_writes_are_as_fast_as_with_wow_whatever_the_groups() {
    let hot = "zipf:threads=128,iops=0,writes=0.9,pages=40,theta=1.2";
    let next_to_a_stream = "mix:parts=0.8*random(writes=1,pages=30)+0.4*sequential(streams=1,\
                            writes=1)+0.1*zipf(writes=1),iops=0,threads=4";
    let of_five_groups = "zipf:threads=16,iops=0,writes=1,pages=80,theta=0.6";
    let cells: [&[(&str, &str)]; 3] = [
        &[
            ("workload", hot),
            ("disks", "4"),
            ("nvs", "24576"),
            ("window", "48"),
            ("strip", "64"),
            ("fail", "disk=2,at=1"),
        ],
        &[
            ("workload", next_to_a_stream),
            ("level", "10"),
            ("disks", "6"),
            ("nvs", "65536"),
            ("window", "128"),
        ],
        &[
            ("workload", of_five_groups),
            ("level", "10"),
            ("disks", "2"),
            ("nvs", "1024"),
            ("window", "3"),
            ("group-stripes", "4"),
            ("disk", "ultrastar-7k4000"),
            ("fail", "disk=0,at=1"),
        ],
    ];
    let as_they_come = [
        ("thresholds", "80/60"),
        ("queue-depth", "20"),
        ("order", "arrival"),
        ("warmup", "150"),
        ("measure", "60"),
    ];
    for cell in cells {
        let [ebb, wow] =
            ["ebb", "wow"].map(|policy| run(policy, &[cell, &as_they_come[..]].concat()));
        assert!(ebb.iops > 0.985 * wow.iops, "{cell:?}: {} of {} a second", ebb.iops, wow.iops);
    }
}

/// Destages in flight hold no more than what is above the low threshold: where that is little, the
/// NVS would be full whenever they begin.
#[test]
fn destages_in_flight_leave_room_where_the_thresholds_leave_little() {
    let changes = [
        ("iops", "520"),
        ("nvs", "20547"),
        ("window", "12"),
        ("thresholds", "99/97"),
        ("group-stripes", "2"),
        ("disk", "ultrastar-7k4000"),
        ("fail", "disk=0,at=1"),
        ("order", "reads-first"),
        ("warmup", "300"),
        ("measure", "100"),
    ];
    let report = run("ebb", &changes);
    assert!(report.host_wait.mean_ms < 0.5, "{} ms at the host", report.host_wait.mean_ms);
}

/// Destages in flight hold a part of the NVS: in a small one there are fewer of them.
#[test]
fn destages_in_flight_leave_room_in_a_small_nvs() {
    let mean = |seed: &str| {
        let load = [("nvs", "1024"), ("iops", "740"), ("window", "6"), ("order", "reads-first")];
        let short = [("seed", seed), ("warmup", "300"), ("measure", "60")];
        run("ebb", &[&load[..], &short[..]].concat()).response.all.mean_ms
    };
    let means = ["1", "2", "3"].map(mean);
    assert!(means.iter().sum::<f64>() < 3.0 * 25.0, "{means:?} ms");
}

/// When the NVS is nearly full, destages do not wait until no read is left.
#[test]
fn reads_do_not_let_the_nvs_fill() {
    let changes = [
        ("iops", "1800"),
        ("window", "32"),
        ("order", "reads-first"),
        ("warmup", "400"),
        ("measure", "60"),
    ];
    let report = run("ebb", &changes);
    assert!(report.host_wait.mean_ms < 1.0, "{} ms at the host", report.host_wait.mean_ms);
    assert!(report.response.all.mean_ms < 32.0, "{} ms", report.response.all.mean_ms);
}

/// What is near is a part of the drive: a few GB are near on a drive of 4 TB, and the array's order
/// is kept there.
#[test]
fn reads_of_a_small_part_of_a_large_drive_are_near() {
    let changes = [
        ("workload", "random:threads=8,writes=0.2,pages=80"),
        ("disk", "ultrastar-7k4000"),
        ("disk-fraction", "0.003"),
        ("disks", "7"),
        ("thresholds", "50/20"),
        ("fail", "disk=5,at=1"),
        ("order", "reads-first"),
        ("nvs", "2048"),
        ("window", "6"),
        ("warmup", "60"),
        ("measure", "60"),
    ];
    let [ebb, near_0, stow] =
        ["ebb", "ebb:near=0", "stow"].map(|policy| run(policy, &changes).iops);
    assert!(ebb > 0.99 * stow && ebb > 1.04 * near_0, "{ebb}, {near_0} and {stow} a second");
}

/// Sparse groups wait neither where they do not grow nor where each page is written for itself.
#[test]
fn sparse_groups_wait_only_where_it_pays() {
    let served = |policy: &str, changes: &[(&str, &str)]| {
        let short = [("nvs", "2048"), ("window", "128"), ("warmup", "200"), ("measure", "60")];
        run(policy, &[&short[..], changes].concat()).iops
    };
    let no_growth = [("workload", "random:threads=16,pages=12"), ("level", "4")];
    let [ebb, stow] = ["ebb", "stow"].map(|policy| served(policy, &no_growth));
    assert!(ebb > 0.99 * stow, "{ebb} against {stow} a second");
    let mirrored = [("workload", "random:threads=16"), ("level", "10"), ("disks", "4")];
    let [ebb, off] = ["ebb", "ebb:sparse=off"].map(|policy| served(policy, &mirrored));
    assert_eq!(ebb, off, "a mirror writes each page for itself");
}

/// Cells in which ebb was worse than stow, or than wow, when they were first played.
#[test]
fn what_was_missed_off_the_grid_is_not_any_more() {
    let served = |policy: &str, changes: &[(&str, &str)]| run(policy, changes).iops;
    // Streams at equal distances are not taken for large writes at random places.
    for streams in ["8", "16"] {
        let load = format!("sequential:streams={streams},threads=110,iops=0,writes=1,pages=1");
        let array = [("level", "6"), ("disks", "8"), ("disk", "exos-x20"), ("nvs", "42931")];
        let more = [("disk-fraction", "0.3"), ("window", "3"), ("warmup", "10"), ("measure", "4")];
        let changes = [&array[..], &more, &[("workload", &load)]].concat();
        let [ebb, stow] = ["ebb", "stow"].map(|policy| served(policy, &changes));
        assert!(ebb > 0.96 * stow, "{streams} streams: {ebb} against {stow} a second");
    }
    // Of one stream that is read, none is passed over for the one behind it.
    let reads = "sequential:streams=1,threads=6,iops=0,writes=0.01,pages=5";
    let array = [("disks", "9"), ("disk", "st8000as0002"), ("fail", "disk=8,at=1")];
    let more = [("nvs", "1172"), ("thresholds", "95/90"), ("window", "2"), ("workload", reads)];
    let short = [("warmup", "100"), ("measure", "60"), ("order", "reads-first")];
    let changes = [&array[..], &more, &short].concat();
    let [ebb, stow] = ["ebb", "stow"].map(|policy| served(policy, &changes));
    assert!(ebb > 0.98 * stow, "one stream: {ebb} against {stow} a second");
    // Each change of the queue destages two groups, however near the thresholds are.
    let mix = "mix:parts=0.7*random(writes=1,pages=1)+0.1*sequential(streams=3,writes=1)\
               +0.8*zipf(writes=1),iops=0,threads=80";
    let array = [("level", "4"), ("disk", "ultrastar-7k4000"), ("fail", "disk=1,at=1")];
    let more = [("nvs", "4776"), ("thresholds", "95/90"), ("window", "2"), ("workload", mix)];
    let short = [("warmup", "300"), ("measure", "60"), ("queue-depth", "20")];
    let changes = [&array[..], &more, &short].concat();
    let [ebb, stow] = ["ebb", "stow"].map(|policy| served(policy, &changes));
    assert!(ebb > 1.1 * stow, "near thresholds: {ebb} against {stow} a second");
}

/// Where the NVS is fuller than usual a burst may delay reads for longer: hosts wait less.
#[test]
fn a_degraded_array_takes_bursts_of_writes_without_a_wait() {
    let changes = [
        ("iops", "925"),
        ("window", "8"),
        ("order", "reads-first"),
        ("fail", "disk=0,at=1"),
        ("warmup", "300"),
        ("measure", "300"),
    ];
    // Near the limit one burst decides: 6 to 16 ms with a price that does not rise.
    let wait = |seed| run("ebb", &[&changes[..], &[("seed", seed)]].concat()).host_wait.mean_ms;
    let waits = ["1", "2", "3"].map(wait);
    assert!(waits.iter().sum::<f64>() < 3.0 * 2.0, "writes wait for {waits:?} ms at the host");
}

/// Groups with many pages first, when the NVS is fuller than usual: fewer destages make the room
/// that writes need, and the load that is served with a short response is higher.
#[test]
fn an_array_near_its_limit_frees_many_pages_with_each_destage() {
    let changes = [
        ("iops", "1500"),
        ("window", "8"),
        ("order", "reads-first"),
        ("warmup", "200"),
        ("measure", "100"),
    ];
    for seed in ["1", "2", "3"] {
        let report = run("ebb", &[&changes[..], &[("seed", seed)]].concat());
        let (response, wait) = (report.response.all.mean_ms, report.host_wait.mean_ms);
        assert!(response < 24.0 && wait < 1.0, "seed {seed}: {response} ms, {wait} at the host");
    }
}

/// Requests in SPC's format: 150 s of single pages, this many a second, of which hosts use many
/// again; 110 s with one request a second; and 312 MiB of extents in two.
fn rest_and_burst(per_second: u32) -> String {
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let pages = 1 << 20;
    let hot: Vec<u64> = (0..3000).map(|_| draw(pages)).collect();
    let mut text = String::new();
    let mut add = |millis: f64, page: u64, pages: u64, write: bool| {
        let (sector, bytes) = (page * 8, pages * 4096);
        let operation = if write { 'W' } else { 'R' };
        writeln!(text, "0,{sector},{bytes},{operation},{:.6}", millis / 1000.0).expect("written");
    };
    for request in 0..150 * per_second {
        let at = if draw(10) < 6 { hot[draw(3000) as usize] } else { draw(pages) };
        add(f64::from(request) * 1000.0 / f64::from(per_second), at, 1, draw(10) < 6);
    }
    for second in 150..260 {
        add(f64::from(second) * 1000.0, hot[0], 1, false);
    }
    for extent in 0..312 {
        let first = draw(pages / 256) * 256;
        for part in 0..16 {
            let write = f64::from(extent * 16 + part);
            add(260_000.0 + write * 0.4, first + 16 * part as u64, 16, true);
        }
    }
    text
}

/// While disks rest, the NVS keeps the room that its thresholds leave, though much of it is used
/// again; and a burst that fills it is destaged in few operations.
#[test]
fn a_burst_after_a_rest_waits_for_few_destages() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("bursts.spc");
    let play = |policy: &str, nvs: &str, per_second| {
        std::fs::write(&path, rest_and_burst(per_second)).expect("written");
        let trace = [("trace", path.to_str().expect("a path")), ("trace-format", "spc")];
        let all = [("nvs", nvs), ("warmup", "0"), ("measure", "all"), ("interval", "1")];
        run(policy, &[&trace[..], &all[..]].concat())
    };
    let occupancy = play("ebb", "8192", 400).series.occupancy;
    let (busy, rested) = (occupancy[145], occupancy[255]);
    assert!(busy > 0.85 && rested < 0.81, "{busy} and {rested} of the NVS are in use");
    let mean = |policy| play(policy, "32768", 200).response.all.mean_ms;
    let [ebb, stow, wow] = ["ebb", "stow", "wow"].map(mean);
    assert!(ebb < 0.2 * stow.min(wow), "{ebb} against {stow} and {wow} ms");
}

/// Where disks are seldom busy, a read does not wait for many destages of 64 KiB and more.
#[test]
fn large_requests_far_below_the_limit_wait_for_few_destages() {
    let changes = [
        ("workload", "uniform:pages=32,writes=0.8,iops=60"),
        ("nvs", "8192"),
        ("window", "8"),
        ("warmup", "100"),
        ("measure", "100"),
    ];
    let [ebb, stow] = ["ebb", "stow"].map(|policy| run(policy, &changes).response.all.mean_ms);
    assert!(ebb < 0.85 * stow, "{ebb} against {stow} ms");
}

/// A tenth of a small NVS is less than a few writes: it stays free however much is used again.
#[test]
fn a_small_nvs_keeps_room_for_writes() {
    let changes = [
        ("workload", "zipf:theta=1.2,pages=16,writes=0.9,iops=150"),
        ("nvs", "512"),
        ("window", "8"),
        ("queue-depth", "20"),
        ("warmup", "60"),
        ("measure", "60"),
    ];
    let [ebb, stow] = ["ebb", "stow"].map(|policy| run(policy, &changes).response.all.mean_ms);
    assert!(ebb < 1.02 * stow, "{ebb} against {stow} ms");
}

/// With as many threads as its window has places, a drive is not drained for each burst.
#[test]
fn bursts_do_not_drain_a_large_window() {
    let changes = [
        ("workload", "random:threads=512,writes=0.3"),
        ("nvs", "4096"),
        ("window", "128"),
        ("order", "reads-first"),
        ("warmup", "60"),
        ("measure", "20"),
    ];
    let [ebb, stow] = ["ebb", "stow"].map(|policy| run(policy, &changes).iops);
    assert!(ebb > 0.98 * stow, "{ebb} against {stow} per second");
}
