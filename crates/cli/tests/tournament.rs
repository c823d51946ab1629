//! `destage tournament`: a small grid, from its file to the score card.

mod common;

use common::{fails, succeeds};
use serde_json::Value;
use std::path::{Path, PathBuf};

const GRID: &str = r#"
title = "Small"
seeds = 2
protocols = ["safe", "papers"]
settings = [
  { name = "deep", options = { queue-depth = 128, order = "reads-first" } },
  { name = "shallow", options = { queue-depth = 20 } },
]
[options]
warmup = 5
measure = 10
nvs = 1024
[quick]
settings = 1
every-rate = 2
options = { measure = 5 }
[[cells]]
name = "open"
kind = "open"
rates = "100..900..100"
[[cells]]
name = "closed"
kind = "closed"
options = { workload = "random:threads=8" }
[[cells]]
name = "own rate"
kind = "fixed"
options = { workload = "uniform:iops=50,writes=0.5" }
[[cells]]
name = "trace"
kind = "fixed"
trace = "small.csv"
[cells.options]
nvs = 64
warmup = 0
measure = "all"
trace-columns = "time=t:s,op=op,offset=at,size=size"
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        std::fs::write(folder.path("grid.toml"), GRID).expect("written");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Plays the grid with these words besides.
    fn play(&self, more: &[&str]) -> Value {
        let (grid, out) = (self.path("grid.toml"), self.path("out"));
        let words = ["tournament", "--format", "json", "--policies", "ebb,lrw", "--grid"];
        let own = [text(&grid), "--out", text(&out)];
        let all: Vec<&str> = words.into_iter().chain(own).chain(more.iter().copied()).collect();
        serde_json::from_str(&succeeds(&all)).expect("JSON")
    }

    fn rows(&self) -> Vec<(PathBuf, std::time::SystemTime)> {
        let entries = std::fs::read_dir(self.path("out/rows")).expect("rows");
        let mut rows: Vec<_> = entries
            .map(|entry| {
                let entry = entry.expect("an entry");
                (entry.path(), entry.metadata().expect("a file").modified().expect("a time"))
            })
            .collect();
        rows.sort();
        rows
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

#[test]
fn a_grid_is_played_once_and_the_card_says_how_each_policy_did() {
    let folder = Folder::new();
    let trace = "t,op,at,size\n0,W,0,4096\n0.5,R,81920,4096\n1,W,4096,8192\n";
    std::fs::write(folder.path("small.csv"), trace).expect("written");
    let traces = folder.0.path().to_path_buf();
    let card = folder.play(&["--traces", text(&traces)]);
    let rows = folder.rows();
    assert_eq!(folder.play(&["--traces", text(&traces)]), card);
    assert_eq!(folder.rows(), rows, "nothing was run again");

    let names = |what: &Value, key: &str| -> Vec<String> {
        let all = what.as_array().expect("a list");
        all.iter().map(|one| one[key].as_str().expect("text").to_string()).collect()
    };
    assert_eq!(names(&card["protocols"], "protocol"), ["safe", "papers"]);
    let safe = &card["protocols"][0];
    assert_eq!(names(&safe["totals"], "policy"), ["ebb", "lrw", "stow", "wow"]);
    let cells = names(&safe["rows"], "cell");
    assert_eq!(cells.iter().filter(|cell| *cell == "open").count(), 6);
    assert_eq!(&cells[6..], ["closed", "own rate", "trace"]);
    let closed = &safe["rows"][6];
    let value = |policy: usize| closed["entries"][policy]["value"].as_f64().expect("a figure");
    assert_eq!(closed["reference"].as_f64(), Some(value(2).max(value(3))));
    let ratio = closed["entries"][1]["ratio"].as_f64().expect("a ratio");
    assert!(ratio < 0.9, "lrw writes at random: {ratio}");
    let limit = safe["rows"][0]["reference"].as_f64().expect("a throughput");
    assert!((100.0..900.0).contains(&limit), "{limit}");

    for name in ["card.csv", "card.txt", "index.html"] {
        let written = std::fs::read_to_string(folder.path("out").join(name)).expect("a file");
        assert!(written.contains("own rate"), "{name}");
    }
    // A row that was cut off is made again, and nothing else.
    std::fs::write(&rows[3].0, "PAR1").expect("written");
    assert_eq!(folder.play(&["--traces", text(&traces)]), card);
    let again = folder.rows();
    assert_eq!(again.iter().zip(&rows).filter(|(new, old)| new != old).count(), 1);
}

/// A part is played as in the complete grid, whose rows it can use.
#[test]
fn a_part_of_the_grid_has_the_figures_of_the_grid() {
    let folder = Folder::new();
    let part = folder.play(&["--cells", "closed; own", "--protocols", "papers"]);
    assert_eq!(part["title"], "Small, 2 of 4 cells");
    let rows = folder.rows();
    let all = folder.play(&[]);
    assert!(rows.iter().all(|row| folder.rows().contains(row)), "rows are kept");
    assert_eq!(part["protocols"].as_array().map(Vec::len), Some(1));
    let of = |card: &Value, protocol: usize| -> Vec<Value> {
        let rows = card["protocols"][protocol]["rows"].as_array().expect("rows");
        rows.iter().filter(|row| row["cell"] != "open").cloned().collect()
    };
    assert_eq!(of(&part, 0), of(&all, 1));
    let command = part["command"].as_str().expect("text");
    assert!(command.contains("--cells 'closed; own' --protocols papers"), "{command}");
}

/// What a policy is judged by, is all in the grid: an option with a value in some cell.
#[test]
fn the_grid_has_every_kind_of_load_and_array() {
    let path = common::top().join("specs/tournament/grid.toml");
    let grid = std::fs::read_to_string(path).expect("the grid");
    let grid: toml::Table = grid.parse().expect("TOML");
    let cells = grid["cells"].as_array().expect("cells");
    let mut has = std::collections::BTreeSet::new();
    for cell in cells {
        let table = |key: &str| cell.get(key).and_then(toml::Value::as_table).into_iter().flatten();
        for (key, value) in table("options").chain(table("each")) {
            let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            has.extend(values.into_iter().map(|value| format!("{key}={}", plain(&value))));
        }
        has.extend(cell.get("trace").map(|trace| format!("trace={}", plain(trace))));
        has.insert(format!("kind={}", plain(&cell["kind"])));
    }
    for asked in [
        "kind=open kind=closed kind=fixed thresholds=90/80 thresholds=70/40 disk-fraction=0.01",
        "window=1 window=4 window=8 window=32 window=64 nvs=4096 nvs=32768 level=10 level=6",
        "fail=disk=0,at=1 disk=ultrastar-hc320 disk=st2000dm006 disk=exos-x20 iops=2500",
        "workload=random:threads=32 workload=random:threads=16,pages=2",
        "workload=random:threads=16,pages=32 workload=random:threads=16,writes=0.1",
        "workload=sequential:streams=4,pages=16,iops=0 workload=hotcold:iops=500,writes=0.5",
        "trace=cloudPhysicsIO.vscsi.gz trace=disksim_ascii.trace.gz",
    ] {
        for one in asked.split(' ') {
            assert!(has.contains(one), "{one} is in no cell: {has:?}");
        }
    }
    assert_eq!(grid["seeds"].as_integer(), Some(3));
    assert_eq!(grid["protocols"].as_array().expect("a list").len(), 2);
}

/// A value as the command line has it.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

#[test]
fn a_quick_tournament_has_the_same_cells_and_a_missing_trace_is_skipped() {
    let folder = Folder::new();
    let card = folder.play(&["--quick", "--seed", "7"]);
    assert_eq!(card["seeds"], 1);
    assert_eq!(card["protocols"].as_array().map(Vec::len), Some(1));
    assert_eq!(card["skipped"][0], "trace: needs --traces DIR");
    assert_eq!(card["title"], "Small, quick");
    let command = card["command"].as_str().expect("text");
    assert!(command.ends_with("--seed 7 --quick"), "{command}");
    let there = folder.0.path().to_path_buf();
    let card = folder.play(&["--quick", "--traces", text(&there)]);
    let skipped = card["skipped"][0].as_str().expect("text");
    assert!(skipped.starts_with("trace: no file"), "{skipped}");
}

/// ebb's figures of "own rate", which only reads here, and "closed", if `options` of [quick] are
/// these.
fn quickly(options: &str) -> [f64; 2] {
    let folder = Folder::new();
    let grid = GRID.replace("options = { measure = 5 }", options).replace("0.5", "0");
    std::fs::write(folder.path("grid.toml"), grid).expect("written");
    let card = folder.play(&["--quick", "--cells", "own rate;closed"]);
    let rows = card["protocols"][0]["rows"].as_array().expect("rows");
    ["own rate", "closed"].map(|cell| {
        let row = rows.iter().find(|row| row["cell"] == cell).expect("a row");
        row["entries"][0]["value"].as_f64().expect("a figure")
    })
}

#[test]
fn a_quick_tournament_measures_means_for_longer() {
    let [short, short_closed] = quickly("options = { measure = 5 }");
    let [long, _] = quickly("options = { measure = 12 }");
    let both = quickly("options = { measure = 5 }\nmeans = { measure = 12 }");
    assert_ne!(short, long);
    assert_eq!(both, [long, short_closed]);
}

/// What is found at the last rate is a lower bound: nothing is compared with it.
#[test]
fn a_cell_whose_rates_end_within_20_ms_compares_nothing_and_is_named() {
    let folder = Folder::new();
    let first_cell = GRID.split("[[cells]]\nname = \"closed\"").next().expect("a cell");
    let short = first_cell.replace("100..900..100", "100..200..50");
    std::fs::write(folder.path("grid.toml"), short).expect("written");
    let card = folder.play(&[]);
    let rows = card["protocols"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "no shares of a throughput that is not known");
    assert!(rows[0]["reference"].is_null() && rows[0]["entries"][0]["ratio"].is_null());
    assert_eq!(rows[0]["entries"][0]["is_bound"], true);
    assert_eq!(card["protocols"][0]["totals"][0]["figures"], 0);
    let warning = card["warnings"][0].as_str().expect("a warning");
    assert!(warning.starts_with("open, protocol safe: the rates end at 200, "), "{warning}");
    assert!(warning.ends_with("Extend the cell's rates in the grid"), "{warning}");
    let text = std::fs::read_to_string(folder.path("out/card.txt")).expect("a card");
    assert!(text.contains("WARNING: open, protocol safe") && !text.contains("NaN"), "{text}");
    let page = std::fs::read_to_string(folder.path("out/index.html")).expect("a page");
    assert!(page.contains("the rates end at 200") && page.contains("&gt;1"), "{page}");
    // What was run counts for longer rates.
    let before = folder.rows();
    let long = first_cell.replace("100..900..100", "100..900..50");
    std::fs::write(folder.path("grid.toml"), long).expect("written");
    let card = folder.play(&[]);
    assert_eq!(card["warnings"], Value::Array(Vec::new()));
    assert!(card["protocols"][0]["rows"][0]["reference"].as_f64() > Some(200.0));
    assert!(before.iter().all(|row| folder.rows().contains(row)), "rows are kept");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_runs() {
    let folder = Folder::new();
    let (grid, out) = (folder.path("grid.toml"), folder.path("out"));
    let refused = |code: i32, words: &[&str], why: &str| {
        let all = ["tournament", "--grid", text(&grid), "--out", text(&out)];
        let error = fails(code, &all.into_iter().chain(words.iter().copied()).collect::<Vec<_>>());
        assert!(error.contains(why), "{error}");
    };
    refused(2, &["--policies", "eb"], "unknown policy `eb`");
    refused(2, &["--policies", "ebb,ebb"], "ebb is listed twice");
    refused(2, &["--against", ""], "others to compare them with");
    refused(2, &["--cells", "closed; shut"], "no cell is called `shut`: open; closed; own rate");
    refused(2, &["--protocols", "safe,safe"], "safe is listed twice");
    refused(2, &["--protocols", "fast"], "the grid has no protocol `fast`: safe, papers");
    assert!(folder.rows().is_empty());
    let bad = folder.path("bad.toml");
    let write = |text: &str| std::fs::write(&bad, text).expect("written");
    let of_file = |code: i32, why: &str| {
        let error = fails(code, &["tournament", "--grid", text(&bad), "--out", text(&out)]);
        assert!(error.contains(why) && error.contains("bad.toml"), "{error}");
    };
    write("title = 3");
    of_file(1, "invalid type");
    write(&GRID.replace("kind = \"closed\"", "kind = \"shut\""));
    of_file(1, "unknown variant `shut`");
    write(&GRID.replace("threads=8", "thread=8"));
    let error = fails(2, &["tournament", "--grid", text(&bad), "--out", text(&out)]);
    assert!(error.contains("closed") && error.contains("thread"), "names the cell: {error}");
    assert!(folder.rows().is_empty());
}
