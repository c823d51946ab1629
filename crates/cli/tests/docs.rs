//! Generated docs are not stale, help teaches, and the tree keeps its own form.

mod common;

use common::{succeeds, top};
use std::path::{Path, PathBuf};

#[test]
fn policies_page_is_what_the_tables_say() {
    let page = std::fs::read_to_string(top().join("docs/policies.md")).expect("docs/policies.md");
    let generated = succeeds(&["policies", "--format", "markdown"]);
    assert_eq!(page, generated, "run: make docs");
}

#[test]
fn keys_page_is_what_the_table_says() {
    let page = std::fs::read_to_string(top().join("docs/disk-keys.md")).expect("the page");
    assert_eq!(page, succeeds(&["disks", "keys", "--format", "markdown"]), "run: make docs");
}

/// The commands under some words, as the program lists them.
fn commands_of(words: &[&str]) -> Vec<String> {
    let help = succeeds(&[words, &["--help"]].concat());
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    // A name is behind two spaces. A line that is further in continues a text.
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line[2..].split_whitespace().next().map(|n| (line, n)));
    let names = names.filter(|(line, name)| !line[2..].starts_with(' ') && *name != "help");
    names.map(|(_, name)| name.to_string()).collect()
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands = commands_of(&[]);
    assert!(commands.len() > 25, "{commands:?}");
    for command in &commands {
        let further = commands_of(&[command]);
        let all = further.iter().map(|inner| vec![command.as_str(), inner]);
        for words in all.chain([vec![command.as_str()]]) {
            let help = succeeds(&[&words[..], &["--help"]].concat());
            let groups = words.len() == 1 && !further.is_empty();
            assert!(help.contains("Example") || groups, "{words:?}: {help}");
        }
    }
    assert!(succeeds(&["completions", "bash"]).contains("destage"));
    let help = succeeds(&["compare", "--help"]);
    let experiments: Vec<&str> =
        help.split_whitespace().filter(|word| word.starts_with("specs/")).collect();
    assert!(!experiments.is_empty());
    for file in experiments {
        assert!(top().join(file).exists(), "help names {file}, which is not there");
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Deliberate faults are for tests: only dev-dependencies turn them on, so no program has them.
#[test]
fn deliberate_faults_are_not_in_the_program() {
    for entry in std::fs::read_dir(top().join("crates")).expect("listed") {
        let path = entry.expect("an entry").path().join("Cargo.toml");
        let manifest: toml::Table =
            std::fs::read_to_string(&path).expect("read").parse().expect("TOML");
        for section in ["dependencies", "features"] {
            let Some(toml::Value::Table(section)) = manifest.get(section) else { continue };
            for (name, value) in section.iter().filter(|(name, _)| *name != "defects") {
                let text = value.to_string();
                assert!(!text.contains("defects"), "{}: {name} = {text}", path.display());
            }
        }
    }
}

#[test]
fn tidy_files_and_functions() {
    let mut files = Vec::new();
    rust_files(&top().join("crates"), &mut files);
    rust_files(&top().join("benches"), &mut files);
    assert!(files.len() > 50);
    for path in files {
        let text = std::fs::read_to_string(&path).expect("read");
        let name = path.display();
        assert!(text.starts_with("//!"), "{name}: no `//!` at the top");
        assert!(text.lines().count() <= 800, "{name}: over 800 lines");
        let mut function: Option<(usize, usize)> = None;
        for (number, line) in text.lines().enumerate() {
            assert!(line.chars().count() <= 100, "{name}:{}: over 100 columns", number + 1);
            let indent = line.len() - line.trim_start().len();
            if begins_function(line) {
                function = Some((number, indent));
            }
            if let Some((start, at)) = function
                && line.trim() == "}"
                && indent == at
            {
                assert!(number - start < 70, "{name}:{}: function over 70 lines", start + 1);
                function = None;
            }
        }
    }
}

/// Whether a function begins in this line and does not end there; its signature may span lines.
fn begins_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let before = ["const", "async", "unsafe"];
    let first = words.find(|word| !before.contains(word) && !word.starts_with("pub"));
    first == Some("fn") && !line.ends_with([';', '}'])
}

