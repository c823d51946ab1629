//! What a size takes of a served array.

use destage_nvslog::sizes::Sizes;
use destage_report::advice::Needs;

/// Bytes of memory that a dirty page of a served array takes, with what is known of it.
const DIRTY_PAGE_BYTES: u64 = 4300;

/// What a served array needs to hold this many dirty pages.
pub(super) fn needs(pages: u64) -> Needs {
    let device = |block_bytes| Sizes::for_pages(pages, block_bytes).bytes(block_bytes);
    Needs {
        device_bytes_512: device(512),
        device_bytes_4096: device(4096),
        memory_bytes: pages * DIRTY_PAGE_BYTES,
    }
}
