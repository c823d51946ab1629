//! The faults that `make planted` plants: each still fits the code that it changes.

use std::collections::BTreeMap;
use std::path::Path;

#[derive(serde::Deserialize)]
struct List {
    fault: Vec<Fault>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    name: String,
    what: String,
    harmless: Option<String>,
    test: Option<String>,
    edit: Vec<Edit>,
}

#[derive(serde::Deserialize)]
struct Edit {
    file: String,
    old: String,
    new: String,
}

#[test]
fn each_fault_fits_the_code_that_it_changes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("tests/planted/faults.toml")).expect("a list");
    let List { fault: faults } = toml::from_str(&text).expect("TOML");
    assert!(faults.len() > 30);
    let mut names = BTreeMap::new();
    for Fault { name, what, harmless, test, edit } in faults {
        assert!(what.ends_with('.') && harmless.is_none_or(|why| why.ends_with('.')), "{name}");
        assert!(!edit.is_empty());
        let file = |test| root.join(format!("crates/served/tests/{test}.rs"));
        assert!(test.is_none_or(|test: String| file(test).is_file()), "{name}: its test");
        for Edit { file, old, new } in edit {
            let code = std::fs::read_to_string(root.join(&file)).expect("a file of the tree");
            assert_eq!(code.matches(&old).count(), 1, "{name}: what it replaces in {file}:\n{old}");
            assert_ne!(old, new, "{name}");
        }
        assert!(names.insert(name.clone(), ()).is_none(), "{name} is there twice");
    }
}
