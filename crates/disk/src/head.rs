//! Commands, and where the heads are when one starts.

use destage_engine::units::{Duration, Instant};

use crate::extent::Extent;
use crate::geometry::SectorPlace;
use crate::model::DiskModel;

/// A command to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOp {
    /// First sector, in sectors of the drive.
    pub lbn: u64,
    /// Sectors of the drive; at least 1.
    pub sectors: u32,
    /// Writes; else reads.
    pub write: bool,
    /// Whatever the user wants back with the completion.
    pub tag: u64,
}

impl DiskOp {
    /// Its sectors.
    pub(crate) fn extent(&self) -> Extent {
        Extent { first: self.lbn, end: self.lbn + u64::from(self.sectors) }
    }
}

/// Where the heads are and what they did last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) place: SectorPlace,
    /// Sector after the last command's, `u64::MAX` before the first.
    pub(crate) next_lbn: u64,
    pub(crate) write: bool,
}

/// Time until a command's first sector is under the head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Approach {
    pub(crate) overhead_ns: u32,
    pub(crate) seek_ns: u32,
    pub(crate) rotation_ns: u32,
}

impl Approach {
    pub(crate) fn total_ns(self) -> u32 {
        self.overhead_ns + self.seek_ns + self.rotation_ns
    }
}

impl DiskModel {
    /// Sectors right before an address, on its track, that pass while the head waits for it.
    pub(crate) fn passed_before(&self, lbn: u64, wait_ns: u32) -> u64 {
        let zone = &self.zones[self.zone_of(lbn)];
        let passed = u64::from(wait_ns) * zone.track.value / u64::from(self.revolution.ns);
        passed.min(u64::from(zone.place(lbn).sector)).min(lbn - zone.first_lbn)
    }

    /// Seek and rotation from the head's place to a sector.
    pub(crate) fn position(&self, head: &Head, angle: u32, lbn: u64, write: bool) -> Approach {
        let zone = &self.zones[self.zone_of(lbn)];
        let place = zone.place(lbn);
        let jog_ns = if write == head.write { 0 } else { self.jog_ns };
        let mut seek_ns = self.move_ns(head.place, place.cylinder, place.head).max(jog_ns);
        let continues = lbn == head.next_lbn && write == head.write;
        if write && seek_ns > 0 && !continues {
            seek_ns = seek_ns.saturating_add_signed(self.write_settle_ns);
        }
        let arrival = self.revolution.reduce(angle + seek_ns);
        let rotation_ns = self.revolution.wait(arrival, zone.angle(place.slot));
        Approach { overhead_ns: 0, seek_ns, rotation_ns }
    }

    /// Moves the heads to a stretch and over it: when they are at its end.
    pub(crate) fn pass(
        &self,
        head: &mut Head,
        begin: Instant,
        extent: Extent,
        write: bool,
    ) -> Instant {
        let angle = self.revolution.angle(begin.0);
        let approach = self.position(head, angle, extent.first, write);
        let mut end = begin + Duration(u64::from(approach.total_ns()));
        if let Some(last) = self.stream(extent.first, extent.sectors()).last() {
            end += Duration(last.end_ns);
            head.place = last.place;
        }
        (head.next_lbn, head.write) = (extent.end, write);
        end
    }
}
