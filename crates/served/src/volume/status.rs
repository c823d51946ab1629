//! The state of a volume, for operators and drivers.

use super::Volume;
#[cfg(feature = "defects")]
use crate::defect::Defect;
use crate::io::Device;
use crate::load::DeviceLoad;
use crate::lost::runs;
use crate::read_cache::{ReadCache, ReadCacheStatus};
use crate::rebuilds::RebuildStatus;
use destage_engine::counters::Counters;
use destage_engine::destage::StripeMemoryState;
use destage_engine::readcache::ReadPolicyError;
#[cfg(feature = "defects")]
use destage_engine::readcache::coherent::Careless;
use destage_engine::readcache::coherent::ReadCacheChoice;
use destage_nvslog::superblock::Superblock;

/// A volume at one moment. A page has 4,096 bytes.
#[derive(Clone, Debug)]
pub struct Status {
    /// Pages that occupy NVS space.
    pub occupancy_pages: u64,
    /// Most dirty pages.
    pub nvs_pages: u64,
    /// Pages that only NVS and memory have.
    pub dirty_pages: u64,
    /// Of these, pages of groups that cannot be destaged while something is unreadable.
    pub kept_pages: u64,
    /// Destage writes in flight.
    pub destages_in_flight: u32,
    /// Writes waiting for NVS space.
    pub writes_waiting: usize,
    /// Requests not yet answered.
    pub requests: usize,
    /// Device operations in flight.
    pub operations: usize,
    /// Members that have failed, including those that are being rebuilt.
    pub failed: Vec<u16>,
    /// Rebuilds that are running.
    pub rebuilds: Vec<RebuildStatus>,
    /// NVS devices in use.
    pub nvs_devices: Vec<u16>,
    /// Whether the array has stopped.
    pub stopped: bool,
    /// Whether parity or copies of rows may not fit since a run without a log was interrupted.
    pub rows_doubted: bool,
    /// Open destages of the last run that are still being redone.
    pub redoing: u32,
    /// Bytes written to the log since the start, on each NVS device.
    pub log_bytes_written: u64,
    /// Records moved to the head of the log since the start.
    pub records_moved: u64,
    /// Bytes of the ring in use.
    pub log_bytes_used: u64,
    /// The engine's counters.
    pub counters: Counters,
    /// The read cache.
    pub read_cache: Option<ReadCacheStatus>,
    /// The stripe memory.
    pub stripe_memory: Option<StripeMemoryState>,
    /// The device of the oldest operation in flight, and for how long it is in flight, in ns.
    pub waiting_for: Option<(Device, u64)>,
}

impl Volume {
    /// The volume as it is now.
    #[must_use]
    pub fn status(&self) -> Status {
        let controller = self.controller();
        let log = self.log.status();
        Status {
            occupancy_pages: controller.occupancy().0,
            nvs_pages: controller.directory().capacity().0,
            dirty_pages: self.pages.copies() as u64,
            kept_pages: controller.kept_pages(),
            destages_in_flight: controller.destages_in_flight(),
            writes_waiting: controller.waiting(),
            requests: self.requests.unanswered(),
            operations: self.ops.count(),
            failed: controller.failed().iter().map(|disk| disk.0).collect(),
            rebuilds: self.rebuild_status(),
            nvs_devices: self.log.devices().to_vec(),
            stopped: self.devices.stopped(),
            rows_doubted: self.rows_doubted,
            redoing: self.destages.redoing(),
            log_bytes_written: log.bytes_written,
            records_moved: log.records_moved,
            log_bytes_used: log.bytes_used,
            counters: *controller.counters(),
            read_cache: self.read_cache(),
            stripe_memory: controller.stripe_memory(),
            waiting_for: self
                .ops
                .oldest()
                .map(|(device, since)| (device, self.ops.now().since(since).0)),
        }
    }

    /// Whether everything is on the disks that can be.
    #[must_use]
    pub fn drained(&self) -> bool {
        self.controller().occupancy().0 == self.controller().kept_pages()
    }

    /// Whether nothing is pending: no request, no operation, nothing to log.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.requests.unanswered() == 0 && self.quiet()
    }

    /// Whether nothing is in flight on any device, and there is nothing to log. Requests may wait
    /// for space that nothing will make.
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.ops.count() == 0
            && self.log.settled()
            && self.controller().destages_in_flight() == 0
            && !self.devices.changing()
    }

    /// Whether the destages that the last run left open are redone, so that it may be served.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.destages.redoing() == 0
    }

    /// The load of a device since the start.
    #[must_use]
    pub fn load(&self, device: Device) -> DeviceLoad {
        self.ops.load(device)
    }

    /// The first pages of the last destages, oldest first, and how many destages there were.
    #[must_use]
    pub fn recent_destages(&self) -> (Vec<u64>, u64) {
        (self.destages.recent().pages().collect(), self.destages.recent().count())
    }

    /// Continues the counts of the volume that this one takes over from.
    pub fn count_from(&mut self, earlier: &Volume) {
        self.engine.controller_mut().count_from(earlier.controller().counters());
        self.ops.count_from(&earlier.ops);
        self.log.count_from(&earlier.log);
        self.destages.remember(earlier.destages.recent());
    }

    /// What all superblocks say. Role and device are those of none in particular.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        *self.devices.superblock()
    }

    /// Pages of a range that only the NVS has, as runs (first page, pages).
    #[must_use]
    pub fn dirty_in(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        runs(&self.pages.held_in(&(first..end)))
    }

    /// Over how many pages [`Volume::dirty_in`] is quick: any number, while few are dirty.
    #[must_use]
    pub fn looks_at(&self) -> u64 {
        const FEW: u64 = 1 << 12;
        if self.pages.copies() as u64 <= FEW { 1 << 48 } else { FEW }
    }

    /// Whether all rows are consistent, and everything that was written is on the disks. Ask it
    /// when nothing is in flight.
    #[must_use]
    pub fn rows_fit(&self) -> bool {
        !self.rows_doubted && self.pages.copies() == 0
    }

    /// Continues with this read cache, which is empty, or with none.
    ///
    /// # Errors
    /// The size or the policy is invalid; nothing is changed then.
    pub fn set_read_cache(
        &mut self,
        config: Option<ReadCacheChoice>,
    ) -> Result<(), ReadPolicyError> {
        let controller = self.engine.controller_mut();
        controller.set_read_cache(config.as_ref())?;
        #[cfg(feature = "defects")]
        controller.cache_carelessly(Careless {
            loads_overtaken: self.settings.defect.is(Defect::CachesOvertakenReads),
            keeps_repaired: self.settings.defect.is(Defect::CachesWhatWasRepaired),
        });
        let pages = config.as_ref().map(|config| config.pages);
        self.read_cache = pages.map(|pages| ReadCache::new(self.settings.pages, pages));
        self.settings.read_cache = config;
        Ok(())
    }

    /// The read cache, if there is one.
    #[must_use]
    pub fn read_cache(&self) -> Option<ReadCacheStatus> {
        let (state, cache) = (self.controller().read_cache()?, self.read_cache.as_ref()?);
        let memory_bytes = cache.memory_bytes() + state.memory_bytes as u64;
        let policy = self.settings.read_cache.as_ref()?.policy.describe();
        Some(ReadCacheStatus { policy, state, memory_bytes })
    }
}
