//! A superblock for tests.

use destage_engine::array::geometry::{Geometry, Level};
use destage_nvslog::LogId;
use destage_nvslog::superblock::{REBUILDS_MAX, Role, Superblock};

/// What an array of three members and one NVS device says: the number 9, made on the number 8.
pub(crate) fn superblock() -> Superblock {
    let (level, strip_pages, group_stripes, disk_pages) = (Level::Raid5, 2, 2, 16);
    Superblock {
        generation: 9,
        base: 8,
        base_identity: 3,
        joined: 0,
        array: [1; 16],
        device: [0; 16],
        log: LogId([2; 16]),
        role: Role::Member(0),
        geometry: Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages },
        nvs: [Some([20; 16]), None],
        block_bytes: 512,
        ring_blocks: 64,
        dirty_pages_max: 24,
        slots: 30,
        unknown_write_features: 0,
        failed: [0; 128],
        rebuilds: [None; REBUILDS_MAX],
        lost_pages: false,
        doubted_rows: false,
    }
}
