//! What mishaps have changed, to be undone after a start was refused.

use super::blame::Blame;
use super::device::Device as Disk;
use super::model::Model;
use destage_engine::array::disks::DiskSet;
use destage_engine::array::layout::DiskPage;
use destage_engine::units::Page;
use destage_served::Device;

/// Everything as it was at one moment with the power off.
pub(super) struct Snapshot {
    pub(super) members: Vec<Disk>,
    pub(super) nvs: Vec<Disk>,
    pub(super) model: Model,
    pub(super) failed: DiskSet,
    pub(super) holes: Vec<u64>,
    pub(super) reported_lost: Vec<(u64, u64)>,
    pub(super) rows_lost: bool,
    pub(super) retired: Vec<(u16, Disk)>,
    pub(super) nvs_lost: bool,
    pub(super) mirrored: bool,
    pub(super) cut_acceptance: bool,
    pub(super) left_whole: bool,
    pub(super) relogging: bool,
    pub(super) stopped_cleanly: bool,
    pub(super) change_doubted: bool,
    pub(super) wronged: Vec<Page>,
    /// As in [`Mishaps`].
    pub(super) unreadable_log: bool,
    pub(super) nvs_pages: u64,
    pub(super) room: Option<(u64, u64)>,
    /// Starts that were carried through since.
    pub(super) starts: u64,
}

/// What a mishap has changed, to be undone after a refusal.
#[derive(Default)]
pub(super) struct Mishaps {
    /// Devices as they were before.
    pub(super) undo: Vec<(Device, Disk)>,
    /// A device is not as it was, and no start has recorded it.
    pub(super) changed: bool,
    /// The next start must not be refused for what has happened.
    pub(super) must_start: bool,
    /// Devices that are away, or cannot be written.
    pub(super) away: Vec<Device>,
    /// Sectors of a log could not be read. A start that was interrupted may have written them
    /// again: what an older anchor needs of them is lost all the same.
    pub(super) unreadable_log: bool,
    /// Bits of a mirrored log have rotted: it has no other copy of them.
    pub(super) rotten_log: bool,
    /// A member's record of lost pages cannot be read.
    pub(super) lost_record: bool,
    /// A superblock of this device has a rotten bit: its sector, the bit, and the bytes with it.
    pub(super) rotten: Vec<(Device, u64, u64, [u8; 512])>,
    pub(super) snapshot: Option<Box<Snapshot>>,
    /// As the power failed, all devices said the same in both copies of their superblocks. No
    /// start has written since.
    pub(super) agreed: bool,
    /// As the power failed, each of two NVS devices had everything, and all devices knew it. No
    /// start has written since.
    pub(super) each_suffices: bool,
    /// What the last start that was refused was refused for.
    pub(super) blamed: Option<Blame>,
}

impl Mishaps {
    /// Whether there was a mishap that no start has accepted.
    pub(super) fn pending(&self) -> bool {
        !self.undo.is_empty() || !self.away.is_empty()
    }

    /// Whether there was a mishap that no start has repaired.
    pub(super) fn any(&self) -> bool {
        let more = self.rotten_log || !self.rotten.is_empty();
        self.pending() || self.changed || self.must_start || self.unreadable_log || more
    }

    /// A start has taken the devices as they are: what they were before cannot be brought back.
    pub(super) fn accepted(&mut self) {
        self.undo.clear();
        (self.agreed, self.each_suffices) = (false, false);
    }
}

/// A strip that is right, of a row whose parity says that it is wrong.
pub(super) struct RightStrip {
    /// Its page of the volume. The host has not written it since.
    pub(super) page: u64,
    pub(super) at: DiskPage,
    /// Its first sector.
    pub(super) bytes: [u8; 512],
}
