//! What the programs carry: the smallest server build no plots, no Parquet and no simulator, and no
//! release deliberate faults.

mod common;

use common::top;
use std::collections::BTreeSet;
use std::process::Command;

/// What cargo says of a build: a line for each package.
fn tree(edges: &str, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(top())
        .args(["tree", "--offline", "--locked", "--edges", edges, "--prefix", "none"])
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The packages that a build links.
fn packages(arguments: &[&str]) -> BTreeSet<String> {
    let text = tree("normal", arguments);
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_string).collect()
}

#[test]
fn a_server_carries_no_renderers() {
    let server = ["-p", "destage", "--no-default-features", "--features", "serve"];
    let heavy = ["destage-render", "destage-sim", "notosans", "parquet", "plotly", "plotters"];
    let heavy = heavy.into_iter().chain(["tiny-skia", "ttf-parser", "destage-torture"]);
    let found = packages(&server);
    for package in heavy {
        assert!(!found.contains(package), "a server's build carries {package}");
    }
    for package in ["destage-server", "destage-observe", "destage-report"] {
        assert!(found.contains(package), "{package} in {found:?}");
    }
    assert!(found.len() <= 136, "{} packages; 133 when this was written", found.len());
}

/// Builds that people get resolve no package with the feature `defects`; the tests of `torture` do.
#[test]
fn no_program_is_built_with_deliberate_faults() {
    let with = |edges, package: &[&str]| {
        let text = tree(edges, &[package, &["--format", "{p} {f}"]].concat());
        let has = |line: &&str| line.starts_with("destage") && line.contains("defects");
        text.lines().filter(has).count()
    };
    assert!(with("normal,dev", &["-p", "destage-torture"]) > 0, "this test finds the feature");
    let server = ["-p", "destage", "--no-default-features", "--features", "serve"];
    let all = ["-p", "destage", "--all-features"];
    for package in [&["-p", "destage"][..], &server, &all, &["-p", "destage-python"]] {
        assert_eq!(with("normal,build", package), 0, "{package:?}");
    }
}

/// The names of the deliberate faults are in a program that can carry them out
/// (`torture/tests/torture.rs` shows that), and not in the release program.
#[test]
fn the_release_program_has_no_deliberate_faults() {
    let given = std::env::var_os("DESTAGE_RELEASED").map(std::path::PathBuf::from);
    let path = given.clone().unwrap_or_else(|| top().join("target/release/destage"));
    if given.is_none() && !path.exists() {
        println!("SKIPPED: there is no {}: run make released", path.display());
        return;
    }
    let program = std::fs::read(&path).expect("the program");
    let has = |text: &str| program.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(has("degraded: one more failure"), "its texts are found in {}", path.display());
    let source = top().join("crates/served/src/defect.rs");
    let source = std::fs::read_to_string(source).expect("the list");
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix("Defect::"));
    let names: Vec<&str> = lines.filter_map(|line| line.strip_suffix(',')).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(!has(name), "{} has {name}", path.display());
    }
}
