//! docs/watching.md lists the paths that HTTP has, docs/operations.md the commands, and no others.

use destage_observe::http::ROUTES;
use destage_server::array::control::COMMANDS;
use std::collections::BTreeSet;
use std::path::Path;

/// The rows of a page's table with this head: what is in the first cell, and the rest.
fn rows(page: &str, head: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(path).expect("the page");
    let (_, table) = text.split_once(&format!("{head}\n|---|---|\n")).expect("the table");
    let rows = table.lines().take_while(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split_once("` |").expect("two cells"));
    cells.map(|(first, rest)| (first[3..].to_string(), rest.to_string())).collect()
}

fn paths() -> Vec<(String, String)> {
    rows("watching.md", "| path | what |")
}

#[test]
fn the_documented_paths_are_those_of_the_program() {
    let rows = paths();
    let paths: BTreeSet<&str> =
        rows.iter().map(|row| row.0.as_str()).filter(|path| path.starts_with('/')).collect();
    // The page itself is a file.
    let routes = ROUTES.iter().map(|route| route.path).chain(["/"]);
    assert_eq!(paths, routes.collect());
}

/// docs/operations.md has a row for every command, and docs/watching.md says which of them HTTP
/// does not have.
#[test]
fn the_documented_commands_are_those_of_the_program() {
    let rows = rows("operations.md", "| command | does |");
    // `destage nvs replace` is the command `nvs-replace`.
    let name = |row: &(String, String)| {
        let line = row.0.replace("destage nvs ", "destage nvs-");
        line.split(' ').nth(1).expect("a name").to_string()
    };
    let listed: BTreeSet<String> = rows.iter().map(name).collect();
    let names = |http: bool| {
        let some = COMMANDS.iter().filter(move |entry| !http || entry.about.http);
        some.map(|entry| entry.about.name.to_string())
    };
    // Other commands of the command line give these two; `recover` needs no server.
    let shown = names(false).filter(|name| !["what-if", "record"].contains(&name.as_str()));
    assert_eq!(listed, shown.chain(["recover".to_string()]).collect());
    let paths = paths();
    let (_, what) = paths.iter().find(|row| row.0 == "POST /api/COMMAND").expect("the commands");
    let (but, _) = what.split_once(';').expect("the end of the list");
    let but: BTreeSet<String> = but.split('`').skip(1).step_by(2).map(str::to_string).collect();
    assert_eq!(&listed - &but, names(true).collect());
}

#[test]
fn a_command_that_changes_the_array_asks_first() {
    for about in COMMANDS.iter().map(|entry| &entry.about).filter(|about| about.http) {
        assert!(!about.changes || !about.question.is_empty(), "{}: no question", about.name);
    }
}
