//! Lists of rows, printed as aligned text, CSV or JSON: every command's lists go through here.

use crate::format::Format;
use serde_json::{Map, Value};
use std::fmt::Write;

/// One cell of a [`Table`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cell(Content);

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Empty,
    Text(String),
    /// A number as the user wrote it.
    Written(String),
    Int(u64),
    Num {
        value: f64,
        decimals: usize,
    },
}

impl Cell {
    /// Words, aligned left.
    pub fn text(text: impl Into<String>) -> Self {
        Self(Content::Text(text.into()))
    }

    /// A parameter as it was written: text that is aligned right if it is a number.
    pub fn written(text: impl Into<String>) -> Self {
        let text = text.into();
        let numeric = text.parse::<f64>().is_ok_and(f64::is_finite);
        Self(if numeric { Content::Written(text) } else { Content::Text(text) })
    }

    /// A count.
    pub fn int(value: u64) -> Self {
        Self(Content::Int(value))
    }

    /// A measurement, rounded to `decimals` in text; CSV and JSON keep all digits. One that is not
    /// finite counts as [`Cell::empty`].
    pub fn num(value: f64, decimals: usize) -> Self {
        if value.is_finite() { Self(Content::Num { value, decimals }) } else { Self::empty() }
    }

    /// A measurement that may be absent.
    pub fn maybe(value: Option<f64>, decimals: usize) -> Self {
        value.map_or(Self::empty(), |value| Self::num(value, decimals))
    }

    /// Nothing to say: `-` in text, nothing in CSV, null in JSON.
    pub fn empty() -> Self {
        Self(Content::Empty)
    }

    /// As the text table shows it. Control characters become spaces, so a row stays one line.
    pub fn shown(&self) -> String {
        match &self.0 {
            Content::Empty => "-".to_owned(),
            Content::Text(text) | Content::Written(text) => {
                text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
            }
            Content::Int(value) => value.to_string(),
            Content::Num { value, decimals } => {
                let shown = format!("{value:.decimals$}");
                // -0.0 reads as a sign that means something.
                let zero = shown.trim_start_matches('-').chars().all(|c| c == '0' || c == '.');
                if zero { shown.trim_start_matches('-').to_owned() } else { shown }
            }
        }
    }

    fn csv(&self) -> String {
        match &self.0 {
            Content::Empty => String::new(),
            Content::Text(text) | Content::Written(text) => csv_field(text),
            Content::Int(value) => value.to_string(),
            Content::Num { value, .. } => value.to_string(),
        }
    }

    fn json(&self) -> Value {
        match &self.0 {
            Content::Empty => Value::Null,
            Content::Text(text) | Content::Written(text) => Value::from(text.as_str()),
            Content::Int(value) => Value::from(*value),
            Content::Num { value, .. } => Value::from(*value),
        }
    }

    fn is_text(&self) -> bool {
        matches!(self.0, Content::Text(_))
    }
}

/// Quotes a CSV field where RFC 4180 asks for it.
pub fn csv_field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[derive(Clone, Debug)]
struct Head {
    name: String,
    unit: String,
    group: String,
}

