//! What a comparison means, in plain sentences drawn from its figures.

use destage_report::model::{CompareReport, Point, RunReport};
use destage_report::thousands;

/// The sentences. The first names the winner, the next ones say why.
pub fn of(report: &CompareReport) -> Vec<String> {
    let mut findings = Vec::new();
    findings.extend(at_response(report).or_else(|| at_load(report)));
    findings.extend(because(report));
    findings.extend(warnings(report));
    findings
}

/// By how much a value exceeds another, e.g. `44 % more than lrw`.
fn more(value: f64, other: f64, name: &str) -> String {
    match value / other {
        ratio if ratio >= 2.0 => format!("{ratio:.2} times as many as {name}"),
        ratio if ratio >= 1.005 => format!("{:.0} % more than {name}", 100.0 * (ratio - 1.0)),
        _ => format!("as many as {name}"),
    }
}

/// By how much a value is below another, e.g. `12 % less than wow`.
fn less(value: f64, other: f64, name: &str) -> String {
    match 100.0 * (1.0 - value / other) {
        percent if percent >= 0.5 => format!("{percent:.0} % less than {name}"),
        _ => format!("the same as {name}"),
    }
}

fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn whole(value: f64) -> String {
    thousands(&format!("{value:.0}"))
}

/// The winner and the others, compared with it by `by`.
fn ranked(
    mut values: Vec<(&str, f64)>,
    highest_first: bool,
    by: fn(f64, f64, &str) -> String,
) -> Option<(&str, f64, String)> {
    values.sort_by(|a, b| if highest_first { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    let ((best, value), others) = values.split_first().map(|(b, o)| (*b, o))?;
    let others: Vec<String> = others.iter().map(|(name, other)| by(value, *other, name)).collect();
    (!others.is_empty()).then(|| (best, value, list(&others)))
}

fn at_response(report: &CompareReport) -> Option<String> {
    let level = report.at_response.first()?.response_ms;
    let at_level = report.at_response.iter().filter(|a| a.response_ms == level);
    let known = at_level.filter_map(|a| Some((a.variant.as_str(), a.iops?))).collect();
    let (best, most, others) = ranked(known, true, more)?;
    let most = whole(most);
    Some(format!("At a mean response time of {level} ms {best} serves {most} I/O/s: {others}."))
}

/// The points at the last axis value: the heaviest load, or the only one.
fn last_points(report: &CompareReport) -> Vec<&Point> {
    let value = report.axis.as_ref().and_then(|axis| axis.values.last());
    let at_value = |p: &&Point| value.is_none_or(|value| p.value == *value);
    report.points.iter().filter(at_value).collect()
}

fn at_load(report: &CompareReport) -> Option<String> {
    let points = last_points(report);
    let at = report.axis.as_ref().map_or("Over the run".to_string(), |axis| {
        format!("At {} {}", axis.name, axis.values.last().map_or("", |v| v))
    });
    let of = |get: fn(&Point) -> f64| points.iter().map(|p| (p.variant.as_str(), get(p))).collect();
    let (best, most, others) = ranked(of(|p| p.iops.mean), true, more)?;
    let least = points.iter().map(|p| p.iops.mean).fold(most, f64::min);
    if most > 1.03 * least.max(1e-9) {
        let most = whole(most);
        return Some(format!("{at} {best} serves most: {most} I/O/s, {others}."));
    }
    let (best, mean, others) = ranked(of(|p| p.response_ms.mean), false, less)?;
    Some(format!(
        "{at} {best} answers fastest: {mean:.2} ms on average, {others}. Throughput is the same."
    ))
}

/// Where policies differ most tellingly: the heaviest load at which some variant still answers
/// within the response time asked for; else the last value.
fn telling_value(report: &CompareReport) -> Option<&str> {
    let axis = report.axis.as_ref()?;
    let level = report.at_response.first().map_or(f64::INFINITY, |a| a.response_ms);
    let carried = axis.values.iter().rev().find(|value| {
        report.points.iter().any(|p| p.value == **value && p.response_ms.mean <= level)
    });
    carried.or(axis.values.last()).map(String::as_str)
}

/// A figure that explains the result: what is best, whether low is good, how it is read and shown.
type Reason = (&'static str, bool, fn(&RunReport) -> f64, fn(f64) -> String);

const REASONS: [Reason; 3] = [
    ("the NVS was full for the least time", true, |r| r.time_full, percent),
    ("most written pages were in the NVS already", false, |r| r.hits.write_page, percent),
    ("destages were closest together", true, |r| r.destage.mean_distance_pages, pages),
];

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn pages(distance: f64) -> String {
    format!("{} pages", whole(distance))
}

fn because(report: &CompareReport) -> Vec<String> {
    let value = telling_value(report);
    let points: Vec<&Point> =
        report.points.iter().filter(|p| value.is_none_or(|value| p.value == value)).collect();
    let at = match (&report.axis, value) {
        (Some(axis), Some(value)) => format!("At {} {value}", axis.name),
        _ => "Over the run".to_string(),
    };
    let sentence = |(what, low, get, show): &Reason| {
        let mean = |p: &Point| p.runs.iter().map(get).sum::<f64>() / p.runs.len().max(1) as f64;
        let mut values: Vec<(&str, f64)> =
            points.iter().map(|p| (p.variant.as_str(), mean(p))).collect();
        values.sort_by(|a, b| if *low { a.1.total_cmp(&b.1) } else { b.1.total_cmp(&a.1) });
        let ((best, first), (worst, last)) = (*values.first()?, *values.last()?);
        let (first, last) = (show(first), show(last));
        (first != last)
            .then(|| format!("{at} {what} with {best}: {first}, against {last} with {worst}."))
    };
    REASONS.iter().filter_map(sentence).collect()
}

fn warnings(report: &CompareReport) -> Option<String> {
    let unsettled = report
        .points
        .iter()
        .filter(|p| p.runs.iter().any(|r| r.warnings.iter().any(|w| w.starts_with("not settled"))))
        .count();
    (unsettled > 0).then(|| {
        format!(
            "Warning: {unsettled} of {} points had not settled. Use a longer --warmup and \
             --measure.",
            report.points.len()
        )
    })
}
