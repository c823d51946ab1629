//! How destages become durable on disks with a volatile cache: what each way costs, in simulated
//! time.

use destage_report::model::RunReport;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;

/// A served array of five drives of 8 TB, level 5.
fn run(durability: &str, seed: u64, changes: &[(&str, &str)]) -> RunReport {
    let mut options = RunOptions::default();
    let seed = seed.to_string();
    let usual = [
        ("as", "served"),
        ("disk", "ultrastar-hc320"),
        ("nvs", "16384"),
        ("durability", durability),
        ("seed", &seed),
        ("warmup", "60"),
        ("measure", "120"),
    ];
    for (name, value) in usual.iter().chain(changes) {
        options.set(name, value).expect("an option");
    }
    run_one("run", &options, &make_source).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

fn flushes_per_page(report: &RunReport) -> f64 {
    report.destage.flushes as f64 / report.destage.pages as f64
}

/// Uniform writes that always wait for space: what the array can destage.
#[test]
fn shared_flushes_destage_more_than_a_flush_for_each_and_fua_as_much_as_no_cache() {
    let writes = [("workload", "random:threads=32"), ("disk-fraction", "64G")];
    for seed in 1..4 {
        let [off, fua, epochs, flush] =
            ["off", "fua", "epochs", "flush"].map(|how| run(how, seed, &writes));
        assert_eq!((off.destage.flushes, fua.destage.flushes), (0, 0));
        assert_eq!(off.digest, fua.digest, "every write goes to the medium");
        assert!(epochs.iops > flush.iops, "seed {seed}: {} and {}", epochs.iops, flush.iops);
        let [few, many] = [&epochs, &flush].map(flushes_per_page);
        assert!(few < many, "seed {seed}: {few} and {many} flushes per page");
    }
}

/// Reads wait for one flush at most, and a flush for no more writes than fit into the bound.
#[test]
fn the_bound_of_a_flush_bounds_what_reads_wait() {
    let load = [("iops", "200")];
    for seed in 1..4 {
        let p99 = |how, bound| {
            let report = run(how, seed, &[&load[..], &[("flush-bound", bound)]].concat());
            assert!(report.destage.pages > 1000 && report.host_wait.mean_ms < 1.0, "{how} {bound}");
            report.response.reads.p99_ms
        };
        let [off, short, long, flush] =
            [("off", "50"), ("epochs", "20"), ("epochs", "200"), ("flush", "50")]
                .map(|(how, bound)| p99(how, bound));
        println!("seed {seed}: {off} {short} {long} {flush}");
        assert!(off < short && short < long && short < flush, "{off} {short} {long} {flush}");
    }
}
