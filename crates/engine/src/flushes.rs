//! How destage writes become durable on the members, and when each member is flushed: used by the
//! server and by the simulator (docs/durability.md, "Volatile caches of the members").
//!
//! Each flush of a member has a number. A write that is done when this many flushes have begun is
//! durable when the next one is done. At most one flush of a member is in flight. A destage waits
//! until, on every member that it has written, the flush that its last write needs is done.

use crate::array::disks::DiskSet;
use crate::event::{DiskCommand, Owner};
use crate::units::{Duration, Instant};
use alloc::vec::Vec;

/// How a destage becomes durable on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Each write is durable when it is done (FUA).
    Fua,
    /// A flush begins as soon as a destage waits for one.
    Flush,
    /// A flush waits for the writes of other destages, within bounds ([`FlushLimits`]).
    #[default]
    Epochs,
    /// The member has no volatile cache: what is written is durable.
    Off,
}

impl Durability {
    /// All of them, with their names.
    pub const NAMES: [(&'static str, Durability); 4] = [
        ("fua", Durability::Fua),
        ("flush", Durability::Flush),
        ("epochs", Durability::Epochs),
        ("off", Durability::Off),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, how)| *how == self).map_or("", |(name, _)| name)
    }

    /// The one of a name.
    #[must_use]
    pub fn called(name: &str) -> Option<Durability> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, how)| *how)
    }
}

/// When a member is flushed under [`Durability::Epochs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushLimits {
    /// A flush is expected to take no longer, unless it is of a single write.
    pub bound: Duration,
    /// A destage waits no longer than this for a flush to begin, whatever the member has to read.
    pub wait_max: Duration,
}

impl Default for FlushLimits {
    fn default() -> FlushLimits {
        FlushLimits { bound: Duration::from_millis(150), wait_max: Duration::from_secs(1) }
    }
}

/// What one write adds to a flush, before anything is measured.
const WRITE_COST: Duration = Duration::from_millis(8);
/// Least that is taken for it.
const WRITE_COST_MIN: Duration = Duration::from_micros(20);
/// Flushes over which that is averaged.
const MEMORY: u64 = 8;

/// A destage on whose members writes are not known to be durable.
#[derive(Default)]
struct Unsettled {
    /// Members written since it last waited.
    written: DiskSet,
    /// Flush that its last write on each of them needs.
    needs: Vec<(u16, u64)>,
    /// It waits for these.
    waits: bool,
    /// None of the members has failed since it waits.
    ok: bool,
}

/// A host read in the drive.
type Read = (Owner, u64);

struct Member {
    how: Durability,
    /// Flushes that have begun, and the last of them that is done.
    begun: u64,
    durable: u64,
    /// Since when one is in flight, and how many writes it covers.
    in_flight: Option<(Instant, u32)>,
    /// Writes done since the last one began.
    unflushed: u32,
    /// Since when a destage waits for a flush that has not begun.
    wanted: Option<Instant>,
    /// When the last one ended, and how long it took.
    last: (Instant, Duration),
    /// What one write adds to a flush.
    cost: Duration,
    /// Host reads in the drive: those that have waited for the last flush, and later ones.
    waited: Vec<Read>,
    reads: Vec<Read>,
}

/// A destage all of whose writes are durable, or a member with some of them has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// The destage.
    pub index: u32,
    /// No member has failed.
    pub ok: bool,
}

/// The flushes of all members.
pub struct Flushes {
    limits: FlushLimits,
    members: Vec<Member>,
    destages: Vec<Unsettled>,
}

impl Flushes {
    /// Of this many members, each in epochs.
    #[must_use]
    pub fn new(members: u16, limits: FlushLimits) -> Flushes {
        let member = |_| Member {
            how: Durability::default(),
            begun: 0,
            durable: 0,
            in_flight: None,
            unflushed: 0,
            wanted: None,
            last: (Instant::ZERO, Duration::ZERO),
            cost: WRITE_COST,
            waited: Vec::new(),
            reads: Vec::new(),
        };
        Flushes { limits, members: (0..members).map(member).collect(), destages: Vec::new() }
    }

    /// Sets how writes become durable on a member. Writes that were sent without FUA before, or are
    /// waited for, are flushed all the same.
    pub fn set(&mut self, member: u16, how: Durability) {
        self.members[usize::from(member)].how = how;
    }

    /// How writes become durable on a member.
    #[must_use]
    pub fn how(&self, member: u16) -> Durability {
        self.members[usize::from(member)].how
    }

    /// Whether a command is sent with FUA.
    #[must_use]
    pub fn is_durable(&self, command: &DiskCommand) -> bool {
        let destages = command.write && matches!(command.owner, Owner::Destage(_));
        destages && self.how(command.disk.0) == Durability::Fua
    }

