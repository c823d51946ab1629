//! The status of the array: what `destage status` shows.

use super::ArrayBackend;
use crate::Port;
use destage_block::Driver;
use destage_engine::counters::Counters;
use destage_engine::units::{Duration, PAGE_BYTES};
use destage_report::live::{
    ArrayStatus, DeviceStatus, LIVE_VERSION, LatencyStatus, LostStatus, MirrorStatus,
    MissingMember, PagesRead, ReadCacheStatus, RebuildStatus, StripeMemoryStatus,
};
use destage_report::state::{ArrayState, DeviceKind, DeviceState};
use destage_served::Status;

impl ArrayBackend {
    pub(in crate::array) fn status(&self, port: &Port) -> ArrayStatus {
        let [reads, writes, flushes] = self.requests.latency_status();
        ArrayStatus { reads, writes, flushes, ..self.status_without_times(port) }
    }

    /// Without the times of requests, which cost the most.
    pub(super) fn status_without_times(&self, port: &Port) -> ArrayStatus {
        let status = self.volume.status();
        let config = self.setup.config();
        let counters = &status.counters;
        let mismatches = self.scrub.mismatches();
        ArrayStatus {
            version: LIVE_VERSION,
            name: self.setup.name().to_string(),
            state: self.state(&status),
            waiting_for: waiting_for(&status),
            level: self.volume.controller().geometry().level.entry().entry.name.to_string(),
            volume_bytes: self.volume.bytes(),
            policy: config.policy.clone(),
            rate: config.rate.clone(),
            ack: config.ack.clone(),
            uptime_s: port.now().0 as f64 / 1e9,
            occupancy_pages: status.occupancy_pages,
            nvs_pages: status.nvs_pages,
            nvs_device_pages: self.volume.superblock().dirty_pages_max,
            dirty_pages: status.dirty_pages,
            destages_in_flight: status.destages_in_flight,
            destages: counters.destages,
            destaged_pages: counters.destaged_pages,
            idle_destages: counters.idle_destages,
            idle_delayed_reads: counters.idle_delayed_reads,
            stalled_writes: counters.stalled_writes,
            writes_waiting: status.writes_waiting,
            requests: status.requests,
            operations: status.operations,
            connections: 0,
            pages_written: counters.pages_written,
            page_hits: counters.page_hits,
            read_requests: counters.read_requests,
            read_request_hits: counters.read_request_hits,
            disk_reads: counters.disk_reads,
            disk_writes: counters.disk_writes,
            log_bytes_written: status.log_bytes_written,
            log_bytes_used: status.log_bytes_used,
            reads: LatencyStatus::default(),
            writes: LatencyStatus::default(),
            flushes: LatencyStatus::default(),
            devices: self.device_states(&status),
            rebuild_limits: config.rebuild.clone(),
            rebuilds: self.rebuilds(),
            lost: self.lost(),
            read_cache: self.read_cache(&status),
            stripe_memory: status.stripe_memory.map(|memory| StripeMemoryStatus {
                held_pages: memory.held,
                pages: memory.pages,
                recalled_pages: counters.recalled_pages,
            }),
            mirror: self.volume.mirror_status().map(|mirror| MirrorStatus {
                number: mirror.copy,
                bytes_copied: mirror.bytes,
                bytes: mirror.of,
            }),
            log_change: self.relog.as_ref().map(|relog| relog.status(status.dirty_pages)),
            scrub: self.scrub.report(&self.volume, port.now()),
            scrub_mismatches: mismatches.rows(&self.volume),
            scrub_completed_unix_s: mismatches.completed_unix_s(),
            alarms: self.alarms.texts(),
        }
    }

    /// The worst state that holds (docs/operations.md, "States").
    fn state(&self, status: &Status) -> ArrayState {
        let named = self.setup.config().nvs.len();
        match () {
            () if status.stopped => ArrayState::Stopped,
            () if !status.rebuilds.is_empty() => ArrayState::Rebuilding,
            () if !self.volume.ready() => ArrayState::Recovering,
            () if !status.failed.is_empty() => ArrayState::Degraded,
            () if self.scrub.mismatches().are_left() => ArrayState::Inconsistent,
            () if named > 0 && status.nvs_devices.is_empty() => ArrayState::NoNvs,
            () if status.nvs_devices.len() < named => ArrayState::Degraded,
            () if self.volume.mirror_status().is_some() => ArrayState::Degraded,
            () if self.ending.has_deleted() => ArrayState::Degraded,
            () => ArrayState::Clean,
        }
    }

