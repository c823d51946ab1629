//! From two observations of an array, one second apart: rates, times, what the page shows.

use destage_report::sample::{DeviceRate, Point, Pointer, Sample};
use destage_report::state::DeviceKind;
use destage_server::array::{Latencies, Observation};

/// Per cent; none of nothing.
fn percent(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 100.0 * part as f64 / of as f64)
}

fn times(latencies: &Latencies) -> Option<[f64; 3]> {
    let [p50, p99, p999] = latencies.quantiles([0.5, 0.99, 0.999]);
    (latencies.count() > 0).then(|| [p50, p99, p999].map(|ns| (ns / 100) as f64 / 10.0))
}

/// A tenth is enough for people.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// The point of a curve between two observations.
pub fn point(before: &Observation, now: &Observation, at_ms: u64) -> Point {
    let seconds = now.at.since(before.at).0 as f64 / 1e9;
    let rate = |now: u64, before: u64| {
        if seconds > 0.0 { tenths(now.saturating_sub(before) as f64 / seconds) } else { 0.0 }
    };
    let [reads, writes] = [0, 1].map(|kind| now.latencies[kind].since(&before.latencies[kind]));
    let (then, counters) = (&before.counters, &now.counters);
    let status = &now.status;
    Point {
        at_ms,
        occupancy: tenths(percent(status.occupancy_pages, status.nvs_pages).unwrap_or(0.0)),
        reads: rate(reads.count(), 0),
        writes: rate(writes.count(), 0),
        read_us: times(&reads),
        write_us: times(&writes),
        write_hits: percent(
            counters.page_hits - then.page_hits,
            counters.pages_written - then.pages_written,
        )
        .map(tenths),
        read_hits: percent(
            counters.read_request_hits - then.read_request_hits,
            counters.read_requests - then.read_requests,
        )
        .map(tenths),
        cache_hits: percent(
            counters.read_pages_nvs + counters.read_pages_cached
                - then.read_pages_nvs
                - then.read_pages_cached,
            counters.read_pages - then.read_pages,
        )
        .map(tenths),
        destages: rate(counters.destages, then.destages),
        destaged_pages: rate(counters.destaged_pages, then.destaged_pages),
        in_flight: status.destages_in_flight,
        queues: now.gauges.queues.map(|queues| {
            [Some(queues.random_pages), Some(queues.sequential_pages), queues.desired_pages]
        }),
    }
}

fn devices(before: &Observation, now: &Observation) -> Vec<DeviceRate> {
    let ns = now.at.since(before.at).0;
    let seconds = ns as f64 / 1e9;
    let known = now.status.devices.iter().zip(&now.loads).enumerate();
    let one = |(at, (device, load)): (usize, (&destage_report::live::DeviceStatus, _))| {
        let load: &destage_served::DeviceLoad = load;
        let earlier = before.loads.get(at).copied().unwrap_or_default();
        let rate = |now: u64, before: u64| {
            if ns > 0 { tenths(now.saturating_sub(before) as f64 / seconds) } else { 0.0 }
        };
        let busy = percent(load.busy_ns.saturating_sub(earlier.busy_ns), ns);
        DeviceRate {
            kind: device.kind,
            number: device.number,
            busy: tenths(busy.unwrap_or(0.0).min(100.0)),
            in_flight: load.in_flight,
            reads: rate(load.reads, earlier.reads),
            writes: rate(load.writes, earlier.writes),
            written_bytes: load.written_bytes,
        }
    };
    known.map(one).collect()
}

fn pointers(now: &Observation) -> Vec<Pointer> {
    let per_group = now.geometry.pages_per_group();
    let names = match now.gauges.queues {
        Some(_) => ["random", "sequential"],
        None => ["next", ""],
    };
    let pointers = names.into_iter().zip(now.gauges.pointers);
    pointers
        .filter_map(|(name, group)| Some((name, group?)))
        .map(|(name, group)| Pointer { name: name.to_string(), page: group.0 * per_group })
        .collect()
}

/// What the page shows, without events, sentence and what-if.
pub fn sample(before: &Observation, now: &Observation, at_ms: u64) -> Sample {
    let nvs = now
        .status
        .devices
        .iter()
        .zip(&now.loads)
        .filter(|(device, _)| device.kind == DeviceKind::Nvs);
    let most = nvs.map(|(_, load)| load.written_bytes).max();
    let wear = most.filter(|_| now.host_written_bytes > 0);
    let mut status = now.status.clone();
    let live = |latencies: &Latencies| {
        let [p50, p99, p999, max] = latencies.quantiles([0.5, 0.99, 0.999, 1.0]);
        let requests = latencies.count();
        let us = |ns: u64| ns as f64 / 1e3;
        destage_report::live::LatencyStatus {
            requests,
            mean_us: us(latencies.sum_ns) / requests.max(1) as f64,
            p50_us: us(p50),
            p99_us: us(p99),
            p999_us: us(p999),
            max_us: us(max),
        }
    };
    [status.reads, status.writes, status.flushes] = now.latencies.each_ref().map(live);
    Sample {
        point: point(before, now, at_ms),
        status,
        thresholds: [now.thresholds.low, now.thresholds.high].map(|share| share as f64 / 100.0),
        queue_depth: now.queue_depth,
        pointers: pointers(now),
        volume_pages: now.geometry.volume_pages().0,
        recent: now.recent.clone(),
        begun: now.begun,
        devices: devices(before, now),
        nvs_wear: wear.map(|bytes| bytes as f64 / now.host_written_bytes as f64),
        ..Sample::default()
    }
}
