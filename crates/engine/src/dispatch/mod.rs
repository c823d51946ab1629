//! One queue per disk: what enters the drive's window, in which order and when.

mod alternating;
mod usage;

use crate::conditions::{DiskView, Pressure};
use crate::event::Action;
use crate::event::{DiskCommand, Owner};
use crate::policy::Alternation;
use crate::units::{DiskId, Instant};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use alternating::Alternating;
use usage::Usage;

/// Order in which commands enter a drive's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// As they arrive, like the papers' systems.
    #[default]
    Arrival,
    /// Host reads first; after `bound` reads in a row that passed something, one of the others.
    ReadsFirst {
        /// Reads in a row that may pass.
        bound: u32,
    },
}

/// What waits in front of a drive.
#[derive(Default)]
struct Queue {
    reads: VecDeque<DiskCommand>,
    others: VecDeque<DiskCommand>,
    outstanding: u32,
    passed: u32,
    /// Host reads queued and outstanding, oldest first: their index and arrival.
    arrivals: VecDeque<(u32, Instant)>,
}

/// The queues of all disks.
pub struct Dispatch {
    queues: Vec<Queue>,
    /// Commands of each disk, queued and outstanding.
    lengths: Vec<u32>,
    usage: Usage,
    views: Vec<DiskView>,
    window: u32,
    order: Order,
    drive_pages: u64,
    /// In place of `order`, if the policy asks for it.
    alternating: Option<Alternating>,
}

impl Dispatch {
    /// Queues for `disks` drives of `drive_pages` pages, and of `window` commands each.
    pub fn new(disks: u16, window: u32, order: Order, drive_pages: u64) -> Dispatch {
        let count = usize::from(disks);
        let queues = (0..disks).map(|_| Queue::default()).collect();
        let views = vec![DiskView::default(); count];
        let (lengths, usage, alternating) = (vec![0; count], Usage::new(disks), None);
        Dispatch { queues, lengths, usage, views, window, order, drive_pages, alternating }
    }

    /// Reads and destages take turns at each disk, or follow the order as before. What waits is
    /// queued again in the order in which it arrived.
    pub fn alternate(&mut self, how: Option<Alternation>) {
        if let Some(before) = self.alternating.take() {
            for (disk, waiting) in before.into_waiting().into_iter().enumerate() {
                let queue = &mut self.queues[disk];
                waiting.into_iter().for_each(|command| enqueue(queue, self.order, command));
            }
        }
        let Some(how) = how else { return };
        let mut alternating =
            Alternating::new(how, self.order, self.queues.len(), self.drive_pages);
        for (disk, queue) in self.queues.iter_mut().enumerate() {
            for command in queue.reads.drain(..).chain(queue.others.drain(..)) {
                alternating.add(disk, command, Instant::ZERO);
            }
        }
        self.alternating = Some(alternating);
    }

    /// Pages of each drive.
    pub fn drive_pages(&self) -> u64 {
        self.drive_pages
    }

    /// Each drive has this many pages, of which the array may use a part.
    pub fn set_drive_pages(&mut self, pages: u64) {
        self.drive_pages = pages;
        if let Some(alternating) = &mut self.alternating {
            alternating.set_drive_pages(pages);
        }
    }

    /// Whether destages should have many to choose from, whatever the rate says.
    pub fn wants_many(&self) -> bool {
        self.alternating.as_ref().is_some_and(Alternating::wants_many)
    }

    /// Which part of the full depth destages should have beyond what the rate allows, where they
    /// should have many to choose from. As (part, of).
    pub fn depth_share(&self) -> (u32, u32) {
        self.alternating.as_ref().map_or((0, 1), Alternating::depth_share)
    }

    /// As many commands as fill half of the windows of all drives.
    pub fn half_full(&self) -> u32 {
        self.window.saturating_mul(self.queues.len() as u32) / 2
    }

    /// Whether the NVS is held fuller than the thresholds say while hosts use much of it again.
    pub fn keeps_reused(&self) -> bool {
        self.alternating.as_ref().is_some_and(Alternating::keeps_reused)
    }

    /// How urgent destages are, now and usually.
    pub fn pressure(&self) -> Pressure {
        self.alternating.as_ref().map_or_else(Pressure::default, Alternating::pressure)
    }

    /// The part of the last seconds in which the drives had commands. As (part, of).
    pub fn usage(&mut self, now: Instant) -> (u64, u64) {
        self.usage.share(now)
    }

