//! What a run says of its disks: media caches and bands, units of drives with two actuators, and
//! the size of a sector.

use destage_disk::Zones;
use destage_report::model::RunReport;
use destage_sim::compare::run_one;
use destage_sim::options::RunOptions;
use destage_sim::sources::make_source;

fn run(disk: &str, seed: u64, changes: &[(&str, &str)]) -> RunReport {
    let mut options = RunOptions::default();
    let seed = seed.to_string();
    let usual = [("as", "served"), ("disk", disk), ("seed", &seed), ("measure", "60")];
    for (name, value) in usual.iter().chain(changes) {
        options.set(name, value).expect("an option");
    }
    run_one("run", &options, &make_source).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

fn warns(report: &RunReport, of: &str) -> bool {
    report.warnings.iter().any(|warning| warning.contains(of))
}

/// A small media cache and map, so that they fill within the run.
fn small_cache(dir: &std::path::Path) -> String {
    let mut spec = destage_disk::find("st8000as0002").expect("a drive");
    let cache = spec.media_cache.as_mut().expect("a media cache");
    (cache.map_entries, spec.name) = (2000, "small-cache".into());
    let path = dir.join("small-cache.toml");
    std::fs::write(&path, spec.to_toml()).expect("a file");
    path.to_str().expect("a path").to_string()
}

#[test]
fn shingled_drives_are_fast_until_their_media_cache_is_full_and_not_for_redundant_arrays() {
    let dir = tempfile::tempdir().expect("a directory");
    let small = small_cache(dir.path());
    let writes = [("workload", "random:threads=32"), ("nvs", "4096")];
    for seed in 1..4 {
        let large = run("st8000as0002", seed, &writes);
        let full = run(&small, seed, &writes);
        assert!(large.iops > 20.0 * full.iops, "seed {seed}: {} and {}", large.iops, full.iops);
        let [large, full] = [&large, &full].map(|r| r.media_cache.as_ref().expect("they have one"));
        assert_eq!((large.bands_cleaned, large.write_amplification), (0, 1.0));
        assert!(full.bands_cleaned > 50 && full.write_amplification > 10.0, "{full:?}");
        assert!(full.moving_share > 0.5 && full.waited_share > 0.5, "{full:?}");
    }
    let of = |level: &str| {
        let disks = if level == "single" { "1" } else { "6" };
        warns(&run(&small, 1, &[("level", level), ("disks", disks)]), "shingled drive")
    };
    assert!(of("5") && of("6") && of("10") && !of("0") && !of("single"));
    assert!(!warns(&run("ultrastar-hc320", 1, &[]), "shingled"));
    assert!(run("ultrastar-hc320", 1, &[]).media_cache.is_none());
}

#[test]
fn units_of_drives_with_two_actuators_are_taken_to_be_of_different_drives() {
    assert!(warns(&run("exos-2x18-unit", 1, &[]), "one of 2 logical units"));
    assert!(!warns(&run("exos-2x18-unit", 1, &[("level", "0")]), "logical units"));
    assert!(!warns(&run("exos-x20", 1, &[]), "logical units"));
}

/// The same drive with sectors of another size.
fn with_sectors(dir: &std::path::Path, bytes: u32) -> String {
    let mut spec = destage_disk::find("hp97560").expect("a drive");
    let Zones::List(zones) = &mut spec.zones else { panic!("the drive lists its zone") };
    let of = |sectors_of_512: u32| sectors_of_512 * 512 / bytes;
    zones[0].sectors_per_track = of(72);
    (zones[0].track_skew, zones[0].cylinder_skew) = (Some(of(8)), Some(of(16)));
    // A bus moves complete sectors, and would cost large ones more.
    (spec.sector_bytes, spec.bus_mb_per_s) = (bytes, None);
    let path = dir.join(format!("sectors-{bytes}.toml"));
    std::fs::write(&path, spec.to_toml()).expect("a file");
    path.to_str().expect("a path").to_string()
}

#[test]
fn the_size_of_a_sector_changes_neither_the_volume_nor_the_rate() {
    let dir = tempfile::tempdir().expect("a directory");
    let of = |bytes: u32| {
        let mut options = RunOptions::default();
        let disk = with_sectors(dir.path(), bytes);
        for (name, value) in [
            ("disk", &*disk),
            ("level", "single"),
            ("disks", "1"),
            ("workload", "sequential:writes=0,iops=0,threads=1,pages=512"),
            ("warmup", "0"),
            ("measure", "60"),
        ] {
            options.set(name, value).expect("an option");
        }
        let pages = options.build().expect("a run").controller.geometry.volume_pages().0;
        let report = run_one("run", &options, &make_source).expect("a run");
        (pages, report.response.reads.mean_ms)
    };
    let (pages, mean_ms) = of(512);
    assert_eq!(pages, 1962 * 19 * 72 * 512 / 4096, "all of the drive");
    for bytes in [256, 1024, 4096] {
        let (other_pages, other_ms) = of(bytes);
        assert_eq!(other_pages, pages, "sectors of {bytes} bytes");
        let ratio = other_ms / mean_ms;
        assert!((0.99..1.01).contains(&ratio), "{bytes} bytes: {other_ms} ms, not {mean_ms}");
    }
}
