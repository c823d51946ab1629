//! What a comparison means, in plain sentences drawn from its figures.

use crate::settling::{is_overloaded, is_unsettled};
use destage_report::model::{AtResponse, Axis, CompareReport, Point, RunReport};
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

fn list<T: AsRef<str>>(parts: &[T]) -> String {
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    match parts.as_slice() {
        [] => String::new(),
        [one] => (*one).to_string(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn hundredths(ms: f64) -> String {
    format!("{ms:.2}")
}

fn whole(value: f64) -> String {
    thousands(&format!("{value:.0}"))
}

/// Values of variants: those that are best, which differ by no more than a report shows, and the
/// others, best first.
struct Ranking<'a> {
    best: Vec<&'a str>,
    value: f64,
    others: Vec<(&'a str, f64)>,
}

impl<'a> Ranking<'a> {
    /// Nothing where there are not several values to compare.
    fn of(
        mut values: Vec<(&'a str, f64)>,
        highest_first: bool,
        shown: fn(f64) -> String,
    ) -> Option<Ranking<'a>> {
        values
            .sort_by(|a, b| if highest_first { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
        let value = values.first().filter(|_| values.len() > 1)?.1;
        let (best, others): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|(_, other)| equal(value, *other, shown));
        Some(Ranking { best: best.into_iter().map(|(name, _)| name).collect(), value, others })
    }

    /// The best, with the verb for one or for several of them.
    fn best(&self, one: &str, several: &str) -> String {
        let verb = if self.best.len() == 1 { one } else { several };
        format!("{} {verb}", list(&self.best))
    }

    /// The value, of each if several are the best.
    fn each(&self) -> &'static str {
        if self.best.len() == 1 { "" } else { " each" }
    }

    /// How the best compare with the others, by `by`.
    fn lead(&self, by: fn(f64, f64, &str) -> String) -> String {
        let others = self.others.iter().map(|(name, other)| by(self.value, *other, name));
        list(&others.collect::<Vec<_>>())
    }
}

/// Whether two values are shown the same, or differ by less than a finding shows.
fn equal(one: f64, other: f64, shown: fn(f64) -> String) -> bool {
    let largest = one.abs().max(other.abs());
    shown(one) == shown(other) || (one - other).abs() < 0.005 * largest
}

/// Variants with their throughput, as far as the sweep shows it.
type Served<'a> = Vec<(&'a str, f64)>;

/// A variant that crosses a level.
struct Crossing<'a> {
    name: &'a str,
    /// Where, in I/O/s: one value twice, or two points of the sweep that are far apart.
    between: [f64; 2],
}

impl Crossing<'_> {
    fn is_coarse(&self) -> bool {
        self.between[0] < self.between[1]
    }

    fn shown(&self) -> String {
        let [low, high] = self.between.map(whole);
        if self.is_coarse() { format!("{low} to {high}") } else { low }
    }
}

