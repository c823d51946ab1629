//! Host reads: from the array where the NVS has not every page, from a row's other disks where
//! one has failed or cannot read.

use super::Controller;
use crate::array::geometry::Level;
use crate::array::plan::DiskRun;
use crate::event::Action;
use crate::event::{DiskCommand, Owner};
use crate::request::{HostError, HostRequest, PageRange, RequestId};
use crate::units::{DiskId, Duration, GroupId, Instant, Page};
use alloc::vec::Vec;

/// A host read under way.
#[derive(Clone, Debug)]
pub(crate) struct HostRead {
    request: HostRequest,
    pending: u32,
    /// Groups it reads whole rows of.
    locked: Vec<GroupId>,
    /// What a disk could not read, to be written again from the others.
    repairs: Vec<DiskRun>,
    /// It met rows that were being written: once more when they are done.
    again: bool,
    failed: bool,
    arrived: Instant,
    /// Pages that it brings and that may be cached.
    pub(crate) loads: Vec<u64>,
}

impl HostRead {
    fn new(request: HostRequest, arrived: Instant, loads: Vec<u64>) -> HostRead {
        let (locked, repairs, pending) = (Vec::new(), Vec::new(), 0);
        let (again, failed) = (false, false);
        HostRead { request, pending, locked, repairs, again, failed, arrived, loads }
    }
}

impl Controller {
    pub(crate) fn arrive_read(&mut self, request: HostRequest, actions: &mut Vec<Action>) {
        self.counters.read_requests += 1;
        let PageRange { first, pages } = request.range;
        self.look_up(request.range);
        if self.missing_span(first, pages).is_none() {
            self.counters.read_request_hits += 1;
            actions.push(Action::Reply { id: request.id, result: Ok(()) });
            return;
        }
        self.start_read(request, actions);
    }

    /// Issues the disk reads of a request, or parks it where they cannot be made now.
    pub(crate) fn start_read(&mut self, request: HostRequest, actions: &mut Vec<Action>) {
        let PageRange { first, pages } = request.range;
        let Some((from, to)) = self.missing_span(first, pages) else {
            actions.push(Action::Reply { id: request.id, result: Ok(()) });
            return;
        };
        if !self.faults.failed.is_empty() && self.meets_unsettled(from, to) {
            self.parked.push(request);
            return;
        }
        let loads = self.to_load(from, to);
        let read = HostRead::new(request, self.now, loads);
        let index = match self.idle_reads.pop() {
            Some(index) => {
                self.reads[index as usize] = read;
                index
            }
            None => {
                self.reads.push(read);
                (self.reads.len() - 1) as u32
            }
        };
        self.read_span(index, from, to, actions);
        if self.reads[index as usize].pending == 0 {
            // Only lost pages, and no disks to tell them by.
            self.reads[index as usize].failed = true;
            self.end_read(index, actions);
        }
    }

    /// Issues the reads of a span, strip by strip; where there is a read cache, without what it or
    /// the NVS has at the ends of each.
    fn read_span(&mut self, index: u32, from: Page, to: Page, actions: &mut Vec<Action>) {
        let mut page = from;
        let mut last: Option<DiskCommand> = None;
        while page <= to {
            let rest = self.geometry.strip_pages - page.0 % self.geometry.strip_pages;
            let length = rest.min(to.0 - page.0 + 1);
            let next = page.offset(length);
            let Some((page_from, pages)) = self.wanted(page, length) else {
                page = next;
                continue;
            };
            let command = self.read_command(page_from, pages, index);
            if self.faults.lost(command.disk, command.first) {
                self.read_around(index, run_of(&command), actions);
            } else {
                match &mut last {
                    Some(run) if run.disk == command.disk && end(run) == command.first => {
                        run.pages += command.pages;
                    }
                    _ => self.submit_read(last.replace(command), actions),
                }
            }
            page = next;
        }
        self.submit_read(last, actions);
    }

