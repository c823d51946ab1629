//! No command destroys what it reads, and a recorded trace is replaced only when that is asked for.

mod common;

use common::{fails, succeeds};
use tempfile::TempDir;

/// A trace of our own CSV with this many requests, in a file of this name.
fn trace(folder: &TempDir, name: &str) -> String {
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    for i in 0..50u64 {
        text.push_str(&format!("{},0,{},4096,W\n", i * 1_000_000, i * 8192));
    }
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_string()
}

fn link(folder: &TempDir, to: &str, name: &str, symbolic: bool) -> String {
    let path = folder.path().join(name);
    match symbolic {
        true => std::os::unix::fs::symlink(to, &path).expect("linked"),
        false => std::fs::hard_link(to, &path).expect("linked"),
    }
    path.to_str().expect("text").to_string()
}

#[test]
fn an_output_that_is_the_input_is_refused_by_every_command() {
    let folder = TempDir::new().expect("a folder");
    let input = trace(&folder, "x.csv");
    let before = std::fs::read(&input).expect("read");
    let (hard, soft) =
        (link(&folder, &input, "hard.csv", false), link(&folder, &input, "soft.csv", true));
    let svg = link(&folder, &input, "x.svg", false);
    let parquet = link(&folder, &input, "x.parquet", true);
    let read_trace = ["readcache-trace", &input, "--policy", "lru"];
    for out in [&input, &hard, &soft] {
        for words in [
            vec!["sim", "--trace", &input, "--out", out],
            vec!["compare", "--trace", &input, "--out", out],
            vec!["compare", "--sweep", &format!("trace={input},nowhere.csv"), "--out", out],
            vec!["advise", &input, "--goal", "p99<30ms", "--out", out],
            vec!["trace", "convert", &input, out],
            vec!["trace", "convert", &input, out, "--force"],
            [&read_trace[..], &["--out", out]].concat(),
            vec!["disks", "convert", &input, "--out", out],
        ] {
            let error = fails(2, &words);
            assert!(error.contains(out.as_str()), "{error}");
            assert!(error.contains("reads that file") && error.contains("another"), "{error}");
        }
    }
    fails(2, &["sim", "--trace", &input, "--plot", &svg]);
    fails(2, &["sim", "--trace", &input, "--series", &parquet]);
    fails(2, &["disks", "validate", "cheetah9lp", &input, "--plot", &svg]);
    assert_eq!(std::fs::read(&input).expect("read"), before);
}

#[test]
fn a_spec_and_an_experiment_are_inputs_too() {
    let folder = TempDir::new().expect("a folder");
    let spec = folder.path().join("mine.toml");
    std::fs::copy(common::top().join("specs/disks/stow-ref.toml"), &spec).expect("copied");
    let spec = spec.to_str().expect("text").to_string();
    let (json, svg) =
        (link(&folder, &spec, "spec.json", false), link(&folder, &spec, "spec.svg", true));
    fails(2, &["sim", "--disk", &spec, "--out", &json]);
    fails(2, &["disks", "show", &spec, "--plot", &svg]);
    let socket = format!("unix:{}", folder.path().join("s").display());
    fails(2, &["emulate", &spec, "--size", "1M", "--file", &json, "--nbd", &socket]);
    let experiment = folder.path().join("e.toml");
    std::fs::write(&experiment, "policies = [\"lrw\"]\n").expect("written");
    let experiment = experiment.to_str().expect("text").to_string();
    let out = link(&folder, &experiment, "e.html", false);
    fails(2, &["compare", "--experiment", &experiment, "--out", &out]);
    let original = std::fs::read(common::top().join("specs/disks/stow-ref.toml"));
    assert_eq!(std::fs::read(&spec).expect("read"), original.expect("read"));
}

