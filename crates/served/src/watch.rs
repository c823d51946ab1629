//! What is counted for people to look at: the load of each device, and where destages began.

use crate::io::{Device, OpKind};
use destage_engine::units::Instant;

/// What one device had to do since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLoad {
    /// Operations under way.
    pub under_way: u32,
    /// Nanoseconds with an operation under way.
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
    /// Since when an operation is under way, if one is.
    since: Instant,
}

impl DeviceLoad {
    /// The same with the busy time up to now.
    #[must_use]
    pub fn at(mut self, now: Instant) -> DeviceLoad {
        if self.under_way > 0 {
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
        if load.under_way == 0 {
            load.since = now;
        }
        load.under_way += 1;
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
        load.under_way -= count as u32;
    }

    pub(crate) fn get(&self, device: Device, now: Instant) -> DeviceLoad {
        let load = match device {
            Device::Member(number) => self.members.get(usize::from(number)),
            Device::Nvs(number) => self.nvs.get(usize::from(number)),
        };
        load.copied().unwrap_or_default().at(now)
    }
}

/// How many of the last destages are remembered.
pub const RECENT_DESTAGES: usize = 256;

/// The first pages of the last destages.
pub(crate) struct Recent {
    pages: [u64; RECENT_DESTAGES],
    count: u64,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { pages: [0; RECENT_DESTAGES], count: 0 }
    }
}

impl Recent {
    pub(crate) fn push(&mut self, page: u64) {
        self.pages[self.count as usize % RECENT_DESTAGES] = page;
        self.count += 1;
    }

    /// Oldest first.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.count.saturating_sub(RECENT_DESTAGES as u64);
        (first..self.count).map(|number| self.pages[number as usize % RECENT_DESTAGES])
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_that_with_an_operation_under_way() {
        let mut loads = Loads::default();
        let disk = Device::Member(1);
        loads.begin(disk, &OpKind::Flush, Instant(10));
        loads.begin(disk, &OpKind::Read { offset: 0, bytes: 4096 }, Instant(20));
        loads.end(disk, 1, Instant(30));
        loads.end(disk, 1, Instant(50));
        loads.begin(disk, &OpKind::Flush, Instant(100));
        let load = loads.get(disk, Instant(105));
        assert_eq!((load.busy_ns, load.under_way, load.reads), (45, 1, 1));
        assert_eq!((load.flushes, load.read_bytes), (2, 4096));
        assert_eq!(loads.get(Device::Nvs(0), Instant(9)), DeviceLoad::default());
    }

    #[test]
    fn the_last_destages_are_remembered() {
        let mut recent = Recent::default();
        (0..RECENT_DESTAGES as u64 + 3).for_each(|page| recent.push(page));
        let pages: Vec<u64> = recent.pages().collect();
        assert_eq!((pages.len(), pages[0]), (RECENT_DESTAGES, 3));
        assert_eq!(pages.last(), Some(&(RECENT_DESTAGES as u64 + 2)));
    }
}
