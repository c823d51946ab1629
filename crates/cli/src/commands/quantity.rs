//! Sizes and times as arguments write them.

use crate::failure::Failure;
use std::time::Duration;

/// A number of bytes, with K, M, G or T.
pub fn bytes(text: &str) -> Result<u64, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => 64,
    };
    let number = digits.parse::<u64>().ok().filter(|_| shift < 64);
    number
        .and_then(|number| number.checked_mul(1 << (shift % 64)))
        .ok_or_else(|| Failure::usage(format!("{text}: a number of bytes, e.g. 4096, 64K or 16G")))
}

/// A time as `500ms`, `10s`, `2m`; plain numbers are seconds.
pub fn seconds(name: &str, text: &str) -> Result<Duration, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => Some(0.001),
        "" | "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    };
    let number = digits.parse::<f64>().ok().filter(|number| (0.0..=1e7).contains(number));
    let time = number.zip(unit).map(|(number, unit)| number * unit).filter(|time| *time > 0.0);
    time.map(Duration::from_secs_f64)
        .ok_or_else(|| Failure::usage(format!("--{name} {text}: a time, e.g. 500ms, 10s or 2m")))
}