#[test]
fn a_trace_is_replaced_only_with_force() {
    let folder = TempDir::new().expect("a folder");
    let (recorded, other) = (trace(&folder, "recorded.csv"), trace(&folder, "other.csv"));
    let before = std::fs::read(&recorded).expect("read");
    let generate = ["trace", "generate", &recorded, "--workload", "zipf", "--requests", "10"];
    let convert = ["trace", "convert", &other, &recorded];
    for words in [&generate[..], &convert] {
        let error = fails(1, words);
        assert!(error.contains("recorded.csv: already exists"), "{error}");
        assert!(error.contains("--force"), "{error}");
    }
    assert_eq!(std::fs::read(&recorded).expect("read"), before);
    succeeds(&[&generate[..], &["--force"]].concat());
    assert_ne!(std::fs::read(&recorded).expect("read"), before);
    // An empty file has nothing to lose.
    let empty = folder.path().join("empty.dtrc");
    std::fs::write(&empty, b"").expect("written");
    succeeds(&["trace", "convert", &other, empty.to_str().expect("text")]);
}

#[test]
fn a_report_does_not_replace_a_trace() {
    let folder = TempDir::new().expect("a folder");
    let recorded = trace(&folder, "recorded.csv");
    let error = fails(1, &["sim", "--out", &recorded]);
    assert!(error.contains("recorded.csv: is a trace (csv)"), "{error}");
    // Two outputs of one name are one too few.
    let out = folder.path().join("r.json").display().to_string();
    let error = fails(2, &["sim", "--out", &out, "--out", &out]);
    assert!(error.contains("r.json: two outputs"), "{error}");
}

/// Files of other programs, by name.
fn foreign() -> Vec<(&'static str, Vec<u8>)> {
    let png = |kind: &[u8], next: &[u8]| {
        let begin = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x07\x08\0\0\x04\0";
        [&begin[..], kind, b"\0\0\0\xf5\x28\x0d\x76\0\0\x04\0", next, &[0; 1024]].concat()
    };
    let footer = b"\x15\x02\x19\x2c\x48\x06schema\x15\x02\0\x15\x04\x25\0\x18\x02ts\0\0\0";
    let bytes = (footer.len() as u32).to_le_bytes();
    let notes = "Notes of Monday\n---------------\n\nvariant  mean\n-------  ----\nold        12\n";
    vec![
        ("io.csv", b"ts,kind,lba,len\n0,GET,0,4096\n5,PUT,8,4096\n".to_vec()),
        ("notes.txt", notes.as_bytes().to_vec()),
        ("fio.json", b"{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [ ]\n}\n".to_vec()),
        ("list.json", b"[{\"policy\": \"open\", \"port\": 80}]\n".to_vec()),
        ("schema.json", b"{\"schema\": 1, \"rows\": []}\n".to_vec()),
        ("page.html", b"<!doctype html>\n<html lang=\"en\">\n<head>\n</head>\n</html>\n".to_vec()),
        ("t.parquet", [&b"PAR1\0\0\0\0"[..], footer, &bytes, b"PAR1"].concat()),
        ("cut.parquet", b"PAR1PAR1".to_vec()),
        ("drawing.svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\"></svg>\n".to_vec()),
        ("photo.png", png(&[8, 2], b"IDAT")),
        ("named.png", png(&[8, 6], b"tEXt")),
        ("plain.png", png(&[8, 6], b"IDAT")),
        ("my.json", b"{\"schema\": 1, \"title\": \"my dashboard\", \"rows\": []}\n".to_vec()),
        ("goal.txt", b"Goal: learn cooking\nAnswer: maybe\n".to_vec()),
    ]
}

