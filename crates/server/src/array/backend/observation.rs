//! The array at one moment: a copy of its counts, for the monitor.

use super::ArrayBackend;
use super::handle::ArrayHandle;
use crate::Port;
use crate::array::alarms::Raised;
use crate::array::latency::Latencies;
use destage_block::Driver;
use destage_engine::array::geometry::Geometry;
use destage_engine::counters::Counters;
use destage_engine::policy::{Gauges, PolicyContext};
use destage_engine::rate::Thresholds;
use destage_engine::sequential::DetectorKind;
use destage_engine::units::Instant;
use destage_report::live::ArrayStatus;
use destage_served::{Device, DeviceLoad};
use std::sync::mpsc::Receiver;

/// The array at one moment, for the monitor.
pub struct Observation {
    /// When, on the data thread's clock.
    pub at: Instant,
    /// What `destage status` shows, without the times of requests.
    pub status: ArrayStatus,
    /// Times of reads, writes and flushes.
    pub latencies: [Latencies; 3],
    /// Bytes that hosts read.
    pub host_read_bytes: u64,
    /// Bytes that hosts wrote.
    pub host_written_bytes: u64,
    /// What the engine counted.
    pub counters: Counters,
    /// The state of the policy.
    pub gauges: Gauges,
    /// The thresholds of the rate.
    pub thresholds: Thresholds,
    /// Greatest number of destage writes in flight.
    pub queue_depth: u32,
    /// Pages held, without those in flight.
    pub held_pages: u64,
    /// The array.
    pub geometry: Geometry,
    /// What a policy in the place of this one would be made with.
    pub context: PolicyContext,
    /// The sequential detector, and its threshold.
    pub detector: (DetectorKind, u32),
    /// First pages of the last destages, oldest first.
    pub recent: Vec<u64>,
    /// Destages begun since the start.
    pub begun: u64,
    /// Load of the members, then of the NVS devices, as the status lists them.
    pub loads: Vec<DeviceLoad>,
    /// The last alarms.
    pub raised: Vec<Raised>,
}

impl ArrayHandle {
    /// Asks for a copy of the array's counts. The receiver has no sender when the server has ended.
    pub fn observe(&self) -> Receiver<Box<Observation>> {
        self.ask(|array, port| Box::new(array.observe(port)))
    }
}

impl ArrayBackend {
    fn observe(&self, port: &Port) -> Observation {
        let at = port.now();
        let controller = self.volume.controller();
        let (recent, begun) = self.volume.recent_destages();
        let config = self.setup.config();
        let members = (0..config.disks.len()).map(|n| Device::Member(n as u16));
        let nvs = (0..config.nvs.len()).map(|n| Device::Nvs(n as u16));
        let loads = members.chain(nvs).map(|device| self.volume.load(device).at(at)).collect();
        let (host_read_bytes, host_written_bytes) = self.requests.bytes();
        Observation {
            at,
            status: self.status_without_times(port),
            latencies: self.requests.latencies(),
            host_read_bytes,
            host_written_bytes,
            counters: *controller.counters(),
            gauges: controller.gauges(),
            thresholds: controller.thresholds(),
            queue_depth: config.queue_depth,
            held_pages: controller.directory().held_pages(),
            geometry: *controller.geometry(),
            context: controller.policy_context(),
            detector: controller.detector_kind(),
            recent,
            begun,
            loads,
            raised: self.alarms.raised(),
        }
    }
}
