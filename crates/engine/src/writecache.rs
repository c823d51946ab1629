//! The directory and the policy kept in step: what a write does to both, and what a pick does.
//!
//! This is all of the write cache without time or disks: `destage policy-trace` and cache-only
//! replays drive it directly, the controller drives it with both.

use crate::conditions::Conditions;
use crate::nvs::directory::{Directory, Slot};
use crate::policy::{DestagePolicy, PageFacts, PageWrite};
use crate::request::PageRange;
use crate::sequential::{Classified, Detector};
use crate::units::{GroupId, Page};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What an admitted write request did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Pages that were held.
    pub page_hits: u64,
    /// Pages whose group existed before the request.
    pub group_hits: u64,
    /// Pages that were not held.
    pub new_pages: u64,
}

/// A group taken for destage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The group.
    pub group: GroupId,
    /// Its pages.
    pub pages: u64,
    /// Whether the page written last was sequential.
    pub sequential: bool,
}

/// Receives what [`WriteCache::replay`] does.
pub trait ReplayEvents {
    /// A victim was destaged; bit i of `mask` is page i of its group.
    fn destaged(&mut self, picked: Picked, mask: &[u64]);
    /// A request was admitted.
    fn admitted(&mut self, admitted: Admitted);
}

/// The part of a write in one group.
struct Segment {
    group: GroupId,
    slot: Option<Slot>,
    /// Its first page, counted in the group.
    bit: u64,
    pages: u64,
    /// How many of them, from the first, are random.
    random: u64,
}

/// Directory, detector and policy.
pub struct WriteCache {
    /// What is held.
    pub directory: Directory,
    detector: Detector,
    policy: Box<dyn DestagePolicy>,
    /// Requests admitted since the policy's last [`DestagePolicy::on_admitted`], random and
    /// sequential. A call for each took 2 ns, a tenth of a replayed request.
    unreported: [u64; 2],
    report_each: bool,
    /// Pages of the last victim of a replay.
    mask: Vec<u64>,
}

impl WriteCache {
    /// Puts the parts together.
    pub fn new(
        directory: Directory,
        detector: Detector,
        policy: Box<dyn DestagePolicy>,
    ) -> WriteCache {
        let report_each = policy.needs_each_request();
        WriteCache {
            directory,
            detector,
            policy,
            unreported: [0; 2],
            report_each,
            mask: Vec::new(),
        }
    }

    /// Switches to another policy. It is given all pages held as if they were written now, in the
    /// order of their addresses.
    pub fn set_policy(&mut self, mut policy: Box<dyn DestagePolicy>, now: &Conditions<'_>) {
        let mut slots: Vec<Slot> = self.directory.slots().collect();
        slots.sort_unstable_by_key(|slot| self.directory.id(*slot));
        for slot in slots {
            write_again(&self.directory, slot, policy.as_mut(), now);
        }
        self.report_each = policy.needs_each_request();
        (self.policy, self.unreported) = (policy, [0; 2]);
    }

    /// The distance over which the policy asks that commands be joined.
    pub(crate) fn policy_bridge(&self) -> u32 {
        self.policy.bridge()
    }

    /// Switches to another detector.
    pub fn set_detector(&mut self, detector: Detector) {
        self.detector = detector;
    }

    /// Shows an arriving write to the sequential detector.
    #[inline]
    pub fn classify(&mut self, range: PageRange) -> Classified {
        self.detector.classify(range)
    }

