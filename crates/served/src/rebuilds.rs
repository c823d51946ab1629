//! Rebuilds: which members are being rebuilt, how far the superblocks and records say so, and what
//! was read for the windows of pages that are reconstructed (docs/durability.md, "Failed members,
//! spares and rebuild"; docs/rebuild.md).

use crate::Buffer;
use crate::rows::Pieces;
use destage_engine::array::geometry::Geometry;
use destage_engine::rebuild::Progress;
use destage_engine::units::{Duration, Instant, PAGE_BYTES};
use destage_nvslog::superblock::{REBUILDS_MAX, Superblock, Uuid};
use std::collections::BTreeMap;

/// First byte of the data on a member.
pub(crate) use destage_nvslog::superblock::DATA_START as DATA;

/// Why a member is not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceRefusal {
    /// The level has no redundancy: there is nothing to rebuild it from.
    NoRedundancy,
    /// There is no such member.
    NoMember,
    /// The member is in use.
    InUse,
    /// It is being rebuilt.
    Running,
    /// Too many members are being rebuilt.
    TooMany,
    /// The array has stopped.
    Stopped,
    /// The device is too small: a member needs this many bytes.
    TooSmall(u64),
}

impl core::fmt::Display for ReplaceRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ReplaceRefusal::NoRedundancy => f.write_str(
                "the level has no redundancy: there is nothing to rebuild a member from",
            ),
            ReplaceRefusal::NoMember => f.write_str("there is no such member"),
            ReplaceRefusal::InUse => f.write_str(
                "the member is in use. Fail it first (`destage fail`); the array is then degraded \
                 until the new member is rebuilt",
            ),
            ReplaceRefusal::Running => {
                f.write_str("the member is being rebuilt; see `destage status`")
            }
            ReplaceRefusal::TooMany => {
                write!(f, "{REBUILDS_MAX} members are being rebuilt. Wait until one is complete")
            }
            ReplaceRefusal::Stopped => f.write_str("the array has stopped; see `destage status`"),
            ReplaceRefusal::TooSmall(bytes) => {
                write!(f, "the device is too small: a member needs {bytes} bytes")
            }
        }
    }
}

impl std::error::Error for ReplaceRefusal {}

/// Progress of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildStatus {
    /// The member.
    pub member: u16,
    /// Pages of it that are rebuilt, and how long it took and will take.
    pub progress: Progress,
    /// Pages that are still rebuilt after a crash.
    pub checkpoint: u64,
    /// Pages of it that could not be reconstructed.
    pub lost_pages: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Another change of the set of devices must end first.
    Waits,
    /// The superblocks are being written that name it.
    Naming,
    Running,
    /// All is written: it is flushed, and then its record says so.
    Flushing,
    /// The superblocks are being written that say that it is in sync.
    Joining,
}

/// A member that is being rebuilt.
#[derive(Clone, Copy)]
struct Rebuild {
    member: u16,
    device: Uuid,
    phase: Phase,
    /// Time of the last checkpoint.
    since: Instant,
}

/// A window of a rebuild.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) pieces: Pieces,
    /// The bytes to write to the spare.
    pub(crate) computed: Option<Buffer>,
}

/// Bytes that a member needs: its superblock and record, and its share of the data.
#[must_use]
pub fn member_bytes(geometry: &Geometry) -> u64 {
    DATA + geometry.disk_pages * PAGE_BYTES
}

/// The rebuilds, and their windows.
#[derive(Default)]
pub(crate) struct Rebuilds {
    rebuilds: Vec<Rebuild>,
    windows: BTreeMap<u32, Window>,
}

/// What the superblocks of all devices now say of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// They name the spare: pages can be written to it.
    Named(u16),
    /// The member is in sync.
    InSync(u16),
}

/// What is due for a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The superblocks have to name its device, when no other change is in progress.
    Name(u16, Uuid),
    /// A checkpoint.
    Checkpoint(u16),
    Nothing,
}

impl Rebuilds {
    pub(crate) fn is_empty(&self) -> bool {
        self.rebuilds.is_empty()
    }

    /// Whether no further rebuild can begin.
    pub(crate) fn is_full(&self) -> bool {
        self.rebuilds.len() >= REBUILDS_MAX
    }

    pub(crate) fn contains(&self, member: u16) -> bool {
        self.rebuilds.iter().any(|rebuild| rebuild.member == member)
    }

    /// Adds a rebuild onto a device that no superblock names yet.
    pub(crate) fn add(&mut self, member: u16, device: Uuid, now: Instant) {
        self.rebuilds.push(Rebuild { member, device, phase: Phase::Waits, since: now });
    }

    /// Adds a rebuild that an earlier run began.
    pub(crate) fn resume(&mut self, member: u16, device: Uuid) {
        let (phase, since) = (Phase::Running, Instant::ZERO);
        self.rebuilds.push(Rebuild { member, device, phase, since });
    }

