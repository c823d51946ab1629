//! How large a log has to be.

use super::RING;

/// docs/nvs-format.md, "Bytes written per byte".
const fn blocks_per_page(block_bytes: u32) -> u64 {
    if block_bytes == 512 { 27 } else { 6 }
}

/// Blocks of the ring for this many dirty pages (docs/nvs-format.md, "Bytes written per byte").
#[must_use]
pub fn ring_blocks_of(dirty_pages: u64, block_bytes: u32) -> u64 {
    // Small logs need room for the reserve: a few commits of an eighth of the ring.
    (dirty_pages * blocks_per_page(block_bytes)).max(1024)
}

/// Dirty pages that an NVS device of this many bytes can hold; 0: it is too small.
#[must_use]
pub fn dirty_pages_of(device_bytes: u64, block_bytes: u32) -> u64 {
    let blocks = device_bytes.saturating_sub(RING) / u64::from(block_bytes);
    if blocks < ring_blocks_of(1, block_bytes) { 0 } else { blocks / blocks_per_page(block_bytes) }
}
