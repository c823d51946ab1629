//! What the tests of the disk model share: a generator, operations and small drives.
#![allow(dead_code)] // each test file uses its own part

use destage_disk::{Completed, Disk, DiskOp, DiskSpec};
use destage_engine::units::Instant;

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub fn read(lbn: u64, sectors: u32) -> DiskOp {
    DiskOp { lbn, sectors, write: false, tag: lbn }
}

pub fn write(lbn: u64, sectors: u32) -> DiskOp {
    DiskOp { lbn, sectors, write: true, tag: lbn }
}

/// Serves one command on an otherwise idle disk.
pub fn serve(disk: &mut Disk, now: &mut Instant, op: DiskOp) -> Completed {
    disk.submit(*now, op);
    *now = disk.start(*now).expect("a command is queued");
    disk.finish(*now)
}

/// A drive of three zones, small enough to look at every sector; `more` comes before them.
pub fn small(more: &str, zone: &str) -> DiskSpec {
    let zone = |cylinders: u32, track: u32| {
        format!("[[zones.list]]\ncylinders = {cylinders}\nsectors_per_track = {track}\n{zone}\n")
    };
    let text = format!(
        "name = 'small'\nsummary = ''\nsource = ''\nheads = 3\nrpm = 6000.0\n\
         head_switch_ms = 0.7\nwrite_settle_ms = 0.3\nwindow = 4\nscheduler = 'fcfs'\n{more}\n\
         [seek.fit]\none_cylinder_ms = 0.9\nthird_ms = 2.0\nfull_ms = 4.0\n{}{}{}",
        zone(9, 24),
        zone(10, 20),
        zone(7, 16)
    );
    DiskSpec::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
