//! What a load is, its result, and why it may have none.

use super::feed::FeedError;
use super::laps::Tally;
use destage_client::ClientError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

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
        rate: f64,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// `--size` exceeds the export, which has this many bytes.
    Size(u64),
    /// `--server-pid` names no process.
    NoProcess,
    /// Writes to a read-only export.
    ReadOnly,
    /// FUA that the server does not offer.
    NoFua,
    /// Flushes that the server does not offer.
    NoFlush,
    /// Writes over several connections, which the server does not keep coherent.
    NotCoherent,
    /// A block size that the server does not take: the smallest and the largest.
    Block(u64, u64),
    /// Fewer blocks than requests in flight.
    FewBlocks,
    /// Stamped blocks that are not a multiple of 512 bytes.
    Sectors,
    /// More stamped blocks than can be tracked.
    ManyBlocks,
    /// It ended before the warm-up did.
    Warmup,
    /// Reads fail, so nothing can be verified.
    Reads,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::Size(bytes) => return write!(f, "--size: the export has {bytes} bytes"),
            Unfit::Block(least, most) => {
                return write!(f, "--bs: this server takes multiples of {least} up to {most}");
            }
            Unfit::NoProcess => "--server-pid: no such process",
            Unfit::ReadOnly => "the export is read-only; use --rw randread or read",
            Unfit::NoFua => "--fua: the server does not offer it",
            Unfit::NoFlush => "--fsync-every: the server does not offer FLUSH",
            Unfit::NotCoherent => "--connections: the server does not keep several coherent",
            Unfit::FewBlocks => "--size: fewer blocks than requests in flight",
            Unfit::Sectors => "--verify and --log need a --bs that is a multiple of 512",
            Unfit::ManyBlocks => "--verify and --log: give a --size of at most 2^27 blocks",
            Unfit::Warmup => "the load ended within --warmup",
            Unfit::Reads => "reads fail: nothing can be verified",
        })
    }
}

/// Why a load has no result.
#[derive(Debug)]
pub enum BenchError {
    /// The load does not fit the server.
    Unfit(Unfit),
    /// The connection.
    Client(ClientError),
    /// The connection ended during the load: after how long, and how many answers.
    Died(Duration, u64, ClientError),
    /// The same with a log, and how many acknowledged writes it holds.
    Lost(PathBuf, u64, ClientError),
    /// Requests in flight, none of which was answered for this long.
    Stalled(usize, Duration),
    /// A file.
    File(PathBuf, io::Error),
    /// Not a log of acknowledged writes.
    NoLog(PathBuf),
    /// The feed could not continue.
    Feed(FeedError),
    /// What was read is not what was written: sector, generation expected and found.
    Wrong(u64, u64, Option<u64>),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Unfit(unfit) => unfit.fmt(f),
            BenchError::Feed(error) => error.fmt(f),
            BenchError::Client(error) => error.fmt(f),
            BenchError::Died(after, answered, error) => {
                let after = after.as_secs_f64();
                write!(f, "{error}, after {after:.1} s of load and {answered} answers")
            }
            BenchError::Lost(path, writes, error) => {
                let path = path.display();
                write!(f, "{error}; {path} holds {writes} acknowledged writes: --check {path}")
            }
            BenchError::Stalled(number, patience) => {
                let patience = patience.as_secs_f64();
                write!(f, "{number} requests in flight and no answer for {patience} s (--timeout)")
            }
            BenchError::File(path, error) => write!(f, "{}: {error}", path.display()),
            BenchError::NoLog(path) => {
                write!(f, "{}: not a log that destage bench --log wrote", path.display())
            }
            BenchError::Wrong(sector, wanted, found) => {
                write!(f, "wrong data at byte {sector}: write {wanted} of it was acknowledged, ")?;
                match found {
                    Some(found) => write!(f, "write {found} is there"),
                    None => f.write_str("none of this run is there"),
                }
            }
        }
    }
}

impl std::error::Error for BenchError {}

impl From<ClientError> for BenchError {
    fn from(error: ClientError) -> BenchError {
        BenchError::Client(error)
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
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.tally.requests()
    }

    /// Requests that were answered with an error.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.tally.kinds.iter().map(|kind| kind.errors).sum()
    }
}
