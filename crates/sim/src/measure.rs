//! What is measured in a run, and how it becomes a report.

use crate::config::{SimConfig, Warmup};
use crate::settling::{self, BEHIND, Dirty, Ends, OVERLOADED, Room, UNSETTLED, WarmUp};
use destage_disk::{Completed, Service};
use destage_engine::counters::Counters;
use destage_engine::event::Owner;
use destage_engine::readcache::coherent::ReadCacheState;
use destage_engine::request::Direction;
use destage_engine::track::controller::FORCED;
use destage_engine::units::{Duration, Instant};
use destage_report::model::{
    Balance, BalanceState, Destage, DiskUse, FaultUse, Hits, HostWait, Latency, MediaUse,
    Occupancy, ReadCacheUse, Responses, RunReport, SCHEMA, Series, ServiceTimes, TimeBucket,
};
use hdrhistogram::Histogram;

/// Longest response time recorded, in microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;
/// Significant digits of percentiles.
const DIGITS: u8 = 3;

/// A window without an end is looked at in parts as if it were as long as this.
const WINDOW_MAX: Duration = Duration::from_secs(300);

/// Samples kept of a series; a longer run joins them in pairs.
const SAMPLES_MAX: usize = 4096;

/// Response times of one class of requests.
struct Times {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

impl Times {
    fn new() -> Times {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, DIGITS);
        Times { histogram: histogram.expect("valid bounds"), sum_ns: 0, max_ns: 0 }
    }

    fn record(&mut self, time: Duration) {
        self.histogram.saturating_record(time.0 / 1000);
        self.sum_ns += u128::from(time.0);
        self.max_ns = self.max_ns.max(time.0);
    }

