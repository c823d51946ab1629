//! Plain English: habits that make texts hard to read, each with a better wording. The test reads
//! every text of the tree, identifiers included.

mod common;

use std::path::{Path, PathBuf};

/// A phrase, and what to write instead. Each word is one or several of which one must match
/// (`a|b`), or with `!` some that must not (`!a|b`, which also matches the end of a sentence).
const HABITS: &[(&str, &str)] = &[
    ("so many !that", "this many, N, or the parameter's name"),
    ("so much !that", "this much, or the parameter's name"),
    ("so long !as|that", "this long, or the parameter's name"),
    ("so often !that", "this many times"),
    ("told|tells", "reported, reports; for parity: reconstructed; detects, describes"),
    ("!there is|are none", "is not valid, is not a spare"),
    ("!there is no !_|longer|more|less|fewer|better|worse|higher|lower|larger|smaller", "is not"),
    ("go|goes|going|gone|went on", "continue, resume, switch to"),
    ("bears|borne", "tolerates, survives"),
    ("level|array|disk|drive may|can|could|would bear", "tolerate, sustain"),
    ("wholes", "host operations, or what they are"),
    ("_ whole _", "`ok`, `complete`, `intact`, `in_sync`, `HostOp`"),
    ("is|are|was|were|be|been|being|stays|comes|came|come|counts|left whole", "complete, intact"),
    ("under way", "in flight, running, pending"),
    ("anew", "again"),
    ("heed|heeds|heeded|heeding", "take into account"),
    ("dear|dearer|dearest", "expensive"),
    ("of late", "recently"),
    ("beside", "next to"),
    ("meanwhile", "in the meantime"),
    ("lies", "is"),
    ("stands|stood !for", "is, are"),
    ("stead", "instead of"),
    ("put|puts right", "repair, correct"),
    ("held|hold|holds against", "compared with, validated against"),
    ("sent|sends|send away", "disconnected"),
    ("who|whoever asked|asks|watches|watch|wants", "the client, a monitor"),
    ("so asked|given|said|named|called", "say what: given, named this way"),
    (
        "requests|writes|reads|bytes|pages|times|crashes|messages|blocks|commands|records|\
         destages|mb|mib|kb a second",
        "per second",
    ),
    (
        "bytes|ns|us|ms|records|pages a page|request|write|block|disk|group|row|member|stripe|\
         command|slot|device|record",
        "per page",
    ),
];

/// Whether the test reads a file; not the list itself, what the program prints, and what others
/// wrote.
fn is_read(path: &str) -> bool {
    let skipped =
        ["crates/cli/tests/words.rs", "docs/policies.md", "docs/disk-keys.md", "Cargo.lock"];
    !skipped.contains(&path) && !path.contains("/fixtures/") && !path.ends_with("/copyright")
}

/// A word and its line. Parts of an identifier are joined by `_`, sentences by `.`.
type Word = (String, usize);

/// The words of a line, without what begins a comment, a list or a quotation.
fn words_of_line(line: &str, number: usize, words: &mut Vec<Word>) {
    let text = line.trim_start().trim_start_matches(['/', '!', '#', '*', '>', '-']);
    // Python's `is None` is not a habit.
    let small = |word: &str| if word == "None" { word.to_string() } else { word.to_lowercase() };
    let mut push = |word: &str| words.push((small(word), number));
    let mut start = 0;
    let chars: Vec<char> = text.chars().collect();
    let word_from_to = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
    for (at, char) in chars.iter().enumerate() {
        // A capital after a small letter begins another part of an identifier.
        let hump = at > start && char.is_uppercase() && chars[at - 1].is_lowercase();
        if char.is_alphanumeric() && !hump {
            continue;
        }
        if at > start {
            push(&word_from_to(start, at));
        }
        start = if hump { at } else { at + 1 };
        if hump || *char == '_' {
            push("_");
        } else if !char.is_whitespace() && !"-'`\"".contains(*char) {
            push(".");
        }
    }
    if start < chars.len() {
        push(&word_from_to(start, chars.len()));
    }
}

fn words_of(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        words_of_line(line, number + 1, &mut words);
    }
    words
}

fn matches(pattern: &str, words: &[Word]) -> bool {
    pattern.split(' ').enumerate().all(|(at, wanted)| {
        let word = words.get(at).map_or(".", |(word, _)| word.as_str());
        match wanted.strip_prefix('!') {
            Some(not) => not.split('|').all(|other| other != word),
            None => wanted.split('|').any(|one| one == word),
        }
    })
}

/// Findings in a text, as lines to print.
fn findings(name: &str, text: &str) -> Vec<String> {
    let words = words_of(text);
    let mut found = Vec::new();
    for at in 0..words.len() {
        for (pattern, better) in HABITS.iter().filter(|(p, _)| matches(p, &words[at..])) {
            let count = pattern.split(' ').count();
            let phrase: Vec<&str> =
                words[at..].iter().take(count).map(|(word, _)| word.as_str()).collect();
            let line = words[at].1;
            found.push(format!("{name}:{line}: \"{}\": write: {better}", phrase.join(" ")));
        }
    }
    found
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let kinds = ["rs", "md", "html", "js", "css", "py", "pyi", "toml", "sh", "ipynb", "service"];
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let of_kind = path.extension().is_some_and(|e| kinds.iter().any(|kind| e == *kind));
        if path.is_dir() {
            let skipped = ["target", "demo", "reproduction", "node_modules"];
            if !skipped.contains(&name.as_str()) && (!name.starts_with('.') || name == ".ci") {
                files(&path, found);
            }
        } else if of_kind || name == "Makefile" || name == "run" {
            found.push(path);
        }
    }
}

#[test]
fn texts_are_plain_english() {
    let top = common::top();
    let mut paths = Vec::new();
    files(&top, &mut paths);
    paths.sort();
    assert!(paths.len() > 500, "{} files", paths.len());
    let mut found = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&top).expect("in the tree").display().to_string();
        if is_read(&name) {
            found.extend(findings(&name, &std::fs::read_to_string(&path).expect("read")));
        }
    }
    assert!(found.is_empty(), "{} habits:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_habit_is_found_where_it_is() {
    let text =
        "//! Of so\n//! many.\nlet scrub_told = x.is_none();\nif lines.is_empty() { whole(); }\n";
    let found = findings("a.rs", text);
    let places: Vec<&str> = found.iter().map(|line| line.split('"').next().expect("it")).collect();
    assert_eq!(places, ["a.rs:1: ", "a.rs:3: "], "{found:?}");
    assert!(findings("a.md", "There is no log. It is so long that nobody reads it.").is_empty());
    assert_eq!(findings("a.md", "A spare that is none goes on.").len(), 2);
}
