//! NVS devices that deceive: a write past the cache that was answered and never made, or made in
//! another place, and bits that rot. With the other device in sync nothing may be lost and no start
//! refused. Alone, a start must refuse or have everything, if a later commit says that what is
//! missing was durable: what is newer than that looks like a write that the power failure tore
//! (docs/durability.md, "What is assumed of the media").

use super::device::{Device as Disk, Durable, SECTOR};
use super::run::Run;
use destage_nvslog::commit::Claim;
use destage_nvslog::superblock::DATA_START;
use destage_served::Device;
use std::ops::Range;
use std::sync::Arc;

/// The anchors: first byte, and behind the last.
const ANCHORS: u64 = 4096;
const ANCHORS_END: u64 = 12_288;

/// Of the writes of a life, those of its start.
const FIRST: usize = 4;

/// What an NVS device has done.
#[derive(Clone, Copy)]
enum Deceit {
    Lost,
    Misdirected,
    Rotten,
}

impl Run {
    /// Sometimes, with the power off, it turns out that an NVS device has deceived.
    ///
    /// # Errors
    /// A start with both of two devices does not repair the one that has.
    pub(super) fn maybe_deceive(&mut self) -> Result<(), String> {
        let any_twins = (0..self.world.nvs.len()).any(|copy| self.has_twins(copy));
        if !self.case.mishaps || !any_twins && self.draws.deceits.below(3) > 0 {
            return Ok(());
        }
        // One fault of the log at a time.
        if self.mishaps.any() || self.world.nvs.iter().any(Disk::has_bad) {
            return Ok(());
        }
        let (devices, mirrored) = (self.world.nvs.len() as u64, self.is_mirrored());
        // Which one of two is in use is known only with the power on.
        if devices == 0 || self.nvs_lost() || devices > 1 && !mirrored {
            return Ok(());
        }
        if self.world.nvs_is_memory {
            // Memory has no drive that loses or misdirects writes.
            return Ok(());
        }
        let mut copy = self.draws.deceits.below(devices) as usize;
        let twin = (0..self.world.nvs.len()).find(|copy| self.has_twins(*copy));
        let twin = twin.filter(|_| mirrored && self.draws.pressed.below(4) > 0);
        copy = twin.unwrap_or(copy);
        if self.world.nvs[copy].was_full {
            // The order of writes says nothing of what was tried again later.
            return Ok(());
        }
        let drawn = self.draws.deceits.below(3) as usize;
        let drawn = if twin.is_some() { 0 } else { drawn };
        let deceit = [Deceit::Lost, Deceit::Misdirected, Deceit::Rotten][drawn];
        let protected = match mirrored {
            true => Vec::new(),
            false if self.stopped_cleanly => Vec::new(),
            false => unconfirmed(&self.world.nvs[copy]),
        };
        let before = self.world.nvs[copy].clone();
        let Some(place) = self.deceive(copy, deceit, &protected) else { return Ok(()) };
        self.counts.deceits += 1;
        if (ANCHORS..ANCHORS_END).contains(&place) {
            // The other anchor is enough.
            (self.mishaps.must_start, self.anchors_cut) = (true, true);
        } else if mirrored && place >= DATA_START {
            // The other device has it: a refusal would be wrong.
            self.suppose_alone(copy as u16)?;
            self.set_nvs_state(false, false);
            self.mishaps.rotten_log = true;
        } else {
            self.mishaps.undo.push((Device::Nvs(copy as u16), before));
            self.mishaps.changed = true;
        }
        Ok(())
    }

    /// Whether an NVS device has, in the place of a commit, another one of the same sequence that
    /// would be back if the write of the new one was lost.
    fn has_twins(&self, copy: usize) -> bool {
        self.case.pressed
            && self.world.nvs[copy].written_durably().iter().any(|write| is_twin(write))
    }

