//! Traces whose columns are described by a text, [`Columns`]: of any program, or of a preset, which
//! is such a text with a name.

#[cfg(feature = "tables")]
mod arrow_file;
mod grammar;
#[cfg(feature = "tables")]
mod guarded;
mod lines;
pub(super) mod presets;
mod rows;
#[cfg(feature = "tables")]
pub(super) mod tables;

use std::sync::Arc;

use destage_engine::registry::{Choice, ChoiceError, Entry};

use super::{Format, Parser};
use grammar::Spec;

/// Which columns hold what, as `--trace-columns` says it:
///
/// ```
/// use destage_workload::trace::Columns;
/// let text = "time=timestamp:us, op=kind:read=R:write=W, offset=lba:sectors, size=len:bytes";
/// assert!(Columns::parse(text).is_ok());
/// let error = Columns::parse("time=timestamp:minutes").unwrap_err();
/// assert_eq!(error, "time: the unit is s, ms, us, ns or filetime, not `minutes`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Arc<Spec>);

impl Columns {
    /// Understands a text; docs/traces.md has the grammar.
    ///
    /// # Errors
    /// What is wrong, with the field that it is about and the way out.
    pub fn parse(text: &str) -> Result<Columns, String> {
        grammar::parse(text).map(|spec| Columns(Arc::new(spec)))
    }

    /// Reads text that has these columns.
    pub(super) fn lines(&self) -> Parser {
        Parser::Lines(Box::new(lines::Lines::new(vec![Arc::clone(&self.0)], true)))
    }
}

/// No known format has these columns.
fn unknown_columns(names: &[&str]) -> String {
    let names = grammar::shown(names);
    format!(
        "its columns are {names}: say what they hold with --trace-columns, e.g. 'time=ts:us, \
         op=kind, offset=lba:sectors, size=len'"
    )
}

/// A format that is nothing but columns.
const fn of_columns(
    entry: &'static Entry,
    endings: &'static [&'static str],
    parser: fn(&Choice, &str) -> Result<Parser, ChoiceError>,
) -> Format {
    Format {
        entry,
        endings,
        has_times: true,
        has_service: false,
        as_bytes: None,
        disorder_ns: 0,
        parser,
        sniff: None,
    }
}

/// Text that [`Columns`] describe. No name of the table stands for it.
pub(super) const FORMAT: Format = of_columns(
    &Entry {
        name: "columns",
        summary: "text whose columns --trace-columns describes",
        source: "-",
        params: &[],
    },
    &[],
    |_, _| unreachable!("not in the table"),
);
