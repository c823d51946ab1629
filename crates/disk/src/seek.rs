//! Seek time by distance: the three kinds of curve, as a table in nanoseconds.
//!
//! Only additions, multiplications, divisions and square roots are used, which IEEE 754 rounds
//! the same way on every machine.

use crate::spec::{Seek, SeekFit, SeekFormula, SeekTable};

/// Nanoseconds of a time in milliseconds, rounded.
pub(crate) fn ns(ms: f64) -> u32 {
    (ms * 1e6).round() as u32
}

/// Seek times in ns for distances 0 to `cylinders - 1`.
pub(crate) fn table_ns(seek: &Seek, cylinders: u32) -> Vec<u32> {
    let mut times = Vec::with_capacity(cylinders as usize);
    times.push(0);
    match seek {
        Seek::Fit(fit) => {
            let (a, b, c) = fit_coefficients(fit, cylinders);
            times.extend((1..cylinders).map(|d| {
                let d = f64::from(d);
                ns((a + b * d.sqrt() + c * d).max(0.0))
            }));
        }
        Seek::Formula(formula) => {
            times.extend((1..cylinders).map(|d| ns(formula_ms(formula, d).max(0.0))));
        }
        Seek::Table(table) => interpolate(table, cylinders, &mut times),
    }
    times
}

/// The a, b and c of the curve through the three points of a drive with this many cylinders.
///
/// With fewer than four cylinders the points coincide, and the curve is the straight line
/// through the first and the last.
pub(crate) fn fit_coefficients(fit: &SeekFit, cylinders: u32) -> (f64, f64, f64) {
    let full = f64::from(cylinders.saturating_sub(1)).max(1.0);
    let third = full / 3.0;
    let rise_full = fit.full_ms - fit.one_cylinder_ms;
    if third <= 1.0 {
        let slope = if full > 1.0 { rise_full / (full - 1.0) } else { 0.0 };
        return (fit.one_cylinder_ms - slope, 0.0, slope);
    }
    let rise_third = fit.third_ms - fit.one_cylinder_ms;
    let (root_third, root_full) = (third.sqrt() - 1.0, full.sqrt() - 1.0);
    let (line_third, line_full) = (third - 1.0, full - 1.0);
    let determinant = root_third * line_full - root_full * line_third;
    let b = (rise_third * line_full - rise_full * line_third) / determinant;
    let c = (root_third * rise_full - root_full * rise_third) / determinant;
    (fit.one_cylinder_ms - b - c, b, c)
}

fn formula_ms(formula: &SeekFormula, distance: u32) -> f64 {
    if let Some(&ms) = formula.first_ms.get(distance as usize - 1) {
        ms
    } else if distance <= formula.short_until {
        formula.short_ms + formula.short_sqrt_ms * f64::from(distance).sqrt()
    } else {
        formula.long_ms + formula.long_cylinder_ms * f64::from(distance)
    }
}

/// Straight lines between the points; before the first and after the last, their times hold.
fn interpolate(table: &SeekTable, cylinders: u32, times: &mut Vec<u32>) {
    let mut next = 0;
    for distance in 1..cylinders {
        while next < table.points.len() && table.points[next].0 < distance {
            next += 1;
        }
        let ms = match (next.checked_sub(1).map(|i| table.points[i]), table.points.get(next)) {
            (Some((d0, t0)), Some(&(d1, t1))) => {
                t0 + (t1 - t0) * f64::from(distance - d0) / f64::from(d1 - d0)
            }
            (Some((_, ms)), None) | (None, Some(&(_, ms))) => ms,
            (None, None) => 0.0,
        };
        times.push(ns(ms));
    }
}

/// Where a curve falls most: a distance and its time in ms, then a longer one that takes less.
pub(crate) type Fall = [(u32, f64); 2];

