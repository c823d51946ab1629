//! What the NVS holds, by write group.
//!
//! A held group has a slot: a small integer by which policies keep their own state in plain
//! vectors. Groups whose destage is in flight have left the slots: to policy and admission they
//! do not exist, only reads see them (docs/simulator.md), but their pages still occupy space.
//!
//! Metadata a held page, when every group holds one page only: 20 bytes of slot, at most 6 of
//! index; the policies' own vectors come on top (`tests/memory.rs` adds it all up).

use super::index::SlotIndex;
use super::masks::GroupMasks;
use crate::bounded::cover;
use crate::request::PageRange;
use crate::units::{GroupId, Page, PageCount};
use alloc::vec::Vec;

/// Index of a held group's slot; dense, reused after a group leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// As an index into a per-slot vector.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

const SEQUENTIAL: u8 = 1;
const BUSY: u8 = 2;

#[derive(Clone, Copy, Default)]
#[repr(C, packed(4))]
struct Group {
    id: u64,
    /// First word of the page mask; further words are in `Directory::extra`.
    mask: u64,
    pages: u16,
    /// Requests whose pages were counted as held here but whose append is not durable yet.
    pins: u8,
    flags: u8,
}

/// A group whose destage is in flight.
#[derive(Clone, Debug)]
struct InFlight {
    id: GroupId,
    /// Pages not yet on the disks.
    pages: u64,
    /// First word of their mask; the further ones, of groups of over 64 pages, are in `further`.
    mask: u64,
    further: Vec<u64>,
    /// Those of which only some sectors are held; none: no words.
    incomplete: Vec<u64>,
}

impl InFlight {
    fn new(id: GroupId, pages: u64, mask: &[u64], incomplete: Vec<u64>) -> InFlight {
        InFlight { id, pages, mask: mask[0], further: mask[1..].to_vec(), incomplete }
    }

    fn has_complete(&self, bit: u64) -> bool {
        let word = self.incomplete.get((bit / 64) as usize).copied().unwrap_or(0);
        self.has(bit) && word >> (bit % 64) & 1 == 0
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        core::iter::once(self.mask).chain(self.further.iter().copied())
    }

    fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> + '_ {
        core::iter::once(&mut self.mask).chain(&mut self.further)
    }

    fn has(&self, bit: u64) -> bool {
        self.words().nth((bit / 64) as usize).expect("a page of the group") >> (bit % 64) & 1 == 1
    }
}

/// The directory of held pages.
pub struct Directory {
    pages_per_group: u64,
    extra_words: usize,
    capacity: u64,
    groups: Vec<Group>,
    extra: Vec<u64>,
    free_slots: Vec<u32>,
    index: SlotIndex,
    in_flight: Vec<InFlight>,
    /// Pages held, and not in flight, of which only some sectors are here.
    incomplete: GroupMasks,
    held_pages: u64,
    in_flight_pages: u64,
    reserved_pages: u64,
    withheld_groups: u64,
}

/// The maximum number of pages in a write group.
pub const MAX_PAGES_PER_GROUP: u64 = u16::MAX as u64;

impl Directory {
    /// An empty directory of `capacity` pages in groups of `pages_per_group`, of which the
    /// volume has `groups`.
    ///
    /// # Panics
    /// If a group has no pages or more than [`MAX_PAGES_PER_GROUP`], or the capacity does not
    /// fit 32 bits: [`crate::controller::Config`] checks both first.
    pub fn new(capacity: PageCount, pages_per_group: u64, groups: u64) -> Directory {
        assert!((1..=MAX_PAGES_PER_GROUP).contains(&pages_per_group));
        assert!(capacity.0 < u64::from(u32::MAX));
        Directory {
            pages_per_group,
            extra_words: pages_per_group.div_ceil(64) as usize - 1,
            capacity: capacity.0,
            groups: Vec::new(),
            extra: Vec::new(),
            free_slots: Vec::new(),
            index: SlotIndex::new(capacity.0, groups),
            in_flight: Vec::new(),
            incomplete: GroupMasks::default(),
            held_pages: 0,
            in_flight_pages: 0,
            reserved_pages: 0,
            withheld_groups: 0,
        }
    }

