//! Clients that keep reading the same rows of a degraded array: whenever a read is answered, others
//! of them are in flight.

use super::load::{Kind, Request};
use super::run::{End, Run};
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, PAGE_BYTES};

/// Reads in flight.
const CLIENTS: usize = 16;
/// Steps within which all is on the disks.
const STEPS_MAX: u64 = 20_000;

impl Run {
    /// Sometimes, if a member has failed, a page is written in a row of which clients keep reading
    /// what the failed member had. All must come to the disks nevertheless.
    ///
    /// # Errors
    /// It does not, or a check failed.
    pub(super) fn drain_while_polled(&mut self) -> Result<End, String> {
        let parity = self.case.geometry.level.parities() > 0;
        let may = self.case.pressed && parity && !self.stopped && !self.may_lack_rows();
        if !may || self.draws.polls.below(2) > 0 {
            return Ok(End::Done);
        }
        let Some(disk) = self.failed.iter().next() else { return Ok(End::Done) };
        let row = self.draws.polls.below(self.case.geometry.disk_pages);
        let Some((polled, written)) = self.places_in_a_group(disk, row) else {
            return Ok(End::Done);
        };
        self.counts.polled += 1;
        self.submit(Request::write(written * PAGE_BYTES, PAGE_BYTES))?;
        self.flush_cache()?;
        for _ in 0..STEPS_MAX {
            let waits = self.pending.values().any(|pending| pending.request.kind == Kind::Write);
            let destaged = !waits && self.volume().drained();
            if destaged || self.world.crashed || self.stopped || self.may_lack_rows() {
                return self.answered();
            }
            for _ in self.pending.len()..CLIENTS {
                let offset = polled * PAGE_BYTES;
                self.submit(Request { kind: Kind::Read, offset, bytes: PAGE_BYTES, fua: false })?;
            }
            self.step()?;
        }
        Err(format!("a destage waits for reads without end: {:?}", self.volume().status()))
    }

    /// A page of the volume on this member, in the row at this page of it, and another one of the
    /// row.
    fn places_in_a_group(&self, disk: DiskId, page: u64) -> Option<(u64, u64)> {
        let geometry = self.case.geometry;
        let at = |disk| Some(geometry.page_at(DiskPage { disk, page })?.0);
        let others = (0..geometry.disks).map(DiskId).filter(|other| *other != disk);
        Some((at(disk)?, others.filter_map(at).next()?))
    }
}
