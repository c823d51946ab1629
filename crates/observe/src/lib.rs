//! Watching a served array: one thread beside the data thread asks it for its counts each second,
//! follows the requests for what-if and recordings, and tells the page, Prometheus and alarms.
//!
//! Invariant: nothing here is waited for by the data thread. It answers a message a second, and
//! drops what does not fit the queue of requests (docs/server.md).
#![forbid(unsafe_code)]

pub mod http;

mod alarm;
mod metrics;
mod record;
mod sample;
mod shadow;
mod watch;
mod words;

pub use alarm::AlarmCommand;
pub use record::{Recorded, Recorder};
pub use shadow::{Row, SHADOWED, Shadows, Shape, in_sample};
pub use watch::{Options, Watch};
