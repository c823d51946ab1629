//! Where the measured zones and tracks put each cylinder.

use super::bench::Spot;
use super::tracks::Tracks;
use super::zones::Region;
use crate::spec::{SparesPer, ZoneSpec};

/// A zone.
#[derive(Clone, Copy, Debug)]
struct Laid {
    first_lbn: u64,
    end_lbn: u64,
    first_cylinder: u32,
    /// Sectors of its cylinders, of a track with data, and of a track.
    cylinder: u64,
    sectors: u64,
    track: u64,
}

/// Cylinders and where they are.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) heads: u32,
    pub(super) cylinders: u32,
    pub(super) zones: Vec<ZoneSpec>,
    pub(super) spares_per: SparesPer,
    laid: Vec<Laid>,
    unused_front: u64,
}

impl Layout {
    /// Lays the zones out; without a number of surfaces, one per TB and at least two.
    pub(super) fn new(
        regions: &[Region],
        tracks: &Tracks,
        sectors: u64,
        sector_bytes: u32,
    ) -> Layout {
        let bytes = sectors as f64 * f64::from(sector_bytes);
        let heads = tracks.heads.unwrap_or_else(|| (bytes / 1e12).round().clamp(2.0, 64.0) as u32);
        let spare = tracks.track - tracks.sectors;
        let front = u64::from(heads) * tracks.sectors;
        let unused_front = (front - tracks.cylinder % front) % front;
        let (mut zones, mut laid) = (Vec::new(), Vec::new());
        let mut first_cylinder = 0;
        for (at, region) in regions.iter().enumerate() {
            // Where timers are not exact, the ends of tracks near the front still are.
            let whole = region.track * tracks.track;
            let region =
                Region { track: (whole + regions[0].track / 2) / regions[0].track, ..*region };
            let end = regions.get(at + 1).map_or(sectors, |next| next.first);
            let data = region.track - spare.min(region.track - 1);
            let cylinder = u64::from(heads) * data;
            let unused = if at == 0 { unused_front } else { 0 };
            let wanted = end - region.first + unused;
            let cylinders = wanted.div_ceil(cylinder) as u32;
            let left = u64::from(cylinders) * cylinder - wanted;
            // The skews take the same time on every track.
            let share = region.track as f64 / tracks.track as f64;
            let skew = |sectors: u32| {
                Some(((f64::from(sectors) * share).round() as u64 % region.track) as u32)
            };
            zones.push(ZoneSpec {
                cylinders,
                sectors_per_track: region.track as u32,
                track_skew: skew(tracks.track_skew),
                cylinder_skew: skew(tracks.cylinder_skew),
                unused_front: unused as u32,
                spare_sectors: if spare > 0 { spare as u32 } else { left as u32 },
                ..ZoneSpec::default()
            });
            laid.push(Laid {
                first_lbn: region.first,
                end_lbn: end,
                first_cylinder,
                cylinder,
                sectors: data,
                track: region.track,
            });
            first_cylinder += cylinders;
        }
        let spares_per = if spare > 0 { SparesPer::Track } else { SparesPer::Zone };
        Layout { heads, cylinders: first_cylinder, zones, spares_per, laid, unused_front }
    }

    fn zone_of(&self, cylinder: u32) -> &Laid {
        let at = self.laid.partition_point(|zone| zone.first_cylinder <= cylinder);
        &self.laid[at.saturating_sub(1)]
    }

    /// The cylinder of an address.
    pub(super) fn cylinder_of(&self, lbn: u64) -> u32 {
        let at = self.laid.partition_point(|zone| zone.first_lbn <= lbn);
        let zone = &self.laid[at.saturating_sub(1)];
        let unused = if zone.first_lbn == 0 { self.unused_front } else { 0 };
        zone.first_cylinder + ((lbn - zone.first_lbn + unused) / zone.cylinder) as u32
    }

    /// A place on a middle track of a cylinder; not the first cylinder, which may begin before
    /// the drive's addresses.
    pub(super) fn spot(&self, cylinder: u32, turn_ns: f64) -> Spot {
        let zone = self.zone_of(cylinder);
        let unused = if zone.first_lbn == 0 { self.unused_front } else { 0 };
        let before = u64::from(cylinder - zone.first_cylinder) * zone.cylinder;
        let middle = u64::from((self.heads - 1) / 2) * zone.sectors;
        let lbn = (zone.first_lbn + before + middle + zone.sectors * 5 / 6).saturating_sub(unused);
        let lbn = lbn.min(zone.end_lbn - 1);
        Spot::new(lbn, turn_ns / zone.track as f64, zone.track)
    }
}
