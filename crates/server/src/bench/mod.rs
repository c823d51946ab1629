//! A load on an NBD server: what to do, who does it, what came of it.

mod log;
pub mod stamps;
mod worker;

pub use log::{Checked, check};

use crate::client::{Client, ClientError};
use destage_nbd::client::Uri;
use destage_nbd::{Mode, wire};
use hdrhistogram::Histogram;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Which requests, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Addresses at random; else ascending.
    pub random: bool,
    /// Writes in a hundred requests.
    pub write_percent: u64,
}

/// A load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Which requests.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub block: u64,
    /// Requests under way on each connection.
    pub depth: usize,
    /// Connections, a thread each.
    pub connections: usize,
    /// How long.
    pub time: Duration,
    /// Only the first bytes of the export.
    pub size: Option<u64>,
    /// A FLUSH after so many writes of a connection; 0 for none.
    pub flush_every: u64,
    /// Writes with FUA.
    pub fua: bool,
    /// Requests a second over all connections, whatever the answers.
    pub rate: Option<f64>,
    /// Stamp what is written, check what is read and all at the end.
    pub verify: bool,
    /// Record acknowledged writes there.
    pub log: Option<PathBuf>,
    /// Seed of the addresses.
    pub seed: u64,
    /// Whose CPU time to report.
    pub server_pid: Option<u32>,
}

/// Why a load has no result.
#[derive(Debug)]
pub enum BenchError {
    /// The load does not fit the server.
    Unfit(String),
    /// The connection.
    Client(ClientError),
    /// The connection ended under a load with a log.
    Lost(PathBuf, u64, ClientError),
    /// A file.
    File(PathBuf, io::Error),
    /// Not a log of acknowledged writes.
    NoLog(PathBuf),
    /// What was read is not what was written: sector, generation expected and found.
    Wrong(u64, u64, Option<u64>),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Unfit(text) => f.write_str(text),
            BenchError::Client(error) => error.fmt(f),
            BenchError::Lost(path, writes, error) => {
                let path = path.display();
                write!(f, "{error}; {path} holds {writes} acknowledged writes: --check {path}")
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

/// Requests of one kind.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Nanoseconds from when a request was sent (with a rate: was due) until its reply.
    pub latency_ns: Histogram<u64>,
    /// Requests that were answered with an error.
    pub errors: u64,
}

impl Tally {
    fn new() -> Tally {
        let most = 3_600_000_000_000;
        let latency_ns = Histogram::new_with_bounds(100, most, 3).expect("bounds that it takes");
        Tally { latency_ns, errors: 0 }
    }
}

/// What came of a load.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Reads, writes and flushes.
    pub tallies: [Tally; 3],
    /// How long it took.
    pub time: Duration,
    /// CPU time that the server used.
    pub server_cpu: Option<Duration>,
    /// Blocks read at the end and found right.
    pub verified: u64,
}

impl Measured {
    /// Answered requests of all kinds.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.latency_ns.len()).sum()
    }
}

/// What the workers of a load share.
struct Shared<'a> {
    load: &'a Load,
    /// Bytes of the export that are used.
    size: u64,
    run: u64,
    log: Option<log::Log>,
    answered: AtomicU64,
    logged: AtomicU64,
    begin: Instant,
}

/// CPU time that a process and all its threads have used.
fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything but ends with the last parenthesis.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

