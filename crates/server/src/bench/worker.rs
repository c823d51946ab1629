//! One connection of a load.

use super::{BenchError, Shared, Tally, log, stamps};
use crate::client::{Client, Heard};
use destage_nbd::request::{Command, Request};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const READ: usize = 0;
const WRITE: usize = 1;
const FLUSH: usize = 2;

/// A request under way; its cookie is its place.
#[derive(Default)]
struct Slot {
    kind: usize,
    begun_ns: u64,
    block: u64,
    generation: u32,
    /// What came of a read, if it is to be checked.
    bytes: Vec<u8>,
}

/// A wrong sector, the generation it must have at least, and the one it has.
type Wrong = (u64, u64, Option<u64>);

/// What a verified load knows of each of its blocks.
#[derive(Default)]
struct Known {
    /// Last write that was acknowledged; 0 for none.
    acknowledged: Vec<u32>,
    /// Last write that was issued.
    issued: Vec<u32>,
    /// A request on it is under way.
    busy: Vec<bool>,
}

/// A connection at work. Worker `number` of `n` uses the blocks `number`, `number + n`, ...
pub(super) struct Worker {
    client: Client,
    number: u64,
    stride: u64,
    /// Blocks that are its own.
    blocks: u64,
    state: u64,
    next: u64,
    slots: Vec<Slot>,
    free: Vec<usize>,
    known: Known,
    stamped: bool,
    payload: Vec<u8>,
    since_flush: u64,
    issued: u64,
    records: Vec<u8>,
    pub(super) tallies: [Tally; 3],
    pub(super) time: Duration,
}

impl Worker {
    pub(super) fn new(shared: &Shared<'_>, number: usize, client: Client) -> Worker {
        let load = shared.load;
        let (number, stride) = (number as u64, load.connections as u64);
        let blocks = (shared.size / load.block - number).div_ceil(stride);
        let stamped = load.verify || load.log.is_some();
        let mut known = Known::default();
        if stamped {
            known.acknowledged.resize(blocks as usize, 0);
            known.issued.resize(blocks as usize, 0);
            known.busy.resize(blocks as usize, false);
        }
        let mut state = stamps::mixed(load.seed.wrapping_add(number << 32));
        let mut payload = vec![0; load.block as usize];
        for word in payload.chunks_mut(8) {
            state = state.wrapping_add(1);
            word.copy_from_slice(&stamps::mixed(state).to_le_bytes()[..word.len()]);
        }
        Worker {
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
            issued: 0,
            records: Vec::new(),
            tallies: [Tally::new(), Tally::new(), Tally::new()],
            time: Duration::ZERO,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(1);
        ((u128::from(stamps::mixed(self.state)) * u128::from(below)) >> 64) as u64
    }

    fn offset(&self, block: u64, bytes: u64) -> u64 {
        (block * self.stride + self.number) * bytes
    }

    /// Keeps requests under way until the time is over, then waits for the last replies.
    pub(super) fn run(&mut self, shared: &Shared<'_>) -> Result<(), BenchError> {
        let load = shared.load;
        let end_ns = load.time.as_nanos() as u64;
        let each_ns = load.rate.map(|rate| 1e9 * load.connections as f64 / rate);
        loop {
            let now_ns = shared.begin.elapsed().as_nanos() as u64;
            let mut next_due_ns = None;
            while now_ns < end_ns && !self.free.is_empty() {
                let due_ns = each_ns.map_or(now_ns, |each| (self.issued as f64 * each) as u64);
                if due_ns > now_ns {
                    next_due_ns = Some(due_ns);
                    break;
                }
                if !self.issue(shared, due_ns)? {
                    break;
                }
            }
            if now_ns >= end_ns && self.client.in_flight() == 0 {
                break;
            }
            let most = next_due_ns.map(|due| Duration::from_nanos(due.min(end_ns) - now_ns));
            self.hear(shared, most)?;
        }
        self.time = shared.begin.elapsed();
        Ok(())
    }

    /// Begins a request; false if there is no block free for one.
    fn issue(&mut self, shared: &Shared<'_>, begun_ns: u64) -> Result<bool, BenchError> {
        let load = shared.load;
        if load.flush_every > 0 && self.since_flush >= load.flush_every {
            self.since_flush = 0;
            return self.put(begun_ns, FLUSH, 0, 0, Command::Flush).map(|()| true);
        }
        let Some(block) = self.choose(load.pattern.random) else { return Ok(false) };
        let offset = self.offset(block, load.block);
        let length = load.block as u32;
        if self.draw(100) >= load.pattern.write_percent {
            let command = Command::Read { offset, length, dont_fragment: false };
            self.put(begun_ns, READ, block, 0, command)?;
        } else {
            let mut generation = 0;
            if self.stamped {
                let issued = &mut self.known.issued[block as usize];
                *issued += 1;
                generation = *issued;
                stamps::stamp(&mut self.payload, shared.run, offset, u64::from(generation));
            }
            self.since_flush += 1;
            let command = Command::Write { offset, length, fua: load.fua };
            self.put(begun_ns, WRITE, block, generation, command)?;
        }
        self.issued += 1;
        Ok(true)
    }

    /// A block; where contents are checked, one that no other request is on.
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

    /// Takes in what the server says.
    fn hear(&mut self, shared: &Shared<'_>, most: Option<Duration>) -> Result<(), BenchError> {
        let (slots, free, known) = (&mut self.slots, &mut self.free, &mut self.known);
        let (tallies, records) = (&mut self.tallies, &mut self.records);
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
                    now_ns = shared.begin.elapsed().as_nanos() as u64;
                }
                let slot = &slots[cookie as usize];
                tallies[slot.kind].latency_ns.saturating_record(now_ns - slot.begun_ns);
                tallies[slot.kind].errors += u64::from(errno.is_some());
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
        shared.answered.fetch_add(answered, Ordering::Relaxed);
        self.keep_records(shared)?;
        match wrong {
            Some((sector, least, there)) => Err(BenchError::Wrong(sector, least, there)),
            None => Ok(()),
        }
    }

