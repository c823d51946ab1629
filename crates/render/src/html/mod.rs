//! One HTML file that holds an entire comparison: data, script and style, so that it opens anywhere
//! without a network. The page's parts are `page.css`, `charts.js` and `page.js` next to this file.

mod advice;
mod data;
mod reproduction;
mod tournament;
mod trace;

pub use advice::advice_html;
pub use reproduction::reproduction_html;
pub use tournament::tournament_html;
pub use trace::trace_html;

use crate::charts::{KINDS, Kind, response_scale};
use crate::escape::escape;
use crate::metric::{Metric, shown};
use crate::text::{BOUNDS, at_response_table, warnings};
use crate::view::{View, axis_label};
use destage_report::model::{CompareReport, simulated_as};
use destage_report::plot::Scale;
use destage_report::table::{Cell, Table};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;

const STYLE: &str = include_str!("page.css");
/// What the scripts of all pages have in common.
const CHARTS: &str = include_str!("charts.js");
const SCRIPT: &str = include_str!("page.js");

/// Forbids the page access to anything beyond the file.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; font-src data:";

/// The text of plotly.js, to be embedded in a page or served.
pub fn plotly_js() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        // The crate hands out two script elements: plotly.js and a formula renderer we do not use.
        let elements = plotly::Plot::offline_js_sources();
        let start = elements.find('>').map_or(0, |tag| tag + 1);
        let end = elements.find("</script>").unwrap_or(elements.len());
        elements[start..end].to_owned()
    })
}

/// A comparison as one HTML file: findings, charts to hover, zoom and filter, the table, options
/// and the command that makes it again.
pub fn html(report: &CompareReport) -> String {
    let view = View::new(report);
    let title = if report.title.is_empty() { "Comparison" } else { &report.title };
    let mut main = match report.points.is_empty() {
        true => String::from("<p>There are no points to show.</p>\n"),
        false => toolbar(&view) + &figures(&view) + &tables(&view),
    };
    main += &provenance(&view);
    let header = settings(&report.options) + &findings(report);
    page(title, &header, &main, &data::json(&view), SCRIPT)
}

/// Whose settings the simulations have, below the title.
fn settings(options: &BTreeMap<String, String>) -> String {
    let said = simulated_as(options).map(|said| format!("<p>Settings: {}.</p>\n", escape(said)));
    said.unwrap_or_default()
}

/// A page that needs nothing but itself: `header` is what is below its title, `data` what its
/// `script` reads, as JSON.
fn page(title: &str, header: &str, main: &str, data: &str, script: &str) -> String {
    let mut out = String::with_capacity(plotly_js().len() + (1 << 20));
    out += &head(title, "");
    let _ = write!(
        out,
        "{header}</header>\n<main>\n{main}{}\
         <script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>{}</script>\n<script>\n{CHARTS}{script}</script>\n</body>\n</html>\n",
        foot(),
        data::harmless(data),
        plotly_js()
    );
    out
}

/// The end of what a page shows.
fn foot() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "</main>\n<footer><p>Made by destage {version}. This page needs no network.</p></footer>\n"
    )
}

/// A part of a page; a class may be empty.
fn section(class: &str, heading: &str, inner: &str) -> String {
    let heading = escape(heading);
    format!(
        "<section class=\"{class}\" aria-label=\"{heading}\">\n<h2>{heading}</h2>\n{inner}\
         </section>\n"
    )
}

/// The beginning of a page: up to its title, after which its header continues.
fn head(title: &str, more_style: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{more_style}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n"
    )
}

/// Warnings shown at once; more are folded away.
const WARNINGS_OPEN: usize = 4;

fn list(class: &str, heading: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|s| format!("<li>{}</li>\n", escape(s))).collect();
    section(class, heading, &format!("<ul>\n{items}</ul>\n"))
}

