//! STOW: two WOW-like rings, for random and for sequential data, with hysteresis between them
//! and an adaptive size for the sequential one (Algorithms 1 to 3); and its variant `seqran`.

use super::scan::{Ring, SPARED, Sparse, below_mean};
use super::sparing::Sparing;
use super::streams::Streams;
use super::{Alternation, DestagePolicy, Gauges, PageWrite, PolicyContext, PolicyEntry, Queues};
use crate::bounded::cover;
use crate::conditions::{Conditions, Pressure};
use crate::nvs::directory::{Directory, Slot};
use crate::registry::{Entry, Param};
use crate::units::GroupId;
use alloc::boxed::Box;
use alloc::vec::Vec;

const HYSTERESIS: Param = Param {
    name: "hysteresis",
    unit: "pages per disk",
    default: "128",
    range: "1 to 1000000",
    help: "HysteresisCount; it never exceeds an eighth of the gap between the thresholds",
};

/// The table entry of STOW.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "stow",
        summary: "queues for random and for sequential data, with adaptive sizes and hysteresis",
        source: "STOW (USENIX ATC'09) Algorithms 1 to 3; docs/simulator.md",
        params: &[HYSTERESIS],
    },
    make: |choice, context| {
        let hysteresis = choice.number("hysteresis", 1, 1_000_000)?;
        Ok(Box::new(Stow::new(context, Switching::Hysteresis, hysteresis)))
    },
};

/// The table entry of the variant without hysteresis.
pub const SEQRAN: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "seqran",
        summary: "STOW's two queues, always destaging from the larger: no hysteresis, no sizes",
        source: "STOW (USENIX ATC'09) section 3.3.1, Fig. 3; docs/simulator.md",
        params: &[],
    },
    make: |_, context| Ok(Box::new(Stow::new(context, Switching::Larger, 128))),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Switching {
    Hysteresis,
    Larger,
}

const RANDOM: usize = 0;
const SEQUENTIAL: usize = 1;
/// Groups with many pages go first from this urgency on, in 256ths, if it is above the usual one...
const FULLEST_FIRST: u32 = 256 * 3 / 2;
/// ... by this much where that may divide what belongs together.
const SURGE: u32 = 128;
/// For a group with many pages, a pick looks at this many.
const LOOKS: u64 = 256;
const RECENT: u8 = 1;
const IN_SEQUENTIAL: u8 = 2;
/// A stream has left the group: it is about to go into SeqQ.
const JOINING: u8 = 8;

/// What the last decision was and what it was based on.
struct Decision {
    queue: usize,
    destaged: u64,
    sizes: [u64; 2],
}

/// Stretches of successive groups picked from SeqQ.
#[derive(Default)]
struct Stretch {
    last: Option<GroupId>,
    groups: u64,
}

/// Two rings and what decides between them.
pub(super) struct Stow {
    rings: [Ring; 2],
    /// Per slot: bit 0 the recency bit, bit 1 whether the group is in SeqQ.
    state: Vec<u8>,
    pages: [u64; 2],
    requests: [u64; 2],
    desired: f64,
    desired_set: bool,
    decision: Option<Decision>,
    stretch: Stretch,
    switching: Switching,
    hysteresis: u64,
    /// The same as a float, to be compared with [`Stow::gap_to_desired`].
    hysteresis_gap: f64,
    low_hundredths: u64,
    disks: f64,
    queue_depth: u64,
    nvs_pages: u64,
    mirrored: bool,
    /// Random groups with less than three quarters of the mean pages are passed over once.
    sparing: Option<Sparing>,
    /// Of ebb: two complete groups fit above the high threshold, so that a surge has a choice.
    surges: bool,
    /// Of ebb: distinguishes large writes at random places from streams.
    streams: Option<Streams>,
    /// While both queues are one: they are looked at from this address on.
    next_look: u64,
    alternation: Option<Alternation>,
}

impl Stow {
    fn new(context: &PolicyContext, switching: Switching, per_disk: u64) -> Stow {
        let ring = || Ring::new(context.groups, context.nvs_pages);
        let gap = context.nvs_pages as u128 * u128::from(context.high - context.low);
        let bound = (gap / (8 * 10_000)) as u64;
        let hysteresis = (per_disk * context.disks).min(bound).max(1);
        Stow {
            rings: [ring(), ring()],
            state: Vec::new(),
            pages: [0; 2],
            requests: [1; 2],
            desired: 0.0,
            desired_set: false,
            decision: None,
            stretch: Stretch::default(),
            switching,
            hysteresis,
            hysteresis_gap: hysteresis as f64,
            low_hundredths: context.low,
            disks: context.disks as f64,
            queue_depth: context.queue_depth,
            nvs_pages: context.nvs_pages,
            mirrored: context.mirrored,
            sparing: None,
            surges: false,
            streams: None,
            next_look: 0,
            alternation: None,
        }
    }

