//! The policy ebb next to stow: the same where it keeps the array's order, and shorter reads where
//! seeks are long.

use destage_report::model::RunReport;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;

fn run(policy: &str, changes: &[(&str, &str)]) -> RunReport {
    let mut options = RunOptions::default();
    let usual = [("policy", policy), ("protocol", "safe"), ("queue-depth", "128")];
    for (name, value) in usual.iter().chain(changes) {
        options.set(name, value).expect("an option");
    }
    run_one("run", &options, &make_source).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

/// Without reads, and where all reads are near each other, every command keeps its order.
#[test]
fn ebb_is_stow_where_reads_are_rare_or_near() {
    let short = [("warmup", "20"), ("measure", "20")];
    let random = [("workload", "random:threads=32"), ("nvs", "4096"), ("window", "8")];
    let near = [("disk-fraction", "0.01"), ("iops", "5000"), ("nvs", "16384")];
    for (load, order) in [(random, "arrival"), (near, "arrival"), (near, "reads-first:3")] {
        let changes = [&load[..], &short[..], &[("order", order)]].concat();
        let [ebb, stow] = ["ebb:sparse=off", "stow"].map(|policy| run(policy, &changes));
        assert!(stow.destage.groups > 1000, "{} destages", stow.destage.groups);
        assert_eq!(ebb.digest, stow.digest, "{changes:?}");
    }
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
