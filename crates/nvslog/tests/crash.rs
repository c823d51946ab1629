//! The log under crashes: after each write to the device, any subset of the unflushed sectors in
//! any order; recovery must give what docs/durability.md promises (D1, D3, D6 to D10).

#[path = "crash/device.rs"]
mod device;
#[path = "crash/driver.rs"]
mod driver;

use destage_engine::units::Page;
use destage_nvslog::commit::Kind;
use destage_nvslog::crc::crc32c;
use destage_nvslog::record::{Pages, Record, RecordError};
use destage_nvslog::recover::Part;
use destage_nvslog::space::Purpose;
use driver::{Batch, Defect, Driver, RING, part_bytes, recover};
use std::collections::BTreeSet;

/// Few: the log goes round soon.
const RING_BLOCKS: u64 = 64;

const STEPS: u32 = 240;

struct Tally {
    crashes: u64,
    laps: u64,
    moved: u64,
    reopened: u64,
    taken_back: u64,
    slots_reused: u64,
    types: BTreeSet<u8>,
}

fn history(seed: u64, ring_blocks: u64, copies: usize, defect: Defect) -> Result<Tally, String> {
    let mut driver = Driver::new(seed, ring_blocks, copies, defect);
    for step in 0..STEPS {
        driver.step().map_err(|error| format!("seed {seed}, step {step}: {error}"))?;
    }
    let Driver { crashes, laps, moved, reopened, taken_back, slots_reused, types, .. } = driver;
    Ok(Tally { crashes, laps, moved, reopened, taken_back, slots_reused, types })
}

fn histories(seeds: std::ops::Range<u64>, ring_blocks: u64, copies: usize) -> Tally {
    let types = BTreeSet::new();
    let mut all =
        Tally { crashes: 0, laps: 0, moved: 0, reopened: 0, taken_back: 0, slots_reused: 0, types };
    for seed in seeds {
        let one =
            history(seed, ring_blocks, copies, Defect::None).unwrap_or_else(|why| panic!("{why}"));
        all.crashes += one.crashes;
        all.laps += one.laps;
        all.moved += one.moved;
        all.reopened += one.reopened;
        all.taken_back += one.taken_back;
        all.slots_reused += one.slots_reused;
        all.types.extend(one.types);
    }
    println!(
        "{} crashes, {} laps, {} records moved, {} epochs, {} slots written again",
        all.crashes, all.laps, all.moved, all.reopened, all.slots_reused
    );
    all
}

/// The types of records that a program knows, whatever else they lack.
fn known_types() -> BTreeSet<u8> {
    let known = |kind: &u8, bytes: usize| {
        let mut record = vec![0; bytes];
        (record[0], record[1], record[2]) = (*kind, 1, (bytes / 8) as u8);
        !matches!(Record::decode(&record), Err(RecordError::Unknown) | Ok((None, _)))
    };
    (0..=u8::MAX).filter(|kind| (24..=80).step_by(8).any(|bytes| known(kind, bytes))).collect()
}

#[test]
fn random_histories_on_one_device() {
    let all = histories(0..110, RING_BLOCKS, 1);
    assert!(all.crashes >= 20_000, "{}", all.crashes);
    assert!(all.laps > 100 && all.moved > 50 && all.reopened > 300 && all.slots_reused > 5_000);
    assert!(all.taken_back > 100, "{}", all.taken_back);
    assert_eq!(all.types, known_types(), "write every record in `Driver::step`");
}

#[test]
fn random_histories_on_two_devices() {
    let all = histories(1000..1020, RING_BLOCKS, 2);
    assert!(all.crashes >= 5_000 && all.reopened > 30);
}

/// Several commits share a segment: what is live is counted for all of them.
#[test]
fn random_histories_in_segments_of_several_commits() {
    let all = histories(2000..2030, 4 * RING_BLOCKS, 1);
    assert!(all.crashes >= 5_000 && all.reopened > 80, "{} {}", all.crashes, all.reopened);
    assert!(all.taken_back > 30 && all.laps > 5, "{} {}", all.taken_back, all.laps);
}

#[test]
#[ignore = "a longer search: minutes"]
fn many_random_histories() {
    histories(20_000..20_600, RING_BLOCKS, 2);
    histories(10_000..13_000, RING_BLOCKS, 1);
    histories(30_000..31_000, 4 * RING_BLOCKS, 1);
}

