//! The pages' bytes in memory: what the log holds, current and in flight.

use crate::settings::{Chunk, PageMemory};
use destage_engine::units::PAGE_BYTES;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a page, as an index.
pub const PAGE: usize = PAGE_BYTES as usize;
/// 4 MiB: two huge pages of the usual processors.
const CHUNK_PAGES: usize = 1024;
const ZEROS: u32 = u32::MAX;

/// Where a page's bytes are, and which write they are of.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    slot: u32,
    /// Version of the write.
    pub version: u64,
}

/// A hash for page numbers: one multiplication. Page numbers are the operator's own.
#[derive(Default)]
pub struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }
}

/// A map by page number.
pub type PageMap<T> = HashMap<u64, T, BuildHasherDefault<PageHasher>>;

/// Pages with their bytes.
#[derive(Default)]
pub struct Memory {
    how: PageMemory,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    current: PageMap<Held>,
    flying: PageMap<Held>,
    /// Version of the last page that was put, and the last that may be looked at.
    put: u64,
    settled: Cell<u64>,
}

impl Memory {
    /// No pages; those to come are kept so.
    pub fn new(how: PageMemory) -> Memory {
        Memory { how, ..Memory::default() }
    }

    /// The newest bytes of a page, if it is here.
    pub fn newest(&self, page: u64) -> Option<&[u8]> {
        self.newest_copy(page).map(|held| self.bytes(held))
    }

    /// The newest copy of a page, if it is here.
    pub fn newest_copy(&self, page: u64) -> Option<Held> {
        self.current(page).or_else(|| self.flying(page))
    }

    /// The page's current copy.
    pub fn current(&self, page: u64) -> Option<Held> {
        self.current.get(&page).copied()
    }

    /// The page's copy that is being destaged.
    pub fn flying(&self, page: u64) -> Option<Held> {
        self.flying.get(&page).copied()
    }

    /// The bytes of a copy.
    pub fn bytes(&self, held: Held) -> &[u8] {
        if held.slot == ZEROS {
            return &[0; PAGE];
        }
        self.settle(held.version);
        let (chunk, at) = place(held.slot);
        &self.chunks[chunk][at..at + PAGE]
    }

    /// Pages with a current copy.
    pub fn pages(&self) -> usize {
        self.current.len()
    }

    /// Pages with a copy that is being destaged.
    pub fn pages_flying(&self) -> usize {
        self.flying.len()
    }

    /// Pages with a copy that is of this version or older, current or being destaged.
    pub fn pages_through(&self, version: u64) -> usize {
        let old = |held: &Held| held.version <= version;
        let flying = self.flying.iter().filter(|(_, held)| old(held));
        let current = self
            .current
            .iter()
            .filter(|(page, held)| old(held) && !self.flying.get(page).is_some_and(old));
        flying.count() + current.count()
    }

