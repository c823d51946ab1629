//! Latencies as the percentile text that HdrHistogram's plotters read.

use hdrhistogram::Histogram;
use std::fmt::Write;

/// Lines of values, from the median's half towards 1 in steps that halve what is left, five to a
/// half; values in microseconds.
pub fn percentiles(times_ns: &Histogram<u64>) -> String {
    const TICKS: u32 = 5;
    const NS: f64 = 1000.0;
    let mut text = String::new();
    let (value, share, rest) = ("Value", "Percentile", "1/(1-Percentile)");
    // Writing to a string does not fail.
    let _ = writeln!(text, "{value:>12} {share:>14} {:>10} {rest:>14}\n", "TotalCount");
    let mut seen = 0;
    for step in times_ns.iter_quantiles(TICKS) {
        seen += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / NS;
        let share = step.quantile_iterated_to();
        let _ = write!(text, "{value:12.3} {share:14.12} {seen:10}");
        let _ = match share < 1.0 {
            true => writeln!(text, " {:14.2}", 1.0 / (1.0 - share)),
            false => writeln!(text),
        };
    }
    let mut pair = |one: &str, first: String, two: &str, second: String| {
        let _ = writeln!(text, "#[{one:<7} = {first:>12}, {two:<14} = {second:>12}]");
    };
    let us = |ns: f64| format!("{:.3}", ns / NS);
    pair("Mean", us(times_ns.mean()), "StdDeviation", us(times_ns.stdev()));
    pair("Max", us(times_ns.max() as f64), "Total count", times_ns.len().to_string());
    let (buckets, values) = (times_ns.buckets(), times_ns.distinct_values());
    pair("Buckets", buckets.to_string(), "SubBuckets", values.to_string());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_holds_the_distribution() {
        let mut times = Histogram::new_with_bounds(100, 3_600_000_000_000, 3).expect("bounds");
        (1..=1000).for_each(|us| times.record(us * 1000).expect("within bounds"));
        let text = percentiles(&times);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().flat_map(str::parse).collect())
            .collect();
        assert!(rows.len() > 20 && rows.windows(2).all(|two| two[0][0] <= two[1][0]), "{text}");
        let half = rows.iter().find(|row| row[1] >= 0.5).expect("a median");
        assert!((half[0] - 500.0).abs() < 1.0 && half[2] == 500.0 && half[3] == 2.0, "{text}");
        let last = rows.last().expect("rows");
        assert!((last[0] - 1000.0).abs() < 1.0 && last[1] == 1.0 && last[2] == 1000.0, "{text}");
        assert!(text.contains("#[Mean    =      500.5"), "{text}");
        assert!(text.contains("Total count    =         1000]"), "{text}");
    }
}
