//! What an operator does between two starts: an array is created, and the power fails in that; the
//! settings change.

use super::device::Survivors;
use super::model::Model;
use super::run::{End, Run};
use super::start::is_refusal;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Ack, Creation};

impl Run {
    /// Sometimes the power fails while an array is created. What is left must be refused, or be an
    /// array of zeros. Then its devices are wiped as an operator would, not the logs, and are those
    /// of the array to be created.
    ///
    /// # Errors
    /// Something else can be read from it.
    pub(super) fn maybe_cut_creation(&mut self) -> Result<(), String> {
        if !self.case.mishaps || self.draws.changes.below(8) > 0 {
            return Ok(());
        }
        let first = other_array(self.case.creation());
        // Two superblocks of each device and what a log begins with, each flushed.
        let (members, nvs) = (first.members.len() as u64, first.nvs.len() as u64);
        let operations = 4 * members + 8 * nvs;
        self.world.crash_at =
            Some(self.world.operations + self.draws.changes.below(operations + 1));
        let created = destage_served::create(&mut self.world, &first);
        self.counts.cut_creations += u64::from(created.is_err());
        self.change_cut = created.is_err();
        let survivors = [Survivors::None, Survivors::All, Survivors::Random]
            [self.draws.changes.below(3) as usize];
        self.world.crash(survivors);
        let opened = match self.draws.changes.below(2) {
            0 => self.open_as(true),
            _ => self.open_as(false),
        };
        match opened {
            Ok(End::Done) => {
                self.read_all()?;
                // The logs are not wiped.
                self.load(20)?;
            }
            Ok(End::Crash) => return Err("the power failed by itself".to_string()),
            Err(why) if created.is_ok() => return Err(format!("created, and refused: {why}")),
            // Some device has no superblock yet.
            Err(why) if is_refusal(&why) && self.nvs_named_by_all().is_none() => {}
            Err(why) => return Err(format!("after a creation that was cut: {why}")),
        }
        self.wipe();
        self.change_cut = false;
        Ok(())
    }

    /// The first MiB of each device is wiped, and nothing is known of the array that it was of.
    fn wipe(&mut self) {
        self.volume = None;
        self.world.crash(Survivors::All);
        // A creation fills the members with zeros.
        self.world.members.iter_mut().for_each(|disk| *disk = disk.wiped(u64::MAX));
        self.world.nvs.iter_mut().for_each(|disk| *disk = disk.wiped(DATA_START));
        let world = core::mem::replace(&mut self.world, super::world::World::new(0, 0, 0));
        let model = Model::new(self.bytes(), self.case.settings.ack == Ack::Flush);
        let mut made = Run::of(self.case.clone(), world, model);
        core::mem::swap(&mut made.draws.changes, &mut self.draws.changes);
        made.counts = self.counts;
        *self = made;
    }

    /// Sometimes the next start has other settings.
    pub(super) fn maybe_change_settings(&mut self) {
        if !self.case.mishaps || self.draws.changes.below(4) > 0 {
            return;
        }
        self.counts.other_settings += 1;
        self.case.redraw_settings(&mut self.draws.changes);
    }
}

/// The same array with other UUIDs.
fn other_array(mut creation: Creation) -> Creation {
    let Creation { array, log, members, nvs, .. } = &mut creation;
    let all = [array, log].into_iter().chain(members).chain(nvs);
    all.for_each(|uuid| uuid[1] ^= 0x80);
    creation
}
