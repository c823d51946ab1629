//! The bytes of the read cache: the engine says which pages are in it and where theirs come from
//! (docs/durability.md, "The read cache").

#[cfg(feature = "defects")]
use crate::defect::Defect;
use crate::memory::PAGE;
use crate::settings::{Chunk, PageMemory};
use crate::volume::{Part, Volume};
use destage_engine::event::Bytes;
use destage_engine::readcache::ReadPolicyError;
#[cfg(feature = "defects")]
use destage_engine::readcache::coherent::Careless;
use destage_engine::readcache::coherent::{ReadCacheChoice, ReadCacheState};
use destage_engine::request::RequestId;
use destage_engine::units::{PAGE_BYTES, Page};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// 4 MiB.
const CHUNK_PAGES: usize = 1024;

/// The pages held.
pub(crate) struct Clean {
    how: PageMemory,
    /// Most pages.
    pages: usize,
    /// Each but the last has `CHUNK_PAGES` pages.
    chunks: Vec<Chunk>,
    /// Pages that the chunks have room for.
    room: usize,
    free: Vec<u32>,
    slots: crate::memory::PageMap<u32>,
    /// Pages that the engine said to keep in this step, and whose bytes are not to be had.
    lacking: Vec<u64>,
}

impl Clean {
    fn new(how: PageMemory, pages: u64) -> Clean {
        let pages = pages as usize;
        // All at once, so that no request waits while it grows.
        let slots = HashMap::with_capacity_and_hasher(pages, BuildHasherDefault::default());
        let (chunks, free, lacking) = (Vec::new(), Vec::new(), Vec::new());
        Clean { how, pages, chunks, room: 0, free, slots, lacking }
    }

    /// The bytes of a page, if it is here.
    pub(crate) fn get(&self, page: u64) -> Option<&[u8]> {
        let slot = *self.slots.get(&page)? as usize;
        let at = slot % CHUNK_PAGES * PAGE;
        Some(&self.chunks[slot / CHUNK_PAGES][at..at + PAGE])
    }

    fn put(&mut self, page: u64, bytes: &[u8]) {
        let slot = match self.slots.get(&page) {
            Some(slot) => *slot,
            None => self.take_slot(),
        };
        self.slots.insert(page, slot);
        self.lacking.retain(|lacking| *lacking != page);
        let (chunk, at) = (slot as usize / CHUNK_PAGES, slot as usize % CHUNK_PAGES * PAGE);
        (self.how.copy)(&mut self.chunks[chunk][at..at + PAGE], bytes);
        (self.how.settle)();
    }

    fn take_slot(&mut self) -> u32 {
        if self.free.is_empty() {
            let more = CHUNK_PAGES.min(self.pages - self.room);
            assert!(more > 0, "the engine keeps more pages than there is room for");
            self.chunks.push((self.how.take)(more * PAGE));
            self.free.extend((self.room as u32..(self.room + more) as u32).rev());
            self.room += more;
        }
        self.free.pop().expect("just made")
    }

    fn drop_page(&mut self, page: u64) {
        if let Some(slot) = self.slots.remove(&page) {
            self.free.push(slot);
        }
        self.lacking.retain(|lacking| *lacking != page);
    }

    /// Whether the engine takes a page for cached in this step that is not.
    pub(crate) fn lacks(&self, page: u64) -> bool {
        self.lacking.contains(&page)
    }

    /// Bytes of memory taken: pages, and what finds them.
    fn memory_bytes(&self) -> u64 {
        let entry = size_of::<(u64, u32)>() + 1;
        let finding = self.slots.capacity() * 8 / 7 * entry + self.free.capacity() * 4;
        self.room as u64 * PAGE_BYTES + finding as u64
    }
}

/// The read cache as an operator sees it.
#[derive(Clone, Debug)]
pub struct ReadCacheStatus {
    /// Its policy, written out.
    pub policy: String,
    /// What the engine says.
    pub state: ReadCacheState,
    /// Bytes of memory that it takes: pages, what finds them, what the policy knows.
    pub memory_bytes: u64,
}

