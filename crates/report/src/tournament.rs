//! The score card of a tournament of policies (docs/tournament.md).

use crate::format::Format;
use crate::table::{Cell, Table};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A cell is missed if a policy is worse than the references by more than this share, or by more
/// than the spread over seeds.
pub const TOLERANCE: f64 = 0.02;

/// What a tournament found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoreCard {
    /// [`crate::model::SCHEMA`].
    pub schema: u32,
    /// Heading.
    pub title: String,
    /// The command that makes it again.
    pub command: String,
    /// The policies that the others are compared with: with the better of them.
    pub references: Vec<String>,
    /// Seeds per cell.
    pub seeds: u32,
    /// One for each protocol; the first is the one that is judged.
    pub protocols: Vec<ProtocolCard>,
    /// Cells that were not run, and why.
    pub skipped: Vec<String>,
    /// Cells that do not show what they should, and why.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The results under one protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProtocolCard {
    /// `safe` or `papers`.
    pub protocol: String,
    /// A line for each policy.
    pub totals: Vec<Total>,
    /// A row for each figure of each cell.
    pub rows: Vec<ScoreRow>,
}

/// What a figure is, in the order of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Throughput at a mean response time of 20 ms, in I/O/s.
    #[default]
    ThroughputAt20Ms,
    /// Mean response time in ms, at this percentage of the references' throughput at 20 ms.
    ResponseAt(u32),
    /// Throughput in I/O/s of a load that waits for answers.
    Throughput,
    /// Mean response time in ms of a load of its own rate.
    Response,
}

impl Figure {
    /// Whether more is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Figure::ThroughputAt20Ms | Figure::Throughput)
    }

    /// As tables have it.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Figure::ThroughputAt20Ms => "I/O/s at 20 ms".into(),
            Figure::ResponseAt(percent) => format!("mean ms at {percent} %"),
            Figure::Throughput => "I/O/s".into(),
            Figure::Response => "mean ms".into(),
        }
    }
}

/// One figure of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoreRow {
    /// The cell.
    pub cell: String,
    /// What it is.
    pub figure: Figure,
    /// The better of the references, median over seeds; absent if none has it, or if the rates of
    /// the cell end before it is found.
    pub reference: Option<f64>,
    /// One for each policy, in the order of the totals.
    pub entries: Vec<Entry>,
}

/// A policy's figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The setting with which it is best.
    pub setting: String,
    /// Median over seeds; absent if the load was not served.
    pub value: Option<f64>,
    /// How many times as good as the better of the references, median over seeds.
    pub ratio: Option<f64>,
    /// Largest less smallest ratio over seeds.
    pub spread: f64,
    /// The rates of the cell end at this value: it may be more, and so may the ratio.
    #[serde(default)]
    pub is_bound: bool,
}

impl Entry {
    /// Whether it is worse than the references by more than is allowed.
    #[must_use]
    pub fn misses(&self, row: &ScoreRow) -> bool {
        let worse = |ratio: f64| ratio < 1.0 - TOLERANCE.max(self.spread);
        row.reference.is_some() && self.ratio.is_none_or(worse)
    }

    /// The mark of a lower bound.
    #[must_use]
    pub fn more(&self) -> &'static str {
        if self.is_bound { ">" } else { "" }
    }

    fn shown(&self, row: &ScoreRow) -> String {
        let flag = if self.misses(row) { " !" } else { "" };
        let more = self.more();
        match (self.ratio, self.value) {
            (Some(ratio), _) => format!("{more}{ratio:.3}{flag}"),
            (None, Some(value)) => format!("{more}{value:.1}"),
            (None, None) => format!("not served{flag}"),
        }
    }
}

/// A policy over all cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// The policy.
    pub policy: String,
    /// Geometric mean of the ratios of throughput at 20 ms.
    pub at_20_ms: Option<f64>,
    /// Geometric mean of the ratios of response time at shares of the references' throughput.
    pub response_at: Option<f64>,
    /// Geometric mean of the ratios of throughput.
    pub throughput: Option<f64>,
    /// Geometric mean of the ratios of response time at a rate of its own.
    pub response: Option<f64>,
    /// Geometric mean of all ratios.
    pub all: Option<f64>,
    /// The least ratio; absent if a cell was not served.
    pub worst: Option<f64>,
    /// Where that is.
    pub worst_at: String,
    /// Figures that are missed.
    pub missed: usize,
    /// Figures.
    pub figures: usize,
}

impl ProtocolCard {
    /// A card of these rows, whose entries are of these policies.
    #[must_use]
    pub fn of(protocol: &str, policies: &[String], rows: Vec<ScoreRow>) -> ProtocolCard {
        let totals = policies
            .iter()
            .enumerate()
            .map(|(index, policy)| total(policy, index, &rows))
            .collect();
        ProtocolCard { protocol: protocol.into(), totals, rows }
    }
}