/// What the sweep shows of a level: variants that cross it, that stay below it to the end, and
/// that are above it from the beginning.
struct Level<'a> {
    ms: f64,
    crossed: Vec<Crossing<'a>>,
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
        let at_level = report.at_response.iter().filter(|at| at.response_ms == ms);
        let mut crossed: Vec<Crossing<'_>> = at_level
            .filter_map(|at| {
                let between = at.coarse().or(at.iops.map(|iops| [iops, iops]))?;
                Some(Crossing { name: &at.variant, between })
            })
            .collect();
        crossed.sort_by(|a, b| b.between[0].total_cmp(&a.between[0]));
        Level { ms, crossed, open: of(|at| at.at_least_iops), above: of(|at| at.below_iops) }
    }

    /// How much more than the others those serve that serve `iops`, or at least that.
    fn lead(&self, best: &[&str], iops: f64, at_least: bool) -> String {
        let bound = |least: bool| if least { "at least " } else { "" };
        let most = |other: &Crossing<'_>| other.between[1];
        let crossed = self.crossed.iter().map(|c| (c.name, most(c), at_least || c.is_coarse()));
        let all = crossed.chain(self.above.iter().map(|(name, iops)| (*name, *iops, true)));
        let parts: Vec<String> = all
            .filter(|(name, ..)| !best.contains(name))
            .map(|(name, other, least)| match iops / other {
                // They share a point of the sweep, which is below the level with the best alone.
                ratio if least && ratio < 1.005 => format!("more than {name}"),
                _ => bound(least).to_string() + &more(iops, other, name),
            })
            .collect();
        list(&parts)
    }

    /// What to say where the points of the sweep are too far apart to name the best.
    fn undecided(&self, at: &str, first: &Crossing<'_>) -> Option<String> {
        let rivals = |c: &Crossing<'_>| c.between[1] > first.between[0] || c.name == first.name;
        let (rivals, others): (Vec<&Crossing<'_>>, Vec<_>) =
            self.crossed.iter().partition(|c| rivals(c));
        if rivals.len() < 2 || !rivals.iter().any(|c| c.is_coarse()) {
            return None;
        }
        let shown = |c: &&Crossing<'_>| format!("{} ({} I/O/s)", c.name, c.shown());
        let rivals = list(&rivals.iter().map(shown).collect::<Vec<_>>());
        let less = match others.len() {
            0 => String::new(),
            1 => format!(" {} serves less.", others[0].name),
            _ => {
                let names: Vec<&str> = others.iter().map(|c| c.name).collect();
                format!(" {} serve less.", list(&names))
            }
        };
        Some(format!(
            "{at} the steps of the sweep are too large to say which of {rivals} serves most: use \
             steps of at most a tenth of the load there.{less}"
        ))
    }

    /// Those that cross it: the best, or the equally good, and by how much they lead.
    fn ranked(&self, at: &str) -> String {
        let Some(first) = self.crossed.first() else { return String::new() };
        let most = first.between[0];
        if let Some(undecided) = self.undecided(at, first) {
            return undecided;
        }
        let is_best = |c: &&Crossing<'_>| !c.is_coarse() && equal(most, c.between[0], whole);
        let mut best: Vec<&str> = self.crossed.iter().filter(is_best).map(|c| c.name).collect();
        if first.is_coarse() {
            best = vec![first.name];
        }
        let lead = self.lead(&best, most, first.is_coarse());
        let (names, iops) = (list(&best), first.shown());
        match (best.len(), lead.as_str()) {
            (1, _) => format!("{at} {names} serves {iops} I/O/s: {lead}."),
            (_, "") => format!("{at} {names} serve the same: {iops} I/O/s."),
            _ => format!("{at} {names} serve {iops} I/O/s each: {lead}."),
        }
    }
}

fn names(served: &Served<'_>) -> String {
    list(&served.iter().map(|(name, _)| *name).collect::<Vec<_>>())
}

