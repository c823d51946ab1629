//! The drive's buffer: what it reads ahead, how much of it, and what a command costs that it
//! serves.

use super::bench::Bench;
use super::probe::{Command, Kind, MeasureError};
use super::tracks::Tracks;
use crate::spec::AheadUntil;

/// Most segments and most sectors ahead that are looked for.
const MOST_SEGMENTS: u32 = 32;
const MOST_AHEAD: u64 = 1 << 14;

/// What the buffer does for reads.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Buffer {
    /// Service of a read of the sector after the last, in ns.
    pub(super) next_ns: f64,
    /// The same of the sector that was read; none if the buffer drops what went to the host.
    pub(super) again_ns: Option<f64>,
    pub(super) segments: u32,
    pub(super) ahead_sectors: u64,
    pub(super) until: AheadUntil,
    pub(super) keeps_before: bool,
}

/// How commands that follow each other are served.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Following {
    /// A read of the sector after the last, at once, comes in time for it.
    pub(super) in_time: bool,
    /// Reads begin with whichever sector comes first.
    pub(super) on_arrival: bool,
}

/// Finds out what the buffer does, if it reads ahead: a read of the next sector takes `next_ns`.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    tracks: &Tracks,
    next_ns: f64,
) -> Result<Buffer, MeasureError> {
    let turn = bench.revolution_ns;
    let mut again = Vec::new();
    for _ in 0..5 {
        let lbn = fresh(bench)?;
        again.push(bench.read(0.1 * turn, lbn)?.service_ns());
    }
    again.sort_by(f64::total_cmp);
    // On the medium it comes by after the rest of the revolution.
    let again_ns = (again[2] < 0.6 * turn).then_some(again[2]);
    // A read of a held sector costs no more than this.
    let held_ns = 1.15 * next_ns.max(again_ns.unwrap_or(0.0));
    let mut segments = 1;
    while segments < MOST_SEGMENTS {
        let lbn = fresh(bench)?;
        let mut at = lbn;
        for number in 0..segments {
            at = bench.far_from(at);
            // The drive has time to read ahead before the first.
            bench.read(if number == 0 { turn / 10.0 } else { 0.0 }, at)?;
        }
        if bench.read(0.0, lbn + 1)?.service_ns() > held_ns {
            break;
        }
        segments += 1;
    }
    let early = ahead(bench, tracks, tracks.sectors / 5, held_ns)?;
    let late = ahead(bench, tracks, tracks.sectors * 4 / 5, held_ns)?;
    let ends = tracks.sectors * 4 / 5 - tracks.sectors / 5;
    let until = match early.saturating_sub(late).abs_diff(ends) < tracks.sectors / 8 {
        true if runs_on(bench, tracks, held_ns)? => AheadUntil::NextTrack,
        true => AheadUntil::Track,
        false => AheadUntil::End,
    };
    Ok(Buffer {
        next_ns,
        again_ns,
        segments,
        ahead_sectors: early.max(late),
        until,
        keeps_before: keeps(bench, tracks, held_ns)?,
    })
}

/// Reads a sector far from the last one.
fn fresh(bench: &mut Bench<'_>) -> Result<u64, MeasureError> {
    let away = bench.far_from(0);
    let lbn = bench.far_from(away);
    bench.read(0.0, away)?;
    bench.read(0.0, lbn)?;
    Ok(lbn)
}

/// Sectors that the drive reads ahead of a sector of a track near the front.
fn ahead(
    bench: &mut Bench<'_>,
    tracks: &Tracks,
    sector: u64,
    held_ns: f64,
) -> Result<u64, MeasureError> {
    let (mut low, mut high) = (1, MOST_AHEAD.min(bench.probe.sectors() / 8));
    let mut number = 0;
    while high - low > (low / 64).max(1) {
        let middle = low.midpoint(high);
        // Each time a track of its own, far from what the buffer may hold.
        let stride = 1 + high / tracks.sectors;
        number = (number + stride) % (4 * stride).max(60);
        let lbn = tracks.first + number * tracks.sectors + sector;
        let far = bench.far_from(lbn);
        bench.read(0.0, far)?;
        bench.read(0.0, lbn)?;
        let wait_ns = passing(bench, tracks, sector + middle, middle);
        let held = bench.read(wait_ns, lbn + middle)?.service_ns() < held_ns;
        if held { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Time in which some sectors pass, the last of them as far behind a track's front, and a bit: the
/// buffer may be too small to hold the first for longer. It is the wait after which the last is
/// farthest from the heads.
fn passing(bench: &Bench<'_>, tracks: &Tracks, end: u64, sectors: u64) -> f64 {
    let (ends, heads) = (end / tracks.sectors, tracks.heads.map_or(1, u64::from));
    let more = tracks.cylinder_skew.saturating_sub(tracks.track_skew);
    let skews = ends * u64::from(tracks.track_skew) + ends.div_ceil(heads) * u64::from(more);
    let slot_ns = bench.revolution_ns / tracks.track as f64;
    (sectors + skews) as f64 * slot_ns + 0.06 * bench.revolution_ns
}

/// Whether sequential reads make it read on to the end of the next track.
fn runs_on(bench: &mut Bench<'_>, tracks: &Tracks, held_ns: f64) -> Result<bool, MeasureError> {
    let mut held = 0;
    for trial in 0..5 {
        let end = tracks.first + (70 + 7 * trial) * tracks.sectors;
        let far = bench.far_from(end);
        bench.read(0.0, far)?;
        let last = Command { lbn: end - 4, sectors: 4, kind: Kind::Read };
        bench.serve(0.0, last)?;
        bench.read(0.0, end)?;
        let next = tracks.sectors + 3;
        let wait_ns = passing(bench, tracks, next, next);
        let service = bench.read(wait_ns, end + next)?.service_ns();
        held += u32::from(service < held_ns);
    }
    Ok(held > 2)
}

/// Whether sectors that pass while it waits for a read's first are kept.
fn keeps(bench: &mut Bench<'_>, tracks: &Tracks, held_ns: f64) -> Result<bool, MeasureError> {
    let mut held = 0;
    for trial in 0..8 {
        let lbn = tracks.first + (700 + 7 * trial) * tracks.sectors + tracks.sectors * 2 / 3;
        let far = bench.far_from(lbn);
        bench.read(0.0, far)?;
        bench.read(0.0, lbn)?;
        held += u32::from(bench.read(0.0, lbn - 2)?.service_ns() < held_ns);
    }
    Ok(held > 3)
}

/// How reads that follow the last one, and long reads, begin.
pub(super) fn following(bench: &mut Bench<'_>, tracks: &Tracks) -> Result<Following, MeasureError> {
    let turn = bench.revolution_ns;
    let mut in_time = 0;
    let mut services = Vec::new();
    let long = (tracks.sectors * 3 / 5) as u32;
    let near = bench.probe.sectors() / 64;
    for trial in 0..32 {
        let track = tracks.first + (900 + 3 * trial) * tracks.sectors;
        bench.read(0.0, track + near)?;
        let read = Command { lbn: track + 3, sectors: long, kind: Kind::Read };
        let delay_ns = bench.random.below(turn as u64) as f64;
        services.push(bench.serve(delay_ns, read)?.service_ns());
        let next = bench.read(0.0, track + 3 + u64::from(long))?.service_ns();
        in_time += u32::from(next < turn / 2.0);
    }
    services.sort_by(f64::total_cmp);
    let spread = services[services.len() - 2] - services[1];
    Ok(Following { in_time: in_time > 16, on_arrival: spread < 0.65 * turn })
}
