//! Limits of rebuilds, and their form as text:
//! `window=128,depth=2,share=50,min=20,reads-under=30`.

use crate::units::{Duration, PAGE_BYTES};
use alloc::format;
use alloc::string::String;

/// How fast a rebuild may go. The least bandwidth wins over the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pages of the disk read and written at once.
    pub window_pages: u64,
    /// Windows in flight, if neither share nor reads limit it.
    pub depth: usize,
    /// Greatest share of the time that it may work, in thousandths.
    pub share_permille: u64,
    /// Pages per second that it may always have.
    pub least_pages_per_s: u64,
    /// Mean response time of host reads from disk above which it slows down.
    pub reads_under: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            window_pages: 128,
            depth: 2,
            share_permille: 1000,
            least_pages_per_s: 0,
            reads_under: None,
        }
    }
}

impl Limits {
    pub(crate) fn is_limited(&self) -> bool {
        self.share_permille < 1000 || self.reads_under.is_some()
    }
}

/// The form of the text, for messages.
pub const LIMITS_FORM: &str = "window=PAGES,depth=N,share=%,min=MB/S,reads-under=MS";

/// Sets one of the limits; `None`: an unknown limit, or a value out of range.
pub fn set_limit(limits: &mut Limits, name: &str, value: &str) -> Option<()> {
    let number = |most: u64| value.parse::<u64>().ok().filter(|n| (1..=most).contains(n));
    let real = || value.parse::<f64>().ok().filter(|n| *n > 0.0 && *n <= 1e6);
    match name {
        "window" => limits.window_pages = number(1 << 16)?,
        "depth" => limits.depth = number(64)? as usize,
        "share" => limits.share_permille = number(100)? * 10,
        "min" => limits.least_pages_per_s = (real()? * 1e6 / PAGE_BYTES as f64) as u64,
        "reads-under" => limits.reads_under = Some(Duration((real()? * 1e6) as u64)),
        _ => return None,
    }
    Some(())
}

/// Windows in flight of a served array if nothing limits its rebuild: devices have queues.
const DEPTH: usize = 8;

/// Limits of a served array from text. A limit that is omitted keeps its default.
///
/// # Errors
/// The part that is not a limit.
pub fn parse_limits(text: &str) -> Result<Limits, String> {
    let mut limits = Limits { depth: DEPTH, ..Limits::default() };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let set = part.split_once('=');
        set.and_then(|(name, value)| set_limit(&mut limits, name.trim(), value.trim()))
            .ok_or_else(|| format!("{part:?} is not a rebuild limit; expected {LIMITS_FORM}"))?;
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_limits() {
        assert_eq!(parse_limits(""), Ok(Limits { depth: 8, ..Limits::default() }));
        let limits = parse_limits("window=64, share=50,min=4.096,reads-under=20,depth=3");
        let limits = limits.expect("limits");
        assert_eq!((limits.window_pages, limits.depth, limits.share_permille), (64, 3, 500));
        assert_eq!(limits.least_pages_per_s, 1000);
        assert_eq!(limits.reads_under, Some(Duration::from_millis(20)));
        for bad in ["share=0", "share=101", "window", "depth=65", "min=-1", "fast=1", "depth=x"] {
            assert!(parse_limits(bad).is_err_and(|error| error.contains(bad)), "{bad}");
        }
    }
}
