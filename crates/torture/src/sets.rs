//! A device that is there hinders no start: of any set of devices that makes an array, each larger
//! one does, too, whatever the device that comes says. But it may show that an NVS device is
//! missing which may have what nobody else has, or that it served without the others. And a mark
//! that was cut short, which it has alone, may need `--degraded`.

use super::mirror::assembled;
use super::run::Run;
use super::world::World;
use destage_served::{Allow, AssembleError, Assembly, Device};

/// Sets of devices that are tried after a crash, and after one that cut a change short.
const SETS: [u64; 2] = [12, 40];

impl Run {
    /// Tries sets of devices, which are chosen at random. Nothing is started.
    ///
    /// # Errors
    /// A set makes an array, and with one device more it does not.
    pub(super) fn check_sets(&mut self) -> Result<(), String> {
        // An array that stops cuts its marks short, too.
        self.marks_cut |= !self.ahead().is_empty();
        let mut world = self.copy().world;
        let members = (0..world.members.len() as u16).map(Device::Member);
        let all = members.chain((0..world.nvs.len() as u16).map(Device::Nvs));
        let there: Vec<Device> = all.filter(|device| !world.device(*device).gone).collect();
        let restored = self.mishaps.any();
        let rotten: Vec<Device> = self.mishaps.rotten.iter().map(|(device, ..)| *device).collect();
        let whole = !self.marks_cut && !restored;
        // Old disks may be back in the places of those that replaced them.
        let older = restored || !self.retired.is_empty();
        for _ in 0..SETS[usize::from(self.cut_change.is_some())] {
            let degraded = !whole || self.draws.sets.below(2) == 0;
            let allow = Allow { degraded, ..Allow::default() };
            for device in &there {
                world.device(*device).gone = self.draws.sets.below(4) == 0;
            }
            let Ok(smaller) = assembled(&mut world, &allow) else { continue };
            let away: Vec<Device> =
                there.iter().copied().filter(|device| world.device(*device).gone).collect();
            for device in &away {
                world.device(*device).gone = false;
                match assembled(&mut world, &allow).err() {
                    _ if served_without(&mut world, *device, &smaller) => {}
                    _ if older && is_newer(&mut world, *device, &smaller) => {}
                    None
                    | Some(
                        AssembleError::NvsMissing(..)
                        | AssembleError::Degraded(Device::Nvs(_), _)
                        | AssembleError::Stale { device: Device::Nvs(_), .. },
                    ) => {}
                    // With the damaged copy of a mark that was cut short it is as before that.
                    Some(AssembleError::Stale { device, .. }) if rotten.contains(&device) => {}
                    Some(why) => {
                        return Err(format!(
                            "without {away:?} the array starts; with {device:?} of them: {why:?}"
                        ));
                    }
                }
                world.device(*device).gone = true;
            }
        }
        Ok(())
    }
}

/// Whether this device names a base that is newer than all that the others know: they have been
/// restored from older copies, or are disks that were replaced.
fn is_newer(world: &mut World, device: Device, others: &Assembly) -> bool {
    let own = destage_served::read_superblock(world, device);
    own.is_ok_and(|own| own.superblock.base > others.built_on())
}

/// Whether this device may have served without one of those that the others would use.
fn served_without(world: &mut World, device: Device, others: &Assembly) -> bool {
    let Ok(own) = destage_served::read_superblock(world, device) else { return false };
    // A try in its first copy alone says nothing, unless the others lack what it was made on.
    let counts = own.confirmed || own.superblock.base > others.built_on();
    let said = [counts.then_some(own.superblock), own.older];
    said.into_iter().flatten().any(|said| {
        let mut members = 0..said.geometry.disks;
        let member = members.any(|at| said.has_failed(at) && !others.failed.contains(&at));
        let nvs = others.copies.iter().any(|copy| said.nvs[usize::from(*copy)].is_none());
        said.generation > others.built_on() && (member || nvs)
    })
}
