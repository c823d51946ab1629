//! The NVS log as it is written: records gather in a batch, a batch becomes a commit as soon as
//! another one may be in flight, commits become durable in order (docs/nvs-format.md).
//!
//! Outside of this folder nothing knows the log's format. To replace it, implement what `Log`
//! offers (`write_page`, `clear`, `intend`, `parity` and `release` to log, `wait` and
//! `next_durable` for those who wait, `turn` and `op_done` to run it, `open_destages` and
//! `parity_of` for what the last run left open), `recover.rs` (`recover`, `create`), `sizes.rs`,
//! `mirror.rs` (a device that joins while the log is used) and `inspect.rs`.

mod anchors;
mod batch;
mod inspect;
mod mirror;
mod moves;
mod recover;
mod sums;

use crate::Buffer;
use crate::crc::{crc32c, crc32c_of_both};
use crate::defect::Defect;
use crate::io::{Device, OpKind};
use crate::ops::{LogOp, Ops, Purpose};
use crate::request::HostId;
use crate::store::PAGE;
use anchors::AnchorWrite;
use batch::{Batch, Flight, Spare};
use destage_block::SharedBytes;
use destage_engine::request::{PageRange, RequestId};
use destage_engine::units::{Duration, Instant, Page};
use destage_nvslog::commit::{self, Header, Kind};
use destage_nvslog::contents::Contents;
use destage_nvslog::record::{DATA_BYTES, Origin, Pages, Record, ZERO_PAGES_MAX};
use destage_nvslog::space::{Allocation, LogSpace, Purpose as Room};
use destage_nvslog::{COMMIT_BYTES_MAX, COMMIT_PAGES_MAX, HEADER_BYTES, LogId};
use mirror::Mirror;
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) use inspect::inspect_log;
pub use inspect::{Inspection, inspect};
pub(crate) use mirror::NewMirror;
pub use mirror::{MirrorRefusal, MirrorStatus};
pub use recover::LogError;
pub(crate) use recover::{Recovered, Source, create, recover};
pub(crate) use sums::RowSums;

/// First byte of anchor A and anchor B on an NVS device.
const ANCHORS: [u64; 2] = [4096, 8192];
/// First byte of the ring.
use destage_nvslog::superblock::DATA_START as RING;
/// Commits in flight at once. With more, each would carry less and cost the processor and the
/// device the same.
const IN_FLIGHT_MAX: usize = 2;
/// Batches that wait while more writes are answered at once.
const QUEUE_MAX: usize = 16;
/// A batch with this many pages is written though another commit is in flight, and takes no
/// further write.
const SHARE: usize = 16;
/// Buffers of commits that are kept to be used again.
const POOL_MAX: usize = 8;
/// After this long without a commit, an empty one confirms those before it. Releases wait this long
/// for a commit that is written anyway.
const CONFIRM_AFTER: Duration = Duration::from_millis(50);

/// Who waits until a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// The engine, for a write or a trim.
    Append(RequestId),
    /// A destage, for its intent.
    Intent(u32),
    /// A request that is answered when it is durable.
    Answer(HostId),
}

/// Of a page that gets its slot when its commit is written.
const NO_SLOT: u32 = u32::MAX;

