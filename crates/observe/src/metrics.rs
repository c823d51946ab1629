//! The state of an array in Prometheus' text format.

use destage_report::sample::Sample;
use destage_report::state::{ArrayState, DeviceState, ScrubState};
use destage_server::array::{Latencies, Observation};
use std::fmt::Write;

const PAGE: u64 = destage_engine::units::PAGE_BYTES;
/// Buckets of histograms end at 2^n ns, from 8 us to 8.6 s.
const BUCKETS: std::ops::RangeInclusive<u32> = 13..=33;
/// What Prometheus takes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

struct Text {
    out: String,
    array: String,
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP destage_{name} {help}\n# TYPE destage_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.out, "destage_{name}{{array=\"{}\"", self.array);
        for (label, value) in labels {
            let _ = write!(self.out, ",{label}=\"{}\"", escape(value));
        }
        let _ = writeln!(self.out, "}} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.line(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.one(name, "gauge", help, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.one(name, "counter", help, value as f64);
    }

    fn histogram(&mut self, name: &str, op: &str, times: &Latencies) {
        let bucket = format!("{name}_bucket");
        for bits in BUCKETS {
            let le = ((1u64 << bits) as f64 / 1e9).to_string();
            self.line(&bucket, &[("op", op), ("le", &le)], times.below(bits) as f64);
        }
        let count = times.count() as f64;
        self.line(&bucket, &[("op", op), ("le", "+Inf")], count);
        self.line(&format!("{name}_sum"), &[("op", op)], times.sum_ns as f64 / 1e9);
        self.line(&format!("{name}_count"), &[("op", op)], count);
    }
}

/// All metrics.
pub fn metrics(sample: &Sample, observation: &Observation) -> String {
    let array = escape(&sample.status.name);
    let mut text = Text { out: String::with_capacity(32 << 10), array };
    settings(&mut text, sample);
    cache(&mut text, sample, observation);
    destages(&mut text, sample, observation);
    hosts(&mut text, sample, observation);
    devices(&mut text, sample, observation);
    nvs(&mut text, sample, observation);
    scrub(&mut text, sample);
    rebuilds(&mut text, sample);
    read_cache(&mut text, sample);
    stripe_memory(&mut text, sample);
    monitoring(&mut text, sample, observation);
    text.out
}

