//! Scrub: every row of all members is read as a whole, and what is wrong in it written again.
//!
//! The engine walks the rows, reads them in chunks of one write group, and holds that group: no
//! destage of it is under way meanwhile, none begins to read, and no host read repairs it, so what
//! was read belongs together and what is written again cannot race with parity computed from
//! what was there before. The driver compares the bytes, says what to write again, and gives the
//! allowance of pages that may be read: it has the clock.

use super::Controller;
use crate::array::geometry::Level;
use crate::array::plan::DiskRun;
use crate::event::Action;
use crate::event::ScrubChunk;
use crate::event::{DiskCommand, Owner};
use crate::units::{DiskId, GroupId, Page};
use alloc::vec::Vec;

/// Most pages of each disk in a chunk.
const CHUNK_PAGES_MAX: u64 = 32;
/// Most chunks under way.
const CHUNKS_MAX: usize = 4;

/// A chunk under way.
#[derive(Clone, Debug, Default)]
struct Chunk {
    chunk: ScrubChunk,
    pending: u32,
    repairs: Vec<DiskRun>,
    /// A disk failed under it.
    spoiled: bool,
    busy: bool,
}

/// A pass under way.
#[derive(Clone, Copy, Debug)]
struct Walk {
    /// Next row.
    next: u64,
    /// Pages that may still be read; a chunk may overdraw it.
    allowance: i64,
    stopping: bool,
    /// A deliberate fault, for tests: groups are not held, and destages not waited for.
    careless: bool,
    /// Rows were left out that a destage may have written in part.
    skipped: bool,
}

/// A scrub, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrub {
    walk: Option<Walk>,
    chunks: Vec<Chunk>,
}

impl Controller {
    /// Rows that a scrub reads, one page of each disk of a row.
    #[must_use]
    pub fn scrub_rows(&self) -> u64 {
        match self.geometry.level {
            Level::Raid10 => self.geometry.volume_pages().0,
            _ => self.geometry.disk_pages,
        }
    }

    /// Whether a scrub is under way that may read no more until it is allowed to.
    #[must_use]
    pub fn scrub_waits(&self) -> bool {
        self.scrub.walk.is_some_and(|walk| walk.allowance <= 0 && !walk.stopping)
    }

    /// For tests of tests: the scrub under way reads rows that are being written.
    #[cfg(feature = "defects")]
    pub fn scrub_carelessly(&mut self) {
        if let Some(walk) = &mut self.scrub.walk {
            walk.careless = true;
        }
    }

    pub(crate) fn scrub_start(&mut self) {
        assert!(self.scrub.walk.is_none(), "one scrub at a time");
        let redundant = !matches!(self.geometry.level, Level::Single | Level::Raid0);
        assert!(redundant, "nothing to compare on this level");
        self.scrub.walk =
            Some(Walk { next: 0, allowance: 0, stopping: false, careless: false, skipped: false });
    }

    pub(crate) fn scrub_allow(&mut self, pages: u64) {
        if let Some(walk) = &mut self.scrub.walk {
            walk.allowance = walk.allowance.saturating_add_unsigned(pages);
        }
    }

    pub(crate) fn scrub_stop(&mut self) {
        if let Some(walk) = &mut self.scrub.walk {
            walk.stopping = true;
        }
    }

    /// The rows from a number on that are read together.
    fn scrub_chunk(&self, row: u64) -> ScrubChunk {
        let geometry = &self.geometry;
        let (group, disk, disks, first, left) = if geometry.level == Level::Raid10 {
            let place = geometry.place(Page(row));
            let left = geometry.strip_pages - row % geometry.strip_pages;
            (GroupId(row / geometry.strip_pages), place.disk, 2, place.page, left)
        } else {
            let on_disk = geometry.strip_pages * geometry.group_stripes;
            let (group, _) = geometry.row_of_disk_page(row);
            (group, DiskId(0), geometry.disks, row, on_disk - row % on_disk)
        };
        let pages = left.min(CHUNK_PAGES_MAX) as u32;
        ScrubChunk { group, disk, disks, first, pages }
    }

