//! What is rare is made frequent: a draw of its own for each, so that runs without it stay as they
//! were.

use super::device::Survivors;
use super::load::{Kind, Request};
use super::run::Run;
use super::starve::{ANCHORS, Kind as Slow, RING_BLOCKS, SUPERBLOCKS, Starved};
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, PAGE_BYTES, Page};
use destage_nvslog::commit::Claim;
use destage_served::{Ack, Device, Op, OpKind};
use std::collections::VecDeque;

/// Writes that are kept in mind.
const LATELY: usize = 12;

/// Ranges of dirty pages that are little, and pages of one that are written once more.
const FEW: usize = 3;
const MOST_AGAIN: u64 = 32;

/// Pages of which the records need more than one block of 512 bytes.
const MANY: u64 = 20;

const SECTOR: u64 = 512;

const FLUSH: Request = Request { kind: Kind::Flush, offset: 0, bytes: 0, fua: false };

impl Run {
    /// Operations that a life has more than others: in some the log comes round several times.
    pub(super) fn longer(&mut self) -> u64 {
        let rare = if self.case.hoards { 2 } else { 8 };
        if !self.case.pressed || self.draws.pressed.below(rare) > 0 {
            return 0;
        }
        self.draws.pressed.below(6000)
    }

    /// Often one copy of the anchor is slow where the log comes round: the tail then moves far.
    /// After a crash that left two different anchors it is the first: the older one then stays.
    pub(super) fn slow_anchor(&mut self) -> Option<Slow> {
        if !self.case.pressed || self.case.nvs == 0 {
            return None;
        }
        let of_four = match (self.anchors_cut, self.case.hoards) {
            (true, _) => 3,
            (false, true) => 2,
            _ => 1,
        };
        if self.draws.pressed.below(4) >= of_four {
            return None;
        }
        let first = self.anchors_cut || self.draws.pressed.below(4) == 0;
        let later = self.world.operations + 4000;
        self.world.crash_at = self.world.crash_at.map(|at| at.max(later));
        Some(Slow::Marks([ANCHORS[usize::from(!first)], u64::MAX]))
    }

    /// Often a power failure keeps or takes writes as a whole.
    pub(super) fn in_runs(&mut self, survivors: Survivors) -> Survivors {
        let drawn = survivors == Survivors::Random && self.case.pressed;
        if drawn && self.draws.pressed.below(2) == 0 { Survivors::Runs } else { survivors }
    }

    /// Sometimes an NVS device fails as a destage's intent is written, which is durable on the
    /// other one alone, or on none. What records the failure is slow, and the power fails when
    /// nothing else can be done, or before.
    pub(super) fn maybe_fail_with_an_intent(&mut self) {
        let devices = self.world.nvs.len();
        let in_use = !self.nvs_lost() && (devices == 1 || self.is_mirrored());
        let rare = if devices == 1 { 30 } else { 100 };
        if !in_use || !self.may_starve() || self.draws.pressed.below(rare) > 0 {
            return;
        }
        self.world.fails_intent = Some(self.draws.pressed.below(devices as u64) as u16);
        self.counts.mishaps += 1;
        self.world.starved = Some(self.starved(Slow::Marks(SUPERBLOCKS)));
        let when = self.world.operations + self.draws.pressed.below(600);
        self.world.crash_at = Some(when);
    }

    /// Where the last commit ends, if one of these operations writes one.
    pub(super) fn note_head(&mut self, ops: &[Op]) {
        let block_bytes = self.case.block_bytes;
        for op in ops {
            if let OpKind::Write { buffer, .. } = &op.kind
                && let (Device::Nvs(_), Some(claim)) = (op.device, Claim::read(buffer))
            {
                self.head = claim.header.block + claim.blocks(block_bytes);
            }
        }
    }

