//! `destage disks measure` as it is typed: on models, and on a served model in real time.

mod common;

use common::{Emulated, fails, succeeds};
use serde_json::Value;

/// A folder, and a path in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("text").to_string()
    }
}

/// The value of a figure in a table as JSON.
fn figure(printed: &str, name: &str) -> f64 {
    let json: Value = serde_json::from_str(printed).expect("JSON");
    let rows = json.get("rows").unwrap_or(&json).as_array().expect("rows").clone();
    let row = rows.iter().find(|row| row["figure"] == name);
    row.unwrap_or_else(|| panic!("no {name}: {printed}"))["value"].as_f64().expect("a number")
}

#[test]
fn a_measured_spec_is_one_that_every_command_takes() {
    let folder = Folder::new();
    let (out, plot) = (folder.path("mine.toml"), folder.path("mine.svg"));
    let words = ["disks", "measure", "cheetah4lp", "--out", &out];
    let all = [&words[..], &["--destructive", "all", "--plot", &plot, "--format", "json"]].concat();
    let printed = succeeds(&all);
    assert!((figure(&printed, "revolution") - 6e4 / 10_033.0).abs() < 1e-4);
    assert_eq!(figure(&printed, "heads"), 8.0);
    assert!(figure(&printed, "random trace: error of the mean").abs() < 3.0);
    assert!(figure(&printed, "mixed trace: error of the mean").abs() < 6.0);
    let spec = std::fs::read_to_string(&out).expect("the spec");
    assert!(spec.starts_with("# Made by `destage disks measure` from cheetah4lp."), "{spec}");
    assert!(spec.lines().all(|line| line.len() <= 100), "{spec}");
    assert!(spec.contains("[write_back]"), "{spec}");
    assert!(std::fs::read_to_string(&plot).expect("a plot").contains("<svg"));
    assert!(succeeds(&["disks", "show", &out]).contains("4.55"));
    assert!(!std::fs::exists(folder.path("mine.toml.state")).expect("looked"));
    // Nothing is written over.
    let refused = fails(1, &words);
    assert!(refused.contains("already exists"), "{refused}");
    let refused = fails(2, &["disks", "measure", &out, "--out", &out, "--force"]);
    assert!(refused.contains("would destroy it"), "{refused}");
    // Without leave to write, what writes cost is assumed.
    succeeds(&[&words[..], &["--force"]].concat());
    let spec = std::fs::read_to_string(&out).expect("the spec");
    assert!(!spec.contains("[write_back]") && spec.contains("FLUSH"), "{spec}");
}

#[test]
fn what_cannot_be_measured_is_refused_in_a_line() {
    let folder = Folder::new();
    let out = folder.path("mine.toml");
    let refuses = |code: i32, words: &[&str], part: &str| {
        let error = fails(code, &[&["disks", "measure"], words, &["--out", &out]].concat());
        assert!(error.contains(part) && error.trim().lines().count() == 1, "{error}");
    };
    refuses(2, &["nosuch"], "unknown disk");
    refuses(2, &["cheetah4lp", "--destructive", "7"], "a range of bytes");
    refuses(2, &["cheetah4lp", "--destructive", "9G-3G"], "a range of bytes");
    refuses(2, &["cheetah4lp", "--destructive", "1T-2T"], "ends at byte 4550246400");
    refuses(1, &["cheetah4lp", "--destructive", "1M-2M"], "too few");
    let file = folder.path("file");
    std::fs::File::create(&file).and_then(|made| made.set_len(1 << 30)).expect("a file");
    refuses(1, &[&file], &file);
    let state = folder.path("mine.toml.state");
    std::fs::write(&state, "{}").expect("written");
    refuses(1, &["cheetah4lp"], "another target");
    std::fs::write(&state, "not JSON").expect("written");
    refuses(1, &["cheetah4lp"], "not a saved measurement");
    std::fs::remove_file(&state).expect("removed");
    let listen = format!("unix:{}", folder.path("s"));
    let _server = Emulated::start(&["ram", "--size", "64M", "--nbd", &listen]);
    let uri = format!("nbd+unix:///?socket={}", folder.path("s"));
    refuses(1, &[&uri], "too few");
    refuses(1, &[&format!("nbd+unix:///?socket={}", folder.path("none"))], "No such file");
    let name = folder.path("mine");
    let refused = fails(2, &["disks", "measure", "cheetah4lp", "--out", &name]);
    assert!(refused.contains(".toml"), "{refused}");
}

/// `make measure-served`: with the timer's noise.
#[test]
#[ignore = "minutes, on an idle machine"]
fn a_served_drive_is_found_in_real_time() {
    let folder = Folder::new();
    let listen = format!("unix:{}", folder.path("s"));
    let _server = Emulated::start(&["hp-c2247a", "--nbd", &listen]);
    let uri = format!("nbd+unix:///?socket={}", folder.path("s"));
    let out = folder.path("served.toml");
    let words = ["disks", "measure", &uri, "--destructive", "all", "--format", "json"];
    let printed = succeeds(&[&words[..], &["--out", &out]].concat());
    println!("{printed}");
    for trace in ["random", "mixed"] {
        let error = figure(&printed, &format!("{trace} trace: error of the mean"));
        assert!(error.abs() < 6.0, "{trace}: {error} %");
    }
}
