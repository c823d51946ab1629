//! The log under crashes: after each write to the device, any subset of the unflushed sectors in
//! any order; recovery must give what docs/durability.md promises (D1, D3, D6 to D10).

#[path = "crash/device.rs"]
mod device;
#[path = "crash/driver.rs"]
mod driver;

use destage_engine::units::Page;
use destage_nvslog::commit::Kind;
use destage_nvslog::record::{Pages, Record, RecordError};
use destage_nvslog::space::Purpose;
use driver::{Batch, Defect, Driver, RING, recover};
use std::collections::BTreeSet;

struct Tally {
    crashes: u64,
    laps: u64,
    moved: u64,
    reopened: u64,
    types: BTreeSet<u8>,
}

fn history(seed: u64, copies: usize, defect: Defect, steps: u32) -> Result<Tally, String> {
    let mut driver = Driver::new(seed, 256, copies, defect);
    for step in 0..steps {
        driver.step().map_err(|error| format!("seed {seed}, step {step}: {error}"))?;
    }
    let Driver { crashes, laps, moved, reopened, types, .. } = driver;
    Ok(Tally { crashes, laps, moved, reopened, types })
}

fn histories(seeds: std::ops::Range<u64>, copies: usize) -> Tally {
    let types = BTreeSet::new();
    let mut all = Tally { crashes: 0, laps: 0, moved: 0, reopened: 0, types };
    for seed in seeds {
        let one =
            history(seed, copies, Defect::None, 120).unwrap_or_else(|error| panic!("{error}"));
        all.crashes += one.crashes;
        all.laps += one.laps;
        all.moved += one.moved;
        all.reopened += one.reopened;
        all.types.extend(one.types);
    }
    println!(
        "{} crashes, {} laps, {} records moved, {} epochs",
        all.crashes, all.laps, all.moved, all.reopened
    );
    all
}

/// The types of records that a program knows, whatever else they lack.
fn known_types() -> BTreeSet<u8> {
    let known = |kind: &u8, bytes: usize| {
        let mut record = vec![0; bytes];
        (record[0], record[2]) = (*kind, bytes as u8);
        Record::decode(&record) != Err(RecordError::Unknown)
    };
    (0..=u8::MAX).filter(|kind| (24..=80).step_by(8).any(|bytes| known(kind, bytes))).collect()
}

#[test]
fn random_histories_on_one_device() {
    let all = histories(0..170, 1);
    assert!(all.crashes >= 20_000, "{}", all.crashes);
    assert!(all.laps > 100 && all.moved > 300 && all.reopened > 300);
    assert_eq!(all.types, known_types(), "write every record in `Driver::step`");
}

#[test]
fn random_histories_on_two_devices() {
    let all = histories(1000..1020, 2);
    assert!(all.crashes >= 5_000 && all.reopened > 30);
}

#[test]
#[ignore = "a longer search: minutes"]
fn many_random_histories() {
    histories(20_000..20_600, 2);
    histories(10_000..13_000, 1);
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

/// Small histories with every subset of the unflushed sectors after every write.
#[test]
fn exhaustive_small_histories() {
    let mut crashes = 0;
    for seed in 0..55 {
        let mut driver = Driver::new(seed, 64, 1, Defect::None);
        driver.exhaustive = true;
        for step in 0..30 {
            let page = driver.random.below(driver::PAGES);
            let unit = driver.random.below(56) as usize;
            let mut batch = Batch::default();
            let below = if driver.is_full() { 2 } else { 8 };
            let done = match driver.random.below(below) {
                0 => driver.intend(page & !1),
                1 => driver.release(0),
                2 => {
                    driver.zero_or_trim(
                        &mut batch,
                        Pages::new(Page(page), 1),
                        unit.is_multiple_of(2),
                    );
                    driver.host(batch)
                }
                _ => {
                    driver.write(&mut batch, page, unit, 1 + unit % 8);
                    driver.host(batch)
                }
            };
            let room = driver.devices[0].cached.len() <= 4 && driver.random.below(4) > 0;
            let done = done.and_then(|()| if room { Ok(()) } else { driver.flush() });
            done.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
        }
        crashes += driver.crashes;
    }
    println!("{crashes} crashes");
    assert!(crashes > 20_000);
}

/// D9: no flipped bit is accepted, or loses a commit that was confirmed.
#[test]
fn flipped_bits_are_detected() {
    let (mut detected, mut harmless) = (0, 0);
    for seed in 0..30 {
        let mut driver = Driver::new(seed, 256, 1, Defect::None);
        for _ in 0..40 {
            driver.step().expect("a history");
        }
        driver.flush().expect("durable");
        let to = Purpose::Housekeeping;
        assert_eq!(driver.append(Kind::Plain, Batch::default(), to), Ok(true), "it confirms");
        driver.flush().expect("durable");
        let whole = driver.devices[0].durable.clone();
        let expected = recover(std::slice::from_ref(&whole), 256).expect("undamaged");
        let last = expected.space.next_sequence() - 1;
        for _ in 0..60 {
            let mut image = whole.clone();
            let bit = driver.random.below(image.len() as u64 * 8) as usize;
            image[bit / 8] ^= 1 << (bit % 8);
            match recover(&[image], 256) {
                Err(error) => {
                    detected += 1;
                    assert!(bit / 8 >= RING, "an anchor has a second copy: {error}");
                }
                Ok(recovered) => {
                    harmless += 1;
                    assert!(recovered.space.next_sequence() >= last, "only the empty commit");
                    assert_eq!(recovered.contents, expected.contents, "seed {seed}, bit {bit}");
                }
            }
        }
    }
    println!("{detected} detected, {harmless} where nothing is held");
    assert!(detected > 200);
}

/// Damage on one of two devices is repaired from the other, payload by payload.
#[test]
fn a_second_device_makes_up_for_damage() {
    let mut repaired = 0;
    for seed in 0..30 {
        let mut driver = Driver::new(seed, 256, 2, Defect::None);
        for _ in 0..40 {
            driver.step().expect("a history");
        }
        driver.flush().expect("durable");
        let images: Vec<Vec<u8>> = driver.devices.iter().map(|d| d.durable.clone()).collect();
        for _ in 0..10 {
            let block = driver.random.below(256) as usize;
            let mut damaged = images.clone();
            for (copy, block) in [(0, block), (1, (block + 128) % 256)] {
                damaged[copy][RING + block * 512 + driver.random.below(512) as usize] ^= 4;
            }
            let recovered = driver.check(&damaged).expect("one whole copy of each commit");
            repaired += recovered.repairs.len();
        }
    }
    assert!(repaired > 100, "{repaired}");
}
