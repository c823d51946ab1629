//! The text formats a command can print: table, CSV, JSON.

use std::fmt;
use std::str::FromStr;

/// How a report or list is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Aligned plain text for people.
    #[default]
    Table,
    /// Comma-separated values, RFC 4180, one header line.
    Csv,
    /// Pretty-printed JSON.
    Json,
}

impl Format {
    /// Names accepted by [`FromStr`], in the order shown in help.
    pub const NAMES: [&'static str; 3] = ["table", "csv", "json"];
}

/// A name that is not a [`Format`]: the caller's mistake, exit 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format {0:?}: expected {known}", known = Format::NAMES.join(", "))]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        match name {
            "table" => Ok(Self::Table),
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            _ => Err(UnknownFormat(name.to_owned())),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

/// Sets commas between the thousands of a plain decimal number.
pub fn thousands(plain: &str) -> String {
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", whole),
    };
    let mut out = String::from(sign);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused_in_one_line() {
        for name in Format::NAMES {
            assert_eq!(name.parse::<Format>().unwrap().to_string(), name);
        }
        let error = "xml\n".parse::<Format>().unwrap_err().to_string();
        assert_eq!(error, r#"unknown format "xml\n": expected table, csv, json"#);
    }
}
