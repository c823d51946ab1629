//! One HTML file that holds every reproduced item: tables, drawings and settings.

use super::{foot, head, section};
use crate::escape::escape;
use crate::plot::{PlotFormat, draw};
use destage_report::reproduction::{ReproducedItem, Reproduction, Verdict, summary};
use std::fmt::Write;

/// What this page adds to the style of a comparison.
const MORE_STYLE: &str = "\
nav ul { columns: 22rem; padding-left: 1.2rem; }
.item { border-top: 2px solid var(--rule); padding-top: 1rem; }
.item .figures { margin: 1rem 0; }
.item figure svg { width: 100%; height: auto; border-radius: 6px; }
.item p { max-width: 60rem; }
td.text { text-align: left; }
.inside { color: var(--accent); }
.outside { color: var(--warn); font-weight: 600; }
";

/// The page; it needs nothing but itself.
pub fn reproduction_html(report: &Reproduction) -> String {
    let mut out = head("Published figures, run again", MORE_STYLE);
    let made = format!(
        "<p>Made by <code>{}</code>. ± is half the 95&nbsp;% confidence interval over \
         seeds.</p>\n",
        escape(&report.command)
    );
    out += &section("findings", &summary(report), &made);
    out += "<nav aria-label=\"Items\"><ul>\n";
    for item in &report.items {
        let outside = item.rows.iter().filter(|r| r.verdict().word() == "OUTSIDE").count();
        let note = match outside {
            0 => String::new(),
            count => format!(" <span class=\"outside\">{count} outside</span>"),
        };
        let (id, title) = (escape(&item.id), escape(&item.title));
        let _ = writeln!(out, "<li><a href=\"#{id}\">{title}</a>{note}</li>");
    }
    out += "</ul></nav>\n</header>\n<main>\n";
    for entry in &report.items {
        out += &item(entry);
    }
    out + &foot() + "</body>\n</html>\n"
}

fn item(item: &ReproducedItem) -> String {
    let (id, title) = (escape(&item.id), escape(&item.title));
    let mut out =
        format!("<section class=\"item\" id=\"{id}\" aria-label=\"{title}\">\n<h2>{title}</h2>\n");
    let _ = writeln!(out, "<p>Source: {}. {}</p>", escape(&item.source), escape(&item.about));
    for skipped in &item.skipped {
        let _ = writeln!(out, "<p class=\"outside\">SKIPPED: {}</p>", escape(skipped));
    }
    if !item.rows.is_empty() {
        out += &rows(item);
    }
    out += "<div class=\"figures\">\n";
    for figure in &item.figures {
        // SVG has no way to fail: only PNG runs out of memory.
        let svg = draw(&figure.plot, PlotFormat::Svg).unwrap_or_default();
        let wide = if item.figures.len() == 1 { " class=\"wide\"" } else { "" };
        let _ = writeln!(out, "<figure{wide}>{}</figure>", String::from_utf8_lossy(&svg));
    }
    out + "</div>\n" + &settings(item) + "</section>\n"
}

fn rows(item: &ReproducedItem) -> String {
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n\
         <thead><tr>",
        escape(&item.title)
    );
    let table = item.table();
    for (name, _) in table.heads() {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(name));
    }
    out += "</tr></thead>\n<tbody>\n";
    for (cells, row) in table.rows().iter().zip(&item.rows) {
        let class = match row.verdict() {
            Verdict::Inside | Verdict::Near => "inside",
            Verdict::Outside | Verdict::Far => "outside",
            Verdict::Open => "",
        };
        out += "<tr>";
        for (column, cell) in cells.iter().enumerate() {
            let text = escape(&cell.shown());
            let _ = match column {
                0 => write!(out, "<th scope=\"row\">{text}</th>"),
                7 => write!(out, "<td class=\"{class}\">{text}</td>"),
                _ => write!(out, "<td>{text}</td>"),
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>\n</div>\n"
}

fn settings(item: &ReproducedItem) -> String {
    let mut out = format!("<details>\n<summary>{} runs: settings</summary>\n", item.runs);
    if item.unsettled > 0 {
        let _ = writeln!(out, "<p>{} of them had not settled.</p>", item.unsettled);
    }
    out += "<dl>\n";
    for panel in &item.panels {
        let options = panel.options.iter().map(|(name, value)| format!("{name}={value}"));
        let mut line: Vec<String> = options.collect();
        line.push(format!("variants: {}", panel.variants));
        if !panel.sweep.is_empty() {
            line.push(format!("sweep {}", panel.sweep));
        }
        line.push(format!("{} seeds", panel.seeds));
        let (name, line) = (escape(&panel.name), escape(&line.join("; ")));
        let _ = writeln!(out, "<dt>{name}</dt><dd>{line}</dd>");
    }
    out + "</dl>\n</details>\n"
}