    /// What is to be read of a strip.
    fn wanted(&self, first: Page, pages: u64) -> Option<(Page, u32)> {
        if self.clean.is_none() {
            return Some((first, pages as u32));
        }
        let (from, to) = self.missing_span(first, pages as u32)?;
        Some((from, (to.0 - from.0 + 1) as u32))
    }

    fn meets_unsettled(&self, from: Page, to: Page) -> bool {
        let groups = self.cache.directory.group_of(from).0..=self.cache.directory.group_of(to).0;
        groups.into_iter().any(|group| self.is_unsettled(GroupId(group)))
    }

    /// Whether rows of this group may not belong together now, or may be written again.
    fn is_unsettled(&self, group: GroupId) -> bool {
        // One that is kept stays so for as long as something cannot be read: it is not waited for.
        let changes = self.destager.unsettled(group) && !self.destager.is_kept_unsettled(group);
        changes || self.faults.locks.held(group)
    }

    fn submit_read(&mut self, command: Option<DiskCommand>, actions: &mut Vec<Action>) {
        let Some(command) = command else { return };
        if let Owner::HostRead(index) = command.owner {
            self.reads[index as usize].pending += 1;
        }
        self.counters.disk_reads += u64::from(!command.write);
        self.counters.disk_writes += u64::from(command.write);
        self.dispatch.submit(command, actions);
    }

    /// Reads the row's other disks in the stead of one.
    fn read_around(&mut self, index: u32, run: DiskRun, actions: &mut Vec<Action>) {
        let mut peers = self.geometry.peers(run, &self.faults.at(run.first));
        if (run.first..run.first + u64::from(run.pages)).any(|page| self.is_in_doubt(page)) {
            // The row may be written in part: what it implies may be wrong.
            peers.clear();
        }
        let read = &mut self.reads[index as usize];
        read.failed |= peers.is_empty();
        let groups = self.groups_of(run);
        for group in groups.map(GroupId) {
            self.faults.locks.lock(group);
            self.reads[index as usize].locked.push(group);
        }
        if !peers.is_empty() {
            actions.push(Action::ReadRows { index, first: run.first, pages: run.pages });
        }
        for DiskRun { disk, first, pages } in peers {
            let owner = Owner::HostRead(index);
            let command = DiskCommand { disk, first, pages, write: false, owner };
            self.submit_read(Some(command), actions);
        }
    }