    /// [`Stow`] whose disks take turns between reads and destages; `spares_sparse`: random groups
    /// with less than three quarters of the mean pages wait for one more turn of the clock.
    pub(super) fn in_turns(
        context: &PolicyContext,
        alternation: Alternation,
        spares_sparse: bool,
    ) -> Stow {
        let mut stow = Stow::new(context, Switching::Hysteresis, 128);
        // Two complete groups: each change of the queue is a seek of every disk.
        let half_gap = context.nvs_pages * (context.high - context.low) / (2 * 10_000);
        stow.hysteresis = stow.hysteresis.max((2 * context.group_pages).min(half_gap));
        stow.hysteresis_gap = stow.hysteresis as f64;
        let groups = context.nvs_pages / context.group_pages;
        let above = context.nvs_pages * (10_000 - context.high) / 10_000;
        let surges = above >= 2 * context.group_pages;
        let (streams, alternation) = (Some(Streams::new(groups)), Some(alternation));
        let sparing = (spares_sparse && !context.mirrored).then(Sparing::default);
        Stow { sparing, surges, streams, alternation, ..stow }
    }

    fn gap_to_desired(&self) -> f64 {
        // From a signed number: one instruction.
        self.pages[SEQUENTIAL] as i64 as f64 - self.desired
    }

    fn create(&mut self, write: PageWrite) {
        let slot = write.slot.index();
        cover(&mut self.state, slot, 0, self.nvs_pages as usize);
        let queue = usize::from(write.sequential());
        if write.sequential()
            && let Some(streams) = &mut self.streams
        {
            streams.came(write.group);
        }
        self.rings[queue].insert(write.group);
        let awaits_more = self.sees_stream(IN_SEQUENTIAL) && !write.last_page();
        self.state[slot] = match (write.sequential(), awaits_more) {
            (false, _) => 0,
            (true, true) => IN_SEQUENTIAL | RECENT,
            (true, false) => IN_SEQUENTIAL,
        };
    }

    fn note_written(&mut self, group: GroupId) {
        if let Some(streams) = &mut self.streams {
            streams.wrote(group);
        }
    }

    /// Whether both queues are destaged as one.
    fn merges(&self) -> bool {
        self.streams.as_ref().is_some_and(Streams::are_scattered)
    }

    /// Whether sequential pages are a stream that continues to the end of a group in this state.
    #[inline]
    fn sees_stream(&self, state: u8) -> bool {
        let Some(streams) = &self.streams else { return true };
        state & IN_SEQUENTIAL != 0 && !streams.are_scattered()
    }

    /// Groups of RanQ that a stream has left go into SeqQ, where the rest of it is.
    fn join_streams(&mut self, directory: &Directory) {
        let Some(streams) = &mut self.streams else { return };
        while let Some(group) = streams.joining.pop() {
            let Some(slot) = directory.find(group) else { continue };
            let state = &mut self.state[slot.index()];
            if *state & IN_SEQUENTIAL != 0 || !self.rings[RANDOM].withdraw(group) {
                continue;
            }
            *state = IN_SEQUENTIAL;
            self.rings[SEQUENTIAL].insert(group);
            let pages = directory.pages(slot);
            self.pages[RANDOM] -= pages;
            self.pages[SEQUENTIAL] += pages;
            streams.came(group);
        }
    }

    /// Algorithm 3, lines 1 to 9. Branches only on what seldom changes: which groups are hit is
    /// chance.
    #[inline]
    fn decrement(&mut self, write: PageWrite, state: u8) {
        if self.desired_set && self.gap_to_desired() < self.hysteresis_gap {
            let first_hit = write.existed() & (state & (IN_SEQUENTIAL | RECENT) == 0);
            let counts = first_hit & (write.page_hit() | !self.mirrored);
            self.desired -= f64::from(u8::from(counts));
        }
    }

