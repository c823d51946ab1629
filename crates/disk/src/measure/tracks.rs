//! Tracks and cylinders near the front of the drive: where tracks end, by how much each is turned
//! against the one before, and after how many of them that differs.

use super::bench::{Bench, Search, Spot};
use super::probe::MeasureError;

/// Tracks that are looked at.
const TRACKS: u64 = 80;
/// Most tracks tried as a cylinder where all tracks are turned alike.
const MOST_HEADS: u64 = 40;

/// What the tracks near the front are.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Tracks {
    /// First sector of a track near the front.
    pub(super) first: u64,
    /// Sectors with data on a track, and all.
    pub(super) sectors: u64,
    pub(super) track: u64,
    /// Surfaces; none if nothing shows them.
    pub(super) heads: Option<u32>,
    /// First sector of a cylinder near the front.
    pub(super) cylinder: u64,
    /// Skew of a track and of a cylinder, in sectors.
    pub(super) track_skew: u32,
    pub(super) cylinder_skew: u32,
}

impl Tracks {
    pub(super) fn spot(&self, lbn: u64, turn_ns: f64) -> Spot {
        Spot::new(lbn, turn_ns / self.track as f64, self.track)
    }
}

/// Finds them; tracks have `track` sectors there.
pub(super) fn measure(bench: &mut Bench<'_>, track: u64) -> Result<Tracks, MeasureError> {
    let slot_ns = bench.revolution_ns / track as f64;
    let mut end = None;
    for attempt in 0..8 {
        let from = track / 3 + attempt * (track * 5 / 4);
        end = track_end(bench, from, from + track, slot_ns)?;
        let Some(first) = end else { continue };
        // The next track ends a track later, less what is spare.
        let next = track_end(bench, first + track / 2, first + track + track / 8, slot_ns)?;
        let Some(next) = next else { continue };
        let sectors = next - first;
        let spare = track as f64 - sectors as f64;
        let doubt = super::zones::doubt(bench, track);
        let inexact = if doubt > 1.0 { track as f64 / 20.0 } else { 0.0 };
        if spare.abs() <= doubt.max(inexact) {
            // The ends of tracks are exact, even where timers are not.
            return cylinders(bench, first, sectors, sectors);
        }
        if spare > 0.0 && spare <= 1.0 + track as f64 / 20.0 {
            return cylinders(bench, first, sectors, track);
        }
    }
    Err(MeasureError::NotADisk(format!(
        "no track ends near sector {}: the addresses do not follow tracks",
        end.unwrap_or(0)
    )))
}

/// The first sector after `low` that is not where the track of `low` would have it, up to `high`.
fn track_end(
    bench: &mut Bench<'_>,
    low: u64,
    high: u64,
    slot_ns: f64,
) -> Result<Option<u64>, MeasureError> {
    let Some(zero) = bench.theta(low)? else { return Ok(None) };
    // A defect that is skipped turns what follows by a sector.
    let least = (1.6 * slot_ns).max(4.0 * bench.tolerance_ns);
    let mut turned = |lbn: u64| -> Result<bool, MeasureError> {
        for _ in 0..4 {
            if let Some(theta) = bench.theta(lbn)? {
                let gone = theta - zero - (lbn - low) as f64 * slot_ns;
                return Ok(bench.near_zero(gone).abs() > least);
            }
            // From the buffer: other reads take its place.
            bench.evict(lbn)?;
        }
        Ok(false)
    };
    let (mut low, mut high) = (low, high);
    if !turned(high)? {
        return Ok(None);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if turned(middle)? { high = middle } else { low = middle }
    }
    Ok(Some(high))
}

/// Looks at a run of tracks for the ones that are turned otherwise.
fn cylinders(
    bench: &mut Bench<'_>,
    first: u64,
    sectors: u64,
    track: u64,
) -> Result<Tracks, MeasureError> {
    let slot_ns = bench.revolution_ns / track as f64;
    let mut thetas = Vec::new();
    for number in 0..TRACKS {
        let lbn = first + number * sectors + sectors / 2;
        thetas.push(bench.theta(lbn.min(bench.probe.sectors() - 1))?);
    }
    let skew =
        |pair: &[Option<f64>]| pair[0].zip(pair[1]).map(|(a, b)| bench.angle(b - a) / slot_ns);
    let skews: Vec<Option<f64>> = thetas.windows(2).map(skew).collect();
    let common = common(&skews, track);
    let near = |skew: f64, of: f64| (skew - of).abs() < 3.0 + 4.0 * bench.tolerance_ns / slot_ns;
    // Where tracks are turned otherwise, each as the others of its kind.
    let others: Vec<Option<f64>> =
        skews.iter().map(|skew| skew.filter(|skew| !near(*skew, common))).collect();
    let cylinder_skew = self::common(&others, track);
    let ends: Vec<u64> = (0..)
        .zip(&others)
        .filter(|(_, skew)| skew.is_some_and(|skew| near(skew, cylinder_skew)))
        .map(|(at, _)| at)
        .collect();
    let gaps: Vec<u64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let usual = |gap: &u64| gaps.iter().filter(|other| *other == gap).count();
    let heads = gaps.iter().copied().max_by_key(usual);
    let track_skew = common.round() as u32;
    let mut tracks = Tracks {
        first,
        sectors,
        track,
        heads: heads.map(|heads| heads as u32),
        cylinder: first,
        track_skew,
        cylinder_skew: track_skew,
    };
    if let Some(heads) = heads {
        // The end that most others are full cylinders away from.
        let fits =
            |end: &u64| ends.iter().filter(|other| end.abs_diff(**other) % heads == 0).count();
        let end = ends.iter().copied().max_by_key(fits).unwrap_or(0);
        tracks.cylinder = first + (end + 1) % heads * sectors;
        tracks.cylinder_skew = cylinder_skew.round() as u32;
    } else {
        tracks.heads = heads_by_seek(bench, &tracks)?;
    }
    Ok(tracks)
}

/// The value that most are near to.
fn common(skews: &[Option<f64>], track: u64) -> f64 {
    let mut known: Vec<f64> = skews.iter().copied().flatten().collect();
    known.sort_by(f64::total_cmp);
    let width = (track as f64 / 100.0).max(1.0);
    let near = |skew: f64| known.iter().filter(|other| (**other - skew).abs() <= width).count();
    known.iter().copied().max_by_key(|skew| near(*skew)).unwrap_or(0.0)
}

/// All tracks are turned alike: the cylinder is where the same head is again, which is nearer than
/// another head.
fn heads_by_seek(bench: &mut Bench<'_>, tracks: &Tracks) -> Result<Option<u32>, MeasureError> {
    let resolution_ns = (bench.revolution_ns / 2000.0).max(2.0 * bench.tolerance_ns);
    let buffered_ns = bench.buffered_ns;
    let search = Search { resolution_ns, guess_ns: None, buffered_ns, one_way: false };
    let mut times = Vec::new();
    for number in 1..=MOST_HEADS {
        let near = tracks.first + tracks.sectors * 3 / 4;
        let far = near + number * tracks.sectors;
        let spots = [near, far].map(|lbn| tracks.spot(lbn, bench.revolution_ns));
        times.push(bench.least(spots, &search)?);
    }
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted[sorted.len() / 2];
    let nearer = times.iter().position(|time| middle - time > 4.0 * resolution_ns);
    Ok(nearer.map(|at| at as u32 + 1))
}
