//! The NVS log as it is written: records gather in a batch, a batch becomes a commit as soon as
//! one may be under way, commits become durable in their order (docs/nvs-format.md).

use crate::Buffer;
use crate::crc::{crc32c, crc32c_of_both};
use crate::defect::Defect;
use crate::io::{Device, OpKind};
use crate::memory::{Memory, PAGE};
use crate::ops::{Ops, Purpose};
use destage_engine::request::RequestId;
use destage_engine::units::{Duration, Instant, Page};
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Header, Kind};
use destage_nvslog::contents::{Contents, Move, Place, Stored};
use destage_nvslog::record::{Origin, Pages, Record, SectorSums};
use destage_nvslog::space::{Allocation, LogSpace, Purpose as Room};
use destage_nvslog::{DESCRIPTOR_BYTES_MAX, HEADER_BYTES, LogId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// First byte of anchor A and anchor B on an NVS device.
pub(crate) const ANCHORS: [u64; 2] = [4096, 8192];
/// First byte of the ring.
pub(crate) use destage_nvslog::superblock::DATA_START as RING;
/// Commits under way at once. More would each carry less, and each costs the processor and the
/// device the same.
const FLIGHTS_MAX: usize = 2;
/// Bytes of payload with which a commit goes out though another is under way, and takes no
/// further write.
const SHARE: usize = 64 << 10;
/// Buffers of commits kept to be used again.
const POOL_MAX: usize = 8;
/// After this long without a commit an empty one confirms those before it.
const CONFIRM_AFTER: Duration = Duration::from_millis(50);

/// Who is told when a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A host write or discard: the engine is told.
    Append(RequestId),
    /// A destage: its intent is durable.
    Intent(u32),
    /// A request that is answered when it is durable.
    Answer(u64),
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

/// A commit under way.
struct Flight {
    sequence: u64,
    /// NVS devices that have not answered.
    pending: usize,
    buffer: Option<Arc<Buffer>>,
    waiters: Vec<Waiter>,
    /// None: room for those of a later commit.
    records: Vec<Record>,
    /// Highest version that it or a commit before it has.
    last_version: u64,
}

/// Memory of a commit that is over.
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
    pub(crate) copies: Vec<u16>,
    /// One that is being filled: commits go to it too, but nothing counts there yet.
    pub(crate) joining: Option<u16>,
    /// While it is: from this block on, only so many are there.
    pub(crate) keep: Option<(u64, u64)>,
    /// No anchor is begun.
    pub(crate) hold_anchors: bool,
    pub(crate) space: LogSpace,
    pub(crate) contents: Contents,
    epoch: u32,
    last_version: u64,
    durable_version: u64,
    queue: VecDeque<Batch>,
    flights: VecDeque<Flight>,
    anchor: Option<AnchorWrite>,
    /// Blocks that the first batch of the queue waits for.
    waiting_blocks: u64,
    /// Payloads being read back, each with the number of the device asked last.
    moves: BTreeMap<(u64, u64), (usize, Option<Buffer>)>,
    pool: Vec<Spare>,
    resolved: Vec<Waiter>,
    /// When the last commit with records went out that none has confirmed.
    unconfirmed: Option<Instant>,
    /// Held back: a change of the set of devices must be durable first.
    pub(crate) hold: bool,
    pub(crate) defect: Defect,
    pub(crate) bytes_written: u64,
    pub(crate) records_moved: u64,
    scratch: Vec<u8>,
}

/// What the log's parts are on start.
pub(crate) struct Start {
    pub(crate) id: LogId,
    pub(crate) block_bytes: u32,
    pub(crate) copies: Vec<u16>,
    pub(crate) space: LogSpace,
    pub(crate) contents: Contents,
    pub(crate) epoch: u32,
}

impl Log {
    pub(crate) fn new(start: Start) -> Log {
        let Start { id, block_bytes, copies, space, contents, epoch } = start;
        Log {
            id,
            block_bytes,
            copies,
            joining: None,
            keep: None,
            hold_anchors: false,
            last_version: contents.last_version(),
            durable_version: contents.last_version(),
            space,
            contents,
            epoch,
            queue: VecDeque::new(),
            flights: VecDeque::new(),
            anchor: None,
            waiting_blocks: 0,
            moves: BTreeMap::new(),
            pool: Vec::new(),
            resolved: Vec::new(),
            unconfirmed: None,
            hold: false,
            defect: Defect::None,
            bytes_written: 0,
            records_moved: 0,
            scratch: Vec::new(),
        }
    }

