//! docs/watching.md lists the paths and the commands that HTTP has, and no others.

use destage_observe::http::ROUTES;
use destage_server::array::control::COMMANDS;
use std::collections::BTreeSet;
use std::path::Path;

/// The rows of the table of paths: what is in its first cell, and the rest.
fn documented() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/watching.md");
    let text = std::fs::read_to_string(path).expect("docs/watching.md");
    let (_, table) = text.split_once("| path | what |\n|---|---|\n").expect("the table of paths");
    let rows = table.lines().take_while(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split_once("` |").expect("two cells"));
    cells.map(|(path, what)| (path[3..].to_string(), what.to_string())).collect()
}

#[test]
fn the_documented_paths_are_those_of_the_program() {
    let rows = documented();
    let paths: BTreeSet<&str> =
        rows.iter().map(|row| row.0.as_str()).filter(|path| path.starts_with('/')).collect();
    // The page itself is a file.
    let routes = ROUTES.iter().map(|route| route.path).chain(["/"]);
    assert_eq!(paths, routes.collect());
}

#[test]
fn the_documented_commands_are_those_of_the_program() {
    let rows = documented();
    let (_, what) = rows.iter().find(|row| row.0 == "POST /api/COMMAND").expect("the commands");
    let (list, _) = what.split_once(';').expect("the end of the list");
    let listed: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    let known = COMMANDS.iter().filter(|entry| entry.about.http);
    assert_eq!(listed, known.map(|entry| entry.about.name).collect());
}

#[test]
fn a_command_that_changes_the_array_asks_first() {
    for about in COMMANDS.iter().map(|entry| &entry.about).filter(|about| about.http) {
        assert!(!about.changes || !about.question.is_empty(), "{}: no question", about.name);
    }
}
