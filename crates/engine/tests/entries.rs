//! What ARCHITECTURE.md says of the controller's entries: the methods that change it are those that
//! the page lists.

use std::collections::BTreeSet;
use std::path::Path;

/// Deliberate faults, which only tests turn on.
const DEFECTS: [&str; 2] = ["cache_carelessly", "scrub_carelessly"];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of public methods that take `&mut self`.
fn mutators(source: &str) -> BTreeSet<String> {
    let methods = source.split("\n    pub fn ").skip(1);
    let mutating = methods.filter(|method| {
        let arguments = method.split(')').next().expect("arguments");
        arguments.split('(').nth(1).is_some_and(|all| all.trim_start().starts_with("&mut self"))
    });
    mutating.map(|method| method.split(['(', '<']).next().expect("a name").to_string()).collect()
}

#[test]
fn only_the_entries_that_the_architecture_lists_change_a_controller() {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/controller"))
        .expect("the controller's files")
    {
        let name = entry.expect("a file").file_name();
        found.extend(mutators(&read(&format!("src/controller/{}", name.to_str().expect("text")))));
    }
    let page = read("../../ARCHITECTURE.md");
    let claim = page.split("**`Controller::step` alone decides**").nth(1).expect("the claim");
    let claim = claim.split("A test (").next().expect("its end");
    let mut named: BTreeSet<String> = ["step".to_string()].into();
    named.extend(claim.split('`').skip(1).step_by(2).map(str::to_string));
    named.remove("Action::Keep");
    named.extend(DEFECTS.map(str::to_string));
    assert_eq!(found, named);
}
