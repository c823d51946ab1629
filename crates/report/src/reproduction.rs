//! Published figures next to ours: the types, and their table as text, CSV and JSON.

use crate::format::Format;
use crate::plot::PlotSpec;
use crate::table::{Cell, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Without a band of its own, a value counts as reproduced within this share of the published one.
pub const TOLERANCE: f64 = 0.25;

/// A gain, such as .39 of a ratio of 1.39, counts as reproduced within [`TOLERANCE`] of it, or
/// within this if that is more.
pub const GAIN_TOLERANCE: f64 = 0.05;

/// Items of papers, run again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// [`crate::model::SCHEMA`].
    pub schema: u32,
    /// The command that makes it again.
    pub command: String,
    /// Whether windows were shorter and points fewer than in the full run.
    pub quick: bool,
    /// The items.
    pub items: Vec<ReproducedItem>,
}

/// One figure or table of a paper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproducedItem {
    /// `PAPER:ITEM`.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Source of the published values.
    pub source: String,
    /// What the paper leaves open, and what is taken here.
    pub about: String,
    /// Headings of the reference and of our values.
    pub columns: [String; 2],
    /// The table.
    pub rows: Vec<ReproducedRow>,
    /// The drawings.
    pub figures: Vec<ReproducedFigure>,
    /// What ran.
    pub panels: Vec<ReproducedPanel>,
    /// How many runs.
    pub runs: u64,
    /// What was not run, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Runs whose response time differed between the halves of the measured window.
    pub unsettled: u64,
}

/// A value next to the published one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproducedRow {
    /// What it is.
    pub what: String,
    /// Unit; empty for ratios.
    pub unit: String,
    /// The published value, or what ours is compared with.
    pub reference: Option<f64>,
    /// Ours, mean over seeds; absent where the runs have no such value.
    pub ours: Option<f64>,
    /// Half the width of the 95 % confidence interval; 0 with one seed.
    pub half_width: f64,
    /// Least value that counts as reproduced.
    pub low: Option<f64>,
    /// Largest value that counts as reproduced.
    pub high: Option<f64>,
    /// Whether the reference was published.
    pub published: bool,
    /// Whether it is a ratio of two variants, so that what differs from 1 is what counts.
    #[serde(default)]
    pub gain: bool,
}

/// A drawing and its name, fit for a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproducedFigure {
    /// Name.
    pub name: String,
    /// What is drawn.
    pub plot: PlotSpec,
}

/// Runs that share options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproducedPanel {
    /// Name.
    pub name: String,
    /// Options that differ from the defaults.
    pub options: BTreeMap<String, String>,
    /// The variants.
    pub variants: String,
    /// The swept option and its values; empty without.
    pub sweep: String,
    /// Seeds per point.
    pub seeds: u32,
    /// All figures of every point.
    #[serde(default)]
    pub points: Vec<ReproducedPoint>,
}

/// One variant at one value of the sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproducedPoint {
    /// Variant.
    pub variant: String,
    /// Value of the sweep; empty without one.
    pub value: String,
    /// Means over the seeds that have them, by name.
    pub figures: BTreeMap<String, f64>,
}

/// How a value came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within its band.
    Inside,
    /// Not within its band, or absent.
    Outside,
    /// No band; within `TOLERANCE` of the published value, or of its gain.
    Near,
    /// No band; not so near.
    Far,
    /// Nothing was published.
    Open,
}

impl ReproducedRow {
    /// How it came out.
    pub fn verdict(&self) -> Verdict {
        if self.low.is_some() || self.high.is_some() {
            let above = |ours: f64| self.low.is_none_or(|low| ours >= low);
            let below = |ours: f64| self.high.is_none_or(|high| ours <= high);
            let inside = self.ours.is_some_and(|ours| above(ours) && below(ours));
            return if inside { Verdict::Inside } else { Verdict::Outside };
        }
        let near = || {
            let (ours, reference) = (self.ours?, self.reference?);
            let tolerance = match self.gain {
                true => (TOLERANCE * (reference - 1.0).abs()).max(GAIN_TOLERANCE),
                false => TOLERANCE * reference.abs(),
            };
            Some((ours - reference).abs() <= tolerance)
        };
        match (self.published, near()) {
            (false, _) => Verdict::Open,
            (true, Some(true)) => Verdict::Near,
            (true, _) => Verdict::Far,
        }
    }

    /// Ours over the reference.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.reference?).filter(|ratio| ratio.is_finite())
    }

    /// The band in words.
    pub fn band(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{} to {}", short(low), short(high)),
            (Some(low), None) => format!("at least {}", short(low)),
            (None, Some(high)) => format!("at most {}", short(high)),
            (None, None) if self.published => {
                let of = if self.gain { "gain within" } else { "within" };
                format!("{of} {} %", TOLERANCE * 100.0)
            }
            (None, None) => String::new(),
        }
    }
}

impl Verdict {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Inside | Verdict::Near => "inside",
            Verdict::Outside | Verdict::Far => "OUTSIDE",
            Verdict::Open => "",
        }
    }
}

/// A number without needless digits.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Digits after the point, so that about four digits are shown.
fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 || v == 0.0 => 2,
        _ => 4,
    }
}

fn number(value: Option<f64>) -> Cell {
    Cell::maybe(value, value.map_or(0, decimals))
}

