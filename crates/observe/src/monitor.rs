//! The monitor: a thread that asks the array for its counts each second.

use crate::alarm::AlarmCommand;
use crate::record::Recorder;
use crate::shadow::{Row, Shadows, Shape};
use crate::words::Events;
use crate::{metrics, sample};
use destage_engine::units::PAGE_BYTES;
use destage_report::sample::{Point, Sample, WhatIf};
use destage_report::state::ArrayState;
use destage_server::array::control::{Monitoring, Recording};
use destage_server::array::{ArrayHandle, Observation, RecordingError, Seen, TapReader};
use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch as latest;

/// How often the array is asked for its counts.
const SECOND: Duration = Duration::from_secs(1);
/// How often the queue of requests is emptied: it is deep enough for that.
const LOOK: Duration = Duration::from_millis(20);
/// Requests handed on together.
const BATCH: usize = 1024;
/// The same where policies follow them: some may take a tenth of a second.
const FOLLOWED: usize = 16;
/// Seconds of the past that a page shows when it is opened.
const HISTORY: usize = 600;

/// What the monitor does.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Shadow policies follow one write group in this many; `None`: there are none.
    pub what_if_one_in: Option<u64>,
    /// A shell command to run for each alarm.
    pub alarm_command: Option<String>,
}

/// What is known of an array. Cheap to clone.
#[derive(Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
}

struct Shared {
    recorder: Recorder,
    latest: Mutex<Latest>,
    /// The last second as JSON, for the page.
    stream: latest::Sender<Arc<str>>,
    tap_lost: Box<dyn Fn() -> u64 + Send + Sync>,
    shadowed: bool,
}

#[derive(Default)]
struct Latest {
    metrics: Arc<str>,
    history: VecDeque<Point>,
    what_if: Option<WhatIf>,
    state: ArrayState,
    group_bytes: u64,
    at: Option<Instant>,
}

impl Monitor {
    /// Starts the thread, which ends with the server.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        array: &str,
        options: Options,
        handle: ArrayHandle,
        tap: TapReader,
    ) -> std::io::Result<Monitor> {
        let tap = Arc::new(Mutex::new(tap));
        let lost = {
            let tap = tap.clone();
            move || tap.lock().map_or(0, |tap| tap.dropped())
        };
        let shared = Arc::new(Shared {
            recorder: Recorder::default(),
            latest: Mutex::default(),
            stream: latest::Sender::new(Arc::from("")),
            tap_lost: Box::new(lost),
            shadowed: options.what_if_one_in.is_some(),
        });
        let monitor = Monitor { shared: shared.clone() };
        let command = options.alarm_command.as_deref();
        let mut worker = Worker {
            shared,
            alarms: command.map(|command| AlarmCommand::new(command, array)),
            options,
            handle,
            events: Events::default(),
            before: None,
            shadows: None,
            base: None,
            batch: Vec::with_capacity(BATCH),
        };
        let thread = std::thread::Builder::new().name("monitor".to_string());
        thread.spawn(move || worker.run(&tap))?;
        Ok(monitor)
    }

    /// For Prometheus: as of the last second.
    pub fn metrics(&self) -> Arc<str> {
        self.latest().metrics.clone()
    }

    /// The last ten minutes, as JSON.
    pub fn history(&self) -> String {
        let points: Vec<Point> = self.latest().history.iter().cloned().collect();
        serde_json::to_string(&points).unwrap_or_default()
    }

    /// The last second and each that follows, as JSON.
    pub fn stream(&self) -> latest::Receiver<Arc<str>> {
        self.shared.stream.subscribe()
    }

    /// The state of the array, if its data thread has answered recently.
    pub fn state(&self) -> Option<ArrayState> {
        let latest = self.latest();
        let fresh = latest.at.is_some_and(|at| at.elapsed() < 5 * SECOND);
        fresh.then_some(latest.state)
    }

    fn latest(&self) -> std::sync::MutexGuard<'_, Latest> {
        self.shared.latest.lock().expect("not poisoned")
    }
}

