//! Writes, zeros and trims: split into parts that the engine knows as requests, pages that are
//! written in part completed first, bytes put into memory and log.

use crate::Buffer;
use crate::log::Waiter;
use crate::memory::PAGE;
use crate::reads::For;
use crate::request::Refusal;
use crate::settings::Ack;
use crate::volume::{Given, Part, Volume};
use destage_engine::event::Event;
use destage_engine::request::{Direction, HostRequest, PageRange, RequestId};
use destage_engine::units::{PAGE_BYTES, Page};
use destage_nvslog::record::Pages;
use std::collections::VecDeque;

/// Most pages of one part of a write: what a commit takes.
const PART_PAGES: u64 = 256;
/// Most pages of one part of a trim or of zeros.
const CLEAR_PAGES: u64 = 16_384;

/// Pages of a write that are admitted at once, at an NVS of so many pages.
#[must_use]
pub fn part_pages(nvs_pages: u64) -> u64 {
    PART_PAGES.min(nvs_pages / 4).max(1)
}

/// A part of a write.
pub(crate) struct Write {
    pub(crate) whole: u64,
    pub(crate) range: PageRange,
    /// First byte in the first page.
    skip: usize,
    /// `None`: zeros.
    data: Option<Data>,
    /// Pages still to be completed.
    fills: u32,
}

/// Bytes of a write.
enum Data {
    /// They are what was given with it, which lasts as long as the call.
    Given,
    /// They are kept until the write is logged.
    Kept(Vec<u8>),
}

/// The other bytes of a page that is written in part.
#[derive(Default)]
pub(crate) struct Fill {
    number: u64,
    /// The page as it is now, once it is known.
    bytes: Option<Buffer>,
    /// Parts that wait for it, or have still to be logged.
    users: Vec<u64>,
}

/// A request that is answered when pages are on the disks.
pub(crate) struct Through {
    pub(crate) whole: u64,
    /// The pages that are not yet, each with the oldest write that will do.
    pub(crate) waits: Vec<(u64, u64)>,
}

/// Parts of a request that come one after another.
pub(crate) struct Rest {
    ranges: VecDeque<PageRange>,
    zeros: bool,
}

impl Volume {
    /// A write of any bytes.
    pub(crate) fn write(&mut self, whole: u64, offset: u64, payload: &[u8]) {
        let part_bytes = part_pages(self.controller.directory().capacity().0) * PAGE_BYTES;
        let (mut at, end) = (offset, offset + payload.len() as u64);
        while at < end {
            // Parts end where pages do.
            let next = ((at / PAGE_BYTES * PAGE_BYTES) + part_bytes).min(end);
            let bytes = &payload[(at - offset) as usize..(next - offset) as usize];
            self.write_part(whole, at, bytes);
            at = next;
        }
    }

    fn write_part(&mut self, whole: u64, offset: u64, bytes: &[u8]) {
        let first = offset / PAGE_BYTES;
        let end = (offset + bytes.len() as u64).div_ceil(PAGE_BYTES);
        let skip = (offset % PAGE_BYTES) as usize;
        let range = PageRange::new(Page(first), (end - first) as u32);
        let data = Some(Data::Given);
        let write = Write { whole, range, skip, data, fills: 0 };
        self.wholes.get_mut(whole).parts += 1;
        let id = self.parts.insert(Part::Write(write));
        let whole_pages = bytes.len() == (end - first) as usize * PAGE;
        if whole_pages {
            self.write_to_engine(id, range, bytes);
            self.keep(id, bytes);
        } else {
            self.keep(id, bytes);
            self.complete_edges(id, offset, bytes.len());
        }
    }

    /// Copies the bytes of a write that is not logged yet.
    pub(crate) fn keep(&mut self, id: u64, bytes: &[u8]) {
        if let Some(Part::Write(Write { data: Some(data @ Data::Given), .. })) =
            self.parts.get_if(id)
        {
            *data = Data::Kept(bytes.to_vec());
        }
    }

