//! What a comparison means, in plain sentences drawn from its figures.

use destage_report::model::{AtResponse, CompareReport, Point, RunReport};
use destage_report::thousands;

/// The sentences. The first names the winner, the next ones say why.
pub fn of(report: &CompareReport) -> Vec<String> {
    let mut findings = Vec::new();
    let mut runs = report.points.iter().flat_map(|point| &point.runs).peekable();
    let plain = |run: &RunReport| run.response.writes.count == 0 && run.read_cache.is_none();
    if runs.peek().is_some() && runs.all(plain) {
        return vec!["No request writes: destage policies do not differ on this load.".into()];
    }
    let mut levels: Vec<f64> = report.at_response.iter().map(|at| at.response_ms).collect();
    levels.dedup();
    for level in levels {
        findings.extend(at_response(report, level));
    }
    // Where several are open at a level, or nothing is at one, the heaviest load ranks them.
    if findings.is_empty() || open_everywhere(report) {
        findings.extend(at_load(report));
    }
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

/// Variants with their throughput, as far as the sweep shows it.
type Served<'a> = Vec<(&'a str, f64)>;

/// What the sweep shows of a level: variants that cross it, that stay below it to the end, and
/// that are above it from the beginning.
struct Level<'a> {
    ms: f64,
    crossed: Served<'a>,
    open: Served<'a>,
    above: Served<'a>,
}

impl Level<'_> {
    fn of(report: &CompareReport, ms: f64) -> Level<'_> {
        let of = |get: fn(&AtResponse) -> Option<f64>| {
            let at_level = report.at_response.iter().filter(|at| at.response_ms == ms);
            let mut served: Served<'_> =
                at_level.filter_map(|at| Some((at.variant.as_str(), get(at)?))).collect();
            served.sort_by(|a, b| b.1.total_cmp(&a.1));
            served
        };
        Level {
            ms,
            crossed: of(|at| at.iops),
            open: of(|at| at.at_least_iops),
            above: of(|at| at.below_iops),
        }
    }

    /// How much more than the others a variant serves that serves `iops`, or at least that.
    fn lead(&self, best: &str, iops: f64, at_least: bool) -> String {
        let bound = |least: bool| if least { "at least " } else { "" };
        let crossed = self.crossed.iter().map(|other| (other, at_least));
        let all = crossed.chain(self.above.iter().map(|other| (other, true)));
        let parts: Vec<String> = all
            .filter(|((name, _), _)| *name != best)
            .map(|((name, other), least)| bound(least).to_string() + &more(iops, *other, name))
            .collect();
        list(&parts)
    }
}

fn names(served: &Served<'_>) -> String {
    list(&served.iter().map(|(name, _)| (*name).to_string()).collect::<Vec<_>>())
}

/// Where the sweep begins or ends, e.g. `iops=1200`.
fn end_of(report: &CompareReport, last: bool) -> String {
    let Some(axis) = &report.axis else { return "one load".into() };
    let number = |value: &&String| value.parse::<f64>().unwrap_or(f64::NAN);
    let by_number = |a: &&String, b: &&String| number(a).total_cmp(&number(b));
    let values = axis.values.iter();
    let value = if last { values.max_by(by_number) } else { values.min_by(by_number) };
    format!("{}={}", axis.name, value.map_or("", |value| value))
}

/// The winner at a response time, by how much, and what the sweep does not show of it.
fn at_response(report: &CompareReport, ms: f64) -> Vec<String> {
    let level = Level::of(report, ms);
    let Level { crossed, open, above, .. } = &level;
    if crossed.len() + open.len() + above.len() < 2 {
        return Vec::new();
    }
    let at = format!("At a mean response time of {ms} ms");
    let mut said = Vec::new();
    match (open.as_slice(), crossed.as_slice()) {
        ([], []) => {
            let begin = end_of(report, false);
            said.push(format!(
                "All are above {ms} ms at every load: begin the sweep below {begin}, or raise \
                 --at-ms."
            ));
        }
        ([], [(best, iops), ..]) => {
            let lead = level.lead(best, *iops, false);
            said.push(format!("{at} {best} serves {} I/O/s: {lead}.", whole(*iops)));
        }
        ([(best, iops)], _) => {
            let lead = level.lead(best, *iops, true);
            let iops = whole(*iops);
            said.push(format!("{at} {best} serves most: at least {iops} I/O/s, {lead}."));
        }
        ([.., (_, least)], _) => {
            let (names, lead) = (names(open), level.lead("", *least, true));
            let rest = if lead.is_empty() { String::new() } else { format!(", {lead}") };
            let least = whole(*least);
            said.push(format!("{at} {names} serve at least {least} I/O/s each{rest}."));
        }
    }
    if !open.is_empty() {
        let verb = if open.len() == 1 { "stays" } else { "stay" };
        let (names, end) = (names(open), end_of(report, true));
        said.push(format!(
            "{names} {verb} below {ms} ms to the end of the sweep ({end}): extend it to see how \
             much more there is."
        ));
    }
    said.extend(above_at_every_load(&level));
    said
}

