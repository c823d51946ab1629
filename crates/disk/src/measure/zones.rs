//! Zones: how many sectors a track has, from the angle between two sectors of one track.

use super::bench::Bench;
use super::probe::MeasureError;

/// Places at which the drive is looked at.
const PLACES: u64 = 96;
/// Fewest and most sectors on a track.
const FEWEST: f64 = 16.0;
const MOST: f64 = 12_000.0;
/// Attempts at a place: a track may end, or skip a defect, between the two sectors.
const ATTEMPTS: u64 = 12;

/// Addresses from `first` on whose tracks have `track` sectors.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Region {
    pub(super) first: u64,
    pub(super) track: u64,
}

/// The zones, outermost first.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Region>, MeasureError> {
    let sectors = bench.probe.sectors();
    let range = (FEWEST, MOST);
    let mut found: Vec<Region> = Vec::new();
    let mut places = PLACES;
    let mut place = 0;
    while place <= places {
        let first = ((sectors - 1) / places * place).min(sectors - sectors.min(17 * MOST as u64));
        if found.last().is_some_and(|last| last.first == first) {
            break;
        }
        if let Some(track) = track_at(bench, first, range)? {
            found.push(Region { first, track });
            if place == 0 && doubt(bench, track) >= 1.0 {
                places /= 2;
            }
        }
        place += 1;
    }
    if found.is_empty() {
        let message = "no place has sectors at even angles: the target is not a disk drive";
        return Err(MeasureError::NotADisk(message.to_string()));
    }
    let mut zones = vec![Region { first: 0, ..found[0] }];
    for pair in found.windows(2) {
        split(bench, pair[0], pair[1], &mut zones)?;
    }
    tidy(&mut zones, sectors);
    Ok(zones)
}

/// Takes out what a skipped defect made of a zone.
fn tidy(zones: &mut Vec<Region>, sectors: u64) {
    let mut at = 1;
    while at < zones.len() {
        let end = zones.get(at + 1).map_or(sectors, |next| next.first);
        let same = zones[at].track == zones[at - 1].track;
        let between = zones.get(at + 1).is_some_and(|next| next.track == zones[at - 1].track);
        let short = end - zones[at].first < sectors / 400;
        if same || end == zones[at].first || (short && between) {
            zones.remove(at);
        } else {
            at += 1;
        }
    }
}

/// How far the track lengths of two places may be apart in one zone: timers are not exact.
pub(super) fn doubt(bench: &Bench<'_>, track: u64) -> f64 {
    let sectors = sigma(bench, track as f64);
    3.0 * sectors / (readings(sectors) as f64).sqrt()
}

/// Deviation of the length of a track from one reading.
fn sigma(bench: &Bench<'_>, track: f64) -> f64 {
    // The tolerance is three times the noise; two angles are read, 0.4 of a track apart.
    bench.tolerance_ns / 3.0 * 1.4 / (0.4 * bench.revolution_ns / track)
}

/// Readings of a track's length of which the middle one is good enough.
fn readings(sigma: f64) -> usize {
    ((sigma / 0.25).powi(2).ceil() as usize).clamp(1, 3)
}

/// Adds the zones that begin between two places.
fn split(
    bench: &mut Bench<'_>,
    low: Region,
    high: Region,
    zones: &mut Vec<Region>,
) -> Result<(), MeasureError> {
    let apart = low.track.abs_diff(high.track) as f64;
    if apart <= doubt(bench, low.track) {
        return Ok(());
    }
    // Where timers are not exact, neither are the edges.
    let exact = doubt(bench, low.track) < 1.0;
    let least = if exact { 0 } else { bench.probe.sectors() / 4096 };
    if high.first - low.first <= least.max(2 * low.track.max(high.track)) {
        zones.push(high);
        return Ok(());
    }
    let first = low.first.midpoint(high.first);
    let (a, b) = (low.track.min(high.track) as f64, low.track.max(high.track) as f64);
    let range = (a * 0.98 - 1.0, b * 1.02 + 1.0);
    let Some(mut track) = track_at(bench, first, range)? else {
        zones.push(high);
        return Ok(());
    };
    let doubt = doubt(bench, low.track);
    let near = |other: u64| track.abs_diff(other) as f64 <= doubt;
    // A misread number would split for ever.
    if near(low.track) || (track as f64) < a || (track as f64) > b {
        track = low.track;
    } else if near(high.track) {
        track = high.track;
    }
    let middle = Region { first, track };
    split(bench, low, middle, zones)?;
    split(bench, middle, high, zones)
}

/// Sectors on the track of an address or on one near it.
pub(super) fn track_at(
    bench: &mut Bench<'_>,
    lbn: u64,
    range: (f64, f64),
) -> Result<Option<u64>, MeasureError> {
    let mut tracks = Vec::new();
    let mut wanted = 1;
    for attempt in 0..ATTEMPTS * 2 {
        if attempt >= ATTEMPTS && tracks.is_empty() {
            break;
        }
        // Forth by parts of a track: none of the sectors has been read before.
        let from = lbn + ((0.45 + 0.6 * attempt as f64) * range.1) as u64 + attempt;
        // Downwards, so that what is read ahead is not wanted, or upwards, so that what passed
        // before is not.
        if let Some(track) = attempt_at(bench, from, attempt % 2 == 1, range)? {
            tracks.push(track);
            wanted = readings(sigma(bench, track));
        }
        if tracks.len() >= wanted {
            break;
        }
    }
    tracks.sort_by(f64::total_cmp);
    Ok(tracks.get(tracks.len() / 2).map(|track| track.round() as u64))
}

/// Each pair of sectors is as far apart as the last one leaves no doubt of whole revolutions.
fn attempt_at(
    bench: &mut Bench<'_>,
    from: u64,
    upwards: bool,
    range: (f64, f64),
) -> Result<Option<f64>, MeasureError> {
    let turn = bench.revolution_ns;
    let (mut low, mut high) = (turn / range.1, turn / range.0);
    if from + MOST as u64 >= bench.probe.sectors() {
        return Ok(None);
    }
    let Some(zero) = bench.theta(from)? else { return Ok(None) };
    loop {
        let doubtless = 0.7 * turn / (high - low).max(1e-3);
        let most = 0.4 * turn / f64::midpoint(low, high);
        let apart = doubtless.min(most).floor().max(1.0);
        let step = apart as u64;
        let lbn = if upwards { from + step } else { from.saturating_sub(step) };
        let Some(theta) = bench.theta(lbn)? else { return Ok(None) };
        let gone = bench.angle(if upwards { theta - zero } else { zero - theta });
        let turns = ((apart * f64::midpoint(low, high) - gone) / turn).round();
        let slot = (gone + turns * turn) / apart;
        let off = 3.0 * bench.tolerance_ns / apart;
        if slot < low - off || slot > high + off {
            return Ok(None);
        }
        (low, high) = ((slot - off).max(low), (slot + off).min(high));
        let track = turn / slot;
        if doubtless >= most {
            let fits = (track - track.round()).abs() < 0.2 || high - low > 0.3 * slot / track;
            return Ok(fits.then_some(track));
        }
    }
}