    /// `given`: its bytes, if they are not kept.
    fn write_to_engine(&mut self, id: u64, range: PageRange, given: &[u8]) {
        let direction = Direction::Write;
        self.step_given(
            Event::Host(HostRequest { id: RequestId(id), direction, range }),
            (id, given),
        );
    }

    /// Sees to it that the first and the last page of a write can be completed; it goes on when
    /// they are.
    fn complete_edges(&mut self, id: u64, offset: u64, bytes: usize) {
        let end = offset + bytes as u64;
        let (first, last) = (offset / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        let head =
            !offset.is_multiple_of(PAGE_BYTES) || first == last && !end.is_multiple_of(PAGE_BYTES);
        let tail = first != last && !end.is_multiple_of(PAGE_BYTES);
        let mut waits = 0;
        let mut reads = Vec::new();
        for (page, partial) in [(first, head), (last, tail)] {
            if !partial {
                continue;
            }
            let newest = self.memory.newest(page).map(Buffer::copy_of);
            let known = self.fills.contains_key(&page);
            let fill = self.fills.entry(page).or_default();
            fill.users.push(id);
            if !known {
                self.fills_begun += 1;
                (fill.number, fill.bytes) = (self.fills_begun, newest);
                reads.extend(fill.bytes.is_none().then_some((page, fill.number)));
            }
            waits += u32::from(fill.bytes.is_none());
        }
        if let Part::Write(write) = self.parts.get_mut(id) {
            // One more, for what may be read or refused before this ends.
            write.fills = waits + 1;
        }
        for (page, number) in reads {
            self.read_pages(For::Fill { page, number }, page, 1, 0, PAGE);
        }
        self.one_filled(id);
    }

    /// One page less that a write waits for.
    fn one_filled(&mut self, id: u64) {
        if let Some(Part::Write(write)) = self.parts.get_if(id)
            && write.fills > 0
        {
            write.fills -= 1;
            if write.fills == 0 {
                let range = write.range;
                self.write_to_engine(id, range, &[]);
            }
        }
    }

    /// A page that is to be completed was read, for this of its fills.
    pub(crate) fn filled(&mut self, page: u64, number: u64, bytes: Buffer, error: Option<Refusal>) {
        let Some(fill) = self.fills.get_mut(&page) else { return };
        if fill.bytes.is_some() || fill.number != number {
            // It has been written meanwhile, which is newer. It may even be on the disks since,
            // and another write be waiting for a read of its own.
            return;
        }
        if let Some(error) = error {
            let users = self.fills.remove(&page).map(|fill| fill.users).unwrap_or_default();
            users.into_iter().for_each(|id| self.give_up_write(id, page, error));
            return;
        }
        fill.bytes = Some(bytes);
        self.fill_known(page);
    }

    fn give_up_write(&mut self, id: u64, page: u64, error: Refusal) {
        let Part::Write(write) = self.parts.remove(id) else { unreachable!("a fill's user") };
        for other in [write.range.first.0, write.range.end().0 - 1] {
            if other != page {
                self.leave_fill(other, id);
            }
        }
        self.part_done(write.whole, Some(error));
    }

    fn leave_fill(&mut self, page: u64, id: u64) {
        if let Some(fill) = self.fills.get_mut(&page) {
            fill.users.retain(|user| *user != id);
            if fill.users.is_empty() {
                self.fills.remove(&page);
            }
        }
    }

    /// Lets the parts go on that waited for this page.
    fn fill_known(&mut self, page: u64) {
        let users = self.fills.get(&page).map(|fill| fill.users.clone()).unwrap_or_default();
        users.into_iter().for_each(|id| self.one_filled(id));
    }

    /// The engine has room for a write or a discard: its bytes go into memory and log.
    /// `given`: bytes of the write of this number that are not kept.
    pub(crate) fn append(&mut self, id: RequestId, given: Given<'_>) {
        match self.parts.get_mut(id.0) {
            Part::Discard { range, .. } => {
                let range = *range;
                let version = self.log.clear(pages_of(range), false);
                for page in range.first.0..range.end().0 {
                    if self.memory.current(page).is_some_and(|held| held.version < version) {
                        self.memory.drop_current(page);
                        self.through_page(page, version);
                    }
                }
            }
            Part::Write(write) => {
                let range = write.range;
                match write.data.take() {
                    None => self.append_zeros(range),
                    Some(Data::Given) => {
                        assert_eq!(given.0, id.0, "bytes of another write");
                        self.append_bytes(id.0, given.1);
                    }
                    Some(Data::Kept(bytes)) => self.append_bytes(id.0, &bytes),
                }
            }
            Part::Read(_) => unreachable!("a read appends nothing"),
        }
        self.look_through();
        if self.settings.ack == Ack::Flush && !self.log.lost() {
            self.step(Event::NvsDone(id));
        } else {
            self.log.wait(Waiter::Append(id));
        }
    }

    fn append_zeros(&mut self, range: PageRange) {
        let version = self.log.clear(pages_of(range), true);
        for page in range.first.0..range.end().0 {
            self.memory.put_zeros(page, version);
            self.overtake_fill(page, &[0; PAGE]);
        }
    }

    fn append_bytes(&mut self, id: u64, bytes: &[u8]) {
        self.log.begin_write();
        let Some(Part::Write(write)) = self.parts.get(id) else { unreachable!("a write") };
        let (range, skip) = (write.range, write.skip);
        let mut at = 0;
        for page in range.first.0..range.end().0 {
            let from = if page == range.first.0 { skip } else { 0 };
            let length = (PAGE - from).min(bytes.len() - at);
            let part = &bytes[at..at + length];
            at += length;
            if length == PAGE {
                self.append_page(page, part);
            } else {
                let mut merged = [0; PAGE];
                merged.copy_from_slice(self.base_of(page));
                merged[from..from + length].copy_from_slice(part);
                self.append_page(page, &merged);
                self.leave_fill(page, id);
            }
        }
    }

    /// What a page holds that is about to be written in part.
    fn base_of(&self, page: u64) -> &[u8] {
        let fill = || self.fills.get(&page).and_then(|fill| fill.bytes.as_deref());
        self.memory.newest(page).or_else(fill).expect("the page was completed")
    }

    fn append_page(&mut self, page: u64, bytes: &[u8]) {
        let version = self.log.data(page, bytes);
        self.memory.put(page, version, bytes);
        self.overtake_fill(page, bytes);
    }

    /// A page was written whole: that is what later partial writes go into, whatever the disks
    /// still hold.
    fn overtake_fill(&mut self, page: u64, bytes: &[u8]) {
        if self.fills.is_empty() {
            return;
        }
        let Some(fill) = self.fills.get_mut(&page) else { return };
        let waited = fill.bytes.is_none();
        fill.bytes = Some(Buffer::copy_of(bytes));
        if waited {
            self.fill_known(page);
        }
    }

    /// The engine has answered a write.
    pub(crate) fn write_answered(&mut self, write: Write, error: Option<Refusal>) {
        let Write { whole, range, .. } = write;
        if (self.log.lost() || self.settings.cache_off) && error.is_none() {
            self.answer_when_on_disk(whole, range.first.0..range.end().0);
        } else {
            self.part_done(whole, error);
        }
    }

    /// Has a part of a request answered when what is held of some pages now is on the disks.
    pub(crate) fn answer_when_on_disk(&mut self, whole: u64, pages: core::ops::Range<u64>) {
        let held = self.memory.held_in(&pages).into_iter();
        let newest = |page| self.memory.newest_copy(page).map(|held| (page, held.version));
        let waits: Vec<(u64, u64)> = held.filter_map(newest).collect();
        let pages: Vec<u64> = waits.iter().map(|(page, _)| *page).collect();
        self.through.push(Through { whole, waits });
        self.step(Event::Flush);
        self.look_through();
        self.look_for_kept(&pages);
    }

    /// A page is on the disks as the write of this version left it, or needs not to be.
    pub(crate) fn through_page(&mut self, page: u64, version: u64) {
        for through in &mut self.through {
            through.waits.retain(|(waits, least)| *waits != page || *least > version);
        }
    }

    /// Has a request answered when all that was written before is durable.
    pub(crate) fn answer_when_durable(&mut self, whole: u64) {
        if self.log.lost() {
            self.answer_when_on_disk(whole, 0..u64::MAX);
        } else {
            self.log.wait(Waiter::Answer(whole));
        }
    }

    /// Answers the writes that are on the disks now.
    pub(crate) fn look_through(&mut self) {
        if self.faults.changing() {
            return;
        }
        let mut done = Vec::new();
        self.through.retain(|through| {
            if through.waits.is_empty() {
                done.push(through.whole);
            }
            !through.waits.is_empty()
        });
        done.into_iter().for_each(|whole| self.part_done(whole, None));
    }

    /// Zeros over any bytes.
    pub(crate) fn zero(&mut self, whole: u64, offset: u64, bytes: u64) {
        let end = offset + bytes;
        let (first, last) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        if first >= last {
            // No whole page, but perhaps parts of two.
            return self.write(whole, offset, &vec![0; bytes as usize]);
        }
        let head = (first * PAGE_BYTES - offset) as usize;
        let tail = (end - last * PAGE_BYTES) as usize;
        if head > 0 {
            self.write(whole, offset, &vec![0; head]);
        }
        if tail > 0 {
            self.write(whole, last * PAGE_BYTES, &vec![0; tail]);
        }
        let nvs = self.controller.directory().capacity().0;
        let chunk = CLEAR_PAGES.min(nvs / 4).max(1);
        let ranges = (first..last)
            .step_by(chunk as usize)
            .map(|page| PageRange::new(Page(page), chunk.min(last - page) as u32));
        self.one_by_one(whole, Rest { ranges: ranges.collect(), zeros: true });
    }

    /// The whole pages of a range are needed no longer: what is held of them is dropped.
    pub(crate) fn trim(&mut self, whole: u64, offset: u64, bytes: u64) {
        let pages = offset.div_ceil(PAGE_BYTES)..(offset + bytes) / PAGE_BYTES;
        let mut ranges: VecDeque<PageRange> = VecDeque::new();
        for page in self.memory.current_in(&pages) {
            match ranges.back_mut() {
                Some(range) if page - range.first.0 < CLEAR_PAGES => {
                    range.pages = (page - range.first.0) as u32 + 1;
                }
                _ => ranges.push_back(PageRange::new(Page(page), 1)),
            }
        }
        self.one_by_one(whole, Rest { ranges, zeros: false });
    }

    fn one_by_one(&mut self, whole: u64, rest: Rest) {
        self.wholes.get_mut(whole).rest = Some(rest);
        self.next_of_rest(whole);
    }

    /// Begins the next part of those that come one after another; whether there was one.
    pub(crate) fn next_of_rest(&mut self, index: u64) -> bool {
        let whole = self.wholes.get_mut(index);
        let Some(rest) = &mut whole.rest else { return false };
        let (zeros, range) = (rest.zeros, rest.ranges.pop_front());
        let Some(range) = range else {
            whole.rest = None;
            return false;
        };
        whole.parts += 1;
        if zeros {
            let write = Write { whole: index, range, skip: 0, data: None, fills: 0 };
            let id = self.parts.insert(Part::Write(write));
            self.write_to_engine(id, range, &[]);
        } else {
            let id = self.parts.insert(Part::Discard { whole: index, range });
            self.step(Event::Discard(RequestId(id), range));
        }
        true
    }
}

fn pages_of(range: PageRange) -> Pages {
    Pages::new(range.first, range.pages)
}
