//! The array: levels, where pages lie, and how a group is written.

pub mod disks;
pub mod erasure;
pub mod geometry;
pub mod layout;
pub mod parity;
pub mod plan;
pub mod safe;
pub mod syndrome;
