//! Host reads: from the array if the NVS and the read cache do not have every page; from a row's
//! other disks if one has failed or cannot read.

use crate::array::plan::DiskRun;
use crate::conditions::{Arrivals, WaitingReads};
use crate::destage::{Destager, Surroundings};
use crate::event::{Action, DiskCommand, Owner};
use crate::request::{HostError, HostRequest, PageRange, RequestId};
use crate::units::{DiskId, Duration, GroupId, Instant, Page};
use alloc::vec::Vec;

/// A host read in progress.
#[derive(Clone, Debug)]
struct HostRead {
    request: HostRequest,
    ticket: u64,
    /// Disk commands outstanding.
    pending: u32,
    /// Groups of which it reads complete rows.
    locked: Vec<GroupId>,
    /// What a disk could not read, to be rewritten from the others.
    repairs: Vec<DiskRun>,
    /// It met rows that were being written: it is repeated when they are done.
    again: bool,
    failed: bool,
    started: Instant,
    /// Pages that it may put into the read cache.
    loads: Vec<u64>,
}

/// The host reads that wait for disks.
#[derive(Default)]
pub(super) struct HostReads {
    reads: Vec<HostRead>,
    idle: Vec<u32>,
    /// Requests, with their tickets, that wait for rows to be consistent.
    parked: Vec<(HostRequest, u64)>,
    arrivals: Arrivals,
    /// Mean recent response time of reads from disk.
    mean: Duration,
}

impl HostReads {
    pub(super) fn arrive(
        &mut self,
        request: HostRequest,
        destager: &mut Destager,
        around: &mut Surroundings<'_>,
    ) {
        around.state.counters.read_requests += 1;
        let directory = &around.cache.directory;
        let held = directory.missing(request.range.first, 1) == 0;
        destager.count_reuse(u64::from(held), 1);
        around.read_cache.look_up(request.range, directory, &mut around.state.counters);
        if missing_span(request.range, around).is_none() {
            around.state.counters.read_request_hits += 1;
            around.actions.push(Action::Reply { id: request.id, result: Ok(()) });
            return;
        }
        let ticket = self.arrivals.add(around.state.now);
        self.start(request, ticket, destager, around);
    }

    /// The reads that wait for disks, for policies and rates.
    pub(super) fn waiting(&self) -> WaitingReads {
        self.arrivals.waiting()
    }

    /// Whether reads wait for rows to be consistent.
    pub(super) fn any_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Mean recent response time of reads from disk.
    pub(super) fn mean(&self) -> Duration {
        self.mean
    }

    /// A rebuild's window passed: without reads the mean goes down.
    pub(super) fn decay_mean(&mut self) {
        self.mean = Duration(self.mean.0 - self.mean.0 / 8);
    }

    /// Pages were written: what is being read of them is old, and is not cached.
    pub(super) fn drop_loads(&mut self, range: PageRange) {
        let gone = range.first.0..range.end().0;
        for read in &mut self.reads {
            read.loads.retain(|page| !gone.contains(page));
        }
    }

    /// There is another read cache: what is being read is not cached.
    pub(super) fn drop_all_loads(&mut self) {
        self.reads.iter_mut().for_each(|read| read.loads.clear());
    }

    /// Issues the disk reads of a request, or parks it if they cannot be made now.
    fn start(
        &mut self,
        request: HostRequest,
        ticket: u64,
        destager: &mut Destager,
        around: &mut Surroundings<'_>,
    ) {
        let Some((from, to)) = missing_span(request.range, around) else {
            self.arrivals.remove(ticket);
            around.actions.push(Action::Reply { id: request.id, result: Ok(()) });
            return;
        };
        if !around.state.faults.failed.is_empty() && has_to_wait(from, to, destager, around) {
            self.parked.push((request, ticket));
            return;
        }
        let read = HostRead {
            request,
            ticket,
            pending: 0,
            locked: Vec::new(),
            repairs: Vec::new(),
            again: false,
            failed: false,
            started: around.state.now,
            loads: around.read_cache.to_load(from, to, &around.cache.directory),
        };
        let index = match self.idle.pop() {
            Some(index) => {
                self.reads[index as usize] = read;
                index
            }
            None => {
                self.reads.push(read);
                (self.reads.len() - 1) as u32
            }
        };
        self.read_span(index, from, to, destager, around);
        if self.reads[index as usize].pending == 0 {
            // Only lost pages, and no disks to compute them from.
            self.reads[index as usize].failed = true;
            self.end(index, destager, around);
        }
    }

