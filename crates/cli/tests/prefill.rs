//! `--prefill on`: the NVS begins filled to its low threshold, and what fills it saves the trace no
//! work (docs/simulator.md, "Measurement").

mod common;

use common::{fails, succeeds};
use serde_json::Value;
use tempfile::TempDir;

/// The volume has 16,384 pages.
const ARRAY: [&str; 4] = ["--disk-fraction", "64M", "--as", "served"];

fn json(words: &[&str]) -> Value {
    let text = succeeds(&[words, &ARRAY, &["--format", "json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

/// A trace that writes this number of different pages, 100 per second.
fn once(folder: &TempDir, pages: u64) -> String {
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    for at in 0..pages {
        let (ns, byte) = (at * 10_000_000, at * 8171 % 16_384 * 4096);
        text.push_str(&format!("{ns},0,{byte},4096,W\n"));
    }
    let path = folder.path().join("once.csv");
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_string()
}

#[test]
fn pages_that_a_trace_writes_once_are_no_hits() {
    let folder = TempDir::new().expect("a folder");
    let load = once(&folder, 2000);
    for (nvs, low) in [("1024", 819), ("4096", 3276), ("16384", 13_107)] {
        let run = json(&["sim", "--trace", &load, "--nvs", nvs, "--prefill", "on"]);
        assert_eq!(run["hits"]["write_request"], 0.0, "NVS {nvs}");
        assert_eq!(run["hits"]["write_page"], 0.0, "NVS {nvs}");
        assert_eq!(run["balance"]["dirty_pages_first"], low, "NVS {nvs}");
        assert!(!run["warnings"].to_string().contains("not filled"), "{}", run["warnings"]);
    }
}

#[test]
fn a_volume_without_room_is_named_in_the_warnings() {
    let folder = TempDir::new().expect("a folder");
    let load = once(&folder, 8192);
    let run = json(&["sim", "--trace", &load, "--nvs", "16384", "--prefill", "on"]);
    let said = "not filled: --prefill on fills 8192 pages of the NVS, fewer than the 13107 where \
                destaging begins";
    assert!(run["warnings"].to_string().contains(said), "{}", run["warnings"]);
    assert_eq!(run["balance"]["dirty_pages_first"], 8192);
    assert_eq!(run["hits"]["write_request"], 0.0);
    let question = ["advise", &load, "--goal", "full<1%", "--sizes", "16384..16384"];
    let search = ["--policies", "stow", "--try-thresholds", "90/80"];
    let advice = json(&[&question[..], &search].concat());
    assert!(advice["warnings"].to_string().contains(said), "{}", advice["warnings"]);
}

#[test]
fn a_trace_that_writes_one_page_fills_a_large_nvs() {
    let folder = TempDir::new().expect("a folder");
    let load = once(&folder, 1);
    let run = json(&["sim", "--trace", &load, "--nvs", "8192", "--prefill", "on"]);
    assert_eq!(run["balance"]["dirty_pages_first"], 6553);
}

#[test]
fn a_replay_without_writes_cannot_fill_the_nvs() {
    let folder = TempDir::new().expect("a folder");
    let load = folder.path().join("reads.csv");
    let text = "time_ns,device,offset_bytes,length_bytes,op\n0,0,0,4096,R\n9000,0,8192,4096,W\n";
    std::fs::write(&load, text).expect("written");
    let load = load.to_str().expect("text");
    let words = ["sim", "--trace", load, "--prefill", "on", "--trace-ops", "reads"];
    let error = fails(1, &words);
    assert!(error.contains("reads.csv: --prefill on fills the NVS with "), "{error}");
    assert!(error.contains("no write is replayed: leave it out"), "{error}");
    // It ends although the replay does not.
    let endless = ["--trace-mode", "closed:2", "--trace-repeat", "on", "--measure", "5"];
    fails(1, &[&words[..], &endless].concat());
}
