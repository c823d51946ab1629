//! The log under crashes: after each write to the device, any subset of the unflushed sectors in
//! any order; recovery must give what docs/durability.md promises (D1, D3, D6 to D10).

#[path = "crash/device.rs"]
mod device;
#[path = "crash/driver.rs"]
mod driver;

use driver::{Defect, Driver};

struct Tally {
    crashes: u64,
    laps: u64,
    moved: u64,
    reopened: u64,
}

fn history(seed: u64, copies: usize, defect: Defect, steps: u32) -> Result<Tally, String> {
    let mut driver = Driver::new(seed, 256, copies, defect);
    for step in 0..steps {
        driver.step().map_err(|error| format!("seed {seed}, step {step}: {error}"))?;
    }
    let Driver { crashes, laps, moved, reopened, .. } = driver;
    Ok(Tally { crashes, laps, moved, reopened })
}

fn histories(seeds: std::ops::Range<u64>, copies: usize) -> Tally {
    let mut all = Tally { crashes: 0, laps: 0, moved: 0, reopened: 0 };
    for seed in seeds {
        let one = history(seed, copies, Defect::None, 120).unwrap_or_else(|error| panic!("{error}"));
        all.crashes += one.crashes;
        all.laps += one.laps;
        all.moved += one.moved;
        all.reopened += one.reopened;
    }
    println!(
        "{} crashes, {} laps, {} records moved, {} epochs",
        all.crashes, all.laps, all.moved, all.reopened
    );
    all
}

#[test]
fn random_histories_on_one_device() {
    let all = histories(0..120, 1);
    assert!(all.crashes >= 20_000, "{}", all.crashes);
    assert!(all.laps > 200 && all.moved > 200 && all.reopened > 200);
}

#[test]
fn random_histories_on_two_devices() {
    let all = histories(1000..1030, 2);
    assert!(all.crashes >= 5_000 && all.reopened > 50);
}

#[test]
fn a_wrong_driver_is_caught() {
    for defect in [
        Defect::AcknowledgesEarly,
        Defect::ReusesBeforeAnchor,
        Defect::TailPassesEarly,
        Defect::ForgetsFrozen,
        Defect::KeepsEpoch,
    ] {
        let caught = (0..300).find_map(|seed| history(seed, 1, defect, 120).err());
        println!("{defect:?}: {caught:?}");
        assert!(caught.is_some(), "{defect:?} was not caught");
    }
}
