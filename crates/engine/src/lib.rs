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
pub mod conditions;
pub mod controller;
pub mod counters;
pub mod destage;
pub mod dispatch;
pub mod event;
pub mod faults;
pub mod flushes;
mod hash;
mod idle;
pub mod limits;
pub mod mix;
pub mod nvs;
pub mod policy;
pub mod policytrace;
pub mod rate;
pub mod readcache;
pub mod rebuild;
pub mod registry;
pub mod request;
pub mod sequential;
pub mod served;
mod state;
pub mod track;
pub mod units;
pub mod writecache;
