//! Requests that nobody waits for any more: their connection was closed.

use super::Volume;
use crate::request::{Refusal, Ticket};
use crate::requests::EngineOp;
use destage_engine::event::Event;
use destage_engine::request::RequestId;
use destage_engine::units::Instant;
use std::collections::BTreeSet;

impl Volume {
    /// The client of these requests is gone. What has not begun of their writes, zeros and trims is
    /// not carried out: another client may write the same pages as soon as this returns, and must
    /// not find older bytes over its own. What the log or memory has stays. Each request is still
    /// answered.
    pub fn withdraw(&mut self, now: Instant, tickets: &BTreeSet<Ticket>) {
        self.ops.set_now(now);
        let parts: BTreeSet<RequestId> = self.requests.withdraw(tickets).into_iter().collect();
        let incomplete = |id: &RequestId| self.requests.is_incomplete(*id);
        let (unknown, known): (BTreeSet<RequestId>, BTreeSet<RequestId>) =
            parts.into_iter().partition(incomplete);
        // Those that wait for the rest of a sector, and those that wait for space.
        unknown.into_iter().for_each(|id| self.drop_part(id));
        let controller = self.engine.controller_mut();
        let waiting = controller.withdraw(&mut |id| known.contains(&id));
        waiting.into_iter().for_each(|id| self.drop_part(id));
        self.step(Event::Withdrawn);
        if self.log.lost() || self.settings.cache_off {
            // A write that waited for space had ended the flush of what is to be on the disks.
            self.step(Event::Flush);
        }
        self.after();
    }

    /// A write or a trim that has not begun is not carried out.
    fn drop_part(&mut self, id: RequestId) {
        let host = match self.requests.remove(id) {
            EngineOp::Write(write) => {
                for page in [write.range.first.0, write.range.end().0 - 1] {
                    self.requests.partial.leave(page, id);
                }
                write.host
            }
            EngineOp::Discard { host, .. } => host,
            EngineOp::Read(_) => unreachable!("only writes and trims are withdrawn"),
        };
        self.part_done(host, Some(Refusal::Withdrawn));
    }
}
