//! What a load is, its result, and why it may have none.

use super::feed::FeedError;
use super::laps::Tally;
use destage_client::ClientError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Which requests, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Random addresses; else ascending.
    pub random: bool,
    /// Writes per hundred requests.
    pub write_percent: u64,
}

/// Times between the requests of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// All equal.
    Even,
    /// Random: exponentially distributed with the same mean.
    Poisson,
}

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// When the feed says; a pattern runs as a closed loop.
    Own,
    /// As soon as a request in flight is answered.
    Closed,
    /// By a schedule, independent of the answers.
    Scheduled {
        /// Requests per second over all connections.
        iops: f64,
        /// Times between them.
        arrivals: Arrivals,
    },
}

/// A load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Which requests, without a [`Feed`](super::Feed).
    pub pattern: Pattern,
    /// Bytes per request of the pattern.
    pub block: u64,
    /// Most requests in flight on each connection.
    pub depth: usize,
    /// Connections. A pattern has a thread for each.
    pub connections: usize,
    /// When requests are due.
    pub pace: Pace,
    /// Answers within this time are not counted.
    pub warmup: Duration,
    /// How long to run after that; `None`: until the feed ends.
    pub time: Option<Duration>,
    /// Report figures of each such interval.
    pub interval: Option<Duration>,
    /// A server that answers nothing for this long has stalled.
    pub patience: Duration,
    /// Only the first bytes of the export.
    pub size: Option<u64>,
    /// Send a FLUSH every N writes (of each connection, for a pattern); 0: never.
    pub flush_every: u64,
    /// Write with FUA.
    pub fua: bool,
    /// Stamp what is written; check what is read, and everything at the end.
    pub verify: bool,
    /// Record acknowledged writes in this file.
    pub log: Option<PathBuf>,
    /// Seed of addresses and schedule.
    pub seed: u64,
    /// Process whose CPU time to report.
    pub server_pid: Option<u32>,
}

impl Load {
    /// Whether each write carries a stamp.
    pub(super) fn stamped(&self) -> bool {
        self.verify || self.log.is_some()
    }

    /// When the last request starts, from the start of the load.
    pub(super) fn end_ns(&self) -> u64 {
        self.time.map_or(u64::MAX, |time| (self.warmup + time).as_nanos() as u64)
    }
}

/// Why a load does not fit a server.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unfit {
    /// `--size` exceeds the export, which has this many bytes.
    #[error("--size: the export has {0} bytes")]
    Size(u64),
    /// `--server-pid` names no process.
    #[error("--server-pid: no such process")]
    NoProcess,
    /// Writes to a read-only export.
    #[error("the export is read-only; use --rw randread or read")]
    ReadOnly,
    /// FUA that the server does not offer.
    #[error("--fua: the server does not offer it")]
    NoFua,
    /// Flushes that the server does not offer.
    #[error("--fsync-every: the server does not offer FLUSH")]
    NoFlush,
    /// Writes over several connections, which the server does not keep coherent.
    #[error("--connections: the server does not keep several coherent")]
    NotCoherent,
    /// A block size that the server does not take: the smallest and the largest.
    #[error("--bs: this server takes multiples of {0} up to {1}")]
    Block(u64, u64),
    /// Fewer blocks than requests in flight.
    #[error("--size: fewer blocks than requests in flight")]
    FewBlocks,
    /// Stamped blocks that are not a multiple of 512 bytes.
    #[error("--verify and --log need a --bs that is a multiple of 512")]
    Sectors,
    /// More stamped blocks than can be tracked.
    #[error("--verify and --log: give a --size of at most 2^27 blocks")]
    ManyBlocks,
    /// It ended before the warm-up did.
    #[error("the load ended within --warmup")]
    Warmup,
    /// Reads fail, so nothing can be verified.
    #[error("reads fail: nothing can be verified")]
    Reads,
}

/// Why a load has no result.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The load does not fit the server.
    #[error("{0}")]
    Unfit(Unfit),
    /// The connection.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The connection ended during the load: after how long, and how many answers.
    #[error("{2}, after {time:.1} s of load and {1} answers", time = .0.as_secs_f64())]
    Died(Duration, u64, ClientError),
    /// The same with a log, and how many acknowledged writes it holds.
    #[error("{2}; {0} holds {1} acknowledged writes: --check {0}")]
    Lost(PathBuf, u64, ClientError),
    /// Requests in flight, none of which was answered for this long.
    #[error(
        "{0} requests in flight and no answer for {time} s (--timeout)",
        time = .1.as_secs_f64()
    )]
    Stalled(usize, Duration),
    /// A file.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// Not a log of acknowledged writes.
    #[error("{0}: not a log that destage bench --log wrote")]
    NoLog(PathBuf),
    /// The feed could not continue.
    #[error("{0}")]
    Feed(FeedError),
    /// What was read is not what was written: sector, generation expected and found.
    #[error(
        "wrong data at byte {0}: write {1} of it was acknowledged, {found}",
        found = found_words(*.2)
    )]
    Wrong(u64, u64, Option<u64>),
}

fn found_words(found: Option<u64>) -> String {
    match found {
        Some(found) => format!("write {found} is there"),
        None => "none of this run is there".to_string(),
    }
}

/// The result of a load, after the warm-up.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Reads, writes and flushes.
    pub tally: Tally,
    /// Duration.
    pub time: Duration,
    /// CPU time of the server.
    pub server_cpu: Option<Duration>,
    /// Requests that were due but never started before the end.
    pub not_begun: u64,
    /// Blocks (for a feed, sectors of 512 bytes) read at the end and found correct.
    pub verified: u64,
    /// The error of the first request that failed.
    pub first_errno: Option<u32>,
}

impl Measured {
    /// Answered requests of all kinds.
    pub fn requests(&self) -> u64 {
        self.tally.requests()
    }

    /// Requests that were answered with an error.
    pub fn errors(&self) -> u64 {
        self.tally.kinds.iter().map(|kind| kind.errors).sum()
    }
}