    /// Size of the NVS in pages.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// Pages in a write group.
    pub fn pages_per_group(&self) -> u64 {
        self.pages_per_group
    }

    /// Pages that occupy space: held, in flight, or reserved for an append in flight.
    pub fn occupancy(&self) -> u64 {
        self.held_pages + self.in_flight_pages + self.reserved_pages
    }

    /// Pages held and not in flight.
    pub fn held_pages(&self) -> u64 {
        self.held_pages
    }

    /// Pages whose destage is in flight.
    pub fn in_flight_pages(&self) -> u64 {
        self.in_flight_pages
    }

    /// Pages free for new data.
    pub fn free_pages(&self) -> u64 {
        self.capacity - self.occupancy()
    }

    /// Groups held and not in flight.
    pub fn groups_held(&self) -> u64 {
        (self.groups.len() - self.free_slots.len()) as u64
    }

    /// Whether any held group may be picked.
    pub fn has_pickable(&self) -> bool {
        self.groups_held() > self.withheld_groups
    }

    /// Group of a page.
    #[inline]
    pub fn group_of(&self, page: Page) -> GroupId {
        if self.pages_per_group == 64 {
            return GroupId(page.0 >> 6);
        }
        GroupId(page.0 / self.pages_per_group)
    }

    /// First page of a group.
    pub fn first_page(&self, group: GroupId) -> Page {
        Page(group.0 * self.pages_per_group)
    }

    /// Slot of a held group.
    #[inline]
    pub fn find(&self, group: GroupId) -> Option<Slot> {
        self.index.find(group.0, |slot| self.groups[slot as usize].id).map(Slot)
    }

    /// Group in a slot.
    pub fn id(&self, slot: Slot) -> GroupId {
        GroupId(self.groups[slot.index()].id)
    }

    /// Pages held in a slot's group.
    pub fn pages(&self, slot: Slot) -> u64 {
        u64::from(self.groups[slot.index()].pages)
    }

    /// Whether the last page written to the group was sequential.
    pub fn is_sequential(&self, slot: Slot) -> bool {
        self.groups[slot.index()].flags & SEQUENTIAL != 0
    }

    /// Whether the group may be picked: no destage of the same group is in flight, and no
    /// append that counted on its pages is pending.
    pub fn may_pick(&self, slot: Slot) -> bool {
        let group = &self.groups[slot.index()];
        group.flags & BUSY == 0 && group.pins == 0
    }

    /// Whether page number `bit` of the group is held.
    #[inline]
    pub fn holds(&self, slot: Slot, bit: u64) -> bool {
        self.word(slot, (bit / 64) as usize) >> (bit % 64) & 1 == 1
    }

    fn word(&self, slot: Slot, word: usize) -> u64 {
        match word {
            0 => self.groups[slot.index()].mask,
            _ => self.extra[slot.index() * self.extra_words + word - 1],
        }
    }

    /// Puts the mask of a held group's pages into `mask`, bit i = page i of the group.
    pub fn copy_mask(&self, slot: Slot, mask: &mut Vec<u64>) {
        mask.clear();
        mask.extend((0..=self.extra_words).map(|word| self.word(slot, word)));
    }

    /// Writes one page of a held group; whether the page was held already.
    #[inline]
    pub fn write(&mut self, slot: Slot, bit: u64, sequential: bool) -> bool {
        let record = &mut self.groups[slot.index()];
        record.flags = record.flags & !SEQUENTIAL | (u8::from(sequential) * SEQUENTIAL);
        let shift = bit % 64;
        let page_hit = match (bit / 64) as usize {
            0 => {
                let hit = record.mask >> shift & 1 == 1;
                record.mask |= 1 << shift;
                hit
            }
            word => {
                let word = &mut self.extra[slot.index() * self.extra_words + word - 1];
                let hit = *word >> shift & 1 == 1;
                *word |= 1 << shift;
                hit
            }
        };
        // Not a branch: hits cannot be predicted.
        record.pages += u16::from(!page_hit);
        self.held_pages += u64::from(!page_hit);
        debug_assert!(self.occupancy() <= self.capacity);
        page_hit
    }