    /// How urgent destages are: `allowed` of the `depth` that may be in flight at most, and
    /// `taken` pages of the `space` above the high threshold.
    pub fn set_urgency(&mut self, (allowed, depth): (u32, u32), (taken, space): (u64, u64)) {
        if let Some(alternating) = &mut self.alternating {
            alternating.set_urgency((allowed, depth), (taken, space));
        }
    }

    /// Queues a command, or issues it where the drive's window has room.
    pub fn submit(&mut self, now: Instant, command: DiskCommand, actions: &mut Vec<Action>) {
        let disk = usize::from(command.disk.0);
        self.lengths[disk] += 1;
        if self.lengths[disk] == 1 {
            self.usage.begin(now);
        }
        let queue = &mut self.queues[disk];
        if let Owner::HostRead(index) = command.owner {
            queue.arrivals.push_back((index, now));
            note_reads(&mut self.views[disk], queue);
        }
        if let Some(alternating) = &mut self.alternating {
            alternating.measure(&command, self.views[disk].last_page);
            alternating.add(disk, command, now);
            self.fill(now, disk, actions);
        } else if queue.outstanding < self.window {
            self.issue(disk, command, actions);
        } else {
            enqueue(queue, self.order, command);
        }
    }

    /// A command of this disk is done: the next may enter the window.
    pub fn done(&mut self, now: Instant, disk: DiskId, owner: Owner, actions: &mut Vec<Action>) {
        let index = usize::from(disk.0);
        if let Owner::HostRead(read) = owner {
            let queue = &mut self.queues[index];
            if let Some(at) = queue.arrivals.iter().position(|(of, _)| *of == read) {
                queue.arrivals.remove(at);
            }
            note_reads(&mut self.views[index], queue);
        }
        if let Some(alternating) = &mut self.alternating {
            alternating.left(index, owner);
        }
        self.left(now, index, actions);
    }

    /// The drive cannot carry out a command now: it takes no place in the window until
    /// [`Dispatch::again`].
    pub fn waits(&mut self, now: Instant, disk: DiskId, actions: &mut Vec<Action>) {
        let index = usize::from(disk.0);
        if let Some(alternating) = &mut self.alternating {
            alternating.waits(index, 1);
        }
        self.left(now, index, actions);
    }

    fn left(&mut self, now: Instant, disk: usize, actions: &mut Vec<Action>) {
        self.lengths[disk] -= 1;
        if self.lengths[disk] == 0 {
            self.usage.end(now);
        }
        let queue = &mut self.queues[disk];
        queue.outstanding -= 1;
        if self.alternating.is_some() {
            self.fill(now, disk, actions);
        } else if let Some(command) = next(queue, self.order) {
            self.issue(disk, command, actions);
        }
    }

    /// Issues what may enter the window while reads and destages take turns.
    fn fill(&mut self, now: Instant, disk: usize, actions: &mut Vec<Action>) {
        let Some(alternating) = &mut self.alternating else { return };
        while self.queues[disk].outstanding < self.window
            && let Some(command) =
                alternating.next(disk, now, self.window, self.views[disk].last_page)
        {
            issue(&mut self.queues[disk], &mut self.views[disk], command, actions);
        }
    }

    fn issue(&mut self, disk: usize, command: DiskCommand, actions: &mut Vec<Action>) {
        issue(&mut self.queues[disk], &mut self.views[disk], command, actions);
    }

    /// A command that the disk refused is tried again, though the disk's window may be full.
    pub fn again(&mut self, now: Instant, disk: DiskId) {
        let disk = usize::from(disk.0);
        self.lengths[disk] += 1;
        if self.lengths[disk] == 1 {
            self.usage.begin(now);
        }
        self.queues[disk].outstanding += 1;
        if let Some(alternating) = &mut self.alternating {
            alternating.waits(disk, -1);
        }
    }

    /// Commands queued and outstanding at a disk.
    pub fn length(&self, disk: DiskId) -> u32 {
        self.lengths[usize::from(disk.0)]
    }

    /// [`Dispatch::length`] of all disks.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Waiting reads and last places of all disks.
    pub fn views(&self) -> &[DiskView] {
        &self.views
    }

    /// Pages between `page` and the end of the last command issued to a disk: an estimate of how
    /// far its head must move.
    pub fn distance(&self, disk: DiskId, page: u64) -> u64 {
        self.views[usize::from(disk.0)].last_page.abs_diff(page)
    }
}

fn enqueue(queue: &mut Queue, order: Order, command: DiskCommand) {
    match (order, command.owner) {
        (Order::ReadsFirst { .. }, Owner::HostRead(_)) => queue.reads.push_back(command),
        _ => queue.others.push_back(command),
    }
}

