//! Every command of docs/planning.md runs, in its order, on a load that is made smaller.

mod common;

use common::top;
use std::process::Command;

/// Requests of the page's load, and of the one here.
const REQUESTS: (&str, &str) = ("--requests 400000", "--requests 4000");

/// The commands of a page: the lines of its blocks that begin with `destage`, and what continues
/// them.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let joined: Vec<String> = blocks.map(|block| block.replace("\\\n", " ")).collect();
    let lines = joined.iter().flat_map(|block| block.lines());
    lines.filter(|line| line.starts_with("destage ")).map(str::to_string).collect()
}

/// The words of a command, with quotes as a shell has them.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in command.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_string)),
            _ => words.push(part.to_string()),
        }
    }
    words
}

#[test]
fn every_command_of_the_planning_page_runs() {
    let page = std::fs::read_to_string(top().join("docs/planning.md")).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    let commands = commands(&page);
    for named in ["trace analyze", "advise", "sim --as served"] {
        assert!(page.contains(&format!("`destage {named}`")), "{named} answers a question");
        let shown = commands.iter().any(|command| command.starts_with(&format!("destage {named}")));
        assert!(shown, "the example has {named}");
    }
    assert_eq!(commands.len(), 4, "{commands:?}");
    assert!(commands[0].contains(REQUESTS.0));
    for command in &commands {
        let small = command.replace(REQUESTS.0, REQUESTS.1);
        let output = Command::new(env!("CARGO_BIN_EXE_destage"))
            .args(&words(&small)[1..])
            .current_dir(folder.path())
            .output()
            .expect("destage runs");
        let error = String::from_utf8_lossy(&output.stderr);
        // On a short load no size need reach the goal: that is an answer, with exit code 1.
        let answered = output.status.success()
            || small.starts_with("destage advise") && output.status.code() == Some(1);
        assert!(answered, "{small}: {error}");
        assert!(!output.stdout.is_empty() || small.contains("generate"), "{small}");
    }
    for file in ["load.dtrc.zst", "load.html", "advice.html"] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
}
