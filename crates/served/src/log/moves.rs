//! Live records are moved from the tail of the ring to its head, so that the space behind the tail
//! can be used again.

use super::{Batch, Log, RING, Spare};
use crate::Buffer;
use crate::crc::crc32c;
use crate::io::{Device, OpKind};
use crate::ops::{LogOp, Ops, Purpose};
use crate::pages::DirtyPages;
use destage_nvslog::DESCRIPTOR_BYTES_MAX;
use destage_nvslog::contents::{Move, Stored};
use destage_nvslog::record::Record;
use destage_nvslog::space::Purpose as Room;

impl Log {
    /// Moves the live records of some commits to the head, as many as fit in one commit. `false`:
    /// none can be moved yet.
    pub(super) fn evacuate(
        &mut self,
        commits: &core::ops::Range<u64>,
        pages: &DirtyPages,
        ops: &mut Ops,
    ) -> bool {
        let mut batch = self.new_batch();
        let most = self.space.commit_blocks_max();
        for (record, stored) in self.contents.live_in(commits) {
            let bytes = stored.map_or(0, |s| s.blocks as usize * self.block_bytes as usize);
            let descriptor = batch.descriptor + record.encoded_bytes();
            let blocks = self.blocks_of(descriptor) + self.blocks_of(batch.payload + bytes);
            if descriptor > DESCRIPTOR_BYTES_MAX
                || DESCRIPTOR_BYTES_MAX + batch.payload + bytes > batch.buffer.len()
                || blocks > most
            {
                break;
            }
            let at = DESCRIPTOR_BYTES_MAX + batch.payload;
            if !self.fetch((record, stored), pages, &mut batch.buffer[at..at + bytes], ops) {
                continue;
            }
            batch.payload += bytes;
            batch.descriptor = descriptor;
            batch.records.push(record);
        }
        let blocks = self.blocks_of(batch.descriptor) + self.blocks_of(batch.payload);
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
        for record in &batch.records {
            if let Record::Data { page, version, .. } = record {
                self.moves.remove(&(page.0, *version));
            }
        }
        self.records_moved += batch.records.len() as u64;
        self.write(batch, place, ops);
        true
    }

    /// The payload of a record that is to be moved: from memory if that has the same write,
    /// otherwise read back. `false`: it has not been read yet.
    fn fetch(&mut self, moved: Move, pages: &DirtyPages, into: &mut [u8], ops: &mut Ops) -> bool {
        let (Record::Data { page, version, .. }, Some(stored)) = moved else { return true };
        let copies = [pages.current(page.0), pages.in_flight(page.0)];
        let same = copies.into_iter().flatten().find(|held| held.version == version);
        if let Some(held) = same {
            into.copy_from_slice(pages.bytes(held));
            return true;
        }
        let device = match self.moves.get(&(page.0, version)) {
            Some((_, Some(bytes))) if crc32c(bytes) == stored.crc => {
                into.copy_from_slice(bytes);
                return true;
            }
            Some((_, None)) => return false,
            // The checksum does not match. If no device has it intact it stays where it is until
            // the newer write, which is in memory, replaces it.
            Some((device, Some(_))) if device + 1 >= self.devices.len() => return false,
            Some((device, Some(_))) => device + 1,
            None => 0,
        };
        let Stored { block, blocks, .. } = stored;
        let kind = OpKind::Read {
            offset: RING + block * u64::from(self.block_bytes),
            bytes: blocks as usize * self.block_bytes as usize,
        };
        let purpose = Purpose::Log(LogOp::Move { page: page.0, version });
        ops.push(Device::Nvs(self.devices[device]), purpose, kind);
        self.moves.insert((page.0, version), (device, None));
        false
    }

    /// A payload to be moved was read; `None`: the device could not, another one is asked.
    pub(super) fn moved(&mut self, page: u64, version: u64, bytes: Option<Buffer>) {
        match (bytes, self.moves.get_mut(&(page, version))) {
            (Some(bytes), Some(moving)) => moving.1 = Some(bytes),
            (Some(_), None) => {}
            (None, _) => drop(self.moves.remove(&(page, version))),
        }
    }
}
