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
