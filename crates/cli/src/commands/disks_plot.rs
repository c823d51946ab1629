//! The plot of a disk spec.

use destage_disk::DiskSpec;
use destage_report::PlotSpec;

/// Seek time over distance, and the edges of the zones as lines.
pub(super) fn plot(spec: &DiskSpec) -> PlotSpec {
    let curve: Vec<(f64, f64)> = destage_disk::seek_curve(spec)
        .into_iter()
        .map(|(cylinders, ms)| (f64::from(cylinders), ms))
        .collect();
    let zones = destage_disk::zones(spec);
    let steps: Vec<(f64, f64)> = zones
        .iter()
        .flat_map(|zone| {
            let y = f64::from(zone.sectors_per_track) / 100.0;
            [
                (f64::from(zone.first_cylinder), y),
                (f64::from(zone.first_cylinder + zone.cylinders), y),
            ]
        })
        .collect();
    PlotSpec::lines(
        &format!("{}: seek curve and zones", spec.name),
        "distance, or cylinder of the zone (cylinders)",
        "seek time (ms); sectors a track / 100",
    )
    .series("seek time (ms)", curve)
    .series("zones: sectors a track / 100", steps)
}
