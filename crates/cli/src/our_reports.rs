//! What the reports and plots of destage look like, so that a report replaces one of them, but no
//! file of another program.

use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes of a file that are read. Every report says earlier what it is.
const HEAD_BYTES: u64 = 64 * 1024;
/// The same of the footer of a Parquet file.
const FOOTER_BYTES: u64 = 32;

/// Where the contents of the second chunk of a PNG file begin.
const PNG_TEXT: usize = 41;
/// Lines from the beginning of a report as text in which its first table has its headings.
const FIRST_LINES: usize = 10;

/// The first columns of a table that is written as CSV or as a list of JSON.
const COLUMNS: [&[&str]; 6] = [
    // A run, a comparison and the simulations of advice.
    &["schema", "label", "seed", "warmup_s"],
    &["variant", "axis", "axis_unit", "axis_value"],
    &["nvs_pages", "policy", "thresholds_percent", "seed"],
    // An analysis of traces, and the replays through read caches and write caches.
    &["file", "figure", "reads", "writes", "all", "unit"],
    &["policy", "disks", "blocks", "failed", "requests"],
    &["policy", "nvs_pages", "written_pages", "destages"],
];

/// The key after `schema` in a JSON report, and others of it: of a run, a comparison, advice, an
/// analysis.
const KEYS: [(&str, [&str; 2]); 4] = [
    ("label", ["options", "bridge"]),
    ("title", ["command", "options"]),
    ("goal", ["load_factor", "options"]),
    ("traces", ["page_bytes", "total"]),
];

/// How the line of headings begins in a table as text, by words, and a word of the line above it.
const HEADINGS: [(&[&str], &str); 4] = [
    (&["variant"], "throughput"),
    (&["figure", "reads", "writes", "all", "unit"], "Figures"),
    (&["policy", "disks", "blocks", "failed", "requests"], ""),
    (&["policy", "NVS", "written", "destages"], ""),
];

/// Whether destage wrote this file as a report, a plot, percentiles, or the log of a load.
///
/// # Errors
/// The file cannot be read.
pub fn is_ours(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    if head.starts_with(b"PAR1") {
        return is_parquet(&mut file);
    }
    let text = String::from_utf8_lossy(&head);
    Ok(head.starts_with(b"DSTGACK1")
        || is_png(&head)
        || is_drawn(&text)
        || is_json(&text)
        || is_csv(&text)
        || is_text(&text))
}

/// Whether the schema of a Parquet file has our name. The name is the first field of the schema's
/// first element, near the beginning of the footer; its length precedes it.
fn is_parquet(file: &mut File) -> io::Result<bool> {
    let bytes = file.seek(SeekFrom::End(0))?;
    if bytes < 12 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-8))?;
    let mut end = [0; 8];
    file.read_exact(&mut end)?;
    let [a, b, c, d, magic @ ..] = end;
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != *b"PAR1" || footer_bytes > bytes - 12 {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(bytes - 8 - footer_bytes))?;
    let mut footer = Vec::new();
    file.take(footer_bytes.min(FOOTER_BYTES)).read_to_end(&mut footer)?;
    Ok(footer.windows(8).any(|window| window == b"\x07destage"))
}

/// Whether a PNG file names destage as the program that made it, after its header.
fn is_png(head: &[u8]) -> bool {
    let text = head.get(PNG_TEXT..).unwrap_or_default();
    head.starts_with(b"\x89PNG\r\n\x1a\n") && text.starts_with(destage_render::MADE_BY)
}

/// Whether this is a page or an SVG plot.
fn is_drawn(text: &str) -> bool {
    let policy = "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src";
    let font = "'Noto Sans','DejaVu Sans',Helvetica,Arial,sans-serif\" role=\"img\">";
    let begins = |mark: &str, lines: usize, part: &str| {
        text.starts_with(mark) && text.lines().take(lines).any(|line| line.contains(part))
    };
    begins("<!doctype html>\n<html lang=\"en\">", 8, policy) || begins("<svg xmlns=", 1, font)
}

/// Whether this is a report as JSON: the schema's number first and our keys after it, or a list of
/// rows with our columns.
fn is_json(text: &str) -> bool {
    let start: String = text.chars().take(200).filter(|c| !c.is_whitespace()).collect();
    if let Some(rest) = start.strip_prefix("{\"schema\":") {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let has = |key: &&str| text.contains(&format!("\"{key}\":"));
        return KEYS.iter().any(|(second, others)| {
            rest.starts_with(&format!(",\"{second}\":")) && others.iter().all(has)
        });
    }
    let Some(rows) = text.trim_start().strip_prefix('[') else { return false };
    // The values of a row have no braces.
    let Some(end) = rows.find('}') else { return false };
    let row = serde_json::from_str::<Map<String, Value>>(&rows[..=end]).unwrap_or_default();
    COLUMNS.iter().any(|names| names.iter().all(|name| row.contains_key(*name)))
}

fn is_csv(text: &str) -> bool {
    let names: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    COLUMNS.iter().any(|columns| names.starts_with(columns))
}

/// Whether this is a report as text for people.
fn is_text(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |at: usize, mark: &str| lines.get(at).is_some_and(|line| line.starts_with(mark));
    let percentiles = ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"];
    // Advice, a run, and one replay through one read cache; then what has percentiles or a table.
    begins(0, "Goal: ") && lines.contains(&"How sure:")
        || begins(1, "measured ") && lines[1].contains(" s of virtual time after ")
        || begins(0, "policy ") && begins(1, "block requests ") && begins(2, "RGR all ")
        || lines.first().is_some_and(|line| words(line) == percentiles)
        || (0..lines.len().min(FIRST_LINES)).any(|at| is_heading(&lines, at))
}

/// Whether one of our tables begins here: its headings, perhaps their units, and a rule.
fn is_heading(lines: &[&str], at: usize) -> bool {
    let names = words(lines[at]);
    let above = at.checked_sub(1).map_or("", |above| lines[above]);
    let is_rule = |line: &&str| line.starts_with("--") && line.chars().all(|c| "- ".contains(c));
    HEADINGS.iter().any(|(heading, group)| names.starts_with(heading) && above.contains(group))
        && lines[at + 1..].iter().take(2).any(is_rule)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
