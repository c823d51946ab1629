//! `destage bench` as users run it: generated loads, traces, what it reports and writes.

mod common;

use common::array::Array;
use common::{Emulated, destage, fails, succeeds};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An emulated disk in a folder of its own.
struct Disk {
    server: Emulated,
    folder: tempfile::TempDir,
}

impl Disk {
    fn start(spec: &str, more: &[&str]) -> Disk {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listen = format!("unix:{}", folder.path().join("s").display());
        let server = Emulated::start(&[&[spec, "--nbd", &listen], more].concat());
        Disk { server, folder }
    }

    fn ram() -> Disk {
        Disk::start("ram", &["--size", "64M"])
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.path("s"))
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("text").to_string()
    }
}

fn json(words: &[&str]) -> serde_json::Value {
    let text = succeeds(&[words, &["--format", "json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

fn kind<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let rows = report["kinds"].as_array().expect("rows");
    rows.iter().find(|row| row["kind"] == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// Requests of many sizes, at sectors; times 10 ms apart. Returns (op, offset, length).
fn write_trace(path: &str, requests: u64) -> Vec<(String, u64, u64)> {
    let mut text = String::from("time_ns,device,offset_bytes,length_bytes,op\n");
    let mut asked = Vec::new();
    for number in 0..requests {
        let op = if number % 3 == 0 { "R" } else { "W" };
        let (offset, length) = (number * 7919 % 30_000 * 512, 512 + number % 40 * 1024);
        text.push_str(&format!("{},0,{offset},{length},{op}\n", number * 10_000_000));
        asked.push((if op == "R" { "read" } else { "write" }.to_string(), offset, length));
    }
    std::fs::write(path, text).expect("written");
    asked
}

#[test]
fn every_generator_loads_a_server_and_is_verified() {
    let disk = Disk::ram();
    for spec in [
        "spc1:iops=2000",
        "uniform:iops=3000,writes=0.5,pages=3",
        "uniform:iops=0,threads=4",
        "zipf:iops=2000",
        "hotcold",
        "sequential:streams=3",
        "random",
        "mix:0.7*zipf(theta=0.9)+0.3*sequential(pages=16),iops=2000",
    ] {
        let report = json(&["bench", &disk.uri(), "--workload", spec, "--time", "300ms"]);
        assert!(report["requests"].as_u64() > Some(50), "{spec}: {report}");
        assert_eq!(report["load"]["workload"], spec);
        let words = ["bench", &disk.uri(), "--workload", spec, "--closed", "--verify"];
        let table = succeeds(&[&words[..], &["--time", "200ms", "--depth", "8"]].concat());
        assert!(table.contains("sectors hold what was acknowledged"), "{spec}: {table}");
    }
    // Its rate is kept, and --iops's.
    let of = |more: &[&str]| {
        let words = ["bench", &disk.uri(), "--time", "1s", "--workload"];
        json(&[&words[..], more].concat())["requests"].as_u64().expect("a number")
    };
    let own = of(&["uniform:iops=2000"]);
    assert!((1_500..=2_500).contains(&own), "{own}");
    let given = of(&["uniform:iops=2000", "--iops", "500"]);
    assert!((400..=501).contains(&given), "{given}");
    let limited = of(&["uniform:requests=77"]);
    assert_eq!(limited, 77);
}

#[test]
fn percentiles_and_the_log_replace_no_file_of_another_program() {
    let disk = Disk::ram();
    let (hdr, log) = (disk.path("h.hgrm"), disk.path("acknowledged"));
    let words = ["bench", &disk.uri(), "--rw", "randwrite", "--time", "200ms"];
    let words = [&words[..], &["--hdr", &hdr, "--log", &log]].concat();
    succeeds(&words);
    succeeds(&words);
    for path in [disk.path("h.write.hgrm"), log.clone()] {
        let kept = std::fs::read(&path).expect("written");
        std::fs::write(&path, "a list of mine\n").expect("written");
        let error = fails(1, &words);
        assert!(error.contains(&format!("{path}: is not a report")), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "a list of mine\n");
        std::fs::write(&path, kept).expect("written");
    }
}

#[test]
fn results_have_everything() {
    let disk = Disk::ram();
    let hdr = disk.path("latency.hgrm");
    let words = ["bench", &disk.uri(), "--rw", "randrw", "--iops", "2000", "--arrivals", "poisson"];
    let more = ["--warmup", "300ms", "--time", "900ms", "--interval", "300ms", "--hdr", &hdr];
    let output = destage(&[&words[..], &more, &["--format", "json"]].concat());
    assert!(output.status.success());
    let progress = String::from_utf8(output.stderr).expect("text");
    assert!(
        progress.lines().count() >= 3 && progress.lines().all(|line| line.contains("p99")),
        "{progress}"
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut sum = 0;
    for name in ["read", "write"] {
        let row = kind(&report, name);
        let at = |column: &str| row[column].as_f64().unwrap_or_else(|| panic!("{column}: {row}"));
        let columns = ["p50_us", "p90_us", "p95_us", "p99_us", "p99_9_us", "p99_99_us", "max_us"];
        assert!(columns.windows(2).all(|two| at(two[0]) <= at(two[1])), "{row}");
        assert!(at("mean_us") > 0.0);
        sum += row["requests"].as_u64().expect("a number");
        let file = std::fs::read_to_string(disk.path(&format!("latency.{name}.hgrm")));
        let file = file.expect("written");
        let total = format!("= {:12}]", row["requests"].as_u64().expect("a number"));
        assert!(file.contains("1/(1-Percentile)") && file.contains(&total), "{file}");
        // The lines of the file around 95 % of the requests.
        let values = file.lines().filter_map(|line| {
            let mut cells = line.split_whitespace().map(str::parse::<f64>);
            Some((cells.next()?.ok()?, cells.next()?.ok()?))
        });
        let (below, above): (Vec<_>, Vec<_>) = values.partition(|(_, share)| *share < 0.95);
        let (least, most) = (below.last().expect("a line").0, above.first().expect("a line").0);
        assert!((0.99 * least..=1.01 * most).contains(&at("p95_us")), "{least} {most} {row}");
    }
    assert!(!Path::new(&disk.path("latency.flush.hgrm")).exists());
    assert_eq!(report["requests"], sum);
    assert!((1_400..=2_300).contains(&sum), "{sum} in 900 ms at 2000/s, after 600 of warm-up");
    let intervals = report["intervals"].as_array().expect("intervals");
    let of = |row: &serde_json::Value| row["requests"].as_u64().expect("a number");
    assert!(intervals.len() >= 6 && intervals.iter().map(of).sum::<u64>() == sum, "{report}");
    let late = |name: &str| report["begun_late_us"][name].as_f64().expect("a number");
    assert!(late("p90") <= late("p95") && late("p95") <= late("p99") && late("p99") > 0.0);
    assert_eq!((&report["errors"], &report["first_errno"]), (&0.into(), &().into()));
    let table = succeeds(&[&words[..], &["--time", "300ms"]].concat());
    assert!(table.contains("p95") && table.contains("p99.99"), "{table}");
    assert!(table.contains("not begun"), "{table}");
}

#[test]
fn a_trace_is_replayed_at_its_times_or_as_fast_as_possible() {
    let disk = Disk::ram();
    let trace = disk.path("t.csv");
    write_trace(&trace, 101);
    let words = ["bench", &disk.uri(), "--trace", &trace];
    let timed = |more: &[&str]| {
        let begun = Instant::now();
        let report = json(&[&words[..], more].concat());
        assert_eq!(report["requests"], 101, "{report}");
        begun.elapsed()
    };
    let recorded = timed(&["--verify"]);
    assert!(recorded >= Duration::from_millis(1_000), "{recorded:?}");
    let faster = timed(&["--speed", "4"]);
    assert!((250..990).contains(&faster.as_millis()), "{faster:?}");
    assert!(timed(&["--closed"]) < Duration::from_millis(900));
    let paced = timed(&["--iops", "200"]);
    assert!((500..990).contains(&paced.as_millis()), "{paced:?}");
    // Cut off: what was not due is not missed.
    let report = json(&[&words[..], &["--time", "255ms"]].concat());
    let of = |name: &str| report[name].as_u64().expect("a number");
    assert_eq!(of("requests") + of("not_begun"), 26);
    // What is beyond the export is refused or folded.
    let words = [&words[..], &["--closed", "--size", "8M"]].concat();
    let error = fails(1, &words);
    assert!(error.contains("8388608") && error.contains("--wrap on"), "{error}");
    let report = json(&[&words[..], &["--wrap", "on", "--verify"]].concat());
    assert_eq!(report["requests"], 101);
    // A format without times has no times to keep.
    let blocks = disk.path("t.lis");
    std::fs::write(&blocks, "1 8 0 1\n64 4 0 2\n").expect("written");
    let words = ["bench", &disk.uri(), "--trace", &blocks, "--trace-format", "arc"];
    let error = fails(2, &words);
    assert!(error.contains("--closed"), "{error}");
    assert_eq!(json(&[&words[..], &["--closed"]].concat())["requests"], 2);
}

#[test]
fn a_replayed_trace_is_what_the_array_records() {
    let mut array = Array::create(&["nvs"]);
    array.serve(&["--http", "127.0.0.1:0"]);
    let (trace, recorded, folder) = (array.path("t.csv"), array.path("r.csv"), array.path(""));
    let asked = write_trace(&trace, 200);
    let mut record = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["trace", "record", "tank", "--out", &recorded, "--requests", "200"])
        .args(["--config-dir", &folder])
        .stdout(Stdio::null())
        .spawn()
        .expect("spawned");
    std::thread::sleep(Duration::from_millis(600));
    // One at a time, so that they are recorded in their order.
    let report = json(&["bench", &array.uri(), "--trace", &trace, "--closed", "--depth", "1"]);
    assert_eq!(report["requests"], 200);
    let bytes: u64 = asked.iter().map(|request| request.2).sum();
    assert!(bytes > 200 * 512);
    assert!(record.wait().expect("ended").success());
    let head = succeeds(&["trace", "head", &recorded, "-n", "1000", "--format", "json"]);
    let head: serde_json::Value = serde_json::from_str(&head).expect("JSON");
    let number = |row: &serde_json::Value, name: &str| row[name].as_u64().expect("a number");
    let seen: Vec<(String, u64, u64)> = head
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let op = row["op"].as_str().expect("text").to_string();
            (op, number(row, "offset_bytes"), number(row, "length_bytes"))
        })
        .collect();
    assert_eq!(seen, asked);
}

#[test]
fn an_open_loop_on_a_modelled_disk_reports_its_queue() {
    // One head: some 200 random reads per second, of 1,000 that are due.
    let disk = Disk::start("stow-ref", &["--size", "1G"]);
    let uri = format!("nbd+unix:///stow-ref?socket={}", disk.path("s"));
    let words = ["bench", &uri, "--rw", "randread", "--time", "1s", "--depth", "2"];
    let closed = json(&words);
    let open = json(&[&words[..], &["--iops", "1000"]].concat());
    let p99 = |report: &serde_json::Value| {
        kind(report, "read")["p99_us"].as_f64().expect("a number") / 1_000.0
    };
    assert!(p99(&closed) < 120.0, "{closed}");
    assert!(p99(&open) > 400.0, "{open}");
    assert!(open["begun_late_us"]["p99"].as_f64() > Some(400_000.0), "{open}");
    let (answered, left) = (open["requests"].as_u64(), open["not_begun"].as_u64());
    let due = answered.expect("a number") + left.expect("a number");
    assert_eq!(due, 1_000, "{open}");
}

#[test]
fn what_cannot_be_done_is_reported_in_one_line() {
    let disk = Disk::ram();
    let uri = disk.uri();
    let trace = disk.path("t.csv");
    write_trace(&trace, 10);
    for (words, says) in [
        (&["--workload", "nosuch"][..], "uniform"),
        (&["--workload", "uniform:color=3"], "color"),
        (&["--workload", "uniform:span=999999999"], "span"),
        (&["--workload", "spc1", "--size", "1M"], "4096 pages"),
        (&["--arrivals", "poisson"], "--iops"),
        (&["--interval", "1ms"], "100ms"),
        (&["--warmup", "never"], "--warmup"),
        (&["--trace", &trace, "--speed", "0"], "--speed"),
        (&["--trace", &trace, "--wrap", "maybe"], "--wrap"),
        (&["--trace", &trace, "--warmup", "1h"], "--warmup"),
    ] {
        let error = fails(2, &[&["bench", &uri], words].concat());
        assert!(error.contains(says), "{words:?}: {error}");
    }
    // The parser's own.
    for words in [
        &["--workload", "spc1", "--rw", "read"][..],
        &["--workload", "spc1", "--trace", &trace],
        &["--wrap", "on"],
        &["--trace", &trace, "--speed", "2", "--closed"],
        &["--closed", "--iops", "5"],
    ] {
        assert_eq!(
            destage(&[&["bench", &uri], words].concat()).status.code(),
            Some(2),
            "{words:?}"
        );
    }
    let error = fails(1, &["bench", &uri, "--trace", &disk.path("none")]);
    assert!(error.contains("none"), "{error}");
    let error = fails(1, &["bench", &uri, "--hdr", "/proc/none/x", "--time", "100ms"]);
    assert!(error.contains("/proc/none"), "{error}");
}

#[test]
fn a_server_that_dies_is_reported() {
    let mut disk = Disk::ram();
    let uri = disk.uri();
    let error = std::thread::scope(|scope| {
        let words = ["bench", &uri, "--workload", "uniform:iops=2000", "--time", "20s"];
        let load = scope.spawn(move || fails(1, &words));
        std::thread::sleep(Duration::from_millis(500));
        disk.server.kill();
        load.join().expect("no panic")
    });
    assert!(error.contains("answers") && error.contains(" s of load"), "{error}");
}
