//! Something is much slower than all else, as one device of an array can be: its operations are
//! done only when nothing else can be, or the power fails before.

use destage_nvslog::commit::{self, Claim};
use destage_served::{Device, Op, OpKind};
use destage_workload::random::Seeded;

/// Turns in which nothing else can be done before one of these is.
const TURNS: u32 = 30;
/// The same where it is to take as long as many others.
const TURNS_HELD: u32 = 300;

/// Blocks of a ring.
pub(super) const RING_BLOCKS: u64 = 64;

/// First bytes of the two copies of a superblock.
pub(super) const SUPERBLOCKS: [u64; 2] = [0, 12_288];

/// First bytes of the two copies of the anchor.
pub(super) const ANCHORS: [u64; 2] = [4096, 8192];
/// Bytes of an anchor that say something.
pub(super) const ANCHOR_BYTES: u64 = 48;

/// First bytes of the two copies of a member record.
pub(super) const RECORDS: [u64; 2] = [16_384, 20_480];

/// What is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Writes of blocks at these places, on any device: superblocks, anchors, records.
    Marks([u64; 2]),
    /// Flushes of members.
    Flushes,
    /// What a new mirror gets.
    Copies,
    /// Writes of anchors on this NVS device.
    AnchorsOf(u16),
    /// What fills the end of the ring, before a commit that has no room there.
    Padding,
    /// All that a device does.
    Device(Device),
}

/// What is slow, and for how long nothing else could be done.
#[derive(Clone, Debug)]
pub(super) struct Starved {
    kind: Kind,
    turns: u32,
    /// It ends before the operation of this number.
    pub(super) until: u64,
    /// As many are not slow, before the first one is.
    pub(super) passes: u64,
    /// What has begun is not done before the operation of this number.
    pub(super) held_until: Option<u64>,
    /// Draws whether the power fails now that nothing else can be done.
    rng: Seeded,
}

impl Starved {
    /// It begins.
    pub(super) fn new(kind: Kind, seed: u64) -> Starved {
        let rng = Seeded::new(seed, "torture-starved-life");
        Starved { kind, turns: 0, until: u64::MAX, passes: 0, held_until: None, rng }
    }

    /// Whether an operation is one of these.
    pub(super) fn has(&self, op: &Op) -> bool {
        match (self.kind, &op.kind) {
            (Kind::Marks(places), OpKind::Write { offset, .. }) => places.contains(offset),
            (Kind::Flushes, OpKind::Flush) => matches!(op.device, Device::Member(_)),
            (Kind::Copies, OpKind::Write { durable: false, .. }) => {
                matches!(op.device, Device::Nvs(_))
            }
            (Kind::AnchorsOf(copy), OpKind::Write { offset, .. }) => {
                op.device == Device::Nvs(copy) && ANCHORS.contains(offset)
            }
            (Kind::Padding, OpKind::Write { buffer, .. }) => {
                matches!(op.device, Device::Nvs(_)) && is_padding(buffer)
            }
            (Kind::Device(device), _) => op.device == device,
            _ => false,
        }
    }

    /// Whether an operation that begins is slow.
    pub(super) fn takes(&mut self, op: &Op) -> bool {
        if !self.has(op) {
            return false;
        }
        let passes = self.passes > 0;
        self.passes = self.passes.saturating_sub(1);
        !passes
    }

    /// Whether the log is to come round before the power fails.
    pub(super) fn lasts(&self) -> bool {
        let anchor = matches!(self.kind, Kind::Marks([place, _]) if ANCHORS.contains(&place));
        anchor || self.held_until.is_some()
    }

    /// Something else is done.
    pub(super) fn waits(&mut self) {
        self.turns = 0;
    }

    /// Nothing else can be done. Whether one of these is done at last; and whether the power fails,
    /// if it may.
    pub(super) fn is_over(&mut self, may_crash: bool) -> (bool, bool) {
        self.turns += 1;
        let turns = if self.held_until.is_some() { TURNS_HELD } else { TURNS };
        if self.turns < turns {
            return (false, false);
        }
        self.turns = 0;
        let crashes = may_crash && self.held_until.is_none() && self.rng.below(2) == 0;
        (!crashes, crashes)
    }
}

fn is_padding(bytes: &[u8]) -> bool {
    Claim::read(bytes).is_some_and(|claim| matches!(claim.header.kind, commit::Kind::Pads { .. }))
}

/// Anything of an array with these numbers of devices.
pub(super) fn draw(rng: &mut Seeded, members: u16, nvs: u16) -> Kind {
    match rng.below(if nvs > 0 { 9 } else { 5 }) {
        0 => Kind::Marks(SUPERBLOCKS),
        1 => Kind::Marks(RECORDS),
        2 => Kind::Flushes,
        3 => Kind::Device(Device::Member(rng.below(u64::from(members)) as u16)),
        4 => Kind::Copies,
        5 => Kind::Marks([ANCHORS[0], u64::MAX]),
        6 => Kind::Marks([ANCHORS[1], u64::MAX]),
        7 => Kind::Padding,
        _ => Kind::Device(Device::Nvs(rng.below(u64::from(nvs)) as u16)),
    }
}
