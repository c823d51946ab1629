//! The NVS log as it is written: records gather in a batch, a batch becomes a commit as soon as
//! another one may be in flight, commits become durable in order (docs/nvs-format.md).
//!
//! Outside of this folder nothing knows the log's format. To replace it, implement what `Log`
//! offers (`write_page`, `clear`, `intend`, `parity` and `release` to log, `wait` and
//! `next_durable` for those who wait, `turn` and `op_done` to run it, `open_destages` and
//! `parity_of` for what the last run left open), `recover.rs` (`recover`, `create`), `sizes.rs`,
//! `mirror.rs` (a device that joins while the log is used) and `inspect.rs`.

mod inspect;
mod mirror;
mod moves;
mod recover;
mod sizes;

use crate::Buffer;
use crate::crc::{crc32c, crc32c_of_both};
use crate::defect::Defect;
use crate::io::{Device, OpKind};
use crate::ops::{LogOp, Ops, Purpose};
use crate::pages::DirtyPages;
use crate::request::HostId;
use crate::store::PAGE;
use destage_engine::request::{PageRange, RequestId};
use destage_engine::units::{Duration, Instant, Page};
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Header, Kind};
use destage_nvslog::contents::{Contents, ParityRow, Place};
use destage_nvslog::record::SectorSums;
use destage_nvslog::record::{Origin, Pages, Record};
use destage_nvslog::space::{Allocation, LogSpace, Purpose as Room};
use destage_nvslog::{DESCRIPTOR_BYTES_MAX, HEADER_BYTES, LogId};
use mirror::Mirror;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use inspect::{Inspection, inspect};
pub(crate) use mirror::NewMirror;
pub use mirror::{MirrorRefusal, MirrorStatus};
pub use recover::LogError;
pub(crate) use recover::{Recovered, Source, create, recover};
pub use sizes::{dirty_pages_of, ring_blocks_of};

/// First byte of anchor A and anchor B on an NVS device.
const ANCHORS: [u64; 2] = [4096, 8192];
/// First byte of the ring.
use destage_nvslog::superblock::DATA_START as RING;
/// Commits in flight at once. With more, each would carry less and cost the processor and the
/// device the same.
const IN_FLIGHT_MAX: usize = 2;
/// A batch with this many bytes of payload is written though another commit is in flight, and
/// takes no further write.
const SHARE: usize = 64 << 10;
/// Buffers of commits that are kept to be used again.
const POOL_MAX: usize = 8;
/// After this long without a commit, an empty one confirms those before it.
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

/// Records that will be one commit.
struct Batch {
    records: Vec<Record>,
    /// Room for the descriptor, then the payloads.
    buffer: Buffer,
    payload: usize,
    descriptor: usize,
    waiters: Vec<Waiter>,
}

/// A commit in flight.
struct Flight {
    sequence: u64,
    /// NVS devices that do not have it yet.
    pending: usize,
    buffer: Option<Arc<Buffer>>,
    waiters: Vec<Waiter>,
    /// Empty; kept for its capacity.
    records: Vec<Record>,
    /// Highest version in it and the commits before it.
    last_version: u64,
}

/// Memory of an earlier commit, to be used again.
struct Spare {
    buffer: Buffer,
    records: Vec<Record>,
    waiters: Vec<Waiter>,
}

struct AnchorWrite {
    anchor: Anchor,
    /// 0: A is being written, 1: B.
    copy: usize,
    pending: usize,
}

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
    /// While one joins: the first block of what is copied, and how many blocks are copied.
    keep: Option<(u64, u64)>,
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
    /// Blocks that the first batch of the queue waits for.
    waiting_blocks: u64,
    /// Payloads being read back, each with the place of the device that was asked last.
    moves: BTreeMap<(u64, u64), (usize, Option<Buffer>)>,
    pool: Vec<Spare>,
    /// Those whose commits are durable, until they are taken.
    durable: VecDeque<Waiter>,
    /// When the last commit with records was written that no later commit confirms.
    unconfirmed: Option<Instant>,
    /// No commit is reported as durable: a change of the set of devices must be durable first.
    hold: bool,
    defect: Defect,
    bytes_written: u64,
    records_moved: u64,
    scratch: Vec<u8>,
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
}

