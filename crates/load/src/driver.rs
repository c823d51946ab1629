//! A load at work on some connections, on one thread: all connections of a feed, or one of a
//! pattern. Requests start in the order of the feed, each on the connection with the fewest in
//! flight.

use super::known::{Known, Units};
use super::laps::{FLUSH, Laps, Part, READ, WRITE};
use super::schedule::Schedule;
use super::{BenchError, Feed, FeedRequest, LOOK, Pace, Patience, Shared, log, stamps, unreadable};
use destage_client::{Client, ClientError, Heard};
use destage_engine::mix::mix;
use destage_nbd::request::{Command, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Bytes of a read that verifies.
const VERIFY_BYTES: u64 = 128 << 10;

/// A request in flight. The cookies of its parts have its slot in the lower half.
#[derive(Default)]
struct Slot {
    kind: usize,
    due_ns: u64,
    /// The feed's tag.
    tag: Option<u32>,
    offset: u64,
    length: u64,
    generation: u64,
    /// Parts without an answer.
    parts: u64,
    errno: Option<u32>,
    /// The bytes of a read, if they are to be checked.
    bytes: Vec<u8>,
}

/// The requests in flight, and what their answers are used for.
struct Table<'a> {
    shared: &'a Shared<'a>,
    feed: Box<dyn Feed>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Only if contents are checked.
    known: Option<Known>,
    records: Vec<u8>,
    laps: Laps,
    /// The feed's own time, if it does not decide when requests are due.
    virtual_ns: u64,
    /// Longest part of a request.
    part_bytes: u64,
    failed_reads: u64,
    wrong: Option<(u64, u64, Option<u64>)>,
}

