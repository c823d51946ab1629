//! The state of a served array at one moment: what `destage status` shows.

use crate::Table;
use crate::scrub::ScrubStatus;
use crate::state::{ArrayState, DeviceKind, DeviceState};
use crate::table::Cell;
use serde::{Deserialize, Serialize};

/// Version of this form.
pub const LIVE_VERSION: u32 = 1;

/// Times of one kind of request, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyStatus {
    /// Requests.
    pub requests: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99 in 100 are at most as long.
    pub p99_us: f64,
    /// 999 in 1,000 are at most as long.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// What it is to the array.
    pub kind: DeviceKind,
    /// Its number.
    pub number: u16,
    /// Path or URI.
    pub device: String,
    /// Its state.
    pub state: DeviceState,
    /// Of a member: what is known of its write cache (`off`, `volatile`, `volatile, FUA`,
    /// `unknown`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Of a member: how destages become durable on it (`fua`, `flush`, `epochs`, `off`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
}

impl DeviceStatus {
    /// The cache of a member, behind its path.
    fn cache_line(&self) -> String {
        match (&self.cache, &self.durability) {
            (Some(cache), Some(durability)) => {
                format!(" (write cache {cache}; durability {durability})")
            }
            _ => String::new(),
        }
    }
}

/// A member that is being rebuilt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RebuildStatus {
    /// The member.
    pub member: u16,
    /// The device that becomes it.
    pub device: String,
    /// Bytes rebuilt.
    pub bytes_done: u64,
    /// Total.
    pub bytes: u64,
    /// Bytes that a crash would not take back.
    pub checkpoint_bytes: u64,
    /// Seconds since it began, or resumed after a start.
    pub elapsed_s: f64,
    /// Seconds to go at the mean rate so far.
    pub to_go_s: Option<f64>,
    /// Pages that the other members could not reconstruct.
    pub lost_pages: u64,
}

/// A member that is away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MissingMember {
    /// Its number.
    pub member: u16,
    /// First byte of its data that is missing.
    pub from: u64,
}

/// What is unavailable while more members are missing than the level tolerates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostStatus {
    /// The members.
    pub members: Vec<MissingMember>,
    /// Bytes of the volume.
    pub bytes: u64,
    /// The first ranges of these: offset and length.
    pub ranges: Vec<(u64, u64)>,
    /// There are more.
    pub more: bool,
}

/// An NVS device that is being filled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// Its number.
    pub number: u16,
    /// Bytes of the log copied.
    pub bytes_copied: u64,
    /// Total.
    pub bytes: u64,
}

/// An NVS log that is being replaced by one with other sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogChange {
    /// Dirty pages that are to be destaged before.
    pub pages_left: u64,
    /// Dirty pages at the beginning.
    pub pages: u64,
}

/// Pages that reads asked for, over some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PagesRead {
    /// Pages.
    pub pages: u64,
    /// Of them, those in NVS.
    pub nvs: u64,
    /// Of them, those not in NVS but in the read cache.
    pub cached: u64,
    /// Penalties of the others: requests to members, each page alone.
    pub penalty: u64,
    /// Penalties per page requested; absent without requests.
    pub rgr: Option<f64>,
}

impl PagesRead {
    /// Of these counts.
    pub fn new(pages: u64, nvs: u64, cached: u64, penalty: u64) -> PagesRead {
        let rgr = (pages > 0).then(|| penalty as f64 / pages as f64);
        PagesRead { pages, nvs, cached, penalty, rgr }
    }

    fn line(&self) -> String {
        let rgr = self.rgr.map_or("-".to_string(), |rgr| format!("{rgr:.4}"));
        let (nvs, cached) = (share(self.nvs, self.pages), share(self.cached, self.pages));
        format!("{} pages: NVS {nvs}, read cache {cached}, RGR {rgr}", self.pages)
    }
}

/// The read cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadCacheStatus {
    /// Policy, in its fault-aware form or not.
    pub policy: String,
    /// What becomes of cached pages that are written.
    pub writes: String,
    /// Pages held.
    pub held_pages: u64,
    /// Pages that fit.
    pub pages: u64,
    /// Bytes of memory taken, with what finds the pages and what the policy knows.
    pub memory_bytes: u64,
    /// Weight of failed-disk pages; absent while no member is failed, or if the policy ignores
    /// failures.
    pub weight: Option<f64>,
    /// How often the weight was changed.
    pub weight_changes: u64,
    /// Pages read since the server's start, with any read cache.
    pub since_start: PagesRead,
    /// Since the cache began, or since a member last failed or came back.
    pub since_change: PagesRead,
}

/// Old data and parity of destaged rows in ordinary memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripeMemoryStatus {
    /// Pages kept.
    pub held_pages: u64,
    /// Pages that fit.
    pub pages: u64,
    /// Pages that destages did not read since the start, because they were kept.
    pub recalled_pages: u64,
}

impl StripeMemoryStatus {
    fn line(&self) -> String {
        let StripeMemoryStatus { held_pages, pages, recalled_pages } = self;
        format!("{held_pages} of {pages} pages, {recalled_pages} pages not read for destages")
    }
}