impl Monitoring for Monitor {
    fn what_if(&self) -> Option<serde_json::Value> {
        if !self.shared.shadowed {
            return None;
        }
        let what_if = self.latest().what_if.clone().unwrap_or_default();
        serde_json::to_value(what_if).ok()
    }

    fn record(
        &self,
        recording: &Recording,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<serde_json::Value, RecordingError> {
        let group_bytes = self.latest().group_bytes.max(1);
        let shared = &self.shared;
        let lost = || (shared.tap_lost)();
        let recorded = shared.recorder.record(recording, group_bytes, &lost, progress)?;
        Ok(serde_json::json!({
            "requests": recorded.requests,
            "dropped": recorded.dropped,
            "trims": recorded.trims,
            "held_back": recorded.held_back,
        }))
    }
}

/// The counts from which the comparison of the shadows and the array starts.
struct Base {
    policy: String,
    at: destage_engine::units::Instant,
    running: Row,
    shadows: Vec<Row>,
}

struct Worker {
    shared: Arc<Shared>,
    options: Options,
    handle: ArrayHandle,
    alarms: Option<AlarmCommand>,
    events: Events,
    before: Option<Box<Observation>>,
    shadows: Option<Shadows>,
    base: Option<Base>,
    batch: Vec<Seen>,
}

impl Worker {
    fn run(&mut self, tap: &Mutex<TapReader>) {
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            if now >= next {
                next = (next + SECOND).max(now);
                let Some(observation) = self.ask() else { return };
                // All that was served before it is in the queue by now.
                self.drain(tap);
                self.look(observation, tap);
            } else if !self.drain(tap) {
                // What the queue has no room for until then is counted as missed.
                continue;
            }
            let pause = next.saturating_duration_since(Instant::now()).min(LOOK);
            let idle = !self.shared.recorder.wants() && self.shadows.is_none();
            std::thread::sleep(if idle { pause.max(5 * LOOK) } else { pause });
        }
    }

