//! Every policy of the table against a second implementation, written from the semantics alone: the
//! same traces must give the same output.

#[path = "reference/model.rs"]
mod model;
#[path = "reference/traces.rs"]
mod traces;

use destage_engine::policy;
use destage_engine::policytrace::{self, LineError, TraceConfig};
use model::{Config, Coverage, Policy};
use traces::Rng;

const PAIRS: u64 = 300;

/// Every policy of the table, with its defaults and with others of its parameters.
fn policies(rng: &mut Rng) -> Vec<Policy> {
    policy::POLICIES.iter().flat_map(|policy| Policy::variants(policy.entry.name, rng)).collect()
}

fn engine(text: &str, config: &Config, policy: Policy) -> Result<String, LineError> {
    let config = TraceConfig {
        policy: policy::choose(&policy.name()).expect("a policy"),
        pages: config.pages,
        group_pages: config.group_pages,
        disks: config.disks,
        queue_depth: config.queue_depth,
        high: config.high,
        low: config.low,
        mirrored: config.mirrored,
        seq_threshold: config.seq_threshold as u32,
    };
    policytrace::replay(text, &config)
}

fn differs(text: &str, config: &Config, policy: Policy) -> bool {
    let wanted = model::replay(text, config, policy).map(|(out, _)| out).ok();
    engine(text, config, policy).ok() != wanted
}

/// A shorter trace on which the two still differ.
fn shrink(text: &str, config: &Config, policy: Policy) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut step = lines.len().div_ceil(2);
    loop {
        let mut at = 0;
        while at < lines.len() {
            let mut fewer = lines.clone();
            fewer.drain(at..(at + step).min(lines.len()));
            if differs(&fewer.join("\n"), config, policy) {
                lines = fewer;
            } else {
                at += step;
            }
        }
        if step == 1 {
            return lines.join("\n");
        }
        step = step.div_ceil(2);
    }
}

fn check(text: &str, config: &Config, policy: Policy, total: &mut Coverage) {
    let (wanted, met) = model::replay(text, config, policy).expect("a good trace");
    add(total, &met);
    let got = engine(text, config, policy).expect("a good trace");
    if got != wanted {
        let short = shrink(text, config, policy);
        let wanted = model::replay(&short, config, policy).map(|(out, _)| out);
        let got = engine(&short, config, policy);
        panic!(
            "{} differs under {config:?} on\n{short}\n-- reference {}\n-- engine {}",
            policy.name(),
            wanted.unwrap_or_else(|line| format!("error in line {line}")),
            got.unwrap_or_else(|error| error.to_string()),
        );
    }
}

fn add(total: &mut Coverage, met: &Coverage) {
    total.empty_picks += met.empty_picks;
    total.forced += met.forced;
    total.skips += met.skips;
    total.table_full += met.table_full;
    total.decisions += met.decisions;
    total.to_seq += met.to_seq;
    total.by_growth += met.by_growth;
    total.fallbacks += met.fallbacks;
    total.decrements += met.decrements;
    total.decrements_held += met.decrements_held;
    total.decrements_to_zero += met.decrements_to_zero;
    total.increments += met.increments;
    total.long_stretches += met.long_stretches;
    total.share_held += met.share_held;
    total.spared += met.spared;
    total.spared_when_it_pays += met.spared_when_it_pays;
    total.not_spared += met.not_spared;
    total.joined += met.joined;
    total.merged += met.merged;
}

#[test]
fn every_policy_gives_the_reference_output() {
    let mut total = Coverage::default();
    for seed in 0..PAIRS {
        let mut rng = Rng(seed.wrapping_mul(0x5851_F42D_4C95_7F2D));
        let config = traces::config(&mut rng);
        let lines = rng.of(&[20, 100, 200, 400]);
        let text = traces::trace(&mut rng, &config, lines);
        for policy in policies(&mut rng) {
            check(&text, &config, policy, &mut total);
        }
    }
    println!("{total:?}");
    let rare = [
        total.empty_picks,
        total.forced,
        total.skips,
        total.to_seq,
        total.decisions - total.to_seq,
        total.by_growth,
        total.fallbacks,
        total.decrements,
        total.decrements_held,
        total.decrements_to_zero,
        total.increments,
        total.long_stretches,
        total.share_held,
        total.spared,
        total.joined,
        total.merged,
    ];
    assert!(rare.iter().all(|&n| n >= 100), "the traces reach every rule: {total:?}");
}