    fn groups_of(&self, run: DiskRun) -> core::ops::RangeInclusive<u64> {
        let last = run.first + u64::from(run.pages) - 1;
        match self.geometry.level {
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                let group = |page| self.geometry.row_of_disk_page(page).0.0;
                group(run.first)..=group(last)
            }
            _ => {
                let pair = u64::from(run.disk.0 / 2);
                let strip = |page: u64| {
                    (page / self.geometry.strip_pages) * self.geometry.data_strips() + pair
                };
                strip(run.first)..=strip(last)
            }
        }
    }

    /// A read of a host's request failed on a disk that others may still read from.
    pub(crate) fn read_failed(
        &mut self,
        index: u32,
        command: &DiskCommand,
        actions: &mut Vec<Action>,
    ) {
        let run = run_of(command);
        let read = &self.reads[index as usize];
        if command.write || read.failed {
            // A repair that could not be written, or nothing more to try.
        } else if self.groups_of(run).any(|group| self.is_unsettled(GroupId(group))) {
            self.reads[index as usize].again = true;
        } else if self.faults.lost(run.disk, run.first) {
            self.read_around(index, run, actions);
        } else if run.pages > 1 {
            // Some of them can perhaps be read.
            for DiskRun { disk, first, pages } in run.single_pages() {
                let command = DiskCommand { disk, first, pages, ..*command };
                self.submit_read(Some(command), actions);
            }
        } else if !read.repairs.contains(&run) {
            let of_row = read.repairs.iter().filter(|repair| repair.first == run.first).count();
            // More of one row than its redundancy bears.
            let too_many = of_row >= usize::from(self.geometry.bears_failures());
            let read = &mut self.reads[index as usize];
            read.repairs.push(run);
            if too_many && self.geometry.level != Level::Raid10 {
                read.failed = true;
            } else {
                self.read_around(index, run, actions);
            }
        }
        self.read_done(index, actions);
    }

    pub(crate) fn read_done(&mut self, index: u32, actions: &mut Vec<Action>) {
        let read = &mut self.reads[index as usize];
        read.pending -= 1;
        if read.pending > 0 {
            return;
        }
        let repairs = core::mem::take(&mut read.repairs);
        if repairs.is_empty() || read.failed || read.again {
            self.end_read(index, actions);
            return;
        }
        for DiskRun { disk, first, pages } in repairs {
            let owner = Owner::HostRead(index);
            let command = DiskCommand { disk, first, pages, write: true, owner };
            self.submit_read(Some(command), actions);
        }
    }

    fn end_read(&mut self, index: u32, actions: &mut Vec<Action>) {
        let read = &mut self.reads[index as usize];
        let (request, again, failed) = (read.request, read.again, read.failed);
        let locked = core::mem::take(&mut read.locked);
        if again {
            actions.push(Action::ReadAgain { index, id: request.id });
            self.parked.push(request);
        } else {
            let result = if failed { Err(HostError::Unreadable) } else { Ok(()) };
            if !failed {
                let read = &mut self.reads[index as usize];
                let (loads, took) =
                    (core::mem::take(&mut read.loads), self.now.since(read.arrived));
                self.read_mean = Duration((self.read_mean.0 * 15 + took.0) / 16);
                self.load(&loads, request.id, actions);
            }
            actions.push(Action::Reply { id: request.id, result });
        }
        self.idle_reads.push(index);
        for group in locked {
            if self.faults.locks.unlock(group) {
                self.unlocked(group, actions);
            }
        }
        if again {
            // What it met may be done by now.
            self.retry_parked(actions);
        }
    }

    /// Tries again the reads that met rows which were being written.
    pub(crate) fn retry_parked(&mut self, actions: &mut Vec<Action>) {
        for request in core::mem::take(&mut self.parked) {
            let PageRange { first, pages } = request.range;
            let span = self.missing_span(first, pages);
            if span.is_some_and(|(from, to)| self.meets_unsettled(from, to)) {
                self.parked.push(request);
            } else {
                actions.push(Action::ReadNow { id: request.id, missing: span });
                self.start_read(request, actions);
            }
        }
    }

    /// A read of pages in one strip; on RAID-10 from the mirror with the shorter queue, then the
    /// nearer head.
    fn read_command(&self, page: Page, pages: u32, index: u32) -> DiskCommand {
        let place = self.geometry.place(page);
        let mut disk = place.disk;
        if self.geometry.level == Level::Raid10 {
            let failed = |disk| self.faults.lost(disk, place.page);
            let cost = |disk| {
                let length = self.dispatch.length(disk);
                (failed(disk), length, self.dispatch.distance(disk, place.page))
            };
            let mirror = DiskId(disk.0 + 1);
            if cost(mirror) < cost(disk) {
                disk = mirror;
            }
        }
        let owner = Owner::HostRead(index);
        DiskCommand { disk, first: place.page, pages, write: false, owner }
    }

    /// The request that a host read's commands belong to.
    #[must_use]
    pub fn read_id(&self, index: u32) -> RequestId {
        self.reads[index as usize].request.id
    }
}

fn end(command: &DiskCommand) -> u64 {
    command.first + u64::from(command.pages)
}

fn run_of(command: &DiskCommand) -> DiskRun {
    let DiskCommand { disk, first, pages, .. } = *command;
    DiskRun { disk, first, pages }
}
