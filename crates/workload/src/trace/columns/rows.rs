//! From the cells of a row to a request, whether they come from text or from a table.

use std::collections::HashMap;

use super::super::text::{decimal, number, scaled};
use super::super::{Bad, Op, TraceRecord};
use super::grammar::{Column, OBJECT_COLUMNS, Spec};

/// Cells that a request is made of: time, operation, offset, size, device, and what names the
/// object.
pub(super) const CELLS: usize = 5 + OBJECT_COLUMNS;
/// Devices that have names.
const NAMES_MAX: u64 = 1 << 32;

/// What is in a cell.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    /// Nothing.
    Missing,
    /// A whole number.
    #[cfg_attr(not(feature = "tables"), expect(dead_code, reason = "text has none"))]
    Number(u64),
    /// Text, perhaps of a number.
    Text(&'a [u8]),
}

/// What an operation's text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Is(Op),
    Skip,
}

/// Makes requests of rows.
pub(super) struct Rows {
    spec: Spec,
    /// Nanoseconds of the time's unit.
    time_unit_ns: u64,
    /// What operations are written as; those that end in `*` come last, the longest first.
    ops: Vec<(Vec<u8>, bool, Meaning)>,
    names: Numbers,
    objects: Numbers,
    /// The name of an object, of several columns.
    key: Vec<u8>,
}

impl Rows {
    /// For rows of this specification, of which time has that unit.
    pub(super) fn new(spec: Spec, time_unit_ns: u64) -> Rows {
        let mut ops = Vec::new();
        if let Some((_, lists)) = &spec.op {
            for (list, meaning) in [
                (&lists.read, Meaning::Is(Op::Read)),
                (&lists.write, Meaning::Is(Op::Write)),
                (&lists.unknown, Meaning::Is(Op::Unknown)),
                (&lists.skip, Meaning::Skip),
            ] {
                ops.extend(list.iter().map(|text| match text.strip_suffix('*') {
                    Some(begin) => (begin.as_bytes().to_vec(), true, meaning),
                    None => (text.as_bytes().to_vec(), false, meaning),
                }));
            }
        }
        ops.sort_by_key(|(text, begins, _)| (*begins, std::cmp::Reverse(text.len())));
        let (names, objects, key) = (Numbers::default(), Numbers::default(), Vec::new());
        Rows { spec, time_unit_ns, ops, names, objects, key }
    }

