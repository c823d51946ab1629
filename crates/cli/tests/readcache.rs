//! `destage readcache-trace`: recorded figures, tables, real traces, and bad input.

mod common;

use common::{analysis_script, difference, fails, no_difference, succeeds, top, trace};
use serde_json::Value;
use std::fmt::Write;
use std::process::Output;
use tempfile::TempDir;

/// 20,000 blocks of 400, evenly drawn, in a file.
fn syn_t(folder: &TempDir) -> String {
    let (mut state, mut text) = (1u64, String::new());
    for _ in 0..20_000 {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        writeln!(text, "{}", (z ^ (z >> 31)) % 400).expect("a string");
    }
    file(folder, "syn.txt", &text)
}

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_string()
}

fn replay(path: &str, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    succeeds(&[&["readcache-trace", path], &words[..]].concat())
}

fn rows(path: &str, words: &str) -> Vec<Value> {
    let text = replay(path, &format!("{words} --format json"));
    serde_json::from_str::<Value>(&text).expect("JSON").as_array().expect("rows").clone()
}

#[test]
fn recorded_figures_and_hashes() {
    let folder = TempDir::new().expect("a folder");
    let path = syn_t(&folder);
    for (words, rgr, hash) in [
        ("--policy lru --disks 5 --blocks 50", "1.406600", "a7bd4dc9a0334ddf"),
        ("--policy vdf-lru --disks 5 --blocks 50", "1.306650", "2c2b2fa2e1498f87"),
        ("--policy lfu --disks 5 --blocks 50", "1.433100", "894a337247addabc"),
        ("--policy vdf-lfu --disks 5 --blocks 50", "1.109050", "452c45c100c3bb27"),
        ("--policy vdf-lru --disks 8 --blocks 100 --failed 0", "1.046150", "8bd19da235bdf0ba"),
        ("--policy vdf-lfu --disks 8 --blocks 100 --level 5", "0.765550", "f92358bcc52d1e4a"),
    ] {
        let text = replay(&path, words);
        assert!(text.contains(&format!("RGR all {rgr}\n")), "{words}: {text}");
        assert!(text.ends_with(&format!("H {hash}\n")), "{words}: {text}");
    }
}

#[test]
fn events_are_printed_one_a_block() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "b.txt", "1\n2\n1\n3\n");
    let text = replay(&path, "--policy lru --blocks 2 --events");
    assert!(text.starts_with("0 1 -\n0 2 -\n1 1 -\n0 3 2\npolicy lru\n"), "{text}");
    assert!(text.contains("RGR warm") && text.contains("hit ratio 0.250000"), "{text}");
    let text = replay(&path, "--policy lru --blocks 9");
    assert!(text.contains("RGR warm -\n"), "{text}");
}

#[test]
fn several_policies_are_compared_with_their_plain_forms() {
    let folder = TempDir::new().expect("a folder");
    let (path, out) = (syn_t(&folder), folder.path().join("t.csv"));
    let rows = rows(&path, "--policy vdf-lru,vdf-lfu --blocks 50 --sweep disks=5,8");
    let names: Vec<&str> = rows.iter().map(|r| r["policy"].as_str().expect("text")).collect();
    assert_eq!(names[..4], ["lru", "vdf-lru", "lfu:ties=oldest", "vdf-lfu:ties=oldest"]);
    assert_eq!(rows.len(), 8);
    let reduction = rows[1]["reduction"].as_f64().or(rows[1]["reduction_%"].as_f64());
    let reduction = reduction.or(rows[1]["reduction_percent"].as_f64()).expect("a reduction");
    assert!((reduction - 7.11).abs() < 0.01, "{reduction}");
    let words =
        format!("--policy vdf-lru --failed all --blocks 50 --out {}", out.to_str().expect("text"));
    let table = replay(&path, &words);
    assert_eq!(table.lines().filter(|l| l.contains("mean")).count(), 2, "{table}");
    let csv = std::fs::read_to_string(out).expect("written");
    assert_eq!(csv.lines().count(), 1 + 2 * 6);
}

#[test]
fn sizes_are_shares_of_the_working_set_and_the_optimum_is_a_bound() {
    let folder = TempDir::new().expect("a folder");
    let path = syn_t(&folder);
    let rows = rows(&path, "--policy lru,2q,slru,opt --blocks 10%,12.5%,40 --failed none");
    let sizes: Vec<u64> = rows.iter().map(|row| row["blocks"].as_u64().expect("a size")).collect();
    assert_eq!(sizes, [[40; 4], [50; 4], [40; 4]].concat());
    let hits = |row: &Value| row["hit_ratio"].as_f64().expect("a ratio");
    for case in rows.chunks(4) {
        assert_eq!(case[3]["policy"], "opt");
        assert!(case.iter().all(|row| hits(row) <= hits(&case[3])), "{case:?}");
        assert!(hits(&case[3]) > 1.5 * hits(&case[0]), "{case:?}");
    }
    let text = replay(&path, "--policy opt --blocks 100%");
    assert!(text.starts_with("policy opt\n") && text.contains("hit ratio 0.98"), "{text}");
    for bad in ["0%", "101%", "x%", "-1%", "nan%"] {
        let blocks = format!("--blocks={bad}");
        let words = ["readcache-trace", &path, "--policy", "lru", &blocks];
        assert!(fails(2, &words).contains("shares of the working set"), "{bad}");
    }
}

