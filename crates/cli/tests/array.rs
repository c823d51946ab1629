//! A served array as operators run it: created, served, killed, recovered, refused.

mod common;

use common::{destage, fails, succeeds};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An array in a temporary folder.
struct Array {
    folder: tempfile::TempDir,
    server: Option<Child>,
}

impl Array {
    /// Level 5 over three files, with these NVS devices.
    fn create(nvs: &[&str]) -> Array {
        let array = Array { folder: tempfile::tempdir().expect("a folder"), server: None };
        array.create_as("tank", "d", nvs);
        array
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("text").to_string()
    }

    fn create_as(&self, name: &str, prefix: &str, nvs: &[&str]) {
        let folder = self.path("");
        let mut words = vec!["create".to_string(), name.to_string()];
        for disk in 0..3 {
            let disk = self.path(&format!("{prefix}{disk}"));
            words.extend(["--disk".to_string(), format!("{disk},size=32M")]);
        }
        for nvs in nvs {
            words.extend(["--nvs".to_string(), format!("{},size=16M", self.path(nvs))]);
        }
        words.extend(["--config-dir".to_string(), folder]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(succeeds(&words).contains("created"));
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.path("nbd.sock"))
    }

    fn serve(&mut self, more: &[&str]) {
        let listen = format!("unix:{}", self.path("nbd.sock"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_destage"))
            .args(["serve", "tank", "--nbd", &listen, "--config-dir", &self.path("")])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .expect("destage runs");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("serving on") {
            line.clear();
            assert!(errors.read_line(&mut line).expect("a line") > 0, "it ended");
        }
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        self.server = Some(child);
    }

    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("killed");
            server.wait().expect("gone");
        }
    }

    /// A command about the array.
    fn asks(&self, words: &[&str]) -> String {
        succeeds(&[words, &["--config-dir", &self.path("")]].concat())
    }

    fn refused(&self, words: &[&str]) -> String {
        fails(1, &[words, &["--config-dir", &self.path("")]].concat())
    }

    fn refuses_to_serve(&self) -> String {
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
    fn edit(&self, from: &str, to: &str) {
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

fn status(array: &Array) -> serde_json::Value {
    let text = array.asks(&["status", "tank", "--format", "json"]);
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn an_array_lives_through_a_kill_and_keeps_what_it_acknowledged() {
    for nvs in [&["nvs"][..], &["nvs0", "nvs1"]] {
        let mut array = Array::create(nvs);
        array.serve(&[]);
        let log = array.path("acked");
        let uri = array.uri();
        succeeds(&["bench", &uri, "--time", "700ms", "--depth", "8", "--log", &log]);
        array.kill();
        assert!(array.asks(&["recover", "tank", "--inspect"]).contains("dirty pages"));
        array.serve(&[]);
        succeeds(&["bench", &uri, "--check", &log]);
        let said = array.asks(&["set", "tank", "--policy", "wow", "--rate", "linear:50/30"]);
        assert!(said.contains("policy wow, rate linear:50/30"), "{said}");
        array.asks(&["flush", "tank"]);
        let now = status(&array);
        assert_eq!((&now["dirty_pages"], &now["state"]), (&0.into(), &"clean".into()));
        assert!(now["destaged_pages"].as_u64() > Some(0), "{now}");
        array.asks(&["stop", "tank"]);
        array.server.take().expect("served").wait().expect("ended");
        let inspected = array.asks(&["recover", "tank", "--inspect", "--format", "json"]);
        assert!(inspected.contains("\"none\""), "{inspected}");
        array.serve(&[]);
        succeeds(&["bench", &uri, "--check", &log]);
    }
}

#[test]
fn a_member_or_a_mirror_that_is_missing_is_borne_when_asked() {
    let mut array = Array::create(&["nvs0", "nvs1"]);
    array.serve(&[]);
    let (log, uri) = (array.path("acked"), array.uri());
    succeeds(&["bench", &uri, "--time", "500ms", "--depth", "8", "--log", &log]);
    array.kill();
    for lost in ["d1", "nvs0"] {
        std::fs::rename(array.path(lost), array.path("away")).expect("renamed");
        let error = array.refuses_to_serve();
        assert!(error.contains("--degraded") && error.contains(lost), "{error}");
        array.serve(&["--degraded"]);
        succeeds(&["bench", &uri, "--check", &log]);
        array.asks(&["stop", "tank"]);
        array.server.take().expect("served").wait().expect("ended");
        std::fs::rename(array.path("away"), array.path(lost)).expect("renamed");
    }
    // They are back, but out of date: nobody may take them for good.
    array.serve(&[]);
    let now = status(&array);
    assert_eq!(now["state"], "degraded", "{now}");
    succeeds(&["bench", &uri, "--check", &log]);
}

#[test]
fn wrong_devices_are_refused_with_what_to_do() {
    let mut array = Array::create(&["nvs"]);
    array.create_as("other", "o", &["nvs-other"]);
    let error = array.refused(&["status", "tank"]);
    assert!(error.contains("is not being served"), "{error}");
    array.edit("/d0\"", "/swap\"");
    array.edit("/d1\"", "/d0\"");
    array.edit("/swap\"", "/d1\"");
    let error = array.refuses_to_serve();
    assert!(error.contains("is member 1 of this array"), "{error}");
    array.edit("/d1\"", "/swap\"");
    array.edit("/d0\"", "/d1\"");
    array.edit("/swap\"", "/d0\"");
    array.edit("/d2\"", "/o2\"");
    assert!(array.refuses_to_serve().contains("another array"));
    array.edit("/o2\"", "/d2\"");
    array.edit("/nvs\"", "/nvs-other\"");
    assert!(array.refuses_to_serve().contains("another array"));
    array.edit("/nvs-other\"", "/gone\"");
    assert!(array.refuses_to_serve().contains("may hold writes that the disks do not have"));
    array.edit("/gone\"", "/nvs\"");
    array.serve(&[]);
    assert!(array.refuses_to_serve().contains("in use by another destage"));
    let folder = array.path("");
    let disks: Vec<String> = (0..3).map(|disk| array.path(&format!("o{disk}"))).collect();
    let mut words = vec!["create", "third", "--config-dir", &folder];
    disks.iter().for_each(|disk| words.extend(["--disk", disk]));
    assert!(fails(1, &words).contains("a member or NVS of the array"));
    assert!(fails(2, &["create", "a/b", "--disk", "x"]).contains("a name is of letters"));
}

#[test]
fn a_damaged_log_stops_the_start_and_is_told() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[]);
    let uri = array.uri();
    succeeds(&["bench", &uri, "--time", "300ms", "--depth", "4"]);
    array.asks(&["stop", "tank"]);
    array.server.take().expect("served").wait().expect("ended");
    flip(array.path("nvs"), (1 << 20) + 5000);
    let error = array.refuses_to_serve();
    assert!(error.contains("the NVS log is damaged") && error.contains("--inspect"), "{error}");
    let folder = array.path("");
    let output = destage(&["recover", "tank", "--inspect", "--config-dir", &folder]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("damage") && text.contains("commit"), "{text}");
}

fn flip(path: impl AsRef<Path>, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x40], at).expect("written");
}
