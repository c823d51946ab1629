//! The time of a revolution: completions of reads of one sector are full revolutions apart.

use super::bench::Bench;
use super::probe::MeasureError;

/// Shortest and longest revolution taken: 24,000 and 2,400 per minute.
const SHORTEST_NS: f64 = 2.5e6;
const LONGEST_NS: f64 = 25e6;
/// Readings of the sector, and other reads between two.
const READINGS: usize = 40;
const BETWEEN: usize = 24;
/// Readings with which a fit begins.
const FEW: usize = 6;
/// Share of a revolution within which three quarters of the completions have to be: timers of
/// virtual machines are late by a few per cent of it.
const GOOD: f64 = 0.05;
/// The same, at which no better fit is looked for.
const BEST: f64 = 0.004;
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
    let (revolution_ns, noise_ns) = fit_any(&times);
    if noise_ns > GOOD * revolution_ns {
        return Err(MeasureError::NotADisk(format!(
            "reads of one sector do not complete whole revolutions apart (noise of \
             {:.2} ms): the target is not a disk drive, or another program uses it",
            noise_ns / 1e6
        )));
    }
    Ok(Rotation { revolution_ns, noise_ns, far_ns })
}

/// The period that fits best, from the first few times, or from a later few: some may be late.
fn fit_any(times: &[f64]) -> (f64, f64) {
    let mut best = (1.0, f64::INFINITY);
    for start in (0..times.len() - FEW).step_by(FEW / 2) {
        let mut ordered = times.to_vec();
        let middle = times[start + FEW / 2];
        ordered.sort_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()));
        let found = fit(&ordered);
        if found.1 / found.0 < best.1 / best.0 {
            best = found;
        }
        if best.1 < BEST * best.0 {
            break;
        }
    }
    // A part of a revolution fits as well, and may have been all that the first few left.
    let multiples = (2..=8).map(|n| on_line(times, best.0 * f64::from(n)));
    let good = multiples.filter(|fit| fit.0 < LONGEST_NS && fit.1 <= 2.0 * best.1 + 100.0);
    good.fold(best, |longest, fit| if fit.0 > longest.0 { fit } else { longest })
}

/// The longest period that the times have, and how far they are from it.
fn fit(times: &[f64]) -> (f64, f64) {
    // The first few are close to each other, so that the steps can be coarse.
    let mut count = FEW;
    let span = |count: usize| 2.0 * (times[count - 1] - times[0]).abs();
    let mut periods = Vec::new();
    let mut period = SHORTEST_NS;
    while period < LONGEST_NS {
        periods.push((score(&times[..count], period).0, period));
        period *= 1.0 + 0.1 * period / span(count);
    }
    // Some of the few may be late, so that others fit them better.
    let mut share = 0.5;
    loop {
        let best = periods.iter().map(|p| p.0).fold(0.0, f64::max);
        periods.retain(|p| p.0 > share * best);
        let near = |p: &(f64, f64)| peak(&times[..count], p.1, span(count));
        periods = periods.iter().map(near).collect();
        if count == times.len() {
            break;
        }
        count = (count * 2).min(times.len());
        share += 0.1;
    }
    // Late ones move the score, but not the middle of the others. A part of the period fits as
    // well as the period.
    let fits: Vec<(f64, f64)> = periods.iter().map(|p| on_line(times, p.1)).collect();
    let least = fits.iter().map(|fit| fit.1).fold(f64::INFINITY, f64::min);
    let good = fits.into_iter().filter(|fit| fit.1 <= 2.0 * least + 100.0);
    good.fold((0.0, 0.0), |best, fit| if fit.0 > best.0 { fit } else { best })
}

/// The period of the times that are not late, from one that is near, and the distance from it
/// within which three quarters of them are.
fn on_line(times: &[f64], period: f64) -> (f64, f64) {
    let middle = |mut values: Vec<f64>, part: usize| {
        values.sort_by(f64::total_cmp);
        values[values.len() * part / 4]
    };
    let offset = score(times, period).1;
    let off = |time: f64| {
        let off = (time - times[0] - offset).rem_euclid(period);
        if off > period / 2.0 { off - period } else { off }
    };
    let offs: Vec<f64> = times.iter().map(|time| off(*time)).collect();
    let usual = middle(offs.clone(), 2);
    let noise = middle(offs.iter().map(|off| (off - usual).abs()).collect(), 3);
    // A line through the turns and what is left of the times.
    let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (time, off) in times.iter().zip(&offs).filter(|(_, o)| (*o - usual).abs() <= 3.0 * noise) {
        let turn = ((time - times[0] - offset - off) / period).round();
        (n, x, y) = (n + 1.0, x + turn, y + off);
        (xx, xy) = (xx + turn * turn, xy + turn * off);
    }
    let spread = n * xx - x * x;
    let slope = if spread > 0.0 { (n * xy - x * y) / spread } else { 0.0 };
    (period + slope, noise)
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
