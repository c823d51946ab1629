//! Which starts may be refused: those for which what befell the devices is the reason.

use super::blame::Blame;
use super::device::Device as Disk;
use super::run::Run;
use destage_engine::units::DiskId;
use destage_served::Device;
use std::collections::BTreeSet;

impl Run {
    /// With the power off, before anything befalls the devices: whether one superblock of each
    /// device is enough, and one of two NVS devices.
    pub(super) fn note_agreement(&mut self) {
        let clean = !self.mishaps.any();
        self.mishaps.agreed = clean && self.nvs_named_by_all().is_some();
        self.mishaps.each_suffices = clean && self.uses_both();
    }

    /// Whether what befell the devices explains the last refusal.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn check_refused(&self, why: &str) -> Result<(), String> {
        if self.cut_acceptance {
            // What is left of the log has been accepted, and not been written again.
            return Ok(());
        }
        let affected = self.affected();
        let explained = match self.mishaps.blamed.unwrap_or(Blame::Nothing) {
            Blame::Short(device) => affected.contains(&device),
            Blame::Members => {
                let mut missing = self.failing();
                affected.iter().for_each(|device| {
                    if let Device::Member(member) = device {
                        missing.insert(DiskId(*member));
                    }
                });
                // With a change that was cut short, a device that has it alone looks newer than
                // all, once a copy of its superblock is damaged.
                let alone = !self.mishaps.agreed && !affected.is_empty();
                alone || !self.case.geometry.survives(&missing)
            }
            Blame::Nvs => {
                let copies = 0..self.world.nvs.len() as u16;
                let hit = copies.filter(|copy| affected.contains(&Device::Nvs(*copy))).count();
                hit > usize::from(self.mishaps.each_suffices)
            }
            Blame::Nothing => false,
        };
        match explained {
            true => Ok(()),
            false => {
                Err(format!("refused, and what befell {affected:?} does not explain it: {why}"))
            }
        }
    }

    /// The devices that something has befallen since a start was completed, which they do not
    /// survive by themselves.
    fn affected(&self) -> BTreeSet<Device> {
        let members =
            (0u16..).zip(&self.world.members).map(|(at, disk)| (Device::Member(at), disk));
        let nvs = (0u16..).zip(&self.world.nvs).map(|(at, disk)| (Device::Nvs(at), disk));
        let hit = |(device, disk): &(Device, &Disk)| {
            let log = matches!(device, Device::Nvs(_)) && self.log_is_hit(disk);
            disk.gone || disk.hangs || disk.unwritable || log
        };
        let hit = members.chain(nvs).filter(hit).map(|(device, _)| device);
        let undo = self.mishaps.undo.iter().map(|(device, _)| *device);
        // The other copy is enough, where it says the same.
        let rotten = self.mishaps.rotten.iter().filter(|_| !self.mishaps.agreed);
        let rotten = rotten.map(|(device, ..)| *device);
        let away = self.mishaps.away.iter().copied();
        hit.chain(undo).chain(rotten).chain(away).collect()
    }

    /// Whether an NVS device cannot read what it has in no other copy of its own.
    fn log_is_hit(&self, disk: &Disk) -> bool {
        let bad = |first: u64, end: u64| disk.first_bad(first..end).is_some();
        let copies = bad(0, 8) && bad(24, 32) || bad(8, 16) && bad(16, 24);
        // A crash may have torn the other copy, in memory, or in a mark.
        let one = !self.mishaps.agreed || self.world.nvs_is_memory;
        bad(32, u64::MAX) || copies || one && bad(0, 32)
    }
}