/// What is above the level from the first load on, next to others that are not.
fn above_at_every_load(level: &Level<'_>) -> Option<String> {
    let others = level.open.len() + level.crossed.len();
    let verb = if level.above.len() == 1 { "is" } else { "are" };
    (others > 0 && !level.above.is_empty()).then(|| {
        format!("{} {verb} above {} ms at every load of the sweep.", names(&level.above), level.ms)
    })
}

/// Whether some level does not show which variant serves most.
fn open_everywhere(report: &CompareReport) -> bool {
    report.at_response.iter().any(|at| {
        let level = Level::of(report, at.response_ms);
        level.open.len() > 1 || level.open.is_empty() && level.crossed.is_empty()
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Reach, estimate};
    use destage_report::model::Axis;

    /// A sweep from 300 to 1,200 that shows this of each variant.
    fn findings(levels: &[(&str, Reach)]) -> Vec<String> {
        let values = ["300", "1200"].map(String::from).to_vec();
        let axis = Axis { name: "iops".into(), unit: "I/O/s".into(), values };
        let mut report = CompareReport { axis: Some(axis), ..CompareReport::default() };
        for (place, (name, reach)) in levels.iter().enumerate() {
            report.at_response.push(AtResponse {
                variant: (*name).to_string(),
                response_ms: 20.0,
                iops: if let Reach::At(iops) = reach { Some(*iops) } else { None },
                at_least_iops: if let Reach::AtLeast(iops) = reach { Some(*iops) } else { None },
                below_iops: if let Reach::Below(iops) = reach { Some(*iops) } else { None },
            });
            report.points.push(Point {
                variant: (*name).to_string(),
                value: "1200".into(),
                iops: estimate(&[1199.0]),
                response_ms: estimate(&[10.0 + place as f64]),
                runs: Vec::new(),
            });
        }
        of(&report)
    }

    #[test]
    fn one_that_stays_below_the_level_wins() {
        let found = findings(&[
            ("lrw", Reach::At(800.0)),
            ("stow", Reach::AtLeast(1199.0)),
            ("cscan", Reach::Below(299.0)),
        ]);
        assert_eq!(
            found[0],
            "At a mean response time of 20 ms stow serves most: at least 1,199 I/O/s, at least \
             50 % more than lrw and at least 4.01 times as many as cscan."
        );
        assert!(found[1].contains("stow stays below 20 ms to the end of the sweep (iops=1200)"));
        assert_eq!(found[2], "cscan is above 20 ms at every load of the sweep.");
    }

    #[test]
    fn those_that_all_cross_are_ranked() {
        let found = findings(&[("lrw", Reach::At(800.0)), ("wow", Reach::At(600.0))]);
        let wins = "At a mean response time of 20 ms lrw serves 800 I/O/s: 33 % more than wow.";
        assert_eq!(found, [wins]);
    }

    #[test]
    fn several_that_stay_below_are_ranked_at_the_last_load() {
        let found = findings(&[
            ("wow", Reach::AtLeast(1199.0)),
            ("stow", Reach::AtLeast(1198.0)),
            ("lrw", Reach::At(800.0)),
        ]);
        assert!(found[0].contains("wow and stow serve at least 1,198 I/O/s each"), "{found:?}");
        assert!(found[1].contains("wow and stow stay below"), "{found:?}");
        assert!(found[2].contains("At iops 1200 wow answers fastest"), "{found:?}");
    }

    #[test]
    fn a_sweep_that_is_all_above_says_so() {
        let found = findings(&[("wow", Reach::Below(300.0)), ("lrw", Reach::Below(299.0))]);
        assert!(found[0].starts_with("All are above 20 ms at every load: begin the sweep below"));
        assert!(found[0].contains("iops=300"), "{found:?}");
    }
}
