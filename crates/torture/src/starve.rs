//! Something is much slower than all else, as one device of an array can be: its operations are
//! done only when nothing else can be, or the power fails before.

use super::run::Run;
use destage_engine::units::DiskId;
use destage_served::{Device, Op, OpKind};
use destage_workload::random::Seeded;

/// Turns in which nothing else can be done before one of these is.
const TURNS: u32 = 30;

/// What is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Writes of blocks at these places, on any device: superblocks, anchors, records.
    Marks([u64; 2]),
    /// Flushes of members.
    Flushes,
    /// What a new mirror gets.
    Copies,
    /// All that a device does.
    Device(Device),
}

/// What is slow, and for how long nothing else could be done.
#[derive(Clone, Debug)]
pub(super) struct Starved {
    kind: Kind,
    turns: u32,
    /// Draws whether the power fails now that nothing else can be done.
    rng: Seeded,
}

impl Starved {
    /// Whether an operation is one of these.
    pub(super) fn has(&self, op: &Op) -> bool {
        match (self.kind, &op.kind) {
            (Kind::Marks(places), OpKind::Write { offset, .. }) => places.contains(offset),
            (Kind::Flushes, OpKind::Flush) => matches!(op.device, Device::Member(_)),
            (Kind::Copies, OpKind::Write { durable: false, .. }) => {
                matches!(op.device, Device::Nvs(_))
            }
            (Kind::Device(device), _) => op.device == device,
            _ => false,
        }
    }

    /// Nothing else can be done. Whether one of these is done at last; and whether the power fails,
    /// if it may.
    pub(super) fn is_over(&mut self, may_crash: bool) -> (bool, bool) {
        self.turns += 1;
        if self.turns < TURNS {
            return (false, false);
        }
        self.turns = 0;
        let crashes = may_crash && self.rng.below(2) == 0;
        (!crashes, crashes)
    }
}

impl Run {
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
                self.slow = Some(draw(rng, self.case.geometry.disks, self.case.nvs));
            }
        }
        let Some(kind) = self.slow else { return };
        if let Kind::Device(Device::Member(member)) = kind
            && self.failing().contains(DiskId(member))
        {
            return;
        }
        let rng = Seeded::new(seed, "torture-starved-life");
        self.world.starved = Some(Starved { kind, turns: 0, rng });
        let later = self.draws.starved.below(3000);
        self.world.crash_at = self.world.crash_at.map(|at| at + later);
        self.counts.slow += 1;
    }
}

fn draw(rng: &mut Seeded, members: u16, nvs: u16) -> Kind {
    match rng.below(if nvs > 0 { 8 } else { 5 }) {
        0 => Kind::Marks([0, 12_288]),
        1 => Kind::Marks([16_384, 20_480]),
        2 => Kind::Flushes,
        3 => Kind::Device(Device::Member(rng.below(u64::from(members)) as u16)),
        4 => Kind::Copies,
        5 => Kind::Marks([4096, u64::MAX]),
        6 => Kind::Marks([8192, u64::MAX]),
        _ => Kind::Device(Device::Nvs(rng.below(u64::from(nvs)) as u16)),
    }
}
