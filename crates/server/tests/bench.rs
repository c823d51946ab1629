//! Loads against servers whose answers are known.
#![allow(missing_docs)]

mod common;

use common::{Forgetful, Running, ram, serve};
use destage_block::{Answer, Backend, Driver, Payload, Request, RequestError};
use destage_load::{
    self, Arrivals, BenchError, FLUSH, Feed, FeedError, FeedRequest, Lap, Load, Measured, Pace,
    Pattern, Progress, READ, Target, WRITE,
};
use destage_server::backends::Ram;
use destage_server::{Port, Token};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn load(time: Duration) -> Load {
    Load {
        pattern: Pattern { random: true, write_percent: 100 },
        block: 4096,
        depth: 8,
        connections: 1,
        pace: Pace::Own,
        warmup: Duration::ZERO,
        time: Some(time),
        interval: None,
        patience: Duration::from_secs(20),
        size: None,
        flush_every: 0,
        fua: false,
        verify: false,
        log: None,
        seed: 1,
        server_pid: None,
    }
}

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn run(server: &Running, load: &Load, feed: Option<Box<dyn Feed>>) -> Result<Measured, BenchError> {
    Target::connect(&server.uri(), load)?.run(load, feed, &mut |_| {})
}

/// Requests that are known beforehand; remembers what was completed.
struct Listed {
    asks: VecDeque<FeedRequest>,
    completed: Arc<Mutex<Vec<u32>>>,
}

impl Feed for Listed {
    fn next_at(&mut self) -> Option<u64> {
        self.asks.front().map(|ask| ask.due_ns)
    }

    fn take(&mut self, _now_ns: u64) -> Result<FeedRequest, FeedError> {
        Ok(self.asks.pop_front().expect("announced"))
    }

    fn completed(&mut self, tag: u32, _now_ns: u64) {
        self.completed.lock().expect("whole").push(tag);
    }
}

fn listed(asks: &[FeedRequest]) -> Option<Box<dyn Feed>> {
    Some(Box::new(Listed { asks: asks.iter().copied().collect(), completed: Arc::default() }))
}

/// `number` requests, one every `each_ns`, over a MiB and of many sizes.
fn mixed(number: u64, each_ns: u64) -> Vec<FeedRequest> {
    let mut rng = common::Rng(7);
    let mut ask = |tag| {
        let length = 512 * (1 + rng.below(if tag % 7 == 0 { 200 } else { 24 }));
        let offset = 512 * rng.below(2048 - length / 512);
        FeedRequest {
            due_ns: tag * each_ns,
            tag: tag as u32,
            write: rng.below(3) > 0,
            offset,
            length,
        }
    };
    (0..number).map(&mut ask).collect()
}

type Seen = Arc<Mutex<Vec<(bool, u64, u64)>>>;

/// Memory that records what was requested: writes?, offset, length.
struct Counting(Ram, Seen);

impl Backend<Port> for Counting {
    fn request(&mut self, port: &mut Port, token: Token, request: Request, payload: Payload<'_>) {
        let seen = match request {
            Request::Read { offset, length } => Some((false, offset, u64::from(length))),
            Request::Write { offset, length, .. } => Some((true, offset, u64::from(length))),
            _ => None,
        };
        self.1.lock().expect("whole").extend(seen);
        self.0.request(port, token, request, payload);
    }
}

fn counting(most: u32) -> (Running, Seen) {
    let seen = Seen::default();
    let recorder = Arc::clone(&seen);
    let server = serve(
        16 << 20,
        |settings| settings.export.block.maximum = most,
        move || Counting(Ram::default(), recorder),
    );
    (server, seen)
}

fn asked(asks: &[FeedRequest]) -> Vec<(bool, u64, u64)> {
    asks.iter().map(|ask| (ask.write, ask.offset, ask.length)).collect()
}

#[test]
fn a_feed_is_issued_as_it_is_and_in_its_order() {
    let asks = mixed(500, 0);
    for pace in
        [Pace::Own, Pace::Closed, Pace::Scheduled { iops: 20_000.0, arrivals: Arrivals::Poisson }]
    {
        let (server, seen) = counting(32 << 20);
        let mut load = load(ms(10_000));
        (load.pace, load.time) = (pace, None);
        let completed = Arc::default();
        let feed = Listed { asks: asks.iter().copied().collect(), completed };
        let completed = Arc::clone(&feed.completed);
        let measured = run(&server, &load, Some(Box::new(feed))).expect("runs");
        assert_eq!(*seen.lock().expect("whole"), asked(&asks), "{pace:?}");
        assert_eq!((measured.requests(), measured.not_begun), (500, 0));
        let mut completed = completed.lock().expect("whole").clone();
        completed.sort_unstable();
        assert_eq!(completed, (0..500).collect::<Vec<u32>>());
        for (place, write) in [(READ, false), (WRITE, true)] {
            let of = asks.iter().filter(|ask| ask.write == write);
            let bytes: u64 = of.clone().map(|ask| ask.length).sum();
            let kind = &measured.tally.kinds[place];
            assert_eq!((kind.latency_ns.len(), kind.bytes), (of.count() as u64, bytes));
        }
    }
}

