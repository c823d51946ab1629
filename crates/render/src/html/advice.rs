//! One HTML file that shows advice: the answer, why the size below misses, the goal's figure and
//! the stalls by size. The page's own script is `advice.js` next to this file.

use super::{ChartBox, html_table, list, options, page, section, settings};
use destage_report::advice::{Advice, verdicts};
use serde_json::json;
use std::collections::BTreeMap;

const SCRIPT: &str = include_str!("advice.js");

/// The page; it needs nothing but itself.
pub fn advice_html(advice: &Advice) -> String {
    let header = settings(&advice.options)
        + &list("findings", "Answer", &answer(advice))
        + &list("warnings", "Warnings", &advice.warnings)
        + &list("sure", "How sure", &advice.sure);
    let mut main = figures();
    for (name, note, table) in [
        ("By size", "The best variant of each size simulated.", advice.size_table()),
        ("Full simulations", "Every run that the search made.", advice.runs_table()),
        ("Sampled replay", "Pages destaged for each page written.", advice.curve_table()),
    ] {
        let table = html_table(name, &table);
        main += &section("", name, &format!("<p>{note}</p>\n{table}"));
    }
    main += &options(&advice.options);
    let verdicts = verdicts(&advice.runs, advice.load_factor);
    let data = json!({"advice": advice, "verdicts": verdicts, "looks": looks(advice)});
    let title = format!("How much NVS for {}{}", advice.goal, advice.headroom());
    page(&title, &header, &main, &data.to_string(), SCRIPT)
}

/// The look of each policy's line, by its name, which has parameters in the curve.
fn looks(advice: &Advice) -> BTreeMap<&str, usize> {
    let of_runs = looks_of(advice.runs.iter().map(|run| run.policy.as_str()));
    let of_curve = looks_of(advice.curve.iter().map(|point| point.policy.as_str()));
    of_runs.into_iter().chain(of_curve).collect()
}

fn looks_of<'a>(all: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let looks = destage_report::look::looks(&names);
    names.into_iter().zip(looks).collect()
}

fn answer(advice: &Advice) -> Vec<String> {
    let mut said = Vec::new();
    match (&advice.answer, advice.margin) {
        (Some(answer), Some(margin)) => {
            let inside = 100.0 * margin;
            said.push(format!(
                "{}: {}, {inside:.1} % inside the goal.",
                answer.describe(),
                answer.figure_text()
            ));
        }
        _ => said.push("None of the sizes reaches the goal.".into()),
    }
    if let Some(needs) = &advice.needs {
        let mib = |bytes: u64| (bytes as f64 / f64::from(1 << 20)).ceil();
        let cost = advice.prices.map(|prices| prices.cost(needs));
        let cost = cost.map_or_else(String::new, |cost| format!(" They cost {cost:.2}."));
        said.push(format!(
            "A served array needs an NVS device of {} MiB (sectors of 4,096 bytes) and {} MiB of \
             memory for it.{cost}",
            mib(needs.device_bytes_4096),
            mib(needs.memory_bytes)
        ));
    }
    if let Some(below) = &advice.below {
        let (size, figure) = (below.describe(), below.figure_text());
        said.push(match advice.answer {
            Some(_) => format!("One step below, {size} misses the goal: {figure}."),
            None => format!("The largest size tried, {size}, misses the goal: {figure}."),
        });
    }
    said.extend(advice.missed.iter().map(|missed| format!("Why it misses: {missed}.")));
    said
}

/// The charts: identifier, heading, note, and whether it takes the full width.
const BOXES: [(&str, &str, &str, bool); 4] = [
    (
        "goal",
        "The goal by NVS size",
        "The figure farthest from its limit, as a share of the limit: below 100 % the goal is \
         reached. The best thresholds of each policy. Open marks are runs that do not count, e.g. \
         as the load was not sustained.",
        true,
    ),
    ("stalls", "Stalls by NVS size", "Writes that waited for space, of those runs.", false),
    ("busy", "Disk time by NVS size", "Time that the busiest disk was busy.", false),
    (
        "work",
        "Destages by NVS size",
        "Pages destaged for each page written, by a replay without time.",
        true,
    ),
];

fn figures() -> String {
    let mut out = String::from("<div class=\"figures\">\n");
    for (id, heading, note, wide) in BOXES {
        out += &ChartBox { id, heading, note, controls: "", wide, at_value: false }.html();
    }
    out + "</div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_report::advice::{AdvisedRun, CurvePoint};

    #[test]
    fn the_page_warns_and_names_the_size_that_misses() {
        let below = Some(AdvisedRun { nvs_pages: 64, ..AdvisedRun::default() });
        let mut advice = Advice { below, ..Advice::default() };
        assert!(!advice_html(&advice).contains("<h2>Warnings</h2>"));
        assert!(answer(&advice)[1].starts_with("The largest size tried, 64 pages"));
        advice.answer = Some(AdvisedRun::default());
        advice.warnings = vec!["2 devices <share> a volume".into()];
        assert!(answer(&advice)[1].starts_with("One step below, 64 pages"));
        let page = advice_html(&advice);
        let listed = "<h2>Warnings</h2>\n<ul>\n<li>2 devices &lt;share&gt; a volume</li>";
        assert!(page.contains(listed));
    }

    #[test]
    fn a_policy_has_one_look_in_runs_and_curve() {
        let run = |policy: &str| AdvisedRun { policy: policy.into(), ..AdvisedRun::default() };
        let point = |policy: &str| CurvePoint { policy: policy.into(), ..CurvePoint::default() };
        let advice = Advice {
            runs: vec![run("stow"), run("wow"), run("stow")],
            curve: vec![point("wow:initial-bit=0"), point("stow:hysteresis=128")],
            ..Advice::default()
        };
        let looks = looks(&advice);
        assert_eq!(looks["wow"], looks["wow:initial-bit=0"]);
        assert_eq!(looks["stow"], looks["stow:hysteresis=128"]);
        assert_ne!(looks["stow"], looks["wow"]);
    }
}