#[test]
fn a_report_replaces_no_file_of_another_program() {
    let folder = TempDir::new().expect("a folder");
    let input = trace(&folder, "x.csv");
    for (name, content) in foreign() {
        let path = folder.path().join(name);
        std::fs::write(&path, &content).expect("written");
        let out = path.to_str().expect("text");
        let ending = name.rsplit('.').next().expect("an ending");
        let mut commands = match ending {
            "svg" | "png" => vec![
                vec!["sim", "--plot", out],
                vec!["disks", "show", "cheetah9lp", "--plot", out],
                vec!["advise", &input, "--goal", "p99<30ms", "--out", out],
            ],
            _ => vec![vec!["sim", "--out", out], vec!["compare", "--out", out]],
        };
        if ending == "parquet" {
            commands.push(vec!["sim", "--series", out]);
        }
        if ["csv", "json", "txt"].contains(&ending) {
            commands.push(vec!["trace", "analyze", &input, "--out", out]);
            commands.push(vec!["readcache-trace", &input, "--policy", "lru", "--out", out]);
            commands.push(vec!["advise", &input, "--goal", "p99<30ms", "--out", out]);
        }
        for words in commands {
            let error = fails(1, &words);
            let why = "is not a report or plot of destage, and would be lost. Name another output";
            assert!(error.contains(&format!("{name}: {why}")), "{words:?}: {error}");
        }
        assert_eq!(std::fs::read(&path).expect("read"), content, "{name}");
    }
}

#[test]
fn a_folder_of_results_keeps_files_of_other_programs() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_str().expect("text");
    for (name, words) in [
        ("hits.svg", vec!["compare", "--plots", out]),
        ("index.html", vec!["reproduce", "stow:fig3", "--quick", "--out", out]),
        ("index.html", vec!["tournament", "--quick", "--out", out]),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, b"<svg></svg>").expect("written");
        let error = fails(1, &words);
        assert!(error.contains(&format!("{name}: is not a report or plot")), "{words:?}: {error}");
        assert_eq!(std::fs::read(&path).expect("read"), b"<svg></svg>");
    }
}

#[test]
fn every_report_replaces_every_report() {
    let folder = TempDir::new().expect("a folder");
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    for i in 0..300u64 {
        let op = if i % 3 == 0 { "W" } else { "R" };
        text.push_str(&format!("{},0,{},4096,{op}\n", i * 1_000_000, i * 7919 % 100 * 4096));
    }
    let input = folder.path().join("reads.csv");
    std::fs::write(&input, text).expect("written");
    let input = input.to_str().expect("text");
    let path = |ending: &str| folder.path().join(format!("r.{ending}")).display().to_string();
    let [html, json, csv, txt] = ["html", "json", "csv", "txt"].map(path);
    let [parquet, svg, png] = ["parquet", "svg", "png"].map(path);
    let tables = ["--out", &json, "--out", &csv, "--out", &txt];
    let page = [&tables[..], &["--out", &html]].concat();
    let all = [&page[..], &["--out", &parquet]].concat();
    let quick = ["--warmup", "1", "--measure", "2", "--nvs", "1024"];
    let replay = ["readcache-trace", input, "--policy"];
    let advise = ["advise", input, "--policies", "lrw", "--sizes", "256..512", "--goal"];
    let commands: [Vec<&str>; 12] = [
        [&["sim", "--plot", &svg], &quick[..], &all].concat(),
        [&["sim", "--policy", "lrw", "--plot", &png], &quick[..], &all].concat(),
        [&["sim", "--series", &parquet], &quick[..]].concat(),
        [&["compare", "--policies", "lrw"], &quick[..], &all].concat(),
        [&["compare", "--sweep", "iops=100,200", "--title", "A b"], &quick[..], &all].concat(),
        [&advise[..], &["p99<300ms", "--prices", "nvs=1", "--out", &svg], &page].concat(),
        [&advise[..], &["p99<1ms", "--out", &png], &page].concat(),
        [&["trace", "analyze", input], &page[..]].concat(),
        [&replay[..], &["lru", "--disks", "5", "--failed", "0"], &tables].concat(),
        [&replay[..], &["lru,vdf-lru", "--disks", "5,6"], &tables].concat(),
        [&["writecache-trace", input, "--policy", "lrw,bound", "--nvs", "64"], &tables[..]]
            .concat(),
        vec!["disks", "show", "cheetah9lp", "--plot", &svg],
    ];
    for words in &commands {
        succeeds(words);
        succeeds(words);
    }
    // What is empty has nothing to lose.
    std::fs::write(&csv, b"").expect("written");
    succeeds(&commands[0]);
}