    /// Sometimes the host writes, as one block is left to the end of the ring, what needs two. What
    /// fills that block is slow then, and the power fails.
    ///
    /// # Errors
    /// A check failed.
    pub(super) fn maybe_pad(&mut self) -> Result<(), String> {
        let near = self.head == RING_BLOCKS - 1 && !self.nvs_lost() && self.case.block_bytes == 512;
        let may = self.case.pressed && self.world.crash_at.is_some();
        if !near || !may || self.draws.latent.below(2) > 0 {
            return Ok(());
        }
        self.world.starved = Some(self.starved(Slow::Padding));
        self.world.crash_at = Some(self.world.operations + self.draws.latent.below(100));
        let pages = MANY.min(self.bytes() / PAGE_BYTES);
        let first = self.draws.latent.below(self.bytes() / PAGE_BYTES - pages + 1);
        self.submit(Request::write(first * PAGE_BYTES, pages * PAGE_BYTES))
    }

    /// Sometimes a request that is drawn otherwise.
    pub(super) fn pressed_request(&mut self) -> Option<Request> {
        if !self.case.pressed {
            return None;
        }
        self.writes_again
            .pop_front()
            .or_else(|| self.flush_what_is_at_risk())
            .or_else(|| self.flush_what_was_shown())
            .or_else(|| self.trim_again())
            .or_else(|| self.read_what_is_missing())
            .or_else(|| self.read_what_is_stuck())
            .or_else(|| self.ask_what_is_new())
            .or_else(|| self.write_over_what_is_completed())
            .or_else(|| self.write_all_but_a_page())
    }

    /// Sometimes all NVS devices fail while little is dirty, and the host writes that once more:
    /// what it writes is not acknowledged, what is below it was.
    pub(super) fn maybe_lose_little(&mut self) {
        if self.may_lose_all_nvs() && self.draws.records.below(400) == 0 {
            self.lose_little();
        }
    }

    /// Likewise just as a write was answered that is in no commit yet.
    pub(super) fn maybe_lose_what_is_not_in_the_log(&mut self) {
        let early = self.case.settings.ack == Ack::Flush;
        if early && self.may_lose_all_nvs() && self.draws.records.below(40) == 0 {
            self.lose_little();
        }
    }

    fn may_lose_all_nvs(&self) -> bool {
        let may = self.case.pressed && self.case.faults && !self.nvs_lost();
        may && self.world.crash_at.is_some()
    }

    fn lose_little(&mut self) {
        let dirty = self.volume().dirty_in(0, u64::MAX);
        if (1..=FEW).contains(&dirty.len()) {
            self.world.nvs.iter_mut().for_each(|disk| disk.gone = true);
            let again = |(first, pages): (u64, u64)| {
                Request::write(first * PAGE_BYTES, pages.min(MOST_AGAIN) * PAGE_BYTES)
            };
            self.writes_again = dirty.into_iter().map(again).collect();
            self.loses_little = true;
        }
    }

    /// The NVS is lost. Often members are flushed slowly then, and the power fails soon.
    pub(super) fn press_what_is_at_risk(&mut self) {
        let little = core::mem::take(&mut self.loses_little);
        if little {
            self.writes_again = VecDeque::from([FLUSH]);
        }
        if self.world.crash_at.is_some() && (little || self.draws.records.below(3) == 0) {
            self.world.starved = Some(self.starved(Slow::Flushes));
            let soon = self.world.operations + 20 + self.draws.records.below(120);
            self.world.crash_at = Some(soon);
            self.counts.slow += 1;
        }
    }

    /// After the loss of the NVS, the host often asks whether all is on the disks.
    fn flush_what_is_at_risk(&mut self) -> Option<Request> {
        let asks = !self.at_risk.is_empty() && self.draws.records.below(3) == 0;
        asks.then_some(FLUSH)
    }

    /// Without NVS, the host may read what it has written before that is on the disks: sometimes it
    /// does, and asks then whether all is.
    fn flush_what_was_shown(&mut self) -> Option<Request> {
        if !self.shows_early() || self.draws.records.below(4) > 0 {
            return None;
        }
        let writes = |request: &&Request| matches!(request.kind, Kind::Write | Kind::Zero);
        let written = self.pending.values().map(|pending| &pending.request);
        let newest = *written.rev().find(writes)?;
        self.writes_again.push_back(FLUSH);
        Some(Request { kind: Kind::Read, fua: false, ..newest })
    }

    /// Sometimes the power fails just as such a flush was answered.
    pub(super) fn crash_after_a_flush(&mut self) {
        if self.case.pressed && self.shows_early() && self.draws.records.below(6) == 0 {
            let soon = self.world.operations + self.draws.records.below(3);
            self.world.crash_at = self.world.crash_at.map(|at| at.min(soon));
        }
    }

