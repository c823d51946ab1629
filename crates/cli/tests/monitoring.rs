//! Monitoring of a served array: metrics, health, changes, what-if, recordings, alarms, the log.

mod common;

use common::array::{Array, status};
use common::http::{address, ask, get, post, token, until};
use common::{fails, succeeds, top};
use destage_client::Client;
use destage_nbd::Mode;
use destage_nbd::request::Command as Request;
use destage_server::array::control::{Record, ask as control};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

fn served(more: &[&str]) -> (Array, String) {
    let mut array = Array::create(&["nvs"]);
    array.serve(&[&["--http", "127.0.0.1:0"], more].concat());
    let address = address(&array);
    (array, address)
}

/// Samples by name and labels; asserts that the form is right.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut found, mut families) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("help");
            assert!(help.ends_with('.') && families.insert(name, "").is_none(), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(families.insert(name, kind), Some(""), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            let name = series.split('{').next().expect("a name");
            let parts = ["_bucket", "_sum", "_count"];
            let base = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
            let kind = families.get(name).or_else(|| families.get(base)).expect("a family");
            assert!(!kind.is_empty(), "{line}");
            let value: f64 = value.parse().expect("a number");
            assert!(found.insert(series.to_string(), value).is_none(), "twice: {series}");
        }
    }
    found
}

fn promtool(text: &str) {
    let tool = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn();
    let Ok(mut tool) = tool else {
        println!("SKIPPED: promtool is not installed (Debian: prometheus)");
        return;
    };
    let mut input = tool.stdin.take().expect("piped");
    input.write_all(text.as_bytes()).expect("written");
    drop(input);
    assert!(tool.wait().expect("ended").success(), "promtool check metrics");
}

#[test]
fn metrics_are_as_prometheus_and_the_dashboard_take_them() {
    let (array, address) = served(&["--what-if"]);
    assert_eq!(get(&address, "/healthz"), (200, "ok\n".to_string()));
    until(10, "readiness", || (get(&address, "/readyz").0 == 200).then_some(()));
    let uri = array.uri();
    succeeds(&["bench", &uri, "--rw", "randrw", "--time", "2s", "--depth", "8"]);
    let now = status(&array);
    let written = now["writes"]["requests"].as_f64().expect("writes");
    let count = "destage_host_request_duration_seconds_count{array=\"tank\",op=\"write\"}";
    let (code, text) = until(10, "the last second", || {
        let (code, text) = get(&address, "/metrics");
        (samples(&text).get(count) == Some(&written)).then_some((code, text))
    });
    assert_eq!(code, 200);
    promtool(&text);
    let found = samples(&text);
    let bytes = found["destage_host_written_bytes_total{array=\"tank\"}"];
    assert_eq!(bytes, written * 4096.0);
    let nvs = found.iter().find(|(series, _)| {
        series.starts_with("destage_device_written_bytes_total") && series.contains("\"nvs\"")
    });
    let nvs = *nvs.expect("an NVS device").1;
    assert!(nvs > bytes, "the log has more than the pages: {nvs} of {bytes}");
    let wear = found["destage_nvs_write_amplification_ratio{array=\"tank\"}"];
    assert!((wear - nvs / bytes).abs() < 1e-9, "{wear}");
    // Buckets grow to the count.
    let bucket = |le: &str| {
        let labels = format!("array=\"tank\",op=\"write\",le=\"{le}\"");
        found[&format!("destage_host_request_duration_seconds_bucket{{{labels}}}")]
    };
    assert!(bucket("0.000008192") <= bucket("0.001048576") && bucket("+Inf") == written);
    assert!(bucket("8.589934592") == written, "no write took that long");
    dashboard_knows(&found);
}

