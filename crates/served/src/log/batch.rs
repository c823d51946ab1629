//! Records that gather until they are a commit, how long they may wait for others, and commits in
//! flight.

use super::Waiter;
use crate::Buffer;
use destage_engine::units::Duration;
use destage_nvslog::record::Record;
use std::sync::Arc;

/// Intents wait this long for a commit that is written anyway: little next to what a destage takes.
const INTENTS_WAIT: Duration = Duration::from_millis(1);

/// Records that will be one commit.
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    /// Room for the commit, then the pages.
    pub(super) buffer: Buffer,
    pub(super) pages: usize,
    /// Bytes of the commit.
    pub(super) bytes: usize,
    pub(super) waiters: Vec<Waiter>,
}

impl Batch {
    /// How long it waits for something of the host to go into the same commit: no host waits for
    /// it, and it leaves room in the only block that it takes.
    pub(super) fn patience(&self, block_bytes: u32) -> Duration {
        let intent = |waiter: &Waiter| matches!(waiter, Waiter::Intent(_));
        let host = self.pages > 0 || self.records.is_empty() || !self.waiters.iter().all(intent);
        match self.waiters.is_empty() {
            _ if host || self.bytes >= block_bytes as usize => Duration::ZERO,
            true => super::CONFIRM_AFTER,
            false => INTENTS_WAIT,
        }
    }
}

/// A commit in flight.
pub(super) struct Flight {
    pub(super) sequence: u64,
    /// Writes that are not durable yet, on all NVS devices together.
    pub(super) pending: usize,
    /// What its header says was durable.
    pub(super) durable_through: u64,
    pub(super) buffer: Arc<Buffer>,
    pub(super) waiters: Vec<Waiter>,
    /// Empty; kept for its capacity.
    pub(super) records: Vec<Record>,
    /// Highest version in it and the commits before it.
    pub(super) last_version: u64,
}

/// Memory of an earlier commit, to be used again.
pub(super) struct Spare {
    pub(super) buffer: Buffer,
    pub(super) records: Vec<Record>,
    pub(super) waiters: Vec<Waiter>,
}