/// The load of a feed.
pub(super) struct Driver<'a> {
    table: Table<'a>,
    clients: Vec<Client>,
    schedule: Option<Schedule>,
    patience: Patience,
    /// Taken from the feed; it overlaps another request in flight.
    held: Option<FeedRequest>,
    /// What is written. Always the same bytes if contents are not checked.
    payload: Vec<u8>,
    generation: u64,
    since_flush: u64,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        shared: &'a Shared<'a>,
        clients: Vec<Client>,
        feed: Box<dyn Feed>,
        units: Units,
        schedule: Option<Schedule>,
        parts: Sender<Part>,
    ) -> Driver<'a> {
        let load = shared.load;
        let block = &clients[0].session().block;
        let part_bytes = u64::from(block.maximum / block.minimum * block.minimum);
        let depth = load.depth * clients.len();
        let table = Table {
            shared,
            feed,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            free: (0..depth).rev().collect(),
            known: load.stamped().then(|| Known::new(units, shared.size)),
            records: Vec::new(),
            laps: Laps::new(load.warmup, load.interval, parts),
            virtual_ns: 0,
            part_bytes,
            failed_reads: 0,
            wrong: None,
        };
        Driver {
            table,
            clients,
            schedule,
            patience: Patience::new(load),
            held: None,
            payload: Vec::new(),
            generation: 0,
            since_flush: 0,
        }
    }

    fn in_flight(&self) -> usize {
        self.table.slots.len() - self.table.free.len()
    }

    /// When the next request is due; `None` if there is none, or none until one is answered.
    fn next_due(&mut self, now_ns: u64) -> Option<u64> {
        let next_ns = self.table.feed.next_at()?;
        Some(match (self.table.shared.load.pace, &self.schedule) {
            (Pace::Own, _) => next_ns,
            (_, Some(schedule)) => schedule.next_ns(),
            (_, None) => now_ns,
        })
    }

    /// Takes the request that is due.
    fn take(&mut self, due_ns: u64, now_ns: u64) -> Result<FeedRequest, BenchError> {
        let table = &mut self.table;
        let own = table.shared.load.pace == Pace::Own;
        if !own {
            let next_ns = table.feed.next_at().expect("announced");
            table.virtual_ns = table.virtual_ns.max(next_ns);
        }
        let at_ns = if own { now_ns } else { table.virtual_ns };
        let mut ask = table.feed.take(at_ns).map_err(BenchError::Feed)?;
        if !own {
            ask.due_ns = due_ns;
        }
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
        Ok(ask)
    }

    /// Starts what is due; returns when the next request is, if a slot is free for it.
    fn begin_due(&mut self, now_ns: u64) -> Result<Option<u64>, BenchError> {
        let flush_every = self.table.shared.load.flush_every;
        while !self.table.free.is_empty() {
            if flush_every > 0 && self.since_flush >= flush_every {
                self.since_flush = 0;
                let ask =
                    FeedRequest { due_ns: now_ns, tag: 0, write: false, offset: 0, length: 0 };
                self.put(FLUSH, ask, None)?;
                continue;
            }
            let ask = match self.held.take() {
                Some(ask) => ask,
                None => {
                    let Some(due_ns) = self.next_due(now_ns) else { break };
                    if due_ns > now_ns {
                        return Ok(Some(due_ns));
                    }
                    self.take(due_ns, now_ns)?
                }
            };
            let known = self.table.known.as_ref();
            if !known.is_none_or(|known| known.free(ask.offset, ask.length, ask.write)) {
                self.held = Some(ask);
                break;
            }
            if self.table.shared.load.pace != Pace::Closed {
                let late_ns = now_ns.saturating_sub(ask.due_ns);
                self.table.laps.tally.begun_late_ns.saturating_record(late_ns);
            }
            self.since_flush += u64::from(ask.write);
            self.put(if ask.write { WRITE } else { READ }, ask, Some(ask.tag))?;
        }
        Ok(None)
    }

    /// Sends a request, in as many parts as the server needs.
    fn put(&mut self, kind: usize, ask: FeedRequest, tag: Option<u32>) -> Result<(), BenchError> {
        if self.in_flight() == 0 {
            self.patience.heard(self.table.shared.now_ns());
        }
        let FeedRequest { due_ns, offset, length, .. } = ask;
        if kind == WRITE {
            self.prepare(offset, length);
        }
        let generation = self.generation;
        let table = &mut self.table;
        if let (Some(known), true) = (&mut table.known, kind != FLUSH) {
            match kind {
                WRITE => known.begin_write(offset, length, generation),
                _ => known.begin_read(offset, length),
            }
        }
        let place = table.free.pop().expect("asked for only where one is free");
        let slot = &mut table.slots[place];
        (slot.kind, slot.due_ns, slot.tag) = (kind, due_ns, tag);
        (slot.offset, slot.length, slot.generation) = (offset, length, generation);
        slot.parts = length.div_ceil(table.part_bytes).max(1);
        slot.errno = None;
        slot.bytes.clear();
        if kind == READ && table.known.is_some() {
            slot.bytes.resize(length as usize, 0);
        }
        let parts = slot.parts;
        let client = self.clients.iter_mut().min_by_key(|client| client.in_flight());
        let client = client.expect("there is a connection");
        for part in 0..parts {
            let from = part * table.part_bytes;
            let bytes = (length - from).min(table.part_bytes);
            let (offset, length) = (offset + from, bytes as u32);
            let (command, payload) = match kind {
                READ => (Command::Read { offset, length, dont_fragment: false }, &[][..]),
                WRITE => {
                    let fua = table.shared.load.fua;
                    let payload = &self.payload[from as usize..(from + bytes) as usize];
                    (Command::Write { offset, length, fua }, payload)
                }
                _ => (Command::Flush, &[][..]),
            };
            client.put(&Request { cookie: (part << 32) | place as u64, command }, payload)?;
        }
        Ok(())
    }

    /// Makes the payload of a write, with a generation of its own if contents are checked.
    fn prepare(&mut self, offset: u64, length: u64) {
        let (run, length) = (self.table.shared.run, length as usize);
        let filled = self.payload.len();
        if filled < length {
            self.payload.resize(length.next_multiple_of(8), 0);
            for (word, number) in self.payload[filled..].chunks_exact_mut(8).zip(filled as u64..) {
                word.copy_from_slice(&mix(run ^ number).to_le_bytes());
            }
        }
        if self.table.known.is_some() {
            self.generation += 1;
            stamps::stamp(&mut self.payload[..length], run, offset, self.generation);
        }
    }

    /// Sends what there is to send, and takes in replies, waiting for at most this long.
    fn hear(&mut self, most: Option<Duration>) -> Result<(), BenchError> {
        let (mut now_ns, mut answered) = (0, 0);
        let Driver { table, clients, .. } = self;
        let mut hear = |heard: Heard<'_>| match heard {
            Heard::Data(cookie, offset, part) => table.data(cookie, offset, part),
            Heard::Hole(..) => {}
            Heard::Done(cookie, errno) => {
                if now_ns == 0 {
                    now_ns = table.shared.now_ns();
                    table.laps.at(now_ns);
                }
                answered += table.done(cookie, errno, now_ns);
            }
        };
        match &mut clients[..] {
            [client] => client.pump(most, hear)?,
            clients => {
                let came = wait(clients, most.unwrap_or(LOOK))?;
                for (client, _) in clients.iter_mut().zip(came).filter(|(_, came)| *came) {
                    client.hear_some(&mut hear)?;
                }
            }
        }
        if now_ns > 0 {
            self.patience.heard(now_ns);
            self.table.shared.answered.fetch_add(answered, Ordering::Relaxed);
            self.table.shared.keep(&mut self.table.records)?;
        }
        match self.table.wrong {
            Some((sector, least, there)) => Err(BenchError::Wrong(sector, least, there)),
            None => Ok(()),
        }
    }
}

