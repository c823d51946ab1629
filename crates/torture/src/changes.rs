//! What an operator does between two starts: an array is created, and the power fails in that; the
//! settings change.

use super::device::Survivors;
use super::model::Model;
use super::run::{End, Run};
use destage_nvslog::superblock::DATA_START;
use destage_served::{Ack, Creation};

/// Operations of a creation, or more.
const OPERATIONS: u64 = 80;

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
        self.counts.cut_creations += 1;
        let first = other_array(self.case.creation());
        self.world.crash_at = Some(self.world.operations + self.draws.changes.below(OPERATIONS));
        let created = destage_served::create(&mut self.world, &first);
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
            }
            Ok(End::Crash) => return Err("the power failed by itself".to_string()),
            Err(why) if created.is_ok() => return Err(format!("created, and refused: {why}")),
            Err(_) => {}
        }
        self.wipe();
        Ok(())
    }

    /// The first MiB of each device is zeros, and nothing is known of the array that it was of.
    fn wipe(&mut self) {
        self.volume = None;
        self.world.crash(Survivors::All);
        for disk in self.world.members.iter_mut().chain(&mut self.world.nvs) {
            *disk = disk.wiped(DATA_START);
        }
        let world = core::mem::replace(&mut self.world, super::world::World::new(0, 0, 0));
        let model = Model::new(self.bytes(), self.case.settings.ack == Ack::Flush);
        let counts = self.counts;
        *self = Run::of(self.case.clone(), world, model);
        self.counts = counts;
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
