//! The data thread's part of giving a served array another NVS log (docs/durability.md, "Another
//! log"). The array is drained while it serves. Then requests are held, and nothing is in flight;
//! another thread replaces the log and opens the array, and this one carries out its operations.
//! Then the requests continue with the new volume.

use super::ArrayBackend;
use super::handle::Call;
use crate::Port;
use crate::array::alarm_words::halted_words;
use crate::array::alarms::ClearedBy;
use crate::array::attached::{Asks, IoResult};
use crate::array::device_watch::{DeviceWatch, Watched};
use crate::array::refusal::{Refusal, Undrained};
use destage_block::{Backend, Driver};
use destage_engine::units::{Duration, Instant};
use destage_report::live::LogChange;
use destage_served::{Command, Device, MirrorRefusal, Op, OpId, OpKind, Settings, Ticket, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;

/// Requests are held when only this many pages are dirty.
const FEW_PAGES: u64 = 256;
/// They are also held when the dirty pages have not become fewer for this long: hosts write them
/// again and again.
const STEADY: Duration = Duration::from_secs(1);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long after the stall limit it is given up: by then the volume has given up the device.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The array serves, and writes through.
    Drains,
    /// New requests are held until nothing is in flight.
    Holds,
    /// The volume has ended, and another thread has the devices.
    Offline,
}

/// What the thread that replaces the log has to know.
pub(in crate::array) struct Held {
    pub(in crate::array) places: Vec<Device>,
    pub(in crate::array) settings: Settings,
    pub(in crate::array) watch: DeviceWatch,
    pub(in crate::array) rows_fit: bool,
}

/// A request that waits.
struct Waiting {
    ticket: Ticket,
    command: Command,
    bytes: Vec<u8>,
}

/// A log that is being replaced.
pub(super) struct Relog {
    phase: Phase,
    /// Dirty pages at the beginning.
    pages: u64,
    /// The fewest so far, and since when.
    fewest: (u64, Instant),
    /// When there was progress last, and what it was measured by.
    progress: (Instant, [u64; 4]),
    looked: Instant,
    /// Gets what is needed when the volume has ended, or why it does not.
    ready: Sender<Result<Box<Held>, Refusal>>,
    requests: Vec<Waiting>,
    /// What other threads asked for in the meantime.
    calls: Vec<Call>,
    offline: Offline,
    /// The server is to end.
    stops: bool,
}

/// Operations of the thread that has the devices.
#[derive(Default)]
pub(super) struct Offline {
    next: u64,
    out: Vec<Op>,
    waiting: BTreeMap<u64, Sender<IoResult>>,
}

impl Asks for Offline {
    fn take_ops(&mut self, into: &mut Vec<Op>) {
        into.append(&mut self.out);
    }

    fn done(&mut self, _: Instant, id: OpId, result: IoResult) {
        if let Some(sender) = self.waiting.remove(&id.0) {
            // If nobody waits any more, the device has taken too long and is not used again.
            let _ = sender.send(result);
        }
    }
}

impl Relog {
    /// Whether new requests wait.
    pub(super) fn holds(&self) -> bool {
        self.phase != Phase::Drains
    }

    /// Whether another thread has the devices.
    pub(super) fn is_offline(&self) -> bool {
        self.phase == Phase::Offline
    }

    /// Its operations.
    pub(super) fn offline(&mut self) -> Option<&mut Offline> {
        self.is_offline().then_some(&mut self.offline)
    }

    pub(super) fn hold(&mut self, ticket: Ticket, command: Command, bytes: &[u8]) {
        self.requests.push(Waiting { ticket, command, bytes: bytes.to_vec() });
    }

    /// Takes out the requests of these that wait.
    pub(super) fn withdraw(&mut self, tickets: &BTreeSet<Ticket>) -> Vec<Ticket> {
        let gone = self.requests.extract_if(.., |waiting| tickets.contains(&waiting.ticket));
        gone.map(|waiting| waiting.ticket).collect()
    }

    /// What another thread asks for is done later.
    pub(super) fn put_off(&mut self, call: Call) {
        self.calls.push(call);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.phase != Phase::Offline).then(|| self.looked + LOOK)
    }

    pub(super) fn status(&self, dirty: u64) -> LogChange {
        LogChange { pages_left: dirty, pages: self.pages.max(dirty) }
    }
}

impl ArrayBackend {
    /// Dirty pages, for a client that waits.
    pub(in crate::array) fn dirty_pages(&self) -> u64 {
        self.volume.status().dirty_pages
    }

