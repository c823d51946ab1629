//! Plain CSV with a map of columns; also the text form that [`super::write`] writes, whose first
//! line names its columns: `time_ns,device,offset_bytes,length_bytes,op`.

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use super::text::{decimal, number, number_32, op_digit, op_word, scaled};
use super::{Bad, Format, LineParser, Op, Parser, TraceRecord};

/// The header line of our own CSV.
pub(super) const HEADER: &str = "time_ns,device,offset_bytes,length_bytes,op";
/// Highest column a map may name.
const COLUMNS_MAX: usize = 64;

const fn column(name: &'static str, help: &'static str) -> Param {
    Param { name, unit: "column", default: "0", range: "0..64", help }
}

const fn unit(name: &'static str, default: &'static str, help: &'static str) -> Param {
    Param { name, unit: "bytes", default, range: "1..1048576", help }
}

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "csv",
        summary: "CSV with a map of columns (from 1; 0: not there); without a map, our own columns",
        source: "-",
        params: &[
            column("time", "column of the time"),
            column("device", "column of the device number"),
            column("offset", "column of the offset"),
            column("length", "column of the length; 0: one unit long"),
            column("op", "column of the operation; 0: not recorded"),
            Param {
                name: "time-unit",
                unit: "-",
                default: "ns",
                range: "ns|us|ms|s",
                help: "unit of the time, which may have a fraction",
            },
            unit("offset-unit", "1", "bytes that the offset counts in"),
            unit("length-unit", "1", "bytes that the length counts in"),
            Param {
                name: "ops",
                unit: "-",
                default: "words",
                range: "words|write1|read1",
                help: "R, W, Read, Write, ?; or 1 for a write; or 1 for a read",
            },
            Param {
                name: "separator",
                unit: "-",
                default: "comma",
                range: "comma|semicolon|tab|space",
                help: "separator between columns",
            },
        ],
    },
    endings: &[".csv"],
    has_times: true,
    has_service: false,
    disorder_ns: 0,
    parser,
    sniff: None,
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    let column = |name| choice.number(name, 0, COLUMNS_MAX).map(|n| n.checked_sub(1));
    let time = column("time")?;
    let device = column("device")?;
    let offset = column("offset")?;
    let length = column("length")?;
    let op = column("op")?;
    let mapped = [time, device, offset, length, op].iter().any(Option::is_some);
    let separator = one_of(
        choice,
        "separator",
        &[("comma", b','), ("semicolon", b';'), ("tab", b'\t'), ("space", b' ')],
    )?;
    let map = Map {
        time,
        device,
        offset: offset.unwrap_or(0),
        length,
        op,
        time_shift: one_of(choice, "time-unit", &[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)])?,
        offset_unit: choice.number("offset-unit", 1, 1_048_576)?,
        length_unit: choice.number("length-unit", 1, 1_048_576)?,
        ops: one_of(
            choice,
            "ops",
            &[("words", None), ("write1", Some(b'0')), ("read1", Some(b'1'))],
        )?,
    };
    if mapped && offset.is_none() {
        let value = String::from("0");
        let expected = String::from("a column from 1 (a map needs it)");
        let (entry, param) = (choice.entry.name, "offset");
        return Err(ChoiceError::BadValue { entry, param, value, expected });
    }
    let state = if mapped { State::Mapped } else { State::WantsHeader };
    Ok(Parser::Lines(Box::new(Csv { map, separator, state, first: true })))
}

fn one_of<T: Copy>(
    choice: &Choice,
    param: &'static str,
    known: &[(&str, T)],
) -> Result<T, ChoiceError> {
    let value = choice.text(param);
    known.iter().find(|k| k.0 == value).map(|k| k.1).ok_or_else(|| ChoiceError::BadValue {
        entry: choice.entry.name,
        param,
        value: value.to_string(),
        expected: known.iter().map(|k| k.0).collect::<Vec<_>>().join(", "),
    })
}

