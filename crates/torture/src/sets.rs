//! A device that is there hinders no start: of any set of devices that makes an array with
//! `--degraded`, each larger one does, too, whatever the device that comes says. But it may show
//! that an NVS device is missing which may have what nobody else has.

use super::mirror::assembled;
use super::run::Run;
use destage_served::{Allow, AssembleError, Device};

/// Sets of devices that are tried after a crash.
const SETS: u64 = 12;

impl Run {
    /// Tries sets of devices, which are chosen at random. Nothing is started.
    ///
    /// # Errors
    /// A set makes an array, and with one device more it does not.
    pub(super) fn check_sets(&mut self) -> Result<(), String> {
        let mut world = self.copy().world;
        let members = (0..world.members.len() as u16).map(Device::Member);
        let all = members.chain((0..world.nvs.len() as u16).map(Device::Nvs));
        let there: Vec<Device> = all.filter(|device| !world.device(*device).gone).collect();
        for _ in 0..SETS {
            for device in &there {
                world.device(*device).gone = self.draws.sets.below(4) == 0;
            }
            if assembled(&mut world, &Allow::degraded()).is_err() {
                continue;
            }
            let away: Vec<Device> =
                there.iter().copied().filter(|device| world.device(*device).gone).collect();
            for device in &away {
                world.device(*device).gone = false;
                match assembled(&mut world, &Allow::degraded()).err() {
                    None
                    | Some(
                        AssembleError::NvsMissing(..)
                        | AssembleError::Stale { device: Device::Nvs(_), .. },
                    ) => {}
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
