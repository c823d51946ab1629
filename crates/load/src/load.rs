//! What a load is, and why it may have no result.

use super::laps::Tally;
use destage_client::ClientError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Which requests, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Addresses at random; else ascending.
    pub random: bool,
    /// Writes in a hundred requests.
    pub write_percent: u64,
}

/// How the requests of a schedule follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At even distances.
    Even,
    /// At random: exponential distances of the same mean.
    Poisson,
}

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// When the feed says; a pattern says nothing and has a closed loop.
    Own,
    /// As soon as one of those under way is answered.
    Closed,
    /// By a schedule, whatever the answers.
    Scheduled {
        /// Requests a second over all connections.
        rate: f64,
        /// How they follow each other.
        arrivals: Arrivals,
    },
}

/// A load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Which requests, unless a [`Feed`](super::Feed) says.
    pub pattern: Pattern,
    /// Bytes of a request of the pattern.
    pub block: u64,
    /// Requests under way on each connection, at most.
    pub depth: usize,
    /// Connections: of a pattern, a thread each.
    pub connections: usize,
    /// When requests are due.
    pub pace: Pace,
    /// Answers that come before are not counted.
    pub warmup: Duration,
    /// How long after that; if not given, until the feed ends.
    pub time: Option<Duration>,
    /// Figures of each such time.
    pub interval: Option<Duration>,
    /// A server that answers nothing for so long has stalled.
    pub patience: Duration,
    /// Only the first bytes of the export.
    pub size: Option<u64>,
    /// A FLUSH after so many writes (of each connection, if a pattern says which); 0 for none.
    pub flush_every: u64,
    /// Writes with FUA.
    pub fua: bool,
    /// Stamp what is written, check what is read and all at the end.
    pub verify: bool,
    /// Record acknowledged writes there.
    pub log: Option<PathBuf>,
    /// Seed of addresses and of a schedule.
    pub seed: u64,
    /// Whose CPU time to report.
    pub server_pid: Option<u32>,
}

impl Load {
    /// Whether what is written says which write it is.
    pub(super) fn stamped(&self) -> bool {
        self.verify || self.log.is_some()
    }

    /// When the last request is begun, from the start.
    pub(super) fn end_ns(&self) -> u64 {
        self.time.map_or(u64::MAX, |time| (self.warmup + time).as_nanos() as u64)
    }
}

/// Why a load has no result.
#[derive(Debug)]
pub enum BenchError {
    /// The load does not fit the server.
    Unfit(String),
    /// The connection.
    Client(ClientError),
    /// The connection ended under a load: after how long, and how many answers.
    Died(Duration, u64, ClientError),
    /// The same with a log, and how many acknowledged writes are in it.
    Lost(PathBuf, u64, ClientError),
    /// Requests under way, of which none was answered for so long.
    Stalled(usize, Duration),
    /// A file.
    File(PathBuf, io::Error),
    /// Not a log of acknowledged writes.
    NoLog(PathBuf),
    /// The feed could not go on: why.
    Feed(String),
    /// What was read is not what was written: sector, generation expected and found.
    Wrong(u64, u64, Option<u64>),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Unfit(text) | BenchError::Feed(text) => f.write_str(text),
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
                write!(f, "{number} requests under way and no answer for {patience} s (--timeout)")
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

/// What came of a load, once warm.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Reads, writes and flushes.
    pub tally: Tally,
    /// How long it took.
    pub time: Duration,
    /// CPU time that the server used.
    pub server_cpu: Option<Duration>,
    /// Requests that were due and not begun when the time was over.
    pub not_begun: u64,
    /// Blocks (of a feed: sectors of 512 bytes) read at the end and found right.
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