fn settings(text: &mut Text, sample: &Sample) {
    let status = &sample.status;
    text.family("build_info", "gauge", "Version of the program; always 1.");
    text.line("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    text.family("array_info", "gauge", "Settings of the array; always 1.");
    let labels = [
        ("level", status.level.as_str()),
        ("policy", &status.policy),
        ("rate", &status.rate),
        ("ack", &status.ack),
    ];
    text.line("array_info", &labels, 1.0);
    text.family("array_state", "gauge", "1 for the state that the array is in.");
    for state in ArrayState::ALL {
        let is = f64::from(u8::from(*state == status.state));
        text.line("array_state", &[("state", state.name())], is);
    }
    text.gauge("uptime_seconds", "Time since the server started.", status.uptime_s);
    text.gauge("volume_bytes", "Size of the volume.", status.volume_bytes as f64);
    text.gauge("connections", "Open NBD connections.", status.connections as f64);
}

fn cache(text: &mut Text, sample: &Sample, observation: &Observation) {
    let status = &sample.status;
    let bytes = |pages: u64| (pages * PAGE) as f64;
    text.gauge("cache_capacity_bytes", "Most bytes of dirty pages.", bytes(status.nvs_pages));
    let help = "Bytes of pages that occupy NVS space: held, in flight and reserved.";
    text.gauge("cache_occupied_bytes", help, bytes(status.occupancy_pages));
    let help = "Bytes of pages whose only durable copy is in NVS.";
    text.gauge("cache_dirty_bytes", help, bytes(status.dirty_pages));
    text.family(
        "cache_threshold_ratio",
        "gauge",
        "Share of the cache at which destaging begins (low) and is at full depth (high).",
    );
    for (name, percent) in ["low", "high"].into_iter().zip(sample.thresholds) {
        text.line("cache_threshold_ratio", &[("threshold", name)], percent / 100.0);
    }
    if let Some(queues) = observation.gauges.queues {
        text.family("queue_bytes", "gauge", "Bytes of pages in the queues of the policy.");
        text.line("queue_bytes", &[("queue", "random")], bytes(queues.random_pages));
        text.line("queue_bytes", &[("queue", "sequential")], bytes(queues.sequential_pages));
        if let Some(desired) = queues.desired_pages {
            text.family(
                "queue_desired_bytes",
                "gauge",
                "Bytes of pages that the policy wants in the queue.",
            );
            text.line("queue_desired_bytes", &[("queue", "sequential")], bytes(desired));
        }
    }
    let counters = &observation.counters;
    text.counter("cache_written_pages_total", "Pages written by hosts.", counters.pages_written);
    let help = "Pages written by hosts that were in NVS.";
    text.counter("cache_written_page_hits_total", help, counters.page_hits);
    text.counter("cache_read_requests_total", "Read requests.", counters.read_requests);
    let help = "Read requests all of whose pages were in NVS.";
    text.counter("cache_read_request_hits_total", help, counters.read_request_hits);
    let help = "Writes that had to wait for NVS space.";
    text.counter("cache_stalled_writes_total", help, counters.stalled_writes);
    let waiting = status.writes_waiting as f64;
    text.gauge("cache_writes_waiting", "Writes that wait for NVS space.", waiting);
}

fn destages(text: &mut Text, sample: &Sample, observation: &Observation) {
    let (status, counters) = (&sample.status, &observation.counters);
    text.counter("destages_total", "Write groups destaged.", counters.destages);
    let help = "Of these, those begun in idle time, below the low threshold.";
    text.counter("idle_destages_total", help, counters.idle_destages);
    let help = "Reads of members that found a command of a destage begun in idle time there.";
    text.counter("idle_delayed_reads_total", help, counters.idle_delayed_reads);
    let bytes = counters.destaged_pages * PAGE;
    text.counter("destaged_bytes_total", "Bytes of the pages destaged.", bytes);
    text.counter(
        "destage_distance_bytes_total",
        "Distance between the starts of consecutive destages, summed up.",
        counters.destage_distance_pages * PAGE,
    );
    let in_flight = f64::from(status.destages_in_flight);
    text.gauge("destage_writes_in_flight", "Destage writes in flight.", in_flight);
    let most = f64::from(sample.queue_depth);
    text.gauge("destage_writes_in_flight_limit", "Most destage writes in flight.", most);
    if !sample.pointers.is_empty() {
        let help = "Offset on the volume of the group that is destaged next.";
        text.family("destage_pointer_bytes", "gauge", help);
        for pointer in &sample.pointers {
            let labels = [("pointer", pointer.name.as_str())];
            text.line("destage_pointer_bytes", &labels, (pointer.page * PAGE) as f64);
        }
    }
}

fn hosts(text: &mut Text, sample: &Sample, observation: &Observation) {
    let read = observation.host_read_bytes;
    text.counter("host_read_bytes_total", "Bytes that hosts asked to read.", read);
    let written = observation.host_written_bytes;
    text.counter("host_written_bytes_total", "Bytes that hosts wrote.", written);
    let requests = sample.status.requests as f64;
    text.gauge("host_requests_in_flight", "Requests not yet answered.", requests);
    let name = "host_request_duration_seconds";
    text.family(name, "histogram", "Time from the arrival of a request to its answer.");
    for (op, times) in ["read", "write", "flush"].into_iter().zip(&observation.latencies) {
        text.histogram(name, op, times);
    }
}

fn devices(text: &mut Text, sample: &Sample, observation: &Observation) {
    let numbered = sample.status.devices.iter().zip(&observation.loads);
    let all: Vec<_> =
        numbered.map(|(device, load)| (device, device.number.to_string(), load)).collect();
    let mut family = |name: &str, kind: &str, help: &str, values: &dyn Fn(usize) -> f64| {
        text.family(name, kind, help);
        for (at, (device, number, _)) in all.iter().enumerate() {
            let labels =
                [("kind", device.kind.name()), ("number", number), ("device", &device.device)];
            text.line(name, &labels, values(at));
        }
    };
    let used = |at: usize| f64::from(u8::from(all[at].0.state == DeviceState::InUse));
    family("device_in_use", "gauge", "1 if the device is in use, 0 if it failed.", &used);
    let busy = |at: usize| all[at].2.busy_ns as f64 / 1e9;
    let help = "Time with an operation in flight on the device.";
    family("device_busy_seconds_total", "counter", help, &busy);
    let depth = |at: usize| f64::from(all[at].2.in_flight);
    family("device_operations_in_flight", "gauge", "Operations in flight.", &depth);
    family("device_reads_total", "counter", "Reads of the device.", &|at| all[at].2.reads as f64);
    family("device_writes_total", "counter", "Writes to the device.", &|at| {
        all[at].2.writes as f64
    });
    let flushes = |at: usize| all[at].2.flushes as f64;
    family("device_flushes_total", "counter", "Flushes of the device.", &flushes);
    let read = |at: usize| all[at].2.read_bytes as f64;
    family("device_read_bytes_total", "counter", "Bytes of these reads.", &read);
    let written = |at: usize| all[at].2.written_bytes as f64;
    let help = "Bytes of these writes; for an NVS device, what wears it.";
    family("device_written_bytes_total", "counter", help, &written);
    let help =
        "What is known of a member's write cache, and how destages become durable; always 1.";
    text.family("member_cache_info", "gauge", help);
    for (device, number, _) in &all {
        if let (Some(cache), Some(durability)) = (&device.cache, &device.durability) {
            let labels =
                [("number", number.as_str()), ("cache", cache), ("durability", durability)];
            text.line("member_cache_info", &labels, 1.0);
        }
    }
}

fn nvs(text: &mut Text, sample: &Sample, observation: &Observation) {
    let status = &observation.status;
    let used = status.log_bytes_used as f64;
    text.gauge("nvs_log_used_bytes", "Bytes of the NVS log in use.", used);
    let help = "Bytes written to the log, on each NVS device.";
    text.counter("nvs_log_written_bytes_total", help, status.log_bytes_written);
    if let Some(wear) = sample.nvs_wear {
        let help = "Bytes written to an NVS device for each byte that hosts wrote.";
        text.gauge("nvs_write_amplification_ratio", help, wear);
    }
}

fn scrub(text: &mut Text, sample: &Sample) {
    let help = "Rows that scrubs found inconsistent or lost.";
    text.counter("scrub_mismatched_rows_total", help, sample.status.scrub_mismatches);
    if let Some(at) = sample.status.scrub_completed_unix_s {
        let help = "When the last complete scrub ended, in seconds since 1970.";
        text.gauge("scrub_last_complete_timestamp_seconds", help, at as f64);
    }
    let Some(scrub) = &sample.status.scrub else { return };
    let running = f64::from(u8::from(scrub.state == ScrubState::Running));
    text.gauge("scrub_running", "1 while a scrub is running.", running);
    text.gauge("scrub_rows", "Rows that the scrub has to compare.", scrub.rows as f64);
    let done = scrub.rows_done as f64;
    text.gauge("scrub_rows_done", "Rows that the last scrub has compared.", done);
    let wrong = (scrub.inconsistent_rows + scrub.unreadable_rows + scrub.lost_rows) as f64;
    text.gauge(
        "scrub_rows_wrong",
        "Rows that the last scrub found inconsistent, unreadable or lost.",
        wrong,
    );
    let inconsistent = scrub.inconsistent_rows as f64;
    let help = "Rows that the last scrub found inconsistent, repaired or not.";
    text.gauge("scrub_rows_inconsistent", help, inconsistent);
    let help = "Rows that the last scrub could not read: their data is lost.";
    text.gauge("scrub_rows_lost", help, scrub.lost_rows as f64);
    let left = scrub.rows_left as f64;
    text.gauge("scrub_rows_left", "Of these, rows that are not repaired.", left);
}

fn rebuilds(text: &mut Text, sample: &Sample) {
    let rebuilds = &sample.status.rebuilds;
    if rebuilds.is_empty() {
        return;
    }
    for (name, help) in [
        ("rebuild_bytes", "Bytes of a member to rebuild in total."),
        ("rebuild_bytes_done", "Bytes of it that are rebuilt."),
    ] {
        text.family(name, "gauge", help);
        for rebuild in rebuilds {
            let bytes = if name == "rebuild_bytes" { rebuild.bytes } else { rebuild.bytes_done };
            let member = rebuild.member.to_string();
            text.line(name, &[("number", &member)], bytes as f64);
        }
    }
}

fn read_cache(text: &mut Text, sample: &Sample) {
    let Some(cache) = &sample.status.read_cache else { return };
    let bytes = |pages: u64| (pages * PAGE) as f64;
    text.gauge("read_cache_capacity_bytes", "Bytes of pages that fit.", bytes(cache.pages));
    text.gauge("read_cache_held_bytes", "Bytes of pages held.", bytes(cache.held_pages));
    let read = &cache.since_start;
    text.counter("read_pages_total", "Pages that hosts asked to read.", read.pages);
    text.counter("read_pages_nvs_total", "Of them, those in NVS.", read.nvs);
    let help = "Of them, those not in NVS but in the read cache.";
    text.counter("read_pages_cached_total", help, read.cached);
}

fn stripe_memory(text: &mut Text, sample: &Sample) {
    let Some(memory) = &sample.status.stripe_memory else { return };
    let bytes = |pages: u64| (pages * PAGE) as f64;
    let help = "Bytes of old data and parity that the stripe memory has room for.";
    text.gauge("stripe_memory_capacity_bytes", help, bytes(memory.pages));
    text.gauge("stripe_memory_held_bytes", "Bytes kept in it.", bytes(memory.held_pages));
    let help = "Pages that destages did not read because the stripe memory had them.";
    text.counter("stripe_memory_recalled_pages_total", help, memory.recalled_pages);
}

fn monitoring(text: &mut Text, sample: &Sample, observation: &Observation) {
    let alarms = observation.raised.last().map_or(0, |raised| raised.number);
    text.counter("alarms_total", "Alarms raised.", alarms);
    let active = sample.status.alarms.len() as f64;
    text.gauge("alarms_active", "Alarms that nothing has cleared yet.", active);
    let Some(what_if) = &sample.what_if else { return };
    let help = "Requests that shadow policies and recordings missed.";
    text.counter("watch_dropped_requests_total", help, what_if.dropped);
    text.gauge("what_if_seconds", "Time over which policies are compared.", what_if.seconds);
    text.family(
        "what_if_destages",
        "gauge",
        "Write groups that the policy would have destaged in that time; running: did destage.",
    );
    let running = (&what_if.running, "running");
    let shadows = what_if.shadows.iter().map(|row| (row, row.policy.as_str()));
    for (row, policy) in std::iter::once(running).chain(shadows) {
        text.line("what_if_destages", &[("policy", policy)], row.destages as f64);
    }
}
