//! The served array: its configuration, devices, backend, and the commands that it takes.

mod alarm_words;
mod alarms;
mod attached;
mod backend;
mod config;
pub mod control;
mod create;
mod device_watch;
mod devices;
mod ending;
mod inline;
mod kept;
mod latency;
mod mapped;
mod member_cache;
mod memory;
mod mismatch;
mod pages;
mod readcache;
mod reconnect;
mod refusal;
mod relog;
mod remote;
mod requests;
mod same_drive;
mod scrub;
mod setup;
mod sigbus;
mod spares;
mod sysfs;
mod tap;
#[cfg(test)]
mod tests;

pub use alarms::Raised;
pub use backend::nvs::Resized;
pub use backend::{Absent, ArrayBackend, ArrayHandle, Observation, export};
pub use config::{ArrayConfig, ConfigFileError, Places, Prepared};
pub use create::{CreateError, CreateOptions, create, undo, uuid_text};
pub use devices::{DeviceError, DeviceSpec, Devices, allocate};
pub use latency::Latencies;
pub use member_cache::check_caches;
pub use readcache::{ReadCacheChange, ReadCacheConfig};
pub use refusal::{RecordingError, Refusal, Undrained, Unfinished};
pub use same_drive::{SameDrive, check_drives};
pub use spares::{Spare, open_spares};
pub use tap::{Seen, SeenOp, Tap, TapReader, tap};
