//! Which disks are idle: a detector per disk, with a wait that backs off (docs/idle-time.md).

use crate::conditions::DiskView;
use crate::counters::Counters;
use crate::event::Owner;
use crate::units::{DiskId, Duration, Instant};
use alloc::vec;
use alloc::vec::Vec;

/// How long a disk must have been without host reads, at the start.
const WAIT: Duration = Duration::from_millis(100);
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
struct Detector {
    /// When its last host read left it; [`Instant::NEVER`]: it has one.
    since: Instant,
    wait: Duration,
    /// Commands of the idle destage, queued and in flight.
    commands: u32,
    /// The idle destage has had a command here.
    used: bool,
    /// It has delayed a read here.
    delayed: bool,
}

/// The detectors of all disks, and the destage that was begun in idle time.
pub(crate) struct IdleTime {
    disks: Vec<Detector>,
    destage: Option<u32>,
}

impl IdleTime {
    pub(crate) fn new(disks: u16) -> IdleTime {
        let disk =
            Detector { since: Instant::ZERO, wait: WAIT, commands: 0, used: false, delayed: false };
        IdleTime { disks: vec![disk; usize::from(disks)], destage: None }
    }

    /// The moment from which on every disk is idle, if no read comes.
    pub(crate) fn from(&self) -> Option<Instant> {
        let of_disk =
            |disk: &Detector| (disk.since != Instant::NEVER).then(|| disk.since + disk.wait);
        self.disks.iter().map(of_disk).try_fold(Instant::ZERO, |latest, at| Some(latest.max(at?)))
    }

    /// A destage begins in idle time. None that has commands did before.
    pub(crate) fn begin(&mut self, destage: u32) {
        debug_assert!(self.disks.iter().all(|disk| disk.commands == 0), "one at a time");
        self.destage = Some(destage);
    }

    /// A destage is done.
    pub(crate) fn end(&mut self, destage: u32) {
        if self.destage != Some(destage) {
            return;
        }
        self.destage = None;
        for disk in &mut self.disks {
            if disk.used && !disk.delayed {
                let shorter = disk.wait.0 - disk.wait.0 / 8;
                disk.wait = Duration(shorter.max(SHORTEST_WAIT.0));
            }
            (disk.used, disk.delayed) = (false, false);
        }
    }

    /// A command is queued at a disk.
    pub(crate) fn submitted(&mut self, at: DiskId, owner: Owner, counters: &mut Counters) {
        let disk = &mut self.disks[usize::from(at.0)];
        match owner {
            Owner::HostRead(_) => {
                disk.since = Instant::NEVER;
                if disk.commands > 0 {
                    counters.idle_delayed_reads += 1;
                    if !disk.delayed {
                        disk.wait = Duration((disk.wait.0 * 2).min(LONGEST_WAIT.0));
                    }
                    disk.delayed = true;
                }
            }
            Owner::Destage(index) if self.destage == Some(index) => {
                disk.commands += 1;
                disk.used = true;
            }
            _ => {}
        }
    }

    /// A command of a disk is done; `view`: what it still has.
    pub(crate) fn done(&mut self, at: DiskId, owner: Owner, view: &DiskView, now: Instant) {
        let disk = &mut self.disks[usize::from(at.0)];
        match owner {
            Owner::HostRead(_) if view.reads.count == 0 => disk.since = now,
            Owner::Destage(index) if self.destage == Some(index) => disk.commands -= 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::WaitingReads;

    const READ: Owner = Owner::HostRead(7);
    const DESTAGE: Owner = Owner::Destage(3);

    fn ms(at: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(at)
    }

    fn after_reads(count: u32) -> DiskView {
        DiskView { reads: WaitingReads { count, oldest: None }, last_page: 0 }
    }

    #[test]
    fn all_disks_are_idle_when_the_last_has_waited() {
        let mut counters = Counters::default();
        let mut idle = IdleTime::new(2);
        assert_eq!(idle.from(), Some(ms(100)));
        idle.submitted(DiskId(1), READ, &mut counters);
        idle.submitted(DiskId(1), READ, &mut counters);
        assert_eq!(idle.from(), None, "a disk has reads");
        idle.done(DiskId(1), READ, &after_reads(1), ms(10));
        assert_eq!(idle.from(), None, "a disk has a read");
        idle.done(DiskId(1), READ, &after_reads(0), ms(20));
        assert_eq!(idle.from(), Some(ms(120)));
        assert_eq!(counters.idle_delayed_reads, 0);
    }

    /// One idle destage with a command at each of two disks; disk 0 has `reads` during it.
    fn round(idle: &mut IdleTime, reads: u32, at: Instant) -> u64 {
        let mut counters = Counters::default();
        idle.begin(3);
        for disk in [0, 1] {
            idle.submitted(DiskId(disk), DESTAGE, &mut counters);
        }
        for left in (0..reads).rev() {
            idle.submitted(DiskId(0), READ, &mut counters);
            idle.done(DiskId(0), READ, &after_reads(left), at);
        }
        for disk in [0, 1] {
            idle.done(DiskId(disk), DESTAGE, &after_reads(0), at);
        }
        idle.end(3);
        counters.idle_delayed_reads
    }

    fn waits(idle: &IdleTime) -> [u64; 2] {
        [0, 1].map(|disk| idle.disks[disk].wait.0 / 1_000_000)
    }

    #[test]
    fn the_wait_of_a_disk_doubles_when_a_read_is_delayed_there_and_shrinks_slowly() {
        let mut idle = IdleTime::new(3);
        assert_eq!(round(&mut idle, 0, ms(1)), 0);
        assert_eq!(waits(&idle), [87, 87]);
        assert_eq!(round(&mut idle, 2, ms(2)), 2);
        assert_eq!(waits(&idle), [175, 76], "once a destage");
        (0..9).for_each(|_| assert_eq!(round(&mut idle, 1, ms(3)), 1));
        assert_eq!(waits(&idle), [10_000, 50]);
        assert_eq!(idle.disks[2].wait, WAIT, "no destage has used it");
    }

    #[test]
    fn other_destages_delay_nobody() {
        let mut counters = Counters::default();
        let mut idle = IdleTime::new(1);
        idle.submitted(DiskId(0), DESTAGE, &mut counters);
        idle.submitted(DiskId(0), READ, &mut counters);
        idle.done(DiskId(0), DESTAGE, &after_reads(1), ms(1));
        idle.end(3);
        assert_eq!((counters.idle_delayed_reads, idle.disks[0].wait), (0, WAIT));
    }
}