/// Rows of cells under headers with units.
///
/// ```
/// use destage_report::{Cell, Format, Table};
/// let table = Table::new(&[("disk", ""), ("seek", "ms")])
///     .row(vec![Cell::text("hp97560"), Cell::num(13.52, 1)]);
/// assert_eq!(
///     table.render(Format::Table),
///     "disk     seek\n           ms\n-------  ----\nhp97560  13.5\n",
/// );
/// assert_eq!(table.render(Format::Csv), "disk,seek_ms\r\nhp97560,13.52\r\n");
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<Head>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns, each a name and a unit, which may be empty.
    pub fn new(columns: &[(&str, &str)]) -> Self {
        let head = |&(name, unit): &(&str, &str)| Head {
            name: name.to_owned(),
            unit: unit.to_owned(),
            group: String::new(),
        };
        Self { heads: columns.iter().map(head).collect(), rows: Vec::new() }
    }

    /// Puts a common heading over `count` columns from `first` on.
    ///
    /// # Panics
    /// If there are no such columns.
    #[must_use]
    pub fn group(mut self, first: usize, count: usize, name: &str) -> Self {
        for head in &mut self.heads[first..first + count] {
            name.clone_into(&mut head.group);
        }
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not as many cells as there are columns.
    #[must_use]
    pub fn row(mut self, cells: Vec<Cell>) -> Self {
        self.push(cells);
        self
    }

    /// Adds a row in place.
    ///
    /// # Panics
    /// If it has not as many cells as there are columns.
    pub fn push(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.heads.len(), "a row needs one cell per column");
        self.rows.push(cells);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Names and units of the columns.
    pub fn heads(&self) -> impl Iterator<Item = (&str, &str)> {
        self.heads.iter().map(|head| (head.name.as_str(), head.unit.as_str()))
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// The table as text, ending in a newline.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Table => self.text(),
            Format::Csv => self.csv(),
            Format::Json => self.json(),
        }
    }

    /// Column names for machines: group, name and unit in lower case, joined by `_`; no two alike.
    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for head in &self.heads {
            let whole = [&head.group, &head.name, &head.unit].map(|part| slug(part));
            let parts: Vec<&str> =
                whole.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
            let base = parts.join("_");
            let mut key = base.clone();
            let mut copy = 2;
            while keys.contains(&key) {
                key = format!("{base}_{copy}");
                copy += 1;
            }
            keys.push(key);
        }
        keys
    }

    fn csv(&self) -> String {
        let mut out = self.keys().join(",") + "\r\n";
        for row in &self.rows {
            let fields: Vec<String> = row.iter().map(Cell::csv).collect();
            out += &(fields.join(",") + "\r\n");
        }
        out
    }

    fn json(&self) -> String {
        let keys = self.keys();
        let object = |row: &Vec<Cell>| {
            let pairs = keys.iter().cloned().zip(row.iter().map(Cell::json));
            Value::Object(pairs.collect::<Map<String, Value>>())
        };
        let rows = Value::Array(self.rows.iter().map(object).collect());
        format!("{rows:#}\n")
    }

    fn text(&self) -> String {
        let shown: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        let mut widths: Vec<usize> = self
            .heads
            .iter()
            .enumerate()
            .map(|(i, head)| {
                let cells = shown.iter().map(|row| width(&row[i])).max().unwrap_or(0);
                cells.max(width(&head.name)).max(width(&head.unit))
            })
            .collect();
        let left: Vec<bool> = (0..self.heads.len())
            .map(|i| self.rows.iter().any(|row| row[i].is_text()) || self.rows.is_empty())
            .collect();
        let mut out = self.group_line(&mut widths);
        line(&mut out, &widths, &left, self.heads.iter().map(|h| h.name.as_str()));
        if self.heads.iter().any(|head| !head.unit.is_empty()) {
            line(&mut out, &widths, &left, self.heads.iter().map(|h| h.unit.as_str()));
        }
        let rules: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        line(&mut out, &widths, &left, rules.iter().map(String::as_str));
        for row in &shown {
            line(&mut out, &widths, &left, row.iter().map(String::as_str));
        }
        out
    }

    /// The line of common headings, widening the last column of a group too narrow for its name.
    fn group_line(&self, widths: &mut [usize]) -> String {
        let mut out = String::new();
        let mut first = 0;
        while first < self.heads.len() {
            let name = &self.heads[first].group;
            let same = self.heads[first..].iter().take_while(|head| head.group == *name).count();
            let end = if name.is_empty() { first + 1 } else { first + same };
            let span =
                |widths: &[usize]| widths[first..end].iter().sum::<usize>() + 2 * (end - first - 1);
            widths[end - 1] += width(name).saturating_sub(span(widths));
            let room = span(widths) - width(name);
            let fill = if name.is_empty() || room < 4 {
                name.clone() + &" ".repeat(room)
            } else {
                let before = (room - 2) / 2;
                format!("{} {name} {}", "-".repeat(before), "-".repeat(room - 2 - before))
            };
            out += &fill;
            out += "  ";
            first = end;
        }
        let trimmed = out.trim_end();
        if trimmed.is_empty() { String::new() } else { trimmed.to_owned() + "\n" }
    }
}

