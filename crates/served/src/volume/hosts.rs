//! Requests of the host: they are split into what the engine knows as requests, bytes go into
//! memory and log, and reads are put together. A page written in part is completed when it is read
//! or destaged.

use super::{Payload, Volume};
use crate::Buffer;
use crate::defect::Defect;
use crate::disk_waits::IfKept;
use crate::log::Waiter;
use crate::pages::{SECTOR, copy_sectors};
use crate::partial::{Completed, Completion};
use crate::reads::{InMemory, ReadFor, ReadOp, WholePage};
use crate::request::{Alarm, Command, HostId, Refusal, Ticket};
use crate::requests::{EngineOp, Later, Next, Range, WriteBytes, WriteOp, part_pages};
use crate::settings::Ack;
use crate::store::PAGE;
use destage_engine::event::{Bytes, DiskCommand, Event};
use destage_engine::request::{Direction, HostRequest, PageRange, RequestId};
use destage_engine::units::{Instant, PAGE_BYTES, Page};
use destage_nvslog::record::ALL_SECTORS;
use std::collections::VecDeque;

/// Most pages of one part of a trim or of zeros.
const CLEAR_PAGES: u64 = 16_384;

impl Volume {
    /// Takes a request. `payload` has the bytes of a write; otherwise it is empty.
    pub fn submit(&mut self, now: Instant, ticket: Ticket, command: Command, payload: &[u8]) {
        self.ops.set_now(now);
        let (offset, bytes, writes, fua) = match command {
            Command::Read { offset, bytes } => (offset, bytes as u64, false, false),
            Command::Write { offset, fua } => (offset, payload.len() as u64, true, fua),
            Command::Zero { offset, bytes, fua } | Command::Trim { offset, bytes, fua } => {
                (offset, bytes, true, fua)
            }
            Command::Flush => (0, 0, false, true),
        };
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes()) {
            self.requests.refuse(ticket, Refusal::BeyondEnd { writes });
            return;
        }
        if self.devices.stopped() {
            self.requests.refuse(ticket, Refusal::Stopped);
            return;
        }
        // A lost NVS no longer keeps what it had acknowledged.
        let flush = matches!(command, Command::Flush) && !self.at_risk.is_empty();
        let durable = fua && self.settings.ack == Ack::Flush || flush;
        let host = self.requests.begin(ticket, durable);
        match command {
            Command::Read { offset, bytes } => self.read(host, offset, bytes),
            Command::Write { offset, .. } => self.write(host, offset, payload),
            Command::Zero { offset, bytes, .. } => self.zero(host, offset, bytes),
            Command::Trim { offset, bytes, .. } => self.trim(host, offset, bytes),
            Command::Flush => self.flush(host),
        }
        self.part_done(host, None);
    }

    /// A part of a request is done.
    pub(super) fn part_done(&mut self, host: HostId, error: Option<Refusal>) {
        match self.requests.part_done(host, error) {
            Next::Nothing => {}
            Next::Start(range) => self.start_range(host, range),
            Next::MakeDurable => self.answer_when_durable(host),
        }
    }

    fn write(&mut self, host: HostId, offset: u64, payload: &[u8]) {
        let nvs_pages = self.controller().directory().capacity().0;
        let part_bytes = part_pages(nvs_pages) * PAGE_BYTES;
        let (mut at, end) = (offset, offset + payload.len() as u64);
        while at < end {
            // Parts end where pages do.
            let next = ((at / PAGE_BYTES * PAGE_BYTES) + part_bytes).min(end);
            let bytes = &payload[(at - offset) as usize..(next - offset) as usize];
            self.write_part(host, at, bytes);
            at = next;
        }
    }

    fn write_part(&mut self, host: HostId, offset: u64, bytes: &[u8]) {
        let first = offset / PAGE_BYTES;
        let end = (offset + bytes.len() as u64).div_ceil(PAGE_BYTES);
        let skip = (offset % PAGE_BYTES) as usize;
        let range = PageRange::new(Page(first), (end - first) as u32);
        let in_part = (false, false);
        let write =
            WriteOp { host, range, skip, bytes: WriteBytes::Borrowed, in_part, incomplete: 0 };
        self.requests.add_part(host);
        let id = self.requests.insert(EngineOp::Write(write));
        let whole_sectors = (offset | bytes.len() as u64).is_multiple_of(SECTOR as u64);
        if whole_sectors {
            self.step_with(host_write(id, range), Payload { id, bytes });
        }
        self.requests.own_bytes(id, bytes);
        if !whole_sectors {
            self.complete_edges(id, offset, bytes.len());
        }
    }

    /// Completes the first and the last page of a write that begins or ends inside a sector. The
    /// write continues when they are complete.
    fn complete_edges(&mut self, id: RequestId, offset: u64, bytes: usize) {
        let end = offset + bytes as u64;
        // The page behind the write, where it ends with a page: no sector is cut there.
        let (first, last) = (offset / PAGE_BYTES, end / PAGE_BYTES);
        let cut = |byte: u64| !byte.is_multiple_of(SECTOR as u64);
        let (head, tail) = (cut(offset) || first == last && cut(end), first != last && cut(end));
        let mut incomplete = 0;
        let mut reads = Vec::new();
        for (page, _) in [(first, head), (last, tail)].into_iter().filter(|(_, is_cut)| *is_cut) {
            let (known, sectors) = self.known_of(page);
            let newest = || (sectors == ALL_SECTORS).then(|| Buffer::copy_of(&known));
            match self.requests.partial.complete(page, id, newest) {
                Completion::Known => continue,
                Completion::Waits => {}
                Completion::Read(number) => reads.push((page, number)),
            }
            incomplete += 1;
        }
        if let Some(write) = self.requests.write(id) {
            // One more, for what may be read or refused before this ends.
            write.incomplete = incomplete + 1;
        }
        for (page, number) in reads {
            self.read_pages(ReadFor::Partial { page, number }, page, 1, 0, PAGE);
        }
        self.one_completed(id);
    }

    /// A page that a write needs is complete.
    fn one_completed(&mut self, id: RequestId) {
        if let Some(range) = self.requests.one_completed(id) {
            self.step(host_write(id, range));
        }
    }

    /// The read of a page that is completed is done.
    fn partial_read(&mut self, page: u64, number: u64, result: Result<Buffer, Refusal>) {
        match self.requests.partial.read_done(page, number, result) {
            Completed::Overtaken => {}
            Completed::Known(users) => users.into_iter().for_each(|id| self.one_completed(id)),
            Completed::Failed(users, error) => {
                users.into_iter().for_each(|id| self.give_up_write(id, page, error));
            }
        }
    }

    fn give_up_write(&mut self, id: RequestId, page: u64, error: Refusal) {
        let EngineOp::Write(write) = self.requests.remove(id) else {
            unreachable!("only writes complete pages")
        };
        for other in [write.range.first.0, write.range.end().0 - 1] {
            if other != page {
                self.requests.partial.leave(other, id);
            }
        }
        self.part_done(write.host, Some(error));
    }

    /// The engine has room for a write or a trim: it goes into memory and log.
    pub(super) fn append(&mut self, id: RequestId, payload: Option<Payload<'_>>) {
        match self.requests.op(id) {
            EngineOp::Discard { range, .. } => {
                let range = *range;
                self.append_trim(range);
            }
            EngineOp::Write(write) => {
                let (range, skip) = (write.range, write.skip);
                match core::mem::replace(&mut write.bytes, WriteBytes::Zeros) {
                    WriteBytes::Zeros => self.append_zeros(range),
                    WriteBytes::Owned(bytes) => self.append_write(id, range, skip, &bytes),
                    WriteBytes::Borrowed => {
                        let given = payload.filter(|payload| payload.id == id);
                        let bytes = given.expect("the caller's bytes of this write").bytes;
                        self.append_write(id, range, skip, bytes);
                    }
                }
            }
            EngineOp::Read(_) => unreachable!("a read appends nothing"),
        }
        self.answer_written();
        if self.settings.ack == Ack::Flush && !self.appends_wait() {
            let done = self.appended(id);
            self.step(done);
        } else {
            self.appends_waiting += 1;
            self.log.wait(Waiter::Append(id));
        }
    }

    /// Whether writes wait for the log though they need not be durable: a log that is lost, or that
    /// memory would fill with what it has not written. They are answered in order.
    fn appends_wait(&self) -> bool {
        self.log.lost() || self.log.is_behind() || self.appends_waiting > 0
    }

    /// The event that reports a durable write or trim to the engine.
    pub(super) fn appended(&mut self, id: RequestId) -> Event {
        match self.requests.write(id).map(|write| write.in_part) {
            None | Some((false, false)) => Event::NvsDone(id),
            Some((first, last)) => Event::NvsDoneInPart { id, first, last },
        }
    }

    fn append_trim(&mut self, range: PageRange) {
        let version = self.log.clear(range, false);
        for page in range.first.0..range.end().0 {
            if self.pages.current(page).is_some() {
                self.pages.drop_current(page);
                self.requests.disk_waits.page_written(page, version);
                self.at_risk.look_at(page, &self.pages);
            }
        }
    }

    fn append_zeros(&mut self, range: PageRange) {
        let version = self.log.clear(range, true);
        for page in range.first.0..range.end().0 {
            self.pages.put_zeros(page, version);
            self.completed_by(page, &[0; PAGE], ALL_SECTORS);
        }
    }

    fn append_write(&mut self, id: RequestId, range: PageRange, skip: usize, bytes: &[u8]) {
        let in_part = self.append_bytes(range, skip, bytes);
        for page in [range.first.0, range.end().0 - 1] {
            self.requests.partial.leave(page, id);
        }
        if let Some(write) = self.requests.write(id) {
            write.in_part = in_part;
        }
    }

    /// Logs the bytes of a write. Returns whether of its first page, and of its last, only some
    /// sectors are known.
    fn append_bytes(&mut self, range: PageRange, skip: usize, bytes: &[u8]) -> (bool, bool) {
        self.log.begin_write(range.pages as usize);
        let mut at = 0;
        let mut in_part = (false, false);
        let (first, last) = (range.first.0, range.end().0 - 1);
        for page in first..=last {
            let from = if page == first { skip } else { 0 };
            let length = (PAGE - from).min(bytes.len() - at);
            let part = &bytes[at..at + length];
            at += length;
            if length == PAGE {
                self.append_page(page, part, ALL_SECTORS);
                continue;
            }
            let (mut merged, mut sectors) = match self.requests.partial.bytes(page) {
                Some(completed) => (completed.try_into().expect("a page"), ALL_SECTORS),
                None => self.known_of(page),
            };
            merged[from..from + length].copy_from_slice(part);
            let shift = usize::from(self.settings.defect.is(Defect::MisplacesSectors));
            for sector in from / SECTOR..(from + length) / SECTOR {
                sectors |= 1 << ((sector + shift) % 8);
            }
            self.append_page(page, &merged, sectors);
            in_part.0 |= page == first && sectors != ALL_SECTORS;
            in_part.1 |= page == last && sectors != ALL_SECTORS;
        }
        in_part
    }

    /// What memory has of a page that is about to be written in part, and which sectors of it.
    fn known_of(&self, page: u64) -> ([u8; PAGE], u8) {
        let mut bytes = [0; PAGE];
        let InMemory { page, sectors, .. } = self.in_memory(page);
        let mut known = if page.is_some() { ALL_SECTORS } else { 0 };
        if let Some(WholePage::Bytes(whole)) = page {
            bytes.copy_from_slice(whole);
        }
        if let Some((dirty, sectors)) = sectors {
            copy_sectors(dirty, sectors, &mut bytes);
            known |= sectors;
        }
        (bytes, known)
    }

    fn append_page(&mut self, page: u64, bytes: &[u8], sectors: u8) {
        let version = self.log.write_page(page, bytes, sectors);
        self.pages.put(page, version, bytes, sectors);
        self.completed_by(page, bytes, sectors);
    }

    /// Sectors of a page were written: writes to parts of others may no longer wait for a read.
    fn completed_by(&mut self, page: u64, bytes: &[u8], sectors: u8) {
        let waited = self.requests.partial.written(page, bytes, sectors);
        waited.into_iter().for_each(|id| self.one_completed(id));
    }

    /// The engine has answered a write.
    pub(super) fn write_answered(&mut self, write: &WriteOp, error: Option<Refusal>) {
        let WriteOp { host, range, .. } = *write;
        if (self.log.lost() || self.settings.cache_off) && error.is_none() {
            self.answer_when_on_disk(host, range.first.0..range.end().0, IfKept::Refused);
        } else {
            self.part_done(host, error);
        }
    }

    /// Without a log, and if reads may show what is not durable, a flush waits for all that they
    /// may have shown.
    fn flush(&mut self, host: HostId) {
        if self.log.lost() && self.settings.ack == Ack::Flush {
            self.requests.add_part(host);
            self.answer_when_on_disk(host, 0..u64::MAX, IfKept::LeftOut);
        }
    }

    /// A part of a request is done when what is dirty of some pages now is on the disks.
    fn answer_when_on_disk(&mut self, host: HostId, pages: core::ops::Range<u64>, if_kept: IfKept) {
        let held = self.pages.held_in(&pages).into_iter();
        let newest = |page| self.pages.newest_copy(page).map(|held| (page, held.version));
        let waits: Vec<(u64, u64)> = held.filter_map(newest).collect();
        let pages: Vec<u64> = waits.iter().map(|(page, _)| *page).collect();
        self.requests.disk_waits.add(host, waits, if_kept);
        self.step(Event::Flush);
        self.answer_written();
        self.answer_uncomputable_pages(&pages);
    }

    /// A part of a request is done when all that was answered before is durable. A lost log has
    /// left that to the disks.
    fn answer_when_durable(&mut self, host: HostId) {
        if !self.log.lost() {
            return self.log.wait(Waiter::Answer(host));
        }
        self.at_risk.wait(host);
        self.step(Event::Flush);
        self.answer_written();
        self.answer_uncomputable_risks();
    }

    /// What was written before a request is durable.
    pub(super) fn host_durable(&mut self, host: HostId) {
        if self.log.lost() && self.requests.is_unanswered(host) {
            // The log was lost before it had everything: the disks must have it.
            self.answer_when_durable(host);
        } else {
            self.part_done(host, None);
        }
    }

    /// Answers the requests whose pages are on the disks now.
    pub(super) fn answer_written(&mut self) {
        if self.devices.changing() {
            return;
        }
        // With the cache on again, the log has what they wrote.
        let all = !self.log.lost() && !self.settings.cache_off;
        let done = self.requests.disk_waits.take_done(all);
        let done = done.into_iter().chain(self.at_risk.take_done());
        done.for_each(|host| self.part_done(host, None));
    }

    fn zero(&mut self, host: HostId, offset: u64, bytes: u64) {
        let end = offset + bytes;
        let (first, last) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        let nvs_pages = self.controller().directory().capacity().0;
        let in_part = !(offset | end).is_multiple_of(PAGE_BYTES);
        let pages = end.div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
        if first >= last || in_part && pages <= part_pages(nvs_pages) {
            // One commit has it all, as of any write.
            return self.write(host, offset, &vec![0; bytes as usize]);
        }
        let head = (first * PAGE_BYTES - offset) as usize;
        let tail = (end - last * PAGE_BYTES) as usize;
        if head > 0 {
            self.write(host, offset, &vec![0; head]);
        }
        if tail > 0 {
            self.write(host, last * PAGE_BYTES, &vec![0; tail]);
        }
        let chunk = CLEAR_PAGES.min(nvs_pages / 4).max(1);
        self.one_by_one(host, Later::Zeros(first..last, chunk));
    }

    /// The whole pages of a range are no longer needed: what is dirty of them is dropped.
    fn trim(&mut self, host: HostId, offset: u64, bytes: u64) {
        let pages = offset.div_ceil(PAGE_BYTES)..(offset + bytes) / PAGE_BYTES;
        let ranges = ranges_of(&self.pages.current_in(&pages));
        self.one_by_one(host, Later::Trims(ranges));
    }

    fn one_by_one(&mut self, host: HostId, ranges: Later) {
        if let Some(first) = self.requests.start_ranges(host, ranges) {
            self.start_range(host, first);
        }
    }

    fn start_range(&mut self, host: HostId, range: Range) {
        match range {
            Range::Zero(range) => {
                let bytes = WriteBytes::Zeros;
                let in_part = (false, false);
                let (skip, incomplete) = (0, 0);
                let write = WriteOp { host, range, skip, bytes, in_part, incomplete };
                let id = self.requests.insert(EngineOp::Write(write));
                self.step(host_write(id, range));
            }
            Range::Trim(range) => {
                let id = self.requests.insert(EngineOp::Discard { host, range });
                self.step(Event::Discard(id, range));
            }
        }
    }

    fn read(&mut self, host: HostId, offset: u64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let first = offset / PAGE_BYTES;
        let end = (offset + bytes as u64).div_ceil(PAGE_BYTES);
        self.requests.add_part(host);
        let from = (offset % PAGE_BYTES) as usize;
        self.read_pages(ReadFor::Host(host), first, end - first, from, bytes);
    }

    /// A read of whole pages, of which `bytes` from `from` on are wanted.
    fn read_pages(&mut self, purpose: ReadFor, first: u64, pages: u64, from: usize, bytes: usize) {
        let mut read = ReadOp::new(purpose, first, pages, from, bytes);
        read.take_held(|page| self.in_memory(page));
        let id = self.requests.insert(EngineOp::Read(read));
        let range = PageRange::new(Page(first), pages as u32);
        self.step(Event::Host(HostRequest { id, direction: Direction::Read, range }));
    }

    /// What memory has of a page.
    fn in_memory(&self, page: u64) -> InMemory<'_> {
        let held = self.pages.newest_copy(page);
        let version = held.map_or(0, |held| held.version);
        let bytes = held.map(|held| (self.pages.bytes(held), held.sectors));
        if let Some((bytes, ALL_SECTORS)) = bytes {
            return InMemory { page: Some(WholePage::Bytes(bytes)), sectors: None, version };
        }
        let trimmed = || self.controller().directory().missing_span(Page(page), 1).is_none();
        let cached = || self.read_cache.as_ref().and_then(|cache| cache.get(page));
        // The engine holds all of it, and memory has not: it was trimmed since.
        let page = match trimmed() {
            true => Some(WholePage::Zeros),
            false => cached().map(WholePage::Bytes),
        };
        InMemory { page, sectors: bytes, version }
    }

    /// A read that had to wait is made now; `missing`: what it has to read from the disks.
    pub(super) fn read_now(&mut self, id: RequestId, missing: Option<(Page, Page)>) {
        let mut read = self.requests.take_read(id);
        read.take_held(|page| self.in_memory(page));
        // What the engine holds and memory has not was trimmed. The engine may forget it in this
        // very step.
        let reads = |page: u64| missing.is_some_and(|(from, to)| (from.0..=to.0).contains(&page));
        let lacks = |page: u64| self.read_cache.as_ref().is_some_and(|cache| cache.lacks(page));
        read.skip(|page| !reads(page) && !lacks(page));
        *self.requests.op(id) = EngineOp::Read(read);
    }

    /// Pages between the first and the last of a read that begins now are not read either.
    pub(super) fn left_out(&mut self, id: RequestId, range: PageRange) {
        let mut read = self.requests.take_read(id);
        let lacks = |page: u64| self.read_cache.as_ref().is_some_and(|cache| cache.lacks(page));
        let out = range.first.0..range.end().0;
        read.skip(|page| out.contains(&page) && !lacks(page));
        *self.requests.op(id) = EngineOp::Read(read);
    }

    /// The bytes of pages that a disk could not read, to be written again: reconstructed from what
    /// was read for a host's read. `None`: too little was read.
    pub(super) fn repaired_bytes(&mut self, index: u32, command: &DiskCommand) -> Option<Buffer> {
        let controller = self.engine.controller();
        let pieces = &self.requests.read(controller.read_id(index)).pieces;
        let mut bytes = Buffer::zeroed(command.pages as usize * PAGE);
        for (page, into) in (command.first..).zip(bytes.chunks_exact_mut(PAGE)) {
            into.copy_from_slice(&pieces.page(controller.geometry(), command.disk, page)?);
        }
        let DiskCommand { disk, first: page, pages, .. } = *command;
        self.ops.alarm(Alarm::Repaired { member: disk.0, page, pages });
        Some(bytes)
    }

    /// The engine has answered a read: its pages are put together.
    pub(super) fn read_answered(&mut self, mut read: ReadOp, error: Option<Refusal>) {
        // Too little could be read of some page; perhaps what is wanted of it is in the NVS, and
        // the others could be read.
        let complete = read.complete(self.engine.controller().geometry());
        let error = if complete { None } else { error.or(Some(Refusal::Unreadable)) };
        let host = match read.purpose() {
            ReadFor::Host(host) => host,
            ReadFor::Partial { page, number } => {
                let result = error.map_or_else(|| Ok(read.into_buffer()), Err);
                return self.partial_read(page, number, result);
            }
        };
        let (pages, version) = (read.pages(), read.version());
        if !self.requests.set_answer(host, read.into_answer()) {
            // The array has stopped in the meantime.
            return;
        }
        // What a crash could take back is not shown.
        let shows = error.is_none() && version > self.log.durable_version();
        if self.settings.ack != Ack::Nvs || !shows {
            self.part_done(host, error);
        } else if self.log.lost() {
            self.answer_when_on_disk(host, pages, IfKept::Refused);
        } else {
            self.requests.require_durable(host);
            self.part_done(host, None);
        }
    }

    /// The engine has put a page into the read cache, or has newer bytes of it.
    pub(super) fn cache_page(&mut self, page: Page, bytes: Bytes) {
        let Some(cache) = &mut self.read_cache else { return };
        let id = match bytes {
            Bytes::Destage(_) => return cache.put(page.0, self.pages.destaged(page.0)),
            Bytes::Read(id) => id,
        };
        // Not what the read took from memory: it may have waited since.
        let EngineOp::Read(read) = self.requests.op(id) else { return };
        let geometry = self.engine.controller().geometry();
        if let Some(bytes) = read.pieces.read_directly(geometry, page) {
            cache.put(page.0, bytes);
        } else if let Some(bytes) = read.pieces.of_volume(geometry, page) {
            cache.put(page.0, &bytes);
            // Reconstructed once for both.
            read.fill(page.0, &bytes);
        } else {
            cache.put_nothing(page.0);
        }
    }

    /// Reports to the engine which pages of a step could not be put into the read cache.
    pub(super) fn report_lacking(&mut self) {
        let Some(cache) = &mut self.read_cache else { return };
        while let Some(page) = cache.next_lacking() {
            self.engine.controller_mut().not_kept(Page(page));
        }
    }
}