#[test]
fn a_wrong_driver_is_caught() {
    for defect in [
        Defect::AcknowledgesEarly,
        Defect::ReusesBeforeAnchor,
        Defect::TailPassesEarly,
        Defect::ForgetsFrozen,
        Defect::KeepsEpoch,
        Defect::ReusesSlotsEarly,
        Defect::ReusesSlotsUnconfirmed,
        Defect::ShiftsSectors,
    ] {
        let caught = (0..300).find_map(|seed| history(seed, RING_BLOCKS, 1, defect).err());
        println!("{defect:?}: {caught:?}");
        assert!(caught.is_some(), "{defect:?} was not caught");
    }
}

/// Small histories with every subset of the unflushed sectors after every write.
#[test]
fn exhaustive_small_histories() {
    let mut crashes = 0;
    for seed in 0..12 {
        let mut driver = Driver::new(seed, 64, 1, Defect::None);
        driver.exhaustive = true;
        for step in 0..30 {
            let page = driver.random.below(driver::PAGES);
            let first = driver.random.below(8) as usize;
            let mut batch = Batch::default();
            let done = match driver.random.below(8) {
                0 => driver.intend(page & !1),
                1 => driver.release(0),
                2 => {
                    driver.zero_or_trim(
                        &mut batch,
                        Pages::new(Page(page), 1),
                        first.is_multiple_of(2),
                    );
                    driver.host(batch)
                }
                _ => {
                    driver.write(&mut batch, page, first, 8 - first);
                    driver.host(batch)
                }
            };
            let room = driver.devices[0].cached.len() <= 3 && driver.random.below(4) > 0;
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
    let (mut detected, mut in_slots, mut harmless) = (0, 0, 0);
    for seed in 0..30 {
        let mut driver = Driver::new(seed, RING_BLOCKS, 1, Defect::None);
        for _ in 0..40 {
            driver.step().expect("a history");
        }
        driver.flush().expect("durable");
        let to = Purpose::Housekeeping;
        assert_eq!(driver.append(Kind::Plain, Batch::default(), to), Ok(true), "it confirms");
        driver.flush().expect("durable");
        let intact = driver.devices[0].durable.clone();
        let expected = recover(std::slice::from_ref(&intact), RING_BLOCKS).expect("undamaged");
        let last = expected.space.next_sequence() - 1;
        for _ in 0..60 {
            let mut image = intact.clone();
            let bit = driver.random.below(image.len() as u64 * 8) as usize;
            image[bit / 8] ^= 1 << (bit % 8);
            match recover(std::slice::from_ref(&image), RING_BLOCKS) {
                Err(error) => {
                    detected += 1;
                    assert!(bit / 8 >= RING, "an anchor has a second copy: {error}");
                }
                Ok(recovered) => {
                    assert!(recovered.space.next_sequence() >= last, "only the empty commit");
                    assert_eq!(recovered.contents, expected.contents, "seed {seed}, bit {bit}");
                    let contents = &recovered.contents;
                    let damaged =
                        contents.pages().chain(contents.frozen_pages()).any(|(_, held)| {
                            held.stored.is_some_and(|stored| {
                                let range = part_bytes(Part::Slot(stored.slot), RING_BLOCKS);
                                assert_eq!(crc32c(&intact[range.clone()]), stored.crc);
                                crc32c(&image[range]) != stored.crc
                            })
                        });
                    *(if damaged { &mut in_slots } else { &mut harmless }) += 1;
                }
            }
        }
    }
    println!("{detected} detected, {in_slots} in slots, {harmless} where nothing is held");
    assert!(detected > 100 && in_slots > 100);
}

/// Damage on one of two devices is repaired from the other, part by part.
#[test]
fn a_second_device_makes_up_for_damage() {
    let mut repaired = 0;
    for seed in 0..30 {
        let mut driver = Driver::new(seed, RING_BLOCKS, 2, Defect::None);
        for _ in 0..40 {
            driver.step().expect("a history");
        }
        driver.flush().expect("durable");
        let images: Vec<Vec<u8>> = driver.devices.iter().map(|d| d.durable.clone()).collect();
        for _ in 0..10 {
            let sectors = (images[0].len() - RING) as u64 / 512;
            let sector = driver.random.below(sectors) as usize;
            let other = (sector + sectors as usize / 2) % sectors as usize;
            let mut damaged = images.clone();
            for (copy, sector) in [(0, sector), (1, other)] {
                damaged[copy][RING + sector * 512 + driver.random.below(512) as usize] ^= 4;
            }
            let recovered = driver.check(&damaged).expect("one intact copy of each part");
            repaired += recovered.repairs.len();
        }
    }
    assert!(repaired > 50, "{repaired}");
}
