//! One connection of a pattern's load.

use super::laps::{FLUSH, Laps, Part, READ, WRITE};
use super::schedule::Schedule;
use super::{BenchError, LOOK, Patience, Shared, Work, log, stamps, unreadable};
use destage_client::{Client, Heard};
use destage_engine::mix::mix;
use destage_nbd::request::{Command, Request};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A request in flight; its cookie is its slot.
#[derive(Default)]
struct Slot {
    kind: usize,
    begun_ns: u64,
    block: u64,
    generation: u32,
    /// The bytes of a read, if they are to be checked.
    bytes: Vec<u8>,
}

/// A wrong sector, the least generation that it must have, and the one it has.
type Wrong = (u64, u64, Option<u64>);

/// What a verified load knows about its blocks.
#[derive(Default)]
struct BlockStates {
    /// Last write that was acknowledged; 0 for none.
    acknowledged: Vec<u32>,
    /// Last write that was issued.
    issued: Vec<u32>,
    /// A request on it is in flight.
    busy: Vec<bool>,
}

/// A connection at work. Worker `number` of `n` uses the blocks `number`, `number + n`, ...
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    client: Client,
    number: u64,
    stride: u64,
    /// Blocks that are its own.
    blocks: u64,
    state: u64,
    next: u64,
    slots: Vec<Slot>,
    free: Vec<usize>,
    known: BlockStates,
    stamped: bool,
    payload: Vec<u8>,
    since_flush: u64,
    schedule: Option<Schedule>,
    patience: Patience,
    records: Vec<u8>,
    laps: Laps,
    /// Reads that failed.
    failed_reads: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared<'a>,
        number: usize,
        client: Client,
        parts: Sender<Part>,
    ) -> Worker<'a> {
        let load = shared.load;
        let schedule = Schedule::new(load, number, load.connections);
        let (number, stride) = (number as u64, load.connections as u64);
        let blocks = (shared.size / load.block - number).div_ceil(stride);
        let stamped = load.stamped();
        let mut known = BlockStates::default();
        if stamped {
            known.acknowledged.resize(blocks as usize, 0);
            known.issued.resize(blocks as usize, 0);
            known.busy.resize(blocks as usize, false);
        }
        let mut state = mix(load.seed.wrapping_add(number << 32));
        let mut payload = vec![0; load.block as usize];
        for word in payload.chunks_mut(8) {
            state = state.wrapping_add(1);
            word.copy_from_slice(&mix(state).to_le_bytes()[..word.len()]);
        }
        Worker {
            shared,
            client,
            number,
            stride,
            blocks,
            state,
            next: 0,
            slots: (0..load.depth).map(|_| Slot::default()).collect(),
            free: (0..load.depth).rev().collect(),
            known,
            stamped,
            payload,
            since_flush: 0,
            schedule,
            patience: Patience::new(load),
            records: Vec::new(),
            laps: Laps::new(load, parts),
            failed_reads: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(1);
        ((u128::from(mix(self.state)) * u128::from(below)) >> 64) as u64
    }

    fn offset(&self, block: u64, bytes: u64) -> u64 {
        (block * self.stride + self.number) * bytes
    }

    /// Starts what is due; returns when the next request is, if a slot is free for it.
    fn begin_due(&mut self, now_ns: u64) -> Result<Option<u64>, BenchError> {
        while !self.free.is_empty() {
            let due_ns = self.schedule.as_ref().map_or(now_ns, Schedule::next_ns);
            if due_ns > now_ns {
                return Ok(Some(due_ns));
            }
            if !self.issue(due_ns, now_ns)? {
                break;
            }
        }
        Ok(None)
    }

    /// Starts a request; false if no block is free for one.
    fn issue(&mut self, due_ns: u64, now_ns: u64) -> Result<bool, BenchError> {
        let load = self.shared.load;
        if load.flush_every > 0 && self.since_flush >= load.flush_every {
            self.since_flush = 0;
            return self.put(now_ns, FLUSH, 0, 0, Command::Flush).map(|()| true);
        }
        let Some(block) = self.choose(load.pattern.random) else { return Ok(false) };
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
            self.laps.tally.begun_late_ns.saturating_record(now_ns - due_ns);
        }
        let offset = self.offset(block, load.block);
        let length = load.block as u32;
        if self.draw(100) >= load.pattern.write_percent {
            let command = Command::Read { offset, length, dont_fragment: false };
            self.put(due_ns, READ, block, 0, command)?;
        } else {
            let mut generation = 0;
            if self.stamped {
                let issued = &mut self.known.issued[block as usize];
                *issued += 1;
                generation = *issued;
                let run = self.shared.run;
                stamps::stamp(&mut self.payload, run, offset, u64::from(generation));
            }
            self.since_flush += 1;
            let command = Command::Write { offset, length, fua: load.fua };
            self.put(due_ns, WRITE, block, generation, command)?;
        }
        Ok(true)
    }

    /// A block; if contents are checked, one without another request.
    fn choose(&mut self, random: bool) -> Option<u64> {
        for _ in 0..64 {
            let block = if random {
                self.draw(self.blocks)
            } else {
                self.next = (self.next + 1) % self.blocks;
                self.next
            };
            if !self.stamped {
                return Some(block);
            }
            let busy = &mut self.known.busy[block as usize];
            if !*busy {
                *busy = true;
                return Some(block);
            }
        }
        None
    }

    fn put(
        &mut self,
        begun_ns: u64,
        kind: usize,
        block: u64,
        generation: u32,
        command: Command,
    ) -> Result<(), BenchError> {
        if self.client.in_flight() == 0 {
            self.patience.heard(begun_ns);
        }
        let place = self.free.pop().expect("asked for only where one is free");
        let slot = &mut self.slots[place];
        (slot.kind, slot.begun_ns, slot.block, slot.generation) =
            (kind, begun_ns, block, generation);
        if self.stamped && kind == READ {
            slot.bytes.clear();
            slot.bytes.resize(self.payload.len(), 0);
        }
        let payload = if kind == WRITE { &self.payload[..] } else { &[] };
        Ok(self.client.put(&Request { cookie: place as u64, command }, payload)?)
    }

    /// Takes in replies.
    fn hear(&mut self, most: Option<Duration>) -> Result<(), BenchError> {
        let shared = self.shared;
        let (slots, free, known) = (&mut self.slots, &mut self.free, &mut self.known);
        let (laps, records, failed_reads) =
            (&mut self.laps, &mut self.records, &mut self.failed_reads);
        let (stamped, block_bytes) = (self.stamped, shared.load.block);
        let (stride, number) = (self.stride, self.number);
        let (mut now_ns, mut answered, mut wrong) = (0, 0, None::<Wrong>);
        self.client.pump(most, |heard| match heard {
            Heard::Data(cookie, offset, part) => {
                let slot = &mut slots[cookie as usize];
                if stamped {
                    let begin = (slot.block * stride + number) * block_bytes;
                    let at = (offset - begin) as usize;
                    slot.bytes[at..at + part.len()].copy_from_slice(part);
                }
            }
            Heard::Hole(..) => {}
            Heard::Done(cookie, errno) => {
                if now_ns == 0 {
                    now_ns = shared.now_ns();
                    laps.at(now_ns);
                }
                let slot = &slots[cookie as usize];
                let bytes = if slot.kind == FLUSH { 0 } else { block_bytes };
                laps.tally.record(slot.kind, now_ns - slot.begun_ns, bytes, errno.is_some());
                if let Some(errno) = errno {
                    shared.failed_with(errno);
                    *failed_reads += u64::from(slot.kind == READ);
                }
                answered += 1;
                free.push(cookie as usize);
                if stamped && slot.kind != FLUSH {
                    let block = slot.block as usize;
                    let offset = (slot.block * stride + number) * block_bytes;
                    known.busy[block] = false;
                    if slot.kind == WRITE && errno.is_none() {
                        known.acknowledged[block] = slot.generation;
                        let generation = u64::from(slot.generation);
                        log::record(records, offset, block_bytes, generation);
                    } else if slot.kind == READ && errno.is_none() {
                        wrong = wrong.or(known.wrong(block, shared.run, offset, &slot.bytes));
                    }
                }
            }
        })?;
        if answered > 0 {
            self.patience.heard(now_ns);
            shared.answered.fetch_add(answered, Ordering::Relaxed);
            shared.keep(&mut self.records)?;
        }
        match wrong {
            Some((sector, least, there)) => Err(BenchError::Wrong(sector, least, there)),
            None => Ok(()),
        }
    }
}