    /// A command goes to its disk.
    pub fn submitted(&mut self, command: &DiskCommand) {
        if let (false, Owner::HostRead(_)) = (command.write, command.owner) {
            let member = &mut self.members[usize::from(command.disk.0)];
            member.reads.push((command.owner, command.first));
        }
    }

    /// A command was carried out by its disk. `durable`: it was sent with FUA.
    pub fn finished(&mut self, command: &DiskCommand, durable: bool) {
        self.ended(command);
        if let (true, Owner::Destage(index)) = (command.write, command.owner) {
            let member = &mut self.members[usize::from(command.disk.0)];
            let flushed = !durable && member.how != Durability::Off;
            member.unflushed += u32::from(flushed);
            let need = if flushed { member.begun + 1 } else { 0 };
            self.destage(index).wrote(command.disk.0, need);
        }
    }

    /// A command has left its disk, carried out or not.
    pub fn ended(&mut self, command: &DiskCommand) {
        if command.write {
            return;
        }
        let member = &mut self.members[usize::from(command.disk.0)];
        let read = (command.owner, command.first);
        for list in [&mut member.waited, &mut member.reads] {
            if let Some(at) = list.iter().position(|known| *known == read) {
                list.swap_remove(at);
                break;
            }
        }
    }

    fn destage(&mut self, index: u32) -> &mut Unsettled {
        let index = index as usize;
        if self.destages.len() <= index {
            self.destages.resize_with(index + 1, Unsettled::default);
        }
        &mut self.destages[index]
    }

    /// A destage waits until all that it has written is durable. Returns it if that is so now.
    /// `gone`: members that have failed.
    pub fn wanted(
        &mut self,
        index: u32,
        now: Instant,
        gone: impl Fn(u16) -> bool,
    ) -> Option<Flushed> {
        let destage = self.destage(index);
        destage.waits = true;
        destage.ok = !destage.written.iter().any(|disk| gone(disk.0));
        destage.needs.retain(|(member, _)| !gone(*member));
        let needs = destage.needs.clone();
        for (member, need) in needs {
            let member = &mut self.members[usize::from(member)];
            if need > member.begun {
                member.wanted.get_or_insert(now);
            }
        }
        self.settled(index)
    }

    /// A destage that waits, if nothing that it needs is outstanding.
    fn settled(&mut self, index: u32) -> Option<Flushed> {
        let destage = &mut self.destages[index as usize];
        let members = &self.members;
        destage.needs.retain(|(member, need)| members[usize::from(*member)].durable < *need);
        if !destage.waits || !destage.needs.is_empty() {
            return None;
        }
        let ok = destage.ok;
        *destage = Unsettled::default();
        Some(Flushed { index, ok })
    }

    fn all_settled(&mut self) -> Vec<Flushed> {
        (0..self.destages.len() as u32).filter_map(|index| self.settled(index)).collect()
    }

    /// Begins a flush of a member, if it is time and none is in flight. Then the driver makes
    /// durable all that was done so far.
    pub fn begin(&mut self, member: u16, now: Instant) -> bool {
        let due = self.due(member).is_some_and(|due| due <= now);
        let member = &mut self.members[usize::from(member)];
        if due {
            member.begun += 1;
            member.in_flight = Some((now, core::mem::take(&mut member.unflushed)));
            member.wanted = None;
        }
        due
    }

    /// When a flush of a member may begin, if no other event comes before.
    #[must_use]
    pub fn due(&self, member: u16) -> Option<Instant> {
        self.members[usize::from(member)].due(&self.limits)
    }

    /// When [`Flushes::begin`] has to be called without another event.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (0..self.members.len() as u16).filter_map(|member| self.due(member)).min()
    }

    /// The flush of a member is done. Returns the destages that wait for nothing any more.
    pub fn done(&mut self, member: u16, now: Instant) -> Vec<Flushed> {
        let member = &mut self.members[usize::from(member)];
        if let Some((since, writes)) = member.in_flight.take() {
            member.durable = member.begun;
            member.measure(now, now.since(since), writes);
        }
        self.all_settled()
    }

    /// A member has failed: nothing on it is waited for.
    pub fn failed(&mut self, number: u16) -> Vec<Flushed> {
        let member = &mut self.members[usize::from(number)];
        (member.in_flight, member.wanted, member.unflushed) = (None, None, 0);
        (member.waited, member.reads) = (Vec::new(), Vec::new());
        // Of another device in its place nothing is known.
        member.how = Durability::default();
        for destage in &mut self.destages {
            let needs = destage.needs.len();
            destage.needs.retain(|(member, _)| *member != number);
            destage.ok &= destage.needs.len() == needs;
        }
        self.all_settled()
    }
}

