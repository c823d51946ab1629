//! The track cache in time, over one disk: `step(now, event, &mut actions)` like the array's
//! controller, with pages and commands in sectors.
//!
//! One clean is in flight at a time, whether a waiting write or the rate asked for it; idle disks
//! are not detected. A write to a track in flight makes its sectors dirty again, and the copy in
//! flight is void when it completes. Writes wait first come first served; one whose sectors are all
//! dirty passes.

use super::{CleanWrites, TrackCache, TrackConfig};
use crate::array::plan::runs;
use crate::conditions::Heads;
use crate::conditions::{Arrivals, Conditions};
use crate::counters::Counters;
use crate::dispatch::{Dispatch, Order};
use crate::event::{Action, Event};
use crate::event::{DiskCommand, Owner};
use crate::request::{Direction, HostError, HostRequest, PageRange, RequestId};
use crate::sequential::Classified;
use crate::units::{DiskId, GroupId, Instant};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// [`Owner::Destage`] of a clean that the rate asked for.
pub const BACKGROUND: u32 = 0;
/// [`Owner::Destage`] of a clean that a write waited for when it began.
pub const FORCED: u32 = 1;

struct Write {
    id: RequestId,
    range: PageRange,
    classified: Classified,
    /// The first sector not yet in the cache.
    next: u64,
    stalled: bool,
    hits: u64,
}

struct Cleaning {
    track: GroupId,
    mask: Vec<u64>,
    pending: u32,
    /// A write came to the track: the copy is out of date.
    void: bool,
}

/// A track cache and its disk's queue.
pub struct TrackController {
    cache: TrackCache,
    per_track: u64,
    disk_sectors: u64,
    clean: CleanWrites,
    dispatch: Dispatch,
    waiting: VecDeque<Write>,
    cleaning: Option<Cleaning>,
    /// Requests of the disk reads, with their tickets.
    reads: Vec<(RequestId, u64)>,
    idle_reads: Vec<u32>,
    arrivals: Arrivals,
    counters: Counters,
    last_first: Option<u64>,
    flushing: bool,
    now: Instant,
}

impl TrackController {
    /// A controller with an empty cache, over a drive that sees `window` commands at once.
    ///
    /// # Errors
    /// See [`TrackCache::new`].
    pub fn new(config: &TrackConfig, window: u32) -> Result<TrackController, String> {
        Ok(TrackController {
            cache: TrackCache::new(config)?,
            per_track: config.sectors_per_track,
            disk_sectors: config.disk_sectors,
            clean: config.clean,
            dispatch: Dispatch::new(1, window, Order::Arrival, 0),
            waiting: VecDeque::new(),
            cleaning: None,
            reads: Vec::new(),
            idle_reads: Vec::new(),
            arrivals: Arrivals::default(),
            counters: Counters::default(),
            last_first: None,
            flushing: false,
            now: Instant::ZERO,
        })
    }

    /// Handles one event at `now`, never earlier than the last.
    pub fn step_with(
        &mut self,
        now: Instant,
        event: Event,
        heads: &dyn Heads,
        actions: &mut Vec<Action>,
    ) {
        assert!(now >= self.now, "time went backwards");
        self.now = now;
        self.counters.events += 1;
        match event {
            Event::Host(request) => self.arrive(request, heads, actions),
            Event::NvsDone(id) => actions.push(Action::Reply { id, result: Ok(()) }),
            Event::DiskDone(disk, owner) => {
                self.dispatch.done(now, disk, owner, actions);
                match owner {
                    Owner::HostRead(index) => {
                        let (id, ticket) = self.reads[index as usize];
                        self.arrivals.remove(ticket);
                        self.idle_reads.push(index);
                        actions.push(Action::Reply { id, result: Ok(()) });
                    }
                    Owner::Destage(_) => self.clean_done(heads, actions),
                    Owner::Rebuild(_) | Owner::Scrub(_) => {
                        unreachable!("{owner:?} for one disk that does not fail")
                    }
                }
            }
            Event::Flush => self.flushing = true,
            other => unreachable!("{other:?} for one disk that does not fail"),
        }
        let seen = conditions(&self.dispatch, &self.arrivals, now, heads);
        if self.cleaning.is_none() && (self.flushing || self.cache.wants_clean(&seen)) {
            self.start_clean(BACKGROUND, heads, actions);
        }
    }

    fn arrive(&mut self, request: HostRequest, heads: &dyn Heads, actions: &mut Vec<Action>) {
        let HostRequest { id, direction, range } = request;
        let sectors = u64::from(range.pages);
        let error = if sectors == 0 {
            Some(HostError::Empty)
        } else if range.first.0 > self.disk_sectors.saturating_sub(sectors) {
            Some(HostError::BeyondVolume { volume_pages: self.disk_sectors })
        } else {
            None
        };
        if let Some(error) = error {
            actions.push(Action::Reply { id, result: Err(error) });
        } else if direction == Direction::Read {
            self.arrive_read(id, range, actions);
        } else {
            self.flushing = false;
            self.arrive_write(id, range, heads, actions);
        }
    }

    fn arrive_read(&mut self, id: RequestId, range: PageRange, actions: &mut Vec<Action>) {
        self.counters.read_requests += 1;
        if self.cache.holds_all(range) {
            self.counters.read_request_hits += 1;
            actions.push(Action::Reply { id, result: Ok(()) });
            return;
        }
        let read = (id, self.arrivals.add(self.now));
        let index = self.idle_reads.pop().unwrap_or_else(|| {
            self.reads.push(read);
            (self.reads.len() - 1) as u32
        });
        self.reads[index as usize] = read;
        self.counters.disk_reads += 1;
        let owner = Owner::HostRead(index);
        let (first, pages) = (range.first.0, range.pages);
        let command = DiskCommand { disk: DiskId(0), first, pages, write: false, owner };
        self.dispatch.submit(self.now, command, actions);
    }