    /// Begins chunks while that is allowed, and ends the pass.
    pub(crate) fn scrub_pump(&mut self, actions: &mut Vec<Action>) {
        while let Some(walk) = self.scrub.walk {
            let under_way = self.scrub.chunks.iter().filter(|chunk| chunk.busy).count();
            let over = walk.next >= self.scrub_rows();
            if over || walk.stopping || !self.faults.failed.is_empty() {
                if under_way == 0 {
                    self.scrub.walk = None;
                    actions.push(Action::ScrubEnded { whole: over && !walk.skipped });
                }
                return;
            }
            if walk.allowance <= 0 || self.paused || under_way == CHUNKS_MAX {
                return;
            }
            let chunk = self.scrub_chunk(walk.next);
            if self.destager.is_kept_unsettled(chunk.group) {
                // Its rows may be written in part for as long as something cannot be read.
                if let Some(walk) = &mut self.scrub.walk {
                    walk.next += u64::from(chunk.pages);
                    walk.skipped = true;
                }
                continue;
            }
            let locks = &self.faults.locks;
            let busy = self.destager.works_on(chunk.group) && !locks.held(chunk.group);
            if (busy || locks.contains(chunk.group))
                && !(cfg!(feature = "defects") && walk.careless)
            {
                // What is under way there ends first.
                return;
            }
            self.scrub_begin(chunk, actions);
        }
    }

    fn scrub_begin(&mut self, chunk: ScrubChunk, actions: &mut Vec<Action>) {
        let pages = i64::from(chunk.pages);
        if let Some(walk) = &mut self.scrub.walk {
            walk.next += u64::from(chunk.pages);
            walk.allowance -= pages * i64::from(chunk.disks);
        }
        self.faults.locks.hold(chunk.group);
        let idle = self.scrub.chunks.iter().position(|chunk| !chunk.busy);
        let index = idle.unwrap_or_else(|| {
            self.scrub.chunks.push(Chunk::default());
            self.scrub.chunks.len() - 1
        });
        self.scrub.chunks[index] = Chunk { chunk, busy: true, ..Chunk::default() };
        for disk in (chunk.disk.0..chunk.disk.0 + chunk.disks).map(DiskId) {
            let run = DiskRun { disk, first: chunk.first, pages: chunk.pages };
            self.scrub_submit(index, run, false, actions);
        }
    }

    fn scrub_submit(&mut self, index: usize, run: DiskRun, write: bool, out: &mut Vec<Action>) {
        self.scrub.chunks[index].pending += 1;
        let DiskRun { disk, first, pages } = run;
        let owner = Owner::Scrub(index as u32);
        self.dispatch.submit(DiskCommand { disk, first, pages, write, owner }, out);
    }

    /// A command of a chunk failed: a run that cannot be read is read page by page; a page that
    /// cannot is for the driver to tell by the others.
    pub(crate) fn scrub_failed(
        &mut self,
        index: u32,
        command: &DiskCommand,
        actions: &mut Vec<Action>,
    ) {
        let DiskCommand { disk, first, pages, write, .. } = *command;
        let at = index as usize;
        if write || self.faults.failed.contains(disk) {
            self.scrub.chunks[at].spoiled = true;
        } else if pages > 1 {
            for run in (DiskRun { disk, first, pages }).single_pages() {
                self.scrub_submit(at, run, false, actions);
            }
        }
        self.scrub_done(index, actions);
    }

    /// A command of a chunk is done.
    pub(crate) fn scrub_done(&mut self, index: u32, actions: &mut Vec<Action>) {
        let chunk = &mut self.scrub.chunks[index as usize];
        chunk.pending -= 1;
        if chunk.pending > 0 {
            return;
        }
        if chunk.spoiled || !chunk.repairs.is_empty() {
            // Also where not all could be written: some may be.
            for run in core::mem::take(&mut chunk.repairs) {
                self.outdate_run(run, actions);
            }
            self.scrub_end(index, actions);
        } else {
            actions.push(Action::ScrubCompare { index, chunk: chunk.chunk });
        }
    }

    pub(crate) fn scrub_repair(&mut self, index: u32, run: DiskRun) {
        self.scrub.chunks[index as usize].repairs.push(run);
    }

    /// The driver has compared a chunk, and said what is to be written again.
    pub(crate) fn scrub_compared(&mut self, index: u32, actions: &mut Vec<Action>) {
        let repairs = self.scrub.chunks[index as usize].repairs.clone();
        for run in &repairs {
            self.scrub_submit(index as usize, *run, true, actions);
        }
        if repairs.is_empty() {
            self.scrub_end(index, actions);
        }
    }

    fn scrub_end(&mut self, index: u32, actions: &mut Vec<Action>) {
        let chunk = &mut self.scrub.chunks[index as usize];
        chunk.busy = false;
        let (group, whole) = (chunk.chunk.group, !chunk.spoiled);
        actions.push(Action::ScrubDone { index, whole });
        if self.faults.locks.let_go(group) {
            self.unheld(group, actions);
            self.retry_parked(actions);
        }
    }
}