/// Appends one line of cells, without spaces at its end.
fn line<'a>(
    out: &mut String,
    widths: &[usize],
    left: &[bool],
    cells: impl Iterator<Item = &'a str>,
) {
    let start = out.len();
    for (i, cell) in cells.enumerate() {
        let pad = " ".repeat(widths[i].saturating_sub(width(cell)));
        let gap = if i == 0 { "" } else { "  " };
        let (before, after) = if left[i] { ("", pad.as_str()) } else { (pad.as_str(), "") };
        let _ = write!(out, "{gap}{before}{cell}{after}");
    }
    let end = out[start..].trim_end().len();
    out.truncate(start + end);
    out.push('\n');
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A header part as a key: `p99.9` becomes `p99_9`, `%` becomes `percent`.
fn slug(part: &str) -> String {
    let spelled =
        part.replace('%', " percent ").replace('±', " half_width ").replace("I/O/s", "per_s");
    let mut out = String::new();
    for c in spelled.chars() {
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        } else if !out.ends_with('_') && !out.is_empty() {
            out.push('_');
        }
    }
    out.trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        Table::new(&[("name", ""), ("mean", "ms"), ("share", "%"), ("mean", "ms")])
            .group(1, 2, "response times")
            .row(vec![Cell::text("a"), Cell::num(1.25, 1), Cell::int(7), Cell::empty()])
            .row(vec![
                Cell::text("long, \"name\"\nx"),
                Cell::num(f64::NAN, 1),
                Cell::int(12),
                Cell::int(3),
            ])
    }

    #[test]
    fn text_is_aligned_and_rows_stay_single_lines() {
        let text = sample().render(Format::Table);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(lines.iter().all(|line| !line.ends_with(' ')));
        let ends: Vec<usize> = lines[1..].iter().map(|line| line.len()).collect();
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        assert!(lines[4].starts_with("a  ") && lines[4].ends_with("  -"), "{text}");
        assert!(lines[5].starts_with("long, \"name\" x"), "{text}");
    }

    #[test]
    fn csv_quotes_and_keys_are_unique() {
        let csv = sample().render(Format::Csv);
        assert_eq!(
            csv,
            "name,response_times_mean_ms,response_times_share_percent,mean_ms\r\n\
             a,1.25,7,\r\n\"long, \"\"name\"\"\nx\",,12,3\r\n"
        );
        let twice = Table::new(&[("a", ""), ("A", "")]).render(Format::Csv);
        assert_eq!(twice, "a,a_2\r\n");
    }

    #[test]
    fn json_parses_and_keeps_types() {
        let rows: Value = serde_json::from_str(&sample().render(Format::Json)).unwrap();
        assert_eq!(rows[0]["response_times_mean_ms"], 1.25);
        assert_eq!(rows[0]["mean_ms"], Value::Null);
        assert_eq!(rows[1]["name"], "long, \"name\"\nx");
        assert_eq!(rows[1]["response_times_share_percent"], 12);
    }

    #[test]
    fn empty_tables_render() {
        for format in [Format::Table, Format::Csv, Format::Json] {
            assert!(Table::new(&[]).render(format).ends_with('\n'));
            assert!(!Table::new(&[("x", "ms")]).render(format).is_empty());
        }
    }

    #[test]
    fn negative_zero_has_no_sign() {
        assert_eq!(Cell::num(-0.001, 1).shown(), "0.0");
        assert_eq!(Cell::num(-0.11, 1).shown(), "-0.1");
    }
}
