//! The bytes of the read cache: the engine decides which pages are in it and where their bytes
//! come from (docs/durability.md, "The read cache").

use crate::settings::PageMemory;
use crate::store::{PageMap, PageStore};
use destage_engine::readcache::coherent::ReadCacheState;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// The pages in the read cache.
pub(crate) struct ReadCache {
    store: PageStore,
    slots: PageMap<u32>,
    /// Pages that the engine put into the cache in this step, and whose bytes could not be had.
    lacking: Vec<u64>,
}

impl ReadCache {
    pub(crate) fn new(how: PageMemory, pages: u64) -> ReadCache {
        let pages = pages as usize;
        // The map takes all of its memory now, so that no request waits while it grows.
        let slots = HashMap::with_capacity_and_hasher(pages, BuildHasherDefault::default());
        ReadCache { store: PageStore::new(how, pages), slots, lacking: Vec::new() }
    }

    /// The bytes of a page, if it is here.
    pub(crate) fn get(&self, page: u64) -> Option<&[u8]> {
        self.slots.get(&page).map(|slot| self.store.bytes(*slot))
    }

    pub(crate) fn put(&mut self, page: u64, bytes: &[u8]) {
        let slot = match self.slots.get(&page) {
            Some(slot) => *slot,
            None => self.store.take(),
        };
        self.slots.insert(page, slot);
        self.lacking.retain(|lacking| *lacking != page);
        self.store.copy(slot, bytes);
        self.store.settle();
    }

    pub(crate) fn drop_page(&mut self, page: u64) {
        if let Some(slot) = self.slots.remove(&page) {
            self.store.give_back(slot);
        }
        self.lacking.retain(|lacking| *lacking != page);
    }

    /// The engine put this page into the cache, but its bytes cannot be had.
    pub(crate) fn put_nothing(&mut self, page: u64) {
        self.drop_page(page);
        self.lacking.push(page);
    }

    /// Whether the engine put this page into the cache in this step though it is not here.
    pub(crate) fn lacks(&self, page: u64) -> bool {
        self.lacking.contains(&page)
    }

    /// A page that the engine must take out again; until there is none.
    pub(crate) fn next_lacking(&mut self) -> Option<u64> {
        self.lacking.pop()
    }

    /// Bytes of memory taken: the pages, and the map that finds them.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let entry = size_of::<(u64, u32)>() + 1;
        (self.slots.capacity() * 8 / 7 * entry) as u64 + self.store.memory_bytes()
    }
}

/// The read cache as an operator sees it.
#[derive(Clone, Debug)]
pub struct ReadCacheStatus {
    /// Its policy, written out.
    pub policy: String,
    /// The engine's account of it.
    pub state: ReadCacheState,
    /// Bytes of memory that it takes: pages, the map that finds them, the policy's own.
    pub memory_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{CHUNK_PAGES, PAGE};
    use destage_engine::units::PAGE_BYTES;

    #[test]
    fn memory_is_taken_as_it_is_needed_and_never_more_than_the_size() {
        let pages = 3 * CHUNK_PAGES as u64 / 2;
        let mut cache = ReadCache::new(PageMemory::default(), pages);
        // Of the map, seven of eight places may be taken. Each is an entry and a byte that says so.
        let map = cache.slots.capacity() as u64 / 7 * 8 * 17;
        assert_eq!(cache.memory_bytes(), map);
        assert!(map < pages * 64, "{map}");
        for page in 0..pages {
            cache.put(page << 20, &[page as u8; PAGE]);
        }
        assert_eq!(cache.memory_bytes(), map + cache.store.memory_bytes());
        for page in 0..pages {
            assert_eq!(cache.get(page << 20), Some(&[page as u8; PAGE][..]));
        }
        for page in (0..pages).step_by(3) {
            cache.drop_page(page << 20);
            assert!(cache.get(page << 20).is_none());
            cache.put(page, &[1; PAGE]);
            cache.put(page, &[2; PAGE]);
            assert_eq!(cache.get(page), Some(&[2; PAGE][..]));
        }
        let most = pages * (PAGE_BYTES + 64);
        assert!(cache.memory_bytes() <= most, "{} of {most}", cache.memory_bytes());
    }

    #[test]
    fn what_lacks_its_bytes_is_reported_unless_they_come_later() {
        let mut cache = ReadCache::new(PageMemory::default(), 8);
        cache.put(1, &[1; PAGE]);
        (1..=2).for_each(|page| cache.put_nothing(page));
        assert!(cache.get(1).is_none() && cache.lacks(1));
        cache.put(1, &[2; PAGE]);
        assert!(!cache.lacks(1) && cache.lacks(2));
        assert_eq!((cache.next_lacking(), cache.next_lacking()), (Some(2), None));
    }
}
