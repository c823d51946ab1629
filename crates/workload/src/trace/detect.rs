//! Telling formats apart by content, with the file's name as a hint.

use destage_engine::registry::Choice;

use super::input::Head;
use super::{FORMATS, Format, Parser};

/// Lines tried.
const LINES_TRIED: usize = 50;

/// The format that fits: a binary one whose marks are there, or the one that understands most of
/// the first lines (at least half of those that are not blank); the name's ending decides among
/// equals, and where nothing fits.
pub(super) fn detect(head: &Head) -> Option<&'static Format> {
    if let Some(format) = FORMATS.iter().find(|f| f.sniff.is_some_and(|sniff| sniff(&head.bytes))) {
        return Some(format);
    }
    let named = |format: &Format| format.endings.iter().any(|e| head.name.ends_with(e));
    let lines = first_lines(head);
    let mut best: Option<(&'static Format, usize)> = None;
    for format in FORMATS {
        let score = score(format, head, &lines);
        let better = best.is_none_or(|(_, s)| score > s || score == s && named(format));
        if score > 0 && better {
            best = Some((format, score));
        }
    }
    let by_name = || FORMATS.iter().find(|f| named(f));
    best.map(|(format, _)| format).or_else(by_name)
}

/// Lines that are complete and not blank.
fn first_lines(head: &Head) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = head.bytes.split(|&b| b == b'\n').collect();
    if !head.complete && lines.len() > 1 {
        lines.pop();
    }
    let filled = lines.into_iter().map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty());
    filled.take(LINES_TRIED).collect()
}

/// Requests that the format finds in the lines; 0 if it does not understand half of them.
fn score(format: &Format, head: &Head, lines: &[&[u8]]) -> usize {
    let choice = Choice::parse("trace format", &[format.entry], format.entry.name);
    let choice = choice.expect("an entry with its defaults");
    let Ok(Parser::Lines(mut parser)) = (format.parser)(&choice, &head.name) else { return 0 };
    let (mut requests, mut bad) = (0, 0);
    for line in lines {
        match parser.line(line) {
            Ok(Some(_)) => requests += 1,
            Ok(None) => {}
            Err(_) => bad += 1,
        }
    }
    if requests >= bad { requests } else { 0 }
}
