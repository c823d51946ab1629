//! The grammar of `--trace-columns`, which presets use too:
//!
//! ```text
//! time=timestamp:us, op=kind:read=1|2:write=3, offset=lba:sectors, size=len:bytes, device=disk
//! ```

use super::super::select;
use destage_engine::units::{PAGE_BYTES, SECTOR_BYTES};

/// Columns that one object may be named by.
pub(super) const OBJECT_COLUMNS: usize = 4;
/// Highest position of a column.
const POSITION_MAX: usize = 4096;
/// Most bytes of a unit, or of an object.
const UNIT_MAX: u64 = 1 << 40;
/// Names of columns that an error lists.
const NAMES_SHOWN: usize = 20;
/// Letters of a name that it shows.
const NAME_SHOWN: usize = 60;

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Its position, from 1.
    At(usize),
    /// Its name.
    Named(String),
    /// The only one whose name is like this in any case of letters; `*` is any text.
    Like(String),
}

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Column::At(position) => write!(f, "{position}"),
            Column::Named(name) | Column::Like(name) => write!(f, "{name}"),
        }
    }
}

impl Column {
    /// Its place from 0 among the columns with these names.
    fn find(&self, names: &[&str]) -> Result<usize, String> {
        let there_are = || format!("there are: {}", shown(names));
        match self {
            Column::At(position) => Ok(position - 1),
            Column::Named(name) => {
                let same = |(_, other): &(usize, &&str)| **other == name;
                let found: Vec<usize> =
                    names.iter().enumerate().filter(same).map(|(at, _)| at).collect();
                match found[..] {
                    [place] => Ok(place),
                    [] => Err(format!("no column is named {name}; {}", there_are())),
                    _ => {
                        let found: Vec<_> = found.iter().map(|at| (at + 1).to_string()).collect();
                        let positions = found.join(" and ");
                        Err(format!(
                            "columns {positions} are named {name}: give the position in place of \
                             the name"
                        ))
                    }
                }
            }
            Column::Like(pattern) => {
                let like = |&(_, name): &(usize, &&str)| is_like(name, pattern);
                let found: Vec<(usize, &&str)> = names.iter().enumerate().filter(like).collect();
                match found[..] {
                    [(place, _)] => Ok(place),
                    [] => Err(format!("no column is like {pattern}; {}", there_are())),
                    _ => {
                        let found: Vec<&str> = found.iter().map(|(_, name)| **name).collect();
                        Err(format!("several columns are like {pattern}: {}", shown(&found)))
                    }
                }
            }
        }
    }
}

/// Whether a name is like a pattern, in any case of letters.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.to_lowercase(), pattern.to_lowercase());
    let Some((begin, rest)) = pattern.split_once('*') else { return name == pattern };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = name.strip_prefix(begin).and_then(|inner| inner.strip_suffix(end));
    let Some(mut inner) = inner else { return false };
    middle.split('*').all(|part| match inner.split_once(part) {
        Some((_, after)) => {
            inner = after;
            true
        }
        None => false,
    })
}

/// The first of these names.
pub(super) fn shown(names: &[&str]) -> String {
    let printable = |letter: char| if letter.is_control() { '?' } else { letter };
    let cut = |name: &&str| name.chars().take(NAME_SHOWN).map(printable).collect::<String>();
    let more = if names.len() > NAMES_SHOWN { ", ..." } else { "" };
    names.iter().take(NAMES_SHOWN).map(cut).collect::<Vec<_>>().join(", ") + more
}

/// A column that a specification needs.
pub(super) struct Place {
    /// Its place in the file, from 0.
    pub at: usize,
    /// The cell of a row that it fills.
    pub cell: usize,
    pub column: Column,
}

/// How the operation is written: texts that mean each, of which one may end in `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ops {
    pub read: Vec<String>,
    pub write: Vec<String>,
    /// Not recorded.
    pub unknown: Vec<String>,
    /// Lines that are left out.
    pub skip: Vec<String>,
}