    /// Whether the array may get another log.
    pub(in crate::array) fn may_relog(&self) -> Result<(), Refusal> {
        let status = self.volume.status();
        match () {
            () if status.stopped => Err(Refusal::Stopped),
            () if self.relog.is_some() => Err(Refusal::NvsBusy),
            () if self.volume.scrub_running() => Err(Refusal::ScrubRuns),
            () if self.volume.mirror_status().is_some() => Err(MirrorRefusal::Running.into()),
            () if !self.volume.ready() => Err(Refusal::NotReady),
            () => Ok(()),
        }
    }

    /// Begins to drain the array. `ready` gets what is needed when the volume has ended.
    pub(in crate::array) fn begin_relog(
        &mut self,
        now: Instant,
        ready: Sender<Result<Box<Held>, Refusal>>,
    ) -> Result<(), Refusal> {
        self.may_relog()?;
        let pages = self.volume.status().dirty_pages;
        self.volume.write_through(now, true);
        self.relog = Some(Box::new(Relog {
            phase: Phase::Drains,
            pages,
            fewest: (pages, now),
            progress: (now, [u64::MAX; 4]),
            looked: now,
            ready,
            requests: Vec::new(),
            calls: Vec::new(),
            offline: Offline::default(),
            stops: false,
        }));
        Ok(())
    }

    /// Takes the next step towards the end of the volume.
    pub(super) fn look_at_relog(&mut self, port: &mut Port) {
        let Some(relog) = &mut self.relog else { return };
        if relog.phase == Phase::Offline {
            return;
        }
        let (now, status) = (port.now(), self.volume.status());
        relog.looked = now;
        let (dirty, in_flight) = (status.dirty_pages, u64::from(status.destages_in_flight));
        let progress = [dirty, in_flight, status.requests as u64, status.operations as u64];
        if progress != relog.progress.1 {
            relog.progress = (now, progress);
        }
        if dirty < relog.fewest.0 {
            relog.fewest = (dirty, now);
        }
        let patience = Duration::from_secs(self.setup.config().stall_seconds.into()) + GRACE;
        let why = match () {
            () if status.stopped => Some(Undrained::Stopped),
            () if status.kept_pages > 0 && self.volume.drained() => {
                Some(Undrained::Kept(self.setup.name().to_string(), dirty))
            }
            () if now.since(relog.progress.0) > patience => Some(Undrained::Stuck),
            () => None,
        };
        if let Some(why) = why {
            return self.end_relog(port, Err(why.into()));
        }
        if dirty <= FEW_PAGES || now.since(relog.fewest.1) >= STEADY {
            relog.phase = Phase::Holds;
        }
        if relog.phase == Phase::Drains || dirty > 0 || status.writes_waiting > 0 {
            self.volume.pause(false);
            self.volume.flush_cache(now);
        } else if !self.volume.idle() {
            self.volume.pause(true);
        } else {
            self.end_volume(port);
        }
    }

    /// Nothing is in flight: another thread has the devices from now on.
    fn end_volume(&mut self, port: &mut Port) {
        let settings = match self.setup.config().settings() {
            Ok(settings) => settings,
            Err(error) => return self.end_relog(port, Err(error.into())),
        };
        let (places, watch) = (self.devices.places(), self.watch.clone());
        let rows_fit = self.volume.rows_fit();
        let Some(relog) = &mut self.relog else { return };
        self.devices.next_turn();
        relog.phase = Phase::Offline;
        if relog.ready.send(Ok(Box::new(Held { places, settings, watch, rows_fit }))).is_err() {
            self.end_relog(port, Ok(()));
        }
    }

    /// An operation of the thread that has the devices.
    pub(in crate::array) fn offline_op(
        &mut self,
        port: &mut Port,
        device: Device,
        kind: OpKind,
        result: Sender<IoResult>,
    ) {
        let Some(offline) = self.relog.as_mut().and_then(|relog| relog.offline()) else { return };
        let id = offline.next;
        offline.next += 1;
        offline.waiting.insert(id, result);
        offline.out.push(Op { id: OpId(id), device, kind });
        self.carry_out(port);
    }

    /// The array continues with the volume that it has: nothing was changed, or another volume has
    /// taken its place.
    pub(in crate::array) fn end_relog(&mut self, port: &mut Port, why: Result<(), Refusal>) {
        let Some(relog) = self.relog.take() else { return };
        let Relog { phase, ready, requests, calls, stops, .. } = *relog;
        if phase == Phase::Offline {
            self.devices.next_turn();
        }
        if let Err(why) = why {
            // The thread may have ended.
            let _ = ready.send(Err(why));
        }
        self.volume.write_through(port.now(), false);
        self.volume.pause(false);
        for Waiting { ticket, command, bytes } in requests {
            self.volume.submit(port.now(), ticket, command, &bytes);
        }
        self.volume.turn(port.now());
        self.carry_out(port);
        for call in calls {
            (call.work)(self, port);
        }
        if stops {
            self.stop(port);
        }
    }