    /// A member is rebuilt no further: its device has failed.
    pub(crate) fn forget(&mut self, member: u16) {
        self.rebuilds.retain(|rebuild| rebuild.member != member);
    }

    /// The members that the superblocks name as being rebuilt, or will.
    pub(crate) fn named(&self) -> Vec<u16> {
        let named = self.rebuilds.iter().filter(|rebuild| rebuild.phase != Phase::Waits);
        named.map(|rebuild| rebuild.member).collect()
    }

    /// Whether the device that is to become this member is in its place.
    pub(crate) fn is_attached(&self, member: u16) -> bool {
        let named = |r: &Rebuild| r.member == member && r.phase != Phase::Waits;
        self.rebuilds.iter().any(named)
    }

    /// Whether some member is in sync for the engine, but not flushed.
    pub(crate) fn flushing(&self) -> bool {
        self.rebuilds.iter().any(|rebuild| rebuild.phase == Phase::Flushing)
    }

    pub(crate) fn len(&self) -> usize {
        self.rebuilds.len()
    }

    /// What is due for the rebuild at this place.
    pub(crate) fn due(&self, at: usize, now: Instant, every: Duration) -> Due {
        let Rebuild { member, device, phase, since } = self.rebuilds[at];
        match phase {
            Phase::Waits => Due::Name(member, device),
            Phase::Running if now >= since + every => Due::Checkpoint(member),
            _ => Due::Nothing,
        }
    }

    /// The superblocks are being written that name this member's spare.
    pub(crate) fn naming(&mut self, member: u16) {
        let of = self.rebuilds.iter_mut().filter(|rebuild| rebuild.member == member);
        of.for_each(|rebuild| rebuild.phase = Phase::Naming);
    }

    /// When the next checkpoint is due.
    pub(crate) fn checkpoint_deadline(&self, every: Duration) -> Option<Instant> {
        let running = self.rebuilds.iter().filter(|rebuild| rebuild.phase == Phase::Running);
        running.map(|rebuild| rebuild.since + every).min()
    }

    /// Whether a checkpoint of this member is due; if so, the next is due later.
    pub(crate) fn take_checkpoint(&mut self, member: u16, now: Instant, every: Duration) -> bool {
        let due = |r: &&mut Rebuild| r.member == member && now >= r.since + every;
        self.rebuilds.iter_mut().find(due).map(|rebuild| rebuild.since = now).is_some()
    }

    /// All pages of a member are written; whether it is being rebuilt.
    pub(crate) fn written(&mut self, member: u16) -> bool {
        let rebuild = self.rebuilds.iter_mut().find(|r| r.member == member);
        rebuild.map(|rebuild| rebuild.phase = Phase::Flushing).is_some()
    }

    /// A member's record is on it, and says that it is complete; whether that ends a rebuild.
    pub(crate) fn flushed(&mut self, member: u16) -> bool {
        let flushing = |r: &&mut Rebuild| r.member == member && r.phase == Phase::Flushing;
        self.rebuilds.iter_mut().find(flushing).map(|r| r.phase = Phase::Joining).is_some()
    }

    /// The superblocks of all devices say this.
    pub(crate) fn recorded(&mut self, said: &Superblock, now: Instant) -> Vec<Recorded> {
        let mut recorded = Vec::new();
        self.rebuilds.retain_mut(|rebuild| {
            let Rebuild { member, device, phase, .. } = *rebuild;
            if phase == Phase::Joining && !said.has_failed(member) {
                recorded.push(Recorded::InSync(member));
                return false;
            }
            if phase == Phase::Naming && said.rebuilt_onto(member) == Some(device) {
                (rebuild.phase, rebuild.since) = (Phase::Running, now);
                recorded.push(Recorded::Named(member));
            }
            true
        });
        recorded
    }

