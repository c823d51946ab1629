//! Means over seeds and their confidence intervals.

use destage_report::model::Estimate;

/// Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom (standard tables); 1.96
/// beyond.
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Mean of the values and half the width of its 95 % confidence interval (0 for one value).
pub fn estimate(values: &[f64]) -> Estimate {
    let count = values.len();
    let mean = values.iter().sum::<f64>() / count.max(1) as f64;
    let half_width = match count {
        0 | 1 => 0.0,
        _ => {
            let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
            let deviation = (squares / (count - 1) as f64).sqrt();
            let t = T95.get(count - 2).copied().unwrap_or(1.96);
            t * deviation / (count as f64).sqrt()
        }
    };
    Estimate { mean, half_width, seeds: count as u32 }
}

/// Throughput where mean response time crosses `response_ms`, interpolated linearly between the
/// points `(iops, response_ms)` of a rising load; `None` if it never does.
pub fn crossing(points: &[(f64, f64)], response_ms: f64) -> Option<f64> {
    crossing_after(points, response_ms).map(|(iops, _)| iops)
}

/// The same, and the place of the point before it.
fn crossing_after(points: &[(f64, f64)], response_ms: f64) -> Option<(f64, usize)> {
    points.windows(2).enumerate().find_map(|(place, pair)| {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        let crosses = y0 <= response_ms && response_ms < y1;
        crosses.then(|| (x0 + (x1 - x0) * (response_ms - y0) / (y1 - y0), place))
    })
}

/// What a sweep of the load shows of the throughput at a response time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach {
    /// The response time is crossed at this throughput, after the point of this place.
    At(f64, usize),
    /// It is not reached: the throughput is at least the largest of the sweep.
    AtLeast(f64),
    /// It is exceeded from the first point on: the throughput is below the least of the sweep.
    Below(f64),
}

/// [`crossing`] and the point before it, or on which side of the response time the points
/// `(iops, response_ms)` are; `None` without points.
pub fn reach(points: &[(f64, f64)], response_ms: f64) -> Option<Reach> {
    if let Some((iops, place)) = crossing_after(points, response_ms) {
        return Some(Reach::At(iops, place));
    }
    // Without a crossing, those above come first.
    let within = |point: &&(f64, f64)| point.1 <= response_ms;
    let most = points.iter().filter(within).map(|p| p.0).reduce(f64::max);
    let least = points.iter().map(|p| p.0).reduce(f64::min);
    most.map(Reach::AtLeast).or(least.map(Reach::Below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_students_t() {
        let e = estimate(&[10.0, 12.0, 14.0]);
        assert_eq!(e.mean, 12.0);
        assert!((e.half_width - 4.303 * 2.0 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(estimate(&[5.0]).half_width, 0.0);
    }

    #[test]
    fn the_crossing_is_interpolated() {
        let points = [(100.0, 5.0), (200.0, 10.0), (210.0, 30.0)];
        assert_eq!(crossing(&points, 20.0), Some(205.0));
        assert_eq!(crossing(&points, 40.0), None);
        assert_eq!(crossing(&points[1..], 5.0), None);
    }

    #[test]
    fn a_level_that_is_not_crossed_is_below_or_above_the_sweep() {
        let points = [(100.0, 5.0), (200.0, 10.0), (210.0, 30.0)];
        assert_eq!(reach(&points, 20.0), Some(Reach::At(205.0, 1)));
        assert_eq!(reach(&points, 40.0), Some(Reach::AtLeast(210.0)));
        assert_eq!(reach(&points, 4.0), Some(Reach::Below(100.0)));
        assert_eq!(reach(&[(100.0, 50.0), (200.0, 10.0)], 20.0), Some(Reach::AtLeast(200.0)));
        assert_eq!(reach(&[], 4.0), None);
    }
}
