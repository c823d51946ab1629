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
        (slots > dirty_pages).then_some(Sizes { ring_blocks, slots: slots as u32, dirty_pages })
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

    /// A byte less than eight slots is too little. The last two have as many slots as there are
    /// numbers for.
    #[test]
    fn a_device_is_divided_into_ring_and_slots() {
        for (block_bytes, bytes, divided) in [
            (512, 1_000_000, None),
            (512, 1_114_112, None),
            (512, 1_118_207, None),
            (512, 1_118_208, Some((72, 8, 7))),
            (512, 3_000_001, Some((184, 453, 397))),
            (512, 64 << 20, Some((4096, 15_616, 15_104))),
            (512, 1 << 30, Some((65_536, 253_696, 251_714))),
            (4096, 1_343_487, None),
            (4096, 1_343_488, Some((64, 8, 7))),
            (4096, 3_000_001, Some((64, 412, 361))),
            (4096, 64 << 20, Some((1261, 14_867, 14_355))),
            (4096, 1 << 30, Some((20_165, 241_723, 239_835))),
            (512, 1 << 45, Some((1 << 31, u32::MAX - 1, 4_261_412_863))),
            (4096, 1 << 45, Some((660_764_200, u32::MAX - 1, 4_261_412_863))),
        ] {
            let sizes = Sizes::of_device(bytes, block_bytes);
            let parts = sizes.map(|sizes| (sizes.ring_blocks, sizes.slots, sizes.dirty_pages));
            assert_eq!(parts, divided, "{bytes} bytes, blocks of {block_bytes}");
        }
    }

    #[test]
    fn the_slots_of_some_pages_and_their_ring_have_a_size() {
        for (block_bytes, dirty_pages, ring_blocks, slots, bytes) in [
            (512, 1, 64, 2, 1_089_536),
            (512, 7, 64, 9, 1_118_208),
            (512, 100, 64, 115, 1_552_384),
            (512, 4000, 1168, 4513, 20_131_840),
            (512, 1_000_000, 260_104, 1_007_875, 4_262_477_824),
            (4096, 6, 64, 7, 1_339_392),
            (4096, 100, 64, 115, 1_781_760),
            (4096, 4000, 377, 4513, 21_078_016),
            (4096, 1_000_000, 83_990, 1_007_875, 4_473_327_616),
        ] {
            let sizes = Sizes::for_pages(dirty_pages, block_bytes);
            assert_eq!(sizes, Sizes { ring_blocks, slots, dirty_pages });
            assert_eq!(sizes.bytes(block_bytes), bytes, "{sizes:?}");
        }
    }
}
