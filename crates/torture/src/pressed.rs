//! What is rare is made frequent: a draw of its own for each, so that runs without it stay as they
//! were.

use super::device::Survivors;
use super::load::{Kind, Request};
use super::run::Run;
use super::starve::{ANCHORS, Kind as Slow, SUPERBLOCKS, Starved};

/// Writes that are kept in mind.
const LATELY: usize = 12;

impl Run {
    /// Operations that a life has more than others: in some the log comes round several times.
    pub(super) fn longer(&mut self) -> u64 {
        let rare = if self.case.hoards { 2 } else { 8 };
        if !self.case.pressed || self.draws.pressed.below(rare) > 0 {
            return 0;
        }
        self.draws.pressed.below(6000)
    }

    /// Often one copy of the anchor is slow where the log comes round: the tail then moves far.
    pub(super) fn slow_anchor(&mut self) -> Option<Slow> {
        let often = if self.case.hoards { 2 } else { 4 };
        if !self.case.pressed || self.case.nvs == 0 || self.draws.pressed.below(often) > 0 {
            return None;
        }
        let place = if self.draws.pressed.below(4) == 0 { ANCHORS[0] } else { ANCHORS[1] };
        Some(Slow::Marks([place, u64::MAX]))
    }

    /// Often a power failure keeps or takes writes as a whole.
    pub(super) fn in_runs(&mut self, survivors: Survivors) -> Survivors {
        let drawn = survivors == Survivors::Random && self.case.pressed;
        if drawn && self.draws.pressed.below(2) == 0 { Survivors::Runs } else { survivors }
    }

    /// Sometimes one of two NVS devices fails while destages are in flight: their intents may be
    /// durable on the other one alone. What records the failure is slow, and the power may fail
    /// first.
    pub(super) fn maybe_fail_amid_destages(&mut self) {
        let may = self.may_starve() && self.is_mirrored();
        if !may || self.draws.pressed.below(100) > 0 || self.status().destages_in_flight == 0 {
            return;
        }
        self.world.nvs[self.draws.pressed.below(2) as usize].write_fails = true;
        self.counts.mishaps += 1;
        self.world.starved = Some(self.starved(Slow::Marks(SUPERBLOCKS)));
        if self.draws.pressed.below(2) == 0 {
            let soon = self.world.operations + self.draws.pressed.below(80);
            self.world.crash_at = self.world.crash_at.map(|at| at.min(soon));
        }
    }

    /// Sometimes the host trims what it wrote a short while ago, which may be in a destage.
    pub(super) fn trim_again(&mut self) -> Option<Request> {
        if !self.case.pressed || self.lately.is_empty() || self.draws.pressed.below(12) > 0 {
            return None;
        }
        let which = self.draws.pressed.below(self.lately.len() as u64) as usize;
        Some(Request { kind: Kind::Trim, ..self.lately[which] })
    }

    /// Keeps a write in mind.
    pub(super) fn note_lately(&mut self, request: Request) {
        if self.lately.len() == LATELY {
            self.lately.pop_front();
        }
        self.lately.push_back(request);
    }

    /// Sometimes the host asks for nothing for this many steps, and what was begun ends.
    pub(super) fn pause_of_host(&mut self) -> u64 {
        if !self.case.pressed || self.draws.pressed.below(60) > 0 {
            return 0;
        }
        self.draws.pressed.below(60)
    }

    /// Often a new mirror gets what is copied to it only after the log has come round. A crash
    /// comes later then. Whether that is so.
    pub(super) fn hold_copies(&mut self) -> bool {
        if !self.may_starve() || self.draws.pressed.below(4) == 0 {
            return false;
        }
        let until = self.world.operations + 1000 + self.draws.pressed.below(3000);
        let mut held = self.starved(Slow::Copies);
        held.held_until = Some(until);
        self.world.starved = Some(held);
        let end = until + 100 + self.draws.pressed.below(600);
        self.world.crash_at = self.world.crash_at.map(|at| at.max(end));
        self.counts.slow += 1;
        true
    }

    /// Often one of these is slow from now on. A crash comes later then.
    pub(super) fn press(&mut self, kinds: &[Slow]) {
        if !self.may_starve() || self.draws.pressed.below(2) > 0 {
            return;
        }
        let kind = kinds[self.draws.pressed.below(kinds.len() as u64) as usize];
        let mut starved = self.starved(kind);
        if self.draws.pressed.below(2) == 0 {
            starved.until = self.world.operations + self.draws.pressed.below(800);
        }
        self.world.starved = Some(starved);
        let drawn = self.draws.pressed.below(1500);
        let soon = self.world.operations + drawn / 16;
        // In the midst of what it delays, or when nothing else can be done.
        let is_soon = self.draws.pressed.below(2) == 0;
        let when = |at: u64| if is_soon { at.min(soon) } else { at + drawn };
        self.world.crash_at = self.world.crash_at.map(when);
        self.counts.slow += 1;
    }

    /// Whether something may be slow from now on, and the power fail in it.
    fn may_starve(&self) -> bool {
        let nothing_is = self.world.starved.is_none();
        self.case.pressed && nothing_is && self.world.crash_at.is_some()
    }

    fn starved(&self, kind: Slow) -> Starved {
        Starved::new(kind, self.case.seed ^ self.counts.crashes << 48)
    }
}
