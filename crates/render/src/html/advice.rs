//! One HTML file that shows advice: the answer, why the size below misses, the goal's figure and the
//! stalls by size. The page's own script is `advice.js` next to this file.

use super::data::harmless;
use super::{CHARTS, ChartBox, head, html_table, list, options, plotly_js};
use crate::escape::escape;
use destage_report::advice::Advice;
use serde_json::json;
use std::fmt::Write;

const SCRIPT: &str = include_str!("advice.js");

/// The page; it needs nothing but itself.
pub fn advice_html(advice: &Advice) -> String {
    let title = escape(&format!("How much NVS for {}{}", advice.goal, advice.headroom()));
    let mut out = String::with_capacity(plotly_js().len() + (1 << 20));
    out += &head(&title);
    let answer = list("findings", "Answer", &answer(advice));
    let sure = list("sure", "How sure", &advice.sure);
    let _ = write!(out, "<header>\n<h1>{title}</h1>\n{answer}{sure}</header>\n<main>\n");
    out += &figures();
    for (name, note, table) in [
        ("By size", "The best variant of each size simulated.", advice.size_table()),
        ("Full simulations", "Every run that the search made.", advice.runs_table()),
        ("Sampled replay", "Pages destaged for each page written.", advice.curve_table()),
    ] {
        let table = html_table(name, &table);
        let _ = write!(out, "<section>\n<h2>{name}</h2>\n<p>{note}</p>\n{table}</section>\n");
    }
    let _ = write!(out, "<section>\n{}</section>\n", options(&advice.options));
    let data = json!({"advice": advice, "looks": looks(advice)}).to_string();
    let _ = write!(
        out,
        "</main>\n<script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>{}</script>\n<script>\n{CHARTS}{SCRIPT}</script>\n</body>\n</html>\n",
        harmless(&data),
        plotly_js()
    );
    out
}

/// The look of each policy's line, by its name.
fn looks(advice: &Advice) -> std::collections::BTreeMap<&str, usize> {
    let of_runs = advice.runs.iter().map(|run| run.policy.as_str());
    let of_curve = advice.curve.iter().map(|point| point.policy.as_str());
    let mut names: Vec<&str> = Vec::new();
    for name in of_runs.chain(of_curve) {
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
        said.push(format!("One step below, {size} misses the goal: {figure}."));
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
