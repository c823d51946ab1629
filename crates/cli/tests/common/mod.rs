//! Running the built `destage` and looking at what it says.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod array;
pub mod http;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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

/// `destage emulate`; killed when dropped.
pub struct Emulated(pub Child);

impl Emulated {
    /// Starts it with these words and waits until it listens.
    pub fn start(words: &[&str]) -> Emulated {
        let mut child = Command::new(env!("CARGO_BIN_EXE_destage"))
            .arg("emulate")
            .args(words)
            .stderr(Stdio::piped())
            .spawn()
            .expect("destage runs");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a line");
        assert!(line.contains("serving on"), "{line}");
        // Later lines have to go somewhere.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Emulated(child)
    }

    /// SIGKILL: nothing is reported, nothing is tidied.
    pub fn kill(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("gone");
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.kill();
    }
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

/// Runs a Python script of `tests/analysis`.
pub fn analysis_script(name: &str, words: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.arg("-B").arg(top().join("tests/analysis").join(name)).args(words);
    command.output().expect("python3 runs: install Python 3")
}

/// What a script printed, if it found no difference.
pub fn no_difference(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    said
}

/// What a script printed that must find a difference.
pub fn difference(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}{error}");
    assert!(said.contains(", Python "), "no difference: {said}{error}");
    said
}