    /// The members being rebuilt, and whether all their pages are written.
    pub(crate) fn members(&self) -> impl Iterator<Item = (u16, bool)> + '_ {
        let written = |r: &Rebuild| matches!(r.phase, Phase::Flushing | Phase::Joining);
        self.rebuilds.iter().map(move |rebuild| (rebuild.member, written(rebuild)))
    }

    /// What was read for a window.
    pub(crate) fn pieces(&mut self, window: u32) -> &mut Pieces {
        &mut self.windows.entry(window).or_default().pieces
    }

    pub(crate) fn take_window(&mut self, window: u32) -> Window {
        self.windows.remove(&window).unwrap_or_default()
    }

    pub(crate) fn put_window(&mut self, window: u32, state: Window) {
        self.windows.insert(window, state);
    }

    /// Drops the windows that have ended.
    pub(crate) fn keep_windows(&mut self, running: impl Fn(u32) -> bool) {
        self.windows.retain(|window, _| running(*window));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_superblock::superblock;

    const EVERY: Duration = Duration::from_secs(5);

    #[test]
    fn a_rebuild_is_named_runs_is_flushed_and_joins() {
        let (mut rebuilds, now) = (Rebuilds::default(), Instant::ZERO);
        rebuilds.add(2, [7; 16], now);
        assert!(!rebuilds.is_attached(2) && rebuilds.named().is_empty());
        assert_eq!(rebuilds.due(0, now, EVERY), Due::Name(2, [7; 16]));
        rebuilds.naming(2);
        assert_eq!(rebuilds.due(0, now, EVERY), Due::Nothing);
        assert!(rebuilds.is_attached(2) && !rebuilds.flushed(2));
        assert_eq!(rebuilds.checkpoint_deadline(EVERY), None, "not running yet");
        assert!(rebuilds.written(2) && rebuilds.flushing());
        assert!(rebuilds.flushed(2) && !rebuilds.flushing());
        rebuilds.forget(2);
        assert!(rebuilds.is_empty() && !rebuilds.written(2));
    }

    #[test]
    fn checkpoints_of_a_running_rebuild_have_a_distance() {
        let mut rebuilds = Rebuilds::default();
        rebuilds.resume(1, [7; 16]);
        let now = Instant::ZERO + EVERY;
        let early = Instant(now.0 - 1);
        assert_eq!(rebuilds.due(0, early, EVERY), Due::Nothing);
        assert!(!rebuilds.take_checkpoint(1, early, EVERY));
        assert!(!rebuilds.take_checkpoint(2, now, EVERY), "of another member");
        assert_eq!(rebuilds.due(0, now, EVERY), Due::Checkpoint(1));
        assert!(rebuilds.take_checkpoint(1, now, EVERY));
        assert!(!rebuilds.take_checkpoint(1, now, EVERY));
        assert_eq!(rebuilds.checkpoint_deadline(EVERY), Some(now + EVERY));
    }

    #[test]
    fn superblocks_say_when_a_rebuild_begins_and_when_it_has_ended() {
        let (mut rebuilds, mut said) = (Rebuilds::default(), superblock());
        let now = Instant(7);
        rebuilds.add(2, [7; 16], Instant::ZERO);
        said.mark(2, true);
        assert!(said.set_rebuild(2, Some([7; 16])));
        assert_eq!(rebuilds.recorded(&said, now), [], "it is not being named");
        rebuilds.naming(2);
        assert!(said.set_rebuild(2, Some([8; 16])));
        assert_eq!(rebuilds.recorded(&said, now), [], "they name another device");
        assert!(said.set_rebuild(2, Some([7; 16])));
        assert_eq!(rebuilds.recorded(&said, now), [Recorded::Named(2)]);
        assert_eq!(rebuilds.checkpoint_deadline(EVERY), Some(now + EVERY));
        assert_eq!(rebuilds.recorded(&said, now), [], "it is running");
        assert_eq!(rebuilds.members().collect::<Vec<_>>(), [(2, false)]);
        assert!(rebuilds.written(2));
        said.mark(2, false);
        assert_eq!(rebuilds.recorded(&said, now), [], "it is not flushed");
        said.mark(2, true);
        assert!(rebuilds.flushed(2));
        assert_eq!(rebuilds.members().collect::<Vec<_>>(), [(2, true)]);
        assert_eq!(rebuilds.recorded(&said, now), [], "they say that it has failed");
        said.mark(2, false);
        assert_eq!(rebuilds.recorded(&said, now), [Recorded::InSync(2)]);
        assert!(rebuilds.is_empty());
    }

    #[test]
    fn only_so_many_members_are_rebuilt_at_once() {
        let mut rebuilds = Rebuilds::default();
        for member in 0..REBUILDS_MAX as u16 {
            assert!(!rebuilds.is_full() && !rebuilds.contains(member));
            rebuilds.add(member, [7; 16], Instant::ZERO);
            assert!(rebuilds.contains(member));
        }
        assert!(rebuilds.is_full() && rebuilds.named().is_empty());
        rebuilds.naming(3);
        assert_eq!((rebuilds.named(), rebuilds.len()), (vec![3], REBUILDS_MAX));
        assert!(rebuilds.is_attached(3) && !rebuilds.is_attached(4));
        rebuilds.forget(3);
        assert!(!rebuilds.is_full() && !rebuilds.contains(3) && rebuilds.contains(4));
    }

    #[test]
    fn windows_are_kept_while_they_run() {
        let mut rebuilds = Rebuilds::default();
        for serial in [4, 5] {
            let computed = Some(Buffer::zeroed(serial as usize * 512));
            rebuilds.put_window(serial, Window { computed, ..Window::default() });
        }
        rebuilds.keep_windows(|serial| serial == 5);
        let mut bytes = |serial| rebuilds.take_window(serial).computed.map(|bytes| bytes.len());
        assert_eq!([4, 5, 5].map(&mut bytes), [None, Some(2560), None]);
    }
}