/// A served array. Pages are of 4,096 bytes; counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrayStatus {
    /// Version of this form.
    pub version: u32,
    /// The array's name.
    pub name: String,
    /// Its state: the worst that holds.
    pub state: ArrayState,
    /// What it is waiting for, in words.
    pub waiting_for: String,
    /// RAID level.
    pub level: String,
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// Destage policy.
    pub policy: String,
    /// Rate scheme.
    pub rate: String,
    /// When writes are acknowledged.
    pub ack: String,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Pages that occupy NVS space.
    pub occupancy_pages: u64,
    /// Most dirty pages.
    pub nvs_pages: u64,
    /// Pages that the NVS devices have room for: more, if `max_dirty` is the limit.
    pub nvs_device_pages: u64,
    /// Pages whose only durable copy is in NVS.
    pub dirty_pages: u64,
    /// Destage writes in flight.
    pub destages_in_flight: u32,
    /// Groups destaged.
    pub destages: u64,
    /// Pages destaged.
    pub destaged_pages: u64,
    /// Of the groups, those whose destage began in idle time.
    pub idle_destages: u64,
    /// Reads of members that found a command of such a destage there.
    pub idle_delayed_reads: u64,
    /// Writes that waited for NVS space.
    pub stalled_writes: u64,
    /// Writes that wait for it now.
    pub writes_waiting: usize,
    /// Requests not yet answered.
    pub requests: usize,
    /// Device operations in flight.
    pub operations: usize,
    /// Open NBD connections.
    pub connections: usize,
    /// Pages written by hosts.
    pub pages_written: u64,
    /// Of these, pages that were in NVS.
    pub page_hits: u64,
    /// Reads of hosts.
    pub read_requests: u64,
    /// Reads all of whose pages were in NVS or the read cache.
    pub read_request_hits: u64,
    /// Member reads.
    pub disk_reads: u64,
    /// Member writes.
    pub disk_writes: u64,
    /// Bytes written to the log, on each NVS device.
    pub log_bytes_written: u64,
    /// Bytes of the log in use.
    pub log_bytes_used: u64,
    /// Reads.
    pub reads: LatencyStatus,
    /// Writes, zeroes and trims.
    pub writes: LatencyStatus,
    /// Flushes.
    pub flushes: LatencyStatus,
    /// Devices.
    pub devices: Vec<DeviceStatus>,
    /// Limits of rebuilds; empty: none.
    #[serde(default)]
    pub rebuild_limits: String,
    /// Members that are being rebuilt.
    #[serde(default)]
    pub rebuilds: Vec<RebuildStatus>,
    /// What is lost, if the array has stopped for that.
    #[serde(default)]
    pub lost: Option<LostStatus>,
    /// The read cache, if there is one.
    #[serde(default)]
    pub read_cache: Option<ReadCacheStatus>,
    /// The stripe memory, if there is one.
    #[serde(default)]
    pub stripe_memory: Option<StripeMemoryStatus>,
    /// The NVS device that is being filled.
    #[serde(default)]
    pub mirror: Option<MirrorStatus>,
    /// The NVS log is being replaced.
    #[serde(default)]
    pub log_change: Option<LogChange>,
    /// The running scrub, or the last one since the start.
    #[serde(default)]
    pub scrub: Option<ScrubStatus>,
    /// Rows that scrubs found inconsistent or lost, since the start.
    #[serde(default)]
    pub scrub_mismatches: u64,
    /// When the last complete scrub since the start ended, in seconds since 1970.
    #[serde(default)]
    pub scrub_completed_unix_s: Option<u64>,
    /// Alarms, latest last.
    pub alarms: Vec<String>,
}

