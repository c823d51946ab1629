//! The array: levels, where pages lie, and how a group is written.

pub mod geometry;
pub mod layout;
pub mod parity;
pub mod plan;