fn findings(report: &CompareReport) -> String {
    let warnings = warnings(report);
    let items = list("warnings", "Warnings", &warnings);
    let folded = match warnings.len() {
        0..=WARNINGS_OPEN => items,
        count => format!("<details><summary>{count} warnings</summary>\n{items}</details>\n"),
    };
    list("findings", "Findings", &report.findings) + &folded
}

/// What filters all charts: a box per variant, filled in by the script, and the axis value.
fn toolbar(view: &View<'_>) -> String {
    let mut out = String::from(
        "<div class=\"toolbar\">\n<fieldset id=\"variants\"><legend>Show</legend></fieldset>\n",
    );
    if let Some(axis) = view.sweep() {
        let telling = view.telling();
        let option = |(i, value): (usize, &&str)| {
            let selected = if i == telling { " selected" } else { "" };
            format!("<option value=\"{i}\"{selected}>{}</option>", escape(value))
        };
        let options: String = view.values.iter().enumerate().map(option).collect();
        let label = escape(&axis_label(axis));
        let select = format!("<select id=\"value\">{options}</select>");
        let _ = writeln!(out, "<label class=\"value\">Details at {label} {select}</label>");
    }
    out + "</div>\n"
}

/// An empty figure that the script fills.
#[derive(Clone, Copy)]
struct ChartBox<'a> {
    id: &'static str,
    heading: &'a str,
    /// Sentences under the heading.
    note: &'a str,
    /// HTML.
    controls: &'a str,
    /// Whether it takes the full width; others stand two in a row.
    wide: bool,
    /// Whether it shows one value of the axis, which the script then names.
    at_value: bool,
}

impl ChartBox<'_> {
    fn html(&self) -> String {
        let (id, heading) = (self.id, escape(self.heading));
        let class = if self.wide { " class=\"wide\"" } else { "" };
        let at = if self.at_value { "<span class=\"at\"></span>" } else { "" };
        format!(
            "<figure id=\"fig-{id}\"{class}>\n<figcaption><h2>{heading}</h2>{}\
             <p>{at}{}</p></figcaption>\n\
             <div class=\"chart\" id=\"{id}\" role=\"img\" aria-label=\"{heading}; the figures \
             are in the table below\"></div>\n</figure>\n",
            self.controls, self.note
        )
    }
}

/// A switch for the scale of a figure's y axis.
fn log_switch(id: &str, on: bool) -> String {
    let checked = if on { " checked" } else { "" };
    format!("<label><input type=\"checkbox\" id=\"{id}-log\"{checked}> logarithmic</label>")
}

fn figures(view: &View<'_>) -> String {
    let mut out = String::from("<div class=\"figures\">\n");
    // One seed has no interval.
    let whiskers = view.report.points.iter().any(|p| p.iops.seeds > 1);
    let curve_note = match whiskers {
        true => "Right and low is good. Whiskers show the 95 % confidence interval.",
        false => "Right and low is good.",
    };
    let plain = ChartBox {
        id: "curve",
        heading: "Response time by throughput",
        note: curve_note,
        controls: "",
        wide: false,
        at_value: false,
    };
    let means = view.report.points.iter().map(|p| p.response_ms.mean);
    let wide_response = response_scale(means) != Scale::Linear;
    if view.sweeps_load() {
        let controls = log_switch("curve", wide_response);
        out += &ChartBox { controls: &controls, wide: true, ..plain }.html();
    } else if view.sweep().is_some() {
        out += &along(view, true);
    } else {
        let note = if whiskers { "Whiskers show the 95 % confidence interval." } else { "" };
        out += &ChartBox { id: "throughput", heading: "Throughput", note, ..plain }.html();
        let note = "Mean and percentiles of all requests.";
        let controls = log_switch("response", wide_response);
        let response = ChartBox { id: "response", heading: "Response time", note, ..plain };
        out += &ChartBox { controls: &controls, ..response }.html();
    }
    out += &distributions(view);
    let heading = "NVS occupancy over time";
    let note = "Dashed lines are the destage thresholds; the shaded part is warm-up.";
    let at = ChartBox { at_value: true, ..plain };
    out += &ChartBox { id: "occupancy", heading, note, wide: true, ..at }.html();
    if view.sweeps_load() {
        out += &along(view, false);
    }
    let note = "Pages, groups and requests found in NVS.";
    out += &ChartBox { id: "hits", heading: "Hit ratios", note, ..at }.html();
    let note = "Mean distance between the starts of consecutive destages; log scale.";
    out += &ChartBox { id: "distance", heading: "Destage distance", note, ..at }.html();
    let note = "Where the disks' time goes; mean of the disks.";
    let wide = !view.sweeps_load();
    out += &ChartBox { id: "disks", heading: "Disk time", note, wide, ..at }.html();
    out + "</div>\n"
}

