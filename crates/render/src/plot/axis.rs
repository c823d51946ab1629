//! One axis: from values to places, and round values to mark.

use destage_report::plot::Scale;
use destage_report::thousands;

/// Values from `low` to `high`, both finite, above 0 for logarithms, and `low < high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

/// A marked value and its label.
pub(super) type Tick = (f64, String);

impl Axis {
    /// An axis that covers the values, from round value to round value if `round`. Values that the
    /// scale cannot show are left out; without any it covers 0 to 1, or 1 to 10.
    pub(super) fn over(
        scale: Scale,
        values: impl Iterator<Item = f64>,
        round: bool,
        marks: usize,
    ) -> Self {
        let fits =
            |v: &f64| v.is_finite() && v.abs() < 1e300 && (scale == Scale::Linear || *v > 1e-300);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(fits) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = if scale == Scale::Linear { (0.0, 1.0) } else { (1.0, 10.0) };
        }
        match scale {
            Scale::Linear => Self::linear(low, high, round, marks),
            Scale::Log10 => Self::log10(low, high),
            Scale::Log2 => Self { scale, low: low / 1.15, high: high * 1.15 },
        }
    }

    fn linear(mut low: f64, mut high: f64, round: bool, marks: usize) -> Self {
        // Start at 0 unless that would squeeze the data into a strip.
        if low > 0.0 && low < 0.6 * high {
            low = 0.0;
        }
        if high - low <= 1e-9 * high.abs().max(low.abs()) {
            let pad = if high == 0.0 { 1.0 } else { 0.1 * high.abs() };
            (low, high) = (if low == 0.0 { 0.0 } else { low - pad }, high + pad);
        }
        if round {
            let step = nice_step((high - low) / marks as f64);
            low = step * (low / step + 1e-9).floor();
            high = step * (high / step - 1e-9).ceil();
        }
        Self { scale: Scale::Linear, low, high }
    }

    /// Ends at 1, 2 or 5 times a power of ten.
    fn log10(low: f64, high: f64) -> Self {
        let ends = |value: f64| -> [f64; 5] {
            let decade = 10f64.powf(value.log10().floor());
            [0.5, 1.0, 2.0, 5.0, 10.0].map(|m| m * decade)
        };
        let below = ends(low).into_iter().rfind(|end| *end <= low * 1.000_001).unwrap_or(low);
        let above = ends(high).into_iter().find(|end| *end >= high * 0.999_999).unwrap_or(high);
        let (low, high) = if below < above { (below, above) } else { (below / 2.0, above * 2.0) };
        Self { scale: Scale::Log10, low, high }
    }

    /// Position of a value, 0 at the low end and 1 at the high end; none if it cannot be shown.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        if self.scale == Scale::Linear {
            return Some((value - self.low) / (self.high - self.low));
        }
        (value > 0.0).then(|| (value / self.low).ln() / (self.high / self.low).ln())
    }

    /// The lowest value.
    pub(super) fn low(&self) -> f64 {
        self.low
    }

    /// Whether the axis shows this value.
    pub(super) fn covers(&self, value: f64) -> bool {
        self.place(value).is_some_and(|place| (-1e-9..=1.0 + 1e-9).contains(&place))
    }

    /// About `marks` round values on the axis, ascending.
    pub(super) fn ticks(&self, marks: usize) -> Vec<Tick> {
        match self.scale {
            Scale::Linear => self.linear_ticks(marks),
            Scale::Log10 => self.power_ticks(10.0, marks),
            Scale::Log2 => self.power_ticks(2.0, marks),
        }
    }

    fn linear_ticks(&self, marks: usize) -> Vec<Tick> {
        let step = nice_step((self.high - self.low) / marks as f64);
        let decimals = (-(step * 1.000_1).log10().floor()).clamp(0.0, 12.0) as usize;
        let first = (self.low / step - 1e-6).ceil();
        let count = ((self.high / step + 1e-6).floor() - first).clamp(0.0, 50.0) as usize;
        let tick = |i: usize| {
            let value = (first + i as f64) * step;
            (value, label(value, decimals, step))
        };
        (0..=count).map(tick).collect()
    }

    fn power_ticks(&self, base: f64, marks: usize) -> Vec<Tick> {
        let first = (self.low.ln() / base.ln() - 1e-6).ceil() as i32;
        let last = (self.high.ln() / base.ln() + 1e-6).floor() as i32;
        let powers = (last - first + 1).max(0) as usize;
        let every = powers.div_ceil(marks + 3).max(1);
        let mut values: Vec<f64> = (first..=last).step_by(every).map(|e| base.powi(e)).collect();
        if base > 2.0 && powers <= 3 {
            let between = |exponent: i32| [1.0, 2.0, 5.0].map(|m| m * base.powi(exponent));
            values = (first - 1..=last).flat_map(between).filter(|v| self.covers(*v)).collect();
        } else if powers < 2 {
            return Self { scale: Scale::Linear, ..*self }.linear_ticks(marks);
        }
        let decimals = |value: f64| (-value.log10().floor()).clamp(0.0, 12.0) as usize;
        values.into_iter().map(|value| (value, label(value, decimals(value), value))).collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least `rough`.
fn nice_step(rough: f64) -> f64 {
    let decade = 10f64.powf(rough.log10().floor());
    let factor = rough / decade;
    let nice = [1.0, 2.0, 5.0].into_iter().find(|n| factor <= n * 1.000_001).unwrap_or(10.0);
    nice * decade
}

/// A number with thousands set apart; millions and more by name where `step` allows it.
fn label(value: f64, decimals: usize, step: f64) -> String {
    for (size, name) in [(1e12, " T"), (1e9, " G"), (1e6, " M")] {
        if value.abs() >= size && step >= size / 10.0 {
            let scaled = value / size;
            let whole = (scaled - scaled.round()).abs() < 1e-6;
            let text = if whole { format!("{scaled:.0}") } else { format!("{scaled:.1}") };
            return text + name;
        }
    }
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    thousands(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = Axis::over(scale, values.iter().copied(), true, 6);
        axis.ticks(6).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(labels(Scale::Linear, &[0.0, 97.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(Scale::Linear, &[0.31])[..3], ["0.26", "0.28", "0.30"]);
        assert_eq!(labels(Scale::Linear, &[200.0, 1400.0])[1..3], ["500", "1,000"]);
        assert_eq!(labels(Scale::Linear, &[1e5, 2.4e6])[1..3], ["500,000", "1 M"]);
        assert_eq!(labels(Scale::Log10, &[3.0, 45.0]), ["2", "5", "10", "20", "50"]);
        assert_eq!(labels(Scale::Log10, &[0.01, 1e4])[..2], ["0.01", "0.1"]);
        assert_eq!(labels(Scale::Log2, &[32.0, 64.0, 128.0]), ["32", "64", "128"]);
        assert_eq!(labels(Scale::Log2, &[1024.0, 65536.0])[..2], ["1,024", "2,048"]);
    }

    #[test]
    fn odd_data_gives_a_usable_axis() {
        let odd: [&[f64]; 7] = [
            &[],
            &[f64::NAN],
            &[0.0],
            &[-3.0],
            &[f64::INFINITY, 1e308, 5.0],
            &[1e-12, 1e12],
            &[f64::MIN_POSITIVE],
        ];
        for values in odd {
            for scale in [Scale::Linear, Scale::Log10, Scale::Log2] {
                for round in [false, true] {
                    let axis = Axis::over(scale, values.iter().copied(), round, 5);
                    assert!(axis.low < axis.high, "{values:?} {axis:?}");
                    assert!(axis.ticks(5).len() < 60);
                    for value in values.iter().filter(|v| v.is_finite()) {
                        assert!(axis.place(*value).is_none_or(f64::is_finite), "{values:?}");
                    }
                }
            }
        }
    }
}