    /// The log is replaced, or the try to do so has ended: this volume serves from now on.
    pub(in crate::array) fn relogged(&mut self, port: &mut Port, mut volume: Volume) {
        // The new volume says so again, if it is so.
        self.alarms.clear(&ClearedBy::RowsRepaired);
        volume.count_from(&self.volume);
        self.volume = volume;
        self.describe_members();
        let needs = super::nvs_bytes(&self.volume.superblock());
        let status = self.volume.status();
        for copy in &status.nvs_devices {
            self.watch.set_needs(&Watched::Nvs(*copy), needs);
        }
        if !status.nvs_devices.is_empty() {
            self.alarms.clear(&ClearedBy::NvsInUse);
        }
        if status.nvs_devices.len() >= self.setup.config().nvs.len() {
            self.alarms.clear(&ClearedBy::NvsMirrored);
        }
        self.end_relog(port, Ok(()));
    }

    /// The array cannot be opened any more: it serves nothing until another start.
    pub(in crate::array) fn halt(&mut self, port: &mut Port, why: &str) {
        self.volume.halt();
        let alarm = halted_words(self.setup.name(), why);
        self.alarms.raise(alarm, ClearedBy::Nothing);
        self.end_relog(port, Ok(()));
    }

    /// The server is to end: what has not begun to replace the log is given up. Returns whether the
    /// end has to wait.
    pub(super) fn stop_relog(&mut self, port: &mut Port) -> bool {
        match &mut self.relog {
            Some(relog) if relog.phase == Phase::Offline => {
                relog.stops = true;
                true
            }
            Some(_) => {
                self.end_relog(port, Err(Refusal::Ending));
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::attached::TURN_BIT;
    use crate::array::tests::with_array;
    use destage_block::{Outcome, Payload, Request};
    use std::sync::mpsc::channel;

    fn holding() -> Relog {
        let (ready, _) = channel();
        Relog {
            phase: Phase::Holds,
            pages: 0,
            fewest: (0, Instant(0)),
            progress: (Instant(0), [0; 4]),
            looked: Instant(0),
            ready,
            requests: Vec::new(),
            calls: Vec::new(),
            offline: Offline::default(),
            stops: false,
        }
    }

    #[test]
    fn held_requests_of_a_closed_connection_are_answered_when_it_closes() {
        with_array(|client| {
            let (held, left) = client.asks(|array, port| {
                array.relog = Some(Box::new(holding()));
                port.add_output();
                let request = Request::Flush;
                let token = port.admit(0, 1, &request);
                array.request(port, token, request, Payload::Bytes(&[]));
                let held = array.relog.as_ref().map(|relog| relog.requests.len());
                port.abandon(0);
                array.withdraw(port, &|token| token.is_of(0));
                let left = array.relog.take().map(|relog| relog.requests.len());
                (held, (left, array.requests.tickets_where(&|_| true)))
            });
            assert_eq!((held, left), (Some(1), (Some(0), BTreeSet::new())));
        });
    }

    /// What arrives late of the thread that had the devices is not the volume's.
    #[test]
    fn the_volume_is_given_nothing_of_the_thread_that_had_the_devices() {
        with_array(|client| {
            let (ready, held) = channel();
            client.asks(move |array, port| array.begin_relog(port.now(), ready)).expect("begun");
            held.recv().expect("an answer").expect("held");
            let (sender, given) = channel();
            client.array.run_now(move |array, port| {
                array.end_relog(port, Ok(()));
                let mut owner = Offline::default();
                owner.waiting.insert(5, sender);
                let outcome = Outcome { result: Ok(()), errno: 0, buffer: None };
                array.devices.done(port, &mut owner, 1 << TURN_BIT | 5, outcome);
            });
            assert!(given.recv().is_err(), "it was the volume's");
        });
    }

    #[test]
    fn requests_of_a_closed_connection_are_not_submitted_to_the_new_volume() {
        let mut relog = holding();
        for ticket in 1..=4 {
            relog.hold(ticket, Command::Flush, &[]);
        }
        let gone = BTreeSet::from([2, 4, 9]);
        assert_eq!(relog.withdraw(&gone), [2, 4]);
        let left: Vec<Ticket> = relog.requests.iter().map(|waiting| waiting.ticket).collect();
        assert_eq!(left, [1, 3]);
    }
}