#[test]
fn several_connections_share_a_feed_and_long_requests_are_split() {
    let asks = mixed(300, 0);
    let (server, seen) = counting(8192);
    let mut load = load(ms(1));
    (load.connections, load.time) = (3, None);
    let measured = run(&server, &load, listed(&asks)).expect("runs");
    assert_eq!(measured.requests(), 300);
    let mut parts = Vec::new();
    for (write, offset, length) in asked(&asks) {
        let split = |at: u64| (write, offset + at, (length - at).min(8192));
        parts.extend((0..length).step_by(8192).map(split));
    }
    parts.sort_unstable();
    let mut seen = seen.lock().expect("whole").clone();
    seen.sort_unstable();
    assert_eq!(seen, parts);
}

#[test]
fn a_feed_keeps_its_times() {
    let server = ram(16 << 20);
    let asks = mixed(200, 2_000_000);
    let begun = Instant::now();
    let mut load = load(ms(1));
    load.time = None;
    let measured = run(&server, &load, listed(&asks)).expect("runs");
    assert!(begun.elapsed() >= ms(398), "{:?}", begun.elapsed());
    assert!(measured.time >= ms(398), "{:?}", measured.time);
    // Cut off by --time: the rest was not due.
    load.time = Some(ms(101));
    let measured = run(&server, &load, listed(&asks)).expect("runs");
    assert_eq!(measured.requests() + measured.not_begun, 51);
    load.pace = Pace::Closed;
    let begun = Instant::now();
    assert_eq!(run(&server, &load, listed(&asks)).expect("runs").requests(), 200);
    assert!(begun.elapsed() < ms(398), "{:?}", begun.elapsed());
}

/// Memory that takes this long for each request, one after the other.
struct Slow(Ram, Duration);

impl Backend<Port> for Slow {
    fn request(&mut self, port: &mut Port, token: Token, request: Request, payload: Payload<'_>) {
        std::thread::sleep(self.1);
        self.0.request(port, token, request, payload);
    }
}

#[test]
fn an_open_loop_reports_the_queue_before_a_slow_server() {
    // 200 requests per second at most; 400 are due.
    let server = serve(16 << 20, |_| {}, || Slow(Ram::default(), ms(5)));
    let mut load = load(ms(1_000));
    load.depth = 1;
    let closed = run(&server, &load, None).expect("runs");
    let at = |measured: &Measured, share| {
        ms(measured.tally.kinds[WRITE].latency_ns.value_at_quantile(share) / 1_000_000)
    };
    assert!(at(&closed, 0.5) < ms(50), "a closed loop waits for answers only");
    assert!(closed.tally.begun_late_ns.is_empty());
    let dues: Vec<FeedRequest> = (0..4_000)
        .map(|tag| FeedRequest {
            due_ns: tag * 2_500_000,
            tag: 0,
            write: true,
            offset: 0,
            length: 512,
        })
        .collect();
    for (pace, feed) in [
        (Pace::Scheduled { iops: 400.0, arrivals: Arrivals::Even }, None),
        (Pace::Scheduled { iops: 400.0, arrivals: Arrivals::Poisson }, None),
        (Pace::Own, listed(&dues)),
    ] {
        load.pace = pace;
        let open = run(&server, &load, feed).expect("runs");
        let (answered, late) = (open.requests(), &open.tally.begun_late_ns);
        // What is answered last was due half a second before: half of what came is served.
        assert!(answered <= 201 && at(&open, 1.0) >= ms(400), "{answered} {:?}", at(&open, 1.0));
        assert!(at(&open, 0.5) >= ms(150), "{:?}", at(&open, 0.5));
        assert!(late.value_at_quantile(1.0) >= 400_000_000, "{}", late.max());
        assert!(answered + open.not_begun >= 330, "{answered} and {}", open.not_begun);
        assert!(answered + open.not_begun <= 470, "{answered} and {}", open.not_begun);
    }
}

