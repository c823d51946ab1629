//! Where page accesses are: on the hottest pages, and by address.

use std::collections::BTreeMap;

use destage_report::trace::{DeviceHeat, Heat, Hottest, Place, share};

use super::pages::Device;

/// Shares of the pages, in per mille.
const HOTTEST: [u64; 14] = [1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500, 700, 1000];
/// Parts of a device at most.
const PARTS: u64 = 128;
/// Devices shown.
const DEVICES: usize = 8;

/// Pages by the number of their accesses.
#[derive(Default)]
struct Counts(BTreeMap<u64, u64>);

impl Counts {
    fn add(&mut self, accesses: u64) {
        if accesses > 0 {
            *self.0.entry(accesses).or_default() += 1;
        }
    }

    fn hottest(&self) -> Vec<Hottest> {
        let pages: u64 = self.0.values().sum();
        let all: u64 = self.0.iter().map(|(accesses, pages)| accesses * pages).sum();
        if pages == 0 {
            return Vec::new();
        }
        let of = |per_mille: u64| {
            let wanted = (u128::from(pages) * u128::from(per_mille)).div_ceil(1000) as u64;
            let (mut left, mut found) = (wanted, 0);
            for (accesses, pages) in self.0.iter().rev() {
                let taken = left.min(*pages);
                found += accesses * taken;
                left -= taken;
            }
            let pages_percent = per_mille as f64 / 10.0;
            Hottest { pages_percent, pages: wanted, accesses: found, share: share(found, all) }
        };
        HOTTEST.map(of).to_vec()
    }
}

pub(super) fn heat(devices: &[Device]) -> Heat {
    let [mut all, mut reads, mut writes] =
        [Counts::default(), Counts::default(), Counts::default()];
    for page in devices.iter().flat_map(|device| device.pages.values()) {
        all.add(page.accesses());
        reads.add(u64::from(page.read.count));
        writes.add(u64::from(page.write.count));
    }
    let accesses = |device: &Device| device.pages.values().map(|page| page.accesses()).sum::<u64>();
    let mut busiest: Vec<(u64, &Device)> = devices.iter().map(|d| (accesses(d), d)).collect();
    busiest.sort_by_key(|(accesses, device)| (std::cmp::Reverse(*accesses), device.number));
    busiest.truncate(DEVICES);
    busiest.retain(|(accesses, _)| *accesses > 0);
    Heat {
        all: all.hottest(),
        reads: reads.hottest(),
        writes: writes.hottest(),
        devices: busiest.into_iter().map(|(accesses, device)| places(accesses, device)).collect(),
    }
}

fn places(accesses: u64, device: &Device) -> DeviceHeat {
    let end = device.pages.keys().max().map_or(0, |last| last + 1);
    let part_pages = end.div_ceil(PARTS).max(1);
    let mut parts = vec![Place::default(); end.div_ceil(part_pages) as usize];
    for (number, page) in &device.pages {
        let part = &mut parts[(number / part_pages) as usize];
        part.reads += u64::from(page.read.count);
        part.writes += u64::from(page.write.count);
        part.pages += 1;
    }
    DeviceHeat { device: device.number, accesses, part_pages, parts }
}