impl ReproducedItem {
    /// Its table.
    pub fn table(&self) -> Table {
        let [reference, ours] = &self.columns;
        let heads = ["value", "unit", reference, ours, "±", "ratio", "band", "verdict"];
        let mut table = Table::new(&heads.map(|name| (name, "")));
        for row in &self.rows {
            table.push(cells(row));
        }
        table
    }
}

fn cells(row: &ReproducedRow) -> Vec<Cell> {
    let half = Some(row.half_width).filter(|half| *half > 0.0);
    vec![
        Cell::text(row.what.as_str()),
        Cell::text(row.unit.as_str()),
        number(row.reference),
        number(row.ours),
        Cell::maybe(half, row.ours.map_or(2, decimals)),
        Cell::maybe(row.ratio(), 2),
        Cell::text(row.band()),
        Cell::text(row.verdict().word()),
    ]
}

/// Everything as text for people, as one CSV table, or as JSON.
pub fn render_reproduction(report: &Reproduction, format: Format) -> String {
    match format {
        Format::Json => serde_json::to_string_pretty(report).expect("plain data serialises") + "\n",
        Format::Csv => {
            let heads =
                ["item", "value", "unit", "reference", "ours", "±", "ratio", "band", "verdict"];
            let mut table = Table::new(&heads.map(|name| (name, "")));
            for item in &report.items {
                for row in &item.rows {
                    let mut line = vec![Cell::text(item.id.as_str())];
                    line.extend(cells(row));
                    table.push(line);
                }
            }
            table.render(Format::Csv)
        }
        Format::Table => text(report),
    }
}

fn text(report: &Reproduction) -> String {
    let mut out = String::new();
    for item in &report.items {
        let _ = writeln!(out, "{}  {}\n", item.id, item.title);
        if !item.rows.is_empty() || item.skipped.is_empty() {
            out += &item.table().render(Format::Table);
        }
        for skipped in &item.skipped {
            let _ = writeln!(out, "SKIPPED: {skipped}");
        }
        if item.unsettled > 0 {
            let _ = writeln!(out, "\n{} of {} runs had not settled.", item.unsettled, item.runs);
        }
        out += "\n";
    }
    let _ = writeln!(out, "{}", summary(report));
    out
}

/// How many values came out, in a sentence.
pub fn summary(report: &Reproduction) -> String {
    let rows = || report.items.iter().flat_map(|item| &item.rows);
    let count = |word: &str| rows().filter(|row| row.verdict().word() == word).count();
    let quick = if report.quick { " Quick: short windows and few points." } else { "" };
    let skipped = match report.items.iter().map(|item| item.skipped.len()).sum() {
        0 => String::new(),
        parts => format!(" {parts} parts SKIPPED for want of a trace."),
    };
    let (inside, outside) = (count("inside"), count("OUTSIDE"));
    format!("{inside} values inside their band, {outside} OUTSIDE.{skipped}{quick}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(reference: f64, ours: f64, low: Option<f64>, high: Option<f64>) -> ReproducedRow {
        ReproducedRow {
            reference: Some(reference),
            ours: Some(ours),
            low,
            high,
            published: true,
            ..ReproducedRow::default()
        }
    }

    #[test]
    fn verdicts() {
        assert_eq!(row(2.0, 1.9, Some(1.8), Some(2.2)).verdict(), Verdict::Inside);
        assert_eq!(row(2.0, 2.3, Some(1.8), Some(2.2)).verdict(), Verdict::Outside);
        assert_eq!(row(2.0, 2.3, Some(1.8), None).verdict(), Verdict::Inside);
        assert_eq!(row(2.0, 2.3, None, None).verdict(), Verdict::Near);
        assert_eq!(row(2.0, 3.0, None, None).verdict(), Verdict::Far);
        let gain =
            |reference, ours| ReproducedRow { gain: true, ..row(reference, ours, None, None) };
        assert_eq!(gain(1.43, 1.07).verdict(), Verdict::Far);
        assert_eq!(gain(1.4, 1.49).verdict(), Verdict::Near);
        assert_eq!(gain(1.4, 1.51).verdict(), Verdict::Far);
        assert_eq!(gain(1.0, 0.96).verdict(), Verdict::Near);
        assert_eq!(gain(0.57, 0.61).verdict(), Verdict::Near);
        assert_eq!(gain(1.4, 1.4).band(), "gain within 25 %");
        let absent = ReproducedRow { ours: None, ..row(2.0, 0.0, None, None) };
        assert_eq!(absent.verdict(), Verdict::Far);
        let open = ReproducedRow { published: false, ..row(2.0, 9.0, None, None) };
        assert_eq!(open.verdict(), Verdict::Open);
    }

    #[test]
    fn what_is_outside_says_so_in_every_form() {
        let rows = vec![row(2.0, 3.0, None, None)];
        let item = ReproducedItem { id: "p:fig1".into(), rows, ..ReproducedItem::default() };
        let report = Reproduction { items: vec![item], ..Reproduction::default() };
        for format in [Format::Table, Format::Csv] {
            assert!(render_reproduction(&report, format).contains("OUTSIDE"));
        }
        let json = render_reproduction(&report, Format::Json);
        let back: Reproduction = serde_json::from_str(&json).unwrap();
        assert_eq!(back, report);
    }
}
