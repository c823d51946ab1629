//! The served array: its configuration, devices, backend, and the control socket.

mod admin;
mod alarm_words;
mod alarms;
mod backend;
mod config;
mod create;
mod devices;
mod ending;
mod inline;
mod kept;
mod latency;
mod mapped;
mod members;
mod mirror;
mod mismatch;
mod observe;
mod pages;
mod readcache;
mod reconnect;
mod remote;
mod scrub;
mod sigbus;
mod stop;
#[cfg(test)]
mod tests;
mod watch;

pub use admin::{
    Admin, AdminError, Control, Extras, RecordRequest, Request, ask, ask_extra, ask_to_end, listen,
};
pub use alarm_words::Absent;
pub use backend::{ArrayBackend, export};
pub use config::{ArrayConfig, ConfigFileError, Places, Prepared};
pub use create::{CreateError, CreateOptions, create, undo, uuid_text};
pub use devices::{DeviceError, DeviceSpec, Devices, allocate};
pub use latency::Latencies;
pub use members::{NewMember, Place, Spare, open_spares};
pub use mirror::{NewMirror, Slot};
pub use observe::{Observation, Raised, Seen, SeenOp, Tap, TapReader, tap};
pub use readcache::{ReadCacheChange, ReadCacheConfig};
pub use reconnect::{Attempt, Tried};
pub use scrub::{SCRUB_RATE, SCRUB_RATE_MIN};
pub use watch::{Found, Trouble, Watched};
