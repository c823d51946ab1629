//! What both the plots and the HTML report read out of a comparison.

use destage_report::model::{Axis, CompareReport, Point, RunReport};
use destage_report::plot::thinned;

/// A comparison, indexed.
pub(crate) struct View<'a> {
    pub(crate) report: &'a CompareReport,
    /// Variants in order of appearance: their place decides their colour everywhere.
    pub(crate) variants: Vec<&'a str>,
    /// Axis values: as the axis lists them, then any that only points have; one without an axis.
    pub(crate) values: Vec<&'a str>,
    /// The values as numbers, if all are and there are at least two.
    pub(crate) numbers: Option<Vec<f64>>,
}

impl<'a> View<'a> {
    pub(crate) fn new(report: &'a CompareReport) -> Self {
        let mut variants: Vec<&str> = Vec::new();
        let mut values: Vec<&str> = match &report.axis {
            Some(axis) => axis.values.iter().map(String::as_str).collect(),
            None => Vec::new(),
        };
        for point in &report.points {
            if !variants.contains(&point.variant.as_str()) {
                variants.push(&point.variant);
            }
            if !values.contains(&point.value.as_str()) {
                values.push(&point.value);
            }
        }
        let parsed: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
        let numbers = parsed.filter(|numbers| numbers.len() > 1);
        Self { report, variants, values, numbers }
    }

    /// The axis, if there is more than one value on it.
    pub(crate) fn sweep(&self) -> Option<&'a Axis> {
        self.report.axis.as_ref().filter(|_| self.values.len() > 1)
    }

    /// Whether the axis is the load aimed at: then throughput against response time is the picture.
    pub(crate) fn sweeps_load(&self) -> bool {
        let is_load = |axis: &Axis| axis.name.to_lowercase().contains("iops");
        self.numbers.is_some() && self.sweep().is_some_and(is_load)
    }

    /// Whether the values are powers of two that span a factor of 16.
    pub(crate) fn is_binary(&self) -> bool {
        let Some(numbers) = &self.numbers else { return false };
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(0.0, f64::max);
        let power = |n: &f64| *n >= 1.0 && n.fract() == 0.0 && (*n as u64).is_power_of_two();
        numbers.iter().all(power) && high >= 16.0 * low
    }

    pub(crate) fn point(&self, variant: &str, value: &str) -> Option<&'a Point> {
        self.report.points.iter().find(|p| p.variant == variant && p.value == value)
    }

    /// The first run of a point: the one whose series are drawn.
    pub(crate) fn run(&self, variant: &str, value: &str) -> Option<&'a RunReport> {
        self.point(variant, value).and_then(|point| point.runs.first())
    }

    /// The axis value at which the variants differ most in mean response time: the one to look at
    /// first.
    pub(crate) fn telling(&self) -> usize {
        let ratio = |value: &&str| {
            let means = || {
                let points = self.variants.iter().filter_map(|v| self.point(v, value));
                points.map(|p| p.response_ms.mean).filter(|m| m.is_finite() && *m > 0.0)
            };
            means().fold(0.0, f64::max) / means().fold(f64::INFINITY, f64::min)
        };
        let ratios: Vec<f64> = self.values.iter().map(ratio).collect();
        let mut best = 0;
        for (i, ratio) in ratios.iter().enumerate() {
            if *ratio > ratios[best] {
                best = i;
            }
        }
        best
    }

    /// An axis value with its name and unit, as in `iops 900 I/O/s`; empty without an axis.
    pub(crate) fn at(&self, value: &str) -> String {
        match &self.report.axis {
            Some(axis) => format!("{} {value} {}", axis.name, axis.unit).trim_end().to_owned(),
            None => String::new(),
        }
    }
}

/// Axis label of a swept parameter.
pub(crate) fn axis_label(axis: &Axis) -> String {
    if axis.unit.is_empty() { axis.name.clone() } else { format!("{} ({})", axis.name, axis.unit) }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|n| n.is_finite())
}