    fn shows_early(&self) -> bool {
        self.nvs_lost() && self.case.settings.ack == Ack::Flush
    }

    /// Often, while a member has failed, the host reads a page of that member whose row was written
    /// a short while ago, and is perhaps being destaged.
    fn read_what_is_missing(&mut self) -> Option<Request> {
        let (geometry, failed) = (self.case.geometry, self.failed.iter().next()?);
        if geometry.level.parities() == 0 || self.draws.pressed.below(6) > 0 {
            return None;
        }
        let writes = self.world.member_writes();
        let page = match writes.len() as u64 {
            0 => {
                let which = self.draws.pressed.below(self.lately.len().max(1) as u64) as usize;
                geometry.place(Page(self.lately.get(which)?.offset / PAGE_BYTES)).page
            }
            some => writes[self.draws.pressed.below(some) as usize].1,
        };
        // Often with pages before it of the same strip, in rows that are not being written.
        let before = match self.draws.latent.below(2) {
            0 => 0,
            _ => self.draws.latent.below(1 + page % geometry.strip_pages),
        };
        let first = geometry.page_at(DiskPage { disk: failed, page: page - before })?.0;
        let bytes = (1 + before) * PAGE_BYTES;
        Some(Request { kind: Kind::Read, offset: first * PAGE_BYTES, bytes, fua: false })
    }

    /// Sometimes, while a page is read since a part of a sector of it was written, the host writes
    /// that sector and then another one of it.
    fn write_over_what_is_completed(&mut self) -> Option<Request> {
        let cut = |request: &Request| {
            request.kind == Kind::Write && !request.offset.is_multiple_of(SECTOR)
        };
        let request = self.pending.values().map(|pending| pending.request).find(cut)?;
        if self.draws.latent.below(2) > 0 {
            return None;
        }
        let page = request.offset / PAGE_BYTES * PAGE_BYTES;
        let sector = |n: u64| Request::write(page + n % (PAGE_BYTES / SECTOR) * SECTOR, SECTOR);
        let first = request.offset % PAGE_BYTES / SECTOR;
        let second = first + 1 + self.draws.latent.below(PAGE_BYTES / SECTOR - 1);
        self.writes_again.push_back(sector(second));
        Some(sector(first))
    }

    /// Sometimes the host writes a group but for one page: of one row a page is clean, all others
    /// are full stripes.
    fn write_all_but_a_page(&mut self) -> Option<Request> {
        let geometry = self.case.geometry;
        let pages = geometry.pages_per_group();
        let groups = geometry.volume_pages().0 / pages;
        let fits = (2..=self.case.nvs_pages / 2).contains(&pages) && groups > 0;
        if !fits || self.draws.pressed.below(60) > 0 {
            return None;
        }
        let first = self.draws.pressed.below(groups) * pages;
        let clean = 1 + self.draws.pressed.below(pages - 1);
        let write = |from: u64, end: u64| {
            Request::write((first + from) * PAGE_BYTES, (end - from) * PAGE_BYTES)
        };
        if clean + 1 < pages {
            self.writes_again.push_back(write(clean + 1, pages));
        }
        Some(write(0, clean))
    }

    /// Sometimes the host reads what it wrote last, or asks whether it is durable. Perhaps it is
    /// not yet.
    fn ask_what_is_new(&mut self) -> Option<Request> {
        let last = *self.lately.back()?;
        match self.draws.pressed.below(if self.world.newest_held { 4 } else { 24 }) {
            0 => Some(Request { kind: Kind::Read, fua: false, ..last }),
            1 => Some(FLUSH),
            _ => None,
        }
    }