/// The fall of a curve of measured points that is more than noise; nothing if the curve rises.
///
/// Noise makes single points too low or too high, but the points stay close to the best curve that
/// rises: those of the measured tables in `specs/disks` are apart from it by at most 1.5 % of the
/// mean time. In one mean every point counts the same, in another by its share of the stroke:
/// tables have most points at short distances, and most seeks are long. A few points may be
/// entirely wrong, as those around distance 3,400 of `ibm18es`: a tenth of them, on a twentieth of
/// the stroke.
pub(crate) fn fall(points: &[(u32, f64)]) -> Option<Fall> {
    let (first, last) = (points.first()?, points.last()?);
    let wrong_max = points.len() / 10;
    let stroke_max = f64::from(last.0.saturating_sub(first.0)) / 20.0;
    let (shares, apart) = (shares(points), apart(points, &vec![1.0; points.len()]));
    let mut worst: Vec<usize> = (0..points.len()).collect();
    worst.sort_by(|a, b| apart[*b].total_cmp(&apart[*a]));
    let mut stroke = 0.0;
    let is_wrong = |at: &&usize| {
        stroke += shares[**at];
        stroke <= stroke_max
    };
    let wrong: Vec<usize> = worst.iter().take(wrong_max).take_while(is_wrong).copied().collect();
    let right = points.iter().enumerate().filter(|(at, _)| !wrong.contains(at));
    if !falls(&right.map(|(_, point)| *point).collect::<Vec<_>>()) {
        return None;
    }
    let (mut most, mut highest) = ([*first; 2], *first);
    for point in points {
        if point.1 > highest.1 {
            highest = *point;
        }
        if highest.1 - point.1 > most[0].1 - most[1].1 {
            most = [highest, *point];
        }
    }
    Some(most)
}

/// Share of the mean time, and time in ms, by which points may be apart from a curve that rises.
const NOISE_SHARE: f64 = 0.05;
const NOISE_MS: f64 = 0.1;

/// Half the distance between the neighbours of each point.
fn shares(points: &[(u32, f64)]) -> Vec<f64> {
    let last = points.len().saturating_sub(1);
    let share = |at: usize| {
        let (before, after) = (at.saturating_sub(1), (at + 1).min(last));
        f64::from(points[after].0.saturating_sub(points[before].0)) / 2.0
    };
    (0..points.len()).map(share).collect()
}

/// Whether points are further from every curve that rises than by noise, in either mean.
fn falls(points: &[(u32, f64)]) -> bool {
    [vec![1.0; points.len()], shares(points)].iter().any(|weights| {
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            values.zip(weights).map(|(value, weight)| value * weight).sum::<f64>()
        };
        let apart = mean(&mut apart(points, weights).into_iter());
        let ms = mean(&mut points.iter().map(|point| point.1));
        apart > (NOISE_SHARE * ms).max(NOISE_MS * weights.iter().sum::<f64>())
    })
}

/// How far points with these weights are from the nearest curve that rises, in ms.
fn apart(points: &[(u32, f64)], weights: &[f64]) -> Vec<f64> {
    // Levels of the curve: mean time, weight, points. A lower one joins those before it.
    let mut levels: Vec<(f64, f64, usize)> = Vec::new();
    for ((_, ms), weight) in points.iter().zip(weights) {
        let mut level = (*ms, *weight, 1);
        while let Some(before) = levels.pop_if(|before| before.0 > level.0) {
            let weight = before.1 + level.1;
            let mean = (before.0 * before.1 + level.0 * level.1) / weight;
            level = (mean, weight, before.2 + level.2);
        }
        levels.push(level);
    }
    let curve = levels.iter().flat_map(|(ms, _, count)| std::iter::repeat_n(*ms, *count));
    points.iter().zip(curve).map(|(point, level)| (point.1 - level).abs()).collect()
}

/// Points of a formula between which it only rises, or only falls.
pub(crate) fn formula_points(formula: &SeekFormula, cylinders: u32) -> Vec<(u32, f64)> {
    let last = cylinders.saturating_sub(1);
    let given = formula.first_ms.len().min(last as usize) as u32;
    let ends = [given + 1, formula.short_until, formula.short_until.saturating_add(1), last];
    let mut distances: Vec<u32> = (1..=given).chain(ends).collect();
    distances.retain(|distance| (1..=last).contains(distance));
    distances.sort_unstable();
    distances.dedup();
    distances.into_iter().map(|distance| (distance, formula_ms(formula, distance))).collect()
}
