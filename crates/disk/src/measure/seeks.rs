//! The seek curve: the least time between two places, by their distance.

use super::bench::{Bench, Search};
use super::layout::Layout;
use super::probe::MeasureError;

/// Distances at even steps, and points at which it stops to look closer.
const EVEN: u32 = 200;
const MOST_POINTS: usize = 700;
/// Distances for which a cylinder more or less matters.
const SHORT: u32 = 12;
/// How far a point may be off the line of its neighbours before it looks closer, in ns.
const STRAIGHT_NS: f64 = 60e3;

/// Least time of a command by distance in cylinders, with overhead and transfer, in ns.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    layout: &Layout,
) -> Result<Vec<(u32, f64)>, MeasureError> {
    let last = layout.cylinders.saturating_sub(2).max(1);
    let mut distances: Vec<u32> = (1..=SHORT).collect();
    let mut next = 14.0;
    while (next as u32) < last.div_ceil(EVEN) {
        distances.push(next as u32);
        next *= 1.15;
    }
    distances.extend((1..=EVEN).map(|i| (u64::from(last) * u64::from(i) / u64::from(EVEN)) as u32));
    distances.retain(|distance| *distance <= last && *distance > 0);
    distances.sort_unstable();
    distances.dedup();
    let mut points: Vec<(u32, f64)> = Vec::new();
    for distance in distances {
        let guess = points.last().map(|point: &(u32, f64)| point.1);
        points.push((distance, at(bench, layout, distance, guess)?));
    }
    while points.len() < MOST_POINTS {
        let wanted = bends(&points, STRAIGHT_NS.max(2.5 * resolution_ns(bench)));
        if wanted.is_empty() {
            break;
        }
        for (distance, guess) in wanted.into_iter().take(MOST_POINTS - points.len()) {
            points.push((distance, at(bench, layout, distance, Some(guess))?));
        }
        points.sort_unstable_by_key(|point| point.0);
    }
    Ok(points)
}

/// How exactly a point is found.
fn resolution_ns(bench: &Bench<'_>) -> f64 {
    (bench.revolution_ns / 500.0).max(2.0 * bench.tolerance_ns)
}

/// Middles of the intervals at whose ends the curve bends, with what a straight line has there.
fn bends(points: &[(u32, f64)], straight_ns: f64) -> Vec<(u32, f64)> {
    let line = |a: (u32, f64), b: (u32, f64), x: u32| {
        a.1 + (b.1 - a.1) * (f64::from(x) - f64::from(a.0)) / f64::from(b.0 - a.0)
    };
    let bent = |i: usize| {
        i > 0
            && i + 1 < points.len()
            && (points[i].1 - line(points[i - 1], points[i + 1], points[i].0)).abs() > straight_ns
    };
    (1..points.len())
        .filter(|i| points[*i].0 - points[i - 1].0 > 1 && (bent(*i) || bent(i - 1)))
        .map(|i| {
            let middle = points[i].0.midpoint(points[i - 1].0);
            (middle, line(points[i - 1], points[i], middle))
        })
        .collect()
}

/// The least time over a distance.
fn at(
    bench: &mut Bench<'_>,
    layout: &Layout,
    distance: u32,
    guess_ns: Option<f64>,
) -> Result<f64, MeasureError> {
    let search = Search {
        resolution_ns: resolution_ns(bench),
        guess_ns,
        buffered_ns: bench.buffered_ns,
        one_way: false,
    };
    let slack = layout.cylinders - distance;
    // Other cylinders for each distance, so that their sectors are not in the buffer. For short
    // ones, the cylinders whose ends were found: farther on spares may have moved them.
    let near = distance <= SHORT;
    if near {
        bench.evict(distance.into())?;
    }
    let other = if near { distance % 3 } else { (bench.commands % 53) as u32 };
    let from = (6 + other).min(slack.saturating_sub(1));
    let spots = [from, from + distance].map(|cylinder| layout.spot(cylinder, bench.revolution_ns));
    bench.least(spots, &search)
}