    /// Writes all pages of a request if they fit, in a replay; `None`, and nothing done, if they
    /// do not.
    #[inline]
    pub fn try_admit(&mut self, range: PageRange, classified: Classified) -> Option<Admitted> {
        let group = self.directory.group_of(range.first);
        let bit = range.first.0 - self.directory.first_page(group).0;
        let pages = u64::from(range.pages);
        if bit + pages > self.directory.pages_per_group() {
            let missing = self.directory.missing(range.first, range.pages);
            return (missing <= self.directory.free_pages())
                .then(|| self.admit(range, classified, &Conditions::NONE));
        }
        // Most requests are within one group, which is then looked up once.
        let slot = self.directory.find(group);
        if let (Some(slot), 1) = (slot, pages) {
            return self.try_admit_page(group, slot, bit, classified);
        }
        // What is held is counted even where all would fit: one data-dependent branch less.
        let held = slot.map_or(0, |slot| self.directory.held_in(slot, bit, pages));
        if pages - held > self.directory.free_pages() {
            return None;
        }
        let part = Segment { group, slot, bit, pages, random: u64::from(classified.random) };
        let page_hits = self.admit_segment(&part, &Conditions::NONE);
        self.end_request(classified);
        let group_hits = if slot.is_some() { pages } else { 0 };
        Some(Admitted { page_hits, group_hits, new_pages: pages - page_hits })
    }

    /// [`WriteCache::try_admit`] of one page of a held group, what most random writes are.
    #[inline]
    fn try_admit_page(
        &mut self,
        group: GroupId,
        slot: Slot,
        bit: u64,
        classified: Classified,
    ) -> Option<Admitted> {
        let sequential = classified.random == 0;
        let page_hit = self.directory.try_write(slot, bit, sequential)?;
        let last_page = bit + 1 == self.directory.pages_per_group();
        let facts = PageFacts { created: false, existed: true, page_hit, sequential, last_page };
        self.policy.on_write(PageWrite::new(group, slot, facts), &Conditions::NONE);
        self.end_request(classified);
        let page_hits = u64::from(page_hit);
        Some(Admitted { page_hits, group_hits: 1, new_pages: 1 - page_hits })
    }

    /// Writes all pages of a request. The caller has checked that they fit.
    pub fn admit(
        &mut self,
        range: PageRange,
        classified: Classified,
        now: &Conditions<'_>,
    ) -> Admitted {
        let mut admitted = Admitted::default();
        let per_group = self.directory.pages_per_group();
        let mut page = range.first.0;
        let end = range.end().0;
        let first_sequential = page + u64::from(classified.random);
        while page < end {
            let group = self.directory.group_of(Page(page));
            let slot = self.directory.find(group);
            let bit = page - self.directory.first_page(group).0;
            let pages = (per_group - bit).min(end - page);
            let random = first_sequential.saturating_sub(page);
            let part = Segment { group, slot, bit, pages, random };
            let page_hits = self.admit_segment(&part, now);
            admitted.page_hits += page_hits;
            admitted.new_pages += pages - page_hits;
            admitted.group_hits += if slot.is_some() { pages } else { 0 };
            page += pages;
        }
        self.end_request(classified);
        admitted
    }

    /// Writes the pages of one group; how many of them were held.
    #[inline]
    fn admit_segment(&mut self, segment: &Segment, now: &Conditions<'_>) -> u64 {
        let &Segment { group, slot, bit: first_bit, pages, random } = segment;
        let existed = slot.is_some();
        let slot = slot.unwrap_or_else(|| self.directory.create(group));
        let last_bit = self.directory.pages_per_group() - 1;
        let mut page_hits = 0;
        for offset in 0..pages {
            let bit = first_bit + offset;
            let sequential = offset >= random;
            let page_hit = self.directory.write(slot, bit, sequential);
            let facts = PageFacts {
                created: !existed && offset == 0,
                existed,
                page_hit,
                sequential,
                last_page: bit == last_bit,
            };
            self.policy.on_write(PageWrite::new(group, slot, facts), now);
            page_hits += u64::from(page_hit);
        }
        page_hits
    }

    /// Writes pages of one group as a part of a request, of which the first `random` are random;
    /// [`WriteCache::end_request`] follows when all parts are written. How many were held.
    pub fn write_part(
        &mut self,
        group: GroupId,
        bit: u64,
        pages: u64,
        random: u64,
        now: &Conditions<'_>,
    ) -> u64 {
        let slot = self.directory.find(group);
        self.admit_segment(&Segment { group, slot, bit, pages, random }, now)
    }