fn unfit(load: &Load, client: &Client, size: u64) -> Option<String> {
    let session = client.session();
    let writes = load.pattern.write_percent > 0;
    let minimum = u64::from(session.block.minimum);
    let stamped = load.verify || load.log.is_some();
    let blocks = size / load.block;
    if load.block > u64::from(session.block.maximum) || !load.block.is_multiple_of(minimum) {
        let most = session.block.maximum;
        Some(format!("--bs: this server takes multiples of {minimum} up to {most}"))
    } else if size > session.size {
        Some(format!("--size: the export has {} bytes", session.size))
    } else if blocks < (load.depth * load.connections) as u64 {
        Some("--size: smaller than the requests under way".to_string())
    } else if writes && session.read_only() {
        Some("the export is read-only; use --rw randread or read".to_string())
    } else if load.fua && !session.has(wire::NBD_FLAG_SEND_FUA) {
        Some("--fua: the server does not offer it".to_string())
    } else if load.flush_every > 0 && !client.offers_flush() {
        Some("--fsync-every: the server offers no FLUSH".to_string())
    } else if load.connections > 1 && writes && !session.has(wire::NBD_FLAG_CAN_MULTI_CONN) {
        Some("--connections: the server does not keep several coherent".to_string())
    } else if stamped && !load.block.is_multiple_of(stamps::SECTOR as u64) {
        Some("--verify and --log need a --bs of whole sectors of 512 bytes".to_string())
    } else if stamped && blocks > 1 << 27 {
        Some("--verify and --log: give a --size of at most 2^27 blocks".to_string())
    } else {
        None
    }
}

/// Runs a load. `progress` is told each second how long it has run and how many requests were
/// answered.
///
/// # Errors
/// See [`BenchError`].
pub fn run(
    uri: &Uri,
    load: &Load,
    progress: &dyn Fn(Duration, u64),
) -> Result<Measured, BenchError> {
    let mut clients = Vec::new();
    for _ in 0..load.connections {
        clients.push(Client::connect(uri, Mode::Structured)?);
    }
    let size = load.size.unwrap_or(clients[0].session().size);
    if let Some(text) = unfit(load, &clients[0], size) {
        return Err(BenchError::Unfit(text));
    }
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let run = stamps::mixed(load.seed ^ time.map_or(0, |time| time.as_nanos() as u64));
    let log = match &load.log {
        None => None,
        Some(path) => Some(
            log::Log::create(path, run).map_err(|error| BenchError::File(path.clone(), error))?,
        ),
    };
    let cpu_before = load.server_pid.and_then(cpu_time);
    if load.server_pid.is_some() && cpu_before.is_none() {
        return Err(BenchError::Unfit("--server-pid: no such process".to_string()));
    }
    let (answered, logged) = (AtomicU64::new(0), AtomicU64::new(0));
    let begin = Instant::now();
    let shared = Shared { load, size, run, log, answered, logged, begin };
    let results = work(&shared, clients, progress);
    let (mut tallies, mut verified) = ([Tally::new(), Tally::new(), Tally::new()], 0);
    let mut time = Duration::ZERO;
    let cpu_after = load.server_pid.and_then(cpu_time);
    let mut finished = Vec::new();
    for result in results {
        finished.push(result.map_err(|error| match (&load.log, error) {
            (Some(path), BenchError::Client(error)) => {
                BenchError::Lost(path.clone(), shared.logged.load(Ordering::Relaxed), error)
            }
            (_, error) => error,
        })?);
    }
    for mut worker in finished {
        for (sum, part) in tallies.iter_mut().zip(&worker.tallies) {
            sum.latency_ns.add(&part.latency_ns).expect("the same bounds");
            sum.errors += part.errors;
        }
        time = time.max(worker.time);
        verified += worker.verify_all(&shared)?;
    }
    let server_cpu = cpu_after.zip(cpu_before).map(|(after, before)| after - before);
    Ok(Measured { tallies, time, server_cpu, verified })
}

type Finished = Result<worker::Worker, BenchError>;

/// Runs the workers; tells of the progress meanwhile.
fn work(
    shared: &Shared<'_>,
    clients: Vec<Client>,
    progress: &dyn Fn(Duration, u64),
) -> Vec<Finished> {
    std::thread::scope(|scope| {
        let start = |(number, client)| {
            scope.spawn(move || {
                let mut worker = worker::Worker::new(shared, number, client);
                worker.run(shared).map(|()| worker)
            })
        };
        let threads: Vec<_> = clients.into_iter().enumerate().map(start).collect();
        let mut told = shared.begin;
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(20));
            if told.elapsed() >= Duration::from_secs(1) {
                told = Instant::now();
                progress(shared.begin.elapsed(), shared.answered.load(Ordering::Relaxed));
            }
        }
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|result| result.expect("a worker does not panic")).collect()
    })
}
