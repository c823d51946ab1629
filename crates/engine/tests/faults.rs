//! Failing disks, rebuild and the read cache, with real bytes: random loads on every level that
//! tolerates a failure, disks that fail, are replaced and fail again at any moment; no read gives
//! anything but what was acknowledged, and in the end the disks alone have it all.

#[path = "faults/driver.rs"]
mod driver;

use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::controller::Config;
use destage_engine::destage::phases::Protocol;
use destage_engine::destage::{Count, DestageConfig, Issue};
use destage_engine::dispatch::Order;
use destage_engine::event::Event;
use destage_engine::limits::Limits;
use destage_engine::policy;
use destage_engine::rate;
use destage_engine::readcache;
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::request::Direction;
use destage_engine::sequential::DetectorKind;
use destage_engine::units::{DiskId, Duration, Page, PageCount};
use driver::Driver;
use proptest::prelude::*;

const LEVELS: [(Level, u16); 6] = [
    (Level::Raid4, 4),
    (Level::Raid5, 4),
    (Level::Raid5, 6),
    (Level::Raid6, 5),
    (Level::Raid6, 6),
    (Level::Raid10, 6),
];

fn config(level: usize, variant: u64) -> Config {
    let (level, disks) = LEVELS[level];
    let group_stripes = if level == Level::Raid10 { 1 } else { 1 + variant % 2 };
    let (strip_pages, disk_pages) = ([2, 4][(variant / 2 % 2) as usize], 48);
    let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
    Config {
        geometry: geometry.checked().expect("a valid geometry"),
        nvs_pages: PageCount(40),
        policy: policy::choose(["lrw", "wow", "stow", "cscan"][(variant % 4) as usize]).unwrap(),
        rate: rate::choose("linear:70/40").unwrap(),
        destage: DestageConfig {
            queue_depth: 1 + (variant % 5) as u32 * 4,
            count: Count::Runs,
            issue: Issue::Group,
            protocol: Protocol::Safe,
            defer: variant.is_multiple_of(3),
            bridge: (variant % 4 != 3).then_some((variant % 4) as u32 * 2),
            stripe_memory: if level.parities() > 0 { variant % 3 * 20 } else { 0 },
        },
        detector: DetectorKind::Pages,
        sequential_threshold: 16,
        window: 1 + (variant % 3) as u32,
        order: if variant.is_multiple_of(2) {
            Order::Arrival
        } else {
            Order::ReadsFirst { bound: 4 }
        },
    }
}

fn cache(variant: u64) -> Option<ReadCacheChoice> {
    let names = ["vdf-lru", "adaptive-arc", "vdf-lfu", "adaptive-sieve", "s3-fifo", "vdf-clock"];
    let on_write = [OnWrite::Invalidate, OnWrite::Update, OnWrite::Keep][(variant % 3) as usize];
    let policy = readcache::choose(names[(variant / 3 % 6) as usize]).unwrap();
    (variant % 7 != 6).then_some(ReadCacheChoice { policy, pages: 20 + variant % 60, on_write })
}

fn limits(variant: u64) -> Limits {
    let plain = Limits { window_pages: 1 + variant % 24, ..Limits::default() };
    match variant % 4 {
        0 => plain,
        1 => Limits { depth: 4, ..plain },
        2 => Limits { share_permille: 200, least_pages_per_s: 1000, ..plain },
        _ => Limits { reads_under: Some(Duration(20_000)), ..plain },
    }
}

/// One random request, and a few completions.
fn go_on(driver: &mut Driver, volume: u64) {
    let pages = 1 + driver.random(9) as u32;
    let first = match driver.random(3) {
        0 => driver.random(24),
        _ => driver.random(volume),
    };
    let first = first.min(volume - u64::from(pages));
    let write = driver.random(2) == 0;
    driver.host(if write { Direction::Write } else { Direction::Read }, first, pages);
    for _ in 0..driver.random(14) {
        driver.complete_one();
    }
    if driver.random(12) == 0 {
        driver.exchange_cache();
    }
    let directory = driver.controller.directory();
    for page in (0..volume).map(Page) {
        let kept = driver.cached.contains_key(&page.0);
        assert_eq!(driver.controller.is_cached(page), kept, "page {} is kept", page.0);
    }
    let state = driver.controller.read_cache();
    assert!(state.is_none_or(|s| s.held <= s.pages && s.held == driver.cached.len()));
    assert!(directory.occupancy() <= directory.capacity().0);
}

