//! The load of each device, counted for monitoring.

use crate::io::{Device, OpKind};
use destage_engine::units::Instant;

/// The load of one device since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLoad {
    /// Operations in flight.
    pub in_flight: u32,
    /// Nanoseconds with an operation in flight.
    pub busy_ns: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub written_bytes: u64,
    /// Since when an operation is in flight, if one is.
    since: Instant,
}

impl DeviceLoad {
    /// The same with the busy time up to now.
    #[must_use]
    pub fn at(mut self, now: Instant) -> DeviceLoad {
        if self.in_flight > 0 {
            self.busy_ns += now.since(self.since).0;
            self.since = now;
        }
        self
    }
}

/// The loads of all devices.
#[derive(Default)]
pub(crate) struct Loads {
    members: Vec<DeviceLoad>,
    nvs: Vec<DeviceLoad>,
}

impl Loads {
    fn of(&mut self, device: Device) -> &mut DeviceLoad {
        let (loads, number) = match device {
            Device::Member(number) => (&mut self.members, usize::from(number)),
            Device::Nvs(number) => (&mut self.nvs, usize::from(number)),
        };
        if loads.len() <= number {
            loads.resize(number + 1, DeviceLoad::default());
        }
        &mut loads[number]
    }

    pub(crate) fn begin(&mut self, device: Device, kind: &OpKind, now: Instant) {
        let load = self.of(device);
        if load.in_flight == 0 {
            load.since = now;
        }
        load.in_flight += 1;
        match kind {
            OpKind::Read { bytes, .. } => {
                load.reads += 1;
                load.read_bytes += *bytes as u64;
            }
            OpKind::Write { buffer, .. } => {
                load.writes += 1;
                load.written_bytes += buffer.len() as u64;
            }
            OpKind::Flush => load.flushes += 1,
        }
    }

    pub(crate) fn end(&mut self, device: Device, count: usize, now: Instant) {
        let load = self.of(device);
        *load = load.at(now);
        load.in_flight -= count as u32;
    }

    /// Adds what an earlier volume counted.
    pub(crate) fn count_from(&mut self, earlier: &Loads) {
        let members = (0..).map(Device::Member).zip(&earlier.members);
        let nvs = (0..).map(Device::Nvs).zip(&earlier.nvs);
        for (device, counted) in members.chain(nvs) {
            let load = self.of(device);
            load.busy_ns += counted.busy_ns;
            load.reads += counted.reads;
            load.writes += counted.writes;
            load.flushes += counted.flushes;
            load.read_bytes += counted.read_bytes;
            load.written_bytes += counted.written_bytes;
        }
    }

    pub(crate) fn get(&self, device: Device, now: Instant) -> DeviceLoad {
        let load = match device {
            Device::Member(number) => self.members.get(usize::from(number)),
            Device::Nvs(number) => self.nvs.get(usize::from(number)),
        };
        load.copied().unwrap_or_default().at(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn busy_time_is_that_with_an_operation_in_flight() {
        let mut loads = Loads::default();
        let disk = Device::Member(1);
        loads.begin(disk, &OpKind::Flush, Instant(10));
        loads.begin(disk, &OpKind::Read { offset: 0, bytes: 4096 }, Instant(20));
        loads.end(disk, 1, Instant(30));
        loads.end(disk, 1, Instant(50));
        loads.begin(disk, &OpKind::Flush, Instant(100));
        let nvs = Device::Nvs(1);
        for _ in 0..3 {
            let buffer = Buffer::zeroed(512).into();
            loads.begin(nvs, &OpKind::Write { offset: 0, buffer, durable: true }, Instant(9));
        }
        let written = loads.get(nvs, Instant(9));
        assert_eq!((written.writes, written.written_bytes, written.reads), (3, 1536, 0));
        let load = loads.get(disk, Instant(105));
        assert_eq!((load.busy_ns, load.in_flight, load.reads), (45, 1, 1));
        assert_eq!((load.flushes, load.read_bytes), (2, 4096));
        assert_eq!(loads.get(Device::Nvs(0), Instant(9)), DeviceLoad::default());
        let mut next = Loads::default();
        next.begin(disk, &OpKind::Flush, Instant(120));
        next.count_from(&loads);
        let load = next.get(disk, Instant(125));
        assert_eq!((load.busy_ns, load.in_flight, load.flushes), (45, 1, 3), "of both");
        assert_eq!((load.reads, load.read_bytes), (1, 4096));
        let load = next.get(nvs, Instant(125));
        assert_eq!((load.in_flight, load.writes, load.written_bytes), (0, 3, 1536));
    }
}
