//! The read cache in the controller: what is looked up, loaded and dropped, and when
//! (readcache/coherent.rs has what it is).

use super::Controller;
use crate::array::layout::Place;
use crate::array::plan::DiskRun;
use crate::counters::Counters;
use crate::event::{Action, Bytes};
use crate::readcache::ReadPolicyError;
use crate::readcache::coherent::{
    Careless, Clean, CleanConfig, CleanState, Heed, OnWrite, penalties,
};
use crate::request::{PageRange, RequestId};
use crate::units::Page;
use alloc::vec::Vec;

impl Controller {
    /// Gives the controller a read cache, or another one, which is empty, or none. The driver
    /// forgets what it kept. What is being read now is not cached: until there is a cache, nobody
    /// is told which of it was written meanwhile.
    ///
    /// # Errors
    /// No size for a cache, or a value out of range; nothing is changed then.
    pub fn set_read_cache(&mut self, config: Option<&CleanConfig>) -> Result<(), ReadPolicyError> {
        self.clean = match config {
            None => None,
            Some(config) => Some(Clean {
                cache: config.policy.build(config.pages)?,
                on_write: config.on_write,
                fault: None,
                failed: self.faults.failed.clone(),
                before: self.counters,
                careless: Careless::default(),
            }),
        };
        self.reads.iter_mut().for_each(|read| read.loads.clear());
        self.heed_faults();
        Ok(())
    }

    /// For tests of tests: the read cache has these faults.
    #[cfg(feature = "defects")]
    pub fn cache_carelessly(&mut self, careless: Careless) {
        if let Some(clean) = &mut self.clean {
            clean.careless = careless;
        }
    }

    /// The driver could not keep a page that it was told to: it is not cached. Said before the
    /// next event.
    pub fn not_kept(&mut self, page: Page) {
        if let Some(clean) = &mut self.clean {
            clean.cache.forget(page.0);
        }
    }

    /// Whether a read of the page would be answered from the read cache, if not from the NVS.
    #[must_use]
    pub fn is_cached(&self, page: Page) -> bool {
        self.clean.as_ref().is_some_and(|clean| clean.cache.holds(page.0))
    }

    /// What the read cache is at.
    #[must_use]
    pub fn read_cache(&self) -> Option<CleanState> {
        self.clean.as_ref().map(|clean| CleanState {
            held: clean.cache.held(),
            pages: clean.cache.blocks(),
            weight: clean.cache.weight(),
            weight_changes: clean.cache.weight_changes(),
            memory_bytes: clean.cache.memory_bytes(),
            before: clean.before,
        })
    }

    /// Counts the pages of a read that arrives, and tells the cache's policy of its hits.
    pub(crate) fn look_up(&mut self, range: PageRange) {
        let Some(clean) = &mut self.clean else { return };
        let counters: &mut Counters = &mut self.counters;
        for page in (range.first.0..range.end().0).map(Page) {
            counters.read_pages += 1;
            if self.cache.directory.missing_span(page, 1).is_none() {
                counters.read_pages_nvs += 1;
            } else if clean.cache.holds(page.0) {
                counters.read_pages_cached += 1;
                clean.cache.access(page.0);
            } else {
                counters.read_penalty += clean.fault.as_ref().map_or(1, |fault| fault.of(page.0));
            }
        }
    }

    /// First and last page of a range that neither the NVS nor the read cache has.
    pub(crate) fn missing_span(&self, first: Page, pages: u32) -> Option<(Page, Page)> {
        let span = self.cache.directory.missing_span(first, pages)?;
        let Some(clean) = &self.clean else { return Some(span) };
        let missing = |page: &u64| {
            !clean.cache.holds(*page) && self.cache.directory.missing_span(Page(*page), 1).is_some()
        };
        let first = (span.0.0..=span.1.0).find(missing)?;
        let last = (first..=span.1.0).rev().find(missing)?;
        Some((Page(first), Page(last)))
    }

    /// The pages of a span that a read of it will bring and that may be cached then.
    pub(crate) fn to_load(&self, from: Page, to: Page) -> Vec<u64> {
        let Some(clean) = &self.clean else { return Vec::new() };
        let missing = |page: &u64| {
            !clean.cache.holds(*page) && self.cache.directory.missing_span(Page(*page), 1).is_some()
        };
        (from.0..=to.0).filter(missing).collect()
    }

    /// The disk reads of these pages are complete.
    pub(crate) fn load(&mut self, pages: &[u64], id: RequestId, actions: &mut Vec<Action>) {
        let Some(clean) = &mut self.clean else { return };
        for page in pages {
            let in_nvs = self.cache.directory.missing_span(Page(*page), 1).is_none();
            if !in_nvs && !clean.cache.holds(*page) {
                clean.load(*page, Bytes::Read(id), actions);
            }
        }
    }

    /// Pages were written, or discarded: what is cached of them, or being read, is old.
    pub(crate) fn outdate(&mut self, range: PageRange, discarded: bool, actions: &mut Vec<Action>) {
        let Some(clean) = &mut self.clean else { return };
        let gone = range.first.0..range.end().0;
        if !(cfg!(feature = "defects") && clean.careless.loads_overtaken) {
            for read in &mut self.reads {
                read.loads.retain(|page| !gone.contains(page));
            }
        }
        if discarded || clean.on_write == OnWrite::Invalidate {
            for page in gone {
                if clean.cache.forget(page) {
                    actions.push(Action::Drop { page: Page(page) });
                }
            }
        }
    }

    /// Pages of a disk were written again with other bytes than they had: a copy of them may be
    /// what was wrong.
    pub(crate) fn outdate_run(&mut self, run: DiskRun, actions: &mut Vec<Action>) {
        if self
            .clean
            .as_ref()
            .is_none_or(|clean| cfg!(feature = "defects") && clean.careless.keeps_repaired)
        {
            return;
        }
        for page in run.first..run.first + u64::from(run.pages) {
            if let Some(page) = self.geometry.page_at(Place { disk: run.disk, page }) {
                self.outdate(PageRange::new(page, 1), true, actions);
            }
        }
    }

    /// Tells the read cache which disks are lost, and from where on.
    pub(crate) fn heed_faults(&mut self) {
        let Some(clean) = &mut self.clean else { return };
        if clean.failed != self.faults.failed {
            clean.failed = self.faults.failed.clone();
            clean.before = self.counters;
        }
        match penalties(&self.geometry, &self.faults) {
            Heed::Healthy => clean.fault = None,
            Heed::Faulty(fault) => clean.fault = Some(*fault),
            // Nothing to choose by.
            Heed::Beyond => return,
        }
        clean.cache.set_fault(clean.fault.clone());
    }
}