#[test]
fn sparse_groups_wait_while_that_makes_them_grow() {
    let mut total = Coverage::default();
    for seed in 0..8 {
        let mut rng = Rng(seed);
        let config = Config { pages: 300, group_pages: 16, mirrored: false, ..plain() };
        // Pages of few groups, or of many.
        let pages = if seed % 2 == 0 { 2000 } else { 1 << 30 };
        let mut text = String::new();
        for _ in 0..8000 {
            let (page, len) = (rng.below(pages), rng.of(&[1, 1, 1, 8]));
            text.push_str(&format!("W {page} {len}\n"));
        }
        check(&text, &config, Policy::Ebb { sparse: true }, &mut total);
    }
    println!("{total:?}");
    assert!(total.spared_when_it_pays >= 1000 && total.not_spared >= 1000, "{total:?}");
}

#[test]
fn a_full_detector_table_forgets_the_oldest() {
    let mut total = Coverage::default();
    let mut rng = Rng(7);
    let text = traces::many_streams(&mut rng);
    let config = Config { pages: 500, ..plain() };
    for policy in [Policy::Wow { initial: 0, frequency: 1 }, Policy::Stow { hysteresis: 128 }] {
        check(&text, &config, policy, &mut total);
    }
    assert!(total.table_full > 1000);
}

/// The command line's defaults with a small NVS.
fn plain() -> Config {
    Config {
        pages: 100,
        group_pages: 64,
        disks: 5,
        queue_depth: 20,
        high: 9000,
        low: 8000,
        mirrored: false,
        seq_threshold: 16,
    }
}

#[test]
fn a_small_trace_worked_by_hand() {
    let text = "D\nW 63 2\n\nW 63 1\n# full\nW 200 99\nD\nD\nD\n";
    let wanted = "D -\nW 0 0 2\nW 1 1 0\nD 0 1 8000000000000000\nW 0 0 99\n";
    let (out, _) = model::replay(text, &plain(), Policy::Cscan).unwrap();
    assert!(out.starts_with(wanted), "{out}");
    assert_eq!(engine(text, &plain(), Policy::Cscan), Ok(out));
    let (empty, _) = model::replay("", &plain(), Policy::Lrw).unwrap();
    assert_eq!(empty, "H cbf29ce484222325\n");
    assert_eq!(engine("", &plain(), Policy::Lrw), Ok(empty));
}

#[test]
fn a_line_that_is_no_event_is_named() {
    let bad = [
        "W 5 0",
        "W 5 101",
        "W 5 18446744073709551616",
        "W 18446744073709551616 1",
        "W 5 4294967296",
        "W 5 4294967297",
        "W -5 1",
        "W 5 -1",
        "W 5 1 1",
        "W 5 1 # no comment here",
        "W 5 x",
        "W 0x5 1",
        "W 5.0 1",
        "W 5",
        "W",
        "W51",
        "D 1",
        "D D",
        "w 5 1",
        "d",
        "R 5 1",
        "hello",
        "// W 5 1",
    ];
    for line in bad {
        for before in ["", "W 1 100\n", "\n# comment\nD\n"] {
            let text = format!("{before}{line}\nW 7 1\nD\nnor this\n");
            let number = before.lines().count() + 1;
            assert_eq!(model::replay(&text, &plain(), Policy::Lrw).err(), Some(number), "{text}");
            let error = engine(&text, &plain(), Policy::Lrw).expect_err(line);
            assert_eq!(error.line, number, "{text}");
            assert!(error.to_string().contains(&number.to_string()), "{error}");
        }
    }
}
