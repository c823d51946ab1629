//! What the documents claim of the tree: files, commands, options and make targets that they name
//! are there, and `unsafe` is only where ARCHITECTURE.md says.

mod common;

use common::{succeeds, top};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The Markdown pages that people read.
fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["", "docs", "tests/conformance"] {
        for entry in std::fs::read_dir(top().join(folder)).expect("listed") {
            let path = entry.expect("an entry").path();
            // The changelog speaks of what was.
            if path.extension().is_some_and(|e| e == "md") && !path.ends_with("CHANGELOG.md") {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                found.push((name, std::fs::read_to_string(&path).expect("read")));
            }
        }
    }
    found
}

/// The pieces of code of a page: lines of blocks (continued ones joined), and `code` in sentences.
fn code(text: &str) -> Vec<String> {
    let (mut fence, mut found, mut prose) = (None, Vec::new(), String::new());
    let joined = text.replace("\\\n", " ");
    for line in joined.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_none() { Some(language) } else { None };
        } else if fence.is_some_and(|language| !["", "sh drill"].contains(&language)) {
            // Python, or a drawing.
        } else if fence.is_some() || line.starts_with("    ") {
            found.push(line.split(" #").next().expect("a part").trim().to_string());
        } else {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    found.extend(prose.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " ")));
    found
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != ".git" {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// Every file of the tree, by its path from the top.
fn tree() -> Vec<String> {
    let mut found = Vec::new();
    files(&top(), &mut found);
    let from_top = |path: &PathBuf| path.strip_prefix(top()).expect("in it").display().to_string();
    found.iter().map(from_top).collect()
}

#[test]
fn files_that_pages_name_are_there() {
    let tree = tree();
    // Pages may leave `src` out, and begin anywhere in the path.
    let short: Vec<String> = tree.iter().map(|path| path.replace("/src/", "/")).collect();
    let mut named = 0;
    for (page, text) in pages() {
        for word in code(&text).iter().flat_map(|code| code.split(' ')) {
            let word = word.trim_matches(|c: char| ",.;:()".contains(c));
            let plain = |c: char| c.is_alphanumeric() || "/_-.".contains(c);
            let source = word.ends_with(".rs") || word.ends_with(".py");
            if !source || !word.chars().all(plain) || word.starts_with('/') {
                continue;
            }
            named += 1;
            let end = format!("/{word}");
            let is = |path: &String| path == word || path.ends_with(&end);
            let there = tree.iter().any(is) || short.iter().any(is);
            assert!(there, "{page} names {word}, which is not in the tree");
        }
    }
    assert!(named > 50, "{named} files are named");
}

/// "`served/log.rs`: `send`": the file has the function, so a reader finds the line.
#[test]
fn functions_that_architecture_names_are_there() {
    let architecture = std::fs::read_to_string(top().join("ARCHITECTURE.md")).expect("read");
    let pieces: Vec<&str> = architecture.split('`').collect();
    let mut named = 0;
    for pair in pieces.windows(3).filter(|pair| pair[0].ends_with(".rs") && pair[1] == ": ") {
        named += 1;
        let (from_crate, inside) = pair[0].split_once('/').expect("crate/file.rs");
        let inside = inside.trim_start_matches("src/");
        let path = top().join(format!("crates/{from_crate}/src/{inside}"));
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", pair[0]));
        let name = pair[2].rsplit("::").next().expect("a name");
        let ways = [format!("fn {name}("), format!("fn {name}<"), format!("const {name}:")];
        let there = ways.iter().any(|way| text.contains(way));
        assert!(there, "ARCHITECTURE.md names {name} in {}, which is not there", pair[0]);
    }
    assert!(named > 5, "{named} functions are named");
}

#[test]
fn make_targets_that_pages_name_are_there() {
    let makefile = std::fs::read_to_string(top().join("Makefile")).expect("read");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains([' ', '\t', '#']))
        .collect();
    for (page, text) in pages() {
        for code in code(&text) {
            let mut words = code.split(' ').filter(|word| !word.is_empty());
            if words.next() == Some("make")
                && let Some(target) = words.next().filter(|word| !word.contains('='))
            {
                assert!(targets.contains(target), "{page}: make {target}: no such target");
            }
        }
    }
}

/// The help of every command, by its words.
fn helps() -> BTreeMap<Vec<String>, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = succeeds(&arguments);
        if let Some((_, list)) = help.split_once("\nCommands:\n") {
            let lines = list.lines().take_while(|line| line.starts_with("  "));
            // What is further in continues the text of the line before.
            for line in lines.filter(|line| !line[2..].starts_with(' ')) {
                let name = line.split_whitespace().next().expect("a name");
                if name != "help" {
                    open.push([&words[..], &[name.to_string()]].concat());
                }
            }
        }
        found.insert(words, help);
    }
    found
}

/// `--name` of a word such as `[--name=value]`.
fn option_of(word: &str) -> Option<String> {
    let word = word.trim_start_matches(['[', '(']);
    let name: String = word
        .strip_prefix("--")?
        .chars()
        .take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')
        .collect();
    (!name.is_empty()).then(|| format!("--{name}"))
}

fn has(help: &str, option: &str) -> bool {
    help.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == option)
}

#[test]
fn commands_and_options_that_pages_name_are_there() {
    let helps = helps();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        for code in code(&text) {
            let words: Vec<&str> = code.split_whitespace().collect();
            let Some((&"destage", words)) = words.split_first() else { continue };
            let small = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            let Some(first) = words.first().filter(small) else { continue };
            let mut command = vec![(*first).to_string()];
            if !helps.contains_key(&command) {
                wrong.push(format!("{page}: `{code}`: no such command"));
            }
            let longer =
                |word: &&str| helps.contains_key(&vec![command[0].clone(), (*word).into()]);
            if let Some(second) = words.get(1).filter(|word| longer(word)) {
                command.push((*second).to_string());
            }
            let is_group = helps.get(&command).is_some_and(|help| help.contains("\nCommands:\n"));
            if let Some(word) = words.get(command.len()).filter(|word| is_group && small(word))
                && !word.starts_with('-')
            {
                wrong.push(format!("{page}: `{code}`: {command:?} has no command {word}"));
            }
            // A group of commands has its members' options.
            let of = |key: &&Vec<String>| key.starts_with(&command);
            let help: String = helps.keys().filter(of).map(|key| helps[key].as_str()).collect();
            let one = words.iter().take_while(|word| !["|", "&", "&&", ";"].contains(word));
            for option in one.filter_map(|word| option_of(word)) {
                checked += 1;
                if !has(&help, &option) {
                    wrong.push(format!("{page}: `{code}`: {command:?} has no {option}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "{checked} options");
}

#[test]
fn unsafe_is_only_where_architecture_says() {
    let architecture = std::fs::read_to_string(top().join("ARCHITECTURE.md")).expect("read");
    let (_, claim) = architecture.split_once("All `unsafe` is in").expect("the claim");
    let (claim, _) = claim.split_once("\n- **").expect("its end");
    let claimed: BTreeSet<String> =
        claim.split('`').skip(1).step_by(2).map(|file| format!("crates/{file}")).collect();
    let is_source = |path: &String| path.ends_with(".rs") && path.contains("/src/");
    let mut found = BTreeSet::new();
    for path in tree().into_iter().filter(is_source) {
        let text = std::fs::read_to_string(top().join(&path)).expect("read");
        let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        let begins = ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe extern "];
        if code.into_iter().any(|line| begins.iter().any(|begin| line.contains(begin))) {
            found.insert(path);
        }
    }
    assert_eq!(found, claimed, "correct the list in ARCHITECTURE.md");
}