#[test]
fn the_warm_up_is_not_counted_and_intervals_add_up() {
    let server = ram(16 << 20);
    let mut load = load(ms(600));
    (load.warmup, load.interval) = (ms(400), Some(ms(200)));
    load.connections = 2;
    load.pace = Pace::Scheduled { iops: 1_000.0, arrivals: Arrivals::Even };
    let (mut laps, mut last) = (Vec::new(), Duration::ZERO);
    let target = Target::connect(&server.uri(), &load).expect("connects");
    let measured = target.run(&load, None, &mut |progress| {
        let Progress::Lap(Lap { begin, end, tally }) = progress else { return };
        assert_eq!(*begin, last);
        laps.push(tally.requests());
        last = *end;
    });
    let measured = measured.expect("runs");
    let requests = measured.requests();
    assert!((450..=850).contains(&requests), "{requests} of 600, and 400 in the warm-up");
    assert_eq!(laps.iter().sum::<u64>(), requests, "{laps:?}");
    assert!(laps.len() >= 3 && laps[1] < 400, "{laps:?}");
    assert!(measured.time >= ms(590) && measured.time < ms(1_000), "{:?}", measured.time);
    load.time = None;
    let error = run(&server, &load, listed(&mixed(10, 0))).expect_err("too short");
    assert!(error.to_string().contains("--warmup"), "{error}");
}

#[test]
fn a_feed_is_verified() {
    let server = serve(16 << 20, |settings| settings.export.block.maximum = 16_384, Ram::default);
    let log = server.folder.path().join("acknowledged");
    let asks = mixed(4_000, 0);
    let mut load = load(ms(1));
    (load.time, load.verify, load.log) = (None, true, Some(log.clone()));
    (load.connections, load.flush_every) = (2, 100);
    let measured = run(&server, &load, listed(&asks)).expect("runs");
    let mut written = vec![false; 2048];
    for ask in asks.iter().filter(|ask| ask.write) {
        written[ask.offset as usize / 512..][..ask.length as usize / 512].fill(true);
    }
    assert_eq!(measured.verified, written.iter().filter(|sector| **sector).count() as u64);
    let flushes = measured.tally.kinds[FLUSH].latency_ns.len();
    let writes = measured.tally.kinds[WRITE].latency_ns.len();
    assert_eq!((flushes, measured.errors()), (writes / 100, 0));
    let checked = destage_load::check(&server.uri(), &log).expect("reads");
    assert_eq!((checked.lost, checked.first), (0, None));
    assert!(checked.writes >= writes, "{} of {writes}", checked.writes);
    let server = serve(16 << 20, |_| {}, Forgetful::default);
    let wrong = run(&server, &load, listed(&asks)).expect_err("wrong data");
    assert!(matches!(wrong, BenchError::Wrong(..)), "{wrong}");
}

/// Answers nothing, or only errors.
struct Broken(bool, Vec<Token>);

impl Backend<Port> for Broken {
    fn request(&mut self, port: &mut Port, token: Token, _: Request, _: Payload<'_>) {
        if self.0 {
            port.reply(token, Answer::Error { error: RequestError::NoSpace, text: "full" });
        } else {
            self.1.push(token);
        }
    }
}

#[test]
fn errors_are_counted_and_a_server_that_stalls_is_reported() {
    let server = serve(16 << 20, |_| {}, || Broken(true, Vec::new()));
    let asks = mixed(50, 0);
    let mut load = load(ms(100));
    for feed in [None, listed(&asks)] {
        let measured = run(&server, &load, feed).expect("runs");
        assert_eq!((measured.errors(), measured.first_errno), (measured.requests(), Some(28)));
        assert!(measured.tally.kinds.iter().all(|kind| kind.bytes == 0));
    }
    let server = serve(16 << 20, |_| {}, || Broken(false, Vec::new()));
    load.patience = ms(200);
    for feed in [None, listed(&asks)] {
        let error = run(&server, &load, feed).expect_err("no answer");
        assert!(matches!(error, BenchError::Stalled(8, _)), "{error}");
        assert!(error.to_string().contains("--timeout"), "{error}");
    }
}

#[test]
fn a_feed_that_fails_is_reported() {
    struct Failing(u32);
    impl Feed for Failing {
        fn next_at(&mut self) -> Option<u64> {
            Some(0)
        }
        fn take(&mut self, _now_ns: u64) -> Result<FeedRequest, FeedError> {
            self.0 += 1;
            let ask = FeedRequest { due_ns: 0, tag: 0, write: true, offset: 0, length: 512 };
            if self.0 < 9 { Ok(ask) } else { Err("line 9 is not a request".into()) }
        }
        fn completed(&mut self, _tag: u32, _now_ns: u64) {}
    }
    let server = ram(16 << 20);
    let error = run(&server, &load(ms(1_000)), Some(Box::new(Failing(0)))).expect_err("fails");
    assert_eq!(error.to_string(), "line 9 is not a request");
}
