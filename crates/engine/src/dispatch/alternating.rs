//! Host reads and destages take turns at each disk. While reads wait only they enter the drive;
//! when few are left, a burst of destage commands near the last place enters it (docs/ebb.md).
//!
//! Where reads are rare all commands keep the array's order: disks that choose for themselves drift
//! apart, and destages wait for the last of them. Where reads are near each other they do while
//! destages are urgent: the drive's own queue chooses better than a distance between pages does.

use super::Order;
use crate::conditions::Pressure;
use crate::event::{DiskCommand, Owner};
use crate::policy::Alternation;
use crate::units::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The urgency at the high threshold. It is twice that when the NVS is full.
const URGENT: u32 = 256;
/// Reads at a smaller mean distance, in pages, are near on any drive: it is 1 GiB. What looks like
/// a small drive may be a part of a large one.
const NEAR_ANYWHERE: u64 = 262_144;
/// Where reads are near, disks keep the array's order from this urgency on.
const NEARLY_URGENT: u32 = URGENT * 3 / 4;
/// Share of reads among a disk's commands below which they are rare, in per cent.
const RARE_PERCENT: u64 = 5;
/// A drive that has had a command for this long passes it over for nearer ones: it gets no other.
const PASSED_OVER: Duration = Duration::from_secs(1);
/// The same for each command that may be in the drive: with many, each takes longer.
const PASSED_OVER_EACH: Duration = Duration(PASSED_OVER.0 / 16);
/// Commands over which means are taken.
const MEMORY: u64 = 256;
/// All of a disk's commands, as a share.
const ALL: u64 = 1 << 16;
/// Longest time a destage command waits for its place to be near.
const DESTAGE_WAITS: Duration = Duration::from_secs(10);
/// Destage commands in a busy drive when they are least urgent: what a drive orders well.
const BUSY_SLOTS: u32 = 8;
/// The same in a drive that is seldom busy, and where reads are near: each command delays the next
/// read by more than its order gains.
const IDLE_SLOTS: u32 = 2;
/// A drive is busy from where this many reads of [`URGENT`] find a command in it, and seldom busy
/// up to two thirds of that.
const BUSY_FROM: u32 = URGENT * 3 / 4;
/// The full depth, however busy the drives are, from this urgency on; none of it up to two thirds.
const DEEP_FROM: u32 = URGENT * 3 / 4;
/// Of a larger window than this most may hold reads when an urgent burst begins: the drive still
/// has enough of them to choose from.
const LARGE_WINDOW: u32 = 32;
/// An urgent burst may begin when this part of the window, or less, holds reads.
const PART_OF_WINDOW: u32 = 8;
/// From this urgency on a burst may begin while reads wait.
const PRESSING: u32 = URGENT * 5 / 4;
/// From this urgency on, if it is above the usual one, a burst may cost reads much more.
const STEEP_FROM: u32 = URGENT * 7 / 4;
/// By how much more, for each unit of urgency.
const STEEPNESS: u32 = 15;
/// Commands over which the usual urgency is the mean.
const USUAL_MEMORY: u32 = 4096;

/// How urgent destages are, in units of which [`URGENT`] are 1.
#[derive(Clone, Copy)]
struct Urgency {
    now: u32,
    /// As urgent as this makes what a burst may cost reads: `now`, and more where that is unusual.
    price: u32,
    /// Destage commands that may be in a drive.
    slots: u32,
}

struct Waiting {
    command: DiskCommand,
    since: Instant,
    /// Its number in the order of arrival.
    number: u64,
}

/// A command in a drive.
struct InDrive {
    owner: Owner,
    since: Instant,
}

#[derive(Default)]
struct Turns {
    reads: VecDeque<Waiting>,
    destages: VecDeque<Waiting>,
    /// Of rebuilds and scrubs.
    others: VecDeque<Waiting>,
    /// A burst of destages is running.
    bursting: bool,
    in_drive: Vec<InDrive>,
    /// Commands of the drive that it cannot carry out now.
    away: u32,
    /// Reads in a row that passed something, in the array's order.
    passed: u32,
}

