//! Devices that fail under load or while the power is off, and what that puts at risk.

use super::device::Device as Disk;
use super::run::Run;
use super::starve::{self, Kind as Slow, SUPERBLOCKS, Starved};
use destage_engine::array::disks::DiskSet;
use destage_engine::units::{DiskId, PAGE_BYTES};
use destage_served::{Cause, Device, OpKind};

/// Turns of an array that has stopped, in which it is looked at.
const TURNS_STOPPED: u32 = 12;

/// Pages that a member cannot read, far from the limit at which it fails for that.
const FEW_BAD: u32 = 4;

impl Run {
    /// A device fails, or a medium.
    pub(super) fn fault(&mut self) {
        let geometry = self.case.geometry;
        let member = self.draws.run.below(u64::from(geometry.disks)) as u16;
        let mut failed = self.failing();
        failed.insert(DiskId(member));
        let next_to_bad = self.may_fail_next_to_bad(&failed);
        let tolerates = geometry.survives(&failed) && self.rows_are_right() && next_to_bad;
        let drawn = self.draws.run.below(10);
        if matches!(drawn, 0..=2 | 7) {
            self.press(&[Slow::Marks(SUPERBLOCKS)]);
        }
        self.many_bad |= self.bad_media && tolerates && drawn <= 2;
        match drawn {
            0 if tolerates => self.world.members[usize::from(member)].gone = true,
            1 if tolerates => self.world.members[usize::from(member)].hangs = true,
            2 if tolerates => {
                self.volume_mut().give_up_member(member, Cause::Asked);
            }
            3..=6 => {
                let redundant = geometry.level.is_redundant();
                let mut others =
                    (0..).zip(&self.world.members).filter(|(other, _)| *other != member);
                let alone = !others.any(|(_, disk)| disk.has_bad());
                if redundant && alone && self.failing().is_empty() && self.rows_are_right() {
                    let first = (1 << 20) / 512 + self.draws.run.below(geometry.disk_pages * 8);
                    let sectors = first..first + 1 + self.draws.run.below(8);
                    // Of a row of which another member could not be read for a while: a scrub may
                    // have seen that, and now this.
                    let pages = first / 8 * 8..sectors.end.next_multiple_of(8);
                    if self.world.members.iter().any(|disk| disk.was_bad(pages.clone())) {
                        return;
                    }
                    self.bad_media = true;
                    for sector in sectors {
                        self.world.members[usize::from(member)].spoil(sector);
                    }
                }
            }
            7 if self.case.nvs == 2 => {
                let copy = self.draws.run.below(2) as usize;
                let fail = |disk: &mut Disk, hangs: bool| match hangs {
                    true => disk.hangs = true,
                    false => disk.gone = true,
                };
                let hangs = self.draws.run.below(2) == 0;
                if !self.world.nvs[1 - copy].gone && !self.world.nvs[1 - copy].hangs {
                    fail(&mut self.world.nvs[copy], hangs);
                }
            }
            8 if self.case.nvs > 0 && self.draws.run.below(8) == 0 => {
                self.world.nvs.iter_mut().for_each(|disk| disk.gone = true);
            }
            9 if !geometry.survives(&failed)
                && self.draws.run.below(8) == 0
                && !self.nvs_lost
                && self.world.crash_at.is_some() =>
            {
                self.stopping = true;
                self.world.members[usize::from(member)].gone = true;
            }
            _ => {}
        }
    }

    /// Whether these members may fail while sectors cannot be read: seldom, and not if one more
    /// may fail for what it could not read.
    fn may_fail_next_to_bad(&mut self, failing: &DiskSet) -> bool {
        if !self.bad_media {
            return true;
        }
        let mut more = failing.clone();
        for (member, disk) in (0..).zip(&self.world.members) {
            if disk.bad_pages > FEW_BAD {
                more.insert(DiskId(member));
            }
        }
        let survives = self.case.geometry.survives(&more);
        survives && self.case.mishaps && self.draws.latent.below(3) == 0
    }

    /// Members that have failed, including those that the volume does not know of yet, and those
    /// that it has not reported yet.
    pub(super) fn failing(&self) -> DiskSet {
        let mut failing = self.failed.clone();
        if let Some(volume) = &self.volume {
            volume.controller().failed().iter().for_each(|disk| {
                failing.insert(disk);
            });
        }
        for (number, disk) in (0..).zip(&self.world.members) {
            if disk.gone || disk.hangs || disk.fails_soon() || disk.stuck.is_some() {
                failing.insert(DiskId(number));
            }
        }
        failing
    }

