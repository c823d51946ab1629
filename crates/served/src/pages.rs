//! The bytes of dirty pages: the current copy of each, and the copy that is being destaged.

use crate::settings::PageMemory;
use crate::store::{PAGE, PageMap, PageStore};
use destage_nvslog::record::ALL_SECTORS;
use std::cell::Cell;

const ZEROS: u32 = u32::MAX;
/// Bytes of a sector: a page has eight.
pub(crate) const SECTOR: usize = 512;

/// Where the bytes of a page are, and which write they are of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    slot: u32,
    /// Bit i: sector i is here. The bytes of others are zeros.
    pub(crate) sectors: u8,
    /// Version of the write.
    pub(crate) version: u64,
    /// Version of the first write of the page since it was clean, or since a destage began.
    oldest: u64,
}

impl Held {
    /// Whether all sectors are here.
    pub(crate) fn is_complete(&self) -> bool {
        self.sectors == ALL_SECTORS
    }
}

/// Copies some sectors of a page.
pub(crate) fn copy_sectors(from: &[u8], sectors: u8, into: &mut [u8]) {
    for sector in (0..8).filter(|sector| sectors >> sector & 1 == 1) {
        let bytes = sector * SECTOR..(sector + 1) * SECTOR;
        into[bytes.clone()].copy_from_slice(&from[bytes]);
    }
}

/// Dirty pages with their bytes.
pub(crate) struct DirtyPages {
    store: PageStore,
    current: PageMap<Held>,
    in_flight: PageMap<Held>,
    /// Version of the newest page that was put, and of the newest that may be looked at.
    put: u64,
    settled: Cell<u64>,
}

impl DirtyPages {
    /// No pages. Their bytes will be kept in this pages.
    pub(crate) fn new(how: PageMemory) -> DirtyPages {
        DirtyPages {
            store: PageStore::new(how, ZEROS as usize),
            current: PageMap::default(),
            in_flight: PageMap::default(),
            put: 0,
            settled: Cell::new(0),
        }
    }

    /// The newest copy of a page, if it is dirty.
    pub(crate) fn newest_copy(&self, page: u64) -> Option<Held> {
        self.current(page).or_else(|| self.in_flight(page))
    }

    /// The page's current copy.
    pub(crate) fn current(&self, page: u64) -> Option<Held> {
        self.current.get(&page).copied()
    }

    /// The page's copy that is being destaged.
    pub(crate) fn in_flight(&self, page: u64) -> Option<Held> {
        self.in_flight.get(&page).copied()
    }