    fn arrive_write(
        &mut self,
        id: RequestId,
        range: PageRange,
        heads: &dyn Heads,
        actions: &mut Vec<Action>,
    ) {
        let classified = self.cache.cache.classify(range);
        let next = range.first.0;
        let mut write = Write { id, range, classified, next, stalled: false, hits: 0 };
        let passes = self.waiting.is_empty()
            || self.cache.directory().missing(range.first, range.pages) == 0;
        if passes && self.advance(&mut write, heads, actions) {
            self.admitted(&write, actions);
        } else {
            self.waiting.push_back(write);
        }
    }

    /// Puts as many parts of a write into the cache as there is room for. Returns whether all are.
    fn advance(&mut self, write: &mut Write, heads: &dyn Heads, actions: &mut Vec<Action>) -> bool {
        while write.next < write.range.end().0 {
            let segment = self.cache.segment(write.range, write.next);
            if let Some(cleaning) = self.cleaning.as_mut().filter(|c| c.track == segment.track) {
                cleaning.void = true;
                let seen = conditions(&self.dispatch, &self.arrivals, self.now, heads);
                self.cache.recall(segment.track, &seen);
            }
            if !self.cache.make_room(segment) {
                self.counters.stalled_writes += u64::from(!write.stalled);
                write.stalled = true;
                if self.cleaning.is_none() {
                    self.start_clean(FORCED, heads, actions);
                }
                return false;
            }
            let seen = conditions(&self.dispatch, &self.arrivals, self.now, heads);
            write.hits += self.cache.write(write.range, segment, write.classified, &seen);
            write.next += segment.sectors;
        }
        true
    }

    fn admitted(&mut self, write: &Write, actions: &mut Vec<Action>) {
        self.cache.cache.end_request(write.classified);
        let sectors = u64::from(write.range.pages);
        let counters = &mut self.counters;
        counters.write_requests += 1;
        counters.write_request_hits += u64::from(write.hits == sectors);
        counters.pages_written += sectors;
        counters.page_hits += write.hits;
        actions.push(Action::NvsAppend { id: write.id, range: write.range });
    }

    fn start_clean(&mut self, owner: u32, heads: &dyn Heads, actions: &mut Vec<Action>) {
        let mut mask = Vec::new();
        if !self.cache.directory().has_pickable() {
            return;
        }
        let seen = conditions(&self.dispatch, &self.arrivals, self.now, heads);
        let Some(picked) = self.cache.pick(&seen, &mut mask) else { return };
        let track = self.cache.directory().first_page(picked.group).0;
        let dirty: Vec<(u64, u64)> = runs(&mask, 0, self.per_track).collect();
        let (first, last) = (dirty[0], dirty[dirty.len() - 1]);
        let writes = match self.clean {
            CleanWrites::Span => Vec::from([(first.0, last.0 + last.1 - first.0)]),
            CleanWrites::Runs => dirty.clone(),
        };
        let counters = &mut self.counters;
        counters.destages += 1;
        counters.destaged_pages += picked.pages;
        counters.destaged_runs += dirty.len() as u64;
        counters.disk_writes += writes.len() as u64;
        let start = track + first.0;
        if let Some(last) = self.last_first.replace(start) {
            counters.destage_distance_pages += last.abs_diff(start);
        }
        let pending = writes.len() as u32;
        self.cleaning = Some(Cleaning { track: picked.group, mask, pending, void: false });
        for (bit, sectors) in writes {
            let (first, pages) = (track + bit, sectors as u32);
            let owner = Owner::Destage(owner);
            let command = DiskCommand { disk: DiskId(0), first, pages, write: true, owner };
            self.dispatch.submit(self.now, command, actions);
        }
    }

    fn clean_done(&mut self, heads: &dyn Heads, actions: &mut Vec<Action>) {
        let cleaning = self.cleaning.as_mut().expect("a clean is in flight");
        cleaning.pending -= 1;
        if cleaning.pending > 0 {
            return;
        }
        let Cleaning { track, mask, void, .. } = self.cleaning.take().expect("just seen");
        if !void {
            self.cache.cleaned(track, &mask);
        }
        while let Some(mut write) = self.waiting.pop_front() {
            if !self.advance(&mut write, heads, actions) {
                self.waiting.push_front(write);
                return;
            }
            self.admitted(&write, actions);
        }
    }

    /// Sectors on a track.
    pub fn sectors_per_track(&self) -> u64 {
        self.per_track
    }

    /// Sectors dirty and in flight.
    pub fn occupancy(&self) -> u64 {
        self.cache.dirty()
    }

    /// Writes waiting for space.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What was counted so far; pages are sectors here.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

fn conditions<'a>(
    dispatch: &'a Dispatch,
    arrivals: &Arrivals,
    now: Instant,
    heads: &'a dyn Heads,
) -> Conditions<'a> {
    let (queues, reads) = (dispatch.lengths(), arrivals.waiting());
    let disks = dispatch.views();
    let pressure = dispatch.pressure();
    Conditions { now, queues, reads, pressure, disks, failed_disks: 0, rebuilding_disks: 0, heads }
}
