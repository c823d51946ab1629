//! Depths by scheme and occupancy, as docs/simulator.md gives them.

use super::*;
use alloc::string::ToString;
use alloc::vec::Vec;

fn depth(scheme: &str, occupancy: u64, in_sequence: bool) -> u32 {
    let mut rate = choose(scheme).unwrap().build(1000).unwrap();
    rate.allowed(&RateView {
        occupancy,
        capacity: 1000,
        queue_depth: 20,
        in_sequence: &|| in_sequence,
        now: &Conditions::NONE,
    })
}

#[test]
fn linear_grows_between_its_thresholds() {
    let depths = [0, 800, 801, 805, 806, 850, 899, 900, 1000].map(|o| depth("linear", o, true));
    assert_eq!(depths, [0, 0, 1, 1, 2, 10, 20, 20, 20]);
    assert_eq!(depth("linear:70/40", 550, false), 10);
}

#[test]
fn the_sequential_rule_keeps_four_in_flight_below_low() {
    assert_eq!(depth("linear-sequential", 500, true), 4);
    assert_eq!(depth("linear-sequential", 500, false), 0);
    assert_eq!(depth("linear-sequential", 850, true), 10);
}

#[test]
fn fixed_quick_and_write_behind() {
    assert_eq!(depth("fixed:60", 599, false), 0);
    assert_eq!(depth("fixed:60", 600, false), 20);
    assert_eq!(depth("quick", 0, false), 20);
    assert_eq!(depth("write-behind", 1000, false), 0);
}

#[test]
fn single_and_dual_start_above_and_stop_below() {
    let depths = |scheme: &str, occupancies: &[u64]| -> Vec<u32> {
        let mut rate = choose(scheme).unwrap().build(1000).unwrap();
        let view = |occupancy| RateView {
            occupancy,
            capacity: 1000,
            queue_depth: 1,
            in_sequence: &|| false,
            now: &Conditions::NONE,
        };
        occupancies.iter().map(|o| rate.allowed(&view(*o))).collect()
    };
    assert_eq!(depths("single:90", &[900, 901, 900, 899, 900]), [0, 1, 1, 0, 0]);
    assert_eq!(depths("dual:90/15", &[900, 901, 500, 150, 149, 900]), [0, 1, 1, 1, 0, 0]);
}

#[test]
fn thresholds_are_checked() {
    assert!(choose("linear:80/90").is_err());
    assert!(choose("linear:101/90").is_err());
    assert!(choose("linear:x/90").is_err());
    assert_eq!(choose("linear:70/40").unwrap().build(1).unwrap().thresholds().low, 4000);
}

#[test]
fn adaptive_backs_off_from_full_and_advances_again() {
    let mut rate = choose("adaptive").unwrap().build(1000).unwrap();
    let depth_at = |rate: &mut Box<dyn RateScheme>, occupancy| {
        rate.allowed(&RateView {
            occupancy,
            capacity: 1000,
            queue_depth: 20,
            in_sequence: &|| false,
            now: &Conditions::NONE,
        })
    };
    assert_eq!(depth_at(&mut rate, 850), 10);
    rate.on_occupancy(980);
    for _ in 0..5 {
        rate.on_destaged();
    }
    rate.on_occupancy(899); // Fell below 90 %: high goes down by the 8 % seen above desired.
    assert_eq!(depth_at(&mut rate, 770), 10);
    for _ in 0..4 {
        rate.on_destaged();
    }
    assert_eq!(depth_at(&mut rate, 770), 10);
    rate.on_destaged(); // The fifth: the most seen since was 89.9 %, so high rises by 0.1 %.
    assert_eq!(depth_at(&mut rate, 771), 10);
}

#[test]
fn every_rate_may_use_idle_time() {
    for rate in RATES {
        let build = |idle: &str| {
            let choice = choose(&alloc::format!("{}:{idle}", rate.entry.name))?;
            Ok(choice.build(1000)?.idle_above())
        };
        assert_eq!(build(""), Ok::<_, ChoiceError>(None));
        assert_eq!(build("idle=off"), Ok(None));
        assert_eq!(build("idle=12.5"), Ok(Some(1250)));
        let error = build("idle=yes").unwrap_err().to_string();
        assert!(
            error.ends_with("idle must be off, or a number from 0 to 100, not `yes`"),
            "{error}"
        );
    }
    let with_idle = choose("linear:70/40,idle=10").unwrap().build(1000).unwrap();
    assert_eq!(with_idle.thresholds(), Thresholds { high: 7000, low: 4000 });
}