#[test]
fn ties_are_chosen_by_parameter() {
    let folder = TempDir::new().expect("a folder");
    let path = syn_t(&folder);
    let of = |policy: &str| replay(&path, &format!("--policy {policy} --blocks 50"));
    assert_eq!(of("vdf-lfu:literal"), of("vdf-lfu:ties=literal"));
    assert_ne!(of("vdf-lfu:literal"), of("vdf-lfu"));
}

#[test]
fn only_reads_count_and_devices_lie_apart() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "a.spc", "0,0,8192,R,0.1\n0,0,4096,W,0.2\n1,0,4096,r,0.3\n");
    let text = replay(&path, "--policy lru --blocks 8 --events");
    // The first device ends at block 2: 16 and a chunk on, the second begins.
    assert!(text.starts_with("0 0 -\n0 1 -\n0 32 -\npolicy"), "{text}");
    let text = replay(&path, "--policy lru --blocks 8 --device 1");
    assert!(text.contains("block requests 1\n"), "{text}");
}

#[test]
fn bad_input_is_one_line() {
    let folder = TempDir::new().expect("a folder");
    let path = syn_t(&folder);
    let refused = |code: i32, words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        fails(code, &[&["readcache-trace", path.as_str()], &words[..]].concat())
    };
    let error = refused(2, "--policy vdf-lro");
    assert!(error.contains("unknown read policy `vdf-lro`; known: vdf-lru"), "{error}");
    let error = refused(2, "--policy x").trim_end().to_string();
    for name in ["lru", "vdf-lru", "opt", "vdf-opt", "bound"] {
        assert!(error.contains(&format!(" {name},")) || error.ends_with(name), "{name}: {error}");
    }
    assert!(refused(2, "--policy vdf-otp").contains("known: vdf-opt"));
    assert!(refused(2, "--policy lru,lfu:ties=new").contains("oldest or literal"));
    assert!(refused(2, "--policy lru --disks 2").contains("3 to 1024 disks, not 2"));
    assert!(refused(2, "--policy lru --disks 3 --level 6").contains("4 to 1024 disks, not 3"));
    assert!(refused(2, "--policy lru --failed 5").contains("disk 5 cannot fail"));
    assert!(refused(2, "--policy lru --failed 0+1").contains("does not survive"));
    assert!(refused(2, "--policy lru --level 10").contains("no parity"));
    assert!(refused(2, "--policy lru --blocks 0").contains("1 to 1073741824 blocks, not 0"));
    assert!(refused(2, "--policy lru --blocks many").contains("--blocks takes whole numbers"));
    assert!(refused(2, "--policy lru --sweep size=1,2").contains("disks, blocks or failed"));
    assert!(refused(2, "--policy lru,arc --events").contains("--events takes one"));
    assert!(refused(1, "--policy lru --out /no/such/t.csv").contains("cannot be written"));
    assert!(refused(2, "--policy lru --out t.html").contains("use one of: json"));
    let empty = file(&folder, "empty.txt", "");
    assert!(fails(1, &["readcache-trace", &empty, "--policy", "lru"]).contains("empty"));
    let writes = file(&folder, "w.spc", "0,0,4096,W,0.5\n0,8,4096,W,0.6\n");
    assert!(fails(1, &["readcache-trace", &writes, "--policy", "lru"]).contains("no read in it"));
    let error = fails(1, &["readcache-trace", "/nowhere", "--policy", "lru"]);
    assert!(error.contains("/nowhere"), "{error}");
}

#[test]
fn real_traces_gain_and_a_generated_one_too() {
    assert!(top().join("docs/readcache.md").exists());
    for (name, format, blocks) in [
        ("OLTP.lis.zst", "auto", "1024,4096"),
        ("P3.lis.zst", "auto", "4096,32768"),
        ("cloudPhysicsIO.vscsi.gz", "auto", "1024,8192"),
        ("ajw.1week.srt.gz", "auto", "1024,4096"),
    ] {
        let Some(path) = trace(name) else { continue };
        let path = path.to_str().expect("text").to_string();
        let words = format!(
            "--policy lru,vdf-lru,lfu,vdf-lfu --trace-format {format} --disks 5,8 --failed all \
             --blocks {blocks}"
        );
        for row in rows(&path, &words).iter().filter(|row| row["failed"] == "mean") {
            let figure = |key: &str| row.get(key).and_then(Value::as_f64);
            let Some(reduction) = figure("reduction_percent") else { continue };
            println!(
                "{name} {} {} {}: {reduction:.2} %",
                row["policy"], row["disks"], row["blocks"]
            );
            assert!(reduction > -5.0 && reduction < 60.0, "{name}: {row}");
        }
    }
}