impl Ops {
    /// In the words of an error.
    pub fn describe(&self) -> String {
        let lists = [("read", &self.read), ("write", &self.write), ("unknown", &self.unknown)];
        let given = lists.iter().filter(|(_, values)| !values.is_empty());
        let given: Vec<String> =
            given.map(|(name, values)| format!("{name}={}", values.join("|"))).collect();
        given.join(" or ")
    }
}

/// What the columns of a file hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spec {
    /// Nanoseconds of the unit; none: what the file says.
    pub time: Option<(Column, Option<u64>)>,
    pub op: Option<(Column, Ops)>,
    /// Bytes of the unit.
    pub offset: Option<(Column, u64)>,
    pub size: Option<(Column, u64)>,
    /// Whether devices are names, which are numbered in the order of appearance.
    pub device: Option<(Column, bool)>,
    /// Columns that name an object, and the bytes that each has.
    pub object: Option<(Vec<Column>, u64)>,
    /// The character between columns; none: by the first line.
    pub separator: Option<u8>,
}

impl Spec {
    /// Every column with the cell that it fills.
    fn columns_mut(&mut self) -> impl Iterator<Item = (usize, &mut Column)> {
        let one = [
            self.time.as_mut().map(|(column, _)| column),
            self.op.as_mut().map(|(column, _)| column),
            self.offset.as_mut().map(|(column, _)| column),
            self.size.as_mut().map(|(column, _)| column),
            self.device.as_mut().map(|(column, _)| column),
        ];
        let object = self.object.iter_mut().flat_map(|(columns, _)| columns).map(Some);
        one.into_iter().chain(object).enumerate().filter_map(|(cell, column)| Some((cell, column?)))
    }

    /// Finds the columns in a file with these names; or why one cannot be found. The names replace
    /// patterns. Positions are not looked up.
    pub fn located(&self, names: &[&str]) -> Result<(Spec, Vec<Place>), String> {
        let mut spec = self.clone();
        let mut places = Vec::new();
        for (cell, column) in spec.columns_mut() {
            let at = column.find(names)?;
            if matches!(column, Column::Like(_)) {
                *column = Column::Named(names[at].to_string());
            }
            places.push(Place { at, cell, column: column.clone() });
        }
        Ok((spec, places))
    }
}

/// Understands the text of a specification.
pub(super) fn parse(text: &str) -> Result<Spec, String> {
    let mut spec = Spec::default();
    let mut seen: Vec<String> = Vec::new();
    for part in split_outside_quotes(text, ',')? {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let (field, value) = part.split_once('=').ok_or_else(|| {
            format!("`{part}` is not FIELD=COLUMN, e.g. time=timestamp:us or time=1:us")
        })?;
        let field = field.trim();
        if seen.iter().any(|other| other == field) {
            return Err(format!("{field} is given twice"));
        }
        seen.push(field.to_string());
        add(&mut spec, field, value).map_err(|why| format!("{field}: {why}"))?;
    }
    if spec.offset.is_none() && spec.object.is_none() {
        return Err(String::from("a column for the offset is missing, e.g. offset=lba:sectors"));
    }
    let unit = spec.offset.as_ref().map_or(1, |(_, unit)| *unit);
    if spec.size.is_none() && unit == 1 {
        return Err(String::from(
            "a column for the size is missing, e.g. size=len:bytes; only offsets that count \
             sectors or pages may do without: each request then has one",
        ));
    }
    Ok(spec)
}

fn add(spec: &mut Spec, field: &str, value: &str) -> Result<(), String> {
    if field == "sep" {
        spec.separator = Some(separator(value.trim())?);
        return Ok(());
    }
    let parts = split_outside_quotes(value, ':')?;
    let (first, settings) = parts.split_first().expect("a split has a part");
    let mut columns = Vec::new();
    for name in split_outside_quotes(first, '+')? {
        columns.push(column(name.trim())?);
    }
    if field == "object" {
        if columns.len() > OBJECT_COLUMNS {
            return Err(format!("at most {OBJECT_COLUMNS} columns name an object"));
        }
        let room = match settings {
            [room] => bytes(room.trim()).filter(|bytes| bytes.is_multiple_of(PAGE_BYTES)),
            _ => None,
        };
        let room = room.ok_or("needs the bytes of one, in pages of 4K, e.g. object=block_id:8M")?;
        spec.object = Some((columns, room));
        return Ok(());
    }
    if columns.len() > 1 {
        return Err(String::from("takes one column; only object takes several"));
    }
    let column = columns.remove(0);
    match field {
        "time" => spec.time = Some((column, setting(settings, time_unit)?)),
        "op" => spec.op = Some((column, ops(settings)?)),
        "offset" => spec.offset = Some((column, setting(settings, size_unit)?.unwrap_or(1))),
        "size" => spec.size = Some((column, setting(settings, size_unit)?.unwrap_or(1))),
        "device" => spec.device = Some((column, setting(settings, device_kind)?.unwrap_or(false))),
        _ => {
            return Err(String::from(
                "not a field; fields are time, op, offset, size, device, object and sep",
            ));
        }
    }
    Ok(())
}