    /// The bytes of the page's copy that is being destaged.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn destaged(&self, page: u64) -> &[u8] {
        self.destaged_sectors(page).0
    }

    /// The same, and which sectors of them count.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn destaged_sectors(&self, page: u64) -> (&[u8], u8) {
        let held = self.in_flight(page).expect("a page of the destage");
        (self.bytes(held), held.sectors)
    }

    /// The sectors that the copy of a page that is being destaged lacked are known now: all of its
    /// bytes.
    pub(crate) fn complete_destaged(&mut self, page: u64, bytes: &[u8]) {
        let held = self.in_flight(page).expect("a page of the destage");
        self.settle(held.version);
        self.store.copy(held.slot, bytes);
        self.store.settle();
        self.in_flight.insert(page, Held { sectors: ALL_SECTORS, ..held });
    }

    /// The bytes of a copy.
    pub(crate) fn bytes(&self, held: Held) -> &[u8] {
        if held.slot == ZEROS {
            return &[0; PAGE];
        }
        self.settle(held.version);
        self.store.bytes(held.slot)
    }

    /// Copies, current or in flight.
    pub(crate) fn copies(&self) -> usize {
        self.current.len() + self.in_flight.len()
    }

    /// Pages that the disks do not have as a write of this version or an older one left them: it
    /// may have been written over since.
    pub(crate) fn pages_through(&self, version: u64) -> impl Iterator<Item = u64> {
        let old = move |held: &Held| held.oldest <= version;
        let in_flight = self.in_flight.iter().filter(move |(_, held)| old(held));
        let current = self
            .current
            .iter()
            .filter(move |(page, held)| old(held) && !self.in_flight.get(*page).is_some_and(old));
        in_flight.chain(current).map(|(page, _)| *page)
    }

    /// Whether this page is one of them.
    pub(crate) fn is_through(&self, page: u64, version: u64) -> bool {
        let copies = [self.current.get(&page), self.in_flight.get(&page)];
        copies.into_iter().flatten().any(|held| held.oldest <= version)
    }

    /// Pages of a range with a current copy, in order.
    pub(crate) fn current_in(&self, pages: &core::ops::Range<u64>) -> Vec<u64> {
        if pages.is_empty() {
            return Vec::new();
        }
        if pages.end - pages.start < self.current.len() as u64 {
            return pages.clone().filter(|page| self.current.contains_key(page)).collect();
        }
        let mut found: Vec<u64> =
            self.current.keys().copied().filter(|page| pages.contains(page)).collect();
        found.sort_unstable();
        found
    }

    /// Pages of a range with a copy, current or in flight, in order.
    pub(crate) fn held_in(&self, pages: &core::ops::Range<u64>) -> Vec<u64> {
        let mut found = self.current_in(pages);
        found.extend(self.in_flight.keys().copied().filter(|page| pages.contains(page)));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Completes the copying of a version.
    fn settle(&self, version: u64) {
        if version > self.settled.get() {
            self.store.settle();
            self.settled.set(self.put);
        }
    }

    /// Puts the bytes of a page, of which some sectors count: they are its current copy.
    pub(crate) fn put(&mut self, page: u64, version: u64, bytes: &[u8], sectors: u8) {
        let oldest = self.oldest(page, version);
        let slot = match self.current.get(&page) {
            Some(held) if held.slot != ZEROS => {
                self.settle(held.version);
                held.slot
            }
            _ => self.store.take(),
        };
        self.current.insert(page, Held { slot, version, oldest, sectors });
        let grows = version > self.put;
        self.put = self.put.max(version);
        self.store.copy(slot, bytes);
        if !grows {
            // When a log is replayed. Versions would not show that it has to be settled.
            self.store.settle();
        }
    }

    /// Puts a page of zeros, which takes no pages.
    pub(crate) fn put_zeros(&mut self, page: u64, version: u64) {
        let oldest = self.oldest(page, version);
        self.drop_current(page);
        self.current.insert(page, Held { slot: ZEROS, version, oldest, sectors: ALL_SECTORS });
    }

    /// Version of the first of the writes that the current copy has, with this one.
    fn oldest(&self, page: u64, version: u64) -> u64 {
        self.current.get(&page).map_or(version, |held| held.oldest.min(version))
    }

    /// Forgets the current copy.
    pub(crate) fn drop_current(&mut self, page: u64) {
        if let Some(held) = self.current.remove(&page) {
            self.give_back(held);
        }
    }

    /// The current copy is being destaged from now on.
    ///
    /// # Panics
    /// If there is none, or another is being destaged.
    pub(crate) fn freeze(&mut self, page: u64) {
        let held = self.current.remove(&page).expect("a page that is destaged is held");
        let before = self.in_flight.insert(page, held);
        assert!(before.is_none(), "two destages of one page");
    }

    /// The copy that was being destaged is on the disks; its version.
    pub(crate) fn release(&mut self, page: u64) -> Option<u64> {
        let held = self.in_flight.remove(&page)?;
        self.give_back(held);
        Some(held.version)
    }

    fn give_back(&mut self, held: Held) {
        if held.slot != ZEROS {
            self.settle(held.version);
            self.store.give_back(held.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        /// Copies that are not settled.
        static OPEN: Cell<u32> = const { Cell::new(0) };
    }

    fn newest(pages: &DirtyPages, page: u64) -> Option<&[u8]> {
        pages.newest_copy(page).map(|held| pages.bytes(held))
    }

    #[test]
    fn a_page_in_part_is_completed_while_it_is_destaged() {
        let mut pages = DirtyPages::new(PageMemory::default());
        let mut bytes = [0; PAGE];
        bytes[SECTOR..2 * SECTOR].fill(3);
        pages.put(5, 1, &bytes, 2);
        assert!(!pages.current(5).unwrap().is_complete());
        pages.freeze(5);
        let mut merged = [9; PAGE];
        let (held, sectors) = pages.destaged_sectors(5);
        copy_sectors(held, sectors, &mut merged);
        pages.complete_destaged(5, &merged);
        assert!(pages.in_flight(5).unwrap().is_complete());
        assert_eq!([merged[0], merged[SECTOR], merged[2 * SECTOR]], [9, 3, 9]);
        assert_eq!(pages.destaged(5), merged);
    }

    /// Pages are settled before they are read or written again, and not each by itself.
    #[test]
    fn copies_are_settled_before_they_are_looked_at() {
        let how = PageMemory {
            copy: |to, from| {
                OPEN.set(OPEN.get() + 1);
                to.copy_from_slice(from);
            },
            settle: || OPEN.set(0),
            ..PageMemory::default()
        };
        let mut pages = DirtyPages::new(how);
        (1..=8)
            .for_each(|version| pages.put(version, version, &[version as u8; PAGE], ALL_SECTORS));
        assert_eq!(OPEN.get(), 8, "together");
        assert_eq!(newest(&pages, 3).map(|bytes| bytes[0]), Some(3));
        assert_eq!(OPEN.get(), 0, "read");
        assert_eq!(newest(&pages, 4).map(|bytes| bytes[0]), Some(4));
        pages.put(9, 9, &[9; PAGE], ALL_SECTORS);
        pages.put(9, 10, &[10; PAGE], ALL_SECTORS);
        assert_eq!(OPEN.get(), 1, "written over: settled between the two");
        pages.drop_current(9);
        assert_eq!(OPEN.get(), 0, "given back");
        pages.put(11, 12, &[11; PAGE], ALL_SECTORS);
        newest(&pages, 11);
        pages.put(12, 11, &[12; PAGE], ALL_SECTORS);
        assert_eq!(OPEN.get(), 0, "an older version: at once");
    }

    /// What was acknowledged is below a newer write until a destage has both.
    #[test]
    fn a_page_that_was_written_over_counts_as_its_oldest_write() {
        let mut pages = DirtyPages::new(PageMemory::default());
        pages.put(5, 1, &[1; PAGE], ALL_SECTORS);
        pages.put(6, 2, &[2; PAGE], ALL_SECTORS);
        assert_eq!(pages.pages_through(2).count(), 2);
        pages.put(5, 3, &[3; PAGE], ALL_SECTORS);
        pages.put_zeros(6, 4);
        assert_eq!(pages.pages_through(2).count(), 2, "both were written over");
        pages.freeze(5);
        pages.put(5, 5, &[5; PAGE], ALL_SECTORS);
        assert_eq!(pages.pages_through(2).count(), 2, "a destage has page 5");
        assert_eq!(pages.copies(), 3);
        assert_eq!(pages.release(5), Some(3), "the version that the destage had");
        assert_eq!(pages.pages_through(2).count(), 1, "a destage had it");
        pages.drop_current(6);
        pages.put(6, 6, &[6; PAGE], ALL_SECTORS);
        assert_eq!(pages.pages_through(2).count(), 0, "trimmed");
        assert_eq!(pages.pages_through(6).count(), 2);
    }

    #[test]
    fn copies_are_apart_and_space_is_reused() {
        let mut pages = DirtyPages::new(PageMemory::default());
        pages.put(7, 1, &[1; PAGE], ALL_SECTORS);
        pages.freeze(7);
        pages.put(7, 2, &[2; PAGE], ALL_SECTORS);
        assert_eq!(newest(&pages, 7).unwrap()[0], 2);
        assert_eq!(pages.destaged(7)[0], 1);
        pages.drop_current(7);
        assert_eq!(newest(&pages, 7).unwrap()[0], 1);
        pages.release(7);
        assert!(newest(&pages, 7).is_none());
        pages.put_zeros(8, 3);
        assert!(newest(&pages, 8).unwrap().iter().all(|b| *b == 0));
        for page in 0..1024 {
            pages.put(page, 4, &[page as u8; PAGE], ALL_SECTORS);
        }
        assert_eq!(pages.store.memory_bytes() >> 22, 1, "every slot came back");
        assert_eq!(newest(&pages, 200).unwrap()[PAGE - 1], 200);
    }
}