/// Values of an axis, numbers rising: others as they are listed.
fn rising(axis: &Axis) -> Vec<&str> {
    let mut values: Vec<&str> = axis.values.iter().map(String::as_str).collect();
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
    if numbers.is_some() {
        let number = |value: &str| value.parse::<f64>().unwrap_or(f64::NAN);
        values.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    values
}

/// Where the sweep begins or ends, e.g. `iops=1200`.
fn end_of(report: &CompareReport, last: bool) -> String {
    let Some(axis) = &report.axis else { return "one load".into() };
    let values = rising(axis);
    let value = if last { values.last() } else { values.first() };
    format!("{}={}", axis.name, value.unwrap_or(&""))
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
        ([], [_, ..]) => said.push(level.ranked(&at)),
        ([(best, iops)], _) => {
            let lead = level.lead(&[*best], *iops, true);
            let iops = whole(*iops);
            said.push(format!("{at} {best} serves most: at least {iops} I/O/s, {lead}."));
        }
        ([.., (_, least)], _) => {
            let (names, lead) = (names(open), level.lead(&[], *least, true));
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

fn at_load(report: &CompareReport) -> Option<String> {
    // The largest value is the heaviest load; without an axis there is only one.
    let value = report.axis.as_ref().map(|axis| rising(axis).pop().unwrap_or_default());
    let at_value = |p: &&Point| value.is_none_or(|value| p.value == value);
    let points: Vec<&Point> = report.points.iter().filter(at_value).collect();
    let at = at_value_of(report, value);
    let of = |get: fn(&Point) -> f64| points.iter().map(|p| (p.variant.as_str(), get(p))).collect();
    let served = Ranking::of(of(|p| p.iops.mean), true, whole)?;
    let least = points.iter().map(|p| p.iops.mean).fold(served.value, f64::min);
    if !served.others.is_empty() && served.value > 1.03 * least.max(1e-9) {
        let (best, each, lead) = (served.best("serves", "serve"), served.each(), served.lead(more));
        let most = format!("{at} {best} most: {} I/O/s{each}, {lead}.", whole(served.value));
        let is_best = |point: &&&Point| served.best.contains(&point.variant.as_str());
        let times = points.iter().filter(is_best);
        let times = times.map(|p| (p.variant.as_str(), p.response_ms.mean)).collect();
        // Those that serve the same may be far apart in how fast they answer.
        let fastest = Ranking::of(times, false, hundredths).filter(|f| !f.others.is_empty());
        let Some(fastest) = fastest else { return Some(most) };
        let (mean, lead) = (hundredths(fastest.value), fastest.lead(less));
        let best = fastest.best("answers", "answer");
        return Some(format!("{most} Of these {best} fastest: {mean} ms on average, {lead}."));
    }
    let fastest = Ranking::of(of(|p| p.response_ms.mean), false, hundredths)?;
    let (mean, each) = (hundredths(fastest.value), fastest.each());
    let same = "Throughput is the same.";
    Some(match fastest.lead(less).as_str() {
        "" => {
            let names = list(&fastest.best);
            format!("{at} {names} answer equally fast: {mean} ms on average. {same}")
        }
        lead => {
            let best = fastest.best("answers", "answer");
            format!("{at} {best} fastest: {mean} ms on average{each}, {lead}. {same}")
        }
    })
}

/// Where a sentence holds, e.g. `At iops 900`.
fn at_value_of(report: &CompareReport, value: Option<&str>) -> String {
    match (&report.axis, value) {
        (Some(axis), Some(value)) => format!("At {} {value}", axis.name),
        _ => "Over the run".to_string(),
    }
}

/// Where policies differ most tellingly: the heaviest load at which some variant still answers
/// within the response time asked for; else the heaviest.
fn telling_value(report: &CompareReport) -> Option<&str> {
    let values = rising(report.axis.as_ref()?);
    let level = report.at_response.first().map_or(f64::INFINITY, |a| a.response_ms);
    let carried = values.iter().rev().find(|value| {
        report.points.iter().any(|p| p.value == **value && p.response_ms.mean <= level)
    });
    carried.or(values.last()).copied()
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
    let at = at_value_of(report, value);
    let sentence = |(what, low, get, show): &Reason| {
        let mean = |p: &Point| p.runs.iter().map(get).sum::<f64>() / p.runs.len().max(1) as f64;
        let mut values: Vec<(&str, f64)> =
            points.iter().map(|p| (p.variant.as_str(), mean(p))).collect();
        values.sort_by(|a, b| if *low { a.1.total_cmp(&b.1) } else { b.1.total_cmp(&a.1) });
        let (first, last) = (show(values.first()?.1), show(values.last()?.1));
        let with = |shown: &str| {
            let same = values.iter().filter(|(_, value)| show(*value) == shown);
            list(&same.map(|(name, _)| *name).collect::<Vec<_>>())
        };
        let (best, worst) = (with(&first), with(&last));
        (first != last)
            .then(|| format!("{at} {what} with {best}: {first}, against {last} with {worst}."))
    };
    REASONS.iter().filter_map(sentence).collect()
}

/// What limits what the figures say: points that serve too little, and others that had not settled.
fn warnings(report: &CompareReport) -> Vec<String> {
    let (overloaded, others): (Vec<&Point>, Vec<&Point>) =
        report.points.iter().partition(|p| p.runs.iter().any(is_overloaded));
    let unsettled = others.iter().filter(|p| p.runs.iter().any(is_unsettled)).count();
    let all = report.points.len();
    let mut found = Vec::new();
    if !overloaded.is_empty() {
        found.push(format!(
            "Warning: {} of {all} points are overloaded: their response times grow with the \
             measured window. Compare response times at lighter loads.",
            overloaded.len()
        ));
    }
    if unsettled > 0 {
        found.push(format!(
            "Warning: {unsettled} of {all} points had not settled. Use a longer --warmup and \
             --measure."
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::estimate;

    /// What a sweep shows of a variant at a level.
    enum Reached {
        /// Crossed here, between the targets of two points.
        At(f64, [f64; 2]),
        AtLeast(f64),
        Below(f64),
    }

    /// A sweep from 300 to 1,200 that shows this of each variant.
    fn findings(levels: &[(&str, Reached)]) -> Vec<String> {
        let values = ["300", "1200"].map(String::from).to_vec();
        let axis = Axis { name: "iops".into(), unit: "I/O/s".into(), values };
        let mut report = CompareReport { axis: Some(axis), ..CompareReport::default() };
        for (place, (name, reach)) in levels.iter().enumerate() {
            report.at_response.push(AtResponse {
                variant: (*name).to_string(),
                response_ms: 20.0,
                iops: if let Reached::At(iops, _) = reach { Some(*iops) } else { None },
                between_iops: if let Reached::At(_, pair) = reach { Some(*pair) } else { None },
                at_least_iops: if let Reached::AtLeast(iops) = reach { Some(*iops) } else { None },
                below_iops: if let Reached::Below(iops) = reach { Some(*iops) } else { None },
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
            ("lrw", Reached::At(800.0, [780.0, 820.0])),
            ("stow", Reached::AtLeast(1199.0)),
            ("cscan", Reached::Below(299.0)),
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
        let found = findings(&[
            ("lrw", Reached::At(800.0, [780.0, 820.0])),
            ("wow", Reached::At(600.0, [580.0, 620.0])),
        ]);
        let wins = "At a mean response time of 20 ms lrw serves 800 I/O/s: 33 % more than wow.";
        assert_eq!(found, [wins]);
    }

    #[test]
    fn points_far_apart_rank_only_what_they_show() {
        let found = findings(&[
            ("lrw", Reached::At(531.0, [500.0, 826.0])),
            ("wow", Reached::At(558.0, [500.0, 580.0])),
            ("cscan", Reached::At(450.0, [440.0, 470.0])),
        ]);
        assert_eq!(
            found,
            ["At a mean response time of 20 ms the steps of the sweep are too large to say which \
              of lrw (500 to 826 I/O/s) and wow (500 to 580 I/O/s) serves most: use steps of at \
              most a tenth of the load there. cscan serves less."]
        );
        let found = findings(&[
            ("lrw", Reached::At(710.0, [700.0, 826.0])),
            ("wow", Reached::At(558.0, [550.0, 600.0])),
        ]);
        assert_eq!(
            found,
            ["At a mean response time of 20 ms lrw serves 700 to 826 I/O/s: at least 25 % more \
              than wow."]
        );
        let found = findings(&[
            ("cscan", Reached::At(650.0, [600.0, 800.0])),
            ("stow", Reached::At(560.0, [400.0, 600.0])),
        ]);
        assert!(found[0].ends_with("cscan serves 600 to 800 I/O/s: more than stow."), "{found:?}");
        let found = findings(&[
            ("lrw", Reached::At(710.0, [700.0, 826.0])),
            ("stow", Reached::AtLeast(1100.0)),
        ]);
        assert!(found[0].ends_with("at least 1,100 I/O/s, at least 33 % more than lrw."));
    }

    #[test]
    fn several_that_stay_below_are_ranked_at_the_last_load() {
        let found = findings(&[
            ("wow", Reached::AtLeast(1199.0)),
            ("stow", Reached::AtLeast(1198.0)),
            ("lrw", Reached::At(800.0, [780.0, 820.0])),
        ]);
        assert!(found[0].contains("wow and stow serve at least 1,198 I/O/s each"), "{found:?}");
        assert!(found[1].contains("wow and stow stay below"), "{found:?}");
        assert!(found[2].contains("At iops 1200 wow answers fastest"), "{found:?}");
    }

    /// Points of variants: their axis value, throughput and mean response time.
    fn of_points(values: &[&str], points: &[(&str, &str, f64, f64)]) -> Vec<String> {
        let values = values.iter().map(ToString::to_string).collect();
        let axis = Axis { name: "iops".into(), unit: "I/O/s".into(), values };
        let point = |(variant, value, iops, ms): &(&str, &str, f64, f64)| Point {
            variant: (*variant).to_string(),
            value: (*value).to_string(),
            iops: estimate(&[*iops]),
            response_ms: estimate(&[*ms]),
            runs: Vec::new(),
        };
        let points = points.iter().map(point).collect();
        of(&CompareReport { axis: Some(axis), points, ..CompareReport::default() })
    }

    #[test]
    fn the_heaviest_load_ranks_wherever_it_is_listed() {
        let points = [
            ("lrw", "1000", 990.0, 9.0),
            ("lrw", "900", 900.0, 5.0),
            ("stow", "1000", 990.0, 6.0),
            ("stow", "900", 900.0, 5.5),
        ];
        let found = of_points(&["1000", "900"], &points);
        assert_eq!(
            found[0],
            "At iops 1000 stow answers fastest: 6.00 ms on average, 33 % less than lrw. Throughput \
             is the same."
        );
    }

    #[test]
    fn equal_results_have_no_winner() {
        let found = |points: &[(&str, &str, f64, f64)]| of_points(&["300"], points)[0].clone();
        let (lrw, wow) = (("lrw", "300", 300.0, 0.001), ("wow", "300", 300.0, 0.004));
        assert_eq!(
            found(&[lrw, wow]),
            "At iops 300 lrw and wow answer equally fast: 0.00 ms on average. Throughput is the \
             same."
        );
        assert_eq!(
            found(&[lrw, ("cscan", "300", 300.0, 2.0), wow]),
            "At iops 300 lrw and wow answer fastest: 0.00 ms on average each, 100 % less than \
             cscan. Throughput is the same."
        );
        let full = [("lrw", "300", 200.0, 40.0), ("wow", "300", 250.0, 60.0)];
        assert_eq!(
            found(&[full[0], full[1], ("stow", "300", 250.2, 50.0)]),
            "At iops 300 stow and wow serve most: 250 I/O/s each, 25 % more than lrw. Of these \
             stow answers fastest: 50.00 ms on average, 17 % less than wow."
        );
        let found = findings(&[
            ("lrw", Reached::At(800.0, [780.0, 820.0])),
            ("wow", Reached::At(800.2, [780.0, 820.0])),
        ]);
        let same = "At a mean response time of 20 ms wow and lrw serve the same: 800 I/O/s.";
        assert_eq!(found, [same]);
        let (stow, cscan) = (
            ("stow", Reached::At(800.0, [780.0, 820.0])),
            ("cscan", Reached::At(500.0, [480.0, 520.0])),
        );
        let found = findings(&[stow, ("wow", Reached::At(801.0, [781.0, 821.0])), cscan]);
        let both = "At a mean response time of 20 ms wow and stow serve 801 I/O/s each: 60 % more \
                    than cscan.";
        assert_eq!(found, [both]);
    }

    #[test]
    fn a_reason_names_all_that_are_equal() {
        let axis = Axis { name: "iops".into(), unit: "I/O/s".into(), values: vec!["9".into()] };
        let mut report = CompareReport { axis: Some(axis), ..CompareReport::default() };
        for (variant, time_full) in [("lrw", 0.5), ("stow", 0.0), ("wow", 0.0001)] {
            let mut run = RunReport { time_full, ..RunReport::default() };
            run.response.writes.count = 1;
            let (iops, response_ms) = (estimate(&[9.0]), estimate(&[1.0]));
            let (variant, value, runs) = (variant.into(), "9".into(), vec![run]);
            report.points.push(Point { variant, value, iops, response_ms, runs });
        }
        assert_eq!(
            of(&report)[1],
            "At iops 9 the NVS was full for the least time with stow and wow: 0.0 %, against 50.0 \
             % with lrw."
        );
    }

    #[test]
    fn a_sweep_that_is_all_above_says_so() {
        let found = findings(&[("wow", Reached::Below(300.0)), ("lrw", Reached::Below(299.0))]);
        assert!(found[0].starts_with("All are above 20 ms at every load: begin the sweep below"));
        assert!(found[0].contains("iops=300"), "{found:?}");
    }
}