/// The response times of reads and those of writes next to each other.
fn distributions(view: &View<'_>) -> String {
    let occurring: Vec<&Kind> = KINDS.iter().filter(|kind| kind.occurs(view.report)).collect();
    let wide = occurring.len() == 1;
    let figure = |kind: &&Kind| {
        let name = kind.name;
        let heading = &format!("Distribution of response times of {name}");
        let note = &format!("Share of {name} that took less than a time; all seeds together.");
        ChartBox { id: kind.plot, heading, note, controls: "", wide, at_value: true }.html()
    };
    occurring.iter().map(figure).collect()
}

/// The figure along a swept parameter, with a menu of what to show.
fn along(view: &View<'_>, wide: bool) -> String {
    let Some(axis) = view.sweep() else { return String::new() };
    let first = if view.sweeps_load() { "Time full" } else { "Throughput" };
    let option = |(i, metric): (usize, &Metric)| {
        let selected = if metric.long == first { " selected" } else { "" };
        format!("<option value=\"{i}\"{selected}>{}</option>", metric.long)
    };
    let named = shown(&view.report.points).filter(|(_, metric)| !metric.long.is_empty());
    let options: String = named.map(option).collect();
    let controls = format!(
        "<label>Figure <select id=\"metric\">{options}</select></label>{}",
        log_switch("along", false)
    );
    let heading = format!("Along {}", axis.name);
    let note = "Any figure of the table.";
    let (heading, controls) = (heading.as_str(), controls.as_str());
    ChartBox { id: "along", heading, note, controls, wide, at_value: false }.html()
}

fn tables(view: &View<'_>) -> String {
    let mut all = String::from(
        "<p>Means over seeds. A heading sorts.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All figures\">\n\
         <table id=\"points\">\n<thead>\n",
    );
    all += &table_head(view);
    all += "</thead>\n<tbody>\n";
    for point in &view.report.points {
        let variant = view.variants.iter().position(|v| *v == point.variant).unwrap_or(0);
        let _ = write!(all, "<tr data-variant=\"{variant}\">");
        let _ = write!(all, "<th scope=\"row\">{}</th>", escape(&point.variant));
        if view.report.axis.is_some() {
            let _ = write!(all, "<td>{}</td>", escape(&point.value));
        }
        for (_, metric) in shown(&view.report.points) {
            let value = metric.value(point);
            let sort = value.map(|v| v.to_string()).unwrap_or_default();
            let shown = Cell::maybe(value, metric.decimals).shown();
            let _ = write!(all, "<td data-sort=\"{sort}\">{shown}</td>");
        }
        all += "</tr>\n";
    }
    all += "</tbody>\n</table>\n</div>\n";
    let mut out = section("", "All figures", &all);
    if !view.report.at_response.is_empty() {
        let heading = "Throughput at a mean response time";
        let table = html_table(heading, &at_response_table(&view.report.at_response));
        let note = format!("<p>Interpolated along the sweep; {}.</p>\n", escape(BOUNDS));
        out += &section("", heading, &(note + &table));
    }
    out
}

