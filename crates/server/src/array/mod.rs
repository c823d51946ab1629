//! The served array: its configuration, devices, backend, and the control socket.

mod admin;
mod alarms;
mod backend;
mod config;
mod create;
mod devices;
mod inline;
mod latency;
mod mapped;
mod members;
mod mirror;
mod observe;
mod pages;
mod readcache;
mod remote;
mod scrub;
mod watch;

pub use admin::{Admin, AdminError, Extras, RecordRequest, Request, ask, ask_extra, listen};
pub use backend::{ArrayBackend, DIRTY_CONTEXT, export};
pub use config::{ArrayConfig, ConfigFileError, Places};
pub use create::{CreateError, CreateOptions, create, uuid_text};
pub use devices::{DeviceError, DeviceSpec, Devices};
pub use latency::Latencies;
pub use members::{NewMember, Place, Spare, open_spares};
pub use mirror::{NewMirror, Slot};
pub use observe::{Observation, Raised, Seen, SeenOp, Tap, TapReader, tap};
pub use readcache::{ReadCacheChange, ReadCacheConfig};
pub use scrub::{SCRUB_RATE, SCRUB_RATE_MIN};
pub use watch::Watched;
