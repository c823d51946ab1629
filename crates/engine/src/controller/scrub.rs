//! Scrub: every row of all members is read, and what is inconsistent in it is repaired.
//!
//! The engine walks the rows, reads them in chunks of one write group, and holds that group: no
//! destage of it is in flight in the meantime, none begins to read, and no host read repairs it. So
//! what was read is consistent, and repairs cannot race with parity computed from what was there
//! before. The driver compares the bytes, says what to repair, and grants the pages that may be
//! read: it has the clock.

use crate::array::geometry::Geometry;
use crate::array::plan::DiskRun;
use crate::destage::Destager;
use crate::event::{Action, DiskCommand, Owner, ScrubChunk};
use crate::state::ArrayState;
use crate::units::{DiskId, GroupId, Page};
use alloc::vec::Vec;

/// Most pages of each disk in a chunk.
const CHUNK_PAGES_MAX: u64 = 32;
/// Most chunks in flight.
const CHUNKS_MAX: usize = 4;

/// A chunk in flight.
#[derive(Clone, Debug, Default)]
struct Chunk {
    chunk: ScrubChunk,
    /// Commands outstanding.
    pending: u32,
    repairs: Vec<DiskRun>,
    /// A disk failed while it was read.
    invalid: bool,
    busy: bool,
}

/// A pass over all rows.
#[derive(Clone, Copy, Debug)]
struct Pass {
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

/// The scrub, if one is running.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrub {
    pass: Option<Pass>,
    chunks: Vec<Chunk>,
}

/// What follows when a command of a chunk is done.
pub(super) enum AfterChunk {
    Nothing,
    /// The chunk is done: its group may be released. These runs were rewritten.
    Done {
        repaired: Vec<DiskRun>,
    },
}

/// Rows that a scrub reads, one page of each disk of a row.
pub(super) fn rows(geometry: &Geometry) -> u64 {
    match geometry.level.is_mirrored() {
        true => geometry.volume_pages().0,
        false => geometry.disk_pages,
    }
}

/// The rows from this number on that are read together.
fn chunk_at(row: u64, geometry: &Geometry) -> ScrubChunk {
    let (group, disk, disks, first, left) = if geometry.level.is_mirrored() {
        let place = geometry.place(Page(row));
        let left = geometry.strip_pages - row % geometry.strip_pages;
        (GroupId(row / geometry.strip_pages), place.disk, 2, place.page, left)
    } else {
        let on_disk = geometry.group_rows();
        let (group, _) = geometry.row_of_disk_page(row);
        (group, DiskId(0), geometry.disks, row, on_disk - row % on_disk)
    };
    let pages = left.min(CHUNK_PAGES_MAX) as u32;
    ScrubChunk { group, disk, disks, first, pages }
}

impl Scrub {
    /// Whether a scrub is running that may read no more until it is allowed to.
    pub(super) fn waits(&self) -> bool {
        self.pass.is_some_and(|pass| pass.allowance <= 0 && !pass.stopping)
    }

