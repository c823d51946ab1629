//! Backends other than the array.

mod emulated;
mod emulator;
mod ram;
mod sparse;
mod undo;

pub use emulated::{Emulated, disk_export};
pub use emulator::{DiskRequest, Emulator};
pub use ram::Ram;
pub use sparse::Sparse;

use destage_block::{BlockSizes, Export, Map};

/// Longest READ or WRITE.
pub const REQUEST_BYTES_MAX: u32 = 64 << 20;

/// An export of this size with all requests.
pub fn export(name: &str, description: &str, size: u64) -> Export {
    Export {
        name: name.to_string(),
        description: description.to_string(),
        size,
        block: BlockSizes { minimum: 1, preferred: 4096, maximum: REQUEST_BYTES_MAX },
        fua: true,
        discards: true,
        fast_zero: false,
        rotational: false,
        maps: vec![Map::Holes],
    }
}
