//! The array: levels, where pages are, and how a group is written.

mod bridge;
pub mod disks;
pub mod geometry;
pub mod layout;
pub mod plan;
pub mod safe;