/// The queues of disks at which reads and destages take turns.
pub(super) struct Alternating {
    how: Alternation,
    order: Order,
    /// Pages of each drive.
    drive_pages: u64,
    turns: Vec<Turns>,
    urgency: u32,
    /// Sum of the last [`USUAL_MEMORY`] urgencies.
    usual: u32,
    /// Mean share of reads among commands, of [`ALL`].
    read_share: u64,
    /// Mean share of reads that found a command in their drive, of [`ALL`]: of the time, the part
    /// in which a drive is busy.
    busy: u64,
    /// Mean distance of reads from the last place.
    distance: u64,
    numbers: u64,
}

impl Alternating {
    pub(super) fn new(
        how: Alternation,
        order: Order,
        disks: usize,
        drive_pages: u64,
    ) -> Alternating {
        let turns = (0..disks).map(|_| Turns::default()).collect();
        let (urgency, usual, read_share, busy, distance, numbers) = (0, 0, 0, 0, 0, 0);
        Alternating {
            how,
            order,
            drive_pages,
            turns,
            urgency,
            usual,
            read_share,
            busy,
            distance,
            numbers,
        }
    }

    pub(super) fn set_drive_pages(&mut self, pages: u64) {
        self.drive_pages = pages;
    }

    /// How urgent destages are: `allowed` of the `depth` that may be in flight at most, and
    /// `taken` pages of the `space` above the high threshold.
    pub(super) fn set_urgency(&mut self, (allowed, depth): (u32, u32), (taken, space): (u64, u64)) {
        let part = |of: u64, all: u64| of.min(all) * u64::from(URGENT) / all.max(1);
        self.urgency = (part(allowed.into(), depth.into()) + part(taken, space)) as u32;
    }

    /// How urgent destages are, now and usually.
    pub(super) fn pressure(&self) -> Pressure {
        Pressure { now: self.urgency, usual: self.usual / USUAL_MEMORY }
    }

    /// Whether destages should have many to choose from: reads and destages take turns, and the
    /// nearest of many is much nearer than that of few.
    pub(super) fn wants_many(&self) -> bool {
        !self.keeps_order() && !self.near()
    }

    /// Which part of the full depth destages should have beyond what the rate allows: all where
    /// drives are busy or destages urgent. As (part, of).
    pub(super) fn depth_share(&self) -> (u32, u32) {
        (rising(self.urgency, DEEP_FROM).max(self.busy_part()), URGENT)
    }

    /// How busy drives are, from 0 to [`URGENT`].
    fn busy_part(&self) -> u32 {
        rising((self.busy * u64::from(URGENT) / ALL) as u32, BUSY_FROM)
    }

    /// Whether all commands keep the array's order now.
    pub(super) fn keeps_order(&self) -> bool {
        let rare = self.read_share * 100 < ALL * RARE_PERCENT;
        rare || (self.near() && self.urgency >= NEARLY_URGENT)
    }

    fn near(&self) -> bool {
        let part = self.drive_pages * self.how.near / 1000;
        self.how.near > 0 && self.distance < part.max(NEAR_ANYWHERE)
    }

    /// Whether the NVS is held fuller while hosts use much of it again.
    pub(super) fn keeps_reused(&self) -> bool {
        self.how.keep
    }

    fn urgency(&self, near: bool, window: u32) -> Urgency {
        let usual = self.pressure().usual.max(STEEP_FROM);
        let price = self.urgency + STEEPNESS * self.urgency.saturating_sub(usual);
        Urgency { now: self.urgency, price, slots: self.slots(near, window) }
    }

    /// Counts a command in the means.
    pub(super) fn measure(&mut self, command: &DiskCommand, last_page: u64) {
        self.usual = self.usual - self.usual / USUAL_MEMORY + self.urgency;
        self.read_share -= self.read_share / MEMORY;
        if matches!(command.owner, Owner::HostRead(_)) {
            self.read_share += ALL / MEMORY;
            let distance = command.first.abs_diff(last_page);
            self.distance = self.distance - self.distance / MEMORY + distance / MEMORY;
        }
    }