    /// The request of a row, or none if its operation is one that is left out.
    pub(super) fn record(&mut self, cells: &[Cell<'_>; CELLS]) -> Result<Option<TraceRecord>, Bad> {
        let spec = &self.spec;
        let op = match &spec.op {
            None => Op::Unknown,
            Some((column, lists)) => match meaning(&self.ops, cells[1]) {
                Some(Meaning::Is(op)) => op,
                Some(Meaning::Skip) => return Ok(None),
                None => {
                    let expected = format!("{} in column {column}", lists.describe());
                    return Err(bad(expected, cells[1]));
                }
            },
        };
        let time_ns = match &spec.time {
            None => 0,
            Some((column, _)) => time(cells[0], self.time_unit_ns)
                .ok_or_else(|| bad(format!("a time as a number in column {column}"), cells[0]))?,
        };
        let offset_bytes = match &spec.offset {
            None => 0,
            Some((column, unit)) => amount(cells[2], *unit, "an offset", column)?,
        };
        let length_bytes = match &spec.size {
            None => spec.offset.as_ref().map_or(1, |(_, unit)| *unit),
            Some((column, unit)) => amount(cells[3], *unit, "a size", column)?,
        };
        let device = match &spec.device {
            None => 0,
            Some((column, named)) => device(&mut self.names, cells[4], *named, column)?,
        };
        let mut record =
            TraceRecord { time_ns, device, offset_bytes, length_bytes, op, service: None };
        if let Some((columns, room)) = &spec.object {
            let place = (&mut self.objects, &mut self.key);
            put(place, &mut record, &cells[5..5 + columns.len()], columns, *room)?;
        }
        Ok(Some(record))
    }
}

fn meaning(ops: &[(Vec<u8>, bool, Meaning)], cell: Cell<'_>) -> Option<Meaning> {
    let mut digits = [0; 20];
    let text = text_of(cell, &mut digits)?;
    let fits = |(known, begins, _): &&(Vec<u8>, bool, Meaning)| {
        let begin = text.get(..known.len());
        let same = begin.is_some_and(|begin| begin.eq_ignore_ascii_case(known));
        same && (*begins || text.len() == known.len())
    };
    ops.iter().find(fits).map(|(_, _, meaning)| *meaning)
}

fn device(names: &mut Numbers, cell: Cell<'_>, named: bool, column: &Column) -> Result<u32, Bad> {
    if !named {
        let number = integer(cell).and_then(|number| u32::try_from(number).ok());
        return number
            .ok_or_else(|| bad(format!("a device number below 2^32 in column {column}"), cell));
    }
    let mut digits = [0; 20];
    let name = text_of(cell, &mut digits);
    let name = name.ok_or_else(|| bad(format!("a name in column {column}"), cell))?;
    let number = names.of(name);
    assert!(number < NAMES_MAX, "memory ends before names do");
    Ok(number as u32)
}

/// Moves a request into the place of its object.
fn put(
    (objects, key): (&mut Numbers, &mut Vec<u8>),
    record: &mut TraceRecord,
    cells: &[Cell<'_>],
    columns: &[Column],
    room: u64,
) -> Result<(), Bad> {
    if record.end_bytes() > room {
        let columns: Vec<String> = columns.iter().map(Column::to_string).collect();
        let expected = format!(
            "a request within the {room} bytes of an object (object={}:BYTES sets another \
             number)",
            columns.join("+")
        );
        let found = format!("bytes {} to {}", record.offset_bytes, record.end_bytes());
        return Err(Bad::of_cell(expected, found.as_bytes()));
    }
    key.clear();
    for (cell, column) in cells.iter().zip(columns) {
        let mut digits = [0; 20];
        let text = text_of(*cell, &mut digits);
        let text = text.ok_or_else(|| bad(format!("a name in column {column}"), *cell))?;
        // Its length comes first, so that `a` and `bc` are not `ab` and `c`.
        key.extend_from_slice(&(text.len() as u64).to_le_bytes());
        key.extend_from_slice(text);
    }
    let number = objects.of(key);
    let begin = scaled(number + 1, room).map(|end| end - room);
    let begin = begin.ok_or(Bad::new("objects that take less than 2^62 bytes in all"))?;
    record.offset_bytes += begin;
    Ok(())
}

/// Numbers for names, in the order of their first appearance.
#[derive(Default)]
struct Numbers {
    known: HashMap<Box<[u8]>, u64>,
}

impl Numbers {
    fn of(&mut self, name: &[u8]) -> u64 {
        if let Some(number) = self.known.get(name) {
            return *number;
        }
        let number = self.known.len() as u64;
        self.known.insert(name.into(), number);
        number
    }
}

fn bad(expected: String, cell: Cell<'_>) -> Bad {
    let mut digits = [0; 20];
    Bad::of_cell(expected, text_of(cell, &mut digits).unwrap_or_default())
}

/// A cell as text.
fn text_of<'a>(cell: Cell<'a>, digits: &'a mut [u8; 20]) -> Option<&'a [u8]> {
    let mut number = match cell {
        Cell::Missing => return None,
        Cell::Text(text) => return Some(text),
        Cell::Number(number) => number,
    };
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return Some(&digits[at..]);
        }
    }
}

/// A whole number; one that is written as `7.0`, too.
fn integer(cell: Cell<'_>) -> Option<u64> {
    match cell {
        Cell::Missing => None,
        Cell::Number(number) => Some(number),
        Cell::Text(text) => number(text.strip_suffix(b".0").unwrap_or(text)),
    }
}

fn time(cell: Cell<'_>, unit_ns: u64) -> Option<u64> {
    match cell {
        Cell::Missing => None,
        Cell::Number(number) => number.checked_mul(unit_ns),
        // 100 ns are not a power of ten below the next unit, so there are no fractions of them.
        Cell::Text(text) if unit_ns == 100 => number(text)?.checked_mul(unit_ns),
        Cell::Text(text) => decimal(text, unit_ns.ilog10() as i32),
    }
}

fn amount(cell: Cell<'_>, unit: u64, what: &str, column: &Column) -> Result<u64, Bad> {
    integer(cell).and_then(|count| scaled(count, unit)).ok_or_else(|| {
        let unit = match unit {
            1 => String::from("bytes"),
            unit => format!("units of {unit} bytes"),
        };
        bad(format!("{what} as a whole number of {unit} in column {column}"), cell)
    })
}