/// The occupancy thresholds of a run in percent of the NVS: high, low. They are read from the
/// options `high` and `low`, else from `thresholds` as `high/low`, else from `rate` as
/// `name:high/low`.
pub(crate) fn thresholds(run: &RunReport) -> Vec<(&'static str, f64)> {
    let parse = |text: &str| number(text.trim().trim_end_matches('%'));
    let option = |name: &str| run.options.get(name).map(String::as_str);
    let pair = |text: &str| {
        let (high, low) = text.split_once('/')?;
        let end = low.find([',', ':', ';']).unwrap_or(low.len());
        Some((parse(high)?, parse(&low[..end])?))
    };
    let in_rate = || option("rate").and_then(|rate| rate.split_once(':')).and_then(|r| pair(r.1));
    let both = option("thresholds").and_then(pair).or_else(in_rate);
    let mut found = Vec::new();
    let high = option("high").and_then(parse).or(both.map(|(high, _)| high));
    let low = option("low").and_then(parse).or(both.map(|(_, low)| low));
    found.extend(high.map(|value| ("high", value)));
    found.extend(low.map(|value| ("low", value)));
    found
}

/// Seconds and per cent of the NVS in use, at most about `limit` points: extremes stay.
pub(crate) fn occupancy(run: &RunReport, limit: usize) -> Vec<(f64, f64)> {
    let interval = run.series.interval_s;
    let at = |(i, share): (usize, &f64)| ((i + 1) as f64 * interval, 100.0 * share);
    let points: Vec<(f64, f64)> = run.series.occupancy.iter().enumerate().map(at).collect();
    thinned(&points, limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_report::model::{Estimate, Series};

    fn report(values: &[&str]) -> CompareReport {
        let point = |(i, value): (usize, &&str)| Point {
            variant: if i % 2 == 0 { "a" } else { "b" }.to_owned(),
            value: (*value).to_owned(),
            response_ms: Estimate { mean: 1.0 + i as f64, ..Estimate::default() },
            ..Point::default()
        };
        CompareReport {
            axis: Some(Axis { name: "target-iops".into(), ..Axis::default() }),
            points: values.iter().enumerate().map(point).collect(),
            ..CompareReport::default()
        }
    }

    #[test]
    fn values_are_numbers_only_if_all_are() {
        let report = report(&["90/80", "16", "256", "16"]);
        assert!(View::new(&report).numbers.is_none());
        let numeric = self::report(&["16", "16", "256", "256"]);
        let view = View::new(&numeric);
        assert_eq!(view.numbers.as_deref(), Some(&[16.0, 256.0][..]));
        assert!(view.is_binary() && view.sweeps_load());
        assert_eq!(view.telling(), 0, "2:1 at 16 against 4:3 at 256");
    }

    #[test]
    fn thresholds_are_found_in_every_form() {
        let with = |options: &[(&str, &str)]| {
            let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
            let options = options.iter().map(owned).collect();
            thresholds(&RunReport { options, ..RunReport::default() })
        };
        assert!(with(&[]).is_empty());
        assert_eq!(with(&[("thresholds", "90/80")]), [("high", 90.0), ("low", 80.0)]);
        assert_eq!(with(&[("rate", "linear:70/40")]), [("high", 70.0), ("low", 40.0)]);
        let rate = ("rate", "linear:70/40");
        assert_eq!(with(&[("thresholds", ""), rate]), [("high", 70.0), ("low", 40.0)]);
        assert_eq!(with(&[("thresholds", "90/80"), rate]), [("high", 90.0), ("low", 80.0)]);
        assert_eq!(with(&[("low", "40 %"), ("thresholds", "9/8")]), [("high", 9.0), ("low", 40.0)]);
        assert!(with(&[("rate", "quick"), ("high", "none")]).is_empty());
        assert!(with(&[("rate", "fixed:x/y")]).is_empty());
    }

    #[test]
    fn thinning_keeps_the_extremes() {
        let mut occupancy: Vec<f64> = vec![0.5; 10_000];
        occupancy[777] = 0.1;
        occupancy[5001] = f64::NAN;
        occupancy[9000] = 0.9;
        let series = Series { interval_s: 1.0, occupancy, ..Series::default() };
        let run = RunReport { series, ..RunReport::default() };
        let kept = super::occupancy(&run, 500);
        assert!(kept.len() <= 510, "{}", kept.len());
        assert!(kept.contains(&(778.0, 10.0)) && kept.contains(&(9001.0, 90.0)));
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(super::occupancy(&RunReport::default(), 0).is_empty());
    }
}
