//! Running the built `destage` and looking at what it says.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod array;
pub mod http;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs `destage` with these words.
pub fn destage(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_destage")).args(words).output().expect("destage runs")
}

/// Standard output of a run that must succeed.
pub fn succeeds(words: &[&str]) -> String {
    let output = destage(words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "destage {words:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// The one line of a run that must fail with this exit code, and print nothing else.
pub fn fails(code: i32, words: &[&str]) -> String {
    let output = destage(words);
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "destage {words:?}: {error}");
    assert!(output.stdout.is_empty(), "destage {words:?} printed a result");
    assert!(!error.contains("panicked"), "{error}");
    assert_eq!(error.lines().count(), 1, "one line: {error}");
    error
}

/// The workspace's top folder.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A real trace, or a message that the test is skipped.
pub fn trace(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("DESTAGE_TRACES")
        .map_or_else(|| top().join("../shared/traces"), PathBuf::from);
    let path = folder.join(name);
    if !path.exists() {
        println!("SKIPPED: {} is not here (set DESTAGE_TRACES)", path.display());
        return None;
    }
    Some(path)
}
