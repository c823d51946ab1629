//! What a command costs without moving the arm, what changing the head adds, and how a longer one
//! grows.

use super::bench::{Bench, Search};
use super::probe::{Command, Kind, MeasureError};
use super::tracks::Tracks;

/// A service longer than this share of a revolution came from the medium.
const BUFFERED_SHARE: f64 = 0.35;

/// What the drive's buffer does with a read of the sector after the last.
pub(super) fn read_ahead(bench: &mut Bench<'_>) -> Result<Option<f64>, MeasureError> {
    let mut services = Vec::new();
    for _ in 0..9 {
        let lbn = bench.far_from(0);
        let away = bench.far_from(lbn);
        bench.read(0.0, away)?;
        bench.read(0.0, lbn)?;
        services.push(bench.read(bench.revolution_ns / 10.0, lbn + 1)?.service_ns());
    }
    services.sort_by(f64::total_cmp);
    let middle = services[services.len() / 2];
    Ok((middle < BUFFERED_SHARE * bench.revolution_ns).then_some(middle))
}

/// The least time of a read on the track of the one before, in ns.
pub(super) fn same_track(
    bench: &mut Bench<'_>,
    tracks: &Tracks,
    reads_ahead: bool,
) -> Result<f64, MeasureError> {
    let resolution_ns = (bench.revolution_ns / 1000.0).max(2.0 * bench.tolerance_ns);
    if !reads_ahead {
        let lbn = tracks.first + tracks.sectors * 2 / 3;
        let spots = [lbn, lbn - tracks.sectors / 4].map(|l| tracks.spot(l, bench.revolution_ns));
        let search = Search { resolution_ns, guess_ns: None, buffered_ns: 0.0, one_way: false };
        return bench.least(spots, &search);
    }
    let mut best = f64::INFINITY;
    for share in [0.12, 0.06, 0.03, 0.015] {
        let gap = ((tracks.track as f64 * share) as u64).max(1);
        let (low, high) = over_the_end(bench, tracks, gap, resolution_ns)?;
        if low > 0.0 {
            best = best.min(high);
            break;
        }
        best = best.min(high);
    }
    Ok(best)
}

/// Bounds of the least time from `gap` sectors before a track's end to its front. What is read
/// ahead does not get there: it runs on over the end.
fn over_the_end(
    bench: &mut Bench<'_>,
    tracks: &Tracks,
    gap: u64,
    resolution_ns: f64,
) -> Result<(f64, f64), MeasureError> {
    let turn = bench.revolution_ns;
    let slot_ns = turn / tracks.track as f64;
    let spare = tracks.track - tracks.sectors;
    let (mut low, mut high) = (0.0_f64, turn * 0.7);
    let least = (gap + spare) as f64 * slot_ns;
    let near = bench.probe.sectors() / 64;
    let mut nearest = f64::INFINITY;
    for trial in 0..90 {
        if high - low < resolution_ns || high <= least + slot_ns {
            break;
        }
        let begin = tracks.first + (trial % 40) * tracks.sectors;
        let x = begin + tracks.sectors - gap;
        let away = x + near + bench.random.below(near);
        bench.read(0.0, away)?;
        let first = bench.read(0.0, x)?.service_ns();
        if first < bench.buffered_ns {
            continue;
        }
        nearest = nearest.min(first);
        // Some drives keep what passes while they wait.
        if trial < 10 || first - nearest > 0.6 * turn {
            continue;
        }
        let wanted = f64::midpoint(low, high).max(least);
        let forward = ((wanted - least) / slot_ns).ceil();
        let apart = least + forward * slot_ns;
        let delay = apart - wanted;
        let service = bench.read(delay, begin + forward as u64)?.service_ns();
        let expected = apart - delay;
        if (service - expected).abs() < slot_ns + bench.tolerance_ns {
            high = service.min(high);
        } else if (service - turn - expected).abs() < slot_ns + bench.tolerance_ns {
            low = low.max(expected);
        }
    }
    Ok((low, high))
}

/// The least time of a read on another track of the cylinder, far from the first: what is read
/// ahead does not get there, nor into the next cylinder.
pub(super) fn other_head(bench: &mut Bench<'_>, tracks: &Tracks) -> Result<f64, MeasureError> {
    let search = Search {
        resolution_ns: (bench.revolution_ns / 1000.0).max(2.0 * bench.tolerance_ns),
        guess_ns: None,
        buffered_ns: bench.buffered_ns,
        one_way: false,
    };
    let heads = tracks.heads.map_or(2, u64::from);
    let apart = heads.saturating_sub(2).max(1);
    let mut best = f64::INFINITY;
    for cylinder in 0..3 {
        let lbn = tracks.cylinder + cylinder * heads * tracks.sectors + tracks.sectors * 5 / 6;
        let spots =
            [lbn, lbn + apart * tracks.sectors].map(|lbn| tracks.spot(lbn, bench.revolution_ns));
        best = best.min(bench.least(spots, &search)?);
    }
    Ok(best)
}

/// How much longer a read gets with each sector, in ns: from the angles at which reads complete.
pub(super) fn per_sector(
    bench: &mut Bench<'_>,
    first: u64,
    track: u64,
) -> Result<f64, MeasureError> {
    let slot_ns = bench.revolution_ns / track as f64;
    let long = (track / 6).clamp(4, 24) as u32;
    let mut slopes = Vec::new();
    for attempt in 0..12 {
        let lbn = first + attempt * track * 2 + track / 2;
        let Some(one) = bench.theta(lbn + u64::from(long))? else { continue };
        let mut timed = None;
        // Other reads take what passed before the one out of the buffer.
        for crowded in [false, true] {
            if crowded {
                bench.evict(lbn)?;
            }
            let far = bench.far_from(lbn);
            bench.read(0.0, far)?;
            let served = bench.serve(0.0, Command { lbn, sectors: long, kind: Kind::Read })?;
            if served.service_ns() > 0.8 * bench.far_ns {
                timed = Some(served);
                break;
            }
        }
        let Some(timed) = timed else { continue };
        let apart = f64::from(long) * slot_ns;
        let gone = bench.angle(timed.done_ns as f64 - one + apart);
        slopes.push(gone / f64::from(long - 1));
    }
    // Where a track ends in between, it is another value.
    let near = |slope: f64| slopes.iter().filter(|s| (**s - slope).abs() < 0.02 * slot_ns).count();
    Ok(slopes.iter().copied().max_by_key(|slope| near(*slope)).unwrap_or(slot_ns))
}