    /// Sometimes the host trims what it wrote a short while ago, which may be in a destage, or what
    /// a destage is about to write. The power often fails soon after.
    fn trim_again(&mut self) -> Option<Request> {
        if self.draws.pressed.below(12) > 0 {
            return None;
        }
        if self.draws.pressed.below(2) == 0
            && let Some(page) = self.page_in_a_destage()
        {
            if self.draws.pressed.below(2) == 0 && !self.world.lasts() {
                // The trim is in the log by then, and the destage is not done.
                let soon = self.world.operations + 10 + self.draws.pressed.below(60);
                self.world.crash_at = self.world.crash_at.map(|at| at.min(soon));
                self.world.hold_some_writes(soon, &mut self.draws.pressed);
            }
            let offset = page * PAGE_BYTES;
            return Some(Request { kind: Kind::Trim, offset, bytes: PAGE_BYTES, fua: false });
        }
        let lately = self.lately.len() as u64;
        let which = self.draws.pressed.below(lately.max(1)) as usize;
        self.lately.get(which).map(|request| Request { kind: Kind::Trim, ..*request })
    }

    /// A page that is being written to a member.
    fn page_in_a_destage(&mut self) -> Option<u64> {
        let geometry = self.case.geometry;
        let places = self.world.member_writes().into_iter();
        let pages: Vec<u64> = places
            .filter_map(|(member, page)| {
                Some(geometry.page_at(DiskPage { disk: DiskId(member), page })?.0)
            })
            .collect();
        let drawn = self.draws.pressed.below(pages.len().max(1) as u64) as usize;
        pages.get(drawn).copied()
    }

    /// Keeps a write in mind.
    pub(super) fn note_lately(&mut self, request: Request) {
        if self.lately.len() == LATELY {
            self.lately.pop_front();
        }
        self.lately.push_back(request);
    }

    /// Sometimes the host asks for nothing for this many steps, and what was begun ends.
    pub(super) fn pause_of_host(&mut self) -> u64 {
        if !self.case.pressed || self.world.lasts() || self.draws.pressed.below(60) > 0 {
            return 0;
        }
        self.draws.pressed.below(60)
    }

    /// Often a new mirror gets what is copied to it only after the log has come round. A crash
    /// comes later then. Whether that is so.
    pub(super) fn hold_copies(&mut self, copy: u16) -> bool {
        // In the last life too, which is long.
        let may = self.case.pressed && self.world.starved.is_none();
        if !may || self.draws.pressed.below(4) == 0 {
            return false;
        }
        let later = self.draws.pressed.below(2) == 0;
        let longest = if later { 6000 } else { 3000 };
        let until = self.world.operations + 1000 + self.draws.pressed.below(longest);
        // The log may also come round when only the anchor is not on the new one yet.
        let anchors = self.draws.pressed.below(4) == 0;
        let kind = if anchors { Slow::AnchorsOf(copy) } else { Slow::Copies };
        let mut held = self.starved(kind);
        if later && !anchors {
            // The tail follows the parts before it, and the head is where the copy began sooner.
            held.passes = 2 + self.draws.pressed.below(4);
        }
        held.held_until = Some(until);
        self.world.starved = Some(held);
        let end = until + 100 + self.draws.pressed.below(600);
        self.world.crash_at = self.world.crash_at.map(|at| at.max(end));
        self.counts.slow += 1;
        true
    }

    /// Often one of these is slow from now on. A crash comes later then.
    pub(super) fn press(&mut self, kinds: &[Slow]) {
        if !self.may_starve() || self.draws.pressed.below(2) > 0 {
            return;
        }
        let kind = kinds[self.draws.pressed.below(kinds.len() as u64) as usize];
        let mut starved = self.starved(kind);
        if self.draws.pressed.below(2) == 0 {
            starved.until = self.world.operations + self.draws.pressed.below(800);
        }
        self.world.starved = Some(starved);
        let drawn = self.draws.pressed.below(1500);
        let soon = self.world.operations + drawn / 16;
        // In the midst of what it delays, or when nothing else can be done.
        let is_soon = self.draws.pressed.below(2) == 0;
        let when = |at: u64| if is_soon { at.min(soon) } else { at + drawn };
        self.world.crash_at = self.world.crash_at.map(when);
        self.counts.slow += 1;
    }

    /// Whether something may be slow from now on, and the power fail in it.
    fn may_starve(&self) -> bool {
        let nothing_is = self.world.starved.is_none();
        self.case.pressed && nothing_is && self.world.crash_at.is_some()
    }

    fn starved(&self, kind: Slow) -> Starved {
        Starved::new(kind, self.case.seed ^ self.counts.crashes << 48)
    }
}
