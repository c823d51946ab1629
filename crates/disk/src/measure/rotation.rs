//! The time of a revolution: completions of reads of one sector are whole revolutions apart.

use super::bench::Bench;
use super::probe::MeasureError;

/// Shortest and longest revolution taken: 24,000 and 2,400 per minute.
const SHORTEST_NS: f64 = 2.5e6;
const LONGEST_NS: f64 = 25e6;
/// Readings of the sector, and other reads between two.
const READINGS: usize = 40;
const BETWEEN: usize = 24;
/// Other reads between two readings at which it gives up.
const MOST_BETWEEN: usize = 2000;

/// What the readings say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    pub(super) revolution_ns: f64,
    /// How far the readings are from it.
    pub(super) noise_ns: f64,
    pub(super) far_ns: f64,
}

/// Finds the revolution. Other reads between the readings take the sector out of the buffer.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Rotation, MeasureError> {
    let lbn = bench.random.below(bench.probe.sectors());
    let mut between = BETWEEN;
    let mut times = Vec::new();
    let mut services = Vec::new();
    while times.len() < READINGS {
        let mut at = lbn;
        // Not evenly spaced, or another period would fit as well.
        for _ in 0..between as u64 + bench.random.below(between as u64) {
            at = bench.far_from(at);
            services.push(bench.read(0.0, at)?.service_ns());
        }
        at = bench.far_from(lbn);
        bench.read(0.0, at)?;
        let timed = bench.read(0.0, lbn)?;
        services.sort_by(f64::total_cmp);
        if timed.service_ns() > 0.3 * services[services.len() / 2] {
            times.push(timed.done_ns as f64);
        } else if between < MOST_BETWEEN {
            between *= 2;
        } else {
            return Err(MeasureError::NotADisk(format!(
                "after {between} other reads a sector still comes from a buffer. Measure the \
                 drive itself, without a cache above it."
            )));
        }
    }
    // Not the least: the buffer may have had one of them.
    let far_ns = services[services.len() / 100];
    let revolution_ns = fit(&times);
    let (strength, offset) = score(&times, revolution_ns);
    let noise = |time: &f64| {
        let off = (time - times[0] - offset).rem_euclid(revolution_ns);
        off.min(revolution_ns - off)
    };
    let mut off: Vec<f64> = times.iter().map(noise).collect();
    off.sort_by(f64::total_cmp);
    let noise_ns = off[off.len() * 3 / 4];
    if strength < 0.8 {
        return Err(MeasureError::NotADisk(format!(
            "reads of one sector do not complete whole revolutions apart (noise of \
             {:.2} ms): the target is no disk drive, or another program uses it",
            noise_ns / 1e6
        )));
    }
    Ok(Rotation { revolution_ns, noise_ns, far_ns })
}

/// The longest period that the times have.
fn fit(times: &[f64]) -> f64 {
    // The first few are close to each other, so that the steps can be coarse.
    let mut count = 6.min(times.len());
    let span = |count: usize| times[count - 1] - times[0];
    let mut candidates = Vec::new();
    let mut period = SHORTEST_NS;
    while period < LONGEST_NS {
        candidates.push((score(&times[..count], period).0, period));
        period *= 1.0 + 0.1 * period / span(count);
    }
    let best = candidates.iter().map(|c| c.0).fold(0.0, f64::max);
    candidates.retain(|c| c.0 > 0.8 * best);
    let mut periods: Vec<f64> = candidates.into_iter().map(|c| c.1).collect();
    loop {
        let refined: Vec<(f64, f64)> =
            periods.iter().map(|&period| peak(&times[..count], period, span(count))).collect();
        let best = refined.iter().map(|r| r.0).fold(0.0, f64::max);
        // A half of the period fits as well as the period, or worse.
        let least = if count == times.len() { best - 0.003 } else { 0.9 * best };
        periods = refined.iter().filter(|r| r.0 > least).map(|r| r.1).collect();
        if count == times.len() {
            return periods.into_iter().fold(0.0, f64::max);
        }
        count = (count * 2).min(times.len());
    }
}

/// The best score near a period, and where.
fn peak(times: &[f64], period: f64, span: f64) -> (f64, f64) {
    let mut step = 0.1 * period * period / span;
    let mut best = (score(times, period).0, period);
    for _ in 0..40 {
        for next in [best.1 - step, best.1 + step] {
            let scored = (score(times, next).0, next);
            if scored.0 > best.0 {
                best = scored;
            }
        }
        step *= 0.7;
    }
    best
}

/// How well the times have a period, from 0 to 1, and their offset from the first.
fn score(times: &[f64], period: f64) -> (f64, f64) {
    let turn = std::f64::consts::TAU / period;
    let (mut x, mut y) = (0.0, 0.0);
    for time in times {
        let (sin, cos) = ((time - times[0]).rem_euclid(period) * turn).sin_cos();
        (x, y) = (x + cos, y + sin);
    }
    (x.hypot(y) / times.len() as f64, y.atan2(x) / turn)
}