    fn keep_records(&mut self, shared: &Shared<'_>) -> Result<(), BenchError> {
        let (Some(log), Some(path)) = (&shared.log, &shared.load.log) else {
            self.records.clear();
            return Ok(());
        };
        let writes = self.records.len() as u64 / 24;
        if writes > 0 {
            log.append(&mut self.records).map_err(|error| BenchError::File(path.clone(), error))?;
            shared.logged.fetch_add(writes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads all that was written and acknowledged; gives the number of blocks.
    pub(super) fn verify_all(&mut self, shared: &Shared<'_>) -> Result<u64, BenchError> {
        if !shared.load.verify {
            return Ok(0);
        }
        let (mut block, mut verified) = (0, 0);
        let begun = Instant::now();
        loop {
            while block < self.blocks && !self.free.is_empty() {
                if self.known.acknowledged[block as usize] > 0 {
                    let offset = self.offset(block, shared.load.block);
                    let length = shared.load.block as u32;
                    let command = Command::Read { offset, length, dont_fragment: false };
                    let since = begun.duration_since(shared.begin).as_nanos() as u64;
                    self.put(since, READ, block, 0, command)?;
                    verified += 1;
                }
                block += 1;
            }
            if self.client.in_flight() == 0 {
                return Ok(verified);
            }
            self.hear(shared, None)?;
            if self.tallies[READ].errors > 0 {
                return Err(BenchError::Unfit("reads fail: nothing can be verified".to_string()));
            }
        }
    }
}

impl Known {
    /// What is wrong with a block that was read while nothing else was under way on it.
    fn wrong(&self, block: usize, run: u64, offset: u64, bytes: &[u8]) -> Option<Wrong> {
        // Writes that failed may be there or not.
        let least = u64::from(self.acknowledged[block]);
        let most = u64::from(self.issued[block]);
        let found = (least > 0).then(|| stamps::first_wrong(bytes, run, offset, least..=most))?;
        found.map(|(sector, there)| (sector, least, there))
    }
}