fn total(policy: &str, index: usize, rows: &[ScoreRow]) -> Total {
    // Where no reference has a figure, there is nothing to compare with.
    let rows: Vec<&ScoreRow> = rows.iter().filter(|row| row.reference.is_some()).collect();
    let mean = |wanted: &dyn Fn(Figure) -> bool| {
        let of_kind = rows.iter().filter(|row| wanted(row.figure));
        geometric_mean(of_kind.filter_map(|row| row.entries[index].ratio))
    };
    let rank = |row: &&&ScoreRow| row.entries[index].ratio.unwrap_or(0.0);
    let worst = rows.iter().min_by(|a, b| rank(a).total_cmp(&rank(b)));
    Total {
        policy: policy.into(),
        at_20_ms: mean(&|figure| figure == Figure::ThroughputAt20Ms),
        response_at: mean(&|figure| matches!(figure, Figure::ResponseAt(_))),
        throughput: mean(&|figure| figure == Figure::Throughput),
        response: mean(&|figure| figure == Figure::Response),
        all: mean(&|_| true),
        worst: worst.and_then(|row| row.entries[index].ratio),
        worst_at: worst
            .map_or_else(String::new, |row| format!("{}: {}", row.cell, row.figure.words())),
        missed: rows.iter().filter(|row| row.entries[index].misses(row)).count(),
        figures: rows.len(),
    }
}

fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for ratio in ratios {
        (sum, count) = (sum + ratio.ln(), count + 1);
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

impl ScoreCard {
    /// The totals under a protocol.
    #[must_use]
    pub fn totals(card: &ProtocolCard) -> Table {
        let mut table = Table::new(&[
            ("policy", ""),
            ("I/O/s at 20 ms", "ratio"),
            ("response", "ratio"),
            ("I/O/s", "ratio"),
            ("response, own rate", "ratio"),
            ("all", "ratio"),
            ("worst", "ratio"),
            ("missed", ""),
            ("worst at", ""),
        ]);
        for total in &card.totals {
            let worst = match (total.worst, total.figures) {
                (None, 1..) => Cell::text("not served"),
                (worst, _) => Cell::maybe(worst, 3),
            };
            table.push(vec![
                Cell::text(total.policy.as_str()),
                Cell::maybe(total.at_20_ms, 3),
                Cell::maybe(total.response_at, 3),
                Cell::maybe(total.throughput, 3),
                Cell::maybe(total.response, 3),
                Cell::maybe(total.all, 3),
                worst,
                Cell::text(format!("{} of {}", total.missed, total.figures)),
                Cell::text(total.worst_at.as_str()),
            ]);
        }
        table
    }

    /// The figures under a protocol: the references' and the ratios to it.
    #[must_use]
    pub fn figures(&self, card: &ProtocolCard) -> Table {
        let best = format!("best of {}", self.references.join(", "));
        let mut heads = vec![("cell", ""), ("figure", ""), (best.as_str(), "")];
        heads.extend(card.totals.iter().map(|total| (total.policy.as_str(), "ratio")));
        let mut table = Table::new(&heads);
        for row in &card.rows {
            let mut cells = vec![
                Cell::text(row.cell.as_str()),
                Cell::text(row.figure.words()),
                Cell::maybe(row.reference, 1),
            ];
            cells.extend(row.entries.iter().map(|entry| Cell::written(entry.shown(row))));
            table.push(cells);
        }
        table
    }

    /// Every value of every policy, one a row.
    fn values(&self) -> Table {
        let mut table = Table::new(&[
            ("protocol", ""),
            ("cell", ""),
            ("figure", ""),
            ("policy", ""),
            ("setting", ""),
            ("value", ""),
            ("reference", ""),
            ("ratio", ""),
            ("spread", ""),
            ("missed", ""),
            ("lower bound", ""),
        ]);
        for card in &self.protocols {
            for row in &card.rows {
                for (total, entry) in card.totals.iter().zip(&row.entries) {
                    table.push(vec![
                        Cell::text(card.protocol.as_str()),
                        Cell::text(row.cell.as_str()),
                        Cell::text(row.figure.words()),
                        Cell::text(total.policy.as_str()),
                        Cell::text(entry.setting.as_str()),
                        Cell::maybe(entry.value, 3),
                        Cell::maybe(row.reference, 3),
                        Cell::maybe(entry.ratio, 4),
                        Cell::num(entry.spread, 4),
                        Cell::text(if entry.misses(row) { "yes" } else { "no" }),
                        Cell::text(if entry.is_bound { "yes" } else { "no" }),
                    ]);
                }
            }
        }
        table
    }

    /// The findings, a sentence each: the protocol that is judged.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let Some(card) = self.protocols.first() else { return Vec::new() };
        let others = card.totals.iter().filter(|total| !self.references.contains(&total.policy));
        let said = others.map(|total| {
            let against = self.references.join(" and ");
            if total.figures == 0 {
                return format!(
                    "{} against the better of {against}, under {}: there is nothing to compare.",
                    total.policy, card.protocol
                );
            }
            let mean = |what: Option<f64>, name: &str| {
                what.map_or_else(String::new, |ratio| format!(" {name} {ratio:.3} times,"))
            };
            let all = match total.all {
                Some(ratio) => {
                    format!(" all figures {ratio:.3} times as good (geometric means).")
                }
                None => " no figure is served.".into(),
            };
            format!(
                "{} against the better of {against}, under {}:{}{}{all} Missed: {} of {} figures. \
                 Worst: {}, {}.",
                total.policy,
                card.protocol,
                mean(total.at_20_ms, "throughput at 20 ms"),
                mean(total.response_at, "response times"),
                total.missed,
                total.figures,
                total.worst_at,
                total.worst.map_or_else(|| "not served".into(), |ratio| format!("{ratio:.3}")),
            )
        });
        said.collect()
    }

    /// The card for the terminal or a program.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => serde_json::to_string_pretty(self).expect("plain data") + "\n",
            Format::Csv => self.values().render(Format::Csv),
            Format::Table => self.text(),
        }
    }

    fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for (index, card) in self.protocols.iter().enumerate() {
            let judged = if index == 0 { ", judged" } else { "" };
            let _ = writeln!(out, "\nProtocol {}{judged}\n", card.protocol);
            out += &ScoreCard::totals(card).render(Format::Table);
            out.push('\n');
            out += &self.figures(card).render(Format::Table);
        }
        out += "\nRatios above 1 are better than the better reference. A figure with ! is missed: \
                worse by more than 2 %, and by more than the spread over seeds. One with > is a \
                lower bound.\n";
        for skipped in &self.skipped {
            let _ = writeln!(out, "SKIPPED: {skipped}");
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "WARNING: {warning}");
        }
        for finding in self.findings() {
            let _ = writeln!(out, "{finding}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: Option<f64>, ratio: Option<f64>, spread: f64) -> Entry {
        Entry { value, ratio, spread, ..Entry::default() }
    }

    fn row(cell: &str, figure: Figure, entries: Vec<Entry>) -> ScoreRow {
        ScoreRow { cell: cell.into(), figure, reference: Some(10.0), entries }
    }

    fn card() -> ProtocolCard {
        let rows = vec![
            row("a", Figure::ThroughputAt20Ms, vec![entry(Some(12.5), Some(1.25), 0.0)]),
            row("b", Figure::ThroughputAt20Ms, vec![entry(Some(8.0), Some(0.8), 0.0)]),
            row("b", Figure::Response, vec![entry(Some(10.1), Some(0.985), 0.0)]),
            row("c", Figure::Throughput, vec![entry(Some(9.6), Some(0.96), 0.05)]),
            ScoreRow { reference: None, ..row("d", Figure::Response, vec![Entry::default()]) },
        ];
        ProtocolCard::of("safe", &["ebb".to_string()], rows)
    }

    #[test]
    fn totals_are_geometric_means_and_name_the_worst_cell() {
        let total = &card().totals[0];
        assert!((total.at_20_ms.unwrap() - 1.0).abs() < 1e-12, "1.25 and .8");
        assert_eq!((total.missed, total.figures), (1, 4), "the spread excuses c");
        assert_eq!(total.worst, Some(0.8));
        assert_eq!(total.worst_at, "b: I/O/s at 20 ms");
        assert_eq!(total.response_at, None);
    }

    #[test]
    fn a_lower_bound_is_marked_and_a_cell_without_reference_compares_nothing() {
        let bound = Entry { is_bound: true, ..entry(Some(200.0), None, 0.0) };
        let rows = vec![ScoreRow {
            reference: None,
            ..row("a", Figure::ThroughputAt20Ms, vec![bound.clone()])
        }];
        let card = ProtocolCard::of("safe", &["ebb".to_string()], rows);
        let card = ScoreCard {
            references: vec!["stow".into()],
            protocols: vec![card],
            warnings: vec!["a ends too early".into()],
            ..ScoreCard::default()
        };
        let text = card.render(Format::Table);
        assert!(text.contains(">200.0") && text.contains("WARNING: a ends too early"), "{text}");
        let said = "ebb against the better of stow, under safe: there is nothing to compare.";
        assert_eq!(card.findings(), [said]);
        assert!(card.render(Format::Csv).contains("lower_bound"));
        let open = row("a", Figure::ThroughputAt20Ms, Vec::new());
        assert_eq!(Entry { ratio: Some(1.5), ..bound }.shown(&open), ">1.500");
    }

    #[test]
    fn a_load_that_is_not_served_is_the_worst_and_is_missed() {
        let rows = vec![
            row("a", Figure::Throughput, vec![entry(Some(9.0), Some(0.9), 0.0)]),
            row("b", Figure::Response, vec![entry(None, None, 0.0)]),
        ];
        let card = ProtocolCard::of("safe", &["x".to_string()], rows);
        assert_eq!((card.totals[0].worst, card.totals[0].missed), (None, 2));
        assert_eq!(card.totals[0].worst_at, "b: mean ms");
        let card = ScoreCard { protocols: vec![card], ..ScoreCard::default() };
        let text = card.render(Format::Table);
        assert!(text.contains("not served !") && text.contains("0.900 !"), "{text}");
        assert!(text.contains("Worst: b: mean ms, not served"), "{text}");
        assert!(card.render(Format::Csv).lines().count() == 3);
    }
}
