//! A load on an NBD server: its requests, the threads that send them, its results.
//!
//! Requests come from a [`Feed`], in its order, with one thread for all connections (`driver.rs`).
//! A [`Pattern`] is a feed for each connection, with a thread of its own (`pattern.rs`).

pub mod drive;
mod driver;
mod feed;
mod known;
mod laps;
mod load;
mod log;
mod pattern;
mod percentiles;
mod schedule;
pub mod stamps;

pub use feed::{Feed, FeedError, FeedRequest};
pub use laps::{FLUSH, Kind, Lap, READ, Tally, WRITE};
pub use load::{Arrivals, BenchError, Load, Measured, Pace, Pattern, Unfit};
pub use log::{Checked, check};
pub use percentiles::percentiles;

use destage_client::Client;
use destage_nbd::client::Uri;
use destage_nbd::{Mode, wire};
use driver::Driver;
use known::Units;
use pattern::PatternFeed;
use schedule::Schedule;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What a run reports while it runs.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Every second: how long it has run, and how many requests were answered.
    Second(Duration, u64),
    /// An interval has ended.
    Lap(&'a Lap),
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
    /// The error of the first request that failed; 0 for none.
    errno: AtomicU64,
    /// A worker has failed, so the others stop.
    failed: AtomicBool,
    begin: Instant,
}