/// A page is destaged twice: the second time nothing is read, and that is shown.
#[test]
fn the_stripe_memory_is_in_status_and_metrics() {
    let mut array = Array::empty();
    let (disks, nvs) = (array.files("d", 3, "32M"), format!("{},size=8M", array.path("nvs")));
    array.create_over("tank", &disks, &["--nvs", &nvs, "--stripe-memory", "1M"]);
    array.serve(&["--http", "127.0.0.1:0"]);
    let address = address(&array);
    let uri = array.uri().parse().expect("a URI");
    let mut client = Client::connect(&uri, Mode::Structured).expect("connects");
    for _ in 0..2 {
        let (offset, length) = (100 * 4096, 4096);
        client.call(Request::Write { offset, length, fua: false }, &[7; 4096]).expect("WRITE");
        array.asks(&["flush", "tank"]);
    }
    let memory = &status(&array)["stripe_memory"];
    assert_eq!((&memory["pages"], &memory["held_pages"]), (&256.into(), &2.into()), "{memory}");
    assert_eq!(memory["recalled_pages"], 2, "old data and parity");
    let text = array.asks(&["status", "tank"]);
    assert!(text.contains("2 of 256 pages, 2 pages not read for destages"), "{text}");
    let recalled = "destage_stripe_memory_recalled_pages_total{array=\"tank\"}";
    let found = until(10, "the metric", || {
        let found = samples(&get(&address, "/metrics").1);
        (found.get(recalled) == Some(&2.0)).then_some(found)
    });
    let bytes =
        |name: &str| found[&format!("destage_stripe_memory_{name}_bytes{{array=\"tank\"}}")];
    assert_eq!((bytes("capacity"), bytes("held")), (1048576.0, 8192.0));
}

/// What the rate leaves is destaged when no host has read for a while, and that is shown.
#[test]
fn destages_in_idle_time_are_in_status_and_metrics() {
    let mut array = Array::empty();
    let (disks, nvs) = (array.files("d", 3, "32M"), format!("{},size=8M", array.path("nvs")));
    array.create_over("tank", &disks, &["--nvs", &nvs, "--rate", "linear:90/80,idle=0"]);
    array.serve(&["--http", "127.0.0.1:0"]);
    let address = address(&array);
    let uri = array.uri().parse().expect("a URI");
    let mut client = Client::connect(&uri, Mode::Structured).expect("connects");
    let (offset, length) = (100 * 4096, 4096);
    client.call(Request::Write { offset, length, fua: false }, &[7; 4096]).expect("WRITE");
    let found = until(10, "a destage in idle time", || {
        let status = status(&array);
        (status["dirty_pages"] == 0 && status["idle_destages"] == 1).then_some(status)
    });
    assert_eq!(found["idle_delayed_reads"], 0, "nobody read");
    let text = array.asks(&["status", "tank"]);
    assert!(text.contains("1 groups, 0 reads of members delayed"), "{text}");
    until(10, "the metrics", || {
        let found = samples(&get(&address, "/metrics").1);
        let of = |name: &str| found.get(&format!("destage_idle_{name}_total{{array=\"tank\"}}"));
        (of("destages") == Some(&1.0) && of("delayed_reads") == Some(&0.0)).then_some(())
    });
}

/// Every metric that the Grafana dashboard asks for is there.
fn dashboard_knows(found: &BTreeMap<String, f64>) {
    let names: BTreeSet<&str> =
        found.keys().map(|series| series.split('{').next().expect("a name")).collect();
    let path = top().join("packaging/grafana-dashboard.json");
    let text = std::fs::read_to_string(path).expect("the dashboard");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let panels = json["panels"].as_array().expect("panels");
    let mut asked = 0;
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets")) {
        let expression = target["expr"].as_str().expect("an expression");
        let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        for name in expression.split(word).filter(|word| word.starts_with("destage_")) {
            asked += 1;
            // None has waited for its desired size in so short a time.
            let known = names.contains(name) || name == "destage_queue_desired_bytes";
            assert!(known, "{name} is not a metric");
        }
    }
    assert!(panels.len() > 10 && asked > 20);
}