    fn must_decide(&self) -> bool {
        self.decision.as_ref().is_none_or(|decision| {
            let grown = |q: usize| self.pages[q] > decision.sizes[q] + self.hysteresis;
            decision.destaged >= self.hysteresis || grown(RANDOM) || grown(SEQUENTIAL)
        })
    }

    fn current_queue(&mut self) -> usize {
        if self.switching == Switching::Larger {
            return usize::from(self.pages[SEQUENTIAL] > self.pages[RANDOM]);
        }
        if self.must_decide() {
            let queue = usize::from(self.pages[SEQUENTIAL] as f64 > self.desired);
            self.decision = Some(Decision { queue, destaged: 0, sizes: self.pages });
        }
        self.decision.as_ref().expect("just made").queue
    }

    /// Groups of up to this many pages wait now, since others free more of the NVS: while it is
    /// fuller than it usually is. A mirror writes each page for itself, and large writes at
    /// random places may have left a few pages in the next group: with these, only while it is
    /// much fuller.
    fn few_for_now(&self, pressure: Pressure) -> Option<u64> {
        let more = if self.mirrored || self.merges() { SURGE } else { 0 };
        let surge = self.surges && pressure.now > (pressure.usual + more).max(FULLEST_FIRST);
        let groups = self.rings[RANDOM].groups() + self.rings[SEQUENTIAL].groups();
        let few = below_mean(self.pages[RANDOM] + self.pages[SEQUENTIAL], groups);
        (surge && few > 0).then_some(few)
    }

    /// Scans both queues as one ring: its victim, and the queue that this was in.
    fn take_merged(
        &mut self,
        directory: &Directory,
        few: Option<u64>,
    ) -> Option<(usize, (GroupId, Slot))> {
        let lap = self.rings[RANDOM].groups() + self.rings[SEQUENTIAL].groups();
        let passes = few.map_or(0, |_| lap.min(LOOKS));
        for look in 0..passes + 2 * lap {
            let queue = self.nearer_queue(directory);
            let sparse = match few {
                Some(few) if look < passes => Sparse::Always(few),
                _ => Sparse::Never,
            };
            let (ring, state) = (&mut self.rings[queue], &mut self.state);
            let taken = ring.take(directory, 1, state, RECENT, sparse, |_| ());
            self.next_look = self.rings[queue].pointer();
            self.rings[1 - queue].follow(self.next_look);
            if let Some(found) = taken {
                return Some((queue, found));
            }
        }
        None
    }

    /// The queue whose next group comes first, in the order of addresses from the last look on.
    fn nearer_queue(&self, directory: &Directory) -> usize {
        let ahead = |queue: usize| {
            let slot = self.rings[queue].candidate(directory)?;
            Some(directory.id(slot).0.wrapping_sub(self.next_look))
        };
        match (ahead(RANDOM), ahead(SEQUENTIAL)) {
            (Some(random), Some(sequential)) => usize::from(sequential < random),
            (random, _) => usize::from(random.is_none()),
        }
    }

    /// The victim of the queue whose turn it is, or of the other one, and which it was.
    fn take_by_turns(
        &mut self,
        directory: &Directory,
        few: Option<u64>,
    ) -> Option<(usize, (GroupId, Slot))> {
        let current = self.current_queue();
        let Some((group, slot)) = self.take(current, directory, few) else {
            return Some((1 - current, self.take(1 - current, directory, few)?));
        };
        if let Some(decision) = &mut self.decision {
            decision.destaged += directory.pages(slot);
        }
        Some((current, (group, slot)))
    }

    fn take(
        &mut self,
        queue: usize,
        directory: &Directory,
        few: Option<u64>,
    ) -> Option<(GroupId, Slot)> {
        let is_random = queue == RANDOM;
        let (ring, state) = (&mut self.rings[queue], &mut self.state);
        if let Some(few) = few.filter(|_| is_random) {
            let (looks, sparse) = (ring.laps(1).min(LOOKS), Sparse::Always(few));
            let taken = ring.take(directory, looks, state, RECENT, sparse, |_| ());
            if taken.is_some() {
                return taken;
            }
        } else if let Some(sparing) = self.sparing.as_mut().filter(|_| is_random)
            && sparing.spares()
        {
            let sparse = Sparse::Once(below_mean(self.pages[RANDOM], ring.groups()));
            let begin = |pages| sparing.begin(pages);
            return ring.take(directory, ring.laps(3), state, RECENT, sparse, begin);
        }
        ring.take(directory, ring.laps(2), state, RECENT, Sparse::Never, |_| ())
    }