    pub(super) fn add(&mut self, disk: usize, command: DiskCommand, now: Instant) {
        let waiting = Waiting { command, since: now, number: self.numbers };
        self.numbers += 1;
        let turns = &mut self.turns[disk];
        match command.owner {
            Owner::HostRead(_) => {
                let found = u64::from(!turns.in_drive.is_empty());
                self.busy = self.busy - self.busy / MEMORY + found * (ALL / MEMORY);
                turns.reads.push_back(waiting);
            }
            Owner::Destage(_) => turns.destages.push_back(waiting),
            Owner::Rebuild(_) | Owner::Scrub(_) => turns.others.push_back(waiting),
        }
    }

    /// A command has left the drive. One that entered it before reads and destages took turns was
    /// not counted.
    pub(super) fn left(&mut self, disk: usize, owner: Owner) {
        let in_drive = &mut self.turns[disk].in_drive;
        if let Some(at) = in_drive.iter().position(|command| command.owner == owner) {
            in_drive.remove(at);
        }
    }

    /// `more` commands more (or less) are with the drive though it cannot carry them out now.
    pub(super) fn waits(&mut self, disk: usize, more: i32) {
        let away = &mut self.turns[disk].away;
        *away = away.saturating_add_signed(more);
    }

    /// What enters the drive next, if anything may.
    pub(super) fn next(
        &mut self,
        disk: usize,
        now: Instant,
        window: u32,
        last_page: u64,
    ) -> Option<DiskCommand> {
        let (keeps_order, order, near) = (self.keeps_order(), self.order, self.near());
        let urgency = self.urgency(near, window);
        let how = Alternation { held: if near { 0 } else { self.how.held }, ..self.how };
        let turns = &mut self.turns[disk];
        let passed_over = Duration(PASSED_OVER_EACH.0 * u64::from(window)).max(PASSED_OVER);
        if turns.passes_over(now, passed_over) {
            return None;
        }
        let waiting = if keeps_order {
            turns.bursting = false;
            turns.in_order(order)
        } else {
            turns.in_turns(&how, near, urgency, now, window, last_page)
        }?;
        turns.in_drive.push(InDrive { owner: waiting.command.owner, since: now });
        Some(waiting.command)
    }

    /// How many destage commands may be in a drive.
    fn slots(&self, near: bool, window: u32) -> u32 {
        let busy = if near { 0 } else { self.busy_part() };
        let least = (IDLE_SLOTS + (BUSY_SLOTS - IDLE_SLOTS) * busy / URGENT).min(window);
        least + (window - least) * (2 * self.urgency).min(URGENT) / URGENT
    }

    /// All that waits, in the order of its arrival.
    pub(super) fn into_waiting(self) -> Vec<Vec<DiskCommand>> {
        let in_order = |turns: Turns| {
            let Turns { reads, destages, others, .. } = turns;
            let mut all: Vec<Waiting> = reads.into_iter().chain(destages).chain(others).collect();
            all.sort_unstable_by_key(|waiting| waiting.number);
            all.into_iter().map(|waiting| waiting.command).collect()
        };
        self.turns.into_iter().map(in_order).collect()
    }
}

impl Turns {
    /// How many commands of this kind are in the drive.
    fn in_drive(&self, kind: fn(&Owner) -> bool) -> u32 {
        self.in_drive.iter().filter(|command| kind(&command.owner)).count() as u32
    }

    /// Whether the drive has had a command for longer than `most`, and could carry it out.
    fn passes_over(&self, now: Instant, most: Duration) -> bool {
        let first = self.in_drive.first();
        self.away == 0 && first.is_some_and(|first| now.since(first.since) > most)
    }