impl Unsettled {
    fn wrote(&mut self, member: u16, need: u64) {
        self.written.insert(crate::units::DiskId(member));
        match self.needs.iter_mut().find(|(known, _)| *known == member) {
            Some(known) => known.1 = need.max(known.1),
            None => self.needs.push((member, need)),
        }
    }
}

impl Member {
    /// When a flush may begin, as far as is known now.
    fn due(&self, limits: &FlushLimits) -> Option<Instant> {
        if self.in_flight.is_some() {
            return None;
        }
        if self.how != Durability::Epochs {
            // Also where none is needed any more: what was written before needs one.
            return self.wanted;
        }
        let at_most = self.wanted.map(|since| since + limits.wait_max);
        if !self.waited.is_empty() {
            return at_most;
        }
        if u64::from(self.unflushed) >= self.writes_max(limits) {
            return Some(Instant::ZERO);
        }
        // As long as the last flush took, others may join this one.
        let (ended, took) = self.last;
        self.wanted.map(|since| (ended + took).max(since))
    }

    /// Writes whose flush is expected to take as long as the bound.
    fn writes_max(&self, limits: &FlushLimits) -> u64 {
        (limits.bound.0 / self.cost.0).max(1)
    }

    fn measure(&mut self, now: Instant, took: Duration, writes: u32) {
        self.last = (now, took);
        if writes > 0 {
            let each = took.0 / u64::from(writes);
            let mean = (self.cost.0 * (MEMORY - 1) + each) / MEMORY;
            self.cost = Duration(mean.max(WRITE_COST_MIN.0));
        }
        self.waited.append(&mut self.reads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::DiskId;
    use std::vec;

    const MS: u64 = 1_000_000;
    const LIMITS: FlushLimits =
        FlushLimits { bound: Duration(40 * MS), wait_max: Duration(1000 * MS) };

    fn write(destage: u32, disk: u16) -> DiskCommand {
        let owner = Owner::Destage(destage);
        DiskCommand { disk: DiskId(disk), first: 0, pages: 1, write: true, owner }
    }

    fn read(of: u32) -> DiskCommand {
        DiskCommand { write: false, owner: Owner::HostRead(of), ..write(0, 0) }
    }

    fn flushes(how: Durability) -> Flushes {
        let mut flushes = Flushes::new(2, LIMITS);
        (0..2).for_each(|member| flushes.set(member, how));
        flushes
    }

    fn wanted(flushes: &mut Flushes, index: u32, at_ms: u64) -> Option<Flushed> {
        flushes.wanted(index, Instant(at_ms * MS), |_| false)
    }

    fn good(index: u32) -> Flushed {
        Flushed { index, ok: true }
    }

    #[test]
    fn a_write_needs_a_flush_that_began_after_it_was_done() {
        for how in [Durability::Flush, Durability::Epochs] {
            let mut flushes = flushes(how);
            flushes.finished(&write(0, 0), false);
            assert_eq!(wanted(&mut flushes, 0, 1), None);
            assert!(flushes.begin(0, Instant(MS)));
            // The flush in flight began before this one was done.
            flushes.finished(&write(1, 0), false);
            assert_eq!(wanted(&mut flushes, 1, 2), None);
            assert!(!flushes.begin(0, Instant(2 * MS)), "one at a time");
            assert_eq!(flushes.done(0, Instant(3 * MS)), [good(0)]);
            let next = flushes.due(0).expect("wanted");
            assert!(flushes.begin(0, next));
            // Its writes are on two members, and it waits for both.
            flushes.finished(&write(2, 1), false);
            assert_eq!(flushes.done(0, Instant(9 * MS)), [good(1)]);
            assert_eq!(wanted(&mut flushes, 2, 9), None);
            assert!(flushes.due(0).is_none() && flushes.begin(1, Instant(9 * MS)));
            assert_eq!(flushes.done(1, Instant(10 * MS)), [good(2)]);
            // What a flush has covered that another destage asked for needs none of its own.
            flushes.finished(&write(3, 0), false);
            flushes.finished(&write(4, 0), false);
            assert_eq!(wanted(&mut flushes, 4, 20), None);
            assert!(flushes.begin(0, Instant(20 * MS)));
            assert_eq!(flushes.done(0, Instant(21 * MS)), [good(4)]);
            assert_eq!(wanted(&mut flushes, 3, 22), Some(good(3)), "{how:?}");
        }
    }

    #[test]
    fn members_without_a_volatile_cache_or_with_fua_are_not_flushed() {
        for how in [Durability::Off, Durability::Fua] {
            let mut flushes = flushes(how);
            assert_eq!(flushes.is_durable(&write(0, 0)), how == Durability::Fua);
            assert!(!flushes.is_durable(&read(0)));
            let durable = flushes.is_durable(&write(0, 0));
            flushes.finished(&write(0, 0), durable);
            assert_eq!(wanted(&mut flushes, 0, 1), Some(good(0)));
            assert_eq!(flushes.deadline(), None, "{how:?}");
        }
        // A write that was sent before its member became one with FUA.
        let mut flushes = flushes(Durability::Fua);
        flushes.finished(&write(0, 0), false);
        assert_eq!(wanted(&mut flushes, 0, 1), None);
        assert!(flushes.begin(0, Instant(MS)));
        assert_eq!(flushes.done(0, Instant(2 * MS)), [good(0)]);
    }

    #[test]
    fn a_member_that_fails_ends_the_waiting_and_its_place_is_flushed_again() {
        let mut flushes = flushes(Durability::Off);
        flushes.set(1, Durability::Flush);
        for (destage, disk) in [(0, 0), (0, 1), (1, 1), (2, 0)] {
            flushes.finished(&write(destage, disk), false);
        }
        assert_eq!(wanted(&mut flushes, 0, 1), None);
        assert!(flushes.begin(1, Instant(MS)));
        assert_eq!(flushes.failed(1), [Flushed { index: 0, ok: false }]);
        assert_eq!(flushes.how(1), Durability::Epochs, "nothing is known of a spare");
        let gone = flushes.wanted(1, Instant(2 * MS), |member| member == 1);
        assert_eq!(gone, Some(Flushed { index: 1, ok: false }));
        assert_eq!(wanted(&mut flushes, 2, 2), Some(good(2)));
        // A spare is in its place.
        flushes.finished(&write(3, 1), false);
        assert_eq!(wanted(&mut flushes, 3, 3), None);
        assert!(flushes.begin(1, Instant(3 * MS)));
        assert_eq!(flushes.done(1, Instant(4 * MS)), [good(3)]);
    }

    /// Member 0 has taken 10 ms for each write of a flush, for long.
    fn measured() -> Flushes {
        let mut flushes = flushes(Durability::Epochs);
        for round in 0..64_u64 {
            flushes.finished(&write(0, 0), false);
            flushes.finished(&write(0, 0), false);
            assert_eq!(wanted(&mut flushes, 0, round * 100), None);
            assert!(flushes.begin(0, Instant(round * 100 * MS)));
            assert_eq!(flushes.done(0, Instant((round * 100 + 20) * MS)), [good(0)]);
        }
        flushes
    }

    #[test]
    fn an_epoch_ends_after_as_many_writes_as_fit_into_the_bound() {
        let (mut flushes, now) = (measured(), Instant(6330 * MS));
        // Others may join for as long as the last flush took: it ended at 6,320 ms.
        flushes.finished(&write(0, 0), false);
        assert_eq!(wanted(&mut flushes, 0, 6330), None);
        assert!(!flushes.begin(0, now));
        assert_eq!(flushes.deadline(), Some(Instant(6340 * MS)));
        // Four writes of 10 ms are the bound of 40 ms, whoever waits.
        (1..3).for_each(|destage| flushes.finished(&write(destage, 0), false));
        assert!(!flushes.begin(0, now));
        flushes.finished(&write(3, 0), false);
        assert!(flushes.begin(0, now));
    }

    #[test]
    fn a_read_in_the_drive_waits_for_one_flush_at_most() {
        let mut flushes = measured();
        let at = |ms: u64| Instant((6320 + ms) * MS);
        flushes.finished(&write(0, 0), false);
        assert_eq!(wanted(&mut flushes, 0, 6320), None);
        assert!(flushes.begin(0, at(20)));
        flushes.submitted(&read(7));
        assert_eq!(flushes.done(0, at(30)), [good(0)]);
        // It has waited for one. Even a complete epoch is not flushed before it is done.
        (0..9).for_each(|destage| flushes.finished(&write(destage, 0), false));
        assert_eq!(wanted(&mut flushes, 0, 6350), None);
        assert!(!flushes.begin(0, at(100)));
        // Later reads have not waited yet.
        flushes.submitted(&read(8));
        flushes.finished(&read(7), false);
        assert!(flushes.begin(0, at(100)));
        // A drive that never ends a read does not stop destages.
        assert_eq!(flushes.done(0, at(110)), [good(0)]);
        flushes.finished(&write(0, 0), false);
        assert_eq!(wanted(&mut flushes, 0, 6430), None);
        assert_eq!(flushes.due(0), Some(at(1110)));
        let lists = &flushes.members[0];
        assert_eq!((&lists.waited, lists.reads.len()), (&vec![(Owner::HostRead(8), 0)], 0));
        flushes.ended(&read(8));
        assert!(flushes.begin(0, at(120)));
    }
}
