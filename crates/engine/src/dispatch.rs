//! One queue per disk: what enters the drive's window, in which order and when.

use crate::event::Action;
use crate::event::{DiskCommand, Owner};
use crate::units::DiskId;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

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

#[derive(Default)]
struct Queue {
    reads: VecDeque<DiskCommand>,
    others: VecDeque<DiskCommand>,
    outstanding: u32,
    passed: u32,
    last_page: u64,
}

/// The queues of all disks.
pub struct Dispatch {
    queues: Vec<Queue>,
    /// Commands of each disk, queued and outstanding.
    lengths: Vec<u32>,
    window: u32,
    order: Order,
}

impl Dispatch {
    /// Queues for `disks` drives of `window` commands each.
    pub fn new(disks: u16, window: u32, order: Order) -> Dispatch {
        let queues = (0..disks).map(|_| Queue::default()).collect();
        Dispatch { queues, lengths: vec![0; usize::from(disks)], window, order }
    }

    /// Queues a command, or issues it where the drive's window has room.
    pub fn submit(&mut self, command: DiskCommand, actions: &mut Vec<Action>) {
        let queue = &mut self.queues[usize::from(command.disk.0)];
        self.lengths[usize::from(command.disk.0)] += 1;
        if queue.outstanding < self.window {
            issue(queue, command, actions);
            return;
        }
        match (self.order, command.owner) {
            (Order::ReadsFirst { .. }, Owner::HostRead(_)) => queue.reads.push_back(command),
            _ => queue.others.push_back(command),
        }
    }

    /// A command of this disk is done: the next may enter the window.
    pub fn done(&mut self, disk: DiskId, actions: &mut Vec<Action>) {
        let queue = &mut self.queues[usize::from(disk.0)];
        self.lengths[usize::from(disk.0)] -= 1;
        queue.outstanding -= 1;
        if let Some(command) = next(queue, self.order) {
            issue(queue, command, actions);
        }
    }

    /// A command that the disk refused is tried again, though the disk's window may be full.
    pub fn again(&mut self, disk: DiskId) {
        self.lengths[usize::from(disk.0)] += 1;
        self.queues[usize::from(disk.0)].outstanding += 1;
    }

    /// Commands queued and outstanding at a disk.
    pub fn length(&self, disk: DiskId) -> u32 {
        self.lengths[usize::from(disk.0)]
    }

    /// [`Dispatch::length`] of all disks.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Pages between `page` and the end of the last command issued to a disk: an estimate of how
    /// far its head must move.
    pub fn distance(&self, disk: DiskId, page: u64) -> u64 {
        self.queues[usize::from(disk.0)].last_page.abs_diff(page)
    }
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

fn issue(queue: &mut Queue, command: DiskCommand, actions: &mut Vec<Action>) {
    queue.outstanding += 1;
    queue.last_page = command.first + u64::from(command.pages);
    actions.push(Action::Disk(command));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_of(order: Order) -> Vec<u64> {
        let mut dispatch = Dispatch::new(1, 1, order);
        let mut actions = Vec::new();
        let disk = DiskId(0);
        for first in 0..8 {
            let owner = if first >= 4 { Owner::HostRead(0) } else { Owner::Destage(0) };
            dispatch
                .submit(DiskCommand { disk, first, pages: 1, write: false, owner }, &mut actions);
        }
        for _ in 0..8 {
            dispatch.done(disk, &mut actions);
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
}
