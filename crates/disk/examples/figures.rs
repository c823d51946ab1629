//! Prints the measured figures of the built-in drives, one line each.

use destage_disk::{Figures, find, registry};

fn main() {
    println!(
        "{:18} {:>12} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8}",
        "disk",
        "sectors",
        "rev ms",
        "avg ms",
        "one ms",
        "full ms",
        "outer",
        "inner",
        "IOPS 1",
        "IOPS 16"
    );
    for entry in registry() {
        let spec = find(entry.name).expect("a built-in drive");
        let f = Figures::measure(&spec);
        let rate = |zone: Option<&destage_disk::ZoneRate>| zone.map_or(0.0, |z| z.mb_per_s);
        println!(
            "{:18} {:12} {:8.3} {:8.3} {:8.3} {:8.3} {:9.2} {:9.2} {:8.1} {:8.1}",
            spec.name,
            f.sectors,
            f.revolution.as_millis_f64(),
            f.avg_seek.as_millis_f64(),
            f.single_track_seek.as_millis_f64(),
            f.max_seek.as_millis_f64(),
            rate(f.zones.first()),
            rate(f.zones.last()),
            f.random_read_iops_1,
            f.random_read_iops_16
        );
    }
}