fn host_write(id: RequestId, range: PageRange) -> Event {
    Event::Host(HostRequest { id, direction: Direction::Write, range })
}

/// The fewest ranges of which each is from one of these pages, which are in order, to another, and
/// no longer than one part of a trim: what is between is clean.
fn ranges_of(pages: &[u64]) -> VecDeque<PageRange> {
    let mut ranges: VecDeque<PageRange> = VecDeque::new();
    for page in pages.iter().copied() {
        match ranges.back_mut() {
            Some(range) if page - range.first.0 < CLEAR_PAGES => {
                range.pages = (page - range.first.0) as u32 + 1;
            }
            _ => ranges.push_back(PageRange::new(Page(page), 1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trim_is_cut_into_ranges_from_one_dirty_page_to_another() {
        let cut = |pages: &[u64]| -> Vec<(u64, u32)> {
            ranges_of(pages).into_iter().map(|range| (range.first.0, range.pages)).collect()
        };
        assert_eq!(cut(&[]), []);
        assert_eq!(cut(&[9]), [(9, 1)]);
        assert_eq!(cut(&[9, 10, 14]), [(9, 6)]);
        let most = CLEAR_PAGES as u32;
        assert_eq!(cut(&[5, 4 + CLEAR_PAGES, 5 + CLEAR_PAGES]), [(5, most), (5 + CLEAR_PAGES, 1)]);
        let pages = [0, CLEAR_PAGES, CLEAR_PAGES + 1, 3 * CLEAR_PAGES];
        assert_eq!(cut(&pages), [(0, 1), (CLEAR_PAGES, 2), (3 * CLEAR_PAGES, 1)]);
    }
}
