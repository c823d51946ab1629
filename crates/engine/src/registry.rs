//! What a table entry carries, whatever the table is of.
//!
//! Policies, rate schemes, RAID levels, disks, trace formats and workloads are each found in one
//! table. The command line, the generated docs and the conformance battery are drawn from it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// One parameter of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name as written in `entry:name=value`.
    pub name: &'static str,
    /// Unit of the value, or `-`.
    pub unit: &'static str,
    /// Default, as it would be written.
    pub default: &'static str,
    /// Range or list of values.
    pub range: &'static str,
    /// One line of help.
    pub help: &'static str,
}

/// What every table says of each of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name users type.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paper and section, or where else it is from.
    pub source: &'static str,
    /// Parameters, in the order positional values are taken.
    pub params: &'static [Param],
}

impl Entry {
    /// The parameters that `text`, as in `name:value,param=value`, gives a value to.
    pub fn given(&self, text: &str) -> Vec<&'static str> {
        let (_, rest) = text.split_once(':').unwrap_or((text, ""));
        let known = self.parameters_of(rest).filter_map(|(index, _)| index.ok());
        known.map(|index| self.params[index].name).collect()
    }

    /// The place of each parameter in `rest`, or the name of an unknown one, and its value.
    fn parameters_of<'a>(
        &self,
        rest: &'a str,
    ) -> impl Iterator<Item = (Result<usize, &'a str>, &'a str)> {
        let params = self.params;
        let values = rest.split([',', '/']).filter(|value| !value.is_empty());
        values.enumerate().map(move |(position, value)| match value.split_once('=') {
            Some((param, value)) => {
                (params.iter().position(|p| p.name == param).ok_or(param), value)
            }
            None if position < params.len() => (Ok(position), value),
            None => (Err(value), value),
        })
    }
}

/// Why `name:params` could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceError {
    /// No entry of that name; the known names follow, nearest first.
    Unknown {
        /// What kind of thing was asked for, such as `policy`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What there is, nearest first.
        known: Vec<&'static str>,
    },
    /// The entry has no such parameter.
    UnknownParam {
        /// The entry.
        entry: &'static str,
        /// What was given.
        param: String,
        /// Its parameters.
        known: Vec<&'static str>,
    },
    /// The value does not fit the parameter.
    BadValue {
        /// The entry.
        entry: &'static str,
        /// The parameter.
        param: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: String,
    },
}

impl core::fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ChoiceError::Unknown { kind, name, known } => {
                write!(f, "unknown {kind} `{name}`; known: {}", known.join(", "))
            }
            ChoiceError::UnknownParam { entry, param, known } if known.is_empty() => {
                write!(f, "`{entry}` takes no parameters, but `{param}` was given")
            }
            ChoiceError::UnknownParam { entry, param, known } => {
                write!(f, "`{entry}` has no parameter `{param}`; it has: {}", known.join(", "))
            }
            ChoiceError::BadValue { entry, param, value, expected } => {
                write!(f, "`{entry}`: {param} must be {expected}, not `{value}`")
            }
        }
    }
}

impl core::error::Error for ChoiceError {}

/// A name with parameters, as in `wow:initial-bit=1,frequency=3`, checked against its entry.
///
/// A value without a name fills the next parameter in order, as in `linear:90/80`, where `/`
/// separates like a comma.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The entry chosen.
    pub entry: &'static Entry,
    values: Vec<String>,
}

impl Choice {
    /// Finds the entry and its parameters in `text`.
    ///
    /// # Errors
    /// An unknown name or parameter, or more values than there are parameters.
    pub fn parse(
        kind: &'static str,
        entries: &[&'static Entry],
        text: &str,
    ) -> Result<Choice, ChoiceError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(entry) = entries.iter().find(|e| e.name == name) else {
            let known = nearest_first(name, entries.iter().map(|e| e.name));
            return Err(ChoiceError::Unknown { kind, name: name.to_string(), known });
        };
        let mut values: Vec<String> = entry.params.iter().map(|p| p.default.to_string()).collect();
        for (index, value) in entry.parameters_of(rest) {
            let index = index.map_err(|param| ChoiceError::UnknownParam {
                entry: entry.name,
                param: param.to_string(),
                known: entry.params.iter().map(|p| p.name).collect(),
            })?;
            values[index] = value.to_string();
        }
        Ok(Choice { entry, values })
    }

    /// The value of `param` as written.
    ///
    /// # Panics
    /// If the entry has no such parameter: a bug in the entry's own code.
    pub fn text(&self, param: &str) -> &str {
        let index = self.entry.params.iter().position(|p| p.name == param);
        &self.values[index.expect("a parameter of the entry")]
    }

    /// The value of `param` as a number between `low` and `high`.
    ///
    /// # Errors
    /// [`ChoiceError::BadValue`] if it is not a number or out of range.
    pub fn number<T>(&self, param: &'static str, low: T, high: T) -> Result<T, ChoiceError>
    where
        T: core::str::FromStr + PartialOrd + core::fmt::Display,
    {
        let value = self.text(param);
        match value.parse::<T>() {
            Ok(number) if number >= low && number <= high => Ok(number),
            _ => Err(ChoiceError::BadValue {
                entry: self.entry.name,
                param,
                value: value.to_string(),
                expected: alloc::format!("a number from {low} to {high}"),
            }),
        }
    }

    /// The choice written out in full: `name:param=value,...`.
    pub fn describe(&self) -> String {
        let mut text = self.entry.name.to_string();
        for (i, (param, value)) in self.entry.params.iter().zip(&self.values).enumerate() {
            text.push(if i == 0 { ':' } else { ',' });
            text.push_str(param.name);
            text.push('=');
            text.push_str(value);
        }
        text
    }
}

/// The names, those most like `wanted` first.
pub fn nearest_first(
    wanted: &str,
    names: impl IntoIterator<Item = &'static str>,
) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = names.into_iter().collect();
    // A slip of the fingers rarely changes the length.
    let key = |name: &&str| (edit_distance(wanted, name), wanted.len().abs_diff(name.len()));
    names.sort_by_key(key);
    names
}

fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.chars().enumerate() {
            let substitute = diagonal + usize::from(!ca.eq_ignore_ascii_case(&cb));
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WOW: Entry = Entry {
        name: "wow",
        summary: "",
        source: "",
        params: &[
            Param { name: "bit", unit: "-", default: "0", range: "0|1", help: "" },
            Param { name: "frequency", unit: "-", default: "1", range: "1..", help: "" },
        ],
    };
    const LRW: Entry = Entry { name: "lrw", summary: "", source: "", params: &[] };

    #[test]
    fn positional_and_named_values_are_taken() {
        let choice = Choice::parse("policy", &[&WOW, &LRW], "wow:1/frequency=3").unwrap();
        assert_eq!(choice.describe(), "wow:bit=1,frequency=3");
        assert_eq!(choice.number("frequency", 1, 9), Ok(3));
        assert!(choice.number("frequency", 4, 9).is_err());
        assert_eq!(WOW.given("wow:1/frequency=3"), ["bit", "frequency"]);
        assert_eq!(WOW.given("wow:frequency=3,rare=1"), ["frequency"]);
        assert!(WOW.given("wow").is_empty() && LRW.given("lrw:1").is_empty());
    }

    #[test]
    fn unknown_names_list_the_nearest_first() {
        let error = Choice::parse("policy", &[&LRW, &WOW], "wov").unwrap_err();
        assert_eq!(error.to_string(), "unknown policy `wov`; known: wow, lrw");
        assert!(Choice::parse("policy", &[&LRW], "lrw:1").is_err());
    }
}
