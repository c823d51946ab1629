//! One HTML file that shows what traces hold: charts of one trace at a time, and tables of all. The
//! page's own script is `trace.js` next to this file.

use super::{ChartBox, html_table, list, page, section};
use crate::escape::escape;
use crate::trace::{heading, sections};
use destage_report::trace::{TraceAnalyses, TraceAnalysis};

const SCRIPT: &str = include_str!("trace.js");

/// The page; it needs nothing but itself.
pub fn trace_html(analyses: &TraceAnalyses) -> String {
    let title = match analyses.traces.as_slice() {
        [trace] => format!("Trace {}", file_name(trace)),
        traces => format!("{} traces", traces.len()),
    };
    let about: Vec<String> = analyses.traces.iter().map(heading).collect();
    let header = list("findings", "What was read", &about) + &warnings(analyses);
    let mut main = toolbar(analyses) + &figures();
    for trace in &analyses.traces {
        main += &tables(trace, analyses.traces.len() == 1);
    }
    let data = serde_json::to_string(analyses).expect("plain numbers");
    page(&title, &header, &main, &data, SCRIPT)
}

fn file_name(trace: &TraceAnalysis) -> &str {
    trace.file.rsplit('/').next().unwrap_or_default()
}

fn warnings(analyses: &TraceAnalyses) -> String {
    let of = |trace: &TraceAnalysis| {
        let name = file_name(trace).to_string();
        trace.warnings.iter().map(move |warning| format!("{name}: {warning}")).collect::<Vec<_>>()
    };
    list("warnings", "Warnings", &analyses.traces.iter().flat_map(of).collect::<Vec<_>>())
}

/// Which trace the charts show.
fn toolbar(analyses: &TraceAnalyses) -> String {
    if analyses.traces.len() < 2 {
        return String::new();
    }
    let option = |(i, trace): (usize, &TraceAnalysis)| {
        format!("<option value=\"{i}\">{}</option>", escape(file_name(trace)))
    };
    let options: String = analyses.traces.iter().enumerate().map(option).collect();
    format!(
        "<div class=\"toolbar\">\n<label class=\"value\">Charts of trace \
         <select id=\"trace\">{options}</select></label>\n</div>\n"
    )
}

const RATE_MENU: &str = "<label>Figure <select id=\"rate-of\"><option value=\"0\">Requests\
    </option><option value=\"1\">Bytes</option></select></label>";
const HOURS_MENU: &str = "<label>Share of <select id=\"hours-of\"><option value=\"0\">Requests\
    </option><option value=\"1\">Bytes</option></select></label>";
const PLACE_MENU: &str = "<label>Device <select id=\"device\"></select></label>";

/// The charts: identifier, heading, note, controls, and whether it takes the full width.
const BOXES: [(&str, &str, &str, &str, bool); 8] = [
    ("rate", "Rate over time", "Mean of each interval.", RATE_MENU, true),
    (
        "working",
        "Working set over time",
        "Distinct pages accessed in each interval, and footprint: those accessed until its end.",
        "",
        true,
    ),
    (
        "misses",
        "Miss ratio by cache size",
        "LRU, exact. Reads and writes each have a cache of their own, which is empty at first.",
        "",
        false,
    ),
    (
        "reuse",
        "Reuse distances",
        "Distinct other pages accessed between two accesses of a page, as data. A bar has the \
         distances below its size, and not below the size before.",
        "",
        false,
    ),
    ("sizes", "Request sizes", "Requests up to each size, and above the one before.", "", false),
    ("hours", "Reads and writes by hour", "Hours since the first request.", HOURS_MENU, false),
    (
        "hottest",
        "Accesses on the hottest pages",
        "Share of page accesses on the pages that have the most.",
        "",
        false,
    ),
    ("places", "Heat over the address space", "Page accesses by place.", PLACE_MENU, false),
];

fn figures() -> String {
    let mut out = String::from("<div class=\"figures\">\n");
    for (id, heading, note, controls, wide) in BOXES {
        out += &ChartBox { id, heading, note, controls, wide, at_value: true }.html();
    }
    out + "</div>\n"
}

/// The tables of a trace, which are folded away if there are several.
fn tables(trace: &TraceAnalysis, open: bool) -> String {
    let open = if open { " open" } else { "" };
    let name = file_name(trace);
    let summary = escape(&format!("Tables of {name}"));
    let mut out = format!("<details{open}>\n<summary>{summary}</summary>\n");
    for part in sections(trace) {
        let note = escape(&part.note);
        let note = if note.is_empty() { note } else { format!("<p>{note}</p>\n") };
        let table = html_table(&format!("{}, {name}", part.heading), &part.table);
        out += &section("", &part.heading, &(note + &table));
    }
    out + "</details>\n"
}