    #[cfg(feature = "defects")]
    pub(super) fn set_careless(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.careless = true;
        }
    }

    pub(super) fn start(&mut self, geometry: &Geometry) {
        assert!(self.pass.is_none(), "one scrub at a time");
        assert!(geometry.level.is_redundant(), "nothing to compare on this level");
        self.pass =
            Some(Pass { next: 0, allowance: 0, stopping: false, careless: false, skipped: false });
    }

    /// Grants the scrub this many more pages.
    pub(super) fn allow(&mut self, pages: u64) {
        if let Some(pass) = &mut self.pass {
            pass.allowance = pass.allowance.saturating_add_unsigned(pages);
        }
    }

    pub(super) fn stop(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.stopping = true;
        }
    }

    /// Begins chunks while that is allowed, and ends the pass.
    pub(super) fn pump(
        &mut self,
        state: &mut ArrayState,
        destager: &Destager,
        actions: &mut Vec<Action>,
    ) {
        while let Some(pass) = &mut self.pass {
            let in_flight = self.chunks.iter().filter(|chunk| chunk.busy).count();
            let over = pass.next >= rows(&state.geometry);
            if over || pass.stopping || !state.faults.failed.is_empty() {
                if in_flight == 0 {
                    let whole = over && !pass.skipped;
                    self.pass = None;
                    actions.push(Action::ScrubEnded { whole });
                }
                return;
            }
            if pass.allowance <= 0 || state.paused || in_flight == CHUNKS_MAX {
                return;
            }
            let chunk = chunk_at(pass.next, &state.geometry);
            if destager.is_kept_unsettled(chunk.group) {
                // Its rows may be partly written for as long as something cannot be read.
                pass.next += u64::from(chunk.pages);
                pass.skipped = true;
                continue;
            }
            let locks = &state.faults.locks;
            let busy = destager.works_on(chunk.group) && !locks.held(chunk.group);
            if (busy || locks.contains(chunk.group))
                && !(cfg!(feature = "defects") && pass.careless)
            {
                // What is in flight there ends first.
                return;
            }
            pass.next += u64::from(chunk.pages);
            pass.allowance -= i64::from(chunk.pages) * i64::from(chunk.disks);
            self.begin(chunk, state, actions);
        }
    }

    fn begin(&mut self, chunk: ScrubChunk, state: &mut ArrayState, actions: &mut Vec<Action>) {
        state.faults.locks.hold(chunk.group);
        let idle = self.chunks.iter().position(|chunk| !chunk.busy);
        let index = idle.unwrap_or_else(|| {
            self.chunks.push(Chunk::default());
            self.chunks.len() - 1
        });
        self.chunks[index] = Chunk { chunk, busy: true, ..Chunk::default() };
        for disk in (chunk.disk.0..chunk.disk.0 + chunk.disks).map(DiskId) {
            let run = DiskRun { disk, first: chunk.first, pages: chunk.pages };
            self.submit(index, run, false, state, actions);
        }
    }

    /// Queues a command. A scrub's commands do not count among the array's.
    fn submit(
        &mut self,
        index: usize,
        run: DiskRun,
        write: bool,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) {
        self.chunks[index].pending += 1;
        let DiskRun { disk, first, pages } = run;
        let owner = Owner::Scrub(index as u32);
        let command = DiskCommand { disk, first, pages, write, owner };
        state.dispatch.submit(state.now, command, actions);
    }

    /// A command of a chunk failed. A run that cannot be read is read page by page; a page that
    /// cannot be read is computed by the driver. [`Scrub::command_done`] follows.
    pub(super) fn command_failed(
        &mut self,
        index: u32,
        command: &DiskCommand,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) {
        let DiskCommand { disk, first, pages, write, .. } = *command;
        let index = index as usize;
        if write || state.faults.failed.contains(disk) {
            self.chunks[index].invalid = true;
        } else if pages > 1 {
            for run in (DiskRun { disk, first, pages }).single_pages() {
                self.submit(index, run, false, state, actions);
            }
        }
    }

    /// A command of a chunk is done.
    pub(super) fn command_done(&mut self, index: u32, actions: &mut Vec<Action>) -> AfterChunk {
        let chunk = &mut self.chunks[index as usize];
        chunk.pending -= 1;
        if chunk.pending > 0 {
            return AfterChunk::Nothing;
        }
        if chunk.invalid || !chunk.repairs.is_empty() {
            // Also if not all could be written: some may be.
            return AfterChunk::Done { repaired: core::mem::take(&mut chunk.repairs) };
        }
        actions.push(Action::ScrubCompare { index, chunk: chunk.chunk });
        AfterChunk::Nothing
    }

    pub(super) fn repair(&mut self, index: u32, run: DiskRun) {
        self.chunks[index as usize].repairs.push(run);
    }

    /// The driver has compared a chunk, and said what to repair. Returns whether the chunk is done.
    pub(super) fn compared(
        &mut self,
        index: u32,
        state: &mut ArrayState,
        actions: &mut Vec<Action>,
    ) -> bool {
        let repairs = self.chunks[index as usize].repairs.clone();
        for run in &repairs {
            self.submit(index as usize, *run, true, state, actions);
        }
        repairs.is_empty()
    }

    /// Ends a chunk. Returns its group.
    pub(super) fn end(&mut self, index: u32, actions: &mut Vec<Action>) -> GroupId {
        let chunk = &mut self.chunks[index as usize];
        chunk.busy = false;
        actions.push(Action::ScrubDone { index, whole: !chunk.invalid });
        chunk.chunk.group
    }
}