    fn latency(&self) -> Latency {
        let count = self.histogram.len();
        let max_ms = self.max_ns as f64 / 1e6;
        let quantile = |q| match count {
            0 => 0.0,
            // A value stands for the bucket that it ends.
            _ => (self.histogram.value_at_quantile(q) as f64 / 1e3).min(max_ms),
        };
        Latency {
            count,
            mean_ms: self.sum_ns as f64 / count.max(1) as f64 / 1e6,
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            max_ms,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct DiskSums {
    reads: u64,
    writes: u64,
    service: [u64; 4],
}

/// Sums of one interval of the series.
#[derive(Clone, Copy, Default)]
struct IntervalSums {
    completed: u64,
    response_ns: u128,
    destaged_at_start: u64,
    occupancy_max: u64,
}

/// Collects a run's figures.
pub struct Measure {
    warmup: Warmup,
    /// A warm-up that ends when dirty pages neither rise nor fall.
    warming: Option<WarmUp>,
    measured: Duration,
    interval: Duration,
    capacity: u64,
    room: Room,
    now: Instant,
    /// Start of the measured window, once known.
    start: Option<Instant>,
    end: Instant,
    occupancy: u64,
    waiting: bool,
    occupancy_integral: u128,
    occupancy_min: u64,
    occupancy_max: u64,
    full: Duration,
    /// When a write first waited for space.
    first_full: Option<Instant>,
    /// Dirty pages of the window, and how many there were when it began.
    dirty: Dirty,
    dirty_first: u64,
    /// When the last request arrived; dirty pages and pages destaged then.
    last_arrival: (Instant, u64, u64),
    reads: Times,
    writes: Times,
    /// At the host, before submission.
    waits: Times,
    waited: u64,
    halves: [(u64, u128); 2],
    disks: Vec<DiskSums>,
    /// Service time of the host's own reads, and of cleans that writes waited for.
    read_service_ns: u64,
    /// Flushes of disks.
    flushes: u64,
    forced_service_ns: u64,
    is_track: bool,
    before: Counters,
    series: Series,
    sample: IntervalSums,
    next_sample: Instant,
}

/// What the simulator knows at the end.
pub struct Outcome {
    /// The engine's counters.
    pub counters: Counters,
    /// Digest of all events.
    pub digest: u64,
    /// What the load aimed at.
    pub target_iops: Option<f64>,
    /// Requests not answered when the run ended.
    pub in_system: u64,
    /// How long the last answers were behind the last arrivals.
    pub behind: Duration,
    /// The read cache at the end.
    pub read_cache: Option<ReadCacheState>,
    /// What failed.
    pub fault: Option<FaultUse>,
    /// What the media caches of the disks did.
    pub media_cache: Option<MediaUse>,
}

impl Measure {
    /// Nothing measured yet.
    pub fn new(config: &SimConfig) -> Measure {
        let end = match config.warmup {
            Warmup::Time(time) => Instant(time.0.saturating_add(config.measured.0)),
            Warmup::Destaged(_) | Warmup::Settled(_) => Instant::NEVER,
        };
        let window = config.measured.min(WINDOW_MAX);
        let capacity = config.controller.nvs_pages.0;
        let rate = config.controller.rate.build(capacity);
        let room = Room::new(capacity, rate.map_or(9000, |rate| rate.thresholds().high));
        let warming = match config.warmup {
            Warmup::Settled(least) => Some(WarmUp::new(least, window, room)),
            Warmup::Time(_) | Warmup::Destaged(_) => None,
        };
        Measure {
            warmup: config.warmup,
            warming,
            measured: config.measured,
            interval: config.interval,
            capacity,
            room,
            now: Instant::ZERO,
            start: None,
            end,
            occupancy: 0,
            waiting: false,
            occupancy_integral: 0,
            occupancy_min: u64::MAX,
            occupancy_max: 0,
            full: Duration::ZERO,
            first_full: None,
            dirty: Dirty::new(Instant::ZERO, Duration(1)),
            dirty_first: 0,
            last_arrival: (Instant::ZERO, 0, 0),
            reads: Times::new(),
            writes: Times::new(),
            waits: Times::new(),
            waited: 0,
            halves: [(0, 0); 2],
            disks: vec![DiskSums::default(); usize::from(config.controller.geometry.disks)],
            read_service_ns: 0,
            flushes: 0,
            forced_service_ns: 0,
            is_track: config.track.is_some(),
            before: Counters::default(),
            series: Series { interval_s: config.interval.as_secs_f64(), ..Series::default() },
            sample: IntervalSums::default(),
            next_sample: Instant::ZERO + config.interval,
        }
    }

    /// Moves time to the next event at `now`. Returns whether the run continues.
    pub fn advance(&mut self, now: Instant, counters: &Counters) -> bool {
        let now_or_end = now.min(self.end);
        while self.next_sample <= now_or_end {
            self.take_sample(counters);
        }
        if self.start.is_none() {
            self.begin_if_warm(now, counters);
        }
        self.accumulate(now.min(self.end));
        self.now = now.min(self.end);
        now <= self.end
    }

    fn begin_if_warm(&mut self, now: Instant, counters: &Counters) {
        let start = match (self.warmup, &mut self.warming) {
            (Warmup::Time(time), _) if now >= Instant::ZERO + time => Instant::ZERO + time,
            (Warmup::Destaged(pages), _) if counters.destaged_pages >= pages => now,
            (Warmup::Settled(_), Some(warming)) => {
                match warming.advance(now, self.occupancy, counters) {
                    Some(start) => start,
                    None => return,
                }
            }
            _ => return,
        };
        self.begin(start, counters);
        if self.end == Instant::NEVER && self.measured != Duration(u64::MAX) {
            self.end = start + self.measured;
        }
    }

    /// The measured window begins.
    fn begin(&mut self, start: Instant, counters: &Counters) {
        (self.start, self.now) = (Some(start), start);
        self.before = *counters;
        (self.occupancy_min, self.occupancy_max) = (self.occupancy, self.occupancy);
        self.dirty_first = self.occupancy;
        let part = Duration(self.measured.min(WINDOW_MAX).0 / 64);
        self.dirty = Dirty::new(start, part);
    }

    fn accumulate(&mut self, now: Instant) {
        if self.start.is_some() {
            let time = now.since(self.now);
            self.occupancy_integral += u128::from(self.occupancy) * u128::from(time.0);
            self.dirty.advance(now, self.occupancy);
            if self.waiting {
                self.full += time;
            }
        }
    }

    fn take_sample(&mut self, counters: &Counters) {
        let seconds = self.interval.as_secs_f64();
        let sample = self.sample;
        let share = |pages: u64| pages as f64 / self.capacity as f64;
        self.series.occupancy.push(share(self.occupancy));
        self.series.occupancy_max.push(share(sample.occupancy_max.max(self.occupancy)));
        self.series.iops.push(sample.completed as f64 / seconds);
        let mean = sample.response_ns as f64 / sample.completed.max(1) as f64 / 1e6;
        self.series.response_ms.push(mean);
        let destaged = counters.destaged_pages - sample.destaged_at_start;
        self.series.destaged_pages_per_s.push(destaged as f64 / seconds);
        self.sample = IntervalSums {
            destaged_at_start: counters.destaged_pages,
            occupancy_max: self.occupancy,
            ..IntervalSums::default()
        };
        if self.series.occupancy.len() == SAMPLES_MAX {
            self.interval += self.interval;
            coarsen(&mut self.series);
        }
        let samples = self.series.occupancy.len() as u64;
        self.next_sample = Instant((samples + 1) * self.interval.0);
    }

    /// Occupancy in pages, and whether a write waits, after an event.
    pub fn observe(&mut self, occupancy: u64, waiting: bool) {
        self.waiting = waiting;
        if waiting && self.first_full.is_none() {
            self.first_full = Some(self.now);
        }
        if occupancy != self.occupancy {
            self.occupancy = occupancy;
            self.occupancy_min = self.occupancy_min.min(occupancy);
            self.occupancy_max = self.occupancy_max.max(occupancy);
            self.sample.occupancy_max = self.sample.occupancy_max.max(occupancy);
        }
    }

    /// A host request arrives.
    pub fn arrived(&mut self, counters: &Counters) {
        self.last_arrival = (self.now, self.occupancy, counters.destaged_pages);
    }

    /// A host request completed `time` after its submission, before which it waited at the host.
    pub fn completed(&mut self, time: Duration, waited: Duration, direction: Direction) {
        self.sample.completed += 1;
        self.sample.response_ns += u128::from(time.0);
        let Some(start) = self.start else { return };
        let times = match direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
        };
        times.record(time);
        self.waits.record(waited);
        self.waited += u64::from(waited > Duration::ZERO);
        let half = usize::from(self.now.since(start).0 > self.measured.0 / 2);
        self.halves[half].0 += 1;
        self.halves[half].1 += u128::from(time.0);
    }

    /// Host requests answered in the measured window.
    pub fn answered(&self) -> u64 {
        self.halves[0].0 + self.halves[1].0
    }

    /// This many flushes of disks began.
    pub fn flushes(&mut self, begun: u64) {
        if self.start.is_some() {
            self.flushes += begun;
        }
    }

    /// A disk command completed.
    pub fn disk(&mut self, index: usize, completed: &Completed, owner: Owner) {
        if self.start.is_none() {
            return;
        }
        match owner {
            Owner::HostRead(_) => self.read_service_ns += completed.service.total().0,
            Owner::Destage(FORCED) => self.forced_service_ns += completed.service.total().0,
            Owner::Destage(_) | Owner::Rebuild(_) | Owner::Scrub(_) => {}
        }
        let sums = &mut self.disks[index];
        match completed.op.write {
            true => sums.writes += 1,
            false => sums.reads += 1,
        }
        let Service { overhead, seek, rotation, transfer } = completed.service;
        for (sum, part) in sums.service.iter_mut().zip([overhead, seek, rotation, transfer]) {
            *sum += part.0;
        }
    }

    /// The time of the last event, or the end of the window before it.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The run is over.
    pub fn close(&mut self, counters: &Counters) {
        if self.start.is_none() {
            // The source ended during warm-up: nothing was measured.
            self.begin(self.now, counters);
        }
    }

    /// The figures of the measured window.
    pub fn report(&self, outcome: &Outcome) -> RunReport {
        let start = self.start.unwrap_or(self.now);
        let window = self.now.since(start);
        let seconds = window.as_secs_f64().max(1e-9);
        let (reads, writes) = (self.reads.latency(), self.writes.latency());
        let all = self.all();
        let iops = all.count as f64 / seconds;
        let share = |pages: f64| pages / self.capacity as f64;
        let overload = self.overload(outcome, iops);
        let mut balance = self.balance(outcome);
        if overload.is_some() && balance.state == BalanceState::Settled {
            balance.state = BalanceState::Overloaded;
        }
        let (stalled_writes, stalled_share) = self.stalled(outcome);
        let mean = match window.0 {
            0 => self.occupancy as f64,
            ns => self.occupancy_integral as f64 / ns as f64,
        };
        RunReport {
            schema: SCHEMA,
            warmup_s: start.0 as f64 / 1e9,
            measured_s: window.as_secs_f64(),
            target_iops: outcome.target_iops,
            iops,
            warnings: self.warnings(outcome, &all, overload, &balance),
            balance,
            response: Responses { all, reads, writes },
            histogram: histogram(&self.reads.histogram, &self.writes.histogram),
            host_wait: self.host_wait(),
            hits: hits(&self.before, &outcome.counters),
            stalled_writes,
            stalled_share,
            time_full: self.full.as_secs_f64() / seconds,
            occupancy: Occupancy {
                mean: share(mean),
                min: share(self.occupancy_min as f64),
                max: share(self.occupancy_max as f64),
            },
            destage: Destage { flushes: self.flushes, ..destage(&self.before, &outcome.counters) },
            read_cache: outcome
                .read_cache
                .map(|state| read_cache(&state, &self.before, &outcome.counters)),
            fault: outcome.fault.clone(),
            media_cache: outcome.media_cache.clone(),
            service: self.is_track.then(|| self.service()),
            disks: self.disks.iter().map(|disk| disk_use(disk, window)).collect(),
            series: self.series.clone(),
            digest: format!("{:016x}", outcome.digest),
            events: outcome.counters.events,
            ..RunReport::default()
        }
    }

    /// Writes that waited for space, and their share, if there were writes.
    fn stalled(&self, outcome: &Outcome) -> (u64, Option<f64>) {
        let stalled = outcome.counters.stalled_writes - self.before.stalled_writes;
        let writes = self.writes.histogram.len();
        // A write that waits when the window ends is not among those answered in it.
        let share = (writes > 0).then(|| (stalled as f64 / writes as f64).min(1.0));
        (stalled, share)
    }

    fn host_wait(&self) -> HostWait {
        let Latency { mean_ms, p99_ms, max_ms, .. } = self.waits.latency();
        HostWait { requests: self.waited, mean_ms, p99_ms, max_ms }
    }

    /// Whether the load is measured to its end.
    fn is_all(&self) -> bool {
        self.measured == Duration(u64::MAX)
    }

    fn balance(&self, outcome: &Outcome) -> Balance {
        // What is destaged when the load has ended says nothing of it.
        let (end, dirty_last, destaged) = match self.is_all() {
            true => self.last_arrival,
            false => (self.now, self.occupancy, outcome.counters.destaged_pages),
        };
        let window = end.since(self.start.unwrap_or(self.now));
        let destaged = destaged.saturating_sub(self.before.destaged_pages);
        let ends = Ends { dirty: [self.dirty_first, dirty_last], destaged };
        let dirty = (!self.is_all()).then_some(&self.dirty);
        settling::balance(dirty, ends, window.as_secs_f64(), self.room)
    }

    /// What requests spent being served, and in queues: cleans that a write waited for serve it.
    fn service(&self) -> ServiceTimes {
        let [reads, writes] = [&self.reads, &self.writes].map(|times| times.histogram.len() as f64);
        let mean = |ns: u128, requests: f64| ns as f64 / requests.max(1.0) / 1e6;
        let [read_ns, forced_ns] = [self.read_service_ns, self.forced_service_ns].map(u128::from);
        ServiceTimes {
            all_ms: mean(read_ns + forced_ns, reads + writes),
            reads_ms: mean(read_ns, reads),
            writes_ms: mean(forced_ns, writes),
            reads_queue_ms: mean(self.reads.sum_ns.saturating_sub(read_ns), reads),
            writes_queue_ms: mean(self.writes.sum_ns.saturating_sub(forced_ns), writes),
        }
    }

    fn all(&self) -> Latency {
        let mut histogram = self.reads.histogram.clone();
        histogram.add(&self.writes.histogram).expect("same bounds");
        let sum_ns = self.reads.sum_ns + self.writes.sum_ns;
        let max_ns = self.reads.max_ns.max(self.writes.max_ns);
        Times { histogram, sum_ns, max_ns }.latency()
    }

    fn window_s(&self) -> f64 {
        self.now.since(self.start.unwrap_or(self.now)).0 as f64 / 1e9
    }

    /// How far the array is behind what the load asks of it.
    fn overload(&self, outcome: &Outcome, iops: f64) -> Option<String> {
        let window_s = self.window_s();
        let Some(target) = outcome.target_iops else {
            let behind_s = outcome.behind.0 as f64 / 1e9;
            return (behind_s > 1.0 && behind_s > 0.03 * window_s).then(|| {
                format!("{BEHIND}: at the end of the load the array was {behind_s:.1} s behind")
            });
        };
        let after = self.first_full.map_or_else(String::new, |at| {
            format!(". The NVS was full after {}", settling::spoken(at.0 as f64 / 1e9))
        });
        (!settling::reaches(settling::SERVED, target, iops, window_s)).then(|| {
            format!(
                "{OVERLOADED}: {iops:.0} of {target:.0} I/O/s were served, {} requests were left\
                 {after}",
                outcome.in_system
            )
        })
    }

    fn warnings(
        &self,
        outcome: &Outcome,
        all: &Latency,
        overload: Option<String>,
        balance: &Balance,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        if all.count == 0 {
            warnings.push("nothing was measured: the workload ended during warm-up".into());
            return warnings;
        }
        warnings.extend(overload);
        let waited = self.host_wait().too_much(all.count);
        warnings.extend(waited.map(|waited| {
            format!("bounded at the host: {waited}; response times count from submission")
        }));
        let window_s = self.window_s();
        let waited = self.stalled(outcome).1.unwrap_or(0.0);
        let full = self.full.0 as f64 / 1e9 / window_s.max(1e-9);
        if waited >= 0.01 && waited > 5.0 * full {
            warnings.push(format!(
                "stalls: {:.1} % of writes waited for space, although the NVS was full only \
                 {:.1} % of the time: writes come in bursts",
                100.0 * waited,
                100.0 * full
            ));
        }
        warnings.extend(settling::warning(balance));
        let [first, second] =
            self.halves.map(|(count, sum)| sum as f64 / count.max(1) as f64 / 1e6);
        let difference = (first - second).abs();
        let both = self.halves.iter().all(|half| half.0 > 0);
        if both && difference > 1.0 && difference > 0.2 * first.min(second) {
            warnings.push(format!(
                "{UNSETTLED}: mean response {first:.1} ms in the first half of the measured \
                 window, {second:.1} ms in the second"
            ));
        }
        warnings
    }
}

/// Bounds of buckets in microseconds, four per doubling from 16 on.
fn bounds() -> impl Iterator<Item = u64> {
    let doublings = (2..32).map(|shift| 1u64 << shift);
    doublings.flat_map(|base| [4, 5, 6, 7].map(|quarters| base * quarters))
}

/// Both histograms in the same buckets, from the first to the last that has a request.
fn histogram(reads: &Histogram<u64>, writes: &Histogram<u64>) -> Vec<TimeBucket> {
    let mut buckets: Vec<TimeBucket> = Vec::new();
    let mut recorded = [reads, writes].map(|times| times.iter_recorded().peekable());
    for bound in bounds() {
        let [reads, writes] = recorded.each_mut().map(|values| {
            let mut count = 0;
            while let Some(value) = values.next_if(|value| value.value_iterated_to() < bound) {
                count += value.count_since_last_iteration();
            }
            count
        });
        if !buckets.is_empty() || reads + writes > 0 {
            buckets.push(TimeBucket { below_ms: bound as f64 / 1e3, reads, writes });
        }
    }
    let last = buckets.iter().rposition(|bucket| bucket.reads + bucket.writes > 0);
    buckets.truncate(last.map_or(0, |last| last + 1));
    buckets
}

/// Joins neighbouring samples: half as many, each over twice the time.
fn coarsen(series: &mut Series) {
    let pairs = |values: &[f64], join: &dyn Fn(usize, f64, f64) -> f64| -> Vec<f64> {
        values.chunks_exact(2).enumerate().map(|(i, v)| join(i * 2, v[0], v[1])).collect()
    };
    let iops = series.iops.clone();
    let mean = |_: usize, a: f64, b: f64| f64::midpoint(a, b);
    let weighted = |i: usize, a: f64, b: f64| {
        let (wa, wb) = (iops[i], iops[i + 1]);
        (a * wa + b * wb) / (wa + wb).max(f64::MIN_POSITIVE)
    };
    series.response_ms = pairs(&series.response_ms, &weighted);
    series.occupancy = pairs(&series.occupancy, &|_, _, b| b);
    series.occupancy_max = pairs(&series.occupancy_max, &|_, a, b| a.max(b));
    series.iops = pairs(&series.iops, &mean);
    series.destaged_pages_per_s = pairs(&series.destaged_pages_per_s, &mean);
    series.interval_s *= 2.0;
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn hits(before: &Counters, after: &Counters) -> Hits {
    let pages = after.pages_written - before.pages_written;
    Hits {
        write_page: ratio(after.page_hits - before.page_hits, pages),
        write_group: ratio(after.group_hits - before.group_hits, pages),
        write_request: ratio(
            after.write_request_hits - before.write_request_hits,
            after.write_requests - before.write_requests,
        ),
        read_request: ratio(
            after.read_request_hits - before.read_request_hits,
            after.read_requests - before.read_requests,
        ),
    }
}

fn read_cache(state: &ReadCacheState, before: &Counters, after: &Counters) -> ReadCacheUse {
    let requests = after.read_pages - before.read_pages;
    ReadCacheUse {
        pages: state.pages as u64,
        requests,
        nvs_hits: ratio(after.read_pages_nvs - before.read_pages_nvs, requests),
        hits: ratio(after.read_pages_cached - before.read_pages_cached, requests),
        rgr: ratio(after.read_penalty - before.read_penalty, requests),
        weight: state.weight.map(|weight| weight.in_quarters() as f64 / 4.0),
        weight_changes: state.weight_changes,
    }
}

fn destage(before: &Counters, after: &Counters) -> Destage {
    let groups = after.destages - before.destages;
    let pages = after.destaged_pages - before.destaged_pages;
    let runs = after.destaged_runs - before.destaged_runs;
    let distance = after.destage_distance_pages - before.destage_distance_pages;
    Destage {
        groups,
        pages,
        runs,
        pages_per_destage: ratio(pages, groups),
        runs_per_destage: ratio(runs, groups),
        full_stripe_share: ratio(
            after.rows_without_reads - before.rows_without_reads,
            after.rows - before.rows,
        ),
        mean_distance_pages: ratio(distance, groups),
        flushes: 0,
        recalled_pages: after.recalled_pages - before.recalled_pages,
        idle_groups: after.idle_destages - before.idle_destages,
        idle_delayed_reads: after.idle_delayed_reads - before.idle_delayed_reads,
    }
}

fn disk_use(sums: &DiskSums, window: Duration) -> DiskUse {
    let share = |ns: u64| ns as f64 / window.0.max(1) as f64;
    let [overhead, seek, rotation, transfer] = sums.service;
    DiskUse {
        reads: sums.reads,
        writes: sums.writes,
        utilisation: share(sums.service.iter().sum()),
        seek: share(seek),
        rotation: share(rotation),
        transfer: share(transfer),
        overhead: share(overhead),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_every_request_once() {
        let times = |micros: &[u64]| {
            let mut times = Times::new();
            micros.iter().for_each(|us| times.record(Duration(us * 1000)));
            times.histogram
        };
        let buckets = histogram(&times(&[19, 20, 5000]), &times(&[0, 20, LONGEST_US]));
        assert_eq!((buckets[0].below_ms, buckets[0].writes), (0.016, 1));
        assert_eq!((buckets[1].below_ms, buckets[1].reads), (0.020, 1));
        assert_eq!((buckets[2].reads, buckets[2].writes), (1, 1));
        let sum = |of: fn(&TimeBucket) -> u64| buckets.iter().map(of).sum::<u64>();
        assert_eq!((sum(|b| b.reads), sum(|b| b.writes)), (3, 3));
        let share = destage_report::model::cumulative(&buckets, |bucket| bucket.reads);
        assert_eq!(share.last().map(|last| last.1), Some(1.0));
        assert!(share.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        let none = histogram(&times(&[]), &times(&[]));
        assert!(
            none.is_empty() && destage_report::model::cumulative(&none, |b| b.reads).is_empty()
        );
    }

    #[test]
    fn percentiles_rise_to_the_maximum_and_no_further() {
        for longest_us in [7, 2049, 25_818, 1_234_567] {
            let mut times = Times::new();
            (1..=longest_us).step_by(1 + longest_us as usize / 50).for_each(|us| {
                times.record(Duration(us * 1000));
            });
            times.record(Duration(longest_us * 1000));
            let Latency { p50_ms, p95_ms, p99_ms, p999_ms, max_ms, .. } = times.latency();
            let rising = [p50_ms, p95_ms, p99_ms, p999_ms, max_ms];
            assert!(rising.is_sorted(), "{rising:?}");
            assert_eq!(max_ms, longest_us as f64 / 1000.0);
        }
    }

    #[test]
    fn a_coarser_series_says_the_same() {
        let mut series = Series {
            interval_s: 1.0,
            occupancy: vec![0.1, 0.2, 0.3, 0.4],
            occupancy_max: vec![0.5, 0.2, 0.3, 0.4],
            iops: vec![1.0, 3.0, 0.0, 0.0],
            response_ms: vec![8.0, 4.0, 0.0, 0.0],
            destaged_pages_per_s: vec![2.0, 4.0, 0.0, 6.0],
        };
        coarsen(&mut series);
        assert_eq!(series.interval_s, 2.0);
        assert_eq!(series.occupancy, [0.2, 0.4]);
        assert_eq!(series.occupancy_max, [0.5, 0.4]);
        assert_eq!(series.iops, [2.0, 0.0]);
        assert_eq!(series.response_ms, [5.0, 0.0]);
        assert_eq!(series.destaged_pages_per_s, [3.0, 3.0]);
    }
}