fn exercise(level: usize, variant: u64, seed: u64) {
    let config = config(level, variant);
    let volume = config.geometry.volume_pages().0;
    let mut driver = Driver::new(&config, cache(variant).as_ref(), seed);
    driver.controller.set_rebuild_limits(limits(variant));
    let disks = u64::from(config.geometry.disks);
    let mut whole = true;
    for _ in 0..3 {
        let (first, second) = (driver.random(disks) as u16, driver.random(disks) as u16);
        let before = 5 + driver.random(30);
        if driver.random(2) == 0 && !driver.scrubbing {
            driver.scrubbing = true;
            driver.step(Event::ScrubStart);
            driver.step(Event::ScrubAllow(200));
        }
        (0..before).for_each(|_| go_on(&mut driver, volume));
        driver.fail(first);
        let both = config.geometry.level == Level::Raid6 && first != second;
        if both && driver.random(2) == 0 {
            (0..driver.random(12)).for_each(|_| go_on(&mut driver, volume));
            driver.fail(second);
        }
        (0..driver.random(25)).for_each(|_| go_on(&mut driver, volume));
        driver.replace(first, 0);
        (0..driver.random(40)).for_each(|_| go_on(&mut driver, volume));
        if driver.random(3) == 0 && driver.controller.failed().contains(DiskId(first)) {
            // The spare fails too, and another comes; or it is only said to be there once more.
            let same = driver.random(2) == 0;
            if same {
                driver.step(Event::Rebuild { disk: DiskId(first), from: 0 });
            } else {
                driver.fail(first);
                (0..driver.random(10)).for_each(|_| go_on(&mut driver, volume));
                driver.replace(first, 0);
            }
        }
        driver.settle();
        if driver.controller.failed().contains(DiskId(second)) {
            driver.replace(second, 0);
            (0..driver.random(20)).for_each(|_| go_on(&mut driver, volume));
            driver.settle();
        }
        whole &= driver.controller.failed().is_empty();
    }
    assert!(whole, "{:?} is still failed", driver.controller.failed());
    assert!(driver.unanswered.is_empty(), "{} unanswered", driver.unanswered.len());
    driver.step(Event::Flush);
    driver.settle();
    assert_eq!(driver.controller.occupancy(), PageCount(0), "drained");
    driver.check_disks();
}

#[test]
fn every_level_survives_failures_and_rebuilds_with_every_cache() {
    for level in 0..LEVELS.len() {
        for variant in 0..42 {
            exercise(level, variant, variant * 31 + level as u64);
        }
    }
}

#[test]
fn a_degraded_array_that_is_drained_has_everything() {
    for level in 0..LEVELS.len() {
        let config = config(level, 3);
        let volume = config.geometry.volume_pages().0;
        let mut driver = Driver::new(&config, None, 5);
        driver.fail(1);
        (0..80).for_each(|_| go_on(&mut driver, volume));
        driver.step(Event::Flush);
        driver.settle();
        assert_eq!(driver.controller.occupancy(), PageCount(0), "drained");
        driver.check_disks();
    }
}

