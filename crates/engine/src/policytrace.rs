//! Replays a text file of writes and destages through one policy, without time: the exact events
//! of a policy, one line each, and a hash over them (docs/simulator.md).

use crate::mix::{FNV_OFFSET, fnv};
use crate::nvs::directory::Directory;
use crate::policy::{PolicyChoice, PolicyContext};
use crate::request::PageRange;
use crate::sequential::{Detector, DetectorKind};
use crate::units::{Page, PageCount};
use crate::writecache::{Admitted, Picked, ReplayEvents, WriteCache};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// What a replay is made with; defaults as in docs/simulator.md.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// The policy.
    pub policy: PolicyChoice,
    /// NVS pages.
    pub pages: u64,
    /// Pages in a group.
    pub group_pages: u64,
    /// Disks in the array.
    pub disks: u64,
    /// Queue depth in groups, for STOW's stretches.
    pub queue_depth: u64,
    /// High threshold in hundredths of a per cent.
    pub high: u64,
    /// Low threshold in hundredths of a per cent.
    pub low: u64,
    /// Whether the array is mirrored.
    pub mirrored: bool,
    /// Pages after which a stream is sequential.
    pub seq_threshold: u32,
}

/// A line that is not an event: its number from 1 and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

impl core::fmt::Display for LineError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl core::error::Error for LineError {}

enum Line {
    Write(PageRange),
    Destage,
}

fn parse(text: &str, pages_max: u64) -> Result<Option<Line>, String> {
    if text.trim().is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let mut words = text.split_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("D"), None, _, _) => Ok(Some(Line::Destage)),
        (Some("W"), Some(first), Some(pages), None) => {
            let (Ok(first), Ok(pages)) = (first.parse::<u64>(), pages.parse::<u64>()) else {
                return Err(format!(
                    "expected `W first_page pages` in whole numbers, not `{text}`"
                ));
            };
            if pages == 0 {
                return Err("a write of 0 pages".into());
            }
            if pages > pages_max {
                return Err(format!("a write of {pages} pages into an NVS of {pages_max}"));
            }
            // The last pages of the address space would have their group end past it.
            let room = u64::MAX - crate::nvs::directory::MAX_PAGES_PER_GROUP;
            if first.checked_add(pages).is_none_or(|end| end > room) {
                return Err(format!("page {first} is too large"));
            }
            let pages = u32::try_from(pages).map_err(|_| format!("{pages} pages are too many"))?;
            Ok(Some(Line::Write(PageRange::new(Page(first), pages))))
        }
        _ => Err(format!("expected `W first_page pages` or `D`, not `{text}`")),
    }
}

/// The lines of output so far.
struct Output(String);

impl ReplayEvents for Output {
    fn destaged(&mut self, picked: Picked, mask: &[u64]) {
        let _ = write!(self.0, "D {} {} ", picked.group, picked.pages);
        let mut words = mask.iter().rev().skip_while(|word| **word == 0);
        if let Some(word) = words.next() {
            let _ = write!(self.0, "{word:x}");
        }
        for word in words {
            let _ = write!(self.0, "{word:016x}");
        }
        self.0.push('\n');
    }

    fn admitted(&mut self, admitted: Admitted) {
        let (hits, groups) = (admitted.page_hits, admitted.group_hits);
        let _ = writeln!(self.0, "W {hits} {groups} {}", admitted.new_pages);
    }
}

/// Replays the text and returns all output.
///
/// # Errors
/// The first line that is not an event.
///
/// # Panics
/// If the configuration was not checked: no pages, or a policy parameter out of range.
pub fn replay(text: &str, config: &TraceConfig) -> Result<String, LineError> {
    let mut lines = Vec::new();
    let mut last_page = 0;
    for (number, text) in text.lines().enumerate() {
        let line =
            parse(text, config.pages).map_err(|problem| LineError { line: number + 1, problem })?;
        if let Some(Line::Write(range)) = &line {
            last_page = last_page.max(range.end().0);
        }
        lines.extend(line);
    }
    let groups = last_page / config.group_pages + 1;
    let policy = config.policy.build(&PolicyContext {
        nvs_pages: config.pages,
        groups,
        group_pages: config.group_pages,
        disks: config.disks,
        queue_depth: config.queue_depth,
        high: config.high,
        low: config.low,
        mirrored: config.mirrored,
    });
    let detector = Detector::new(DetectorKind::Pages, config.seq_threshold, config.group_pages);
    let directory = Directory::new(PageCount(config.pages), config.group_pages, groups);
    let mut cache = WriteCache::new(directory, detector, policy.expect("a checked policy"));
    let mut output = Output(String::new());
    // Writes up to the next destage are replayed together.
    let mut writes = Vec::new();
    for line in lines {
        match line {
            Line::Write(range) => writes.push(range),
            Line::Destage => {
                cache.replay(&writes, &mut output);
                writes.clear();
                if !cache.destage_at_once(&mut output) {
                    output.0.push_str("D -\n");
                }
            }
        }
    }
    cache.replay(&writes, &mut output);
    let Output(mut output) = output;
    let hash = fnv(FNV_OFFSET, output.as_bytes());
    let _ = writeln!(output, "H {hash:016x}");
    Ok(output)
}
