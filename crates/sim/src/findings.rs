//! What a comparison means, in plain sentences drawn from its figures.

use destage_report::model::{CompareReport, Point, RunReport};

/// The sentences; the first says who is ahead, the second why.
#[must_use]
pub fn of(report: &CompareReport) -> Vec<String> {
    let mut findings = Vec::new();
    findings.extend(at_response(report).or_else(|| at_load(report)));
    findings.extend(because(report));
    findings.extend(warnings(report));
    findings
}

fn ratio(best: f64, other: f64) -> String {
    format!("{:.2} times", best / other)
}

fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn at_response(report: &CompareReport) -> Option<String> {
    let level = report.at_response.first()?.response_ms;
    let at_level = report.at_response.iter().filter(|a| a.response_ms == level);
    let mut known: Vec<(&str, f64)> =
        at_level.filter_map(|a| Some((a.variant.as_str(), a.iops?))).collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ((best, most), others) = known.split_first().map(|(b, o)| (*b, o))?;
    if others.is_empty() {
        return None;
    }
    let others: Vec<String> =
        others.iter().map(|(name, iops)| format!("{} {name}", ratio(most, *iops))).collect();
    Some(format!(
        "At a mean response time of {level} ms {best} serves {most:.0} I/O/s: {}.",
        list(&others)
    ))
}

/// The points at the last axis value: the heaviest load, or the only one.
fn last_points(report: &CompareReport) -> Vec<&Point> {
    let value = report.axis.as_ref().and_then(|axis| axis.values.last());
    let at_value = |p: &&Point| value.is_none_or(|value| p.value == *value);
    report.points.iter().filter(at_value).collect()
}

fn at_load(report: &CompareReport) -> Option<String> {
    let points = last_points(report);
    if points.len() < 2 {
        return None;
    }
    let mut sorted = points.clone();
    let slowest = |p: &Point| p.iops.mean;
    sorted.sort_by(|a, b| slowest(b).total_cmp(&slowest(a)));
    let spread = slowest(sorted[0]) / slowest(sorted[sorted.len() - 1]).max(1e-9);
    let at = report.axis.as_ref().map_or("Over the run".to_string(), |axis| {
        format!("At {} {}", axis.name, axis.values.last().map_or("", |v| v))
    });
    if spread > 1.03 {
        let parts: Vec<String> =
            sorted.iter().map(|p| format!("{} {:.0}", p.variant, p.iops.mean)).collect();
        return Some(format!("{at} throughput in I/O/s is {}.", list(&parts)));
    }
    sorted.sort_by(|a, b| a.response_ms.mean.total_cmp(&b.response_ms.mean));
    let parts: Vec<String> =
        sorted.iter().map(|p| format!("{} {:.2}", p.variant, p.response_ms.mean)).collect();
    Some(format!("{at} mean response time in ms is {}.", list(&parts)))
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

fn because(report: &CompareReport) -> Option<String> {
    let value = telling_value(report);
    let points: Vec<&Point> =
        report.points.iter().filter(|p| value.is_none_or(|value| p.value == value)).collect();
    if points.len() < 2 {
        return None;
    }
    let mean = |p: &Point, f: fn(&RunReport) -> f64| {
        p.runs.iter().map(f).sum::<f64>() / p.runs.len().max(1) as f64
    };
    let each = |f: fn(&RunReport) -> f64, scale: f64, digits: usize| {
        let parts: Vec<String> = points
            .iter()
            .map(|p| format!("{} {:.*}", p.variant, digits, mean(p, f) * scale))
            .collect();
        list(&parts)
    };
    let at = match (&report.axis, value) {
        (Some(axis), Some(value)) => format!("At {} {value} the", axis.name),
        _ => "The".to_string(),
    };
    Some(format!(
        "{at} NVS was full for {} % of the time, {} % of written pages were held already, and \
         consecutive destages lay {} pages apart.",
        each(|r| r.time_full, 100.0, 1),
        each(|r| r.hits.write_page, 100.0, 1),
        each(|r| r.destage.mean_distance_pages, 1.0, 0),
    ))
}

fn warnings(report: &CompareReport) -> Option<String> {
    let unsettled = report
        .points
        .iter()
        .filter(|p| p.runs.iter().any(|r| r.warnings.iter().any(|w| w.starts_with("not settled"))))
        .count();
    (unsettled > 0).then(|| {
        format!(
            "Warning: {unsettled} of {} points had not settled; a longer --warmup and --measure \
             would tell more.",
            report.points.len()
        )
    })
}
