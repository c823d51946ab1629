//! How destages become durable on disks with a volatile cache: what each way costs, in simulated
//! time.

use destage_report::model::RunReport;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;

/// A served array of five drives, level 5.
fn run(disk: &str, durability: &str, seed: u64, changes: &[(&str, &str)]) -> RunReport {
    let mut options = RunOptions::default();
    let seed = seed.to_string();
    let usual = [("as", "served"), ("disk", disk), ("durability", durability), ("seed", &seed)];
    // Seconds, and an NVS that is full after a few of them.
    let short = [("nvs", "16384"), ("warmup", "40"), ("measure", "80")];
    for (name, value) in usual.iter().chain(&short).chain(changes) {
        options.set(name, value).expect("an option");
    }
    run_one("run", &options, &make_source).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

fn flushes_per_page(report: &RunReport) -> f64 {
    report.destage.flushes as f64 / report.destage.pages as f64
}

const WRITES: (&str, &str) = ("workload", "random:threads=32");
const SPC1: [(&str, &str); 2] = [("workload", "spc1:style=v2"), ("iops", "300")];

/// What the array can destage, and how often it flushes a disk for that.
#[test]
fn shared_flushes_destage_more_than_a_flush_for_each_and_fua_as_much_as_no_cache() {
    for seed in 1..4 {
        let [off, fua, epochs, flush] = ["off", "fua", "epochs", "flush"]
            .map(|how| run("ultrastar-hc320", how, seed, &[WRITES]));
        assert_eq!((off.destage.flushes, fua.destage.flushes), (0, 0));
        assert_eq!(off.iops, fua.iops, "every write goes to the medium");
        let gain = epochs.iops / flush.iops;
        assert!(gain > 1.4, "seed {seed}: {} and {}", epochs.iops, flush.iops);
        let [few, many] = [&epochs, &flush].map(flushes_per_page);
        assert!(few < 0.7 && many > 1.8, "seed {seed}: {few} and {many} flushes per page");
        let without = run("ultrastar-hc320", "epochs", seed, &[WRITES, ("write-cache", "off")]);
        assert!(epochs.iops > 2.0 * without.iops, "without a cache {}", without.iops);
    }
}

/// Reads wait little longer than on drives whose caches are off.
#[test]
fn reads_next_to_shared_flushes_wait_little_longer_than_without_a_cache() {
    for seed in 1..4 {
        let [off, epochs, flush] = ["off", "epochs", "flush"]
            .map(|how| run("ultrastar-hc320", how, seed, &SPC1).response.reads.p99_ms);
        assert!(epochs < 1.3 * off, "seed {seed}: {epochs} and {off} ms");
        assert!(flush > 1.8 * off, "seed {seed}: {flush} and {off} ms");
    }
}

/// A flush of this drive takes 35 ms whatever it writes: a bound near that makes each cover one
/// write.
#[test]
fn the_bound_says_how_many_writes_share_a_flush() {
    for seed in 1..4 {
        let [short, long] = ["50", "150"]
            .map(|ms| run("st2000dm006", "epochs", seed, &[WRITES, ("flush-bound", ms)]))
            .map(|report| flushes_per_page(&report));
        assert!(short > 1.0 && long < 0.3, "seed {seed}: {short} and {long}");
    }
}