/// The Markdown files that people read: those at the top, of docs and of the tests.
fn markdown_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["", "docs", "tests/conformance"] {
        for entry in std::fs::read_dir(top().join(folder)).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|e| e == "md") {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_page_is_on_the_site_and_in_the_index() {
    let list = |path: &str| std::fs::read_to_string(top().join(path)).expect("read");
    let (site, index) = (list("site/SUMMARY.md"), list("docs/README.md"));
    for page in markdown_files() {
        let path =
            page.strip_prefix(top()).expect("of the tree").to_str().expect("a name").to_string();
        if path.starts_with("tests/") || path == "docs/README.md" {
            continue;
        }
        let on_site = site.contains(&format!("]({path})"));
        assert!(on_site, "{path} is not in site/SUMMARY.md");
        if let Some(name) = path.strip_prefix("docs/") {
            assert!(index.contains(&format!("]({name}")), "{name} is not in docs/README.md");
        }
    }
}

/// The text without code blocks (fenced or indented by four) and without `code`.
fn prose(text: &str) -> String {
    let (mut fenced, mut found) = (false, String::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") {
            found.push_str(&line.split('`').step_by(2).collect::<String>());
            found.push('\n');
        }
    }
    found
}

/// The anchors that a page has: each heading in small letters, hyphens for spaces, the rest of the
/// punctuation dropped. Headings of the same name would need numbers: they are not linked to.
fn anchors(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        let name: String = heading.trim().to_lowercase().chars().filter(kept).collect();
        found.push(name.replace(' ', "-"));
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let mut links = 0;
    for page in markdown_files() {
        let text = std::fs::read_to_string(&page).expect("read");
        for after in prose(&text).split("](").skip(1) {
            let (target, _) = after.split_once(')').expect("a link ends");
            if target.contains("://") {
                continue;
            }
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let leads = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            assert!(leads.exists(), "{}: {target}: no such file", page.display());
            if !anchor.is_empty() {
                let there = anchors(&std::fs::read_to_string(&leads).expect("read"));
                let found = there.iter().any(|name| name == anchor);
                assert!(found, "{}: {target}: no such heading", page.display());
            }
        }
    }
    assert!(links > 50, "{links} links");
}

/// The crates of ARCHITECTURE.md's table, and what each may use; `None`: all.
fn drawn_crates(architecture: &str) -> Vec<(String, Option<Vec<String>>)> {
    let (_, table) = architecture.split_once("| crate |").expect("the table of the crates");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    rows.map(|row| {
        let name = row.split('`').nth(1).expect("a name").to_string();
        let uses = row.trim_end_matches(['|', ' ']).rsplit(" | ").next().expect("a last cell");
        let names = uses.split(", ").filter(|name| !name.starts_with("nothing"));
        let all = uses == "all of them";
        (name, (!all).then(|| names.map(str::to_string).collect()))
    })
    .collect()
}

#[test]
fn crates_use_only_what_architecture_draws() {
    let architecture = std::fs::read_to_string(top().join("ARCHITECTURE.md")).expect("read");
    let drawn = drawn_crates(&architecture);
    let folders = std::fs::read_dir(top().join("crates")).expect("listed").count();
    assert_eq!(drawn.len(), folders, "every crate has its row: {drawn:?}");
    for (name, uses) in &drawn {
        let path = top().join(format!("crates/{name}/Cargo.toml"));
        let manifest: toml::Table =
            std::fs::read_to_string(path).expect("read").parse().expect("TOML");
        let Some(toml::Value::Table(dependencies)) = manifest.get("dependencies") else { continue };
        for dependency in dependencies.keys().filter_map(|k| k.strip_prefix("destage-")) {
            let may = uses.as_ref().is_none_or(|uses| uses.iter().any(|used| used == dependency));
            assert!(may, "{name} uses {dependency}, which ARCHITECTURE.md does not draw");
        }
        if ["engine", "nbd", "parity"].contains(&name.as_str()) {
            assert!(dependencies.is_empty(), "{name} depends on nothing");
        }
    }
    let engine = std::fs::read_to_string(top().join("crates/engine/src/lib.rs")).expect("read");
    assert!(engine.contains("#![no_std]"));
    assert!(architecture.lines().count() <= 300);
}
