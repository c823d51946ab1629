//! The score card of a tournament as one HTML file.

use super::{foot, head, section};
use crate::escape::escape;
use crate::plot::{PlotFormat, draw};
use destage_report::plot::PlotSpec;
use destage_report::table::Table;
use destage_report::tournament::{Figure, ProtocolCard, ScoreCard, ScoreRow};
use std::fmt::Write;

/// What this page adds to the style of a comparison.
const MORE_STYLE: &str = "\
main figure svg { width: 100%; height: auto; border-radius: 6px; }
.missed { color: var(--warn); font-weight: 600; }
.ahead { color: var(--accent); }
td.name, th { text-align: left; }
";

/// The page; it needs nothing but itself.
pub fn tournament_html(card: &ScoreCard) -> String {
    let mut out = head(&card.title, MORE_STYLE);
    let findings: String =
        card.findings().iter().map(|said| format!("<li>{}</li>\n", escape(said))).collect();
    let about = format!(
        "<ul>\n{findings}</ul>\n<p>Ratios above 1 are better than the better of {}. A figure \
         marked ! is worse by more than 2&nbsp;%, and by more than the spread over seeds. \
         One with &gt; is a lower bound. Seeds per cell: {}. Made by <code>{}</code>.</p>\n",
        escape(&card.references.join(", ")),
        card.seeds,
        escape(&card.command)
    );
    out += &section("findings", "Findings", &about);
    for (heading, listed) in [("Skipped", &card.skipped), ("Warnings", &card.warnings)] {
        if listed.is_empty() {
            continue;
        }
        let items: String =
            listed.iter().map(|why| format!("<li>{}</li>\n", escape(why))).collect();
        out += &section("warnings", heading, &format!("<ul>\n{items}</ul>\n"));
    }
    out += "</header>\n<main>\n";
    for (index, protocol) in card.protocols.iter().enumerate() {
        let judged = if index == 0 { ", judged" } else { "" };
        let heading = format!("Protocol {}{judged}", protocol.protocol);
        let inner =
            table(&ScoreCard::totals(protocol)) + &drawings(protocol) + &figures(card, protocol);
        out += &section("", &heading, &inner);
    }
    out + &foot() + "</body>\n</html>\n"
}

fn table(table: &Table) -> String {
    let mut out = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Totals\">\n<table>\n\
         <thead><tr>",
    );
    for (name, _) in table.heads() {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(name));
    }
    out += "</tr></thead>\n<tbody>\n";
    for cells in table.rows() {
        out += "<tr>";
        for (column, cell) in cells.iter().enumerate() {
            let text = escape(&cell.shown());
            let _ = match column {
                0 => write!(out, "<th scope=\"row\">{text}</th>"),
                _ => write!(out, "<td>{text}</td>"),
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>\n</div>\n"
}

/// Throughput at 20 ms, and response times at shares of the references' throughput.
fn drawings(card: &ProtocolCard) -> String {
    let of = |wanted: &dyn Fn(Figure) -> bool| -> Vec<&ScoreRow> {
        card.rows.iter().filter(|row| row.reference.is_some() && wanted(row.figure)).collect()
    };
    let at_20_ms = of(&|figure| figure == Figure::ThroughputAt20Ms);
    let busy = of(&|figure| figure == Figure::ResponseAt(90));
    let closed = of(&|figure| figure == Figure::Throughput);
    let rated = of(&|figure| figure == Figure::Response);
    let mut out = String::from("<div class=\"figures\">\n");
    for (title, rows) in [
        ("Throughput at a mean response time of 20 ms", at_20_ms),
        ("Mean response time at 90 % of the references' throughput", busy),
        ("Throughput of loads that wait for answers", closed),
        ("Mean response time of loads with a rate of their own", rated),
    ] {
        if rows.is_empty() {
            continue;
        }
        let svg = draw(&bars(title, card, &rows), PlotFormat::Svg).unwrap_or_default();
        let _ = writeln!(out, "<figure class=\"wide\">{}", String::from_utf8_lossy(&svg));
        out += "<figcaption><ol>\n";
        for row in rows {
            let _ = writeln!(out, "<li>{}</li>", escape(&row.cell));
        }
        out += "</ol></figcaption></figure>\n";
    }
    out + "</div>\n"
}

/// A group of bars for each row, numbered: the names are below the drawing.
fn bars(title: &str, card: &ProtocolCard, rows: &[&ScoreRow]) -> PlotSpec {
    let numbers = (1..=rows.len()).map(|number| number.to_string()).collect();
    let mut plot = PlotSpec::bars(title, "cell", "times as good as the references", numbers);
    for (index, total) in card.totals.iter().enumerate() {
        let ratio = |row: &&ScoreRow| row.entries[index].ratio.unwrap_or(f64::NAN);
        plot = plot.bar_series(&total.policy, rows.iter().map(ratio).collect());
    }
    plot.h_line(1.0, "")
}

fn figures(card: &ScoreCard, protocol: &ProtocolCard) -> String {
    let mut out = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Figures\">\n<table>\n\
         <thead><tr><th scope=\"col\">cell</th><th scope=\"col\">figure</th>",
    );
    let _ = write!(out, "<th scope=\"col\">best of {}</th>", escape(&card.references.join(", ")));
    for total in &protocol.totals {
        let policy = escape(&total.policy);
        let _ = write!(out, "<th scope=\"col\">{policy}</th><th scope=\"col\">ratio</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &protocol.rows {
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"name\">{}</td><td>{}</td>",
            escape(&row.cell),
            escape(&row.figure.words()),
            number(row.reference)
        );
        for entry in &row.entries {
            let class = match entry.ratio {
                _ if entry.misses(row) => "missed",
                Some(ratio) if ratio > 1.0 => "ahead",
                _ => "",
            };
            let more = escape(entry.more());
            let shown = |ratio: f64| format!("{more}{ratio:.3}");
            let ratio = entry.ratio.map_or("not served".into(), shown);
            let ratio = if row.reference.is_some() { ratio } else { "-".into() };
            let flag = if entry.misses(row) { " !" } else { "" };
            let _ = write!(
                out,
                "<td title=\"{}\">{more}{}</td><td class=\"{class}\">{ratio}{flag}</td>",
                escape(&entry.setting),
                number(entry.value)
            );
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>\n</div>\n"
}