/// The only setting of a field, if it has one.
fn setting<T>(settings: &[&str], read: fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    match settings {
        [] => Ok(None),
        [one] => read(one.trim()).map(Some),
        [_, more, ..] => Err(format!("`:{more}` is one setting too many")),
    }
}

fn separator(name: &str) -> Result<u8, String> {
    Ok(match name {
        "comma" => b',',
        "semicolon" => b';',
        "tab" => b'\t',
        "space" => b' ',
        "bar" => b'|',
        _ => return Err(format!("takes comma, semicolon, tab, space or bar, not `{name}`")),
    })
}

fn column(text: &str) -> Result<Column, String> {
    if let Some(name) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Ok(Column::Named(name.to_string()));
    }
    if text.is_empty() {
        return Err(String::from("names no column"));
    }
    if text.contains('*') {
        return Ok(Column::Like(text.to_string()));
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Column::Named(text.to_string()));
    }
    match text.parse() {
        Ok(position @ 1..=POSITION_MAX) => Ok(Column::At(position)),
        _ => Err(format!("columns count from 1 to {POSITION_MAX}, not `{text}`")),
    }
}

/// Nanoseconds of a unit of time.
fn time_unit(name: &str) -> Result<u64, String> {
    Ok(match name {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        // 100 ns, as Windows counts them.
        "filetime" => 100,
        _ => return Err(format!("the unit is s, ms, us, ns or filetime, not `{name}`")),
    })
}

/// Bytes of a unit of addresses or sizes.
fn size_unit(name: &str) -> Result<u64, String> {
    match name {
        "bytes" => Ok(1),
        "sectors" => Ok(SECTOR_BYTES),
        "pages" => Ok(PAGE_BYTES),
        _ => bytes(name).ok_or_else(|| {
            format!("the unit is bytes, sectors, pages or a number of bytes as 4K, not `{name}`")
        }),
    }
}

/// A number of bytes, e.g. 4K.
pub(super) fn bytes(text: &str) -> Option<u64> {
    select::bytes(text).filter(|bytes| (1..=UNIT_MAX).contains(bytes))
}

fn device_kind(kind: &str) -> Result<bool, String> {
    match kind {
        "number" => Ok(false),
        "name" => Ok(true),
        _ => Err(format!("devices are a number or a name, not `{kind}`")),
    }
}

fn ops(settings: &[&str]) -> Result<Ops, String> {
    let mut ops = Ops::default();
    for setting in settings {
        let (name, values) = setting.split_once('=').ok_or_else(|| {
            format!("`{setting}` is not a list, e.g. read=R|GET:write=W|PUT:skip=*")
        })?;
        let list = match name.trim() {
            "read" => &mut ops.read,
            "write" => &mut ops.write,
            "unknown" => &mut ops.unknown,
            "skip" => &mut ops.skip,
            other => {
                return Err(format!("lists are read, write, unknown and skip, not `{other}`"));
            }
        };
        let values = values.split('|').map(str::trim).filter(|value| !value.is_empty());
        list.extend(values.map(|value| value.trim_matches('"').to_string()));
    }
    if settings.is_empty() {
        let list = |words: [&str; 2]| words.map(String::from).to_vec();
        ops = Ops { read: list(["R", "read"]), write: list(["W", "write"]), ..ops };
        ops.unknown.push(String::from("?"));
    }
    if ops.read.is_empty() && ops.write.is_empty() {
        return Err(String::from("names neither reads nor writes, e.g. read=R|GET:write=W|PUT"));
    }
    Ok(ops)
}