#[test]
fn hostile_and_foreign_requests_are_refused() {
    let (array, address) = served(&[]);
    let token = token(&array);
    let with_host = |host: &str| {
        ask(&address, &format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).0
    };
    assert_eq!((with_host("evil.example"), with_host("localhost")), (421, 200));
    let body = "{\"policy\":\"wow\"}";
    for (expected, token, more, body) in [
        (401, "0000000000000000", "", body),
        (403, token.as_str(), "origin: http://evil.example\r\n", body),
        (403, &token, "sec-fetch-site: cross-site\r\n", body),
        (400, &token, "", "[1]"),
        (409, &token, "", "{\"policy\":\"nonsense\"}"),
        (413, &token, "", &"x".repeat(40_000)),
    ] {
        let (code, text) = post(&address, "set", token, more, body);
        assert_eq!(code, expected, "{text}");
        assert_eq!(status(&array)["policy"], "stow");
    }
    // What ends the server, and what writes files, cannot be asked here.
    for command in ["stop", "record", "../set", ""] {
        assert_eq!(post(&address, command, &token, "", "{}").0, 404, "{command}");
    }
    // The command is the path's, whatever the body says.
    let (code, _) = post(&address, "set", &token, "", "{\"command\":\"stop\",\"rate\":\"fixed\"}");
    assert_eq!(code, 400);
    let own = format!("origin: http://{address}\r\n");
    assert_eq!(post(&address, "set", &token, &own, body), (200, "{\"ok\":true}\n".to_string()));
    assert_eq!(status(&array)["policy"], "wow");
    assert_eq!(get(&address, "/../tank.token").0, 404);
    assert_eq!(get(&address, &format!("/{}", "x".repeat(20_000))).0, 431);
    let deleted = format!("DELETE / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    assert_eq!(ask(&address, &deleted).0, 405);
    assert_eq!(ask(&address, "nonsense\r\n\r\n").0, 400);
    // Connections that say nothing do not keep others out for long.
    let idle: Vec<TcpStream> =
        (0..64).map(|_| TcpStream::connect(&address).expect("connected")).collect();
    until(20, "a place", || {
        let mut stream = TcpStream::connect(&address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).ok()?;
        (&begin == b"HTTP/1.1 200").then_some(())
    });
    drop(idle);
}

#[test]
fn wrong_options_say_what_to_do() {
    let array = Array::create(&["nvs"]);
    let (folder, listen) = (array.path(""), format!("unix:{}", array.path("s")));
    let serve = ["serve", "tank", "--nbd", &listen, "--config-dir", &folder];
    let wrong = |more: &[&str]| {
        let output = common::destage(&[&serve, more].concat());
        let text = String::from_utf8(output.stderr).expect("text");
        (output.status.code(), text.lines().last().unwrap_or_default().to_string())
    };
    let (code, text) = wrong(&["--http", "0.0.0.0:0"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--allow-remote-http"), "{text}");
    let (code, text) = wrong(&["--http", "9090"]);
    assert!(code == Some(2) && text.contains("127.0.0.1:9090"), "{text}");
    std::fs::write(array.path("short"), "abc\n").expect("written");
    let (code, text) = wrong(&["--http", "127.0.0.1:0", "--http-token-file", &array.path("short")]);
    assert!(code == Some(1) && text.contains("at least 16"), "{text}");
    let error =
        fails(1, &["trace", "record", "tank", "--out", &array.path("x"), "--config-dir", &folder]);
    assert!(error.contains("is not being served"), "{error}");
}

#[test]
fn alarms_run_a_command_and_the_log_is_json() {
    let mut array = Array::create(&["nvs"]);
    let out = array.path("alarms");
    let command = format!("echo \"$DESTAGE_ARRAY $DESTAGE_ALARM\" >> {out}");
    array.serve(&["--http", "127.0.0.1:0", "--alarm-command", &command, "--log-format", "json"]);
    let address = address(&array);
    assert_eq!(post(&address, "fail", &token(&array), "", "{\"disk\":\"1\"}").0, 200);
    let alarms = until(20, "the command", || std::fs::read_to_string(&out).ok());
    assert_eq!(alarms, "tank member-failed\n");
    assert_eq!(get(&address, "/readyz"), (200, "degraded\n".to_string()));
    let log = std::fs::read_to_string(array.path("stderr")).expect("a log");
    let lines = log.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<serde_json::Value> = lines.collect();
    let alarm = lines.iter().find(|line| line["fields"]["alarm"] == "member-failed");
    assert_eq!(alarm.expect("the alarm")["level"], "WARN", "{log}");
}

#[test]
fn a_stream_of_events_reports_each_second() {
    let (array, address) = served(&[]);
    let mut stream = TcpStream::connect(&address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    write!(stream, "GET /events HTTP/1.1\r\nhost: {address}\r\n\r\n").expect("sent");
    let mut text = String::new();
    let mut chunk = [0; 4096];
    while text.matches("\ndata: ").count() < 3 {
        let count = stream.read(&mut chunk).expect("an event");
        assert!(count > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&chunk[..count]));
    }
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    let line = text.lines().find(|line| line.starts_with("data: ")).expect("data");
    let sample: serde_json::Value = serde_json::from_str(&line[6..]).expect("JSON");
    assert_eq!(sample["status"]["name"], "tank");
    assert_eq!(sample["thresholds"], serde_json::json!([80.0, 90.0]));
    drop(stream);
    let history = get(&address, "/api/history").1;
    let history: serde_json::Value = serde_json::from_str(&history).expect("JSON");
    assert!(history.as_array().is_some_and(|points| !points.is_empty()), "{history}");
    drop(array);
}

/// Destages by policy of `status --what-if`.
fn what_if(array: &Array) -> serde_json::Value {
    let text = array.asks(&["status", "tank", "--what-if", "--format", "json"]);
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn what_if_agrees_with_the_array_and_with_a_simulation_of_the_recording() {
    let mut array = Array::create(&["nvs"]);
    // As full in the simulation as here, whatever the disks.
    array.edit("linear:90/80", "single:80");
    array.serve(&["--what-if"]);
    let (uri, out, load) =
        (array.uri(), array.path("recorded.dtrc.zst"), array.path("load.dtrc.zst"));
    // Half of the writes on a tenth of the volume. Each is sent, however long a busy machine takes.
    let hot = "hotcold:hot-space=0.1,hot-accesses=0.5,iops=2500";
    let size = ["--disks", "3", "--disk-fraction", "62M", "--requests", "16000"];
    succeeds(&[&["trace", "generate", &load, "--workload", hot], &size[..]].concat());
    let folder = array.path("");
    let record = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["trace", "record", "tank", "--out", &out, "--config-dir", &folder])
        .args(["--requests", "16000", "--time", "10m"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("spawned");
    until(60, "a recording", || {
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("a name").file_name();
        let mut names = std::fs::read_dir(array.folder.path()).expect("a folder").map(name);
        names.any(|name| name.to_string_lossy().contains("recorded")).then_some(())
    });
    succeeds(&["bench", &uri, "--trace", &load, "--depth", "2"]);
    let output = record.wait_with_output().expect("ended");
    let said = String::from_utf8(output.stdout).expect("text");
    let now = status(&array);
    let writes = now["writes"]["requests"].as_u64().expect("writes");
    assert!(said.starts_with(&format!("{writes} requests written")), "{said}");
    let found = until(10, "the last second", || {
        let found = what_if(&array);
        (found["running"]["pages_written"] == now["pages_written"]).then_some(found)
    });
    assert_eq!((&found["dropped"], &found["one_in"]), (&0.into(), &1.into()));
    let running = &found["running"];
    let nvs_pages = now["nvs_pages"].as_f64().expect("a number");
    for row in found["shadows"].as_array().expect("shadows") {
        assert_eq!(row["pages_written"], running["pages_written"], "{found}");
        let policy = row["policy"].as_str().expect("a name");
        let simulated = simulated(&out, policy, found["settings"].as_str().expect("options"));
        println!("{row} and simulated {simulated}");
        agrees(row, (&simulated["groups"], &simulated["mean_distance_pages"]), nvs_pages);
        if policy == now["policy"] {
            println!("the running policy's own {row} and {running}");
            agrees(row, (&running["destages"], &running["mean_distance_pages"]), nvs_pages);
        }
    }
}

fn agrees(
    row: &serde_json::Value,
    (destages, distance): (&serde_json::Value, &serde_json::Value),
    nvs_pages: f64,
) {
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let (ours, theirs) = (number(&row["destages"]), number(destages));
    // A busy machine completes few writes in the time. Then the groups that one of the two holds
    // more than the other at the end are a larger share: up to a tenth of the pages held.
    let most = (theirs / 50.0).max(nvs_pages / 10.0);
    assert!((ours - theirs).abs() <= most, "{row} and {destages}");
    // cscan makes only a few rounds over the volume, and a jump back is much of its distance; so
    // it is for the others in a short run.
    let rounds = row["policy"] == "cscan" || theirs < 6000.0;
    let share = number(&row["mean_distance_pages"]) / number(distance);
    assert!(rounds || (share - 1.0).abs() <= 0.05, "{row} and {distance}");
}

/// What a simulation of the recording destages, on disks that keep up, with these settings.
fn simulated(trace: &str, policy: &str, settings: &str) -> serde_json::Value {
    let pace = "--trace-mode open --trace-speed 0.02 --warmup 0 --format json";
    let words = ["sim", "--trace", trace, "--policy", policy];
    let options: Vec<&str> = settings.split(' ').chain(pace.split(' ')).collect();
    let text = succeeds(&[&words[..], &options].concat());
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    report["destage"].clone()
}

#[test]
fn recordings_are_complete_or_absent_and_bounded() {
    let (array, _) = served(&[]);
    let (folder, uri) = (array.path(""), array.uri());
    // No time at all, as another client of the socket may have it: refused, and nothing is left.
    let out = array.path("never.dtrc").into();
    let no_time = Record { out, seconds: Some(-1.0), requests: 1, one_in: 1 };
    let socket = array.path("tank.control");
    let refused = control(socket.as_ref(), "tank", &no_time, |_| {});
    assert!(refused.expect_err("refused").to_string().contains("seconds"));
    let error = array.refused(&["status", "tank", "--what-if"]);
    assert!(error.contains("--what-if"), "{error}");
    let out = array.path("few.csv.gz");
    let mut record = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["trace", "record", "tank", "--out", &out, "--requests", "500"])
        .args(["--config-dir", &folder])
        .spawn()
        .expect("spawned");
    std::thread::sleep(Duration::from_millis(500));
    let ended = until(40, "a recording", || {
        succeeds(&["bench", &uri, "--rw", "randrw", "--time", "1s", "--depth", "4"]);
        record.try_wait().expect("a child")
    });
    assert!(ended.success());
    let info = succeeds(&["trace", "info", &out, "--format", "json"]);
    assert!(info.contains("\"500\""), "{info}");
    // A recording is not replaced unasked, and a member never.
    let error = array.refused(&["trace", "record", "tank", "--out", &out]);
    assert!(error.contains("already exists") && error.contains("--force"), "{error}");
    let record = ["trace", "record", "tank", "--force", "--config-dir", &folder, "--out"];
    let error = common::fails(2, &[&record[..], &[&array.path("d0")]].concat());
    assert!(error.contains("d0") && error.contains("would destroy it"), "{error}");
    // Interrupted: what came until then is there; a second one at the same time is refused.
    let out = array.path("cut.dtrc");
    let mut record = Command::new(env!("CARGO_BIN_EXE_destage"))
        .args(["trace", "record", "tank", "--out", &out, "--config-dir", &folder])
        .spawn()
        .expect("spawned");
    std::thread::sleep(Duration::from_millis(500));
    let other = array.path("other.dtrc");
    let error = array.refused(&["trace", "record", "tank", "--out", &other]);
    assert!(error.contains("another recording is running"), "{error}");
    succeeds(&["bench", &uri, "--time", "500ms", "--depth", "4"]);
    std::thread::sleep(Duration::from_millis(300));
    record.kill().expect("killed");
    record.wait().expect("gone");
    let path = std::path::Path::new(&out);
    until(10, "the file", || path.exists().then_some(()));
    assert!(!succeeds(&["trace", "info", &out]).contains(" 0  requests"));
    let none = array.path("no/such/folder.dtrc");
    assert!(array.refused(&["trace", "record", "tank", "--out", &none]).contains("folder"));
}
