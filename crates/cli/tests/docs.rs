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
fn every_command_has_help_with_an_example() {
    for words in [
        &["sim"][..],
        &["compare"],
        &["sweep"],
        &["advise"],
        &["policies"],
        &["disks"],
        &["disks", "show"],
        &["disks", "convert"],
        &["disks", "validate"],
        &["trace", "info"],
        &["trace", "head"],
        &["trace", "convert"],
        &["trace", "generate"],
        &["trace", "record"],
        &["policy-trace"],
        &["readcache-trace"],
        &["reproduce"],
        &["emulate"],
        &["bench"],
        &["torture"],
        &["create"],
        &["serve"],
        &["status"],
        &["flush"],
        &["stop"],
        &["set"],
        &["recover"],
        &["completions"],
    ] {
        let help = succeeds(&[words, &["--help"]].concat());
        assert!(help.contains("Example"), "{words:?}: {help}");
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
            let word = line.trim_start().trim_start_matches("pub ").trim_start_matches("const ");
            if word.starts_with("fn ") && line.ends_with('{') {
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

#[test]
fn crates_use_only_what_architecture_allows() {
    let allowed: &[(&str, &[&str])] = &[
        ("engine", &[]),
        ("nbd", &[]),
        ("disk", &["engine"]),
        ("workload", &["engine"]),
        ("report", &["engine"]),
        ("parity", &[]),
        ("nvslog", &["engine"]),
        ("served", &["nvslog", "parity", "engine"]),
        ("torture", &["served", "nvslog", "parity", "workload", "engine"]),
        ("sim", &["disk", "workload", "report", "engine"]),
        ("client", &["nbd"]),
        ("load", &["client", "nbd", "engine"]),
        ("server", &["served", "nvslog", "client", "nbd", "disk", "report", "engine"]),
        ("observe", &["server", "served", "workload", "report", "engine"]),
        ("python", &["sim", "disk", "workload", "report", "engine"]),
        (
            "cli",
            &[
                "torture", "sim", "observe", "server", "served", "nvslog", "load", "client", "nbd",
                "disk", "workload", "report", "engine",
            ],
        ),
    ];
    for (name, uses) in allowed {
        let path = top().join(format!("crates/{name}/Cargo.toml"));
        let manifest: toml::Table =
            std::fs::read_to_string(path).expect("read").parse().expect("TOML");
        let Some(toml::Value::Table(dependencies)) = manifest.get("dependencies") else { continue };
        for dependency in dependencies.keys().filter_map(|k| k.strip_prefix("destage-")) {
            assert!(uses.contains(&dependency), "{name} must not use {dependency}");
        }
        if ["engine", "nbd", "parity"].contains(name) {
            assert!(dependencies.is_empty(), "{name} depends on nothing");
        }
    }
    let engine = std::fs::read_to_string(top().join("crates/engine/src/lib.rs")).expect("read");
    assert!(engine.contains("#![no_std]"));
    let architecture = std::fs::read_to_string(top().join("ARCHITECTURE.md")).expect("read");
    assert!(architecture.lines().count() <= 300);
}