    /// All parts of a request are written.
    #[inline]
    pub fn end_request(&mut self, classified: Classified) {
        self.unreported[usize::from(classified.sequential)] += 1;
        if self.report_each {
            self.report_requests();
        }
    }

    #[inline(never)]
    fn report_requests(&mut self) {
        let [random, sequential] = core::mem::take(&mut self.unreported);
        self.policy.on_admitted(random, sequential, self.directory.occupancy());
        self.report_each = self.policy.needs_each_request();
    }

    /// Writes all pages of these requests one after the other. Each is classified; then victims
    /// are destaged, which takes no time, until it fits. `events` receives every victim with its
    /// pages, and every request when it is admitted.
    pub fn replay(&mut self, ranges: &[PageRange], events: &mut impl ReplayEvents) {
        for range in ranges {
            let classified = self.classify(*range);
            let admitted = loop {
                match self.try_admit(*range, classified) {
                    Some(admitted) => break admitted,
                    None => assert!(self.destage_at_once(events), "it fits when nothing is held"),
                }
            };
            events.admitted(admitted);
        }
    }

    /// Destages one victim, which takes no time; whether there was one.
    #[inline(never)]
    pub fn destage_at_once(&mut self, events: &mut impl ReplayEvents) -> bool {
        if !self.directory.has_pickable() {
            return false;
        }
        self.report_requests();
        let Some(slot) = self.policy.pick(&self.directory, &Conditions::NONE) else { return false };
        let group = self.directory.id(slot);
        let sequential = self.directory.is_sequential(slot);
        let pages = self.directory.discard(slot, &mut self.mask);
        events.destaged(Picked { group, pages, sequential }, &self.mask);
        self.policy.on_destaged(group);
        true
    }

    /// Picks a victim and takes it out of the held groups; its pages are in flight until
    /// [`Directory::release`]. `mask` receives its pages.
    ///
    /// A group for which `defer` returns true goes to the back of the policy's order, as if it
    /// were written now, and another is picked.
    pub fn pick(
        &mut self,
        now: &Conditions<'_>,
        defer: &mut dyn FnMut(GroupId, &[u64]) -> bool,
        mask: &mut Vec<u64>,
    ) -> Option<Picked> {
        if !self.directory.has_pickable() {
            return None;
        }
        self.report_requests();
        let mut slot = self.policy.pick(&self.directory, now)?;
        loop {
            self.directory.copy_mask(slot, mask);
            if !defer(self.directory.id(slot), mask) {
                break;
            }
            write_again(&self.directory, slot, self.policy.as_mut(), now);
            slot = self.policy.pick(&self.directory, now)?;
        }
        let group = self.directory.id(slot);
        let sequential = self.directory.is_sequential(slot);
        let pages = self.directory.begin_destage(slot, mask);
        Some(Picked { group, pages, sequential })
    }

    /// All pages of a destage are on the disks.
    pub fn destaged(&mut self, group: GroupId) {
        self.policy.on_destaged(group);
    }

    /// The state of the policy.
    pub fn gauges(&self) -> crate::policy::Gauges {
        self.policy.gauges(&self.directory)
    }

    /// Whether the next candidate is a sequential group.
    pub fn next_is_sequential(&self) -> bool {
        let candidate = self.policy.candidate(&self.directory);
        candidate.is_some_and(|slot| self.directory.is_sequential(slot))
    }
}

/// Gives a policy all pages of a group as if they were written now.
fn write_again(
    directory: &Directory,
    slot: Slot,
    policy: &mut dyn DestagePolicy,
    now: &Conditions<'_>,
) {
    let (group, per_group) = (directory.id(slot), directory.pages_per_group());
    let sequential = directory.is_sequential(slot);
    let mut created = true;
    for bit in (0..per_group).filter(|bit| directory.holds(slot, *bit)) {
        let last_page = bit + 1 == per_group;
        let (existed, page_hit) = (false, false);
        let facts = PageFacts { created, existed, page_hit, sequential, last_page };
        policy.on_write(PageWrite::new(group, slot, facts), now);
        created = false;
    }
}
