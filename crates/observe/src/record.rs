//! Recordings: the served requests as a trace, written by a thread of its own.

use destage_server::array::control::Recording;
use destage_server::array::{RecordingError, Seen, SeenOp};
use destage_workload::trace::write::{OutputFormat, TraceWriter, write_atomically};
use destage_workload::trace::{Compression, Op, TraceError, TraceRecord};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Batches of requests on their way to the file.
const BATCHES: usize = 256;

/// The running recording, as the monitor sees it.
#[derive(Default)]
pub struct Recorder {
    /// Where requests go, if a recording is running.
    batches: Mutex<Option<SyncSender<Vec<Seen>>>>,
    wanted: AtomicBool,
    dropped: AtomicU64,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Requests in the file.
    pub requests: u64,
    /// Requests that are not in it: the disk or the processor was too slow.
    pub dropped: u64,
    /// Trims, which traces do not have.
    pub trims: u64,
    /// How often the server took nothing more from a client at the limit of what may be in flight.
    /// What followed may have come earlier than the file says.
    pub held_back: u64,
}

impl Recorder {
    /// Whether requests are wanted.
    pub fn wants(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Requests that were served. Never waits.
    pub fn feed(&self, seen: &[Seen]) {
        let batches = self.batches.lock().expect("not poisoned");
        if let Some(batches) = &*batches
            && let Err(TrySendError::Full(lost)) = batches.try_send(seen.to_vec())
        {
            self.dropped.fetch_add(lost.len() as u64, Ordering::Relaxed);
        }
    }

    /// Records until the recording's bounds end it, or `progress` returns false. `lost` counts the
    /// requests that did not fit into the queue since the start. `per_group` is in bytes.
    pub fn record(
        &self,
        asked: &Recording,
        per_group: u64,
        lost: &dyn Fn() -> u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Recorded, RecordingError> {
        let end = asked.time.and_then(|time| Instant::now().checked_add(time));
        let (sender, batches) = sync_channel(BATCHES);
        {
            let mut running = self.batches.lock().expect("not poisoned");
            if running.is_some() {
                return Err(RecordingError::Running);
            }
            *running = Some(sender);
        }
        let (dropped, lost_before) = (self.dropped.load(Ordering::Relaxed), lost());
        self.wanted.store(true, Ordering::Relaxed);
        let name = asked.out.to_string_lossy().to_ascii_lowercase();
        let written = write_atomically(&asked.out, |file| {
            let failed = |error: std::io::Error| TraceError::Io {
                file: asked.out.display().to_string(),
                why: error.to_string(),
            };
            let compression = Compression::of_name(&name).0;
            let format = OutputFormat::of_path(&asked.out, false);
            let mut writer = TraceWriter::new(file, format, compression).map_err(failed)?;
            let counts =
                copy(&batches, asked, end, per_group, &mut writer, progress).map_err(failed)?;
            Ok((writer.finish().map_err(failed)?, counts))
        });
        self.wanted.store(false, Ordering::Relaxed);
        *self.batches.lock().expect("not poisoned") = None;
        let (requests, (trims, held_back)) =
            written.map_err(|error| RecordingError::File(error.to_string()))?;
        let lost = lost() - lost_before;
        let dropped = self.dropped.load(Ordering::Relaxed) - dropped + lost;
        Ok(Recorded { requests, dropped, trims, held_back })
    }
}

/// How often it reports progress.
const ASK: Duration = Duration::from_millis(250);

/// Writes what comes; returns how many trims were left out, and how often a client was held back.
fn copy<W: std::io::Write + Send>(
    batches: &Receiver<Vec<Seen>>,
    asked: &Recording,
    end: Option<Instant>,
    per_group: u64,
    writer: &mut TraceWriter<W>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> std::io::Result<(u64, u64)> {
    let (mut requests, mut trims, mut held_back) = (0, 0, 0);
    let mut first = None;
    let mut ask_at = Instant::now() + ASK;
    while requests < asked.requests {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        if now >= ask_at {
            ask_at = now + ASK;
            if !progress(requests) {
                break;
            }
        }
        let until = end.map_or(ask_at, |end| end.min(ask_at));
        let batch = match batches.recv_timeout(until.saturating_duration_since(now)) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        for seen in batch {
            held_back += u64::from(seen.held_back);
            let op = match seen.op {
                SeenOp::Read => Op::Read,
                SeenOp::Write => Op::Write,
                SeenOp::Trim => {
                    trims += 1;
                    continue;
                }
            };
            let group = seen.offset / per_group;
            if !crate::shadow::in_sample(group, asked.one_in) {
                continue;
            }
            let time_ns = seen.at.since(*first.get_or_insert(seen.at)).0;
            writer.write(&TraceRecord {
                time_ns,
                device: 0,
                offset_bytes: seen.offset,
                length_bytes: seen.bytes,
                op,
                service: None,
            })?;
            requests += 1;
            if requests >= asked.requests {
                break;
            }
        }
    }
    Ok((trims, held_back))
}
