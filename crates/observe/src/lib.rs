//! Monitoring of a served array: one thread next to the data thread asks it for its counts each
//! second, follows the requests for what-if and recordings, and feeds the page, Prometheus and the
//! alarm command.
//!
//! Invariant: the data thread waits for nothing here. It answers one message per second, and drops
//! requests that do not fit into the queue (docs/server.md).
#![forbid(unsafe_code)]

pub mod http;

mod alarm;
mod metrics;
mod monitor;
mod record;
mod sample;
mod shadow;
mod words;

pub use alarm::AlarmCommand;
pub use monitor::{Monitor, Options};
pub use record::{Recorded, Recorder};
pub use shadow::{Row, SHADOWED, Shadows, Shape, in_sample};