impl Work for Worker<'_> {
    fn run(&mut self) -> Result<(), BenchError> {
        let shared = self.shared;
        let (load, end_ns) = (shared.load, shared.load.end_ns());
        loop {
            let now_ns = shared.now_ns();
            self.laps.at(now_ns);
            let next_due_ns = if now_ns < end_ns { self.begin_due(now_ns)? } else { None };
            let in_flight = self.client.in_flight();
            if shared.failed.load(Ordering::Relaxed) || now_ns >= end_ns && in_flight == 0 {
                break;
            }
            self.patience.check(now_ns, in_flight, load)?;
            let until = |due: u64| Duration::from_nanos(due.min(end_ns) - now_ns).min(LOOK);
            self.hear(next_due_ns.map(until))?;
        }
        self.laps.finish(shared.now_ns());
        Ok(())
    }

    fn not_begun(&mut self) -> Result<u64, BenchError> {
        let end_ns = self.shared.load.end_ns();
        Ok(self.schedule.as_mut().map_or(0, |schedule| schedule.pass(end_ns)))
    }

    fn verify_all(&mut self) -> Result<u64, BenchError> {
        if !self.shared.load.verify {
            return Ok(0);
        }
        let (mut block, mut verified) = (0, 0);
        self.failed_reads = 0;
        loop {
            while block < self.blocks && !self.free.is_empty() {
                if self.known.acknowledged[block as usize] > 0 {
                    let offset = self.offset(block, self.shared.load.block);
                    let length = self.shared.load.block as u32;
                    let command = Command::Read { offset, length, dont_fragment: false };
                    self.put(self.shared.now_ns(), READ, block, 0, command)?;
                    verified += 1;
                }
                block += 1;
            }
            let in_flight = self.client.in_flight();
            if in_flight == 0 {
                return Ok(verified);
            }
            self.patience.check(self.shared.now_ns(), in_flight, self.shared.load)?;
            self.hear(None)?;
            if self.failed_reads > 0 {
                return Err(unreadable());
            }
        }
    }
}

impl BlockStates {
    /// What is wrong with a block that was read while no other request was on it.
    fn wrong(&self, block: usize, run: u64, offset: u64, bytes: &[u8]) -> Option<Wrong> {
        // Writes that failed may be there or not.
        let least = u64::from(self.acknowledged[block]);
        let most = u64::from(self.issued[block]);
        let found = (least > 0).then(|| stamps::first_wrong(bytes, run, offset, least..=most))?;
        found.map(|(sector, there)| (sector, least, there))
    }
}