/// Replays by one policy in one case each: such a row has a hash of all hits and victims.
fn single_replays(folder: &TempDir, path: &str, cases: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for policy in ["lru", "slru", "2q", "w-tinylfu", "vdf-lru", "opt", "bound"] {
        for case in cases {
            let text = replay(path, &format!("--policy {policy} {case} --format csv"));
            found.push(file(folder, &format!("{}.csv", found.len()), &text));
        }
    }
    found
}

/// Has the Python script replay the trace for each row of these files.
fn python(path: &str, found: &[String]) -> Output {
    let mut words = vec![path];
    words.extend(found.iter().map(String::as_str));
    analysis_script("caches.py", &words)
}

#[test]
fn python_caches_keep_the_same_blocks_of_real_traces() {
    let cases = ["--blocks 7 --failed 3", "--blocks 2% --failed none --disks 8", "--blocks 20%"];
    let folder = TempDir::new().expect("a folder");
    for name in ["ssdsim_example_fin1_first10k.ascii", "ajw.1week.srt.gz", "OLTP.lis.zst"] {
        let Some(path) = trace(name) else { continue };
        let mut path = path.to_str().expect("text").to_string();
        if name.starts_with("OLTP") {
            path = beginning(&folder, &path, 20_000);
        }
        let found = single_replays(&folder, &path, &cases);
        print!("{name}: {}", no_difference(&python(&path, &found)));
    }
}

/// The first requests of a trace that is too long for Python, as our CSV.
fn beginning(folder: &TempDir, trace: &str, requests: usize) -> String {
    let copy = file(folder, "copy.csv", "");
    succeeds(&["trace", "convert", trace, &copy, "--force"]);
    let text = std::fs::read_to_string(&copy).expect("read");
    let lines: Vec<&str> = text.lines().take(1 + requests).collect();
    file(folder, "beginning.csv", &(lines.join("\n") + "\n"))
}

/// Requests of a generated load, as our CSV.
fn generated(folder: &TempDir) -> String {
    let path = folder.path().join("load.csv").to_str().expect("text").to_string();
    let load = ["--workload", "zipf:iops=2000,writes=0.2,span=1000", "--requests", "5000"];
    succeeds(&[&["trace", "generate", &path], &load[..]].concat());
    path
}

/// The table with another value in a column of its only row.
fn altered(table: &str, column: &str) -> String {
    let (header, row) = table.trim_end().split_once('\n').expect("a row");
    let at = header.trim_end().split(',').position(|name| name == column).expect("a column");
    let mut cells: Vec<String> = row.split(',').map(String::from).collect();
    cells[at] = if column == "hash" {
        let hash = u64::from_str_radix(&cells[at], 16).expect("a hash");
        format!("{:016x}", hash ^ 1)
    } else {
        (cells[at].parse::<f64>().expect("a number") * 1.000_01).to_string()
    };
    format!("{header}\n{}\n", cells.join(","))
}

#[test]
fn python_caches_keep_the_same_blocks_of_a_generated_trace() {
    let folder = TempDir::new().expect("a folder");
    let path = generated(&folder);
    let sizes = ["1", "2", "3", "4", "9", "50", "100%"];
    let cases = sizes.map(|size| format!("--blocks {size} --disks 6 --failed 2"));
    let found = single_replays(&folder, &path, &cases.each_ref().map(String::as_str));
    print!("{}", no_difference(&python(&path, &found)));
}

#[test]
fn python_finds_a_wrong_figure() {
    let folder = TempDir::new().expect("a folder");
    let path = generated(&folder);
    let found = single_replays(&folder, &path, &["--blocks 50 --failed 2"]);
    no_difference(&python(&path, &found));
    // The first is of lru, the last but one of opt, and the last of bound.
    for (at, column) in [
        (0, "requests"),
        (0, "hit_ratio"),
        (0, "rgr"),
        (0, "rgr_warm"),
        (0, "ceiling_percent"),
        (0, "hash"),
        (found.len() - 2, "hit_ratio"),
        (found.len() - 1, "rgr"),
    ] {
        let table = std::fs::read_to_string(&found[at]).expect("read");
        let wrong = file(&folder, "wrong.csv", &altered(&table, column));
        let said = difference(&python(&path, &[wrong]));
        assert!(said.contains("; 1 differences"), "{column}: {said}");
    }
    // A trace with one more request.
    let text = std::fs::read_to_string(&path).expect("read");
    let last = text.lines().last().expect("a request");
    let time = last.split(',').next().expect("a time");
    let other = file(&folder, "other.csv", &format!("{text}{time},0,0,4096,R\n"));
    let said = difference(&python(&other, &found));
    assert!(said.contains("requests: the program says"), "{said}");
}
