//! What the data thread tells those who watch the array: a copy of its counts when it is asked,
//! and each request as it comes, through a bounded queue that never makes it wait.

use super::backend::ArrayBackend;
use super::latency::Latencies;
use destage_engine::array::geometry::Geometry;
use destage_engine::counters::Counters;
use destage_engine::policy::{Gauges, PolicyContext};
use destage_engine::rate::Thresholds;
use destage_engine::sequential::DetectorKind;
use destage_engine::units::Instant;
use destage_report::live::ArrayStatus;
use destage_served::{Command, Device, DeviceLoad, Volume};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// What a request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenOp {
    /// A read.
    Read,
    /// A write, or a request for zeros.
    Write,
    /// A trim.
    Trim,
}

/// A request as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, on the data thread's clock.
    pub at: Instant,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// What it was.
    pub op: SeenOp,
    /// Pages that the directory held then, without those in flight.
    pub held_pages: u32,
}

/// The data thread's end of the queue of requests.
pub struct Tap {
    queue: SyncSender<Seen>,
    shared: Arc<TapShared>,
}

#[derive(Default)]
struct TapShared {
    dropped: AtomicU64,
    /// Whether anybody wants requests at all, and reads too.
    wanted: AtomicBool,
    reads_wanted: AtomicBool,
}

/// The other end.
pub struct TapReader {
    /// The requests.
    pub queue: Receiver<Seen>,
    shared: Arc<TapShared>,
}

/// A queue of so many requests.
#[must_use]
pub fn tap(requests: usize) -> (Tap, TapReader) {
    let (sender, queue) = sync_channel(requests);
    let shared = Arc::<TapShared>::default();
    (Tap { queue: sender, shared: shared.clone() }, TapReader { queue, shared })
}

impl TapReader {
    /// Which requests are wanted from now on.
    pub fn want(&self, writes: bool, reads: bool) {
        self.shared.wanted.store(writes || reads, Ordering::Relaxed);
        self.shared.reads_wanted.store(reads, Ordering::Relaxed);
    }