    /// `None` when the server has ended.
    fn ask(&self) -> Option<Box<Observation>> {
        let answer = self.handle.observe();
        loop {
            match answer.recv_timeout(5 * SECOND) {
                Ok(observation) => return Some(observation),
                Err(RecvTimeoutError::Timeout) => {
                    tracing::warn!(target: "destage", "the data thread has not answered for 5 s");
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Takes what was served out of the queue. False if that takes too long: the array is looked
    /// at in between, whatever clients send.
    fn drain(&mut self, tap: &Mutex<TapReader>) -> bool {
        let begun = Instant::now();
        let most = if self.shadows.is_some() { FOLLOWED } else { BATCH };
        let tap = tap.lock().expect("not poisoned");
        let recording = self.shared.recorder.wants();
        tap.want(self.shadows.is_some(), recording);
        loop {
            self.batch.clear();
            self.batch.extend(tap.queue.try_iter().take(most));
            if self.batch.is_empty() {
                return true;
            }
            if let Some(shadows) = &mut self.shadows {
                self.batch.iter().for_each(|seen| shadows.feed(seen));
            }
            if recording {
                self.shared.recorder.feed(&self.batch);
            }
            if begun.elapsed() > SECOND / 4 {
                return false;
            }
        }
    }

    fn look(&mut self, observation: Box<Observation>, tap: &Mutex<TapReader>) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = wall.as_millis() as u64;
        for raised in &observation.raised {
            if self.events.alarm(raised.number, at_ms, &raised.text)
                && let Some(alarms) = &mut self.alarms
            {
                alarms.raise(raised.name, &raised.text);
            }
        }
        if let Some(alarms) = &mut self.alarms {
            alarms.turn(Instant::now());
        }
        let lost = tap.lock().map_or(0, |tap| tap.dropped());
        let what_if = self.compare(&observation, lost);
        let mut sample = match &self.before {
            Some(before) => sample::sample(before, &observation, at_ms),
            None => sample::sample(&observation, &observation, at_ms),
        };
        sample.what_if = what_if;
        self.events.look(&mut sample);
        self.publish(&sample, &observation);
        self.before = Some(observation);
    }

    fn publish(&mut self, sample: &Sample, observation: &Observation) {
        let text = metrics::metrics(sample, observation);
        let mut latest = self.shared.latest.lock().expect("not poisoned");
        latest.metrics = Arc::from(text);
        if self.before.is_some() {
            latest.history.push_back(sample.point.clone());
        }
        if latest.history.len() > HISTORY {
            latest.history.pop_front();
        }
        latest.what_if.clone_from(&sample.what_if);
        latest.state = sample.status.state;
        latest.group_bytes = observation.geometry.pages_per_group() * 4096;
        latest.at = Some(Instant::now());
        drop(latest);
        // Without an open page nothing is written.
        if self.shared.stream.receiver_count() > 0 {
            let text = serde_json::to_string(sample).unwrap_or_default();
            self.shared.stream.send_replace(Arc::from(text));
        }
    }

    /// What the policies did since all had something to destage.
    fn compare(&mut self, now: &Observation, dropped: u64) -> Option<WhatIf> {
        let one_in = self.options.what_if_one_in?;
        let Observation { geometry, context, detector, .. } = *now;
        let shape = Shape { geometry, context, detector };
        if self.shadows.as_ref().is_none_or(|shadows| *shadows.shape() != shape) {
            (self.shadows, self.base) = (Shadows::new(shape, one_in).ok(), None);
        }
        let shadows = self.shadows.as_mut()?;
        shadows.follow(now.held_pages);
        let counters = &now.counters;
        let running = Row {
            policy: now.status.policy.clone(),
            destages: counters.destages,
            destaged_pages: counters.destaged_pages,
            distance: Some(counters.destage_distance_pages),
            page_hits: counters.page_hits,
            pages_written: counters.pages_written,
        };
        let (trims, settings) = (shadows.trims, settings_of(now));
        let mut what_if = WhatIf { one_in, dropped, trims, settings, ..WhatIf::default() };
        if self.base.as_ref().is_some_and(|base| base.policy != running.policy) {
            self.base = None;
        }
        let rows = shadows.rows();
        match &self.base {
            // They are comparable from the start if all start empty, otherwise once all had to
            // destage.
            None if shadows.warm() || (counters.pages_written == 0 && now.held_pages == 0) => {
                let (policy, at) = (running.policy.clone(), now.at);
                self.base = Some(Base { policy, at, running, shadows: rows });
            }
            None => {}
            Some(base) => {
                what_if.seconds = now.at.since(base.at).0 as f64 / 1e9;
                what_if.running = running.since(&base.running);
                let pairs = rows.iter().zip(&base.shadows);
                what_if.shadows = pairs.map(|(row, before)| row.since(before)).collect();
            }
        }
        if what_if.running.policy.is_empty() {
            what_if.running.policy.clone_from(&now.status.policy);
        }
        Some(what_if)
    }
}

/// The settings of a served array as options of the simulator.
fn settings_of(now: &Observation) -> String {
    let Observation { geometry, context, status, .. } = now;
    let (level, disks) = (geometry.level.entry().entry.name, geometry.disks);
    let (strip, stripes) = (geometry.strip_pages, geometry.group_stripes);
    let kib = geometry.volume_pages().0 * (PAGE_BYTES / 1024);
    let (nvs, depth, rate) = (context.nvs_pages, context.queue_depth, &status.rate);
    // The way of the member that costs the most.
    let is = |how: &&str| status.devices.iter().any(|d| d.durability.as_deref() == Some(how));
    let durability = ["flush", "epochs", "fua"].into_iter().find(is).unwrap_or("off");
    format!(
        "--as served --level {level} --disks {disks} --strip {strip} --group-stripes {stripes} \
         --disk-fraction {kib}K --nvs {nvs} --queue-depth {depth} --rate {rate} \
         --durability {durability}"
    )
}
