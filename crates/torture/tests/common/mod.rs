//! An array for scenarios: no faults but those that a test makes.

#![allow(dead_code, reason = "each program of tests uses a part")]

use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::flushes::Durability;
use destage_served::Ack;
use destage_torture::case::{Case, Wanted};
use destage_torture::run::{End, Run};

/// An array of four disks, or one, with this many commands at a disk at once.
pub fn quiet_with(level: Level, nvs: u16, window: u32) -> Run {
    opened(quiet_case(level, if level == Level::Single { 1 } else { 4 }, nvs, window))
}

/// Such an array, created and started.
pub fn opened(case: Case) -> Run {
    let mut run = Run::new(case).expect("created");
    assert_eq!(run.open(), Ok(End::Done));
    run
}

/// Such a case, of this many disks.
pub fn quiet_case(level: Level, disks: u16, nvs: u16, window: u32) -> Case {
    let wanted = Wanted {
        level: Some(level),
        nvs: Some(nvs),
        ack: Some(Ack::Nvs),
        read_cache: Some(false),
        ..Wanted::default()
    };
    let mut case = Case::draw(1, &wanted);
    let geometry = Geometry { level, disks, strip_pages: 4, group_stripes: 1, disk_pages: 32 };
    case.geometry = geometry.checked().expect("an array");
    (case.faults, case.mishaps, case.scrubs) = (false, false, false);
    (case.settings.cache_off, case.nvs_pages) = (false, 24);
    (case.settings.window, case.settings.stripe_memory) = (window, 0);
    case.settings.durability = vec![Durability::Flush; usize::from(disks)];
    case.settings.rate = destage_engine::rate::choose("linear:95/90").expect("of the table");
    case
}