/// Sends what there is to send, and waits for replies; which connections have some.
fn wait(clients: &mut [Client], most: Duration) -> Result<Vec<bool>, BenchError> {
    let mut wanted = Vec::with_capacity(clients.len());
    for client in clients.iter_mut() {
        let more = client.send_some()?;
        wanted.push(if more { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN });
    }
    let sockets = clients.iter().zip(wanted);
    let mut polled: Vec<PollFd<'_>> =
        sockets.map(|(client, wanted)| PollFd::new(client, wanted)).collect();
    let time = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(ClientError::from(error).into()),
    }
    Ok(polled.iter().map(|polled| polled.revents().intersects(!PollFlags::OUT)).collect())
}

impl Table<'_> {
    fn data(&mut self, cookie: u64, offset: u64, part: &[u8]) {
        let slot = &mut self.slots[cookie as u32 as usize];
        if !slot.bytes.is_empty() {
            let at = (offset - slot.offset) as usize;
            slot.bytes[at..at + part.len()].copy_from_slice(part);
        }
    }

    /// A part is answered; returns how many requests are complete with it.
    fn done(&mut self, cookie: u64, errno: Option<u32>, now_ns: u64) -> u64 {
        let place = cookie as u32 as usize;
        let slot = &mut self.slots[place];
        slot.errno = slot.errno.or(errno);
        slot.parts -= 1;
        if slot.parts > 0 {
            return 0;
        }
        let failed = slot.errno.is_some();
        let ns = now_ns.saturating_sub(slot.due_ns);
        self.laps.tally.record(slot.kind, ns, slot.length, failed);
        if let Some(errno) = slot.errno {
            self.shared.failed_with(errno);
            self.failed_reads += u64::from(slot.kind == READ);
        }
        self.free.push(place);
        if let Some(tag) = slot.tag {
            let own = self.shared.load.pace == Pace::Own;
            self.feed.completed(tag, if own { now_ns } else { self.virtual_ns });
        }
        self.contents(place);
        1
    }

    /// Checks and records contents after a request.
    fn contents(&mut self, place: usize) {
        let (Some(known), slot) = (&mut self.known, &self.slots[place]) else { return };
        let (offset, length, good) = (slot.offset, slot.length, slot.errno.is_none());
        match slot.kind {
            WRITE => {
                known.end_write(offset, length, good.then_some(slot.generation));
                let parts = (0..length).step_by(self.part_bytes as usize).filter(|_| good);
                for at in parts {
                    let bytes = (length - at).min(self.part_bytes);
                    log::record(&mut self.records, offset + at, bytes, slot.generation);
                }
            }
            READ => {
                known.end_read(offset, length);
                if good && self.wrong.is_none() {
                    self.wrong = known.wrong(self.shared.run, offset, &slot.bytes);
                }
            }
            _ => {}
        }
    }
}