    /// Issues the reads of a span, strip by strip. With a read cache, pages at both ends of a strip
    /// that it or the NVS has are left out.
    fn read_span(
        &mut self,
        index: u32,
        from: Page,
        to: Page,
        destager: &Destager,
        around: &mut Surroundings<'_>,
    ) {
        let mut last: Option<DiskCommand> = None;
        for (page, length) in strips(from, to, around.state.geometry.strip_pages) {
            let Some((page_from, pages)) = wanted(page, length, around) else { continue };
            let command = read_command(page_from, pages, index, around);
            if around.state.faults.lost(command.disk, command.first) {
                self.read_around(index, run_of(&command), destager, around);
            } else {
                match &mut last {
                    Some(run) if run.disk == command.disk && end(run) == command.first => {
                        run.pages += command.pages;
                    }
                    _ => {
                        let before = last.replace(command).as_ref().map(run_of);
                        self.submit(index, before.as_slice(), false, around);
                    }
                }
            }
        }
        self.submit(index, last.as_ref().map(run_of).as_slice(), false, around);
    }

    fn submit(&mut self, index: u32, runs: &[DiskRun], write: bool, around: &mut Surroundings<'_>) {
        self.reads[index as usize].pending += runs.len() as u32;
        around.state.submit(Owner::HostRead(index), runs, write, around.actions);
    }

    /// Reads the row's other disks instead of one.
    fn read_around(
        &mut self,
        index: u32,
        run: DiskRun,
        destager: &Destager,
        around: &mut Surroundings<'_>,
    ) {
        let state = &mut around.state;
        let mut peers = state.geometry.peers(run, &state.faults.at(run.first));
        if (run.first..run.end()).any(|page| destager.is_in_doubt(&state.geometry, page)) {
            if run.pages > 1 {
                // Perhaps only some of them.
                for page in run.single_pages() {
                    self.read_around(index, page, destager, around);
                }
                return;
            }
            // The row may be partly written: what it implies may be wrong.
            peers.clear();
        }
        let read = &mut self.reads[index as usize];
        read.failed |= peers.is_empty();
        for group in state.geometry.groups_of_run(run).map(GroupId) {
            state.faults.locks.lock(group);
            read.locked.push(group);
        }
        if !peers.is_empty() {
            around.actions.push(Action::ReadRows { index, first: run.first, pages: run.pages });
        }
        self.submit(index, &peers, false, around);
    }

    /// A read of a host's request failed on a disk. Other disks may still have the data.
    pub(super) fn on_disk_error(
        &mut self,
        index: u32,
        command: &DiskCommand,
        destager: &mut Destager,
        around: &mut Surroundings<'_>,
    ) {
        let run = run_of(command);
        let read = &mut self.reads[index as usize];
        let mut groups = around.state.geometry.groups_of_run(run);
        if command.write {
            // A repair that could not be written.
        } else if groups.any(|group| is_unsettled(GroupId(group), destager, around)) {
            read.again = true;
        } else if around.state.faults.lost(run.disk, run.first) {
            self.read_around(index, run, destager, around);
        } else if run.pages > 1 {
            // Some of them can perhaps be read.
            let singles: Vec<DiskRun> = run.single_pages().collect();
            self.submit(index, &singles, command.write, around);
        } else if !read.repairs.contains(&run) {
            let of_row = read.repairs.iter().filter(|repair| repair.first == run.first).count();
            let level = around.state.geometry.level;
            // More of one row than the level tolerates.
            let too_many = of_row >= usize::from(level.tolerates()) && !level.is_mirrored();
            read.repairs.push(run);
            if too_many {
                read.failed = true;
            } else {
                self.read_around(index, run, destager, around);
            }
        }
        self.on_disk_done(index, destager, around);
    }

    pub(super) fn on_disk_done(
        &mut self,
        index: u32,
        destager: &mut Destager,
        around: &mut Surroundings<'_>,
    ) {
        let read = &mut self.reads[index as usize];
        read.pending -= 1;
        if read.pending > 0 {
            return;
        }
        let repairs = core::mem::take(&mut read.repairs);
        if repairs.is_empty() || read.failed || read.again {
            self.end(index, destager, around);
        } else {
            self.submit(index, &repairs, true, around);
        }
    }

    fn end(&mut self, index: u32, destager: &mut Destager, around: &mut Surroundings<'_>) {
        let read = &mut self.reads[index as usize];
        let (request, again, failed) = (read.request, read.again, read.failed);
        let locked = core::mem::take(&mut read.locked);
        if again {
            around.actions.push(Action::ReadAgain { index, id: request.id });
            self.parked.push((request, read.ticket));
        } else {
            self.arrivals.remove(read.ticket);
            let result = if failed { Err(HostError::Unreadable) } else { Ok(()) };
            if !failed {
                let took = around.state.now.since(read.started);
                self.mean = Duration((self.mean.0 * 15 + took.0) / 16);
                let loads = core::mem::take(&mut read.loads);
                let directory = &around.cache.directory;
                around.read_cache.load(&loads, request.id, directory, around.actions);
            }
            around.actions.push(Action::Reply { id: request.id, result });
        }
        self.idle.push(index);
        for group in locked {
            if around.state.faults.locks.unlock(group) {
                destager.on_group_unlocked(group, around);
            }
        }
        if again {
            // What it met may be done by now.
            self.retry_parked(destager, around);
        }
    }

