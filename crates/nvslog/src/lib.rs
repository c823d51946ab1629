//! The NVS as bytes, as docs/nvs-format.md has it: records and commits, the space in the ring, what
//! is live, superblocks, and reading a log back after a crash. No I/O, and `no_std` says so.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod anchor;
pub mod commit;
pub mod contents;
pub mod crc;
mod held;
pub mod member;
pub mod record;
pub mod recover;
pub mod sizes;
pub mod slots;
pub mod space;
pub mod superblock;

/// UUID of a log: part of every checksum, so that another log's bytes are not taken for ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogId(pub [u8; 16]);

/// Bytes of a superblock or an anchor.
pub const SUPERBLOCK_BYTES: usize = 512;
/// Bytes of a commit's header.
pub const HEADER_BYTES: usize = 64;
/// Most bytes of header and records.
pub const COMMIT_BYTES_MAX: usize = 65_536;
/// Most pages of a commit.
pub const COMMIT_PAGES_MAX: usize = 256;
/// Most pages that a Zero, Trim, Release or Intent record names.
pub const RANGE_PAGES_MAX: u32 = 1 << 20;
/// Fewest blocks of a ring.
pub const RING_BLOCKS_MIN: u64 = 64;
/// Most blocks of a ring.
pub const RING_BLOCKS_MAX: u64 = 1 << 40;
/// Sequences, generations and numbers of anchors and records are below this.
pub const NUMBER_MAX: u64 = 1 << 63;
/// A number that is found and counted on from is below this, so that those behind it have room.
pub(crate) const FOUND_MAX: u64 = NUMBER_MAX / 2;
/// The epoch of a log that is opened is below this, likewise.
pub const EPOCHS_MAX: u32 = u32::MAX / 2;

/// Reads little-endian fields; the caller has checked the length.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[at..at + N]);
    found
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(bytes, at))
}

/// Writes a field.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}