/// Two lines of headings: groups, then a sort button with the unit.
fn table_head(view: &View<'_>) -> String {
    let axis = view.report.axis.as_ref();
    let keys = if axis.is_some() { 2 } else { 1 };
    let mut groups = format!("<tr><td colspan=\"{keys}\"></td>");
    let mut heads = String::from("<tr>") + &sort_head("variant", "");
    if let Some(axis) = axis {
        heads += &sort_head(&axis.name, &axis.unit);
    }
    let metrics: Vec<&Metric> = shown(&view.report.points).map(|(_, metric)| metric).collect();
    let mut rest = metrics.as_slice();
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|metric| metric.group == first.group).count();
        let _ = write!(groups, "<th colspan=\"{count}\" scope=\"colgroup\">{}</th>", first.group);
        for metric in &rest[..count] {
            heads += &sort_head(metric.name, metric.unit);
        }
        rest = &rest[count..];
    }
    format!("{groups}</tr>\n{heads}</tr>\n")
}

fn sort_head(name: &str, unit: &str) -> String {
    let (name, unit) = (escape(name), escape(unit));
    format!(
        "<th scope=\"col\"><button type=\"button\">{name}<br><small>{unit}</small></button></th>"
    )
}

fn options(options: &BTreeMap<String, String>) -> String {
    let row = |(name, value): (&String, &String)| {
        format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value))
    };
    let rows: String = options.iter().map(row).collect();
    section("", "Options", &format!("<dl>\n{rows}</dl>\n"))
}

/// Options, the command, and each run with its seed and digest.
fn provenance(view: &View<'_>) -> String {
    let report = view.report;
    let mut out = String::new();
    if !report.options.is_empty() {
        out += &options(&report.options);
    }
    let mut again = String::new();
    if !report.command.is_empty() {
        let command = escape(&report.command);
        let _ = writeln!(
            again,
            "<pre tabindex=\"0\" role=\"region\" aria-label=\"Command\">\
             <code>{command}</code></pre>"
        );
    }
    let runs = runs_table(view);
    if !runs.is_empty() {
        again += "<details>\n<summary>Runs, with seed and digest</summary>\n\
                  <p>The same inputs give the same digest on any machine.</p>\n";
        again += &html_table("Runs", &runs);
        again += "</details>\n";
    }
    if again.is_empty() { out } else { out + &section("", "This again", &again) }
}

fn runs_table(view: &View<'_>) -> Table {
    let axis = view.report.axis.as_ref();
    let mut heads = vec![("variant", "")];
    heads.extend(axis.map(|axis| (axis.name.as_str(), axis.unit.as_str())));
    heads.extend([("seed", ""), ("throughput", "I/O/s"), ("response", "ms"), ("digest", "")]);
    let mut table = Table::new(&heads);
    for point in &view.report.points {
        for run in &point.runs {
            let mut cells = vec![Cell::text(point.variant.as_str())];
            if axis.is_some() {
                cells.push(Cell::written(point.value.as_str()));
            }
            cells.extend([
                Cell::int(run.seed),
                Cell::num(run.iops, 1),
                Cell::num(run.response.all.mean_ms, 2),
                Cell::text(run.digest.as_str()),
            ]);
            table.push(cells);
        }
    }
    table
}

/// The table as an HTML element in a scrolling box of this name.
fn html_table(name: &str, table: &Table) -> String {
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n\
         <thead><tr>",
        escape(name)
    );
    for (name, unit) in table.heads() {
        let (name, unit) = (escape(name), escape(unit));
        let _ = write!(out, "<th scope=\"col\">{name}<br><small>{unit}</small></th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in table.rows() {
        out += "<tr>";
        for (i, cell) in row.iter().enumerate() {
            let text = escape(&cell.shown());
            let (open, close) =
                if i == 0 { ("<th scope=\"row\">", "</th>") } else { ("<td>", "</td>") };
            let _ = write!(out, "{open}{text}{close}");
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>\n</div>\n"
}