/// Checksums of the new parity of a row, sector by sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSums {
    pub(crate) p: SectorSums,
    pub(crate) q: Option<SectorSums>,
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
        let Start { id, block_bytes, devices, space, contents, epoch, defect } = start;
        Log {
            id,
            block_bytes,
            devices,
            mirror: None,
            mirrors: 0,
            joining: None,
            keep: None,
            hold_anchors: false,
            last_version: contents.last_version(),
            durable_version: contents.last_version(),
            space,
            contents,
            epoch,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            anchor: None,
            waiting_blocks: 0,
            moves: BTreeMap::new(),
            pool: Vec::new(),
            durable: VecDeque::new(),
            unconfirmed: None,
            hold: false,
            defect,
            bytes_written: 0,
            records_moved: 0,
            scratch: Vec::new(),
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
        self.contents.parity(first, row).map(|ParityRow { p, q, .. }| RowSums { p: *p, q: *q })
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

    /// A write of the host begins. All of it goes into one commit if that has room.
    pub(crate) fn begin_write(&mut self) {
        let idle = self.queue.len() + self.in_flight.len() < IN_FLIGHT_MAX;
        if idle && self.queue.back().is_some_and(|batch| batch.payload >= SHARE) {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
    }

    /// Logs the new bytes of a page; returns its version.
    pub(crate) fn write_page(&mut self, page: u64, bytes: &[u8]) -> u64 {
        self.last_version += 1;
        let version = self.last_version;
        if !self.lost() {
            let crc = crc32c(bytes);
            let origin = Origin::New;
            let (page, bytes_) = (Page(page), PAGE as u16);
            let record = Record::Data { page, version, offset: 0, bytes: bytes_, crc, origin };
            self.add(record, bytes);
        }
        version
    }

    /// Logs zeros or a trim of pages; returns the version.
    pub(crate) fn clear(&mut self, range: PageRange, zeros: bool) -> u64 {
        self.last_version += 1;
        let version = self.last_version;
        if !self.lost() {
            let pages = pages_of(range);
            let record = match zeros {
                true => Record::Zero { pages, version, origin: Origin::New },
                false => Record::Trim { pages, version },
            };
            self.add(record, &[]);
        }
        version
    }

    /// Logs that the disks are about to be written with the group's pages as they are now.
    pub(crate) fn intend(&mut self, range: PageRange, through: u64) {
        let pages = pages_of(range);
        self.house(Record::Intent { pages, through, moved: false });
    }

    /// Logs the checksums of a row's new parity.
    pub(crate) fn parity(&mut self, first: Page, row: u32, sums: RowSums) {
        let RowSums { p, q } = sums;
        self.house(Record::Parity { first, row, p, q, moved: false });
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

    fn add(&mut self, record: Record, payload: &[u8]) {
        let fits = self.queue.back().is_some_and(|batch| {
            let descriptor = batch.descriptor + record.encoded_bytes();
            let payload = batch.payload + payload.len();
            let blocks = self.blocks_of(descriptor) + self.blocks_of(payload);
            descriptor <= DESCRIPTOR_BYTES_MAX
                && DESCRIPTOR_BYTES_MAX + payload <= batch.buffer.len()
                && blocks <= self.space.commit_blocks_max()
        });
        if !fits {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
        let batch = self.queue.back_mut().expect("just pushed");
        batch.descriptor += record.encoded_bytes();
        batch.records.push(record);
        let at = DESCRIPTOR_BYTES_MAX + batch.payload;
        batch.buffer[at..at + payload.len()].copy_from_slice(payload);
        batch.payload += payload.len();
    }

    fn new_batch(&mut self) -> Batch {
        let bytes = DESCRIPTOR_BYTES_MAX + (1 << 20);
        let Spare { mut buffer, records, waiters } = self.pool.pop().unwrap_or_else(|| Spare {
            buffer: Buffer::zeroed(bytes),
            records: Vec::with_capacity(64),
            waiters: Vec::with_capacity(64),
        });
        buffer.set_len(bytes);
        Batch { records, buffer, payload: 0, descriptor: HEADER_BYTES, waiters }
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

    /// Whether everything logged is durable.
    pub(crate) fn settled(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// When [`Log::turn`] has something to do without a further event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let idle = !self.lost() && self.settled();
        self.unconfirmed.filter(|_| idle).map(|since| since + CONFIRM_AFTER)
    }

    /// Confirms the commits so far by an empty one, at a clean stop.
    pub(crate) fn confirm(&mut self) {
        if self.unconfirmed.take().is_some() && self.queue.is_empty() && !self.lost() {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
    }

    /// Writes what may be written now.
    pub(crate) fn turn(&mut self, pages: &DirtyPages, ops: &mut Ops) {
        if self.lost() {
            return;
        }
        if self.deadline().is_some_and(|at| ops.now() >= at) {
            self.confirm();
        }
        loop {
            self.write_anchor(ops);
            if self.in_flight.len() >= IN_FLIGHT_MAX {
                return;
            }
            if let Some(commits) = self.space.evacuate(self.waiting_blocks) {
                if self.evacuate(&commits, pages, ops) {
                    continue;
                }
                // Otherwise the tail must move first, or payloads are being read.
            } else {
                self.moves.retain(|_, (_, bytes)| bytes.is_none());
            }
            let Some(batch) = self.queue.front() else { return };
            if self.gathers(batch) {
                return;
            }
            let blocks = self.blocks_of(batch.descriptor) + self.blocks_of(batch.payload);
            let Some(place) = self.space.allocate(blocks, Room::Host) else {
                if self.waiting_blocks == blocks {
                    return;
                }
                self.waiting_blocks = blocks;
                continue;
            };
            self.waiting_blocks = 0;
            let batch = self.queue.pop_front().expect("looked at");
            self.write(batch, place, ops);
        }
    }

    /// Whether a batch waits for more records: a small one does while another commit is in flight.
    fn gathers(&self, batch: &Batch) -> bool {
        self.queue.len() == 1 && batch.payload < SHARE && !self.in_flight.is_empty()
    }

    /// Sends a commit to all NVS devices, with padding before it where that is needed.
    fn write(&mut self, mut batch: Batch, place: Allocation, ops: &mut Ops) {
        if let Some((block, sequence, blocks)) = place.padding {
            let kind = Kind::Pads { blocks: blocks as u32 - 1 };
            let mut padding = self.new_batch();
            self.describe(&mut padding, kind, block, sequence);
            self.send(padding, block, sequence, ops);
        }
        let Allocation { block, sequence, .. } = place;
        let mut at = block + self.blocks_of(batch.descriptor);
        for record in &batch.records {
            let blocks = record.payload_blocks(self.block_bytes);
            let place = Place { sequence, block: at, blocks };
            let applied = self.contents.apply(record, place, &mut self.space);
            applied.expect("the log's own records are right");
            at += blocks;
        }
        self.describe(&mut batch, Kind::Plain, block, sequence);
        self.unconfirmed = (!batch.records.is_empty()).then(|| ops.now());
        self.send(batch, block, sequence, ops);
    }

    /// Puts the descriptor before the payloads.
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
        batch.descriptor = self.scratch.len();
        let at = DESCRIPTOR_BYTES_MAX - batch.descriptor;
        batch.buffer[at..DESCRIPTOR_BYTES_MAX].copy_from_slice(&self.scratch);
    }

    fn send(&mut self, batch: Batch, block: u64, sequence: u64, ops: &mut Ops) {
        let Batch { mut buffer, payload, descriptor, waiters, mut records } = batch;
        records.clear();
        buffer.set_range(DESCRIPTOR_BYTES_MAX - descriptor, descriptor + payload);
        self.bytes_written += buffer.len() as u64;
        let buffer = Arc::new(buffer);
        for copy in self.devices.iter().chain(&self.joining) {
            let kind = OpKind::Write {
                offset: RING + block * u64::from(self.block_bytes),
                buffer: Arc::clone(&buffer),
                durable: true,
            };
            ops.push(Device::Nvs(*copy), Purpose::Log(LogOp::Commit { sequence }), kind);
        }
        let pending = self.devices.len() + usize::from(self.joining.is_some());
        let last_version = self.contents.last_version();
        let buffer = Some(buffer);
        let flight = Flight { sequence, pending, buffer, waiters, records, last_version };
        self.in_flight.push_back(flight);
        if self.defect.is(Defect::AcknowledgesEarly) {
            let flight = self.in_flight.back_mut().expect("just pushed");
            self.durable.extend(flight.waiters.drain(..));
        }
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
            self.durable_version = flight.last_version;
            self.durable.extend(flight.waiters.drain(..));
            if let Some(Ok(buffer)) = flight.buffer.map(Arc::try_unwrap)
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
            LogOp::Move { page, version } => self.moved(page, version, bytes),
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

    /// Whether an anchor is being written.
    fn anchoring(&self) -> bool {
        self.anchor.is_some()
    }

    /// Whether the blocks that this anchor frees are copied to a new mirror, if there is one.
    fn may_free(&self, anchor: &Anchor) -> bool {
        let ring = self.space.ring_blocks();
        self.keep.is_none_or(|(tail, copied)| (anchor.tail_block + ring - tail) % ring <= copied)
    }

    fn write_anchor(&mut self, ops: &mut Ops) {
        if self.anchor.is_some() || self.hold_anchors {
            return;
        }
        let due = self.space.anchor_due(self.waiting_blocks > 0);
        if let Some(anchor) = due.filter(|anchor| self.may_free(anchor)) {
            self.anchor = Some(AnchorWrite { anchor, copy: 0, pending: 0 });
            self.send_anchor(ops);
            if self.defect.is(Defect::ReusesSpaceEarly) {
                self.space.anchored(anchor);
            }
        }
    }

    fn send_anchor(&mut self, ops: &mut Ops) {
        let Some(write) = &mut self.anchor else { return };
        let mut bytes = Buffer::zeroed(PAGE);
        let anchor = write.anchor.encode(self.id);
        bytes[..anchor.len()].copy_from_slice(&anchor);
        let buffer = Arc::new(bytes);
        write.pending = self.devices.len();
        for copy in &self.devices {
            let (offset, buffer) = (ANCHORS[write.copy], Arc::clone(&buffer));
            let kind = OpKind::Write { offset, buffer, durable: true };
            ops.push(Device::Nvs(*copy), Purpose::Log(LogOp::Anchor), kind);
        }
    }

    /// One device has the anchor durable, or is no longer used.
    fn anchor_done(&mut self, ops: &mut Ops) {
        let Some(write) = &mut self.anchor else { return };
        write.pending -= 1;
        if write.pending > 0 {
            return;
        }
        if write.copy == 0 {
            write.copy = 1;
            self.send_anchor(ops);
        } else {
            if !self.defect.is(Defect::ReusesSpaceEarly) {
                self.space.anchored(write.anchor);
            }
            self.anchor = None;
        }
    }
}

fn pages_of(range: PageRange) -> Pages {
    Pages::new(range.first, range.pages)
}

fn range_of(pages: Pages) -> PageRange {
    PageRange::new(pages.first, pages.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: Anchor =
        Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };

    fn no_pages() -> DirtyPages {
        DirtyPages::new(crate::settings::PageMemory::default())
    }

    fn empty() -> Log {
        Log::new(Start {
            id: LogId([1; 16]),
            block_bytes: 512,
            devices: vec![0],
            space: LogSpace::new(1 << 20, ANCHOR),
            contents: Contents::default(),
            epoch: 1,
            defect: Defect::None,
        })
    }

    /// A buffer may have room for a little more than a commit may hold, by where it begins.
    #[test]
    fn no_batch_is_larger_than_a_commit_wherever_its_buffer_begins() {
        let mut between = Vec::new();
        for bytes in (0..64).map(|n| 16 + n * 80) {
            let mut log = empty();
            // Moves where the next buffer is.
            between.push(vec![0u8; bytes]);
            let mut buffer = Buffer::zeroed(DESCRIPTOR_BYTES_MAX + (1 << 20) + PAGE);
            buffer.set_len(DESCRIPTOR_BYTES_MAX + (1 << 20));
            log.pool.push(Spare { buffer, records: Vec::new(), waiters: Vec::new() });
            (0..600).for_each(|page| {
                log.write_page(page, &[7; PAGE]);
            });
            assert!(log.queue.iter().all(|batch| batch.payload <= 1 << 20));
            assert_eq!(log.queue.len(), 3);
        }
    }

    #[test]
    fn writes_that_come_at_once_go_out_in_several_commits_and_none_is_split() {
        let mut log = empty();
        for first in (0..64).map(|write| write * 3) {
            log.begin_write();
            (first..first + 3).for_each(|page| {
                log.write_page(page, &[7; PAGE]);
            });
        }
        let pages: Vec<usize> = log.queue.iter().map(|batch| batch.payload / PAGE).collect();
        assert_eq!(pages, [18, 174]);
    }

    #[test]
    fn a_small_batch_waits_until_the_commits_in_flight_are_done() {
        let (pages, mut ops, mut log) = (no_pages(), Ops::default(), empty());
        let in_flight = |log: &Log| log.in_flight.iter().map(|f| f.sequence).collect::<Vec<_>>();
        log.write_page(1, &[7; PAGE]);
        log.turn(&pages, &mut ops);
        assert_eq!(in_flight(&log).len(), 1, "nothing to wait for");
        (10..10 + SHARE as u64 / 4096).for_each(|page| {
            log.write_page(page, &[7; PAGE]);
        });
        log.turn(&pages, &mut ops);
        assert_eq!(in_flight(&log).len(), 2, "enough for a commit of its own");
        log.write_page(2, &[7; PAGE]);
        log.commit_done(in_flight(&log)[0]);
        log.turn(&pages, &mut ops);
        assert_eq!(in_flight(&log).len(), 1, "it gathers");
        log.commit_done(in_flight(&log)[0]);
        log.turn(&pages, &mut ops);
        assert_eq!(in_flight(&log).len(), 1, "nothing to wait for any more");
        assert!(log.queue.is_empty());
    }
}
