//! Live records are moved from the tail of the ring to its head, so that the space behind the tail
//! can be used again. Pages stay in their slots.

use super::{Batch, Log, Spare};
use crate::ops::Ops;
use destage_nvslog::space::Purpose as Room;

impl Log {
    /// Moves the live records of some commits to the head, as many as fit in one commit. `false`:
    /// none can be moved yet.
    pub(super) fn evacuate(&mut self, commits: &core::ops::Range<u64>, ops: &mut Ops) -> bool {
        let mut batch = self.new_batch();
        for record in self.contents.live_in(commits) {
            let bytes = batch.bytes + record.encoded_bytes();
            if !self.fits(bytes) {
                break;
            }
            batch.bytes = bytes;
            batch.records.push(record);
        }
        let blocks = self.blocks_of(batch.bytes);
        let place = match batch.records.is_empty() {
            true => None,
            false => self.space.allocate(blocks, Room::Housekeeping),
        };
        let Some(place) = place else {
            let Batch { buffer, mut records, waiters, .. } = batch;
            records.clear();
            self.pool.push(Spare { buffer, records, waiters });
            return false;
        };
        self.records_moved += batch.records.len() as u64;
        self.slots.clear();
        self.write(batch, place, ops);
        true
    }
}
