//! Response times count from submission to the array; what a request waits at the host before it
//! is reported next to them (docs/simulator.md, "Loads").

mod common;

use common::succeeds;
use serde_json::Value;

fn json(words: &[&str]) -> Value {
    let text = succeeds(&[words, &["--format", "json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

/// WOW at 750 I/O/s, whose NVS is often full.
fn run(bound: u32, policy: &str, seed: u32) -> Value {
    let (load, seed) = (format!("spc1:bound={bound}"), seed.to_string());
    let load = ["sim", "--as", "papers", "--workload", &load, "--iops", "750"];
    let window = ["--nvs", "32768", "--warmup", "300", "--measure", "600"];
    json(&[&load[..], &window, &["--policy", policy, "--seed", &seed]].concat())
}

fn ms(run: &Value, of: &str) -> f64 {
    let figures = if of == "wait" { &run["host_wait"] } else { &run["response"][of] };
    figures["mean_ms"].as_f64().expect("a number")
}

#[test]
fn a_request_that_waits_at_the_host_is_not_in_the_array() {
    for seed in 1..4 {
        let [four, eight, many, all] = [4, 8, 64, 1_000_000].map(|bound| run(bound, "wow", seed));
        // The array holds more requests, so each takes longer.
        let means = [&four, &eight, &many, &all].map(|run| ms(run, "all"));
        assert!(means.windows(2).all(|pair| 1.3 * pair[0] < pair[1]), "{means:?}");
        assert!(means[0] < 60.0 && means[1] < 120.0, "{means:?}");
        // Both together are what a user waits, which the bound hardly changes.
        for run in [&four, &eight, &many] {
            let both = ms(run, "all") + ms(run, "wait");
            assert!((0.8..1.3).contains(&(both / means[3])), "{both} {means:?}");
            let warnings = run["warnings"].to_string();
            assert!(warnings.contains("% of requests waited at the host"), "{warnings}");
        }
        assert_eq!(all["host_wait"]["requests"], 0);
        // Nothing waits where the NVS is not full.
        let quick = run(8, "stow", seed);
        assert_eq!((&quick["host_wait"]["requests"], ms(&quick, "wait")), (&0.into(), 0.0));
        assert_eq!(quick["warnings"], Value::Array(Vec::new()));
    }
}

#[test]
fn the_wait_at_the_host_is_in_every_output() {
    let load = ["--as", "papers", "--workload", "spc1:bound=4", "--iops", "750"];
    let window = ["--nvs", "32768", "--warmup", "300", "--measure", "300"];
    let words = [&["sim", "--policy", "wow"][..], &load, &window].concat();
    let text = succeeds(&words);
    assert!(text.contains("Wait at the host") && text.contains("requests that waited"), "{text}");
    let csv = succeeds(&[&words[..], &["--format", "csv"]].concat());
    assert!(
        csv.contains("host_waits,host_wait_mean_ms,host_wait_p99_ms,host_wait_max_ms"),
        "{csv}"
    );
    let compared = [&["compare", "--policies", "wow,stow"][..], &load, &window].concat();
    let compared = succeeds(&compared);
    assert!(compared.contains("wait at the host"), "{compared}");
}

/// A bound keeps the response time low although the load is not served as it comes.
#[test]
fn a_size_at_which_requests_wait_at_the_host_is_not_recommended() {
    let advice = json(&[
        "advise",
        "--as",
        "papers",
        "--workload",
        "spc1:bound=4",
        "--iops",
        "750",
        "--goal",
        "mean<200ms",
        "--array",
        "5:5xstow-ref",
        "--sizes",
        "16384..32768",
        "--policies",
        "wow",
        "--try-thresholds",
        "90/80",
        "--seeds",
        "1",
    ]);
    assert_eq!(advice["answer"], Value::Null, "{}", advice["answer"]);
    let why = advice["below"]["why"].as_str().expect("a reason");
    assert!(why.contains("of requests waited at the host"), "{why}");
}