    /// The next command in the array's order.
    fn in_order(&mut self, order: Order) -> Option<Waiting> {
        let number = |queue: &VecDeque<Waiting>| queue.front().map_or(u64::MAX, |w| w.number);
        let (read, destage, other) =
            (number(&self.reads), number(&self.destages), number(&self.others));
        let nothing_else = destage.min(other) == u64::MAX;
        let read_first = match order {
            Order::Arrival => read < destage.min(other),
            Order::ReadsFirst { bound } => self.passed < bound || nothing_else,
        };
        if read_first && let Some(read) = self.reads.pop_front() {
            self.passed = if nothing_else { 0 } else { self.passed + 1 };
            return Some(read);
        }
        self.passed = 0;
        if destage < other { self.destages.pop_front() } else { self.others.pop_front() }
    }

    fn in_turns(
        &mut self,
        how: &Alternation,
        near: bool,
        urgency: Urgency,
        now: Instant,
        window: u32,
        last_page: u64,
    ) -> Option<Waiting> {
        self.begin_or_end(how, urgency, now, window);
        let waited = |other: &Waiting| now.since(other.since) > how.longest;
        if self.others.front().is_some_and(waited) {
            return self.others.pop_front();
        }
        if !self.bursting && !self.reads.is_empty() {
            // Of a stream, the nearest may be the one just passed.
            if near {
                return self.reads.pop_front();
            }
            let most = Duration(how.longest.0 * 3 / 2);
            return nearest(&mut self.reads, most, now, last_page);
        }
        if let Some(other) = self.others.pop_front() {
            return Some(other);
        }
        if !self.bursting || self.in_drive(is_destage) >= urgency.slots {
            return None;
        }
        nearest(&mut self.destages, DESTAGE_WAITS, now, last_page)
    }

    /// Begins or ends a burst of destages.
    fn begin_or_end(&mut self, how: &Alternation, urgency: Urgency, now: Instant, window: u32) {
        if !self.bursting {
            let pressing = urgency.now.saturating_sub(PRESSING);
            let waiting = window * pressing / (2 * URGENT);
            let few = window * urgency.now.min(URGENT) / (PART_OF_WINDOW * URGENT);
            let large =
                window.saturating_sub(LARGE_WINDOW) * pressing / (2 * URGENT - PRESSING) / 2;
            self.bursting = self.reads.len() as u32 <= waiting
                && self.in_drive(is_read) <= few + waiting + large
                && !self.destages.is_empty();
            return;
        }
        let part = |most: u64| most * u64::from(urgency.price) / u64::from(URGENT);
        let held = u64::from(how.held) * u64::from(window);
        let too_many = self.reads.len() as u64 > part(held);
        let oldest = self.reads.front();
        let too_old = oldest.is_some_and(|read| now.since(read.since).0 > part(how.longest.0));
        self.bursting = !(too_many || too_old || self.destages.is_empty());
    }
}

/// From 0 to [`URGENT`] as `of` rises from two thirds of `full` to `full`.
fn rising(of: u32, full: u32) -> u32 {
    let begin = full * 2 / 3;
    of.saturating_sub(begin).min(full - begin) * URGENT / (full - begin)
}

fn is_read(owner: &Owner) -> bool {
    matches!(owner, Owner::HostRead(_))
}

fn is_destage(owner: &Owner) -> bool {
    matches!(owner, Owner::Destage(_))
}