    /// Requests that were wanted and found the queue full, since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Tap {
    fn push(&self, seen: impl FnOnce() -> Seen, read: bool) {
        let shared = &self.shared;
        let wanted = if read { &shared.reads_wanted } else { &shared.wanted };
        if !wanted.load(Ordering::Relaxed) {
            return;
        }
        // A full queue costs the watcher a request, never the data thread its time.
        if let Err(TrySendError::Full(_)) = self.queue.try_send(seen()) {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An alarm as it was raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    /// Its number, from 1.
    pub number: u64,
    /// Its name (docs/operations.md).
    pub name: String,
    /// For people.
    pub text: String,
}

/// Alarms that are remembered for those who watch.
const RAISED: usize = 100;

/// What is counted for those who watch.
#[derive(Default)]
pub(crate) struct Counted {
    /// Reads, writes, flushes.
    pub(crate) latencies: [Latencies; 3],
    host_read_bytes: u64,
    host_written_bytes: u64,
    tap: Option<Tap>,
    raised: VecDeque<Raised>,
    alarms: u64,
}

impl Counted {
    /// An alarm as `NAME: TEXT`.
    pub(crate) fn raise(&mut self, alarm: &str) {
        self.alarms += 1;
        let (name, text) = alarm.split_once(": ").unwrap_or((alarm, alarm));
        let (name, text) = (name.to_string(), text.to_string());
        self.raised.push_back(Raised { number: self.alarms, name, text });
        if self.raised.len() > RAISED {
            self.raised.pop_front();
        }
    }

    #[inline]
    pub(crate) fn request(&mut self, at: Instant, command: &Command, payload: usize, of: &Volume) {
        let (offset, bytes, op) = match *command {
            Command::Read { offset, bytes } => (offset, bytes as u64, SeenOp::Read),
            Command::Write { offset, .. } => (offset, payload as u64, SeenOp::Write),
            Command::Zero { offset, bytes, .. } => (offset, bytes, SeenOp::Write),
            Command::Trim { offset, bytes, .. } => (offset, bytes, SeenOp::Trim),
            Command::Flush => return,
        };
        match op {
            SeenOp::Read => self.host_read_bytes += bytes,
            SeenOp::Write => self.host_written_bytes += bytes,
            SeenOp::Trim => {}
        }
        let Some(tap) = &self.tap else { return };
        let seen = || {
            let held = of.controller().directory().held_pages();
            Seen { at, offset, bytes, op, held_pages: held as u32 }
        };
        tap.push(seen, op == SeenOp::Read);
    }
}

/// The array at one moment, for those who watch it.
pub struct Observation {
    /// When, on the data thread's clock.
    pub at: Instant,
    /// What `destage status` shows, without the times of requests.
    pub status: ArrayStatus,
    /// Times of reads, writes and flushes.
    pub latencies: [Latencies; 3],
    /// Bytes that hosts read.
    pub host_read_bytes: u64,
    /// Bytes that hosts wrote.
    pub host_written_bytes: u64,
    /// What the engine counted.
    pub counters: Counters,
    /// Where the policy stands.
    pub gauges: Gauges,
    /// The thresholds of the rate.
    pub thresholds: Thresholds,
    /// Greatest number of destage writes in flight.
    pub queue_depth: u32,
    /// Pages held, without those in flight.
    pub held_pages: u64,
    /// The array.
    pub geometry: Geometry,
    /// What a policy in the place of this one would be made with.
    pub context: PolicyContext,
    /// The sequential detector, and its threshold.
    pub detector: (DetectorKind, u32),
    /// First pages of the last destages, oldest first.
    pub recent: Vec<u64>,
    /// Destages begun since the start.
    pub begun: u64,
    /// Load of the members, then of the NVS devices, as the status lists them.
    pub loads: Vec<DeviceLoad>,
    /// The last alarms.
    pub raised: Vec<Raised>,
}

impl ArrayBackend {
    /// Tells each request to those who hold the other end.
    pub fn tap(&mut self, tap: Tap) {
        self.watched.tap = Some(tap);
    }

    pub(crate) fn observe(&self, at: Instant, status: ArrayStatus) -> Observation {
        let controller = self.volume.controller();
        let (recent, begun) = self.volume.recent_destages();
        let config = self.config();
        let members = (0..config.disks.len()).map(|n| Device::Member(n as u16));
        let nvs = (0..config.nvs.len()).map(|n| Device::Nvs(n as u16));
        let loads = members.chain(nvs).map(|device| self.volume.load(device).at(at)).collect();
        Observation {
            at,
            status,
            latencies: self.watched.latencies.clone(),
            host_read_bytes: self.watched.host_read_bytes,
            host_written_bytes: self.watched.host_written_bytes,
            counters: *controller.counters(),
            gauges: controller.gauges(),
            thresholds: controller.thresholds(),
            queue_depth: config.queue_depth,
            held_pages: controller.directory().held_pages(),
            geometry: *controller.geometry(),
            context: controller.policy_context(),
            detector: controller.detector_kind(),
            recent,
            begun,
            loads,
            raised: self.watched.raised.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts_and_unwanted_requests_do_neither() {
        let (tap, reader) = tap(2);
        let held_pages = 0;
        let seen = |op| Seen { at: Instant(0), offset: 0, bytes: 1, op, held_pages };
        tap.push(|| seen(SeenOp::Write), false);
        reader.want(true, false);
        tap.push(|| seen(SeenOp::Read), true);
        (0..3).for_each(|_| tap.push(|| seen(SeenOp::Write), false));
        assert_eq!((reader.queue.try_iter().count(), reader.dropped()), (2, 1));
        reader.want(true, true);
        tap.push(|| seen(SeenOp::Read), true);
        assert_eq!(reader.queue.try_recv().expect("wanted").op, SeenOp::Read);
        drop(reader);
        tap.push(|| seen(SeenOp::Write), false);
    }

    #[test]
    fn the_last_alarms_are_remembered() {
        let mut watched = Counted::default();
        (0..RAISED + 5).for_each(|n| watched.raise(&format!("x: {n}")));
        assert_eq!(watched.raised.len(), RAISED);
        assert_eq!(watched.raised.back().map(|raised| raised.number), Some(RAISED as u64 + 5));
    }
}