impl Shared<'_> {
    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Records the error of a request.
    fn failed_with(&self, errno: u32) {
        let errno = u64::from(errno);
        let _ = self.errno.compare_exchange(0, errno, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Appends acknowledged writes to the log, if there is one.
    fn keep(&self, records: &mut Vec<u8>) -> Result<(), BenchError> {
        let (Some(log), Some(path)) = (&self.log, &self.load.log) else {
            records.clear();
            return Ok(());
        };
        let writes = log::count(records);
        if writes > 0 {
            log.append(records).map_err(|error| BenchError::File(path.clone(), error))?;
            self.logged.fetch_add(writes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A connection's error, with what is known of the load.
    fn died(&self, error: BenchError) -> BenchError {
        match (&self.load.log, error) {
            (Some(path), BenchError::Client(error)) => {
                BenchError::Lost(path.clone(), self.logged.load(Ordering::Relaxed), error)
            }
            (None, BenchError::Client(error)) => {
                let answered = self.answered.load(Ordering::Relaxed);
                BenchError::Died(self.begin.elapsed(), answered, error)
            }
            (_, error) => error,
        }
    }
}

/// How often a thread that waits for answers checks the time.
const LOOK: Duration = Duration::from_secs(1);

/// Detects a server that stalls: requests in flight, and none answered for too long.
struct Patience {
    heard_ns: u64,
    most_ns: u64,
}

impl Patience {
    fn new(load: &Load) -> Patience {
        Patience { heard_ns: 0, most_ns: load.patience.as_nanos() as u64 }
    }

    fn check(&self, now_ns: u64, in_flight: usize, load: &Load) -> Result<(), BenchError> {
        if in_flight == 0 || now_ns.saturating_sub(self.heard_ns) < self.most_ns {
            return Ok(());
        }
        Err(BenchError::Stalled(in_flight, load.patience))
    }

    /// An answer arrived, or a request was sent when none was in flight.
    fn heard(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
    }
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

/// A server's connections, open, before the load.
pub struct Target {
    clients: Vec<Client>,
    size: u64,
}

impl Target {
    /// Opens the load's connections.
    ///
    /// # Errors
    /// If the server cannot be reached, or the load cannot be put on it.
    pub fn connect(uri: &Uri, load: &Load) -> Result<Target, BenchError> {
        let mut clients = Vec::new();
        for _ in 0..load.connections {
            let mut client = Client::connect(uri, Mode::Structured)?;
            client.set_timeout(LOOK.min(load.patience))?;
            clients.push(client);
        }
        let held = clients[0].session().size;
        let size = load.size.unwrap_or(held);
        if size > held {
            return Err(BenchError::Unfit(Unfit::Size(held)));
        }
        Ok(Target { clients, size })
    }

    /// Bytes of the export that the load may use.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What offsets and lengths are multiples of.
    pub fn minimum(&self) -> u64 {
        u64::from(self.clients[0].session().block.minimum)
    }

    /// Longest request; longer ones of a feed are split.
    pub fn maximum(&self) -> u64 {
        u64::from(self.clients[0].session().block.maximum)
    }

    /// Runs the load: of its pattern, or of this feed.
    pub fn run(
        self,
        load: &Load,
        feed: Option<Box<dyn Feed>>,
        report: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Measured, BenchError> {
        let writes = feed.is_some() || load.pattern.write_percent > 0;
        let refused = match &feed {
            None => self.unfit_pattern(load),
            Some(_) => None,
        };
        // A pattern has no times of its own.
        let closed = feed.is_none() && load.pace == Pace::Own;
        let pace = if closed { Pace::Closed } else { load.pace };
        let load = &Load { pace, ..load.clone() };
        if let Some(unfit) = refused.or_else(|| self.unfit(load, writes)) {
            return Err(BenchError::Unfit(unfit));
        }
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let run =
            destage_engine::mix::mix(load.seed ^ time.map_or(0, |time| time.as_nanos() as u64));
        let create = |path: &std::path::PathBuf| {
            log::Log::create(path, run).map_err(|error| BenchError::File(path.clone(), error))
        };
        let log = load.log.as_ref().map(create).transpose()?;
        if load.server_pid.is_some_and(|pid| cpu_time(pid).is_none()) {
            return Err(BenchError::Unfit(Unfit::NoProcess));
        }
        let shared = Shared {
            load,
            size: self.size,
            run,
            log,
            answered: AtomicU64::new(0),
            logged: AtomicU64::new(0),
            errno: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            begin: Instant::now(),
        };
        match feed {
            None => Run::of(&shared, self.pattern_workers(&shared), report),
            Some(feed) => {
                let schedule = Schedule::new(load, 0, 1);
                let start: Start<'_> = Box::new(|parts| {
                    let (clients, units) = (self.clients, Units::SECTORS);
                    Driver::new(&shared, clients, feed, units, schedule, parts)
                });
                Run::of(&shared, vec![start], report)
            }
        }
    }

    fn pattern_workers<'a>(self, shared: &'a Shared<'a>) -> Vec<Start<'a>> {
        let load = shared.load;
        let start = |(number, client)| -> Start<'a> {
            let feed = PatternFeed::new(load, shared.size, number);
            let units = Units::blocks(load, number);
            let schedule = Schedule::new(load, number, load.connections);
            Box::new(move |parts| {
                Driver::new(shared, vec![client], Box::new(feed), units, schedule, parts)
            })
        };
        self.clients.into_iter().enumerate().map(start).collect()
    }

    /// Why the server does not take such a load.
    fn unfit(&self, load: &Load, writes: bool) -> Option<Unfit> {
        let (client, session) = (&self.clients[0], self.clients[0].session());
        if writes && session.read_only() {
            Some(Unfit::ReadOnly)
        } else if load.fua && !session.has(wire::NBD_FLAG_SEND_FUA) {
            Some(Unfit::NoFua)
        } else if load.flush_every > 0 && !client.offers_flush() {
            Some(Unfit::NoFlush)
        } else if load.connections > 1 && writes && !session.has(wire::NBD_FLAG_CAN_MULTI_CONN) {
            Some(Unfit::NotCoherent)
        } else {
            None
        }
    }

    /// Why the pattern does not fit the server.
    fn unfit_pattern(&self, load: &Load) -> Option<Unfit> {
        let (minimum, most) = (self.minimum(), self.maximum());
        let blocks = self.size / load.block;
        if load.block > most || !load.block.is_multiple_of(minimum) {
            Some(Unfit::Block(minimum, most))
        } else if blocks < (load.depth * load.connections) as u64 {
            Some(Unfit::FewBlocks)
        } else if load.stamped() && !load.block.is_multiple_of(stamps::SECTOR as u64) {
            Some(Unfit::Sectors)
        } else if load.stamped() && blocks > 1 << 27 {
            Some(Unfit::ManyBlocks)
        } else {
            None
        }
    }
}

/// Runs a load of a pattern. Calls `progress` every second with how long it has run and how many
/// requests were answered.
pub fn run(
    uri: &Uri,
    load: &Load,
    progress: &dyn Fn(Duration, u64),
) -> Result<Measured, BenchError> {
    Target::connect(uri, load)?.run(load, None, &mut |report| {
        if let Progress::Second(time, answered) = report {
            progress(time, answered);
        }
    })
}

/// Makes a worker, on a thread of its own.
type Start<'a> = Box<dyn FnOnce(mpsc::Sender<laps::Part>) -> Driver<'a> + Send + 'a>;
type Finished<'a> = Result<Driver<'a>, BenchError>;

/// A running load, as seen by the thread that waits for it.
struct Run<'a, 't> {
    shared: &'a Shared<'a>,
    report: &'t mut dyn FnMut(Progress<'_>),
    collector: laps::Collector,
    parts: mpsc::Receiver<laps::Part>,
    /// The server's CPU time at the end of the warm-up.
    cpu_before: Option<Duration>,
    reported: Instant,
}

impl<'a> Run<'a, '_> {
    fn of(
        shared: &'a Shared<'a>,
        workers: Vec<Start<'a>>,
        report: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Measured, BenchError> {
        let (sender, parts) = mpsc::channel();
        let collector = laps::Collector::new(shared.load.warmup, workers.len());
        let reported = shared.begin;
        let mut run = Run { shared, report, collector, parts, cpu_before: None, reported };
        let results = run.work(workers, sender);
        let pid = shared.load.server_pid;
        let server_cpu = pid.and_then(cpu_time).zip(run.cpu_before).map(|(now, then)| now - then);
        let mut finished = Vec::new();
        for result in results {
            finished.push(result.map_err(|error| shared.died(error))?);
        }
        run.take_parts();
        while let Some(lap) = run.collector.close() {
            run.report_lap(&lap);
        }
        if run.collector.end().is_zero() {
            return Err(BenchError::Unfit(Unfit::Warmup));
        }
        let mut measured = Measured {
            time: run.collector.end(),
            tally: run.collector.sum,
            server_cpu,
            not_begun: 0,
            verified: 0,
            first_errno: match shared.errno.load(Ordering::Relaxed) {
                0 => None,
                errno => Some(errno as u32),
            },
        };
        for worker in &mut finished {
            measured.not_begun += worker.not_begun()?;
            measured.verified += worker.verify_all()?;
        }
        Ok(measured)
    }

    /// Runs the workers, and reports progress in the meantime.
    fn work(
        &mut self,
        workers: Vec<Start<'a>>,
        sender: mpsc::Sender<laps::Part>,
    ) -> Vec<Finished<'a>> {
        let shared = self.shared;
        std::thread::scope(|scope| {
            let start = |start: Start<'a>| {
                let sender = sender.clone();
                scope.spawn(move || {
                    schedule::wake_on_time();
                    let mut worker = start(sender);
                    let result = worker.run();
                    if result.is_err() {
                        shared.failed.store(true, Ordering::Relaxed);
                    }
                    result.map(|()| worker)
                })
            };
            let threads: Vec<_> = workers.into_iter().map(start).collect();
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                self.look();
                std::thread::sleep(Duration::from_millis(20));
            }
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|result| result.expect("a worker does not panic")).collect()
        })
    }

    fn look(&mut self) {
        let load = self.shared.load;
        if self.cpu_before.is_none() && self.shared.begin.elapsed() >= load.warmup {
            self.cpu_before = load.server_pid.and_then(cpu_time);
        }
        self.take_parts();
        if self.reported.elapsed() >= Duration::from_secs(1) {
            self.reported = Instant::now();
            let answered = self.shared.answered.load(Ordering::Relaxed);
            (self.report)(Progress::Second(self.shared.begin.elapsed(), answered));
        }
    }

    fn take_parts(&mut self) {
        while let Ok(part) = self.parts.try_recv() {
            if let Some(lap) = self.collector.take(part) {
                self.report_lap(&lap);
            }
        }
    }

    /// Reports an interval, unless it is the end of the run and nothing was answered in it.
    fn report_lap(&mut self, lap: &Lap) {
        let complete = self.shared.load.interval.is_some_and(|most| lap.end - lap.begin >= most);
        if complete || lap.tally.requests() > 0 {
            (self.report)(Progress::Lap(lap));
        }
    }
}

/// The end of a verification in which reads fail.
fn unreadable() -> BenchError {
    BenchError::Unfit(Unfit::Reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load with the defaults of the command line.
    pub fn load() -> Load {
        Load {
            pattern: Pattern { random: true, write_percent: 100 },
            block: 4096,
            depth: 32,
            connections: 1,
            pace: Pace::Own,
            warmup: Duration::ZERO,
            time: Some(Duration::from_secs(1)),
            interval: None,
            patience: Duration::from_secs(60),
            size: None,
            flush_every: 0,
            fua: false,
            verify: false,
            log: None,
            seed: 1,
            server_pid: None,
        }
    }
}
