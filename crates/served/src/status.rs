//! What an operator sees of a volume.

use crate::clean::ReadCacheStatus;
use crate::io::Device;
use crate::rebuild::RebuildStatus;
use crate::volume::Volume;
use crate::watch::DeviceLoad;
use destage_engine::counters::Counters;
use destage_nvslog::superblock::Superblock;

/// A volume at one moment. Pages are of 4,096 bytes.
#[derive(Clone, Debug)]
pub struct Status {
    /// Pages that occupy NVS space.
    pub occupancy_pages: u64,
    /// Most dirty pages.
    pub nvs_pages: u64,
    /// Pages that only NVS and memory have.
    pub dirty_pages: u64,
    /// Of these, pages of groups that cannot be destaged for as long as something is unreadable.
    pub kept_pages: u64,
    /// Destage writes in flight.
    pub destages_in_flight: u32,
    /// Writes waiting for NVS space.
    pub writes_waiting: usize,
    /// Requests not yet answered.
    pub requests: usize,
    /// Device operations under way.
    pub operations: usize,
    /// Members that have failed, those being rebuilt included.
    pub failed: Vec<u16>,
    /// Rebuilds under way.
    pub rebuilds: Vec<RebuildStatus>,
    /// NVS devices in use.
    pub nvs_devices: Vec<u16>,
    /// Whether the array has stopped.
    pub stopped: bool,
    /// Open destages of the last run that are still being redone.
    pub redoing: u32,
    /// Bytes written to the log since the start, on each NVS device.
    pub log_bytes_written: u64,
    /// Records moved to the head of the log since the start.
    pub records_moved: u64,
    /// Bytes of the ring in use.
    pub log_bytes_used: u64,
    /// What the engine counted.
    pub counters: Counters,
    /// The read cache.
    pub read_cache: Option<ReadCacheStatus>,
    /// The device whose answer has been outstanding for longest, and for how long, in ns.
    pub waiting_for: Option<(Device, u64)>,
}

impl Volume {
    /// The volume as it is now.
    #[must_use]
    pub fn status(&self) -> Status {
        let controller = &self.controller;
        let superblock = &self.faults.superblock;
        let used = superblock.ring_blocks - self.log.space.free_blocks();
        Status {
            occupancy_pages: controller.occupancy().0,
            nvs_pages: controller.directory().capacity().0,
            dirty_pages: (self.memory.pages() + self.memory.pages_flying()) as u64,
            kept_pages: controller.kept_pages(),
            destages_in_flight: controller.destages_in_flight(),
            writes_waiting: controller.waiting(),
            requests: self.wholes.len(),
            operations: self.ops.under_way(),
            failed: controller.failed().iter().map(|disk| disk.0).collect(),
            rebuilds: self.rebuild_status(),
            nvs_devices: self.log.copies.clone(),
            stopped: self.faults.stopped,
            redoing: self.redoing,
            log_bytes_written: self.log.bytes_written,
            records_moved: self.log.records_moved,
            log_bytes_used: used * u64::from(superblock.block_bytes),
            counters: *controller.counters(),
            read_cache: self.read_cache(),
            waiting_for: self
                .ops
                .oldest()
                .map(|(device, since)| (device, self.ops.now().since(since).0)),
        }
    }

    /// What a device had to do so far.
    #[must_use]
    pub fn load(&self, device: Device) -> DeviceLoad {
        self.ops.loads.get(device, self.ops.now())
    }

    /// The first pages of the last destages, oldest first, and how many there were in all.
    #[must_use]
    pub fn recent_destages(&self) -> (Vec<u64>, u64) {
        (self.recent.pages().collect(), self.recent.count())
    }

    /// What the superblocks say, that of no device in particular.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        self.faults.superblock
    }

    /// Pages of a range that only the NVS has, as runs `(first, pages)`.
    #[must_use]
    pub fn dirty_in(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for page in self.memory.held_in(&(first..end)) {
            match runs.last_mut() {
                Some((from, pages)) if *from + *pages == page => *pages += 1,
                _ => runs.push((page, 1)),
            }
        }
        runs
    }
}