fn note_reads(view: &mut DiskView, queue: &Queue) {
    view.reads.count = queue.arrivals.len() as u32;
    view.reads.oldest = queue.arrivals.front().map(|(_, at)| *at);
}

fn next(queue: &mut Queue, order: Order) -> Option<DiskCommand> {
    let Order::ReadsFirst { bound } = order else {
        return queue.others.pop_front();
    };
    let read_may_pass = queue.passed < bound || queue.others.is_empty();
    if read_may_pass && let Some(read) = queue.reads.pop_front() {
        queue.passed = if queue.others.is_empty() { 0 } else { queue.passed + 1 };
        return Some(read);
    }
    queue.passed = 0;
    queue.others.pop_front()
}

fn issue(queue: &mut Queue, view: &mut DiskView, command: DiskCommand, actions: &mut Vec<Action>) {
    queue.outstanding += 1;
    view.last_page = command.first + u64::from(command.pages);
    actions.push(Action::Disk(command));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Duration;

    fn order_of(order: Order) -> Vec<u64> {
        let mut dispatch = Dispatch::new(1, 1, order, 1000);
        let mut actions = Vec::new();
        let disk = DiskId(0);
        for first in 0..8 {
            let owner = if first >= 4 { Owner::HostRead(0) } else { Owner::Destage(0) };
            let command = DiskCommand { disk, first, pages: 1, write: false, owner };
            dispatch.submit(Instant(first), command, &mut actions);
        }
        for _ in 0..8 {
            dispatch.done(Instant(9), disk, Owner::Destage(0), &mut actions);
        }
        let first = |action: &Action| match action {
            Action::Disk(command) => command.first,
            _ => unreachable!(),
        };
        actions.iter().map(first).collect()
    }

    #[test]
    fn arrival_order_and_reads_first_with_a_bound() {
        assert_eq!(order_of(Order::Arrival), [0, 1, 2, 3, 4, 5, 6, 7]);
        let reads_first = order_of(Order::ReadsFirst { bound: 2 });
        assert_eq!(reads_first, [0, 4, 5, 1, 6, 7, 2, 3]);
    }

    #[test]
    fn views_count_the_reads_of_a_disk_and_know_its_last_place() {
        let mut dispatch = Dispatch::new(1, 1, Order::Arrival, 1000);
        let (mut actions, disk) = (Vec::new(), DiskId(0));
        for (first, at) in [(10, 1), (20, 2)] {
            let owner = Owner::HostRead(first as u32);
            let command = DiskCommand { disk, first, pages: 4, write: false, owner };
            dispatch.submit(Instant(at), command, &mut actions);
        }
        let view = dispatch.views()[0];
        assert_eq!((view.reads.count, view.reads.oldest), (2, Some(Instant(1))));
        assert_eq!(view.last_page, 14, "the second is not in the drive");
        dispatch.done(Instant(3), disk, Owner::HostRead(10), &mut actions);
        let view = dispatch.views()[0];
        assert_eq!((view.reads.count, view.reads.oldest), (1, Some(Instant(2))));
        assert_eq!(view.last_page, 24);
    }

    #[test]
    fn what_waits_in_turns_is_queued_again_in_order_of_arrival() {
        let how = Alternation { held: 1, longest: Duration::ZERO, near: 0, keep: false };
        let mut dispatch = Dispatch::new(1, 1, Order::Arrival, 1000);
        dispatch.alternate(Some(how));
        let (mut actions, disk) = (Vec::new(), DiskId(0));
        // Until reads are no longer rare.
        for first in 0..20 {
            let read =
                DiskCommand { disk, first, pages: 1, write: false, owner: Owner::HostRead(0) };
            dispatch.submit(Instant(0), read, &mut actions);
            dispatch.done(Instant(0), disk, Owner::HostRead(0), &mut actions);
        }
        assert!(dispatch.wants_many());
        actions.clear();
        for first in 0..6 {
            let owner = if first % 2 == 0 { Owner::HostRead(0) } else { Owner::Destage(0) };
            let command = DiskCommand { disk, first, pages: 1, write: false, owner };
            dispatch.submit(Instant(first), command, &mut actions);
        }
        dispatch.alternate(None);
        for _ in 0..6 {
            dispatch.done(Instant(9), disk, Owner::Destage(0), &mut actions);
        }
        let first = |action: &Action| match action {
            Action::Disk(command) => command.first,
            _ => unreachable!(),
        };
        assert_eq!(actions.iter().map(first).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }
}
