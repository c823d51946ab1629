//! Backends that are no array.

mod emulated;
mod emulator;
mod ram;
mod sparse;

pub use emulated::{Emulated, disk_export};
pub use emulator::{Ask, Emulator};
pub use ram::Ram;
pub use sparse::Sparse;

use destage_nbd::BlockSizes;
use destage_nbd::handshake::Export;
use destage_nbd::wire;

/// Longest READ or WRITE.
pub const REQUEST_BYTES_MAX: u32 = 64 << 20;

/// An export of this size with all commands, to be written to through any number of connections.
#[must_use]
pub fn export(name: &str, description: &str, size: u64) -> Export {
    Export {
        name: name.to_string(),
        description: description.to_string(),
        size,
        flags: wire::NBD_FLAG_HAS_FLAGS
            | wire::NBD_FLAG_SEND_FLUSH
            | wire::NBD_FLAG_SEND_FUA
            | wire::NBD_FLAG_SEND_TRIM
            | wire::NBD_FLAG_SEND_WRITE_ZEROES
            | wire::NBD_FLAG_SEND_CACHE
            | wire::NBD_FLAG_CAN_MULTI_CONN,
        block: BlockSizes { minimum: 1, preferred: 4096, maximum: REQUEST_BYTES_MAX },
        contexts: vec![wire::BASE_ALLOCATION.to_string()],
        tls_only: false,
    }
}