    /// Whether no NVS device is left.
    pub(crate) fn lost(&self) -> bool {
        self.copies.is_empty()
    }

    /// Highest version given out.
    pub(crate) fn last_version(&self) -> u64 {
        self.last_version
    }

    /// Writes up to this version are durable.
    pub(crate) fn durable_version(&self) -> u64 {
        self.durable_version
    }

    /// A write of the host begins: all of it goes into one commit, if that has room.
    pub(crate) fn begin_write(&mut self) {
        let idle = self.queue.len() + self.flights.len() < FLIGHTS_MAX;
        if idle && self.queue.back().is_some_and(|batch| batch.payload >= SHARE) {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
    }

    /// Logs the new bytes of a whole page; its version.
    pub(crate) fn data(&mut self, page: u64, bytes: &[u8]) -> u64 {
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

    /// Logs zeros or a trim of whole pages; the version.
    pub(crate) fn clear(&mut self, pages: Pages, zeros: bool) -> u64 {
        self.last_version += 1;
        let version = self.last_version;
        if !self.lost() {
            let record = match zeros {
                true => Record::Zero { pages, version, origin: Origin::New },
                false => Record::Trim { pages, version },
            };
            self.add(record, &[]);
        }
        version
    }

    /// Logs that the disks are about to be written with the group's pages as they are now.
    pub(crate) fn intend(&mut self, pages: Pages, through: u64) {
        self.house(Record::Intent { pages, through, moved: false });
    }

    /// Logs the checksums of a row's new parity.
    pub(crate) fn parity(&mut self, first: u64, row: u32, p: SectorSums, q: Option<SectorSums>) {
        self.house(Record::Parity { first: Page(first), row, p, q, moved: false });
    }

    /// Logs that the pages are on the disks.
    pub(crate) fn release(&mut self, pages: Pages, through: u64) {
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

    /// Has a waiter told when all that was logged so far is durable.
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        if let Some(batch) = self.queue.back_mut() {
            batch.waiters.push(waiter);
        } else if let Some(flight) = self.flights.back_mut() {
            flight.waiters.push(waiter);
        } else {
            self.resolved.push(waiter);
        }
    }

    /// Hands out the waiters whose commits have become durable.
    pub(crate) fn take_resolved(&mut self, into: &mut Vec<Waiter>) {
        into.append(&mut self.resolved);
    }

    /// Whether everything logged is durable.
    pub(crate) fn settled(&self) -> bool {
        self.queue.is_empty() && self.flights.is_empty()
    }

    /// When [`Log::turn`] has something to do though nothing happened.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let idle = !self.lost() && self.settled();
        self.unconfirmed.filter(|_| idle).map(|since| since + CONFIRM_AFTER)
    }

    /// Confirms what was logged before by an empty commit: at a clean stop.
    pub(crate) fn confirm(&mut self) {
        if self.unconfirmed.take().is_some() && self.queue.is_empty() && !self.lost() {
            let batch = self.new_batch();
            self.queue.push_back(batch);
        }
    }

    /// Writes what may be written now.
    pub(crate) fn turn(&mut self, memory: &Memory, ops: &mut Ops) {
        if self.lost() {
            return;
        }
        if self.deadline().is_some_and(|at| ops.now() >= at) {
            self.confirm();
        }
        loop {
            self.write_anchor(ops);
            if self.flights.len() >= FLIGHTS_MAX {
                return;
            }
            if let Some(commits) = self.space.evacuate(self.waiting_blocks) {
                match self.evacuate(&commits, memory, ops) {
                    Evacuated::Moved => continue,
                    // The tail must move first, or payloads be read.
                    Evacuated::Waits => {}
                }
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

    /// Whether a batch waits for more: a small one, until what is under way is done.
    fn gathers(&self, batch: &Batch) -> bool {
        self.queue.len() == 1 && batch.payload < SHARE && !self.flights.is_empty()
    }

    /// Hands a commit to all NVS devices, padding before it if need be.
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
        for copy in self.copies.iter().chain(&self.joining) {
            let kind = OpKind::Write {
                offset: RING + block * u64::from(self.block_bytes),
                buffer: Arc::clone(&buffer),
                durable: true,
            };
            ops.push(Device::Nvs(*copy), Purpose::Commit { sequence }, kind);
        }
        let pending = self.copies.len() + usize::from(self.joining.is_some());
        let last_version = self.contents.last_version();
        let buffer = Some(buffer);
        let flight = Flight { sequence, pending, buffer, waiters, records, last_version };
        self.flights.push_back(flight);
        if self.defect.is(Defect::AcknowledgesEarly) {
            let flight = self.flights.back_mut().expect("just pushed");
            self.resolved.append(&mut flight.waiters);
        }
    }

    /// One device has a commit durable, or has gone.
    pub(crate) fn commit_done(&mut self, sequence: u64) {
        if let Some(flight) = self.flights.iter_mut().find(|f| f.sequence == sequence) {
            flight.pending -= 1;
        }
        self.advance();
    }

    /// Tells the waiters of commits that are durable with all before them.
    pub(crate) fn advance(&mut self) {
        while !self.hold && self.flights.front().is_some_and(|flight| flight.pending == 0) {
            let mut flight = self.flights.pop_front().expect("looked at");
            self.space.made_durable(flight.sequence);
            self.durable_version = flight.last_version;
            self.resolved.append(&mut flight.waiters);
            if let Some(Ok(buffer)) = flight.buffer.map(Arc::try_unwrap)
                && self.pool.len() < POOL_MAX
            {
                let Flight { records, waiters, .. } = flight;
                self.pool.push(Spare { buffer: buffer.whole(), records, waiters });
            }
        }
    }

    /// All NVS devices are gone: nothing waits for them any more.
    pub(crate) fn give_up(&mut self) {
        for flight in self.flights.drain(..) {
            self.resolved.extend(flight.waiters);
        }
        for batch in self.queue.drain(..) {
            self.resolved.extend(batch.waiters);
        }
        (self.anchor, self.unconfirmed) = (None, None);
    }

    /// Whether an anchor is being written.
    pub(crate) fn anchoring(&self) -> bool {
        self.anchor.is_some()
    }

    /// Whether the blocks that this anchor frees are copied, if they are to be.
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
        write.pending = self.copies.len();
        for copy in &self.copies {
            let (offset, buffer) = (ANCHORS[write.copy], Arc::clone(&buffer));
            let kind = OpKind::Write { offset, buffer, durable: true };
            ops.push(Device::Nvs(*copy), Purpose::Anchor, kind);
        }
    }

    /// One device has the anchor durable, or has gone.
    pub(crate) fn anchor_done(&mut self, ops: &mut Ops) {
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

    /// Moves what is live of some commits to the head, as much as one commit takes.
    fn evacuate(
        &mut self,
        commits: &core::ops::Range<u64>,
        memory: &Memory,
        ops: &mut Ops,
    ) -> Evacuated {
        let mut batch = self.new_batch();
        let most = self.space.commit_blocks_max();
        for (record, stored) in self.contents.live_in(commits) {
            let bytes = stored.map_or(0, |s| s.blocks as usize * self.block_bytes as usize);
            let descriptor = batch.descriptor + record.encoded_bytes();
            let blocks = self.blocks_of(descriptor) + self.blocks_of(batch.payload + bytes);
            if descriptor > DESCRIPTOR_BYTES_MAX
                || DESCRIPTOR_BYTES_MAX + batch.payload + bytes > batch.buffer.len()
                || blocks > most
            {
                break;
            }
            let at = DESCRIPTOR_BYTES_MAX + batch.payload;
            if !self.fetch((record, stored), memory, &mut batch.buffer[at..at + bytes], ops) {
                continue;
            }
            batch.payload += bytes;
            batch.descriptor = descriptor;
            batch.records.push(record);
        }
        let blocks = self.blocks_of(batch.descriptor) + self.blocks_of(batch.payload);
        let place = match batch.records.is_empty() {
            true => None,
            false => self.space.allocate(blocks, Room::Housekeeping),
        };
        let Some(place) = place else {
            let Batch { buffer, mut records, waiters, .. } = batch;
            records.clear();
            self.pool.push(Spare { buffer, records, waiters });
            return Evacuated::Waits;
        };
        for record in &batch.records {
            if let Record::Data { page, version, .. } = record {
                self.moves.remove(&(page.0, *version));
            }
        }
        self.records_moved += batch.records.len() as u64;
        self.write(batch, place, ops);
        Evacuated::Moved
    }

    /// The payload of a record that is to be moved: from memory if that has the same write, else
    /// read back. `false`: not yet here.
    fn fetch(&mut self, moved: Move, memory: &Memory, into: &mut [u8], ops: &mut Ops) -> bool {
        let (Record::Data { page, version, .. }, Some(stored)) = moved else { return true };
        let copies = [memory.current(page.0), memory.flying(page.0)];
        let same = copies.into_iter().flatten().find(|held| held.version == version);
        if let Some(held) = same {
            into.copy_from_slice(memory.bytes(held));
            return true;
        }
        let device = match self.moves.get(&(page.0, version)) {
            Some((_, Some(bytes))) if crc32c(bytes) == stored.crc => {
                into.copy_from_slice(bytes);
                return true;
            }
            Some((_, None)) => return false,
            // It has rotted there. Where no device has it whole it stays where it is, until the
            // newer write, which memory has, takes its place.
            Some((device, Some(_))) if device + 1 >= self.copies.len() => return false,
            Some((device, Some(_))) => device + 1,
            None => 0,
        };
        let Stored { block, blocks, .. } = stored;
        let kind = OpKind::Read {
            offset: RING + block * u64::from(self.block_bytes),
            bytes: blocks as usize * self.block_bytes as usize,
        };
        let purpose = Purpose::Move { page: page.0, version };
        ops.push(Device::Nvs(self.copies[device]), purpose, kind);
        self.moves.insert((page.0, version), (device, None));
        false
    }

    /// A payload to be moved was read; `None`: the device could not, another is asked.
    pub(crate) fn moved(&mut self, page: u64, version: u64, bytes: Option<Buffer>) {
        match (bytes, self.moves.get_mut(&(page, version))) {
            (Some(bytes), Some(moving)) => moving.1 = Some(bytes),
            (Some(_), None) => {}
            (None, _) => drop(self.moves.remove(&(page, version))),
        }
    }
}

enum Evacuated {
    Moved,
    Waits,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: Anchor =
        Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };

    fn empty() -> Log {
        Log::new(Start {
            id: LogId([1; 16]),
            block_bytes: 512,
            copies: vec![0],
            space: LogSpace::new(1 << 20, ANCHOR),
            contents: Contents::default(),
            epoch: 1,
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
                log.data(page, &[7; PAGE]);
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
                log.data(page, &[7; PAGE]);
            });
        }
        let pages: Vec<usize> = log.queue.iter().map(|batch| batch.payload / PAGE).collect();
        assert_eq!(pages, [18, 174]);
    }

    #[test]
    fn a_small_batch_waits_until_the_commits_under_way_are_done() {
        let (memory, mut ops, mut log) = (Memory::default(), Ops::default(), empty());
        let under_way = |log: &Log| log.flights.iter().map(|f| f.sequence).collect::<Vec<_>>();
        log.data(1, &[7; PAGE]);
        log.turn(&memory, &mut ops);
        assert_eq!(under_way(&log).len(), 1, "nothing to wait for");
        (10..10 + SHARE as u64 / 4096).for_each(|page| {
            log.data(page, &[7; PAGE]);
        });
        log.turn(&memory, &mut ops);
        assert_eq!(under_way(&log).len(), 2, "enough for a commit of its own");
        log.data(2, &[7; PAGE]);
        log.commit_done(under_way(&log)[0]);
        log.turn(&memory, &mut ops);
        assert_eq!(under_way(&log).len(), 1, "it gathers");
        log.commit_done(under_way(&log)[0]);
        log.turn(&memory, &mut ops);
        assert_eq!(under_way(&log).len(), 1, "nothing to wait for any more");
        assert!(log.queue.is_empty());
    }
}