impl Driver<'_> {
    /// Keeps requests in flight until the time is over, then waits for the last replies.
    pub(super) fn run(&mut self) -> Result<(), BenchError> {
        let shared = self.table.shared;
        let end_ns = shared.load.end_ns();
        loop {
            let now_ns = shared.now_ns();
            self.table.laps.at(now_ns);
            let over = now_ns >= end_ns;
            let next_due_ns = if over { None } else { self.begin_due(now_ns)? };
            let in_flight = self.in_flight();
            let failed = shared.failed.load(Ordering::Relaxed);
            if failed || in_flight == 0 && (over || next_due_ns.is_none()) {
                break;
            }
            self.patience.check(now_ns, in_flight, shared.load)?;
            let until = |due: u64| Duration::from_nanos(due.min(end_ns) - now_ns).min(LOOK);
            self.hear(next_due_ns.map(until))?;
        }
        self.table.laps.finish(shared.now_ns());
        Ok(())
    }

    /// Requests that were due but never started.
    pub(super) fn not_begun(&mut self) -> Result<u64, BenchError> {
        let end_ns = self.table.shared.load.end_ns();
        // In a closed loop nothing is due that could be late.
        let held = u64::from(self.held.is_some() && self.table.shared.load.pace != Pace::Closed);
        if let Some(schedule) = &mut self.schedule {
            let more = self.table.feed.next_at().is_some() && end_ns < u64::MAX;
            return Ok(held + if more { schedule.pass(end_ns) } else { 0 });
        }
        let mut number = held;
        if self.table.shared.load.pace == Pace::Own {
            let feed = &mut self.table.feed;
            while feed.next_at().is_some_and(|at_ns| at_ns < end_ns) {
                let ask = feed.take(end_ns).map_err(BenchError::Feed)?;
                feed.completed(ask.tag, end_ns);
                // A closed loop's next request is due when it is taken.
                if ask.due_ns >= end_ns {
                    break;
                }
                number += 1;
            }
        }
        Ok(number)
    }

    /// Reads everything that was acknowledged; returns how many units that is.
    pub(super) fn verify_all(&mut self) -> Result<u64, BenchError> {
        if !self.table.shared.load.verify {
            return Ok(0);
        }
        let (mut from, mut verified) = (0, 0);
        self.table.failed_reads = 0;
        loop {
            let known = self.table.known.as_ref().expect("contents are checked");
            let most = VERIFY_BYTES.min(self.table.part_bytes);
            let run = if self.table.free.is_empty() { None } else { known.run(from, most) };
            if let Some((offset, length, units)) = run {
                let due_ns = self.table.shared.now_ns();
                let ask = FeedRequest { due_ns, tag: 0, write: false, offset, length };
                self.put(READ, ask, None)?;
                from = offset + length;
                verified += units;
                continue;
            }
            let in_flight = self.in_flight();
            if in_flight == 0 {
                return Ok(verified);
            }
            let now_ns = self.table.shared.now_ns();
            self.patience.check(now_ns, in_flight, self.table.shared.load)?;
            self.hear(None)?;
            if self.table.failed_reads > 0 {
                return Err(unreadable());
            }
        }
    }
}
