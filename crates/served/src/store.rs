//! Memory for the bytes of pages, taken in chunks and used again.

use crate::settings::{Chunk, PageMemory};
use destage_engine::units::PAGE_BYTES;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a page, as an index.
pub(crate) const PAGE: usize = PAGE_BYTES as usize;
/// 4 MiB: two huge pages of the usual processors.
pub(crate) const CHUNK_PAGES: usize = 1024;

/// A hash for page numbers: one multiplication. Only the operator's own hosts choose the numbers.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

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
pub(crate) type PageMap<T> = HashMap<u64, T, BuildHasherDefault<PageHasher>>;

/// Slots of one page each. A slot belongs to whoever took it, until it is given back.
pub(crate) struct PageStore {
    how: PageMemory,
    /// Each but the last has `CHUNK_PAGES` pages.
    chunks: Vec<Chunk>,
    /// Pages that the chunks have room for.
    room: usize,
    most: usize,
    free: Vec<u32>,
}

impl PageStore {
    /// No memory yet; at most this many pages later.
    pub(crate) fn new(how: PageMemory, most: usize) -> PageStore {
        PageStore { how, chunks: Vec::new(), room: 0, most, free: Vec::new() }
    }

    /// A slot. What it holds is undefined until it is written.
    ///
    /// # Panics
    /// If all slots are taken.
    pub(crate) fn take(&mut self) -> u32 {
        if self.free.is_empty() {
            let more = CHUNK_PAGES.min(self.most - self.room);
            assert!(more > 0, "more pages than there is room for");
            self.chunks.push((self.how.take)(more * PAGE));
            self.free.extend((self.room as u32..(self.room + more) as u32).rev());
            self.room += more;
        }
        self.free.pop().expect("just made")
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    pub(crate) fn bytes(&self, slot: u32) -> &[u8] {
        let (chunk, at) = place(slot);
        &self.chunks[chunk][at..at + PAGE]
    }

    /// Copies a page into a slot. The bytes may be read after [`PageStore::settle`].
    pub(crate) fn copy(&mut self, slot: u32, bytes: &[u8]) {
        let (chunk, at) = place(slot);
        (self.how.copy)(&mut self.chunks[chunk][at..at + PAGE], bytes);
    }

    /// Completes the copies made so far.
    pub(crate) fn settle(&self) {
        (self.how.settle)();
    }

    /// Bytes of memory taken, with the list of free slots.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.room as u64 * PAGE_BYTES + self.free.capacity() as u64 * 4
    }
}

fn place(slot: u32) -> (usize, usize) {
    let slot = slot as usize;
    (slot / CHUNK_PAGES, slot % CHUNK_PAGES * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_as_it_is_needed_and_used_again() {
        let mut store = PageStore::new(PageMemory::default(), CHUNK_PAGES + 2);
        assert_eq!(store.memory_bytes(), 0);
        let slots: Vec<u32> = (0..CHUNK_PAGES).map(|_| store.take()).collect();
        assert_eq!(store.chunks.len(), 1);
        let list = 4 * store.free.capacity() as u64;
        assert!(list >= 4 * CHUNK_PAGES as u64);
        assert_eq!(store.memory_bytes(), (CHUNK_PAGES * PAGE) as u64 + list);
        slots.iter().for_each(|slot| store.copy(*slot, &[*slot as u8; PAGE]));
        assert!(slots.iter().all(|slot| store.bytes(*slot) == [*slot as u8; PAGE]));
        store.give_back(slots[7]);
        assert_eq!(store.take(), slots[7]);
        let last = [store.take(), store.take()];
        assert_eq!(store.chunks[1].len(), 2 * PAGE, "no more than there may be");
        assert!(last.iter().all(|slot| !slots.contains(slot)));
    }

    /// A map takes a bucket by the low bits. Numbers that are multiples of a large power of two
    /// would all meet there if the high bits of the product did not come down.
    #[test]
    fn the_high_bits_of_a_number_reach_the_low_bits_of_its_hash() {
        let hash = |numbers: &[u64]| {
            let mut hasher = PageHasher::default();
            numbers.iter().for_each(|number| hasher.write_u64(*number));
            hasher.finish()
        };
        assert_eq!(hash(&[1]), 0x9E37_79B9_E17D_05AC);
        assert_eq!(hash(&[1 << 40]), 0x4A7C_1500_4A7C_1500);
        assert_eq!(hash(&[1, 4]), 0x3238_B7D2_3AB6_611A);
    }
}
