//! P and Q of RAID-5 and RAID-6: computing them, missing strips from what is left, and which strip
//! of a row is wrong. Bytes only: the engine plans without them. `no_std`, no dependencies.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod erasure;
pub mod field;
pub mod syndrome;
