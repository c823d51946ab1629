//! Clients that go away: nobody waits for what they asked for, and others write the same pages.

use super::load::{Kind, Request};
use super::run::{Pending, Run};
use std::collections::BTreeSet;

/// Most bytes of a request that another client repeats.
const AGAIN_MAX: u64 = 64 << 12;

impl Run {
    /// Sometimes writes are answered only when they are on the disks, for a while.
    ///
    /// # Errors
    /// A check failed.
    pub(super) fn maybe_write_through(&mut self) -> Result<(), String> {
        let may = self.case.pressed && !self.case.settings.cache_off;
        if !may || self.draws.clients.below(if self.through { 40 } else { 700 }) > 0 {
            return Ok(());
        }
        self.through = !self.through;
        let (now, through) = (self.now(), self.through);
        self.volume_mut().write_through(now, through);
        self.collect()?;
        // With the cache on again, nothing waits for the disks any more, but for space.
        let stuck = self.stopped || self.may_lack_rows() || self.any_full();
        let sound = !self.nvs_lost() && !stuck;
        if !through && sound && self.draws.clients.below(2) == 0 {
            self.answered()?;
        }
        Ok(())
    }

    /// Sometimes the clients of some requests go away, and others write the same. From then on the
    /// requests may have been carried out or not, in part too; but nothing of them may replace what
    /// is written later.
    ///
    /// # Errors
    /// A check failed.
    pub(super) fn maybe_withdraw(&mut self) -> Result<(), String> {
        // A write that waits for space had ended a flush of what others wait for.
        let forced = self.writes_through() && self.status().writes_waiting > 0;
        let rare = if forced { 20 } else { 500 };
        if !self.case.pressed || self.draws.clients.below(rare) > 0 {
            return Ok(());
        }
        let tickets: Vec<u64> = self.pending.keys().copied().collect();
        let gone: BTreeSet<u64> =
            tickets.into_iter().filter(|_| self.draws.clients.below(2) == 0).collect();
        let again = self.draws.clients.below(2) == 0;
        for ticket in &gone {
            let Some(Pending { request, writes, asked, .. }) = self.pending.remove(ticket) else {
                continue;
            };
            if request.kind == Kind::Read {
                self.model.end_read(asked);
            }
            for (id, range) in &writes {
                self.model.written(*id, range, false, false);
            }
            if again && !writes.is_empty() && self.writes_again.is_empty() {
                let bytes = request.bytes.min(AGAIN_MAX);
                let at = self.draws.clients.below(request.bytes - bytes + 1);
                self.writes_again.push_back(Request::write(request.offset + at, bytes));
            }
        }
        self.counts.withdrawn += gone.len() as u64;
        self.withdrawn.extend(&gone);
        let now = self.now();
        self.volume_mut().withdraw(now, &gone);
        self.collect()?;
        // What others wait for comes without another request.
        let stuck = self.stopped || self.may_lack_rows() || self.any_full();
        if !again && self.writes_through() && !stuck {
            self.answered()?;
        }
        Ok(())
    }
}