    /// Carries it out; the first byte that is not as it was.
    fn deceive(&mut self, copy: usize, deceit: Deceit, protected: &[Range<u64>]) -> Option<u64> {
        let mirrored = self.is_mirrored();
        let (end, rng) = (self.case.nvs_bytes(), &mut self.draws.deceits);
        let disk = &mut self.world.nvs[copy];
        let is_free = |at: u64, bytes: u64| {
            !protected.iter().any(|range| range.start < at + bytes && at < range.end)
        };
        if let Deceit::Rotten = deceit {
            let written = disk.written();
            let sector = *written.get(rng.below(written.len().max(1) as u64) as usize)?;
            let at = sector * SECTOR as u64;
            let done = is_free(at, SECTOR as u64) && disk.rot(sector, rng.below(4096));
            return done.then_some(at);
        }
        let mut made: Vec<Arc<Durable>> = disk.written_durably().to_vec();
        // A start that is interrupted after it found an older superblock leaves what is refused,
        // and can no longer be undone.
        let is_mark = |at: u64| at < DATA_START && !(ANCHORS..ANCHORS_END).contains(&at);
        made.retain(|w| !is_mark(w.offset) && is_free(w.offset, w.new.len() as u64));
        let still_there = |write: &Durable| {
            let mut now = vec![0; write.new.len()];
            disk.read(write.offset, &mut now).is_ok() && now == write.new && now != write.old
        };
        made.retain(|write| still_there(write));
        let is_anchor = |write: &Durable| (ANCHORS..ANCHORS_END).contains(&write.offset);
        let anchors: Vec<&Arc<Durable>> =
            disk.written_durably().iter().filter(|w| is_anchor(w)).collect();
        if rng.below(3) == 0 && !anchors.is_empty() {
            // This one, and all later ones of the place.
            made = vec![Arc::clone(anchors[rng.below(anchors.len() as u64) as usize])];
        }
        // Often one in whose place a commit of the same sequence was: the devices then have two.
        let twins: Vec<Arc<Durable>> =
            made.iter().filter(|write| is_twin(write)).cloned().collect();
        if self.case.pressed && !twins.is_empty() {
            made = twins;
        }
        // Often what the start wrote: the devices differ then in whole epochs.
        let of = if rng.below(4) == 0 { made.len().min(FIRST) } else { made.len() };
        let write = made.get(rng.below(of.max(1) as u64) as usize)?.clone();
        disk.put(write.offset, &write.old);
        if let (Deceit::Misdirected, false) = (deceit, is_anchor(&write)) {
            let bytes = write.new.len() as u64;
            let places = (end - DATA_START).saturating_sub(bytes) / SECTOR as u64;
            let other = match rng.below(2) {
                // Where another write was made.
                0 => made[rng.below(made.len() as u64) as usize].offset,
                _ => DATA_START + rng.below(places + 1) * SECTOR as u64,
            };
            // Over the newest commit, which confirms all before it, nothing is promised alone.
            let newest = disk.written_durably().iter().max_by_key(|write| sequence(&write.new));
            let newest = newest.filter(|_| !mirrored).map(|write| write.offset);
            let confirmed = newest.is_none_or(|at| at < other || other + bytes <= at);
            if other + bytes <= end && is_free(other, bytes) && confirmed {
                disk.put(other, &write.new);
            }
        }
        Some(write.offset)
    }
}

/// Whether a commit was written over another one of the same sequence.
fn is_twin(write: &Durable) -> bool {
    sequence(&write.old).is_some_and(|old| Some(old) == sequence(&write.new))
}

/// The sequence of a commit.
fn sequence(bytes: &[u8]) -> Option<u64> {
    Claim::read(bytes).map(|claim| claim.header.sequence)
}

/// Whether a write is still as it was made: a start that was interrupted may have overwritten it.
fn is_there(disk: &Disk, write: &Durable) -> bool {
    let mut now = vec![0; write.new.len()];
    disk.read(write.offset, &mut now).is_ok() && now == write.new
}

/// The newest commit that a later one says is durable.
pub(super) fn last_confirmed(disk: &Disk) -> Option<Arc<Durable>> {
    let written = || disk.written_durably().iter().filter(|write| is_there(disk, write));
    let headers = written().filter_map(|write| Claim::read(&write.new));
    let durable = headers.map(|claim| claim.header.durable_through).max()?;
    written().find(|write| sequence(&write.new) == Some(durable)).cloned()
}

/// What was written by commits that no later commit confirms: bytes of the device.
fn unconfirmed(disk: &Disk) -> Vec<Range<u64>> {
    let header = |write: &Durable| Claim::read(&write.new).map(|claim| claim.header);
    // Each commit is submitted right before its pages.
    let mut by_submission: Vec<&Durable> =
        disk.written_durably().iter().map(|write| &**write).collect();
    let there = by_submission.iter().filter(|write| is_there(disk, write));
    let confirmed = there.filter_map(|w| header(w)).map(|header| header.durable_through).max();
    let mut sequence = 0;
    let mut ranges = Vec::new();
    by_submission.sort_by_key(|write| write.asked);
    for write in by_submission {
        sequence = header(write).map_or(sequence, |header| header.sequence);
        if write.offset >= DATA_START && sequence > confirmed.unwrap_or(0) {
            ranges.push(write.offset..write.offset + write.new.len() as u64);
        }
    }
    ranges
}
