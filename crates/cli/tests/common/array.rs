//! A served array of files, as operators run it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use super::{destage, fails, succeeds};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// An array in a temporary folder.
pub struct Array {
    pub folder: tempfile::TempDir,
    pub server: Option<Child>,
    /// What the server said until it served.
    pub said: String,
}

impl Array {
    /// A folder for one.
    pub fn empty() -> Array {
        let folder = tempfile::tempdir().expect("a folder");
        Array { folder, server: None, said: String::new() }
    }

    /// Level 5 over three files, with these NVS devices.
    pub fn create(nvs: &[&str]) -> Array {
        let array = Array::empty();
        array.create_as("tank", "d", nvs);
        array
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("text").to_string()
    }

    /// Any level over this many disks, which are files.
    pub fn of_level(level: &str, disks: u16, nvs: &[&str]) -> Array {
        let array = Array::empty();
        array.create_with("tank", "d", nvs, level, disks);
        array
    }

    pub fn create_as(&self, name: &str, prefix: &str, nvs: &[&str]) {
        self.create_with(name, prefix, nvs, "5", 3);
    }

    fn create_with(&self, name: &str, prefix: &str, nvs: &[&str], level: &str, disks: u16) {
        let nvs: Vec<String> =
            nvs.iter().map(|nvs| format!("{},size=16M", self.path(nvs))).collect();
        let mut more = vec!["--level", level];
        nvs.iter().for_each(|nvs| more.extend(["--nvs", nvs]));
        assert!(
            self.create_over(name, &self.files(prefix, disks, "32M"), &more).contains("created")
        );
    }

    /// Files that `create` is to make as members.
    pub fn files(&self, prefix: &str, count: u16, size: &str) -> Vec<String> {
        let file = |number| format!("{},size={size}", self.path(&format!("{prefix}{number}")));
        (0..count).map(file).collect()
    }

    /// `destage create` with these members and arguments; what it says.
    pub fn create_over(&self, name: &str, disks: &[String], more: &[&str]) -> String {
        let mut words = vec!["create", name];
        disks.iter().for_each(|disk| words.extend(["--disk", disk]));
        words.extend(more);
        self.asks(&words)
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.path("nbd.sock"))
    }

    pub fn serve(&mut self, more: &[&str]) {
        self.serve_with(more, &[]);
    }

    /// Serves it with these variables in the environment.
    pub fn serve_with(&mut self, more: &[&str], variables: &[(&str, &str)]) {
        let mut errors = self.start(more, variables);
        let mut log = std::fs::File::create(self.path("stderr")).expect("a file");
        std::thread::spawn(move || std::io::copy(&mut errors, &mut log));
    }

    /// Serves it, and closes the pipe to which the server writes its log.
    pub fn serve_unread(&mut self) {
        drop(self.start(&[], &[]));
    }

    /// Serves it, and reads nothing more of what it writes to its log; that pipe is full.
    pub fn serve_unheard(&mut self) -> BufReader<ChildStderr> {
        let errors = self.start(&[], &[]);
        // Opened once more: the server's own writes wait as before.
        let path = format!("/proc/self/fd/{}", errors.get_ref().as_raw_fd());
        let flags = libc::O_NONBLOCK;
        let pipe = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(path);
        let mut pipe = pipe.expect("the pipe");
        for bytes in [4096, 1] {
            while pipe.write_all(&vec![b'\n'; bytes]).is_ok() {}
        }
        errors
    }

    /// Starts the server. Returns where it writes its log, read until it serves.
    fn start(&mut self, more: &[&str], variables: &[(&str, &str)]) -> BufReader<ChildStderr> {
        let listen = format!("unix:{}", self.path("nbd.sock"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_destage"))
            .args(["serve", "tank", "--nbd", &listen, "--config-dir", &self.path("")])
            .args(more)
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .expect("destage runs");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        self.said.clear();
        while !line.contains("serving on") {
            line.clear();
            assert!(errors.read_line(&mut line).expect("a line") > 0, "it ended: {}", self.said);
            self.said.push_str(&line);
        }
        self.server = Some(child);
        errors
    }

    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("killed");
            server.wait().expect("gone");
        }
    }

    /// Ends the server and waits for it.
    pub fn stop(&mut self) {
        self.asks(&["stop", "tank"]);
        self.server.take().expect("served").wait().expect("ended");
    }

    /// A command in the background.
    pub fn ask(&self, words: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_destage"))
            .args(words)
            .args(["--config-dir", &self.path("")])
            .spawn()
            .expect("destage runs")
    }

    /// A load in the background.
    pub fn load(&self, words: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_destage"))
            .args(["bench", &self.uri()])
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("destage runs")
    }

    /// The same to its end; the log of what was acknowledged.
    pub fn loaded(&self, words: &[&str]) -> String {
        let log = self.path("acked");
        succeeds(&[&["bench", &self.uri()], words, &["--log", &log]].concat());
        log
    }

    /// Everything that the log says was acknowledged is there.
    pub fn keeps(&self, log: &str) {
        succeeds(&["bench", &self.uri(), "--check", log]);
    }

    /// A command about the array.
    pub fn asks(&self, words: &[&str]) -> String {
        succeeds(&[words, &["--config-dir", &self.path("")]].concat())
    }

    pub fn refused(&self, words: &[&str]) -> String {
        fails(1, &[words, &["--config-dir", &self.path("")]].concat())
    }

    pub fn refuses_to_serve(&self) -> String {
        let listen = format!("unix:{}", self.path("other.sock"));
        let folder = self.path("");
        let words = ["serve", "tank", "--nbd", &listen, "--config-dir", &folder];
        let output = destage(&words);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).expect("text");
        assert!(!error.contains("panicked"), "{error}");
        error.lines().last().expect("a line").to_string()
    }

    /// Changes the configuration.
    pub fn edit(&self, from: &str, to: &str) {
        let path = self.path("tank.toml");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains(from), "{text}");
        std::fs::write(path, text.replace(from, to)).expect("written");
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn status(array: &Array) -> Value {
    let text = array.asks(&["status", "tank", "--format", "json"]);
    serde_json::from_str(&text).expect("JSON")
}

/// Waits until the status is so.
pub fn until(array: &Array, what: &str, mut so: impl FnMut(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let now = status(array);
        if so(&now) {
            return now;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "never {what}: {now}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until it is: a start redoes the destages that a kill interrupted while it serves.
pub fn becomes_clean(array: &Array) {
    until(array, "clean", |now| now["state"] == "clean");
}

/// Waits until the active alarms have this text.
pub fn has_alarm(array: &Array, text: &str) -> Value {
    until(array, text, |now| now["alarms"].to_string().contains(text))
}

/// The alarm with this name, if it is active.
pub fn alarm(array: &Array, name: &str) -> Option<String> {
    let now = status(array);
    let mut alarms = now["alarms"].as_array().expect("a list").iter().filter_map(Value::as_str);
    alarms.find(|text| text.starts_with(&format!("{name}: "))).map(str::to_string)
}

/// Flips a bit of a file.
pub fn flip(path: impl AsRef<Path>, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x40], at).expect("written");
}
