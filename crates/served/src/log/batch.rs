//! Records that gather until they are a commit, and how long they may wait for others.

use super::Waiter;
use crate::Buffer;
use destage_engine::units::Duration;
use destage_nvslog::record::Record;

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