/// The log.
pub(crate) struct Log {
    id: LogId,
    block_bytes: u32,
    /// NVS devices in use.
    devices: Vec<u16>,
    /// A new mirror that is being filled.
    mirror: Option<Mirror>,
    /// How many there have been since the start.
    mirrors: u64,
    /// While one joins: the device, to which commits go too though nothing counts there yet.
    joining: Option<u16>,
    /// While one joins: the first block that is not copied yet. The tail must not pass it.
    keep: Option<u64>,
    /// A mirror that has everything, until the superblocks name it.
    filled: Option<MirrorStatus>,
    /// No anchor may be written.
    hold_anchors: bool,
    space: LogSpace,
    contents: Contents,
    epoch: u32,
    last_version: u64,
    durable_version: u64,
    queue: VecDeque<Batch>,
    in_flight: VecDeque<Flight>,
    anchor: Option<AnchorWrite>,
    /// Since when nothing but records of destages is to be written.
    alone_since: Option<Instant>,
    /// They wait for something of the host until then.
    company_until: Option<Instant>,
    /// Blocks that the first batch of the queue waits for.
    waiting_blocks: u64,
    pool: Vec<Spare>,
    /// Those whose commits are durable, until they are taken.
    durable: VecDeque<Waiter>,
    /// When the last commit with records was written that no later commit confirms.
    unconfirmed: Option<Instant>,
    /// No commit is reported as durable: a change of the set of devices must be durable first.
    hold: bool,
    defect: Defect,
    spare_slots: usize,
    bytes_written: u64,
    records_moved: u64,
    /// Kept for their capacity.
    scratch: Vec<u8>,
    slots: Vec<u32>,
}

/// What a log starts with.
struct Start {
    id: LogId,
    block_bytes: u32,
    devices: Vec<u16>,
    space: LogSpace,
    contents: Contents,
    epoch: u32,
    defect: Defect,
    /// Slots besides those of the most dirty pages.
    spare_slots: usize,
}

/// A destage that the last run left open: it may have written these pages as they were at this
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenDestage {
    pub(crate) pages: PageRange,
    pub(crate) through: u64,
}

/// What is counted of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogStatus {
    /// Bytes written to each device since the start.
    pub(crate) bytes_written: u64,
    /// Records moved to the head since the start.
    pub(crate) records_moved: u64,
    /// Bytes of the ring in use.
    pub(crate) bytes_used: u64,
}

