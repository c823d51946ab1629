//! How an NVS device is divided (docs/nvs-format.md, "Sizes").

use crate::RING_BLOCKS_MIN;
use crate::superblock::DATA_START as RING;
use destage_engine::units::PAGE_BYTES;

/// Slots that overwrites of dirty pages need, at most.
const SPARE_MAX: u64 = 512;

/// The parts of an NVS device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Blocks in the ring.
    pub ring_blocks: u64,
    /// Slots behind it.
    pub slots: u32,
    /// Most dirty pages.
    pub dirty_pages: u64,
}

impl Sizes {
    /// How a device of this many bytes is divided; `None`: it is too small.
    #[must_use]
    pub fn of_device(bytes: u64, block_bytes: u32) -> Option<Sizes> {
        let ring = ring_bytes(bytes / ring_share(block_bytes), block_bytes);
        let slots = bytes.checked_sub(RING + ring)? / PAGE_BYTES;
        let slots = slots.min(u64::from(u32::MAX) - 1);
        let dirty_pages = slots - (slots / 128).max(SPARE_MAX).min(slots / 8);
        let ring_blocks = ring / u64::from(block_bytes);
        (dirty_pages > 0 && slots > dirty_pages).then_some(Sizes {
            ring_blocks,
            slots: slots as u32,
            dirty_pages,
        })
    }

    /// The smallest division that holds this many dirty pages.
    #[must_use]
    pub fn for_pages(dirty_pages: u64, block_bytes: u32) -> Sizes {
        let slots = dirty_pages + (dirty_pages / 127).max(SPARE_MAX).min(dirty_pages / 7) + 1;
        let share = ring_share(block_bytes);
        let ring = ring_bytes(slots * PAGE_BYTES / (share - 1), block_bytes);
        Sizes { ring_blocks: ring / u64::from(block_bytes), slots: slots as u32, dirty_pages }
    }

    /// Bytes of a device so divided.
    #[must_use]
    pub fn bytes(&self, block_bytes: u32) -> u64 {
        RING + self.ring_blocks * u64::from(block_bytes) + u64::from(self.slots) * PAGE_BYTES
    }
}

/// The ring is the device's bytes divided by this.
fn ring_share(block_bytes: u32) -> u64 {
    if block_bytes == 512 { 32 } else { 13 }
}

/// Bytes of a ring that should have at least `wanted`.
fn ring_bytes(wanted: u64, block_bytes: u32) -> u64 {
    wanted.max(RING_BLOCKS_MIN * u64::from(block_bytes)).next_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What docs/benchmarks.md says of the share of a device that can hold dirty pages.
    #[test]
    fn nine_tenths_of_a_device_hold_dirty_pages() {
        for (block_bytes, mib, least) in [
            (512, 64, 0.85),
            (512, 256, 0.9),
            (512, 1024, 0.9),
            (512, 16_384, 0.9),
            (4096, 64, 0.85),
            (4096, 256, 0.9),
            (4096, 1024, 0.9),
            (4096, 16_384, 0.9),
        ] {
            let bytes = mib << 20;
            let sizes = Sizes::of_device(bytes, block_bytes).expect("large enough");
            assert!(sizes.bytes(block_bytes) <= bytes);
            let share = (sizes.dirty_pages * PAGE_BYTES) as f64 / bytes as f64;
            std::println!("{block_bytes} {mib} MiB: {:.1} %", share * 100.0);
            assert!(share >= least, "{block_bytes} {mib}: {share}");
        }
    }

    #[test]
    fn a_device_for_some_pages_holds_them() {
        for block_bytes in [512, 4096] {
            for pages in [1, 10, 100, 2_000, 100_000] {
                let sizes = Sizes::for_pages(pages, block_bytes);
                assert!(sizes.dirty_pages == pages && u64::from(sizes.slots) > pages);
                if pages > 10_000 {
                    let bytes = sizes.bytes(block_bytes);
                    let of = Sizes::of_device(bytes, block_bytes).expect("large enough");
                    assert!(of.dirty_pages + 64 >= pages, "{pages}: {of:?}");
                    assert!(of.dirty_pages <= pages + pages / 64, "not the smallest: {of:?}");
                }
            }
        }
    }
}