/// The command nearest to the last place, but the first if it has waited for longer than `most`.
fn nearest(
    queue: &mut VecDeque<Waiting>,
    most: Duration,
    now: Instant,
    last_page: u64,
) -> Option<Waiting> {
    if now.since(queue.front()?.since) > most {
        return queue.pop_front();
    }
    let distance = |waiting: &Waiting| waiting.command.first.abs_diff(last_page);
    let at = (0..queue.len()).min_by_key(|at| distance(&queue[*at]))?;
    queue.remove(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::DiskId;

    const HOW: Alternation = Alternation { held: 1, longest: Duration(50), near: 1, keep: false };
    const FAR: u64 = 1_000_000_000;
    const WINDOW: u32 = 2;

    fn command(first: u64, read: bool) -> DiskCommand {
        let owner = if read { Owner::HostRead(0) } else { Owner::Destage(0) };
        DiskCommand { disk: DiskId(0), first, pages: 1, write: false, owner }
    }

    /// A disk that has served far reads, with destages most urgent.
    fn busy() -> Alternating {
        let mut queues = Alternating::new(HOW, Order::Arrival, 1, 1_000_000);
        queues.set_urgency((1, 1), (0, 1));
        (0..200).for_each(|_| queues.measure(&command(FAR, true), 0));
        assert!(!queues.keeps_order());
        queues
    }

    /// Of the reads that have come, this many in a thousand have found a command in the drive.
    fn busied(queues: &mut Alternating, permille: u64) {
        for read in 0..20_000u64 {
            queues.turns[0].in_drive.clear();
            if read * permille / 1000 < (read + 1) * permille / 1000 {
                let owner = Owner::Destage(0);
                queues.turns[0].in_drive.push(InDrive { owner, since: Instant(0) });
            }
            queues.add(0, command(0, true), Instant(0));
            queues.turns[0].reads.clear();
        }
        queues.turns[0].in_drive.clear();
    }

    #[test]
    fn destages_have_the_full_depth_where_drives_are_busy_or_destages_urgent() {
        for (permille, urgency, part) in [
            (0, 0, 0),
            (500, 128, 0),
            (500, 160, 128),
            (500, 192, 256),
            (625, 0, 128),
            (625, 64, 128),
            (800, 0, 256),
        ] {
            let mut queues = busy();
            busied(&mut queues, permille);
            queues.set_urgency((urgency, 256), (0, 1));
            let (is, of) = queues.depth_share();
            assert!(of == 256 && is.abs_diff(part) <= 8, "{permille}, {urgency}: {is}");
        }
    }

    fn next(queues: &mut Alternating, now: u64, last_page: u64) -> Option<u64> {
        queues.next(0, Instant(now), WINDOW, last_page).map(|command| command.first)
    }

    #[test]
    fn destages_wait_for_reads_and_then_go_by_place() {
        let mut queues = busy();
        for (first, read) in [(900, false), (30, false), (5, true), (700, true), (50, false)] {
            queues.add(0, command(first, read), Instant(0));
        }
        assert_eq!(next(&mut queues, 1, 600), Some(700), "the nearer read");
        assert_eq!(next(&mut queues, 1, 700), Some(5));
        assert_eq!(next(&mut queues, 1, 5), None, "the drive has reads");
        queues.left(0, Owner::HostRead(0));
        queues.left(0, Owner::HostRead(0));
        assert_eq!(next(&mut queues, 2, 40), Some(30));
        // Two reads may wait for the burst, a third may not.
        queues.add(0, command(1, true), Instant(2));
        queues.add(0, command(2, true), Instant(2));
        assert_eq!(next(&mut queues, 3, 31), Some(50));
        queues.add(0, command(3, true), Instant(3));
        assert_eq!(next(&mut queues, 3, 51), Some(3), "three reads wait");
    }

    #[test]
    fn a_read_ends_a_burst_when_it_has_waited_long_or_destages_are_not_urgent() {
        for (urgency, at, ends) in [(1, 40, false), (1, 60, true), (0, 11, true)] {
            let mut queues = busy();
            queues.set_urgency((urgency, 1), (0, 1));
            (0..9).for_each(|first| queues.add(0, command(first, false), Instant(0)));
            assert_eq!(next(&mut queues, 1, 0), Some(0));
            queues.add(0, command(77, true), Instant(9));
            let read = next(&mut queues, at, 1) == Some(77);
            assert_eq!(read, ends, "urgency {urgency}, at {at}");
        }
    }

    #[test]
    fn a_burst_begins_while_reads_wait_when_the_nvs_is_nearly_full() {
        for (window, taken, wait) in
            [(16, 64, 0), (16, 160, 3), (16, 256, 6), (8, 256, 3), (1, 256, 0)]
        {
            let begins = |reads: u64| {
                let mut queues = busy();
                queues.set_urgency((1, 1), (taken, 256));
                (0..reads).for_each(|read| queues.add(0, command(FAR + read, true), Instant(0)));
                queues.add(0, command(5, false), Instant(0));
                queues.next(0, Instant(1), window, 0).is_some_and(|command| command.first == 5)
            };
            assert!(begins(wait) && !begins(wait + 1), "window {window}, {taken} of 256 pages");
        }
    }

    #[test]
    fn of_a_large_window_more_may_hold_reads_when_the_nvs_is_nearly_full() {
        for (window, taken, hold) in [(32, 256, 16), (64, 256, 48), (128, 256, 112), (128, 160, 64)]
        {
            let begins = |reads: u64| {
                let mut queues = busy();
                queues.set_urgency((1, 1), (taken, 256));
                (0..reads).for_each(|read| queues.add(0, command(FAR + read, true), Instant(0)));
                let enter = |_: &u64| queues.next(0, Instant(0), window, 0).is_some();
                assert_eq!((0..reads).take_while(enter).count() as u64, reads.min(window.into()));
                queues.add(0, command(5, false), Instant(0));
                queues.next(0, Instant(1), window, 0).is_some_and(|command| command.first == 5)
            };
            assert!(begins(hold) && !begins(hold + 1), "window {window}, {taken} of 256 pages");
        }
    }

    #[test]
    fn near_is_a_part_of_the_drive() {
        let mut queues = busy();
        (0..9000).for_each(|_| queues.measure(&command(400_000, true), 0));
        queues.set_drive_pages(300_000_000);
        assert!(queues.wants_many(), "more than a thousandth of the drive");
        queues.set_drive_pages(500_000_000);
        assert!(!queues.wants_many());
        // A GiB is near on any drive.
        queues.set_drive_pages(1_000_000);
        (0..9000).for_each(|_| queues.measure(&command(200_000, true), 0));
        assert!(!queues.wants_many());
    }

    #[test]
    fn as_many_reads_wait_as_the_window_has_places_and_more_the_fuller_the_nvs_is() {
        let rising = [(6, 0, 6), (6, 128, 9), (6, 192, 10), (6, 224, 22), (6, 256, 34)];
        for (window, taken, held) in rising.into_iter().chain([(1, 0, 1), (1, 256, 5)]) {
            assert_held(&mut busy(), taken, window, held);
        }
        // Where the NVS is always as full, twice the window.
        for (usual, taken, held) in [(256, 256, 12), (224, 256, 23), (128, 256, 34)] {
            let mut queues = busy();
            queues.set_urgency((1, 1), (usual, 256));
            (0..40_000).for_each(|_| queues.measure(&command(FAR, true), 0));
            assert_held(&mut queues, taken, 6, held);
        }
    }

    /// Asserts how many reads wait for a burst while that part of the space is taken.
    fn assert_held(queues: &mut Alternating, taken: u64, window: u32, held: u64) {
        queues.set_urgency((1, 1), (taken, 256));
        (0..99).for_each(|first| queues.add(0, command(first, false), Instant(0)));
        let mut enters = |read: u64| {
            let next = queues.next(0, Instant(1), window, read).map(|command| command.first);
            queues.left(0, Owner::Destage(0));
            queues.add(0, command(FAR + read, true), Instant(1));
            next
        };
        let destages = (0..50).take_while(|read| enters(*read).is_some_and(|at| at < FAR)).count();
        assert_eq!(destages as u64, held + 1, "window {window}, {taken} of 256 pages taken");
    }

    #[test]
    fn the_busier_drives_are_the_more_destages_enter_and_half_urgent_ones_take_all_places() {
        let seldom = [(4, 0, 2), (32, 0, 2), (32, 64, 17), (32, 128, 32)].map(|of| (500, of));
        let often = [(4, 0, 4), (32, 0, 8), (32, 64, 20), (32, 128, 32)].map(|of| (750, of));
        for (permille, (window, urgency, enter)) in
            seldom.into_iter().chain(often).chain([(625, (32, 0, 5))])
        {
            let mut queues = busy();
            busied(&mut queues, permille);
            queues.set_urgency((urgency, 256), (0, 1));
            (0..99).for_each(|first| queues.add(0, command(first, false), Instant(0)));
            let entered =
                (0..99).take_while(|at| queues.next(0, Instant(1), window, *at).is_some()).count();
            assert_eq!(entered, enter, "{permille}, window {window}, {urgency} of 256");
        }
    }

    #[test]
    fn the_order_is_kept_where_reads_are_rare_or_destages_urgent_and_reads_near() {
        let mut rare = busy();
        (0..800).for_each(|_| rare.measure(&command(0, false), 0));
        assert!(rare.keeps_order());
        let mut near = busy();
        (0..9000).for_each(|_| near.measure(&command(300, true), 0));
        assert!(near.keeps_order());
        for first in [9, 1, 5] {
            near.add(0, command(first, false), Instant(0));
        }
        near.add(0, command(4, true), Instant(0));
        let order: Vec<u64> = core::iter::from_fn(|| next(&mut near, 1, 0)).collect();
        assert_eq!(order, [9, 1, 5, 4]);
    }

    #[test]
    fn where_reads_are_near_and_destages_not_urgent_no_read_is_held() {
        let mut near = busy();
        (0..9000).for_each(|_| near.measure(&command(300, true), 0));
        near.set_urgency((3, 4), (0, 1));
        assert!(near.keeps_order());
        near.set_urgency((2, 3), (0, 1));
        assert!(!near.keeps_order());
        (0..9).for_each(|first| near.add(0, command(first, false), Instant(0)));
        assert_eq!(next(&mut near, 1, 0), Some(0));
        near.add(0, command(300, true), Instant(1));
        near.add(0, command(2, true), Instant(1));
        assert_eq!(next(&mut near, 1, 1), Some(300), "one read ends the burst, and none is passed");
        // In a large drive there are few destages while they are not urgent.
        for (urgency, enter) in [(0, 2), (64, 17)] {
            let mut near = busy();
            (0..9000).for_each(|_| near.measure(&command(300, true), 0));
            near.set_urgency((urgency, 256), (0, 1));
            assert!(!near.wants_many());
            (0..99).for_each(|first| near.add(0, command(first, false), Instant(0)));
            let entered = (0..99).take_while(|at| near.next(0, Instant(1), 32, *at).is_some());
            assert_eq!(entered.count(), enter, "{urgency} of 256");
        }
    }

    #[test]
    fn a_drive_that_passes_a_command_over_gets_no_other_until_it_is_done() {
        let mut queues = busy();
        (0..9).for_each(|read| queues.add(0, command(FAR * read, true), Instant(0)));
        assert_eq!(next(&mut queues, 1, 0), Some(0));
        let late = 2 + PASSED_OVER.0;
        assert!(next(&mut queues, late - 1, 0).is_some(), "it has had it for a second");
        assert_eq!(next(&mut queues, late, 0), None);
        // A command that the drive cannot carry out now does not hold up the others.
        queues.waits(0, 1);
        assert!(next(&mut queues, late, 0).is_some());
        queues.waits(0, -1);
        assert_eq!(next(&mut queues, late, 0), None);
        queues.left(0, Owner::HostRead(0));
        assert!(next(&mut queues, late, 0).is_some(), "the next one came later");
        // With a large window each command may take longer.
        let mut queues = busy();
        (0..9).for_each(|read| queues.add(0, command(FAR * read, true), Instant(0)));
        let mut enters = |at| queues.next(0, Instant(at), 32, 0).is_some();
        assert!(enters(1) && enters(1 + 2 * PASSED_OVER.0) && !enters(2 + 2 * PASSED_OVER.0));
    }
}