/// Which column, from 0, holds what.
struct Map {
    time: Option<usize>,
    device: Option<usize>,
    offset: usize,
    length: Option<usize>,
    op: Option<usize>,
    /// Powers of ten from the unit to nanoseconds.
    time_shift: i32,
    offset_unit: u64,
    length_unit: u64,
    /// The digit that reads, if operations are digits.
    ops: Option<u8>,
}

enum State {
    WantsHeader,
    Mapped,
}

struct Csv {
    map: Map,
    separator: u8,
    state: State,
    /// No line has been seen.
    first: bool,
}

impl LineParser for Csv {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        if line.starts_with(b"#") {
            return Ok(None);
        }
        let first = std::mem::replace(&mut self.first, false);
        if matches!(self.state, State::WantsHeader) {
            if line != HEADER.as_bytes() {
                return Err(Bad::new(
                    "the header `time_ns,device,offset_bytes,length_bytes,op`, or a map such as \
                     csv:time=1,offset=2,length=3,op=4",
                ));
            }
            self.map = Map {
                time: Some(0),
                device: Some(1),
                offset: 2,
                length: Some(3),
                op: Some(4),
                ..std::mem::replace(&mut self.map, Map::EMPTY)
            };
            self.state = State::Mapped;
            return Ok(None);
        }
        match self.map.record(line, self.separator) {
            Some(record) => Ok(Some(record)),
            // The first line may hold the names of the columns.
            None if first && line.iter().any(u8::is_ascii_alphabetic) => Ok(None),
            None => Err(Bad::new("columns that fit the map: numbers and an operation")),
        }
    }
}

impl Map {
    const EMPTY: Map = Map {
        time: None,
        device: None,
        offset: 0,
        length: None,
        op: None,
        time_shift: 0,
        offset_unit: 1,
        length_unit: 1,
        ops: None,
    };

    fn record(&self, line: &[u8], separator: u8) -> Option<TraceRecord> {
        let mut found = Found::default();
        let fields = line
            .split(|&byte| byte == separator)
            .filter(|field| separator != b' ' || !field.is_empty());
        for (index, field) in fields.enumerate() {
            self.take(index, field.trim_ascii(), &mut found)?;
        }
        let missing = |column: Option<usize>, value: Option<u64>, absent: u64| match column {
            None => Some(absent),
            Some(_) => value,
        };
        Some(TraceRecord {
            time_ns: missing(self.time, found.time_ns, 0)?,
            device: missing(self.device, found.device, 0)? as u32,
            offset_bytes: scaled(found.offset?, self.offset_unit)?,
            length_bytes: scaled(missing(self.length, found.length, 1)?, self.length_unit)?,
            op: match self.op {
                None => Op::Unknown,
                Some(_) => found.op?,
            },
            service: None,
        })
    }

    /// Reads the field at `index` for every column mapped to it. None: it does not fit.
    #[inline]
    fn take(&self, index: usize, field: &[u8], found: &mut Found) -> Option<()> {
        let here = |column: Option<usize>| column == Some(index);
        if here(self.time) {
            found.time_ns = Some(match self.time_shift {
                0 => number(field)?,
                shift => decimal(field, shift)?,
            });
        }
        if here(self.device) {
            found.device = Some(u64::from(number_32(field)?));
        }
        if index == self.offset {
            found.offset = Some(number(field)?);
        }
        if here(self.length) {
            found.length = Some(number(field)?);
        }
        if here(self.op) {
            found.op = Some(match (field, self.ops) {
                (b"?", _) => Op::Unknown,
                (field, Some(read)) => op_digit(field, read)?,
                (field, None) => op_word(field)?,
            });
        }
        Some(())
    }
}

/// What the mapped columns of a line held.
#[derive(Default)]
struct Found {
    time_ns: Option<u64>,
    device: Option<u64>,
    offset: Option<u64>,
    length: Option<u64>,
    op: Option<Op>,
}