/// A destage waits for reads of its rows that have begun. Those that come later wait for it.
#[test]
fn reads_that_overlap_keep_no_destage_of_a_degraded_array_from_writing() {
    for level in (0..LEVELS.len()).filter(|level| LEVELS[*level].0 != Level::Raid10) {
        let config = config(level, 0);
        let disk_of = |page: &u64| config.geometry.place(Page(*page)).disk;
        let mut driver = Driver::new(&config, None, 5);
        driver.fail(1);
        let pages = 0..config.geometry.pages_per_group();
        let (lost, there): (Vec<u64>, Vec<u64>) =
            pages.partition(|page| disk_of(page) == DiskId(1));
        driver.host(Direction::Write, there[0], 1);
        driver.settle();
        assert_eq!(driver.controller.occupancy(), PageCount(1), "not destaged yet");
        driver.step(Event::Flush);
        let mut steps = 0;
        while driver.controller.occupancy() > PageCount(0) {
            while driver.unanswered.len() < 4 {
                let drawn = driver.random(lost.len() as u64) as usize;
                driver.host(Direction::Read, lost[drawn], 1);
            }
            driver.complete_one();
            steps += 1;
            assert!(steps < 2000, "level {level}: the destage waits for ever");
        }
        driver.settle();
        assert!(driver.unanswered.is_empty(), "{} unanswered", driver.unanswered.len());
        driver.check_disks();
    }
}

/// An array of this level that has destaged everything, without its disk 0.
fn degraded(level: usize) -> Driver {
    let config = config(level, 0);
    let volume = config.geometry.volume_pages().0;
    let mut driver = Driver::new(&config, None, 5);
    (0..60).for_each(|_| go_on(&mut driver, volume));
    driver.step(Event::Flush);
    driver.settle();
    driver.fail(0);
    driver
}

#[test]
fn unreadable_pages_meet_the_second_parity_or_are_named() {
    for (level, lost) in [(1, 1), (4, 0)] {
        let mut driver = degraded(level);
        driver.unreadable.insert((2, 9));
        driver.replace(0, 0);
        driver.settle();
        assert_eq!(driver.rebuilt, 1);
        assert_eq!(driver.unrecoverable.len(), lost, "{:?}", driver.unrecoverable);
        if lost == 0 {
            driver.unreadable.clear();
            driver.check_disks();
        } else {
            assert_eq!(driver.unrecoverable, [(DiskId(0), 9)]);
        }
    }
}

/// The window of a rebuild has them all; no row has two.
#[test]
fn unreadable_pages_of_several_disks_in_different_rows_are_computed() {
    let mut driver = degraded(4);
    driver.unreadable = (8..24).map(|row| (1 + row as u16 % 5, row)).collect();
    driver.controller.set_rebuild_limits(Limits { window_pages: 48, ..Limits::default() });
    driver.replace(0, 0);
    driver.settle();
    assert_eq!((driver.rebuilt, &driver.unrecoverable), (1, &Vec::new()));
    driver.unreadable.clear();
    driver.check_disks();
}

#[test]
fn progress_counts_and_the_cache_hears_of_it() {
    let config = config(1, 1);
    let policy = readcache::choose("vdf-lru").unwrap();
    let cache = ReadCacheChoice { policy, pages: 8, on_write: OnWrite::Invalidate };
    let mut driver = Driver::new(&config, Some(&cache), 5);
    assert_eq!(driver.controller.read_cache().unwrap().weight, None);
    driver.fail(2);
    let weight = driver.controller.read_cache().unwrap().weight;
    assert_eq!(weight.map(|w| w.in_quarters()), Some(12), "n - 1 of four disks");
    driver.controller.set_rebuild_limits(Limits { window_pages: 8, ..Limits::default() });
    driver.replace(2, 8);
    let progress = driver.controller.rebuilds().next().expect("one");
    assert_eq!((progress.done_pages, progress.disk_pages), (8, config.geometry.disk_pages));
    assert_eq!(progress.to_go, None);
    while driver.controller.rebuilds().next().is_some_and(|p| p.done_pages < 24) {
        driver.complete_one();
    }
    assert!(driver.controller.rebuilds().next().unwrap().to_go.is_some());
    let (disk, below) = driver.checkpoint.expect("a rebuild can resume from there");
    let done = driver.controller.rebuilds().next().unwrap().done_pages;
    assert!(disk == DiskId(2) && below > 8 && below <= done, "{below} of {done}");
    driver.settle();
    assert_eq!(driver.rebuilt, 1);
    assert_eq!(driver.controller.read_cache().unwrap().weight, None);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn random_failures_lose_nothing(
        seed in any::<u64>(),
        level in 0..LEVELS.len(),
        variant in 0u64..10_000,
    ) {
        exercise(level, variant, seed);
    }
}
