//! Each request as it comes, for what-if and recordings: through a bounded queue that never makes
//! the data thread wait.

use destage_engine::units::Instant;
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
    /// It may have come earlier: its client was at the limit of what may be in flight.
    pub held_back: bool,
}

/// The data thread's end of the queue of requests.
pub struct Tap {
    queue: SyncSender<Seen>,
    shared: Arc<TapShared>,
}

#[derive(Default)]
struct TapShared {
    dropped: AtomicU64,
    /// Whether requests are wanted at all, and reads too.
    wanted: AtomicBool,
    reads_wanted: AtomicBool,
}

/// The other end.
pub struct TapReader {
    /// The requests.
    pub queue: Receiver<Seen>,
    shared: Arc<TapShared>,
}

/// A queue with the given capacity.
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
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Tap {
    pub(super) fn push(&self, seen: impl FnOnce() -> Seen, read: bool) {
        let shared = &self.shared;
        let wanted = if read { &shared.reads_wanted } else { &shared.wanted };
        if !wanted.load(Ordering::Relaxed) {
            return;
        }
        // A full queue costs the reader a request, never the data thread its time.
        if let Err(TrySendError::Full(_)) = self.queue.try_send(seen()) {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts_and_unwanted_requests_do_neither() {
        let (tap, reader) = tap(2);
        let (held_pages, held_back) = (0, false);
        let seen = |op| Seen { at: Instant(0), offset: 0, bytes: 1, op, held_pages, held_back };
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
}
