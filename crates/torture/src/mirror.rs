//! NVS mirrors that are replaced while the array is tortured, and what a new one has.

use super::device::Device as Disk;
use super::run::Run;
use super::starve::Kind as Slow;
use super::world::World;
use destage_served::{
    Allow, AssembleError, Assembly, Device, Found, IoError, MirrorStatus, NoSuperblock,
};

impl Run {
    /// Sometimes puts an empty device in the place of a failed NVS device.
    ///
    /// # Errors
    /// It is refused for no reason.
    pub(super) fn maybe_mirror(&mut self) -> Result<(), String> {
        if !self.case.scrubs || self.case.nvs == 0 || self.draws.scrubs.below(20) > 0 {
            return Ok(());
        }
        let status = self.volume().status();
        if status.nvs_devices.len() != 1 || status.stopped || self.mirror_status().is_some() {
            return Ok(());
        }
        let copy = 1 - status.nvs_devices[0];
        if !self.hold_copies(copy) {
            self.press(&[Slow::Copies, Slow::Device(Device::Nvs(copy))]);
        }
        self.replace_nvs(copy)
    }

    /// Puts an empty device in the place of an NVS device, to be filled.
    ///
    /// # Errors
    /// It is refused.
    pub fn replace_nvs(&mut self, copy: u16) -> Result<(), String> {
        let place = usize::from(copy);
        if place == self.world.nvs.len() {
            self.world.nvs.push(Disk::default());
        }
        self.world.replace_nvs(copy);
        self.counts.mirrors_begun += 1;
        let mut uuid = [0x40; 16];
        uuid[8..].copy_from_slice(&self.counts.mirrors_begun.to_le_bytes());
        let now = self.now();
        let added = self.volume_mut().add_mirror(now, copy, uuid, u64::MAX, 512);
        added.map_err(|why| format!("no mirror: {why}"))?;
        self.collect()
    }

    /// If the power failed now and the other device were gone, a new mirror would have the log
    /// without damage, and the bytes of all pages.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn check_new_mirror(&mut self, copy: u16) -> Result<(), String> {
        let mut world = self.world.after_a_power_failure();
        let (new, other) = (usize::from(copy), usize::from(1 - copy));
        world.nvs[other].gone = true;
        if world.nvs[new].gone || world.nvs[new].has_bad() {
            return Ok(());
        }
        let assembly = match assembled(&mut world, &Allow::degraded()) {
            Ok(assembly) => assembly,
            // Too many members may be missing.
            Err(_) if !self.case.geometry.survives(&self.failing()) => return Ok(()),
            Err(why) => return Err(format!("refused with the new NVS device alone: {why:?}")),
        };
        let found = destage_served::inspect(&mut world, &assembly);
        self.counts.mirrors_checked += 1;
        match (&found.damage, found.tail, &found.lost[..]) {
            (None, Some(_), []) => Ok(()),
            (damage, tail, lost) => Err(format!(
                "the new NVS device {copy} has no good log: {damage:?}, tail {tail:?}, \
                 lost {lost:?}"
            )),
        }
    }

    /// The NVS device that is being filled.
    pub fn mirror_status(&self) -> Option<MirrorStatus> {
        self.volume().mirror_status()
    }

    /// Whether a change of the set of devices is being recorded.
    pub fn volume_is_changing(&self) -> bool {
        self.volume().is_changing()
    }

    /// NVS devices in use.
    pub fn nvs_in_use(&self) -> Vec<u16> {
        self.volume().status().nvs_devices
    }

    /// Whether the devices make an array without leaving any out, as a start does
    /// not say.
    ///
    /// # Errors
    /// Why not.
    pub fn assembles(&mut self) -> Result<(), String> {
        let assembly = assembled(&mut self.world, &Allow::default());
        assembly.map(|_| ()).map_err(|error| format!("assemble: {error:?}"))
    }
}

/// What the devices that are there make.
pub(super) fn assembled(world: &mut World, allow: &Allow) -> Result<Assembly, AssembleError> {
    destage_served::assemble(&superblocks(world, &[]), allow)
}

/// What each device says of itself. Of these it is known why they have nothing to say.
pub(super) fn superblocks(world: &mut World, known: &[(Device, NoSuperblock)]) -> Vec<Found> {
    let members = (0..world.members.len() as u16).map(Device::Member);
    let devices = members.chain((0..world.nvs.len() as u16).map(Device::Nvs));
    let mut said = |device| {
        let why = known.iter().find(|(other, _)| *other == device);
        match (why, world.device(device).gone) {
            (Some((_, why)), _) => Err(*why),
            (None, true) => Err(NoSuperblock::Io(IoError::GONE)),
            (None, false) => destage_served::read_superblock(world, device),
        }
    };
    devices.map(|device| (device, said(device))).collect()
}