impl Volume {
    /// Goes on with this read cache, which is empty, or with none.
    ///
    /// # Errors
    /// No size for a cache; nothing is changed then.
    pub fn set_read_cache(
        &mut self,
        config: Option<ReadCacheChoice>,
    ) -> Result<(), ReadPolicyError> {
        self.controller.set_read_cache(config.as_ref())?;
        #[cfg(feature = "defects")]
        self.controller.cache_carelessly(Careless {
            loads_overtaken: self.log.defect.is(Defect::CachesOvertakenReads),
            keeps_repaired: self.log.defect.is(Defect::CachesWhatWasRepaired),
        });
        let pages = config.as_ref().map(|config| config.pages);
        self.clean = pages.map(|pages| Clean::new(self.settings.pages, pages));
        self.settings.read_cache = config;
        Ok(())
    }

    /// The read cache, if there is one.
    #[must_use]
    pub fn read_cache(&self) -> Option<ReadCacheStatus> {
        let (state, clean) = (self.controller.read_cache()?, self.clean.as_ref()?);
        let memory_bytes = clean.memory_bytes() + state.memory_bytes as u64;
        let policy = self.settings.read_cache.as_ref()?.policy.describe();
        Some(ReadCacheStatus { policy, state, memory_bytes })
    }

    /// The engine has put a page into the read cache, or it has newer bytes.
    pub(crate) fn keep_clean(&mut self, page: Page, bytes: Bytes) {
        let Some(clean) = &mut self.clean else { return };
        match bytes {
            Bytes::Destage(_) => {
                let held = self.memory.flying(page.0).expect("a page of the destage");
                clean.put(page.0, self.memory.bytes(held));
            }
            Bytes::Read(id) => self.keep_read(page, id),
        }
    }

    /// What was read of a page for this request. Never what the request took from memory: it may
    /// have waited since.
    fn keep_read(&mut self, page: Page, id: RequestId) {
        let (Some(clean), Part::Read(read)) = (&mut self.clean, self.parts.get_mut(id.0)) else {
            return;
        };
        let geometry = self.controller.geometry();
        let pieces = read.index().and_then(|index| self.disk_reads.get(&u64::from(index)));
        let pieces = pieces.map(|read| &read.pieces);
        if let Some(bytes) = pieces.and_then(|pieces| pieces.as_it_lies(geometry, page)) {
            clean.put(page.0, bytes);
        } else if let Some(bytes) = pieces.and_then(|pieces| pieces.of_volume(geometry, page)) {
            clean.put(page.0, &bytes);
            // Computed once for both.
            read.fill(page.0, &bytes);
        } else {
            clean.drop_page(page.0);
            clean.lacking.push(page.0);
        }
    }

    /// A page is in the read cache no longer.
    pub(crate) fn drop_clean(&mut self, page: Page) {
        if let Some(clean) = &mut self.clean {
            clean.drop_page(page.0);
        }
    }

    /// Tells the engine what could not be kept of a step.
    pub(crate) fn tell_lacking(&mut self) {
        let Some(clean) = &mut self.clean else { return };
        while let Some(page) = clean.lacking.pop() {
            self.controller.not_kept(Page(page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_as_it_is_needed_and_never_more_than_the_size() {
        let pages = 3 * CHUNK_PAGES as u64 / 2;
        let mut clean = Clean::new(PageMemory::default(), pages);
        let bare = clean.memory_bytes();
        assert!(bare < pages * 64 && clean.chunks.is_empty());
        for page in 0..pages {
            clean.put(page << 20, &[page as u8; PAGE]);
        }
        assert_eq!(clean.chunks.iter().map(|chunk| chunk.len()).sum::<usize>() as u64, pages << 12);
        for page in 0..pages {
            assert_eq!(clean.get(page << 20), Some(&[page as u8; PAGE][..]));
        }
        for page in (0..pages).step_by(3) {
            clean.drop_page(page << 20);
            assert!(clean.get(page << 20).is_none());
            clean.put(page, &[1; PAGE]);
            clean.put(page, &[2; PAGE]);
            assert_eq!(clean.get(page), Some(&[2; PAGE][..]));
        }
        let most = pages * (PAGE_BYTES + 64);
        assert!(clean.memory_bytes() <= most, "{} of {most}", clean.memory_bytes());
    }
}