    fn device_states(&self, status: &Status) -> Vec<DeviceStatus> {
        let config = self.setup.config();
        let rebuilt: Vec<u16> = self.volume.rebuild_status().iter().map(|r| r.member).collect();
        let resynced = self.volume.mirror_status().map(|mirror| mirror.copy);
        let member = |number: u16| match () {
            () if rebuilt.contains(&number) => DeviceState::Rebuilding,
            () if status.failed.contains(&number) => DeviceState::Failed,
            () => DeviceState::InUse,
        };
        let nvs = |number: u16| match () {
            () if resynced == Some(number) => DeviceState::Resyncing,
            () if status.nvs_devices.contains(&number) => DeviceState::InUse,
            () => DeviceState::Failed,
        };
        let one = |kind, number, device: &String, state| {
            let device = device.clone();
            let cache =
                |member: u16| Some(self.caches.get(usize::from(member))?.word().to_string());
            let how = |member| self.volume.durability(member).name().to_string();
            let (cache, durability) = match kind {
                DeviceKind::Member => (cache(number), Some(how(number))),
                DeviceKind::Nvs | DeviceKind::Spare => (None, None),
            };
            DeviceStatus { kind, number, device, state, cache, durability }
        };
        let members = (0..).zip(&config.disks);
        let members = members.map(|(n, d)| one(DeviceKind::Member, n, d, member(n)));
        let copies = (0..).zip(&config.nvs).map(|(n, d)| one(DeviceKind::Nvs, n, d, nvs(n)));
        let ready = self.spares.names();
        let ready = ready.iter().map(|name| (name, DeviceState::Ready));
        let missing = self.spares.missing().iter().map(|name| (name, DeviceState::Missing));
        let spares = (0..).zip(ready.chain(missing));
        let spares = spares.map(|(n, (d, state))| one(DeviceKind::Spare, n, d, state));
        members.chain(copies).chain(spares).collect()
    }

    fn rebuilds(&self) -> Vec<RebuildStatus> {
        let seconds = |time: Duration| time.0 as f64 / 1e9;
        let of = |rebuild: destage_served::RebuildStatus| {
            let progress = rebuild.progress;
            RebuildStatus {
                member: rebuild.member,
                device: self.setup.config().disks[usize::from(rebuild.member)].clone(),
                bytes_done: progress.done_pages * PAGE_BYTES,
                bytes: progress.disk_pages * PAGE_BYTES,
                checkpoint_bytes: rebuild.checkpoint * PAGE_BYTES,
                elapsed_s: seconds(progress.elapsed),
                to_go_s: progress.to_go.map(seconds),
                lost_pages: rebuild.lost_pages,
            }
        };
        self.volume.rebuild_status().into_iter().map(of).collect()
    }

    /// What is unavailable while members are missing, if the array has stopped for that.
    fn lost(&self) -> Option<LostStatus> {
        let lost = self.volume.lost();
        let missing = |(member, from): &(u16, u64)| MissingMember {
            member: *member,
            from: from * PAGE_BYTES,
        };
        let bytes = |(first, pages): &(u64, u64)| (first * PAGE_BYTES, pages * PAGE_BYTES);
        (!lost.members.is_empty()).then(|| LostStatus {
            members: lost.members.iter().map(missing).collect(),
            bytes: lost.pages * PAGE_BYTES,
            ranges: lost.ranges.iter().map(bytes).collect(),
            more: lost.more,
        })
    }

    fn read_cache(&self, status: &Status) -> Option<ReadCacheStatus> {
        let cache = status.read_cache.as_ref()?;
        Some(ReadCacheStatus {
            policy: cache.policy.clone(),
            writes: self.setup.config().read_cache.writes.clone(),
            held_pages: cache.state.held as u64,
            pages: cache.state.pages as u64,
            memory_bytes: cache.memory_bytes,
            weight: cache.state.weight.map(|weight| weight.in_quarters() as f64 / 4.0),
            weight_changes: cache.state.weight_changes,
            since_start: pages_read(&Counters::default(), &status.counters),
            since_change: pages_read(&cache.state.before, &status.counters),
        })
    }
}

fn waiting_for(status: &Status) -> String {
    match (&status.waiting_for, status.writes_waiting) {
        (_, waiting) if waiting > 0 => format!("NVS space, for {waiting} writes"),
        (Some((device, since)), _) => format!("{device}, {:.1} ms", *since as f64 / 1e6),
        (None, _) => "nothing".to_string(),
    }
}

fn pages_read(before: &Counters, after: &Counters) -> PagesRead {
    PagesRead::new(
        after.read_pages - before.read_pages,
        after.read_pages_nvs - before.read_pages_nvs,
        after.read_pages_cached - before.read_pages_cached,
        after.read_penalty - before.read_penalty,
    )
}