    /// [`Directory::write`] if the page is held or there is room for it; `None`, and nothing done,
    /// else.
    #[inline]
    pub fn try_write(&mut self, slot: Slot, bit: u64, sequential: bool) -> Option<bool> {
        let full = self.free_pages() == 0;
        let page_hit = self.holds(slot, bit);
        if full & !page_hit {
            return None;
        }
        Some(self.write(slot, bit, sequential))
    }

    /// Creates a group that is not held, with no pages yet.
    pub fn create(&mut self, group: GroupId) -> Slot {
        let busy = self.in_flight.iter().any(|f| f.id == group);
        let record =
            Group { id: group.0, mask: 0, pages: 0, pins: 0, flags: if busy { BUSY } else { 0 } };
        self.withheld_groups += u64::from(busy);
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.groups[slot as usize] = record;
                slot
            }
            None => {
                let slot = self.groups.len();
                let most = self.capacity as usize;
                cover(&mut self.groups, slot, record, most);
                if self.extra_words > 0 {
                    let last = (slot + 1) * self.extra_words - 1;
                    cover(&mut self.extra, last, 0, most * self.extra_words);
                }
                slot as u32
            }
        };
        let groups = &self.groups;
        self.index.insert(group.0, slot, |slot| groups[slot as usize].id);
        Slot(slot)
    }

    /// Pages of `[first, first + pages)` that are not held.
    pub fn missing(&self, first: Page, pages: u32) -> u64 {
        if pages == 1 {
            let group = self.group_of(first);
            let bit = first.0 - self.first_page(group).0;
            return u64::from(!self.find(group).is_some_and(|slot| self.holds(slot, bit)));
        }
        let mut missing = 0;
        self.for_each_segment(first, pages, |directory, group, bit, length| {
            missing += match directory.find(group) {
                None => length,
                Some(slot) => length - directory.held_in(slot, bit, length),
            };
        });
        missing
    }

    /// Calls `visit(self, group, first page in group, pages)` for each group of a range.
    fn for_each_segment(
        &self,
        first: Page,
        pages: u32,
        mut visit: impl FnMut(&Directory, GroupId, u64, u64),
    ) {
        let end = first.0 + u64::from(pages);
        let mut page = first.0;
        while page < end {
            let group = self.group_of(Page(page));
            let bit = page - self.first_page(group).0;
            let length = (self.pages_per_group - bit).min(end - page);
            visit(self, group, bit, length);
            page += length;
        }
    }

    /// The lowest page number of the group that is held.
    pub fn first_held(&self, slot: Slot) -> u64 {
        let words = (0..=self.extra_words).map(|word| self.word(slot, word));
        let found = words.enumerate().find(|(_, word)| *word != 0);
        found.map_or(0, |(word, bits)| word as u64 * 64 + u64::from(bits.trailing_zeros()))
    }

    /// How many of the group's pages `bit..bit + length` are held.
    #[inline]
    pub fn held_in(&self, slot: Slot, bit: u64, length: u64) -> u64 {
        if length == 1 {
            return u64::from(self.holds(slot, bit));
        }
        self.held_among(slot, bit, length)
    }

    #[inline(never)]
    fn held_among(&self, slot: Slot, bit: u64, length: u64) -> u64 {
        (bit..bit + length).filter(|&b| self.holds(slot, b)).count() as u64
    }

    /// Reserves space for `missing` pages of an append, and keeps the groups of the range that
    /// are held from being picked until [`Directory::unreserve`].
    pub fn reserve(&mut self, missing: u64, first: Page, pages: u32) -> Vec<Slot> {
        self.reserved_pages += missing;
        assert!(self.occupancy() <= self.capacity, "admitted more than fits");
        let mut pinned = Vec::new();
        self.for_each_segment(first, pages, |directory, group, _, _| {
            pinned.extend(directory.find(group));
        });
        pinned.iter().for_each(|slot| self.pin(*slot));
        pinned
    }

    /// Pins a group that nothing pins yet.
    pub fn pin_if_free(&mut self, slot: Slot) -> Option<Slot> {
        let free = self.groups[slot.index()].pins == 0;
        free.then(|| {
            self.pin(slot);
            slot
        })
    }

    fn pin(&mut self, slot: Slot) {
        let was_free = self.may_pick(slot);
        let group = &mut self.groups[slot.index()];
        group.pins = group.pins.checked_add(1).expect("under 256 appends on one group");
        self.withheld_groups += u64::from(was_free);
    }

    /// Takes back a reservation, just before its pages are written.
    pub fn unreserve(&mut self, missing: u64, pinned: &[Slot]) {
        self.reserved_pages -= missing;
        for slot in pinned {
            self.groups[slot.index()].pins -= 1;
            self.withheld_groups -= u64::from(self.may_pick(*slot));
        }
    }

    /// How many appends may still pin the groups of a range before [`Directory::reserve`] would
    /// have to refuse.
    pub fn can_pin(&self, first: Page, pages: u32) -> bool {
        let mut can = true;
        self.for_each_segment(first, pages, |directory, group, _, _| {
            let pins = directory.find(group).map_or(0, |slot| directory.groups[slot.index()].pins);
            can &= pins < u8::MAX;
        });
        can
    }

    /// Takes a group out for destage: it leaves its slot, its pages stay in flight. The mask of
    /// its pages is put into `mask`, bit i = page i of the group. Returns its pages.
    pub fn begin_destage(&mut self, slot: Slot, mask: &mut Vec<u64>) -> u64 {
        let id = self.id(slot);
        let pages = self.discard(slot, mask);
        self.in_flight_pages += pages;
        let incomplete = self.incomplete.take(id).unwrap_or_default();
        self.in_flight.push(InFlight::new(id, pages, mask, incomplete));
        pages
    }

    /// Takes a group out as if its destage took no time: [`Directory::begin_destage`] and
    /// [`Directory::release`] in one.
    pub fn discard(&mut self, slot: Slot, mask: &mut Vec<u64>) -> u64 {
        assert!(self.may_pick(slot), "picked a group that may not be picked");
        let group = self.groups[slot.index()];
        mask.clear();
        mask.push(group.mask);
        if self.extra_words > 0 {
            let from = slot.index() * self.extra_words;
            let extra = &mut self.extra[from..from + self.extra_words];
            mask.extend_from_slice(extra);
            extra.fill(0);
        }
        let groups = &self.groups;
        self.index.remove(group.id, |slot| groups[slot as usize].id);
        self.free_slots.push(slot.0);
        let pages = u64::from(group.pages);
        self.held_pages -= pages;
        pages
    }

    /// The destage of the pages in `mask` is complete: their space is free. Returns how many.
    ///
    /// # Panics
    /// If those pages were not in flight: a page destaged twice.
    pub fn release(&mut self, group: GroupId, mask: &[u64]) -> u64 {
        let index = self.in_flight.iter().position(|f| f.id == group).expect("group in flight");
        let entry = &mut self.in_flight[index];
        let mut pages = 0;
        for (have, gone) in entry.words_mut().zip(mask) {
            assert!(*have & gone == *gone, "a page was destaged twice");
            *have &= !gone;
            pages += u64::from(gone.count_ones());
        }
        self.in_flight_pages -= pages;
        entry.pages -= pages;
        if entry.pages == 0 {
            self.in_flight.swap_remove(index);
            self.no_longer_busy(group);
        }
        pages
    }

    fn no_longer_busy(&mut self, group: GroupId) {
        if let Some(slot) = self.find(group) {
            self.groups[slot.index()].flags &= !BUSY;
            self.withheld_groups -= u64::from(self.may_pick(slot));
        }
    }

    /// Pages that are in flight from the start: their destage was interrupted. `incomplete`: those
    /// of which only some sectors are held.
    pub fn put_in_flight(&mut self, group: GroupId, mask: &[u64], incomplete: Vec<u64>) {
        let pages: u64 = mask.iter().map(|word| u64::from(word.count_ones())).sum();
        self.in_flight_pages += pages;
        assert!(self.occupancy() <= self.capacity, "more was held than there is room for");
        self.in_flight.push(InFlight::new(group, pages, mask, incomplete));
        if let Some(slot) = self.find(group) {
            self.withheld_groups += u64::from(self.may_pick(slot));
            self.groups[slot.index()].flags |= BUSY;
        }
    }

    /// Pages that a group holds, those in flight included.
    pub fn pages_of(&self, group: GroupId) -> u64 {
        let flying = self.in_flight.iter().find(|f| f.id == group).map_or(0, |f| f.pages);
        flying + self.find(group).map_or(0, |slot| self.pages(slot))
    }

    /// Takes a group's pages back from its destage, whose copy is out of date: they are no
    /// longer in flight. `None` if the group is not in flight. The caller writes them again.
    pub fn recall(&mut self, group: GroupId) -> Option<Vec<u64>> {
        let index = self.in_flight.iter().position(|f| f.id == group)?;
        let entry = self.in_flight.swap_remove(index);
        self.in_flight_pages -= entry.pages;
        self.no_longer_busy(group);
        Some(entry.words().collect())
    }

    /// Pages of a range were written: they are complete, but for these of them.
    pub fn set_incomplete(&mut self, range: PageRange, incomplete: impl Iterator<Item = Page>) {
        self.incomplete.remove(range, self.pages_per_group);
        for page in incomplete {
            let group = self.group_of(page);
            let bit = page.0 - self.first_page(group).0;
            self.incomplete.insert(group, bit, self.pages_per_group);
        }
    }

    /// The pages of a group in flight of which only some sectors are held; none: no words.
    #[must_use]
    pub fn incomplete_in_flight(&self, group: GroupId) -> &[u64] {
        let flying = self.in_flight.iter().find(|f| f.id == group);
        flying.map_or(&[], |flying| &flying.incomplete)
    }

    /// Whether any sector of a page is held or in flight.
    #[must_use]
    pub fn holds_some_of(&self, page: Page) -> bool {
        let group = self.group_of(page);
        let bit = page.0 - self.first_page(group).0;
        self.find(group).is_some_and(|slot| self.holds(slot, bit))
            || self.in_flight.iter().any(|f| f.id == group && f.has(bit))
    }

    /// First and last page of the range that is neither held nor in flight with all its sectors;
    /// `None` if all are.
    #[must_use]
    pub fn missing_span(&self, first: Page, pages: u32) -> Option<(Page, Page)> {
        let mut span: Option<(Page, Page)> = None;
        self.for_each_segment(first, pages, |directory, group, bit, length| {
            let slot = directory.find(group);
            let flying = directory.in_flight.iter().find(|f| f.id == group);
            for b in bit..bit + length {
                let has_all = match slot.is_some_and(|slot| directory.holds(slot, b)) {
                    true => !directory.incomplete.has(group, b),
                    false => flying.is_some_and(|f| f.has_complete(b)),
                };
                if !has_all {
                    let page = directory.first_page(group).offset(b);
                    span = Some((span.map_or(page, |s| s.0), page));
                }
            }
        });
        span
    }

    /// Slots in use, in no particular order; for checks.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let free: alloc::collections::BTreeSet<u32> = self.free_slots.iter().copied().collect();
        (0..self.groups.len() as u32).filter(move |s| !free.contains(s)).map(Slot)
    }
}
