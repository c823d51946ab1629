//! Driver 1: the engine in virtual time on modelled disks.
//!
//! The simulator does what the controller says: NVS appends take a fixed time (none by default),
//! disk commands go to [`destage_disk::Disk`] models, host requests come from a
//! [`destage_workload`] source. One run uses one thread; comparisons use all processors.

pub mod advise;
pub mod axis;
pub mod compare;
pub mod config;
pub mod drives;
mod estimate;
pub mod experiment;
mod fewest_destages;
pub mod findings;
pub mod heads;
pub mod measure;
pub mod options;
pub mod parallel;
pub mod readcache;
pub mod reproduce;
pub mod simulator;
pub mod sources;
pub mod sweep;
pub mod tournament;
pub mod track_trace;
mod uncached;
pub mod validate;
pub mod write_study;

mod build;
mod contradictions;
mod fault_log;
mod faults;
mod flushes;
mod prefill;
mod settling;