#[test]
fn contradictions_are_one_clear_error() {
    let folder = TempDir::new().expect("a folder");
    let trace = trace(&folder, "x.csv");
    let rows = folder.path().join("rows").to_str().expect("text").to_string();
    let trace_and = |words: &[&str]| {
        let words = [&["sim", "--trace", &trace], words].concat();
        fails(2, &words)
    };
    assert!(trace_and(&["--iops", "500"]).contains("--iops is for a generated load"));
    assert!(trace_and(&["--workload", "spc1"]).contains("--workload is for a generated load"));
    assert!(trace_and(&["--trace-mode", "closed", "--trace-speed", "2"]).contains("--trace-speed"));
    assert!(fails(2, &["sim", "--trace-mode", "closed"]).contains("without --trace"));
    let compare = |words: &[&str]| fails(2, &[&["compare"], words].concat());
    let of_trace = |words: &[&str]| compare(&[&["--trace", &trace], words].concat());
    assert!(of_trace(&["--sweep", "iops=1,2"]).contains("--iops is for a generated load"));
    for words in [&["--seeds", "3"][..], &["--ci", "5"], &["--sweep", "seed=1,2"]] {
        assert!(of_trace(words).contains("nothing is random"), "{words:?}");
    }
    let error = compare(&["--policies", "lrw,cscan", "--sweep", "policy=wow,stow"]);
    assert!(error.contains("sweep of policy contradicts policy=lrw"), "{error}");
    assert!(compare(&["--policies", "lrw,lrw"]).contains("compared with itself"));
    assert!(compare(&["--policies", ""]).contains("name one or more policies"));
    assert!(compare(&["--policies", "stow,stow:128"]).contains("are the same"));
    assert!(compare(&["--nvs", "64", "--sweep", "nvs=1,2"]).contains("contradicts the sweep"));
    assert!(compare(&["--sweep", "nvs=32768,128M"]).contains("are the same"));
    assert!(compare(&["--at-ms", "20"]).contains("--sweep iops="));
    for several in [["--seeds", "3"], ["--ci", "5"]] {
        let words = [&["--sweep", "seed=1,2"], &several[..]].concat();
        assert!(compare(&words).contains("a sweep of seed and several seeds"), "{words:?}");
    }
    let again = folder.path().join(".").join("x.csv").to_str().expect("text").to_string();
    assert!(compare(&["--sweep", &format!("trace={trace},{again}")]).contains("are the same"));
    assert!(compare(&["--seeds-max", "9"]).contains("--ci"));
    assert!(compare(&["--plot-format", "png"]).contains("--plots"));
    let sweep = |words: &[&str]| fails(2, &[&["sweep", "--out", &rows], words].concat());
    let twice = ["--grid", "policy=wow", "--grid", "policy=stow"];
    assert!(sweep(&twice).contains("`policy` is swept twice"));
    assert!(sweep(&["--grid", "nvs=1,2", "--nvs", "64"]).contains("contradicts the sweep"));
    assert!(sweep(&["--grid", ""]).contains("--grid takes OPTION=V1"));
    assert!(sweep(&["--grid", "nvs=32768,128M"]).contains("are the same"));
    let replays = ["--trace", &trace, "--grid", "nvs=64,128"];
    assert!(sweep(&[&replays[..], &["--seeds", "2"]].concat()).contains("nothing is random"));
    let advise = |words: &[&str]| fails(2, &[&["advise", "--goal", "p99<1s"], words].concat());
    assert!(advise(&[&trace, "--seeds", "2"]).contains("--seeds is for generated loads"));
    assert!(advise(&["--array", "5:5xstow-ref", "--disks", "4"]).contains("describe the array"));
    let reads = ["readcache-trace", &trace, "--policy", "lru", "--disks", "5"];
    let error = fails(2, &[&reads[..], &["--sweep", "disks=5,6"]].concat());
    assert!(error.contains("`disks` is given twice"), "{error}");
    let error = fails(2, &["track-trace", &trace, "--events", "--format", "json"]);
    assert!(error.contains("--events"), "{error}");
    assert!(!std::path::Path::new(&rows).exists(), "nothing was made");
}