impl Log {
    fn new(start: Start) -> Log {
        let Start { id, block_bytes, devices, space, contents, epoch, defect, spare_slots } = start;
        Log {
            id,
            block_bytes,
            devices,
            mirror: None,
            mirrors: 0,
            joining: None,
            keep: None,
            filled: None,
            hold_anchors: false,
            last_version: contents.last_version(),
            durable_version: contents.last_version(),
            space,
            contents,
            epoch,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            anchor: None,
            alone_since: None,
            company_until: None,
            waiting_blocks: 0,
            pool: Vec::new(),
            durable: VecDeque::new(),
            unconfirmed: None,
            hold: false,
            defect,
            spare_slots,
            bytes_written: 0,
            records_moved: 0,
            scratch: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// NVS devices in use.
    pub(crate) fn devices(&self) -> &[u16] {
        &self.devices
    }

    pub(crate) fn status(&self) -> LogStatus {
        let used = self.space.ring_blocks() - self.space.free_blocks();
        LogStatus {
            bytes_written: self.bytes_written,
            records_moved: self.records_moved,
            bytes_used: used * u64::from(self.block_bytes),
        }
    }

    /// The destages that the last run left open.
    pub(crate) fn open_destages(&self) -> Vec<OpenDestage> {
        let intents = self.contents.intents();
        let open = intents.map(|i| OpenDestage { pages: range_of(i.pages), through: i.through });
        open.collect()
    }

    /// The checksums of a row's new parity that the last run logged.
    pub(crate) fn parity_of(&self, first: Page, row: u32) -> Option<RowSums> {
        self.contents.parity(first, row).map(RowSums::logged)
    }

    /// Looks a page up, so that the processor has its entry when it is written.
    pub(crate) fn touch(&self, page: Page) -> Option<u64> {
        self.contents.touch(page)
    }

    /// Whether no NVS device is left.
    pub(crate) fn lost(&self) -> bool {
        self.devices.is_empty()
    }

    /// Highest version given out.
    pub(crate) fn last_version(&self) -> u64 {
        self.last_version
    }

    /// Writes up to this version are durable.
    pub(crate) fn durable_version(&self) -> u64 {
        self.durable_version
    }

    /// A write of the host begins, of this many pages. All of it goes into one commit, if that is
    /// not more than a commit can have.
    pub(crate) fn begin_write(&mut self, pages: usize) {
        let idle = self.queue.len() + self.in_flight.len() < IN_FLIGHT_MAX;
        let has_room = |batch: &Batch| {
            let bytes = batch.bytes + pages * DATA_BYTES;
            batch.pages + pages <= self.pages_max() && self.fits(bytes)
        };
        let closes = |batch: &Batch| idle && batch.pages >= SHARE || !has_room(batch);
        if self.queue.back().is_some_and(closes) {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
    }

    /// Logs the new bytes of a page, of which some sectors count; returns its version.
    pub(crate) fn write_page(&mut self, page: u64, bytes: &[u8], sectors: u8) -> u64 {
        self.last_version += 1;
        let version = self.last_version;
        if !self.lost() {
            let (page, crc, origin) = (Page(page), crc32c(bytes), Origin::New);
            let slot = NO_SLOT;
            self.add(Record::Data { page, version, slot, sectors, crc, origin }, bytes);
        }
        version
    }

    /// Logs zeros or a trim of pages; returns the version.
    pub(crate) fn clear(&mut self, range: PageRange, zeros: bool) -> u64 {
        let most = if zeros { ZERO_PAGES_MAX } else { range.pages };
        self.begin_records(range.pages.div_ceil(most) as usize);
        for first in (range.first.0..range.end().0).step_by(most as usize) {
            self.last_version += 1;
            let count = most.min((range.end().0 - first) as u32);
            let (pages, version) = (Pages::new(Page(first), count), self.last_version);
            self.house(match zeros {
                true => Record::Zero { pages, version, origin: Origin::New },
                false => Record::Trim { pages, version },
            });
        }
        self.last_version
    }

    /// This many records of zeros come. All of them go into one commit, if one can have them.
    fn begin_records(&mut self, records: usize) {
        let bytes = records * DATA_BYTES;
        let has_room = |batch: &Batch| self.fits(batch.bytes + bytes);
        let fits = !self.lost() && self.fits(HEADER_BYTES + bytes);
        if fits && !self.queue.back().is_none_or(has_room) {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
    }

    /// Logs that the disks are about to be written with the group's pages as they are now.
    pub(crate) fn intend(&mut self, range: PageRange, through: u64) {
        let pages = pages_of(range);
        self.house(Record::Intent { pages, through, moved: false });
    }

    /// Logs the checksums of a row's new parity.
    pub(crate) fn parity(&mut self, first: Page, row: u32, sums: RowSums) {
        self.house(sums.record(first, row));
    }

    /// Logs that the pages are on the disks.
    pub(crate) fn release(&mut self, range: PageRange, through: u64) {
        let pages = pages_of(range);
        self.house(Record::Release { pages, through });
    }

    fn house(&mut self, record: Record) {
        if !self.lost() {
            self.add(record, &[]);
        }
    }

    fn add(&mut self, record: Record, page: &[u8]) {
        let pages = page.len() / PAGE;
        let fits = self.queue.back().is_some_and(|batch| {
            let bytes = batch.bytes + record.encoded_bytes();
            batch.pages + pages <= self.pages_max() && self.fits(bytes)
        });
        if !fits {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
        let batch = self.queue.back_mut().expect("just pushed");
        batch.bytes += record.encoded_bytes();
        batch.records.push(record);
        let at = COMMIT_BYTES_MAX + batch.pages * PAGE;
        batch.buffer[at..at + page.len()].copy_from_slice(page);
        batch.pages += pages;
    }

    /// Most pages of a commit: no more than there are slots besides those of dirty pages.
    fn pages_max(&self) -> usize {
        COMMIT_PAGES_MAX.min(self.spare_slots).max(1)
    }

    /// Whether a commit may have this many bytes.
    fn fits(&self, bytes: usize) -> bool {
        bytes <= COMMIT_BYTES_MAX && self.blocks_of(bytes) <= self.space.commit_blocks_max()
    }

    fn new_batch(&mut self) -> Batch {
        let bytes = COMMIT_BYTES_MAX + COMMIT_PAGES_MAX * PAGE;
        let Spare { mut buffer, records, waiters } = self.pool.pop().unwrap_or_else(|| Spare {
            buffer: Buffer::zeroed(bytes),
            records: Vec::with_capacity(64),
            waiters: Vec::with_capacity(64),
        });
        buffer.set_len(bytes);
        Batch { records, buffer, pages: 0, bytes: HEADER_BYTES, waiters }
    }

    fn blocks_of(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(u64::from(self.block_bytes))
    }

    /// Adds somebody who waits until everything logged so far is durable.
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        if let Some(batch) = self.queue.back_mut() {
            batch.waiters.push(waiter);
        } else if let Some(flight) = self.in_flight.back_mut() {
            flight.waiters.push(waiter);
        } else {
            self.durable.push_back(waiter);
        }
    }

    /// The next one whose commit has become durable.
    pub(crate) fn next_durable(&mut self) -> Option<Waiter> {
        self.durable.pop_front()
    }

    /// Whether much waits to be written: what comes should wait, too.
    pub(crate) fn is_behind(&self) -> bool {
        self.queue.len() > QUEUE_MAX
    }

    /// Whether everything logged is durable.
    pub(crate) fn settled(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// Continues the counts of an earlier log.
    pub(crate) fn count_from(&mut self, earlier: &Log) {
        self.bytes_written += earlier.bytes_written;
        self.records_moved += earlier.records_moved;
    }

    /// When [`Log::turn`] has something to do without a further event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.lost() || !self.in_flight.is_empty() {
            return None;
        }
        match self.queue.is_empty() {
            true => self.unconfirmed.map(|since| since + CONFIRM_AFTER),
            false => self.company_until,
        }
    }

    /// Confirms the commits so far by an empty one, at a clean stop.
    pub(crate) fn confirm(&mut self) {
        self.alone_since = Some(Instant::ZERO);
        if self.unconfirmed.take().is_some() && self.queue.is_empty() && !self.lost() {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
    }

    /// Writes what may be written now.
    pub(crate) fn turn(&mut self, ops: &mut Ops) {
        if self.lost() {
            return;
        }
        if self.queue.is_empty() && self.deadline().is_some_and(|at| ops.now() >= at) {
            self.confirm();
        }
        self.company_until = None;
        loop {
            self.write_anchor(ops);
            if self.in_flight.len() >= IN_FLIGHT_MAX {
                return;
            }
            if let Some(commits) = self.space.evacuate(self.waiting_blocks)
                && self.evacuate(&commits, ops)
            {
                continue;
            }
            // Otherwise nothing is to be moved, or the tail must move first.
            let Some(batch) = self.queue.front() else { return };
            if self.gathers(batch) {
                return;
            }
            let due = *self.alone_since.get_or_insert(ops.now()) + batch.patience(self.block_bytes);
            if self.queue.len() == 1 && ops.now() < due {
                self.company_until = Some(due);
                return;
            }
            let (blocks, pages) = (self.blocks_of(batch.bytes), batch.pages);
            if !self.take_slots(pages) {
                if !self.confirms_now() {
                    return;
                }
                continue;
            }
            let Some(place) = self.space.allocate(blocks, Room::Host) else {
                let slots = &mut self.space.slots;
                self.slots.drain(..).for_each(|slot| slots.give_back(slot));
                if self.waiting_blocks == blocks {
                    return;
                }
                self.waiting_blocks = blocks;
                continue;
            };
            (self.waiting_blocks, self.alone_since) = (0, None);
            let batch = self.queue.pop_front().expect("looked at");
            self.write(batch, place, ops);
        }
    }

    /// Takes slots for the pages of the next commit. `false`: there are too few.
    fn take_slots(&mut self, pages: usize) -> bool {
        if self.defect.is(Defect::ReusesSlotsEarly) {
            self.space.slots.confirmed(u64::MAX);
        }
        self.slots.clear();
        self.space.slots.take(pages, &mut self.slots)
    }

    /// No slot is free before a commit confirms those before it: whether one was put in front.
    fn confirms_now(&mut self) -> bool {
        // One in flight will confirm what is durable by then.
        let can = self.in_flight.is_empty() && self.space.slots.waiting() > 0;
        if can {
            let batch = self.new_batch();
            self.queue.push_front(batch);
        }
        can
    }

    /// Whether a batch waits for more records: a small one does while another commit is in flight.
    fn gathers(&self, batch: &Batch) -> bool {
        self.queue.len() == 1 && batch.pages < SHARE && !self.in_flight.is_empty()
    }

    /// Sends a commit to all NVS devices, with padding before it where that is needed.
    fn write(&mut self, mut batch: Batch, place: Allocation, ops: &mut Ops) {
        if let Some((block, sequence, blocks)) = place.padding {
            let kind = Kind::Pads { blocks: blocks as u32 - 1 };
            let mut padding = self.new_batch();
            self.describe(&mut padding, kind, block, sequence);
            self.send(padding, block, sequence, &[], ops);
        }
        let Allocation { block, sequence, .. } = place;
        let slots = core::mem::take(&mut self.slots);
        let mut next = slots.iter();
        for record in &mut batch.records {
            if let Record::Data { slot, .. } = record
                && *slot == NO_SLOT
            {
                *slot = *next.next().expect("a slot for each page");
            }
            let applied = self.contents.apply(record, sequence, &mut self.space);
            applied.expect("the log's own records are right");
        }
        self.describe(&mut batch, Kind::Plain, block, sequence);
        self.unconfirmed = (!batch.records.is_empty()).then(|| ops.now());
        self.send(batch, block, sequence, &slots, ops);
        self.slots = slots;
    }

    /// Puts the commit before the pages.
    fn describe(&mut self, batch: &mut Batch, kind: Kind, block: u64, sequence: u64) {
        let header = Header {
            epoch: self.epoch,
            sequence,
            durable_through: self.space.durable(),
            block,
            last_version: self.contents.last_version(),
            kind,
        };
        self.scratch.clear();
        let log = (self.id, self.block_bytes);
        commit::encode_with(crc32c_of_both, &header, &batch.records, log, &mut self.scratch);
        batch.bytes = self.scratch.len();
        let at = COMMIT_BYTES_MAX - batch.bytes;
        batch.buffer[at..COMMIT_BYTES_MAX].copy_from_slice(&self.scratch);
    }

    /// Writes a commit and its pages, all at the same time: after a crash their checksums say
    /// whether it is complete.
    fn send(&mut self, batch: Batch, block: u64, sequence: u64, slots: &[u32], ops: &mut Ops) {
        let Batch { buffer, pages, bytes, waiters, mut records } = batch;
        records.clear();
        self.bytes_written += (bytes + pages * PAGE) as u64;
        let buffer = Arc::new(buffer);
        let mut writes = vec![(
            self.offset_of_block(block),
            SharedBytes::part(&buffer, COMMIT_BYTES_MAX - bytes..COMMIT_BYTES_MAX),
        )];
        let mut at = COMMIT_BYTES_MAX;
        for run in slots.chunk_by(|one, next| one + 1 == *next) {
            let end = at + run.len() * PAGE;
            writes.push((self.offset_of_slot(run[0]), SharedBytes::part(&buffer, at..end)));
            at = end;
        }
        let devices = self.devices.iter().chain(&self.joining);
        let mut pending = 0;
        for device in devices {
            for (offset, buffer) in &writes {
                let kind = OpKind::Write { offset: *offset, buffer: buffer.clone(), durable: true };
                ops.push(Device::Nvs(*device), Purpose::Log(LogOp::Commit { sequence }), kind);
                pending += 1;
            }
        }
        drop(writes);
        let (durable_through, last_version) = (self.space.durable(), self.contents.last_version());
        self.in_flight.push_back(Flight {
            sequence,
            pending,
            durable_through,
            buffer,
            waiters,
            records,
            last_version,
        });
        if self.defect.is(Defect::AcknowledgesEarly) {
            let flight = self.in_flight.back_mut().expect("just pushed");
            self.durable.extend(flight.waiters.drain(..));
        }
    }

    fn offset_of_block(&self, block: u64) -> u64 {
        RING + block * u64::from(self.block_bytes)
    }

    fn offset_of_slot(&self, slot: u32) -> u64 {
        self.offset_of_block(self.space.ring_blocks()) + u64::from(slot) * PAGE as u64
    }

    /// One device has a commit durable, or is no longer used.
    fn commit_done(&mut self, sequence: u64) {
        if let Some(flight) = self.in_flight.iter_mut().find(|f| f.sequence == sequence) {
            flight.pending -= 1;
        }
        self.advance();
    }

    /// Commits that are durable with all before them are done: nobody waits for them any more.
    fn advance(&mut self) {
        while !self.hold && self.in_flight.front().is_some_and(|flight| flight.pending == 0) {
            let mut flight = self.in_flight.pop_front().expect("looked at");
            self.space.made_durable(flight.sequence);
            let confirmed = match self.defect.is(Defect::ReusesSlotsUnconfirmed) {
                true => flight.sequence,
                false => flight.durable_through,
            };
            self.space.confirmed(confirmed);
            self.durable_version = flight.last_version;
            self.durable.extend(flight.waiters.drain(..));
            if let Some(buffer) = Arc::into_inner(flight.buffer)
                && self.pool.len() < POOL_MAX
            {
                let Flight { records, waiters, .. } = flight;
                self.pool.push(Spare { buffer: buffer.full(), records, waiters });
            }
        }
    }

    /// An operation of the log is done.
    pub(crate) fn op_done(&mut self, op: LogOp, bytes: Option<Buffer>, ops: &mut Ops) {
        match op {
            LogOp::Commit { sequence } => self.commit_done(sequence),
            LogOp::Anchor => self.anchor_done(ops),
            LogOp::Mirror { number } => self.mirror_done(number, bytes, ops),
        }
    }

    /// The device of an operation is no longer used.
    pub(crate) fn op_abandoned(&mut self, op: LogOp, ops: &mut Ops) {
        match op {
            LogOp::Mirror { .. } => {}
            _ => self.op_done(op, None, ops),
        }
    }

    /// A device is no longer used.
    pub(crate) fn remove_device(&mut self, device: u16) {
        self.devices.retain(|other| *other != device);
    }

    /// Holds back what becomes durable, until [`Log::resume`].
    pub(crate) fn hold(&mut self) {
        self.hold = true;
    }

    /// What was held back is durable.
    pub(crate) fn resume(&mut self) {
        self.hold = false;
        self.advance();
    }

    /// All NVS devices have failed: nobody waits for them any more.
    pub(crate) fn give_up(&mut self) {
        for flight in self.in_flight.drain(..) {
            self.durable.extend(flight.waiters);
        }
        for batch in self.queue.drain(..) {
            self.durable.extend(batch.waiters);
        }
        (self.anchor, self.unconfirmed) = (None, None);
    }
}

fn pages_of(range: PageRange) -> Pages {
    Pages::new(range.first, range.pages)
}

fn range_of(pages: Pages) -> PageRange {
    PageRange::new(pages.first, pages.count)
}

#[cfg(test)]
mod tests;