    /// Algorithm 3, lines 10 to 19: `group` was picked from SeqQ; sizes still count its pages.
    fn picked_sequential(&mut self, group: GroupId) {
        let before = self.stretch.last.replace(group);
        if before.is_none_or(|last| last.0 + 1 == group.0) {
            self.stretch.groups += 1;
            return;
        }
        let ended = core::mem::replace(&mut self.stretch.groups, 1);
        let [random, sequential] = self.pages.map(|p| p as f64);
        let [random_requests, sequential_requests] = self.requests.map(|r| r as f64);
        let share = random / (random + sequential).max(1.0);
        let rightful = random_requests / (random_requests + sequential_requests);
        if self.desired_set && ended < self.queue_depth && share > rightful {
            self.desired += self.disks * random / sequential.max(1.0);
        }
    }
}

impl DestagePolicy for Stow {
    fn needs_each_request(&self) -> bool {
        !self.desired_set
    }

    fn on_write(&mut self, write: PageWrite, _now: &Conditions<'_>) {
        if write.created() {
            self.create(write);
            self.pages[usize::from(write.sequential())] += 1;
            self.note_written(write.group);
            return;
        }
        let state = self.state[write.slot.index()];
        self.decrement(write, state);
        self.state[write.slot.index()] = if write.sequential() && self.sees_stream(state) {
            (state & !RECENT) | (u8::from(!write.last_page()) * RECENT)
        } else {
            // Of ebb: what a large write adds to a group is not used again.
            let adds = self.streams.is_some() & write.sequential() & !write.page_hit();
            state | (u8::from(write.existed() & !adds) * RECENT)
        };
        let queue = usize::from(state & IN_SEQUENTIAL != 0);
        self.pages[queue] += u64::from(!write.page_hit());
        self.note_written(write.group);
        if queue == RANDOM
            && write.sequential()
            && write.last_page()
            && state & JOINING == 0
            && let Some(streams) = &mut self.streams
        {
            streams.joining.push(write.group);
            self.state[write.slot.index()] |= JOINING;
        }
    }

    fn on_admitted(&mut self, random: u64, sequential: u64, occupancy: u64) {
        self.requests[RANDOM] += random;
        self.requests[SEQUENTIAL] += sequential;
        if self.desired_set {
            return;
        }
        let reached = u128::from(occupancy) * 10_000
            >= u128::from(self.nvs_pages) * u128::from(self.low_hundredths);
        if reached {
            self.desired_set = true;
            self.desired = self.pages[SEQUENTIAL] as f64;
        }
    }

    fn pick(&mut self, directory: &Directory, now: &Conditions<'_>) -> Option<Slot> {
        self.join_streams(directory);
        let few = self.few_for_now(now.pressure);
        let (queue, (group, slot)) = match self.merges() {
            true => self.take_merged(directory, few)?,
            false => self.take_by_turns(directory, few)?,
        };
        if queue == SEQUENTIAL {
            self.picked_sequential(group);
        }
        self.next_look = group.0 + 1;
        let pages = directory.pages(slot);
        self.pages[queue] -= pages;
        if self.state[slot.index()] & SPARED != 0
            && let Some(sparing) = &mut self.sparing
        {
            sparing.end(pages);
        }
        Some(slot)
    }

    fn alternation(&self) -> Option<Alternation> {
        self.alternation
    }

    fn bridge(&self) -> u32 {
        self.alternation.map_or(0, |_| super::BRIDGE)
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        let current = match self.switching {
            Switching::Larger => usize::from(self.pages[SEQUENTIAL] > self.pages[RANDOM]),
            Switching::Hysteresis => self.decision.as_ref().map_or(RANDOM, |d| d.queue),
        };
        let candidate = |queue: usize| self.rings[queue].candidate(directory);
        candidate(current).or_else(|| candidate(1 - current))
    }

    fn gauges(&self, directory: &Directory) -> Gauges {
        let next =
            |queue: usize| self.rings[queue].candidate(directory).map(|slot| directory.id(slot));
        let adaptive = self.desired_set && self.switching == Switching::Hysteresis;
        Gauges {
            pointers: [next(RANDOM), next(SEQUENTIAL)],
            queues: Some(Queues {
                random_pages: self.pages[RANDOM],
                sequential_pages: self.pages[SEQUENTIAL],
                // A negative size is reported as 0.
                desired_pages: adaptive.then_some((self.desired + 0.5) as u64),
            }),
        }
    }
}
