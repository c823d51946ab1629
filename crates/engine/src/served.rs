//! How a served array destages where nothing else is asked for: used by the server, and by the
//! simulator for the array that will be served.

use crate::destage::phases::Protocol;
use crate::destage::{Count, DestageConfig, Issue};
use crate::dispatch::Order;
use crate::sequential::DetectorKind;

/// Most destage writes in flight.
pub const QUEUE_DEPTH: u32 = 128;

/// Commands that a member sees at once.
pub const WINDOW: u32 = 32;

/// Order in which commands enter that window.
pub const ORDER: Order = Order::ReadsFirst { bound: 8 };

/// Which sequential detector.
pub const DETECTOR: DetectorKind = DetectorKind::Pages;

/// Pages after which a stream is sequential.
pub const SEQUENTIAL_THRESHOLD: u32 = 16;

pub use crate::policy::BRIDGE;

/// How destages are made, with at most `queue_depth` writes in flight.
#[must_use]
pub const fn destage(queue_depth: u32) -> DestageConfig {
    DestageConfig {
        queue_depth,
        count: Count::Runs,
        issue: Issue::Group,
        protocol: Protocol::Safe,
        defer: false,
        bridge: Some(BRIDGE),
        stripe_memory: 0,
    }
}