/// A duration for people to read.
fn duration(seconds: f64) -> String {
    match seconds.round() as u64 {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min", s / 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

impl ReadCacheStatus {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let size = format!("{} of {} pages", self.held_pages, self.pages);
        let memory = format!("{:.1} MiB", self.memory_bytes as f64 / 1048576.0);
        let mut rows = vec![
            ("read cache", format!("{}; {size}, memory {memory}", self.policy)),
            ("read cache, all", self.since_start.line()),
            ("read cache, since last failure or repair", self.since_change.line()),
        ];
        if let Some(weight) = self.weight {
            let changes = self.weight_changes;
            rows.push((
                "weight of failed-disk pages",
                format!("{weight:.2}, changed {changes} times"),
            ));
        }
        rows
    }
}

impl RebuildStatus {
    /// In a line.
    pub fn line(&self) -> String {
        let mib = |bytes: u64| bytes as f64 / 1048576.0;
        let to_go = self.to_go_s.map_or("time to go not known yet".to_string(), |seconds| {
            format!("{} to go", duration(seconds))
        });
        let lost = match self.lost_pages {
            0 => String::new(),
            pages => format!(", {pages} pages lost"),
        };
        format!(
            "{} of {:.1} MiB, {} so far, {to_go}{lost}",
            share(self.bytes_done, self.bytes),
            mib(self.bytes),
            duration(self.elapsed_s)
        )
    }
}

impl LostStatus {
    /// In a line.
    pub fn line(&self) -> String {
        let member = |missing: &MissingMember| match missing.from {
            0 => missing.member.to_string(),
            from => format!("{} (from its byte {from} on)", missing.member),
        };
        let members: Vec<String> = self.members.iter().map(member).collect();
        let range = |(offset, length): &(u64, u64)| format!("{offset} to {}", offset + length - 1);
        let ranges: Vec<String> = self.ranges.iter().take(8).map(range).collect();
        let more = if self.more || self.ranges.len() > 8 { ", and more" } else { "" };
        let where_ = if ranges.is_empty() { "none".to_string() } else { ranges.join(", ") };
        format!(
            "{} bytes are unavailable while members {} are missing; bytes of the volume: \
             {where_}{more}",
            self.bytes,
            members.join(", "),
        )
    }
}

fn share(part: u64, of: u64) -> String {
    if of == 0 { "-".to_string() } else { format!("{:.1} %", 100.0 * part as f64 / of as f64) }
}

impl ArrayStatus {
    /// As a table of two columns.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[("what", ""), ("value", "")]);
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / 1048576.0);
        let mut row = |name: &str, value: String| {
            table.push(vec![Cell::text(name), Cell::text(value)]);
        };
        row("array", format!("{}, level {}, {}", self.name, self.level, mib(self.volume_bytes)));
        row("state", self.state.to_string());
        row("waiting for", self.waiting_for.clone());
        row("policy, rate", format!("{}, {}; ack {}", self.policy, self.rate, self.ack));
        let occupancy = share(self.occupancy_pages, self.nvs_pages);
        let limit = match self.nvs_device_pages > self.nvs_pages {
            true => format!(" (max_dirty; room for {})", self.nvs_device_pages),
            false => String::new(),
        };
        let (held, most) = (self.occupancy_pages, self.nvs_pages);
        row("NVS", format!("{held} of {most} pages{limit}, {occupancy}"));
        row("dirty", format!("{} pages, {}", self.dirty_pages, mib(self.dirty_pages * 4096)));
        row(
            "destages",
            format!(
                "{} groups, {} pages, {} writes in flight",
                self.destages, self.destaged_pages, self.destages_in_flight
            ),
        );
        if self.idle_destages > 0 {
            let (destages, reads) = (self.idle_destages, self.idle_delayed_reads);
            row("in idle time", format!("{destages} groups, {reads} reads of members delayed"));
        }
        row("write hits", share(self.page_hits, self.pages_written));
        row("read hits", share(self.read_request_hits, self.read_requests));
        for (name, value) in self.read_cache.iter().flat_map(ReadCacheStatus::rows) {
            row(name, value);
        }
        if let Some(memory) = &self.stripe_memory {
            row("stripe memory", memory.line());
        }
        row("stalled writes", format!("{}, {} now", self.stalled_writes, self.writes_waiting));
        row(
            "log",
            format!("{} written, {} in use", mib(self.log_bytes_written), mib(self.log_bytes_used)),
        );
        row("disk I/O", format!("{} reads, {} writes", self.disk_reads, self.disk_writes));
        for (name, times) in
            [("reads", &self.reads), ("writes", &self.writes), ("flushes", &self.flushes)]
        {
            let LatencyStatus { requests, mean_us, p50_us, p99_us, p999_us, max_us } = times;
            row(
                name,
                format!(
                    "{requests}; us: mean {mean_us:.0}, p50 {p50_us:.0}, p99 {p99_us:.0}, \
                     p99.9 {p999_us:.0}, max {max_us:.0}"
                ),
            );
        }
        for (name, value) in self.device_rows() {
            row(&name, value);
        }
        table
    }

    /// What the table says of devices, and of what is done with them.
    fn device_rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut row = |name: &str, value: String| rows.push((name.to_string(), value));
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / 1048576.0);
        for device in &self.devices {
            let name = format!("{} {}", device.kind, device.number);
            row(&name, format!("{}: {}{}", device.state, device.device, device.cache_line()));
        }
        for rebuild in &self.rebuilds {
            row(&format!("rebuild of member {}", rebuild.member), rebuild.line());
        }
        if let Some(lost) = &self.lost {
            row("lost", lost.line());
        }
        if let Some(MirrorStatus { number, bytes_copied, bytes }) = &self.mirror {
            let value = format!("{} of {}", mib(*bytes_copied), mib(*bytes));
            row(&format!("filling NVS {number}"), value);
        }
        if let Some(LogChange { pages_left, pages }) = &self.log_change {
            row("changing the NVS", format!("{pages_left} of {pages} dirty pages left to destage"));
        }
        if let Some(scrub) = &self.scrub {
            row("scrub", scrub.line());
            for place in scrub.places() {
                row("scrub found", place);
            }
        }
        for alarm in &self.alarms {
            row("alarm", alarm.clone());
        }
        rows
    }
}
