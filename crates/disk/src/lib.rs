//! Mechanical disk models in virtual time: geometry, zones, seek curve, rotation, skew, cache
//! and in-drive scheduling.
//!
//! A [`DiskSpec`] says what a drive is; a [`Disk`] serves operations as that drive would. The
//! disk has no clock: its user passes the time of each call and finishes each operation when
//! its completion time has come. All times are integer nanoseconds, so the same calls give the
//! same times on every machine.

mod bus;
mod cache;
mod disk;
mod extent;
mod figures;
pub mod fit;
mod geometry;
mod head;
mod keys;
pub mod measure;
mod media;
mod model;
mod registry;
mod seek;
mod spec;
mod validate;

pub mod disksim;

pub use disk::{Completed, Disk, Service};
pub use figures::{Figures, ZoneRate, random_read_iops};
pub use head::DiskOp;
pub use keys::{KEYS, REQUIRED, SpecKey};
pub use media::MediaCounts;
pub use model::{DiskModel, ZoneInfo, seek_curve, zones};
pub use registry::{find, registry};
pub use spec::{
    AheadUntil, BusSpec, CachePlace, DiskSpec, HitOverhead, HostSpec, Issue, LinearZones,
    MediaCache, Overhead, ReadAhead, Scheduler, Seek, SeekFit, SeekFormula, SeekTable, Shingled,
    SparesPer, SpecError, StartOf, TrackOrder, WriteBack, ZoneSpec, Zones,
};