/// The parts between separators that are not within double quotes.
fn split_outside_quotes(text: &str, separator: char) -> Result<Vec<&str>, String> {
    let (mut parts, mut begin, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted {
            parts.push(&text[begin..at]);
            begin = at + c.len_utf8();
        }
    }
    if quoted {
        return Err(String::from("a double quote is not closed"));
    }
    parts.push(&text[begin..]);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_names_the_field_and_the_way_out() {
        for (text, error) in [
            ("", "a column for the offset is missing, e.g. offset=lba:sectors"),
            ("timestamp", "`timestamp` is not FIELD=COLUMN, e.g. time=timestamp:us or time=1:us"),
            (
                "tyme=1",
                "tyme: not a field; fields are time, op, offset, size, device, object and sep",
            ),
            ("time=1:sec", "time: the unit is s, ms, us, ns or filetime, not `sec`"),
            ("time=1:us:ms", "time: `:ms` is one setting too many"),
            ("time=", "time: names no column"),
            ("offset=0", "offset: columns count from 1 to 4096, not `0`"),
            ("offset=1,offset=2", "offset is given twice"),
            (
                "offset=a:blocks",
                "offset: the unit is bytes, sectors, pages or a number of bytes as 4K, not \
                 `blocks`",
            ),
            (
                "offset=a",
                "a column for the size is missing, e.g. size=len:bytes; only offsets that count \
                 sectors or pages may do without: each request then has one",
            ),
            ("size=a+b", "size: takes one column; only object takes several"),
            (
                "object=key",
                "object: needs the bytes of one, in pages of 4K, e.g. object=block_id:8M",
            ),
            (
                "object=key:100",
                "object: needs the bytes of one, in pages of 4K, e.g. object=block_id:8M",
            ),
            ("op=a:read", "op: `read` is not a list, e.g. read=R|GET:write=W|PUT:skip=*"),
            ("op=a:skip=x", "op: names neither reads nor writes, e.g. read=R|GET:write=W|PUT"),
            ("op=a:trim=x", "op: lists are read, write, unknown and skip, not `trim`"),
            ("device=a:host", "device: devices are a number or a name, not `host`"),
            ("sep=dot", "sep: takes comma, semicolon, tab, space or bar, not `dot`"),
            ("offset=\"a", "a double quote is not closed"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn columns_have_positions_or_names_in_quotes() {
        let spec = parse(" offset = \"a,b:c\" : sectors , size=\"7\":pages,sep=tab").unwrap();
        assert_eq!(spec.offset, Some((Column::Named("a,b:c".into()), 512)));
        assert_eq!(spec.size, Some((Column::Named("7".into()), 4096)));
        assert_eq!(spec.separator, Some(b'\t'));
        let spec = parse("offset=off*:pages,size=\"a*\"").unwrap();
        assert_eq!(spec.offset, Some((Column::Like("off*".into()), 4096)));
        assert_eq!(spec.size, Some((Column::Named("a*".into()), 1)));
        let spec = parse("object=a+2:8M,size=3,offset=4:1K").unwrap();
        let columns = vec![Column::Named("a".into()), Column::At(2)];
        assert_eq!(spec.object, Some((columns, 8 << 20)));
        assert_eq!(spec.offset, Some((Column::At(4), 1024)));
    }

    #[test]
    fn a_pattern_is_like_names_in_any_case_of_letters() {
        for (pattern, name, is) in [
            ("off*", "Offset_Bytes", true),
            ("off*", "off", true),
            ("off*", "the_offset", false),
            ("*lba", "start_LBA", true),
            ("*lba", "lba_start", false),
            ("*a*b*", "xaybz", true),
            ("*a*b*", "xbya", false),
            ("a*a", "a", false),
            ("a*b*c", "abc", true),
            ("a*b*b*c", "abc", false),
            ("*", "", true),
        ] {
            assert_eq!(is_like(name, pattern), is, "{name} like {pattern}");
        }
    }
}
