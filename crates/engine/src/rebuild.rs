//! Rebuild of a replaced disk in the order of its stripes, while service goes on.
//!
//! A **window** is some whole write groups of the disk: its pages are read from the row's other
//! disks, computed by the driver, and written to the spare. Invariants:
//! - All pages of the disk below `done` are as if it had never failed: destages write it there, and
//!   reads are made from it. From `done` on it counts as failed.
//! - No destage of a group runs while a window with rows of it does: destages that come wait for
//!   the window, the window for those under way.
//! - `done` moves only when a window's writes are complete. A driver may persist a checkpoint
//!   ([`crate::event::Action::Checkpoint`]) when the spare is flushed; to begin again below `done`
//!   is safe.

use crate::array::disks::DiskSet;
use crate::array::geometry::{Geometry, Level};
use crate::array::plan::DiskRun;
use crate::units::{DiskId, Duration, GroupId, Instant, Page};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The disk.
    pub disk: DiskId,
    /// Pages of it that are whole.
    pub done_pages: u64,
    /// Pages that it has.
    pub disk_pages: u64,
    /// Time since it began here.
    pub elapsed: Duration,
    /// Time to go at its mean rate so far; none before anything is done.
    pub to_go: Option<Duration>,
    /// Pages that could not be computed.
    pub lost_pages: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// For destages of its groups to end.
    Waiting,
    Reading,
    /// The driver computes.
    Computing,
    Writing,
    Done,
}

pub(crate) struct Window {
    pub(crate) serial: u32,
    pub(crate) first: u64,
    pub(crate) pages: u64,
    pub(crate) phase: Phase,
    pub(crate) pending: u32,
    /// What it reads is of no use: a disk failed on the way.
    pub(crate) spoiled: bool,
    /// Single pages that disks could not read.
    pub(crate) unreadable: Vec<DiskRun>,
    pub(crate) began: Instant,
}

/// A rebuild under way.
pub(crate) struct Rebuild {
    pub(crate) disk: DiskId,
    pub(crate) from: u64,
    pub(crate) next: u64,
    pub(crate) done: u64,
    pub(crate) windows: VecDeque<Window>,
    pub(crate) started: Instant,
    pub(crate) not_before: Instant,
    /// Share of the time now, in thousandths.
    pub(crate) share: u64,
    pub(crate) announced: u64,
    pub(crate) lost_pages: u64,
}

/// Announcements of progress to the read cache, and checkpoints, over a whole disk.
pub(crate) const STEPS: u64 = 64;

impl Rebuild {
    pub(crate) fn window(&mut self, serial: u32) -> Option<&mut Window> {
        self.windows.iter_mut().find(|window| window.serial == serial)
    }

    /// Whether a window has rows of this group.
    fn meets(&self, geometry: &Geometry, group: GroupId) -> bool {
        let (first, pages) = rows_of(geometry, group);
        if geometry.level == Level::Raid10 {
            let place = geometry.place(Page(group.0 * geometry.pages_per_group()));
            if place.disk.0 / 2 != self.disk.0 / 2 {
                return false;
            }
        }
        let meets = |w: &Window| w.first < first + pages && first < w.first + w.pages;
        // One that is written, too, until all before it are: to plans its rows are still lost.
        self.windows.iter().any(meets)
    }
}

/// Whether a destage of this group has to wait for a window.
pub(crate) fn holds_back(rebuilds: &[Rebuild], geometry: &Geometry, group: GroupId) -> bool {
    rebuilds.iter().any(|rebuild| rebuild.meets(geometry, group))
}

/// The pages of each disk that a group has.
pub(crate) fn rows_of(geometry: &Geometry, group: GroupId) -> (u64, u64) {
    let first = geometry.place(Page(group.0 * geometry.pages_per_group())).page;
    (first, unit(geometry))
}

/// Pages of a disk in a write group.
pub(crate) fn unit(geometry: &Geometry) -> u64 {
    match geometry.level {
        Level::Raid4 | Level::Raid5 | Level::Raid6 => geometry.strip_pages * geometry.group_stripes,
        _ => geometry.strip_pages,
    }
}

impl Geometry {
    /// The reads by which the pages of a lost disk are computed: as many strips as the row has of
    /// data, P before Q.
    #[must_use]
    pub fn rebuild_reads(
        &self,
        disk: DiskId,
        first: u64,
        pages: u64,
        failed: &DiskSet,
    ) -> Vec<DiskRun> {
        if self.level == Level::Raid10 {
            let disk = DiskId(disk.0 ^ 1);
            return alloc::vec![DiskRun { disk, first, pages: pages as u32 }];
        }
        let mut reads: Vec<(DiskId, u64)> = Vec::new();
        for page in first..first + pages {
            let stripe = self.row_of_disk_page(page).1.stripe;
            let data = (0..self.data_strips() as u16).map(|strip| self.data_disk(stripe, strip));
            let all = data.chain(self.parity_disks(stripe));
            let usable = all.filter(|d| *d != disk && !failed.contains(*d));
            reads.extend(usable.take(self.data_strips() as usize).map(|d| (d, page)));
        }
        let mut runs = Vec::new();
        crate::array::safe::join(reads, &mut runs);
        runs
    }
}
