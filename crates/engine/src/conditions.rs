//! What a policy or a rate may know of the present moment. It is the same in the simulator and in a
//! served array, except for the heads, which only the simulator models.

use crate::units::{GroupId, Instant};
use alloc::collections::VecDeque;

/// The present moment, as a policy or a rate sees it.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// The time.
    pub now: Instant,
    /// Commands at each disk, queued and outstanding.
    pub queues: &'a [u32],
    /// Host reads that wait for disks.
    pub reads: WaitingReads,
    /// How urgent destages are.
    pub pressure: Pressure,
    /// What the engine knows of each disk.
    pub disks: &'a [DiskView],
    /// Disks that have failed, including those being rebuilt.
    pub failed_disks: u16,
    /// Disks being rebuilt.
    pub rebuilding_disks: u16,
    /// Where the heads of the disks are, as far as the driver knows.
    pub heads: &'a dyn Heads,
}

/// A disk, from what was sent to it: the same in the simulator and on real disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskView {
    /// Commands of host reads that it has not completed, in the drive or in front of it.
    pub reads: WaitingReads,
    /// The page behind the last command given to the drive: an estimate of where its head is.
    pub last_page: u64,
}

/// Host reads that wait for disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingReads {
    /// How many.
    pub count: u32,
    /// When the oldest of them arrived.
    pub oldest: Option<Instant>,
}

/// How urgent destages are, in 256ths: 1 at the rate's high threshold, 2 when the NVS is full.
/// Measured for policies at whose disks reads and destages take turns; 0 for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Now.
    pub now: u32,
    /// The mean over the last 4,096 disk commands.
    pub usual: u32,
}

impl Conditions<'static> {
    /// No time, no disks: a replay through the cache alone.
    pub const NONE: Conditions<'static> = Conditions {
        now: Instant::ZERO,
        queues: &[],
        reads: WaitingReads { count: 0, oldest: None },
        pressure: Pressure { now: 0, usual: 0 },
        disks: &[],
        failed_disks: 0,
        rebuilding_disks: 0,
        heads: &NoHeads,
    };
}

/// The modelled heads of the member disks at the moment of a pick.
///
/// [`Heads::cost`] is exact; [`Heads::floor`] lets a policy search outward from a head and stop
/// early instead of asking the cost of every group held.
pub trait Heads {
    /// How many heads there are; 0 if the driver models none.
    fn count(&self) -> usize;

    /// The group under a head.
    fn over(&self, head: usize) -> GroupId;

    /// A lower bound, in nanoseconds, of what a write to this group or to one farther away costs if
    /// it is this head that must move.
    fn floor(&self, head: usize, group: GroupId) -> u64;

    /// Seek and rotation, in nanoseconds, to page `first_page` of the group if its write began now,
    /// on the first disk of the write.
    fn cost(&self, group: GroupId, first_page: u64) -> u64;
}

/// No model of the heads: policies use distances between addresses instead.
pub struct NoHeads;

impl Heads for NoHeads {
    fn count(&self) -> usize {
        0
    }

    fn over(&self, _head: usize) -> GroupId {
        GroupId(0)
    }

    fn floor(&self, _head: usize, _group: GroupId) -> u64 {
        0
    }

    fn cost(&self, _group: GroupId, _first_page: u64) -> u64 {
        0
    }
}

/// Arrival times of the reads that wait for disks, by ticket.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// [`Instant::NEVER`]: this one has been answered.
    times: VecDeque<Instant>,
    /// The ticket of the first.
    first: u64,
    waiting: u32,
}

impl Arrivals {
    /// A read arrived. Returns its ticket.
    pub(crate) fn add(&mut self, now: Instant) -> u64 {
        self.times.push_back(now);
        self.waiting += 1;
        self.first + self.times.len() as u64 - 1
    }

    /// A read is answered.
    pub(crate) fn remove(&mut self, ticket: u64) {
        self.times[(ticket - self.first) as usize] = Instant::NEVER;
        self.waiting -= 1;
        while self.times.front() == Some(&Instant::NEVER) {
            self.times.pop_front();
            self.first += 1;
        }
    }

    pub(crate) fn waiting(&self) -> WaitingReads {
        WaitingReads { count: self.waiting, oldest: self.times.front().copied() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_read_is_the_first_that_is_not_answered() {
        let mut arrivals = Arrivals::default();
        let tickets = [1, 2, 3, 4].map(|at| arrivals.add(Instant(at)));
        arrivals.remove(tickets[1]);
        assert_eq!(arrivals.waiting(), WaitingReads { count: 3, oldest: Some(Instant(1)) });
        arrivals.remove(tickets[0]);
        assert_eq!(arrivals.waiting(), WaitingReads { count: 2, oldest: Some(Instant(3)) });
        arrivals.remove(tickets[2]);
        arrivals.remove(tickets[3]);
        assert_eq!(arrivals.waiting(), WaitingReads::default());
        let again = arrivals.add(Instant(9));
        assert_eq!(arrivals.waiting().oldest, Some(Instant(9)));
        arrivals.remove(again);
    }
}