    /// An array that has stopped writes nothing more, whatever is done or given up then: the next
    /// start finds it as it was. If its NVS is lost, its members still get what is dirty.
    ///
    /// # Errors
    /// It writes.
    pub(super) fn check_still(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_STOPPED {
            if !self.stopped || self.nvs_lost() || self.world.crashed {
                return Ok(());
            }
            let done = self.world.finish_one();
            let (now, drawn) = (self.now, self.draws.stops.below(8));
            let member = self.draws.stops.below(u64::from(self.case.geometry.disks)) as u16;
            let volume = self.volume_mut();
            if let Some((id, result)) = done {
                volume.done(now, id, result);
            }
            match drawn {
                0 => volume.give_up_member(member, Cause::Asked),
                1 => volume.give_up_nvs(now, member % 2, Cause::Asked),
                _ => {}
            }
            volume.turn(now);
            let mut ops = Vec::new();
            volume.take_ops(&mut ops);
            if let Some(op) = ops.iter().find(|op| matches!(op.kind, OpKind::Write { .. })) {
                return Err(format!("an array that has stopped writes to {}", op.device));
            }
            self.world.take(&mut ops);
        }
        Ok(())
    }

    /// Members that were gone may be back; if the array knew that they had failed, it must not
    /// use them.
    pub(super) fn members_return(&mut self) {
        for member in 0..self.world.members.len() {
            if self.stopping || self.draws.run.below(2) == 0 {
                self.world.members[member].gone = false;
            }
        }
        (self.stopping, self.stopped) = (false, false);
    }

    /// The power failed while the array was written through without NVS.
    pub(super) fn lost_writes(&mut self, dirty: &[(u64, u64)]) {
        let pages: Vec<u64> =
            dirty.iter().flat_map(|(first, pages)| *first..first + pages).collect();
        let per_group = self.case.geometry.pages_per_group();
        let at_risk: Vec<u64> =
            self.at_risk.iter().flat_map(|(first, pages)| *first..first + pages).collect();
        for page in &pages {
            if at_risk.contains(page) {
                self.model.wild(&(page * PAGE_BYTES..(page + 1) * PAGE_BYTES));
            }
        }
        if !self.case.geometry.level.is_redundant() {
            return;
        }
        let mut groups: Vec<u64> = pages.iter().map(|page| page / per_group).collect();
        groups.dedup();
        for group in groups {
            // Pages that a rebuild could not reconstruct are like those of a failed member.
            if !self.failing().is_empty() || self.rows_lost {
                let first = group * per_group * PAGE_BYTES;
                self.model.wild(&(first..first + per_group * PAGE_BYTES));
            }
            self.holes.push(group);
        }
    }

    /// Takes a member away while the array is down, if the level tolerates it.
    pub fn take_member_away(&mut self) {
        let member = self.draws.run.below(u64::from(self.case.geometry.disks)) as u16;
        if self.may_be_away(member) && !self.change_doubted {
            self.world.members[usize::from(member)].gone = true;
        }
    }

    /// Whether the level tolerates that this member is absent at the next start.
    pub(super) fn may_be_away(&self, member: u16) -> bool {
        let mut failed = self.failing();
        failed.insert(DiskId(member));
        self.case.geometry.survives(&failed) && self.rows_are_right()
    }

    /// Whether what rows imply is right, and will be.
    pub(super) fn rows_are_right(&self) -> bool {
        let deceits = |disk: &Disk| disk.loses_write.is_some();
        self.holes.is_empty() && !self.world.members.iter().any(deceits)
    }

    /// A bit flips on one of two NVS devices that are in sync.
    pub fn rot(&mut self) {
        // One fault of the log at a time.
        let bad = self.world.nvs.iter().any(Disk::has_bad);
        if bad || self.mishaps.pending() || !core::mem::take(&mut self.mirrored) {
            return;
        }
        let copy = self.draws.run.below(2) as usize;
        self.mishaps.rotten_log = true;
        for _ in 0..1 + self.draws.run.below(20) {
            let log = self.case.nvs_bytes() - (1 << 20);
            let (sector, bit) = self.place_in_log(log);
            self.counts.rotten += u64::from(self.world.nvs[copy].rot(sector, bit));
        }
    }

    /// In some lives something is slow. A crash comes later then.
    pub(super) fn maybe_starve(&mut self) {
        if !self.case.mishaps {
            return;
        }
        let seed = self.case.seed ^ self.counts.crashes << 48;
        let rng = &mut self.draws.starved;
        let stays = rng.below(2) == 0;
        if !(self.slow.is_some() && stays) {
            self.slow = None;
            if rng.below(4) == 0 {
                self.slow = Some(starve::draw(rng, self.case.geometry.disks, self.case.nvs));
            }
        }
        let Some(kind) = self.slow.or_else(|| self.slow_anchor()) else { return };
        if let Slow::Device(Device::Member(member)) = kind
            && self.failing().contains(DiskId(member))
        {
            return;
        }
        self.world.starved = Some(Starved::new(kind, seed));
        let later = self.draws.starved.below(3000);
        self.world.crash_at = self.world.crash_at.map(|at| at + later);
        self.counts.slow += 1;
    }
}