    /// Pages of a range with a current copy, in order.
    pub fn current_in(&self, pages: &core::ops::Range<u64>) -> Vec<u64> {
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

    /// Pages of a range with a copy, current or being destaged, in order.
    pub fn held_in(&self, pages: &core::ops::Range<u64>) -> Vec<u64> {
        let mut found = self.current_in(pages);
        found.extend(self.flying.keys().copied().filter(|page| pages.contains(page)));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Sees to it that the copy of a version is done.
    fn settle(&self, version: u64) {
        if version > self.settled.get() {
            (self.how.settle)();
            self.settled.set(self.put);
        }
    }

    /// Puts a whole page.
    pub fn put(&mut self, page: u64, version: u64, bytes: &[u8]) {
        let slot = match self.current.get(&page) {
            Some(held) if held.slot != ZEROS => {
                self.settle(held.version);
                held.slot
            }
            _ => self.take_slot(),
        };
        self.current.insert(page, Held { slot, version });
        let grows = version > self.put;
        self.put = self.put.max(version);
        let (chunk, at) = place(slot);
        (self.how.copy)(&mut self.chunks[chunk][at..at + PAGE], bytes);
        if !grows {
            // As a log is replayed: nothing else would tell that it is to be settled.
            (self.how.settle)();
        }
    }

    /// Puts a page of zeros, which takes no memory.
    pub fn put_zeros(&mut self, page: u64, version: u64) {
        self.drop_current(page);
        self.current.insert(page, Held { slot: ZEROS, version });
    }

    /// Forgets the current copy; whether there was one.
    pub fn drop_current(&mut self, page: u64) -> bool {
        let held = self.current.remove(&page);
        held.is_some_and(|held| {
            self.give_back(held);
            true
        })
    }

    /// The current copy is being destaged from now on.
    ///
    /// # Panics
    /// If there is none, or another is being destaged.
    pub fn freeze(&mut self, page: u64) {
        let held = self.current.remove(&page).expect("a page that is destaged is held");
        let before = self.flying.insert(page, held);
        assert!(before.is_none(), "two destages of one page");
    }

    /// The copy that was being destaged is on the disks; its version.
    pub fn release(&mut self, page: u64) -> Option<u64> {
        let held = self.flying.remove(&page)?;
        self.give_back(held);
        Some(held.version)
    }

    fn give_back(&mut self, held: Held) {
        if held.slot != ZEROS {
            self.settle(held.version);
            self.free.push(held.slot);
        }
    }

    fn take_slot(&mut self) -> u32 {
        if self.free.is_empty() {
            let first = (self.chunks.len() * CHUNK_PAGES) as u32;
            self.chunks.push((self.how.take)(CHUNK_PAGES * PAGE));
            self.free.extend((first..first + CHUNK_PAGES as u32).rev());
        }
        self.free.pop().expect("just made")
    }
}

fn place(slot: u32) -> (usize, usize) {
    let slot = slot as usize;
    (slot / CHUNK_PAGES, slot % CHUNK_PAGES * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        /// Copies that are not settled.
        static OPEN: Cell<u32> = const { Cell::new(0) };
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
        let mut memory = Memory::new(how);
        (1..=8).for_each(|version| memory.put(version, version, &[version as u8; PAGE]));
        assert_eq!(OPEN.get(), 8, "together");
        assert_eq!(memory.newest(3).map(|bytes| bytes[0]), Some(3));
        assert_eq!(OPEN.get(), 0, "read");
        assert_eq!(memory.newest(4).map(|bytes| bytes[0]), Some(4));
        memory.put(9, 9, &[9; PAGE]);
        memory.put(9, 10, &[10; PAGE]);
        assert_eq!(OPEN.get(), 1, "written over: settled between the two");
        memory.drop_current(9);
        assert_eq!(OPEN.get(), 0, "given back");
        memory.put(11, 12, &[11; PAGE]);
        memory.newest(11);
        memory.put(12, 11, &[12; PAGE]);
        assert_eq!(OPEN.get(), 0, "an older version: at once");
    }

    #[test]
    fn copies_are_apart_and_space_is_reused() {
        let mut memory = Memory::default();
        memory.put(7, 1, &[1; PAGE]);
        memory.freeze(7);
        memory.put(7, 2, &[2; PAGE]);
        assert_eq!(memory.newest(7).unwrap()[0], 2);
        assert_eq!(memory.bytes(memory.flying(7).unwrap())[0], 1);
        memory.drop_current(7);
        assert_eq!(memory.newest(7).unwrap()[0], 1);
        memory.release(7);
        assert!(memory.newest(7).is_none());
        memory.put_zeros(8, 3);
        assert!(memory.newest(8).unwrap().iter().all(|b| *b == 0));
        for page in 0..CHUNK_PAGES as u64 {
            memory.put(page, 4, &[page as u8; PAGE]);
        }
        assert_eq!(memory.chunks.len(), 1, "every slot came back");
        assert_eq!(memory.newest(200).unwrap()[PAGE - 1], 200);
    }
}