    /// Repeats the reads that met rows which were being written.
    pub(super) fn retry_parked(&mut self, destager: &mut Destager, around: &mut Surroundings<'_>) {
        for (request, ticket) in core::mem::take(&mut self.parked) {
            let missing = missing_span(request.range, around);
            if missing.is_some_and(|(from, to)| has_to_wait(from, to, destager, around)) {
                self.parked.push((request, ticket));
            } else {
                let id = request.id;
                around.actions.push(Action::ReadNow { id, missing });
                for range in missing.map_or(Vec::new(), |span| left_out(span, around)) {
                    around.actions.push(Action::LeftOut { id, range });
                }
                self.start(request, ticket, destager, around);
            }
        }
    }

    /// The request that a host read's commands belong to.
    pub(super) fn id(&self, index: u32) -> RequestId {
        self.reads[index as usize].request.id
    }
}

/// First and last page of a range that must be read from the disks.
fn missing_span(range: PageRange, around: &Surroundings<'_>) -> Option<(Page, Page)> {
    around.read_cache.missing_span(range.first, range.pages, &around.cache.directory)
}

/// The pages of a span that [`HostReads::read_span`] leaves out.
fn left_out((from, to): (Page, Page), around: &Surroundings<'_>) -> Vec<PageRange> {
    let mut out = Vec::new();
    for (page, length) in strips(from, to, around.state.geometry.strip_pages) {
        let next = page.offset(length);
        let (first, pages) = wanted(page, length, around).unwrap_or((next, 0));
        let behind = first.offset(u64::from(pages));
        for (first, end) in [(page, first), (behind, next)] {
            if first < end {
                out.push(PageRange::new(first, (end.0 - first.0) as u32));
            }
        }
    }
    out
}

/// A span, cut where strips end: first page and pages of each part.
fn strips(from: Page, to: Page, strip_pages: u64) -> impl Iterator<Item = (Page, u64)> {
    let mut next = from;
    core::iter::from_fn(move || {
        let page = next;
        let rest = strip_pages - page.0 % strip_pages;
        let length = rest.min((to.0 + 1).checked_sub(page.0)?);
        next = page.offset(length);
        (length > 0).then_some((page, length))
    })
}

/// The pages of a strip that must be read.
fn wanted(first: Page, pages: u64, around: &Surroundings<'_>) -> Option<(Page, u32)> {
    if !around.read_cache.is_on() {
        return Some((first, pages as u32));
    }
    let (from, to) = missing_span(PageRange::new(first, pages as u32), around)?;
    Some((from, (to.0 - from.0 + 1) as u32))
}

/// Whether a read of this span can only begin later: it meets rows that are being written, or would
/// lock rows that a destage is about to write when those who have them locked are done.
fn has_to_wait(from: Page, to: Page, destager: &Destager, around: &Surroundings<'_>) -> bool {
    let directory = &around.cache.directory;
    let mut groups = directory.group_of(from).0..=directory.group_of(to).0;
    let joins = |page: Page| {
        let command = read_command(page, 1, 0, around);
        around.state.faults.lost(command.disk, command.first)
            && destager.waits_for_reads(directory.group_of(page))
    };
    groups.any(|group| is_unsettled(GroupId(group), destager, around))
        || strips(from, to, around.state.geometry.strip_pages).any(|(page, _)| joins(page))
}

/// Whether rows of this group may be inconsistent now, or may be rewritten.
fn is_unsettled(group: GroupId, destager: &Destager, around: &Surroundings<'_>) -> bool {
    // A kept one stays so for as long as something cannot be read: reads do not wait for it.
    let changes = destager.unsettled(group) && !destager.is_kept_unsettled(group);
    changes || around.state.faults.locks.held(group)
}

/// A read of pages in one strip; on a mirrored level from the copy with the shorter queue, then
/// with the nearer head, unless the copies may differ.
fn read_command(page: Page, pages: u32, index: u32, around: &Surroundings<'_>) -> DiskCommand {
    let state = &around.state;
    let place = state.geometry.place(page);
    let mut disk = place.disk;
    if state.geometry.level.is_mirrored() {
        let cost = |disk| {
            let lost = state.faults.lost(disk, place.page);
            let any = !state.faults.copies_differ;
            let length = any.then(|| state.dispatch.length(disk));
            (lost, length, any.then(|| state.dispatch.distance(disk, place.page)))
        };
        let mirror = DiskId(disk.0 + 1);
        if cost(mirror) < cost(disk) {
            disk = mirror;
        }
    }
    let owner = Owner::HostRead(index);
    DiskCommand { disk, first: place.page, pages, write: false, owner }
}

fn end(command: &DiskCommand) -> u64 {
    command.first + u64::from(command.pages)
}

fn run_of(command: &DiskCommand) -> DiskRun {
    let DiskCommand { disk, first, pages, .. } = *command;
    DiskRun { disk, first, pages }
}
