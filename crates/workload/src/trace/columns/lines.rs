//! Rows of text: comma, semicolon, tab, bar or space between the columns.

use std::sync::Arc;

use super::super::{Bad, LineParser, TraceRecord};
use super::grammar::{Column, Place, Spec};
use super::rows::{CELLS, Cell, Rows};
use super::unknown_columns;

/// Reads lines by the first of several specifications whose columns are all there.
pub(super) struct Lines {
    specs: Vec<Arc<Spec>>,
    /// Whether the user described the columns.
    described: bool,
    state: State,
}

enum State {
    /// No line of columns has been seen.
    Begin,
    /// The columns are known, and whether the line may have names all the same.
    Bound(Box<Bound>, bool),
    /// The first line has not the columns that are needed, in words.
    Unbound(String),
}

/// What each field of a line is for.
struct Bound {
    separator: u8,
    /// In the order of the line.
    places: Vec<Place>,
    rows: Rows,
}

impl Lines {
    pub(super) fn new(specs: Vec<Arc<Spec>>, described: bool) -> Lines {
        Lines { specs, described, state: State::Begin }
    }

    /// Binds the columns by the first line; whether that line has names and no request.
    fn begin(&mut self, line: &[u8]) -> Result<bool, Bad> {
        let comment = line.starts_with(b"#");
        let line = if comment { line[1..].trim_ascii() } else { line };
        let mut missing = None;
        for spec in &self.specs {
            let separator = spec.separator.unwrap_or_else(|| separator_of(line));
            let names: Vec<_> = Fields::of(line, separator).map(String::from_utf8_lossy).collect();
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            let (spec, mut places) = match spec.located(&names) {
                Ok(located) => located,
                Err(why) => {
                    let why = if self.described { why } else { unknown_columns(&names) };
                    missing.get_or_insert(why);
                    continue;
                }
            };
            let by_name = places.iter().any(|place| matches!(place.column, Column::Named(_)));
            if comment && !by_name {
                return Ok(true);
            }
            let unit_ns = spec.time.as_ref().and_then(|(_, unit_ns)| *unit_ns);
            if let (Some((column, _)), None) = (&spec.time, unit_ns) {
                let expected = format!("a unit of time in columns, e.g. time={column}:us");
                return Err(Bad::of_cell(expected, column.to_string().as_bytes()));
            }
            places.sort_by_key(|place| (place.at, place.cell));
            let rows = Rows::new(spec, unit_ns.unwrap_or(1));
            let bound = Box::new(Bound { separator, places, rows });
            self.state = State::Bound(bound, !by_name);
            return Ok(by_name);
        }
        if comment {
            return Ok(true);
        }
        let missing = missing.expect("a specification");
        self.state = State::Unbound(missing.clone());
        Err(Bad::Columns(missing))
    }
}

impl LineParser for Lines {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        if matches!(self.state, State::Begin) && self.begin(line)? {
            return Ok(None);
        }
        match &mut self.state {
            State::Begin => Ok(None),
            State::Unbound(missing) => Err(Bad::Columns(missing.clone())),
            _ if line.starts_with(b"#") => Ok(None),
            State::Bound(bound, first) => {
                let first = std::mem::replace(first, false);
                match bound.record(line) {
                    // The first line may have names that are not asked for.
                    Err(_) if first && line.iter().any(u8::is_ascii_alphabetic) => Ok(None),
                    other => other,
                }
            }
        }
    }
}

impl Bound {
    fn record(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        let mut cells = [Cell::Missing; CELLS];
        let mut fields = Fields::of(line, self.separator);
        let mut here = 0;
        let mut field = fields.next();
        for Place { at, cell, column } in &self.places {
            while here < *at && field.is_some() {
                (here, field) = (here + 1, fields.next());
            }
            let Some(text) = field else {
                let expected = format!("a line that has the column {column}, number {}", at + 1);
                return Err(Bad::of_cell(expected, line));
            };
            cells[*cell] = if text.is_empty() { Cell::Missing } else { Cell::Text(text) };
        }
        self.rows.record(&cells)
    }
}

/// The separator that a line has.
fn separator_of(line: &[u8]) -> u8 {
    let there = |separator: &&u8| line.contains(separator);
    b"\t,;|".iter().find(there).copied().unwrap_or(b' ')
}

/// The fields of a line. One in double quotes may contain separators.
struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Fields<'a> {
    fn of(line: &'a [u8], separator: u8) -> Fields<'a> {
        Fields { rest: Some(line), separator }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let mut rest = self.rest?;
        let blank = self.separator == b' ';
        if blank {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                self.rest = None;
                return None;
            }
        }
        let begin = match rest {
            [b'"', quoted @ ..] => {
                quoted.iter().position(|&byte| byte == b'"').map_or(0, |end| end + 2)
            }
            _ => 0,
        };
        let ends = |byte: &u8| *byte == self.separator || blank && byte.is_ascii_whitespace();
        let end = rest[begin..].iter().position(ends).map(|end| begin + end);
        self.rest = end.map(|end| &rest[end + 1..]);
        let field = rest[..end.unwrap_or(rest.len())].trim_ascii();
        Some(match field {
            [b'"', inner @ .., b'"'] => inner,
            field => field,
        })
    }
}
