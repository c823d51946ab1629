//! The smallest server build carries no plots, no Parquet and no simulator.

mod common;

use common::top;
use std::collections::BTreeSet;
use std::process::Command;

/// The packages that a build links.
fn packages(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(top())
        .args(["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
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
    assert!(found.len() <= 128, "{} packages; 125 when this was written", found.len());
}
