//! The destage engine: which dirty data to write to the disks, how fast, and by which disk
//! operations. It takes time and events and returns actions; it has no I/O, clock, threads or
//! randomness, and `no_std` makes the compiler say so.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod array;
mod bounded;
mod change;
pub mod clean;
pub mod controller;
pub mod counters;
pub mod destager;
pub mod discards;
pub mod dispatch;
pub mod heads;
pub mod limits;
pub mod mix;
pub mod nvs;
pub mod policy;
pub mod policytrace;
pub mod protocol;
mod putoff;
pub mod rate;
pub mod readcache;
mod reads;
pub mod rebuild;
pub mod registry;
pub mod request;
pub mod scrub;
pub mod sequential;
pub mod track;
pub mod units;
pub mod writecache;
